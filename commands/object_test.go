package commands

import "testing"

// TestObjectFreq: with an LFU policy, OBJECT FREQ shows how often a key is used. The number grows
// with each use and decreases with time.
func TestObjectFreq(t *testing.T) {
	table(t, `
		SET k v -> +OK
		OBJECT FREQ k -> -ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.
		config maxmemory-policy allkeys-lfu
		DEL k -> 1
		OBJECT FREQ k -> nil
		SET k v -> +OK
		OBJECT FREQ k -> 5
		OBJECT IDLETIME k -> -ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.
		GET k -> "v"
		OBJECT FREQ k -> 6
		advance 3m
		OBJECT FREQ k -> 3
		SET k w -> +OK
		OBJECT FREQ k -> 4
		config lfu-decay-time 0
		advance 100m
		OBJECT FREQ k -> 4
		config lfu-log-factor 0
		APPEND k v -> 2
		TOUCH k -> 1
		RENAME k l -> +OK
		COPY l m -> 1
		HSET h f v -> 1
		OBJECT FREQ h -> 5
		HGET h f -> "v"
		OBJECT FREQ h -> 6
		config maxmemory-policy noeviction
		TOUCH l -> 1
		OBJECT IDLETIME l -> 0
	`)
}

func TestRestoreFreq(t *testing.T) {
	h := newHarness(t)
	h.run(`
		config maxmemory-policy volatile-lfu
		SET k v -> +OK
	`)
	payload := h.dump("k")
	for _, c := range []struct{ option, value, want string }{{"FREQ", "200", "200"},
		{"IDLETIME", "7", "5"}} {
		h.do("DEL", "l")
		must(t, h, "+OK", "RESTORE", "l", "0", payload, c.option, c.value)
		must(t, h, c.want, "OBJECT", "FREQ", "l")
	}
}
