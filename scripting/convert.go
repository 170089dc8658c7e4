package scripting

import (
	"bytes"
	"strconv"
	"strings"

	"keyp/resp"
	"keyp/scripting/lua"
)

// maxReply is the maximum nesting depth of a value that becomes a reply. In Redis the Lua stack
// sets this limit.
const maxReply = 2000

// The fields of tables that represent replies.
var (
	fieldErr      = lua.Constant("err")
	fieldOK       = lua.Constant("ok")
	fieldDouble   = lua.Constant("double")
	fieldBig      = lua.Constant("big_number")
	fieldVerbatim = lua.Constant("verbatim_string")
	fieldFormat   = lua.Constant("format")
	fieldString   = lua.Constant("string")
	fieldMap      = lua.Constant("map")
	fieldSet      = lua.Constant("set")
	fieldSource   = lua.Constant("source")
	fieldLine     = lua.Constant("line")
	fieldCounted  = lua.Constant("ignore_error_stats_update")
)

// replyValue appends a Lua value as a reply:
//
//	string            bulk            nil, function…   null
//	number            integer, cut    true             1 (RESP3 after setresp(3): true)
//	{err=}            error           false            null (RESP3 after setresp(3): false)
//	{ok=}             status          {double=}        double
//	{map=}            map             {set=}           set, of the keys
//	{big_number=}     big number      {verbatim_string={format=,string=}}
//	any other table   array, up to the first nil
func (st *state) replyValue(v lua.Value, out *resp.Writer, depth int) {
	if depth > maxReply {
		st.run.Host.CountError()
		out.Error("ERR reached lua stack limit")
		return
	}
	if out.Full || st.L.Killed() != nil {
		out.Full = out.Full || depth > 0
		return // a table that refers to one table many times may never end
	}
	switch v.Kind() {
	case lua.KindString:
		s, _ := v.AsString()
		out.BulkString(s)
	case lua.KindNumber:
		f, _ := v.AsNumber()
		out.Int(lua.ToInteger(f))
	case lua.KindBoolean:
		switch {
		case st.proto == 3:
			out.Bool(v.Truth())
		case v.Truth():
			out.Int(1)
		default:
			out.Null()
		}
	case lua.KindTable:
		st.replyTable(v.AsTable(), out, depth)
	default:
		out.Null()
	}
}

func (st *state) replyTable(t *lua.Table, out *resp.Writer, depth int) {
	if message, ok := t.Get(fieldErr).AsString(); ok {
		if !t.Get(fieldCounted).RawEqual(lua.True) {
			st.run.Host.CountError()
		}
		out.Error(st.errorLine(message))
		return
	}
	if status, ok := t.Get(fieldOK).AsString(); ok {
		out.Simple(st.oneLine(status))
		return
	}
	if double, ok := t.Get(fieldDouble).AsNumber(); ok {
		out.Double(double)
		return
	}
	if pairs := t.Get(fieldMap).AsTable(); pairs != nil {
		st.replyPairs(pairs, out, depth, true)
		return
	}
	if members := t.Get(fieldSet).AsTable(); members != nil {
		st.replyPairs(members, out, depth, false)
		return
	}
	if digits, ok := t.Get(fieldBig).AsString(); ok {
		out.BigNumber(st.oneLine(digits))
		return
	}
	if verbatim := t.Get(fieldVerbatim).AsTable(); verbatim != nil {
		format, okFormat := verbatim.Get(fieldFormat).AsString()
		content, okContent := verbatim.Get(fieldString).AsString()
		if okFormat && okContent {
			out.Verbatim((format + "   ")[:3], content)
			return
		}
	}
	st.replyArray(t, out, depth)
}

// replyPairs writes a table as a map reply, or its keys as a set reply.
func (st *state) replyPairs(t *lua.Table, out *resp.Writer, depth int, values bool) {
	later := out.SetLater
	if values {
		later = out.MapLater
	}
	mark, n := later(), 0
	for key, value, _ := t.Next(lua.Nil); !key.IsNil(); key, value, _ = t.Next(key) {
		st.replyValue(key, out, depth+1)
		if values {
			st.replyValue(value, out, depth+1)
		}
		n++
	}
	out.SetLen(mark, n)
}

func (st *state) replyArray(t *lua.Table, out *resp.Writer, depth int) {
	mark := out.ArrayLater()
	n := 0
	for {
		item := t.GetInt(n + 1)
		if item.IsNil() {
			break
		}
		st.replyValue(item, out, depth+1)
		n++
	}
	out.SetLen(mark, n)
}

// longestError is the maximum length in bytes of an error's text for a client. The text is copied
// several times on its way, and the memory limit of scripts does not count these copies.
const longestError = 1 << 20

func shownError(text string) string { return text[:min(len(text), longestError)] }

// errorLine returns an error's text as one line, without trailing line ends.
func (st *state) errorLine(s string) string {
	s = shownError(s)
	return st.oneLine(strings.TrimRight(s, "\r\n"))
}

// oneLine replaces line ends by spaces, for replies of one line. Its result is arbitrary once the
// script was killed, because the reply is then dropped.
func (st *state) oneLine(s string) string {
	var line []byte // s up to from, without line ends; none: there was none yet
	for from := 0; from < len(s) && st.L.Killed() == nil; {
		piece := s[from:min(from+checkEvery, len(s))]
		from += len(piece)
		if line == nil && strings.ContainsAny(piece, "\r\n") {
			line = append(make([]byte, 0, len(s)), s[:from-len(piece)]...)
		}
		if line == nil {
			continue
		}
		for _, c := range bytesOf(piece) {
			if c == '\r' || c == '\n' {
				c = ' '
			}
			line = append(line, c)
		}
	}
	if line == nil {
		return s
	}
	return textOf(line)
}

// luaValue converts the reply at the start of b to a Lua value, puts the value in its place and
// returns the rest of b. A command of Keyp wrote the reply, so it is complete and well formed.
//
//	integer           number                     double            {double=}
//	bulk              string                     big number        {big_number=}
//	status            {ok=}                      verbatim          {verbatim_string={format=,string=}}
//	error             {err=}                     map               {map=}
//	array, push       array                      set               {set=}, the members as keys
//	null of RESP2     false                      null of RESP3     nil
func (st *state) luaValue(b []byte, to dest) (rest []byte) {
	L := st.L
	end := bytes.IndexByte(b, '\r')
	kind, line, rest := b[0], b[1:end], b[end+2:]
	switch kind {
	case ':':
		to.put(L, lua.Number(float64(parseInt(line))))
	case '$':
		n := int(parseInt(line))
		if n < 0 {
			to.put(L, lua.False)
			return rest
		}
		to.put(L, L.Bytes(rest[:n]))
		return rest[n+2:]
	case '+':
		st.single(to, fieldOK, L.Bytes(line))
	case '-':
		to.put(L, st.errorTable(L.Bytes(line), true).Value())
	case '_':
		to.put(L, lua.Nil)
	case '#':
		to.put(L, lua.Bool(line[0] == 't'))
	case ',':
		f, _ := strconv.ParseFloat(string(line), 64) // a double that Keyp wrote
		st.single(to, fieldDouble, lua.Number(f))
	case '(':
		st.single(to, fieldBig, L.Bytes(line))
	case '=':
		n := int(parseInt(line))
		t := L.NewTable(0, 2)
		st.single(to, fieldVerbatim, t.Value())
		t.Set(L, fieldFormat, L.Bytes(rest[:3]))
		t.Set(L, fieldString, L.Bytes(rest[4:n]))
		return rest[n+2:]
	default:
		return st.luaAggregate(kind, int(parseInt(line)), rest, to)
	}
	return rest
}

// parseInt reads an integer of a reply that Keyp wrote.
func parseInt(digits []byte) int64 {
	negative := len(digits) > 0 && digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	n := int64(0)
	for _, c := range digits {
		n = n*10 - int64(c-'0') // negative, as the smallest has no positive
	}
	if negative {
		return n
	}
	return -n
}

func (st *state) luaAggregate(kind byte, n int, rest []byte, to dest) []byte {
	L := st.L
	if n < 0 {
		to.put(L, lua.False)
		return rest
	}
	switch kind {
	case '%', '~':
		field := fieldMap
		if kind == '~' {
			field = fieldSet
		}
		t := L.NewTable(0, n)
		st.single(to, field, t.Value())
		for range n {
			L.Check()
			rest = st.luaValue(rest, dest{}) // the key stays on the stack meanwhile
			if L.Top(1).IsNil() {
				if kind == '%' {
					rest = st.luaValue(rest, dest{})
					L.Pop(1)
				}
			} else if kind == '%' {
				rest = st.luaValue(rest, dest{t: t})
			} else {
				t.Set(L, L.Top(1), lua.True)
			}
			L.Pop(1)
		}
		return rest
	}
	t := L.NewTable(n, 0)
	to.put(L, t.Value())
	for i := 1; i <= n; i++ {
		L.Check()
		rest = st.luaValue(rest, dest{t, i})
	}
	return rest
}

// single puts a table of one field in a place.
func (st *state) single(to dest, field, v lua.Value) {
	t := st.L.NewTable(0, 1)
	t.Set(st.L, field, v)
	to.put(st.L, t.Value())
}

// errorTable returns an error as redis.pcall returns it. counted means that a command has already
// counted the error for INFO.
func (st *state) errorTable(text lua.Value, counted bool) *lua.Table {
	t := st.L.NewTable(0, 2)
	t.Set(st.L, fieldErr, text)
	if counted {
		t.Set(st.L, fieldCounted, lua.True)
	}
	return t
}
