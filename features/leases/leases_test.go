package leases

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/wal"
)

// harness drives a store with leases.
type harness struct {
	t    *testing.T
	o    storage.Options
	time *clock.Fake
	s    *storage.Store
}

const epoch = 1_700_000_000_000

func newHarness(t *testing.T) *harness {
	time := clock.NewFake(epoch)
	return &harness{t: t, time: time, o: storage.Options{
		FS: vfs.NewMem(), Dir: testkit.MemoryDir(t), Clock: time,
		Logger: slog.New(slog.DiscardHandler), Databases: 1, Shards: 4,
		Sync: wal.Always, SegmentSize: 64 << 10, NoBackground: true, DiskReserve: 1,
		Hooks: func(s *storage.Store) storage.Hooks { return New(s) },
	}}
}

func (h *harness) open() *harness {
	h.t.Helper()
	s, _, err := storage.Open(h.o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.s = s
	return h
}

func (h *harness) close() {
	h.t.Helper()
	if err := h.s.Close(true); err != nil {
		h.t.Fatal(err)
	}
}

// do runs a transaction with all shards locked, and makes it durable.
func (h *harness) do(fn func(*storage.Txn)) {
	h.t.Helper()
	x := h.s.NewTxn()
	h.s.BeginAll(x)
	fn(x)
	x.End()
	if err := h.s.Log().Commit(); err != nil {
		h.t.Fatal(err)
	}
}

// grant grants the lease of a name for a second and returns its token. The name must be free.
func (h *harness) grant(name string) (token uint64) {
	h.t.Helper()
	k := h.s.Key(0, []byte(name))
	h.do(func(x *storage.Txn) {
		token = In(h.s).Grant(x, k, []byte("me"), x.Now()+1000, 0, storage.Event{})
	})
	return token
}

// TestKeepsNoArgument: a lease keeps its own copy of the owner's name, as the argument is part of a
// buffer that is reused.
func TestKeepsNoArgument(t *testing.T) {
	h := newHarness(t).open()
	defer h.close()
	k, owner := h.s.Key(0, []byte("l")), []byte("worker-1")
	h.do(func(x *storage.Txn) { In(h.s).Grant(x, k, owner, x.Now()+1000, 0, storage.Event{}) })
	clear(owner)
	h.do(func(x *storage.Txn) {
		if l, ok, err := Find(x, k); !ok || err != nil || string(l.Owner) != "worker-1" {
			t.Errorf("the owner is %q, %v, %v", l.Owner, ok, err)
		}
	})
	if err := h.s.Check(); err != nil {
		t.Error(err)
	}
}

// TestRestoreRaisesTokens: a lease that is granted after a restore has a higher token than all
// leases that were granted after the backup. This also holds if the clock is earlier than it was
// then.
func TestRestoreRaisesTokens(t *testing.T) {
	h := newHarness(t).open()
	h.grant("before")
	var stream bytes.Buffer
	sn, err := h.s.OpenBackup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := sn.SendBackup(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	if err := sn.Close(); err != nil {
		t.Fatal(err)
	}
	In(h.s).last.Add(3 * tokensAhead)
	last := h.grant("after")
	h.close()

	to := newHarness(t)
	to.time.Set(epoch - 1000)
	if _, err := storage.RestoreBackup(to.o, &stream); err != nil {
		t.Fatal(err)
	}
	to.open()
	defer to.close()
	to.do(func(x *storage.Txn) { x.Delete(to.s.Key(0, []byte("before")), storage.Event{}) })
	for _, name := range strings.Fields("before after other") {
		if token := to.grant(name); token <= last {
			t.Errorf("%s has token %d, and %d was granted", name, token, last)
		}
	}
}

// captured is the log of a leader that also collects the appended batches.
type captured struct {
	storage.Journal
	batches *[][]byte
}

func (c captured) Append(batch []byte) uint64 {
	*c.batches = append(*c.batches, bytes.Clone(batch))
	return c.Journal.Append(batch)
}

func (c captured) AppendKeeping(pieces [][]byte) uint64 {
	*c.batches = append(*c.batches, bytes.Join(pieces, nil))
	return c.Journal.AppendKeeping(pieces)
}

// TestNewLeader: a new leader's tokens are higher than those of the previous leader, even if its
// clock is behind. The new leader has the previous leader's reserved tokens.
func TestNewLeader(t *testing.T) {
	leader, follower := newHarness(t), newHarness(t)
	var batches [][]byte
	leader.o.Member, follower.o.Member, follower.o.Follower = true, true, true
	leader.o.OpenLog = func(o wal.Options, from storage.LogPosition,
		replay func(uint64, []byte) error) (storage.Journal, error) {
		log, err := wal.Open(o, from.Segment, replay)
		return captured{log, &batches}, err
	}
	follower.time.Set(epoch - 60_000)
	leader.open()
	defer leader.close()
	follower.open()
	defer follower.close()

	var last uint64
	for _, name := range strings.Fields("a b c d e f g h") { // in several shards
		last = leader.grant(name)
	}
	mirror := follower.s.Mirror()
	for i, batch := range batches {
		if err := mirror.Apply(follower.s.Log().Append(batch), batch); err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
	}
	follower.s.SetFollower(false)
	if token := follower.grant("other"); token <= last {
		t.Errorf("the new leader grants %d, and %d was granted", token, last)
	}
}
