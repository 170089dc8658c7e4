package commands

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"keyp/internal/config"
	"keyp/storage"
)

var infoCommands = []Spec{{
	Name: "INFO", Group: ServerGroup, Since: "1.0.0", Arity: -1, Flags: Loading | Stale | Dangerous,
	Scope:   Counts,
	Summary: "Describes the server.", Complexity: "O(1)",
	History: [][2]string{{"7.0.0", "Added support for taking multiple section arguments."}},
	Args:    []Arg{stringArg("section").opt().many()},
	Tips:    []string{tipRandom, tipAllShards, tipSpecialReply},
	Run:     info,
}}

// infoSection is a part of INFO.
type infoSection struct {
	name  string // in the arguments of INFO
	title string
	extra bool // only when asked for by name, all or everything
	write func(*Ctx, *infoText)
}

// infoSections are the sections in the order of the reply. Unlike Redis's, the sections on memory,
// persistence and expiry describe Keyp's own mechanisms.
var infoSections = []infoSection{
	{name: "server", title: "Server", write: infoServer},
	{name: "clients", title: "Clients", write: infoClients},
	{name: "memory", title: "Memory", write: infoMemory},
	{name: "persistence", title: "Persistence", write: infoPersistence},
	{name: "expiry", title: "Expiry", write: infoExpiry},
	{name: "replies", title: "Replies", write: infoReplies},
	{name: "stats", title: "Stats", write: infoStats},
	{name: "replication", title: "Replication", write: infoReplication},
	{name: "cpu", title: "CPU", write: infoCPU},
	{name: "modules", title: "Modules", write: func(*Ctx, *infoText) {}},
	{name: "commandstats", title: "Commandstats", extra: true, write: infoCommandStats},
	{name: "errorstats", title: "Errorstats", write: infoErrorStats},
	{name: "latencystats", title: "Latencystats", extra: true, write: infoLatencyStats},
	{name: "cluster", title: "Cluster", write: infoCluster},
	{name: "keyspace", title: "Keyspace", write: infoKeyspace},
}

func info(c *Ctx) error {
	names := make([]string, 0, len(c.Args))
	for _, arg := range c.Args[1:] {
		names = append(names, strings.ToLower(string(arg)))
	}
	if len(names) == 0 {
		names = []string{"default"}
	}
	var b infoText
	for i := range infoSections {
		if section := &infoSections[i]; section.asked(names) {
			if b.Len() > 0 {
				b.WriteString("\r\n")
			}
			b.WriteString("# " + section.title + "\r\n")
			section.write(c, &b)
		}
	}
	c.Out.Verbatim("txt", b.String())
	return nil
}

// asked reports whether one of the names, in lower case, includes the section.
func (section *infoSection) asked(names []string) bool {
	for _, name := range names {
		switch name {
		case section.name, "everything":
			return true
		case "all":
			if section.name != "modules" {
				return true
			}
		case "default":
			if !section.extra {
				return true
			}
		}
	}
	return false
}

// infoText collects INFO's lines.
type infoText struct {
	strings.Builder
	read *storage.Stats
}

// store returns the store's counters. It reads them once for all sections, because that locks every
// shard.
func (b *infoText) store(c *Ctx) *storage.Stats {
	if b.read == nil {
		st := c.view().Stats()
		b.read = &st
	}
	return b.read
}

func (b *infoText) field(name, value string) { b.WriteString(name + ":" + value + "\r\n") }

func (b *infoText) int(name string, n int64) { b.field(name, strconv.FormatInt(n, 10)) }

func (b *infoText) flag(name string, on bool) {
	n := int64(0)
	if on {
		n = 1
	}
	b.int(name, n)
}

// bytes writes a size twice: in bytes, and in a form for people.
func (b *infoText) bytes(name string, n int64) {
	b.int(name, n)
	b.field(name+"_human", human(n))
}

func (b *infoText) float(name string, f float64, digits int, unit string) {
	b.field(name, strconv.FormatFloat(f, 'f', digits, 64)+unit)
}

func infoServer(c *Ctx, b *infoText) {
	e := c.Env
	now := c.Txn.Now()
	uptime := int64((e.Clock.Mono() - e.began) / time.Second)
	b.field("redis_version", RedisVersion)
	b.field("keyp_version", config.Version)
	b.field("redis_git_sha1", "00000000")
	b.int("redis_git_dirty", 0)
	b.field("redis_build_id", "0")
	b.field("redis_mode", e.mode())
	b.field("os", osName())
	b.int("arch_bits", strconv.IntSize)
	b.field("go_version", runtime.Version())
	b.int("process_id", int64(os.Getpid()))
	b.field("process_supervised", "no")
	b.field("run_id", e.RunID)
	port := 0
	if e.Host != nil {
		port = e.Host.Port()
	}
	b.int("tcp_port", int64(port))
	b.int("server_time_usec", now*1000)
	b.int("uptime_in_seconds", uptime)
	b.int("uptime_in_days", uptime/86400)
	b.int("hz", e.Config.Int("hz"))
	b.int("configured_hz", e.Config.Int("hz"))
	b.int("lru_clock", now/1000&(1<<24-1))
	executable, err := os.Executable()
	if err != nil {
		executable = os.Args[0]
	}
	b.field("executable", executable)
	b.field("config_file", e.Config.Path())
	b.int("io_threads_active", 0)
	if e.Host != nil {
		for i, at := range e.Host.Listeners() {
			b.field(fmt.Sprintf("listener%d", i), "name="+at.Kind+",bind="+at.Addr)
		}
	}
}

func infoClients(c *Ctx, b *infoText) {
	waiters := &c.Env.Waiters
	var blocked, watching, watched, input, output int64
	for _, other := range c.Env.Clients {
		if other.Conn == nil {
			continue
		}
		if other.Conn.Blocked() {
			blocked++
		}
		if keys, _ := c.Env.Changes.watches(other); keys > 0 {
			watching, watched = watching+1, watched+int64(keys)
		}
		used, free := other.Conn.QueryBuffer()
		input, output = max(input, int64(used+free)), max(output, int64(other.Conn.OutputBuffer()))
	}
	b.int("connected_clients", int64(len(c.Env.Clients)))
	b.int("cluster_connections", 0)
	b.int("maxclients", c.Env.Config.Int("maxclients"))
	b.int("client_recent_max_input_buffer", input)
	b.int("client_recent_max_output_buffer", output)
	b.int("blocked_clients", blocked)
	b.int("tracking_clients", c.Env.Tracking.totals().clients)
	_, subscribers := c.Env.PubSub.counts()
	b.int("pubsub_clients", int64(subscribers))
	b.int("watching_clients", watching)
	b.int("clients_in_timeout_table", waiters.timed.Load())
	b.int("total_watched_keys", watched)
	b.int("total_blocking_keys", waiters.awaited.Load())
	b.int("total_blocking_keys_on_nokey", waiters.gone.Load())
	b.int("peak_clients", c.Env.Stats.PeakClients.Load())
}

func infoMemory(c *Ctx, b *infoText) {
	st := b.store(c)
	m := c.memoryUse(st)
	limit := c.Env.Config.Int("maxmemory")
	b.bytes("used_memory", m.Used)
	b.bytes("used_memory_rss", m.resident)
	b.bytes("used_memory_peak", m.peak)
	b.float("used_memory_peak_perc", 100*ratio(m.Used, m.peak), 2, "%")
	b.int("used_memory_overhead", m.overhead())
	b.int("used_memory_startup", 0)
	b.int("used_memory_dataset", m.dataset)
	b.float("used_memory_dataset_perc", 100*ratio(m.dataset, m.Used), 2, "%")
	b.int("used_memory_dirty", m.dirty)
	b.int("resident_keys", st.Resident)
	b.int("partial_slots", st.PartialSlots)
	b.int("allocator_allocated", m.Heap)
	b.int("allocator_active", m.Used)
	b.int("allocator_resident", m.Mapped)
	b.bytes("total_system_memory", systemMemory())
	infoScripts(c, b)
	b.bytes("maxmemory", limit)
	b.field("maxmemory_policy", c.Env.Config.String("maxmemory-policy"))
	b.float("mem_fragmentation_ratio", m.fragmentation(), 2, "")
	b.int("mem_fragmentation_bytes", m.resident-m.Used)
	b.int("mem_not_counted_for_evict", 0)
	b.int("mem_clients_slaves", 0)
	b.int("mem_clients_normal", m.clients)
	b.field("mem_allocator", "go")
	b.int("gc_cycles", m.Cycles)
	b.int("active_defrag_running", 0)
	b.int("lazyfree_pending_objects", 0)
	b.int("lazyfreed_objects", c.Env.Stats.LazyFreed.Load())
}

func infoPersistence(c *Ctx, b *infoText) {
	store := c.Env.Store
	st := b.store(c)
	_, failed := store.LastCheckpoint()
	status := okOr(failed)
	b.int("loading", 0)
	b.int("async_loading", 0)
	b.int("rdb_changes_since_last_save", st.Changes)
	b.flag("rdb_bgsave_in_progress", store.Checkpointing())
	b.int("rdb_last_save_time", c.Env.lastSave()/1000)
	b.field("rdb_last_bgsave_status", status)
	b.int("rdb_saves", st.Checkpoints)
	b.int("aof_enabled", 1)
	b.int("aof_rewrite_in_progress", 0)
	b.int("aof_rewrite_scheduled", 0)
	b.field("aof_last_bgrewrite_status", status)
	written := okOr(store.Err())
	if store.Full() {
		written = "err" // as with Redis while a write of its file fails
	}
	b.field("aof_last_write_status", written)
	b.int("aof_current_size", st.LogBytes)
	b.int("aof_pending_bio_fsync", 0)
	b.field("appendfsync", c.Env.Config.String("appendfsync"))
	b.int("log_end", int64(st.LogEnd))
	b.int("log_durable", int64(st.LogDurable))
	b.int("log_sync_usec", store.Log().SyncCost().Microseconds())
	b.int("checkpoint_keys_written", st.CheckpointKeys)
	b.int("data_file_bytes", st.DataBytes)
	b.int("data_file_free_bytes", st.DataFree)
	b.int("disk_free_bytes", int64(st.FreeSpace))
	b.flag("disk_full", store.Full())
	a := st.Archive
	b.flag("archive_enabled", st.Archived)
	b.int("archive_lsn", int64(a.Through))
	b.int("archive_last_time", a.Last/1000)
	b.field("archive_last_status", okOr(a.Err))
	b.int("archive_files", a.Files)
	b.int("archive_bytes", a.Bytes)
	b.int("archive_failures", a.Failures)
	b.int("archive_holes", a.Holes)
	b.int("archive_command_seconds", int64(a.Runs.Seconds()))
	b.int("keys_loaded", st.Loads)
	b.int("key_load_errors", st.LoadErrors)
}

// okOr returns "ok", or "err" if err is not nil.
func okOr(err error) string {
	if err != nil {
		return "err"
	}
	return "ok"
}

// infoExpiry writes Keyp's own section: how late expired keys were removed, the clock, and
// outboxes.
func infoExpiry(c *Ctx, b *infoText) {
	st := b.store(c)
	b.int("expire_lateness_p50_ms", st.Lateness.P50)
	b.int("expire_lateness_p99_ms", st.Lateness.P99)
	b.int("expire_lateness_max_ms", st.Lateness.Max)
	b.int("expire_lateness_samples", st.Lateness.Count)
	b.int("clock_steps", st.ClockSteps)
	b.flag("clock_guarded", st.Clock.Since != 0)
	b.int("clock_ahead_ms", st.Clock.Ahead)
	b.int("clock_guards", st.Clock.Began)
	b.int("clock_deadlines_moved", st.Clock.Moved)
	b.int("clock_deadlines_not_moved", st.Clock.Unmoved)
	b.int("bad_deadlines", st.BadDeadlines)
	o := c.Env.Outboxes.Totals()
	b.int("outboxes", o.Rules)
	b.int("outbox_entries_written", o.Written)
	b.int("outbox_entries_waiting", o.Waiting)
	b.int("outbox_entries_lost", o.Lost)
	b.int("outboxes_failing", o.Failing)
	b.int("outboxes_full", o.Full)
	b.int("outbox_oldest_waiting", o.Oldest)
}

func infoStats(c *Ctx, b *infoText) {
	n := &c.Env.Stats
	st := b.store(c)
	kbps := func(bytes int64) float64 { return float64(bytes) / 1024 }
	b.int("total_connections_received", n.Connections.Load())
	b.int("total_commands_processed", n.Commands.Load())
	b.int("instantaneous_ops_per_sec", n.OpsPerSec.Load())
	b.int("total_net_input_bytes", n.NetIn.Load())
	b.int("total_net_output_bytes", n.NetOut.Load())
	b.float("instantaneous_input_kbps", kbps(n.InBytesPerSec.Load()), 2, "")
	b.float("instantaneous_output_kbps", kbps(n.OutBytesPerSec.Load()), 2, "")
	b.int("rejected_connections", n.Rejected.Load())
	b.int("sync_full", 0)
	b.int("sync_partial_ok", 0)
	b.int("sync_partial_err", 0)
	b.int("expired_subkeys", st.ExpiredElements)
	b.int("expired_keys", st.Expired)
	b.float("expired_stale_perc", 0, 2, "")
	b.int("expired_time_cap_reached_count", 0)
	b.int("policies", int64(c.Env.policies.Load().Len()))
	b.int("evicted_keys", st.Evictions)
	b.int("evicted_clients", n.EvictedClients.Load())
	_, _, scripts := c.Env.Scripts.sizes()
	b.int("evicted_scripts", scripts)
	b.int("keyspace_hits", n.Hits.Load())
	b.int("keyspace_misses", n.Misses.Load())
	listened, _ := c.Env.PubSub.counts()
	b.int("pubsub_channels", int64(listened[Channel]))
	b.int("pubsub_patterns", int64(listened[Pattern]))
	b.int("pubsubshard_channels", int64(listened[ShardChannel]))
	b.int("latest_fork_usec", 0)
	b.int("total_forks", 0)
	b.int("migrate_cached_sockets", 0)
	tracked := c.Env.Tracking.totals()
	b.int("tracking_total_keys", tracked.keys)
	b.int("tracking_total_items", tracked.items)
	b.int("tracking_total_prefixes", tracked.prefixes)
	b.int("unexpected_error_replies", 0)
	b.int("total_error_replies", n.Errors.Load())
	b.int("internal_errors", n.Panics.Load())
	b.int("client_query_buffer_limit_disconnections", n.QueryBufferLimit.Load())
	b.int("client_output_buffer_limit_disconnections", n.OutputBufferLimit.Load())
	b.int("acl_access_denied_auth", n.Denials[deniedAuth].Load())
	b.int("acl_access_denied_cmd", n.Denials[deniedCommand].Load())
	b.int("acl_access_denied_key", n.Denials[deniedKey].Load())
	b.int("acl_access_denied_channel", n.Denials[deniedChannel].Load())
}

func infoCPU(_ *Ctx, b *infoText) {
	system, user := cpuTime(unix.RUSAGE_SELF)
	b.float("used_cpu_sys", system.Seconds(), 6, "")
	b.float("used_cpu_user", user.Seconds(), 6, "")
	system, user = cpuTime(unix.RUSAGE_CHILDREN)
	b.float("used_cpu_sys_children", system.Seconds(), 6, "")
	b.float("used_cpu_user_children", user.Seconds(), 6, "")
}

func infoCommandStats(c *Ctx, b *infoText) {
	for _, use := range c.Env.Stats.PerCommand.used() {
		calls, micros := use.calls.Load(), use.nanos.Load()/1000
		b.field("cmdstat_"+use.spec.full,
			fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
				calls, micros, ratio(micros, calls), use.rejected.Load(), use.failed.Load()))
	}
}

func infoErrorStats(c *Ctx, b *infoText) {
	for _, e := range c.Env.Stats.PerError.list() {
		b.field("errorstat_"+e.code, "count="+strconv.FormatInt(e.count, 10))
	}
}

func infoLatencyStats(c *Ctx, b *infoText) {
	percentiles := c.Env.Config.Words("latency-tracking-info-percentiles")
	for _, use := range c.Env.Stats.PerCommand.used() {
		counts, total := use.latency.snapshot()
		if total == 0 {
			continue
		}
		var parts []string
		for _, text := range percentiles {
			p, err := strconv.ParseFloat(text, 64)
			if err != nil {
				continue // the configuration has only numbers
			}
			parts = append(parts, fmt.Sprintf("p%s=%.3f", strconv.FormatFloat(p, 'g', -1, 64),
				float64(percentile(counts, total, p))/1000))
		}
		b.field("latency_percentiles_usec_"+use.spec.full, strings.Join(parts, ","))
	}
}

func infoKeyspace(c *Ctx, b *infoText) {
	defer c.shows()
	for db := range c.Env.Store.Databases() {
		if keys, expires := c.view().Count(db); keys > 0 {
			b.field("db"+strconv.Itoa(db), fmt.Sprintf("keys=%d,expires=%d,avg_ttl=%d,subexpiry=%d",
				keys, expires, c.view().AverageTTL(db), c.view().CountTimed(db)))
		}
	}
}
