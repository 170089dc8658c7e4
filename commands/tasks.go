package commands

import (
	"context"

	"keyp/resp"
	"keyp/storage"
)

// A task is a command that runs beside the event loop, because it may take long: Dispatch has
// returned the outcome Task. The loop calls StartTask and, if the task had to queue, BeginQueued.
// Then any goroutine calls RunTask, which runs the command. Finally the loop calls EndTask, and
// RunEmitted for the effects that the command has left to the loop.

// tasks counts the running tasks. It belongs to the loop.
type tasks struct {
	most    int  // of scope Pinned at a time, beyond the first
	pinned  int  // of scope Pinned
	writing int  // that may write
	global  bool // one of scope Global runs
	awaited bool // a command waits for the end of one
	pausing bool // CLIENT PAUSE waits for the end of those that may write
}

// awaitsWriters reports whether a command waits for the end of the tasks that may write. CLIENT
// PAUSE waits for these tasks, because nothing may be written after its reply. While CLIENT PAUSE
// waits, no other command that may write begins. CLIENT UNPAUSE waits too, and runs after CLIENT
// PAUSE.
//
// CLIENT PAUSE does not wait for a script that has run for too long. In that case CLIENT PAUSE is
// refused, as other commands are.
//
// The wait ends when CLIENT PAUSE runs, not when the last task ends. Otherwise queued tasks would
// begin in between. If the client of CLIENT PAUSE has left, the wait ends with the next command
// that may write.
func (e *Env) awaitsWriters(c *Ctx) bool {
	flags := c.flags()
	if e.tasks.writing == 0 {
		e.tasks.pausing = e.tasks.pausing && flags&pauses == 0 && !c.mayWrite()
		return false
	}
	e.tasks.pausing = e.Busy == "" && (e.tasks.pausing || flags&pauses != 0)
	return e.tasks.pausing && (c.mayWrite() || flags&(pauses|unpauses) != 0)
}

// PauseWaits reports whether CLIENT PAUSE waits for the end of tasks that may write.
func (e *Env) PauseWaits() bool { return e.tasks.pausing }

// crowded reports whether no more tasks of scope Pinned may begin. That is so if a global task
// runs, or if the running tasks leave no processor to the loop. It is also so if a command waits
// for a task's end.
func (j *tasks) crowded() bool {
	return j.global || j.pinned > 0 && (j.awaited || j.pinned >= j.most)
}

// LimitTasks sets how many tasks of scope Pinned may run at a time; one always may.
func (e *Env) LimitTasks(most int) { e.tasks.most = most }

// StartTask makes c the context of a task for the call in from; c may be the context of a former
// task. The arguments of the call stay valid until the task's end. StartTask is called directly
// after Dispatch. The task uses txn, which is idle. It runs now, unless it is queued: then
// BeginQueued comes before RunTask.
func (e *Env) StartTask(from, c *Ctx, out *resp.Writer, txn *storage.Txn, queued bool) {
	writes := from.mayWrite()
	client := from.Client
	if from.Scope != Global { // which has what belongs to the loop run there
		copied := *client
		copied.Conn = nil
		client = &copied
	}
	*c = Ctx{
		Spec: from.Spec, Args: from.Args, Client: client, Env: e, Out: out, Txn: txn,
		Scope: from.Scope, apart: from.apart, Term: from.Term,
		Keys: append(c.Keys[:0], from.Keys...), child: c.child, emitted: c.emitted[:0],
	}
	from.apart = false
	switch c.Scope {
	case Unlocked:
		c.Txn = nil
		if c.Spec.Is(elsewhere) {
			c.work, c.cancel = context.WithCancel(context.Background())
		}
	case Pinned:
		e.tasks.pinned++
		e.pin(from, c)
	case Global:
		e.tasks.global = true
		c.takeQueue()
	}
	if !queued {
		e.countWriting(c, writes)
	}
}

// countWriting records whether a task that begins may write.
func (e *Env) countWriting(c *Ctx, writes bool) {
	if c.writing = writes; writes {
		e.tasks.writing++
	}
}

// BeginQueued begins a task that was queued. If its command has to wait now, RunTask only returns
// true.
func (e *Env) BeginQueued(c *Ctx) {
	writes := c.mayWrite()
	if c.late = e.pauses(c) || writes && (e.tasks.pausing || e.tasks.global); !c.late {
		e.countWriting(c, writes)
	}
}

// pin ends the transaction of from and pins the values of its keys for c.
func (e *Env) pin(from, c *Ctx) {
	if from.Spec.Is(ReadOnly) {
		from.Txn.By = from.Client.ID // so that ran alone reports what has been due
		from.Txn.RemoveDue(from.Keys)
		e.Tracking.ran(from, true) // before a command that changes what it reads has its turn
		c.emitted, from.emitted = from.emitted, c.emitted
		c.emits = from.emits
	}
	c.Txn.By = c.Client.ID
	e.Pins.Pin(from.Txn, c.Keys, c.Txn)
}

// RunTask runs a task's command. onLoop runs a function on the loop and waits for its end; it
// returns false if the loop has ended. RunTask returns true if the command has had no effect and
// Dispatch must run again. Then either the command has to wait now, or the keys no longer have the
// values that were pinned or read.
func (e *Env) RunTask(c *Ctx, onLoop func(func()) bool) (again bool) {
	if c.mayWrite() && c.deposed() {
		return e.refuseDeposed(c)
	}
	switch c.Scope {
	case Pinned:
		return e.runPinned(c)
	case Global:
		c.final, c.onLoop = true, onLoop
		if c.apart {
			return e.runApart(c)
		}
		e.Store.BeginGlobal(c.Txn, c.Keys)
		if clear(c.Keys); cap(c.Keys) > maxKeptKeys {
			c.Keys = nil
		}
		c.Keys = c.Keys[:0]
		c.Txn.NoTouch = c.noTouch()
		e.run(c)
		c.Txn.FlushValues()
		c.LSN = max(c.LSN, c.Txn.End())
	default:
		if c.late {
			return true
		}
		if c.Spec.Keys != nil {
			c.Keys = e.keys(c.Spec, c.Args, c.Client.DB, c.Keys[:0])
		}
		return c.again(e.run(c))
	}
	return false
}

// runApart runs a command that needs only the shards of its keys. If the command now finds nothing
// and would wait for a key, it is dispatched again.
func (e *Env) runApart(c *Ctx) (again bool) {
	e.Store.BeginApart(c.Txn, c.Keys)
	c.Txn.NoTouch = c.noTouch()
	if err := c.load(c.Keys); err != nil {
		e.Stats.Errors.Add(1)
		c.reply(err)
	} else {
		again = c.again(e.run(c))
		c.Txn.FlushValues()
	}
	c.LSN = max(c.LSN, c.Txn.End())
	return again
}

func (e *Env) runPinned(c *Ctx) (again bool) {
	mark := c.Out.Len()
	if again = c.again(e.handle(c)); again {
		c.Out.Truncate(mark)
	} else if !c.Spec.Is(ReadOnly) {
		e.Tracking.ran(c, true)
	}
	c.LSN = max(c.LSN, c.Txn.End())
	return again
}

// beginBeside locks the shards of keys for a task of scope Unlocked, and reads keys that are not in
// memory. It returns the error of a read; then nothing is locked.
func (e *Env) beginBeside(t *storage.Txn, keys []storage.Key) error {
	if e.Store.Begin(t, keys) {
		return nil
	}
	if !t.BlockedByGlobal() {
		loaded := make(chan error, 1)
		e.Store.Load(keys, func(err error) { loaded <- err })
		if err := <-loaded; err != nil {
			return err
		}
	}
	return e.Store.BeginBeside(t, keys)
}

// EndTask ends a task that has run. It returns true if commands may wait for that: the caller
// dispatches them again.
func (e *Env) EndTask(c *Ctx) (awaited bool) {
	if c.writing {
		e.tasks.writing--
	}
	switch c.Scope {
	case Unlocked:
		c.Cancel()
		return c.writing
	case Pinned:
		e.Pins.Unpin(c.Txn)
		e.tasks.pinned--
	case Global:
		e.tasks.global, e.Busy = false, ""
	}
	e.tasks.awaited = false
	return true
}
