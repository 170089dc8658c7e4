package scripting

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"keyp/resp"
	"keyp/scripting/lua"
)

// Function is a function that a library registered.
type Function struct {
	Name        string
	Description string
	Described   bool
	Flags       []string // as they were given

	fn lua.Value // also in the registry
}

// Library is a loaded library of functions, with an interpreter of its own: its local
// variables live as long as it does.
type Library struct {
	Functions []*Function // in the order in which they were registered

	program *lua.Program
	seen    map[string]*Function
	memory  atomic.Int64 // of the interpreter when last measured, in bytes

	mu struct { // locked while one of its functions runs
		sync.Mutex
		st *state
	}
}

// FunctionFlags are the flags that a function may have.
var FunctionFlags = []string{"no-writes", "allow-oom", "allow-stale", "no-cluster",
	"allow-cross-slot-keys"}

// errLoadTime is Redis's word for a library that takes too long to load.
var errLoadTime = errors.New("FUNCTION LOAD timeout")

// Load runs a library's program, without its shebang line. The program registers the functions. The
// error's text is for the client, without a code. The program may run for the time most, as in
// Redis; time in which the process is stopped hardly counts. Compiling takes time in proportion to
// the program's length. Killing r ends compiling and running; r may be nil.
func (e *Engine) Load(source string, most time.Duration, r *Run) (*Library, error) {
	if r == nil {
		r = &Run{}
	}
	program, err := e.compile(source, functionChunk, r)
	if err != nil {
		return nil, errors.New("Error compiling function: " + err.Error())
	}
	defer killAfter(r, most)()
	lib := &Library{program: program, seen: map[string]*Function{}}
	lib.mu.st = e.newState(true)
	if err := lib.load(r); err != nil {
		return nil, err
	}
	if len(lib.Functions) == 0 {
		//lint:ignore ST1005 Redis words it like that
		return nil, errors.New("No functions registered")
	}
	return lib, nil
}

// killAfter kills r with errLoadTime after the time most, unless stop is called before. It counts
// the time in ticks, and a pause of the whole process, however long, counts as one tick. So such a
// pause during a start does not make a library fail to load.
func killAfter(r *Run, most time.Duration) (stop func()) {
	const parts = 20
	ended := make(chan struct{})
	go func() {
		tick := time.NewTicker(most / parts)
		defer tick.Stop()
		for range parts {
			select {
			case <-tick.C:
			case <-ended:
				return
			}
		}
		r.Kill(errLoadTime)
	}()
	return func() { close(ended) }
}

// load runs the program. Its environment has only the functions that register functions, as in
// Redis; then the same table becomes the environment of its functions.
func (lib *Library) load(r *Run) error {
	st := lib.mu.st
	L := st.L
	env := st.loadGlobals()
	L.SetMemoryLimit(st.engine.o.Memory)
	st.reset()
	if why := r.begin(st); why != nil {
		return errors.New("Error registering functions: ERR " + why.Error())
	}
	st.loading = lib
	_, fault := L.PCall(L.Load(lib.program, env), nil, st.raise)
	st.loading = nil
	r.end()
	if fault != nil && fault.Killed != nil {
		return errors.New("Error registering functions: ERR " + fault.Killed.Error())
	}
	if fault != nil {
		return errors.New("Error registering functions: " + loadFault(fault.Value))
	}
	L.Reset()
	st.share(env)
	L.SetMemoryLimit(st.engine.o.Memory)
	lib.memory.Store(L.Allocated())
	return nil
}

// loadGlobals returns the globals of a library's program while it loads.
func (st *state) loadGlobals() *lua.Table {
	L := st.L
	library, globals := L.NewTable(0, 8), L.NewTable(0, 1)
	L.Register(library, map[string]lua.Builtin{"register_function": st.redisRegister,
		"log": st.redisLog})
	st.logLevels(library)
	library.SetMetatable(st.strict())
	globals.SetString(L, "redis", library.Value())
	st.lock(globals)
	return globals
}

// share makes env a table with all globals.
func (st *state) share(env *lua.Table) {
	for key, value, _ := st.globals.Next(lua.Nil); !key.IsNil(); key, value,
		_ = st.globals.Next(key) {
		env.Set(st.L, key, value)
	}
	env.SetString(st.L, "_G", env.Value())
	st.globals = env
	st.L.SetGlobals(env)
}

// loadFault returns the text of an error that ended a library's program.
func loadFault(fault lua.Value) string {
	if t := fault.AsTable(); t != nil {
		return faultText(t)
	}
	message, _ := fault.Text()
	return message
}

// Bytes returns the memory of the library in bytes, as of the interpreter's last measurement.
func (lib *Library) Bytes() int64 { return lib.memory.Load() + lib.program.Bytes() }

// Memory returns the memory of the library with its interpreter and its program, in bytes. While a
// function of the library runs, the interpreter counts with its last measured size.
func (lib *Library) Memory() int64 {
	if lib.mu.TryLock() { // otherwise the size before the running function
		lib.memory.Store(lib.mu.st.L.Memory())
		lib.mu.Unlock()
	}
	return lib.Bytes()
}

// Call runs a function of the library and appends its reply to out.
func (e *Engine) Call(lib *Library, f *Function, r *Run, out *resp.Writer) {
	lib.mu.Lock()
	defer lib.mu.Unlock()
	st := lib.mu.st
	st.execute(r, out, func(L *lua.State) int {
		keys := st.list(r.Keys)
		args := st.list(r.Args)
		L.Push(f.fn)
		L.Push(keys)
		L.Push(args)
		return 2
	})
}

// redisRegister implements redis.register_function. It takes a name and a function, or one table.
func (st *state) redisRegister(L *lua.State) int {
	if st.loading == nil {
		st.throwError(L, "redis.register_function can only be called on FUNCTION LOAD command")
	}
	f, problem := registered(L)
	if problem == "" {
		problem = st.loading.register(f)
	}
	if problem != "" {
		st.throwError(L, problem)
	}
	return 0
}

// registered reads the arguments of redis.register_function.
func registered(L *lua.State) (f *Function, problem string) {
	switch n := L.NArgs(); {
	case n < 1 || n > 2:
		return nil, "wrong number of arguments to redis.register_function"
	case n == 1:
		t := L.Arg(1).AsTable()
		if t == nil {
			return nil,
				"calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments)."
		}
		return namedArguments(t)
	}
	name, ok := L.Arg(1).Text()
	if !ok {
		return nil, "first argument to redis.register_function must be a string"
	}
	if !isCallback(L.Arg(2)) {
		return nil, "second argument to redis.register_function must be a function"
	}
	return &Function{Name: name, fn: L.Arg(2)}, ""
}

func namedArguments(t *lua.Table) (f *Function, problem string) {
	f = &Function{}
	for key, value, _ := t.Next(lua.Nil); !key.IsNil(); key, value, _ = t.Next(key) {
		name, ok := key.AsString()
		if !ok {
			return nil, "named argument key given to redis.register_function is not a string"
		}
		switch name {
		case "function_name":
			if f.Name, ok = value.Text(); !ok {
				return nil,
					"function_name argument given to redis.register_function must be a string"
			}
		case "description":
			if f.Description, f.Described = value.Text(); !f.Described {
				return nil, "description argument given to redis.register_function must be a string"
			}
		case "callback":
			if f.fn = value; !isCallback(value) {
				return nil, "callback argument given to redis.register_function must be a function"
			}
		case "flags":
			flags := value.AsTable()
			if flags == nil {
				return nil,
					"flags argument to redis.register_function must be a table representing function flags"
			}
			if f.Flags, ok = functionFlags(flags); !ok {
				return nil, "unknown flag given"
			}
		default:
			return nil, "unknown argument given to redis.register_function"
		}
	}
	if f.Name == "" {
		return nil, "redis.register_function must get a function name argument"
	}
	if f.fn.IsNil() {
		return nil, "redis.register_function must get a callback argument"
	}
	return f, ""
}

// isCallback reports whether a value is a function of a program.
func isCallback(v lua.Value) bool {
	fn := v.AsFunction()
	return fn != nil && !fn.IsBuiltin()
}

func functionFlags(t *lua.Table) (flags []string, ok bool) {
	for i := 1; ; i++ {
		v := t.GetInt(i)
		if v.IsNil() {
			return flags, true
		}
		name, _ := v.AsString()
		known := false
		for _, flag := range FunctionFlags {
			known = known || flag == name
		}
		if !known {
			return nil, false
		}
		if !slices.Contains(flags, name) {
			flags = append(flags, name)
		}
	}
}

// register adds a function to the library; problem is the error, empty if there is none.
func (lib *Library) register(f *Function) (problem string) {
	if !ValidName(f.Name) {
		return "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"
	}
	if lib.seen[f.Name] != nil {
		return "Function already exists in the library"
	}
	lib.mu.st.keep(f)
	lib.seen[f.Name] = f
	lib.Functions = append(lib.Functions, f)
	return ""
}

// keep puts a function and its texts into the registry, so that the state measures them. The table
// that holds the texts stands for the size of the Function.
func (st *state) keep(f *Function) {
	L := st.L
	texts := L.NewTable(2, 0)
	L.Push(texts.Value())
	texts.SetInt(L, 1, L.String(f.Name))
	texts.SetInt(L, 2, L.String(f.Description))
	L.Registry().Set(L, texts.Value(), f.fn)
	L.Pop(1)
}

// Function returns a library's function by its name; nil if it has none.
func (lib *Library) Function(name string) *Function { return lib.seen[name] }

// ValidName reports whether a library or function may have this name.
func ValidName(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isAlpha(c) && !isDigit(c) && c != '_' {
			return false
		}
	}
	return name != ""
}
