package object

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"keyp/internal/testkit"
)

// TestStreamNodesAsRedis: a stream stores its entries in runs, as Redis stores them in the nodes of
// a tree. There are as many runs as Redis has nodes, whatever is added, deleted and trimmed. XTRIM
// with ~ removes the same number of entries.
func TestStreamNodesAsRedis(t *testing.T) {
	t.Cleanup(func() { SetThresholds(DefaultThresholds) })
	server := testkit.Redis(t)
	client := server.Client(2)
	ctx := context.Background()
	do := func(args ...any) any {
		t.Helper()
		reply, err := client.Do(ctx, args...).Result()
		if err != nil {
			t.Fatalf("%.100v: %v", args, err)
		}
		return reply
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, entries := range []int{100, 7, 0, 300} {
		for _, size := range []int{4096, 200} {
			do("CONFIG", "SET", "stream-node-max-entries", entries, "stream-node-max-bytes", size)
			l := DefaultThresholds
			l.StreamEntries, l.StreamBytes = entries, size
			SetThresholds(l)
			do("DEL", "s")
			s := NewStream()
			for range 500 {
				switch n := rng.IntN(10); {
				case n < 6 || s.Entries() == 0:
					for range 1 + rng.IntN(20) {
						addBoth(rng, s, do)
					}
				case n < 8:
					id := StreamID{s.LastID().Ms - rng.Uint64N(200), 0}
					s.Range(id, MaxStreamID, false, func(e StreamEntry) bool {
						id = e.ID
						return false
					})
					do("XDEL", "s", id.String())
					s.Delete(id, nil)
				case n == 8:
					most := s.Entries() - rng.IntN(min(30, s.Entries()))
					do("XTRIM", "s", "MAXLEN", "=", most)
					s.TrimFirst(s.Entries()-most, nil, nil)
				default:
					most := rng.IntN(s.Entries() + 1)
					removed := do("XTRIM", "s", "MAXLEN", "~", most, "LIMIT", 0).(int64)
					whole := s.WholeNodes(s.Entries() - most)
					s.TrimFirst(whole, nil, nil)
					if int(removed) != whole {
						t.Fatalf("trimmed %d, Redis %d", whole, removed)
					}
				}
				info := do("XINFO", "STREAM", "s").([]any)
				if info[1].(int64) != int64(s.Entries()) || info[3].(int64) != int64(s.Nodes()) {
					t.Fatalf("limits %d, %d: %d entries in %d runs, Redis has %d in %d nodes",
						entries, size, s.Entries(), s.Nodes(), info[1], info[3])
				}
			}
		}
	}
}

// addBoth adds an entry to a stream here and to one in Redis.
func addBoth(rng *rand.Rand, s *Stream, do func(...any) any) {
	id := StreamID{s.LastID().Ms + 1 + rng.Uint64N(3)*rng.Uint64N(40_000), 0}
	if rng.IntN(3) == 0 {
		id, _ = s.LastID().Next()
	}
	values := []string{"", "v", "0", "127", "128", "-1", "-4097", "007", "-0", "123456789012",
		"9223372036854775807", "92233720368547758070", "some text"}
	fields := [][]byte{[]byte("field"), []byte(values[rng.IntN(len(values))]), []byte("12"),
		bytes.Repeat([]byte("x"), rng.IntN(150))}
	if rng.IntN(5) == 0 {
		fields = fields[2:]
	}
	args := []any{"XADD", "s", id.String()}
	for _, f := range fields {
		args = append(args, f)
	}
	do(args...)
	s.Add(id, fields)
}
