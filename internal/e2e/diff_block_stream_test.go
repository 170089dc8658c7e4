package e2e

import "testing"

// TestDiffBlockingStreams: the differential run of those who wait for streams. Streams with groups stay, as
// 7.0.15 has other errors for who waits for one that goes; those that are only read come and go.
func TestDiffBlockingStreams(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	s.runBlocking(t, readingStreams, nil)
}

// TestDiffBlockingStreamsFromDisk: the same while keys leave memory as soon as they can.
func TestDiffBlockingStreamsFromDisk(t *testing.T) {
	t.Parallel()
	s := forgetful(t)
	s.runBlocking(t, readingStreams, func() { s.unload(t) })
}

var (
	grouped = []string{"g0", "g1"}
	plain   = []string{"r0", "r1", "r2"}
)

var readingStreams = blockKind{
	begin: [][]string{
		{"XGROUP", "CREATE", "g0", "a", "0", "MKSTREAM"}, {"XGROUP", "CREATE", "g0", "b", "0"}, {"XGROUP", "CREATE", "g1", "a", "0", "MKSTREAM"},
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
			return append(args, g.from(append(plain, grouped...)...), g.from("$", "$", "1-"+g.between(1, 60), "2-0"))
		}
		args = append([]string{"XREADGROUP", "GROUP", "a", "c" + g.between(0, 2)}, args[1:]...)
		if g.chance(30) {
			args = append(append([]string{}, args[:4]...), append([]string{"NOACK"}, args[4:]...)...)
		}
		if g.chance(30) {
			return append(args, "g0", "g1", ">", ">")
		}
		key := g.from(grouped...)
		if key == "g0" {
			args[2] = g.from("a", "b")
		}
		return append(args, key, ">")
	},
	wake: func(g *gen) []string {
		switch g.IntN(10) {
		case 0:
			return []string{g.from("RENAME", "COPY", "RENAMENX"), g.from(plain...), g.from(plain...)}
		case 1:
			return one(g, []string{"DEL", g.from(plain...)}, []string{"SET", g.from(plain...), "x"}, []string{"PEXPIREAT", g.from(plain...), "1"})
		case 2:
			return []string{"XACK", g.from(grouped...), "a", "1-" + g.between(1, 30), "1-" + g.between(1, 30)}
		case 3:
			return []string{"XDEL", g.from(append(plain, grouped...)...), "1-" + g.between(1, 30)}
		}
		return xadd(g)
	},
	transaction: func(g *gen) [][]string {
		commands := [][]string{}
		key := g.from(append(plain, grouped...)...)
		for range 1 + g.IntN(4) {
			commands = append(commands, []string{"XADD", key, "1-*", "f", g.between(0, 99)})
		}
		if g.chance(30) {
			commands = append(commands, []string{"XREAD", "BLOCK", "0", "STREAMS", "r0", "$"}, []string{"DBSIZE"})
		}
		return commands
	},
	behind: func(g *gen) []string { return []string{g.from("XLEN", "EXISTS"), g.from(plain...)} },
	values: func() (list [][]string) {
		for _, key := range append(plain, grouped...) {
			list = append(list, []string{"TYPE", key}, []string{"XRANGE", key, "-", "+"}, []string{"XPENDING", key, "a"}, []string{"XPENDING", key, "b"})
		}
		return list
	},
}

func xadd(g *gen) []string {
	return []string{"XADD", g.from(append(plain, grouped...)...), "1-*", "f", g.between(0, 99)}
}
