// Package bigcopy copies large byte slices a piece at a time. Go cannot interrupt a copy. A
// goroutine that wants to stop the world, as the collector does twice in each cycle, waits for a
// copy of hundreds of MiB. All other goroutines are stopped already and wait too.
package bigcopy

// Size is the length of a piece, in bytes. A slice that is not longer is copied at once.
const Size = 1 << 20

// Copy does what copy does, a piece at a time.
func Copy(dst, src []byte) int {
	n := min(len(dst), len(src))
	for at := 0; at < n; at += Size {
		end := min(at+Size, n)
		copy(dst[at:end], src[at:end])
	}
	return n
}

// Clone returns a copy of b; nil if b is nil.
func Clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	if len(b) <= Size {
		// Not b[:0:0], because callers' arrays would then escape to the heap.
		return append([]byte{}, b...)
	}
	fresh := make([]byte, len(b))
	Copy(fresh, b)
	return fresh
}

// Grow returns b with room for n more bytes, as slices.Grow does.
func Grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	fresh := make([]byte, len(b), max(len(b)+n, cap(b)+cap(b)/4))
	Copy(fresh, b)
	return fresh
}

// Append does what append does, a piece at a time.
func Append[T []byte | string](b []byte, more T) []byte {
	if len(more) <= Size {
		if cap(b)-len(b) < len(more) && len(b) > Size {
			b = Grow(b, len(more))
		}
		return append(b, more...)
	}
	b = Grow(b, len(more))
	for at := 0; at < len(more); at += Size {
		b = append(b, more[at:min(at+Size, len(more))]...)
	}
	return b
}
