package commands

import (
	"sync"
	"time"

	"keyp/resp"
	"keyp/scripting"
	"keyp/storage"
)

// The errors of scripts.
const (
	errNoScript       Error = "NOSCRIPT No matching script. Please use EVAL."
	errNotBusy        Error = "NOTBUSY No scripts in execution right now."
	errUnkillable     Error = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
	errBusyScript     Error = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	errBusyFunction   Error = "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
	errNegativeKeys   Error = "ERR Number of keys can't be negative"
	errWritesReadOnly Error = "ERR Can not execute a script with write flag using *_ro command."

	errScriptUnknown Error = "ERR Unknown Redis command called from script"
	errScriptArity   Error = "ERR Wrong number of args calling Redis command from script"
	errScriptRefused Error = "ERR This Redis command is not allowed from script"
	errScriptEmits   Error = "ERR Too many messages and events wait for the end of the script"
	errScriptWrite   Error = "ERR Write commands are not allowed from read-only scripts."
)

// scriptRun is a running script or function: the handler of a global task, or part of EXEC.
type scriptRun struct {
	scripting.Run
	c        *Ctx
	client   Client // runs the script's commands; its own, as the script may SELECT
	readOnly bool
	crosses  bool // its commands may use several slots of a cluster
	slot     int  // the slot that its commands have used; -1: none yet
	function bool
	command  [][]byte
	began    time.Duration // a reading of Mono
	own      bool          // an error was not that of a command

	mu struct {
		sync.Mutex
		immune error // why it can't be killed any more: it has written, or it is over; nil: it can
		killed error // why it was killed; nil: it was not
	}
}

// newScriptRun prepares a run. Argument 2 is the number of keys; the keys and the script's
// arguments follow it. ro is true for a read-only command (EVAL_RO, …).
func newScriptRun(c *Ctx, name string, keys int, flags scriptFlags, strict,
	ro bool) (*scriptRun, error) {
	if strict && ro && flags&noWrites == 0 {
		return nil, errWritesReadOnly
	}
	if flags&noCluster != 0 && c.Env.clustered() {
		return nil, errScriptCluster
	}
	if strict && flags&noWrites == 0 {
		if err := c.Env.gateScript(c, c.Args[3:3+keys]); err != nil {
			return nil, err
		}
	}
	r := &scriptRun{c: c, command: c.Args, began: c.Env.Clock.Mono(), readOnly: ro ||
		flags&noWrites != 0, crosses: !strict || flags&allowCrossSlot != 0, slot: -1}
	r.Host, r.Name = r, name
	r.Keys, r.Args = c.Args[3:3+keys], c.Args[3+keys:]
	if keys > 0 {
		r.slot = int(storage.Slot(r.Keys[0])) // those of all, or route had refused the command
	}
	from := c.Client
	r.client = Client{
		ID: from.ID, Addr: "lua", user: from.user, Name: from.Name, DB: from.DB, Proto: 2,
		Authenticated: true, NoTouch: from.NoTouch,
	}
	return r, nil
}

// newCompilation returns a run that only compiles, or loads a library of functions.
func newCompilation(c *Ctx, function bool) *scriptRun {
	return &scriptRun{c: c, command: c.Args, began: c.Env.Clock.Mono(), function: function}
}

// numKeys parses argument 2, the number of keys that follow it. It returns notNumber if that is no
// number.
func numKeys(c *Ctx, notNumber Error) (int, error) {
	n, ok := ParseInt(c.Args[2])
	switch {
	case !ok:
		return 0, notNumber
	case n > int64(len(c.Args)-3):
		return 0, errManyKeys
	case n < 0:
		return 0, errNegativeKeys
	}
	return int(n), nil
}

// run makes the engine run the script and reply.
func (r *scriptRun) run(busy Error, work func()) {
	mark := r.c.Out.Len()
	if err := r.occupy(busy, work); err != nil {
		r.c.Out.Truncate(mark) // the engine has replied, and the script was killed only then
		r.c.reply(err)
	}
	r.c.counted = r.c.Out.Buf[mark] == '-' && !r.own
}

// occupy runs the engine's work, a compilation or a script. Meanwhile r is the current script,
// which SCRIPT KILL can end. Other clients are served; if the work takes too long, they get BUSY
// errors. If the run was killed, even at its very end, occupy returns the error for the client,
// unless the engine has replied with it. So a script does not run after its compilation was killed.
func (r *scriptRun) occupy(busy Error, work func()) error {
	e := r.c.Env
	outer := e.Scripts.current.Swap(r)
	// After current is set, so that a client that hears BUSY can kill the script.
	ended := e.scripting(busy)
	if r.c.deposed() {
		e.Deposed() // which may have come before
	}
	if e.Scripts.stopped.Load() {
		e.StopScript() // EndScripts came before this script was current
	}
	defer func() {
		ended()
		e.Scripts.current.Store(outer)
	}()
	r.yield(work)
	return r.end()
}

// end makes the run immune to kills. If the run was killed before and the engine has not replied
// with that error, end returns the error for the client.
func (r *scriptRun) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.mu.killed {
	case nil:
		r.mu.immune = errNotBusy
		return nil
	case r.Replied:
		return nil
	}
	return Error("ERR " + r.mu.killed.Error())
}

// Call runs a command that the script calls.
func (r *scriptRun) Call(args [][]byte, out *resp.Writer) {
	e := r.c.Env
	spec, err := e.resolveScripted(args)
	switch {
	case err != nil:
	case spec.Is(NoScript):
		err = errScriptRefused
	case r.permit(spec, args, &err):
	case r.routed(spec, args, &err):
	case r.c.emitsTooMuch():
		err = errScriptEmits
	case spec.Flags&(Write|MayReplicate) != 0 && r.readOnly:
		// Because of this error, CLIENT PAUSE WRITE need not delay a read-only script.
		err = errScriptWrite
	case spec.Is(Write) && e.Store.Follower():
		err = ErrReadOnly
	case spec.Is(Write) && e.Store.Full() && r.mayStop() &&
		e.noRoom(spec.Flags, r.c.Txn.BatchBytes()):
		err = ErrDiskFull
	case e.Outboxes.AnyFull() && r.refused(spec, args, &err):
	case spec.Is(DenyOOM) && r.c.batchTooLarge():
		err = errOOM
	case spec.Is(Write) && !r.write():
		err = ErrStopping // it is being killed: nobody reads the reply
	}
	if err != nil {
		e.Stats.Errors.Add(1)
		e.Stats.PerError.add([]byte(err.(Error)))
		out.Error(string(err.(Error)))
		return
	}
	if most := int(e.MaxReply.Load()); most > 0 {
		out.Max = min(out.Max, most)
	}
	r.client.Proto = out.Proto
	r.c.Txn.Resume()
	defer r.c.Txn.Yield()
	r.c.Call(spec, &r.client, args, out)
}

// mayStop reports whether a full disk may refuse a command of the script. As in Redis it may not
// after the script has written: otherwise only a part of the script's changes would stay. A script
// that has written very much is refused all the same.
func (r *scriptRun) mayStop() bool {
	const most = 1 << 20
	written := r.c.Txn.BatchBytes()
	return written == 0 || written > most
}

// routed reports whether this node of a cluster must not run a command. Then it sets err.
func (r *scriptRun) routed(spec *Spec, args [][]byte, err *error) bool {
	if refusal := r.c.Env.scriptRoute(spec, args, &r.slot, r.crosses,
		r.c.Client.ReadOnly); refusal != "" {
		*err = refusal
		return true
	}
	return false
}

// refused reports whether too many entries wait in an outbox whose pattern matches a key of a
// command. Then it sets err.
func (r *scriptRun) refused(spec *Spec, args [][]byte, err *error) bool {
	if refusal := r.c.Env.outboxRefuses(spec, args, r.client.DB); refusal != nil {
		*err = refusal
		return true
	}
	return false
}

// yield runs the engine's work while the transaction is not in use, so that others can run
// meanwhile. A command that the script calls resumes the transaction.
func (r *scriptRun) yield(work func()) {
	r.c.Txn.Yield()
	defer r.c.Txn.Resume()
	work()
}

// resolveScripted returns the command that a script calls, or an error.
func (e *Env) resolveScripted(args [][]byte) (*Spec, error) {
	spec := e.Table.Of(args)
	if spec == nil {
		return nil, errScriptUnknown
	}
	if !spec.takes(len(args)) || spec.Run == nil {
		return nil, errScriptArity
	}
	return spec, nil
}

// permit reports whether the script's user may not run a command. Then it sets err.
func (r *scriptRun) permit(spec *Spec, args [][]byte, err *error) bool {
	*err = r.c.permitScripted(spec, args)
	return *err != nil
}

// Allowed implements redis.acl_check_cmd.
func (r *scriptRun) Allowed(args [][]byte) (may, known bool) {
	spec := r.c.Env.Table.Of(args)
	if spec == nil {
		return false, false
	}
	d, _ := r.client.user.permissions().check(spec, args)
	return d == allowed, true
}

// CountError counts an error reply, but not its code, which the script's reply counts.
func (r *scriptRun) CountError() {
	r.c.Env.Stats.Errors.Add(1)
	r.own = true
}

// write records that the script is about to write. It returns false if the script was killed.
func (r *scriptRun) write() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.killed == nil {
		r.mu.immune = errUnkillable
	}
	return r.mu.killed == nil
}

// kill ends the script unless it has written or is over.
func (r *scriptRun) kill(why error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.immune == nil {
		r.mu.killed = why
		r.Kill(why)
	}
	return r.mu.immune
}

// StopScript ends the running script, unless it has written, because the server is stopping.
func (e *Env) StopScript() {
	if r := e.Scripts.current.Load(); r != nil {
		if err := r.kill(scripting.ErrKilled); err != nil {
			e.Log.Warn("a script that has written keeps the server from stopping", "error", err)
		}
	}
}

// EndScripts ends the running script, if there is one, and every script that begins later. Like
// StopScript it does not end a script that has written.
func (e *Env) EndScripts() {
	e.Scripts.stopped.Store(true)
	e.StopScript()
}

// killScript implements SCRIPT KILL, which ends scripts, and FUNCTION KILL, which ends functions.
func killScript(c *Ctx, function bool) error {
	r := c.Env.Scripts.current.Load()
	switch {
	case r == nil:
		return errNotBusy
	case r.function && !function:
		return errBusyFunction
	case !r.function && function:
		return errBusyScript
	}
	why := scripting.ErrKilled
	if function {
		why = scripting.ErrFunctionKilled
	}
	if err := r.kill(why); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}
