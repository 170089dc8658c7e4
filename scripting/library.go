package scripting

import (
	"errors"
	"sync"
	"time"

	lua "github.com/yuin/gopher-lua"

	"keyp/server/resp"
)

// Function is what a library registered.
type Function struct {
	Name        string
	Description string
	Described   bool
	Flags       []string // as they were given

	fn *lua.LFunction
}

// Library is a loaded library of functions, with an interpreter of its own: its local
// variables live as long as it does.
type Library struct {
	Functions []*Function // in the order in which they were registered

	mu   sync.Mutex // held while one of its functions runs
	st   *state
	seen map[string]*Function
}

// FunctionFlags are the flags that a function may have.
var FunctionFlags = []string{"no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"}

// Load runs a library's program, without its shebang line, which registers its functions.
// The error's text is what a client is told, without a code. It may take most; 0: however long
// it takes.
func (e *Engine) Load(source string, most time.Duration) (*Library, error) {
	proto, err := compile(source, functionChunk)
	if err != nil {
		return nil, errors.New("Error compiling function: " + err.Error())
	}
	lib := &Library{st: e.newState(true), seen: map[string]*Function{}}
	st := lib.st
	st.reset()
	st.loading = lib
	fn := st.L.NewFunctionFromProto(proto)
	fn.Env = st.env
	if most > 0 {
		timer := time.AfterFunc(most, func() { st.interrupt.end(errors.New("FUNCTION LOAD timeout")) })
		defer timer.Stop()
	}
	th, fault := st.protected(st.L, fn, nil, st.raise)
	st.loading = nil
	if why := st.interrupt.Err(); why != nil {
		return nil, errors.New("Error registering functions: ERR " + why.Error())
	}
	if th == nil {
		return nil, errors.New("Error registering functions: " + loadFault(fault))
	}
	if len(lib.Functions) == 0 {
		return nil, errors.New("No functions registered") //lint:ignore ST1005 Redis words it like that
	}
	return lib, nil
}

// loadFault is the text of an error that ended a library's program.
func loadFault(fault lua.LValue) string {
	t, ok := fault.(*lua.LTable)
	if !ok {
		message, _ := text(fault)
		return message
	}
	message, _ := text(t.RawGetString("err"))
	return message
}

// Call runs a function of the library and appends its reply to out.
func (e *Engine) Call(lib *Library, f *Function, r *Run, out *resp.Writer) {
	lib.mu.Lock()
	defer lib.mu.Unlock()
	st := lib.st
	st.execute(r, f.fn, []lua.LValue{st.list(r.Keys), st.list(r.Args)}, out)
	if st.interrupt.Err() != nil {
		st.interrupt = newInterrupt()
	}
	st.broken = false
}

// redisRegister is redis.register_function, with a name and a function, or a table.
func (st *state) redisRegister(L *lua.LState) int {
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
func registered(L *lua.LState) (f *Function, problem string) {
	switch n := L.GetTop(); {
	case n < 1 || n > 2:
		return nil, "wrong number of arguments to redis.register_function"
	case n == 1:
		t, ok := L.Get(1).(*lua.LTable)
		if !ok {
			return nil, "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments)."
		}
		return namedArguments(t)
	}
	name, ok := text(L.Get(1))
	if !ok {
		return nil, "first argument to redis.register_function must be a string"
	}
	fn, ok := L.Get(2).(*lua.LFunction)
	if !ok || fn.IsG {
		return nil, "second argument to redis.register_function must be a function"
	}
	return &Function{Name: name, fn: fn}, ""
}

func namedArguments(t *lua.LTable) (f *Function, problem string) {
	f = &Function{}
	for key, value := t.Next(lua.LNil); key != lua.LNil; key, value = t.Next(key) {
		name, ok := key.(lua.LString)
		if !ok {
			return nil, "named argument key given to redis.register_function is not a string"
		}
		switch name {
		case "function_name":
			if f.Name, ok = text(value); !ok {
				return nil, "function_name argument given to redis.register_function must be a string"
			}
		case "description":
			if f.Description, f.Described = text(value); !f.Described {
				return nil, "description argument given to redis.register_function must be a string"
			}
		case "callback":
			if f.fn, ok = value.(*lua.LFunction); !ok || f.fn.IsG {
				return nil, "callback argument given to redis.register_function must be a function"
			}
		case "flags":
			flags, ok := value.(*lua.LTable)
			if !ok {
				return nil, "flags argument to redis.register_function must be a table representing function flags"
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
	if f.fn == nil {
		return nil, "redis.register_function must get a callback argument"
	}
	return f, ""
}

func functionFlags(t *lua.LTable) (flags []string, ok bool) {
	for i := 1; ; i++ {
		v := t.RawGetInt(i)
		if v == lua.LNil {
			return flags, true
		}
		name, _ := v.(lua.LString)
		known := false
		for _, flag := range FunctionFlags {
			known = known || flag == string(name)
		}
		if !known {
			return nil, false
		}
		flags = append(flags, string(name))
	}
}

// register takes a function in; problem says why not.
func (lib *Library) register(f *Function) (problem string) {
	if !ValidName(f.Name) {
		return "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"
	}
	if lib.seen[f.Name] != nil {
		return "Function already exists in the library"
	}
	lib.seen[f.Name] = f
	lib.Functions = append(lib.Functions, f)
	return ""
}

// Function gives a library's function by its name; nil if it has none.
func (lib *Library) Function(name string) *Function { return lib.seen[name] }

// ValidName says whether a library or function may have a name.
func ValidName(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isAlpha(c) && !isDigit(c) && c != '_' {
			return false
		}
	}
	return name != ""
}
