package storage

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/vfs"
	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/wal"
)

// harness drives a store together with a map of the values that the store must have.
type harness struct {
	t         testing.TB
	dir       string
	fs        *vfs.Mem
	clock     *clock.Fake
	s         *Store
	txn       *Txn
	model     model
	committed model       // the state at the last commit
	recent    []pastState // states since then, oldest first
	events    []Happened
	// portions makes checkpoints write in small batches, copy large values in portions of
	// a few elements, and change ttl a few entries at a time.
	portions   bool
	smallSteps bool // also amid a start
	maxMemory  int64
	// slabChunks bounds the slabs; 0 means no special bound.
	slabChunks int
	databases  int
	// follower makes the store start as a follower's store.
	follower bool
	// onLog, if set, is called before each operation on the log.
	onLog vfs.Hook
	// openLog opens the log; nil means the log of a server without a group.
	openLog func(wal.Options, LogPosition, func(uint64, []byte) error) (Journal, error)
	member  bool
	archive Archive
	// jumpLimit and jumpPatience are the settings of the clock guard; 0 means no guard.
	jumpLimit, jumpPatience time.Duration
	// ahead is how far the wall clock is ahead of the store's time; 0 while the time is not
	// guarded.
	ahead int64
	// onData, if set, is called before each operation on data files. The data files can then lose
	// power as the log does.
	onData vfs.Hook
}

type name struct {
	db  int
	key string
}

type value struct {
	data     string
	deadline int64
	coll     *content // of a collection
	fixed    bool     // the deadline counts from no guard's time, whatever tagged says
}

type model map[name]value

// pastState is the content of the store when its log ended at end.
type pastState struct {
	model
	end uint64
}

func (m model) clone() model {
	c := make(model, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// live returns the keys that exist at now.
func (m model) live(now int64) model {
	c := model{}
	for k, v := range m {
		if v.deadline != 0 && v.deadline <= now {
			continue
		}
		if v.coll != nil {
			if v.coll = v.coll.live(now); len(v.coll.elems) == 0 {
				continue
			}
		}
		c[k] = v
	}
	return c
}

func (m model) String() string {
	var lines []string
	for k, v := range m {
		lines = append(lines, fmt.Sprintf("%d/%.20q=%.20q(%d)%v@%d", k.db, k.key, v.data,
			len(v.data), v.coll, v.deadline))
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func newHarness(t testing.TB) *harness {
	h := closedHarness(t)
	h.open()
	return h
}

// closedHarness returns a harness whose store is not open yet.
func closedHarness(t testing.TB) *harness {
	return &harness{t: t, dir: testkit.MemoryDir(t), fs: vfs.NewMem(),
		clock: clock.NewFake(1_700_000_000_000), model: model{}, committed: model{}, databases: 3}
}

func (h *harness) options() Options {
	o := Options{
		FS: h.fs, Dir: h.dir, Clock: h.clock, Logger: slog.New(slog.DiscardHandler),
		Databases: h.databases, Shards: 4, Sync: wal.Always, SegmentSize: 64 << 10,
		CheckpointBytes: 256 << 10, InitialMmap: 1 << 22,
		NoBackground: true, DiskReserve: 1, ClockJumpLimit: h.jumpLimit,
		ClockJumpPatience: h.jumpPatience, Testing: Testing{slabChunks: h.slabChunks,
			SmallSteps: h.smallSteps},
		MaxMemory: h.maxMemory, OpenLog: h.openLog, Member: h.member, Follower: h.follower,
		Archive: h.archive, Hooks: newRecorder,
	}
	if h.onLog != nil {
		o.FS = vfs.Inject(h.fs, h.onLog)
	}
	if h.onData != nil {
		o.Testing.OnData = h.mirror
		o.Testing.OnStep = h.renamed
	}
	return o
}

// only returns an OnStep function that calls fn at one step.
func only(step datafile.Step, fn func() error) func(datafile.Step) error {
	return func(at datafile.Step) error {
		if at != step {
			return nil
		}
		return fn()
	}
}

// mirror wraps a data file so that all writes also go to the file system in memory.
func (h *harness) mirror(path string, f datafile.Writer) datafile.Writer {
	m, err := vfs.NewMirror(h.fs, vfs.Inject(h.fs, h.onData), path, f)
	if err != nil {
		h.t.Fatalf("mirror: %v", err)
	}
	return m
}

// renamed renames the mirrors of data files.
func (h *harness) renamed(step datafile.Step) error {
	from := map[datafile.Step]string{datafile.StepNamed: datafile.NewName,
		datafile.StepRenamed: datafile.CompactName,
		datafile.StepTaken:   datafile.ReceivedName}[step]
	if from == "" {
		return nil
	}
	return h.fs.Rename(filepath.Join(h.dir, from), filepath.Join(h.dir, format.DataName))
}

func (h *harness) open() {
	h.t.Helper()
	if err := h.tryOpen(); err != nil {
		h.t.Fatalf("open: %v", err)
	}
}

func (h *harness) tryOpen() error {
	s, _, err := Open(h.options())
	if err != nil {
		return err
	}
	s.background.Wait()          // the clock may have been set back
	s.bounds.deadlinesAtOnce = 8 // it is read and cut often
	s.bounds.reapLooks = 1
	s.bounds.group, s.bounds.cover = 2, 5
	s.bounds.dueStep, s.bounds.exact = 3, 40
	if h.portions {
		s.bounds.batchBytes, s.bounds.portion, s.bounds.portionBytes = 4<<10, 30, 20<<10
		s.bounds.pendingBytes, s.bounds.pendingStep = 300, 3
		s.bounds.stretch, s.bounds.stretchTime = 30, 0
	}
	s.file.DB().NoSync = true // the kernel keeps what a test's crash could take from the file
	h.s, h.txn = s, s.NewTxn()
	s.Listen(func(e Happened) { h.events = append(h.events, e) })
	s.SetEvents(^EventNew)
	return nil
}

// do runs fn in a transaction with keys, and loads the keys first if needed.
func (h *harness) do(fn func(*Txn), keys ...Key) {
	for !h.s.Begin(h.txn, keys) {
		h.load(keys)
	}
	fn(h.txn)
	h.txn.End()
	h.changed()
}

func (h *harness) doAll(fn func(*Txn)) {
	h.s.BeginAll(h.txn)
	fn(h.txn)
	h.txn.End()
	h.changed()
}

func (h *harness) load(keys []Key) {
	var got error
	for _, slow := range h.s.loads.serveBatch([]load{{keys: keys, done: func(err error) {
		got = err
	}}}) {
		h.s.loads.serve(slow)
	}
	if got != nil {
		h.t.Fatalf("load: %v", got)
	}
}

func (h *harness) changed() {
	h.recent = append(h.recent, pastState{h.model.clone(), h.s.Log().End()})
}

func (h *harness) commit() {
	if err := h.s.Log().Commit(); err != nil {
		h.t.Fatalf("commit: %v", err)
	}
	h.committed, h.recent = h.model.clone(), nil
}

// state looks up all names in the store and returns what it has.
func (h *harness) state(names map[name]bool) model {
	got := model{}
	for n := range names {
		k := h.s.Key(n.db, []byte(n.key))
		for !h.s.Begin(h.txn, []Key{k}) {
			h.load([]Key{k})
		}
		if it, ok := h.txn.Get(k); ok {
			v := value{deadline: it.Deadline()}
			if data, err := it.String(); err == nil {
				v.data = string(data)
			} else {
				v.coll = contentOf(it.Value())
			}
			got[n] = v
		}
		h.txn.End()
	}
	return got
}

func same(a, b model) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || w.data != v.data || w.deadline != v.deadline ||
			!w.coll.equal(v.coll) {
			return false
		}
	}
	return true
}

// verify compares the store with the model and checks its invariants.
func (h *harness) verify(names map[name]bool) {
	h.t.Helper()
	h.verifyDue() // before anything is loaded
	h.verifyExpiring(h.s.View, DueCursor{Deadline: h.now() + 1})
	h.verifyTimeline(h.s.View)
	h.verifyTypes()
	if got, want := h.state(names), h.model.live(h.now()); !same(got, want) {
		h.t.Fatalf("the store has\n%v\nand must have\n%v", got, want)
	}
	h.check()
}

func (h *harness) check() {
	h.t.Helper()
	if err := h.s.Check(); err != nil {
		h.t.Fatalf("check: %v", err)
	}
	t := h.s.NewTxn()
	h.s.BeginAll(t)
	defer t.End()
	for _, sh := range h.s.shards {
		for _, p := range sh.mu.parts {
			if p == nil {
				continue
			}
			for _, sl := range p.allUsed() {
				sl.table.Walk(func(c *cell) {
					if exists(c) && p.access(*c) == 0 {
						h.t.Fatalf("key %q has no time of access", p.name(*c))
					}
				})
			}
		}
	}
}

func (h *harness) reopen() {
	if err := h.s.Close(true); err != nil {
		h.t.Fatalf("close: %v", err)
	}
	h.open()
	h.commit()
}

// crash ends the store like a power cut, and finds out which of the states since the last commit
// survived.
func (h *harness) crash(rng *rand.Rand, names map[name]bool) {
	h.t.Helper()
	candidates := []model{h.model, h.committed}
	for _, past := range h.recent {
		candidates = append(candidates, past.model)
	}
	h.s.stop()
	h.s.background.Wait()
	crashed := h.fs.Crash(rng)
	_ = h.s.log.Close() // what it writes now goes nowhere
	if err := h.s.release(); err != nil {
		h.t.Fatalf("release: %v", err)
	}
	h.fs = crashed
	h.open()
	got := h.state(names)
	for _, c := range candidates {
		if same(got, c.live(h.now())) {
			h.model = c.live(h.now()) // the look-ups have removed the rest
			h.commit()
			h.check()
			return
		}
	}
	h.t.Fatalf("after the crash the store has\n%v\nand must have\n%v", got, h.model.live(h.now()))
}
