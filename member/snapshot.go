package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"keyp/commands"
	"keyp/consensus"
	"keyp/consensus/raftlog"
	"keyp/storage"
	"keyp/storage/snapshotfile"
)

// The log of the leader may no longer contain the entries that a member lacks. Then the leader
// sends the member a message without data. The member asks for a snapshot, stores it as a file, and
// starts its process again with exec. This next start installs the snapshot. A snapshot contains
// the data file of the leader's last checkpoint, and log entries. Its base is a log entry that the
// data file contains, with all earlier ones. The entries follow the base, up to the last committed
// one. Without these entries the data file does not show the state of one moment.

// note is the JSON text in Header.Note of a snapshot.
type note struct {
	Index    uint64            `json:"index"` // of the base
	Term     uint64            `json:"term"`
	Position uint64            `json:"position"`
	Conf     []byte            `json:"conf"`
	Members  []commands.Member `json:"members"`
}

// retryPause is the pause before the next try to fetch a snapshot.
const retryPause = time.Second

// snapshot returns the message that makes a member ask for a snapshot. It names the last entry
// applied here, which the snapshot that send sends will include.
func (m *Member) snapshot() (*pb.Snapshot, error) {
	m.mu.Lock()
	b := m.mu.applied
	m.mu.Unlock()
	if b.Index == 0 {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &b.Index, Term: &b.Term,
		ConfState: b.Conf}}, nil
}

// send sends a snapshot to a member. If the base of the snapshot is before the entry after, it
// makes a checkpoint first.
func (m *Member) send(ctx context.Context, to, after uint64, w io.Writer) (err error) {
	if !m.status.Load().Role.Leads() {
		return errNotLeader
	}
	m.sends(to, m.journal.log.Begin().Index, 0)
	defer func() { m.sent(to, err) }()
	sn, err := m.store.OpenSnapshot()
	if err != nil {
		return err
	}
	defer func() { sn.Close() }()
	base := m.baseAt(sn.Header.Position)
	if base.Index < after {
		sn.Close()
		if err := m.store.Checkpoint(); err != nil {
			return err
		}
		if sn, err = m.store.OpenSnapshot(); err != nil {
			return err
		}
		if base = m.baseAt(sn.Header.Position); base.Index < after {
			return fmt.Errorf("the snapshot begins with entry %d, and %d was asked for",
				base.Index, after)
		}
	}
	m.sends(to, base.Index, sn.Header.Size)
	commit := m.group.Status().Committed
	conf, err := proto.Marshal(base.Conf)
	if err != nil {
		return err
	}
	m.mu.Lock()
	members := slices.Clone(m.mu.members)
	m.mu.Unlock()
	sn.Header.Note, err = json.Marshal(note{base.Index, base.Term, base.Position, conf, members})
	if err != nil {
		return err
	}
	m.o.Logger.Info("sending a snapshot", "to", to, "bytes", sn.Header.Size, "entries",
		commit-base.Index)
	m.become(func() { m.mu.taken.Member, m.mu.taken.Done, m.mu.taken.Size = to, 0, sn.Header.Size })
	defer m.become(func() { m.mu.taken.Member = 0 })
	err = sn.Send(ctx, &counted{m, to, w}, func(out *snapshotfile.Writer) error {
		for next := base.Index + 1; next <= commit; {
			entries, err := m.journal.log.Entries(next, commit+1, mostOfEntry)
			if err != nil {
				return err
			}
			for _, e := range entries {
				b, err := proto.Marshal(e)
				if err == nil {
					err = out.Record(e.GetIndex(), b)
				}
				if err != nil {
					return err
				}
			}
			next += uint64(len(entries))
		}
		return nil
	})
	if err != nil {
		m.o.Logger.Warn("a snapshot was not sent", "to", to, "error", err)
		return err
	}
	m.become(func() { m.mu.taken.Sent++ })
	m.group.SnapshotTaken(to)
	return nil
}

// counted is an io.Writer for a snapshot that is sent to a member. It counts the bytes. With each
// write it tells the group that the transfer continues.
type counted struct {
	m  *Member
	to uint64
	w  io.Writer
}

func (c *counted) Write(b []byte) (n int, err error) {
	n, err = c.w.Write(b)
	c.m.group.SnapshotGoesOn(c.to)
	c.m.mu.Lock()
	c.m.mu.taken.Done += int64(n)
	c.m.mu.Unlock()
	return n, err
}

// baseAt returns the newest known base that is not beyond a position, or the log's base if there is
// none.
func (m *Member) baseAt(position uint64) raftlog.Base {
	begin := m.journal.log.Begin()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range slices.Backward(m.mu.bases) {
		if b.Position <= position && b.Index >= begin.Index {
			return b
		}
	}
	return begin
}

// fetch gets the leader's snapshot and stores it as a file.
func (m *Member) fetch(index uint64) error {
	var leader commands.Member
	id := m.group.Status().Leader // not from the status, because the task of Led waits for this one
	m.mu.Lock()
	if n := slices.IndexFunc(m.mu.members, func(o commands.Member) bool {
		return o.ID == id
	}); n >= 0 {
		leader = m.mu.members[n]
	}
	m.mu.Unlock()
	if leader.ID == 0 || leader.ID == m.id.ID {
		return errNoLeader
	}
	m.o.Logger.Info("fetching a snapshot", "from", leader.ID, "index", index)
	m.become(func() {
		m.mu.taken = commands.SnapshotProgress{Member: leader.ID, Receiving: true,
			Taken: m.mu.taken.Taken}
	})
	text, err := json.Marshal(request{Do: askSnapshot,
		After: max(m.journal.log.Begin().Index, m.journal.log.Hard().GetCommit())})
	if err != nil {
		return err
	}
	r, err := m.transport.Ask(m.ctx, busAddress(&leader), leader.ID, text)
	if err != nil {
		return err
	}
	defer r.Close()
	path := filepath.Join(m.storage.Dir, snapshotName)
	var h snapshotfile.Header
	if err := snapshotfile.Keep(m.storage.FS, path, func(w io.Writer) error {
		in, out := io.Pipe()
		verified := make(chan error, 1)
		go func() {
			var err error
			h, err = snapshotfile.Verify(in)
			in.CloseWithError(err) // ends the writer; nil means io.ErrClosedPipe
			verified <- err
		}()
		_, err := io.Copy(io.MultiWriter(w, out, received{m}), r)
		out.CloseWithError(err) // nil is io.EOF
		if bad := <-verified; err == nil || !errors.Is(bad, err) {
			err = errors.Join(err, bad)
		}
		return err
	}); err != nil {
		return err
	}
	var n note
	if err := json.Unmarshal(h.Note, &n); err != nil || n.Index == 0 {
		return errors.Join(errors.New("a snapshot without a base"), os.Remove(path))
	}
	return nil
}

// received counts the received bytes of a snapshot.
type received struct{ m *Member }

func (r received) Write(b []byte) (int, error) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.m.mu.taken.Done += int64(len(b))
	return len(b), nil
}

// install installs a snapshot that fetch has stored. If it is interrupted, it begins again at the
// next start.
func (m *Member) install() error {
	path := filepath.Join(m.storage.Dir, snapshotName)
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	from, err := snapshotfile.NewReader(f)
	if err != nil {
		return err
	}
	var n note
	if err := json.Unmarshal(from.Header.Note, &n); err != nil {
		return err
	}
	base := raftlog.Base{Base: consensus.Base{Index: n.Index, Term: n.Term, Conf: &pb.ConfState{}},
		Position: n.Position}
	if err := proto.Unmarshal(n.Conf, base.Conf); err != nil {
		return err
	}
	segment, err := m.installLog(base, from)
	if err != nil {
		return err
	}
	if segment == 0 {
		m.o.Logger.Warn("a snapshot is older than what this member has, and is dropped",
			"index", n.Index)
		return errors.Join(os.Remove(path), m.storage.FS.SyncDir(m.storage.Dir))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	o := m.storage
	o.Member = true
	if _, err := storage.Receive(o, f, segment, nil); err != nil {
		return err
	}
	for _, o := range n.Members {
		if o.ID != m.id.ID {
			m.mu.members = merge(m.mu.members, o)
		}
	}
	m.id.Members = m.mu.members
	if err := m.id.write(m.storage.FS, m.storage.Dir); err != nil {
		return err
	}
	m.o.Logger.Info("a snapshot was installed", "index", n.Index, "keys", from.Header.Keys)
	return errors.Join(os.Remove(path), m.storage.FS.SyncDir(m.storage.Dir))
}

// installLog makes the log begin with the snapshot's base and continue with its entries. It returns
// the segment in which the log begins, or 0 if the member already has committed entries after the
// base.
func (m *Member) installLog(base raftlog.Base,
	from *snapshotfile.Reader) (segment uint64, err error) {
	at, err := storage.ReadLogPosition(m.storage)
	if err != nil {
		return 0, err
	}
	log, err := raftlog.Open(walOptions(&m.storage), at.Segment)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := m.owns(log); err != nil {
		return 0, err
	}
	begin := log.Begin()
	switch {
	case begin.Index == base.Index && begin.Term == base.Term: // an interrupted install came so far
	case max(begin.Index, log.Hard().GetCommit()) > base.Index:
		return 0, nil
	default:
		log.SetPosition(base.Position)
		log.Append(consensus.Write{Base: &base.Base})
	}
	last, err := appendEntries(log, base.Index, from)
	if err != nil {
		return 0, err
	}
	if segment, err = log.Rotate(base); err != nil {
		return 0, err
	}
	return segment, log.Settled(context.Background(), log.SaveCommit(last))
}

// mostUnsynced bounds the bytes of a snapshot's entries that are appended before a sync.
const mostUnsynced = 16 << 20

// appendEntries appends the entries of a snapshot to the log; all of them are committed. It returns
// the last one's index, or the base's if there are none.
func appendEntries(log *raftlog.Log, base uint64,
	from *snapshotfile.Reader) (last uint64, err error) {
	last = base
	for size := 0; ; {
		p, err := from.Next()
		if err == io.EOF {
			return last, nil
		}
		if err != nil {
			return 0, err
		}
		if !p.Record {
			continue
		}
		e := &pb.Entry{}
		if err := proto.Unmarshal(p.Bytes, e); err != nil {
			return 0, err
		}
		if last = e.GetIndex(); last <= log.Last() {
			if term, err := log.Term(last); err == nil && term == e.GetTerm() {
				continue
			}
		}
		h := log.Hard()
		if e.GetTerm() > h.GetTerm() {
			h = &pb.HardState{Term: new(e.GetTerm()), Vote: new(uint64(0))}
		}
		h.Commit = new(last)
		log.Append(consensus.Write{Hard: h, Entries: []*pb.Entry{e}})
		if size += len(p.Bytes); size > mostUnsynced {
			if err := log.Settled(context.Background(), log.End()); err != nil {
				return 0, err
			}
			size = 0
		}
	}
}
