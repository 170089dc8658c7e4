package main

import "testing"

func TestRoomPercent(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live    int64
		bounded bool
		want    int
	}{
		{0, false, 400},
		{16 * mb, false, 400},
		{64 * mb, false, 100},
		{128 * mb, false, 50},
		{1 << 40, false, 50},
		{128 * mb, true, 50},
		{320 * mb, true, 20},
		{1 << 40, true, 20},
	} {
		if got := roomPercent(c.live, c.bounded); got != c.want {
			t.Errorf("%d bytes, bounded %v: %d%%, expected %d%%", c.live, c.bounded, got, c.want)
		}
	}
}
