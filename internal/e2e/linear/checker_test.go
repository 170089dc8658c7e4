package linear

import (
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestChecker: the checker detects histories that must not happen, and accepts those that may.
func TestChecker(t *testing.T) {
	const ms = 1_000_000
	// op returns an operation that runs between from and to, in ms of both clocks. Without replies
	// the operation is lost.
	op := func(from, to int64, way string, commands []command, replies ...any) porcupine.Operation {
		return porcupine.Operation{
			Input:  call{way: way, commands: commands, from: from, to: to},
			Output: outcome{lost: replies == nil, replies: replies},
			Call:   from * ms, Return: to * ms,
		}
	}
	one := func(verb, data string, ttl int64) []command {
		return []command{{verb: verb, data: data, ttl: ttl}}
	}
	get, incr, del, when := one("GET", "", 0), one("INCR", "", 0), one("DEL", "", 0),
		one("PEXPIRETIME", "", 0)
	set := func(value string) []command { return one("SET", value, 0) }
	both := func(verb, a, b string) []command {
		return []command{{verb: verb, data: a}, {verb: verb, key: 1, data: b}}
	}
	type history []porcupine.Operation
	// under moves a history to the given key, and gives it an outbox with these entries. It adds
	// the check that all of them have been reported.
	under := func(key int, list []expiry, h history) history {
		var box outbox
		box[key] = list
		for i := range h {
			c := h[i].Input.(call)
			c.outbox, c.commands = &box, slices.Clone(c.commands)
			for j := range c.commands {
				c.commands[j].key = key
			}
			h[i].Input = c
		}
		all := op(900, 901, "", one(allReported, "", 0), int64(len(list)))
		c := all.Input.(call)
		c.outbox, c.commands[0].key = &box, key
		all.Input = c
		return append(h, all)
	}
	for _, tt := range []struct {
		name string
		ok   bool
		history
	}{
		{"one after the other", true, history{op(1, 2, "", set("a"), "OK"), op(3, 4, "", get, "a"),
			op(5, 6, "", del, int64(1)), op(7, 8, "", get, nil)}},
		{"at the same time", true, history{op(1, 9, "", set("a"), "OK"), op(2, 3, "", get, nil),
			op(4, 5, "", get, "a")}},
		{"acknowledged and lost", false,
			history{op(1, 2, "", set("a"), "OK"), op(3, 4, "", get, nil)}},
		{"an older value", false, history{op(1, 2, "", set("a"), "OK"),
			op(3, 4, "", set("b"), "OK"), op(5, 6, "", get, "a")}},
		{"seen and lost", false, history{op(1, 9, "", set("a"), "OK"), op(2, 3, "", get, "a"),
			op(4, 5, "", get, nil)}},
		{"two first increments", false,
			history{op(1, 9, "", incr, int64(1)), op(1, 9, "", incr, int64(1))}},
		{"two winners of SETNX", false, history{op(1, 9, "", one("SETNX", "a", 0), int64(1)),
			op(1, 9, "", one("SETNX", "b", 0), int64(1))}},
		{"no number", true, history{op(1, 2, "", set("a"), "OK"),
			op(3, 4, "", incr, errNotInteger)}},
		{"deleted twice", false, history{op(1, 2, "", set("a"), "OK"), op(3, 9, "", del, int64(1)),
			op(3, 9, "", del, int64(1))}},

		{"under way and there", true, history{op(1, 9, "", set("a")), op(10, 11, "", get, "a")}},
		{"under way and not there", true,
			history{op(1, 9, "", set("a")), op(10, 11, "", get, nil)}},
		{"under way and there too late", false,
			history{op(1, 9, "", set("a")), op(10, 11, "", get, nil), op(12, 13, "", get, "a")}},
		{"under way, seen, and lost", false, history{op(1, 9, "", set("a")), op(2, 3, "", get, "a"),
			op(10, 11, "", get, nil)}},
		{"under way and done twice", false, history{op(1, 9, "", incr), op(10, 11, "", get, "2")}},

		{"EXEC whole", true, history{op(1, 9, "EXEC", both("SET", "a", "b")),
			op(10, 11, "EXEC", both("GET", "", ""), "a", "b")}},
		{"half an EXEC", false, history{op(1, 9, "EXEC", both("SET", "a", "b")),
			op(10, 11, "EXEC", both("GET", "", ""), "a", nil)}},
		{"half an EXEC, seen by one key", false,
			history{op(1, 9, "EXEC", both("SET", "a", "b"), "OK", "OK"),
				op(2, 3, "", both("GET", "", "")[1:], "b"), op(4, 5, "", get, nil)}},
		{"between an EXEC", false, history{op(1, 9, "EXEC", append(incr, incr...), int64(1),
			int64(2)), op(2, 8, "", get, "1")}},

		{"expired", true, history{op(1, 2, "", one("SET", "a", 10), "OK"),
			op(11, 12, "", get, nil)}},
		{"expired too early", false, history{op(1, 2, "", one("SET", "a", 10), "OK"),
			op(9, 10, "", get, nil)}},
		{"there at its deadline", false, history{op(1, 2, "", one("SET", "a", 10), "OK"),
			op(12, 13, "", get, "a")}},
		{"seen expired and back", false, history{op(1, 2, "", one("SET", "a", 10), "OK"),
			op(11, 11, "", get, nil), op(11, 11, "", when, int64(12)),
			op(12, 12, "", get, "a")}},
		{"a deadline that moved", false, history{op(1, 5, "", one("SET", "a", 10), "OK"),
			op(6, 7, "", when, int64(12)), op(8, 9, "", when, int64(13))}},
		{"a deadline that moved, unseen", false, history{op(1, 5, "", one("SET", "a", 10), "OK"),
			op(6, 7, "", when, int64(12)), op(12, 12, "", get, "a")}},
		{"a deadline that nobody set", false,
			history{op(1, 2, "", set("a"), "OK"), op(6, 7, "", when, int64(12))}},
		{"PEXPIRE forgotten", false, history{op(1, 2, "", set("a"), "OK"),
			op(3, 4, "", one("PEXPIRE", "", 1000), int64(1)), op(5, 6, "", when, int64(-1))}},
		{"PEXPIRE under way and done", true, history{op(1, 2, "", set("a"), "OK"),
			op(3, 20, "", one("PEXPIRE", "", 5)), op(21, 22, "", get, nil)}},
		{"PEXPIRE under way, and gone too late", false, history{op(1, 2, "", set("a"), "OK"),
			op(3, 20, "", one("PEXPIRE", "", 5)), op(25, 26, "", get, "a"),
			op(27, 28, "", get, nil)}},
		{"PERSIST forgotten", false, history{op(1, 2, "", one("SET", "a", 10), "OK"),
			op(3, 4, "", one("PERSIST", "", 0), int64(1)), op(20, 21, "", get, nil)}},
		{"two keys, one instant", false, history{op(1, 1, "", one("SET", "a", 10), "OK"),
			op(2, 2, "", []command{{verb: "SET", key: 1, data: "b", ttl: 20}}, "OK"),
			op(5, 30, "EXEC", both("GET", "", ""), "a", nil)}},

		{"reported", true, under(2, []expiry{{"a", 12}},
			history{op(1, 2, "", one("SET", "a", 10), "OK"), op(20, 21, "", get, nil)})},
		{"reported when written over", true, under(2, []expiry{{"a", 12}},
			history{op(1, 2, "", one("SET", "a", 10), "OK"), op(12, 21, "", set("b"), "OK")})},
		{"not reported when written over", true, under(2, nil,
			history{op(1, 2, "", one("SET", "a", 10), "OK"), op(11, 21, "", set("b"), "OK")})},
		{"reported though written over before", false, under(2, []expiry{{"a", 12}},
			history{op(1, 2, "", one("SET", "a", 10), "OK"), op(3, 4, "", set("b"), "OK")})},
		{"not reported", false, under(2, nil, history{op(1, 2, "", one("SET", "a", 10), "OK"),
			op(20, 21, "", get, nil)})},
		{"reported twice", false, under(2, []expiry{{"a", 12}, {"a", 12}},
			history{op(1, 2, "", one("SET", "a", 10), "OK"), op(20, 21, "", get, nil)})},
		{"reported with another value", false, under(2, []expiry{{"b", 12}},
			history{op(1, 2, "", one("SET", "a", 10), "OK"), op(20, 21, "", get, nil)})},
		{"reported with another deadline", false, under(2, []expiry{{"a", 14}},
			history{op(1, 2, "", one("SET", "a", 10), "OK"), op(20, 21, "", get, nil)})},
		{"reported: a lost SET that was there", true, under(2, []expiry{{"a", 12}},
			history{op(1, 5, "", one("SET", "a", 10)), op(20, 21, "", get, nil)})},
		{"reported: what DEL removed", false, under(2, []expiry{{"a", 12}},
			history{op(1, 2, "", one("SET", "a", 10), "OK"), op(3, 4, "", del, int64(1))})},
		{"reported: EXPIRE 0", true, under(2, []expiry{{"a", 3}},
			history{op(1, 2, "", set("a"), "OK"), op(3, 4, "", one("PEXPIRE", "", 0), int64(1))})},
		{"EXPIRE 0 not reported", false, under(2, nil,
			history{op(1, 2, "", set("a"), "OK"), op(3, 4, "", one("PEXPIRE", "", 0), int64(1))})},
		{"a deadline by default", true, under(boundKey, nil, history{op(1, 2, "", set("a"), "OK"),
			op(3, 4, "", when, int64(2+byDefault)), op(5, 6, "", del, int64(1))})},
		{"no deadline by default", false, under(boundKey, nil, history{op(1, 2, "", set("a"), "OK"),
			op(3, 4, "", when, int64(-1)), op(5, 6, "", del, int64(1))})},
		{"a long deadline cut", true,
			under(boundKey, nil, history{op(1, 2, "", one("SET", "a", 290), "OK"),
				op(3, 4, "", when, int64(1+most)), op(5, 6, "", del, int64(1))})},
		{"a long deadline not cut", false,
			under(boundKey, nil, history{op(1, 2, "", one("SET", "a", 290), "OK"),
				op(3, 4, "", when, int64(291)), op(5, 6, "", del, int64(1))})},
		{"a deadline slid", true, under(slidKey, []expiry{{"a", 52 + slide}},
			history{op(1, 2, "", one("SET", "a", 90), "OK"), op(51, 52, "", get, "a")})},
		{"a deadline not slid", false, under(slidKey, []expiry{{"a", 92}},
			history{op(1, 2, "", one("SET", "a", 90), "OK"), op(51, 52, "", get, "a")})},
		{"a deadline slid by too little", false, under(slidKey, []expiry{{"a", 12 + slide}},
			history{op(1, 2, "", one("SET", "a", slide), "OK"), op(11, 12, "", get, "a")})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if ok := porcupine.CheckOperations(model, tt.history); ok != tt.ok {
				t.Errorf("linearizable: %v", ok)
			}
		})
	}
}
