package e2e

import (
	"slices"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// streamGenerators draw the stream commands of 7.0.
var streamGenerators = []generator{
	{16, drawXAdd},
	{2, func(g *gen) []string { return []string{"XLEN", g.streamKey()} }},
	{6, func(g *gen) []string {
		args := []string{"XRANGE", g.streamKey(), g.bound("-"), g.bound("+")}
		if g.chance(30) {
			args[0], args[2], args[3] = "XREVRANGE", g.bound("+"), g.bound("-")
		}
		return append(args, g.someCount()...)
	}},
	{6, drawXRead},
	{12, drawXReadGroup},
	{3, func(g *gen) []string { return append([]string{"XDEL", g.streamKey()}, g.ids(3)...) }},
	{3, func(g *gen) []string { return append([]string{"XTRIM", g.streamKey()}, g.trim()...) }},
	{1, drawXSetID},
	{8, drawXGroup},
	{5, func(g *gen) []string {
		return append([]string{"XACK", g.streamKey(), g.group()}, g.ids(4)...)
	}},
	{5, drawXPending},
	{4, drawXClaim},
	{4, drawXAutoClaim},
	{5, drawXInfo},
}

var streamValues = []func(key string) []string{
	func(key string) []string { return []string{"XRANGE", key, "-", "+"} },
	func(key string) []string { return []string{"XPENDING", key, "g"} },
	func(key string) []string { return []string{"XPENDING", key, "g", "-", "+", "100"} },
	func(key string) []string { return []string{"XINFO", "STREAM", key, "FULL", "COUNT", "0"} },
}

// TestDiffStreams runs only stream commands, and a few that change keys.
func TestDiffStreams(t *testing.T) {
	t.Parallel()
	s := &both{redisServer: testkit.Redis(t, bulkFlag...), keypServer: testkit.Keyp(t, bulkFlag...)}
	s.runOf(t, diffCases(t), streamPool, nil)
}

// TestDiffStreamsOverRestarts is TestDiffStreams while Keyp is killed and started again between
// commands.
func TestDiffStreamsOverRestarts(t *testing.T) {
	t.Parallel()
	s := &both{redisServer: testkit.Redis(t, bulkFlag...)}
	s.keypServer = testkit.Keyp(t, append(bulkFlag, "--wal-segment-size", "1mb")...)
	s.runOf(t, diffShare(t, 4), streamPool, func(r *diffRun) error { return r.restart(s) })
}

// TestDiffStreamEvents compares the events of stream commands.
func TestDiffStreamEvents(t *testing.T) {
	t.Parallel()
	s := &both{redisServer: testkit.Redis(t, bulkFlag...), keypServer: testkit.Keyp(t, bulkFlag...),
		listens: true}
	s.runOf(t, diffShare(t, 2), streamPool, nil)
}

var streamPool = slices.Concat(streamGenerators, []generator{
	{2, func(g *gen) []string { return []string{"DEL", g.streamKey()} }},
	{2, func(g *gen) []string {
		return []string{g.from("RENAME", "COPY", "RENAMENX"), g.streamKey(), g.streamKey()}
	}},
	{1, func(g *gen) []string { return []string{"SET", g.streamKey(), "x"} }},
	{1, func(g *gen) []string { return []string{"TYPE", g.streamKey()} }},
	{1, func(g *gen) []string { return []string{"OBJECT", "ENCODING", g.streamKey()} }},
	{1, func(g *gen) []string { return []string{"SORT", g.streamKey()} }},
	{1, func(g *gen) []string { return []string{"SCAN", "0", "TYPE", "stream"} }},
})

// streamKey draws a key that mostly holds a stream.
func (g *gen) streamKey() string {
	if g.few || g.chance(6) {
		return g.key()
	}
	return g.from("st", "st", "st", "st2")
}

func (g *gen) group() string {
	if g.chance(6) {
		return g.from("nogroup", "", "g\x00x")
	}
	return g.from("g", "g", "h")
}

func (g *gen) consumer() string { return g.from("c1", "c1", "c2", "") }

// id draws one of few IDs.
func (g *gen) id() string {
	if g.chance(6) {
		return g.from("0-0", "0", "x", "", "-", "+", "$", "1-x", "5-", "-5", "1-2-3", "(1-1",
			"18446744073709551615-18446744073709551615",
			"18446744073709551616-0", " 1-1", "01-01", "+1-1", "1- 1", "1--1", "*", "1-*",
			strings.Repeat("1", 128))
	}
	if g.chance(10) {
		return g.between(0, 12)
	}
	return g.between(0, 12) + "-" + g.between(0, 2)
}

func (g *gen) ids(most int) []string {
	list := make([]string, 1+g.IntN(most))
	for i := range list {
		list[i] = g.id()
	}
	return list
}

// bound draws an end of a range.
func (g *gen) bound(all string) string {
	switch {
	case g.chance(50):
		return all
	case g.chance(20):
		return "(" + g.id()
	}
	return g.id()
}

func (g *gen) someCount() []string {
	if g.chance(60) {
		return nil
	}
	return []string{g.from("COUNT", "count"), g.from("1", "2", "3", "0", "-1", "x", "100")}
}

// trim draws the options of trimming. Options for inexact trimming do not change a short stream.
func (g *gen) trim() []string {
	args := []string{"MAXLEN"}
	threshold := g.between(0, 8)
	if g.chance(40) {
		args, threshold = []string{"MINID"}, g.id()
	} else if g.chance(5) {
		threshold = g.from("-1", "x", "9223372036854775807")
	}
	if g.chance(30) {
		args = append(args, "=")
	} else if g.chance(15) {
		args, threshold = append(args, "~"), "4"
	}
	args = append(args, threshold)
	if g.chance(10) {
		args = append(args, "LIMIT", g.from("0", "1", "5", "-1", "x"))
	}
	if g.chance(3) {
		args = append(args, "MAXLEN", "3")
	}
	return args
}

func drawXAdd(g *gen) []string {
	args := []string{"XADD", g.streamKey()}
	if g.chance(10) {
		args = append(args, g.from("NOMKSTREAM", "nomkstream"))
	}
	if g.chance(15) {
		args = append(args, g.trim()...)
	}
	switch {
	case g.chance(70):
		args = append(args, g.between(1, 12)+"-*")
	default:
		args = append(args, g.id())
	}
	if args[len(args)-1] == "*" ||
		args[len(args)-1] == "18446744073709551615-18446744073709551615" {
		args[len(args)-1] = "1-*" // not the time, which differs, and not the end of the stream
	}
	for range 1 + g.IntN(3) {
		args = append(args, g.from("f", "g", "", "field"), g.value())
	}
	return args
}

func drawXRead(g *gen) []string {
	args := append([]string{"XREAD"}, g.someCount()...)
	if g.chance(10) {
		args = append(args, "BLOCK", g.from("1", "2", "x", "-1"))
	}
	args = append(args, g.from("STREAMS", "streams"))
	n := 1 + g.IntN(2)
	for range n {
		args = append(args, g.streamKey())
	}
	for range n {
		if g.chance(15) {
			args = append(args, g.from("$", ">"))
		} else {
			args = append(args, g.id())
		}
	}
	return g.withoutPlus(args)
}

// withoutPlus removes the ID "+", which 7.0 does not know here.
func (g *gen) withoutPlus(args []string) []string {
	for i := range args {
		if args[i] == "+" {
			args[i] = "$"
		}
	}
	return args
}

func drawXReadGroup(g *gen) []string {
	args := append([]string{"XREADGROUP", "GROUP", g.group(), g.consumer()}, g.someCount()...)
	if g.chance(10) {
		args = append(args, "BLOCK", g.from("1", "2", "x", "-1"))
	}
	if g.chance(15) {
		args = append(args, "NOACK")
	}
	args = append(args, "STREAMS")
	n := 1 + g.IntN(2)
	for range n {
		args = append(args, g.streamKey())
	}
	for range n {
		if g.chance(75) {
			args = append(args, ">")
		} else {
			args = append(args, g.id())
		}
	}
	return g.withoutPlus(args)
}

// drawXSetID draws no ID below a deleted one, as 7.0 accepts it and later versions refuse it.
func drawXSetID(g *gen) []string {
	args := []string{"XSETID", g.streamKey(), g.from("12-900", "12-901", "12-902", "12-900", "x",
		"", "$", "1-x", "*")}
	if g.chance(30) {
		args = append(args, "ENTRIESADDED", g.from("0", "5", "100", "-1", "x"))
	}
	if g.chance(30) {
		args = append(args, "MAXDELETEDID", g.id())
	}
	return args
}

func drawXGroup(g *gen) []string {
	key, group := g.streamKey(), g.group()
	switch g.IntN(10) {
	case 0, 1, 2, 3:
		args := []string{"XGROUP", g.from("CREATE", "create"), key, group,
			g.from("$", "0", "0-0", g.id())}
		if g.chance(60) {
			args = append(args, "MKSTREAM")
		}
		if g.chance(15) {
			args = append(args, "ENTRIESREAD", g.from("0", "3", "-1", "-2", "x"))
		}
		return args
	case 4, 5:
		args := []string{"XGROUP", "SETID", key, group, g.from("$", "0", g.id())}
		if g.chance(30) {
			args = append(args, "ENTRIESREAD", g.from("0", "3", "-1", "-2", "x"))
		}
		return args
	case 6:
		return []string{"XGROUP", "DESTROY", key, group}
	case 7, 8:
		return []string{"XGROUP", "CREATECONSUMER", key, group, g.consumer()}
	}
	return []string{"XGROUP", "DELCONSUMER", key, group, g.consumer()}
}

func drawXPending(g *gen) []string {
	args := []string{"XPENDING", g.streamKey(), g.group()}
	if g.chance(30) {
		return args
	}
	if g.chance(20) {
		args = append(args, "IDLE", g.from("0", "9999999", "x"))
	}
	args = append(args, g.bound("-"), g.bound("+"), g.from("1", "10", "10", "0", "-1", "x"))
	if g.chance(30) {
		args = append(args, g.consumer())
	}
	return args
}

func drawXClaim(g *gen) []string {
	args := append([]string{"XCLAIM", g.streamKey(), g.group(), g.consumer(),
		g.from("0", "0", "9999999", "-1", "x")}, g.ids(4)...)
	for _, option := range [][]string{
		{"IDLE", g.from("0", "10000000", "-1", "x")},
		{"TIME", g.from("1", "1000000000000", "9223372036854775807", "-1", "x")},
		{"RETRYCOUNT", g.from("0", "7", "-1", "x")}, {"FORCE"}, {"JUSTID"}, {"LASTID", g.id()},
		{"BAD"},
	} {
		if g.chance(one(g, 5, 25)) && (option[0] != "BAD" || g.chance(20)) {
			args = append(args, option...)
		}
	}
	return args
}

func drawXAutoClaim(g *gen) []string {
	args := []string{"XAUTOCLAIM", g.streamKey(), g.group(), g.consumer(),
		g.from("0", "0", "9999999", "-1", "x"), g.bound("-")}
	if g.chance(40) {
		args = append(args, "COUNT", g.from("1", "2", "3", "0", "-1", "x"))
	}
	if g.chance(25) {
		args = append(args, "JUSTID")
	}
	return args
}

func drawXInfo(g *gen) []string {
	switch g.IntN(4) {
	case 0:
		return []string{"XINFO", "GROUPS", g.streamKey()}
	case 1:
		return []string{"XINFO", "CONSUMERS", g.streamKey(), g.group()}
	case 2:
		return []string{"XINFO", g.from("STREAM", "stream"), g.streamKey()}
	}
	args := []string{"XINFO", "STREAM", g.streamKey(), g.from("FULL", "full", "x")}
	if g.chance(50) {
		args = append(args, "COUNT", g.from("0", "1", "2", "-1", "x"))
	}
	return args
}

// consumersOf returns commands that create the consumers of a command on both servers. In Keyp and
// from Redis 7.2 on, a client that asks a group for entries becomes a consumer even if there are
// none.
func consumersOf(args []string) (commands [][]string) {
	create := func(key, group, name string) {
		commands = append(commands, []string{"XGROUP", "CREATECONSUMER", key, group, name})
	}
	switch name := strings.ToUpper(args[0]); {
	case (name == "XCLAIM" || name == "XAUTOCLAIM") && len(args) > 3:
		create(args[1], args[2], args[3])
	case name == "XREADGROUP":
		at := slices.IndexFunc(args, func(arg string) bool {
			return strings.EqualFold(arg, "STREAMS")
		})
		group := slices.IndexFunc(args, func(arg string) bool {
			return strings.EqualFold(arg, "GROUP")
		})
		if at < 0 || group < 0 || group+2 >= len(args) {
			return nil
		}
		keys := args[at+1:]
		for _, key := range keys[:len(keys)/2] {
			create(key, args[group+1], args[group+2])
		}
	}
	return commands
}

// alikeStream compares replies that depend on the time or on the version.
func alikeStream(args []string, keyp, redis reply) bool {
	switch strings.ToUpper(args[0]) {
	case "XPENDING": // the time that an entry is pending
		return sameButTimes(keyp, redis)
	case "XINFO":
		return sameButTimes(withoutNew(keyp), withoutNew(redis))
	}
	return false
}

// fieldsApart has the fields of XINFO that 7.0 lacks or counts differently, or that depend on how
// entries are stored.
var fieldsApart = []string{"inactive", "active-time", "entries-read", "lag", "radix-tree-keys",
	"radix-tree-nodes", "seen-time", "idle"}

// withoutNew returns a reply of XINFO without fieldsApart, and with maps as arrays.
func withoutNew(r reply) reply {
	if len(r.items) == 0 {
		return r
	}
	to := reply{kind: '*'}
	for i := 0; i < len(r.items); i++ {
		if item := r.items[i]; slices.Contains(fieldsApart, item.text) && i+1 < len(r.items) {
			i++
			continue
		}
		to.items = append(to.items, withoutNew(r.items[i]))
	}
	return to
}

// sameButTimes returns true if replies are the same except for numbers that may be times.
func sameButTimes(a, b reply) bool {
	if len(a.items) != len(b.items) {
		return false
	}
	if len(a.items) == 0 {
		if a.raw == b.raw {
			return true
		}
		n, ok := a.number()
		m, ok2 := b.number()
		return ok && ok2 && within(n, m, apart)
	}
	for i := range a.items {
		if !sameButTimes(a.items[i], b.items[i]) {
			return false
		}
	}
	return true
}
