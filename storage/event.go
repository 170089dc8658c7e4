package storage

import (
	"unsafe"

	"keyp/storage/object"
)

// EventClass is a class of events, as a bit. A mask of several bits stands for the setting
// notify-keyspace-events.
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
	// S: published on __subkeyspace@N__. This and the next three are published with the fields.
	EventFieldSpace
	EventFieldEvent      // T: published on __subkeyevent@N__
	EventFieldItem       // I: published on __subkeyspaceitem@N__
	EventFieldSpaceEvent // V: published on __subkeyspaceevent@N__

	// EventFields is a mask of the classes whose listeners get the fields of a hash with an event.
	EventFields = EventFieldSpace | EventFieldEvent | EventFieldItem | EventFieldSpaceEvent
)

// Event names a change of a key: its class and Redis's name for it, such as {EventString, "set"}.
// Every mutation has one as a parameter, so that none can be forgotten.
type Event struct {
	Class EventClass
	Name  string
}

// Events that the storage engine raises without a command that passes them.
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
	// Overwritten: the whole value of a key was replaced. TypeChanged: the new value has another
	// type.
	Overwritten = Event{EventOverwritten, "overwritten"}
	TypeChanged = Event{EventTypeChanged, "type_changed"}
)

// membersExpired returns the event for elements of a value that have expired. It is raised once for
// a batch of elements. For hashes it is the event of Redis, for sets that of KeyDB.
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
// listeners want them. The event is durable when the log is durable up to LSN. Under appendfsync
// always no client may be notified before that.
//
// If Call is set, this is not an event, but a function to call between the transaction's events
// (see Among).
type Happened struct {
	Event
	DB     int
	Key    []byte   // not to be changed
	Fields [][]byte // not to be changed
	Due    int64    // of a key that has expired, its deadline, if that came since Open; otherwise 0
	LSN    uint64
	Call   func(lsn uint64)
}

// Notify raises an event about a key; the listener gets it when the transaction ends. It is for
// changes that do not raise the event themselves. It does nothing if nobody listens, and for keys
// of the system database.
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

// Overwrote raises Overwritten for a key whose value was replaced. It also raises TypeChanged if
// its type has changed from was to is.
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

// Raised returns how many bytes of memory the events take that wait for the end of the transaction.
func (r *txnReports) Raised() int { return r.raised }

// Among adds fn to the queue of the transaction's events, after the events so far. It does so even
// if SetEvents enables no events. The function that was passed to Listen must call fn
// (Happened.Call).
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
