package member

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"keyp/commands"
	"keyp/consensus"
	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/setup"
	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/storage/wal"
	"keyp/ttl"
)

// ring is a set of servers in this process that become members of one group. They have real
// connections, data files and timers. When a server is killed, or executes itself again, it loses
// the part of its log that is not synced.
type ring struct {
	t       *testing.T
	servers []*server
	lines   lines
	model   map[string]string // what was acknowledged
	keptLog int64

	mu struct {
		sync.Mutex
		rng   *rand.Rand
		cut   func(m *consensus.Message) bool // messages that are lost; nil: none
		start map[string]int                  // how often each server has started
	}
}

// lines collects the servers' logs for a failed test.
type lines struct {
	mu struct {
		sync.Mutex
		bytes.Buffer
	}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.Buffer.Write(b)
}

// server is a directory and a port, with the process that uses them.
type server struct {
	ring    *ring
	name    string
	dir     string
	door    *door
	ending  sync.Mutex // locked while a process ends and the next one starts
	options func(*storage.Options)
	clock   clock.Clock
	failed  chan error // gets the error of a failed store; nil: such an error fails the test
	mu      struct {
		sync.Mutex
		mem *vfs.Mem
		p   *process
	}
}

// process is one process of a server, from a start to its end.
type process struct {
	server *server
	disk   *disk
	m      *Member
	store  *storage.Store
	loop   *loop
}

func newRing(t *testing.T, n int) *ring { return newRingWith(t, n, func(int, *server) {}) }

// newRingWith does the same as newRing, but calls setUp with each server before it starts.
func newRingWith(t *testing.T, n int, setUp func(i int, s *server)) *ring {
	r := &ring{t: t, model: map[string]string{}, keptLog: 1 << 30}
	r.mu.rng = rand.New(rand.NewPCG(setup.Seed, 1))
	r.mu.start = map[string]int{}
	for i := range n {
		s := &server{ring: r, clock: clock.System, name: strings.Repeat(fmt.Sprint(i), 40),
			dir: testkit.MemoryDir(t), door: newDoor(t)}
		s.mu.mem = vfs.NewMem()
		setUp(i, s)
		r.servers = append(r.servers, s)
	}
	t.Cleanup(func() {
		r.close()
		if t.Failed() {
			r.lines.mu.Lock()
			defer r.lines.mu.Unlock()
			t.Log(r.lines.mu.String())
		}
	})
	for _, s := range r.servers { // whose directories are removed after they have ended
		s.begin()
	}
	return r
}

// close ends all servers, and checks their stores.
func (r *ring) close() {
	for _, s := range r.servers {
		s.close()
	}
}

// newGroup returns a ring whose servers are all voting members of a group.
func newGroup(t *testing.T, n int) *ring {
	r := newRing(t, n)
	r.join()
	return r
}

// join makes the first server found a group, and the others join it.
func (r *ring) join() {
	r.t.Helper()
	r.do("found", r.servers[0], func(m *Member, done func(error)) { m.Found(done) })
	r.await("the first server leads", func() bool { return r.servers[0].role() == commands.Leader })
	for _, s := range r.servers[1:] {
		r.do("meet", s, func(m *Member, done func(error)) {
			m.Meet("127.0.0.1", 1, r.servers[0].door.port(), done)
		})
		r.do("replicate", s, func(m *Member, done func(error)) {
			m.Replicate(r.servers[0].name, done)
		})
	}
	r.await("all vote", func() bool { return r.voters() == len(r.servers) })
}

// voters returns how many members vote, as the leader sees it, or 0 without a leader.
func (r *ring) voters() (n int) {
	l := r.anyLeader()
	if l == nil {
		return 0
	}
	for _, o := range l.status().Members {
		if !o.Learner {
			n++
		}
	}
	return n
}

// do runs an action on a server, and repeats it until it succeeds.
func (r *ring) do(what string, s *server, action func(m *Member, done func(error))) {
	r.t.Helper()
	r.await(what, func() bool {
		p := s.process()
		if p == nil {
			return false
		}
		got := make(chan error, 1)
		action(p.m, func(err error) { got <- err })
		err := await.For(r.t, what, got)
		if err != nil {
			fmt.Fprintf(&r.lines, "%s at %.1s: %v\n", what, s.name, err)
		}
		return err == nil
	})
}

func (r *ring) await(what string, done func() bool) {
	r.t.Helper()
	await.Until(r.t, what, func() bool { return r.t.Failed() || done() })
	if r.t.Failed() {
		r.t.FailNow()
	}
}

// anyLeader returns a server whose status says that it leads; nil if there is none.
func (r *ring) anyLeader() *server {
	i := slices.IndexFunc(r.servers, func(s *server) bool { return s.role() == commands.Leader })
	if i < 0 {
		return nil
	}
	return r.servers[i]
}

func (r *ring) leader() (s *server) {
	r.t.Helper()
	r.await("a member leads", func() bool { s = r.anyLeader(); return s != nil })
	return s
}

// running waits for a server's process, because a server that restarts has none for a while.
func (r *ring) running(s *server) (p *process) {
	r.t.Helper()
	r.await("the server runs", func() bool { p = s.process(); return p != nil })
	return p
}

// term returns the newest term of any server. On a busy machine members may elect a leader at any
// time, and a server may then restart. A changed term shows a test that this is not an error.
func (r *ring) term() (term uint64) {
	for _, s := range r.servers {
		if p := s.process(); p != nil {
			term = max(term, p.m.group.Status().Term)
		}
	}
	return term
}

// checkpoint makes a checkpoint of a server, and tries again if the server's role has just changed.
func (r *ring) checkpoint(s *server) {
	r.t.Helper()
	r.await("a checkpoint", func() bool {
		p := s.process()
		return p != nil && p.store.Checkpoint() == nil
	})
}

// others returns all servers except one.
func (r *ring) others(than *server) []*server {
	return slices.DeleteFunc(slices.Clone(r.servers), func(s *server) bool { return s == than })
}

// cut sets which messages are lost. With nil none are.
func (r *ring) cut(lost func(*consensus.Message) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.cut = lost
}

// isolate cuts a server off.
func (r *ring) isolate(s *server) {
	id := s.status().ID
	r.cut(func(m *consensus.Message) bool { return m.Raft.GetFrom() == id || m.Raft.GetTo() == id })
}

func (r *ring) takes(m *consensus.Message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.cut == nil || !r.mu.cut(m)
}

// starts returns how often each server has started.
func (r *ring) starts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.mu.start)
}

// begin starts a process. The files in its directory decide whether it is a member.
func (s *server) begin() {
	r := s.ring
	p := &process{server: s}
	s.mu.Lock()
	p.disk = newDisk(s.dir, s.mu.mem)
	s.mu.Unlock()
	logger := slog.New(slog.NewTextHandler(&r.lines, nil)).With("server", s.name[:1])
	p.m = New(Options{
		Clock: s.clock, Logger: logger, Listen: s.door.open,
		Announced: func() commands.Member {
			return commands.Member{Node: s.name, IP: "127.0.0.1", Port: 1, Bus: s.door.port()}
		},
		Again: func() { go s.again(p, p.stop) },
		Exec: func() {
			go s.again(p, p.kill)
			<-p.m.ctx.Done() // Exec does not return
		},
		KeptLog: func() int64 { r.mu.Lock(); defer r.mu.Unlock(); return r.keptLog },
		seams:   seams{takes: r.takes},
	})
	err := p.open(logger)
	if err != nil {
		r.t.Errorf("server %.1s: %v", s.name, err)
		return
	}
	r.mu.Lock()
	r.mu.start[s.name]++
	r.mu.Unlock()
	s.mu.Lock()
	s.mu.p = p
	s.mu.Unlock()
}

// storeOptions returns the options for the store in a directory.
func storeOptions(dir string, disk *disk, logger *slog.Logger) storage.Options {
	return storage.Options{
		FS: disk, Dir: dir, Clock: clock.System, Logger: logger, Databases: 1, Shards: 4,
		Sync: wal.Always, SegmentSize: 64 << 10, InitialMmap: 1 << 22, DiskReserve: 1,
		Hooks: commands.Features,
	}
}

func (p *process) open(logger *slog.Logger) error {
	o := storeOptions(p.server.dir, p.disk, logger)
	o.Clock = p.server.clock
	o.OnFail = func(err error) {
		switch {
		case p.disk.dead():
		case p.server.failed != nil:
			p.server.failed <- err
		default:
			p.server.ring.t.Errorf("server %.1s: the store has failed: %v", p.server.name, err)
		}
	}
	if p.server.options != nil {
		p.server.options(&o)
	}
	store, _, err := p.m.Open(o)
	if err != nil {
		return err
	}
	p.store, p.loop = store, newLoop(store)
	return p.m.Start(p.loop)
}

// again ends a process, unless it has ended, and starts another one.
func (s *server) again(p *process, end func()) {
	s.ending.Lock()
	defer s.ending.Unlock()
	if s.process() == p {
		end()
		s.begin()
	}
}

// process returns the running process, or nil if there is none.
func (s *server) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.p
}

func (s *server) gone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.p = nil
}

func (s *server) status() *commands.GroupStatus {
	if p := s.process(); p != nil {
		return p.m.Status()
	}
	return &commands.GroupStatus{}
}

func (s *server) role() commands.Role { return s.status().Role }

// kill ends the server, as a power cut does.
func (s *server) kill() {
	s.ending.Lock()
	defer s.ending.Unlock()
	if p := s.process(); p != nil {
		p.kill()
	}
}

// start starts a server that was killed.
func (s *server) start() {
	s.ending.Lock()
	defer s.ending.Unlock()
	s.begin()
}

// kill ends a process, which loses unsynced data.
func (p *process) kill() {
	s, r := p.server, p.server.ring
	s.gone()
	r.mu.Lock()
	left := p.disk.kill(r.mu.rng)
	r.mu.Unlock()
	p.m.Stop()
	p.loop.end()
	_ = p.store.Close(false) // what it writes goes nowhere
	s.mu.Lock()
	s.mu.mem = left
	s.mu.Unlock()
}

// stop stops a process properly.
func (p *process) stop() {
	t := p.server.ring.t
	p.server.gone()
	p.m.Stop()
	p.loop.end()
	if err := p.store.Close(true); err != nil {
		t.Errorf("server %.1s: closing the store: %v", p.server.name, err)
	}
	if _, err := p.m.Finish(); err != nil {
		t.Errorf("server %.1s: %v", p.server.name, err)
	}
}

// close ends the server at a test's end, and checks its store.
func (s *server) close() {
	s.ending.Lock()
	defer s.ending.Unlock()
	p := s.process()
	if p == nil {
		return
	}
	s.gone()
	p.m.Stop()
	p.loop.end()
	if err := p.store.Check(); err != nil {
		s.ring.t.Errorf("server %.1s: %v", s.name, err)
	}
	_ = p.store.Close(false)
}

// loop is the Host. One goroutine calls the posted functions and then commits, as a server's loop
// does at the end of each iteration.
type loop struct {
	store *storage.Store
	txn   *storage.Txn
	lazy  bool // it commits nothing; the loop's
	done  chan struct{}
	mu    struct {
		sync.Mutex
		more  sync.Cond
		calls []func()
		ended bool
	}
}

func newLoop(store *storage.Store) *loop {
	l := &loop{store: store, txn: store.NewTxn(), done: make(chan struct{})}
	l.mu.more.L = &l.mu.Mutex
	go l.run()
	return l
}

func (l *loop) run() {
	defer close(l.done)
	for {
		l.mu.Lock()
		for len(l.mu.calls) == 0 && !l.mu.ended {
			l.mu.more.Wait()
		}
		calls := l.mu.calls
		l.mu.calls = nil
		l.mu.Unlock()
		if len(calls) == 0 {
			return
		}
		for _, call := range calls {
			call()
		}
		if !l.lazy {
			_ = l.store.Log().Commit() // OnFail gets the error
		}
	}
}

func (l *loop) end() {
	l.mu.Lock()
	l.mu.ended = true
	l.mu.more.Broadcast()
	l.mu.Unlock()
	<-l.done
}

func (l *loop) Post(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mu.ended {
		l.mu.calls = append(l.mu.calls, fn)
		l.mu.more.Broadcast()
	}
}

func (l *loop) SetFollower(ctx context.Context, on bool, done func()) {
	l.Post(func() {
		if ctx.Err() != nil {
			return
		}
		if l.store.Follower() != on {
			l.store.SetFollower(on)
		}
		done()
	})
}

// call runs fn on the loop and waits for its end. It returns false if the loop ended without
// running it.
func (l *loop) call(fn func()) bool {
	called := make(chan struct{})
	l.Post(func() { fn(); close(called) })
	select {
	case <-called:
		return true
	case <-l.done:
		select {
		case <-called:
			return true
		default:
			return false
		}
	}
}

var setEvent = storage.Event{Class: storage.EventString, Name: "set"}

// set sets a key, if the process may write, and returns the LSN.
func (p *process) set(key, value string) (lsn uint64, ok bool) {
	p.loop.call(func() {
		if role := p.m.Status().Role; role != commands.Leader && role != commands.Alone ||
			p.store.Follower() {
			return
		}
		k := p.store.Key(0, []byte(key))
		if ok, err := p.store.BeginLoading(p.loop.txn, []storage.Key{k}); err != nil || !ok {
			p.server.ring.t.Errorf("a transaction: %t, %v", ok, err)
			return
		}
		p.loop.txn.SetString(k, []byte(value), ttl.Deadline{}, setEvent)
		p.loop.txn.End()
		lsn, ok = p.store.Log().End(), true
	})
	return lsn, ok
}

// write sets a key at the leader, and returns when the write is acknowledged.
func (r *ring) write(key, value string) {
	r.t.Helper()
	r.await("a write is acknowledged", func() bool {
		s := r.anyLeader()
		if s == nil {
			return false
		}
		p := s.process()
		if p == nil {
			return false
		}
		lsn, ok := p.set(key, value)
		return ok && await.Reached(func() bool {
			return s.process() != p || p.m.Status().Role != commands.Leader ||
				p.store.Log().Durable() >= lsn
		}) &&
			s.process() == p && p.m.Status().Role == commands.Leader &&
			p.store.Log().Durable() >= lsn
	})
	r.model[key] = value
}

// fill writes many keys.
func (r *ring) fill(prefix string, n int) {
	r.t.Helper()
	for i := range n {
		r.write(fmt.Sprint(prefix, i), fmt.Sprint("value ", i))
	}
}

// content returns a server's keys and values; nil if it does not run.
func (s *server) content() map[string]string {
	p := s.process()
	if p == nil {
		return nil
	}
	got := map[string]string{}
	if !p.loop.call(func() { got = contentOf(s.ring.t, p.store) }) {
		return nil
	}
	return got
}

func contentOf(t testing.TB, store *storage.Store) map[string]string {
	got, txn := map[string]string{}, store.NewTxn()
	var names []string
	if err := store.View.Walk(0, func(name []byte, _ object.Type) bool {
		names = append(names, string(name))
		return true
	}); err != nil {
		t.Errorf("reading all keys: %v", err)
	}
	for _, name := range names {
		k := store.Key(0, []byte(name))
		if err := store.BeginBeside(txn, []storage.Key{k}); err != nil {
			t.Errorf("reading %s: %v", name, err)
			return nil
		}
		if it, ok := txn.Get(k); ok {
			b, err := it.String()
			if err != nil {
				t.Error(err)
			}
			got[name] = string(b)
		}
		txn.End()
	}
	return got
}

// agree waits until all servers have the same content: all acknowledged keys, and perhaps other
// keys that begin with "x".
func (r *ring) agree() {
	r.t.Helper()
	var all []map[string]string
	if !await.Reached(func() bool {
		all = all[:0]
		for _, s := range r.servers {
			all = append(all, s.content())
		}
		for _, got := range all {
			if !maps.Equal(got, all[0]) || got == nil {
				return false
			}
		}
		return r.t.Failed() || r.agrees(all[0]) == ""
	}) {
		for i, got := range all {
			r.t.Errorf("server %d has %d keys: %s", i, len(got), r.agrees(got))
		}
		r.t.Fatal("the servers do not agree")
	}
}

// agrees returns how content differs from the model; empty if it agrees.
func (r *ring) agrees(got map[string]string) string {
	for k, v := range r.model {
		if got[k] != v {
			return fmt.Sprintf("%s is %.40q instead of %.40q", k, got[k], v)
		}
	}
	for k := range got {
		if _, ok := r.model[k]; !ok && !strings.HasPrefix(k, "x") {
			return fmt.Sprintf("%s is there, and was not acknowledged", k)
		}
	}
	return ""
}

// copied copies the files of a directory.
func copied(t testing.TB, from string) (to string) {
	to = testkit.MemoryDir(t)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}
