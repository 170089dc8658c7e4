// Package consensus makes the members of a group agree on a sequence of entries. It runs one Raft
// group with the library go.etcd.io/raft/v3, and adds the parts that the library leaves to its
// user: connections, storage, time, and the lease that reads need. Package member makes a server
// part of the group (docs/operate/group.md).
//
// # Invariants
//
//   - A member must remember its votes, and which entries it has confirmed. It sends a vote or a
//     confirmation only after the sync that brings it to disk.
//   - An entry is committed when a majority has it on disk. From then on it is the same at all
//     members, for ever. A member's Machine, which applies entries, gets each once, in order, from
//     this member's disk.
//   - A leader learns the outcome of each proposal: it is committed, or it is no longer in the log.
//     A leader that was deposed may learn it late.
//   - At any time at most one member has the lease. No other member has committed anything since
//     that one began to lead.
//   - No I/O is done while the group's mutex is locked, except for reads of the log. A group has no
//     goroutine of its own: the goroutine that causes an event also does the work that follows from
//     it (ready.go).
//   - Memory is bounded: 32 MiB of entries that are proposed and not committed; for each follower,
//     8 MiB that it has not answered and 12 MiB that wait for its connection.
//
// Storage (Log), the network (Network), the state (Machine) and time are interfaces, so a test can
// replace all of them. The simulation (sim_test.go) runs a group in one goroutine. Its disks lose
// data that is not synced, its clocks run at different rates, and its network loses, delays,
// duplicates and reorders messages.
//
// # Frames
//
// All that members send each other are frames. Numbers are little-endian, checksums CRC-32C.
//
//	frame    length 4 │ crc 4 │ kind 1 │ group 8 │ body
//
//	length   of all of the frame, in bytes
//	crc      over all that follows it
//	kind     what the body is: see Kind
//	group    a process has one today; the number leaves room for more
//
// The body of a message of the library:
//
//	message  time 8 │ stamp 8 │ type 1 │ reject 1 │ ten varints │ context │ snapshot │ entries
//	entry    type 1 │ term, index: varints │ bytes behind their length
//
//	time     Unix ms, or 0: it is not known, or the message is of another type
//	         heartbeat               the leader's time
//	         vote, request for one   the group's time, as far as the sender knows it
//	         answer to a heartbeat   the sender's wall clock
//	stamp    a time for the lease (lease.go), in ms since the leader's computer started; 0: none
//	         heartbeat               when the leader asked the question that this one carries
//	         order to campaign       when the order was given
//	         request for a vote      the stamp of the order that caused it
//
// # Connections
//
// A member has three connections to each other member (Channel), so that neither entries nor a
// snapshot delay a heartbeat. It sends on the connections that it has opened, and receives on those
// that others have opened. A connection begins with a handshake (Call, Answer), in which both sides
// prove that they know the secret of the cluster. That keeps out everybody who does not know it.
// Against an attacker who can change data in transit only TLS helps, with certificates of both
// sides. Without a secret and without TLS, members talk on the loopback interface alone
// (MayBePlain).
//
// The side that has opened a connection sends an idle frame every 5 seconds, and the other side
// sends one in return. A connection that is silent for 15 seconds is closed. One that breaks is
// opened again after 20 ms; the delay is doubled with each attempt, up to 500 ms.
//
// A fourth kind of connection is a call (call.go): a request, and an answer that may be long, such
// as a snapshot. A server that is in no group yet makes calls, too, as a stranger. Like a member,
// it has to know the secret or to have a certificate.
//
// # Locks
//
//	Group.mu       the node and all that belongs to it; also locked while methods of Log (except Sync)
//	               and Network.Send are called
//	Transport.mu   the connections that others have opened
//	link.mu        what waits for one connection
//
// in this order; no lock is held while a Machine or a Receiver is called.
package consensus
