package commands

import (
	"bytes"
	"math"
)

// durationUnits are the units of times in the arguments of Keyp's own commands, in ms. A unit that
// ends with the letters of another unit comes before it.
var durationUnits = []struct {
	suffix string
	ms     int64
}{{"ms", 1}, {"s", 1000}, {"m", 60_000}, {"h", 3_600_000}, {"d", 86_400_000}}

// parseDuration reads a time: a number of milliseconds, or a number with a unit, such as 30s.
func parseDuration(b []byte) (ms int64, ok bool) {
	unit := int64(1)
	for _, u := range durationUnits {
		if rest, found := bytes.CutSuffix(b, []byte(u.suffix)); found {
			b, unit = rest, u.ms
			break
		}
	}
	n, ok := ParseInt(b)
	if !ok || n > math.MaxInt64/unit || n < math.MinInt64/unit {
		return 0, false
	}
	return n * unit, true
}

// Duration reads a time of at least low ms. It fails with err for anything else.
func (a *Cursor) Duration(low int64, err error) int64 {
	b := a.Bytes()
	if a.err != nil {
		return 0
	}
	ms, ok := parseDuration(b)
	if !ok || ms < low {
		a.err = err
	}
	return ms
}
