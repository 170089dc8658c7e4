package main

import (
	"math"
	"testing"
)

func TestRoomPercent(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live int64
		want int
	}{
		{0, 400},
		{16 * mb, 400},
		{64 * mb, 100},
		{128 * mb, 50},
		{320 * mb, 20},
		{1 << 40, 20},
	} {
		if got := roomPercent(c.live); got != c.want {
			t.Errorf("%d bytes: %d%%, expected %d%%", c.live, got, c.want)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct{ maxmemory, want int64 }{
		{0, math.MaxInt64},
		{1, 192*mb + 1},
		{100 * mb, 292 * mb},
		{1000 * mb, 1300 * mb},
		{math.MaxInt64, math.MaxInt64},
	} {
		if got := memoryLimit(c.maxmemory); got != c.want {
			t.Errorf("maxmemory %d: %d, expected %d", c.maxmemory, got, c.want)
		}
	}
}
