package policies

import (
	"log/slog"
	"slices"
	"time"

	"keyp/internal/clock"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// governor applies the deadline policies of a Set (KEYP.POLICY) to the keys that commands write and
// read.
type governor struct {
	*Set
	clock clock.Clock
	log   *slog.Logger
}

// Use replaces the policies that apply to a store.
func Use(s *storage.Store, set *Set) {
	if set.Len() == 0 {
		s.SetGovernor(nil, false)
		return
	}
	of := s.Options()
	slides := slices.ContainsFunc(set.List(), func(p *Policy) bool { return p.Slide != 0 })
	s.SetGovernor(&governor{set, of.Clock, of.Logger}, slides)
}

// Refused is the value with which a write panics if a policy refuses the key's new deadline, or the
// lack of one.
type Refused struct {
	Policy   *Policy
	Deadline int64 // the deadline that was asked for, ttl.None for none
}

// Governs reports whether a policy applies to a key.
func (g *governor) Governs(k storage.Key) bool { return g.Find(k.DB, k.Name) != nil }

// Decide returns the deadline that the policy of a key gives it, and counts the effect. A policy
// that only warns leaves the deadline as it is, and the effect is logged. It panics with Refused.
func (g *governor) Decide(t *storage.Txn, k storage.Key, deadline ttl.Deadline,
	kept bool) ttl.Deadline {
	p := g.Find(k.DB, k.Name)
	if p == nil {
		return deadline
	}
	v := p.Decide(t.Now(), deadline.At, kept, k.Hash)
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
		g.wouldDecide(p, k, v)
		return deadline
	case v.Refused:
		panic(Refused{p, deadline.At})
	default:
		return ttl.Deadline{At: v.Deadline, FromNow: v.Defaulted || v.Cut || deadline.FromNow}
	}
}

// policyLogs is the minimum time between two log lines about the effects of a policy that only
// warns.
const policyLogs = time.Hour

// wouldDecide logs the effect that a policy that only warns would have. It logs the first time, and
// then once an hour with the number of times.
func (g *governor) wouldDecide(p *Policy, k storage.Key, v Verdict) {
	p.Unlogged.Add(1)
	now, last := int64(g.clock.Mono()), p.Logged.Load()
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
	g.log.Warn("a policy would "+what, "policy", p.Name, "times", p.Unlogged.Swap(0), "db", k.DB,
		"key", storage.Clip(k.Name))
}

// MayCreate panics with Refused if the policy of a missing key requires a deadline.
func (g *governor) MayCreate(t *storage.Txn, k storage.Key) {
	if p := g.Find(k.DB, k.Name); p != nil && p.Decide(t.Now(), ttl.None, false, k.Hash).Refused {
		g.Decide(t, k, ttl.Deadline{}, false)
	}
}

// MayWrite panics with Refused if the policy of a key refuses a deadline that the key does not
// have.
func (g *governor) MayWrite(t *storage.Txn, k storage.Key, deadline int64) {
	p := g.Find(k.DB, k.Name)
	if p == nil || !p.Enforce {
		return
	}
	if item, ok := t.Peek(k); ok && item.Deadline() == deadline {
		return
	}
	if p.Decide(t.Now(), deadline, false, k.Hash).Refused {
		p.Counts.Refused.Add(1)
		panic(Refused{p, deadline})
	}
}

// StreamAge returns the age in ms that the policy of a stream without one gives it, and counts
// that. It returns 0 if no policy sets an age, or if the policy only warns.
func (g *governor) StreamAge(k storage.Key) (ms int64, refs object.StreamRefs) {
	p := g.Find(k.DB, k.Name)
	if p == nil || p.MaxAge == 0 {
		return 0, 0
	}
	p.Counts.Aged.Add(1)
	if !p.Enforce {
		return 0, 0
	}
	return p.MaxAge, object.StreamRefs(p.AgeRefs)
}

// moved has the deadlines that reading has moved in a transaction.
type moved struct{ list []move }

// move is one moved deadline. The key's name is valid while its command runs.
type move struct {
	k       storage.Key
	p       *Policy
	was, to int64
}

// Read moves the deadline of a key that is read, if its policy requires that.
func (g *governor) Read(t *storage.Txn, k storage.Key, item storage.Item) {
	p := g.Find(k.DB, k.Name)
	if p == nil {
		return
	}
	was := item.Deadline()
	to := p.SlideTo(t.Now(), was, item.DeadlineSet()*1000)
	if to == was {
		return
	}
	if !p.Enforce {
		p.Counts.Slid.Add(1)
		return
	}
	t.MoveDeadline(k, ttl.In(to))
	m, ok := t.GovernorNoted.(*moved)
	if !ok {
		m = &moved{}
		t.GovernorNoted = m
	}
	m.list = append(m.list, move{k, p, was, to})
}

// Ended counts the deadlines that reading has moved.
func (m *moved) Ended() {
	for _, one := range m.list {
		one.p.Counts.Slid.Add(1)
	}
	clear(m.list)
	m.list = m.list[:0]
}

// Moves returns how many deadlines reading has moved since the transaction began, for TakeBack.
func Moves(t *storage.Txn) int {
	if m, ok := t.GovernorNoted.(*moved); ok {
		return len(m.list)
	}
	return 0
}

// TakeBack moves back the deadlines that reading has moved after the call of Moves that returned
// since. It is for a command that a policy refuses.
func TakeBack(t *storage.Txn, since int) {
	m, ok := t.GovernorNoted.(*moved)
	if !ok {
		return
	}
	for _, one := range slices.Backward(m.list[since:]) {
		if item, ok := t.Peek(one.k); ok && item.Deadline() == one.to {
			t.MoveDeadline(one.k, ttl.At(one.was))
		}
	}
	m.list = m.list[:since]
}

// Apply gives a key the deadline that a policy requires, and a stream its age, as a write of the
// key would. It returns whether one of them changed, or would change if the policy did not only
// warn. It does nothing for a missing or expired key, or one to which the policy does not apply.
func Apply(t *storage.Txn, k storage.Key, p *Policy) bool {
	g, ok := t.Governor(k).(*governor)
	if !ok || g.Find(k.DB, k.Name) != p {
		return false
	}
	item, ok := t.Peek(k)
	if !ok || item.Type().OwnDeadline() {
		return false
	}
	aged := false
	if s, ok := item.Value().(*object.Stream); ok && p.MaxAge != 0 {
		age, _ := s.Age()
		if aged = age == 0; aged {
			t.GovernStream(k)
			t.FlushValues()
		}
	}
	v := p.Decide(t.Now(), item.Deadline(), true, k.Hash)
	if v.Changed() {
		t.Govern(k)
	}
	return v.Changed() || aged
}
