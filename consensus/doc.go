// Package consensus has members agree on a row of entries: one Raft group, with the library
// go.etcd.io/raft/v3 and what that leaves to others: connections, storage, time, and the lease that
// reads need. Package member makes a server part of it (docs/operate/group.md).
//
// # Invariants
//
//   - What a member says to others that it must not forget (a vote, entries) leaves after the sync
//     that has it on disk.
//   - An entry is committed when a majority has it on disk, and is then the same at all members,
//     for ever. A machine is given each entry once, in order, from this member's disk.
//   - A leader learns what became of what it has proposed: it is committed, or not in the log any
//     more. Between being deposed and that nothing is known of it.
//   - At one time at most one member has the lease, and nobody else has committed anything since it
//     began to lead.
//   - No I/O is done while the group's mutex is locked, but for reads of the log. No goroutine
//     belongs to a group: whoever brings something about does what follows from it (ready.go).
//   - Memory is bounded: 32 MiB that are proposed and not committed, 8 MiB that one follower has
//     not answered, 12 MiB that wait for its connection.
//
// Storage (Log), the network (Network), the state (Machine) and time are interfaces, so a test owns
// all of them: the simulation runs a group in one goroutine, with disks that lose what is not
// synced, clocks of different rates, and a network that loses, delays, doubles and reorders
// (sim_test.go).
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
//	time     Unix ms: of heartbeats the leader's time, of votes and questions for them the group's as the sender has it (0: it knows
//	         none), of answers to heartbeats the sender's wall clock; 0 of others
//	stamp    of the lease (lease.go), in ms since the machine of the leader started: of a heartbeat the newest question that
//	         its answer confirms, of an order to campaign the moment it was given, of the votes that follow from it the order's
//
// # Connections
//
// A member has three connections to each other one (Channel), so that neither entries nor a
// snapshot delay a heartbeat. It sends on those that it has opened, and receives on those that
// others have. A connection begins with a handshake (Call, Answer), in which both sides prove that
// they know the secret of the cluster. That keeps out who does not know it; against somebody who
// can change what is under way only TLS helps, with certificates of both sides. Without either,
// members talk on the loopback interface alone (MayBePlain).
//
// Who has opened a connection sends an idle frame every 5 seconds, and the other side one in
// return; a connection that is silent for 15 seconds is given up. One that breaks is opened again
// after 20 ms, doubled up to 500 ms.
//
// A fourth kind of connection is a call (call.go): a request, and an answer that may be long, such
// as a snapshot. A server that is in no group yet makes calls, too, as a stranger: it has to know
// the secret, or to have a certificate, like a member.
//
// # Locks
//
//	Group.mu       the node and all that belongs to it; locked during Log's methods but Sync, and Network.Send
//	Transport.mu   the connections that others have opened
//	link.mu        what waits for one connection
//
// in this order; no lock is held while a Machine or a Receiver is called.
package consensus
