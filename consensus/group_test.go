package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/setup"
)

// plainMachine records the entries that it gets, and whether it leads.
type plainMachine struct {
	fails chan error // gets a failure; nil: there is none
	mu    struct {
		sync.Mutex
		got       [][]byte
		leads     bool
		term      uint64
		first     uint64
		applied   uint64
		committed uint64
		replaced  uint64
	}
}

func (x *plainMachine) Led(uint64, uint64) {}

func (x *plainMachine) Elected(term, first uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.leads, x.mu.term, x.mu.first = true, term, first
}

func (x *plainMachine) Deposed(uint64, uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.leads = false
}

func (x *plainMachine) Committed(index uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.committed = index
}

func (x *plainMachine) Replaced(from uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.replaced = from
}

func (x *plainMachine) Apply(a Applying, done func()) {
	x.mu.Lock()
	for _, e := range a.Entries {
		if len(e.Data) > 0 && e.GetType() == pb.EntryNormal {
			x.mu.got = append(x.mu.got, e.Data)
		}
		x.mu.applied = e.GetIndex()
	}
	x.mu.Unlock()
	done()
}

func (x *plainMachine) Restore(_ *pb.Snapshot, done func(error)) {
	done(errors.New("no snapshots here"))
}
func (x *plainMachine) Failed(err error) {
	if x.fails == nil {
		panic(err)
	}
	x.fails <- err
}

// ready reports whether the machine leads and has applied all entries of earlier terms.
func (x *plainMachine) ready() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.mu.leads && x.mu.applied >= x.mu.first
}

// leading returns the term in which the machine is ready, and the entries applied by then. An entry
// of an earlier term that is not among them is lost.
func (x *plainMachine) leading() (term uint64, got [][]byte, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.mu.term, slices.Clone(x.mu.got), x.mu.leads && x.mu.applied >= x.mu.first
}

func (x *plainMachine) entries() [][]byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.mu.got)
}

// process is a member with real connections and real time.
type process struct {
	*Group
	machine *plainMachine
	net     *stand
	log     *memLog
}

// latch holds messages back until its group exists.
type latch struct {
	ready chan struct{}
	g     *Group
}

func (l *latch) Receive(messages []*Message) { <-l.ready; l.g.Receive(messages) }
func (l *latch) Unreachable(id uint64)       { <-l.ready; l.g.Unreachable(id) }
func (l *latch) Gone(uint64)                 {}

func newProcesses(t *testing.T, n uint64, change func(log *memLog)) []*process {
	base := Base{Index: 1, Term: 1, Conf: &pb.ConfState{}}
	for id := uint64(1); id <= n; id++ {
		base.Conf.Voters = append(base.Conf.Voters, id)
	}
	var all []*process
	addrs := map[uint64]string{}
	var latches []*latch
	for id := uint64(1); id <= n; id++ {
		l := &latch{ready: make(chan struct{})}
		latches = append(latches, l)
		p := &process{machine: &plainMachine{}, log: newMemLog(base)}
		if change != nil {
			change(p.log)
		}
		p.net = newStand(t, id, func(o *TransportOptions) { o.Receiver = l })
		addrs[id] = p.net.addr
		all = append(all, p)
	}
	for i, p := range all {
		g, err := Start(Options{
			ID: uint64(i + 1), Group: 1, Log: p.log, Applied: base, Machine: p.machine,
			Network: p.net.Transport, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		p.Group, latches[i].g = g, g
		close(latches[i].ready)
		t.Cleanup(g.Close)
		p.net.SetPeers(addrs)
	}
	return all
}

// TestGroupsOverConnections: three members agree over real connections and in real time. Several
// goroutines propose, the disk is fast or slow, and the leader ends in between.
func TestGroupsOverConnections(t *testing.T) {
	for _, slow := range []bool{false, true} {
		t.Run(fmt.Sprintf("slow disk %v", slow), func(t *testing.T) {
			all := newProcesses(t, 3, func(log *memLog) {
				if slow {
					log.later = func(f func()) { time.AfterFunc(time.Millisecond, f) }
				}
			})
			seen, proposed := 0, 0
			for round := range 2 {
				// On a busy machine a leader may lose its lead at any time.
				leads := func() *process {
					i := slices.IndexFunc(all, func(p *process) bool {
						return p.machine.ready() && p.Leased()
					})
					if i < 0 {
						return nil
					}
					return all[i]
				}
				await.Until(t, "a member leads", func() bool { return leads() != nil })
				const goroutines, each = 4, 50
				var terms sync.Map // in which each entry was proposed last
				propose := func(entry string) {
					await.Until(t, "an entry is proposed", func() bool {
						leader := leads()
						if leader == nil {
							return false
						}
						p, err := leader.Propose([]byte(entry))
						if err != nil && !errors.Is(err, ErrNotLeader) {
							t.Errorf("entry %s: %v", entry, err)
						}
						terms.Store(entry, p.Term)
						return err == nil || t.Failed()
					})
				}
				var group sync.WaitGroup
				for g := range goroutines {
					group.Go(func() {
						for i := range each {
							propose(fmt.Sprintf("%d-%d-%d", round, g, i))
						}
					})
				}
				group.Wait()
				proposed += goroutines * each
				await.Until(t, "all have all", func() bool {
					for _, p := range all {
						if term, got, ok := p.machine.leading(); ok {
							terms.Range(func(entry, at any) bool {
								// An entry that was lost with its leader is proposed again.
								is := func(e []byte) bool { return string(e) == entry }
								if at.(uint64) < term && !slices.ContainsFunc(got, is) {
									propose(entry.(string))
								}
								return true
							})
						}
					}
					return !slices.ContainsFunc(all, func(p *process) bool {
						return len(p.machine.entries()) < proposed
					})
				})
				want := all[0].machine.entries()
				for _, p := range all[1:] {
					if !slices.EqualFunc(p.machine.entries(), want, bytes.Equal) {
						t.Error("two members have different entries")
					}
				}
				if len(want) != proposed || len(want) == seen {
					t.Errorf("%d entries of %d", len(want), proposed)
				}
				seen = len(want)
				leader := all[0]
				await.Until(t, "a member leads", func() bool {
					leader = leads()
					return leader != nil
				})
				leader.Close()
				leader.net.Close()
				if _, err := leader.Propose([]byte("late")); !errors.Is(err, ErrClosed) ||
					leader.Leased() {
					t.Errorf("a closed group: %v, %v", err, leader.Leased())
				}
				all = slices.DeleteFunc(all, func(p *process) bool { return p == leader })
			}
		})
	}
}

// alone is a group with a single member, run by one goroutine. Time passes when the test calls
// tick.
type alone struct {
	*Group
	machine *plainMachine
	tick    func()
}

func newAlone(t *testing.T) *alone {
	base := Base{Index: 1, Term: 1, Conf: &pb.ConfState{Voters: []uint64{1}}}
	now := clock.NewFake(7_000)
	now.Advance(time.Second)
	a := &alone{machine: &plainMachine{fails: make(chan error, 1)}}
	g, err := Start(Options{
		ID: 1, Group: 1, Log: newMemLog(base), Applied: base, Machine: a.machine,
		Network: &heardTime{},
		Clock:   now, Logger: slog.New(slog.DiscardHandler),
		After: func(_ time.Duration, f func()) func() {
			a.tick = f
			return func() {}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	a.Group = g
	for range 3 * electionTicks {
		if a.machine.ready() && a.Leased() {
			return a
		}
		a.tick()
	}
	t.Fatal("it does not lead")
	return nil
}

// TestGroupAlone: a single member commits its entries before Propose returns.
func TestGroupAlone(t *testing.T) {
	p := newAlone(t)
	at, err := p.Propose([]byte("a"), []byte("b"))
	if err != nil || at.Last != at.First+1 {
		t.Fatalf("%+v, %v", at, err)
	}
	if got := p.machine.entries(); len(got) != 2 || p.Status().Committed != at.Last {
		t.Errorf("%q, %+v", got, p.Status())
	}
	for _, wrong := range [][]byte{nil, make([]byte, MaxEntry+1)} {
		if _, err := p.Propose(wrong); !errors.Is(err, ErrEntry) {
			t.Errorf("%d bytes: %v", len(wrong), err)
		}
	}
	if _, err := p.Change(&pb.ConfChangeSingle{Type: pb.ConfChangeRemoveNode.Enum(),
		NodeId: new(uint64(1))}); !errors.Is(err, ErrChange) {
		t.Errorf("the last member is removed: %v", err)
	}
	if _, err := p.Change(); !errors.Is(err, ErrChange) {
		t.Errorf("a change of nothing: %v", err)
	}
	if err := p.Transfer(2); !errors.Is(err, ErrTarget) {
		t.Errorf("a transfer to nobody: %v", err)
	}
}

// TestForgotten: a member whose log lacks entries that it has acknowledged, such as an older copy
// of its directory, ends with ErrForgot.
func TestForgotten(t *testing.T) {
	p := newAlone(t)
	last, heartbeat := p.Status().Last, pb.MsgHeartbeat
	for _, c := range []struct {
		term, commit uint64
		forgot       bool
	}{
		{0, last + 1, false}, // from a leader of an earlier term
		{2, last, false},
		{2, last + 1, true},
	} {
		p.Receive([]*Message{{Group: 1, Raft: &pb.Message{
			Type: &heartbeat, From: new(uint64(2)), To: new(uint64(1)),
			Term: new(p.Status().Term + c.term - 1), Commit: &c.commit,
		}}})
		if err := p.Status().Ended; errors.Is(err, ErrForgot) != c.forgot {
			t.Fatalf("entry %d of %d is committed in a term later by %d - 1: %v", c.commit,
				last, c.term, err)
		}
	}
	if err := await.For(t, "the failure", p.machine.fails); !errors.Is(err, ErrForgot) {
		t.Error(err)
	}
}

// TestEntriesAreCopiedOnce: Propose copies an entry exactly once, so the caller may reuse its
// memory.
func TestEntriesAreCopiedOnce(t *testing.T) {
	p := newAlone(t)
	entry := bytes.Repeat([]byte("x"), 2<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := p.Propose(entry); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 3*uint64(len(entry))/2 {
		t.Errorf("%d bytes are allocated for an entry of %d", n, len(entry))
	}
	clear(entry)
	if got := p.machine.entries(); len(got) != 1 || got[0][0] != 'x' ||
		got[0][len(got[0])-1] != 'x' {
		t.Error("the entry is the caller's memory")
	}
}

// TestUncommittedIsBounded: a leader whose followers do not answer accepts 32 MiB and then returns
// ErrFull. When the followers are back, the accepted entries are committed.
func TestUncommittedIsBounded(t *testing.T) {
	if _, err := observe(setup.Seed, func(s *sim) { fillUp(t, s) }); err != nil {
		t.Error(err)
	}
}

func fillUp(t *testing.T, s *sim) {
	s.settle()
	// An entry counts until the machine has applied it, which takes up to 5 ms here.
	s.pass(5 * time.Millisecond)
	leader := s.pick((*simMember).leads)
	for _, m := range s.sorted() {
		m.stopped = m != leader
	}
	taken := 0
	for {
		p, err := leader.g.Propose(make([]byte, 1<<20))
		if err == nil {
			taken++
			continue
		}
		if !errors.Is(err, ErrFull) || p.Last != p.First-1 {
			t.Errorf("%v, %+v", err, p)
		}
		break
	}
	if taken != 32 {
		t.Errorf("%d MiB were taken", taken)
	}
	last := leader.g.Status().Last
	s.repair()
	s.until("all is committed", func() bool { return leader.g.Status().Committed >= last })
}

// TestElectionTime: after the leader has crashed, another member leads soon, usually before its
// clients have dialed the old one five times, which takes 400 ms. The time is simulated. Two
// members may campaign at the same time, even repeatedly, so the limit is exceeded about three
// times in 12,000.
func TestElectionTime(t *testing.T) {
	const rounds = 100
	var took []time.Duration
	for i := range uint64(rounds) {
		if _, err := observe(setup.Seed+i, func(s *sim) {
			for _, m := range s.sorted() {
				m.rate = 1
			}
			s.settle()
			s.pass(s.between(time.Second, 2*time.Second))
			s.pick((*simMember).leads).crash()
			crashed := s.now
			s.until("another member leads", func() bool {
				leader := s.pick((*simMember).leads)
				return leader != nil && leader.machine.ready()
			})
			took = append(took, s.now-crashed)
		}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(took)
	const rare = rounds / 20
	median, most := took[rounds/2], took[rounds-1-rare]
	if median > 360*time.Millisecond || most > 600*time.Millisecond {
		t.Errorf("of %d, half took %v and more, %d took %v and more", rounds, median, rare+1, most)
	}
}
