package commands

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"keyp/resp"
	"keyp/storage"
)

// Outcome is what became of a command.
type Outcome uint8

const (
	// Done: the reply is in c.Out and c.LSN says what it depends on.
	Done Outcome = iota
	// NeedKeys: nothing ran, or nothing came of it, since some of c.Keys are not in
	// memory. The session parks, Store.Load brings them, and Dispatch runs again.
	NeedKeys
	// NeedExecutor: nothing ran. RunSlow is to be called on another goroutine with a
	// Ctx of its own and copied arguments, while the session parks.
	NeedExecutor
	// Held: nothing ran, since CLIENT PAUSE holds the command back.
	Held
	// Blocked: nothing came of it, the command waits for what c.Wait says. The session
	// parks until Dispatch, which runs again when one of the keys has changed, says
	// something else, or until the time is up (GiveUp).
	Blocked
	// NeedExclusive: nothing ran. The session parks, and RunExclusive is to be called for a Ctx
	// of its own (Renew) while no other command runs.
	NeedExclusive
	// NeedAside: nothing ran, and c.Txn holds the keys. SetAside is to be called at once, and
	// RunAside then, on any goroutine, while the session parks.
	NeedAside
	// Occupied: nothing ran, since what the command needs an exclusive job has (c.Beside), or what
	// it is to change is read by a command that runs aside, or since too many of these do
	// (c.Crowded). Dispatch is to run again when the job, or one of them, has ended.
	Occupied
)

// Pause says what CLIENT PAUSE holds back at present.
type Pause uint8

// The kinds of pause.
const (
	PauseNone Pause = iota
	PauseWrite
	PauseAll
)

// maxKeptKeys bounds the room for keys that a Ctx keeps for its next command.
const maxKeptKeys = 10_000

// Dispatch runs the command in c.Args for c.Client with c.Txn, which must be idle, and
// leaves c.Txn idle. Args is not empty.
func (s *Server) Dispatch(c *Ctx, pause Pause) Outcome {
	c.Server, c.LSN, c.Keys = s, 0, c.Keys[:0]
	if cap(c.Keys) > maxKeptKeys {
		c.Keys = nil
	}
	spec, err := s.resolve(c)
	c.Spec = spec
	c.queue, c.emitted, c.emits, c.met, c.counted = nil, c.emitted[:0], 0, 0, false
	if err != nil {
		if spec == nil && isHTTP(c.Args[0]) {
			s.hangUp(c.Client)
			return Done
		}
		return s.refuse(c, err.(Error))
	}
	if c.Client.queue != nil && spec.Is(NoMulti) {
		return s.refuse(c, errNotInMulti)
	}
	if !c.Client.user.permissions().free {
		if err := s.permit(c); err != nil {
			return s.refuse(c, err.(Error))
		}
	}
	if c.Client.Monitor && spec.Flags&(Write|ReadOnly|MayReplicate) != 0 {
		return s.refuse(c, errMonitorData)
	}
	if c.restricted(spec) {
		return s.refuse(c, errRestricted(spec.full))
	}
	flags := c.flags()
	if pause != PauseNone && !spec.Is(DuringPause) && !c.Client.Monitor && (pause == PauseAll || flags&Write != 0) {
		return Held
	}
	if flags&DenyOOM != 0 && s.Store.Full() {
		return s.refuse(c, ErrDiskFull)
	}
	if c.Beside && !s.mayRunBeside(c) {
		return s.inTheWay(c)
	}
	if c.Client.queue != nil && !spec.Is(Unqueued) {
		s.enqueue(c)
		c.Out.Simple("QUEUED")
		return Done
	}
	return s.start(c)
}

// start runs a command that has passed all checks, or says what it needs for that.
func (s *Server) start(c *Ctx) Outcome {
	spec := c.Spec
	if spec.Is(Slow) {
		return NeedExecutor
	}
	switch {
	case spec.Keys != nil:
		c.Keys = s.keys(spec, c.Args, c.Client.DB, c.Keys)
	case spec.Is(execs):
		c.Keys = s.keysOfQueue(c, c.Keys)
	}
	switch {
	case spec.Is(Global), spec.Roams != nil && spec.Roams(c.Args):
		s.Store.BeginAll(c.Txn)
	case !s.Store.Begin(c.Txn, c.Keys):
		switch {
		case c.Txn.Taken():
			return s.inTheWay(c)
		case c.Beside && s.Store.Delay() > 0:
			return s.inTheWay(c) // keys cannot leave memory meanwhile as they should
		case !c.Final:
			return NeedKeys
		case c.needsAll():
			return NeedExclusive // which reads them while it holds the locks
		}
		switch begun, err := s.Store.BeginBringing(c.Txn, c.Keys); {
		case err != nil:
			return NeedKeys // whoever loads them meets the error, too
		case !begun:
			return s.inTheWay(c)
		}
	case c.needsAll():
		c.Txn.End() // its keys are in memory, most likely for long enough
		return NeedExclusive
	}
	c.Txn.NoTouch = c.noTouch()
	outcome := NeedAside
	switch {
	case s.Holds.Any() && s.occupied(c):
		outcome = Occupied
	case !c.runsAside():
		c.takeQueue()
		outcome = s.run(c)
		c.Txn.Settle()
	}
	if outcome == NeedAside {
		if !c.Crowded {
			return NeedAside
		}
		outcome = Occupied
	}
	c.LSN = max(c.LSN, c.Txn.End())
	if outcome == Occupied && c.Beside {
		return s.inTheWay(c)
	}
	return outcome
}

// occupied says that commands aside hold what c would change, or see after its time.
func (s *Server) occupied(c *Ctx) bool {
	roams := c.Spec.Roams != nil && c.Spec.Roams(c.Args)
	return c.flags()&Write != 0 && s.Holds.Meets(c.Txn, c.Keys) || s.Holds.Overdue(c.Txn, c.Keys, roams)
}

// flags are the command's, and for EXEC also those of what it runs.
func (c *Ctx) flags() Flags {
	if c.Spec.Is(execs) && c.Client.queue != nil {
		return c.Spec.Flags | c.Client.queue.flags
	}
	return c.Spec.Flags
}

// needsAll says that the command is an exclusive job.
func (c *Ctx) needsAll() bool {
	q := c.Client.queue
	return c.Spec.Alone || c.Spec.Is(execs) && q != nil && q.alone && !q.failed
}

// Renew makes c the context of an exclusive job, for the call in from, which Dispatch has found
// to need one. c may have been used before.
func (c *Ctx) Renew(from *Ctx, args [][]byte, out *resp.Writer, txn *storage.Txn) {
	*c = Ctx{
		Spec: from.Spec, Args: args, Client: from.Client, Server: from.Server, Out: out, Txn: txn,
		Keys: append(c.Keys[:0], from.Keys...), child: c.child, emitted: c.emitted[:0],
	}
	c.takeQueue()
}

// takeQueue gives the command what it takes from its client, which belongs to the loop: EXEC the
// transaction.
func (c *Ctx) takeQueue() {
	if c.Spec.Is(execs) {
		c.queue, c.Client.queue = c.Client.queue, nil
	}
}

// RunExclusive runs an exclusive job, with a transaction of its own that has the whole
// keyspace locked until it shares it (storage.Txn.Share). onLoop runs what belongs to the loop there, and returns when it has; false
// says that there is no loop any more. RunEmitted is to be called on the loop afterwards.
func (s *Server) RunExclusive(c *Ctx, onLoop func(func()) bool) {
	c.Server, c.Final, c.Alone, c.onLoop = s, true, true, onLoop
	s.Store.BeginLong(c.Txn, c.Keys)
	if clear(c.Keys); cap(c.Keys) > maxKeptKeys {
		c.Keys = nil
	}
	c.Keys = c.Keys[:0]
	c.Txn.NoTouch = c.noTouch()
	s.run(c)
	c.Txn.Settle()
	c.LSN = max(c.LSN, c.Txn.End())
}

// RunSlow runs a Slow command; c is not shared and c.Txn is nil.
func (s *Server) RunSlow(c *Ctx) {
	c.Server = s
	s.run(c)
}

// run calls the handler, and takes in what it changed and read.
// The outcome is Done, NeedKeys if the handler gave up for want of c.Keys, or Blocked.
func (s *Server) run(c *Ctx) Outcome {
	if c.Txn != nil {
		c.Txn.By = c.Client.ID
	}
	outcome := s.handle(c)
	s.Tracking.ran(c, outcome == Done)
	return outcome
}

// handle calls the handler. A panic costs this command alone: its half-written reply is
// taken back, what it had recorded is sealed as it is, so memory still equals the log.
func (s *Server) handle(c *Ctx) (outcome Outcome) {
	mark := c.Out.Len()
	defer func() {
		if p := recover(); p != nil {
			s.Stats.Panics.Add(1)
			s.Log.Error("internal error", "command", c.Spec.full, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			c.Out.Truncate(mark)
			c.reply(ErrInternal)
			outcome = Done
		}
	}()
	if err := c.Spec.Run(c); err != nil {
		c.Out.Truncate(mark)
		switch err {
		case errNeedKeys:
			return NeedKeys
		case errLong:
			return NeedAside
		case errBlocked:
			outcome = Blocked
		default:
			s.Stats.Errors.Add(1)
			c.reply(err)
		}
	}
	if !c.Again {
		s.feedMonitors(c)
	}
	return outcome
}

// resolve finds the declaration and checks what can be checked without data.
func (s *Server) resolve(c *Ctx) (*Spec, error) {
	spec := s.Table.Of(c.Args)
	if spec == nil {
		container := s.Table.Lookup(c.Args[0])
		switch {
		case container == nil:
			return nil, errUnknown(c.Args)
		case s.AuthRequired(c.Client):
			return container, ErrNoAuth
		}
		return container, errSubcommand(container.Name, c.Args[1])
	}
	if !spec.takes(len(c.Args)) || spec.Run == nil {
		return spec, errArity(spec.full)
	}
	if s.AuthRequired(c.Client) && !spec.Is(NoAuth) {
		return spec, ErrNoAuth
	}
	return spec, nil
}

// isHTTP says whether a name that is no command is how an HTTP request goes on.
func isHTTP(name []byte) bool { return isWord(name, "POST") || isWord(name, "HOST:") }

// hangUp ends a connection that speaks HTTP, without an answer: a web page can make
// its visitor's browser send requests here, with commands in their bodies.
func (s *Server) hangUp(c *Client) {
	c.Closing = true
	now, next := int64(s.Clock.Mono()), s.nextHangUp.Load()
	if now >= next && s.nextHangUp.CompareAndSwap(next, now+int64(time.Minute)) {
		s.Log.Warn("a client speaks HTTP: perhaps an attack through a browser; its connection is ended", "client", c.ID, "address", c.Addr)
	}
}

// keys gives the declared keys of a command, as spec.Keys describes them.
func (s *Server) keys(spec *Spec, args [][]byte, current int, keys []storage.Key) []storage.Key {
	for i := range spec.Keys {
		ks := &spec.Keys[i]
		if ks.Flags&NotKey != 0 {
			continue
		}
		db := current
		if ks.DB != nil {
			other, ok := ks.DB(args, db)
			if !ok || !s.database(other) {
				other = db
			}
			db = other
		}
		first, last, step := ks.span(args)
		if first <= last {
			keys = slices.Grow(keys, (last-first)/step+1)
		}
		for at := first; at <= last; at += step {
			keys = append(keys, s.Store.Key(db, args[at]))
		}
	}
	return keys
}

// span gives the first and last argument that is a key. Where the number of keys is
// none, or larger than the arguments there are, it is as many as there are.
func (ks *KeySpec) span(args [][]byte) (first, last, step int) {
	n := len(args)
	first, last, step = ks.Begin, ks.Begin+ks.Last, max(ks.Step, 1)
	switch {
	case ks.Find != nil:
		first, last = ks.Find(args)
		return first, last, 1
	case ks.Num && n > ks.Begin:
		count, _ := ParseInt(args[ks.Begin])
		count = min(max(count, 0), int64((n-ks.Begin-1)/step))
		return ks.Begin + 1, ks.Begin + int(count)*step, step
	case ks.Last < 0:
		last = n + ks.Last
	}
	return first, min(last, n-1), step
}
