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

// Event is what a change of a key is called: its class and Redis's name for it, such
// as {EventString, "set"}. Every mutation takes one, so that none can be forgotten.
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

// Happened is an event with its key. LSN is when it becomes durable: under
// appendfsync always nobody may hear of it before.
//
// One with Tell is no event: Tell is what the transaction was asked to have done between its
// events (see Among).
type Happened struct {
	Event
	DB   int
	Key  []byte // not to be changed
	LSN  uint64
	Tell func(lsn uint64)
}

// Notify raises an event that goes with a change made by other means.
func (t *Txn) Notify(k Key, ev Event) {
	if k.DB == t.s.options.Databases || !t.Hears(ev) {
		return
	}
	t.raised += happenedBytes + len(k.Name)
	t.events = append(t.events, Happened{Event: ev, DB: k.DB, Key: append([]byte(nil), k.Name...)})
}

// Hears says whether anybody wants to hear of an event.
func (t *Txn) Hears(ev Event) bool {
	return t.s.onEvent.Load() != nil && EventClass(t.s.eventMask.Load())&ev.Class != 0
}

const happenedBytes = int(unsafe.Sizeof(Happened{}))

// Raised is what the events that wait for the end of the transaction take, in bytes.
func (t *Txn) Raised() int { return t.raised }

// Among has tell handed on in its place among the events that the transaction raises, also
// when none are wanted. Somebody has to listen to the store.
func (t *Txn) Among(tell func(lsn uint64)) {
	t.raised += happenedBytes
	t.events = append(t.events, Happened{Tell: tell})
}

// raise hands on what happened, with the LSN of the transaction that ends.
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
