package e2e

import "strconv"

// hllGenerators draw the commands of the test that compares HyperLogLogs of Keyp and Redis. A GET
// compares their bytes.
var hllGenerators = []generator{
	{14, drawPFAdd},
	{12, func(g *gen) []string { return []string{"GET", g.from(g.sketch(), "many")} }},
	{6, func(g *gen) []string {
		args := []string{"PFCOUNT", g.sketch()}
		for g.chance(30) {
			args = append(args, g.sketch())
		}
		return args
	}},
	{4, func(g *gen) []string {
		args := []string{"PFMERGE", g.sketch(), g.from(g.sketch(), "many")}
		for g.chance(40) {
			args = append(args, g.sketch())
		}
		return args
	}},
	{4, func(g *gen) []string {
		return []string{"PFDEBUG", g.from("GETREG", "DECODE", "ENCODING", "todense", "NOSUCH"),
			g.sketch()}
	}},
	{3, func(g *gen) []string { return []string{"SET", g.sketch(), g.sketchBytes()} }},
	{2, func(g *gen) []string { return []string{"COPY", g.sketch(), g.sketch(), "REPLACE"} }},
	{2, func(g *gen) []string {
		return []string{"CONFIG", "SET", "hll-sparse-max-bytes",
			g.from("0", "30", "100", "3000", "3000", "20000")}
	}},
	{2, func(g *gen) []string { return []string{"OBJECT", "ENCODING", g.sketch()} }},
}

// sketch draws a key that mostly holds a HyperLogLog.
func (g *gen) sketch() string {
	if g.few || g.chance(10) {
		return g.key()
	}
	return g.from("hll", "hll", "hll", "hll2")
}

// drawPFAdd draws few or thousands of elements, to get both encodings and the change between them.
// It adds several elements only to a key that is never damaged: if Redis fails at an element, it
// has already added those before.
func drawPFAdd(g *gen) []string {
	args := []string{"PFADD", g.sketch()}
	first, n := g.IntN(100_000), g.IntN(8)
	switch g.IntN(12) {
	case 0:
		n = 1 + g.IntN(3000)
	case 1, 2:
		n = 1 + g.IntN(200)
	}
	for i := range n {
		args = append(args, strconv.Itoa(first+i))
	}
	if g.chance(10) {
		args = append(args, g.value())
	}
	if len(args) > 3 {
		args[1] = "many"
	}
	return args
}

// sketchBytes draws the bytes of a HyperLogLog that is right or damaged. The registers of those
// that are too long are so at once: redis-server 7.0.15 accepts bytes behind a sparse one that is
// complete.
func (g *gen) sketchBytes() string {
	const header = "HYLL\x01\x00\x00\x00"
	cached := g.from("\x00\x00\x00\x00\x00\x00\x00\x80", "\x07\x00\x00\x00\x00\x00\x00\x00",
		"\x00\x00\x00\x00\x00\x00\x00\xff")
	return g.from(
		header+cached+"\x7f\xff",
		header+cached+"\x60\x00\x81\x5f\xfe",
		header+cached+"\x84\x84\x84\x88\x00\x3f\x7f\xba",
		header+cached+"\x83\x83\x7f\xf7",
		header+cached+"\xff\x7f\xfb",
		header+cached+"\x7f\xfe",
		header+cached+"\x7f\xff\x7f\xff",
		header+cached,
		"HYLL\x00\x00\x00\x00"+cached,
		"HYLL\x02\x00\x00\x00"+cached+"\x7f\xff",
		"HYLK\x01\x00\x00\x00"+cached+"\x7f\xff",
		"HYLL",
		g.value(),
	)
}
