package main

import "testing"

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
