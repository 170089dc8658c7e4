package ttl

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/internal/clock"
)

// Manager has the methods of the TTL manager that Keyp's first design asked for. This declaration
// checks that. The design's methods IsExpired, CleanupExpired and RestoreTTL belong to the store:
// see doc.go.
var _ interface {
	SetExpire(key string, n int64, unit Unit, cond Condition) (int, error)
	SetExpireAt(key string, timestamp int64, unit Unit, cond Condition) (int, error)
	GetTTL(key string) int64
	GetPTTL(key string) int64
	Persist(key string) int
} = Manager[string]{}

// startOfTime is the time at which the tests' clocks start.
const startOfTime = 1_700_000_000_000

// modelKeys is the simplest possible store. restart keeps only what is on disk: values and
// deadlines. The index is in memory, and restore rebuilds it.
type modelKeys struct {
	clock     *clock.Fake
	values    map[string]string
	deadlines map[string]int64
	index     *NamedIndex
}

func newModelKeys() *modelKeys {
	return &modelKeys{
		clock:     clock.NewFake(startOfTime),
		values:    map[string]string{},
		deadlines: map[string]int64{},
		index:     NewNamedIndex(),
	}
}

func (k *modelKeys) put(key, value string) {
	k.index.Set(key, k.deadlines[key], None)
	delete(k.deadlines, key)
	k.values[key] = value
}

// get is a reader: it sees no expired key.
func (k *modelKeys) get(key string) (value string, ok bool) {
	if Expired(k.deadlines[key], k.Now()) {
		return "", false
	}
	value, ok = k.values[key]
	return value, ok
}

func (k *modelKeys) remove(key string) {
	k.put(key, "")
	delete(k.values, key)
}

// restart loses everything that is not on disk.
func (k *modelKeys) restart() *modelKeys {
	return &modelKeys{k.clock, maps.Clone(k.values), maps.Clone(k.deadlines), NewNamedIndex()}
}

func (k *modelKeys) Now() int64 { return k.clock.Now() }

func (k *modelKeys) Deadline(key string) (int64, bool) {
	_, exists := k.get(key)
	return k.deadlines[key], exists
}

func (k *modelKeys) Expire(key string, given Deadline, cond Condition) bool {
	deadline := given.At
	old, exists := k.Deadline(key)
	switch {
	case !exists || !cond.Allows(old, deadline):
		return false
	case Expired(deadline, k.Now()):
		k.remove(key)
	default:
		k.index.Set(key, old, deadline)
		k.deadlines[key] = deadline
	}
	return true
}

func (k *modelKeys) Persist(key string) bool {
	old, exists := k.Deadline(key)
	if exists && old != None {
		k.index.Set(key, old, None)
		delete(k.deadlines, key)
	}
	return exists && old != None
}

func (k *modelKeys) reap() {
	for e, ok := k.index.PopDue(k.Now()); ok; e, ok = k.index.PopDue(k.Now()) {
		delete(k.deadlines, e.ID)
		delete(k.values, e.ID)
	}
}

func (k *modelKeys) restore() {
	for key, deadline := range k.deadlines {
		k.index.Set(key, None, deadline)
	}
}

// Generators.
var (
	someKey  = rapid.SampledFrom([]string{"a", "b", "c", "d", ""})
	someSecs = rapid.Int64Range(1, 1_000_000)
)

// must returns the value of a call that can't fail.
func must[T any](t *rapid.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return v
	}
}

func TestManagerProperties(t *testing.T) {
	for _, p := range []struct {
		name  string
		check func(*rapid.T)
	}{
		{"Feature: ttl-commands, Property 1: TTL Setting Consistency", propertySetting},
		{"Feature: ttl-commands, Property 2: TTL Query Accuracy", propertyQuery},
		{"Feature: ttl-commands, Property 3: Persist Operation Idempotency", propertyPersist},
		{"Feature: ttl-commands, Property 4: Expiration Consistency", propertyExpiration},
		{"Feature: ttl-commands, Property 5: TTL Persistence Round-trip", propertyRoundTrip},
		{"Feature: ttl-commands, Property 6: Command Validation Consistency", propertyValidation},
	} {
		t.Run(p.name, func(t *testing.T) { rapid.Check(t, p.check) })
	}
}

func propertySetting(t *rapid.T) {
	keys := newModelKeys()
	m, num := NewManager[string](keys), must[int](t)
	key := someKey.Draw(t, "key")
	secs := someSecs.Draw(t, "seconds")
	if got := num(m.SetExpire(key, secs, Seconds, 0)); got != 0 {
		t.Fatalf("SetExpire of a missing key: %d", got)
	}
	keys.put(key, "v")
	if rapid.Bool().Draw(t, "had a deadline") {
		num(m.SetExpire(key, someSecs.Draw(t, "former"), Seconds, 0))
	}
	if rapid.Bool().Draw(t, "absolute") {
		if got := num(m.SetExpireAt(key, startOfTime/1000+secs, Seconds, 0)); got != 1 {
			t.Fatalf("SetExpireAt: %d", got)
		}
	} else if got := num(m.SetExpire(key, secs, Seconds, 0)); got != 1 {
		t.Fatalf("SetExpire: %d", got)
	}
	if got := m.GetTTL(key); got != secs {
		t.Fatalf("GetTTL: %d, want %d", got, secs)
	}
	if got := m.GetPTTL(key); got != secs*1000 {
		t.Fatalf("GetPTTL: %d, want %d", got, secs*1000)
	}
	if keys.index.Len() != 1 {
		t.Fatalf("%d index entries for one key", keys.index.Len())
	}
}

func propertyQuery(t *rapid.T) {
	keys := newModelKeys()
	m, num := NewManager[string](keys), must[int](t)
	key := someKey.Draw(t, "key")
	if m.GetTTL(key) != Missing || m.GetPExpireTime(key) != Missing {
		t.Fatal("a missing key has a TTL")
	}
	keys.put(key, "v")
	if m.GetPTTL(key) != Persistent || m.GetExpireTime(key) != Persistent {
		t.Fatal("a new key has a TTL")
	}
	left := rapid.Int64Range(1, 10_000).Draw(t, "ms")
	deadline := startOfTime + left
	num(m.SetExpireAt(key, deadline, Milliseconds, 0))
	for left > 0 {
		if got := m.GetPTTL(key); got != left {
			t.Fatalf("GetPTTL: %d, want %d", got, left)
		}
		if got, want := m.GetTTL(key), int64(math.Round(float64(left)/1000)); got != want {
			t.Fatalf("GetTTL with %d ms left: %d, want %d", left, got, want)
		}
		if got := m.GetPExpireTime(key); got != deadline {
			t.Fatalf("GetPExpireTime: %d, want %d", got, deadline)
		}
		if got := m.GetExpireTime(key); got != (deadline+500)/1000 {
			t.Fatalf("GetExpireTime: %d of %d", got, deadline)
		}
		step := rapid.Int64Range(left/10+1, left+5).Draw(t, "advance")
		keys.clock.Advance(time.Duration(step) * time.Millisecond)
		left -= step
	}
	if m.GetPTTL(key) != Missing || m.GetTTL(key) != Missing {
		t.Fatal("an expired key has a TTL")
	}
}

func propertyPersist(t *rapid.T) {
	keys := newModelKeys()
	m, num := NewManager[string](keys), must[int](t)
	key := someKey.Draw(t, "key")
	if m.Persist(key) != 0 {
		t.Fatal("Persist of a missing key is not 0")
	}
	keys.put(key, "v")
	secs := someSecs.Draw(t, "seconds")
	num(m.SetExpire(key, secs, Seconds, 0))
	if m.Persist(key) != 1 {
		t.Fatal("Persist of a key with a deadline is not 1")
	}
	for range 3 {
		if m.Persist(key) != 0 || m.GetTTL(key) != Persistent {
			t.Fatal("Persist again has an effect")
		}
	}
	keys.clock.Advance(time.Duration(secs+1) * time.Second)
	keys.reap()
	if v, ok := keys.get(key); v != "v" || !ok || keys.index.Len() != 0 {
		t.Fatalf("a persistent key is gone: %q, %v", v, ok)
	}
}

func propertyExpiration(t *rapid.T) {
	keys := newModelKeys()
	m, num := NewManager[string](keys), must[int](t)
	deadlines := map[string]int64{}
	for i := range rapid.IntRange(1, 20).Draw(t, "keys") {
		key := fmt.Sprint("key", i)
		keys.put(key, "v")
		deadlines[key] = startOfTime + rapid.Int64Range(1, 50).Draw(t, "ms")
		num(m.SetExpireAt(key, deadlines[key], Milliseconds, 0))
	}
	keys.clock.Advance(time.Duration(rapid.Int64Range(0, 60).Draw(t, "advance")) * time.Millisecond)
	now := keys.Now()
	for name, d := range deadlines {
		key, gone := name, d <= now
		if _, ok := keys.get(name); ok == gone || (m.GetPTTL(key) == Missing) != gone {
			t.Fatalf("readers disagree about %s at %d of %d", name, now, d)
		}
		if gone && (m.Persist(key) != 0 || num(m.SetExpire(key, 100, Seconds, 0)) != 0 ||
			num(m.SetExpireAt(key, now+100, Milliseconds, XX)) != 0) {
			t.Fatalf("%s has been revived", name)
		}
	}
	keys.reap()
	for name, d := range deadlines {
		if _, stored := keys.values[name]; stored != (d > now) {
			t.Fatalf("after the cleanup at %d of %d: stored is %v", now, d, stored)
		}
	}
}

func propertyRoundTrip(t *rapid.T) {
	keys := newModelKeys()
	num := must[int](t)
	want := map[string]int64{}
	for i := range rapid.IntRange(1, 10).Draw(t, "keys") {
		key := fmt.Sprint("key", i)
		keys.put(key, "value of "+key)
		if rapid.Bool().Draw(t, "volatile") {
			want[key] = startOfTime + rapid.Int64Range(1, 100).Draw(t, "ms")
			num(NewManager[string](keys).SetExpireAt(key, want[key], Milliseconds, 0))
		} else {
			want[key] = None
		}
	}
	keys = keys.restart()
	keys.clock.Advance(time.Duration(rapid.Int64Range(0, 120).Draw(t, "down")) * time.Millisecond)
	m, now := NewManager[string](keys), keys.Now()
	keys.restore()
	keys.reap()
	for key, d := range want {
		v, ok := keys.get(key)
		if Expired(d, now) {
			if _, stored := keys.values[key]; ok || stored {
				t.Fatalf("%s expired while down and is still there", key)
			}
			continue
		}
		if v != "value of "+key || !ok {
			t.Fatalf("%s came back as %q, %v", key, v, ok)
		}
		if got := m.GetPTTL(key); got != RemainingMS(d, now) {
			t.Fatalf("%s came back with %d ms, want %d", key, got, RemainingMS(d, now))
		}
		if d != None && !keys.index.Has(key, d) {
			t.Fatalf("%s came back without its place in the index", key)
		}
	}
}

func propertyValidation(t *rapid.T) {
	keys := newModelKeys()
	m, num := NewManager[string](keys), must[int](t)
	key := someKey.Draw(t, "key")
	if rapid.Bool().Draw(t, "exists") {
		keys.put(key, "v")
		if rapid.Bool().Draw(t, "volatile") {
			num(m.SetExpire(key, someSecs.Draw(t, "seconds"), Seconds, 0))
		}
	}
	values, deadlines := maps.Clone(keys.values), maps.Clone(keys.deadlines)

	var n int
	var err, want error
	switch rapid.IntRange(0, 3).Draw(t, "mistake") {
	case 0:
		n, err = m.SetExpire(key, rapid.Int64Range(maxSec-startOfTime/1000+1, maxMS).Draw(t,
			"seconds"), Seconds, 0)
		want = ErrInvalidTTL
	case 1:
		n, err = m.SetExpire(key, rapid.Int64Range(minMS, minSec-1).Draw(t, "seconds"), Seconds, 0)
		want = ErrInvalidTTL
	case 2:
		n, err = m.SetExpireAt(key, rapid.Int64Range(maxSec+1, maxMS).Draw(t, "timestamp"), Seconds,
			0)
		want = ErrInvalidTimestamp
	case 3:
		cond := rapid.SampledFrom([]Condition{NX | XX, NX | GT, NX | LT, GT | LT}).Draw(t,
			"condition")
		n, err = m.SetExpireAt(key, startOfTime+1, Milliseconds, cond)
		want = cond.Check()
	}
	if n != 0 || err != want {
		t.Fatalf("%d, %v; want %v", n, err, want)
	}
	if !maps.Equal(values, keys.values) || !maps.Equal(deadlines, keys.deadlines) ||
		keys.index.Len() != len(deadlines) {
		t.Fatal("the mistake has changed something")
	}
}

func TestManagerConditions(t *testing.T) {
	const key, old = "k", startOfTime + 1000
	for _, c := range []struct {
		name     string
		had, new int64
		cond     Condition
		want     int
		left     int64 // the deadline afterwards, or past if the key is gone
	}{
		{"NX on a persistent key", None, old, NX, 1, old},
		{"NX", old, old + 1, NX, 0, old},
		{"XX on a persistent key", None, old, XX, 0, None},
		{"XX", old, old + 1, XX, 1, old + 1},
		{"GT on a persistent key", None, old, GT, 0, None},
		{"GT equal", old, old, GT, 0, old},
		{"GT later", old, old + 1, GT, 1, old + 1},
		{"LT on a persistent key", None, old, LT, 1, old},
		{"LT equal", old, old, LT, 0, old},
		{"LT earlier", old, old - 1, LT, 1, old - 1},
		{"same again", old, old, 0, 1, old},
		{"past deletes", old, past, 0, 1, past},
		{"now deletes", old, startOfTime, 0, 1, past},
		{"past with LT deletes", None, -5000, LT, 1, past},
		{"past with GT does not", old, -5000, GT, 0, old},
		{"past with NX does not", old, past, NX, 0, old},
	} {
		t.Run(c.name, func(t *testing.T) {
			keys := newModelKeys()
			keys.put(key, "v")
			m := NewManager[string](keys)
			if c.had != None {
				if n, err := m.SetExpireAt(key, c.had, Milliseconds, 0); n != 1 || err != nil {
					t.Fatal(n, err)
				}
			}
			if n, err := m.SetExpireAt(key, c.new, Milliseconds, c.cond); n != c.want ||
				err != nil {
				t.Errorf("SetExpireAt = %d, %v; want %d", n, err, c.want)
			}
			_, exists := keys.get(key)
			if exists != (c.left != past) || exists && keys.deadlines[key] != c.left {
				t.Errorf("exists %v with deadline %d, want %d", exists, keys.deadlines[key], c.left)
			}
		})
	}
}

// quietKeys does nothing, so that only the Manager can allocate.
type quietKeys struct{ deadline int64 }

func (*quietKeys) Now() int64                      { return startOfTime }
func (k *quietKeys) Deadline(string) (int64, bool) { return k.deadline, true }
func (k *quietKeys) Persist(string) bool {
	k.deadline = None
	return true
}
func (k *quietKeys) Expire(_ string, d Deadline, _ Condition) bool {
	k.deadline = d.At
	return true
}

// Handlers make a Manager for each command.
func TestManagerDoesNotAllocate(t *testing.T) {
	keys, key := &quietKeys{}, "k"
	if n := testing.AllocsPerRun(100, func() {
		m := NewManager[string](keys)
		if n, err := m.SetExpire(key, 5, Milliseconds, NX); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if ttl := m.GetPTTL(key); ttl != 5 {
			t.Fatal(ttl)
		}
		if n := m.Persist(key); n != 1 {
			t.Fatal(n)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
