package scripting

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"keyp/resp"
	"keyp/scripting/lua"
)

// Redis's log levels.
const (
	logDebug = iota
	logVerbose
	logNotice
	logWarning
)

func (st *state) openRedis() {
	library := st.library("redis", map[string]lua.Builtin{
		"call":  func(L *lua.State) int { return st.redisCall(L, true) },
		"pcall": func(L *lua.State) int { return st.redisCall(L, false) },
		"log":   st.redisLog, "sha1hex": st.redisSHA1, "setresp": st.redisSetResp,
		"error_reply": st.redisErrorReply, "status_reply": st.redisStatusReply,
		"set_repl":      st.redisSetRepl,
		"acl_check_cmd": st.redisACL,
	})
	if !st.functions {
		st.L.Register(library, map[string]lua.Builtin{"breakpoint": redisFalse,
			"debug": redisNothing, "replicate_commands": redisReplicate})
	}
	st.logLevels(library)
	for name, n := range map[string]int{"REPL_NONE": 0, "REPL_AOF": 1, "REPL_SLAVE": 2,
		"REPL_REPLICA": 2, "REPL_ALL": 3} {
		library.SetString(st.L, name, lua.Number(float64(n)))
	}
}

// logLevels sets the constants that exist even while a library's program is loaded.
func (st *state) logLevels(library *lua.Table) {
	for name, n := range map[string]int{
		"LOG_DEBUG": logDebug, "LOG_VERBOSE": logVerbose, "LOG_NOTICE": logNotice,
		"LOG_WARNING":       logWarning,
		"REDIS_VERSION_NUM": versionNumber(st.engine.o.Version),
	} {
		library.SetString(st.L, name, lua.Number(float64(n)))
	}
	library.SetString(st.L, "REDIS_VERSION", st.L.String(st.engine.o.Version))
}

// throwError raises an error table, as redis.* functions do.
func (st *state) throwError(L *lua.State, message string) {
	L.Error(st.errorTable(L.String("ERR "+message), false).Value())
}

// commandArgs sets st.args to the arguments of redis.call, without copying strings. problem is the
// error's text, empty if there is none.
func (st *state) commandArgs(L *lua.State) (problem string) {
	n := L.NArgs()
	if n == 0 {
		return "Please specify at least one argument for this redis lib call"
	}
	if cap(st.args) < n {
		L.Reserve(n * int(unsafe.Sizeof(st.args[0])))
		st.args = make([][]byte, n)
	}
	const longest = 32
	st.args, st.numbers = st.args[:n], st.numbers[:0]
	total := 0 // a command copies its arguments, also one text many times over
	for i := range st.args {
		v := L.Arg(i + 1)
		if s, ok := v.AsString(); ok {
			st.args[i] = bytesOf(s)
			total += len(s)
			continue
		}
		f, ok := v.AsNumber()
		if !ok {
			return "Lua redis lib command arguments must be strings or integers"
		}
		if cap(st.numbers)-len(st.numbers) < longest {
			// Earlier arguments still point into the old array.
			st.numbers = make([]byte, 0, 2*cap(st.numbers)+longest)
		}
		from := len(st.numbers)
		st.numbers = appendArg(st.numbers, f)
		// The capacity is limited, so that an append in a command makes a copy.
		st.args[i] = st.numbers[from:len(st.numbers):len(st.numbers)]
	}
	if int64(total) > st.engine.o.Memory {
		L.Reserve(total)
	}
	return ""
}

// appendArg writes a number as a command's argument: a whole one as an integer, any other with the
// fewest digits that read back as the same number.
func appendArg(b []byte, f float64) []byte {
	switch {
	case f == math.Trunc(f) && math.Abs(f) <= math.MaxInt64/2:
		return strconv.AppendInt(b, int64(f), 10)
	case math.IsNaN(f):
		return lua.AppendNumber(b, f)
	}
	return resp.AppendDouble(b, f)
}

// redisCall is redis.call, which raises an error reply, and redis.pcall, which returns it.
func (st *state) redisCall(L *lua.State, raise bool) int {
	if st.run == nil || st.run.Host == nil {
		st.throwError(L, "redis.call/pcall can only be called inside a script invocation")
	}
	if problem := st.commandArgs(L); problem != "" {
		if raise {
			st.throwError(L, problem)
		}
		L.Push(st.errorTable(L.String("ERR "+problem), false).Value())
		return 1
	}
	out := &st.out
	out.Buf, out.Proto, out.Max, out.Full = out.Buf[:0], st.proto, st.replyRoom(), false
	st.run.Host.Call(st.args, out)
	L.Check() // it may have been killed meanwhile
	reply := out.Buf
	if cap(reply) > keptReply {
		// Until here the buffer was in out. Now it is a string on the stack, so it is still
		// measured.
		out.Buf = nil
		L.Push(L.String(unsafe.String(unsafe.SliceData(reply), cap(reply))))
	}
	clear(st.args)
	if cap(st.args) > keptArgs {
		st.args, st.numbers = nil, nil
	}
	if out.Full {
		L.Errorf("not enough memory")
	}
	st.luaValue(reply, dest{})
	if raise && reply[0] == '-' {
		L.Error(L.Top(1))
	}
	return 1
}

// The largest buffers that are kept from call to call: bytes of a reply, arguments.
const (
	keptReply = 64 << 10
	keptArgs  = 1 << 10
)

// replyRoom returns the longest allowed reply, which is the memory that the script's limit leaves.
// It measures the script's memory first if much was allocated since the last measurement.
func (st *state) replyRoom() int {
	limit := st.engine.o.Memory
	taken := st.L.Allocated()
	const part = 4
	if taken > limit/part && taken-st.seen > limit/part {
		st.L.SetMemoryLimit(limit)
		taken = st.L.Allocated()
		st.seen = taken
	}
	return int(max(limit-taken, 1))
}

func (st *state) redisACL(L *lua.State) int {
	if st.run == nil || st.run.Host == nil {
		st.throwError(L, "redis.acl_check_cmd can only be called inside a script invocation")
	}
	if problem := st.commandArgs(L); problem != "" {
		st.throwError(L, problem)
	}
	allowed, known := st.run.Host.Allowed(st.args)
	if !known {
		st.throwError(L, "Invalid command passed to redis.acl_check_cmd()")
	}
	L.PushBool(allowed)
	return 1
}

func (st *state) redisSHA1(L *lua.State) int {
	if L.NArgs() != 1 {
		st.throwError(L, "wrong number of arguments")
	}
	s, _ := L.Arg(1).Text() // anything else counts as empty
	L.Push(L.String(digest(s, L.Check)))
	return 1
}

// digest returns the hexadecimal digest that names a script. It calls look regularly, which may end
// the script that runs.
func digest(s string, look func()) string {
	h := sha1.New()
	for ; len(s) > checkEvery; s = s[checkEvery:] {
		h.Write(bytesOf(s[:checkEvery]))
		look()
	}
	h.Write(bytesOf(s))
	return hex.EncodeToString(h.Sum(nil))
}

func (st *state) redisErrorReply(L *lua.State) int {
	s, ok := L.Arg(1).AsString()
	if L.NArgs() != 1 || !ok {
		L.Push(st.errorTable(L.String("ERR wrong number or type of arguments"), false).Value())
		return 1
	}
	L.Push(st.errorTable(errorText(L, s), false).Value())
	return 1
}

// errorText returns an error's text with a code: the first word, or ERR if there is only one word.
func errorText(L *lua.State, s string) lua.Value {
	s = strings.TrimPrefix(s, "-")
	code, message := "ERR", s
	if at := index(L, s, " "); at >= 0 {
		code, message = s[:at], s[at+1:]
	}
	message = L.Trim(message, "\r\n")
	out := buffer{L: L}
	out.room(len(code) + 1 + len(message))
	out.text(code)
	out.byte(' ')
	out.text(message)
	return out.value()
}

func (st *state) redisStatusReply(L *lua.State) int {
	_, ok := L.Arg(1).AsString()
	if L.NArgs() != 1 || !ok {
		L.Push(st.errorTable(L.String("ERR wrong number or type of arguments"), false).Value())
		return 1
	}
	st.single(dest{}, fieldOK, L.CheckStringValue(1))
	return 1
}

func (st *state) redisSetRepl(L *lua.State) int {
	if st.run == nil {
		st.throwError(L, "redis.set_repl can only be called inside a script invocation")
	}
	if L.NArgs() != 1 {
		st.throwError(L, "redis.set_repl() requires one argument.")
	}
	f, _ := L.ToNumber(L.Arg(1))
	if int64(f)&^3 != 0 {
		st.throwError(L,
			"Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return 0
}

func redisReplicate(L *lua.State) int {
	L.PushBool(true)
	return 1
}

// redisFalse is redis.breakpoint, which returns false as there is no debugger.
func redisFalse(L *lua.State) int {
	L.PushBool(false)
	return 1
}

func redisNothing(*lua.State) int { return 0 }

func (st *state) redisSetResp(L *lua.State) int {
	if st.run == nil {
		st.throwError(L, "redis.setresp can only be called inside a script invocation")
	}
	if L.NArgs() != 1 {
		st.throwError(L, "redis.setresp() requires one argument.")
	}
	f, _ := L.ToNumber(L.Arg(1))
	if f = math.Trunc(f); f != 2 && f != 3 {
		st.throwError(L, "RESP version must be 2 or 3.")
	}
	st.proto = int(f)
	return 0
}

// longestLog is the most bytes of a text that redis.log writes.
const longestLog = 64 << 10

func (st *state) redisLog(L *lua.State) int {
	if L.NArgs() < 2 {
		st.throwError(L, "redis.log() requires two arguments or more.")
	}
	f, ok := L.ToNumber(L.Arg(1))
	if !ok {
		st.throwError(L, "First argument must be a number (log level).")
	}
	level := int(lua.ToInteger(f))
	if level < logDebug || level > logWarning {
		st.throwError(L, "Invalid log level.")
	}
	var line []byte
	for i := 2; i <= L.NArgs() && len(line) < longestLog; i++ {
		if s, ok := L.Arg(i).Text(); ok {
			if i > 2 {
				line = append(line, ' ')
			}
			line = append(line, s[:min(len(s), longestLog-len(line))]...)
		}
	}
	levels := []slog.Level{slog.LevelDebug, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn}
	st.engine.o.Log.Log(context.Background(), levels[level], string(line), "from", "script")
	return 0
}
