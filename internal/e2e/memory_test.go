package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// anonymous returns how many bytes of RAM a process uses, without the pages of files that it has
// mapped.
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

// TestUsedMemory: INFO and MEMORY STATS report the memory that the process uses, for all kinds of
// keys.
func TestUsedMemory(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("the race detector takes memory of its own")
	}
	text := strings.Repeat("x", 20_000)
	shapes := map[string]struct {
		n   int
		add func(i int) []string
	}{
		"small strings": {400_000, func(i int) []string {
			return []string{"SET", fmt.Sprint("key:", i), text[:20]}
		}},
		"strings with deadlines": {150_000, func(i int) []string {
			return []string{"SETEX", fmt.Sprint("key:", i), "1000", text[:200]}
		}},
		"large strings": {3000, func(i int) []string {
			return []string{"SET", fmt.Sprint("key:", i), text}
		}},
		"hashes": {700_000, func(i int) []string {
			return []string{"HSET", fmt.Sprint("h:", i%40_000), fmt.Sprint("f:", i), text[:20]}
		}},
		"a sorted set": {600_000, func(i int) []string {
			return []string{"ZADD", "z", strconv.Itoa(i), fmt.Sprint("m:", i)}
		}},
	}
	for name, shape := range shapes {
		if !testkit.Long() && (name == "small strings" || name == "a sorted set") {
			continue // these two take as long as the others together
		}
		t.Run(name, func(t *testing.T) {
			keyp := testkit.Keyp(t, "--appendfsync", "no")
			c := keyp.Client(2)
			fill(t, keyp, shape.n, shape.add)
			compareMemory(t, c, keyp.Pid())
		})
	}
}

// fill sends the commands for the numbers below n, in pipelines.
func fill(t *testing.T, keyp *testkit.Server, n int, command func(i int) []string) {
	t.Helper()
	w, err := dialWire(keyp.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	for i := 0; i < n; {
		var commands [][]string
		for range min(1000, n-i) {
			commands = append(commands, command(i))
			i++
		}
		replies, err := w.doAll(commands)
		if err != nil {
			t.Fatal(err)
		}
		for k, r := range replies {
			if r.isError() {
				t.Fatalf("%q: %s", commands[k], r.text)
			}
		}
	}
}

// TestMaxMemoryHolds: after writing keys of twice maxmemory, the process uses at most 15 % more
// than maxmemory, and all keys are there. That holds for all kinds of keys.
func TestMaxMemoryHolds(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("the race detector takes memory of its own")
	}
	const limit = 48 << 20
	text := strings.Repeat("x", 20_000)
	type shape struct {
		n, keys int
		add     func(i int) []string
	}
	// Above the limit, whose upkeep takes as long as all else with twice as many.
	n := testkit.Cases(80_000, 150_000)
	shapes := map[string]shape{
		"strings": {150_000, 150_000, func(i int) []string {
			return []string{"SET", fmt.Sprint("key:", i), text[:500]}
		}},
		"strings of all lengths": {n, n, func(i int) []string {
			return []string{"SETEX", fmt.Sprint("key:", i), "1000", text[:i*i%1000]}
		}},
		"large strings": {5000, 5000, func(i int) []string {
			return []string{"SET", fmt.Sprint("key:", i), text}
		}},
		"hashes": {400_000, 20_000, func(i int) []string {
			return []string{"HSET", fmt.Sprint("h:", i/20), fmt.Sprint("f:", i), text[:150]}
		}},
		"sorted sets": {600_000, 3000, func(i int) []string {
			return []string{"ZADD", fmt.Sprint("z:", i/200), strconv.Itoa(i), fmt.Sprint("m:", i)}
		}},
	}
	if !testkit.Long() {
		// All shapes take a minute of processor time. Strings of all lengths leave gaps of all
		// sizes in slabs.
		maps.DeleteFunc(shapes, func(name string, _ shape) bool {
			return name != "strings of all lengths"
		})
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keyp := testkit.Keyp(t, "--maxmemory", "48mb", "--appendfsync", "no")
			c := keyp.Client(2)
			fill(t, keyp, shape.n, shape.add)
			var held int64
			defer func() {
				if t.Failed() {
					t.Logf("INFO memory: %v", memoryInfo(t, c, "memory"))
					t.Logf("MEMORY MALLOC-STATS: %v", c.Do(t.Context(), "MEMORY", "MALLOC-STATS"))
				}
			}()
			await.Until(t, "the process holds no more than maxmemory and 15 %", func() bool {
				for _, call := range [][]any{{"SAVE"}, {"MEMORY", "PURGE"}} {
					if err := c.Do(t.Context(), call...).Err(); err != nil {
						t.Fatal(err)
					}
				}
				held = anonymous(t, keyp.Pid())
				t.Logf("%d MiB are held", held>>20)
				return held <= limit*115/100
			})
			n, err := c.DBSize(t.Context()).Result()
			if err != nil || n != int64(shape.keys) {
				t.Errorf("%d keys (%v), want %d", n, err, shape.keys)
			}
			fields := memoryInfo(t, c, "everything")
			t.Logf("%d MiB are held, %s keys are in memory and take %s bytes", held>>20,
				fields["resident_keys"], fields["used_memory_dataset"])
			if data, err := strconv.Atoi(fields["used_memory_dataset"]); err != nil ||
				data < limit/4 {
				t.Errorf("keys take %d bytes (%v)", data, err)
			}
		})
	}
}

// TestBelowMaxMemoryStays: if all keys fit into maxmemory together with the process's other memory,
// no key leaves memory, whatever is written and read.
func TestBelowMaxMemoryStays(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("the race detector takes memory of its own")
	}
	keyp := testkit.Keyp(t, "--maxmemory", "64mb", "--appendfsync", "no")
	c := keyp.Client(2)
	for range testkit.Cases(2, 3) {
		fill(t, keyp, 200_000, func(i int) []string {
			if i%2 == 0 {
				return []string{"SET", fmt.Sprint("key:", i/2), strings.Repeat("x", 150+i%7)}
			}
			return []string{"GET", fmt.Sprint("key:", i/4)}
		})
		if err := c.Save(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	fields := memoryInfo(t, c, "everything")
	if fields["evicted_keys"] != "0" || fields["resident_keys"] != "100000" {
		t.Errorf("%s keys have left memory, %s are there, of %s bytes", fields["evicted_keys"],
			fields["resident_keys"], fields["used_memory_dataset"])
	}
}

// TestSmallMaxMemory: the server still serves clients if maxmemory is hardly more than the least
// that a process needs.
func TestSmallMaxMemory(t *testing.T) {
	t.Parallel()
	keyp := testkit.Keyp(t, "--maxmemory", "20mb", "--appendfsync", "no")
	c := keyp.Client(2)
	n := testkit.Cases(30_000, 60_000)
	fill(t, keyp, n, func(i int) []string {
		return []string{"SET", fmt.Sprint("key:", i), strings.Repeat(fmt.Sprint(i%10), 300)}
	})
	for i := range 1000 {
		i *= n / 1000
		if got, err := c.Get(t.Context(), fmt.Sprint("key:", i)).Result(); err != nil ||
			got != strings.Repeat(fmt.Sprint(i%10), 300) {
			t.Fatalf("key %d: %d bytes, %v", i, len(got), err)
		}
	}
}

// memoryInfo returns the fields of a section of INFO.
func memoryInfo(t *testing.T, c *redis.Client, section string) map[string]string {
	t.Helper()
	text, err := c.Info(t.Context(), section).Result()
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields
}

func compareMemory(t *testing.T, c *redis.Client, pid int) {
	t.Helper()
	ctx := context.Background()
	if err := c.Do(ctx, "MEMORY", "PURGE").Err(); err != nil {
		t.Fatal(err)
	}
	fields := memoryInfo(t, c, "memory")
	stats := map[string]any{}
	list, err := c.Do(ctx, "MEMORY", "STATS").Slice()
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(list); i += 2 {
		stats[list[i].(string)] = list[i+1]
	}
	held := anonymous(t, pid)
	for what, value := range map[string]string{"used_memory": fields["used_memory"],
		"total.allocated": fmt.Sprint(stats["total.allocated"])} {
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
