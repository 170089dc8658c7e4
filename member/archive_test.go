package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/setup"
	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/archive"
)

// archives is a group whose members archive their logs.
type archives struct {
	*ring
	dirs  []string // of each server's archive
	rng   *rand.Rand
	waits atomic.Bool // archive only whole files, and the rest much later
	n     int         // keys written
	all   []archivePoint
}

// archivePoint is a moment at which no write was under way.
type archivePoint struct {
	lsn  uint64
	ms   int64
	want map[string]string
}

// newArchives makes a group in which the first servers have no archive.
func newArchives(t *testing.T, without int) *archives {
	a := &archives{rng: rand.New(rand.NewPCG(setup.Seed, 7))}
	a.ring = newRingWith(t, 3, func(i int, s *server) {
		dir := testkit.MemoryDir(t)
		a.dirs = append(a.dirs, dir)
		s.options = func(o *storage.Options) {
			if o.InitialMmap = 1 << 26; i < without { // snapshots need room
				return
			}
			o.Archive = storage.Archive{Dir: dir, FileSize: 3000, Timeout: func() time.Duration {
				if a.waits.Load() {
					return time.Hour
				}
				return 0
			}}
		}
	})
	a.join()
	return a
}

// writes writes keys, records some moments, and makes checkpoints.
func (a *archives) writes(n int) {
	a.t.Helper()
	for range n {
		a.write(fmt.Sprint("k", a.rng.IntN(200)),
			fmt.Sprint("value ", a.n, strings.Repeat(".", a.rng.IntN(100))))
		if a.n++; a.rng.IntN(4) == 0 {
			a.note()
		}
	}
	for _, s := range a.servers {
		if p := s.process(); p != nil && a.rng.IntN(2) == 0 {
			_ = p.store.Checkpoint() // one whose leader is gone makes none
		}
	}
}

// note records the present content, in a millisecond without writes.
func (a *archives) note() {
	s := a.leader()
	p := s.process()
	if p == nil {
		return
	}
	log := p.store.Log()
	lsn, ms := log.Durable(), p.store.Now()
	if log.End() == lsn && a.leader() == s {
		a.all = append(a.all, archivePoint{lsn, ms, maps.Clone(a.model)})
		a.await("a millisecond passes", func() bool {
			return p.store.Now() > ms || s.process() != p
		})
	}
}

// archived waits until servers have archived everything up to the last recorded moment.
func (a *archives) archived(list ...*server) {
	a.t.Helper()
	last := a.all[len(a.all)-1].lsn
	for _, s := range list {
		a.await("the log is archived", func() bool {
			p := s.process()
			return p != nil && p.store.Stats().Archive.Through >= last
		})
	}
}

// files returns the archives of servers.
func (a *archives) files(list ...int) (from []archive.Files) {
	for _, i := range list {
		from = append(from, archive.Dir(vfs.OS, a.dirs[i]))
	}
	return from
}

// restores restores a backup to a moment with the help of archives, and compares the content.
func (a *archives) restores(backup []byte, at archivePoint, byTime bool, from ...archive.Files) {
	a.t.Helper()
	dir := testkit.MemoryDir(a.t)
	source := storage.Source{Archives: from, LSN: at.lsn}
	if byTime {
		source = storage.Source{Archives: from, Time: at.ms}
	}
	o := storeOptions(dir, newDisk(dir, nil), slog.New(slog.DiscardHandler))
	m, err := storage.RestoreTo(context.Background(), o, bytes.NewReader(backup), source)
	if err != nil {
		a.t.Errorf("a restore to LSN %d, by time: %t, ends with %v", at.lsn, byTime, err)
		return
	}
	if got := aloneIn(a.t, dir); !maps.Equal(got, at.want) {
		a.t.Errorf("a restore to LSN %d, by time: %t, has %d keys instead of %d, of LSN %d: %s",
			at.lsn, byTime, len(got), len(at.want), m.Through, (&ring{model: at.want}).agrees(got))
	}
}

// deposes cuts the leader off. The leader then writes keys that are never acknowledged and that
// other members replace.
func (a *archives) deposes() {
	a.t.Helper()
	a.waits.Store(false) // the leader that is cut off must try to archive its writes
	s := a.leader()
	a.isolate(s)
	for i := range 20 {
		a.running(s).set(fmt.Sprint("k", i), "never")
	}
	a.await("another member leads", func() bool { l := a.anyLeader(); return l != nil && l != s })
	a.writes(5)
	a.note()
	a.cut(nil)
	a.agree()
}

// TestArchives: members archive all of the group's log across power failures, checkpoints and
// elections, at once or much later, with or without the leader. Any member's archive and any
// member's backup suffice to restore any later moment.
func TestArchives(t *testing.T) {
	a := newArchives(t, 1)
	a.writes(20)
	a.agree()
	type backup struct {
		stream []byte
		lsn    uint64
		ms     int64
	}
	var backups []backup
	for round := range 6 {
		a.waits.Store(round%2 == 1)
		s := a.servers[a.rng.IntN(3)]
		if round%3 != 0 { // a follower's data file has all of the log then
			a.checkpoint(s)
		}
		stream, h := backupOf(t, a.running(s).store, nil)
		backups = append(backups, backup{stream, h.Through, h.Time})
		a.writes(15)
		s = a.servers[a.rng.IntN(3)]
		if round%3 == 0 {
			a.deposes()
		}
		s.kill()
		a.writes(15)
		s.start()
		a.writes(5)
		a.agree()
	}
	a.waits.Store(false)
	for range 2 {
		a.powerCut() // what is archived is there after that
		for _, s := range a.servers {
			s.start()
		}
		a.writes(5)
		a.note()
		a.archived(a.servers[1:]...)
	}
	// The archive reports the time of the last write, and not that nothing came for a millisecond.
	last := a.all[len(a.all)-1].lsn
	for i, s := range a.servers[1:] {
		if st := a.running(s).store.Stats().Archive; st.Holes != 0 || st.Failures != 0 {
			t.Errorf("server %d has %d holes and %d failures in its archive: %v", 1+i, st.Holes,
				st.Failures, st.Err)
		}
	}
	for range 60 {
		b, at := backups[a.rng.IntN(len(backups))], a.all[a.rng.IntN(len(a.all))]
		if at.lsn < b.lsn || at.ms < b.ms {
			continue
		}
		a.restores(b.stream, at, a.rng.IntN(2) == 0 && at.lsn < last, a.files(1+a.rng.IntN(2))...)
	}
}

// TestArchiveBehindSnapshot: the archive of a member that has installed a snapshot lacks a part of
// the log, which another member's archive has.
func TestArchiveBehindSnapshot(t *testing.T) {
	a := newArchives(t, 0)
	a.writes(20)
	a.agree()
	away := a.others(a.leader())[0]
	stream, h := backupOf(t, a.running(away).store, nil)
	a.note()
	a.archived(a.servers...)
	away.kill()
	a.mu.Lock()
	a.keptLog = 0
	a.mu.Unlock()
	for range 3 {
		a.writes(30)
		a.note()
		a.archived(a.others(away)...)
		for _, s := range a.others(away) { // which release what is archived
			a.checkpoint(s)
		}
	}
	away.start()
	a.agree()
	a.mu.Lock()
	a.keptLog = 1 << 30
	a.mu.Unlock()
	a.writes(10)
	a.note()
	last := a.all[len(a.all)-1]
	a.archived(a.servers...)
	of := 0
	for i, s := range a.servers {
		if s == away {
			of = i
		}
	}
	dir := testkit.MemoryDir(t)
	o := storeOptions(dir, newDisk(dir, nil), slog.New(slog.DiscardHandler))
	if _, err := storage.RestoreTo(context.Background(), o, bytes.NewReader(stream),
		storage.Source{Archives: a.files(of), LSN: last.lsn}); !errors.Is(err, archive.ErrHole) {
		t.Errorf("with an archive that has a hole the restore ends with %v", err)
	}
	for range 20 {
		if at := a.all[a.rng.IntN(len(a.all))]; at.lsn >= h.Through && at.ms >= h.Time {
			a.restores(stream, at, a.rng.IntN(2) == 0 && at.lsn < last.lsn,
				a.files(of, (of+1)%3)...)
		}
	}
	a.restores(stream, last, false, a.files(of, (of+2)%3)...)
}

// TestArchiveOfOther: a member does not archive into the directory of another member.
func TestArchiveOfOther(t *testing.T) {
	a := newArchives(t, 0)
	a.writes(10)
	a.note()
	a.archived(a.servers...)
	s := a.servers[1]
	s.kill()
	change := s.options
	s.options = func(o *storage.Options) {
		change(o)
		o.Archive.Dir = a.dirs[2]
	}
	s.start()
	a.writes(10)
	a.await("the archive is refused", func() bool {
		p := s.process()
		return p != nil && p.store.Stats().Archive.Err != nil &&
			strings.Contains(p.store.Stats().Archive.Err.Error(),
				"each member needs a directory of its own")
	})
	if n := a.running(s).store.Stats().Archive.Files; n != 0 {
		t.Errorf("%d files are archived", n)
	}
}

// TestBatchesBeforeCommit: a member can read its log even while the known commit index is beyond
// the log's end.
func TestBatchesBeforeCommit(t *testing.T) {
	r := newGroup(t, 3)
	r.fill("k", 20)
	r.agree()
	j := r.running(r.others(r.leader())[0]).m.journal
	kept := j.KeepFrom(j.Begin())
	j.mu.Lock()
	commit := j.mu.commit
	j.mu.commit += 1000
	j.mu.Unlock()
	n := 0
	err := kept.Batches(j.Begin(), j.Durable(), func(uint64, []byte) error { n++; return nil })
	j.mu.Lock()
	j.mu.commit = commit
	j.mu.Unlock()
	if err != nil || n < 20 {
		t.Errorf("%d batches are read, %v", n, err)
	}
	if err := kept.LetGo(); err != nil {
		t.Error(err)
	}
}
