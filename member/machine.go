package member

import (
	"context"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/commands"
	"keyp/consensus"
)

// quickBytes bounds the bytes of entries that are applied on the goroutine that delivers them.
// Larger amounts are applied on another goroutine.
const quickBytes = 256 << 10

// task is a piece of work in the queue. waits means that it may wait for the server's loop or for
// the disk.
type task struct {
	run   func()
	waits bool
}

// tasks is the queue of work, done one task at a time.
type tasks struct {
	mu struct {
		sync.Mutex
		list []task
		busy bool
	}
}

// do queues a task. It runs the task itself if the queue is empty and the task need not wait.
func (m *Member) do(t task) {
	m.queue.mu.Lock()
	m.queue.mu.list = append(m.queue.mu.list, t)
	if m.queue.mu.busy {
		m.queue.mu.Unlock()
		return
	}
	m.queue.mu.busy = true
	m.queue.mu.Unlock()
	m.work(false)
}

// work runs the tasks in the queue. own means that the calling goroutine may wait.
func (m *Member) work(own bool) {
	for {
		m.queue.mu.Lock()
		if len(m.queue.mu.list) == 0 || m.ctx.Err() != nil {
			m.queue.mu.busy = false
			m.queue.mu.Unlock()
			return
		}
		next := m.queue.mu.list[0]
		if next.waits && !own {
			m.queue.mu.Unlock()
			m.done.Go(func() { m.work(true) })
			return
		}
		m.queue.mu.list = m.queue.mu.list[1:]
		m.queue.mu.Unlock()
		next.run()
	}
}

// setFollower changes the store's role and waits until that is done. It returns false if ctx has
// ended before.
func (m *Member) setFollower(ctx context.Context, on bool) bool {
	done := make(chan struct{})
	m.host.SetFollower(ctx, on, func() { close(done) })
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// machine is the consensus.Machine.
type machine struct{ m *Member }

// Led, Elected, Deposed, Committed, Replaced, Apply, Restore and Failed implement
// consensus.Machine.
func (x machine) Led(term, leader uint64) {
	x.m.do(task{run: func() {
		x.m.become(func() {
			x.m.mu.term, x.m.mu.leader = term, leader
			x.m.gone.Store(0)
		})
	}})
}

func (x machine) Elected(term, first uint64) {
	m := x.m
	m.mu.Lock()
	m.mu.rises = first
	m.mu.Unlock()
	m.do(task{run: func() {
		m.become(func() {
			m.mu.role, m.mu.leading, m.mu.first = commands.Rising, term, first
			m.mu.elected++
		})
	}})
}

func (x machine) Deposed(term, committed uint64) {
	m := x.m
	m.mu.Lock()
	if m.mu.role.Leads() && m.mu.leading == term {
		m.mu.role = commands.Tentative
	}
	m.mu.rises = 0
	m.mu.Unlock()
	m.journal.depose(term)
	m.publish()
	m.do(task{run: func() { m.deposed(term) }, waits: true})
}

// deposed makes the store a follower's, and restarts the process if a write of this leader is lost.
func (m *Member) deposed(term uint64) {
	var led bool
	m.become(func() {
		led = m.mu.led
		m.mu.first, m.mu.leading, m.mu.led = 0, 0, false
		m.mu.role = commands.Tentative
	})
	if !led { // it has written nothing in this term, but it may be tentative from an earlier one
		m.certain()
		return
	}
	m.o.Logger.Info("this server leads the group no more", "term", term)
	if !m.setFollower(m.ctx, true) {
		return
	}
	lost, last := m.journal.follow()
	if lost {
		m.rebuild(
			"what it ran last was not proposed before it was deposed, or others have replaced that")
		return
	}
	m.mu.Lock()
	m.mu.last = last
	m.mu.Unlock()
	m.certain()
}

// certain makes a tentative member a follower, once everything that it has proposed is committed.
func (m *Member) certain() {
	m.journal.mu.Lock()
	committed := m.journal.mu.commit
	m.journal.mu.Unlock()
	m.mu.Lock()
	over := m.mu.role == commands.Tentative && m.mu.leading == 0 && committed >= m.mu.last
	if over {
		m.mu.role, m.mu.last = commands.Follower, 0
	}
	m.mu.Unlock()
	if over {
		m.publish()
	}
}

func (x machine) Committed(index uint64) {
	m := x.m
	m.journal.advance(index)
	if m.status.Load().Role == commands.Tentative {
		m.do(task{run: m.certain})
	}
}

func (x machine) Replaced(from uint64) {
	m := x.m
	// The journal must know this at once, because the next committed entries have the indexes of
	// the replaced ones. The tasks in the queue may wait for the server's loop.
	if m.journal.replaced(from) {
		m.do(task{waits: true, run: func() {
			m.rebuild("others have replaced what it ran last", "from", from)
		}})
	}
}

func (x machine) Apply(a consensus.Applying, done func()) {
	size := 0
	for _, e := range a.Entries {
		size += len(e.Data)
	}
	m := x.m
	m.mu.Lock()
	m.mu.reread = true
	last := a.Entries[len(a.Entries)-1]
	rises := m.mu.rises != 0 && last.GetIndex() >= m.mu.rises
	if rises {
		m.mu.rises = 0
	}
	m.mu.Unlock()
	// A rising member begins to lead in this task, which needs the loop. Elected was called before,
	// but its task may not have run yet.
	m.do(task{waits: size > quickBytes || rises, run: func() {
		if m.apply(a) {
			m.lead(done)
			return
		}
		done()
		m.journal.room()
	}})
}

// apply applies entries, and reports whether this member must lead now.
func (m *Member) apply(a consensus.Applying) (leads bool) {
	for _, e := range a.Entries {
		if err := m.mu.stream.take(e, func(lsn uint64, batch []byte) error {
			if lsn <= m.journal.End() {
				return nil // this member has run it, or the snapshot has it
			}
			m.journal.applied(e.GetIndex(), lsn)
			return m.mirror.Apply(lsn, batch)
		}, m.joins); err != nil {
			m.o.Logger.Error("an entry of the group cannot be applied", "index", e.GetIndex(),
				"term", e.GetTerm(), "error", err)
			m.rebuild("an entry could not be applied")
			return false
		}
	}
	last := a.Entries[len(a.Entries)-1]
	changed := slices.ContainsFunc(a.Entries, func(e *pb.Entry) bool {
		return e.GetType() != pb.EntryNormal || len(e.Data) > 0 && e.Data[0] == memberTag
	})
	m.passed(consensus.Base{Index: last.GetIndex(), Term: last.GetTerm(), Conf: a.Conf})
	if slices.ContainsFunc(a.Entries, func(e *pb.Entry) bool {
		return e.GetType() != pb.EntryNormal
	}) {
		m.do(task{waits: true, run: func() { m.remember(last.GetIndex()) }})
	}
	if changed {
		m.regroup(a.Conf)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.role == commands.Joining {
		m.mu.role = commands.Follower
	}
	return m.mu.first != 0 && last.GetIndex() >= m.mu.first
}

// remember writes to disk that a change of members is committed, because otherwise nothing might be
// written for a long time. After a crash of all members, the change would then be an uncommitted
// entry, and the group might need a removed member for a majority.
func (m *Member) remember(index uint64) {
	if err := m.journal.log.Settled(m.ctx, m.journal.log.SaveCommit(index)); err != nil {
		m.o.Logger.Debug("a change of members is not on disk as committed", "index",
			index, "error", err)
	}
}

// regroup adopts a new configuration of the group.
func (m *Member) regroup(conf *pb.ConfState) {
	m.become(func() {
		was := m.mu.conf
		m.mu.conf = conf
		m.mu.members = slices.DeleteFunc(slices.Clone(m.mu.members), func(o commands.Member) bool {
			return o.ID != m.id.ID && isMember(was, o.ID) && !isMember(conf, o.ID)
		})
	})
	m.connect()
	if !isMember(conf, m.id.ID) {
		m.o.Logger.Warn("this server was removed from its group: it serves nothing any more. CLUSTER RESET makes it a server that is alone, without its keys")
	}
}

func isMember(c *pb.ConfState, id uint64) bool {
	return slices.Contains(c.GetVoters(), id) || slices.Contains(c.GetLearners(), id) ||
		slices.Contains(c.GetVotersOutgoing(), id) || slices.Contains(c.GetLearnersNext(), id)
}

// lead makes this member the leader.
func (m *Member) lead(done func()) {
	done()
	m.mu.Lock()
	term := m.mu.leading
	m.mu.Unlock()
	m.journal.lead(term)
	if !m.setFollower(m.ctx, false) {
		return
	}
	st := m.group.Status()
	m.become(func() {
		m.mu.first, m.mu.led = 0, true
		if st.Leading && st.Term == m.mu.leading { // otherwise the next task calls deposed
			m.mu.role = commands.Leader
		}
	})
	m.o.Logger.Info("this server leads the group", "term", m.status.Load().Term)
}

func (x machine) Restore(s *pb.Snapshot, done func(error)) {
	m := x.m
	m.do(task{waits: true, run: func() {
		m.restore(s.GetMetadata().GetIndex())
		done(context.Canceled) // Group.Close waits for that
	}})
}

// leaderGone is how long a leader may be silent before it counts as gone.
const leaderGone = 500 * time.Millisecond

// restore fetches a snapshot and executes the process again, or returns when the member stops.
// Meanwhile this member's consensus.Group writes nothing to its log, so the member cannot vote. So
// restore also executes the process again, without a snapshot, if the leader is gone.
func (m *Member) restore(index uint64) {
	for m.ctx.Err() == nil {
		err := m.fetch(index)
		switch {
		case err == nil:
			m.rebuild("it has a snapshot to go on from")
			return
		case m.ctx.Err() != nil:
			return
		case m.group.Status().Silent >= leaderGone:
			m.rebuild("the leader whose snapshot it was to take is gone", "error", err)
			return
		}
		m.o.Logger.Warn("a snapshot could not be fetched", "error", err)
		select {
		case <-time.After(retryPause):
		case <-m.ctx.Done():
		}
	}
}

func (x machine) Failed(err error) {
	if x.m.ctx.Err() != nil { // it stops
		return
	}
	x.m.o.Logger.Error("this member has failed", "error", err)
	x.m.fail(err)
}
