package storage

import (
	"unsafe"

	"keyp/storage/object"
)

// EventClass is a bit of notify-keyspace-events; several may be set in a mask.
type EventClass uint32

// The classes, each with its letter in notify-keyspace-events.
const (
	EventGeneric  EventClass = 1 << iota // g
	EventString                          // $
	EventList                            // l
	EventSet                             // s
	EventHash                            // h
	EventZSet                            // z
	EventExpired                         // x
	EventEvicted                         // e
	EventStream                          // t
	EventMiss                            // m
	EventModule                          // d
	EventNew                             // n
	EventKeyspace                        // K: published on __keyspace@N__
	EventKeyevent                        // E: published on __keyevent@N__
)

// Event names a change of a key: its class and Redis's name for it, such as {EventString, "set"}.
// Every mutation has one as a parameter, so that none can be forgotten.
type Event struct {
	Class EventClass
	Name  string
}

// Events that storage raises by itself.
var (
	Expired = Event{EventExpired, "expired"}
	Evicted = Event{EventEvicted, "evicted"}
	Deleted = Event{EventGeneric, "del"}
	// DeadlineSet and DeadlineRemoved are those of EXPIRE and PERSIST.
	DeadlineSet     = Event{EventGeneric, "expire"}
	DeadlineRemoved = Event{EventGeneric, "persist"}
	// New: there is a key that was not there, raised before the event of what made it.
	New = Event{EventNew, "new"}
	// FieldExpired: fields of a hash are gone, one event for those of a batch.
	FieldExpired = Event{EventHash, "hexpired"}
)

// membersExpired is raised once for a batch of elements of a value that reached
// their deadlines. For hashes this is Redis's, for sets KeyDB's.
func membersExpired(t object.Type) Event {
	switch t {
	case object.TypeHash:
		return FieldExpired
	case object.TypeSet:
		return Event{EventSet, "srem"}
	default:
		return Event{EventZSet, "zrem"}
	}
}

// Happened is an event with its key. LSN is when it becomes durable: under appendfsync always
// nobody may be notified before.
//
// One with Call is no event, but a function to call between the transaction's events (see Among).
type Happened struct {
	Event
	DB   int
	Key  []byte // not to be changed
	LSN  uint64
	Call func(lsn uint64)
}

// Notify raises an event that goes with a change made by other means.
func (t *Txn) Notify(k Key, ev Event) {
	if k.DB == t.s.options.Databases || !t.Hears(ev) {
		return
	}
	t.raised += happenedBytes + len(k.Name)
	t.events = append(t.events, Happened{Event: ev, DB: k.DB, Key: append([]byte(nil), k.Name...)})
}

// Hears reports whether anybody listens to an event.
func (t *Txn) Hears(ev Event) bool {
	return t.s.onEvent.Load() != nil && EventClass(t.s.eventMask.Load())&ev.Class != 0
}

const happenedBytes = int(unsafe.Sizeof(Happened{}))

// Raised is the memory of the events that wait for the end of the transaction, in bytes.
func (t *Txn) Raised() int { return t.raised }

// Among queues fn between the events of the transaction, in its place among them, and does so even
// if SetEvents enables none. Listen's function must call it.
func (t *Txn) Among(fn func(lsn uint64)) {
	t.raised += happenedBytes
	t.events = append(t.events, Happened{Call: fn})
}

// raise passes the events to the listener, with the LSN of the transaction that ends.
func (t *Txn) raise(lsn uint64) {
	fn := *t.s.onEvent.Load()
	for i := range t.events {
		t.events[i].LSN = lsn
		fn(t.events[i])
	}
	clear(t.events)
	t.events, t.raised = t.events[:0], 0
	if cap(t.events) > maxKept/64 {
		t.events = nil
	}
}
