package member

import (
	"testing"
	"time"
)

// TestStall: writes are refused when nothing was committed for long enough in one term while
// something waited.
func TestStall(t *testing.T) {
	var s stall
	for i, step := range []struct {
		at              time.Duration
		leads           bool
		term, committed uint64
		waits, want     bool
	}{
		{0, true, 1, 5, true, false},
		{stallTime - 1, true, 1, 5, true, false},
		{stallTime, true, 1, 5, true, true},
		{stallTime + 1, true, 1, 6, true, false}, // something is committed
		{2 * stallTime, true, 1, 6, true, false},
		{2*stallTime + 1, true, 1, 6, true, true},
		{2*stallTime + 2, true, 1, 6, false, false}, // nothing waits
		{4 * stallTime, true, 1, 6, true, true},
		{4*stallTime + 1, true, 2, 6, true, false}, // another term
		{5*stallTime + 1, false, 2, 6, true, false},
		{6*stallTime + 1, true, 2, 6, true, true},
	} {
		if got := s.look(step.at, step.leads, step.term, step.committed,
			step.waits); got != step.want {
			t.Errorf("step %d: refused is %t", i, got)
		}
	}
}
