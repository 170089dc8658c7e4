package storage

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"keyp/storage/archive"
	"keyp/storage/format"
	"keyp/storage/snapshotfile"
	"keyp/storage/wal"
)

// A backup is a snapshot of the data file with the batches of the log that it needs, in one stream.
// It holds the state of the moment at which it was opened, regardless of writes while it is sent.
// The part of the log with these batches is kept meanwhile (BackupLog). A backup that becomes too
// expensive ends with an error, as any snapshot does.
//
// A member's backup has the member's data file, and the batches that its log marks as committed.
// The LSNs are those of the group. The directory restored from it belongs to a server that is
// alone.
//
// A record of the stream is a batch, or a part of one that is longer than a record may be:
//
//	last 1 (0: the next record has more of the batch), bytes
//
// and the record's position is the LSN of the batch.

// BackupLog is a Journal that may be archived. Backups contain a part of it.
type BackupLog interface {
	Journal
	archive.Log
	// Keep keeps all batches from a place on until LetGo. The data file's state names the place. No
	// checkpoint is under way.
	Keep(from LogPosition) KeptLog
}

// KeptLog is the part of a log that is kept for a backup.
type KeptLog interface {
	archive.Kept
	// Start is the position at which the part begins.
	Start() uint64
}

// ErrNoBackup is the error for a store whose log cannot be a part of a backup, as it is in memory
// or elsewhere.
var ErrNoBackup = errors.New("storage: the store has no log that a backup could have a part of")

// BackupNote is the content of Note in a backup's header. It is encoded as JSON there.
type BackupNote struct {
	// History identifies the log of the LSNs. The log of another server, or of a restored one, has
	// another history.
	History string `json:"history"`
	// Databases is how many databases the server allows.
	Databases int `json:"databases"`
}

// ReadBackupNote reads the note of a backup's header. ErrBad of snapshotfile: it is no backup.
func ReadBackupNote(h *snapshotfile.Header) (n BackupNote, err error) {
	if err := json.Unmarshal(h.Note, &n); err != nil || n.History == "" {
		return n, fmt.Errorf("%w: it is no backup", snapshotfile.ErrBad)
	}
	return n, nil
}

// OpenBackup opens a backup of the present moment, which SendBackup sends. It waits for the
// checkpoint under way.
func (s *Store) OpenBackup(ctx context.Context) (*FileSnapshot, error) {
	log, ok := s.backupLog()
	if !ok {
		return nil, ErrNoBackup
	}
	sn, err := s.openSnapshot(log)
	if err != nil {
		return nil, err
	}
	s.nowIn(&sn.Header)
	// A power failure loses data that only the kernel has, and the log continues with other batches
	// at the same positions.
	if err := s.log.Settled(ctx, sn.Header.Through); err != nil {
		return nil, errors.Join(err, sn.Close())
	}
	if sn.Header.Note, err = json.Marshal(BackupNote{History: log.History(),
		Databases: s.options.Databases}); err != nil {
		return nil, errors.Join(err, sn.Close())
	}
	return sn, nil
}

// backupLog returns the store's log as a BackupLog. ok is false if the log does not implement that.
func (s *Store) backupLog() (log BackupLog, ok bool) {
	if own, alone := s.log.(*wal.Log); alone {
		return aloneLog{own}, true
	}
	log, ok = s.log.(BackupLog)
	return log, ok
}

// nowIn writes the end of the log, the time and the numbers of keys into a header, all as of one
// instant. A server that is alone appends a mark to its log there. So the backup has a last batch,
// and a restore can use it to prove that an archive is of the same log. A log that has no room gets
// no mark: the backup would wait for room. A member makes no mark: other members have its log, too,
// so the log does not continue from a copy of one directory.
func (s *Store) nowIn(h *snapshotfile.Header) {
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	if log, alone := s.log.(*wal.Log); alone && !log.Full() {
		s.markLog()
	}
	h.Through, h.Time = s.Shown(), t.Now()
	h.Keys, h.Deadlines = 0, 0 // those at Position are older
	for db := range s.options.Databases {
		keys, deadlines := t.View().Count(db)
		h.Keys, h.Deadlines = h.Keys+keys, h.Deadlines+deadlines
	}
}

// LogFrom returns the position in the log from which on the backup contains the batches.
func (sn *FileSnapshot) LogFrom() uint64 {
	return min(max(sn.kept.Start(), sn.Header.Position), sn.Header.Through)
}

// SendBackup writes the backup to w. It needs memory for one piece and for the largest batch of the
// log. Unless NoBackground is set, it gives the goroutine a thread of its own with a lower
// priority.
func (sn *FileSnapshot) SendBackup(ctx context.Context, w io.Writer) error {
	if !sn.s.options.NoBackground {
		lowerPriority()
	}
	return sn.Send(ctx, w, func(to *snapshotfile.Writer) error { return sn.sendLog(ctx, to) })
}

// sendLog sends all batches up to Through.
func (sn *FileSnapshot) sendLog(ctx context.Context, to *snapshotfile.Writer) error {
	if err := sn.May(ctx); err != nil {
		return err
	}
	err := sn.kept.Batches(sn.LogFrom(), sn.Header.Through, func(lsn uint64, batch []byte) error {
		if err := sendBatch(to, lsn, batch); err != nil {
			return err
		}
		return sn.May(ctx)
	})
	if err != nil {
		return sn.orStopped(ctx, err)
	}
	return nil
}

// aloneLog makes the log of a server that is alone a BackupLog.
type aloneLog struct{ *wal.Log }

// Keep keeps the segments of the log from a place on until LetGo, as BackupLog demands.
func (l aloneLog) Keep(from LogPosition) KeptLog {
	return keptSegments{l.Hold(from.Segment), l.Log, from.Segment}
}

func (l aloneLog) KeepFrom(position uint64) archive.Kept { return l.HoldFrom(position) }

// keptSegments is the KeptLog of aloneLog: it keeps all segments from first on.
type keptSegments struct {
	*wal.Hold
	log   *wal.Log
	first uint64
}

// Start returns the position at which the kept part begins. Keep and the methods of Hold implement
// the rest of KeptLog.
func (k keptSegments) Start() uint64 {
	pos, ok := k.log.Start(k.first)
	if !ok {
		return k.log.End() // nothing is written yet
	}
	return pos
}

func (k keptSegments) Batches(after, through uint64, fn func(uint64, []byte) error) error {
	if pos, ok := k.log.Start(k.first); !ok && pos != 0 {
		return wal.ErrReleased
	}
	return k.Hold.Batches(after, through, fn)
}

// orStopped returns the reason for which the snapshot was given up, if it was, and err otherwise.
func (sn *FileSnapshot) orStopped(ctx context.Context, err error) error {
	if why := sn.May(ctx); why != nil {
		return why
	}
	return err
}

func sendBatch(to *snapshotfile.Writer, lsn uint64, batch []byte) error {
	record := make([]byte, 0, 1+min(len(batch), snapshotfile.MaxRecord-1))
	for len(batch) > 0 { // the head of a segment has nothing
		n := min(len(batch), snapshotfile.MaxRecord-1)
		last := byte(0)
		if n == len(batch) {
			last = 1
		}
		record = append(append(record[:0], last), batch[:n]...)
		if err := to.Record(lsn, record); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// maxDatabases bounds the number of databases that a note of a backup may demand.
const maxDatabases = 1 << 20

// restoreStep is how many bytes of batches are committed at a time.
const restoreStep = 16 << 20

// restoring writes a new log from the records of a backup and the batches of an archive.
type restoring struct {
	log     *wal.Log
	through uint64   // the LSN of the last record
	before  uint64   // that of the batch before
	batch   []byte   // what there is of a batch
	last    [32]byte // the sum of the last batch
	pending int      // bytes that are not committed
	bytes   int64    // appended
}

// record adds a record of the stream to the log, when its batch is complete. It verifies that the
// record may follow the one before.
func (r *restoring) record(lsn uint64, b []byte) error {
	if len(b) < 1 || b[0] > 1 || lsn < r.through || lsn == r.through && r.batch == nil ||
		lsn > r.through && r.batch != nil {
		return fmt.Errorf("%w: its record at position %d is none of a backup", snapshotfile.ErrBad,
			lsn)
	}
	if lsn > r.through {
		r.before, r.through = r.through, lsn
	}
	if n := len(r.batch) + len(b) - 1; uint64(n) > lsn-r.before {
		// An LSN counts the bytes of the log.
		return fmt.Errorf("%w: a batch of %d bytes or more stands between the positions %d and %d",
			snapshotfile.ErrBad, n, r.before, lsn)
	}
	r.batch = append(r.batch, b[1:]...)
	if b[0] == 0 {
		return nil
	}
	r.last = sha256.Sum256(r.batch)
	batch := r.batch
	r.batch = nil
	return r.append([][]byte{batch})
}

// append appends a batch, given in pieces, to the log. The memory of the pieces belongs to the log
// afterwards.
func (r *restoring) append(batch [][]byte) error {
	for _, piece := range batch {
		r.pending, r.bytes = r.pending+len(piece), r.bytes+int64(len(piece))
	}
	r.log.AppendKeeping(batch)
	if r.pending < restoreStep {
		return nil
	}
	r.pending = 0
	return r.log.Commit()
}

// restoredLog opens the log of a directory that is being restored.
func restoredLog(o *Options, first uint64) (*wal.Log, error) {
	return wal.Open(wal.Options{
		FS: o.FS, Dir: filepath.Join(o.Dir, format.LogDir), Clock: o.Clock, Logger: o.Logger,
		Policy: wal.Always, SegmentSize: o.SegmentSize,
		NoBackground: true, Random: o.Random,
	}, first, nil)
}

// RestoreBackup writes the data of a backup into the directory o.Dir, which is empty or does not
// exist. If it returns without an error, the data is proven and on disk. After an error the
// directory has a part of the data. RestoreBackup informs the hooks (o.Hooks) of the restore. The
// directory belongs to a server that is alone, even if the backup is a member's.
func RestoreBackup(o Options, r io.Reader) (h snapshotfile.Header, err error) {
	m, err := RestoreTo(context.Background(), o, r, Source{})
	return m.Backup, err
}

// RestoreTo restores a backup as RestoreBackup does. If from has archives, it then applies their
// batches up to a later moment. An error of ctx ends it.
func RestoreTo(ctx context.Context, o Options, r io.Reader, from Source) (m Moment, err error) {
	if err := o.Complete(); err != nil {
		return m, err
	}
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return m, err
	}
	log, err := restoredLog(&o, 0)
	if err != nil {
		return m, err
	}
	into := restoring{log: log}
	h := &m.Backup
	switch first := log.First(); first {
	case 0:
		err = wal.ErrNoRoom
	default:
		*h, err = receiveAs(o, r, first, true, into.record)
	}
	if err == nil && into.batch != nil {
		err = fmt.Errorf("%w: the last batch is not whole", snapshotfile.ErrBad)
	}
	if err == nil && into.through > h.Through {
		err = fmt.Errorf("%w: a batch is of position %d, and the backup of %d", snapshotfile.ErrBad,
			into.through, h.Through)
	}
	var note BackupNote
	if err == nil {
		note, err = ReadBackupNote(h)
	}
	o.Databases = max(o.Databases, min(note.Databases, maxDatabases))
	if m.Through, m.Time = h.Through, h.Time; err == nil && len(from.Archives) > 0 {
		err = into.forward(ctx, &o, &m, note.History, from)
	}
	if err := errors.Join(err, into.close()); err != nil {
		return m, err
	}
	if from.KeepExpired {
		if err := m.keepExpired(ctx, &o); err != nil {
			return m, err
		}
	}
	return m, restoredHooks(o, m.Time)
}

// restoredHooks opens a restored directory and calls the hooks.
func restoredHooks(o Options, backup int64) (err error) {
	o.NoBackground = true
	s, _, err := Open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(true)) }()
	s.SetDiskReserve(0) // it is for clients
	return s.hooks.Restored(backup)
}
