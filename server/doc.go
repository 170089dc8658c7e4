// Package server is the event loop: it accepts connections, parses their input, runs the commands,
// makes their effects durable once per pass, and writes the replies. One goroutine, locked to its
// thread, does all of this, except for commands that may take long (tasks.go). A connection costs a
// small struct and no goroutine, even with TLS (tls.go), except during its handshake (greet.go).
//
// # The pass
//
//	wait for sockets        at most until the next timer; not at all while work is left
//	  │
//	take in                 readiness, accepted connections, messages of other goroutines
//	  │
//	serve each ready one    read, parse, run; bounded, the rest in the next pass
//	  │
//	commit once             inline while syncs are fast, else on the log's own goroutine
//	  │
//	write                   of each touched session the part whose LSNs are durable; bounded,
//	                        the rest in the next pass
//
// # Invariants
//
//   - Everything reached from the loop (sessions, clients, timers) belongs to its goroutine. Others
//     post a function to the mailbox and wake the loop.
//   - No byte leaves before the state that it shows is durable. A session's output records which
//     LSN must be durable from which byte on. The bytes leave in order.
//   - Sockets are watched edge-triggered, so a session remembers that its socket may be readable
//     until a read finds nothing more. A session that can go on is in the run queue. A session is
//     not in it while it waits for something, its client reads too little, or it has no input. The
//     event that ends this puts the session back.
//   - A session reads from its socket only when its reader has no complete command. So unparsed
//     input is one incomplete command and one read, however long the pipeline is; the rest stays
//     with the client.
//   - A session has one state (state.go), which says whether it runs commands, what it waits for,
//     or how it ends. While it waits for keys that are being loaded, for a task, or for the end of
//     CLIENT PAUSE, its reader is not touched. So its arguments stay valid. A session whose command
//     waits for a change of a key (blocked.go) may have no reader: its arguments are copies.
//   - The descriptor of a closed session is closed only at the end of the pass, when no event of
//     this pass can name it any more. Results that come late find the session by pointer and see
//     that it is closed. A session is never used twice.
//
// # Memory
//
// A connection has a reader only while a command is incomplete or waits, and an
// output buffer only while something is to be sent; both come from pools of the loop.
package server
