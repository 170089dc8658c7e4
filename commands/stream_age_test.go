package commands

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestXCfgSetMaxAge(t *testing.T) {
	table(t, `
		XCFGSET s MAXAGE 10 -> -ERR no such key
		XADD s 1700000000000-1 a 1 -> "1700000000000-1"
		XADD s 1700000000000-2 a 2 -> "1700000000000-2"
		XADD s 1700000000005-1 a 3 -> "1700000000005-1"
		XCFGSET s MAXAGE -1 -> -ERR MAXAGE must be between 0 and 281474976710655 milliseconds, or have a unit, such as 10m
		XCFGSET s MAXAGE 281474976710656 -> -ERR MAXAGE must be between 0 and 281474976710655 milliseconds, or have a unit, such as 10m
		XCFGSET s MAXAGE x -> -ERR MAXAGE must be between 0 and 281474976710655 milliseconds, or have a unit, such as 10m
		XCFGSET s MAXAGE 1 MAXAGE 1 -> -ERR MAXAGE specified multiple times
		XCFGSET s ACKED MAXAGE 1 -> -ERR syntax error
		XCFGSET s MAXAGE 1 ACKED DELREF -> -ERR syntax error
		XCFGSET s MAXAGE 10 -> +OK
		events -> xadd:s xadd:s xadd:s
		advance 9ms
		XLEN s -> 3
		reopen
		XLEN s -> 3
		advance 1ms
		XLEN s -> 1
		events -> xexpired:s
		XRANGE s - + -> [["1700000000005-1", ["a", "3"]]]
		XINFO STREAM s -> ["length", 1, "radix-tree-keys", 1, "radix-tree-nodes", 2, "last-generated-id", "1700000000005-1", "max-deleted-entry-id", "0-0", "entries-added", 3, "recorded-first-entry-id", "1700000000005-1", "max-age", 10, "max-age-condition", "KEEPREF", "groups", 0, "first-entry", ["1700000000005-1", ["a", "3"]], "last-entry", ["1700000000005-1", ["a", "3"]]]
		reopen
		advance 5ms
		XREAD STREAMS s 0 -> nilarray
		EXISTS s -> 1
		XINFO STREAM s -> ["length", 0, "radix-tree-keys", 0, "radix-tree-nodes", 1, "last-generated-id", "1700000000005-1", "max-deleted-entry-id", "0-0", "entries-added", 3, "recorded-first-entry-id", "0-0", "max-age", 10, "max-age-condition", "KEEPREF", "groups", 0, "first-entry", nil, "last-entry", nil]
		reopen
		XADD s 1700000000005-1 a 3 -> -ERR The ID specified in XADD is equal or smaller than the target stream top item
		XADD s 1700000000005-2 a 3 -> "1700000000005-2"
		XLEN s -> 0
		XCFGSET s MAXAGE 0 -> +OK
		reopen
		XLEN s -> 0
		XADD s 1700000000005-3 a 3 -> "1700000000005-3"
		advance 1h
		XLEN s -> 1
		COPY s t -> 1
		XCFGSET t MAXAGE 100 -> +OK
		XLEN t -> 0
		XADD t * a 4 -> "1700003600015-0"
		COPY t u -> 1
		RENAME u v -> +OK
		advance 100ms
		XLEN v -> 0
		XLEN s -> 1
		XADD v 18446744073709551615-1 a 5 -> "18446744073709551615-1"
		advance 1000h
		XLEN v -> 1
	`)
}

// TestMaxAgeGroups: when entries reach the maximum age, they are removed. Depending on the option,
// a group's pending references to them stay, are removed too, or prevent the removal.
func TestMaxAgeGroups(t *testing.T) {
	for _, c := range []struct{ option, pending, length string }{
		{"KEEPREF", `[3, "1700000000000-1", "1700000000000-3", [["c", "3"]]]`, "0"},
		{"DELREF", `[0, nil, nil, nilarray]`, "0"},
		{"ACKED", `[3, "1700000000000-1", "1700000000000-3", [["c", "3"]]]`, "3"},
	} {
		t.Run(c.option, func(t *testing.T) {
			table(t, `
				XADD s 1700000000000-1 a 1 -> "1700000000000-1"
				XADD s 1700000000000-2 a 2 -> "1700000000000-2"
				XADD s 1700000000000-3 a 3 -> "1700000000000-3"
				XGROUP CREATE s g 0 -> +OK
				XCFGSET s MAXAGE 10 `+c.option+` -> +OK
				does XREADGROUP GROUP g c STREAMS s >
				COPY s t -> 1
				advance 10ms
				XLEN s -> `+c.length+`
				XPENDING s g -> `+c.pending+`
				XLEN t -> `+c.length+`
				XPENDING t g -> `+c.pending+`
				reopen
				XLEN s -> `+c.length+`
				XPENDING s g -> `+c.pending+`
				XLEN t -> `+c.length+`
				XPENDING t g -> `+c.pending+`
			`)
		})
	}
	table(t, `
		XADD s 1700000000000-1 a 1 -> "1700000000000-1"
		XADD s 1700000000000-2 a 2 -> "1700000000000-2"
		XADD s 1700000000000-3 a 3 -> "1700000000000-3"
		XADD s 1700000000000-4 a 3 -> "1700000000000-4"
		XGROUP CREATE s g 0 -> +OK
		XGROUP CREATE s h 1700000000000-3 -> +OK
		XCFGSET s MAXAGE 10 ACKED -> +OK
		does XREADGROUP GROUP g c STREAMS s >
		advance 20ms
		XACK s g 1700000000000-2 -> 1
		XRANGE s - + -> [["1700000000000-1", ["a", "1"]], ["1700000000000-3", ["a", "3"]], ["1700000000000-4", ["a", "3"]]]
		reopen
		XACK s g 1700000000000-4 -> 1
		XLEN s -> 3
		XREADGROUP GROUP h c NOACK STREAMS s > -> [["s", [["1700000000000-4", ["a", "3"]]]]]
		XLEN s -> 2
		MULTI -> +OK
		XACK s g 1700000000000-1 -> +QUEUED
		XLEN s -> +QUEUED
		EXEC -> [1, 1]
		XGROUP DESTROY s g -> 1
		XLEN s -> 0
	`)
}

// TestMaxAgeGroupSetBack: if a group's last ID is set back, it has not read the later entries until
// the ID is beyond them again.
func TestMaxAgeGroupSetBack(t *testing.T) {
	table(t, `
		XADD s 1700000000000-1 a 1 -> "1700000000000-1"
		XADD s 1700000000000-2 a 2 -> "1700000000000-2"
		XADD s 1700000000000-3 a 3 -> "1700000000000-3"
		XGROUP CREATE s g 0 -> +OK
		XCFGSET s MAXAGE 10 ACKED -> +OK
		does XREADGROUP GROUP g c STREAMS s >
		advance 20ms
		XACK s g 1700000000000-2 -> 1
		XLEN s -> 2
		XGROUP SETID s g 0 -> +OK
		XACK s g 1700000000000-1 1700000000000-3 -> 2
		XLEN s -> 2
		XGROUP SETID s g 1700000000000-3 -> +OK
		XLEN s -> 0
	`)
}

// TestMaxAgeAsKey: for all other commands, a stream with a maximum age is an ordinary stream. A
// rename or a copy keeps the maximum age. RESTORE does not.
func TestMaxAgeAsKey(t *testing.T) {
	h := newHarness(t)
	h.run(`
		XADD s 1700000000000-1 a 1 -> "1700000000000-1"
		XCFGSET s MAXAGE 1000 DELREF -> +OK
		TYPE s -> +stream
		SCAN 0 TYPE stream -> ["0", ["s"]]
		OBJECT ENCODING s -> "stream"
		PTTL s -> -1
		MOVE s 1 -> 1
		SWAPDB 0 1 -> +OK
		COPY s t -> 1
		RENAME s r -> +OK
	`)
	if n := h.do("MEMORY", "USAGE", "r"); len(n) < 2 || n[0] < '1' || n[0] > '9' {
		t.Errorf("MEMORY USAGE replies %s", n)
	}
	if reply := h.do("RESTORE", "d", "0", h.dump("r")); reply != "+OK" {
		t.Fatal(reply)
	}
	h.run(`
		PEXPIRE t 500 -> 1
		reopen
		advance 500ms
		EXISTS t -> 0
		advance 500ms
		XLEN r -> 0
		XLEN d -> 1
	`)
}

// TestMaxAgeIsListed: KEYP.EXPIRING lists entries by their ids. KEYP.TIMELINE counts the key at the
// time of its first entry.
func TestMaxAgeIsListed(t *testing.T) {
	table(t, `
		XADD s 1700000000005-1 a 1 -> "1700000000005-1"
		KEYP.EXPIRING - + ELEMENTS s -> ["0", []]
		XCFGSET s MAXAGE 1000 -> +OK
		KEYP.EXPIRING - + ELEMENTS s -> ["0", [["1700000000005-1", 1700000001005]]]
		XADD s 1700000000007-1 a 1 -> "1700000000007-1"
		KEYP.EXPIRING - 1700000001006 ELEMENTS s -> ["0", [["1700000000005-1", 1700000001005]]]
		KEYP.EXPIRING 1700000001006 + ELEMENTS s -> ["0", [["1700000000007-1", 1700000001007]]]
		KEYP.TIMELINE 1700000001000 1700000001010 2 -> [[1700000001000, 0, 0, 0], [1700000001005, 1, 1, 1]]
		reopen
		advance 1006ms
		KEYP.EXPIRING - + ELEMENTS s -> ["0", [["1700000000007-1", 1700000001007]]]
		KEYP.TIMELINE 1700000001005 1700000001015 1 -> [[1700000001005, 1, 1, 1]]
		XADD s 1700000000008-1 a 1 -> "1700000000008-1"
		XCFGSET s MAXAGE 2000 -> +OK
		KEYP.EXPIRING - 1700000002008 ELEMENTS s -> ["0", [["1700000000007-1", 1700000002007]]]
		XGROUP CREATE s g 0 -> +OK
		XCFGSET s MAXAGE 2000 ACKED -> +OK
		KEYP.EXPIRING - + ELEMENTS s -> ["0", []]
		does XREADGROUP GROUP g c COUNT 1 STREAMS s >
		XACK s g 1700000000007-1 -> 1
		KEYP.EXPIRING - + ELEMENTS s -> ["0", [["1700000000007-1", 1700000002007]]]
	`)
}

// agedModel is a simple model of a stream with a maximum age.
type agedModel struct {
	ids     []int // ms since the beginning
	last    int
	age     int
	refs    string
	read    [2]int // of each group
	pending [2]map[int]bool
}

func (m *agedModel) acked(id int) bool {
	return m.read[0] >= id && m.read[1] >= id && !m.pending[0][id] && !m.pending[1][id]
}

// expire removes the entries that have reached the maximum age.
func (m *agedModel) expire(now int) {
	m.ids = slices.DeleteFunc(m.ids, func(id int) bool {
		if m.age == 0 || id+m.age > now || m.refs == "ACKED" && !m.acked(id) {
			return false
		}
		if m.refs == "DELREF" {
			delete(m.pending[0], id)
			delete(m.pending[1], id)
		}
		return true
	})
}

func agedID(ms int) string { return fmt.Sprintf("%d-1", 1700000000000+ms) }

// state returns the expected replies of XRANGE, and of XPENDING for both groups.
func (m *agedModel) state() string {
	var entries []string
	for _, id := range m.ids {
		entries = append(entries, fmt.Sprintf(`[%q, ["f", "v"]]`, agedID(id)))
	}
	s := "[" + strings.Join(entries, ", ") + "]"
	for g := range m.pending {
		var list []string
		for _, id := range ids(m.pending[g]) {
			list = append(list, agedID(id))
		}
		s += fmt.Sprint(list)
	}
	return s
}

// TestMaxAgeProperty: entries are added with chosen ids, trimmed, deleted, read and acknowledged,
// and the maximum age changes. The stream always has exactly the entries that are not too old, and
// the right pending ones. Restarts do not change that.
func TestMaxAgeProperty(t *testing.T) {
	h := newHarness(t)
	rapid.Check(t, func(rt *rapid.T) {
		h.t = rt
		h.do("FLUSHALL")
		zero := int(h.clock.Now() - 1700000000000)
		h.do("XGROUP", "CREATE", "s", "g0", "0", "MKSTREAM")
		h.do("XGROUP", "CREATE", "s", "g1", "0")
		m := &agedModel{pending: [2]map[int]bool{{}, {}}}
		now := zero
		var history []string
		do := func(args ...string) string {
			history = append(history, strings.Join(args, " "))
			m.expire(now)
			return h.do(args...)
		}
		draw := func(label string, to int) int { return rapid.IntRange(0, to).Draw(rt, label) }
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			g := draw("group", 1)
			name := fmt.Sprint("g", g)
			some := m.last
			if len(m.ids) > 0 {
				some = m.ids[draw("which", len(m.ids)-1)]
			}
			switch draw("step", 15) {
			case 0, 1, 2, 3:
				id := max(m.last+1, now-draw("old", 12)) + draw("ahead", 3)
				do("XADD", "s", agedID(id), "f", "v")
				m.ids, m.last = append(m.ids, id), id
			case 4, 5:
				do("XREADGROUP", "GROUP", name, "c", "COUNT", "3", "STREAMS", "s", ">")
				n := 0
				for _, id := range m.ids {
					if id > m.read[g] && n < 3 {
						m.read[g], m.pending[g][id] = id, true
						n++
					}
				}
			case 6, 7:
				list := ids(m.pending[g])
				if len(list) > 0 {
					id := list[draw("pending", len(list)-1)]
					do("XACK", "s", name, agedID(id))
					delete(m.pending[g], id)
				}
			case 8:
				do("XDEL", "s", agedID(some))
				m.ids = slices.DeleteFunc(m.ids, func(id int) bool { return id == some })
			case 9:
				n := draw("length", 6)
				do("XTRIM", "s", "MAXLEN", fmt.Sprint(n))
				m.ids = m.ids[max(len(m.ids)-n, 0):]
			case 10, 11:
				m.expire(now)
				age, refs := draw("age", 20),
					rapid.SampledFrom([]string{"KEEPREF", "DELREF", "ACKED"}).Draw(rt, "refs")
				do("XCFGSET", "s", "MAXAGE", fmt.Sprint(age), refs)
				m.age, m.refs = age, refs
			case 12:
				do("XGROUP", "SETID", "s", name, agedID(some))
				m.read[g] = some
			case 13:
				do("XREADGROUP", "GROUP", name, "c", "NOACK", "STREAMS", "s", ">")
				for _, id := range m.ids {
					m.read[g] = max(m.read[g], id)
				}
			default:
				if draw("restart", 5) == 0 {
					history = append(history, "reopen")
					h.reopen()
				}
				by := draw("advance", 7)
				history = append(history, fmt.Sprint("advance ", by))
				now += by
				h.clock.Advance(time.Duration(by) * time.Millisecond)
			}
			m.expire(now)
			if got, want := agedState(h), m.state(); got != want {
				rt.Fatalf("%s\ngot  %s\nwant %s", strings.Join(history, "\n"), got, want)
			}
		}
	})
}

var pendingID = regexp.MustCompile(`\["(\d+-1)", "c"`)

// agedState returns the replies that agedModel.state predicts.
func agedState(h *harness) string {
	s := h.do("XRANGE", "s", "-", "+")
	for _, g := range []string{"g0", "g1"} {
		var list []string
		for _, found := range pendingID.FindAllStringSubmatch(h.do("XPENDING", "s", g, "-",
			"+", "1000"), -1) {
			list = append(list, found[1])
		}
		s += fmt.Sprint(list)
	}
	return s
}
