package member

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/commands"
	"keyp/consensus"
	"keyp/internal/testkit/await"
	"keyp/storage"
	"keyp/storage/datafile"
)

// TestJoin: a server founds a group with its keys. Others join, get the keys in a snapshot, and
// become voting members. All servers agree, even after all of them have lost power.
func TestJoin(t *testing.T) {
	r := newRing(t, 3)
	for i := range 50 {
		key := fmt.Sprint("before", i)
		if _, ok := r.servers[0].process().set(key, key); !ok {
			t.Fatal("a server that is alone does not write")
		}
		r.model[key] = key
	}
	r.join()
	r.agree()
	if got := r.servers[0].process().m.Progress().Snapshot; got.Sent < 2 {
		t.Errorf("two members have joined, and the snapshots are %+v", got)
	}
	r.fill("k", 100)
	r.agree()
	r.blackout()
	r.agree()
	r.fill("l", 10)
	r.agree()
}

// blackout cuts the power of all servers at about the same time, and starts them again.
func (r *ring) blackout() {
	for _, s := range r.servers {
		s.kill()
	}
	for _, s := range r.servers {
		s.start()
	}
}

// restarted waits until a server has started more often than in before.
func (r *ring) restarted(s *server, before map[string]int) {
	r.t.Helper()
	r.await("the server starts again", func() bool { return r.starts()[s.name] > before[s.name] })
}

// another waits until a server other than the given one leads.
func (r *ring) another(than *server) (s *server) {
	r.t.Helper()
	r.await("another member leads", func() bool {
		for _, s = range r.others(than) {
			if s.role() == commands.Leader {
				return true
			}
		}
		return false
	})
	return s
}

// TestCutOff: a leader that was cut off restarts. It loses the writes that the others do not have,
// and gets the writes of the others.
func TestCutOff(t *testing.T) {
	tries(t, func(r *ring) bool {
		old := r.leader()
		before, p := r.starts(), r.running(old)
		r.isolate(old)
		_, ok := p.set("lost", "1")
		r.another(old)
		r.fill("l", 10)
		r.cut(nil)
		if ok {
			r.restarted(old, before)
		}
		r.agree()
		return ok
	})
}

// tries repeats a test at most 20 times, until try returns true. try returns false if the leader
// has lost its lead by itself, as can happen on a busy machine.
func tries(t *testing.T, try func(r *ring) bool) {
	t.Helper()
	for range 20 {
		r := newGroup(t, 3)
		r.fill("k", 10)
		if try(r) || t.Failed() {
			return
		}
		r.close()
	}
	t.Fatal("no leader has lived long enough")
}

// TestNeverProposed: a leader that is deposed before it has proposed a batch restarts.
func TestNeverProposed(t *testing.T) {
	tries(t, func(r *ring) bool {
		old := r.leader()
		before, p := r.starts(), r.running(old)
		p.loop.call(func() { p.loop.lazy = true })
		if _, ok := p.set("lost", "1"); !ok {
			return false // and it may lead again, and would commit nothing
		}
		r.isolate(old)
		r.another(old)
		r.restarted(old, before) // it has not heard the others
		r.cut(nil)
		r.fill("l", 10)
		r.agree()
		return true
	})
}

// TestCommittedByOthers: a deposed leader does not restart if the next leader commits its entries.
func TestCommittedByOthers(t *testing.T) {
	tries(t, func(r *ring) bool {
		old := r.leader()
		id, term := old.status().ID, old.status().Term
		before, p := r.starts(), r.running(old)
		// Its entries reach the others, but the leader does not get their replies.
		r.cut(func(m *consensus.Message) bool { return m.Raft.GetTo() == id })
		_, ok := p.set("x", "1")
		now := r.another(old)
		next := now.status().Term == term+1
		r.cut(nil)
		r.fill("l", 10)
		r.agree()
		if _, has := old.content()["x"]; !ok || !has || !next {
			return false // the entry did not reach the new leader
		}
		got := r.starts()
		if r.term() != term+1 {
			return false // there was another election, so the old leader may have restarted
		}
		if !maps.Equal(got, before) {
			t.Errorf("servers have started %v times instead of %v", got, before)
		}
		return true
	})
}

// TestTentativeTwice: a leader is deposed, elected again without committing anything, and deposed
// again. Its first writes must still count as tentative.
func TestTentativeTwice(t *testing.T) {
	tries(t, func(r *ring) bool {
		old := r.leader()
		id, p := old.status().ID, r.running(old)
		before := r.starts()
		none := func(*consensus.Message) bool { return true }
		r.cut(none)
		if _, ok := p.set("lost", "1"); !ok {
			r.cut(nil)
			return false
		}
		r.await("the leader is deposed", func() bool {
			return old.process() != p || p.m.Status().Role == commands.Tentative
		})
		if old.process() != p { // it was deposed before it could propose that
			r.cut(nil)
			return false
		}
		// The others get its votes and no other messages, and have fewer entries.
		r.cut(func(m *consensus.Message) bool {
			switch m.Raft.GetType() {
			case pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgVote, pb.MsgVoteResp:
				return m.Raft.GetFrom() != id && m.Raft.GetTo() != id
			}
			return true
		})
		r.await("the leader is elected again", func() bool {
			return p.m.Status().Role == commands.Rising
		})
		r.cut(none)
		r.await("the leader is deposed again", func() bool {
			return p.m.Status().Role != commands.Rising
		})
		if got := p.m.Status().Role; got != commands.Tentative {
			t.Errorf("the role is %s", got)
		}
		r.isolate(old)
		r.another(old)
		r.fill("l", 10)
		r.cut(nil)
		r.restarted(old, before)
		r.agree()
		return true
	})
}

// TestTransfer: a leader that hands over its lead loses no write, and no server starts again.
func TestTransfer(t *testing.T) {
	r := newGroup(t, 3)
	stop := make(chan struct{})
	acked := make(chan int)
	var some atomic.Bool // was acknowledged
	go func() {          // writes all the time
		n := 0
		defer func() { acked <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			s := r.anyLeader()
			if s == nil {
				continue
			}
			p := s.process()
			if p == nil {
				continue
			}
			lsn, ok := p.set(fmt.Sprint("x", n), "1")
			if ok && await.Reached(func() bool {
				return p.m.Status().Role != commands.Leader || p.store.Log().Durable() >= lsn
			}) && p.store.Log().Durable() >= lsn {
				n++
				some.Store(true)
			}
		}
	}()
	clean, tried := 0, 0
	r.await("a transfer, and a write", func() bool {
		from := r.leader()
		to := r.others(from)[0]
		p := to.process()
		if p == nil {
			return false
		}
		term, before := r.term(), r.starts()
		got := make(chan error, 1)
		p.m.Failover(false, func(err error) { got <- err })
		err := await.For(t, "the transfer", got)
		now := r.starts()
		// On a busy machine a leader may also have been deposed by itself.
		if err == nil && r.term() == term+1 && p.m.group.Status().Leading {
			if !maps.Equal(now, before) {
				t.Errorf("servers have started %v times instead of %v", now, before)
			}
			clean++
		}
		tried++
		return clean > 0 && some.Load() && (clean >= 5 || tried >= 50)
	})
	close(stop)
	n := await.For(t, "the writer's end", acked)
	r.agree()
	var have map[string]string
	r.await("a server has all", func() bool { have = r.servers[0].content(); return have != nil })
	for i := range n {
		if have[fmt.Sprint("x", i)] != "1" {
			t.Errorf("the write %d was acknowledged, and is lost", i)
		}
	}
}

// TestParts: a batch longer than an entry is replicated, with other entries between its parts.
func TestParts(t *testing.T) {
	r := newGroup(t, 3)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { // entries that have no batches, one after the other
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if s := r.anyLeader(); s != nil {
				if p := s.process(); p != nil {
					me := *p.m.Status().Me()
					_ = p.m.propose(p.m.ctx, &me) // another one may lead by now
				}
			}
		}
	}()
	for i := range 2 {
		r.write(fmt.Sprint("big", i), strings.Repeat(fmt.Sprint(i), 3<<20+i))
		r.write(fmt.Sprint("small", i), "1")
	}
	close(stop)
	await.For(t, "the end of entries", ended)
	r.agree()
	r.blackout()
	r.agree()
}

// TestPartsCut: a leader ends when the others have only some parts of a batch.
func TestPartsCut(t *testing.T) {
	tries(t, func(r *ring) bool {
		old := r.leader()
		before, id := r.starts(), old.status().ID
		cut := false // ring.mu guards it
		r.cut(func(m *consensus.Message) bool {
			from := m.Raft.GetFrom() == id
			for _, e := range m.Raft.Entries {
				if d := e.Data; from && len(d) > partHeader && d[0] == partTag &&
					le.Uint64(d[17:]) >= 2<<20 {
					cut = true
				}
			}
			return cut && (from || m.Raft.GetTo() == id)
		})
		p := r.running(old)
		_, ok := p.set("lost", strings.Repeat("v", 8<<20))
		parts := false
		r.await("others have parts, or the leader was deposed before", func() bool {
			r.mu.Lock()
			parts = cut
			r.mu.Unlock()
			return parts || !ok || old.process() != p || !p.m.group.Status().Leading
		})
		if !parts {
			r.cut(nil)
			return false
		}
		r.another(old)
		r.write("big", strings.Repeat("w", 3<<20))
		r.write("small", "1")
		r.cut(nil)
		r.restarted(old, before)
		r.agree()
		r.blackout()
		r.agree()
		return true
	})
}

// truncated makes the leader's log begin after the last entry of a member that is away. It returns
// the leader and its term.
func (r *ring) truncated(away *server) (leader *server, term uint64) {
	r.t.Helper()
	last := uint64(0)
	for _, s := range r.others(away) {
		if p := s.process(); p != nil {
			last = max(last, p.m.group.Status().Last)
		}
	}
	for i := 0; ; i++ {
		r.fill(fmt.Sprint("t", i, "-"), 20)
		leader = r.leader()
		p := r.running(leader)
		// A checkpoint is abandoned if another member becomes the leader.
		if err := p.store.Checkpoint(); err == nil && p.m.journal.log.Begin().Index > last {
			if st := p.m.group.Status(); st.Leading {
				return leader, st.Term
			}
		}
	}
}

// TestTruncated: a member that was away for longer than the log is kept takes a snapshot.
func TestTruncated(t *testing.T) {
	r := newRing(t, 3)
	r.keptLog = 1
	for _, s := range r.servers { // with that
		s.kill()
		s.start()
	}
	r.join()
	away := r.others(r.leader())[0]
	r.await("three times", func() func() bool {
		round := 0
		return func() bool {
			away.kill()
			_, term := r.truncated(away)
			r.fill(fmt.Sprint("l", round, "-"), 20)
			before := r.starts()
			away.start()
			r.agree()
			got := r.starts()[away.name]
			if r.term() != term {
				return false // another one leads, whose log may go back further
			}
			if got < before[away.name]+2 {
				t.Errorf(
					"round %d: the member has started %d times, and %d before: it took no snapshot",
					round, got, before[away.name])
			}
			round++
			return round == 3
		}
	}())
}

// TestCheckpointBetween: a checkpoint starts when a batch is in a follower's log but not yet in its
// store.
func TestCheckpointBetween(t *testing.T) {
	r := newGroup(t, 3)
	r.fill("k", 5)
	for round := range 5 {
		s := r.others(r.leader())[0]
		p := r.running(s)
		key := fmt.Sprint("held", round)
		r.write(key, "before")
		r.agree()
		txn := p.store.NewTxn()
		if err := p.store.BeginBeside(txn, []storage.Key{p.store.Key(0, []byte(key))}); err != nil {
			t.Fatal(err)
		}
		saved := make(chan error, 1)
		go func() { saved <- p.store.Checkpoint() }()
		// If the follower becomes the leader meanwhile, its loop waits for the transaction.
		follows := func() bool { return s.process() == p && p.m.Status().Role == commands.Follower }
		r.await("a checkpoint begins", func() bool {
			return p.store.Checkpointing() || len(saved) > 0 || !follows()
		})
		r.await("the batch is in the follower's log", func() bool {
			if l := r.anyLeader(); l != nil && l != s {
				if q := l.process(); q != nil {
					q.set(key, "after")
				}
			}
			return !follows() || p.m.journal.Durable() > p.store.Applied()
		})
		txn.End()
		r.write(key, "after")
		// If the member's role changes, the next checkpoint is good enough.
		_ = await.For(t, "the checkpoint", saved)
		s.kill()
		s.start()
		r.agree()
	}
}

// TestLeaderGoneDuringSnapshot: the leader ends while another member takes its snapshot. This
// member votes again, and the others go on.
func TestLeaderGoneDuringSnapshot(t *testing.T) {
	r := newRing(t, 3)
	r.keptLog = 1
	dies := make(chan *server, 1) // the member to kill while it sends a snapshot; buffered
	for _, s := range r.servers {
		s.kill()
		s.options = func(o *storage.Options) {
			o.Testing.OnStep = func(at datafile.Step) error {
				if at == datafile.StepPiece {
					select {
					case victim := <-dies:
						if victim == s {
							go s.kill() // which waits for this call's end
							return errDead
						}
						dies <- victim
					default:
					}
				}
				return nil
			}
		}
		s.start()
	}
	r.join()
	away := r.others(r.leader())[0]
	var sender *server
	var before map[string]int
	r.await("the leader is gone", func() bool {
		away.kill()
		var term uint64
		sender, term = r.truncated(away)
		dies <- sender
		before = r.starts()
		away.start()
		r.await("it sends a snapshot, or another one leads", func() bool {
			return len(dies) == 0 || r.term() != term
		})
		select {
		case <-dies: // it has sent none
			return false
		default:
			return true
		}
	})
	r.await("the leader is gone", func() bool { return sender.process() == nil })
	r.fill("m", 10) // by those who are left
	sender.kill()   // should it have started again by itself
	sender.start()
	r.agree()
	if got := r.starts()[away.name]; got < before[away.name]+1 {
		t.Errorf("the member has started %d times", got)
	}
}

// TestWaits: the leader can wait until members have an entry on their disks, and until its lead is
// confirmed. Each wait ends with exactly one call.
func TestWaits(t *testing.T) {
	tries(t, func(r *ring) bool {
		s := r.leader()
		p, term := r.running(s), s.status().Term
		lsn, ok := p.set("x", "1")
		if !ok {
			return false
		}
		steady := func() bool { return p.m.leads(term) && s.process() == p }
		wait := func(start func(done func()) (stop func())) chan int {
			got, n := make(chan int, 2), 0
			start(func() { n++; got <- n })
			return got
		}
		for _, members := range []int{0, 1, 2} {
			got := wait(func(done func()) func() { return p.m.AwaitSynced(lsn, members, done) })
			await.For(t, "members have a write", got)
			if n := p.m.Synced(lsn); n < members && steady() {
				t.Errorf("%d members have it, instead of %d", n, members)
			}
		}
		if n := p.m.Synced(0); n != 2 && steady() {
			t.Errorf("%d members have nothing", n)
		}
		if n := p.m.Synced(p.store.Log().End() + 1); n != 0 {
			t.Errorf("%d members have what nobody has", n)
		}
		answer := make(chan bool, 2)
		p.m.Confirm(term, func(leads bool) { answer <- leads })
		if !await.For(t, "a majority confirms", answer) && steady() {
			t.Error("the leader is not confirmed")
		}
		p.m.Confirm(term-1, func(leads bool) { answer <- leads })
		if await.For(t, "the answer about another term", answer) {
			t.Error("a leader is confirmed in a term before it led")
		}
		r.await("the leader has the lease", func() bool { return !steady() || p.m.Leased(term) })
		if !steady() {
			return false
		}
		// All other members are cut off.
		r.cut(func(*consensus.Message) bool { return true })
		synced := wait(func(done func()) func() { return p.m.AwaitSynced(lsn+1<<40, 1, done) })
		never := make(chan int, 1)
		p.m.AwaitSynced(lsn+1<<40, 1, func() { never <- 1 })()
		p.m.Confirm(term, func(leads bool) { answer <- leads })
		r.await("it does not lead any more", func() bool { return !p.m.leads(term) })
		if await.For(t, "no majority confirms", answer) || p.m.Leased(term) {
			t.Error("a leader that is cut off is confirmed, or has a lease")
		}
		await.For(t, "the end of the wait", synced)
		select {
		case <-never:
			t.Error("a wait that was stopped has ended")
		case n := <-synced:
			t.Errorf("the function was called %d times", n)
		default:
		}
		r.cut(nil)
		r.agree()
		return true
	})
}

// TestSettledSurvives: after all members have lost power, the log still marks everything in a
// checkpoint as committed. This includes a last write that became committed only after the
// checkpoint had begun.
func TestSettledSurvives(t *testing.T) {
	noted := 0
	for round := 0; noted < 3; round++ {
		if round == 20 {
			t.Fatal("no leader has lived long enough")
		}
		r := newGroup(t, 3)
		r.fill("k", 10)
		s := r.leader()
		p := r.running(s)
		r.agree()
		r.cut(func(m *consensus.Message) bool { return m.Raft.GetType() == pb.MsgApp })
		if _, ok := p.set("last", "1"); ok {
			r.model["last"] = "1"
		}
		saved := make(chan error, 1)
		go func() { saved <- p.store.Checkpoint() }()
		r.await("a checkpoint has begun", func() bool {
			return s.process() != p || p.store.Checkpointing() || len(saved) > 0
		})
		r.cut(nil)
		if err := await.For(t, "the checkpoint", saved); err == nil {
			// Otherwise another member has become the leader.
			noted++
		}
		r.blackout() // a store refuses to open that has more than its log
		r.await("all have started", func() bool {
			return !slices.ContainsFunc(r.servers, func(s *server) bool {
				return s.process() == nil
			})
		})
		delete(r.model, "last")
		r.write("last", "2")
		r.agree()
		r.close()
	}
}
