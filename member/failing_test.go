package member

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/commands"
	"keyp/consensus"
	"keyp/internal/testkit"
	"keyp/internal/vfs"
)

// failing is a group in which the disk of one member fails.
type failing struct {
	*ring
	victim *server
	p      *process // of the victim
}

// breaks makes all operations of a kind on a server's log fail from now on, as on a broken disk.
// The test fails if the server then sends anything that requires a sync. If away is not nil, that
// member is cut off, so that there is no majority without the victim.
func (r *ring) breaks(victim *server, op vfs.Op, away *server) *failing {
	f := &failing{r, victim, r.running(victim)}
	victim.failed = make(chan error, 1)
	id := victim.status().ID
	third := uint64(0)
	if away != nil {
		third = away.status().ID
	}
	hook := vfs.Hook(func(got vfs.Op, _ string, _ int64, n int) error {
		switch {
		case got != op:
			return nil
		case op == vfs.OpWrite:
			return &vfs.ShortWrite{N: n / 2, Err: syscall.EIO}
		}
		return syscall.EIO
	})
	f.p.disk.fails.Store(&hook)
	log := f.p.m.journal.log
	// A message that was sent before this may arrive later. It reports only entries that were
	// synced by then.
	synced, term := log.SyncedIndex(), log.Hard().GetTerm()
	r.cut(func(m *consensus.Message) bool {
		x := m.Raft
		if x.GetFrom() == id && !x.GetReject() {
			switch now := max(synced, log.SyncedIndex()); {
			case x.GetType() == pb.MsgAppResp && x.GetIndex() > now:
				r.t.Errorf("the member whose disk fails says that it has entry %d, and has synced entry %d",
					x.GetIndex(), now)
			case x.GetType() == pb.MsgVoteResp && x.GetTerm() > term:
				r.t.Errorf("the member whose disk fails has voted in term %d", x.GetTerm())
			}
		}
		return x.GetFrom() == third || x.GetTo() == third
	})
	return f
}

// ends waits until the victim has failed. It checks that the victim reports the reason and no
// longer takes part in the group. The victim loses unsynced data.
func (f *failing) ends() {
	f.t.Helper()
	f.await("the member fails", func() bool {
		return len(f.victim.failed) > 0 || f.victim.process() != f.p
	})
	if f.victim.process() != f.p {
		// The other members elected another leader first, so the victim has started again with a
		// working disk.
		f.victim.kill()
		return
	}
	err := <-f.victim.failed
	if !strings.Contains(err.Error(), syscall.EIO.Error()) || f.p.store.Err() == nil {
		f.t.Errorf("the store has failed with %v, and says %v", err, f.p.store.Err())
	}
	f.await("the member takes part no more", func() bool {
		return f.p.m.group.Status().Ended != nil
	})
	st := f.p.m.group.Status()
	if st.Leading || f.p.m.Leased(st.Term) {
		f.t.Errorf("the member has failed, and leads: %+v", st)
	}
	before := f.p.store.Log().Durable()
	if lsn, ok := f.p.set("after", "1"); ok && f.p.store.Log().Durable() >= lsn {
		f.t.Error("a member that has failed acknowledges a write")
	}
	if now := f.p.store.Log().Durable(); now != before {
		f.t.Errorf(
			"a member that has failed acknowledges what it has run up to %d, which was %d before",
			now, before)
	}
	f.ring.lines.mu.Lock()
	if text := f.ring.lines.mu.String(); !strings.Contains(text,
		"the store has failed and accepts no more writes") ||
		!strings.Contains(text, "input/output error") {
		f.t.Error("the log does not say that the disk has failed")
	}
	f.ring.lines.mu.Unlock()
	f.victim.kill()
}

// repaired restarts the victim with a working disk, and checks that all servers agree.
func (f *failing) repaired() {
	f.t.Helper()
	f.victim.failed = nil
	f.cut(nil)
	f.victim.start()
	f.agree()
}

// broken are the operations that fail.
var broken = []vfs.Op{vfs.OpSync, vfs.OpWrite}

// TestDiskOfFollowerFails: a follower whose log can no longer be written or synced reports that and
// ends. It acknowledges only entries that it has, and the group continues.
func TestDiskOfFollowerFails(t *testing.T) {
	r := newGroup(t, 3)
	for i, op := range broken {
		for _, needed := range []bool{false, true} {
			tag := fmt.Sprint(op, needed)
			leader := r.leader()
			others := r.others(leader)
			victim, third := others[i%2], others[1-i%2]
			r.fill(tag, 5)
			if !needed {
				f := r.breaks(victim, op, nil)
				r.fill("beside "+tag, 5) // by two of three
				f.ends()
				r.fill("without "+tag, 5)
				f.repaired()
				continue
			}
			r.agree()
			p := r.running(leader)
			f := r.breaks(victim, op, third)
			lsn, ok := p.set("x"+tag, "1")
			f.ends()
			if ok && p.store.Log().Durable() >= lsn {
				t.Errorf("%s: a write is acknowledged that one disk has", tag)
			}
			f.repaired() // the write may have been taken over, or not
		}
	}
}

// TestDiskOfLeaderFails: a leader whose log can no longer be written or synced reports that, stops
// leading and acknowledges nothing. Another member leads, with everything acknowledged before.
func TestDiskOfLeaderFails(t *testing.T) {
	r := newGroup(t, 3)
	for _, op := range broken {
		for _, cut := range []bool{false, true} {
			tag := fmt.Sprint(op, cut)
			r.fill(tag, 5)
			r.agree()
			old := r.leader()
			p := r.running(old)
			var third *server
			if cut {
				third = r.others(old)[0]
			}
			f := r.breaks(old, op, third)
			lsn, ok := p.set("x"+tag, "1")
			f.ends()
			if acked := ok && p.store.Log().Durable() >= lsn; acked && cut {
				t.Errorf("%s: a write is acknowledged that one disk has", tag)
			} else if acked { // both others have it
				r.model["x"+tag] = "1"
			}
			r.cut(nil)
			r.another(old)
			r.fill("without "+tag, 5)
			f.repaired()
		}
	}
}

// TestDiskFailsAtVote: a member whose disk fails while it votes for another member or for itself
// reports that and ends. Its vote does not count, so no member leads where its vote is needed.
func TestDiskFailsAtVote(t *testing.T) {
	r := newGroup(t, 3)
	for i, op := range broken {
		r.fill(fmt.Sprint(op), 5)
		r.agree()
		old := r.leader()
		others := r.others(old)
		victim, third := others[i%2], others[1-i%2]
		f := r.breaks(victim, op, nil)
		old.kill()
		term := r.term() // a member may have been elected in it with the old leader's vote
		f.ends()
		if third.role() == commands.Leader && r.running(third).m.group.Status().Term > term {
			t.Errorf("%s: a member leads with its own vote alone", op)
		}
		old.start()
		r.another(victim)
		r.fill(fmt.Sprint("without ", op), 5)
		f.repaired()
	}
}

// TestDisksFail: the disk of one member after the other fails at some operation, while writes go
// on. All acknowledged writes are there in the end.
func TestDisksFail(t *testing.T) {
	r := newGroup(t, 3)
	kinds := []vfs.Op{vfs.OpWrite, vfs.OpSync, vfs.OpCreate, vfs.OpSyncDir, vfs.OpRename}
	if testkit.Long() {
		kinds = slices.Repeat(kinds, 8)
	}
	for i, op := range kinds {
		leader := r.leader()
		victim := leader
		if i%2 == 1 {
			victim = r.others(leader)[i/2%2]
		}
		victim.failed = make(chan error, 1)
		left := atomic.Int64{}
		left.Store(int64(3 * i % 7))
		hook := vfs.Hook(func(got vfs.Op, _ string, _ int64, n int) error {
			if got != op || left.Add(-1) >= 0 {
				return nil
			}
			if op == vfs.OpWrite {
				return &vfs.ShortWrite{N: n / 3, Err: syscall.EIO}
			}
			return syscall.EIO
		})
		n := 0
		r.await(fmt.Sprint("the member fails: ", op), func() bool {
			// Segments end after some writes. On a busy machine a leader may be deposed. It then
			// starts again, as a process with a new disk.
			if p := victim.process(); p != nil {
				p.disk.fails.Store(&hook)
			}
			if s := r.anyLeader(); s != nil {
				if q := s.process(); q != nil {
					q.set(fmt.Sprint("x", i, "-", n), strings.Repeat("v", 8<<10))
					n++
				}
			}
			select {
			case err := <-victim.failed:
				if !strings.Contains(err.Error(), syscall.EIO.Error()) {
					t.Errorf("%s: %v", op, err)
				}
				return true
			default:
				return false
			}
		})
		victim.kill()
		r.fill(fmt.Sprint("without", i, "-"), 5)
		victim.failed = nil
		victim.start()
		r.agree()
	}
}
