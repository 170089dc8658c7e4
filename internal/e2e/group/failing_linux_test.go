package group

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"keyp/internal/childproc"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// failure is a way in which a disk fails under a running server.
type failure struct {
	says  string // what the log says of the failed operation
	fails func(s *testkit.Server)
	// heals runs after the server has exited and before it starts again. It may be nil.
	heals func(s *testkit.Server)
}

// TestWritesFail: files of a member can no longer be written.
func TestWritesFail(t *testing.T) {
	g := group{members.New(t, 3)}
	g.diskFails(t, failure{says: "file too large", fails: func(s *testkit.Server) {
		if err := unix.Prlimit(s.Pid(), unix.RLIMIT_FSIZE,
			&unix.Rlimit{Max: math.MaxUint64}, nil); err != nil {
			t.Fatal(err)
		}
	}})
}

// rarely skips a test unless KEYP_KILLS is set.
func rarely(t *testing.T) {
	t.Helper()
	if testkit.Number(t, "KEYP_KILLS", 0) == 0 {
		t.Skip("SKIPPED: make torture runs it")
	}
}

// TestSyncsFail: files of a member can no longer be synced. Without strace the test is skipped.
func TestSyncsFail(t *testing.T) {
	rarely(t)
	path, found := testkit.FindTool("strace")
	if !found {
		t.Skip("SKIPPED: strace is not installed, so syncs do not fail here")
	}
	g := group{members.New(t, 3)}
	g.diskFails(t, failure{says: "input/output error", fails: func(s *testkit.Server) {
		trace := filepath.Join(t.TempDir(), "trace")
		var printed testkit.Output
		cmd := exec.Command(path, "-f", "-qq", "-o", trace, "-p", strconv.Itoa(s.Pid()),
			"-e", "signal=none",
			"-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO")
		cmd.Stdout, cmd.Stderr = &printed, &printed
		if err := childproc.Start(cmd); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() // with the server's status, or by the kill below
			close(ended)
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it has ended with the server
			<-ended
		})
		refused := false
		await.Until(t, "a sync fails", func() bool {
			select {
			case <-ended:
				refused = true
			default:
			}
			text, _ := os.ReadFile(trace) // it comes with the first call
			return refused || bytes.Contains(text, []byte("(INJECTED)"))
		})
		if text, _ := os.ReadFile(trace); refused && !bytes.Contains(text, []byte("(INJECTED)")) {
			t.Skipf("SKIPPED: strace may not look at a process that runs here: %s",
				printed.String())
		}
	}})
}

// TestDiskDies: the kernel has shut down the file system of a member. Nothing can be written,
// synced or read, and unsynced data is lost.
func TestDiskDies(t *testing.T) {
	rarely(t)
	const shutdown, withoutItsJournal = 0x8004587d, 2 // FS_IOC_SHUTDOWN, of which x/sys has none
	var dirs []string
	disks, images := map[string]string{}, map[string]string{}
	for range 3 {
		disk, image := testkit.LoopDisk(t, 64)
		dir := filepath.Join(disk, "data")
		dirs, disks[dir], images[dir] = append(dirs, dir), disk, image
	}
	g := group{members.On(t, dirs, "--disk-reserve", "1mb")}
	g.diskFails(t, failure{says: "input/output error", fails: func(s *testkit.Server) {
		f, err := os.Open(disks[s.Dir()])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdown, withoutItsJournal); err != nil {
			t.Skipf("SKIPPED: no file system can be shut down here: %v", err)
		}
	}, heals: func(s *testkit.Server) {
		for _, args := range [][]string{{"umount", disks[s.Dir()]},
			{"mount", "-o", "loop", images[s.Dir()], disks[s.Dir()]}} {
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
		}
	}})
}

// diskFails makes the disk of a follower fail, and then that of a leader. It does so once while the
// others can continue, and once while a majority needs the member. The member exits and reports the
// reason. No acknowledged write is lost, even if only that member, with a working disk, and a
// member that was away are left.
func (g group) diskFails(t *testing.T, how failure) {
	for _, whose := range []string{"a follower", "the leader"} {
		for _, needed := range []bool{false, true} {
			others := slices.Clone(g.Servers)
			victim := g.Follower()
			if whose == "the leader" {
				victim = g.Leader()
			}
			others = slices.DeleteFunc(others, func(s *testkit.Server) bool { return s == victim })
			slices.SortFunc(others, func(a, b *testkit.Server) int {
				return strings.Compare(members.Role(a), members.Role(b))
			})
			partner, away := others[0], others[1] // of these the one that leads is the partner
			w := g.count(t)
			w.progress()
			if needed {
				away.Kill()
				w.progress()
			}
			from := len(victim.Log())
			how.fails(victim)
			status := victim.Ended()
			if text := victim.Log()[from:]; status == 0 ||
				!strings.Contains(text, "the store has failed and accepts no more writes") ||
				!strings.Contains(text, how.says) {
				t.Errorf("%s fails, and it ends with status %d", whose, status)
			}
			if needed {
				partner.Kill()
				away.Start()
			} else {
				w.progress()
			}
			if how.heals != nil {
				how.heals(victim)
			}
			victim.Start()
			w.end(g.Client())
			if needed {
				partner.Start()
			}
			g.Agree()
		}
	}
}
