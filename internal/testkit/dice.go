package testkit

// Dice draws from a fuzzer's bytes, so that what it changes in them changes what is drawn.
// When they are used up everything drawn is 0.
type Dice struct{ Data []byte }

// Over says that the bytes are used up.
func (d *Dice) Over() bool { return len(d.Data) == 0 }

// N draws a number below most, which is from 1 to 65536.
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

// One says yes one time in most.
func (d *Dice) One(most int) bool { return d.N(most) == most-1 }

// From draws one of a list.
func (d *Dice) From(list []string) string { return list[d.N(len(list))] }

// Bytes draws n bytes, fewer when there are no more.
func (d *Dice) Bytes(n int) []byte {
	n = min(n, len(d.Data))
	b := d.Data[:n:n]
	d.Data = d.Data[n:]
	return b
}
