package member

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyp/commands"
	"keyp/consensus"
	"keyp/consensus/raftlog"
	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/testkit/setup"
	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/snapshotfile"
	"keyp/ttl"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// opened is a member that is open and not started.
type opened struct {
	*Member
	store *storage.Store
}

// openDir opens a directory as a server with cluster-enabled does.
func openDir(dir string, disk *disk, change func(*storage.Options)) (*opened, error) {
	logger := slog.New(slog.DiscardHandler)
	m := New(Options{Clock: clock.System, Logger: logger})
	o := storeOptions(dir, disk, logger)
	o.NoBackground = true
	if change != nil {
		change(&o)
	}
	s, _, err := m.Open(o)
	return &opened{m, s}, err
}

func (o *opened) close() error {
	o.Stop()
	return o.store.Close(false)
}

// alone creates the closed directory of a server that is in no group, with some keys.
func alone(t *testing.T, keys int) (dir string, model map[string]string) {
	t.Helper()
	dir, model = testkit.MemoryDir(t), map[string]string{}
	o, err := openDir(dir, newDisk(dir, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	txn := o.store.NewTxn()
	for i := range keys {
		name := fmt.Sprint("k", i)
		k := o.store.Key(0, []byte(name))
		if ok, err := o.store.BeginLoading(txn, []storage.Key{k}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		model[name] = strings.Repeat("v", 1+i)
		txn.SetString(k, []byte(model[name]), ttl.Deadline{}, setEvent)
		txn.End()
	}
	if err := o.store.Close(true); err != nil {
		t.Fatal(err)
	}
	return dir, model
}

func someIdentity() *identity {
	node, shard := strings.Repeat("a", 40), strings.Repeat("b", 40)
	return &identity{Cluster: 3, ID: 5, Node: node, Shard: shard,
		Members: []commands.Member{{ID: 5, Node: node, IP: "127.0.0.1", Bus: 1}}}
}

func founded() raftlog.Base {
	return raftlog.Base{Base: consensus.Base{Index: 1, Term: 1,
		Conf: &pb.ConfState{Voters: []uint64{5}}}}
}

// has fails the test unless the store has the content of the model.
func (o *opened) has(t *testing.T, when string, model map[string]string) {
	t.Helper()
	if got := contentOf(t, o.store); !maps.Equal(got, model) {
		t.Errorf("%s: the store has %d keys of %d", when, len(got), len(model))
	}
	if err := o.store.Check(); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

// TestConvertInterrupted: a server is killed at any moment while it becomes a member. After that it
// is in no group or a member, with all its keys. If it is in no group, the next attempt makes it a
// member.
func TestConvertInterrupted(t *testing.T) {
	start, model := alone(t, 20)
	whole := false
	for n := 1; !whole; n++ {
		if n > 200 {
			t.Fatal("it has no end")
		}
		dir := copied(t, start)
		disk := newDisk(dir, nil)
		disk.ops.last = n
		o := storeOptions(dir, disk, slog.New(slog.DiscardHandler))
		o.Testing.OnStep = disk.step
		err := convert(o, someIdentity(), founded())
		if whole = err == nil; !whole && !disk.dead() {
			t.Fatalf("step %d: %v", n, err)
		}
		got, err := openDir(dir, newDisk(dir, nil), nil)
		if err != nil {
			t.Fatalf("after step %d: %v", n, err)
		}
		got.has(t, fmt.Sprint("after step ", n), model)
		_, _, member := got.Grouped()
		if whole && !member {
			t.Error("it has become no member")
		}
		if err := got.store.Close(true); err != nil {
			t.Errorf("after step %d: %v", n, err)
		}
		if member {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, logDir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after step %d the directory of a server that is alone has a member's log: %v",
				n, err)
		}
		if err := convert(storeOptions(dir, newDisk(dir, nil), slog.New(slog.DiscardHandler)),
			someIdentity(), founded()); err != nil {
			t.Fatalf("again after step %d: %v", n, err)
		}
		if got, err = openDir(dir, newDisk(dir, nil), nil); err != nil {
			t.Fatalf("again after step %d: %v", n, err)
		}
		got.has(t, fmt.Sprint("again after step ", n), model)
		if _, _, ok := got.Grouped(); !ok {
			t.Errorf("again after step %d it has become no member", n)
		}
		_ = got.close()
	}
}

// snapshotFor returns the snapshot that a leader sends to another member, and the content that the
// member must have once the snapshot is installed.
func snapshotFor(t *testing.T, r *ring) (
	stream []byte, model map[string]string, to *server, id *identity,
) {
	t.Helper()
	r.await("a leader sends a snapshot", func() bool {
		s := r.leader()
		to = r.others(s)[0]
		id = r.running(to).m.id
		var b bytes.Buffer
		err := r.running(s).m.send(context.Background(), id.ID, 0, &b)
		stream = b.Bytes()
		return err == nil
	})
	return stream, maps.Clone(r.model), to, id
}

// TestInstallInterrupted: if a member loses power at any moment while it installs a snapshot, it
// installs the snapshot at its next start.
func TestInstallInterrupted(t *testing.T) {
	r := newGroup(t, 2)
	r.fill("k", 30)
	r.checkpoint(r.leader())
	r.fill("l", 30) // only in the entries
	stream, model, _, id := snapshotFor(t, r)

	// The server has joined the group, and has none of its data yet.
	start, _ := alone(t, 0)
	mem := vfs.NewMem()
	joined := newDisk(start, mem)
	o := storeOptions(start, joined, slog.New(slog.DiscardHandler))
	if err := convert(o, id, raftlog.Base{}); err != nil {
		t.Fatal(err)
	}
	if err := snapshotfile.Keep(vfs.OS, filepath.Join(start, snapshotName),
		func(w io.Writer) error { _, err := w.Write(stream); return err }); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(setup.Seed, 2))
	whole := false
	for n := 1; !whole; n++ {
		if n > 500 {
			t.Fatal("it has no end")
		}
		dir := copied(t, start)
		disk := newDisk(dir, moved(t, mem, start, dir))
		disk.ops.last = n
		got, err := openDir(dir, disk, func(o *storage.Options) { o.Testing.OnStep = disk.step })
		whole = err == nil && !disk.dead()
		switch {
		case err == nil:
			_ = got.close()
		case !disk.dead():
			t.Fatalf("step %d: %v", n, err)
		}
		left := disk.kill(rng)
		if got, err = openDir(dir, newDisk(dir, left), nil); err != nil {
			t.Fatalf("after step %d: %v", n, err)
		}
		got.has(t, fmt.Sprint("after step ", n), model)
		if got.Status().Role != commands.Follower {
			t.Errorf("after step %d: the role is %s", n, got.Status().Role)
		}
		if _, err := os.Stat(filepath.Join(dir, snapshotName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after step %d: the snapshot is still there: %v", n, err)
		}
		_ = got.close()
	}
}

// moved returns a file system in memory with the files of another one, moved to another directory
// and synced.
func moved(t *testing.T, mem *vfs.Mem, from, to string) *vfs.Mem {
	t.Helper()
	after := vfs.NewMem()
	fail := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	source, target := filepath.Join(from, logDir), filepath.Join(to, logDir)
	fail(after.MkdirAll(target))
	names, err := mem.List(source)
	fail(err)
	for _, name := range names {
		f, err := mem.Open(filepath.Join(source, name))
		fail(err)
		size, err := f.Size()
		fail(err)
		b := make([]byte, size)
		if size > 0 {
			_, err = f.ReadAt(b, 0)
			fail(err)
		}
		fail(f.Close())
		f, err = after.Create(filepath.Join(target, name))
		fail(err)
		_, err = f.WriteAt(b, 0)
		fail(err)
		fail(errors.Join(f.Sync(), f.Close()))
	}
	for at := target; ; at = filepath.Dir(at) {
		fail(after.SyncDir(at))
		if at == filepath.Dir(at) {
			return after
		}
	}
}

// TestOldSnapshot: a member drops a snapshot that is older than the member's commit index.
func TestOldSnapshot(t *testing.T) {
	r := newGroup(t, 2)
	r.fill("k", 10)
	stream, _, s, id := snapshotFor(t, r)
	r.fill("l", 10)
	from, err := snapshotfile.NewReader(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	var n note
	if err := json.Unmarshal(from.Header.Note, &n); err != nil {
		t.Fatal(err)
	}
	r.await("the member has later entries on disk as committed", func() bool {
		p := s.process()
		return p != nil && p.store.Checkpoint() == nil &&
			p.m.journal.log.Hard().GetCommit() > n.Index
	})
	s.kill()
	path := filepath.Join(s.dir, snapshotName)
	if err := snapshotfile.Keep(vfs.OS, path, func(w io.Writer) error {
		_, err := w.Write(stream)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.start()
	if s.process().m.id.ID != id.ID {
		t.Fatal("the snapshot is of another member")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the snapshot is still there: %v", err)
	}
	r.agree()
}

// TestSnapshotEntries: entries of a snapshot replace a member's uncommitted entries of another
// leader. Later entries do not count as committed.
func TestSnapshotEntries(t *testing.T) {
	o := founder(t)
	log := o.journal.log
	entry := func(index, term uint64, text string) *pb.Entry {
		e := entryOf(term, []byte(text))
		e.Index = &index
		return e
	}
	var mine, theirs []*pb.Entry
	for i := uint64(2); i <= 9; i++ {
		mine = append(mine, entry(i, 1+i/5, fmt.Sprint("mine ", i)))
		if i <= 7 {
			theirs = append(theirs, entry(i, 1+2*(i/6), fmt.Sprint("theirs ", i)))
		}
	}
	log.Append(consensus.Write{Hard: &pb.HardState{Term: new(uint64(2)), Vote: new(uint64(5))},
		Entries: mine})
	var b bytes.Buffer
	w, err := snapshotfile.NewWriter(&b, snapshotfile.Header{PageSize: 4096, Size: 4096})
	for _, e := range theirs {
		text, bad := proto.Marshal(e)
		err = errors.Join(err, bad, w.Record(e.GetIndex(), text))
	}
	if err = errors.Join(err, w.End()); err != nil {
		t.Fatal(err)
	}
	from, err := snapshotfile.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	last, err := appendEntries(log, 1, from)
	if err != nil || last != 7 || log.Last() != 7 || log.Hard().GetCommit() != 7 ||
		log.Hard().GetTerm() != 3 {
		t.Errorf("the entries end with %d, the log with %d, %v: %v", last, log.Last(),
			log.Hard(), err)
	}
	got, err := log.Entries(2, 8, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range got {
		want := theirs[i]
		if e.GetTerm() != want.GetTerm() || e.GetIndex() != want.GetIndex() ||
			want.GetTerm() > 1 && string(e.Data) != string(want.Data) {
			t.Errorf("entry %d of term %d is %q", e.GetIndex(), e.GetTerm(), e.Data)
		}
	}
}
