package restart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestNoFilesLeft takes file descriptors away from a server that needs new files for its log and
// its checkpoints. First the limit leaves no free descriptor, then new connections use up the free
// ones. While the log cannot grow, the server refuses writes and serves reads. No acknowledged
// write is lost. Once there are descriptors again, everything works as before.
func TestNoFilesLeft(t *testing.T) {
	s := testkit.Keyp(t, "--wal-segment-size", "64kb", "--checkpoint-log-size", "1mb",
		"--maxclients", "1000")
	c := s.Client(3)
	value, written := strings.Repeat("v", 2000), 0
	// write writes some segments of the log, and returns how many values the server accepted.
	write := func(when string) (taken int) {
		t.Helper()
		for ; taken < 200; taken++ {
			if err := c.Set(ctx, fmt.Sprint("key", written), value, 0).Err(); err != nil {
				if !strings.HasPrefix(err.Error(), "MISCONF ") {
					t.Fatalf("%s: %v", when, err)
				}
				break
			}
			written++
		}
		if got, err := c.Get(ctx, "key0").Result(); err != nil || got != value {
			t.Errorf("%s: GET: %d bytes, %v", when, len(got), err)
		}
		return taken
	}
	writeAll := func(when string) {
		t.Helper()
		await.Until(t, when, func() bool { return write(when) == 200 })
		if err := c.Do(ctx, "SAVE").Err(); err != nil {
			t.Errorf("%s: SAVE: %v", when, err)
		}
	}
	writeAll("with all descriptors")

	await.Until(t, "writes are refused without a descriptor more", func() bool {
		// Work in the background may have closed some files before the first write.
		limitFiles(t, s.Pid(), limitFor(t, s.Pid(), 0))
		return write("without a descriptor more") < 200
	})
	await.Until(t, "the log says why", func() bool {
		return strings.Contains(s.Log(), "too many open files")
	})
	limitFiles(t, s.Pid(), limitFor(t, s.Pid(), 10))
	served, refused := 0, 0
	for range 60 {
		conn := s.Dial()
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			refused++
			continue
		}
		reply := make([]byte, 5)
		if n, err := conn.Read(reply); err == nil && string(reply[:n]) == "+PONG" {
			served++
		} else {
			refused++
		}
	}
	if served == 0 || refused == 0 {
		t.Fatalf("%d connections were served, %d refused", served, refused)
	}
	writeAll("while connections are refused")

	limitFiles(t, s.Pid(), 2000)
	await.Until(t, "connections are accepted again", func() bool {
		other := s.Client(2)
		defer other.Close()
		return other.Ping(ctx).Err() == nil
	})
	writeAll("with descriptors again")
	if !strings.Contains(s.Log(), "no new connections can be accepted") {
		t.Error("nothing was logged")
	}
	s.Kill()
	checkSound(t, s)
	s.Start()
	c = s.Client(3)
	for i := range written {
		if got, err := c.Get(ctx, fmt.Sprint("key", i)).Result(); err != nil || got != value {
			t.Fatalf("key%d of %d: %d bytes, %v", i, written, len(got), err)
		}
	}
	s.Stop()
}

// limitFor returns the limit with which a process can open more new files and no others. A new
// descriptor always has the lowest free number.
func limitFor(t *testing.T, pid, more int) (limit int) {
	t.Helper()
	for ; ; limit++ {
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", pid, limit)); errors.Is(err,
			fs.ErrNotExist) {
			if more--; more < 0 {
				return limit
			}
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// limitFiles limits the descriptors of a process from now on.
func limitFiles(t *testing.T, pid, n int) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(n),
		Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
}
