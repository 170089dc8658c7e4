package config

// compat are options that only tune Redis's own machinery (memory, snapshots, replication and
// cluster details). Keyp accepts them in a redis.conf, CONFIG GET shows them and CONFIG SET changes
// those that are not fixed. They have no other effect.
var compat = []option{
	tuneInt("list-compress-depth", "", "0", 0, maxInt32),
	tuneInt("hz", "", "10", 0, maxInt32),
	tuneBool("dynamic-hz", "", "yes"),
	tuneBool("activerehashing", "", "yes"),
	tuneBool("activedefrag", "", "no"),
	tuneInt("active-expire-effort", "", "1", 1, 10),
	tuneInt("active-defrag-cycle-min", "", "1", 1, 99),
	tuneInt("active-defrag-cycle-max", "", "25", 1, 99),
	tuneInt("active-defrag-threshold-lower", "", "10", 0, 1000),
	tuneInt("active-defrag-threshold-upper", "", "100", 0, 1000),
	tuneInt("active-defrag-max-scan-fields", "", "1000", 1, 0),
	tuneBytes("active-defrag-ignore-bytes", "104857600", 1),
	tuneBool("lazyfree-lazy-eviction", "", "no"),
	tuneBool("lazyfree-lazy-expire", "", "no"),
	tuneBool("lazyfree-lazy-server-del", "", "no"),
	tuneBool("lazyfree-lazy-user-del", "", "no"),
	tuneBool("lazyfree-lazy-user-flush", "", "no"),
	tuneInt("maxmemory-samples", "", "5", 1, maxInt32),
	tuneInt("maxmemory-eviction-tenacity", "", "10", 0, 100),
	{name: "io-threads", group: groupCompat, kind: kindInt, def: "1", min: 1,
		max: 128, fixed: true},
	tuneBool("io-threads-do-reads", "", "no"),
	tuneBool("jemalloc-bg-thread", "", "yes"),
	tuneBool("disable-thp", "", "yes"),
	tuneWord("oom-score-adj", "no", "yes", "relative", "absolute"),
	{name: "oom-score-adj-values", group: groupCompat, kind: kindCustom, def: "0 200 800",
		parse: readScores},
	fixedText("server-cpulist", "server_cpulist", ""),
	fixedText("bio-cpulist", "bio_cpulist", ""),
	fixedText("aof-rewrite-cpulist", "aof_rewrite_cpulist", ""),
	fixedText("bgsave-cpulist", "bgsave_cpulist", ""),
	fixedText("bind-source-addr", "", ""),
	tuneInt("socket-mark-id", "", "0", 0, maxUint32),
	tuneInt("max-new-connections-per-cycle", "", "10", 1, 1000),
	tuneInt("max-new-tls-connections-per-cycle", "", "1", 1, 1000),
	tuneText("locale-collate", ""),
	tuneBool("hide-user-data-from-log", "", "no"),
	tuneText("ignore-warnings", ""),
	tuneBool("crash-log-enabled", "", "yes"),
	tuneBool("crash-memcheck-enabled", "", "yes"),

	{name: "save", group: groupCompat, kind: kindCustom, parse: readSave, lines: saveLines,
		accumulate: true},
	tuneBool("stop-writes-on-bgsave-error", "", "yes"),
	tuneBool("rdbcompression", "", "yes"),
	tuneBool("rdbchecksum", "", "yes"),
	fixedText("dbfilename", "", "dump.rdb"),
	tuneBool("rdb-del-sync-files", "", "no"),
	tuneBool("rdb-save-incremental-fsync", "", "yes"),
	tuneWord("sanitize-dump-payload", "no", "yes", "clients"),
	fixedText("appendfilename", "", "appendonly.aof"),
	fixedText("appenddirname", "", "appendonlydir"),
	tuneBool("no-appendfsync-on-rewrite", "", "no"),
	tuneInt("auto-aof-rewrite-percentage", "", "100", 0, maxInt32),
	tuneBytes("auto-aof-rewrite-min-size", "67108864", 0),
	tuneBool("aof-load-truncated", "", "yes"),
	tuneBool("aof-use-rdb-preamble", "", "yes"),
	tuneBool("aof-timestamp-enabled", "", "no"),
	tuneBool("aof-rewrite-incremental-fsync", "", "yes"),
	tuneBool("aof-disable-auto-gc", "", "no"),

	secretText("masterauth"),
	secretText("masteruser"),
	tuneBool("replica-read-only", "slave-read-only", "yes"),
	tuneInt("replica-priority", "slave-priority", "100", 0, maxInt32),
	tuneBool("replica-lazy-flush", "slave-lazy-flush", "no"),
	tuneBool("replica-ignore-maxmemory", "slave-ignore-maxmemory", "yes"),
	{name: "replica-announce-ip", alias: "slave-announce-ip", group: groupCompat, kind: kindString},
	tuneInt("replica-announce-port", "slave-announce-port", "0", 0, 65535),
	tuneBool("replica-announced", "", "yes"),
	tuneBool("replica-ignore-disk-write-errors", "", "no"),
	tuneBytes("repl-backlog-size", "1048576", 1),
	tuneInt("repl-backlog-ttl", "", "3600", 0, 0),
	tuneInt("repl-timeout", "", "60", 1, maxInt32),
	tuneInt("repl-ping-replica-period", "repl-ping-slave-period", "10", 1, maxInt32),
	tuneBool("repl-disable-tcp-nodelay", "", "no"),
	tuneBool("repl-diskless-sync", "", "yes"),
	tuneInt("repl-diskless-sync-delay", "", "5", 0, maxInt32),
	tuneInt("repl-diskless-sync-max-replicas", "", "0", 0, maxInt32),
	tuneWord("repl-diskless-load", "disabled", "on-empty-db", "swapdb"),
	tuneInt("min-replicas-to-write", "min-slaves-to-write", "0", 0, maxInt32),
	tuneInt("min-replicas-max-lag", "min-slaves-max-lag", "10", 0, maxInt32),
	tuneWord("propagation-error-behavior", "ignore", "panic", "panic-on-replicas"),

	fixedText("cluster-config-file", "", "nodes.conf"),
	tuneInt("cluster-node-timeout", "", "15000", 0, 0),
	tuneInt("cluster-replica-validity-factor", "cluster-slave-validity-factor", "10", 0, maxInt32),
	tuneInt("cluster-migration-barrier", "", "1", 0, maxInt32),
	tuneBool("cluster-replica-no-failover", "cluster-slave-no-failover", "no"),
	tuneBool("cluster-allow-replica-migration", "", "yes"),
	tuneBool("cluster-allow-pubsubshard-when-down", "", "yes"),
	tuneBytes("cluster-link-sendbuf-limit", "0", 0),
	tuneText("cluster-announce-human-nodename", ""),

	{name: "supervised", group: groupCompat, kind: kindEnum, def: "no",
		enum: []string{"upstart", "systemd", "auto", "no"}, fixed: true},
	tuneBool("always-show-logo", "", "no"),
	tuneBool("set-proc-title", "", "yes"),
	{name: "proc-title-template", group: groupCompat, kind: kindCustom,
		def: "{title} {listen-addr} {server-mode}", parse: readTitle, lines: quotedLine},
	tuneInt("shutdown-timeout", "", "10", 0, maxInt32),
	{name: "shutdown-on-sigint", group: groupCompat, kind: kindCustom, def: "default",
		parse: readShutdown},
	{name: "shutdown-on-sigterm", group: groupCompat, kind: kindCustom, def: "default",
		parse: readShutdown},
	fixedText("enable-module-command", "", "no"),
	fixedText("enable-protected-configs", "", "no"),
	tuneText("tls-client-cert-file", ""),
	tuneText("tls-client-key-file", ""),
	secretText("tls-client-key-file-pass"),
	tuneText("tls-dh-params-file", ""),
	tuneBool("tls-prefer-server-ciphers", "", "no"),
	tuneInt("tls-session-cache-size", "", "20480", 0, maxInt32),
	tuneInt("tls-session-cache-timeout", "", "300", 0, maxInt32),
}

// tuneInt returns a number option with bounds; most 0 means no upper bound.
func tuneInt(name, alias, def string, least, most int64) option {
	return option{name: name, alias: alias, group: groupCompat, kind: kindInt, def: def,
		min: least, max: most}
}

func tuneBool(name, alias, def string) option {
	return option{name: name, alias: alias, group: groupCompat, kind: kindBool, def: def}
}

func tuneBytes(name, def string, least int64) option {
	return option{name: name, group: groupCompat, kind: kindBytes, def: def, min: least}
}

// tuneWord returns an option whose value is one of the words. The first one is the default.
func tuneWord(name string, words ...string) option {
	return option{name: name, group: groupCompat, kind: kindEnum, def: words[0], enum: words}
}

func tuneText(name, def string) option {
	return option{name: name, group: groupCompat, kind: kindString, def: def}
}

func secretText(name string) option {
	return option{name: name, group: groupCompat, kind: kindString, secret: true}
}

// fixedText returns a text option that CONFIG SET cannot change, because it says where files are or
// what is allowed.
func fixedText(name, alias, def string) option {
	return option{name: name, alias: alias, group: groupCompat, kind: kindString,
		def: def, fixed: true}
}
