// Package web serves HTTP, for people and programs that monitor a server: metrics, health, use of
// resources, version, Go's profiles. It has its own listener, separate from that of the Redis
// protocol.
//
//	request
//	  │  conns.go     a bounded number of connections; one that sends nothing makes room
//	  ▼
//	guard             which requests are answered at all: peer, host, origin, method; headers of every reply
//	  │  door.go
//	  ▼
//	page.rights       a user of the ACL, and the commands that the page stands for
//	  │  door.go, commands.Visitor
//	  ▼
//	page.show         metrics.go, pulse.go, usage.go, profiles.go; of the dashboard: dashboard.go, live.go, span.go, events.go, run.go, page/
//
// # Invariants
//
//   - A request never waits for a lock of a command or a task, and waits no longer than loopTime
//     for the event loop. It gets data of the loop by a posted function, and uses the last data
//     when no answer comes (pulse.go).
//   - The time of a request does not depend on the number of keys or clients. Counts that must
//     visit each key run in the background, and each takes at most a hundredth of the time.
//   - A page shows no more than its commands would reply to the same user. Health alone needs no
//     user, and shows no data.
//   - The dashboard's scripts show the server's replies as text, never as HTML, and the page's
//     policy makes the browser refuse anything else. All open pages share one message a second,
//     which is made while any page is open. A page that reads slowly gets fewer messages, and
//     nothing is buffered for it.
//   - No request from a page of another site is answered. No request changes data, except for those
//     with commands of the dashboard (run.go). These need a token, and run on a connection to the
//     server like the commands of any client.
//   - After Withdraw no request touches the store.
//
// The port answers before the data is loaded, and until the process ends, so that an operator can
// ask what the process is doing. The calls are, in this order: Listen, Ready, Withdraw and Close.
package web
