package restart

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
)

// TestMemoryLimit loads several times the memory that the kernel allows the server. With maxmemory
// and GOMEMLIMIT below that limit the server goes on. Without them the kernel kills it, and no
// acknowledged write is lost.
func TestMemoryLimit(t *testing.T) {
	if testkit.Number(t, "KEYP_KILLS", 0) == 0 {
		t.Skip("SKIPPED: make torture runs it")
	}
	const limit, size, batch = 200 << 20, 10_000, 50
	small := []string{"--wal-segment-size", "4mb", "--checkpoint-log-size", "16mb"}
	for _, tt := range []struct {
		name   string
		args   []string
		env    []string
		killed bool
	}{
		{"within", append(small, "--maxmemory", "48mb"), []string{"GOMEMLIMIT=120MiB"}, false},
		{"killed", append(small, "--maxmemory", "0"), []string{"GOMEMLIMIT=off", "GOGC=off"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := testkit.NewKeyp(t, testkit.Options{Args: tt.args, Env: tt.env})
			s.Start()
			limitMemory(t, s.Pid(), limit)
			c, acknowledged := s.Client(3), 0
			for lost := false; !lost && acknowledged < 3*limit/size; {
				lost = !store(t, c, acknowledged, batch, size)
				if !lost {
					acknowledged += batch
				}
			}
			if tt.killed {
				s.WaitKilled()
			} else {
				s.Kill()
			}
			t.Logf("%d MB were acknowledged", acknowledged*size>>20)
			if whole := acknowledged >= 3*limit/size; whole == tt.killed || acknowledged == 0 {
				t.Fatalf("the load ended after %d values", acknowledged)
			}
			s.Start()
			c = s.Client(3)
			for i := range acknowledged {
				if got, err := c.Get(ctx, fmt.Sprint("key", i)).Result(); err != nil ||
					got != bulky(i, size) {
					t.Fatalf("key%d of %d: %d bytes, %v", i, acknowledged, len(got), err)
				}
			}
			s.Kill()
			checkSound(t, s)
		})
	}
}

// bulky returns a value of size bytes that contains the number of its key.
func bulky(i, size int) string {
	text := fmt.Sprint(i, ";")
	return strings.Repeat(text, size/len(text)+1)[:size]
}

// store sets keys, and reports whether all were acknowledged. It returns false if the server has
// gone.
func store(t *testing.T, c *redis.Client, from, n, size int) bool {
	t.Helper()
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range n {
			p.Set(ctx, fmt.Sprint("key", from+i), bulky(from+i, size), 0)
		}
		return nil
	})
	var refused redis.Error
	if errors.As(err, &refused) {
		t.Fatal(err)
	}
	return err == nil
}

// limitMemory puts a process into a control group with a limit in bytes. If it cannot create a
// control group, it skips the test.
func limitMemory(t *testing.T, pid, limit int) {
	t.Helper()
	name := fmt.Sprint("keyp-test-", pid)
	for _, v := range []struct{ dir, file string }{{"/sys/fs/cgroup/memory",
		"memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		group := filepath.Join(v.dir, name)
		if os.Mkdir(group, 0o700) != nil {
			continue
		}
		// The removal fails while the process lives. The process ends with the test.
		t.Cleanup(func() { _ = os.Remove(group) })
		err := os.WriteFile(filepath.Join(group, v.file), []byte(strconv.Itoa(limit)), 0o600)
		if err == nil {
			err = os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)),
				0o600)
		}
		if err == nil {
			return
		}
	}
	t.Skip("SKIPPED: no control group with a memory limit can be made here (needs root on Linux)")
}
