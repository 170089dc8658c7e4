package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
)

// anonymous is how much memory of its own a process has in RAM, in bytes, pages of files that it
// has mapped left out.
func anonymous(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("the system does not say what a process holds")
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	kb, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseInt(kb, 10, 64)
	if err != nil {
		t.Skip("the system does not say what a process holds of its own")
	}
	return n << 10
}

// TestUsedMemory: INFO and MEMORY STATS say what the process holds, whatever its keys are.
func TestUsedMemory(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector takes memory of its own")
	}
	text := strings.Repeat("x", 20_000)
	shapes := map[string]struct {
		n   int
		add func(p redis.Pipeliner, i int)
	}{
		"small strings": {400_000, func(p redis.Pipeliner, i int) {
			p.Set(t.Context(), fmt.Sprint("key:", i), text[:20], 0)
		}},
		"strings with deadlines": {150_000, func(p redis.Pipeliner, i int) {
			p.SetEx(t.Context(), fmt.Sprint("key:", i), text[:200], 1e12)
		}},
		"large strings": {3000, func(p redis.Pipeliner, i int) { p.Set(t.Context(), fmt.Sprint("key:", i), text, 0) }},
		"hashes": {700_000, func(p redis.Pipeliner, i int) {
			p.HSet(t.Context(), fmt.Sprint("h:", i%40_000), fmt.Sprint("f:", i), text[:20])
		}},
		"a sorted set": {600_000, func(p redis.Pipeliner, i int) {
			p.ZAdd(t.Context(), "z", redis.Z{Score: float64(i), Member: fmt.Sprint("m:", i)})
		}},
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			keyp := testkit.Keyp(t)
			c := redis.NewClient(&redis.Options{Addr: keyp.Addr(), Protocol: 2, ReadTimeout: -1})
			defer func() { _ = c.Close() }()
			for i := 0; i < shape.n; {
				p := c.Pipeline()
				for range 1000 {
					shape.add(p, i)
					i++
				}
				if _, err := p.Exec(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			compareMemory(t, c, keyp.Pid())
		})
	}
}

func compareMemory(t *testing.T, c *redis.Client, pid int) {
	t.Helper()
	ctx := context.Background()
	if err := c.Do(ctx, "MEMORY", "PURGE").Err(); err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(c.Info(ctx, "memory").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	stats := map[string]any{}
	list, err := c.Do(ctx, "MEMORY", "STATS").Slice()
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(list); i += 2 {
		stats[list[i].(string)] = list[i+1]
	}
	held := anonymous(t, pid)
	for what, value := range map[string]string{"used_memory": fields["used_memory"], "total.allocated": fmt.Sprint(stats["total.allocated"])} {
		used, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if diff := used - held; diff > held*15/100 || diff < -held*15/100 {
			t.Errorf("%s is %d, the process holds %d: %d %%", what, used, held, 100*diff/held)
		}
	}
	share, err := strconv.ParseFloat(fmt.Sprint(stats["dataset.percentage"]), 64)
	if err != nil || share < 25 || share > 100 {
		t.Errorf("dataset.percentage is %v (%v)", stats["dataset.percentage"], err)
	}
}
