package web

import (
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"keyp/commands"
	"keyp/internal/config"
	"keyp/internal/histogram"
)

// reading is the data for the metrics, read at one time.
type reading struct {
	*commands.Report
	stats    *commands.Stats
	config   *config.Config
	at       int64 // Unix ms
	started  int64 // Unix ms
	loop     commands.LoopReport
	waited   float64     // for the loop, in seconds
	due      []int64     // by each of horizons; nil: not counted yet
	types    *typeCounts // nil: not counted yet
	reserve  uint64
	failures int64 // of checkpoints
	cost     float64
	requests int64
}

// kind is a metric's type.
type kind string

const (
	counter kind = "counter"
	gauge   kind = "gauge"
	buckets kind = "histogram"
)

// metric describes a metric. Exactly one of value, values and spread is set, and reads it.
type metric struct {
	name   string
	kind   kind
	labels string // separated by spaces
	// info are the fields of INFO with the same numbers, separated by spaces.
	info string
	help string

	value  func(*reading) float64
	values func(*reading, func(value float64, labels ...string))
	spread func(*reading, func(r histogram.Reading, unit float64, labels ...string))
}

const (
	micro = 1e-6 // of a second
	nano  = 1e-9
	whole = 1
)

// metrics are all metrics, in the order of docs/reference/metrics.md.
var metrics = slices.Concat([]metric{
	{name: "keyp_build_info", kind: gauge, labels: "version goversion",
		info: "keyp_version go_version redis_version",
		help: "Always 1; the labels say what runs.",
		values: func(_ *reading, put func(float64, ...string)) {
			put(1, config.Version, runtime.Version())
		}},
	{name: "keyp_start_time_seconds", kind: gauge, info: "uptime_in_seconds uptime_in_days",
		help:  "When the server started, as a Unix time.",
		value: func(r *reading) float64 { return float64(r.started) / 1000 }},
	{name: "keyp_cpu_seconds_total", kind: counter, labels: "mode",
		info: "used_cpu_sys used_cpu_user", help: "Processor time of the process.",
		values: func(r *reading, put func(float64, ...string)) {
			put(r.SystemTime.Seconds(), "system")
			put(r.UserTime.Seconds(), "user")
		}},
	{name: "keyp_event_loop_wait_seconds", kind: gauge,
		help:  "How long the event loop took to answer this scrape; 0.25 if it did not: then connections and their memory are as of its last answer.",
		value: func(r *reading) float64 { return r.waited }},

	// Clients.
	{name: "keyp_connected_clients", kind: gauge, info: "connected_clients",
		help:  "Connections of clients.",
		value: func(r *reading) float64 { return float64(r.loop.Clients) }},
	{name: "keyp_connected_clients_peak", kind: gauge, info: "peak_clients",
		help:  "The most connections at a time since the start.",
		value: func(r *reading) float64 { return float64(r.stats.PeakClients.Load()) }},
	{name: "keyp_clients_limit", kind: gauge, info: "maxclients",
		help:  "The most connections that are accepted (maxclients).",
		value: func(r *reading) float64 { return float64(r.config.Int("maxclients")) }},
	{name: "keyp_blocked_clients", kind: gauge, info: "blocked_clients",
		help:  "Clients whose command waits for keys, a time or the log.",
		value: func(r *reading) float64 { return float64(r.Blocked) }},
	{name: "keyp_blocked_clients_with_timeout", kind: gauge, info: "clients_in_timeout_table",
		help:  "Of the blocked clients, those with a timeout.",
		value: func(r *reading) float64 { return float64(r.BlockedTimed) }},
	{name: "keyp_blocking_keys", kind: gauge, info: "total_blocking_keys",
		help:  "Keys that blocked clients wait for.",
		value: func(r *reading) float64 { return float64(r.BlockedFor) }},
	{name: "keyp_tracking_clients", kind: gauge, info: "tracking_clients",
		help:  "Clients with CLIENT TRACKING.",
		value: func(r *reading) float64 { return float64(r.TrackingClients) }},
	{name: "keyp_pubsub_clients", kind: gauge, info: "pubsub_clients",
		help:  "Clients with subscriptions.",
		value: func(r *reading) float64 { return float64(r.Subscribers) }},
	{name: "keyp_connections_received_total", kind: counter, info: "total_connections_received",
		help:  "Connections that were accepted.",
		value: func(r *reading) float64 { return float64(r.stats.Connections.Load()) }},
	{name: "keyp_connections_rejected_total", kind: counter, info: "rejected_connections",
		help:  "Connections that were refused: there were maxclients, or protected-mode.",
		value: func(r *reading) float64 { return float64(r.stats.Rejected.Load()) }},
	{name: "keyp_client_disconnections_total", kind: counter, labels: "reason",
		info: "evicted_clients client_query_buffer_limit_disconnections client_output_buffer_limit_disconnections",
		help: "Clients that were disconnected for what they took: by client-query-buffer-limit, client-output-buffer-limit or maxmemory-clients.",
		values: func(r *reading, put func(float64, ...string)) {
			put(float64(r.stats.QueryBufferLimit.Load()), "query_buffer")
			put(float64(r.stats.OutputBufferLimit.Load()), "output_buffer")
			put(float64(r.stats.EvictedClients.Load()), "memory")
		}},
	{name: "keyp_network_receive_bytes_total", kind: counter, info: "total_net_input_bytes",
		help:  "Bytes received from clients.",
		value: func(r *reading) float64 { return float64(r.stats.NetIn.Load()) }},
	{name: "keyp_network_transmit_bytes_total", kind: counter, info: "total_net_output_bytes",
		help:  "Bytes sent to clients.",
		value: func(r *reading) float64 { return float64(r.stats.NetOut.Load()) }},
	{name: "keyp_http_requests_total", kind: counter, help: "Requests over HTTP.",
		value: func(r *reading) float64 { return float64(r.requests) }},

	// Commands.
	{name: "keyp_commands_processed_total", kind: counter, info: "total_commands_processed",
		help:  "Commands of all kinds.",
		value: func(r *reading) float64 { return float64(r.stats.Commands.Load()) }},
	{name: "keyp_command_calls_total", kind: counter, labels: "command",
		help:   "Calls of a command.",
		values: perCommand(func(c *commands.CommandReport) int64 { return c.Calls })},
	{name: "keyp_command_failures_total", kind: counter, labels: "command",
		help:   "Calls of a command that replied an error.",
		values: perCommand(func(c *commands.CommandReport) int64 { return c.Failed })},
	{name: "keyp_command_rejections_total", kind: counter, labels: "command",
		help:   "Calls of a command that did not run: wrong arguments, no permission, no room.",
		values: perCommand(func(c *commands.CommandReport) int64 { return c.Rejected })},
	{name: "keyp_command_duration_seconds", kind: buckets, labels: "command",
		help: "How long calls of a command took, without the wait for the log; empty without latency-tracking.",
		spread: func(r *reading, put func(histogram.Reading, float64, ...string)) {
			for i := range r.Commands {
				if c := &r.Commands[i]; c.Latency.Count > 0 {
					put(c.Latency, nano, c.Name)
				}
			}
		}},
	{name: "keyp_reply_duration_seconds", kind: buckets, labels: "of",
		info: "reply_read_p50_usec reply_read_p99_usec reply_reads reply_write_p50_usec reply_write_p99_usec reply_writes",
		help: "How long clients wait: from when a request was read to when its reply was sent, with the sync of the log that the reply needs; of what may change something (write) and of the rest (read). Commands that wait for others, as BLPOP, do not count.",
		spread: func(r *reading, put func(histogram.Reading, float64, ...string)) {
			put(r.Replies.Reads, micro, "read")
			put(r.Replies.Writes, micro, "write")
		}},
	{name: "keyp_error_replies_total", kind: counter, info: "total_error_replies",
		help:  "Replies that were errors.",
		value: func(r *reading) float64 { return float64(r.stats.Errors.Load()) }},
	{name: "keyp_error_replies_by_code_total", kind: counter, labels: "code",
		help: "Error replies by the word that they begin with.",
		values: func(r *reading, put func(float64, ...string)) {
			for _, e := range r.Errors {
				put(float64(e.Count), e.Code)
			}
		}},
	{name: "keyp_internal_errors_total", kind: counter, info: "internal_errors",
		help:  "Defects of the server that cost a client its connection.",
		value: func(r *reading) float64 { return float64(r.stats.Panics.Load()) }},
	{name: "keyp_acl_denials_total", kind: counter, labels: "reason",
		info: "acl_access_denied_auth acl_access_denied_cmd acl_access_denied_key acl_access_denied_channel",
		help: "What ACL rules refused: a command, a key, a channel, or a wrong password (auth).",
		values: func(r *reading, put func(float64, ...string)) {
			for _, d := range r.Denials {
				put(float64(d.Count), d.Reason)
			}
		}},
	{name: "keyp_slowlog_entries", kind: gauge, help: "Commands in SLOWLOG.",
		value: func(r *reading) float64 { return float64(r.Slow) }},
	{name: "keyp_keyspace_hits_total", kind: counter, info: "keyspace_hits",
		help:  "Keys that commands looked up and found.",
		value: func(r *reading) float64 { return float64(r.stats.Hits.Load()) }},
	{name: "keyp_keyspace_misses_total", kind: counter, info: "keyspace_misses",
		help:  "Keys that commands looked up and did not find.",
		value: func(r *reading) float64 { return float64(r.stats.Misses.Load()) }},

	// Keys.
	{name: "keyp_keys", kind: gauge, labels: "db",
		help:   "Keys of a database, those that are due and not yet removed included. Databases beyond the 64th are other.",
		values: perDatabase(func(p *population) float64 { return float64(p.keys) })},
	{name: "keyp_expiring_keys", kind: gauge, labels: "db",
		help:   "Keys of a database that have a deadline.",
		values: perDatabase(func(p *population) float64 { return float64(p.expires) })},
	{name: "keyp_average_ttl_seconds", kind: gauge, labels: "db",
		help:   "The mean time to live of a database's keys in memory that have a deadline. A deadline over 34.8 years (2^40 ms) after the start counts as that.",
		values: perDatabase(func(p *population) float64 { return p.ttl })},
	{name: "keyp_keys_by_type", kind: gauge, labels: "db type",
		help: "Live keys of a database by type, as of keyp_keys_by_type_timestamp_seconds. Counted in the background with at most 0.4 % of the time, while somebody scrapes: a first scrape has none.",
		values: func(r *reading, put func(float64, ...string)) {
			if r.types == nil {
				return
			}
			for _, db := range r.types.DBs {
				for name, n := range db.Types {
					put(float64(n), db.DB, name)
				}
			}
		}},
	{name: "keyp_keys_by_type_timestamp_seconds", kind: gauge,
		help: "When the last count of keys by type began, as a Unix time; 0 before there is one.",
		value: func(r *reading) float64 {
			if r.types == nil {
				return 0
			}
			return float64(r.types.At) / 1000
		}},
	{name: "keyp_resident_keys", kind: gauge, info: "resident_keys", help: "Keys in memory.",
		value: func(r *reading) float64 { return float64(r.Store.Resident) }},
	{name: "keyp_partial_slots", kind: gauge, info: "partial_slots",
		help:  "Hash slots with keys that are only on disk.",
		value: func(r *reading) float64 { return float64(r.Store.PartialSlots) }},
	{name: "keyp_evicted_keys_total", kind: counter, info: "evicted_keys",
		help:  "Keys that left memory and are on disk only; none is lost.",
		value: func(r *reading) float64 { return float64(r.Store.Evictions) }},
	{name: "keyp_key_loads_total", kind: counter, info: "keys_loaded",
		help:  "Keys that were read from disk.",
		value: func(r *reading) float64 { return float64(r.Store.Loads) }},
	{name: "keyp_key_load_errors_total", kind: counter, info: "key_load_errors",
		help:  "Keys that could not be read from disk.",
		value: func(r *reading) float64 { return float64(r.Store.LoadErrors) }},
	{name: "keyp_lazyfreed_objects_total", kind: counter, info: "lazyfreed_objects",
		help:  "Values that Redis would free in the background.",
		value: func(r *reading) float64 { return float64(r.stats.LazyFreed.Load()) }},

	// Time.
	{name: "keyp_policies", kind: gauge, info: "policies", help: "Policies about deadlines.",
		value: func(r *reading) float64 { return float64(len(r.Policies)) }},
	{name: "keyp_policy_decisions_total", kind: counter, labels: "policy mode decision",
		help: "How often a policy gave a key a deadline, cut or spread one, refused a command or had a read move a deadline; in the mode WARN, would have.",
		values: func(r *reading, put func(float64, ...string)) {
			for _, p := range r.Policies {
				for _, n := range p.Counts {
					put(float64(n.N), p.Name, p.Mode, n.Of)
				}
			}
		}},
	{name: "keyp_expired_keys_total", kind: counter, info: "expired_keys",
		help:  "Keys that were removed since their deadline had come.",
		value: func(r *reading) float64 { return float64(r.Store.Expired) }},
	{name: "keyp_expired_elements_total", kind: counter, info: "expired_subkeys",
		help:  "Fields and members that were removed since their deadline had come.",
		value: func(r *reading) float64 { return float64(r.Store.ExpiredElements) }},
	{name: "keyp_expire_lateness_seconds", kind: buckets, labels: "of",
		info: "expire_lateness_p50_ms expire_lateness_p99_ms expire_lateness_samples",
		help: "Time from a deadline to the removal of the key or element, to its entry in the stream of an outbox, or to the publication of the event expired, which leaves when the removal is on disk. Nobody sees what is due meanwhile.",
		spread: func(r *reading, put func(histogram.Reading, float64, ...string)) {
			put(r.Histograms.KeyLateness, micro, "key")
			put(r.Histograms.ElementLateness, micro, "element")
			put(r.OutboxLateness, micro, "outbox")
			put(r.EventLateness, micro, "event")
		}},
	{name: "keyp_expire_lateness_max_seconds", kind: gauge, info: "expire_lateness_max_ms",
		help:  "The latest removal of a key since the start.",
		value: func(r *reading) float64 { return float64(r.Store.Lateness.Max) / 1000 }},
	{name: "keyp_keys_due", kind: gauge, labels: "within",
		help: "Keys that are due in the next minute, hour or day, by their own deadline or the first one of an element, those that are only on disk included. Counted in the background every second, or less often where that would take more than a hundredth of the time; an estimate where there are more than 100,000 deadlines.",
		values: func(r *reading, put func(float64, ...string)) {
			for i, n := range r.due {
				put(float64(n), horizons[i].name)
			}
		}},
	{name: "keyp_clock_steps_total", kind: counter, info: "clock_steps",
		help:  "Steps of the wall clock.",
		value: func(r *reading) float64 { return float64(r.Store.ClockSteps) }},
	{name: "keyp_clock_guarded", kind: gauge, info: "clock_guarded",
		help:  "1 while time is guarded: the wall clock stepped forward by more than clock-jump-limit, or that of a group's leader is apart from the group's time; otherwise 0.",
		value: func(r *reading) float64 { return oneIf(r.Store.Clock.Since != 0) }},
	{name: "keyp_clock_ahead_seconds", kind: gauge, info: "clock_ahead_ms",
		help:  "How far the wall clock is ahead of the guarded time; 0 while time is not guarded. At a follower: of the group's time.",
		value: func(r *reading) float64 { return float64(r.Store.Clock.Ahead) / 1000 }},
	{name: "keyp_clock_guards_total", kind: counter, info: "clock_guards",
		help:  "How often time came to be guarded.",
		value: func(r *reading) float64 { return float64(r.Store.Clock.Began) }},
	{name: "keyp_clock_deadlines_moved_total", kind: counter, info: "clock_deadlines_moved",
		help:  "Deadlines that counted from the guarded time and were moved when the step was taken as right.",
		value: func(r *reading) float64 { return float64(r.Store.Clock.Moved) }},
	{name: "keyp_clock_deadlines_not_moved_total", kind: counter, info: "clock_deadlines_not_moved",
		help:  "Deadlines that counted from the guarded time and do not move, since there were too many.",
		value: func(r *reading) float64 { return float64(r.Store.Clock.Unmoved) }},
	{name: "keyp_outboxes", kind: gauge, info: "outboxes", help: "Outboxes.",
		value: func(r *reading) float64 { return float64(r.OutboxTotals.Rules) }},
	{name: "keyp_outbox_entries_total", kind: counter, labels: "outbox",
		info: "outbox_entries_written", help: "Entries that an outbox has written to its stream.",
		values: func(r *reading, put func(float64, ...string)) {
			for _, o := range r.Outboxes {
				put(float64(o.Written), o.Name)
			}
		}},
	{name: "keyp_outbox_entries_waiting", kind: gauge, labels: "outbox",
		info: "outbox_entries_waiting outbox_oldest_waiting",
		help: "Entries of an outbox that are not in its stream yet.",
		values: func(r *reading, put func(float64, ...string)) {
			for _, o := range r.Outboxes {
				put(float64(o.Waiting), o.Name)
			}
		}},
	{name: "keyp_outbox_entries_lost_total", kind: counter, labels: "outbox",
		info: "outbox_entries_lost",
		help: "Entries that MAXLEN took from the stream of an outbox before all groups had acknowledged them.",
		values: func(r *reading, put func(float64, ...string)) {
			for _, o := range r.Outboxes {
				put(float64(o.Lost), o.Name)
			}
		}},
	{name: "keyp_outboxes_failing", kind: gauge, info: "outboxes_failing",
		help:  "Outboxes whose stream cannot be written: its key holds another type, or it has no more ids.",
		value: func(r *reading) float64 { return float64(r.OutboxTotals.Failing) }},
	{name: "keyp_outboxes_full", kind: gauge, info: "outboxes_full",
		help:  "Outboxes of which more than outbox-backlog entries, or KiB of entries, wait, so that commands that may grow keys of their patterns are refused.",
		value: func(r *reading) float64 { return float64(r.OutboxTotals.Full) }},
	{name: "keyp_bad_deadlines_total", kind: counter, info: "bad_deadlines",
		help:  "Deadlines that were found damaged on disk.",
		value: func(r *reading) float64 { return float64(r.Store.BadDeadlines) }},

	// The log.
	{name: "keyp_log_sync_duration_seconds", kind: buckets, help: "How long syncs of the log took.",
		spread: func(r *reading, put func(histogram.Reading, float64, ...string)) {
			put(r.Histograms.LogSyncs, micro)
		}},
	{name: "keyp_log_commit_size_bytes", kind: buckets,
		help: "Bytes that commits wrote to the log.",
		spread: func(r *reading, put func(histogram.Reading, float64, ...string)) {
			put(r.Histograms.LogCommits, whole)
		}},
	{name: "keyp_log_commit_recent_seconds", kind: gauge, info: "log_sync_usec",
		help:  "The moving average of how long a commit takes.",
		value: func(r *reading) float64 { return r.cost }},
	{name: "keyp_log_appended_bytes_total", kind: counter, info: "log_end",
		help:  "Bytes ever appended to the log, over restarts too.",
		value: func(r *reading) float64 { return float64(r.Store.LogEnd) }},
	{name: "keyp_log_pending_bytes", kind: gauge, info: "log_durable",
		help: "Bytes of the log that are not durable yet.",
		value: func(r *reading) float64 {
			return max(0, float64(r.Store.LogEnd)-float64(r.Store.LogDurable))
		}},
	{name: "keyp_log_size_bytes", kind: gauge, info: "aof_current_size",
		help:  "Bytes of the log that a start would read.",
		value: func(r *reading) float64 { return float64(r.Store.LogBytes) }},
	{name: "keyp_log_failed", kind: gauge, info: "aof_last_write_status",
		help:  "1 if the store has failed and accepts no more writes.",
		value: func(r *reading) float64 { return oneIf(r.Failed) }},

	// Checkpoints and the disk.
	{name: "keyp_checkpoints_total", kind: counter, info: "rdb_saves",
		help:  "Checkpoints that finished.",
		value: func(r *reading) float64 { return float64(r.Store.Checkpoints) }},
	{name: "keyp_checkpoint_failures_total", kind: counter, help: "Checkpoints that failed.",
		value: func(r *reading) float64 { return float64(r.failures) }},
	{name: "keyp_checkpoint_failed", kind: gauge,
		info:  "rdb_last_bgsave_status aof_last_bgrewrite_status",
		help:  "1 if the last checkpoint failed.",
		value: func(r *reading) float64 { return oneIf(r.SaveFailed) }},
	{name: "keyp_checkpoint_duration_seconds", kind: buckets, help: "How long checkpoints took.",
		spread: func(r *reading, put func(histogram.Reading, float64, ...string)) {
			put(r.Histograms.Checkpoints, micro)
		}},
	{name: "keyp_checkpoint_running", kind: gauge, info: "rdb_bgsave_in_progress",
		help:  "1 while a checkpoint is under way or about to start.",
		value: func(r *reading) float64 { return oneIf(r.Saving) }},
	{name: "keyp_checkpoint_timestamp_seconds", kind: gauge, info: "rdb_last_save_time",
		help:  "When the last checkpoint finished, as a Unix time; before the first one, when the server started.",
		value: func(r *reading) float64 { return float64(r.Saved) / 1000 }},
	{name: "keyp_checkpoint_pending_changes", kind: gauge, info: "rdb_changes_since_last_save",
		help:  "Changes of keys since the last checkpoint.",
		value: func(r *reading) float64 { return float64(r.Store.Changes) }},
	{name: "keyp_checkpoint_keys_total", kind: counter, info: "checkpoint_keys_written",
		help:  "Keys that checkpoints wrote.",
		value: func(r *reading) float64 { return float64(r.Store.CheckpointKeys) }},
	{name: "keyp_archive_enabled", kind: gauge, info: "archive_enabled",
		help:  "1 if the log is archived (archive-dir, archive-command).",
		value: func(r *reading) float64 { return oneIf(r.Store.Archived) }},
	{name: "keyp_archive_pending_bytes", kind: gauge, info: "archive_lsn",
		help: "Bytes of the log that are not archived yet.",
		value: func(r *reading) float64 {
			return oneIf(r.Store.Archived) * max(0,
				float64(r.Store.LogDurable)-float64(r.Store.Archive.Through))
		}},
	{name: "keyp_archive_timestamp_seconds", kind: gauge, info: "archive_last_time",
		help:  "When the archive last had all of the log, or got something, as a Unix time; 0: never since the start.",
		value: func(r *reading) float64 { return float64(r.Store.Archive.Last) / 1000 }},
	{name: "keyp_archive_failed", kind: gauge, info: "archive_last_status",
		help:  "1 if the last attempt to archive failed, or archive-command has not ended for five minutes.",
		value: func(r *reading) float64 { return oneIf(r.Store.Archive.Err != nil) }},
	{name: "keyp_archive_files_total", kind: counter, info: "archive_files",
		help:  "Files that were archived.",
		value: func(r *reading) float64 { return float64(r.Store.Archive.Files) }},
	{name: "keyp_archive_bytes_total", kind: counter, info: "archive_bytes",
		help:  "Bytes of these files.",
		value: func(r *reading) float64 { return float64(r.Store.Archive.Bytes) }},
	{name: "keyp_archive_failures_total", kind: counter, info: "archive_failures",
		help:  "Attempts to archive that failed.",
		value: func(r *reading) float64 { return float64(r.Store.Archive.Failures) }},
	{name: "keyp_archive_holes_total", kind: counter, info: "archive_holes",
		help:  "How often the disk was too full to keep what was not archived; each time a new backup is needed.",
		value: func(r *reading) float64 { return float64(r.Store.Archive.Holes) }},
	{name: "keyp_archive_command_seconds", kind: gauge, info: "archive_command_seconds",
		help:  "How long archive-command has been running; 0: it is not.",
		value: func(r *reading) float64 { return r.Store.Archive.Runs.Seconds() }},
	{name: "keyp_data_file_size_bytes", kind: gauge, info: "data_file_bytes",
		help:  "The size of the data file.",
		value: func(r *reading) float64 { return float64(r.Store.DataBytes) }},
	{name: "keyp_data_file_free_bytes", kind: gauge, info: "data_file_free_bytes",
		help:  "Of the data file, what is unused.",
		value: func(r *reading) float64 { return float64(r.Store.DataFree) }},
	{name: "keyp_disk_free_bytes", kind: gauge, info: "disk_free_bytes",
		help:  "Free space on the disk of the data directory.",
		value: func(r *reading) float64 { return float64(r.Store.FreeSpace) }},
	{name: "keyp_disk_reserve_bytes", kind: gauge,
		help:  "Free space below which commands that may grow the data are refused (disk-reserve).",
		value: func(r *reading) float64 { return float64(r.reserve) }},
	{name: "keyp_disk_full", kind: gauge, info: "disk_full",
		help:  "1 while commands that may grow the data are refused.",
		value: func(r *reading) float64 { return oneIf(r.Full) }},

	// Memory.
	{name: "keyp_memory_used_bytes", kind: gauge, info: "used_memory allocator_active",
		help:  "Memory of the process itself, without mapped pages of the data file.",
		value: func(r *reading) float64 { return float64(r.Process.Used) }},
	{name: "keyp_memory_owner_bytes", kind: gauge, labels: "owner",
		info: "used_memory_dataset used_memory_overhead mem_clients_normal used_memory_scripts",
		help: "Used memory by owner: keys with their tables and index, clients, scripts, and other: garbage, gaps between values, the Go runtime.",
		values: func(r *reading, put func(float64, ...string)) {
			for owner, n := range r.owners() {
				put(float64(n), owner)
			}
		}},
	{name: "keyp_memory_dirty_bytes", kind: gauge, info: "used_memory_dirty",
		help:  "Of the keys' memory, what the data file does not have yet.",
		value: func(r *reading) float64 { return float64(r.Store.Dirty) }},
	{name: "keyp_memory_peak_bytes", kind: gauge, info: "used_memory_peak",
		help:  "The most memory used since the start.",
		value: func(r *reading) float64 { return float64(r.Peak) }},
	{name: "keyp_memory_resident_bytes", kind: gauge, info: "used_memory_rss",
		help:  "Memory of the process in RAM, mapped pages of the data file included.",
		value: func(r *reading) float64 { return float64(r.Resident) }},
	{name: "keyp_memory_limit_bytes", kind: gauge, info: "maxmemory", help: "maxmemory; 0 is none.",
		value: func(r *reading) float64 { return float64(r.config.Int("maxmemory")) }},
	{name: "keyp_memory_allocated_bytes", kind: gauge, info: "allocator_allocated",
		help:  "Memory of objects and slabs.",
		value: func(r *reading) float64 { return float64(r.Process.Heap) }},
	{name: "keyp_memory_mapped_bytes", kind: gauge, info: "allocator_resident",
		help:  "Memory that the process has from the system.",
		value: func(r *reading) float64 { return float64(r.Process.Mapped) }},
	{name: "keyp_memory_system_bytes", kind: gauge, info: "total_system_memory",
		help:  "Memory of the machine.",
		value: func(r *reading) float64 { return float64(r.Machine) }},
	{name: "keyp_gc_cycles_total", kind: counter, info: "gc_cycles",
		help:  "Collections of garbage.",
		value: func(r *reading) float64 { return float64(r.Process.Cycles) }},
	{name: "keyp_goroutines", kind: gauge, help: "Goroutines of the process.",
		value: func(*reading) float64 { return float64(runtime.NumGoroutine()) }},
}, groupMetrics, []metric{
	// Scripts, messages, tracking.
	{name: "keyp_scripts", kind: gauge, info: "number_of_cached_scripts",
		help:  "Scripts in the cache.",
		value: func(r *reading) float64 { return float64(r.Scripts) }},
	{name: "keyp_scripts_evicted_total", kind: counter, info: "evicted_scripts",
		help:  "Scripts that left the cache.",
		value: func(r *reading) float64 { return float64(r.EvictedScripts) }},
	{name: "keyp_function_libraries", kind: gauge, info: "number_of_libraries",
		help:  "Libraries of functions.",
		value: func(r *reading) float64 { return float64(r.Libraries) }},
	{name: "keyp_functions", kind: gauge, info: "number_of_functions",
		help:  "Functions in the libraries.",
		value: func(r *reading) float64 { return float64(r.Functions) }},
	{name: "keyp_pubsub_subscriptions", kind: gauge, labels: "kind",
		info: "pubsub_channels pubsub_patterns pubsubshard_channels",
		help: "Channels, patterns and shard channels that have subscribers.",
		values: func(r *reading, put func(float64, ...string)) {
			put(float64(r.Channels), "channel")
			put(float64(r.Patterns), "pattern")
			put(float64(r.ShardChannels), "shard")
		}},
	{name: "keyp_tracking_keys", kind: gauge, info: "tracking_total_keys",
		help:  "Keys that are remembered for CLIENT TRACKING.",
		value: func(r *reading) float64 { return float64(r.TrackedKeys) }},
	{name: "keyp_tracking_items", kind: gauge, info: "tracking_total_items",
		help:  "For all those keys together, clients that have read them.",
		value: func(r *reading) float64 { return float64(r.TrackedItems) }},
	{name: "keyp_tracking_prefixes", kind: gauge, info: "tracking_total_prefixes",
		help:  "Prefixes of CLIENT TRACKING in its broadcasting mode.",
		value: func(r *reading) float64 { return float64(r.TrackedPrefixes) }},
})

// owners returns the used memory by owner, in bytes. Memory of no known owner counts as other.
func (r *reading) owners() map[string]int64 {
	by := map[string]int64{"keys": r.Store.Memory, "clients": r.loop.ClientMemory,
		"scripts": r.ScriptBytes}
	other := r.Process.Used
	for _, n := range by {
		other -= n
	}
	by["other"] = max(other, 0)
	return by
}

func perCommand(read func(*commands.CommandReport) int64) func(*reading, func(float64, ...string)) {
	return func(r *reading, put func(float64, ...string)) {
		for i := range r.Commands {
			put(float64(read(&r.Commands[i])), r.Commands[i].Name)
		}
	}
}

// descriptions are the descriptions of metrics for the library, in the same order.
var descriptions = func() []*prometheus.Desc {
	list := make([]*prometheus.Desc, len(metrics))
	for i := range metrics {
		list[i] = metrics[i].describe()
	}
	return list
}()
