package scripting

import (
	"errors"
	"log/slog"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lua "github.com/yuin/gopher-lua"

	"keyp/server/resp"
)

// Options are what an Engine is made with.
type Options struct {
	// Memory is how much a script may take, with its interpreter, and how long a string may
	// be, in bytes; 0: 256 MB.
	Memory int64
	// Version is Redis's version that scripts are told, "7.4.0".
	Version string
	Log     *slog.Logger
	// CPU is the time that os.clock tells, a reading that never steps.
	CPU func() time.Duration
}

// Host is what a running script asks of the server. It is called by the goroutine that
// called Engine's method.
type Host interface {
	// Call runs a command and appends its reply, in out's protocol. The arguments are
	// valid until it returns.
	Call(args [][]byte, out *resp.Writer)
	// Allowed says whether the user may run a command; known is false for one that does
	// not exist.
	Allowed(args [][]byte) (allowed, known bool)
	// CountError counts an error reply that no command has counted.
	CountError()
}

// The reasons for which a script is ended.
var (
	ErrKilled         = errors.New("Script killed by user with SCRIPT KILL...") //lint:ignore ST1005 Redis words it like that
	ErrFunctionKilled = errors.New("Script killed by user with FUNCTION KILL.") //lint:ignore ST1005 Redis words it like that
	ErrMemory         = errors.New("not enough memory")
	ErrStopping       = errors.New("the server is shutting down")
)

// Engine runs scripts. Its methods may be called by any goroutine; each running script has
// a state of its own.
type Engine struct {
	o Options

	mu     sync.Mutex
	states []*state      // idle
	random rand48        // where the last script left the random numbers
	told   time.Duration // when tell last logged
	looks  atomic.Int64  // at scripts that did not take too much, for tests
}

// idleStates is how many interpreters are kept for the next scripts.
const idleStates = 2

// New gives an engine.
func New(o Options) *Engine {
	const memory = 256 << 20
	if o.Memory <= 0 {
		o.Memory = memory
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.CPU == nil {
		o.CPU = func() time.Duration { return 0 }
	}
	return &Engine{o: o, random: rand48{rand48First}}
}

// Script is a compiled EVAL script. It never changes.
type Script struct {
	proto *lua.FunctionProto
}

// Compile compiles an EVAL script's program, without its shebang line. The error's text is
// Lua's, "user_script:1: …".
func Compile(source string) (*Script, error) {
	proto, err := compile(source, chunkName)
	if err != nil {
		return nil, err
	}
	return &Script{proto}, nil
}

// Run is one execution of a script or function.
type Run struct {
	Host Host
	Name string // in errors: the script's SHA1, the function's name
	Keys [][]byte
	Args [][]byte

	mu     sync.Mutex
	active *interrupt // of the state that runs it; nil: before and after
	ended  error      // it was killed before it began
	timer  *time.Timer
}

// Kill ends the script at its next instruction, whatever it does to catch errors. Before
// the run it keeps it from beginning, after it it does nothing. Any goroutine may call it.
func (r *Run) Kill(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active != nil {
		r.active.end(why)
	}
	if r.ended == nil {
		r.ended = why
	}
}

// Eval runs a script and appends its reply to out, in out's protocol.
func (e *Engine) Eval(s *Script, r *Run, out *resp.Writer) {
	st := e.take()
	fn := st.L.NewFunctionFromProto(s.proto)
	fn.Env = st.env
	st.globals.RawSetString("KEYS", st.list(r.Keys))
	st.globals.RawSetString("ARGV", st.list(r.Args))
	st.execute(r, fn, nil, out)
	st.globals.RawSetString("KEYS", lua.LNil)
	st.globals.RawSetString("ARGV", lua.LNil)
	e.give(st)
}

// take gives an idle interpreter, or a new one.
func (e *Engine) take() *state {
	e.mu.Lock()
	if n := len(e.states); n > 0 {
		st := e.states[n-1]
		e.states = e.states[:n-1]
		e.mu.Unlock()
		return st
	}
	e.mu.Unlock()
	return e.newState(false)
}

// give takes an interpreter back, unless something went wrong in it.
func (e *Engine) give(st *state) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !st.broken && len(e.states) < idleStates {
		e.states = append(e.states, st)
	}
}

// StateBytes is about what an interpreter takes that has run nothing, in bytes. Each library
// of functions has one.
const StateBytes = 160 << 10

// Memory is about what the idle interpreters take, in bytes.
func (e *Engine) Memory() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int64(len(e.states)) * StateBytes
}

func (st *state) list(items [][]byte) *lua.LTable {
	t := st.L.CreateTable(len(items), 0)
	for i, item := range items {
		t.RawSetInt(i+1, lua.LString(item))
	}
	return t
}

// execute calls a function for r, with Run's bounds, and replies its result or its error.
func (st *state) execute(r *Run, fn *lua.LFunction, args []lua.LValue, out *resp.Writer) {
	st.reset()
	st.run = r
	if why := r.begin(st); why != nil {
		out.Error("ERR " + why.Error())
		st.run = nil
		return
	}
	defer r.end() // also when the host panics
	th, fault := st.protected(st.L, fn, args, st.raise)
	r.end()
	why := st.interrupt.Err()
	st.engine.keepRandom(st.random)
	if why != nil {
		st.broken = true
		fault = st.killed(fault, why)
		th = nil
	}
	if th == nil {
		st.replyFault(r, fault, out)
	} else {
		var result lua.LValue = lua.LNil
		if th.GetTop() > 0 {
			result = th.Get(1)
		}
		st.replyValue(result, out, 0)
		st.release(th)
	}
	st.run = nil
}

// lastRandom is where the random numbers of the next script begin.
func (e *Engine) lastRandom() rand48 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.random
}

func (e *Engine) keepRandom(r rand48) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.random = r
}

// watchEvery is the period at which a running script's memory is looked at.
const watchEvery = 10 * time.Millisecond

func (r *Run) begin(st *state) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return r.ended
	}
	r.active = st.interrupt
	st.random = st.engine.lastRandom()
	st.interrupt.look = st.look
	st.interrupt.due.Store(false)
	r.timer = time.AfterFunc(watchEvery, func() { r.watch(st) })
	return nil
}

func (r *Run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = nil
	r.timer.Stop()
}

// watch has the script look at what it takes when the heap has grown.
func (r *Run) watch(st *state) {
	size := heapSize()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active == nil {
		return
	}
	if st.gauge.grown(size) {
		r.active.due.Store(true)
	}
	r.timer.Reset(watchEvery)
}

// tellPause is the least time between what scripts make the server log of their memory.
const tellPause = 10 * time.Second

// tell logs a warning, unless there was one of late.
func (e *Engine) tell(text string, args ...any) {
	e.mu.Lock()
	now := e.o.CPU()
	quiet := e.told > 0 && now-e.told < tellPause
	if !quiet {
		e.told = max(now, 1)
	}
	e.mu.Unlock()
	if !quiet {
		e.o.Log.Warn(text, args...)
	}
}

// heapSize is the size of the heap's objects, garbage included, in bytes.
func heapSize() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// raise adds to an error that nothing catches where it was raised, before that is unwound.
func (st *state) raise(L *lua.LState) {
	value := L.Get(-1)
	t, ok := value.(*lua.LTable)
	if !ok {
		t = st.L.NewTable()
		t.RawSetString("err", lua.LString("ERR "+reword(st.tostring(L, value))))
	}
	for level := range 2 {
		if source, line, ok := place(L, level); ok {
			t.RawSetString("source", lua.LString("@"+source))
			t.RawSetString("line", lua.LNumber(line))
			break
		}
	}
	panic(&lua.ApiError{Type: lua.ApiErrorRun, Object: t})
}

// killed is the error of a script that was ended: the reason, and where it was.
func (st *state) killed(fault lua.LValue, why error) lua.LValue {
	t, ok := fault.(*lua.LTable)
	if !ok {
		t = st.L.NewTable()
	}
	t.RawSetString("err", lua.LString("ERR "+why.Error()))
	return t
}

// replyFault replies an error that nothing has caught.
func (st *state) replyFault(r *Run, fault lua.LValue, out *resp.Writer) {
	t, ok := fault.(*lua.LTable)
	if !ok {
		message, _ := text(fault)
		r.Host.CountError()
		out.Error("ERR Error running script " + r.Name + ", " + message[:min(len(message), 100)])
		return
	}
	message, _ := text(t.RawGetString("err"))
	source, okSource := text(t.RawGetString("source"))
	line, okLine := text(t.RawGetString("line"))
	if okSource && okLine {
		message += " script: " + r.Name + ", on " + source + ":" + line + "."
	}
	if t.RawGetString("ignore_error_stats_update") != lua.LTrue {
		r.Host.CountError()
	}
	out.Error(oneLine(message))
}

// oneLine makes of line ends what a reply of one line can have.
func oneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '\r' || c == '\n' {
			return ' '
		}
		return c
	}, strings.TrimRight(s, "\r\n"))
}

// versionNumber is a version as one number: 0x00MMmmpp.
func versionNumber(version string) int {
	n := 0
	for _, part := range strings.SplitN(version, ".", 3) {
		v, _ := strconv.Atoi(part) // what is no number counts as 0
		n = n<<8 | v&0xff
	}
	return n
}
