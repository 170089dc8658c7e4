package storage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"keyp/storage/object"
	"keyp/ttl"
)

// TestSharedStrings: a transaction does not copy large strings into its batch. The log still gets
// the strings of that transaction, even if a later one changes them before the batch is written.
func TestSharedStrings(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	rng, names := rand.New(rand.NewPCG(3, 4)), map[name]bool{}
	fresh := func(n int) string { return strings.Repeat(fmt.Sprintf("%07d.", rng.IntN(1e6)), n/8) }
	key := func(i int) Key {
		n := name{0, fmt.Sprint("{tag}", i)}
		names[n] = true
		return h.s.Key(0, []byte(n.key))
	}
	now := func(i int) string { return h.model[name{0, fmt.Sprint("{tag}", i)}].data }
	put := func(i int, v string) { h.model[name{0, fmt.Sprint("{tag}", i)}] = value{data: v} }
	set := func(x *Txn, i int, v string) {
		x.SetString(key(i), []byte(v), ttl.Deadline{}, Event{})
		put(i, v)
	}
	change := func(x *Txn, i, at int, data string) {
		x.WriteRange(key(i), at, []byte(data), Event{})
		v := []byte(now(i))
		v = append(v, make([]byte, max(0, at+len(data)-len(v)))...)
		copy(v[at:], data)
		put(i, string(v))
	}
	for round := range 30 {
		h.do(func(x *Txn) {
			for i := range 3 {
				set(x, i, fresh(rng.IntN(3)*700_000+20_000))
				if rng.IntN(2) == 0 {
					change(x, i, rng.IntN(len(now(i))), "within the batch")
				}
			}
		}, key(0), key(1), key(2))
		for range rng.IntN(3) {
			i := rng.IntN(3)
			h.do(func(x *Txn) { change(x, i, rng.IntN(len(now(i))), "before it is durable") },
				key(i))
		}
		if rng.IntN(2) == 0 {
			h.do(func(x *Txn) {
				x.Rename(key(0), key(3))
				put(3, now(0))
				delete(h.model, name{0, "{tag}0"})
				change(x, 3, rng.IntN(len(now(3))), "renamed")
			}, key(0), key(3))
		}
		h.recent = nil
		if rng.IntN(2) == 0 {
			h.commit()
		}
		if h.verify(names); round%5 == 4 {
			h.commit()
			h.crash(rng, names)
			h.verify(names)
		}
	}
}

// TestBatchHasNoCopies: a batch of large strings takes little memory in addition to them.
func TestBatchHasNoCopies(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	var keys []Key
	for i := range 40 {
		keys = append(keys, h.s.Key(0, fmt.Append(nil, "{tag}", i)))
	}
	const size = 1 << 20
	h.do(func(x *Txn) {
		values := map[*byte]bool{}
		for _, k := range keys {
			x.SetString(k, make([]byte, size), ttl.Deadline{}, Event{})
			it, _ := x.Peek(k)
			v, _ := it.String()
			for at := 0; at < size; at += object.ChunkSize {
				values[unsafe.SliceData(v[at:])] = true
			}
		}
		own := cap(x.buf)
		for _, piece := range x.before.list {
			if !values[unsafe.SliceData(piece)] {
				own += len(piece)
			}
		}
		if n := x.BatchBytes(); n < len(keys)*size || own > n/10 {
			t.Errorf("a batch of %d bytes has %d of its own", n, own)
		}
	}, keys...)
	h.commit()
}
