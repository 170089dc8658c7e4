package restart

import (
	"fmt"
	"slices"
	"testing"
)

// TestSettle tests the model itself. After a kill, the model decides whether the data can be the
// result of the acknowledged commands, and of some of those without a reply. It must detect data
// that cannot.
func TestSettle(t *testing.T) {
	a, b := name{0, "a"}, name{0, "b"}
	before := func() state { return state{a: {data: "1"}, b: {"x", 5000, 5010}} }
	pending := []op{appendTo(a, "2"), rename(b, a), mset("m", a, b)}
	x := seen{true, "x", 5005}
	tests := []struct {
		name    string
		pending []op
		a, b    seen
		look    int64
		done    int
		wrong   bool
	}{
		{"nothing under way", nil, seen{true, "1", 0}, x, 100, 0, false},
		{"lost", nil, seen{}, x, 100, 0, true},
		{"older value", nil, seen{true, "0", 0}, x, 100, 0, true},
		{"deadline lost", nil, seen{true, "1", 0}, seen{true, "x", 0}, 100, 0, true},
		{"deadline gained", nil, seen{true, "1", 9000}, x, 100, 0, true},
		{"deadline later", nil, seen{true, "1", 0}, seen{true, "x", 5011}, 100, 0, true},
		{"deadline earlier", nil, seen{true, "1", 0}, seen{true, "x", 4999}, 100, 0, true},
		{"expired", nil, seen{true, "1", 0}, seen{}, 5000, 0, false},
		{"gone too early", nil, seen{true, "1", 0}, seen{}, 4999, 0, true},
		{"shown after its deadline", nil, seen{true, "1", 0}, x, 5005, 0, true},
		{"none of three", pending, seen{true, "1", 0}, x, 100, 0, false},
		{"one of three", pending, seen{true, "12", 0}, x, 100, 1, false},
		{"two of three", pending, x, seen{}, 100, 2, false},
		{"all of three", pending, seen{true, "m", 0}, seen{true, "m", 0}, 100, 3, false},
		{"half of a RENAME", pending, x, x, 100, 3, true},
		{"half of an MSET", pending, seen{true, "m", 0}, seen{}, 100, 3, true},
		{"something else is lost", pending[:1], seen{true, "1", 0}, seen{}, 100, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := before()
			shown := map[name]seen{a: tt.a, b: tt.b}
			done, problems := s.settle(tt.pending, span{50, 60}, shown, span{tt.look, tt.look})
			if wrong := len(problems) > 0; wrong != tt.wrong || done != tt.done {
				t.Errorf("done %d, problems %q, want %d, %v", done, problems, tt.done, tt.wrong)
			}
			for n, k := range shown {
				if !s.matches(n, k, span{}) {
					t.Errorf("%v is not taken over: %v", n, s[n])
				}
			}
		})
	}
}

func (e entry) text() string { return fmt.Sprint(e.data, " ", e.lo, " ", e.hi) }

// TestModel checks replies and state of the model's commands.
func TestModel(t *testing.T) {
	a, b, other := name{0, "a"}, name{0, "b"}, name{1, "a"}
	s := state{}
	for i, step := range []struct {
		op    op
		reply any
		a     string // value and deadline of a afterwards, "-": no key
	}{
		{get(a), nil, "-"},
		{set(a, "x"), "OK", "x 0 0"},
		{setIf(a, "y", "NX"), nil, "x 0 0"},
		{setIf(a, "y", "XX"), "OK", "y 0 0"},
		{setPX(a, "p", 7), "OK", "p 17 27"},
		{setKeepTTL(a, "k"), "OK", "k 17 27"},
		{appendTo(a, "kk"), int64(3), "kkk 17 27"},
		{setRange(a, 4, "r"), int64(5), "kkk\x00r 17 27"},
		{incrBy(a, 1), "ERR value is not an integer or out of range", "kkk\x00r 17 27"},
		{persist(a), int64(1), "kkk\x00r 0 0"},
		{persist(a), int64(0), "kkk\x00r 0 0"},
		{getSet(a, "-5"), "kkk\x00r", "-5 0 0"},
		{incrBy(a, 7), int64(2), "2 0 0"},
		{expire(a, 1), int64(1), "2 1010 1020"},
		{pexpireAt(a, 99), int64(1), "2 99 99"},
		{pexpireAt(b, 99), int64(0), "2 99 99"},
		{rename(a, b), "OK", "-"},
		{rename(a, b), "ERR no such key", "-"},
		{copyTo(b, a), int64(1), "2 99 99"},
		{move(a, 1), int64(1), "-"},
		{copyTo(other, a), int64(1), "2 99 99"},
		{move(a, 1), int64(0), "2 99 99"},
		{mset("m", a, b), "OK", "m 0 0"},
		{getDel(a), "m", "-"},
		{setEX(a, "e", 2), "OK", "e 2010 2020"},
		{setPXAT(a, "e", 30), "OK", "e 30 30"},
		{del(a, b, other, name{2, "z"}), int64(3), "-"},
		{unknownReply(del(a)), whatever{}, "-"},
	} {
		got := step.op.apply(s, span{10, 20})
		if e, ok := s[a]; got != step.reply || ok != (step.a != "-") || ok && e.text() != step.a {
			t.Errorf("step %d, %q: reply %v, a is %q", i, step.op.args, got, e.text())
		}
		if !slices.Contains(step.op.touched, a) && !slices.Contains(step.op.touched, b) {
			t.Errorf("step %d touches %v", i, step.op.touched)
		}
	}
	if len(s) != 0 {
		t.Errorf("left: %v", s)
	}
}

// TestCollectionModel does the same for the commands on collections.
func TestCollectionModel(t *testing.T) {
	h, l, a, b, z := name{0, "w:h:0"}, name{0, "w:l:0"}, name{0, "w:t:0"}, name{0, "w:t:1"},
		name{0, "w:z:0"}
	s := state{}
	for i, step := range []struct {
		op    op
		reply any
		data  string // of the first key that the command names, "-": no key
	}{
		{hset(h, "v", "f1", "f0", "f1"), int64(2),
			`{"f0":{"Value":"v","Deadline":0},"f1":{"Value":"v","Deadline":0}}`},
		{hpexpireAt(h, "f1", 9), whatever{},
			`{"f0":{"Value":"v","Deadline":0},"f1":{"Value":"v","Deadline":9}}`},
		{hpexpireAt(h, "f2", 9), whatever{},
			`{"f0":{"Value":"v","Deadline":0},"f1":{"Value":"v","Deadline":9}}`},
		{hset(h, "w", "f1"), int64(0),
			`{"f0":{"Value":"v","Deadline":0},"f1":{"Value":"w","Deadline":0}}`},
		{hsetex(h, "f0", "x", 7), whatever{},
			`{"f0":{"Value":"x","Deadline":7},"f1":{"Value":"w","Deadline":0}}`},
		{hpexpireAt(h, "f0", 0), whatever{},
			`{"f0":{"Value":"x","Deadline":0},"f1":{"Value":"w","Deadline":0}}`},
		{pexpireAt(h, 99), int64(1),
			`{"f0":{"Value":"x","Deadline":0},"f1":{"Value":"w","Deadline":0}}`},
		{hdel(h, "f0", "f5"), int64(1), `{"f1":{"Value":"w","Deadline":0}}`},
		{hdel(h, "f1"), int64(1), "-"},
		{hdel(h, "f1"), int64(0), "-"},
		{lset(l, 0, "x"), "ERR no such key", "-"},
		{push(l, true, "1", "2"), int64(2), `["2","1"]`},
		{push(l, false, "3"), int64(3), `["2","1","3"]`},
		{lset(l, 3, "x"), "ERR index out of range", `["2","1","3"]`},
		{lset(l, 0, "x"), "OK", `["x","1","3"]`},
		{linsert(l, "1", "y"), int64(4), `["x","y","1","3"]`},
		{linsert(l, "9", "y"), int64(-1), `["x","y","1","3"]`},
		{ltrim(l, 1, 2), "OK", `["y","1"]`},
		{lpop(l), "y", `["1"]`},
		{ltrim(l, 3, 1), "OK", "-"},
		{lpop(l), nil, "-"},
		{linsert(l, "1", "y"), int64(0), "-"},
		{sadd(a, "1", "2", "1"), int64(2), `{"1":true,"2":true}`},
		{sadd(b, "2", "3"), int64(2), `{"2":true,"3":true}`},
		{expire(a, 5), int64(1), `{"1":true,"2":true}`},
		{sunionStore(a, a, b), int64(3), `{"1":true,"2":true,"3":true}`},
		{persist(a), int64(0), `{"1":true,"2":true,"3":true}`},
		{srem(a, "2"), int64(1), `{"1":true,"3":true}`},
		{zadd(z, "m", 5), int64(1), `{"m":5}`},
		{zincrby(z, "n", -7), whatever{}, `{"m":5,"n":-7}`},
		{zremBelow(z, 5), int64(1), `{"m":5}`},
		{zrem(z, "m"), int64(1), "-"},
		{del(a, b), int64(2), "-"},
	} {
		got := step.op.apply(s, span{10, 20})
		if e, ok := s[step.op.touched[0]]; got != step.reply || ok != (step.data != "-") ||
			ok && e.data != step.data {
			t.Errorf("step %d, %q: reply %v, the key is %q", i, step.op.args, got, e.data)
		}
	}
	if len(s) != 0 {
		t.Errorf("left: %v", s)
	}
}

// TestMatchesFields: fields are there until their deadline, and not after it.
func TestMatchesFields(t *testing.T) {
	x := name{0, "w:x:0"}
	s := state{x: {data: text(fields{"f0": {"a", 100}, "f1": {"b", 200}})}}
	both, late, early := fields{"f0": {"a", 100}, "f1": {"b", 200}}, fields{"f1": {"b", 200}},
		fields{"f0": {"a", 100}}
	for _, tt := range []struct {
		shown fields
		at    int64
		want  bool
	}{
		{both, 99, true}, {both, 100, false}, {late, 99, false}, {late, 100, true},
		{late, 200, false}, {early, 99, false}, {nil, 199, false}, {nil, 200, true},
		{fields{"f1": {"c", 200}}, 150, false}, {fields{"f1": {"b", 201}}, 150, false},
		{fields{"f1": {"b", 200}, "f2": {"b", 300}}, 150, false},
	} {
		k := seen{there: tt.shown != nil, data: text(tt.shown)}
		if got := s.matches(x, k, span{tt.at, tt.at}); got != tt.want {
			t.Errorf("%v at %d: %v", tt.shown, tt.at, got)
		}
	}
}
