package linear

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// TestStreamChecker tests the checker of histories of streams: it accepts histories that are
// linearizable, and refuses others.
func TestStreamChecker(t *testing.T) {
	const ms = 1_000_000
	// op returns an operation from from to to. Without replies it is lost.
	op := func(from, to int64, way string, commands []command, replies ...any) porcupine.Operation {
		o := outcome{lost: replies == nil, replies: replies}
		return porcupine.Operation{
			Input: call{way: way, commands: commands}, Output: o,
			Call: from*ms + (call{commands: commands}).waited(o).Nanoseconds(), Return: to * ms,
		}
	}
	do := func(verb string, key int, o streamOptions) []command {
		return []command{{verb: verb, key: key, streamOptions: o}}
	}
	at := func(n uint64) id { return id{7, n} }
	list := func(entries ...shown) []shown { return append([]shown{}, entries...) }
	e := func(n uint64, value string) shown { return shown{id: at(n), value: value} }
	pend := func(all ...owned) []owned { return append([]owned{}, all...) }

	create := op(1, 1, "", do("XGROUP CREATE", 0, streamOptions{from: "0"}), "OK")
	add := func(value string) []command { return []command{{verb: "XADD", data: value}} }
	one := op(2, 2, "", add("a"), at(1))
	two := op(3, 3, "", add("b"), at(2))
	read := func(consumer string) []command {
		return do("XREADGROUP", 0, streamOptions{from: ">", consumer: consumer})
	}
	first := func(consumer string) []command {
		return do("XREADGROUP", 0, streamOptions{from: ">", consumer: consumer, n: 1})
	}
	own := func(consumer string) []command {
		return do("XREADGROUP", 0, streamOptions{from: "0", consumer: consumer})
	}
	ack := do("XACK", 0, streamOptions{id: at(1)})
	all, pending, infos := do("XRANGE", 0, streamOptions{}), do("XPENDING", 0, streamOptions{}),
		do("XINFO GROUPS", 0, streamOptions{})
	claim := do("XCLAIM", 0, streamOptions{id: at(1), consumer: "y"})
	reset := do("XGROUP SETID", 0, streamOptions{from: "0"})
	waits := do("XREADGROUP", 0,
		streamOptions{from: ">", consumer: "x", block: 10 * time.Millisecond})
	both := []command{{verb: "XADD", data: "a"}, {verb: "XADD", key: 2, data: "b"}}
	a, b := e(1, "a"), e(2, "b")
	begun := func(rest ...porcupine.Operation) []porcupine.Operation {
		return append([]porcupine.Operation{create, one, two}, rest...)
	}
	taken := func(rest ...porcupine.Operation) []porcupine.Operation {
		return begun(append([]porcupine.Operation{op(4, 4, "", first("x"), list(a))}, rest...)...)
	}
	info := func(pending int64, last uint64) []groupShown {
		g := groupShown{"a", pending, at(last)}
		if last == 0 {
			g.last = id{}
		}
		return []groupShown{g}
	}
	for _, tt := range []struct {
		name    string
		ok      bool
		history []porcupine.Operation
	}{
		{"all there", true, begun(op(5, 5, "", all, list(a, b)))},
		{"acknowledged and lost", false, begun(op(5, 5, "", all, list(a)))},
		{"in another order", false, begun(op(5, 5, "", all, list(b, a)))},
		{"another value", false, begun(op(5, 5, "", all, list(a, e(2, "c"))))},
		{"another ID", false, begun(op(5, 5, "", all, list(a, e(3, "b"))))},
		{"an ID that goes back", false, begun(op(5, 5, "", add("c"), at(1)))},
		{"the same ID again", false, begun(op(5, 5, "", add("c"), at(2)))},
		{"IDs of additions at the same time", true,
			begun(op(5, 9, "", add("c"), at(5)), op(5, 9, "", add("d"), at(4)))},
		{"deleted and there", false, begun(op(5, 5, "", do("XDEL", 0, streamOptions{id: at(1)}),
			int64(1)), op(6, 6, "", all, list(a, b)))},
		{"trimmed and there", false, begun(op(5, 5, "", do("XTRIM", 0, streamOptions{n: 1}),
			int64(1)), op(6, 6, "", do("XLEN", 0, streamOptions{}), int64(2)))},
		{"read on", true, begun(op(5, 5, "", do("XREAD", 0, streamOptions{id: at(1)}), list(b)))},
		{"read on past one", false, begun(op(5, 5, "", add("c"), at(3)),
			op(6, 6, "", do("XREAD", 0, streamOptions{id: at(1)}), list(e(3, "c"))))},

		{"under way and there", true,
			append(begun(), op(5, 9, "", add("c")), op(10, 10, "", all, list(a, b, e(4, "c"))))},
		{"under way and not there", true,
			begun(op(5, 9, "", add("c")), op(10, 10, "", all, list(a, b)))},
		{"under way and there too late", false, begun(op(5, 9, "", add("c")),
			op(10, 10, "", all, list(a, b)), op(11, 11, "", all, list(a, b, e(4, "c"))))},
		{"under way with an ID before", false, begun(op(5, 9, "", add("c")), op(10, 10, "",
			add("d"), at(3)), op(11, 11, "", all, list(a, b, e(4, "c"), e(3, "d"))))},
		{"under way with two IDs", false, begun(op(5, 9, "", add("c")), op(10, 10, "", all,
			list(a, b, e(4, "c"))), op(11, 11, "", all, list(a, b, e(5, "c"))))},
		{"under way and there twice", false,
			begun(op(5, 9, "", add("c")), op(10, 10, "", all, list(a, b, e(4, "c"), e(5, "c"))))},

		{"delivered, each once", true,
			taken(op(5, 5, "", read("y"), list(b)), op(6, 6, "", read("x"), nil))},
		{"delivered twice", false, taken(op(5, 5, "", read("y"), list(a, b)))},
		{"delivered twice at the same time", false, begun(op(4, 9, "", first("x"), list(a)),
			op(4, 9, "", first("y"), list(a)))},
		{"delivered twice after SETID", true,
			taken(op(5, 5, "", reset, "OK"), op(6, 6, "", read("y"), list(a, b)))},
		{"SETID forgotten", false,
			taken(op(5, 5, "", reset, "OK"), op(6, 6, "", read("y"), list(b)))},
		{"passed over", false, begun(op(4, 4, "", first("x"), list(b)))},
		{"nothing although there is", false, begun(op(4, 4, "", read("x"), nil))},
		{"delivered to one, pending at another", false,
			taken(op(5, 5, "", pending, pend(owned{at(1), "y", 1})))},
		{"delivered and not pending", false, taken(op(5, 5, "", pending, pend()))},
		{"its own again", true, taken(op(5, 5, "", own("x"), list(a)),
			op(6, 6, "", pending, pend(owned{at(1), "x", 2})))},
		{"its own, counted once", false, taken(op(5, 5, "", own("x"), list(a)),
			op(6, 6, "", pending, pend(owned{at(1), "x", 1})))},
		{"its own forgotten", false, taken(op(5, 5, "", own("x"), list()))},
		{"its own, deleted", true, taken(op(5, 5, "", do("XDEL", 0, streamOptions{id: at(1)}),
			int64(1)), op(6, 6, "", own("x"), list(shown{id: at(1), gone: true})))},
		{"NOACK and pending", false,
			begun(op(4, 4, "", do("XREADGROUP", 0,
				streamOptions{from: ">", consumer: "x", noAck: true}), list(a, b)),
				op(5, 5, "", pending, pend(owned{at(1), "x", 1}, owned{at(2), "x", 1})))},

		{"acknowledged", true, taken(op(5, 5, "", ack, int64(1)), op(6, 6, "", pending, pend()),
			op(7, 7, "", ack, int64(0)))},
		{"acknowledged and pending", false,
			taken(op(5, 5, "", ack, int64(1)), op(6, 6, "", pending, pend(owned{at(1), "x", 1})))},
		{"acknowledged twice", false,
			taken(op(5, 9, "", ack, int64(1)), op(5, 9, "", ack, int64(1)))},
		{"acknowledged and claimed", false,
			taken(op(5, 5, "", ack, int64(1)), op(6, 6, "", claim, list(a)))},
		{"acknowledgement under way", true,
			taken(op(5, 9, "", ack), op(10, 10, "", pending, pend()))},
		{"acknowledgement under way, and pending again", false, taken(op(5, 9, "", ack),
			op(10, 10, "", pending, pend()), op(11, 11, "", own("x"), list(a)))},

		{"claimed", true, taken(op(5, 5, "", claim, list(a)),
			op(6, 6, "", pending, pend(owned{at(1), "y", 2})))},
		{"claimed by two", false,
			taken(op(5, 5, "", claim, list(a)), op(6, 6, "", own("x"), list(a)))},
		{"claimed in turn", true,
			taken(op(5, 5, "", do("XAUTOCLAIM", 0, streamOptions{consumer: "y", n: 5}),
				claimed{entries: list(a)}))},
		{"claimed in turn, but one", false, begun(op(4, 4, "", read("x"), list(a, b)), op(5, 5, "",
			do("XAUTOCLAIM", 0, streamOptions{consumer: "y", n: 5}), claimed{entries: list(a)}))},
		{"claimed what is deleted", true,
			taken(op(5, 5, "", do("XDEL", 0, streamOptions{id: at(1)}), int64(1)),
				op(6, 6, "", do("XAUTOCLAIM", 0, streamOptions{consumer: "y", n: 5}),
					claimed{entries: list(), gone: []id{at(1)}}), op(7, 7, "", pending, pend()))},
		{"given back", true,
			taken(op(5, 5, "", do("XNACK", 0, streamOptions{id: at(1), mode: "SILENT"}), int64(1)),
				op(6, 6, "", pending, pend(owned{at(1), "", 0})))},
		{"given back and its own", false,
			taken(op(5, 5, "", do("XNACK", 0, streamOptions{id: at(1), mode: "FAIL"}), int64(1)),
				op(6, 6, "", own("x"), list(a)))},

		{"last ID", true, taken(op(5, 5, "", infos, info(1, 1)), op(6, 6, "", read("x"), list(b)),
			op(7, 7, "", infos, info(2, 2)))},
		{"last ID that goes back", false,
			taken(op(5, 5, "", infos, info(1, 1)), op(6, 6, "", infos, info(1, 0)))},
		{"last ID that goes back unseen", false, taken(op(5, 5, "", infos, info(1, 0)))},
		{"last ID without the deliveries", false, begun(op(5, 5, "", infos, info(0, 2)))},

		{"delivery under way", true, begun(op(5, 9, "", first("x")),
			op(10, 10, "", read("y"), list(b)), op(11, 11, "", own("x"), list(a)))},
		{"delivery under way that did not happen", true,
			begun(op(5, 9, "", first("x")), op(10, 10, "", read("y"), list(a, b)))},
		{"delivery under way, then nowhere", false, begun(op(5, 9, "", first("x")), op(10, 10, "",
			read("y"), list(b)), op(11, 11, "", pending, pend(owned{at(2), "y", 1})))},
		{"delivery under way and to another", false, begun(op(5, 9, "", first("x")),
			op(10, 10, "", read("y"), list(a, b)), op(11, 11, "", own("x"), list(a)))},

		{"waited for nothing", true, []porcupine.Operation{create, op(2, 20, "", waits, nil),
			op(21, 21, "", add("a"), at(1))}},
		{"waited for what comes", true, []porcupine.Operation{create, op(2, 6, "", waits, list(a)),
			op(4, 5, "", add("a"), at(1))}},
		{"waited past what came", false, []porcupine.Operation{create, op(2, 20, "", waits, nil),
			op(4, 5, "", add("a"), at(1))}},
		{"waited past what SETID gave back", true, taken(op(5, 5, "", read("x"), list(b)),
			op(6, 30, "", waits, nil), op(8, 9, "", reset, "OK"))},
		{"waited past what came after SETID", false, taken(op(5, 5, "", read("x"), list(b)),
			op(6, 30, "", waits, nil), op(8, 9, "", reset, "OK"), op(10, 11, "", add("c"), at(3)))},
		{"waited for what came later", false, []porcupine.Operation{create,
			op(2, 4, "", waits, list(a)), op(5, 6, "", add("a"), at(1))}},

		{"EXEC whole", true, []porcupine.Operation{op(1, 9, "EXEC", both), op(10, 10, "", all,
			list(a)), op(11, 11, "", do("XLEN", 2, streamOptions{}), int64(1))}},
		{"half an EXEC", false, []porcupine.Operation{op(1, 9, "EXEC", both), op(10, 10, "", all,
			list(a)), op(11, 11, "", do("XLEN", 2, streamOptions{}), int64(0))}},
		{"delivered amid a script", false, []porcupine.Operation{create, op(2, 9, "EVAL",
			append(add("a"), add("b")...), at(1), at(2)), op(3, 8, "", read("x"), list(a))}},

		{"chosen IDs", true, []porcupine.Operation{op(1, 1, "", do("XADD", chosen, streamOptions{}),
			id{1, 0}), op(2, 9, "", do("XADD", chosen, streamOptions{})),
			op(10, 10, "", do("XADD", chosen, streamOptions{}), id{1, 2}),
			op(11, 11, "", do("DEL", chosen, streamOptions{}), int64(1)),
			op(12, 12, "", do("XADD", chosen, streamOptions{}), id{1, 0})}},
		{"a chosen ID left out", false,
			[]porcupine.Operation{op(1, 1, "", do("XADD", chosen, streamOptions{}), id{1, 0}),
				op(2, 2, "", do("XADD", chosen, streamOptions{}), id{1, 3})}},
		{"no group", true, []porcupine.Operation{op(1, 1, "", read("x"),
			refusal("NOGROUP No such key")), op(2, 2, "", pending, refusal("NOGROUP ")),
			op(3, 3, "", infos, refusal("ERR no such key")),
			op(4, 4, "", reset, refusal("ERR The XGROUP subcommand"))}},
		{"a group that is forgotten", false,
			[]porcupine.Operation{create, op(2, 2, "", read("x"), refusal("NOGROUP No such key"))}},
		{"a group that was there", true, []porcupine.Operation{create, op(2, 2, "",
			do("XGROUP CREATE", 0, streamOptions{from: "$"}), refusal("BUSYGROUP x"))}},
		{"a group destroyed and there", false, []porcupine.Operation{create, op(2, 2, "",
			do("XGROUP DESTROY", 0, streamOptions{}), int64(1)), op(3, 3, "", infos, info(0, 0))}},
		{"a consumer deleted, its entries pending", false,
			taken(op(5, 5, "", do("XGROUP DELCONSUMER", 0, streamOptions{consumer: "x"}), int64(1)),
				op(6, 6, "", pending, pend(owned{at(1), "x", 1})))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if ok := porcupine.CheckOperations(streamModel, tt.history); ok != tt.ok {
				t.Errorf("linearizable: %v", ok)
			}
		})
	}
}
