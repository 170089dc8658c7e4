package commands

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"keyp/resp"
)

// TestHotKeys: from HOTKEYS START to HOTKEYS STOP, the server counts the bytes of requests and
// replies for each key.
func TestHotKeys(t *testing.T) {
	h, _, _, _ := hosted(t)
	h.run(`
		HOTKEYS GET -> nil
		HOTKEYS STOP -> nil
		HOTKEYS RESET -> +OK
		HOTKEYS START METRICS 1 NET COUNT 2 -> +OK
		HOTKEYS START METRICS 1 NET -> -ERR hotkey tracking session already in progress
		HOTKEYS RESET -> -ERR hotkey tracking session in progress, stop tracking first
	`)
	h.observe(0, "SET", "k", "v")            // 27 bytes there, 5 back
	h.observe(0, "GET", "k")                 // 20 and 7
	h.observe(0, "MSET", "a", "1", "b", "2") // 42 and 5, for two keys
	h.observe(0, "PING")
	h.observe(0, "SET", "k") // refused
	h.run(`
		advance 1500ms
		HOTKEYS GET -> [["tracking-active", 1, "sample-ratio", 1, "selected-slots", [[0, 16383]], "all-commands-all-slots-us", 0, "net-bytes-all-commands-all-slots", 106, "collection-start-time-unix-ms", 1700000000000, "collection-duration-ms", 1500, "total-net-bytes", 105, "by-net-bytes", ["k", 59, "a", 23]]]
		HOTKEYS STOP -> +OK
		HOTKEYS STOP -> nil
		advance 1s
	`)
	h.observe(0, "SET", "k", "v")
	h.run(`
		proto 3
		HOTKEYS GET -> [{"tracking-active": 0, "sample-ratio": 1, "selected-slots": [[0, 16383]], "all-commands-all-slots-us": 0, "net-bytes-all-commands-all-slots": 106, "collection-start-time-unix-ms": 1700000000000, "collection-duration-ms": 1500, "total-net-bytes": 105, "by-net-bytes": ["k", 59, "a", 23]}]
		HOTKEYS RESET -> +OK
		HOTKEYS GET -> null
	`)
}

func TestHotKeysArguments(t *testing.T) {
	h, _, _, _ := hosted(t)
	h.run(`
		HOTKEYS START -> -ERR METRICS parameter is required
		HOTKEYS START METRICS -> -ERR METRICS parameter is required
		HOTKEYS START COUNT 2 METRICS 1 CPU -> -ERR METRICS parameter is required
		HOTKEYS START METRICS 0 CPU -> -ERR METRICS count must be > 0 and <= 2
		HOTKEYS START METRICS 3 CPU NET -> -ERR METRICS count must be > 0 and <= 2
		HOTKEYS START METRICS x CPU -> -ERR METRICS count must be > 0 and <= 2
		HOTKEYS START METRICS 2 CPU -> -ERR METRICS count does not match number of metric types provided
		HOTKEYS START METRICS 1 FOO -> -ERR METRICS no valid metrics passed. Supported: CPU|NET
		HOTKEYS START METRICS 2 CPU CPU -> -ERR METRICS CPU defined more than once!
		HOTKEYS START METRICS 1 CPU NET -> -ERR syntax error
		HOTKEYS START METRICS 1 CPU COUNT -> -ERR syntax error
		HOTKEYS START METRICS 1 CPU COUNT 0 -> -ERR COUNT must be between 1 and 64
		HOTKEYS START METRICS 1 CPU COUNT 65 -> -ERR COUNT must be between 1 and 64
		HOTKEYS START METRICS 1 CPU DURATION 0 -> -ERR DURATION must be between 1 and 1000000
		HOTKEYS START METRICS 1 CPU DURATION 1000001 -> -ERR DURATION must be between 1 and 1000000
		HOTKEYS START METRICS 1 CPU SAMPLE 0 -> -ERR SAMPLE ratio must be positive
		HOTKEYS START METRICS 1 CPU SLOTS 1 0 -> -ERR SLOTS parameter cannot be used in non-cluster mode
		HOTKEYS GET x -> -ERR wrong number of arguments for 'hotkeys|get' command
		HOTKEYS GET -> nil
	`)
}

// TestHotKeysTime: HOTKEYS counts the processor time of keys, also in transactions and scripts,
// until its duration is over.
func TestHotKeysTime(t *testing.T) {
	h, _, _, _ := hosted(t)
	h.run(`hotkeys start metrics 2 cpu net duration 2 -> +OK`)
	h.observe(30*time.Microsecond, "SET", "k", "v")
	h.observe(50*time.Microsecond, "SET", "slow", "v")
	h.observe(25*time.Microsecond, "EVAL", "return redis.call('GET', 'inner')", "1", "k")
	h.observe(0, "MULTI")
	h.observe(0, "GET", "queued")
	h.observe(time.Second, "EXEC")
	h.run(`advance 2s`)
	h.observe(time.Second, "GET", "late")
	text := h.do("HOTKEYS", "GET")
	for _, want := range []string{
		`"tracking-active", 0,`, `"all-commands-all-slots-us", 105,`,
		`"collection-duration-ms", 2000,`,
		`"total-cpu-time-user-ms", `, `"by-cpu-time-us", ["k", 55, "slow", 50],`, `"queued", `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for _, none := range []string{"inner", "late"} {
		if strings.Contains(text, none) {
			t.Errorf("%s in\n%s", none, text)
		}
	}
	if h.env.hotKeys.counting.Load() != nil {
		t.Error("commands are counted still")
	}
	h.run(`HOTKEYS START METRICS 1 NET SAMPLE 2147483647 -> +OK`)
	h.observe(time.Microsecond, "SET", "k", "v")
	if text := h.do("HOTKEYS", "GET"); !strings.Contains(text,
		`"net-bytes-all-commands-all-slots", 32,`) ||
		!strings.Contains(text, `"by-net-bytes", []`) {
		t.Error(text)
	}
}

// TestHotKeysOfVeryMany: for a command with very many keys, only some of them are counted at each
// call. In time all are counted, and none is charged with more than its share.
func TestHotKeysOfVeryMany(t *testing.T) {
	const keys, calls = 2*hotKeysLooks + 1, 60
	h, _, _, _ := hosted(t)
	h.run(`HOTKEYS START METRICS 1 CPU COUNT 64 -> +OK`)
	call := []string{"MSET"}
	for i := range keys {
		call = append(call, fmt.Sprint("key:", i), "v")
	}
	hot := &h.env.hotKeys.session.mu.cpu.by
	for n := int64(1); n <= calls; n++ {
		before := map[string]int64{}
		for name, k := range *hot {
			before[name] = k.sum
		}
		h.observe(keys*time.Microsecond, call...)
		looked := 0
		for name, k := range *hot {
			if k.sum != before[name] {
				looked++
			}
			if k.sum > n*int64(time.Microsecond) {
				t.Errorf("%s has %d ns of %d calls", name, k.sum, n)
			}
		}
		if looked == 0 || looked > hotKeysLooks {
			t.Errorf("call %d: %d keys were looked at", n, looked)
		}
	}
	if len(*hot) != keys {
		t.Errorf("%d of %d keys were looked at", len(*hot), keys)
	}
	// A key among very many others is counted less often, in proportion to its share.
	call = append(call[:0:0], "SUNIONSTORE", "target")
	for i := range 100 * hotKeysLooks {
		call = append(call, fmt.Sprint("none:", i))
	}
	h.observe(time.Second, call...)
	if n := len(*hot) - keys; n == 0 || n > hotKeysLooks+1 {
		t.Errorf("%d keys of the second command were looked at", n)
	}
}

// TestHeavyKeys: the number of counted keys is limited. A key with more than a certain share of the
// total is never missing. No sum is larger than the true sum of the key.
func TestHeavyKeys(t *testing.T) {
	h, random, sums := newHeavyKeys(1), rand.New(rand.NewPCG(1, 2)), map[string]int64{}
	for range 100_000 {
		name := fmt.Sprint("cold:", random.IntN(50_000))
		if random.IntN(10) == 0 {
			name = fmt.Sprint("hot:", random.IntN(5))
		}
		n := random.Int64N(100)
		sums[name] += n
		h.add([][]byte{[]byte(name)}, 1, n)
	}
	h.add([][]byte{[]byte(strings.Repeat("x", heavyName+1))}, 1, 1<<40)
	if len(h.by) != heavyPlaces || len(h.least) != heavyPlaces {
		t.Fatalf("%d keys in %d places", len(h.by), len(h.least))
	}
	for name, sum := range sums {
		k := h.by[name]
		switch {
		case k == nil && sum > (h.total-1<<40)/heavyPlaces:
			t.Errorf("%s with %d is missing", name, sum)
		case k != nil && k.sum-k.charged > sum:
			t.Errorf("%s has %d, and not %d", name, sum, k.sum-k.charged)
		}
	}
	out := resp.Writer{Proto: 2}
	h.reply(&out, 5, 1)
	if text, _ := render(out.Buf); strings.Count(text, "hot:") != 5 {
		t.Error(text)
	}
}
