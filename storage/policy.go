package storage

import (
	"slices"
	"time"

	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// Policies decide on the deadlines of keys that commands write (ttl.Policy). The decision is made
// when a transaction gives a key a value or a deadline. So the log contains the decisions, and
// replay decides nothing. For a changed collection the decision is made at the end of the command,
// when its counts are updated (FlushValues).

// policies are the present policies.
type policies struct {
	find   func(db int, name []byte) *ttl.Policy
	slides bool
}

// SetPolicies sets the function that returns a key's policy, or nil if the key has none. If find is
// nil there are no policies. slides tells whether a policy slides deadlines; otherwise find is not
// called for reads. find must be quick and must not call the store: shards are locked during the
// call.
func (s *Store) SetPolicies(find func(db int, name []byte) *ttl.Policy, slides bool) {
	if find == nil {
		s.policies.Store(nil)
		return
	}
	s.policies.Store(&policies{find, slides})
}

// Governed reports whether there are policies.
func (s *Store) Governed() bool { return s.policies.Load() != nil }

// Refused is the value with which the store panics when a policy refuses the new deadline of a key,
// or the lack of one. A function that is part of a change has then changed nothing.
type Refused struct {
	Policy   *ttl.Policy
	Deadline int64 // the deadline that was asked for, 0 for none
}

// policy is the policy of a key, nil if it is under none.
func (t *Txn) policy(k Key) *ttl.Policy {
	ps := t.s.policies.Load()
	if ps == nil || t.Exempt || k.DB == t.s.options.Databases {
		return nil
	}
	return ps.find(k.DB, k.Name)
}

// govern returns the deadline of a key that is written with deadline. kept: the key had this
// deadline before, and the write does not set it. It panics with Refused.
func (t *Txn) govern(k Key, deadline ttl.Deadline, kept bool) ttl.Deadline {
	p := t.policy(k)
	if p == nil {
		return deadline
	}
	v := p.Decide(t.now, deadline.At, kept, k.Hash)
	if !v.Changed() {
		return deadline
	}
	counts := &p.Counts
	switch {
	case v.Refused:
		counts.Refused.Add(1)
	case v.Defaulted:
		counts.Defaulted.Add(1)
	case v.Cut:
		counts.Cut.Add(1)
	}
	if v.Jittered {
		counts.Jittered.Add(1)
	}
	switch {
	case !p.Enforce:
		t.s.wouldDecide(p, k, v)
		return deadline
	case v.Refused:
		panic(Refused{p, deadline.At})
	default:
		return ttl.Deadline{At: v.Deadline, FromNow: v.Defaulted || v.Cut || deadline.FromNow}
	}
}

// governNew is govern for a value that a key gets as a whole. The deadline is kept if it is the
// key's present one.
func (t *Txn) governNew(k Key, deadline ttl.Deadline) ttl.Deadline {
	if t.s.policies.Load() == nil {
		return deadline
	}
	item, ok := t.Peek(k)
	return t.govern(k, deadline, ok && item.Deadline() == deadline.At)
}

// notifyWritten raises the event of a write that asked for a deadline, and that of the deadline
// that a policy gave it.
func (t *Txn) notifyWritten(k Key, ev Event, asked, deadline int64) {
	t.Notify(k, ev)
	if asked == ttl.None && deadline != ttl.None {
		t.Notify(k, DeadlineSet)
	}
}

// governMoved is govern for a value that comes from another key with its deadline, and when that
// was set.
func (t *Txn) governMoved(to Key, typ object.Type, deadline int64, created uint32) (ttl.Deadline, uint32) {
	d := ttl.At(deadline)
	if typ.OwnDeadline() {
		return d, created
	}
	if d = t.govern(to, d, deadline != ttl.None); d.At != deadline {
		created = t.createdAt(d.At)
	}
	return d, created
}

// MayWrite panics with Refused where a policy refuses a deadline, 0 for none, of a key that is
// missing or has another. A command that changes something else before it writes the key calls it
// first.
func (t *Txn) MayWrite(k Key, deadline int64) {
	p := t.policy(k)
	if p == nil || !p.Enforce {
		return
	}
	if item, ok := t.Peek(k); ok && item.Deadline() == deadline {
		return
	}
	if p.Decide(t.now, deadline, false, k.Hash).Refused {
		p.Counts.Refused.Add(1)
		panic(Refused{p, deadline})
	}
}

// creating is govern for a missing key that is about to be made without a deadline, and gets the
// one that its policy wants when the command ends (governPresent).
func (t *Txn) creating(k Key) {
	p := t.policy(k)
	if p == nil || !p.Decide(t.now, ttl.None, false, k.Hash).Refused {
		return
	}
	t.govern(k, ttl.Deadline{}, false)
}

// governPresent gives a key that was changed in place the deadline that its policy wants.
func (t *Txn) governPresent(k Key) {
	if t.policy(k) == nil {
		return
	}
	p, sl, c := t.live(k, false)
	if !exists(c) || p.item(*c).Type().OwnDeadline() {
		return
	}
	was := p.deadline(*c)
	if d := t.govern(k, ttl.At(was), true); d.At != was {
		t.changeDeadline(p, sl, c, k, d, t.createdAt(d.At))
		t.notifyWritten(k, Event{}, was, d.At)
	}
}

// agePresent gives a stream that was changed in place, and has no maximum age, the one that its
// policy wants. It returns whether it does, or would if the policy did not only warn.
func (t *Txn) agePresent(k Key) bool {
	p := t.policy(k)
	if p == nil || p.MaxAge == 0 {
		return false
	}
	_, c := t.look(k)
	if !exists(c) {
		return false
	}
	item, _ := t.Peek(k)
	v, ok := item.Value().(*object.Stream)
	if !ok {
		return false
	}
	if age, _ := v.Age(); age != 0 {
		return false
	}
	p.Counts.Aged.Add(1)
	if p.Enforce {
		s := Stream{handle: handle{t: t, k: k, o: item.o, typ: object.TypeStream}}
		s.SetAge(p.MaxAge, object.StreamRefs(p.AgeRefs))
	}
	return true
}

// slide moves the deadline of a key that is being read, if its policy says so. For clients that
// watch the key this is no change, and it raises no event. The deadline stays on a full disk, and
// while the value is pinned.
func (t *Txn) slide(k Key, item Item) {
	was := item.Deadline()
	if was == ttl.None || item.Type().OwnDeadline() {
		return
	}
	p := t.policy(k)
	if p == nil || p.SlideTo(t.now, was, t.now) == was || t.s.Full() || item.o != nil && item.o.pinned() {
		return
	}
	part, sl, c := t.live(k, false)
	created := part.created(*c)
	to := p.SlideTo(t.now, was, int64(created)*1000)
	if to == was {
		return
	}
	if !p.Enforce {
		p.Counts.Slid.Add(1)
	} else {
		quiet := t.quiet
		t.quiet = true
		t.changeDeadline(part, sl, c, k, ttl.In(to), created)
		t.quiet = quiet
		t.slid = append(t.slid, slid{k, p, was, to})
	}
}

// slid is a deadline that slide has moved. The key's name is valid while its command runs.
type slid struct {
	k       Key
	p       *ttl.Policy
	was, to int64
}

// Slides is how many deadlines reading has moved since the transaction's begin, for Unslide.
func (t *Txn) Slides() int { return len(t.slid) }

// Unslide moves back the deadlines that reading has moved since Slides returned since. It is for a
// command that a policy refuses.
func (t *Txn) Unslide(since int) {
	quiet := t.quiet
	t.quiet = true
	for _, s := range slices.Backward(t.slid[since:]) {
		if part, sl, c := t.live(s.k, false); exists(c) && part.deadline(*c) == s.to {
			t.changeDeadline(part, sl, c, s.k, ttl.At(s.was), part.created(*c))
		}
	}
	t.quiet, t.slid = quiet, t.slid[:since]
}

// countSlides counts what slid at the transaction's end.
func (t *Txn) countSlides() {
	for _, s := range t.slid {
		s.p.Counts.Slid.Add(1)
	}
	clear(t.slid)
	t.slid = t.slid[:0]
}

// Apply gives a key the deadline that its policy wants, if it has another one or none, and a stream
// its age, as a write of it would. It returns whether one of them changed, or would change if the
// policy did not only warn. A missing or expired key has none.
func (t *Txn) Apply(k Key, p *ttl.Policy) bool {
	item, ok := t.Peek(k)
	if !ok || t.policy(k) != p || item.Type().OwnDeadline() {
		return false
	}
	aged := t.agePresent(k)
	t.FlushValues()
	v := p.Decide(t.now, item.Deadline(), true, k.Hash)
	if v.Changed() {
		t.governPresent(k)
	}
	return v.Changed() || aged
}

// policyLogs is how often at most the log says what a policy would do, after the first time.
const policyLogs = time.Hour

// wouldDecide logs what a policy that only warns would do: the first time, and once an hour how
// often that was.
func (s *Store) wouldDecide(p *ttl.Policy, k Key, v ttl.Verdict) {
	p.Unlogged.Add(1)
	now, last := int64(s.clock.Mono()), p.Logged.Load()
	if last != 0 && now-last < int64(policyLogs) || !p.Logged.CompareAndSwap(last, now) {
		return
	}
	what := "shorten the time to live"
	switch {
	case v.Refused:
		what = "refuse the command"
	case v.Defaulted:
		what = "give the key a deadline"
	}
	s.options.Logger.Warn("a policy would "+what, "policy", p.Name, "times", p.Unlogged.Swap(0), "db", k.DB, "key", clip(k.Name))
}

// changeDeadline gives a key another deadline, and records it.
func (t *Txn) changeDeadline(p *part, sl *slot, c *cell, k Key, deadline ttl.Deadline, created uint32) {
	p.setDeadline(t, sl, c, deadline.At, created)
	if o := p.objectOf(*c); o != nil && o.id != 0 && t.logged == o.id {
		t.changing(p.space, k.Name)
		t.cutBatch()
		t.buf = append(t.buf, format.RecExpire)
		t.cost += recordCost[format.RecExpire]
		t.stated++
	} else {
		t.keyRecord(format.RecDeadline, p, k.Name)
	}
	t.buf = format.AppendDeadline(t.buf, deadline.At, created)
	t.wrotePut(p, sl, *c)
	t.s.guard.noteKey(t, p.space, k, deadline)
}
