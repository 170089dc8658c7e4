package member

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/commands"
	"keyp/storage"
	"keyp/storage/wal"
)

// A backup of a member contains its data file, and the batches after it in the group's log up to
// the last applied one. The archive of a member contains everything committed that is on its disk.
// LSNs are those of the group, so a backup of one member can be restored with the archive of
// another.

// historyOf returns the name of the history of a group's log.
func historyOf(cluster uint64) string {
	sum := sha256.Sum256(le.AppendUint64([]byte("keyp history of a group "), cluster))
	return hex.EncodeToString(sum[:12])
}

// History, Begin, KeepFrom and Keep implement storage.BackupLog.
func (j *journal) History() string { return historyOf(j.m.id.Cluster) }

func (j *journal) Begin() uint64 { return j.log.Begin().Position }

func (j *journal) KeepFrom(position uint64) storage.ArchiveKept { return j.keep(position) }

func (j *journal) Keep(from storage.LogPosition) storage.KeptLog { return j.keep(from.Position) }

func (j *journal) keep(position uint64) *keptEntries {
	base := j.m.baseAt(position)
	k := &keptEntries{j: j, start: base.Position}
	j.m.mu.Lock()
	defer j.m.mu.Unlock()
	j.m.mu.keeps[k] = base.Index
	return k
}

// keptEntries are the entries after a base that are kept for a backup or an archive.
type keptEntries struct {
	j     *journal
	start uint64 // position

	// Where Batches continues: at has taken all entries before next.
	at   stream
	next uint64 // 0: begin at a base
}

// Start and the methods after it implement storage.KeptLog.
func (k *keptEntries) Start() uint64 { return k.start }
func (k *keptEntries) Bytes() int64  { return k.j.m.kept() }

// MoveTo lets the next checkpoint release everything before a position.
func (k *keptEntries) MoveTo(position uint64) error {
	m, index := k.j.m, k.j.m.baseAt(position).Index
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, ok := m.mu.keeps[k]; ok {
		m.mu.keeps[k] = max(was, index)
	}
	return nil
}

func (k *keptEntries) LetGo() error {
	k.j.m.mu.Lock()
	defer k.j.m.mu.Unlock()
	delete(k.j.m.mu.keeps, k)
	return nil
}

func (k *keptEntries) Batches(after, through uint64, fn func(uint64, []byte) error) error {
	k.j.mu.Lock()
	last := k.j.mu.commit
	if index := k.j.indexOf(through); index != 0 {
		// Later committed entries may not be in this log yet.
		last = min(last, index)
	}
	k.j.mu.Unlock()
	last = min(last, k.j.log.Last())
	if k.next == 0 || k.at.position > after {
		base := k.j.m.baseAt(after)
		k.at, k.next = stream{position: base.Position}, base.Index+1
	}
	if k.at.position > after {
		return wal.ErrReleased
	}
	for s, next := k.at, k.next; s.position < through; {
		if next > last {
			return errors.New("member: the log ends before what was applied")
		}
		entries, err := k.j.log.Entries(next, last+1, mostOfEntry)
		if errors.Is(err, raft.ErrCompacted) {
			k.next = 0
			return wal.ErrReleased
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := s.within(e, after, through, fn); err != nil {
				return err
			}
			if next++; s.between() && s.position <= through {
				k.at, k.next = s, next
			}
		}
	}
	return nil
}

// within takes an entry, and calls fn with the batches in it that end after from and not after
// through.
func (s *stream) within(e *pb.Entry, from, through uint64, fn func(uint64, []byte) error) error {
	return s.take(e, func(lsn uint64, batch []byte) error {
		if lsn <= from || lsn > through {
			return nil
		}
		return fn(lsn, batch)
	}, func(commands.Member) {})
}

// kept returns how many bytes of the log are kept only for backups and the archive.
func (m *Member) kept() int64 {
	m.mu.Lock()
	others := m.mu.others
	m.mu.Unlock()
	return m.journal.log.Between(m.forKeeps(others), others)
}

// forKeeps returns segment, or an earlier segment from which on the log contains everything kept
// for backups and the archive.
func (m *Member) forKeeps(segment uint64) uint64 {
	m.mu.Lock()
	lowest := uint64(0)
	for _, index := range m.mu.keeps {
		if lowest == 0 || index < lowest {
			lowest = index
		}
	}
	m.mu.Unlock()
	return m.segmentWith(segment, lowest)
}
