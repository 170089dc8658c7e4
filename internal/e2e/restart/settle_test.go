package restart

import (
	"fmt"
	"slices"
	"testing"
)

// TestSettle proves that the model sees what must not happen.
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

// TestModel proves that the model's commands do what they say, on replies and state.
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
