package server

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"keyp/commands"
	"keyp/resp"
	"keyp/storage"
)

// This file serves a client's connection, called a session. It reads the input, runs the commands,
// and lets a command wait if necessary.

const (
	// readSize is the room for one read, in bytes, unless an argument of known
	// length is arriving.
	readSize = 16 << 10
	// largeRead bounds the room for one read while a long argument arrives.
	largeRead = 1 << 20
	// largeMove is the size in bytes from which on input is copied outside of the loop.
	largeMove = 4 << 20
	// turnBytes and turnCommands bound what a session may read and run in a pass.
	turnBytes    = 64 << 10
	turnCommands = 1024
	// turnTime is how long commands may begin in a turn, even if the turn has bytes and commands
	// left. A few commands may take as long as thousands of others.
	turnTime = 2 * time.Millisecond
	// outputPause is the output in bytes over which a session's commands wait until the client has
	// read some of it.
	outputPause = 1 << 20
	// earlyOutput is the output in bytes that is sent before the turn ends, if it may leave.
	earlyOutput = 64 << 10
	// guestOutput is a size of output in bytes. While a client that still has to authenticate has
	// more output, its commands wait. If its socket takes no more in that case, the client is
	// closed: nobody may keep memory without a password.
	guestOutput = 1 << 10
	// loadTries bounds how often the keys of a command are loaded again because they
	// left memory before it could run.
	loadTries = 100
)

// session is one connection. It implements commands.Conn.
type session struct {
	client commands.Client
	loop   *loop
	fd     int
	tls    *secure      // nil: a plain connection
	reader *resp.Reader // nil while there is no input
	room   int          // bytes of the reader's buffer when it was last looked at
	out    output
	args   [][]byte      // of the command that waits, in the reader's buffer
	past   commands.Past // of that command
	// blocked is the wait of a blocking command; nil: there is none.
	blocked *blocked
	idle    *timer
	// asked is when the oldest request was read that waits for its reply, as the loop's mono.
	asked time.Duration
	// softSince is when the output passed its soft limit; 0: it is below.
	softSince time.Duration
	// seenIn is client.NetIn when sweep last came by.
	seenIn uint64
	// counted is the session's size in bytes in loop.memory; place is its place in its class
	// there.
	counted, class, place int

	state     state
	stalled   bool // over outputPause; goes on when output has left
	readable  bool // no read has said yet that there is nothing
	readToEnd bool // the end of input is near: short reads do not mean that there is no more
	eof       bool // the client has ended its side
	full      bool // the socket takes no more
	roomAsked bool // the poller reports room to write
	queued    bool // in loop.queue
	touched   bool // in loop.touched
	inWaiting bool // in loop.waiting
	unix      bool
	inside    bool // it came by Connect
}

// serve does a session's turn: it runs the input, reads more and runs that, within bounds.
func (l *loop) serve(s *session) {
	if s.state == lingering {
		l.discard(s)
		return
	}
	l.touch(s)
	budget, left := turnBytes, turnCommands
	l.mono = l.o.Clock.Mono()
	l.turnEnd = l.mono + turnTime
	if s.state == released {
		l.resume(s)
	}
	for s.mayRun() {
		if !l.runInput(s, &left) {
			break
		}
		if !s.readable || s.eof || budget <= 0 {
			break
		}
		n := l.read(s)
		budget -= n
		if n == 0 {
			break
		}
	}
	if s.reader != nil && s.takes() && !s.waiting() && s.reader.Buffered() == 0 {
		// A task may run for one that is condemned.
		l.readers.put(s.reader, s.room)
		s.reader, s.room = nil, 0
	}
	if s.heavy() {
		l.weigh(s)
	}
	if left <= 0 && s.canGoOn() || s.mayRun() && s.readable && !s.eof {
		l.enqueue(s)
	}
}

// runInput runs the complete commands that the reader has. It reports whether the session needs
// more input.
func (l *loop) runInput(s *session, left *int) (needsInput bool) {
	if s.reader == nil {
		return true
	}
	// A command that waited, and was served before the loop came back here, has given the reader
	// back.
	for ran := 0; s.mayRun() && s.reader != nil; ran++ {
		if *left <= 0 {
			return false
		}
		if ran%storage.PrefetchKeys == 1 {
			l.prefetch(s)
		}
		limits := &l.settings.limits
		if l.env.AuthRequired(&s.client) {
			if s.out.pending() > guestOutput {
				s.stalled = true
				return false
			}
			limits = &l.settings.guest
		}
		args, err := s.reader.Next(limits)
		if err != nil {
			l.protocolError(s, err)
			return false
		}
		if args == nil {
			if s.reader.Buffered() > l.settings.queryBuffer {
				l.cutInput(s)
				return false
			}
			return true
		}
		*left--
		l.runCommand(s, args)
		if l.mono > l.turnEnd {
			*left = 0
		}
		if s.client.Queued() > 0 && s.client.Queued()+s.reader.Buffered() > l.settings.queryBuffer {
			l.cutInput(s)
			return false
		}
		if s.out.pending() >= earlyOutput {
			l.sendEarly(s)
			s.stalled = s.out.pending() > outputPause
			l.weigh(s)
		}
	}
	return false
}

// prefetch prefetches the keys of the commands that s has sent after the present one.
func (l *loop) prefetch(s *session) {
	if l.ahead = s.reader.Ahead(l.ahead[:0], l.keyPlace); len(l.ahead) > 0 {
		l.env.Store.Prefetch(s.client.DB, l.ahead)
	}
}

// lookAhead reads the input of sessions that are about to have their turns. It prefetches the keys
// of their first commands, all at once.
func (l *loop) lookAhead(group []*session) {
	if len(group) == 1 {
		return
	}
	l.ahead = l.ahead[:0]
	db := group[0].client.DB
	for _, s := range group {
		if s.reader == nil && s.state != lingering && s.canGoOn() && s.client.DB == db {
			l.isolate(s, l.readFirst)
		}
	}
	if len(l.ahead) > 1 {
		l.env.Store.Prefetch(db, l.ahead)
	}
}

// readFirst reads from a session and adds the key of its first command to l.ahead, which
// has room.
func (l *loop) readFirst(s *session) {
	if l.read(s) > 0 {
		n := len(l.ahead)
		l.ahead = l.ahead[:len(s.reader.Ahead(l.ahead[:n:n+1], l.keyPlace))]
	}
}

// protocolError answers input that cannot be parsed, after the earlier replies, and ends the
// connection. It drops the reader: its error is final, so it must not serve another connection.
func (l *loop) protocolError(s *session, err error) {
	if s.client.Reply == commands.ReplyOn {
		s.out.begin(&l.buffers)
		s.out.w.Error("ERR " + err.Error())
	}
	s.reader, s.room = nil, 0
	l.env.Stats.Errors.Add(1)
	l.o.Log.Debug("protocol error", "client", s.client.ID, "address", s.client.Addr, "error", err)
	s.finish()
}

// cutInput ends a connection whose command is longer than client-query-buffer-limit.
func (l *loop) cutInput(s *session) {
	l.env.Stats.QueryBufferLimit.Add(1)
	l.complain("closing a client that reached client-query-buffer-limit",
		"client", s.client.ID, "address", s.client.Addr, "bytes", s.reader.Buffered())
	l.close(s)
}

// read reads once from the socket, and returns the number of bytes.
func (l *loop) read(s *session) int {
	if s.reader == nil {
		s.reader = l.readers.get()
	}
	size := readSize
	if need := s.reader.Need(); need > size {
		size = min(need, largeRead)
	}
	if s.reader.Moves(size) > largeMove {
		l.grow(s, size)
		return 0
	}
	space := s.reader.Space(size)
	s.room = s.reader.Buffered() + len(space)
	idle := s.reader.Buffered() == 0
	n, more, err := s.receive(space)
	switch {
	case n > 0:
		if idle {
			s.asked = l.mono
		}
		s.reader.Advance(n)
		s.readable = more
		s.client.NetIn += uint64(n)
		s.client.LastActive = l.mono
		l.env.Stats.NetIn.Add(int64(n))
		return n
	case err == nil:
		s.readable, s.eof = false, true
	case errors.Is(err, unix.EAGAIN):
		s.readable = false
	default:
		l.close(s) // the connection is gone, and with it all that was to be sent
	}
	return 0
}

// grow moves the input of a session to a larger buffer, outside of the loop, because allocating and
// copying hundreds of MiB takes long. The session waits meanwhile.
func (l *loop) grow(s *session, size int) {
	s.wait(forRoom)
	reader := s.reader
	go func() {
		larger := reader.Larger(size)
		l.box.post(func() {
			if s.state != forRoom {
				return
			}
			reader.GoOnIn(larger)
			s.wake()
			l.goOn(s)
		})
	}()
}

// runCommand runs a command, for the first time or again after it has waited.
func (l *loop) runCommand(s *session, args [][]byte) {
	c := &l.ctx
	s.out.begin(&l.buffers)
	s.out.w.Proto, s.out.w.Max = s.client.Proto, s.out.room(l.replyMost(s))
	mark := s.out.w.Len()
	c.Args, c.Client, c.Out = args, &s.client, &s.out.w
	c.Past = s.past
	c.Past.Waited = s.blocked != nil
	l.current, l.inStore = s, true
	outcome := l.env.Dispatch(c)
	l.current, l.inStore = nil, false
	if outcome == commands.Load || outcome == commands.Wait {
		c.RunEmitted() // what was due has been removed
		if s.state != serving {
			return // it has been sent too much
		}
	}
	switch outcome {
	case commands.Done:
		s.past = commands.Past{}
		now := l.o.Clock.Mono()
		took := now - l.mono
		l.mono = now
		l.env.Observe(c, mark, took)
		l.finishReply(s, c, mark)
		l.leave(s)
		c.RunEmitted()
	case commands.Load:
		l.load(s, args)
	case commands.Task:
		s.wait(forOwnTask)
		s.args = args
		l.startTask(s)
	case commands.Wait:
		l.waitFor(s, args)
	}
	if len(l.behind) > 0 {
		l.pushBehind(s)
	}
	l.deliver()
}

// finishReply records a reply that begins at mark of the session's output: what it depends on,
// whether the client wants it, and whether the session ends after it.
func (l *loop) finishReply(s *session, c *commands.Ctx, mark int) {
	spec, lsn := c.Spec, c.LSN
	l.owed = max(l.owed, lsn)
	if s.state == closed {
		return
	}
	if l.group.Membership != nil {
		s.client.Wrote = max(s.client.Wrote, lsn)
		if c.Term != 0 && s.out.w.Len() > mark && !l.shows(s, mark, c.Term) {
			s.out.w.Truncate(mark)
			l.cutUnproven(s)
			return
		}
	}
	s.client.Last = spec
	s.client.Commands++
	push := spec != nil && spec.Is(commands.Pushes) && s.out.w.Len() > mark &&
		s.out.w.Buf[mark] != '-'
	if reply := s.client.Reply; !push &&
		(reply == commands.ReplyOff || reply == commands.ReplySkip) {
		s.out.w.Truncate(mark)
	}
	switch s.client.Reply {
	case commands.ReplySkip:
		s.client.Reply = commands.ReplyOn
	case commands.ReplySkipNext:
		s.client.Reply = commands.ReplySkip
	}
	if lsn > l.durable && s.out.w.Len() > mark { // nothing waits for the log where nothing is sent
		s.out.depend(mark, lsn, l.pass)
	}
	if s.out.w.Len() > mark && !push && spec != nil && !spec.Is(commands.Blocking) {
		s.out.answered(l.pass, s.asked, spec.Changes())
	}
	s.out.replied = s.out.end()
	if s.client.Closing && s.state < closing {
		s.finish()
	}
	if s.out.w.Full || l.overLimit(s) {
		l.cutOutput(s)
	}
}

// cutOutput ends a connection whose output has passed client-output-buffer-limit, or the bound of
// one reply.
func (l *loop) cutOutput(s *session) {
	if !s.takes() {
		return
	}
	l.env.Stats.OutputBufferLimit.Add(1)
	why := "closing a client that reached client-output-buffer-limit"
	switch {
	case l.guestOverLimit(s):
		why = "closing a client that has not authenticated and does not read"
	case s.out.w.Full && l.outputLimit(s).hard == 0:
		why = "closing a client whose reply is longer than there is memory for"
	}
	l.complain(why, "client", s.client.ID, "address", s.client.Addr, "bytes", s.out.pending())
	l.condemn(s)
}

// waitFor parks a session whose command must wait.
func (l *loop) waitFor(s *session, args [][]byte) {
	switch {
	case l.ctx.Reason == commands.ForPause:
		l.park(s, forPause, args)
	case l.ctx.Reason == commands.ForUnblock:
		l.block(s, args)
	case l.ctx.Reason == commands.ForGroup:
		l.park(s, forGroup, args)
		l.awaitGroup()
	default:
		l.park(s, forTask, args)
	}
}

// load parks a session until the keys of its command are in memory.
func (l *loop) load(s *session, args [][]byte) {
	s.past.Loads++
	if s.past.Loads > loadTries {
		l.o.Log.Error("keys leave memory before their command can run", "client", s.client.ID)
		l.failCommand(s, commands.ErrInternal)
		return
	}
	s.args = args
	if s.blocked != nil {
		l.loadAgain(s)
		return
	}
	s.wait(forLoad)
	l.env.Store.LoadWith(l.ctx.Keys, l.ctx.Runs, func(err error) {
		l.box.post(func() { l.loaded(s, err) })
	})
}

// loaded continues a command whose keys have been loaded.
func (l *loop) loaded(s *session, err error) {
	if s.state != forLoad {
		return
	}
	l.isolate(s, func(s *session) {
		if err == nil {
			l.resume(s)
			return
		}
		l.loadFailed(s, err)
	})
}

// loadFailed answers a command whose keys cannot be read.
func (l *loop) loadFailed(s *session, err error) {
	l.env.Store.Unread(err, "client", s.client.ID)
	s.wake()
	l.failCommand(s, commands.ErrUnread)
	l.goOn(s)
}

// failCommand answers a command that cannot be run.
func (l *loop) failCommand(s *session, err commands.Error) {
	s.past = commands.Past{}
	l.leave(s)
	l.env.Stats.Errors.Add(1)
	s.out.begin(&l.buffers)
	mark := s.out.w.Len()
	s.out.w.Error(string(err))
	l.finishReply(s, &commands.Ctx{Spec: s.client.Last}, mark)
}

// resume runs again the command that has waited, and lets the session continue unless the command
// has to wait again.
func (l *loop) resume(s *session) {
	args := s.args
	s.wake()
	l.mono = l.o.Clock.Mono()
	l.runCommand(s, args)
	if !s.waiting() {
		l.goOn(s)
	}
}

// goOn lets a session continue after the command that has waited has its reply. Another session's
// command may be running.
func (l *loop) goOn(s *session) {
	s.args, s.past.Loads = nil, 0
	if l.stopping && s.state == serving {
		s.halt()
	}
	if s.out.pending() > outputPause {
		s.stalled = true
		if l.current == nil {
			l.weigh(s)
		}
	}
	l.touch(s)
	l.enqueue(s)
}

// condemn ends a session with the pass: nothing more of it is run or sent.
func (l *loop) condemn(s *session) {
	s.condemn()
	l.leave(s)
	l.memory.forget(s)
	delete(l.kept, s)
	l.condemned = append(l.condemned, s)
}

// closeCondemned ends the sessions that were condemned in this pass, after a last check of the
// memory of all clients.
func (l *loop) closeCondemned() {
	if l.memory.over() {
		l.makeRoom()
	}
	for _, s := range l.condemned {
		l.close(s)
	}
	clear(l.condemned)
	l.condemned = l.condemned[:0]
}

// close ends a session at once: nothing more is sent. Its descriptor is closed at the
// end of the pass.
func (l *loop) close(s *session) {
	if s.state == closed {
		return
	}
	if s.tls != nil {
		l.endTLS(s)
	}
	s.end()
	l.dropQueued(s)
	l.leave(s)
	l.env.Gone(&s.client)
	l.timers.stop(s.idle)
	delete(l.kept, s)
	l.memory.forget(s)
	s.out.drop(&l.buffers)
	s.reader = nil
	l.sessions[s.fd] = nil
	l.toClose = append(l.toClose, s.fd)
	l.count--
}
