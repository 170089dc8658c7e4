package server

import "fmt"

// state is what a session does at present. It has one at a time, which the methods in this file
// change and nothing else does:
//
//	                        wait                            release
//	         ┌────────────────────────────► forPause, forTask, ────► released
//	         │                              forGroup                    │
//	         ├────────────────────────────► forUnblock, forLoad,        │
//	 accept  │                              forOwnTask, forRoom,         │
//	────► serving                           forHandshake                │
//	       │ ▲                                 │                        │
//	       │ └────────────── wake ─────────────┴────────────────────────┘
//	       │
//	       ├─ halt ─► halted                       the server stops: messages still leave
//	       │             │
//	       └─── finish ──┴─► closing ─ linger ─► lingering     the output leaves, then our end closes
//
//	from any of these        condemn ─► condemned              over a limit: closed with the pass
//	from any at all          end ─────► closed
//
// While a command waits, its session is in one of the states whose names begin with "for", until
// the command has a reply or runs again. In the state released the wait is over, and the command
// runs in the session's next turn. A session that waits may also finish, because its client has
// gone. A session that lingers has closed its sending side, and waits until the client closes, too.
// A session whose handshake has failed lingers. A condemned session uses more than a limit allows,
// and is closed at the end of the loop's pass.
//
// Facts that are independent of the state have fields of their own: the readiness of the socket
// (readable, eof, full …), and the lists of the loop that contain the session. Another such field
// is stalled: so much output waits for the client that no further command runs.
type state uint8

const (
	serving      state = iota // runs commands
	forLoad                   // waits for its command's keys, which are being loaded
	forOwnTask                // for the task that runs its command
	forPause                  // for the end of CLIENT PAUSE
	forUnblock                // for a change of a key: its command is a blocking one
	forTask                   // for the end of another session's task
	forGroup                  // until it is decided who leads the group
	forRoom                   // for a larger buffer for its input: see grow
	forHandshake              // for the end of its TLS handshake
	// What its command waited for has ended: that runs in the session's turn.
	released
	halted    // the server stops: runs no more commands
	closing   // runs nothing more, and ends when its output has left
	lingering // only waits for the client to see the end
	condemned // closed at the end of the pass, by which nothing more is sent
	closed    // the loop has forgotten it
	states
)

// stateSet is a bit for each state.
type stateSet uint16

func setOf(list ...state) (set stateSet) {
	for _, st := range list {
		set |= 1 << st
	}
	return set
}

func (set stateSet) has(st state) bool { return set>>st&1 != 0 }

// waits are the states of a session whose command has no reply yet.
var waits = setOf(forLoad, forOwnTask, forPause, forUnblock, forTask, forGroup, forRoom,
	forHandshake, released)

// follows lists, for each state, the states that may precede it.
var follows = [states]stateSet{
	serving:      waits,
	forLoad:      setOf(serving),
	forOwnTask:   setOf(serving),
	forPause:     setOf(serving),
	forUnblock:   setOf(serving),
	forTask:      setOf(serving),
	forGroup:     setOf(serving),
	forRoom:      setOf(serving),
	forHandshake: setOf(serving),
	released:     setOf(forPause, forTask, forGroup),
	halted:       setOf(serving),
	closing:      setOf(serving, halted) | waits,
	lingering:    setOf(closing, forHandshake),
	condemned:    setOf(serving, halted, closing, lingering) | waits,
	closed:       setOf(serving, halted, closing, lingering, condemned) | waits,
}

// to changes the state. A state that may not follow is a defect of the server, and panics.
func (s *session) to(next state) {
	if !follows[next].has(s.state) {
		panic(fmt.Sprintf("server: a session goes from state %d to %d", s.state, next))
	}
	s.state = next
}

// wait begins a wait for why, one of the states of for…, in which the session runs nothing.
func (s *session) wait(why state) { s.to(why) }

// release ends a wait; the command runs again in its session's turn.
func (s *session) release() { s.to(released) }

// wake ends a wait: the command runs again now, or has its reply.
func (s *session) wake() { s.to(serving) }

// halt keeps a session from running further commands, because the server stops.
func (s *session) halt() { s.to(halted) }

// finish ends a session after its output was sent, and CLIENT LIST shows that.
func (s *session) finish() {
	s.to(closing)
	s.client.Closing = true
}

// linger makes a session wait only for its client to end the connection.
func (s *session) linger() { s.to(lingering) }

// condemn marks a session to be closed at the end of the pass. The caller may be iterating over a
// list that closing changes.
func (s *session) condemn() { s.to(condemned) }

// end closes a session; no state follows.
func (s *session) end() { s.to(closed) }

// waiting reports whether a command has no reply yet, so that its arguments have to stay as they
// are.
func (s *session) waiting() bool { return waits.has(s.state) }

// takes reports whether there is a use in sending more.
func (s *session) takes() bool { return s.state < condemned }

// hears reports whether messages that answer no command still reach the client.
func (s *session) hears() bool { return s.state < closing && !s.client.Closing }

// mayRun reports whether commands may be run.
func (s *session) mayRun() bool { return s.state == serving && !s.stalled }

// canGoOn reports whether a turn would find something to do.
func (s *session) canGoOn() bool {
	if s.state == lingering {
		return s.readable
	}
	return s.mayRun() && (s.readable && !s.eof || s.reader != nil && s.reader.Buffered() > 0)
}
