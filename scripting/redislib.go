package scripting

import (
	"crypto/sha1"
	"encoding/hex"
	"log/slog"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"keyp/server/resp"
)

// Redis's log levels.
const (
	logDebug = iota
	logVerbose
	logNotice
	logWarning
)

func (st *state) openRedis() {
	library := st.library("redis", map[string]lua.LGFunction{
		"call":  func(L *lua.LState) int { return st.redisCall(L, true) },
		"pcall": func(L *lua.LState) int { return st.redisCall(L, false) },
		"log":   st.redisLog, "sha1hex": st.redisSHA1, "setresp": st.redisSetResp,
		"error_reply": st.redisErrorReply, "status_reply": st.redisStatusReply,
		"set_repl":      st.redisSetRepl,
		"acl_check_cmd": st.redisACL,
	})
	if st.functions {
		library.RawSetString("register_function", st.L.NewFunction(st.redisRegister))
	} else {
		library.RawSetString("breakpoint", st.L.NewFunction(redisFalse))
		library.RawSetString("debug", st.L.NewFunction(redisNothing))
		library.RawSetString("replicate_commands", st.L.NewFunction(redisReplicate))
	}
	for name, n := range map[string]int{
		"LOG_DEBUG": logDebug, "LOG_VERBOSE": logVerbose, "LOG_NOTICE": logNotice, "LOG_WARNING": logWarning,
		"REPL_NONE": 0, "REPL_AOF": 1, "REPL_SLAVE": 2, "REPL_REPLICA": 2, "REPL_ALL": 3,
		"REDIS_VERSION_NUM": versionNumber(st.engine.o.Version),
	} {
		library.RawSetString(name, lua.LNumber(n))
	}
	library.RawSetString("REDIS_VERSION", lua.LString(st.engine.o.Version))
}

// throwError raises an error table, as redis.* functions do.
func (st *state) throwError(L *lua.LState, message string) {
	L.Error(st.errorTable("ERR "+message, false), 0)
}

// commandArgs gives the arguments of redis.call; problem says what is wrong with them.
func commandArgs(L *lua.LState) (args [][]byte, problem string) {
	n := L.GetTop()
	if n == 0 {
		return nil, "Please specify at least one argument for this redis lib call"
	}
	args = make([][]byte, n)
	for i := range args {
		switch v := L.Get(i + 1).(type) {
		case lua.LString:
			args[i] = []byte(v)
		case lua.LNumber:
			args[i] = appendArg(nil, float64(v))
		default:
			return nil, "Lua redis lib command arguments must be strings or integers"
		}
	}
	return args, ""
}

// appendArg writes a number as a command's argument: a whole one as such, any other with
// as few digits as say it exactly.
func appendArg(b []byte, f float64) []byte {
	switch {
	case f == math.Trunc(f) && math.Abs(f) <= math.MaxInt64/2:
		return strconv.AppendInt(b, int64(f), 10)
	case math.IsNaN(f):
		return append(b, special(f)...)
	}
	return resp.AppendDouble(b, f)
}

// redisCall is redis.call, which raises an error reply, and redis.pcall, which gives it.
func (st *state) redisCall(L *lua.LState, raise bool) int {
	if st.run == nil || st.run.Host == nil {
		st.throwError(L, "redis.call/pcall can only be called inside a script invocation")
	}
	args, problem := commandArgs(L)
	if problem != "" {
		if raise {
			st.throwError(L, problem)
		}
		L.Push(st.errorTable("ERR "+problem, false))
		return 1
	}
	out := &st.reply.out
	out.Buf, out.Proto, out.Max, out.Full = out.Buf[:0], st.proto, int(st.engine.o.Memory), false
	st.inHost = true
	st.run.Host.Call(args, out)
	st.inHost = false
	full, value := out.Full, lua.LValue(lua.LNil)
	if !full {
		value, _ = st.luaValue(out.Buf)
	}
	if cap(out.Buf) > keptReply {
		out.Buf = nil
	}
	if full {
		L.RaiseError("not enough memory")
	}
	if raise {
		if t, ok := value.(*lua.LTable); ok && t.RawGetString("err") != lua.LNil {
			L.Error(value, 0)
		}
	}
	L.Push(value)
	return 1
}

func (st *state) redisACL(L *lua.LState) int {
	if st.run == nil || st.run.Host == nil {
		st.throwError(L, "redis.acl_check_cmd can only be called inside a script invocation")
	}
	args, problem := commandArgs(L)
	if problem != "" {
		st.throwError(L, problem)
	}
	allowed, known := st.run.Host.Allowed(args)
	if !known {
		st.throwError(L, "Invalid command passed to redis.acl_check_cmd()")
	}
	L.Push(lua.LBool(allowed))
	return 1
}

func (st *state) redisSHA1(L *lua.LState) int {
	if L.GetTop() != 1 {
		st.throwError(L, "wrong number of arguments")
	}
	s, _ := text(L.Get(1)) // anything else counts as empty
	L.Push(lua.LString(SHA1(s)))
	return 1
}

// SHA1 is the hexadecimal digest that names a script.
func SHA1(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

func (st *state) redisErrorReply(L *lua.LState) int {
	s, ok := L.Get(1).(lua.LString)
	if L.GetTop() != 1 || !ok {
		L.Push(st.errorTable("ERR wrong number or type of arguments", false))
		return 1
	}
	L.Push(st.errorTable(errorText(string(s)), false))
	return 1
}

// errorText gives an error its code: the first word, or ERR where there is only one.
func errorText(s string) string {
	s = strings.TrimPrefix(s, "-")
	code, message, ok := strings.Cut(s, " ")
	if !ok {
		code, message = "ERR", s
	}
	return code + " " + strings.Trim(message, "\r\n")
}

func (st *state) redisStatusReply(L *lua.LState) int {
	s, ok := L.Get(1).(lua.LString)
	if L.GetTop() != 1 || !ok {
		L.Push(st.errorTable("ERR wrong number or type of arguments", false))
		return 1
	}
	L.Push(st.single("ok", s))
	return 1
}

func (st *state) redisSetRepl(L *lua.LState) int {
	if st.run == nil {
		st.throwError(L, "redis.set_repl can only be called inside a script invocation")
	}
	if L.GetTop() != 1 {
		st.throwError(L, "redis.set_repl() requires two arguments.")
	}
	f, _ := number(L.Get(1))
	if int64(f)&^3 != 0 {
		st.throwError(L, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return 0
}

func redisReplicate(L *lua.LState) int {
	L.Push(lua.LTrue)
	return 1
}

// redisFalse is redis.breakpoint: there is no debugger that it could stop in.
func redisFalse(L *lua.LState) int {
	L.Push(lua.LFalse)
	return 1
}

func redisNothing(*lua.LState) int { return 0 }

func (st *state) redisSetResp(L *lua.LState) int {
	if st.run == nil {
		st.throwError(L, "redis.setresp can only be called inside a script invocation")
	}
	if L.GetTop() != 1 {
		st.throwError(L, "redis.setresp() requires one argument.")
	}
	f, _ := number(L.Get(1))
	if f = math.Trunc(f); f != 2 && f != 3 {
		st.throwError(L, "RESP version must be 2 or 3.")
	}
	st.proto = int(f)
	return 0
}

func (st *state) redisLog(L *lua.LState) int {
	if L.GetTop() < 2 {
		st.throwError(L, "redis.log() requires two arguments or more.")
	}
	f, ok := number(L.Get(1))
	if !ok {
		st.throwError(L, "First argument must be a number (log level).")
	}
	level := int(toInt(f))
	if level < logDebug || level > logWarning {
		st.throwError(L, "Invalid debug level.")
	}
	var words []string
	for i := 2; i <= L.GetTop(); i++ {
		if s, ok := text(L.Get(i)); ok {
			words = append(words, s)
		}
	}
	levels := []slog.Level{slog.LevelDebug, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn}
	st.engine.o.Log.Log(st.interrupt, levels[level], strings.Join(words, " "), "from", "script")
	return 0
}
