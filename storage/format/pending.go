package format

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// A value of pending is a check (CRC-32C) and changes, each about the entry of one key:
//
//	0         8         16        20        21       23
//	┌─────────┬─────────┬─────────┬─────────┬────────┬──────────────────────────┐
//	│ old due │ new due │ created │ element │ length │ where it stands in values │
//	└─────────┴─────────┴─────────┴─────────┴────────┴──────────────────────────┘
//
// The entry at old due goes, the one at new due is put; 0 is none. element is 1 if the
// new entry is for an element.
const changeHead = 23

// AppendChange encodes that the entry in ttl of the key at at goes from where old has it to
// where new has it.
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

// SealChanges sets the check of a value of pending, for which its first four bytes are free.
func SealChanges(v []byte) { binary.LittleEndian.PutUint32(v, crc32.Checksum(v[4:], castagnoli)) }

// Moves are the changes of pending, each as one or two single changes of ttl.
type Moves struct {
	changes []byte
	List    []Move
}

// Move removes or puts an entry.
type Move struct {
	Due int64
	at  uint32 // of its change in changes
	Put bool
}

// Grow makes room for so many bytes of changes.
func (d *Moves) Grow(n int) { d.changes = make([]byte, 0, n) }

// Add takes in a value of pending; false if that is damaged, and then it is left out.
func (d *Moves) Add(v []byte) bool {
	if len(v) < 4 || crc32.Checksum(v[4:], castagnoli) != binary.LittleEndian.Uint32(v) ||
		!whole(v[4:]) {
		return false
	}
	d.changes = append(d.changes, v[4:]...)
	return true
}

// Split makes the moves of the changes.
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

// Entries are the entries that ttl will have, or not have (nil), when the moves are made.
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

// changeLen is how long the change is that b begins with.
func changeLen(b []byte) int { return changeHead + int(binary.BigEndian.Uint16(b[changeHead-2:])) }

// whole says whether b is changes and nothing else.
func whole(b []byte) bool {
	for len(b) > 0 {
		if len(b) < changeHead || len(b) < changeLen(b) {
			return false
		}
		b = b[changeLen(b):]
	}
	return true
}

// On is the key in values of a move's key.
func (d *Moves) On(m Move) []byte {
	change := d.changes[m.at:]
	return change[changeHead:changeLen(change)]
}

// Entry is the entry that a move puts at at.
func (d *Moves) Entry(m Move, at []byte) []byte {
	change := d.changes[m.at:]
	if change[20] != 0 {
		return appendCreated(nil, at)
	}
	return appendCreated(nil, at, binary.BigEndian.Uint32(change[16:]))
}

// Sort puts the moves in the order of ttl, those of one entry in that of their making.
// Changes come in slot order as a rule, so those of one instant hardly need sorting.
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
