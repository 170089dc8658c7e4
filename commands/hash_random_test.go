package commands

import (
	"fmt"
	"strings"
	"testing"
)

func TestHRandField(t *testing.T) {
	table(t, `
		HRANDFIELD none -> nil
		HRANDFIELD none 5 -> []
		HRANDFIELD none -5 WITHVALUES -> []
		HSET h a 1 -> 1
		HRANDFIELD h -> "a"
		HRANDFIELD h 0 -> []
		HRANDFIELD h 5 -> ["a"]
		HRANDFIELD h 9223372036854775807 -> ["a"]
		HRANDFIELD h 4611686018427387903 withvalues -> ["a", "1"]
		HRANDFIELD h -3 -> ["a", "a", "a"]
		HRANDFIELD h -2 WITHVALUES -> ["a", "1", "a", "1"]
		HSET h b 2 c 3 -> 2
		HRANDFIELD h 3 WITHVALUES -> ["a", "1", "b", "2", "c", "3"]
		proto 3
		HRANDFIELD h 3 WITHVALUES -> [["a", "1"], ["b", "2"], ["c", "3"]]
		HRANDFIELD h 4 -> ["a", "b", "c"]
		HRANDFIELD none -> null
		HRANDFIELD none 1 WITHVALUES -> []
		proto 2
		HRANDFIELD h x -> -ERR value is not an integer or out of range
		HRANDFIELD h x BAD -> -ERR value is not an integer or out of range
		HRANDFIELD h 1 BAD -> -ERR syntax error
		HRANDFIELD h 1 WITHVALUES BAD -> -ERR syntax error
		HRANDFIELD h -9223372036854775808 -> -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
		HRANDFIELD h 4611686018427387904 WITHVALUES -> -ERR value is out of range
		HRANDFIELD h -4611686018427387904 WITHVALUES -> -ERR value is out of range
		HRANDFIELD -> -ERR wrong number of arguments for 'hrandfield' command
		HPEXPIRE h 1 FIELDS 2 a b -> [1, 1]
		advance 1ms
		HRANDFIELD h 9 -> ["c"]
	`)
}

// TestHRandFieldDraws: every field may be drawn, in a small hash and in a large one. With a
// positive count no field is drawn twice.
func TestHRandFieldDraws(t *testing.T) {
	h := newHarness(t)
	for _, size := range []int{10, 1000} {
		key := fmt.Sprint("h", size)
		for i := range size {
			h.do("HSET", key, fmt.Sprint("f", i), fmt.Sprint("v", i))
		}
		seen := map[string]bool{}
		for range 60 {
			reply := h.do("HRANDFIELD", key, fmt.Sprint(size/5), "WITHVALUES")
			words := strings.Split(strings.Trim(reply, "[]"), ", ")
			once := map[string]bool{}
			for i := 0; i < len(words); i += 2 {
				if once[words[i]] || strings.Replace(words[i], "f", "v", 1) != words[i+1] {
					t.Fatalf("%d fields: %s", size, reply)
				}
				once[words[i]], seen[words[i]] = true, true
			}
			if len(once) != size/5 {
				t.Fatalf("%d fields: %d came", size, len(once))
			}
		}
		if len(seen) < size*9/10 {
			t.Errorf("%d fields: only %d ever came", size, len(seen))
		}
		if n := strings.Count(h.do("HRANDFIELD", key, "-5000"), `"f`); n != 5000 {
			t.Errorf("%d fields were drawn", n)
		}
	}
}

// TestHRandFieldTooMany: an absurd count does not take all memory.
func TestHRandFieldTooMany(t *testing.T) {
	drawsEnd(t, "HSET h f v", "HRANDFIELD h -4611686018427387903 WITHVALUES")
}
