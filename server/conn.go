package server

import (
	"unsafe"

	"keyp/commands"
)

// The methods that commands call on a connection (commands.Conn). Only the loop calls these.

// Secure reports whether the connection uses TLS.
func (s *session) Secure() bool { return s.tls != nil }

// QueryBuffer returns the size of the input that has not been run, or is being run, and the free
// room after it.
func (s *session) QueryBuffer() (used, free int) {
	if s.reader == nil {
		return 0, 0
	}
	used = s.reader.Buffered()
	free = max(0, s.room-used)
	if s == s.loop.current {
		used += s.reader.Length()
	}
	return used, free
}

// OutputBuffer returns the output that has not left, in bytes.
func (s *session) OutputBuffer() int { return s.out.pending() }

// Memory returns the connection's memory in bytes, without buffers that wait in shared pools.
func (s *session) Memory() int {
	n := int(unsafe.Sizeof(*s)) + len(s.client.Addr) + len(s.client.Name) + len(s.client.LibName) +
		len(s.client.LibVer) + s.out.memory() + s.loop.env.ClientMemory(&s.client)
	if s.reader != nil {
		n += s.reader.Memory()
	}
	if s.tls != nil {
		n += s.tls.memory()
	}
	if s.blocked != nil && s.reader == nil {
		n += commands.ArgsMemory(s.args)
	}
	return n + s.loop.keptBytes(s)
}

// Push sends a message that answers no command.
func (s *session) Push(lsn uint64, bytes []byte) {
	l := s.loop
	switch {
	case !s.hears():
	case s.state == forOwnTask:
		l.keep(s, message{lsn, bytes})
	case s == l.current:
		l.behind = append(l.behind, message{lsn, bytes})
	default:
		l.push(s, message{lsn, bytes})
	}
}

// Blocked reports whether a blocking command waits, or a command waits for the end of CLIENT PAUSE.
func (s *session) Blocked() bool { return s.blocked != nil || s.state == forPause }

// Unblock ends the wait of a blocking command. It returns false if none waits.
func (s *session) Unblock(withError bool) bool {
	if s.blocked == nil {
		return false
	}
	s.loop.endWait(s, withError)
	return true
}

// Kill closes the connection at once. If the caller runs on this connection, it is closed after its
// reply.
func (s *session) Kill() {
	if s == s.loop.current {
		s.client.Closing = true
		return
	}
	s.loop.close(s)
}
