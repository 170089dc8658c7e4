// Package consensus is the beginning of replication (docs/replication.md): what members of a group send each other.
// No server uses it yet.
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
//	time     the sender's, Unix ms
//	stamp    of the lease: the time since the machine of the leader started, which an answer repeats
//
// # Connections
//
// A member has three connections to each other one (Channel), so that neither entries nor a snapshot delay a
// heartbeat. It sends on those that it has opened, and receives on those that others have. A connection begins with
// a handshake (Call, Answer), in which both sides prove that they know the secret of the cluster. That keeps out who does
// not know it; against somebody who can change what is under way only TLS helps. Without either, members talk
// on the loopback interface alone (MayBePlain).
package consensus
