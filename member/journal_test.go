package member

import (
	"context"
	"errors"
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/commands"
	"keyp/consensus"
	"keyp/internal/testkit/await"
	"keyp/internal/vfs"
	"keyp/storage"
)

// founder opens the only member of a group, without starting it.
func founder(t *testing.T) *opened {
	t.Helper()
	dir, _ := alone(t, 3)
	disk := newDisk(dir, nil)
	if err := convert(storeOptions(dir, disk, nil), someIdentity(), founded()); err != nil {
		t.Fatal(err)
	}
	o, err := openDir(dir, disk, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.close() })
	return o
}

// TestSettledIsCommitted: Settled writes a commit index to disk. The index covers the position and
// is not beyond the committed entries, even with more uncommitted entries than keptSpans.
func TestSettledIsCommitted(t *testing.T) {
	const known, more = 10, 3 * keptSpans
	o := founder(t)
	j := o.journal
	hard := &pb.HardState{Term: new(uint64(1)), Vote: new(uint64(5))}
	for i := range uint64(known + more) {
		e := entryOf(1, batchesEntry(3*i, "ab"))
		e.Index = new(2 + i)
		j.log.Append(consensus.Write{Hard: hard, Entries: []*pb.Entry{e}})
		j.mu.Lock()
		j.note(2+i, 3*(i+1))
		j.mu.Unlock()
		if i == known-1 {
			j.advance(2 + i)
		}
	}
	if got := j.Durable(); got != 3*known {
		t.Fatalf("%d is durable", got)
	}
	if err := j.Settled(context.Background(), 3*known-5); err != nil {
		t.Fatal(err)
	}
	if got := j.log.Hard().GetCommit(); got < known || got > known+1 {
		t.Errorf("the commit index on disk is %d, and entry %d is the last that is committed", got,
			known+1)
	}
	if got := j.Synced(); got < 3*known {
		t.Errorf("%d is synced", got)
	}
	if err := j.Settled(context.Background(), 3*known+1); !errors.Is(err, storage.ErrDeposed) {
		t.Errorf("what a follower's log has not committed settles: %v", err)
	}
}

// TestElectedBesideTasks: the member becomes leader on another goroutine, because that waits for
// the server's loop. It does so even if the task that records the election has not run yet.
func TestElectedBesideTasks(t *testing.T) {
	o := founder(t)
	o.queue.mu.busy = true // somebody does something else
	x := machine{o.Member}
	x.Elected(3, 9)
	apply := func(index uint64) {
		e := entryOf(3, nil)
		e.Index = &index
		x.Apply(consensus.Applying{Entries: []*pb.Entry{e}, Conf: founded().Conf}, func() {})
	}
	for index := uint64(8); index <= 10; index++ {
		apply(index)
	}
	var waits []bool
	for _, task := range o.queue.mu.list {
		waits = append(waits, task.waits)
	}
	if want := []bool{false, false, true, false}; !slices.Equal(waits, want) {
		t.Errorf("the tasks wait: %v instead of %v", waits, want)
	}
	o.queue.mu.list = nil
}

// TestDeposedBeforeItLeads: throttle does not wait in a term that was over before lead was called.
func TestDeposedBeforeItLeads(t *testing.T) {
	o := founder(t)
	j := o.journal
	waits := func() chan struct{} {
		done := make(chan struct{})
		go func() { j.throttle(); close(done) }()
		return done
	}
	j.depose(4)
	j.lead(4)
	j.mu.Lock()
	j.mu.pending = make([]byte, mostPending+batchesHeader+1)
	j.mu.Unlock()
	await.For(t, "the end of the wait", waits())
	j.lead(5)
	j.mu.Lock()
	j.mu.pending = make([]byte, mostPending+batchesHeader+1)
	j.mu.Unlock()
	done := waits()
	j.depose(5)
	await.For(t, "the end of the wait", done)
	j.lead(6)
}

// TestRoomWhenApplied: if the group had no room for batches, they are proposed again once entries
// are applied. That does not happen earlier, because the group counts entries until they are
// applied. There may be no later commit that would cause another attempt.
func TestRoomWhenApplied(t *testing.T) {
	o := founder(t)
	j := o.journal
	apply := func(index uint64) (tried bool) {
		done := false
		e := entryOf(1, nil)
		e.Index = &index
		machine{o.Member}.Apply(consensus.Applying{Entries: []*pb.Entry{e}, Conf: founded().Conf},
			func() {
				if done = true; len(j.kick) > 0 {
					t.Error("it is tried before there is room")
				}
			})
		if !done {
			t.Fatal("the entry is not applied")
		}
		select {
		case <-j.kick:
			return true
		default:
			return false
		}
	}
	if apply(2) {
		t.Error("a follower proposes")
	}
	j.lead(1)
	if apply(3) {
		t.Error("nothing is proposed")
	}
	j.Append([]byte("batch"))
	if !apply(4) {
		t.Error("what had no room is not tried again")
	}
}

// TestMembersOnDisk: a checkpoint writes the list of members to disk only if it has changed.
func TestMembersOnDisk(t *testing.T) {
	dir, _ := alone(t, 1)
	if err := convert(storeOptions(dir, newDisk(dir, nil), nil), someIdentity(),
		founded()); err != nil {
		t.Fatal(err)
	}
	created := 0
	fs := vfs.Inject(newDisk(dir, nil), func(op vfs.Op, name string, _ int64, _ int) error {
		if op == vfs.OpRename {
			created++
		}
		return nil
	})
	o, err := openDir(dir, newDisk(dir, nil), func(o *storage.Options) { o.FS = fs })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = o.close() }()
	created = 0
	for _, c := range []struct {
		joins commands.Member
		want  int
	}{
		{commands.Member{ID: 5, Node: someIdentity().Node, IP: "127.0.0.1", Bus: 1}, 0},
		{commands.Member{ID: 6, Node: "c", IP: "127.0.0.1", Bus: 2}, 1},
		{commands.Member{ID: 6, Node: "c", IP: "127.0.0.1", Bus: 2}, 1},
		{commands.Member{ID: 6, Node: "c", IP: "127.0.0.1", Bus: 3}, 2},
	} {
		o.joins(c.joins)
		if _, err := o.mark(); err != nil {
			t.Fatal(err)
		}
		got, err := readIdentity(dir)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(got.Members, func(m commands.Member) bool {
			return m.ID == c.joins.ID
		}); i < 0 || got.Members[i] != c.joins || created != c.want {
			t.Errorf("%+v has come, and on disk is %+v; it was written %d times", c.joins,
				got.Members, created)
		}
	}
}
