package outbox

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/storage/wal"
	"keyp/ttl"
)

// harness drives a store with outboxes.
type harness struct {
	t     testing.TB
	dir   string
	fs    *vfs.Mem
	clock *clock.Fake
	s     *storage.Store
	o     *Outboxes
	txn   *storage.Txn
	set   func(*storage.Options) // changes how the store is opened
}

func newHarness(t testing.TB) *harness {
	return opened(t, func(o *storage.Options) { o.Testing.SmallSteps = true })
}

func opened(t testing.TB, set func(*storage.Options)) *harness {
	h := &harness{t: t, dir: testkit.MemoryDir(t), fs: vfs.NewMem(), clock: clock.NewFake(epoch),
		set: set}
	h.open()
	return h
}

const epoch = 1_700_000_000_000

func (h *harness) open() {
	h.t.Helper()
	o := storage.Options{
		FS: h.fs, Dir: h.dir, Clock: h.clock, Logger: slog.New(slog.DiscardHandler), Databases: 3,
		Shards: 4, Sync: wal.Always,
		SegmentSize: 64 << 10, CheckpointBytes: 256 << 10, InitialMmap: 1 << 22, NoBackground: true,
		DiskReserve: 1,
		Hooks:       func(s *storage.Store) storage.Hooks { return New(s, nil) },
	}
	h.set(&o)
	s, _, err := storage.Open(o)
	if err != nil {
		h.t.Fatalf("open: %v", err)
	}
	h.s, h.o, h.txn = s, Of(s), s.NewTxn()
}

func (h *harness) close() { _ = h.s.Close(false) }

func (h *harness) reopen() {
	h.t.Helper()
	if err := h.s.Close(true); err != nil {
		h.t.Fatalf("close: %v", err)
	}
	h.open()
}

// crash stops the store as a power failure would, and opens it again.
func (h *harness) crash(rng *rand.Rand) {
	h.t.Helper()
	crashed := h.fs.Crash(rng)
	_ = h.s.Close(false) // what it writes goes nowhere
	h.fs = crashed
	h.open()
}

// do runs fn in a transaction with keys in memory.
func (h *harness) do(fn func(*storage.Txn), keys ...storage.Key) {
	h.t.Helper()
	if err := h.s.BeginBeside(h.txn, keys); err != nil {
		h.t.Fatalf("begin: %v", err)
	}
	fn(h.txn)
	h.txn.End()
}

func (h *harness) doAll(fn func(*storage.Txn)) {
	h.s.BeginAll(h.txn)
	fn(h.txn)
	h.txn.End()
}

func (h *harness) stream(k storage.Key, fn func(*storage.Txn, *storage.Stream)) {
	h.t.Helper()
	h.do(func(t *storage.Txn) {
		v, err := t.Stream(k)
		if err != nil {
			h.t.Fatalf("Stream: %v", err)
		}
		fn(t, &v)
	}, k)
}

func (h *harness) puts(db int, key, val string, deadline int64) {
	h.t.Helper()
	k := h.key(db, key)
	h.do(func(t *storage.Txn) { t.SetString(k, []byte(val), ttl.At(deadline), storage.Event{}) }, k)
}

// looks looks up a key of database 0.
func (h *harness) looks(key string) (there bool) {
	h.t.Helper()
	k := h.key(0, key)
	h.do(func(t *storage.Txn) { _, there = t.Peek(k) }, k)
	return there
}

func (h *harness) key(db int, name string) storage.Key { return h.s.Key(db, []byte(name)) }

func (h *harness) commit() {
	h.t.Helper()
	if err := h.s.Log().Commit(); err != nil {
		h.t.Fatalf("commit: %v", err)
	}
}

// saved writes a checkpoint.
func (h *harness) saved() {
	h.t.Helper()
	h.commit()
	if err := h.s.Checkpoint(); err != nil {
		h.t.Fatalf("checkpoint: %v", err)
	}
}

func (h *harness) check() {
	h.t.Helper()
	if err := h.s.Check(); err != nil {
		h.t.Fatalf("check: %v", err)
	}
}

// rule makes a rule. By default its stream is named after the rule.
func (h *harness) rule(r Rule) {
	h.t.Helper()
	if r.Stream == nil {
		r.Stream = []byte("stream:" + r.Name)
	}
	h.doAll(func(t *storage.Txn) {
		if err := h.o.Set(t, &r); err != nil {
			h.t.Fatalf("Set: %v", err)
		}
	})
}

func (h *harness) drop(name string) (ok bool, err error) {
	h.doAll(func(t *storage.Txn) { ok, err = h.o.Delete(t, name) })
	return ok, err
}

// report removes the keys and elements that are due, and moves the entries to the streams.
func (h *harness) report() {
	h.s.Reap()
	h.o.Move()
}

// reported returns the entries of a stream, each as "name=value name=value …". It leaves out the
// rule, the database and the time of removal.
func (h *harness) reported(db int, stream string) (list []string) {
	h.t.Helper()
	h.stream(h.key(db, stream), func(_ *storage.Txn, v *storage.Stream) {
		v.Value().Range(object.StreamID{}, object.MaxStreamID, false,
			func(e object.StreamEntry) bool {
				var words []string
				e.EachField(func(field, val []byte) bool {
					switch string(field) {
					case "rule", "db", "removed":
					case "deadline":
						words = append(words, fmt.Sprint("deadline=", atoi(val)-epoch))
					default:
						words = append(words, fmt.Sprintf("%s=%s", field, val))
					}
					return true
				})
				list = append(list, strings.Join(words, " "))
				return true
			})
	})
	return list
}

func atoi(b []byte) (n int64) {
	fmt.Sscan(string(b), &n)
	return n
}

func (h *harness) wantReported(when string, db int, stream string, want ...string) {
	h.t.Helper()
	if got := h.reported(db, stream); !slices.Equal(got, want) {
		h.t.Errorf("%s: the stream has\n%s\nwant\n%s", when, strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// pair is a leader's store and a follower's.
type pair struct {
	leader, follower *harness
	mirror           *storage.Mirror
	batches          [][]byte // that the leader has logged
	sent             int      // of them
}

// capture is the log of a leader that also keeps the appended batches for the follower.
type capture struct {
	*wal.Log
	to *pair
}

func (c capture) Append(batch []byte) uint64 {
	c.to.batches = append(c.to.batches, bytes.Clone(batch))
	return c.Log.Append(batch)
}

func (c capture) AppendKeeping(pieces [][]byte) uint64 {
	c.to.batches = append(c.to.batches, bytes.Join(pieces, nil))
	return c.Log.AppendKeeping(pieces)
}

func newPair(t testing.TB) *pair {
	p := &pair{}
	p.leader = opened(t, func(o *storage.Options) {
		o.Member = true
		o.OpenLog = func(wo wal.Options, from storage.LogPosition,
			replay func(uint64, []byte) error) (storage.Journal, error) {
			log, err := wal.Open(wo, from.Segment, replay)
			return capture{log, p}, err
		}
	})
	p.follower = opened(t, func(o *storage.Options) { o.Member, o.Follower = true, true })
	p.mirror = p.follower.s.Mirror()
	return p
}

func (p *pair) close() {
	p.leader.close()
	p.follower.close()
}

// send applies the batches that the follower lacks.
func (p *pair) send() {
	f := p.follower
	f.t.Helper()
	f.clock.Set(p.leader.clock.Now())
	f.s.FollowTime(p.leader.clock.Now())
	for ; p.sent < len(p.batches); p.sent++ {
		batch := p.batches[p.sent]
		if err := p.mirror.Apply(f.s.Log().Append(batch), batch); err != nil {
			f.t.Fatalf("batch %d of %d: %v", p.sent, len(p.batches), err)
		}
	}
}
