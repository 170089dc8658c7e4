package slab

import (
	"testing"

	"pgregory.net/rapid"

	_ "keyp/internal/testkit/setup"
)

// TestSlabs compares blocks with a map, and checks that empty chunks are given back.
func TestSlabs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := New()
		model := map[uint32]string{}
		defer s.Drop()
		for range rapid.IntRange(1, 30).Draw(rt, "bursts") {
			size := rapid.IntRange(0, MaxBlock-Header-3).Draw(rt, "size")
			if len(model) > 0 && rapid.Bool().Draw(rt, "free") {
				n := 0
				for ref := range model {
					s.Release(ref)
					delete(model, ref)
					if n++; n == 60 {
						break
					}
				}
				continue
			}
			for i := range 50 {
				value := make([]byte, size)
				for j := range value {
					value[j] = byte(i + j)
				}
				ref, b := s.Alloc(Header + 3 + size)
				b.SetKey([]byte("key"))
				b.SetValue(value)
				b.SetDeadline(int64(i) << 40)
				if _, taken := model[ref]; taken {
					rt.Fatalf("ref %d is given twice", ref)
				}
				model[ref] = string(value)
			}
		}
		for ref, want := range model {
			if b := s.At(ref); string(b.Key()) != "key" || string(b.Value()) != want {
				rt.Fatalf("block %d changed", ref)
			}
		}
		for ref := range model {
			s.Release(ref)
		}
		if s.live != 0 || s.inChunks != 0 {
			rt.Fatalf("%d bytes live, %d held, with no block", s.live, s.inChunks)
		}
	})
}
