package storage

import (
	"context"

	"keyp/storage/format"
	"keyp/storage/object"
)

// Hooks are the calls that the store makes to features which are built on it (features/outbox and
// features/leases, which commands/features.go joins). The store knows nothing else of them. If a
// call passes a transaction, that transaction has the shard of the key locked. A store that is
// opened read-only has NoHooks.
type Hooks interface {
	// Start reads the feature's own data when the store is opened, before anything is due. quit is
	// done when the store begins to close.
	Start(quit context.Context) error
	// Loop works in the background until the store closes.
	Loop()
	// Leads is called when the store of a follower becomes that of a leader; the transaction has
	// all shards locked. Led is called after it.
	Leads(t *Txn)
	Led()
	// KeepsSystem reports whether the server's own data must stay in memory.
	KeepsSystem() bool
	// ChangesRules reports whether a follower must have all shards locked to apply a batch that
	// changes a key of the server's own data. Follow is called when a batch has been applied, with
	// all such keys.
	ChangesRules(name string) bool
	Follow(t *Txn, names []string)

	// Wants reports whether the feature records expiries in a database.
	Wants(db int) bool
	// WantsValue reports whether the engine must load a due key that is only on disk before it
	// removes the key. That is necessary if the feature records the value, or elements that were
	// due earlier.
	WantsValue(k Key, typ object.Type, at format.Times) bool
	// KeyExpired notes a key that has expired, before the engine removes it. The item has no value
	// if only the data file has it.
	KeyExpired(t *Txn, k Key, typ object.Type, deadline int64, item Item)
	// Elements returns the hook that notes expired elements of a key, or nil if none does.
	Elements(k Key, typ object.Type) ElementHook
	// Ending writes what was noted (Txn.Noted) into the transaction's batch.
	Ending(t *Txn)
	// Arriving is called when COPY, RENAME, MOVE, RESTORE or Replace sets a whole value v that is
	// not a string. It returns the value that the key gets, which may be v. It is not called for
	// large values that are copied or restored outside of the loop. If it panics, the keys keep
	// their values.
	Arriving(t *Txn, k Key, v object.Value) object.Value
	// Restored is called after Start in a directory that was just restored. instant is the moment
	// that was restored (Unix ms).
	Restored(instant int64) error
	// Removed is called without a transaction when something that was due may have been removed.
	Removed()
}

// ElementHook notes elements of one key that expire.
type ElementHook interface {
	Expired(t *Txn, k Key, typ object.Type, elem, val []byte, deadline int64)
	// Bytes returns how many bytes are noted for an element whose value has value bytes.
	Bytes(value int) int
}

// Noted contains the notes of the hooks in a transaction.
type Noted interface {
	// Bytes returns how many bytes Ending has yet to write; 0: there is nothing to write.
	Bytes() int
}

// NoHooks are hooks that do nothing. A feature that needs some hooks embeds it for the others.
type NoHooks struct{}

func (NoHooks) Start(context.Context) error                    { return nil }
func (NoHooks) Loop()                                          {}
func (NoHooks) Leads(*Txn)                                     {}
func (NoHooks) Led()                                           {}
func (NoHooks) KeepsSystem() bool                              { return false }
func (NoHooks) ChangesRules(string) bool                       { return false }
func (NoHooks) Follow(*Txn, []string)                          {}
func (NoHooks) Wants(int) bool                                 { return false }
func (NoHooks) WantsValue(Key, object.Type, format.Times) bool { return false }
func (NoHooks) KeyExpired(*Txn, Key, object.Type, int64, Item) {}
func (NoHooks) Elements(Key, object.Type) ElementHook          { return nil }
func (NoHooks) Ending(*Txn)                                    {}
func (NoHooks) Restored(int64) error                           { return nil }
func (NoHooks) Removed()                                       {}

func (NoHooks) Arriving(_ *Txn, _ Key, v object.Value) object.Value { return v }

// Hooks returns the hooks that Options.Hooks has created. The hooks of a store without features do
// nothing.
func (s *Store) Hooks() Hooks { return s.hooks }

func (s *Store) newHooks() Hooks {
	if s.options.Hooks == nil || s.options.ReadOnly {
		return NoHooks{}
	}
	return s.options.Hooks(s)
}

// runHooks runs the loop of the hooks. It waits first until the reaper may begin, as look-ups
// before that may remove keys and elements of any deadline.
func (s *Store) runHooks() {
	lowerPriority()
	s.awaitReapDelay()
	s.hooks.Loop()
}

// endNoted makes the hooks write their notes.
func (t *Txn) endNoted() {
	if noted(t) > 0 {
		t.s.hooks.Ending(t)
	}
}

// noted returns how many bytes the hooks have yet to write in a transaction.
func noted(t *Txn) int {
	if t.Noted == nil {
		return 0
	}
	return t.Noted.Bytes()
}

// goneKey accounts for a key that is about to be removed because its deadline has come. It calls
// the hooks, counts the lateness and raises the event. The item is zero if only the data file has
// the value.
func (t *Txn) goneKey(k Key, typ object.Type, deadline, now int64, item Item) {
	if t.s.hooks.Wants(k.DB) {
		t.s.hooks.KeyExpired(t, k, typ, deadline, item)
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
	hook ElementHook // nil: nothing records them
	own  bool        // the key is the server's: it does not count
}

func (t *Txn) goneElements(k Key, typ object.Type) goneElements {
	return goneElements{t, k, typ, t.s.hooks.Elements(k, typ), k.DB == t.s.options.Databases}
}

// gone calls the hook for an element. known means that it is known since when the element could be
// removed. In that case gone also counts how late the element is removed.
func (g *goneElements) gone(elem, val []byte, deadline int64, known bool) {
	if known && !g.own {
		g.t.s.observeLate(g.t.s.late.elements, deadline)
	}
	if g.hook != nil {
		g.hook.Expired(g.t, g.k, g.typ, elem, val, deadline)
	}
}

// shedStep returns how many elements of a key to remove between two readings of the clock. It is at
// most most, and less if the hook notes large values.
func (t *Txn) shedStep(k Key, o *Object, most int) int {
	hook := t.s.hooks.Elements(k, o.val.Type())
	if hook == nil {
		return most
	}
	noted := hook.Bytes(o.val.Bytes() / max(o.val.Len(), 1))
	return max(1, min(most, reportStep/max(noted, 1)))
}

// ReportPassed reports the expiry of a key if a command sets a deadline that has passed. The
// command deletes the key, or does not create it. v is the value that the key would have; nil means
// its present value. If v is nil it does nothing for a missing key.
func (t *Txn) ReportPassed(k Key, deadline int64, v object.Value) {
	if !t.s.hooks.Wants(k.DB) || t.Offloaded() || t.Conflicted() {
		return
	}
	item := Item{o: &Object{val: v}}
	if v == nil {
		var ok bool
		if item, ok = t.Peek(k); !ok {
			return
		}
	}
	t.s.hooks.KeyExpired(t, k, item.Type(), deadline, item)
}

// ReportPassedElement reports the expiry of an element of a key, as ReportPassed does for keys. typ
// is the type that the key has or would have.
func (t *Txn) ReportPassedElement(k Key, typ object.Type, elem, val []byte, deadline int64) {
	if hook := t.s.hooks.Elements(k, typ); hook != nil {
		hook.Expired(t, k, typ, elem, val, deadline)
	}
}
