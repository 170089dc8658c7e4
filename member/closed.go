package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/commands"
	"keyp/consensus/raftlog"
	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/format"
	"keyp/storage/wal"
)

// Closed describes the data directory of a member while no server uses it. Tools open it to read
// the data. They do not change the directory.
type Closed struct {
	Node    string
	ID      uint64
	Members []commands.Member // that it knows
	// Last is the index of the last entry in its log, and LastTerm the term of that entry.
	// Committed is the commit index in its log; later entries may be committed too.
	Last, LastTerm, Committed uint64
	// Taken is the last entry that the store has: Last or Committed.
	Taken uint64
	// Part is how many bytes the log has of an incomplete batch at its end. The store does not
	// contain them.
	Part int
	// Written is about when the log was written last.
	Written time.Time

	dir     string
	through uint64 // the LSN of the last batch that the store has
	base    raftlog.Base
	log     *raftlog.Closed
	history string
}

// ErrNotReady is wrapped by the errors for an undamaged directory that cannot be read as it is.
var ErrNotReady = errors.New("the member's directory is not to be read as it is")

var (
	errNotInstalled = fmt.Errorf("%w: it has a snapshot that is not installed yet: start the server once with cluster-enabled yes, which needs no other member, and stop it", ErrNotReady)
	errNoEntries    = fmt.Errorf(
		"%w: it has nothing of its group's data yet, which it was about to get when it ended",
		ErrNotReady)
	errLeft = fmt.Errorf(
		"%w: the member has left its group, and its next start removes what is there", ErrNotReady)
)

// OpenClosed opens the store of a member's directory for reading. o contains nothing about the log,
// nor about the owner of the directory. The store has everything that the log marks as committed
// or, if all is true, each entry of the log. It returns ErrAlone of storage for the directory of a
// server that is alone.
func OpenClosed(o storage.Options, all bool) (*storage.Store, storage.Recovered, *Closed, error) {
	c := &Closed{dir: o.Dir}
	o.Member, o.Follower, o.ReadOnly, o.NoBackground = true, true, true, true
	if o.FS == nil {
		o.FS = vfs.ReadOnly
	}
	o.OpenLog = func(wo wal.Options, from storage.LogPosition,
		replay func(uint64, []byte) error) (storage.Journal, error) {
		return c.open(wo, from, all, replay)
	}
	s, rec, err := storage.Open(o)
	return s, rec, c, err
}

// open reads the log; the directory is locked.
func (c *Closed) open(o wal.Options, from storage.LogPosition, all bool,
	replay func(uint64, []byte) error) (storage.Journal, error) {
	if _, err := os.Lstat(filepath.Join(c.dir, snapshotName)); err == nil {
		return nil, errNotInstalled
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(c.dir, leavingFile)); err == nil {
		return nil, errLeft
	}
	id, err := readIdentity(c.dir)
	if err == nil && id == nil {
		err = fmt.Errorf("member: %s is missing, which says who the member is",
			filepath.Join(c.dir, identityFile))
	}
	if err != nil {
		return nil, err
	}
	replayed := o.Replayed
	read := wal.Options{FS: o.FS, Dir: filepath.Join(c.dir, logDir), Progress: o.Progress}
	if c.log, err = raftlog.Read(read, from.Segment); err != nil {
		return nil, err
	}
	if of, want := c.log.Identity(), id.log(); of != want {
		return nil,
			fmt.Errorf("member: the log is of another member than %s: of %+v, and not of %+v",
				identityFile, of, want)
	}
	c.Node, c.ID, c.Members, c.history = id.Node, id.ID, id.Members, historyOf(id.Cluster)
	c.base, c.Committed = c.log.Begin(), c.log.Committed()
	c.Last, c.LastTerm = c.log.Last()
	if c.Taken = c.Committed; all {
		c.Taken = c.Last
	}
	if c.Last == 0 {
		return nil, errNoEntries
	}
	if c.base.Position > from.Position {
		return nil, errors.New("member: the log has lost its beginning, which the data file needs")
	}
	if err := c.replay(from, replay); err != nil {
		return nil, err
	}
	if c.Written, err = lastWritten(c.dir); err != nil {
		return nil, err
	}
	if replayed != nil {
		if err := replayed(); err != nil {
			return nil, err
		}
	}
	return c.journal(o)
}

// replay passes the batches after the data file's position to replay, and finds where they end.
func (c *Closed) replay(from storage.LogPosition, replay func(uint64, []byte) error) error {
	s := stream{position: c.base.Position}
	err := c.log.Entries(c.Taken, func(e *pb.Entry) error {
		return s.take(e, func(lsn uint64, batch []byte) error {
			if lsn <= from.Position {
				return nil
			}
			return replay(lsn, batch)
		}, func(o commands.Member) { c.Members = merge(c.Members, o) })
	})
	if err != nil {
		return err
	}
	if s.position < from.Position {
		return errors.New("member: the data file has more than the log says to be committed")
	}
	c.through, c.Part = s.position, len(s.part)
	return nil
}

// lastWritten returns when the log in a member's directory was last written. Without a log, it
// returns when the data file was.
func lastWritten(dir string) (last time.Time, err error) {
	segments, err := filepath.Glob(filepath.Join(dir, logDir, "wal-*.log"))
	if err == nil && len(segments) == 0 {
		segments = []string{filepath.Join(dir, format.DataName)}
	}
	for _, path := range segments {
		info, bad := os.Stat(path)
		if err = errors.Join(err, bad); bad == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last, err
}

// closedJournal is the log of a store that was opened for reading. It discards everything that the
// store appends.
type closedJournal struct {
	*wal.Log
	c *Closed
}

func (c *Closed) journal(o wal.Options) (storage.Journal, error) {
	log, err := wal.Open(wal.Options{FS: vfs.NewMem(), Dir: logDir, Clock: o.Clock,
		Logger: o.Logger, NoBackground: true}, 0, nil)
	if err != nil {
		return nil, err
	}
	return &closedJournal{log, c}, nil
}

// End and the methods after it implement storage.Journal and BackupLog.
func (j *closedJournal) End() uint64                           { return j.c.through }
func (j *closedJournal) Durable() uint64                       { return j.c.through }
func (j *closedJournal) Synced() uint64                        { return j.c.through }
func (j *closedJournal) Settled(context.Context, uint64) error { return nil }
func (j *closedJournal) History() string                       { return j.c.history }

func (j *closedJournal) Begin() uint64 { return j.c.base.Position }

func (j *closedJournal) Keep(storage.LogPosition) storage.KeptLog { return closedEntries{j.c} }
func (j *closedJournal) KeepFrom(uint64) storage.ArchiveKept      { return closedEntries{j.c} }

// closedEntries are the entries of a closed log.
type closedEntries struct{ c *Closed }

// Start and the methods after it implement storage.KeptLog.
func (k closedEntries) Start() uint64       { return k.c.base.Position }
func (k closedEntries) Bytes() int64        { return 0 }
func (k closedEntries) MoveTo(uint64) error { return nil }
func (k closedEntries) LetGo() error        { return nil }

func (k closedEntries) Batches(after, through uint64, fn func(uint64, []byte) error) error {
	s := stream{position: k.c.base.Position}
	return k.c.log.Entries(k.c.Taken, func(e *pb.Entry) error {
		return s.within(e, after, through, fn)
	})
}

// Recover makes a new directory from everything in a member's directory, including each entry of
// its log. The result belongs to a server that is alone, with a history of its own. store is the
// result of OpenClosed with all. o.Dir is the new directory, which is empty or does not exist.
func (c *Closed) Recover(ctx context.Context, store *storage.Store, o storage.Options) error {
	sn, err := store.OpenBackup(ctx)
	if err != nil {
		return err
	}
	c.AsOf(sn)
	from, to := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := sn.SendBackup(ctx, to)
		to.CloseWithError(err) // nil: io.EOF
		sent <- errors.Join(err, sn.Close())
	}()
	_, err = storage.RestoreBackup(o, from)
	from.CloseWithError(context.Canceled) // if it has not read all
	bad := <-sent
	if err != nil {
		return err
	}
	return bad
}

// AsOf sets the time in a backup's header to when this data was last current. Other members may
// have continued since then.
func (c *Closed) AsOf(sn *storage.FileSnapshot) {
	sn.Header.Time = min(sn.Header.Time, c.Written.UnixMilli())
}
