package clock

import (
	"testing"
	"time"

	"keyp/internal/testkit/await"
	_ "keyp/internal/testkit/setup"
)

// A shift changes only the wall time. Waits for a wall time follow the shifted time.
func TestShift(t *testing.T) {
	const hour = 3_600_000
	m := &Machine{}
	for _, ms := range []int64{hour, -hour, 0} {
		mono := m.Mono()
		m.Shift(ms)
		from := time.Now().UnixMilli()
		got := m.Now()
		if to := time.Now().UnixMilli(); got < from+ms || got > to+ms {
			t.Errorf("shifted by %d ms: %d, the machine's clock went from %d to %d",
				ms, got, from, to)
		}
		if gone := m.Mono() - mono; gone < 0 || gone > 30*time.Minute {
			t.Errorf("the monotonic clock went by %v", gone)
		}
		reached, stop := m.Until(got)
		await.For(t, "the moment comes", reached)
		stop()
		reached, stop = m.Until(got + hour)
		select {
		case <-reached:
			t.Error("a moment in an hour has come")
		default:
		}
		stop()
	}
}
