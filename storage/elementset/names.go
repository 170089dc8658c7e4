package elementset

import (
	"bytes"
	"encoding/binary"
	"keyp/storage/format"
)

// nameSet is a set of names of elements, for example of those of a large hash that have changed
// since the last checkpoint. They may be millions. So the set contains nothing for the garbage
// collector to scan: a map of numbers, and the names one after another in pieces of memory.
type nameSet struct {
	at   map[uint64]uint64 // by hash: the name's place in text
	text [][]byte          // names, each after its length
	// odd are names whose hash collides with another's.
	odd map[string]struct{}
}

// A piece of text has room for leastText to mostText bytes, the first for leastText, or for one
// name.
const (
	leastText = 64
	mostText  = 64 << 10
)

func (n *nameSet) Len() int { return len(n.at) + len(n.odd) }

// add adds a name. Equal names must have equal hashes.
func (n *nameSet) add(hash uint64, name []byte) {
	if at, ok := n.at[hash]; ok {
		if !bytes.Equal(n.name(at), name) {
			if n.odd == nil {
				n.odd = map[string]struct{}{}
			}
			n.odd[string(name)] = struct{}{}
		}
		return
	}
	if n.at == nil {
		n.at = map[uint64]uint64{}
	}
	last := len(n.text) - 1
	if size := binary.MaxVarintLen32 + len(name); last < 0 ||
		cap(n.text[last])-len(n.text[last]) < size {
		room := leastText
		if last >= 0 {
			room = min(2*cap(n.text[last]), mostText)
		}
		n.text = append(n.text, make([]byte, 0, max(room, size)))
		last++
	}
	n.at[hash] = uint64(last)<<32 | uint64(len(n.text[last]))
	n.text[last] = format.AppendBytes(n.text[last], name)
}

// has reports whether the set has a name.
func (n *nameSet) has(hash uint64, name []byte) bool {
	at, ok := n.at[hash]
	if ok && bytes.Equal(n.name(at), name) {
		return true
	}
	_, ok = n.odd[string(name)]
	return ok
}

// name returns the name at a place.
func (n *nameSet) name(at uint64) []byte {
	b := n.text[at>>32][uint32(at):]
	size, head := binary.Uvarint(b)
	return b[head : head+int(size)]
}

// take removes names from the set and visits each, until fn returns false.
func (n *nameSet) take(fn func(name []byte) bool) {
	for hash, at := range n.at {
		more := fn(n.name(at))
		delete(n.at, hash)
		if !more {
			return
		}
	}
	for name := range n.odd {
		more := fn([]byte(name))
		delete(n.odd, name)
		if !more {
			return
		}
	}
}
