package object

import (
	"bytes"
	"cmp"
)

// roster contains items that have a name and a number: a stream's groups, or the consumers of a
// group. Several items may have the same name. While a stream is loaded, an item's number may be
// known before its name, which is empty until then.
type roster[T any] struct {
	named    sorted[namedItem[T]]
	numbered sorted[numberedItem[T]]
}

// namedItem is an item in the order of names. Items with equal names are in the order of numbers.
type namedItem[T any] struct {
	name   []byte
	number uint32
	it     *T
}

func (a namedItem[T]) Compare(b namedItem[T]) int {
	if c := bytes.Compare(a.name, b.name); c != 0 {
		return c
	}
	return cmp.Compare(a.number, b.number)
}

type numberedItem[T any] struct {
	number uint32
	it     *T
}

func (a numberedItem[T]) Compare(b numberedItem[T]) int { return cmp.Compare(a.number, b.number) }

func (r *roster[T]) len() int { return r.numbered.n }

func (r *roster[T]) bytes() int { return r.named.bytes() + r.numbered.bytes() }

// of returns the item with a number; nil if there is none.
func (r *roster[T]) of(number uint32) *T {
	item, _ := r.numbered.get(numberedItem[T]{number: number})
	return item.it
}

func (r *roster[T]) add(name []byte, number uint32, it *T) {
	r.named.put(namedItem[T]{name, number, it})
	r.numbered.put(numberedItem[T]{number, it})
}

func (r *roster[T]) remove(name []byte, number uint32) {
	r.named.remove(namedItem[T]{name: name, number: number})
	r.numbered.remove(numberedItem[T]{number: number})
}

// rename changes the name of an item.
func (r *roster[T]) rename(name []byte, number uint32, to []byte) {
	item, _ := r.named.get(namedItem[T]{name: name, number: number})
	r.named.remove(item)
	item.name = to
	r.named.put(item)
}

// byName visits the items from a name on, in the order of names, until fn returns false.
func (r *roster[T]) byName(from []byte, fn func(name []byte, it *T) bool) {
	r.named.each(namedItem[T]{name: from}, func(item namedItem[T]) bool {
		return fn(item.name, item.it)
	})
}

// byNumber visits the items from a number on, in the order of numbers, until fn returns false. It
// reports whether it visited all of them.
func (r *roster[T]) byNumber(from uint32, fn func(*T) bool) bool {
	return r.numbered.each(numberedItem[T]{number: from}, func(item numberedItem[T]) bool {
		return fn(item.it)
	})
}

// free returns a number that no item has. It is the one after the last or, if the last possible
// number is in use, the lowest. There is always one, because memory has no room for so many items.
func (r *roster[T]) free() uint32 {
	last, ok := r.numbered.last()
	switch {
	case !ok:
		return 1
	case last.number < maxStreamNumber:
		return last.number + 1
	}
	next := uint32(1)
	for _, piece := range r.numbered.pieces {
		if end := piece[len(piece)-1].number; end-next == uint32(len(piece)-1) {
			next = end + 1
			continue
		}
		for _, item := range piece {
			if item.number != next {
				return next
			}
			next++
		}
	}
	return next
}
