package commands

import (
	"math"
	"time"

	"keyp/resp"
	"keyp/scripting"
	"keyp/storage"
)

// A command that runs inside EXEC or a script is part of its transaction. All commands see the same
// time, and their changes are one batch of the log. If all commands of EXEC touch only keys that
// they declare (KeysOnly), EXEC runs on the event loop with these keys locked. Otherwise EXEC runs
// as a script does: as a task beside the loop, with the whole keyspace locked. Later the task may
// unlock the shards that it has not used (Txn.Share). Commands of other clients wait if they need
// locked keys (mayRunBeside).
//
// Clients, subscriptions and the effects of the configuration belong to the loop. If a command of
// such a task needs them, Call runs the command on the loop, and waits for it.

// Call runs a command inside the transaction of c, for client, and writes its reply or error to
// out. The caller has resolved and checked the command. If its keys are not in memory, others wait
// while the data file is read.
func (c *Ctx) Call(spec *Spec, client *Client, args [][]byte, out *resp.Writer) {
	if c.child == nil {
		c.child = &Ctx{}
	}
	n := c.child
	*n = Ctx{
		Spec: spec, Args: args, Client: client, Env: c.Env, Out: out, Keys: n.Keys[:0], Txn: c.Txn,
		final: true, Nested: true, parent: c, child: n.child, onLoop: c.onLoop,
	}
	began, mark := c.Env.Clock.Mono(), out.Len()
	n.lock()
	if n.onLoop == nil || !n.Scope.lent() {
		n.callNow()
	} else if !n.onLoop(n.callNow) {
		n.reply(ErrStopping)
	}
	c.LSN = max(c.LSN, n.LSN)
	c.Env.Observe(n, mark, c.Env.Clock.Mono()-began)
}

// inScript reports whether a script or a function calls the command.
func (c *Ctx) inScript() bool { return c.parent != nil && c.parent.Spec.Group == Scripting }

// atLoop runs fn on the loop, from a command that may be part of a global task. After the end of
// the loop it does nothing, because all data that belongs to the loop is gone then.
func (c *Ctx) atLoop(fn func()) {
	onLoop := c.onLoop
	if onLoop == nil {
		onLoop = c.Env.Testing.onLoop
	}
	if onLoop == nil {
		fn()
		return
	}
	onLoop(fn)
}

// lock finds the keys of a call, and makes sure that the transaction has locked all data that the
// call is going to touch.
func (c *Ctx) lock() {
	c.Scope = c.scope()
	if c.Spec.Keys != nil {
		c.Keys = c.Env.keys(c.Spec, c.Args, c.Client.DB, c.Keys)
	}
	if c.Scope.wide() && (c.Scope != Global || c.Spec.Keys == nil) {
		c.Txn.UseAll()
		return
	}
	c.Txn.Use(c.Keys)
}

func (c *Ctx) callNow() {
	e := c.Env
	if err := c.load(c.Keys); err != nil {
		e.Stats.Errors.Add(1)
		c.reply(err)
		return
	}
	c.Txn.NoTouch = c.noTouch()
	e.run(c)
	c.Txn.FlushValues()
}

// mayRunBeside reports whether a command may run during a global task. It decides that before the
// command's keys are known. If the script that runs has run for too long, commands are refused, as
// in Redis, unless they touch no key that the script has.
func (e *Env) mayRunBeside(c *Ctx) bool {
	switch {
	case c.Spec.Is(AllowBusy):
		return true
	case c.Client.queue != nil && !c.Spec.Is(Unqueued):
		return e.Busy == ""
	}
	switch c.scope() {
	case ArgsOnly, OwnClient:
		return e.Busy == ""
	case KeysOnly:
		return !e.pressed(c.flags()) && (e.Busy == "" || !c.Spec.Is(execs))
	}
	return false
}

// pressed reports whether commands that write have to wait for the end of the global task. They
// have to if the log is too long or memory too full, because no checkpoint can begin before that
// end.
func (e *Env) pressed(flags Flags) bool { return flags&Write != 0 && e.Store.Throttle() > 0 }

// waitForTask makes a command wait for the end of the task that blocks it. If the task is a script
// that has run for too long, the command is refused, unless it waits for a key.
func (e *Env) waitForTask(c *Ctx) Outcome {
	if e.Busy != "" && !c.Spec.Is(AllowBusy) && !c.Past.Waited {
		return e.refuse(c, e.Busy)
	}
	e.tasks.awaited = true
	c.Reason = ForTask
	return Wait
}

// TooLong returns the error of a server whose script has run for busy-reply-threshold. For any
// other server it returns "" and the time until that may happen.
func (e *Env) TooLong() (busy Error, left time.Duration) {
	limit := time.Duration(min(e.Config.Int("busy-reply-threshold"),
		int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
	script := e.script.Load()
	if script == nil {
		return "", limit
	}
	left = limit - (e.Clock.Mono() - script.began)
	if limit > 0 && left <= 0 {
		return script.busy, 0
	}
	return "", left
}

// running is a script in progress.
type running struct {
	began time.Duration // a reading of Mono
	busy  Error         // the error that others get when it takes too long
}

// scripting records that a script begins; the function that it returns records that it has ended.
// Other clients get the error busy once it has run for too long.
func (e *Env) scripting(busy Error) (ended func()) {
	outer := e.script.Load()
	e.script.Store(&running{began: e.Clock.Mono(), busy: busy})
	return func() { e.script.Store(outer) }
}

// noTouch reports whether the command leaves access times unchanged.
func (c *Ctx) noTouch() bool { return c.Client.NoTouch && !isWord(c.Args[0], "TOUCH") }

// view returns the whole keyspace as the command sees it. It panics if the command's scope does not
// include that.
func (c *Ctx) view() storage.View {
	if !c.Scope.wide() {
		panic("commands: the scope of " + c.Spec.full + " does not have the whole keyspace")
	}
	if c.onLoop != nil {
		return c.Txn.View()
	}
	return c.Env.Store.View
}

// Emit schedules fn to run on the event loop directly after the command, when its LSN is known. If
// the command is part of an EXEC or a script, fn runs after that. Emit is for effects on clients
// other than its own. size is the memory to which fn refers, in bytes.
func (c *Ctx) Emit(size int, fn func(lsn uint64)) {
	c = c.root()
	c.emits += size + emittedBytes
	c.emitted = append(c.emitted, fn)
}

// emittedBytes is about the memory of one function that Emit gets.
const emittedBytes = 100

// root returns the outermost command that c is part of, which is c if no EXEC or script calls it.
func (c *Ctx) root() *Ctx {
	for c.parent != nil {
		c = c.parent
	}
	return c
}

// maxEmitted bounds the effects of a script on other clients that wait for its end, in bytes:
// messages, lines of MONITOR, keys of tracking, events. The bound is the memory that the script
// itself may take. After it is reached, further commands are refused; earlier effects still happen.
const maxEmitted = scripting.DefaultMemory

func (c *Ctx) emitsTooMuch() bool { return c.root().emits+c.Txn.Raised() > c.Env.Testing.emitted() }

// RunEmitted calls the functions that Emit got. The event loop calls RunEmitted after each command.
func (c *Ctx) RunEmitted() {
	for _, fn := range c.emitted {
		fn(c.LSN)
	}
	clear(c.emitted)
	c.emitted, c.emits = c.emitted[:0], 0
}
