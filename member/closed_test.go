package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyp/consensus/raftlog"
	"keyp/internal/testkit"
	"keyp/storage"
	"keyp/storage/snapshotfile"
)

// backupOf returns a whole backup of a store. meanwhile, if not nil, is called after the backup is
// opened and before its first byte.
func backupOf(t *testing.T, store *storage.Store,
	meanwhile func()) (stream []byte, h snapshotfile.Header) {
	t.Helper()
	sn, err := store.OpenBackup(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if meanwhile != nil {
		meanwhile()
	}
	var b bytes.Buffer
	if err := errors.Join(sn.SendBackup(context.Background(), &b), sn.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), sn.Header
}

// restoredOf restores a backup to a new directory, and returns its content as a server that is
// alone opens it.
func restoredOf(t *testing.T, stream []byte) map[string]string {
	t.Helper()
	dir := testkit.MemoryDir(t)
	if _, err := storage.RestoreBackup(storeOptions(dir, newDisk(dir, nil),
		slog.New(slog.DiscardHandler)), bytes.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	return aloneIn(t, dir)
}

// aloneIn returns the content of a directory that a server that is alone opens.
func aloneIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	s, _, err := storage.Open(storeOptions(dir, newDisk(dir, nil), slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	got := contentOf(t, s)
	if err := errors.Join(s.Check(), s.Close(true)); err != nil {
		t.Error(err)
	}
	return got
}

// TestBackupOfMembers: a backup of a leader or a follower has the content of the member when it was
// opened, whatever is written meanwhile. The log is kept until the backup is read.
func TestBackupOfMembers(t *testing.T) {
	r := newRing(t, 3)
	r.keptLog = 0
	for _, s := range r.servers { // which start again as they join
		s.options = func(o *storage.Options) { o.InitialMmap = 1 << 26 }
	}
	r.join()
	for round := range 3 {
		for _, s := range []*server{r.leader(), r.others(r.leader())[round%2]} {
			r.fill(fmt.Sprint("k", round), 20)
			r.agree()
			if round == 1 {
				r.checkpoint(s)
				r.fill("behind", 5)
				r.agree()
			}
			p, want := r.running(s), maps.Clone(r.model)
			stream, h := backupOf(t, p.store, func() {
				for i := range 3 { // of which each one would release the log
					r.write("large", strings.Repeat(fmt.Sprint(i), 100_000))
					r.agree()
					r.checkpoint(s)
				}
				if p.m.kept() == 0 {
					t.Error("nothing is kept for the backup")
				}
			})
			if kept := p.m.kept(); kept != 0 {
				t.Errorf("%d bytes are kept behind the backup", kept)
			}
			note, err := storage.ReadBackupNote(&h)
			if err != nil || note.History != historyOf(p.m.id.Cluster) || !h.Member {
				t.Errorf("the header is %+v, with %+v, %v", h, note, err)
			}
			if got := restoredOf(t, stream); !maps.Equal(got, want) {
				t.Errorf("round %d: the backup has %d keys: %s", round, len(got),
					(&ring{model: want}).agrees(got))
			}
		}
	}
}

// TestClosed: the store of a closed member's directory has everything that the log marks as
// committed, or all of the log. So have its backup and the recovered directory. The directory does
// not change.
func TestClosed(t *testing.T) {
	tries(t, func(r *ring) bool {
		r.fill("k", 20)
		r.checkpoint(r.leader())
		r.fill("l", 20)
		r.agree()
		old := r.leader()
		p := r.running(old)
		r.isolate(old)
		_, ok := p.set("last", "1")
		if !ok {
			return false
		}
		r.await("the last entry is on the old leader's disk, or that one has been deposed before",
			func() bool {
				return old.process() != p ||
					p.m.journal.log.SyncedIndex() > p.m.group.Status().Committed ||
					!p.m.status.Load().Role.Leads()
			})
		if old.process() != p || p.m.journal.log.SyncedIndex() <= p.m.group.Status().Committed {
			return false
		}
		r.powerCut()
		with := maps.Clone(r.model)
		with["last"] = "1"
		best, most := uint64(0), 0
		for _, s := range r.servers {
			before := filesOf(t, s.dir)
			for _, all := range []bool{false, true} {
				store, c := s.closed(t, all)
				got := contentOf(t, store)
				want := r.model
				if s == old && all {
					want = with
				}
				if all && s == old && (c.Last <= c.Committed || c.Taken != c.Last) ||
					!all && c.Taken != c.Committed || c.Part != 0 || c.Written.IsZero() {
					t.Errorf("the directory is %+v", c)
				}
				if all && s != old && c.Last > best {
					best, most = c.Last, len(got)
				}
				if s == old && !maps.Equal(got, want) {
					// A follower may not know yet that the last ones are committed.
					t.Errorf("all: %t: %s", all, (&ring{model: want}).agrees(got))
				}
				if err := store.Check(); err != nil {
					t.Error(err)
				}
				stream, _ := backupOf(t, store, nil)
				if again := restoredOf(t, stream); !maps.Equal(again, got) {
					t.Errorf("all: %t: the directory has %d keys and its backup %d", all,
						len(got), len(again))
				}
				if all {
					to := testkit.MemoryDir(t)
					if err := c.Recover(context.Background(), store, storeOptions(to,
						newDisk(to, nil), slog.New(slog.DiscardHandler))); err != nil {
						t.Error(err)
					}
					if again := aloneIn(t, to); !maps.Equal(again, got) {
						t.Errorf("the directory has %d keys and what was recovered %d",
							len(got), len(again))
					}
				}
				if err := store.Close(false); err != nil {
					t.Error(err)
				}
			}
			if after := filesOf(t, s.dir); !maps.Equal(before, after) {
				t.Error("the directory has changed")
			}
		}
		if most != len(r.model) {
			t.Errorf("the follower whose log is the longest has %d keys of %d", most, len(r.model))
		}
		return true
	})
}

// powerCut cuts the power of all servers.
func (r *ring) powerCut() {
	for _, s := range r.servers {
		s.kill()
	}
}

// closed opens the directory of a server that was killed.
func (s *server) closed(t *testing.T, all bool) (*storage.Store, *Closed) {
	t.Helper()
	store, c, err := s.tryClosed(all)
	if err != nil {
		t.Fatal(err)
	}
	return store, c
}

func (s *server) tryClosed(all bool) (*storage.Store, *Closed, error) {
	store, _, c, err := OpenClosed(storeOptions(s.dir, newDisk(s.dir, s.mu.mem),
		slog.New(slog.DiscardHandler)), all)
	return store, c, err
}

// filesOf returns the content of all files of a directory.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		if entry.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[entry.Name()] = string(text)
	}
	return got
}

// TestClosedRefused: the error for a directory that cannot be read names the reason.
func TestClosedRefused(t *testing.T) {
	r := newGroup(t, 3)
	r.fill("k", 5)
	r.agree()
	s := r.servers[1]
	dir, _ := alone(t, 3)
	if _, _, _, err := OpenClosed(storeOptions(dir, newDisk(dir, nil),
		slog.New(slog.DiscardHandler)), true); !errors.Is(err, storage.ErrAlone) {
		t.Errorf("the directory of a server that is alone: %v", err)
	}
	if _, _, err := s.tryClosed(true); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("the directory of a server that runs: %v", err)
	}
	r.powerCut()
	for _, tt := range []struct {
		what   string
		damage func(dir string) error
		want   string
	}{
		{"a snapshot", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, snapshotName), nil, 0o600)
		}, "not installed"},
		{"leaving", func(dir string) error {
			return os.Rename(filepath.Join(dir, identityFile), filepath.Join(dir, leavingFile))
		}, "has left its group"},
		{"nobody's", func(dir string) error { return os.Remove(filepath.Join(dir, identityFile)) },
			"is missing"},
		{"another's", func(dir string) error {
			id := someIdentity()
			return id.write(newDisk(dir, nil), dir)
		}, "of another member"},
	} {
		copy := &server{dir: copied(t, s.dir)}
		copy.mu.mem = moved(t, s.mu.mem, s.dir, copy.dir)
		if err := tt.damage(copy.dir); err != nil {
			t.Fatal(err)
		}
		if _, _, err := copy.tryClosed(true); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
	joining, _ := alone(t, 0)
	disk := newDisk(joining, nil)
	o := storeOptions(joining, disk, slog.New(slog.DiscardHandler))
	if err := convert(o, someIdentity(), raftlog.Base{}); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := OpenClosed(o, true); !errors.Is(err, errNoEntries) {
		t.Errorf("a member that was joining: %v", err)
	}
}
