package scripting

import (
	"bytes"
	"strconv"

	lua "github.com/yuin/gopher-lua"

	"keyp/server/resp"
)

// maxReply bounds how deep a value may be nested that becomes a reply, as Lua's stack does
// in Redis.
const maxReply = 2000

// replyBuffer is where redis.call has replies written.
type replyBuffer struct{ out resp.Writer }

// keptReply is the size up to which the memory of a reply is used again, in bytes.
const keptReply = 64 << 10

// replyValue appends what a Lua value is as a reply:
//
//	string            bulk            nil, function…   null
//	number            integer, cut    true             1 (RESP3 after setresp(3): true)
//	{err=}            error           false            null (RESP3 after setresp(3): false)
//	{ok=}             status          {double=}        double
//	{map=}            map             {set=}           set, of the keys
//	{big_number=}     big number      {verbatim_string={format=,string=}}
//	any other table   array, up to the first nil
func (st *state) replyValue(v lua.LValue, out *resp.Writer, depth int) {
	if depth > maxReply {
		st.run.Host.CountError()
		out.Error("ERR reached lua stack limit")
		return
	}
	if out.Full {
		return // tables of one table many times over have no end in sight
	}
	switch v := v.(type) {
	case lua.LString:
		out.BulkString(string(v))
	case lua.LNumber:
		out.Int(toInt(float64(v)))
	case lua.LBool:
		switch {
		case st.proto == 3:
			out.Bool(bool(v))
		case bool(v):
			out.Int(1)
		default:
			out.Null()
		}
	case *lua.LTable:
		st.replyTable(st.shown(v), out, depth)
	default:
		out.Null()
	}
}

func (st *state) replyTable(t *lua.LTable, out *resp.Writer, depth int) {
	if message, ok := t.RawGetString("err").(lua.LString); ok {
		if t.RawGetString("ignore_error_stats_update") != lua.LTrue {
			st.run.Host.CountError()
		}
		out.Error(oneLine(string(message)))
		return
	}
	if status, ok := t.RawGetString("ok").(lua.LString); ok {
		out.Simple(oneLine(string(status)))
		return
	}
	if double, ok := t.RawGetString("double").(lua.LNumber); ok {
		out.Double(float64(double))
		return
	}
	if digits, ok := t.RawGetString("big_number").(lua.LString); ok {
		out.BigNumber(oneLine(string(digits)))
		return
	}
	if verbatim, ok := t.RawGetString("verbatim_string").(*lua.LTable); ok {
		format, okFormat := verbatim.RawGetString("format").(lua.LString)
		content, okContent := verbatim.RawGetString("string").(lua.LString)
		if okFormat && okContent {
			out.Verbatim((string(format) + "   ")[:3], string(content))
			return
		}
	}
	if pairs, ok := t.RawGetString("map").(*lua.LTable); ok {
		st.replyPairs(pairs, out, depth, true)
		return
	}
	if members, ok := t.RawGetString("set").(*lua.LTable); ok {
		st.replyPairs(members, out, depth, false)
		return
	}
	st.replyArray(t, out, depth)
}

// replyPairs replies a table as a map, or its keys as a set.
func (st *state) replyPairs(t *lua.LTable, out *resp.Writer, depth int, values bool) {
	later := out.SetLater
	if values {
		later = out.MapLater
	}
	mark, n := later(), 0
	for key, value := t.Next(lua.LNil); key != lua.LNil; key, value = t.Next(key) {
		st.replyValue(key, out, depth+1)
		if values {
			st.replyValue(value, out, depth+1)
		}
		n++
	}
	out.SetLen(mark, n)
}

func (st *state) replyArray(t *lua.LTable, out *resp.Writer, depth int) {
	mark := out.ArrayLater()
	n := 0
	for {
		item := t.RawGet(lua.LNumber(n + 1))
		if item == lua.LNil {
			break
		}
		st.replyValue(item, out, depth+1)
		n++
	}
	out.SetLen(mark, n)
}

// luaValue makes Lua values of the reply that starts at b and gives what follows it. The
// reply is what a command of ours wrote, so it is complete and well formed.
//
//	integer           number                     double            {double=}
//	bulk              string                     big number        {big_number=}
//	status            {ok=}                      verbatim          {verbatim_string={format=,string=}}
//	error             {err=}                     map               {map=}
//	array, push       array                      set               {set=}, the members as keys
//	null of RESP2     false                      null of RESP3     nil
func (st *state) luaValue(b []byte) (v lua.LValue, rest []byte) {
	end := bytes.IndexByte(b, '\r')
	kind, line, rest := b[0], b[1:end], b[end+2:]
	switch kind {
	case ':':
		n, _ := strconv.ParseInt(string(line), 10, 64) // an integer of ours
		return lua.LNumber(n), rest
	case '$':
		body, rest, ok := bulk(line, rest)
		if !ok {
			return lua.LFalse, rest
		}
		return lua.LString(body), rest
	case '+':
		return st.single("ok", lua.LString(line)), rest
	case '-':
		return st.errorTable(string(line), true), rest
	case '_':
		return lua.LNil, rest
	case '#':
		return lua.LBool(line[0] == 't'), rest
	case ',':
		f, _ := strconv.ParseFloat(string(line), 64) // a double of ours
		return st.single("double", lua.LNumber(f)), rest
	case '(':
		return st.single("big_number", lua.LString(line)), rest
	case '=':
		body, rest, _ := bulk(line, rest)
		verbatim := st.single("format", lua.LString(body[:3]))
		verbatim.RawSetString("string", lua.LString(body[4:]))
		return st.single("verbatim_string", verbatim), rest
	}
	return st.luaAggregate(kind, line, rest)
}

// bulk gives the n bytes behind a length; ok is false for null.
func bulk(length, b []byte) (body, rest []byte, ok bool) {
	n, _ := strconv.Atoi(string(length)) // a length of ours
	if n < 0 {
		return nil, b, false
	}
	return b[:n], b[n+2:], true
}

func (st *state) luaAggregate(kind byte, line, rest []byte) (lua.LValue, []byte) {
	n, _ := strconv.Atoi(string(line)) // a count of ours
	if n < 0 {
		return lua.LFalse, rest
	}
	switch kind {
	case '%':
		pairs := st.L.NewTable()
		for range n {
			var key, value lua.LValue
			key, rest = st.luaValue(rest)
			value, rest = st.luaValue(rest)
			if key != lua.LNil {
				pairs.RawSet(key, value)
			}
		}
		return st.single("map", pairs), rest
	case '~':
		members := st.L.NewTable()
		for range n {
			var member lua.LValue
			member, rest = st.luaValue(rest)
			if member != lua.LNil {
				members.RawSet(member, lua.LTrue)
			}
		}
		return st.single("set", members), rest
	}
	items := st.L.CreateTable(n, 0)
	for i := range n {
		var item lua.LValue
		item, rest = st.luaValue(rest)
		items.RawSetInt(i+1, item)
	}
	return items, rest
}

// single is a table of one field.
func (st *state) single(field string, v lua.LValue) *lua.LTable {
	t := st.L.CreateTable(0, 2)
	t.RawSetString(field, v)
	return t
}

// errorTable is an error as redis.pcall gives it; counted says that a command has counted
// it already.
func (st *state) errorTable(text string, counted bool) *lua.LTable {
	t := st.single("err", lua.LString(text))
	if counted {
		t.RawSetString("ignore_error_stats_update", lua.LTrue)
	}
	return t
}
