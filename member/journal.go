package member

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"keyp/consensus"
	"keyp/consensus/raftlog"
	"keyp/internal/histogram"
	"keyp/storage"
	"keyp/storage/wal"
)

// mostPending bounds the batches that the leader has appended and not proposed, in bytes. Beyond
// that the server waits. consensus.MaxUncommitted bounds the proposed ones.
const mostPending = 64 << 20

// keptSpans is how many entries the journal remembers with their positions even after they are
// committed, for Synced.
const keptSpans = 4096

// span is the position where an entry ends in the stream.
type span struct{ index, end uint64 }

// journal is the log of a member's store. At the leader, Commit proposes the batches of a pass as
// an entry; they are durable once that is committed. A follower's store appends nothing. Everything
// that it has applied is durable, because it is committed and on this disk.
type journal struct {
	m         *Member
	log       *raftlog.Log
	onDurable func(lsn uint64)
	onFail    func(error)
	durable   atomic.Uint64
	end       atomic.Uint64
	kick      chan struct{}

	mu struct {
		sync.Mutex
		changed sync.Cond
		leads   bool   // appended batches will be proposed
		term    uint64 // in which
		deposed uint64 // the newest term that is over: its batches are no longer proposed
		busy    bool   // a goroutine proposes
		more    bool   // and must look again for batches
		closed  bool
		gaveUp  bool
		pending []byte // room for the header of an entry, and batches, each behind its length
		sent    int    // up to where they are proposed
		part    int    // proposed bytes of the batch after sent
		start   uint64 // the position of the first batch after sent
		spans   []span
		commit  uint64 // index
		cut     uint64 // the first entry that others have replaced; 0: none
		lost    bool   // replaced entries had batches
	}
}

func newJournal(m *Member) *journal {
	j := &journal{m: m, kick: make(chan struct{}, 1)}
	j.mu.changed.L = &j.mu.Mutex
	j.mu.pending, j.mu.sent = make([]byte, batchesHeader), batchesHeader
	return j
}

// Append and other methods with the names of storage.Journal implement it.
func (j *journal) Append(batch []byte) uint64 { return j.AppendKeeping([][]byte{batch}) }

func (j *journal) AppendKeeping(pieces [][]byte) uint64 {
	length := 0
	for _, p := range pieces {
		length += len(p)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.pending = binary.AppendUvarint(j.mu.pending, uint64(length))
	for _, p := range pieces {
		j.mu.pending = append(j.mu.pending, p...)
	}
	return j.end.Add(frameSize(length))
}

// Commit proposes the pending batches, or leaves that to another goroutine that is proposing.
func (j *journal) Commit() error {
	j.propose()
	j.throttle()
	return nil
}

func (j *journal) propose() {
	for next := j.begin(); next.data != nil; {
		p, err := j.m.group.Propose(next.data)
		next = j.proposed(next, p.First, err)
		j.advance(0)
	}
}

// throttle waits while too much is pending because the others are slower than this server. If a
// majority is gone, the leader is deposed, and that ends the wait.
func (j *journal) throttle() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.mu.pending)-j.mu.sent > mostPending && j.mu.leads && !j.over() && !j.mu.gaveUp {
		j.mu.changed.Wait()
	}
}

// over reports whether the term is over in which this member leads. mu is locked.
func (j *journal) over() bool { return j.mu.deposed >= j.mu.term }

// depose ends the wait of the server's loop in throttle, because the next steps need the loop.
func (j *journal) depose(term uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.deposed = max(j.mu.deposed, term)
	j.mu.changed.Broadcast()
}

// begin returns the first entry to propose, unless another goroutine is proposing.
func (j *journal) begin() (next proposal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.busy {
		j.mu.more = true
		return next
	}
	next = j.next()
	j.mu.busy = next.data != nil
	return next
}

// proposed records the result of a proposal, and returns the next entry. After ErrFull, a later
// commit tries again. After another error, the machine is notified that the member is deposed.
func (j *journal) proposed(last proposal, index uint64, err error) (next proposal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		j.take(last, index)
		j.mu.changed.Broadcast()
	}
	if err == nil || j.mu.more {
		next = j.next()
	}
	if j.mu.more = false; next.data == nil {
		j.mu.busy = false
		j.mu.changed.Broadcast()
	}
	return next
}

// proposal is the next entry.
type proposal struct {
	data []byte
	size int // of the batches in it, or of the part
	part bool
	last bool // the part is the last one
}

// next returns the next entry; its data is nil if there is none. mu is locked.
func (j *journal) next() (next proposal) {
	b := j.mu.pending[j.mu.sent:]
	if len(b) == 0 || !j.mu.leads {
		return next
	}
	size := 0
	for size < len(b) {
		length, n := binary.Uvarint(b[size:])
		if end := size + n + int(length); end <= mostOfEntry && j.mu.part == 0 {
			size = end
			continue
		}
		if size == 0 {
			return j.nextPart(b[n : n+int(length)])
		}
		break
	}
	// The header overwrites proposed batches.
	data := j.mu.pending[j.mu.sent-batchesHeader : j.mu.sent+size]
	data[0] = batchesTag
	le.PutUint64(data[1:], j.mu.start)
	return proposal{data: data, size: size}
}

func (j *journal) nextPart(batch []byte) proposal {
	rest := batch[j.mu.part:]
	rest = rest[:min(len(rest), mostOfEntry)]
	data := append(make([]byte, 0, partHeader+len(rest)), partTag)
	for _, n := range [...]uint64{j.mu.start, uint64(len(batch)), uint64(j.mu.part)} {
		data = le.AppendUint64(data, n)
	}
	return proposal{data: append(data, rest...), size: len(rest), part: true,
		last: j.mu.part+len(rest) == len(batch)}
}

// take advances past a proposed entry. mu is locked.
func (j *journal) take(next proposal, index uint64) {
	switch {
	case next.part:
		if j.mu.part += next.size; !next.last {
			return
		}
		moved := int(frameSize(j.mu.part))
		j.mu.part = 0
		j.mu.sent, j.mu.start = j.mu.sent+moved, j.mu.start+uint64(moved)
	default:
		j.mu.sent, j.mu.start = j.mu.sent+next.size, j.mu.start+uint64(next.size)
	}
	if j.mu.cut != 0 && index >= j.mu.cut {
		j.mu.lost = true
	} else {
		j.note(index, j.mu.start)
	}
	switch {
	case j.mu.sent == len(j.mu.pending):
		j.clear()
	case j.mu.sent > 8*mostOfEntry: // drop the proposed batches
		rest := j.mu.pending[j.mu.sent:]
		j.mu.pending = append(make([]byte, batchesHeader, batchesHeader+2*len(rest)), rest...)
		j.mu.sent = batchesHeader
	}
}

// clear discards the pending batches. mu is locked.
func (j *journal) clear() {
	if cap(j.mu.pending) > 2*mostOfEntry {
		j.mu.pending = make([]byte, batchesHeader)
	}
	j.mu.pending, j.mu.sent, j.mu.part = j.mu.pending[:batchesHeader], batchesHeader, 0
}

// note remembers where an entry ends. mu is locked.
func (j *journal) note(index, end uint64) {
	if n := len(j.mu.spans); n > 0 && j.mu.spans[n-1].index == index {
		j.mu.spans[n-1].end = end
		return
	}
	j.mu.spans = append(j.mu.spans, span{index, end})
	if len(j.mu.spans) > 2*keptSpans {
		committed := sort.Search(len(j.mu.spans), func(i int) bool {
			return j.mu.spans[i].index > j.mu.commit
		})
		if n := min(committed, len(j.mu.spans)-keptSpans); n > 0 {
			j.mu.spans = slices.Clone(j.mu.spans[n:])
		}
	}
}

// advance notes that entries are committed.
func (j *journal) advance(index uint64) {
	j.mu.Lock()
	j.mu.commit = max(j.mu.commit, index)
	n := sort.Search(len(j.mu.spans), func(i int) bool { return j.mu.spans[i].index > j.mu.commit })
	var durable uint64
	more := false
	if n > 0 && j.mu.spans[n-1].end > j.durable.Load() {
		durable, more = j.mu.spans[n-1].end, true
		j.durable.Store(durable)
		j.mu.changed.Broadcast()
	}
	waits := j.mu.leads && j.mu.sent < len(j.mu.pending)
	j.mu.Unlock()
	if more && j.onDurable != nil {
		j.onDurable(durable)
	}
	if waits && index > 0 {
		j.wake() // there may be room for pending batches now
	}
}

// room proposes the batches for which there was no room before entries were applied. The group
// counts committed entries against its bound until they are applied.
func (j *journal) room() {
	j.mu.Lock()
	waits := j.mu.leads && j.mu.sent < len(j.mu.pending)
	j.mu.Unlock()
	if waits {
		j.wake()
	}
}

// replaced records that another leader has replaced the entries from one on. Committing the new
// entries does not commit batches of this member. It reports whether the replaced entries had
// batches.
func (j *journal) replaced(from uint64) (lost bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.cut == 0 || from < j.mu.cut {
		j.mu.cut = from
	}
	n := sort.Search(len(j.mu.spans), func(i int) bool { return j.mu.spans[i].index >= from })
	j.mu.lost = j.mu.lost || n < len(j.mu.spans)
	j.mu.spans = j.mu.spans[:n]
	return j.mu.lost
}

// applied notes an entry that a follower is about to apply; it is on this disk and committed.
func (j *journal) applied(index, lsn uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if lsn <= j.end.Load() {
		return
	}
	j.note(index, lsn)
	j.mu.commit = max(j.mu.commit, index)
	j.end.Store(lsn)
	j.durable.Store(lsn)
	j.mu.start = lsn
	j.mu.changed.Broadcast()
}

// lead begins to propose appended batches, in a term that may already be over.
func (j *journal) lead(term uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.leads, j.mu.term, j.mu.cut = true, term, 0
	j.clear()
	j.mu.start = j.end.Load()
}

// follow ends the proposing, and returns the outcome of the batches. lost reports that some were
// never proposed, or that others have replaced them. last is the last entry that is not known to be
// committed, 0 if there is none.
func (j *journal) follow() (lost bool, last uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.leads = false
	for j.mu.busy {
		j.mu.changed.Wait()
	}
	j.mu.changed.Broadcast()
	if n := len(j.mu.spans); n > 0 && j.mu.spans[n-1].index > j.mu.commit {
		last = j.mu.spans[n-1].index
	}
	return j.mu.lost || j.mu.start < j.end.Load(), last
}

// indexOf returns the first remembered entry that ends at a position or later; 0 if there is none.
// So all batches up to the position are in it or before it. mu is locked.
func (j *journal) indexOf(lsn uint64) uint64 {
	n := sort.Search(len(j.mu.spans), func(i int) bool { return j.mu.spans[i].end >= lsn })
	if n == len(j.mu.spans) {
		return 0
	}
	return j.mu.spans[n].index
}

// positionOf returns the position where the last remembered entry up to index ends; 0 if there is
// none.
func (j *journal) positionOf(index uint64) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := sort.Search(len(j.mu.spans), func(i int) bool { return j.mu.spans[i].index > index })
	if n == 0 {
		return 0
	}
	return j.mu.spans[n-1].end
}

func (j *journal) CommitAsync() {
	j.wake()
	j.throttle()
}

func (j *journal) wake() {
	select {
	case j.kick <- struct{}{}:
	default:
	}
}

// run proposes batches when wake is called.
func (j *journal) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.kick:
			j.propose()
		}
	}
}

// SetPolicy does nothing: a member is always durable.
func (j *journal) SetPolicy(wal.Policy) {}

func (j *journal) End() uint64     { return j.end.Load() }
func (j *journal) Durable() uint64 { return j.durable.Load() }

func (j *journal) Synced() uint64 {
	return max(j.positionOf(j.log.SyncedIndex()), min(j.durable.Load(), j.end.Load()))
}

func (j *journal) Settled(ctx context.Context, lsn uint64) error {
	stop := context.AfterFunc(ctx, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.mu.changed.Broadcast()
	})
	defer stop()
	if lsn > j.durable.Load() {
		j.propose()
	}
	j.mu.Lock()
	for lsn > j.durable.Load() {
		switch {
		case ctx.Err() != nil:
			j.mu.Unlock()
			return ctx.Err()
		case j.mu.closed || j.mu.gaveUp || !j.mu.leads || j.over():
			j.mu.Unlock()
			return errors.Join(storage.ErrDeposed, j.log.Err())
		}
		j.mu.changed.Wait()
	}
	// indexOf may return a later entry, which is not committed.
	index := min(j.indexOf(lsn), j.mu.commit)
	j.mu.Unlock()
	// The commit index is on this disk with the entries. Otherwise a checkpoint could contain
	// changes that a crash of all members undoes.
	return j.log.Settled(ctx, j.log.SaveCommit(index))
}

func (j *journal) Rotate([]byte) (segment uint64, err error) {
	applied, err := j.m.mark()
	if err != nil {
		return 0, err
	}
	segment, err = j.log.Rotate(applied)
	if err != nil {
		return 0, err
	}
	j.m.mu.Lock()
	j.m.mu.own = segment
	j.m.mu.Unlock()
	return j.m.forKeeps(segment), nil // so that the log also has what is not archived
}

func (j *journal) Release(first uint64) error { return j.log.Release(j.m.ended(first)) }

// Size returns the size of the log that a start needs. The log kept for others needs no checkpoint.
func (j *journal) Size() int64 {
	j.m.mu.Lock()
	saved := j.m.mu.saved
	j.m.mu.Unlock()
	return j.log.SizeFrom(saved)
}

func (j *journal) DropSpares()                { j.log.DropSpares() }
func (j *journal) NextCost() int64            { return j.log.NextCost() }
func (j *journal) First() uint64              { return j.log.First() }
func (j *journal) Full() bool                 { return j.log.Full() }
func (j *journal) Room() (left, size int64)   { return j.log.Room() }
func (j *journal) Err() error                 { return j.log.Err() }
func (j *journal) SyncCost() time.Duration    { return j.log.SyncCost() }
func (j *journal) Syncs() histogram.Reading   { return j.log.Syncs() }
func (j *journal) Commits() histogram.Reading { return j.log.Commits() }

func (j *journal) GiveUp() {
	j.mu.Lock()
	j.mu.gaveUp = true
	j.mu.changed.Broadcast()
	j.mu.Unlock()
	j.log.GiveUp()
}

func (j *journal) Close() error {
	j.m.closeGroup()
	j.mu.Lock()
	j.mu.closed = true
	j.mu.changed.Broadcast()
	j.mu.Unlock()
	return j.log.Close()
}

// open opens the log and replays everything that is known to be committed.
func (j *journal) open(o wal.Options, from storage.LogPosition,
	replay func(lsn uint64, batch []byte) error) (storage.Journal, error) {
	replayed := o.Replayed
	j.onDurable, j.onFail, o.OnDurable, o.Replayed = o.OnDurable, o.OnFail, nil, nil
	o.Dir = j.m.logDir()
	log, err := raftlog.Open(o, from.Segment)
	if err != nil {
		return nil, err
	}
	j.log = log
	if err = j.m.owns(log); err == nil {
		err = j.replay(from, replay)
	}
	if err == nil && replayed != nil {
		err = replayed()
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return j, nil
}

func (j *journal) replay(from storage.LogPosition,
	replay func(lsn uint64, batch []byte) error) error {
	m, begin := j.m, j.log.Begin()
	if begin.Position > from.Position {
		return errors.New("member: the log has lost its beginning, which the data file needs")
	}
	m.mu.stream, m.mu.applied = stream{position: begin.Position}, begin // nobody else has them yet
	j.end.Store(begin.Position)
	j.durable.Store(begin.Position)
	j.mu.start = begin.Position
	to, conf := j.log.Hard().GetCommit(), begin.Conf
	for next := begin.Index + 1; next <= to; {
		entries, err := j.log.Entries(next, to+1, 4<<20)
		if err != nil {
			return err
		}
		for _, e := range entries {
			err := m.mu.stream.take(e, func(lsn uint64, batch []byte) error {
				j.applied(e.GetIndex(), lsn)
				if lsn <= from.Position {
					return nil
				}
				return replay(lsn, batch)
			}, m.joins)
			if err != nil {
				return err
			}
			if conf, err = consensus.ConfAfter(conf, e); err != nil {
				return err
			}
			m.passed(consensus.Base{Index: e.GetIndex(), Term: e.GetTerm(), Conf: conf})
		}
		next += uint64(len(entries))
	}
	if j.end.Load() < from.Position {
		return errors.New("member: the data file has more than the log says to be committed")
	}
	return nil
}
