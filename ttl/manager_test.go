package ttl

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/internal/clock"
)

// The interface of the Keyp TTL design, which Manager has to satisfy.
var _ interface {
	SetExpire(key []byte, seconds int64) (int, error)
	SetExpireAt(key []byte, timestamp int64) (int, error)
	GetTTL(key []byte) (int64, error)
	GetPTTL(key []byte) (int64, error)
	Persist(key []byte) (int, error)
	IsExpired(key []byte) (bool, error)
	CleanupExpired() error
	RestoreTTL() error
} = Manager{}

// startOfTime is where the tests' clocks stand.
const startOfTime = 1_700_000_000_000

// modelKeys is the simplest Keyspace there is. What restart keeps is its disk:
// values and deadlines; the index is memory, and Restore has to rebuild it.
type modelKeys struct {
	clock     *clock.Fake
	values    map[string]string
	deadlines map[string]int64
	index     *Window
	bad       map[string]error // what reading the key's deadline gives
}

func newModelKeys() *modelKeys {
	return &modelKeys{
		clock:     clock.NewFake(startOfTime),
		values:    map[string]string{},
		deadlines: map[string]int64{},
		index:     NewWindow(),
		bad:       map[string]error{},
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
	return &modelKeys{k.clock, maps.Clone(k.values), maps.Clone(k.deadlines), NewWindow(), k.bad}
}

func (k *modelKeys) Now() int64 { return k.clock.Now() }

func (k *modelKeys) Deadline(key []byte) (int64, bool, error) {
	_, exists := k.get(string(key))
	return k.deadlines[string(key)], exists, k.bad[string(key)]
}

func (k *modelKeys) SetDeadline(key []byte, deadline int64) (bool, error) {
	name := string(key)
	old := k.deadlines[name]
	if _, exists := k.get(name); !exists || deadline == None && old == None {
		return false, nil
	}
	if Expired(deadline, k.Now()) {
		k.remove(name)
		return true, nil
	}
	k.index.Set(name, old, deadline)
	if k.deadlines[name] = deadline; deadline == None {
		delete(k.deadlines, name)
	}
	delete(k.bad, name)
	return true, nil
}

func (k *modelKeys) Reap(now int64) (removed int, err error) {
	for e, ok := k.index.PopDue(now); ok; e, ok = k.index.PopDue(now) {
		delete(k.deadlines, e.ID)
		delete(k.values, e.ID)
		removed++
	}
	return removed, nil
}

func (k *modelKeys) Restore() (int, error) {
	for key, deadline := range k.deadlines {
		k.index.Set(key, None, deadline)
	}
	return len(k.deadlines), nil
}

// Generators.
var (
	someKey  = rapid.SampledFrom([]string{"a", "b", "c", "d", ""})
	someSecs = rapid.Int64Range(1, 1_000_000)
)

// must gives the value of a call that can't fail.
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
	m, num, ms := NewManager(keys), must[int](t), must[int64](t)
	key := []byte(someKey.Draw(t, "key"))
	secs := someSecs.Draw(t, "seconds")
	if got := num(m.SetExpire(key, secs)); got != 0 {
		t.Fatalf("SetExpire of a missing key: %d", got)
	}
	keys.put(string(key), "v")
	if rapid.Bool().Draw(t, "had a deadline") {
		num(m.SetExpire(key, someSecs.Draw(t, "former")))
	}
	if rapid.Bool().Draw(t, "absolute") {
		if got := num(m.SetExpireAt(key, startOfTime/1000+secs)); got != 1 {
			t.Fatalf("SetExpireAt: %d", got)
		}
	} else if got := num(m.SetExpire(key, secs)); got != 1 {
		t.Fatalf("SetExpire: %d", got)
	}
	if got := ms(m.GetTTL(key)); got != secs {
		t.Fatalf("GetTTL: %d, want %d", got, secs)
	}
	if got := ms(m.GetPTTL(key)); got != secs*1000 {
		t.Fatalf("GetPTTL: %d, want %d", got, secs*1000)
	}
	if keys.index.Len() != 1 {
		t.Fatalf("%d index entries for one key", keys.index.Len())
	}
}

func propertyQuery(t *rapid.T) {
	keys := newModelKeys()
	m, num, ms := NewManager(keys), must[int](t), must[int64](t)
	key := []byte(someKey.Draw(t, "key"))
	if ms(m.GetTTL(key)) != Missing || ms(m.GetPExpireTime(key)) != Missing {
		t.Fatal("a missing key has a TTL")
	}
	keys.put(string(key), "v")
	if ms(m.GetPTTL(key)) != Persistent || ms(m.GetExpireTime(key)) != Persistent {
		t.Fatal("a new key has a TTL")
	}
	left := rapid.Int64Range(1, 10_000).Draw(t, "ms")
	deadline := startOfTime + left
	num(m.Expire(key, deadline, 0))
	for left > 0 {
		if got := ms(m.GetPTTL(key)); got != left {
			t.Fatalf("GetPTTL: %d, want %d", got, left)
		}
		if got, want := ms(m.GetTTL(key)), int64(math.Round(float64(left)/1000)); got != want {
			t.Fatalf("GetTTL with %d ms left: %d, want %d", left, got, want)
		}
		if got := ms(m.GetPExpireTime(key)); got != deadline {
			t.Fatalf("GetPExpireTime: %d, want %d", got, deadline)
		}
		if got := ms(m.GetExpireTime(key)); got != (deadline+500)/1000 {
			t.Fatalf("GetExpireTime: %d of %d", got, deadline)
		}
		step := rapid.Int64Range(left/10+1, left+5).Draw(t, "advance")
		keys.clock.Advance(time.Duration(step) * time.Millisecond)
		left -= step
	}
	if ms(m.GetPTTL(key)) != Missing || ms(m.GetTTL(key)) != Missing {
		t.Fatal("an expired key has a TTL")
	}
}

func propertyPersist(t *rapid.T) {
	keys := newModelKeys()
	m, num, ms := NewManager(keys), must[int](t), must[int64](t)
	key := []byte(someKey.Draw(t, "key"))
	if num(m.Persist(key)) != 0 {
		t.Fatal("Persist of a missing key is not 0")
	}
	keys.put(string(key), "v")
	secs := someSecs.Draw(t, "seconds")
	num(m.SetExpire(key, secs))
	if num(m.Persist(key)) != 1 {
		t.Fatal("Persist of a key with a deadline is not 1")
	}
	for range 3 {
		if num(m.Persist(key)) != 0 || ms(m.GetTTL(key)) != Persistent {
			t.Fatal("Persist again has an effect")
		}
	}
	keys.clock.Advance(time.Duration(secs+1) * time.Second)
	if err := m.CleanupExpired(); err != nil {
		t.Fatal(err)
	}
	if v, ok := keys.get(string(key)); v != "v" || !ok || keys.index.Len() != 0 {
		t.Fatalf("a persistent key is gone: %q, %v", v, ok)
	}
}

func propertyExpiration(t *rapid.T) {
	keys := newModelKeys()
	m, num, ms := NewManager(keys), must[int](t), must[int64](t)
	deadlines := map[string]int64{}
	for i := range rapid.IntRange(1, 20).Draw(t, "keys") {
		key := fmt.Sprint("key", i)
		keys.put(key, "v")
		deadlines[key] = startOfTime + rapid.Int64Range(1, 50).Draw(t, "ms")
		num(m.Expire([]byte(key), deadlines[key], 0))
	}
	keys.clock.Advance(time.Duration(rapid.Int64Range(0, 60).Draw(t, "advance")) * time.Millisecond)
	now := keys.Now()
	for name, d := range deadlines {
		key, gone := []byte(name), d <= now
		if expired, err := m.IsExpired(key); err != nil || expired != gone {
			t.Fatalf("IsExpired: %v, %v at %d of %d", expired, err, now, d)
		}
		if _, ok := keys.get(name); ok == gone || (ms(m.GetPTTL(key)) == Missing) != gone {
			t.Fatalf("readers disagree about %s at %d of %d", name, now, d)
		}
		if gone && (num(m.Persist(key)) != 0 || num(m.SetExpire(key, 100)) != 0 ||
			num(m.Expire(key, now+100, XX)) != 0) {
			t.Fatalf("%s has been revived", name)
		}
	}
	if err := m.CleanupExpired(); err != nil {
		t.Fatal(err)
	}
	for name, d := range deadlines {
		if _, stored := keys.values[name]; stored != (d > now) {
			t.Fatalf("after the cleanup at %d of %d: stored is %v", now, d, stored)
		}
		if expired, err := m.IsExpired([]byte(name)); expired || err != nil {
			t.Fatalf("IsExpired after the cleanup: %v, %v", expired, err)
		}
	}
}

func propertyRoundTrip(t *rapid.T) {
	keys := newModelKeys()
	num, ms := must[int](t), must[int64](t)
	want := map[string]int64{}
	for i := range rapid.IntRange(1, 10).Draw(t, "keys") {
		key := fmt.Sprint("key", i)
		keys.put(key, "value of "+key)
		if rapid.Bool().Draw(t, "volatile") {
			want[key] = startOfTime + rapid.Int64Range(1, 100).Draw(t, "ms")
			num(NewManager(keys).Expire([]byte(key), want[key], 0))
		} else {
			want[key] = None
		}
	}
	keys = keys.restart()
	keys.clock.Advance(time.Duration(rapid.Int64Range(0, 120).Draw(t, "down")) * time.Millisecond)
	m, now := NewManager(keys), keys.Now()
	if err := m.RestoreTTL(); err != nil {
		t.Fatal(err)
	}
	if err := m.CleanupExpired(); err != nil {
		t.Fatal(err)
	}
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
		if got := ms(m.GetPTTL([]byte(key))); got != RemainingMS(d, now) {
			t.Fatalf("%s came back with %d ms, want %d", key, got, RemainingMS(d, now))
		}
		if d != None && !keys.index.Has(key, d) {
			t.Fatalf("%s came back without its place in the index", key)
		}
	}
}

func propertyValidation(t *rapid.T) {
	keys := newModelKeys()
	m, num := NewManager(keys), must[int](t)
	key := []byte(someKey.Draw(t, "key"))
	if rapid.Bool().Draw(t, "exists") {
		keys.put(string(key), "v")
		if rapid.Bool().Draw(t, "volatile") {
			num(m.SetExpire(key, someSecs.Draw(t, "seconds")))
		}
	}
	values, deadlines := maps.Clone(keys.values), maps.Clone(keys.deadlines)

	var n int
	var err, want error
	switch rapid.IntRange(0, 4).Draw(t, "mistake") {
	case 0:
		n, err = m.SetExpire(key, rapid.Int64Range(maxSec-startOfTime/1000+1, maxMS).Draw(t, "seconds"))
		want = ErrInvalidTTL
	case 1:
		n, err = m.SetExpire(key, rapid.Int64Range(minMS, minSec-1).Draw(t, "seconds"))
		want = ErrInvalidTTL
	case 2:
		n, err = m.SetExpireAt(key, rapid.Int64Range(maxSec+1, maxMS).Draw(t, "timestamp"))
		want = ErrInvalidTimestamp
	case 3:
		cond := rapid.SampledFrom([]Condition{NX | XX, NX | GT, NX | LT, GT | LT}).Draw(t, "condition")
		n, err = m.Expire(key, startOfTime+1, cond)
		want = cond.Check()
	case 4:
		n, err = m.Expire(key, None, rapid.SampledFrom([]Condition{0, NX, XX, GT, LT}).Draw(t, "condition"))
		want = ErrInvalidTimestamp
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
			m := NewManager(keys)
			if c.had != None {
				if n, err := m.Expire([]byte(key), c.had, 0); n != 1 || err != nil {
					t.Fatal(n, err)
				}
			}
			if n, err := m.Expire([]byte(key), c.new, c.cond); n != c.want || err != nil {
				t.Errorf("Expire = %d, %v; want %d", n, err, c.want)
			}
			_, exists := keys.get(key)
			if exists != (c.left != past) || exists && keys.deadlines[key] != c.left {
				t.Errorf("exists %v with deadline %d, want %d", exists, keys.deadlines[key], c.left)
			}
		})
	}
}

func TestManagerBadMetadata(t *testing.T) {
	for _, bad := range []error{
		fmt.Errorf("%w: 3 bytes", ErrTTLCorrupted),
		fmt.Errorf("%w: no entry", ErrTTLNotFound),
	} {
		keys := newModelKeys()
		keys.put("k", "v")
		keys.bad["k"] = bad
		m, key := NewManager(keys), []byte("k")
		if ttl, err := m.GetTTL(key); ttl != Persistent || err != nil {
			t.Errorf("%v: GetTTL = %d, %v", bad, ttl, err)
		}
		if expired, err := m.IsExpired(key); expired || err != nil {
			t.Errorf("%v: IsExpired = %v, %v", bad, expired, err)
		}
		if n, err := m.Expire(key, startOfTime+5, NX); n != 1 || err != nil {
			t.Errorf("%v: Expire NX = %d, %v", bad, n, err)
		}
		if ttl, err := m.GetPTTL(key); ttl != 5 || err != nil {
			t.Errorf("%v: not healed: %d, %v", bad, ttl, err)
		}
	}
}

// failingKeys fails in every call that can.
type failingKeys struct{ err error }

func (failingKeys) Now() int64                                { return startOfTime }
func (k failingKeys) Deadline([]byte) (int64, bool, error)    { return 0, true, k.err }
func (k failingKeys) SetDeadline([]byte, int64) (bool, error) { return true, k.err }
func (k failingKeys) Reap(int64) (int, error)                 { return 1, k.err }
func (k failingKeys) Restore() (int, error)                   { return 1, k.err }

func TestManagerPassesErrorsOn(t *testing.T) {
	failure := errors.New("disk on fire")
	m, key := NewManager(failingKeys{failure}), []byte("k")
	number := func(n int, err error) error {
		if n != 0 {
			t.Errorf("%d beside the error", n)
		}
		return err
	}
	query := func(n int64, err error) error { return number(int(n), err) }
	_, expiredErr := m.IsExpired(key)
	for name, err := range map[string]error{
		"SetExpire":      number(m.SetExpire(key, 1)),
		"SetExpireAt":    number(m.SetExpireAt(key, 1)),
		"Expire":         number(m.Expire(key, 1, XX)),
		"Persist":        number(m.Persist(key)),
		"GetTTL":         query(m.GetTTL(key)),
		"GetPTTL":        query(m.GetPTTL(key)),
		"GetExpireTime":  query(m.GetExpireTime(key)),
		"GetPExpireTime": query(m.GetPExpireTime(key)),
		"IsExpired":      expiredErr,
		"CleanupExpired": m.CleanupExpired(),
		"RestoreTTL":     m.RestoreTTL(),
	} {
		if err != failure {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// quietKeys does nothing, so that only the Manager can allocate.
type quietKeys struct {
	deadline int64
	lookups  int
}

func (*quietKeys) Now() int64 { return startOfTime }
func (k *quietKeys) Deadline([]byte) (int64, bool, error) {
	k.lookups++
	return k.deadline, true, nil
}
func (k *quietKeys) SetDeadline(_ []byte, d int64) (bool, error) { k.deadline = d; return true, nil }
func (*quietKeys) Reap(int64) (int, error)                       { return 0, nil }
func (*quietKeys) Restore() (int, error)                         { return 0, nil }

// Handlers make a Manager for each command.
func TestManagerDoesNotAllocate(t *testing.T) {
	keys, key := &quietKeys{}, []byte("k")
	if n := testing.AllocsPerRun(100, func() {
		m := NewManager(keys)
		if n, err := m.Expire(key, startOfTime+5, NX); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if ttl, err := m.GetPTTL(key); ttl != 5 || err != nil {
			t.Fatal(ttl, err)
		}
		if n, err := m.Persist(key); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Without a condition the store's own step is enough, so that Expire is atomic
// over a store without transactions too.
func TestExpireWithoutConditionDoesNotLook(t *testing.T) {
	keys := &quietKeys{}
	if n, err := NewManager(keys).Expire([]byte("k"), startOfTime+5, 0); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if keys.lookups != 0 || keys.deadline != startOfTime+5 {
		t.Errorf("%d look-ups, deadline %d", keys.lookups, keys.deadline)
	}
}
