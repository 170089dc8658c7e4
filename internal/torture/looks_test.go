package torture

import (
	"bytes"
	"math"
)

// A reply about a key shows at what time the key existed or had expired. seenAt has the latest such
// time of the replies about each key, and about all keys of a database. What had expired by then
// must not come back, not even after a crash.
type seenAt struct {
	keys map[name]int64
	all  [databases]int64 // of all keys of a database, but not of their elements
}

// forget is called when the keys that were due were removed, or moved elsewhere.
func (s *seenAt) forget() { *s = seenAt{keys: map[name]int64{}} }

// saw records an operation whose reply was sent.
func (s *seenAt) saw(o *op) {
	if len(o.commands) == 0 {
		return
	}
	last := o.replies[len(o.replies)-1]
	if last[0] == '-' || bytes.HasPrefix(last, []byte("*-1")) && len(o.commands) > 1 {
		return
	}
	for i, c := range o.commands {
		reply := o.replies[i]
		if len(o.commands) > 1 {
			reply = nil // it was QUEUED
		}
		switch command := string(c[0]); {
		case reads[command]:
			n := name{o.db, string(c[1])}
			s.keys[n] = max(s.keys[n], o.at)
		case command == "KEYS", command == "SCAN", command == "RANDOMKEY" &&
			bytes.HasPrefix(reply, []byte("$-1")):
			s.all[o.db] = max(s.all[o.db], o.at)
		}
	}
}

// returned returns a key that is back, with all or some of its elements, after it was shown as
// gone.
func (s *seenAt) returned(c content) (n name, back bool) {
	for n, v := range c {
		if n.db == databases {
			continue // nobody asks for what the system has
		}
		if _, there := (content{n: v}).at(s.all[n.db])[n]; !there || v.due() <= s.keys[n] {
			return n, true
		}
	}
	return name{}, false
}

// due returns the earliest deadline of a key and its elements.
func (v *value) due() int64 {
	due := int64(math.MaxInt64)
	for _, d := range append([]elem{{deadline: v.deadline}}, v.elems...) {
		if d.deadline != 0 {
			due = min(due, d.deadline)
		}
	}
	return due
}

// moves reports whether an operation may have moved keys to other databases without reading them.
func (o *op) moves() bool {
	for _, c := range o.commands {
		for _, arg := range c {
			if bytes.Equal(arg, []byte("SWAPDB")) {
				return true
			}
		}
	}
	return false
}
