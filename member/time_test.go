package member

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/commands"
	"keyp/consensus"
	"keyp/features/outbox"
	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/storage"
	"keyp/ttl"
)

// apart is a group of members whose clocks may differ. They move only when a test moves them, all
// by the same amount.
type apart struct {
	*ring
	fakes []*clock.Fake
}

// newApart makes members whose wall clocks are ahead by the given numbers of ms.
func newApart(t *testing.T, ahead ...int64) *apart {
	a := &apart{}
	for _, ms := range ahead {
		f := clock.NewFake(1_700_000_000_000 + ms)
		f.Advance(time.Second)
		a.fakes = append(a.fakes, f)
	}
	a.ring = newRingWith(t, len(ahead), func(i int, s *server) {
		s.clock = a.fakes[i]
		s.options = func(o *storage.Options) {
			o.ClockJumpLimit, o.ClockJumpPatience = 10*time.Minute, 48*time.Hour
		}
	})
	a.join()
	return a
}

// times returns each server's view of the group's time, or nil if a server does not know it.
func (a *apart) times() (list []int64) {
	for _, s := range a.servers {
		p := s.process()
		if p == nil {
			return nil
		}
		at, known := p.store.GroupTime()
		if !known {
			return nil
		}
		list = append(list, at)
	}
	return list
}

// advance moves the clocks forward, and waits until all followers have heard the leader since.
func (a *apart) advance(d time.Duration) {
	a.t.Helper()
	for _, f := range a.fakes {
		f.Advance(d)
	}
	a.agreeOnTime()
}

// agreeOnTime waits until all servers have the same time, and returns it. The clocks stand still,
// so delayed messages do not matter.
func (a *apart) agreeOnTime() (time int64) {
	a.t.Helper()
	a.await("all have one time", func() bool {
		list := a.times()
		if list == nil {
			return false
		}
		time = list[0]
		for _, at := range list {
			if at != list[0] {
				return false
			}
		}
		return true
	})
	return time
}

// reportExpiries creates an outbox rule that writes to the stream "gone".
func (a *apart) reportExpiries(pattern string) {
	p := a.running(a.leader())
	p.loop.call(func() {
		p.store.BeginAll(p.loop.txn)
		if err := outbox.Of(p.store).Set(p.loop.txn,
			&outbox.Rule{Name: "r", Pattern: []byte(pattern), Stream: []byte("gone")}); err != nil {
			a.t.Error(err)
		}
		p.loop.txn.End()
	})
}

// leads makes a follower the leader. It returns when all members have heard from the new leader.
func (a *apart) leads(s *server) {
	a.t.Helper()
	a.hands(s)
	a.agreeOnTime()
}

// hands makes a follower the leader.
func (a *apart) hands(s *server) {
	a.t.Helper()
	a.await("a transfer", func() bool {
		if s.role() == commands.Leader {
			return true
		}
		p := s.process()
		if p == nil {
			return false
		}
		got := make(chan error, 1)
		p.m.Failover(false, func(err error) { got <- err })
		return await.For(a.t, "an answer", got) == nil && s.role() == commands.Leader
	})
}

// at runs a transaction on a key at a server, on its loop.
func (s *server) at(key string, fn func(p *process, x *storage.Txn, k storage.Key)) {
	p := s.process()
	if p == nil {
		return
	}
	p.loop.call(func() {
		k := p.store.Key(0, []byte(key))
		if ok, err := p.store.BeginLoading(p.loop.txn, []storage.Key{k}); err != nil || !ok {
			s.ring.t.Errorf("a transaction: %t, %v", ok, err)
			return
		}
		fn(p, p.loop.txn, k)
		p.loop.txn.End()
	})
}

// give sets a key with a time to live at the leader, and waits until all members have it.
func (a *apart) give(key string, left time.Duration) {
	a.t.Helper()
	var p *process
	term := uint64(0)
	a.await(key+" is everywhere", func() bool {
		// If the leader is deposed, its write may be lost.
		leader := a.anyLeader()
		if p == nil || a.term() != term && leader != nil && !leader.has(key) {
			if p = a.running(a.leader()); p.m.Status().Role != commands.Leader {
				p = nil
				return false
			}
			term = a.term()
			p.server.at(key, func(_ *process, x *storage.Txn, k storage.Key) {
				x.SetString(k, []byte("v"), ttl.At(x.Now()+left.Milliseconds()), setEvent)
			})
		}
		return a.have(key) == len(a.servers)
	})
}

// have returns how many servers show a key.
func (a *apart) have(key string) (n int) {
	for _, s := range a.servers {
		s.at(key, func(_ *process, x *storage.Txn, k storage.Key) {
			if _, ok := x.Get(k); ok {
				n++
			}
		})
	}
	return n
}

// shown checks that all servers show a key, or that none does.
func (a *apart) shown(when, key string, want bool) {
	a.t.Helper()
	n := 0
	if want {
		n = len(a.servers)
	}
	if got := a.have(key); got != n {
		a.t.Errorf("%s: %d of the servers show %s, want %d; their times are %d", when, got,
			key, n, a.times())
	}
}

// TestClocksApart: the clocks of three members are hours apart. A key lives for its hour whichever
// member leads, after a transfer or a crash. No member shows it as gone before its deadline, and
// all show it as gone after it. The outbox has one entry for its expiry.
func TestClocksApart(t *testing.T) {
	const hours = int64(time.Hour / time.Millisecond)
	a := newApart(t, 0, 3*hours, -3*hours)
	a.reportExpiries("k*")
	a.give("stays", 1000*time.Hour)
	entries := 0
	for round, next := range []int{1, 2, 0, 2, 1, 0} {
		key := fmt.Sprint("k", round)
		was := a.leader()
		a.give(key, time.Hour)
		began := a.agreeOnTime()
		a.advance(20 * time.Minute)
		a.shown("before the failover", key, true)
		a.leads(a.servers[next])
		if got := a.agreeOnTime(); got != began+(20*time.Minute).Milliseconds() {
			t.Errorf("round %d: when member %d leads, time is off by %d ms", round, next,
				got-began-(20*time.Minute).Milliseconds())
		}
		a.await("time is guarded under a member whose clock is apart, and under no other one",
			func() bool {
				// Soon.
				p := a.servers[next].process()
				if p == nil || !p.m.Status().Role.Leads() {
					return true // another one was elected meanwhile
				}
				return (p.store.ClockGuard().Since != 0) == (next != 0)
			})
		a.advance(20 * time.Minute)
		a.shown("after the failover", key, true)
		if round >= 3 { // restart the old leader, which has crashed
			was.kill()
			was.start()
			a.agreeOnTime()
		}
		a.advance(20*time.Minute - time.Millisecond)
		a.shown("a millisecond before the end", key, true)
		a.shown("a millisecond before the end", "stays", true)
		a.advance(time.Millisecond)
		a.shown("in the end", key, false)
		a.shown("in the end", "stays", true)
		entries++
		a.await("the expiry is reported everywhere", func() bool {
			return a.reported() >= entries*len(a.servers)
		})
		if got := a.reported(); got != entries*len(a.servers) {
			t.Errorf("round %d: the servers have %d entries of %d expiries", round, got, entries)
		}
	}
}

// drift is a group of members whose clocks run at different rates.
type drift struct {
	*apart
	rates []float64
	ahead int64 // how far a follower's time may be ahead of the leader's, in ms
	lived time.Duration
	wrong []string // what was wrong in a round
	beats struct {
		sync.Mutex
		of map[uint64]int
	}
}

// pass moves each clock forward by its own share of a true duration, and waits until all followers
// have heard the leader since.
func (d *drift) pass(by time.Duration) {
	d.t.Helper()
	leader := d.leader()
	before := leader.time()
	for i, f := range d.fakes {
		mine := time.Duration(float64(by) * d.rates[i])
		if d.servers[i] == leader {
			d.lived += mine
		}
		f.Advance(mine)
	}
	d.beats.Lock()
	clear(d.beats.of)
	d.beats.Unlock()
	d.await("followers have heard the leader", func() bool {
		d.beats.Lock()
		defer d.beats.Unlock()
		n := 0
		for id, heard := range d.beats.of {
			// The first may be from before the change, and the last may not be handled yet.
			if heard >= 3 && id != 0 {
				n++
			}
		}
		return n >= len(d.servers)-1
	})
	// Since it heard from the leader last, a follower's clock has moved on at its own rate.
	d.ahead = max(d.ahead, int64(1.01*float64(by.Milliseconds()))+2) - (leader.time() - before)
	d.ahead = max(d.ahead, 1)
}

// time returns a server's view of the group's time; 0 if it does not know it.
func (s *server) time() int64 {
	if p := s.process(); p != nil {
		if at, known := p.store.GroupTime(); known {
			return at
		}
	}
	return 0
}

// errorf records an error of this round. The round is repeated, and its errors do not count, if the
// members elect another leader by themselves.
func (d *drift) errorf(format string, args ...any) {
	d.wrong = append(d.wrong, fmt.Sprintf(format, args...))
}

// look checks that no follower's time is further ahead of the leader's than the rates of their
// clocks explain. It reports whether the leader shows a key.
func (d *drift) look(key string) (shown bool) {
	d.t.Helper()
	leader := d.leader()
	var gone []*server
	for _, s := range d.others(leader) {
		if !s.has(key) {
			gone = append(gone, s)
		}
		if at, now := s.time(), leader.time(); at > now+d.ahead {
			d.errorf("a follower's time is %d ms ahead of the leader's, and may be %d",
				at-now, d.ahead)
		}
	}
	shown = leader.has(key)
	if left := d.deadline(key) - leader.time(); shown && len(gone) > 0 && left > d.ahead {
		d.errorf("a follower shows %s as gone %d ms before the leader does, and may be %d ms ahead",
			key, left, d.ahead)
	}
	return shown
}

// has reports whether a server shows a key.
func (s *server) has(key string) (has bool) {
	s.at(key, func(_ *process, x *storage.Txn, k storage.Key) { _, has = x.Get(k) })
	return has
}

// deadline returns a key's deadline at the leader, or 0 if the key does not exist there.
func (d *drift) deadline(key string) (at int64) {
	d.leader().at(key, func(_ *process, x *storage.Txn, k storage.Key) {
		if it, ok := x.Get(k); ok {
			at = it.Deadline()
		}
	})
	return at
}

// TestClocksDrift: the clocks of members run fast and slow by a hundredth. A key lives for its time
// to live by the leaders' clocks, give or take a second for each failover. A follower may show the
// key as gone earlier than the leader. The difference is at most the time that its clock has gained
// since it heard from the leader. The outbox has one entry for the expiry.
func TestClocksDrift(t *testing.T) {
	const ttl, fine = 90 * time.Second, 40 * time.Millisecond
	d := &drift{apart: newApart(t, 0, 0, 0), rates: []float64{1, 1.01, 0.99}}
	d.beats.of = map[uint64]int{}
	d.cut(func(m *consensus.Message) bool {
		if m.Raft.GetType() == pb.MsgHeartbeat {
			d.beats.Lock()
			d.beats.of[m.Raft.GetTo()]++
			d.beats.Unlock()
		}
		return false
	})
	d.reportExpiries("k*")
	rounds := []int{1, 2, 1, 0}
	if testkit.Long() {
		rounds = slices.Repeat(rounds, 5)
	}
	keys, again := 0, 0
	for round := 0; round < len(rounds); {
		next := rounds[round]
		key := fmt.Sprint("k", keys)
		keys++
		d.wrong = nil
		d.give(key, ttl)
		d.lived = 0
		term := d.term()
		d.pass(30 * time.Second)
		if !d.look(key) {
			d.errorf("round %d: the key is gone after %v", round, d.lived)
		}
		old := d.leader()
		if round%2 == 0 {
			to := d.servers[next]
			if to == old { // it was elected in a round that is repeated
				to = d.others(old)[0]
			}
			d.hands(to)
		} else {
			old.kill()
			d.another(old)
			old.start()
			d.await("all know the time", func() bool { return d.times() != nil })
			// A restarted server knows only the entries that were committed at that time.
			d.await("it has the key again", func() bool {
				return old.has(key) || d.term() > term+1
			})
		}
		d.ahead += 1000 // the new leader's time may stand still, or follow its clock
		for steps := 0; d.look(key) && d.term() == term+1; steps++ {
			left := time.Duration(d.deadline(key)-d.leader().time()) * time.Millisecond
			d.pass(max(fine, min(20*time.Second, left-6*fine)))
			if steps == 100 {
				t.Fatalf("round %d: the key is there after %v", round, d.lived)
			}
		}
		if slack := time.Second + fine; d.lived < ttl-slack || d.lived > ttl+slack+fine {
			d.errorf("round %d: a key that was given %v has lived for %v", round, ttl, d.lived)
		}
		if now := d.term(); now != term+1 {
			// On a busy machine the members may elect another leader. The round cannot be judged
			// then, because the time of the election is unknown.
			if again++; again == 20 {
				t.Fatal("no leader has lived long enough")
			}
			d.ahead += 1000 * int64(now-term)
			for _, f := range d.fakes {
				f.Advance(2 * ttl)
			}
		} else {
			round++
			for _, wrong := range d.wrong {
				t.Error(wrong)
			}
		}
		d.await("the expiry is reported everywhere", func() bool {
			return d.reported() >= keys*len(d.servers)
		})
		if got := d.reported(); got != keys*len(d.servers) {
			t.Errorf("round %d: the servers have %d entries of %d expiries", round, got, keys)
		}
	}
}

// reported returns the sum over all servers of the number of entries in the stream.
func (a *apart) reported() (n int) {
	for _, s := range a.servers {
		s.at("gone", func(_ *process, x *storage.Txn, k storage.Key) {
			if st, err := x.Stream(k); err == nil && st.Exists() {
				n += st.Value().Entries()
			}
		})
	}
	return n
}

// TestClocksStep: the wall clocks of a group's members step, the leader's back and the others' in
// either direction. The group's time goes on: no key returns, and none expires early.
func TestClocksStep(t *testing.T) {
	a := newApart(t, 0, 0, 0)
	a.give("hour", time.Hour)
	a.give("minute", time.Minute)
	began := a.agreeOnTime()
	step := func(i int, by time.Duration) { a.fakes[i].Set(a.fakes[i].Now() + by.Milliseconds()) }
	step(0, -2*time.Hour)
	step(1, 5*time.Hour)
	step(2, -time.Hour)
	a.advance(time.Minute)
	a.shown("a minute later", "hour", true)
	a.shown("a minute later", "minute", false)
	step(0, 4*time.Hour)
	step(1, -9*time.Hour)
	a.leads(a.servers[1])
	a.advance(58 * time.Minute)
	a.shown("nearly an hour later", "hour", true)
	a.shown("nearly an hour later", "minute", false)
	a.advance(time.Minute)
	a.shown("an hour later", "hour", false)
	if got := a.agreeOnTime() - began; got != time.Hour.Milliseconds() {
		t.Errorf("in an hour time went on by %d ms", got)
	}
}

// TestClockSkews: a leader knows how far other members' clocks are off, and each member knows that
// of its own clock. A clock guard does not end by itself while another member's clock agrees with
// the group's time.
func TestClockSkews(t *testing.T) {
	const hour = int64(time.Hour / time.Millisecond)
	a := newApart(t, 0, 2*hour, -5000)
	ids := []uint64{}
	for _, s := range a.servers {
		ids = append(ids, s.status().ID)
	}
	skews := func(s *server) map[uint64]time.Duration {
		got := map[uint64]time.Duration{}
		run := s.process()
		if run == nil {
			return nil
		}
		p := run.m.Progress()
		got[s.status().ID] = p.Skew
		for _, o := range p.Members {
			if o.Skewed {
				got[o.ID] = o.Skew
			}
		}
		return got
	}
	a.await("the leader knows all clocks", func() bool {
		a.hands(a.servers[0])
		got := skews(a.servers[0])
		return len(got) == 3 && got[ids[0]] == 0 && got[ids[1]] == 2*time.Hour &&
			got[ids[2]] == -5*time.Second
	})
	a.await("a follower knows its own clock", func() bool {
		a.hands(a.servers[0])
		term := a.term()
		got := skews(a.servers[1])
		if a.servers[1].role() != commands.Follower || a.term() != term {
			return false
		}
		if len(got) != 1 || got[ids[1]] != 2*time.Hour {
			t.Errorf("a follower takes the clocks to be off by %v", got)
		}
		return true
	})
	a.leads(a.servers[1])
	a.await("another member's clock agrees", func() bool {
		a.hands(a.servers[1])
		return a.running(a.servers[1]).store.ClockGuard().Patience == -1
	})
}
