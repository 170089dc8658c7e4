package storage

import (
	"keyp/storage/format"
	"keyp/storage/object"
)

// hooks are the calls that the engine makes to a feature which is built on it. The engine knows
// nothing else of the feature. Where there is a transaction, it has the shard of the key locked.
type hooks interface {
	// start reads the feature's own data when the store is opened, before anything is due.
	start() error
	// loop works until the store is closed. tidy is called by each round of housekeeping.
	loop()
	tidy()
	// leads is called when the store of a follower becomes that of a leader; the transaction has
	// all shards locked. led is called after it.
	leads(t *Txn)
	led()
	// keepsSystem reports whether the server's own data must stay in memory.
	keepsSystem() bool
	// changesRules reports whether a batch that changes a key of the server's own data is to be
	// applied with all shards locked by a follower. follow is called after that, with all such
	// keys.
	changesRules(name string) bool
	follow(t *Txn, names []string)

	// wants reports whether the feature records expiries in a database.
	wants(db int) bool
	// wantsValue reports whether the engine must load a due key that is only on disk before it
	// removes the key. The feature then records the value, or elements that were due earlier.
	wantsValue(k Key, typ object.Type, at format.Times) bool
	// keyExpired records a key that has expired, before the engine removes it. The item is zero if
	// only the data file has the value.
	keyExpired(t *Txn, k Key, typ object.Type, deadline int64, item Item)
	// elements returns the hook that records expired elements of a key, or nil if none does.
	elements(t *Txn, k Key, typ object.Type) elementHook
	// ending writes what the feature adds to the transaction's batch.
	ending(t *Txn)
	// removed is called without a transaction when something that was due may be gone.
	removed()
}

// elementHook records elements of one key that expire.
type elementHook interface {
	expired(t *Txn, k Key, typ object.Type, elem, val []byte, deadline int64)
	// bytes is how many bytes are noted of a value that has so many.
	bytes(value int) int
}

// goneKey accounts for a key that is about to be removed because its deadline has come. It calls
// the hooks, counts the lateness and raises the event. The item is zero if only the data file has
// the value.
func (t *Txn) goneKey(k Key, typ object.Type, deadline, now int64, item Item) {
	if t.s.hooks.wants(k.DB) {
		t.s.hooks.keyExpired(t, k, typ, deadline, item)
	}
	t.s.observeLateness(deadline, now)
	t.s.stats.Expired.Add(1)
	t.notifyExpired(k, deadline)
}

// goneElements accounts for the elements of one key that are removed because their deadlines have
// come.
type goneElements struct {
	t    *Txn
	k    Key
	typ  object.Type
	hook elementHook // nil: nothing records them
	own  bool        // the key is the server's: it does not count
}

func (t *Txn) goneElements(k Key, typ object.Type) goneElements {
	return goneElements{t, k, typ, t.s.hooks.elements(t, k, typ), k.DB == t.s.options.Databases}
}

// gone calls the hook for an element. It counts the lateness if it is known since when the element
// might go.
func (g *goneElements) gone(elem, val []byte, deadline int64, known bool) {
	if known && !g.own {
		g.t.s.observeLate(g.t.s.late.elements, deadline)
	}
	if g.hook != nil {
		g.hook.expired(g.t, g.k, g.typ, elem, val, deadline)
	}
}

// shedStep returns how many elements of a key to remove between two readings of the clock, at most
// some number. There are fewer where values are noted that are large.
func (t *Txn) shedStep(k Key, o *Object, most int) int {
	hook := t.s.hooks.elements(t, k, o.val.Type())
	if hook == nil {
		return most
	}
	noted := hook.bytes(o.val.Bytes() / max(o.val.Len(), 1))
	return max(1, min(most, reportStep/max(noted, 1)))
}

// ReportPassed reports the expiry of a key to which a command gives a deadline that has passed. The
// command deletes the key, or does not make it. v is the value that it would have; nil: its present
// one. It does nothing for a missing key without a value.
func (t *Txn) ReportPassed(k Key, deadline int64, v object.Value) {
	if !t.s.hooks.wants(k.DB) || t.Offloaded() || t.Conflicted() {
		return
	}
	item := Item{o: &Object{val: v}}
	if v == nil {
		var ok bool
		if item, ok = t.Peek(k); !ok {
			return
		}
	}
	t.s.hooks.keyExpired(t, k, item.Type(), deadline, item)
}

// ReportPassedElement is ReportPassed for an element of a key that has, or would have, a type.
func (t *Txn) ReportPassedElement(k Key, typ object.Type, elem, val []byte, deadline int64) {
	if hook := t.s.hooks.elements(t, k, typ); hook != nil {
		hook.expired(t, k, typ, elem, val, deadline)
	}
}
