package e2e

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestDiffBlockingStreams compares Keyp with Redis for clients that wait for stream entries.
// Streams with groups are not deleted, since Redis 7.0.15 sends other errors to clients that wait
// for a deleted one. Streams without groups are created and deleted.
func TestDiffBlockingStreams(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	s.runBlocking(t, s.restoring(t, readingStreams, groupedSources, grouped), nil)
}

// TestDiffBlockingStreamsFromDisk is TestDiffBlockingStreams while keys leave memory as soon as
// they can.
func TestDiffBlockingStreamsFromDisk(t *testing.T) {
	t.Parallel()
	onlyLong(t)
	s := forgetful(t)
	s.runBlocking(t, s.restoring(t, readingStreams, groupedSources, grouped), func() {
		s.unload(t)
	})
}

// TestDiffBlockingAnyType: the differential run of clients that wait for keys whose type changes
// between list, sorted set and stream.
func TestDiffBlockingAnyType(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	s.runBlocking(t, s.restoring(t, anyType, changingSources, changing), nil)
}

// restoring returns kind with RESTORE among the commands that wake clients. It restores the value
// that one of the sources has at the beginning.
func (s *both) restoring(t *testing.T, kind blockKind, sources, keys []string) blockKind {
	t.Helper()
	for _, args := range kind.begin {
		s.mustDo(t, s.redis, args...)
	}
	var payloads []string
	for _, key := range sources {
		payloads = append(payloads, s.mustDo(t, s.redis, "DUMP", key).text)
	}
	wake := kind.wake
	kind.wake = func(g *gen) []string {
		if g.chance(10) {
			return []string{"RESTORE", g.from(keys...), "0", g.from(payloads...), "REPLACE"}
		}
		return wake(g)
	}
	return kind
}

// scripted returns a script that runs commands, whatever they reply.
func scripted(commands [][]string) []string {
	args := []string{"EVAL",
		"for _, words in ipairs(ARGV) do redis.pcall(unpack(cjson.decode(words))) end return #ARGV",
		"0"}
	for _, words := range commands {
		text, err := json.Marshal(words)
		if err != nil {
			panic(err) // they are texts
		}
		args = append(args, string(text))
	}
	return args
}

var (
	grouped = []string{"g0", "g1"}
	plain   = []string{"r0", "r1", "r2"}
	// Copies of groupedSources replace streams that have groups. They have the same groups.
	groupedSources = []string{"x0", "x1"}

	changing        = []string{"m0", "m1"}
	changingSources = []string{"list", "zset", "stream", "string"}
)

var readingStreams = blockKind{
	begin: [][]string{
		{"XGROUP", "CREATE", "g0", "a", "0", "MKSTREAM"}, {"XGROUP", "CREATE", "g0", "b", "0"},
		{"XGROUP", "CREATE", "g1", "a", "0", "MKSTREAM"},
		{"XGROUP", "CREATE", "g1", "b", "0"},
		{"XADD", "x0", "1-3", "f", "x"}, {"XADD", "x0", "1-7", "f", "y"},
		{"XGROUP", "CREATE", "x0", "a", "0"}, {"XGROUP", "CREATE", "x0", "b", "1-3"},
		{"XADD", "x1", "1-20", "f", "z"}, {"XGROUP", "CREATE", "x1", "a", "$"},
		{"XGROUP", "CREATE", "x1", "b", "0"},
	},
	wait: func(g *gen, brief bool) []string {
		timeout := g.from("0", "100000")
		if brief {
			timeout = g.from("1", "10")
		}
		args := []string{"XREAD"}
		if g.chance(40) {
			args = append(args, "COUNT", g.between(1, 3))
		}
		args = append(args, "BLOCK", timeout, "STREAMS")
		if g.chance(50) {
			return append(args, g.from(append(plain, grouped...)...),
				g.from("$", "$", "1-"+g.between(1, 60), "2-0"))
		}
		args = append([]string{"XREADGROUP", "GROUP", g.from("a", "b"), "c" + g.between(0, 2)},
			args[1:]...)
		if g.chance(30) {
			args = append(append([]string{}, args[:4]...),
				append([]string{"NOACK"}, args[4:]...)...)
		}
		if g.chance(30) {
			return append(args, "g0", "g1", ">", ">")
		}
		return append(args, g.from(grouped...), ">")
	},
	wake: func(g *gen) []string {
		switch g.IntN(10) {
		case 0:
			return []string{g.from("RENAME", "COPY", "RENAMENX"), g.from(plain...),
				g.from(plain...)}
		case 1:
			return one(g, []string{"DEL", g.from(plain...)}, []string{"SET", g.from(plain...), "x"},
				[]string{"PEXPIREAT", g.from(plain...), "1"})
		case 2:
			return []string{"XACK", g.from(grouped...), "a", "1-" + g.between(1, 30),
				"1-" + g.between(1, 30)}
		case 3:
			return []string{"COPY", g.from(groupedSources...), g.from(grouped...), "REPLACE"}
		case 4:
			return scripted(readingTransaction(g))
		case 5:
			return []string{"XDEL", g.from(append(plain, grouped...)...), "1-" + g.between(1, 30)}
		}
		return xadd(g)
	},
	transaction: readingTransaction,
	behind: func(g *gen) []string {
		return []string{g.from("XLEN", "EXISTS"), g.from(plain...)}
	},
	values: func() (list [][]string) {
		for _, key := range append(plain, grouped...) {
			list = append(list, []string{"TYPE", key}, []string{"XRANGE", key, "-", "+"},
				[]string{"XPENDING", key, "a"}, []string{"XPENDING", key, "b"})
		}
		return list
	},
}

func xadd(g *gen) []string {
	return []string{"XADD", g.from(append(plain, grouped...)...), "1-*", "f", g.between(0, 99)}
}

// readingTransaction adds entries to one stream, and may replace a stream by another.
func readingTransaction(g *gen) [][]string {
	commands := [][]string{}
	key := g.from(append(plain, grouped...)...)
	for range 1 + g.IntN(4) {
		commands = append(commands, []string{"XADD", key, "1-*", "f", g.between(0, 99)})
	}
	if slices.Contains(grouped, key) && g.chance(30) {
		commands = append(commands, []string{"COPY", g.from(groupedSources...), "x"},
			[]string{"RENAME", "x", key})
	}
	if g.chance(30) {
		commands = append(commands, []string{"XREAD", "BLOCK", "0", "STREAMS", "r0", "$"},
			[]string{"DBSIZE"})
	}
	return commands
}

var anyType = blockKind{
	begin: [][]string{
		{"RPUSH", "list", "a", "b"}, {"ZADD", "zset", "1", "c", "2", "d"},
		{"XADD", "stream", "1-3", "f", "e"}, {"SET", "string", "f"},
	},
	wait: func(g *gen, brief bool) []string {
		seconds, millis, key := g.from("0", "100"), g.from("0", "100000"), g.from(changing...)
		if brief {
			seconds, millis = "0.001", "1"
		}
		return one(g,
			[]string{g.from("BLPOP", "BRPOP"), key, seconds},
			[]string{g.from("BZPOPMIN", "BZPOPMAX"), key, seconds},
			[]string{"BLMPOP", seconds, "1", key, "LEFT", "COUNT", "2"},
			[]string{"BLMOVE", key, key, "LEFT", "RIGHT", seconds},
			[]string{"XREAD", "COUNT", g.between(1, 2), "BLOCK", millis, "STREAMS", key,
				g.from("$", "0", "1-3")},
			[]string{"XREAD", "BLOCK", millis, "STREAMS", key, "stream", g.from("$", "1-5"), "$"})
	},
	wake:        changeType,
	transaction: changeTypes,
	behind: func(g *gen) []string {
		return []string{g.from("TYPE", "EXISTS"), g.from(changing...)}
	},
	values: func() (list [][]string) {
		for _, key := range append(changing, "stream") {
			list = append(list, []string{"TYPE", key}, []string{"LRANGE", key, "0", "-1"},
				[]string{"ZRANGE", key, "0", "-1", "WITHSCORES"}, []string{"XRANGE", key, "-", "+"})
		}
		return list
	},
}

// changeType gives a key a value of another type, or adds to its value.
func changeType(g *gen) []string {
	key, n := g.from(changing...), g.between(0, 99)
	switch g.IntN(9) {
	case 0, 1:
		return []string{"DEL", key}
	case 2:
		return []string{"COPY", g.from(changingSources...), key, "REPLACE"}
	case 3:
		return []string{"RENAME", g.from(changing...), key}
	case 4:
		return scripted(changeTypes(g))
	case 5, 6:
		return []string{"XADD", key, "1-*", "f", n}
	case 7:
		return []string{"RPUSH", key, n, "v" + n}
	default:
		return []string{"ZADD", key, n, "v" + n}
	}
}

// changeTypes changes the same key several times.
func changeTypes(g *gen) (commands [][]string) {
	key := g.from(changing...)
	for range 1 + g.IntN(4) {
		commands = append(commands, []string{"DEL", key}, one(g, []string{"XADD", key, "1-*", "f",
			"x"}, []string{"RPUSH", key, "a", "b"}, []string{"ZADD", key, "1", "c"},
			[]string{"COPY", g.from(changingSources...), key, "REPLACE"}))
	}
	return commands[g.IntN(2):]
}
