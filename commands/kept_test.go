package commands

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/resp"
	"keyp/storage"
	"keyp/storage/object"
)

// heapBytes returns the size of the heap after garbage collection. It collects until nothing more
// is freed: objects with a finalizer become garbage only later. So do objects of a goroutine of an
// earlier test that is about to end.
func heapBytes() int {
	var m runtime.MemStats
	last := math.MaxInt
	await.Reached(func() bool {
		runtime.GC()
		runtime.ReadMemStats(&m)
		freed := last - int(m.HeapAlloc)
		last = int(m.HeapAlloc)
		return freed <= 0
	})
	return last
}

// TestKeptIsCounted: the counted memory of everything that a client makes the server keep is
// accurate to a fifth. After the client is gone nothing is counted.
func TestKeptIsCounted(t *testing.T) {
	const n = 20_000
	kinds := map[string]func(h *harness, names [][]byte){
		"commands of a transaction": func(h *harness, names [][]byte) {
			h.do("MULTI")
			for _, name := range names {
				h.do("SET", string(name), "v")
			}
		},
		"watched keys": func(h *harness, names [][]byte) {
			for _, name := range names {
				h.do("WATCH", string(name))
			}
		},
		"awaited keys": func(h *harness, names [][]byte) {
			var keys []storage.Key
			for _, name := range names {
				keys = append(keys, h.store.Key(0, name))
			}
			h.env.Waiters.Add(h.client, BlockedOn{Keys: keys, Type: object.TypeList})
		},
		"keys that another client awaited first": func(h *harness, names [][]byte) {
			var keys []storage.Key
			for _, name := range names {
				keys = append(keys, h.store.Key(0, name))
			}
			first := h.env.Waiters.Add(&Client{}, BlockedOn{Keys: keys, Type: object.TypeZSet})
			h.env.Waiters.Add(h.client, BlockedOn{Keys: keys, Type: object.TypeList})
			h.env.Waiters.Remove(first)
		},
		"channels": func(h *harness, names [][]byte) {
			for _, name := range names {
				h.env.PubSub.subscribe(h.client, Channel, name)
			}
		},
		"shard channels": func(h *harness, names [][]byte) {
			for _, name := range names {
				h.env.PubSub.subscribe(h.client, ShardChannel, name)
			}
		},
		"patterns": func(h *harness, names [][]byte) {
			for _, name := range names {
				h.env.PubSub.subscribe(h.client, Pattern, name)
			}
		},
		"prefixes": func(h *harness, names [][]byte) {
			h.client.Proto = 3
			call := [][]byte{[]byte("CLIENT"), []byte("TRACKING"), []byte("ON"), []byte("BCAST")}
			for _, name := range names[:1000] { // they are compared with each other
				call = append(call, []byte("PREFIX"), name)
			}
			h.raw(call...)
		},
		"refusals": func(h *harness, names [][]byte) {
			user := h.client.user.name()
			for _, name := range names[:2000] { // each makes way for the next
				e := denialEntry{reason: deniedKey, object: string(name), username: user,
					client: string(name)}
				h.env.denials.add(e, n)
			}
		},
		"refused passwords": func(h *harness, names [][]byte) {
			for _, name := range names[:2000] {
				e := denialEntry{reason: deniedAuth, object: strings.Clone("AUTH"),
					username: string(name), client: string(name)}
				h.env.denials.add(e, n)
			}
		},
		"slow commands": func(h *harness, names [][]byte) {
			h.env.Slowlog.configure(0, n)
			for _, name := range names {
				h.client.Name, h.client.Addr = string(name), "127.0.0.1:12345"
				h.client.Addr = strings.Clone(h.client.Addr)
				h.env.Slowlog.add(&Ctx{Spec: h.env.Table.Lookup([]byte("GET")),
					Args: [][]byte{[]byte("GET"), name}, Client: h.client, Env: h.env}, time.Second,
					1)
			}
		},
		"loaded scripts": func(h *harness, names [][]byte) {
			for _, name := range names[:5000] {
				h.do("SCRIPT", "LOAD", "return '"+string(name)+"'")
			}
		},
		"functions": func(h *harness, names [][]byte) {
			for _, name := range names[:200] {
				h.do("FUNCTION", "LOAD",
					fmt.Sprintf("#!lua name=l%[1]s\nredis.register_function('f%[1]s', function() return 1 end)",
						name))
			}
		},
	}
	for kind, keep := range kinds {
		for _, length := range []int{300, 8, 40}[:testkit.Cases(2, 3)] {
			t.Run(fmt.Sprintf("%s of %d bytes", kind, length), func(t *testing.T) {
				names := make([][]byte, n)
				for i := range names {
					names[i] = fmt.Appendf(nil, "%08d%s", i, strings.Repeat("x", length-8))
				}
				// The heap belongs to the whole process. Garbage of earlier tests may be freed
				// during one of the attempts.
				for attempt := 1; ; attempt++ {
					h := newHarness(t)
					counted := func() int {
						env := h.env
						_, scripts, _ := env.Scripts.sizes()
						programs := int(scripts + env.Scripts.functions.totalBytes())
						return env.ClientMemory(h.client) + env.Slowlog.memory() +
							env.denials.bytes + programs
					}
					h.do("PING")
					before, none := heapBytes(), counted()
					keep(h, names)
					grown, said := heapBytes()-before, counted()-none
					diff := said - grown
					if diff <= grown/5 && diff >= -grown/5 {
						break
					}
					if attempt == 4 {
						t.Fatalf("the heap has grown by %d bytes, %d are counted: %+d %%", grown,
							said, 100*diff/max(grown, 1))
					}
				}
				runtime.KeepAlive(names)
			})
		}
	}
}

// TestDenialsAreBounded: the entries of ACL LOG have a limit of memory, whatever acllog-max-len is.
func TestDenialsAreBounded(t *testing.T) {
	var l denialLog
	// The text is longer than the kept part of any text, so that fewer entries fill the memory.
	const size = 64 << 10
	text := strings.Repeat("x", size)
	const n = denialMemory / size
	for i := range n {
		l.add(denialEntry{reason: deniedKey, object: fmt.Sprint(i, text), created: int64(i)}, n)
	}
	if l.bytes > denialMemory || l.bytes < denialMemory*9/10 {
		t.Errorf("%d entries take %d bytes", len(l.entries), l.bytes)
	}
	if l.reset(); l.bytes != 0 || len(l.entries) != 0 {
		t.Errorf("after reset %d entries take %d bytes", len(l.entries), l.bytes)
	}
}

// TestClientListIsBounded: CLIENT LIST of many clients allocates no more than its reply may take.
func TestClientListIsBounded(t *testing.T) {
	h := newHarness(t)
	for i := range uint64(100_000) {
		h.env.Clients[i+1] = &Client{ID: i + 1, Addr: "127.0.0.1:12345"}
	}
	h.ctx.Out.Max = 64 << 10
	defer func() { h.ctx.Out.Max = 0 }()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h.ctx.Args = byteArgs("CLIENT", "LIST")
	h.env.Dispatch(&h.ctx)
	runtime.ReadMemStats(&after)
	if !h.ctx.Out.Full || h.ctx.Out.Len() > h.ctx.Out.Max {
		t.Errorf("full: %v, %d bytes", h.ctx.Out.Full, h.ctx.Out.Len())
	}
	const most = 4 << 20 // the clients in their order, mainly; their lines would take 30 MB
	if made := after.TotalAlloc - before.TotalAlloc; made > most {
		t.Errorf("%d bytes were made for what is not sent", made)
	}
	h.ctx.Out.Full = false
	h.ctx.Out.Truncate(0)
}

// memory returns the size of the entries in bytes.
func (l *Slowlog) memory() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.bytes
}

// TestLatencyIsBounded: however many commands are slow, each kind of event has at most one spike
// for each second, and latencySamples in total.
func TestLatencyIsBounded(t *testing.T) {
	h := newHarness(t)
	h.do("CONFIG", "SET", "latency-monitor-threshold", "1")
	before := heapBytes()
	for range 10_000 {
		h.clock.Advance(time.Second)
		for _, name := range []string{"GET", "KEYS", "EVAL"} {
			spec := h.env.Table.Lookup([]byte(name))
			h.env.Observe(&Ctx{Spec: spec, Args: [][]byte{[]byte(name)}, Client: h.client,
				Env: h.env, Out: &resp.Writer{}}, 0, time.Second)
		}
	}
	h.env.Slowlog.reset()
	events := h.env.Latency.list()
	if len(events) != 2 { // those of fast commands and those of others
		t.Errorf("%d events", len(events))
	}
	for _, e := range events {
		if len(e.samples) != latencySamples {
			t.Errorf("%s has %d samples", e.name, len(e.samples))
		}
	}
	if grown := heapBytes() - before; grown > 64<<10 {
		t.Errorf("10,000 seconds with spikes take %d bytes", grown)
	}
}
