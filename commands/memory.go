package commands

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"

	"keyp/storage"
	"keyp/storage/procmem"
)

var memoryCommands = []Spec{{
	Name: "MEMORY", Group: ServerGroup, Since: "4.0.0", Arity: -2,
	Summary: "Reports memory use.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "USAGE", Group: ServerGroup, Since: "4.0.0", Arity: -3, Flags: ReadOnly,
			Summary: "Returns the memory of a key and its value, in bytes.", Complexity: "O(1)",
			Keys: []KeySpec{Key(2, RO)},
			Args: []Arg{keyArg("key"), intArg("count").after("SAMPLES").opt()},
			Run:  memoryUsage,
		},
		{
			Name: "STATS", Group: ServerGroup, Since: "4.0.0", Arity: 2, Scope: Counts,
			Summary: "Returns what the server uses its memory for.", Complexity: "O(1)",
			Tips: []string{tipRandom, tipAllShards, tipSpecialReply},
			Run:  memoryStats,
		},
		{
			Name: "DOCTOR", Group: ServerGroup, Since: "4.0.0", Arity: 2, Scope: Counts,
			Summary: "Looks for problems with memory.", Complexity: "O(1)",
			Tips: []string{tipRandom, tipAllShards, tipSpecialReply},
			Run:  memoryDoctor,
		},
		{
			Name: "MALLOC-STATS", Group: ServerGroup, Since: "4.0.0", Arity: 2, Scope: OnLoop,
			Summary: "Returns the Go runtime's memory statistics.", Complexity: "O(1)",
			Tips: []string{tipRandom, tipAllShards, tipSpecialReply},
			Run:  memoryMallocStats,
		},
		{
			Name: "PURGE", Group: ServerGroup, Since: "4.0.0", Arity: 2, Scope: Unlocked,
			Summary:    "Collects garbage and returns free memory to the system.",
			Complexity: "O(N) where N is the memory in use",
			Tips:       []string{tipAllShards, tipAllSucceeded},
			Run:        memoryPurge,
		},
		helpFor("MEMORY", ServerGroup, "4.0.0", Loading|Stale,
			"DOCTOR", "    Problems with memory, in words.",
			"MALLOC-STATS", "    The Go runtime's memory statistics.",
			"PURGE", "    Collects garbage and returns free memory to the system.",
			"STATS", "    What the memory is used for.",
			"USAGE <key> [SAMPLES <count>]",
			"    The bytes that a key and its value take. SAMPLES is accepted; sizes are exact."),
	},
}}

// memoryUsage replies with null for a missing or expired key. It does not count as an access.
func memoryUsage(c *Ctx) error {
	a := c.Cursor(3)
	for a.More() {
		if !a.Word("SAMPLES") {
			return ErrSyntax
		}
		if n := a.Int(); a.Err() == nil && n < 0 {
			return ErrSyntax
		}
	}
	if a.Err() != nil {
		return a.Err()
	}
	item, ok := c.Txn.Peek(c.Keys[0])
	if !ok {
		c.Out.Null()
		return nil
	}
	c.Out.Int(int64(item.Memory()))
	return nil
}

// memoryPurge collects twice: the first collection only turns pooled objects into garbage.
func memoryPurge(c *Ctx) error {
	runtime.GC()
	debug.FreeOSMemory()
	c.Out.OK()
	return nil
}

// memoryUse has the figures of MEMORY STATS, MEMORY DOCTOR and INFO memory.
type memoryUse struct {
	procmem.Memory
	peak, resident int64
	clients        int64
	dataset, dirty int64
	keys           int64
}

func (c *Ctx) memoryUse(st *storage.Stats) memoryUse {
	e := c.Env
	m := memoryUse{Memory: procmem.Read(), resident: residentSize(),
		dataset: st.Memory, dirty: st.Dirty}
	m.peak = max(e.Stats.PeakMemory.Load(), m.Used)
	e.Stats.PeakMemory.Store(m.peak)
	for _, other := range e.Clients {
		if other.Conn != nil {
			m.clients += int64(other.Conn.Memory())
		}
	}
	for db := range e.Store.Databases() {
		keys, _ := c.view().Count(db)
		m.keys += keys
	}
	return m
}

// overhead returns the memory that is not for keys and values, in bytes.
func (m *memoryUse) overhead() int64 { return max(m.Used-m.dataset, 0) }

// fragmentation returns the ratio of the process's RAM to its used memory.
func (m *memoryUse) fragmentation() float64 { return ratio(m.resident, m.Used) }

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// memoryStats has databases only in keys.count; Redis has a field for each.
func memoryStats(c *Ctx) error {
	st := c.view().Stats()
	m := c.memoryUse(&st)
	c.shows()
	ints := []struct {
		name string
		n    int64
	}{
		{"peak.allocated", m.peak},
		{"total.allocated", m.Used},
		{"startup.allocated", 0},
		{"replication.backlog", 0},
		{"clients.slaves", 0},
		{"clients.normal", m.clients},
		{"cluster.links", 0},
		{"aof.buffer", 0},
		{"lua.caches", 0},
		{"functions.caches", 0},
		{"overhead.total", m.overhead()},
		{"keys.count", m.keys},
		{"keys.bytes-per-key", m.dataset / max(m.keys, 1)},
		{"dataset.bytes", m.dataset},
		{"allocator.allocated", m.Heap},
		{"allocator.active", m.Used},
		{"allocator.resident", m.Mapped},
		{"rss-overhead.bytes", m.resident - m.Mapped},
		{"fragmentation.bytes", m.resident - m.Used},
	}
	doubles := []struct {
		name string
		f    float64
	}{
		{"dataset.percentage", 100 * ratio(m.dataset, m.Used)},
		{"peak.percentage", 100 * ratio(m.Used, m.peak)},
		{"allocator-fragmentation.ratio", ratio(m.Used, m.Heap)},
		{"allocator-rss.ratio", ratio(m.Mapped, m.Used)},
		{"rss-overhead.ratio", ratio(m.resident, m.Mapped)},
		{"fragmentation", m.fragmentation()},
	}
	c.Out.Map(len(ints) + len(doubles))
	for _, v := range ints {
		c.Out.BulkString(v.name)
		c.Out.Int(v.n)
	}
	for _, v := range doubles {
		c.Out.BulkString(v.name)
		c.Out.Double(v.f)
	}
	return nil
}

func memoryDoctor(c *Ctx) error {
	st := c.view().Stats()
	m := c.memoryUse(&st)
	limit := c.Env.Config.Int("maxmemory")
	var found []string
	if limit > 0 && m.dataset > limit {
		found = append(found,
			fmt.Sprintf("Keys take %s, more than maxmemory (%s): what has not been written to the data file yet cannot leave memory. "+
				"A checkpoint is due, or maxmemory is too small for the rate of writes.",
				human(m.dataset), human(limit)))
	}
	if m.peak > m.Used*3/2 && m.peak > 64<<20 {
		found = append(found,
			fmt.Sprintf("The peak was %s, now %s are used: the process may keep memory it does not need. MEMORY PURGE gives it back.",
				human(m.peak), human(m.Used)))
	}
	if m.fragmentation() > 2 && m.resident > 256<<20 {
		found = append(found,
			fmt.Sprintf("The process has %s in RAM for %s of data: garbage waits to be collected, or pages of the data file are mapped, which the system takes back when it needs them.",
				human(m.resident), human(m.Used)))
	}
	if n := int64(len(c.Env.Clients)); n > 0 && m.clients/n > 200<<10 {
		found = append(found,
			fmt.Sprintf("Clients take %s on average: some do not read their replies, or send very long commands. CLIENT LIST shows tot-mem.",
				human(m.clients/n)))
	}
	if len(found) == 0 {
		c.Out.Verbatim("txt", "No problem with memory was found.\n")
		return nil
	}
	var b strings.Builder
	for i, text := range found {
		fmt.Fprintf(&b, "%d. %s\n", i+1, text)
	}
	c.Out.Verbatim("txt", b.String())
	return nil
}

func memoryMallocStats(c *Ctx) error {
	var samples []metrics.Sample
	for _, d := range metrics.All() {
		if strings.HasPrefix(d.Name, "/memory/") || strings.HasPrefix(d.Name, "/gc/") {
			samples = append(samples, metrics.Sample{Name: d.Name})
		}
	}
	metrics.Read(samples)
	var b strings.Builder
	for _, s := range samples {
		switch s.Value.Kind() {
		case metrics.KindUint64:
			fmt.Fprintf(&b, "%-55s %d\n", s.Name, s.Value.Uint64())
		case metrics.KindFloat64:
			fmt.Fprintf(&b, "%-55s %g\n", s.Name, s.Value.Float64())
		}
	}
	c.Out.Verbatim("txt", b.String())
	return nil
}

// human formats a size as INFO does: 991.31K.
func human(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%dB", n)
	}
	f, unit := float64(n)/(1<<10), 0
	for f >= 1<<10 && unit < 4 {
		f /= 1 << 10
		unit++
	}
	return fmt.Sprintf("%.2f%c", f, "KMGTP"[unit])
}
