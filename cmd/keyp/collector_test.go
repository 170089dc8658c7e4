package main

import (
	"math"
	"testing"
)

// TestRoomPercent: the garbage that may be in memory depends on the size of the live data and on
// maxmemory.
func TestRoomPercent(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live, maxmemory int64
		want            int
	}{
		{0, 0, 400},
		{16 * mb, 0, 400},
		{64 * mb, 0, 100},
		{128 * mb, 0, 50},
		{320 * mb, 0, 20},
		{1 << 40, 0, 20},
		{32 * mb, 128 * mb, 50},
		{32 * mb, 1 * mb, 25},
		{32 * mb, 1 << 40, 200},
	} {
		if got := roomPercent(c.live, c.maxmemory); got != c.want {
			t.Errorf("%d bytes, maxmemory %d: %d%%, expected %d%%", c.live, c.maxmemory, got,
				c.want)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct{ maxmemory, outside, want int64 }{
		{0, 0, math.MaxInt64},
		{0, 50 * mb, math.MaxInt64},
		{1, 0, 64*mb + 1},
		{100 * mb, 0, 164 * mb},
		{1000 * mb, 0, 1300 * mb},
		{1000 * mb, 600 * mb, 700 * mb},
		{1000 * mb, 2000 * mb, 300 * mb},
		{math.MaxInt64, 0, math.MaxInt64},
	} {
		if got := memoryLimit(c.maxmemory, c.outside); got != c.want {
			t.Errorf("maxmemory %d: %d, expected %d", c.maxmemory, got, c.want)
		}
	}
}
