package storage

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// recorder is an example of a feature that uses the hooks of the storage engine. It adds each
// expired key to a list, in the batch of the log that removes the key. It does so while a certain
// key, its rule, exists. The rule and the lists are keys of the server's own data.
type recorder struct {
	s  *Store
	on atomic.Bool // the rule exists
}

const (
	recorderRule = "recorder"
	recorderList = "recorder{"
)

func newRecorder(s *Store) Hooks { return &recorder{s: s} }

// recordedIn has what a transaction has to record, one line for each expiry.
type recordedIn struct {
	lines []string
	shard []int
	bytes int
}

func (n *recordedIn) Bytes() int { return n.bytes }

func (r *recorder) list(shard int) Key {
	return r.s.SystemKey(recorderList + r.s.TagOf(shard) + "}")
}

func (r *recorder) Start(context.Context) error {
	return r.s.WalkSystem(func(name []byte, _ object.Type) bool {
		if string(name) == recorderRule {
			r.on.Store(true)
		}
		return true
	})
}

func (r *recorder) Loop()                         {}
func (r *recorder) Leads(*Txn)                    {}
func (r *recorder) Led()                          {}
func (r *recorder) Removed()                      {}
func (r *recorder) Restored(int64) error          { return nil }
func (r *recorder) KeepsSystem() bool             { return r.on.Load() }
func (r *recorder) ChangesRules(name string) bool { return name == recorderRule }

// Arriving changes leases, as a feature that grants leases does.
func (r *recorder) Arriving(_ *Txn, _ Key, v object.Value) object.Value {
	if l, ok := v.(*object.Lease); ok {
		return &object.Lease{Owner: bytes.Clone(l.Owner), Token: l.Token + 1, Delay: l.Delay}
	}
	return v
}

func (r *recorder) Follow(t *Txn, names []string) {
	if slices.Contains(names, recorderRule) {
		_, ok := t.Peek(r.s.SystemKey(recorderRule))
		r.on.Store(ok)
	}
}

func (r *recorder) Wants(db int) bool { return r.on.Load() && db < r.s.options.Databases }

func (r *recorder) WantsValue(k Key, _ object.Type, _ format.Times) bool { return r.Wants(k.DB) }

func (r *recorder) KeyExpired(t *Txn, k Key, typ object.Type, deadline int64, item Item) {
	if v := item.Value(); v != nil {
		v.Walk(func(elem, val []byte, d int64) bool {
			if d != 0 && d < deadline {
				recorderElements{r}.Expired(t, k, typ, elem, val, d)
			}
			return true
		})
	}
	line := fmt.Sprintf("key=%s type=%s deadline=%d", k.Name, typ, deadline-1_700_000_000_000)
	if text, err := item.String(); err == nil && !item.IsZero() {
		line += " value=" + string(text)
	}
	r.note(t, k, line)
}

func (r *recorder) note(t *Txn, k Key, line string) {
	n, ok := t.Noted.(*recordedIn)
	if !ok {
		n = &recordedIn{}
		t.Noted = n
	}
	n.lines, n.shard, n.bytes = append(n.lines, line), append(n.shard, r.s.ShardOf(k)),
		n.bytes+len(line)
}

type recorderElements struct{ r *recorder }

func (r *recorder) Elements(k Key, _ object.Type) ElementHook {
	if !r.Wants(k.DB) {
		return nil
	}
	return recorderElements{r}
}

func (e recorderElements) Bytes(value int) int { return value }

func (e recorderElements) Expired(t *Txn, k Key, typ object.Type, elem, val []byte,
	deadline int64) {
	line := fmt.Sprintf("key=%s element=%s type=%s deadline=%d", k.Name, elem, typ,
		deadline-1_700_000_000_000)
	if typ == object.TypeHash {
		line += " value=" + string(val)
	}
	e.r.note(t, k, line)
}

func (r *recorder) Ending(t *Txn) {
	n := t.Noted.(*recordedIn)
	for i, line := range n.lines {
		k := r.list(n.shard[i])
		if err := t.Load(k); err != nil {
			panic(err)
		}
		l, err := t.List(k)
		if err != nil {
			panic(err)
		}
		l.PushBack([]byte(line))
	}
	*n = recordedIn{}
}

// record creates or deletes the recorder's rule.
func (h *harness) record(on bool) {
	h.t.Helper()
	h.doAll(func(t *Txn) {
		k := h.s.SystemKey(recorderRule)
		if on {
			t.SetString(k, []byte("on"), ttl.Deadline{}, Event{})
		} else if err := t.Load(k); err == nil {
			t.Delete(k, Event{})
		}
		h.s.hooks.(*recorder).on.Store(on)
	})
}

// forget empties the recorder's lists.
func (h *harness) forget() {
	h.t.Helper()
	h.doAll(func(t *Txn) {
		for i := range h.s.shards {
			k := h.s.hooks.(*recorder).list(i)
			if err := t.Load(k); err != nil {
				h.t.Fatal(err)
			}
			t.Delete(k, Event{})
		}
	})
}

// recorded returns what the recorder's lists have, in the order of deadlines.
func (h *harness) recorded() (list []string) {
	h.t.Helper()
	for i := range h.s.shards {
		k := h.s.hooks.(*recorder).list(i)
		h.do(func(t *Txn) {
			l, err := t.List(k)
			if err != nil {
				h.t.Fatal(err)
			}
			l.Value().Each(0, false, func(_ int, _ int64, line []byte) bool {
				list = append(list, string(line))
				return true
			})
		}, k)
	}
	slices.SortStableFunc(list, func(a, b string) int { return recordedAt(a) - recordedAt(b) })
	return list
}

// recordedAt returns the deadline of a line.
func recordedAt(line string) int {
	_, text, _ := strings.Cut(line, " deadline=")
	text, _, _ = strings.Cut(text, " ")
	at, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return at
}

func (h *harness) wantRecorded(when string, want ...string) {
	h.t.Helper()
	if got := h.recorded(); !slices.Equal(got, want) {
		h.t.Errorf("%s: recorded are\n%s\nwant\n%s", when, strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

func (h *harness) puts(db int, key, val string, deadline int64) {
	k := h.s.Key(db, []byte(key))
	h.do(func(t *Txn) { t.SetString(k, []byte(val), ttl.At(deadline), eventSet) }, k)
}
