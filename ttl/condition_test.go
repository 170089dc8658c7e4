package ttl

import "testing"

// TestConditionCheck: Check refuses the same combinations of NX, XX, GT and LT as EXPIRE in Redis.
func TestConditionCheck(t *testing.T) {
	const nx = "NX and XX, GT or LT options at the same time are not compatible"
	const gtlt = "GT and LT options at the same time are not compatible"
	want := map[Condition]string{
		NX | XX: nx, NX | GT: nx, NX | LT: nx,
		NX | XX | GT: nx, NX | XX | LT: nx, NX | GT | LT: nx, NX | XX | GT | LT: nx,
		GT | LT: gtlt, XX | GT | LT: gtlt,
	}
	for c := Condition(0); c <= NX|XX|GT|LT; c++ {
		got := ""
		if err := c.Check(); err != nil {
			got = err.Error()
		}
		if got != want[c] {
			t.Errorf("Check of %04b: %q, want %q", c, got, want[c])
		}
	}
}

func TestConditionAllows(t *testing.T) {
	const old = 100
	for _, c := range []struct {
		cond                                     Condition
		persistent, earlier, same, later, inPast bool
	}{
		{0, true, true, true, true, true},
		{NX, true, false, false, false, false},
		{XX, false, true, true, true, true},
		{GT, false, false, false, true, false},
		{LT, true, true, false, false, true},
		{XX | GT, false, false, false, true, false},
		{XX | LT, false, true, false, false, true},
	} {
		for _, q := range []struct {
			name     string
			old, new int64
			want     bool
		}{
			{"persistent", None, old, c.persistent},
			{"earlier", old, old - 1, c.earlier},
			{"same", old, old, c.same},
			{"later", old, old + 1, c.later},
			{"past", old, past, c.inPast},
		} {
			if got := c.cond.Allows(q.old, q.new); got != q.want {
				t.Errorf("%04b, %s: Allows(%d, %d) = %v", c.cond, q.name, q.old, q.new, got)
			}
		}
	}
}
