package format

import (
	"testing"

	_ "keyp/internal/testkit/setup"
	"keyp/storage/object"
)

// TestRepairOfTimes: if the times of a key's record are damaged, the bucket ttl usually has the
// key's deadline, too. Here ttl does not help: it has only an element's deadline, or entries of
// unknown keys. Then one damaged bit of the times, or of their checksum, is corrected. Two are not.
func TestRepairOfTimes(t *testing.T) {
	at := DiskKey(nil, 1, Key{Name: []byte("key")})
	want := Times{Deadline: 1_700_000_109_584, Created: 1_700_000_000, First: 1_700_000_010_000}
	im := Image{Type: object.TypeHash, Inline: true, ID: 1, Times: want,
		Payload: AppendBytes(nil, []byte("field"))}
	sound := im.Append(nil, at)
	var of []int // the bits: of the check, and of the times
	for bit := 4 * 8; bit < (10+20)*8; bit++ {
		if bit < 8*8 || bit >= 10*8 {
			of = append(of, bit)
		}
	}
	repair := func(d Deadlines, damaged ...int) (Times, bool) {
		t.Helper()
		record := append([]byte(nil), sound...)
		for _, bit := range damaged {
			record[bit/8] ^= 1 << (bit % 8)
		}
		im, err := ParseImage(at, record)
		if err != nil || !im.BadTime || im.Times != (Times{}) {
			t.Fatalf("bits %v: %v, bad times %t, %v", damaged, err, im.BadTime, im.Times)
		}
		known := d.Repair(at, &im)
		return im.Times, known
	}
	element := Deadlines{Of: map[string][]Times{string(at): {{First: want.First}}}}
	other := Deadlines{Of: map[string][]Times{string(at): {{First: want.First + 1}}}}
	doubt := Deadlines{Of: element.Of, Doubt: true}
	holes := Deadlines{Of: map[string][]Times{string(at): nil}, Holes: true}
	for i, bit := range of {
		for _, d := range []Deadlines{element, doubt, holes} {
			if got, known := repair(d, bit); !known || got != want {
				t.Errorf("bit %d: %v, known %t; want %v", bit, got, known, want)
			}
		}
		if got, known := repair(other, bit); known {
			t.Errorf("bit %d: %v is believed against ttl", bit, got)
		}
		for _, second := range of[:i] {
			if got, known := repair(element, bit, second); known || got.Deadline != 0 {
				t.Errorf("bits %d and %d: %v is believed", bit, second, got)
			}
		}
	}
}
