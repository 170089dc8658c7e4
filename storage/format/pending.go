package format

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// The bucket pending has changes of the bucket ttl that are still to be made
// (storage/datafile/pending.go). Each of its values is a check (CRC-32C), followed by changes. Each
// change is about the entry of one key in ttl:
//
//	0         8         16        20        21       23
//	┌─────────┬─────────┬─────────┬─────────┬────────┬──────────────────────────┐
//	│ old due │ new due │ created │ element │ length │ where it stands in values │
//	└─────────┴─────────┴─────────┴─────────┴────────┴──────────────────────────┘
//
// A change removes the key's entry at old due from ttl, and writes one at new due. 0 means that
// there is no such entry. created belongs to the new entry: the Unix second when its deadline was
// set. element is 1 if the new entry is for the deadline of an element. length is that of the last
// field.
const changeHead = 23

// AppendChange appends a change of a key's entry in ttl, from the times old to the times new. at is
// the key's place in values. If both times have the same due time, the change has no old due.
func AppendChange(dst, at []byte, old, new Times) []byte {
	from, to := old.Due(), new.Due()
	if from == to {
		from = 0
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(from))
	dst = binary.BigEndian.AppendUint64(dst, uint64(to))
	dst = binary.BigEndian.AppendUint32(dst, new.Created)
	element := byte(0)
	if to != new.Deadline {
		element = 1
	}
	dst = binary.BigEndian.AppendUint16(append(dst, element), uint16(len(at)))
	return append(dst, at...)
}

// SealChanges writes the check of a value of pending into the first four bytes of the value. The
// caller has left these bytes free.
func SealChanges(v []byte) { binary.LittleEndian.PutUint32(v, crc32.Checksum(v[4:], castagnoli)) }

// Moves contains the changes of pending. Split turns each of them into one or two moves, which
// remove or write one entry of ttl.
type Moves struct {
	changes []byte
	List    []Move
}

// Move removes one entry of ttl, or writes one if Put is true.
type Move struct {
	Due int64
	at  uint32 // of its change in changes
	Put bool
}

// Grow allocates memory for n bytes of changes. It drops all changes that were added before.
func (d *Moves) Grow(n int) { d.changes = make([]byte, 0, n) }

// Add adds the changes of a value of pending. It returns false and adds nothing if the value is
// damaged.
func (d *Moves) Add(v []byte) bool {
	if len(v) < 4 || crc32.Checksum(v[4:], castagnoli) != binary.LittleEndian.Uint32(v) ||
		!whole(v[4:]) {
		return false
	}
	d.changes = append(d.changes, v[4:]...)
	return true
}

// Split fills List with the moves of all changes that were added.
func (d *Moves) Split() {
	n := 0
	for at := 0; at < len(d.changes); at += changeLen(d.changes[at:]) {
		n += 2
	}
	d.List = make([]Move, 0, n)
	for at := 0; at < len(d.changes); at += changeLen(d.changes[at:]) {
		for i, put := range []bool{false, true} {
			if due := int64(binary.BigEndian.Uint64(d.changes[at+8*i:])); due != 0 {
				d.List = append(d.List, Move{due, uint32(at), put})
			}
		}
	}
}

// Entries returns the entries of ttl that the moves write or remove, by their keys. The value is
// nil for an entry that is removed. Entries also sorts List.
func (d *Moves) Entries() map[string][]byte {
	d.Sort()
	entries := make(map[string][]byte, len(d.List))
	for _, m := range d.List {
		at := TTLKey(nil, m.Due, d.On(m))
		entries[string(at)] = nil
		if m.Put {
			entries[string(at)] = d.Entry(m, at)
		}
	}
	return entries
}

// changeLen returns the length in bytes of the change at the beginning of b.
func changeLen(b []byte) int { return changeHead + int(binary.BigEndian.Uint16(b[changeHead-2:])) }

// whole reports whether b consists of complete changes and of nothing else.
func whole(b []byte) bool {
	for len(b) > 0 {
		if len(b) < changeHead || len(b) < changeLen(b) {
			return false
		}
		b = b[changeLen(b):]
	}
	return true
}

// On returns the place in values of the key that a move is about.
func (d *Moves) On(m Move) []byte {
	change := d.changes[m.at:]
	return change[changeHead:changeLen(change)]
}

// Entry returns the value of the entry of ttl that a move writes. at is the key of that entry.
func (d *Moves) Entry(m Move, at []byte) []byte {
	change := d.changes[m.at:]
	if change[20] != 0 {
		return appendCreated(nil, at)
	}
	return appendCreated(nil, at, binary.BigEndian.Uint32(change[16:]))
}

// Sort sorts List in the order of the bucket ttl. Moves of the same entry keep the order in which
// their changes were added. Changes are usually added in slot order, so moves of one instant rarely
// need further sorting.
func (d *Moves) Sort() {
	slices.SortFunc(d.List, func(x, y Move) int {
		if x.Due != y.Due {
			return cmp.Compare(x.Due, y.Due)
		}
		return cmp.Compare(x.at, y.at)
	})
	byKey := func(x, y Move) int {
		if c := bytes.Compare(d.On(x), d.On(y)); c != 0 {
			return c
		}
		return cmp.Compare(x.at, y.at)
	}
	for from, to := 0, 0; from < len(d.List); from = to {
		for to = from + 1; to < len(d.List) && d.List[to].Due == d.List[from].Due; to++ {
		}
		if !slices.IsSortedFunc(d.List[from:to], byKey) {
			slices.SortFunc(d.List[from:to], byKey)
		}
	}
}
