package server

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// This file brings changes to disk and then sends replies. A reply waits until the data that it
// depends on is on disk.

const (
	// If a commit usually takes longer than slowSync, the loop goes on and does not wait for its
	// end.
	slowSync = 200 * time.Microsecond
	// If more than largeCommit bytes are to be synced, the loop does not wait either, however fast
	// the disk is.
	largeCommit = 1 << 20
	// lingerTime bounds the wait for a client to take its last reply.
	lingerTime = time.Second
)

// commit makes durable the records of this pass, and records of other goroutines whose effects this
// pass has shown. Slow syncs, for example while a checkpoint is being synced, continue while the
// loop runs. Then the Bell starts the pass that sends the waiting output. Records that no session
// waits for, such as those of a million expiring keys, are left to the goroutine that made them:
// reads must not wait for them.
func (l *loop) commit() {
	if l.fatal != nil {
		return
	}
	switch end := l.log.End(); {
	case l.owed <= max(l.requested, l.log.Durable()):
	case end-l.log.Durable() > largeCommit || l.log.SyncCost() > slowSync ||
		l.env.Store.DiskBusy() || l.log.Full():
		l.requested = end
		l.log.CommitAsync()
	default:
		l.requested = end
		if err := l.log.Commit(); err != nil {
			l.fail(err)
			return
		}
		l.box.quiet() // the Bell rang for what is looked at below and in write
	}
	if err := l.env.Store.Err(); err != nil {
		l.fail(err)
	}
	written := l.log.End()
	d := l.env.Store.ThrottleOf(written - l.paced)
	if l.paced = written; d > 0 {
		time.Sleep(d) // checkpoints have to keep up with the writers
	}
}

// fail ends the server at the end of the pass; nothing more is sent.
func (l *loop) fail(err error) {
	if l.fatal == nil {
		l.fatal = err
	}
}

// write sends what may leave: of the sessions that have new output, and of those whose
// output has become durable.
func (l *loop) write() {
	if l.fatal != nil {
		return
	}
	if durable := l.log.Durable(); durable > l.durable {
		l.durable = durable
		kept := l.waiting[:0]
		for _, s := range l.waiting {
			if !s.takes() || s.out.needs[0].lsn <= durable {
				s.inWaiting = false
				l.touch(s)
				continue
			}
			kept = append(kept, s)
		}
		clear(l.waiting[len(kept):])
		l.waiting = kept
	}
	l.prove()
	if len(l.touched) > 0 {
		l.sending = l.o.Clock.Mono()
	}
	for _, s := range l.touched {
		s.touched = false
		if s.takes() {
			l.isolate(s, l.flush)
		}
		if s.takes() {
			l.memory.count(s)
		}
	}
	clear(l.touched)
	l.touched = l.touched[:0]
	for _, s := range l.unsent {
		l.touch(s)
		l.busy = true
	}
	clear(l.unsent)
	l.unsent = l.unsent[:0]
}

// flush sends what a session may send and the socket takes, and ends the session when
// it is done.
func (l *loop) flush(s *session) {
	if ready := s.out.ready(l.durable); (len(ready) > 0 || s.tls != nil && s.tls.unsent()) &&
		!s.full {
		for left := sendTurn; ; {
			left -= len(ready)
			if !l.send(s, ready) {
				return
			}
			ready = s.out.ready(l.durable)
			if left <= 0 || s.full || len(ready) == 0 {
				break
			}
		}
		if !s.full && len(ready) > 0 {
			l.unsent = append(l.unsent, s) // goes on in the next pass, when others had theirs
		}
	} else if s.out.pending() == 0 {
		s.out.drop(&l.buffers) // replies that the client did not want
	}
	if l.guestOverLimit(s) {
		l.cutOutput(s)
		return
	}
	if len(s.out.needs) > 0 && !s.inWaiting {
		s.inWaiting = true
		l.waiting = append(l.waiting, s)
	}
	if s.stalled && s.out.pending() <= outputPause/2 {
		s.stalled = false
		if s.canGoOn() {
			l.enqueue(s)
		}
	}
	if s.out.pending() == 0 && (s.state == closing || s.eof && !s.waiting()) {
		l.sayGoodbye(s)
	}
}

// send writes the part of a session's output that may leave. It returns false if the session had to
// be closed.
func (l *loop) send(s *session, ready []byte) bool {
	n, full, err := s.transmit(ready, &l.buffers)
	if err != nil {
		l.close(s) // the client is gone, or cannot be reached
		return false
	}
	s.client.NetOut += uint64(n)
	s.client.LastActive = l.mono
	l.env.Stats.NetOut.Add(int64(n))
	if !l.noteRoom(s, full) {
		return false
	}
	l.timeReplies(s, n)
	s.out.advance(n, &l.buffers)
	return true
}

// timeReplies counts how long the clients have waited for the replies that end within the next n
// bytes, which leave now.
func (l *loop) timeReplies(s *session, n int) {
	o := &s.out
	left, done := o.base+uint64(o.sent+n), 0
	for done < len(o.timed) && o.timed[done].end <= left {
		t := &o.timed[done]
		done++
		waited := (l.sending - t.since).Microseconds()
		if t.reads > 0 {
			l.env.Replies.Reads.ObserveMany(waited, t.reads)
		}
		if t.writes > 0 {
			l.env.Replies.Writes.ObserveMany(waited, t.writes)
		}
	}
	if done > 0 {
		o.timed = o.timed[:copy(o.timed, o.timed[done:])]
	}
}

// sendEarly sends long replies during a session's turn, while they are in the processor's cache.
// All sessions can then use one buffer, instead of a long one each.
func (l *loop) sendEarly(s *session) {
	if s.full || !s.takes() {
		return
	}
	if ready := s.out.ready(l.durable); len(ready) >= earlyOutput {
		l.sending = l.mono
		l.send(s, ready)
		l.mono = l.o.Clock.Mono() // no command took that time
	}
}

// noteRoom notes whether the socket is full, and lets the poller report when it has room again.
// With TLS the socket may have room although its turn was over, so the poller is asked each time.
// It returns false if the session had to be closed.
func (l *loop) noteRoom(s *session, full bool) bool {
	if full == s.roomAsked && (!full || s.tls == nil) {
		s.full = full
		return true
	}
	if err := l.poll.reportRoom(s.fd, full); err != nil {
		l.o.Log.Error("asking for room to write to a connection", "client", s.client.ID,
			"error", err)
		l.close(s)
		return false
	}
	s.full, s.roomAsked = full, full
	return true
}

// sayGoodbye ends a session whose output was sent. Closing a socket with unread input resets the
// connection, which can lose the last replies for the client. So such a session ends its own side
// and waits a little for the client to do the same.
func (l *loop) sayGoodbye(s *session) {
	if s.eof {
		l.close(s)
		return
	}
	if s.tls != nil {
		s.tls.end(&l.buffers)
	}
	l.linger(s)
}

// linger ends the server's side of a connection.
func (l *loop) linger(s *session) {
	if err := unix.Shutdown(s.fd, unix.SHUT_WR); err != nil {
		l.close(s)
		return
	}
	s.linger()
	l.leave(s)
	l.env.Gone(&s.client)
	s.readable, s.reader = true, nil
	if s.idle == nil {
		s.idle = &timer{}
	}
	s.idle.run = func() { l.close(s) }
	l.timers.set(s.idle, l.mono+lingerTime)
	l.enqueue(s)
}

// discard reads what a lingering session's client still sends, until it ends.
func (l *loop) discard(s *session) {
	var waste [4 << 10]byte
	for range turnBytes / len(waste) {
		n, err := readSocket(s.fd, waste[:])
		if errors.Is(err, unix.EAGAIN) {
			s.readable = false
			return
		}
		if err != nil || n == 0 {
			l.close(s)
			return
		}
	}
	l.enqueue(s)
}
