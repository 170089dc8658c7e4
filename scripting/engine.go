package scripting

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"keyp/resp"
	"keyp/scripting/lua"
)

// Options configure an Engine.
type Options struct {
	// Memory is the memory limit of a script with its interpreter, in bytes; 0 means 256 MB.
	Memory int64
	// Version is the Redis version that scripts read, such as "8.6.0".
	Version string
	Log     *slog.Logger
	// CPU returns the time for os.clock, from a clock that never steps; nil means 0.
	CPU func() time.Duration
}

// Host is the server's side of a running script. Its methods are called by the goroutine that
// called Engine's method.
type Host interface {
	// Call runs a command and appends its reply, in out's protocol. The arguments are the script's
	// own strings: Call must not write to them or keep them.
	Call(args [][]byte, out *resp.Writer)
	// Allowed reports whether the user may run a command; known is false for a command that does
	// not exist.
	Allowed(args [][]byte) (allowed, known bool)
	// CountError counts an error reply that no command has counted.
	CountError()
}

// The reasons to end a script.
var (
	//lint:ignore ST1005 Redis words it like that
	ErrKilled = errors.New("Script killed by user with SCRIPT KILL...")
	//lint:ignore ST1005 Redis words it like that
	ErrFunctionKilled = errors.New("Script killed by user with FUNCTION KILL.")
	ErrMemory         = errors.New("not enough memory")
	ErrStopping       = errors.New("the server is shutting down")
)

// Engine runs scripts. Any goroutine may call its methods; each running script has its own state.
type Engine struct {
	o Options

	mu struct {
		sync.Mutex
		states []*state // idle
		random rand48   // where the last script left the random numbers
	}
}

// idleStates is how many interpreters are kept for the next scripts.
const idleStates = 2

// DefaultMemory is the memory limit of a program where Options has none, in bytes.
const DefaultMemory = 256 << 20

// New returns an engine.
func New(o Options) *Engine {
	if o.Memory <= 0 {
		o.Memory = DefaultMemory
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.CPU == nil {
		o.CPU = func() time.Duration { return 0 }
	}
	e := &Engine{o: o}
	e.mu.random = rand48{rand48First}
	return e
}

// chunkName is the name of an EVAL script in errors, functionChunk that of a library.
const (
	chunkName     = "@user_script"
	functionChunk = "@user_function"
)

// Script is a compiled EVAL script. It never changes.
type Script struct {
	program *lua.Program
}

// Bytes returns the memory of the compiled script, in bytes.
func (s *Script) Bytes() int64 { return s.program.Bytes() }

// Compile compiles an EVAL script's program, without its shebang line. The error's text is
// Lua's, "user_script:1: …". Killing r ends the compilation soon, with the reason as the error; r
// may be nil.
func (e *Engine) Compile(source string, r *Run) (*Script, error) {
	program, err := e.compile(source, chunkName, r)
	if err != nil {
		return nil, err
	}
	return &Script{program}, nil
}

// compile compiles a program within the memory limit of a script. Killing r ends the compilation.
func (e *Engine) compile(source, name string, r *Run) (*lua.Program, error) {
	o := lua.CompileOptions{Name: name, Memory: e.o.Memory}
	if r != nil {
		o.Stop = &r.stop
	}
	program, err := lua.Compile(source, o)
	if errors.Is(err, lua.ErrStopped) {
		err = r.why()
	}
	return program, err
}

// Run is one execution of a script or function.
type Run struct {
	Host Host
	Name string // in errors: the script's SHA1, the function's name
	Keys [][]byte
	Args [][]byte
	// Replied is the reason why the run was killed, if the reply says so; otherwise nil.
	Replied error

	stop atomic.Bool // it was killed; ends compilations for it

	mu struct {
		sync.Mutex
		active *lua.State // that runs it; nil: before and after
		ended  error      // why it was killed
	}
}

// Kill ends the script at its next call or backward jump, and compilations for it. The script
// cannot catch this. Before the run, Kill prevents the run; after the run, it does nothing. Any
// goroutine may call it.
func (r *Run) Kill(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.active != nil {
		r.mu.active.Kill(why)
	}
	if r.mu.ended == nil {
		r.mu.ended = why
	}
	r.stop.Store(true)
}

// why returns the reason for which the run was killed.
func (r *Run) why() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.ended
}

// begin makes the state known to Kill, unless the run was killed before.
func (r *Run) begin(st *state) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.ended != nil {
		return r.mu.ended
	}
	r.mu.active = st.L
	return nil
}

func (r *Run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.active = nil
}

var (
	globalKeys = lua.Constant("KEYS")
	globalArgv = lua.Constant("ARGV")
)

// Eval runs a script and appends its reply to out, in out's protocol.
func (e *Engine) Eval(s *Script, r *Run, out *resp.Writer) {
	st := e.take()
	st.execute(r, out, func(L *lua.State) int {
		st.globals.Set(L, globalKeys, st.list(r.Keys))
		st.globals.Set(L, globalArgv, st.list(r.Args))
		L.Push(L.Load(s.program, nil))
		return 0
	})
	st.globals.Set(st.L, globalKeys, lua.Nil)
	st.globals.Set(st.L, globalArgv, lua.Nil)
	e.give(st)
}

// take returns an idle interpreter, or a new one.
func (e *Engine) take() *state {
	e.mu.Lock()
	if n := len(e.mu.states); n > 0 {
		st := e.mu.states[n-1]
		e.mu.states = e.mu.states[:n-1]
		e.mu.Unlock()
		return st
	}
	e.mu.Unlock()
	st := e.newState(false)
	st.L.SetMemoryLimit(e.o.Memory)
	return st
}

func (e *Engine) give(st *state) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.mu.states) < idleStates {
		e.mu.states = append(e.mu.states, st)
	}
}

// Memory returns the memory of the idle interpreters, in bytes.
func (e *Engine) Memory() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	total := int64(0)
	for _, st := range e.mu.states {
		total += st.L.Memory()
	}
	return total
}

// list pushes and returns a table of strings.
func (st *state) list(items [][]byte) lua.Value {
	t := st.L.NewTable(len(items), 0)
	st.L.Push(t.Value())
	for i, item := range items {
		t.SetInt(st.L, i+1, st.L.Bytes(item))
	}
	return t.Value()
}

// execute runs a function within r's bounds and appends its result or error to out. prepare pushes
// the function and its arguments, and returns the number of arguments.
func (st *state) execute(r *Run, out *resp.Writer, prepare lua.Builtin) {
	st.reset()
	if why := r.begin(st); why != nil {
		r.Replied = why
		out.Error("ERR " + why.Error())
		return
	}
	defer func() { // also when the host panics
		r.end()
		st.run = nil
		st.L.Reset()
	}()
	st.run, st.prepare = r, prepare
	st.random = st.engine.lastRandom()
	results, fault := st.L.PCall(st.entry, nil, st.raise)
	st.engine.keepRandom(st.random)
	mark := out.Len()
	switch {
	case fault != nil && fault.Killed == nil:
		st.replyFault(r, fault.Value, out)
	case fault == nil && len(results) > 0:
		st.replyValue(results[0], out, 0)
	case fault == nil:
		st.replyValue(lua.Nil, out, 0)
	}
	if why := st.L.Killed(); why != nil {
		out.Truncate(mark)
		st.replyEnd(r, why, out)
	}
}

// enter is the outermost function of every run. It calls prepare, so the limits also hold for the
// preparation of a run.
func (st *state) enter(L *lua.State) int {
	return L.CallTop(st.prepare(L), -1)
}

// lastRandom returns the state of the random numbers with which the next script begins.
func (e *Engine) lastRandom() rand48 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.random
}

func (e *Engine) keepRandom(r rand48) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.random = r
}

// raise adds to an uncaught error the place where it was raised. It runs before the stack is
// unwound.
func (st *state) raise(L *lua.State, v lua.Value) lua.Value {
	t := v.AsTable()
	switch {
	case t == nil:
		t = st.errorTable(L.String("ERR "+shownError(L.ToString(v))), false)
	case t.Readonly(): // a library table, which the next script uses too
		t = st.errorTable(L.String("ERR Attempt to modify a readonly table"), false)
	}
	source, line := "=[C]", -1
	for level := range 2 {
		if name, at, ok := L.Place(level); ok {
			source, line = "@"+name, at
			break
		}
	}
	t.Set(L, fieldSource, L.String(source))
	t.Set(L, fieldLine, lua.Number(float64(line)))
	return t.Value()
}

// replyEnd writes the error reply of a killed script: the reason, and the place where it ended.
func (st *state) replyEnd(r *Run, why error, out *resp.Writer) {
	message := "ERR " + why.Error()
	if source, line, ok := st.L.EndedAt(); ok {
		message += " script: " + r.Name + ", on @" + source + ":" + strconv.Itoa(line) + "."
	}
	r.Host.CountError()
	r.Replied = why
	out.Error(message)
}

// replyFault writes the error reply for an uncaught error.
func (st *state) replyFault(r *Run, fault lua.Value, out *resp.Writer) {
	t := fault.AsTable()
	if t == nil {
		message, _ := fault.Text()
		r.Host.CountError()
		out.Error("ERR Error running script " + r.Name + ", " + message[:min(len(message), 100)])
		return
	}
	message := shownError(faultText(t))
	source, okSource := t.Get(fieldSource).Text()
	line, okLine := t.Get(fieldLine).Text()
	if okSource && okLine {
		message += " script: " + r.Name + ", on " + source + ":" + line + "."
	}
	if !t.Get(fieldCounted).RawEqual(lua.True) {
		r.Host.CountError()
	}
	out.Error(st.oneLine(strings.TrimRight(message, "\r\n")))
}

// faultText returns the text of an error that is a table.
func faultText(t *lua.Table) string {
	if message, ok := t.Get(fieldErr).Text(); ok {
		return message
	}
	return "ERR unknown error"
}

// versionNumber returns a version as one number: 0x00MMmmpp.
func versionNumber(version string) int {
	n := 0
	for _, part := range strings.SplitN(version, ".", 3) {
		v, _ := strconv.Atoi(part) // a part that is no number counts as 0
		n = n<<8 | v&0xff
	}
	return n
}
