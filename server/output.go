package server

import (
	"time"

	"keyp/resp"
)

// dependency records that the output from a position on shows the state of the log at an LSN. That
// output must not leave before the log is durable up to that LSN.
type dependency struct {
	from uint64 // position in the connection's output
	lsn  uint64
	pass uint64 // the pass that wrote it
}

// output is the data that a session has yet to send, in order:
//
//	base        base+sent                                               end
//	 │ sent bytes  │  may leave  │ after needs[0].lsn │ after needs[1].lsn │
//	                             └ needs[0].from      └ needs[1].from
//	 │ blocks[0]         │ blocks[1]      │ w.Buf                           │
//
// Waiting output is in blocks, which are full, and after them in w.Buf, to which replies are
// appended. So new output moves none of the waiting output.
//
// Positions count all bytes that the connection ever wrote, so moving the buffer
// changes none. The LSNs of dependencies rise strictly: a reply that needs less than one
// before it needs no entry, as it cannot leave earlier anyway.
type output struct {
	w        resp.Writer
	base     uint64
	sent     int
	blocks   [][]byte
	inside   int // bytes in blocks
	blockCap int // capacity of blocks
	needs    []dependency
	// holds: from held on, the output shows data of a leader, and may not leave before it is
	// certain that this server led. The newest such reply begins at newest. A majority is asked to
	// confirm the output before asked.
	holds               bool
	held, newest, asked uint64
	// timed are the replies that have not left, by the pass that wrote them.
	timed []unsentReplies
	// replied is where the newest reply ends; everything after it was pushed.
	replied uint64
}

// unsentReplies are replies of one pass: where the last one ends, since when their clients wait,
// and how many there are.
type unsentReplies struct {
	end           uint64
	since         time.Duration
	pass          uint64
	reads, writes uint64
}

// answered notes that a reply ends here, to a request that was read at an instant.
func (o *output) answered(pass uint64, since time.Duration, writes bool) {
	n := len(o.timed) - 1
	if n < 0 || o.timed[n].pass != pass {
		o.timed = append(o.timed, unsentReplies{since: since, pass: pass})
		n++
	}
	t := &o.timed[n]
	t.end = o.end()
	if writes {
		t.writes++
	} else {
		t.reads++
	}
}

// pending returns the number of bytes that have not left.
func (o *output) pending() int { return o.inside + len(o.w.Buf) - o.sent }

// room returns how long w.Buf may get until most bytes wait. If most is 0, it returns 0: no bound.
func (o *output) room(most int) int {
	if most == 0 {
		return 0
	}
	return max(1, most+o.sent-o.inside)
}

// tail returns the position of w.Buf.
func (o *output) tail() uint64 { return o.base + uint64(o.inside) }

// end returns the position after all that was written.
func (o *output) end() uint64 { return o.tail() + uint64(len(o.w.Buf)) }

// pushed returns the number of bytes that have not left and answer no command.
func (o *output) pushed() int { return int(o.end() - max(o.replied, o.base+uint64(o.sent))) }

// depend notes that the output from buffer offset `from` on depends on lsn. All dependencies of one
// pass are one entry, because one commit makes them all durable. This keeps the list short.
func (o *output) depend(from int, lsn, pass uint64) {
	if n := len(o.needs); n > 0 {
		last := &o.needs[n-1]
		if lsn <= last.lsn {
			return
		}
		if last.pass == pass {
			last.lsn = lsn
			return
		}
	}
	o.needs = append(o.needs, dependency{from: o.tail() + uint64(from), lsn: lsn, pass: pass})
}

// ready returns the bytes that may leave when the log is durable to an LSN, up to the end of the
// first block.
func (o *output) ready(durable uint64) []byte {
	done := 0
	for done < len(o.needs) && o.needs[done].lsn <= durable {
		done++
	}
	if done > 0 {
		o.needs = o.needs[:copy(o.needs, o.needs[done:])]
	}
	first := o.w.Buf
	if len(o.blocks) > 0 {
		first = o.blocks[0]
	}
	end := len(first)
	if o.holds {
		end = int(min(o.held-o.base, uint64(end)))
	}
	if len(o.needs) > 0 {
		end = int(min(o.needs[0].from-o.base, uint64(end)))
	}
	return first[o.sent:end]
}

// hold holds back the output from buffer offset `from` on. It reports whether nothing was held back
// before.
func (o *output) hold(from int) (first bool) {
	o.newest = o.tail() + uint64(from)
	if o.holds {
		return false
	}
	o.holds, o.held = true, o.newest
	return true
}

// confirm releases the output before asked.
func (o *output) confirm() {
	if o.holds = o.newest >= o.asked; o.holds {
		o.held = max(o.held, o.asked)
	}
}

// advance notes that n bytes have left, and returns a block to the pool when all of it has left.
func (o *output) advance(n int, pool *bufferPool) {
	o.sent += n
	if len(o.blocks) > 0 && o.sent == len(o.blocks[0]) {
		o.base += uint64(o.sent)
		o.inside -= o.sent
		o.blockCap -= cap(o.blocks[0])
		pool.put(o.blocks[0])
		o.blocks[0] = nil
		o.blocks, o.sent = o.blocks[1:], 0
		if len(o.blocks) == 0 {
			o.blocks = nil
		}
	}
	if o.pending() == 0 {
		o.drop(pool)
	}
}

// blockSize is the size in bytes from which on w.Buf becomes a block.
const blockSize = 64 << 10

// seal makes a block of w.Buf, which must not be empty.
func (o *output) seal() {
	o.blocks = append(o.blocks, o.w.Buf)
	o.inside += len(o.w.Buf)
	o.blockCap += cap(o.w.Buf)
	o.w.Buf = nil
}

// begin makes the buffer ready for more replies. Afterwards there is a buffer that is not a full
// block, and data that has left takes no more than half of it.
func (o *output) begin(pool *bufferPool) {
	switch {
	case o.w.Buf == nil:
		o.w.Buf = pool.get()
	case len(o.blocks) == 0 && o.sent > 0 && o.sent >= len(o.w.Buf)/2 &&
		len(o.w.Buf)-o.sent <= blockSize:
		rest := o.w.Buf[o.sent:]
		o.base += uint64(o.sent)
		o.sent = 0
		if cap(o.w.Buf) > pooledLargest && len(rest) <= pooledBuffer {
			o.w.Buf = append(pool.get(), rest...)
			return
		}
		o.w.Buf = o.w.Buf[:copy(o.w.Buf, rest)]
	case len(o.w.Buf) >= blockSize:
		o.seal()
		o.w.Buf = pool.get()
	}
}

// add appends a reply that was written elsewhere, and takes its buffer over when
// that saves copying something large. It returns the reply's place in the buffer.
func (o *output) add(reply []byte, pool *bufferPool) (mark int) {
	if len(reply) > pooledBuffer {
		if o.pending() == 0 {
			o.drop(pool)
		} else if len(o.w.Buf) > 0 {
			o.seal()
		} else {
			pool.put(o.w.Buf)
		}
		o.w.Buf = reply
		return 0
	}
	o.begin(pool)
	mark = len(o.w.Buf)
	o.w.Buf = append(o.w.Buf, reply...)
	return mark
}

// drop forgets all that has not left, and the buffer.
func (o *output) drop(pool *bufferPool) {
	o.base = o.end()
	for _, b := range o.blocks {
		pool.put(b)
	}
	pool.put(o.w.Buf)
	o.w.Buf, o.sent, o.blocks, o.inside, o.blockCap, o.holds = nil, 0, nil, 0, 0, false
	o.timed = o.timed[:0]
	if cap(o.timed) > 16 {
		o.timed = nil
	}
	o.needs = o.needs[:0]
	if cap(o.needs) > 16 {
		o.needs = nil
	}
}

// message is output that answers no command, and the LSN that it depends on.
type message struct {
	lsn   uint64
	bytes []byte
}

// push appends a message to a session's output. A session that is too slow gets no more, and is
// closed at the end of the pass. It is not closed now: the caller may be iterating over a list that
// closing changes.
func (l *loop) push(s *session, m message) {
	s.out.begin(&l.buffers)
	mark := s.out.w.Len()
	s.out.w.Buf = append(s.out.w.Buf, m.bytes...)
	if m.lsn > l.durable {
		l.owed = max(l.owed, m.lsn)
		s.out.depend(mark, m.lsn, l.pass)
	}
	l.touch(s)
	if l.pushedTooMuch(s) {
		l.cutOutput(s)
		return
	}
	if l.current == nil && s.out.pending() >= earlyOutput {
		l.weigh(s)
	}
}

// pushMost bounds the messages in bytes that wait for a client to which no hard limit applies. The
// replies that wait for a client need no such bound, because its further commands wait, too. But
// other clients cause the messages of MONITOR and CLIENT TRACKING, and nothing delays these.
const pushMost = 64 << 20

// pushBehind sends the messages that were pushed to s while its command ran, after the reply.
func (l *loop) pushBehind(s *session) {
	for _, m := range l.behind {
		if s.takes() {
			l.push(s, m)
		}
	}
	clear(l.behind)
	l.behind = l.behind[:0]
}

// kept are messages for a session that are sent after the reply to the command that a task runs for
// it. So a client that caches what it reads never hears of a change before it has read.
type kept struct {
	messages []message
	bytes    int
}

// keep keeps a message until after that reply. It counts as output of the client, for its limits
// and for the memory of all clients.
func (l *loop) keep(s *session, m message) {
	k := l.kept[s]
	if k == nil {
		k = &kept{}
		l.kept[s] = k
	}
	k.messages = append(k.messages, m)
	k.bytes += len(m.bytes)
	if l.pushedTooMuch(s) {
		l.cutOutput(s)
	} else if l.current == nil && k.bytes >= earlyOutput {
		l.weigh(s)
	}
}

// keptBytes returns the size of the kept messages of a session.
func (l *loop) keptBytes(s *session) int {
	if k := l.kept[s]; k != nil {
		return k.bytes
	}
	return 0
}

// owedTo returns how many bytes of output the loop has not sent to a session yet.
func (l *loop) owedTo(s *session) int { return s.out.pending() + l.keptBytes(s) }

// pushedTooMuch reports whether the output of a session has passed its limit, or pushMost.
func (l *loop) pushedTooMuch(s *session) bool {
	return l.overLimit(s) || l.outputLimit(s).hard == 0 && s.out.pushed()+
		l.keptBytes(s) > l.seams.pushMost
}

// pushKept sends the kept messages, after the reply.
func (l *loop) pushKept(s *session) {
	k := l.kept[s]
	if k == nil {
		return
	}
	delete(l.kept, s)
	for _, m := range k.messages {
		if s.takes() {
			l.push(s, m)
		}
	}
}

// replyMost returns how many bytes may wait for a client when a reply is written: a reply that
// would be cut is not made. Without a hard limit one reply may take a part of the memory.
func (l *loop) replyMost(s *session) int {
	most := int(l.env.MaxReply.Load())
	if hard := l.outputLimit(s).hard; hard > 0 {
		return min(hard, most)
	}
	return most
}

// overLimit reports whether a session's output has passed its hard limit.
func (l *loop) overLimit(s *session) bool {
	hard := l.outputLimit(s).hard
	return hard > 0 && l.owedTo(s) > hard
}

// guestOverLimit reports whether a client that has yet to authenticate reads too little.
func (l *loop) guestOverLimit(s *session) bool {
	return s.full && s.out.pending() > guestOutput && l.env.AuthRequired(&s.client)
}

// memory returns the memory of the output, in bytes.
func (o *output) memory() int {
	return o.blockCap + cap(o.w.Buf) + cap(o.blocks)*24 + cap(o.needs)*24 + cap(o.timed)*40
}
