package commands

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"keyp/features/policies"
	"keyp/storage"
	"keyp/storage/object"
)

// Outcome says how far Dispatch came with a client's command: it has run, or the caller has to do
// something first.
type Outcome uint8

const (
	// Done: the reply is in c.Out, and depends on the log up to c.LSN.
	Done Outcome = iota
	// Load: some of c.Keys are not in memory. The command has not run, or its run had no effect.
	// The caller calls Dispatch again when Store.Load has read them.
	Load
	// Task: the command has not run. It runs as a task of c.Scope, on any goroutine: see StartTask.
	Task
	// Wait: the command has not run, or its run had no effect; c.Reason says why. The caller calls
	// Dispatch again when that reason has ended.
	Wait
)

// Reason says why a command waits.
type Reason uint8

const (
	// ForPause: the command waits until CLIENT PAUSE ends.
	ForPause Reason = iota + 1
	// ForTask: the command waits until a running task ends, or until a global task unlocks data
	// that it no longer needs. Either the task has locked data that the command needs, or the
	// command has scope Pinned and too many such tasks run. While CLIENT PAUSE waits for tasks that
	// may write, commands that may write wait too.
	ForTask
	// ForGroup: the command waits until the group has elected a leader, or until Env.Undecided has
	// passed.
	ForGroup
	// ForUnblock: the command is a blocking one. It runs again each time that one of the keys
	// of c.Wait has changed, until it has a reply. GiveUp replies at the timeout, at CLIENT
	// UNBLOCK, and for WAITAOF when the log is on disk.
	ForUnblock
)

// Pause says which commands CLIENT PAUSE delays at present.
type Pause uint8

// The kinds of pause.
const (
	PauseNone Pause = iota
	PauseWrite
	PauseAll
)

// maxKeptKeys limits the capacity of Keys that a Ctx keeps for its next command.
const maxKeptKeys = 10_000

// Dispatch runs the command in c.Args for c.Client with c.Txn, which must be idle, and
// leaves c.Txn idle. Args is not empty.
func (e *Env) Dispatch(c *Ctx) Outcome {
	c.Env, c.LSN, c.Term, c.Keys, c.Runs = e, 0, 0, c.Keys[:0], nil
	if cap(c.Keys) > maxKeptKeys {
		c.Keys = nil
	}
	spec, err := e.resolve(c)
	c.Spec = spec
	c.queue, c.emitted, c.emits, c.met, c.counted = nil, c.emitted[:0], 0, 0, false
	if err != nil {
		if spec == nil && isHTTP(c.Args[0]) {
			e.hangUp(c.Client)
			return Done
		}
		return e.refuse(c, err.(Error))
	}
	if c.Client.queue != nil && spec.Is(NoMulti) {
		return e.refuse(c, errNotInMulti)
	}
	if !c.Client.user.permissions().free {
		if err := e.permit(c); err != nil {
			return e.refuse(c, err.(Error))
		}
	}
	if c.Client.Monitor && spec.Flags&(Write|ReadOnly|MayReplicate) != 0 {
		return e.refuse(c, errMonitorData)
	}
	switch err, wait := e.route(c); {
	case err != "":
		return e.refuseRoute(c, err)
	case wait:
		c.Reason = ForGroup
		return Wait
	}
	if c.restricted(spec) {
		return e.refuse(c, errRestricted(spec.full))
	}
	flags := c.flags()
	if e.pauses(c) {
		c.Reason = ForPause
		return Wait
	}
	if flags&Write != 0 && e.Store.Follower() {
		return e.refuse(c, ErrReadOnly)
	}
	if flags&Write != 0 && e.Store.Full() && e.noRoom(flags, c.writesAbout()) {
		return e.refuse(c, ErrDiskFull)
	}
	if flags&DenyOOM != 0 && e.Outboxes.AnyFull() {
		if err := e.outboxRefusesCall(c); err != nil {
			return e.refuse(c, err.(Error))
		}
	}
	if e.tasks.global && !e.mayRunBeside(c) {
		return e.waitForTask(c)
	}
	if c.Client.queue != nil && !spec.Is(Unqueued) {
		if flags&DenyOOM != 0 && e.tooLarge(c.Client.queue.bytes+argBytes(c.Args)) {
			return e.refuse(c, errOOM)
		}
		e.enqueue(c)
		c.Out.Simple("QUEUED")
		return Done
	}
	return e.start(c)
}

// start runs a command that has passed the checks of Dispatch. If the command cannot run now, start
// returns the outcome that says why.
func (e *Env) start(c *Ctx) Outcome {
	if e.awaitsWriters(c) {
		return e.waitForTask(c)
	}
	c.Scope = c.scope()
	switch {
	case c.Scope == Unlocked:
		return Task // the task resolves its keys, which may be many
	case c.Spec.Keys != nil:
		c.Keys = e.keys(c.Spec, c.Args, c.Client.DB, c.Keys)
	case c.Spec.Is(execs):
		c.Keys = e.keysOfQueue(c, c.Keys)
	}
	switch c.Scope {
	case AllKeys:
		e.Store.BeginAll(c.Txn)
	case Global:
		if e.Store.Begin(c.Txn, c.Keys) {
			c.Txn.End() // its keys are in memory, most likely for long enough
		} else if outcome, late := e.absent(c); !late {
			return outcome
		}
		if e.tasks.pinned > 0 {
			return e.waitForTask(c) // it may change what is pinned
		}
		return Task
	default:
		if e.Store.Begin(c.Txn, c.Keys) {
			break
		}
		if outcome, late := e.absent(c); !late {
			return outcome
		}
		switch begun, err := e.Store.BeginLoading(c.Txn, c.Keys); {
		case err != nil:
			return Load // Load meets the same error
		case !begun:
			return e.waitForTask(c)
		}
	}
	return e.runLocked(c)
}

// absent returns the outcome for a command whose keys are not all in memory, or are locked by a
// global task. If late is true, outcome is not set: the keys must be read while they are locked.
func (e *Env) absent(c *Ctx) (outcome Outcome, late bool) {
	switch {
	case c.Txn.BlockedByGlobal():
		return e.waitForTask(c), false
	case e.tasks.global && e.Store.Throttle() > 0:
		return e.waitForTask(c), false // keys cannot leave memory meanwhile as they should
	case c.Past.Loads < lateLoads:
		return Load, false
	}
	return 0, true
}

// lateLoads is how often the keys of a call may be loaded without a lock. After that they are read
// while other keys are locked. This limit is reached in two cases: loaded keys leave memory again
// each time, or the call finds its keys only while it runs.
const lateLoads = 6

// runLocked runs a command whose keys are locked and in memory. It returns another outcome if a
// task must run the command, or if a running task has pinned values that it needs.
func (e *Env) runLocked(c *Ctx) Outcome {
	c.Txn.NoTouch, c.final = c.noTouch(), c.Past.Loads >= lateLoads
	outcome, scope := Task, Pinned
	switch {
	case e.Pins.Any() && e.pinned(c):
		outcome, c.Reason = Wait, ForTask
	case !c.toOffload():
		c.takeQueue()
		outcome = e.run(c)
		c.Txn.FlushValues()
		if outcome == Wait && c.Reason == ForUnblock {
			e.Changes.expect()
		}
		if c.Spec.Is(Write) {
			scope = Global
		}
	}
	switch {
	case outcome != Task:
	case scope == Pinned && !e.tasks.crowded():
		c.Scope = scope
		return Task // with the keys locked until StartTask
	case scope == Global && !e.tasks.global && e.tasks.pinned == 0:
		// The end of the task runs on the loop, and locks shards there.
		c.Scope, c.apart = scope, true
	default:
		outcome, c.Reason = Wait, ForTask
	}
	c.LSN = max(c.LSN, c.Txn.End())
	if outcome == Wait && c.Reason == ForTask {
		return e.waitForTask(c)
	}
	return outcome
}

// pinned reports whether a running task has pinned values that c may change, or overdue values that
// c may read.
func (e *Env) pinned(c *Ctx) bool {
	return c.mayWrite() && e.Pins.Pinned(c.Txn, c.Keys) ||
		e.Pins.Overdue(c.Txn, c.Keys, c.Scope == AllKeys)
}

// flags returns the flags of the command. For EXEC it adds the flags of the queued commands.
func (c *Ctx) flags() Flags {
	if c.Spec.Is(execs) && c.Client.queue != nil {
		return c.Spec.Flags | c.Client.queue.flags
	}
	return c.Spec.Flags
}

// noRoom reports whether a command that writes is refused because the disk is full. bytes is the
// size of the writes of the command and its transaction. After them the log must still have a
// reserve, whose size depends on flags. So no client waits for room.
func (e *Env) noRoom(flags Flags, bytes int) bool {
	switch room := e.Store.LogRoom(bytes); {
	case flags&DenyOOM != 0:
		return true
	case flags&restates != 0:
		return room > storage.RoomForAll
	case flags&keeps != 0:
		return room > storage.RoomForSmall
	default:
		return room > storage.RoomToFree
	}
}

// writesAbout estimates how many bytes the command writes to the log. It uses the size of the
// arguments; for EXEC, the size of the queued commands.
func (c *Ctx) writesAbout() int {
	if c.Spec.Is(execs) && c.Client.queue != nil {
		return c.Client.queue.bytes
	}
	return argBytes(c.Args)
}

// mayWrite reports whether the command may change keys.
func (c *Ctx) mayWrite() bool { return c.flags()&(Write|MayReplicate) != 0 }

// pauses reports whether CLIENT PAUSE delays the command.
func (e *Env) pauses(c *Ctx) bool {
	return e.Paused != PauseNone && !c.Spec.Is(DuringPause) && !c.Client.Monitor &&
		(e.Paused == PauseAll || c.mayWrite())
}

// takeQueue moves the queued transaction from the client, which belongs to the loop, to the context
// of EXEC.
func (c *Ctx) takeQueue() {
	if c.Spec.Is(execs) {
		c.queue, c.Client.queue = c.Client.queue, nil
	}
}

// run calls the handler, and records the keys that it changed and read for Tracking. It returns
// Done; Load if the handler needs c.Keys; Wait if it waits for keys; Task if a task of scope Pinned
// must run it.
func (e *Env) run(c *Ctx) Outcome {
	if c.Txn != nil {
		c.Txn.By = c.Client.ID
	}
	outcome := e.handle(c)
	e.Tracking.ran(c, outcome == Done)
	return outcome
}

// handle calls the handler. A refusal by a policy becomes an error. Any other panic affects this
// command alone. Its half-written reply is removed. The changes that it has recorded are sealed as
// they are, so memory still equals the log. There is one exception: a task of scope Unlocked locks
// and unlocks shards by itself. A panic in the store passes through such a task, because it may
// have left shards locked or changes half done.
func (e *Env) handle(c *Ctx) (outcome Outcome) {
	mark, moves := c.Out.Len(), 0
	if c.Txn != nil {
		moves = policies.Moves(c.Txn)
	}
	c.hits, c.misses, c.steps, c.costly = 0, 0, patternSteps, false
	defer func() {
		if p := recover(); p != nil {
			if r, ok := p.(policies.Refused); ok {
				if c.Txn != nil {
					policies.TakeBack(c.Txn, moves)
				}
				c.Out.Truncate(mark)
				e.Stats.Errors.Add(1)
				c.reply(errRefused(r))
				e.book(c)
				return
			}
			if err, ok := p.(*object.ReadError); ok {
				c.Out.Truncate(mark)
				outcome = e.unread(c, err)
				return
			}
			if c.Scope == Unlocked && !c.Nested && fromStore() {
				panic(p)
			}
			e.Stats.Panics.Add(1)
			e.Log.Error("internal error", "command", c.Spec.full, "panic", fmt.Sprint(p), "stack",
				string(debug.Stack()))
			c.Out.Truncate(mark)
			c.reply(ErrInternal)
			outcome = Done
		}
	}()
	err := c.Spec.Run(c)
	if err == nil && c.costly {
		err = errPattern
	}
	if err != nil {
		c.Out.Truncate(mark)
		switch retry, ok := err.(retryAs); {
		case !ok:
			e.Stats.Errors.Add(1)
			c.reply(err)
		case retry == errBlocked:
			outcome, c.Reason = Wait, ForUnblock
		default:
			return Outcome(retry)
		}
	}
	if !c.again(outcome) {
		e.book(c)
	}
	return outcome
}

// unread handles a command that had started but could not read entries of a stream. If other
// commands have removed the entries meanwhile, the command runs again.
func (e *Env) unread(c *Ctx, err *object.ReadError) Outcome {
	if c.Txn != nil && c.Txn.Reread(err) {
		return Done
	}
	e.Stats.Errors.Add(1)
	e.Store.Unread(err, "command", c.Spec.full)
	c.reply(ErrUnread)
	e.book(c)
	return Done
}

// fromStore reports whether the panic that is being handled has come through the store.
func fromStore() bool {
	var stack [256]uintptr
	frames := runtime.CallersFrames(stack[:runtime.Callers(0, stack[:])])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, storeCode) {
			return true
		}
		if !more {
			return false
		}
	}
}

// storeCode is the prefix of the names of the store's functions.
var storeCode = reflect.TypeFor[storage.Store]().PkgPath() + "."

// again reports whether a task's run had no effect, so that its call is dispatched again. Either
// the values that it would replace have changed, or the command must wait for a key, which a task
// cannot do.
func (c *Ctx) again(outcome Outcome) bool {
	return (c.apart || c.Scope == Unlocked) && outcome == Wait ||
		c.Scope == Pinned && c.Txn.Conflicted()
}

// book adds the keys that a run has looked up to the statistics, and shows the command to the
// clients of MONITOR. It skips a run without effect, because that call is dispatched again.
func (e *Env) book(c *Ctx) {
	if c.hits > 0 {
		e.Stats.Hits.Add(c.hits)
	}
	if c.misses > 0 {
		e.Stats.Misses.Add(c.misses)
	}
	if !c.Past.Waited {
		e.feedMonitors(c)
	}
}

// resolve finds the declaration of the command, and does the checks that need no data.
func (e *Env) resolve(c *Ctx) (*Spec, error) {
	spec := e.Table.Of(c.Args)
	if spec == nil {
		container := e.Table.Lookup(c.Args[0])
		switch {
		case container == nil:
			return nil, errUnknown(c.Args)
		case e.AuthRequired(c.Client):
			return container, ErrNoAuth
		}
		return container, errSubcommand(container.Name, c.Args[1])
	}
	if !spec.takes(len(c.Args)) || spec.Run == nil {
		return spec, errArity(spec.full)
	}
	if e.AuthRequired(c.Client) && !spec.Is(NoAuth) {
		return spec, ErrNoAuth
	}
	return spec, nil
}

// isHTTP reports whether an unknown command name is the beginning of an HTTP request or of one of
// its headers.
func isHTTP(name []byte) bool { return isWord(name, "POST") || isWord(name, "HOST:") }

// hangUp closes a connection that speaks HTTP, without a reply. A web page can make its visitor's
// browser send requests to this server, with commands in their bodies.
func (e *Env) hangUp(c *Client) {
	c.Closing = true
	now, next := int64(e.Clock.Mono()), e.nextHangUp.Load()
	if now >= next && e.nextHangUp.CompareAndSwap(next, now+int64(time.Minute)) {
		e.Log.Warn(
			"a client speaks HTTP: perhaps an attack through a browser; its connection is ended",
			"client", c.ID, "address", c.Addr)
	}
}

// keys appends the keys that spec.Keys finds in a command's arguments.
func (e *Env) keys(spec *Spec, args [][]byte, current int, keys []storage.Key) []storage.Key {
	for i := range spec.Keys {
		ks := &spec.Keys[i]
		if ks.Flags&NotKey != 0 {
			continue
		}
		db := current
		if ks.DB != nil {
			other, ok := ks.DB(args, db)
			if !ok || !e.database(other) {
				other = db
			}
			db = other
		}
		first, last, step := ks.span(args)
		if first <= last {
			keys = slices.Grow(keys, (last-first)/step+1)
		}
		for at := first; at <= last; at += step {
			keys = append(keys, e.Store.Key(db, args[at]))
		}
	}
	return keys
}

// span returns the index of the first and the last key in args, and the step between keys. An
// invalid or negative number of keys counts as 0. A number larger than that of the remaining
// arguments is cut to it.
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
