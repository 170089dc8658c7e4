package storage

import (
	"unsafe"

	"keyp/storage/object"
)

// EventClass is a bit of notify-keyspace-events; several may be set in a mask.
type EventClass uint32

// The classes, each with its letter in notify-keyspace-events.
const (
	EventGeneric     EventClass = 1 << iota // g
	EventString                             // $
	EventList                               // l
	EventSet                                // s
	EventHash                               // h
	EventZSet                               // z
	EventExpired                            // x
	EventEvicted                            // e
	EventStream                             // t
	EventMiss                               // m
	EventModule                             // d
	EventNew                                // n
	EventKeyspace                           // K: published on __keyspace@N__
	EventKeyevent                           // E: published on __keyevent@N__
	EventOverwritten                        // o
	EventTypeChanged                        // c
	// S: published on __subkeyspace@N__, as the next three with the fields.
	EventFieldSpace
	EventFieldEvent      // T: published on __subkeyevent@N__
	EventFieldItem       // I: published on __subkeyspaceitem@N__
	EventFieldSpaceEvent // V: published on __subkeyspaceevent@N__

	// EventFields says that listeners get the fields of a hash that an event is about.
	EventFields = EventFieldSpace | EventFieldEvent | EventFieldItem | EventFieldSpaceEvent
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
	// DeadlineSet and DeadlineRemoved are the events of EXPIRE and PERSIST.
	DeadlineSet     = Event{EventGeneric, "expire"}
	DeadlineRemoved = Event{EventGeneric, "persist"}
	// New: a key was made. It is raised before the event of the command that made the key.
	New = Event{EventNew, "new"}
	// FieldExpired: fields of a hash have expired, one event for the fields of a batch.
	FieldExpired = Event{EventHash, "hexpired"}
	// Overwritten: a key has another value as a whole. TypeChanged: the new value has another type.
	Overwritten = Event{EventOverwritten, "overwritten"}
	TypeChanged = Event{EventTypeChanged, "type_changed"}
)

// membersExpired is raised once for a batch of elements of a value that reached
// their deadlines. For hashes this is Redis's, for sets KeyDB's.
func membersExpired(t object.Type) Event {
	switch t {
	case object.TypeHash:
		return FieldExpired
	case object.TypeSet:
		return Event{EventSet, "srem"}
	case object.TypeStream:
		return Event{EventStream, "xexpired"}
	case object.TypeLimit:
		return Event{EventModule, "limit.expired"}
	default:
		return Event{EventZSet, "zrem"}
	}
}

// Happened is an event with its key. An event of a hash also has the fields, if there are any and
// listeners want them. LSN is the position with which the event becomes durable: under appendfsync
// always no client may be notified before.
//
// If Call is set, it is not an event, but a function to call between the transaction's events (see
// Among).
type Happened struct {
	Event
	DB     int
	Key    []byte   // not to be changed
	Fields [][]byte // not to be changed
	Due    int64    // of a key that has expired, its deadline, if that came since Open; otherwise 0
	LSN    uint64
	Call   func(lsn uint64)
}

// Notify raises an event that goes with a change made by other means.
func (r *txnReports) Notify(k Key, ev Event) {
	if k.DB == r.s.options.Databases || !r.Hears(ev) || r.Conflicted() {
		return
	}
	r.raised += happenedBytes + len(k.Name)
	r.events = append(r.events, Happened{Event: ev, DB: k.DB, Key: append([]byte(nil), k.Name...)})
}

// NotifyFields raises an event of a hash that is about some of its fields.
func (r *txnReports) NotifyFields(k Key, ev Event, fields ...[]byte) {
	n := len(r.events)
	if r.Notify(k, ev); n == len(r.events) || !r.HearsFields(ev) {
		return
	}
	for _, f := range fields {
		r.raised += fieldBytes + len(f)
		r.events[n].Fields = append(r.events[n].Fields, append([]byte(nil), f...))
	}
}

// Overwriting raises Overwritten for a key whose present value is about to be replaced by a value
// of type is with this deadline. If the present value has another type, it also raises TypeChanged.
// For a missing or expired key it raises nothing. If the governor refuses the deadline, it panics,
// as the write after it would.
func (t *Txn) Overwriting(k Key, is object.Type, deadline int64) {
	if EventClass(t.s.eventMask.Load())&(EventOverwritten|EventTypeChanged) != 0 {
		t.MayWrite(k, deadline)
		t.overwriting(k, is)
	}
}

func (t *Txn) overwriting(k Key, is object.Type) {
	if item, ok := t.Peek(k); ok {
		t.Overwrote(k, item.Type(), is)
	}
}

// Overwrote is Overwriting for a key that had a value of one type, and has one of another or the
// same.
func (r *txnReports) Overwrote(k Key, was, is object.Type) {
	r.Notify(k, Overwritten)
	if was != is {
		r.Notify(k, TypeChanged)
	}
}

// notifyExpired raises the event of a key that was due at deadline.
func (r *txnReports) notifyExpired(k Key, deadline int64) {
	n := len(r.events)
	r.Notify(k, Expired)
	if len(r.events) > n && deadline >= r.s.reapFrom {
		r.events[n].Due = deadline
	}
}

// Hears reports whether anybody listens to an event.
func (r *txnReports) Hears(ev Event) bool {
	return r.s.onEvent.Load() != nil && EventClass(r.s.eventMask.Load())&ev.Class != 0
}

// HearsFields reports whether anybody listens to the fields of an event.
func (r *txnReports) HearsFields(ev Event) bool {
	return ev.Class == EventHash && EventClass(r.s.eventMask.Load())&EventFields != 0 && r.Hears(ev)
}

const (
	happenedBytes = int(unsafe.Sizeof(Happened{}))
	fieldBytes    = int(unsafe.Sizeof([]byte(nil)))
)

// Raised is the memory of the events that wait for the end of the transaction, in bytes.
func (r *txnReports) Raised() int { return r.raised }

// Among queues fn between the events of the transaction, in its place among them, and does so even
// if SetEvents enables none. Listen's function must call it.
func (r *txnReports) Among(fn func(lsn uint64)) {
	r.raised += happenedBytes
	r.events = append(r.events, Happened{Call: fn})
}

// raise passes the events to the listener, with the LSN of the transaction that ends.
func (r *txnReports) raise(lsn uint64) {
	fn := *r.s.onEvent.Load()
	for i := range r.events {
		r.events[i].LSN = lsn
		fn(r.events[i])
	}
	r.dropEvents()
}

// dropEvents forgets the events of the transaction.
func (r *txnReports) dropEvents() {
	clear(r.events)
	r.events, r.raised = r.events[:0], 0
	if cap(r.events) > maxKept/64 {
		r.events = nil
	}
}
