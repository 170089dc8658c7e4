package testkit

// Dice draws values from a fuzzer's bytes, so a change of the bytes changes the values. When the
// bytes are used up, every value is 0.
type Dice struct{ Data []byte }

// Over reports whether the bytes are used up.
func (d *Dice) Over() bool { return len(d.Data) == 0 }

// N draws a number below most, which must be from 1 to 65536.
func (d *Dice) N(most int) int {
	take := 1
	if most > 256 {
		take = 2
	}
	drawn := 0
	for _, b := range d.Bytes(take) {
		drawn = drawn<<8 | int(b)
	}
	return drawn % most
}

// One returns true one time in most.
func (d *Dice) One(most int) bool { return d.N(most) == most-1 }

// From draws an element of a list.
func (d *Dice) From(list []string) string { return list[d.N(len(list))] }

// Bytes draws n bytes, or fewer if there are no more.
func (d *Dice) Bytes(n int) []byte {
	n = min(n, len(d.Data))
	b := d.Data[:n:n]
	d.Data = d.Data[n:]
	return b
}
