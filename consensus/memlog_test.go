package consensus

import (
	"math/rand/v2"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// image is the content of a log.
type image struct {
	base    Base
	hard    *pb.HardState
	entries []*pb.Entry
}

func (im *image) last() uint64 { return im.base.Index + uint64(len(im.entries)) }

// term returns an entry's term, and false if the entry is not there. Entries before the base count
// as there, with any term.
func (im *image) term(index uint64) (term uint64, ok bool) {
	switch {
	case index < im.base.Index || index > im.last():
		return 0, false
	case index == im.base.Index:
		return im.base.Term, true
	default:
		return im.entries[index-im.base.Index-1].GetTerm(), true
	}
}

// has reports whether an entry is there, or is covered by the base.
func (im *image) has(index, term uint64) bool {
	t, ok := im.term(index)
	return index < im.base.Index || ok && t == term
}

// change is a call of Append or compact.
type change struct {
	Write
	upTo *Base // entries up to this one go
}

func (im *image) apply(c change) {
	if c.upTo != nil {
		if c.upTo.Index > im.base.Index {
			im.entries = append([]*pb.Entry(nil), im.entries[c.upTo.Index-im.base.Index:]...)
			im.base = *c.upTo
		}
		return
	}
	if c.Base != nil {
		im.base, im.entries = *c.Base, nil
	}
	if c.Hard != nil {
		im.hard = c.Hard
	}
	if len(c.Entries) > 0 {
		at := c.Entries[0].GetIndex() - im.base.Index - 1
		im.entries = append(im.entries[:at:at], c.Entries...)
	}
}

// SimDisk is a member's log in the simulation, with access to the content of its disk.
type SimDisk interface {
	Log
	// Begin is called at each start of the process. later schedules the end of a sync. snapshot
	// implements Snapshot.
	Begin(later func(f func()), snapshot func() (*pb.Snapshot, error))
	// Vote returns the term and vote on disk, and Saved the index of the last entry there. Has
	// reports whether an entry is on disk or is covered by the base there.
	Vote() (term, vote uint64)
	Saved() uint64
	Has(index, term uint64) bool
	// Compact makes the log begin later: after the entry older, or after a later one up to now. The
	// machine has everything up to now on disk.
	Compact(older, now Base)
	// Fail makes the next sync fail, and Failing reports whether it will.
	Fail(err error)
	Failing() bool
	// Crash returns the disk after a crash: with all synced data, and a random part of the rest.
	Crash(random *rand.Rand) SimDisk
}

// memLog is a Log on a simulated disk. A crash loses unsynced data, or a part of it.
type memLog struct {
	now, disk image
	changes   []change // since the last sync
	// later runs the end of a sync when the disk has the data. If it is nil, a sync ends at once.
	later    func(f func())
	snapshot func() (*pb.Snapshot, error)
	fails    error // of the next sync
	syncs    int
}

func newMemDisk(base Base, _ *rand.Rand) SimDisk { return newMemLog(base) }

func newMemLog(base Base) *memLog {
	im := image{base: base, hard: &pb.HardState{}}
	return &memLog{now: im, disk: im}
}

func (l *memLog) Hard() *pb.HardState {
	h := l.now.hard
	return &pb.HardState{Term: new(h.GetTerm()), Vote: new(h.GetVote()),
		Commit: new(min(h.GetCommit(), l.now.last()))}
}

func (l *memLog) Base() Base                      { return l.now.base }
func (l *memLog) Last() uint64                    { return l.now.last() }
func (l *memLog) Snapshot() (*pb.Snapshot, error) { return l.snapshot() }

func (l *memLog) Term(index uint64) (uint64, error) {
	term, ok := l.now.term(index)
	switch {
	case ok:
		return term, nil
	case index < l.now.base.Index:
		return 0, raft.ErrCompacted
	default:
		return 0, raft.ErrUnavailable
	}
}

func (l *memLog) Entries(lo, hi, maxSize uint64) (list []*pb.Entry, err error) {
	if hi > l.now.last()+1 {
		return nil, raft.ErrUnavailable
	}
	size := uint64(0)
	for i := lo; i < hi; i++ {
		e := l.now.entries[i-l.now.base.Index-1]
		if size += uint64(len(e.Data)) + 20; size > maxSize && len(list) > 0 {
			break
		}
		list = append(list, e)
	}
	return list, nil
}

func (l *memLog) Append(w Write) { l.do(change{Write: w}) }

func (l *memLog) Begin(later func(f func()), snapshot func() (*pb.Snapshot, error)) {
	l.later, l.snapshot = later, snapshot
}

func (l *memLog) Vote() (term, vote uint64) {
	return l.disk.hard.GetTerm(), l.disk.hard.GetVote()
}
func (l *memLog) Saved() uint64               { return l.disk.last() }
func (l *memLog) Has(index, term uint64) bool { return l.disk.has(index, term) }
func (l *memLog) Compact(older, _ Base)       { l.do(change{upTo: &older}) }
func (l *memLog) Fail(err error)              { l.fails = err }
func (l *memLog) Failing() bool               { return l.fails != nil }

func (l *memLog) do(c change) {
	l.now.apply(c)
	l.changes = append(l.changes, c)
}

func (l *memLog) Sync(done func(error)) {
	n := len(l.changes)
	end := func() {
		if l.fails != nil {
			done(l.fails)
			return
		}
		l.syncs++
		for _, c := range l.changes[:n] {
			l.disk.apply(c)
		}
		l.changes = l.changes[n:]
		done(nil)
	}
	if l.later == nil {
		end()
	} else {
		l.later(end)
	}
}

func (l *memLog) Crash(random *rand.Rand) SimDisk {
	im := l.disk
	im.entries = append([]*pb.Entry(nil), im.entries...)
	n := random.IntN(len(l.changes) + 1)
	for _, c := range l.changes[:n] {
		im.apply(c)
	}
	if n < len(l.changes) && random.IntN(2) == 0 {
		torn := l.changes[n]
		torn.Entries = torn.Entries[:random.IntN(len(torn.Entries)+1)]
		im.apply(torn)
	}
	after := &memLog{now: im, disk: im}
	after.disk.entries = append([]*pb.Entry(nil), im.entries...)
	return after
}
