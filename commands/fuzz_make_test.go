package commands

import (
	"slices"
	"strconv"
	"strings"

	"keyp/internal/config"
	"keyp/internal/testkit"
)

// maker makes calls from the commands' declarations. Most of them are valid, and some are almost
// valid.
type maker struct {
	testkit.Dice
	specs   []*Spec           // all that have a handler
	options []config.Pair     // of CONFIG, with their values at the beginning
	dumps   map[string]string // payloads that RESTORE and FUNCTION RESTORE take
	keys    []string          // those of the type that the command is for; nil: it is for any
	// The position in the call of the number of the arguments that follow, or 0 if there is none.
	count int
}

// meant lists the commands whose purpose is to sleep, to fail or to wait for another server.
var meant = []string{"debug|sleep", "debug|panic", "migrate"}

// runnable returns all other declarations with a handler, in the order of the table.
func runnable(t *Table) (list []*Spec) {
	var add func(spec *Spec)
	add = func(spec *Spec) {
		if spec.Run != nil && !slices.Contains(meant, spec.full) {
			list = append(list, spec)
		}
		for i := range spec.Sub {
			add(&spec.Sub[i])
		}
	}
	for _, spec := range t.All() {
		add(spec)
	}
	return list
}

// call makes a call of a random command.
func (m *maker) call() []string {
	return m.of(m.specs[m.N(len(m.specs))])
}

// of makes a call of the given command.
func (m *maker) of(spec *Spec) []string {
	args := strings.Split(spec.full, "|")
	names := len(args)
	m.count, m.keys = 0, keysOf[spec.Group]
	switch {
	case m.One(16): // anything, of a length that passes
		for n := max(spec.Arity, -spec.Arity+m.N(4)); len(args) < n; {
			args = append(args, m.anything())
		}
	case len(spec.Args) == 0:
		if m.One(16) {
			args = append(args, m.anything())
		}
	default:
		for i := range spec.Args {
			args = m.arg(args, &spec.Args[i])
		}
	}
	if m.One(6) {
		args = m.spoil(args, names)
	}
	if spec.Is(Blocking) && strings.HasPrefix(spec.full, "wait") && len(args) > names {
		args[len(args)-1] = "1" // milliseconds that pass indeed
	}
	return args
}

// spoil changes the arguments after the command's name, so that the call is probably invalid.
func (m *maker) spoil(args []string, names int) []string {
	if len(args) <= names {
		return append(args, m.anything())
	}
	at := names + m.N(len(args)-names)
	switch m.N(7) {
	case 0:
		return slices.Delete(args, at, at+1)
	case 1:
		return args[:at]
	case 2:
		return slices.Insert(args, at, args[at])
	case 3:
		return slices.Insert(args, at, m.anything())
	case 4:
		return append(args, args[names:]...)
	case 5:
		other := names + m.N(len(args)-names)
		args[at], args[other] = args[other], args[at]
		return args
	}
	args[at] = m.anything()
	return args
}

// arg appends values for a declared argument.
func (m *maker) arg(args []string, a *Arg) []string {
	if a.Optional && !(a.Multiple && m.count > 0) && m.One(2) {
		return args
	}
	times := 1
	if a.Multiple {
		if times += m.N(3); m.One(64) {
			times = 60
		}
	}
	if a.Multiple && m.count > 0 {
		if a.Optional && m.One(2) {
			times = 0
		}
		if !m.One(8) {
			args[m.count] = strconv.Itoa(times)
		}
		m.count = 0
	}
	for i := range times {
		if a.Token != "" && a.Type != ArgToken && (i == 0 || a.Repeats) {
			args = append(args, a.Token)
		}
		args = m.value(args, a)
	}
	return args
}

func (m *maker) value(args []string, a *Arg) []string {
	switch a.Type {
	case ArgToken:
		if m.One(8) {
			return append(args, strings.ToLower(a.Token))
		}
		return append(args, a.Token)
	case ArgOneOf:
		return m.arg(args, &a.Args[m.N(len(a.Args))])
	case ArgBlock:
		for i := range a.Args {
			args = m.arg(args, &a.Args[i])
		}
		return args
	}
	switch a.Name {
	case "numkeys", "numfields":
		m.count = len(args)
		return append(args, m.integer())
	case "arg": // a command's, where a command stands before it
		if len(args) > 2 && m.One(2) && (args[0] == "command" || args[0] == "acl") {
			inner := m.of(m.specs[m.N(len(m.specs))])
			return append(append(args[:len(args)-1:len(args)-1], inner...), m.anything())
		}
	case "parameter":
		return append(args, m.parameter()...)
	}
	return append(args, m.text(a))
}

// text returns a value for one argument.
func (m *maker) text(a *Arg) string {
	if special, ok := specials[a.Name]; ok && !m.One(8) {
		return m.From(special)
	}
	if payload, ok := m.dumps[a.Name]; ok && !m.One(8) {
		return m.broken(payload)
	}
	switch a.Type {
	case ArgKey:
		if m.keys != nil && !m.One(3) {
			return m.From(m.keys)
		}
		return m.From(fuzzKeys)
	case ArgInteger:
		return m.integer()
	case ArgDouble:
		return m.From(doubles)
	case ArgPattern:
		return m.From(patterns)
	case ArgUnix:
		return m.From(instants)
	}
	return m.string()
}

// broken returns a payload as it is, or with one bit of it changed.
func (m *maker) broken(payload string) string {
	if !m.One(3) {
		return payload
	}
	b := []byte(payload)
	b[m.N(len(b))] ^= 1 << m.N(8)
	return string(b)
}

func (m *maker) integer() string {
	if m.One(4) {
		return m.From(integers)
	}
	return strconv.Itoa(m.N(12) - 3)
}

func (m *maker) string() string {
	if m.One(32) {
		return strings.Repeat(m.From(strs), 1+m.N(300))
	}
	return m.From(strs)
}

func (m *maker) anything() string {
	switch m.N(8) {
	case 0, 1:
		return m.From(fuzzKeys)
	case 2:
		return m.integer()
	case 3:
		return m.From(doubles)
	case 4:
		return m.From(patterns)
	case 5:
		return m.From(instants)
	case 6:
		return m.From(words)
	}
	return m.string()
}

// parameter returns an option's name, and often a value for it.
func (m *maker) parameter() []string {
	pair := m.options[m.N(len(m.options))]
	switch m.N(4) {
	case 0:
		return []string{pair.Name, pair.Value}
	case 1:
		return []string{pair.Name, m.integer()}
	case 2:
		return []string{pair.Name, m.From([]string{"yes", "no", "1mb", "100kb", "-1", "always",
			"everysec", "allkeys-lru", "volatile-lfu", "KEA", "", "normal 1mb 2mb 3"})}
	}
	return []string{pair.Name}
}

// keptOptions are the options that no call changes, because the test relies on their limits.
var keptOptions = map[string]bool{"proto-max-bulk-len": true, "dir": true}

// Values for arguments. fuzzKeys has a key of each type, see newFuzzed.
var (
	fuzzKeys = []string{"s", "n", "f", "h", "hl", "set", "ints", "z", "zl", "x", "xe", "l", "ll",
		"ht", "st", "zt", "due", "soon", "none", "big", "new", "new2", "", "\x00\xff", "{h}1"}

	keysOf = map[Group][]string{
		StringGroup: {"s", "n", "f", "soon", "new"}, ListGroup: {"l", "ll", "new"},
		HashGroup: {"h", "hl", "ht", "new"}, SetGroup: {"set", "st", "ints", "new"},
		SortedSet:   {"z", "zl", "zt", "new"},
		StreamGroup: {"x", "x", "xe", "new"},
		HyperLogLog: {"hll", "hlld", "new", "s"},
	}

	integers = []string{"0", "1", "-1", "10", "100", "1000", "-1000", "100000", "2147483647",
		"2147483648", "-2147483648", "-2147483649", "4294967296",
		"9223372036854775807", "-9223372036854775807", "-9223372036854775808",
		"9223372036854775808", "18446744073709551615", "18446744073709551616",
		"9223372036854775", "4611686018427387904", "-4611686018427387904", "1000000000000000000",
		"", "x", "+1", "01", "-0", " 1", "1 ", "0x10", "1e3", "1.5", "nan", "inf", "1\x00",
		strings.Repeat("9", 400)}
	doubles = []string{"0", "1", "-1", "1.5", "0.01", "-0", "inf", "-inf", "+inf", "nan", "-nan",
		"1e308", "1.8e308", "-1e308", "5e-324", "1e-400", "1e400", "(1", "(inf", "(-1.5",
		"0x1p3", "0x", ".", "-.", "1e", "1_0", "infinity", " 1", "1 ", "", "x", "9007199254740993",
		"17179869184.5", "1" + strings.Repeat("0", 300), "0." + strings.Repeat("0", 400) + "1"}
	patterns = []string{"*", "s*", "?", "[a-z]*", "[^a]", "[", "[a", "[z-a]", "\\", "a\\", "**a**b",
		"", "w_*", "w_*->f", "h->a", "*->", "#", "nosort", "\xff*", strings.Repeat("a*", 40) + "b"}
	instants = []string{"1700000000", "1700000001", "1700000100", "1699999999", "1700000000000",
		"1700000000001", "1700000005000", "1699999999999", "0", "1", "-1", "1e9",
		"9223372036854775807", "9223372036854775", "9223372036854776", "-9223372036854775808",
		"281474976710655", "281474976710656", "99999999999"}
	strs = []string{"a", "b", "c", "d", "v", "1", "2", "10", "3.5", "", "hello world", "\x00",
		"\r\n", "\xff\xfe\x80", "-1", "nan", "%s%n", "$3\r\nabc\r\n", "日本",
		"3fffffffffffffff", "[a", "(b", "-", "+"}
	words = []string{"LEFT", "RIGHT", "COUNT", "STORE", "GET", "WITHSCORES", "EX", "PX", "EXAT",
		"PXAT", "KEEPTTL", "NX", "XX", "GT", "LT", "CH", "INCR", "BYSCORE", "BYLEX", "REV",
		"REPLACE", "ON", "OFF", "YES", "NO", "MATCH", "TYPE", "ID", "ADDR", "FIELDS", "WEIGHTS",
		"AGGREGATE", "LIMIT", "BEFORE", "AFTER", "PERSIST", "DB", "BY", "ALPHA", "DESC",
		"ASYNC", "ABSTTL", "FREQ", "IDLETIME", "RANK", "MAXLEN", "IDX", "MINMATCHLEN", "NOVALUES",
		"HELP", "EXACTLY", "OBO", "BULK", "BYINT", "BYFLOAT", "LBOUND", "UBOUND", "SATURATE", "ENX",
		"APPROX", "GETREG", "DECODE", "ENCODING", "TODENSE"}

	scoreRange = []string{"-inf", "+inf", "(1", "1", "2", "(inf", "0", "-1", "nan",
		"(", "x", "1e400"}
	anyRange = slices.Concat(scoreRange, []string{"-", "+", "[a", "(b", "[", "[\xff", "a", "3",
		"-2", "9223372036854775807", "-9223372036854775808"})
)

// specials are values, by argument name, that have a meaning only for certain commands.
var specials = map[string][]string{
	"min": anyRange, "max": anyRange, "start": anyRange, "stop": anyRange,
	"id": {"0", "1-1", "1-2", "2-0", "$", "+", "-", ">", "*", "3-*", "(1-1",
		"18446744073709551615-18446744073709551615", "x", "1-x", "--1"},
	"group":         {"g", "g", "g", "h", "", "nogroup"},
	"consumer":      {"c", "d", "", "new"},
	"min-idle-time": {"0", "1", "-1", "x", "9223372036854775807"},
	"last-id":       {"3-0", "9-9", "0", "x"},
	"producer-id":   {"p", "q", ""},
	"idempotent-id": {"1", "2", ""},
	"threshold":     {"0", "1", "2", "1-2", "x", "-1", "9223372036854775807"},
	"stream-id":     {"1-1", "1-2", "x"},
	"numids":        {"1", "2", "0", "-1", "x"},
	"cursor": {"0", "1", "7", "123456789", "9223372036854775807", "18446744073709551615",
		"18446744073709551616", "-1", "x", ""},
	"timeout": {"0", "0.001", "1", "-1", "nan", "inf", "1e400", "9223372036854775",
		"9223372036854776", "1e18", "x", ""},
	"protover": {"2", "3", "3", "1", "4", "x", "9223372036854775808"},
	"username": {"default", "alice", "bob", "", "a b", "\x00"},
	"password": {"", "secret", "x", strings.Repeat("p", 600)},
	"category": {"all", "read", "write", "nosuch", "@read", ""},
	"section": {"server", "clients", "memory", "commandstats", "errorstats", "latencystats",
		"keyspace", "all", "everything", "default", "nosuch", ""},
	"event": {"command", "fork", "expire-cycle", "", "nosuch"},
	"command": {"get", "set", "config", "config|set", "eval", "zunionstore", "sort", "nosuch",
		""},
	"command-name": {
		"get", "client|list", "client", "nosuch", "client|nosuch", "|", "", "get|get",
	},
	"rule": {"on", "off", "+@all", "-@all", "+get", "-config|set", "~*", "~a*", "%R~a*", "%W~b*",
		"%RW~*", "&*", "&ch*", "allkeys", "resetkeys", "allchannels", "resetchannels", "nopass",
		">secret", "<secret", "#" + strings.Repeat("a1", 32), "!" + strings.Repeat("a1", 32),
		"resetpass", "reset", "(+get ~x)", "(~x", "clearselectors", "sanitize-payload",
		"skip-sanitize-payload", "nosuch", "+@nosuch", "+nosuch", "%X~a", "", "+get|x", "#zz"},
	"script": {"return 1", "return redis.call('GET','s')",
		"return {1,{2,'x'},{err='E x'},{ok='y\\r\\nz'}}", "return redis.pcall(unpack(ARGV))",
		"redis.setresp(3) return redis.call('HGETALL','h')",
		"return KEYS", "error('x')", "error({err='My Err'})", "return", "x",
		"#!lua flags=no-writes\nreturn redis.call('SET','s','1')", "#!lua x", "return {double=1.5}",
		"return {map={a=1}}",
		"return redis.sha1hex('')",
		"for i=1,100 do redis.call('INCR','n') end return redis.call('GET','n')",
		"return cjson.encode({1,2,{a=1}})", "return cmsgpack.unpack(cmsgpack.pack({1,2}))", ""},
	"sha1": {"e0e1f9fabfc9d4800c877a703b823ac0578ff8db", strings.Repeat("f", 40),
		"x", ""},
	"function":     {"f", "ro", "nosuch", ""},
	"library-name": {"lib", "other", ""},
	"function-code": {
		"#!lua name=lib\nredis.register_function('f',function(k,a) return a end)",
		"#!lua name=other\nredis.register_function{function_name='ro',callback=function(k,a) return redis.call('GET',k[1]) end,flags={'no-writes'}}",
		"#!lua name=bad\nx(", "#!lua", "x", ""},
	"channel":      {"ch", "a", "", "\x00"},
	"shardchannel": {"ch", "a", "{x}a"},
	"unit":         {"s", "ms", "S", "x"},
	"client-type":  {"normal", "pubsub", "replica", "x"},
	"addr":         {"127.0.0.1:1001", "x"},
	"type":         {"string", "list", "set", "zset", "hash", "stream", "x", ""},
	"index": {"0", "1", "2", "15", "16", "-1", "-2", "-100", "x",
		"9223372036854775807", "4294967296"},
	"db":             {"0", "1", "15", "16", "-1", "x", "4294967296"},
	"destination-db": {"0", "1", "15", "16", "-1", "x", "4294967296"},
	"seconds": {"0", "1", "100", "-1", "9223372036854775807", "-9223372036854775808",
		"9223372036854775", "9223372036854776", "x", "1.5", "4611686018427387904"},
	"milliseconds": {"0", "1", "5000", "-1", "9223372036854775807", "-9223372036854775808",
		"9223370336854775807", "9223370336854775808", "x", "1.5"},
	"connection-name": {"a", "a b", "", "\n"},
	"host":            {"localhost", "no", "x"},
	"ifeq-value":      {"1", "v", "hello world"},
	"ifdeq-digest":    {"0", "3fffffffffffffff", "6c3c3bd7a2a1b5e8", "x"},
	"client-id":       {"1", "2", "0", "-1", "3", "9223372036854775807", "x"},
	"libname":         {"go", "a b"},
	"filterby":        {"x"},
	"element":         strs[:10],
	"field":           {"a", "b", "c", "n", "1", "", "\x00", "x"},
	"member":          {"a", "b", "c", "1", "2", "3", "", "\x00", "x"},
	"where":           {"LEFT", "RIGHT"},
	"message":         {"m", "", "\r\n", "\x00"},
	"old-format":      {"127.0.0.1:1001", "127.0.0.1:1002", "x"},
	"maxage":          {"0", "1", "60", "-1", "x", "9223372036854775807"},
	"path":            {"x"},
	"name":            {"x"},
	"libver":          {"1"},
	"numlocal":        {"0", "1", "2", "-1"},
	"numreplicas":     {"0", "1", "-1"},
	"bits":            {"1", "256", "4096", "0", "-1", "4097", "x", "9223372036854775807"},
	"ifdne-digest":    {"0", "x"},
	"version":         {"5", "6", "x", "-1", "9223372036854775807"},
	"connection":      {"x"},
	"attr":            {"LIB-NAME"},
	"prefix":          {"", "a", "s"},
	"laddr":           {"127.0.0.1:6379"},
	"min-match-len":   {"0", "1", "-1", "9223372036854775807", "-9223372036854775808"},
	"num-matches":     {"0", "1", "2", "-1", "9223372036854775807"},
	"rank": {"1", "-1", "0", "2", "-2", "9223372036854775807",
		"-9223372036854775808", "-9223372036854775807"},
	"len":                  {"0", "1", "-1", "9223372036854775807"},
	"by-pattern":           {"w_*", "h->*", "ht->*", "nosort", "*", "#", "*->a", "w_*->", "\x00"},
	"get-pattern":          {"#", "w_*", "h->*", "*->a", "*", "", "nosort"},
	"weight":               doubles,
	"library-name-pattern": {"*", "l?b", "x"},
}
