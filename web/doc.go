// Package web serves HTTP, for people and programs that watch a server: metrics, health, use of
// resources, version, Go's profiles. It is a door of its own beside the protocol's.
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
//   - A request never waits for what a command or a job has locked, and for the event loop no
//     longer than loopTime: what belongs to the loop is asked for by a message, and the last answer is used
//     when none comes (pulse.go).
//   - Nothing that a request does takes longer the more keys or clients there are. What has to be
//     counted one by one is counted in the background, at most a hundredth of the time.
//   - A page shows no more than its commands would reply to the same user. Health alone needs no
//     user, and shows no data.
//   - The dashboard's scripts make text of what the server replies, never HTML, and the page's
//     policy has the browser refuse anything else. All who have it open share one message a second,
//     which is made while anybody has; a page that reads slowly gets fewer of them, and nothing is
//     kept for it.
//   - No request from a page of another site is answered. None changes anything, but for those with
//     commands of the dashboard (run.go): they need a token, and run on a connection to the server
//     as any client's do.
//   - After Withdraw no request touches the store.
//
// The port answers before the data is loaded, and until the process ends, so that an operator
// can ask what it is doing: Listen, then Ready, Withdraw and Close.
package web
