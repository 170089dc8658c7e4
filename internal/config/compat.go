package config

// compat are options that only tune Redis's own machinery (memory, snapshots,
// replication and cluster details). A redis.conf that has them works, CONFIG GET
// shows them and CONFIG SET changes them, and nothing else comes of it.
var compat = []option{
	{name: "list-compress-depth", group: groupCompat, kind: kindInt, def: "0", max: maxInt32},
	tuneInt("hz", "", "10"),
	tuneBool("dynamic-hz", "", "yes"),
	tuneBool("activerehashing", "", "yes"),
	tuneBool("activedefrag", "", "no"),
	tuneInt("active-expire-effort", "", "1"),
	tuneInt("active-defrag-cycle-min", "", "1"),
	tuneInt("active-defrag-cycle-max", "", "25"),
	tuneInt("active-defrag-threshold-lower", "", "10"),
	tuneInt("active-defrag-threshold-upper", "", "100"),
	tuneInt("active-defrag-max-scan-fields", "", "1000"),
	tuneBytes("active-defrag-ignore-bytes", "104857600"),
	tuneBool("lazyfree-lazy-eviction", "", "no"),
	tuneBool("lazyfree-lazy-expire", "", "no"),
	tuneBool("lazyfree-lazy-server-del", "", "no"),
	tuneBool("lazyfree-lazy-user-del", "", "no"),
	tuneBool("lazyfree-lazy-user-flush", "", "no"),
	tuneInt("maxmemory-samples", "", "5"),
	tuneInt("maxmemory-eviction-tenacity", "", "10"),
	tuneInt("io-threads", "", "1"),
	tuneBool("io-threads-do-reads", "", "no"),
	tuneBool("jemalloc-bg-thread", "", "yes"),
	tuneBool("disable-thp", "", "yes"),
	tuneText("oom-score-adj", "no"),
	tuneWords("oom-score-adj-values", "0 200 800"),
	tuneText("server_cpulist", ""),
	tuneText("bio_cpulist", ""),
	tuneText("aof_rewrite_cpulist", ""),
	tuneText("bgsave_cpulist", ""),
	tuneText("ignore-warnings", ""),
	tuneBool("crash-log-enabled", "", "yes"),
	tuneBool("crash-memcheck-enabled", "", "yes"),

	{name: "save", group: groupCompat, kind: kindCustom, parse: readSave, lines: saveLines, accumulate: true},
	tuneBool("stop-writes-on-bgsave-error", "", "yes"),
	tuneBool("rdbcompression", "", "yes"),
	tuneBool("rdbchecksum", "", "yes"),
	fixedText("dbfilename", "dump.rdb"),
	tuneBool("rdb-del-sync-files", "", "no"),
	tuneBool("rdb-save-incremental-fsync", "", "yes"),
	tuneText("sanitize-dump-payload", "no"),
	fixedText("appendfilename", "appendonly.aof"),
	fixedText("appenddirname", "appendonlydir"),
	tuneBool("no-appendfsync-on-rewrite", "", "no"),
	tuneInt("auto-aof-rewrite-percentage", "", "100"),
	tuneBytes("auto-aof-rewrite-min-size", "67108864"),
	tuneBool("aof-load-truncated", "", "yes"),
	tuneBool("aof-use-rdb-preamble", "", "yes"),
	tuneBool("aof-timestamp-enabled", "", "no"),
	tuneBool("aof-rewrite-incremental-fsync", "", "yes"),
	tuneBool("aof-disable-auto-gc", "", "no"),

	secretText("masterauth"),
	secretText("masteruser"),
	tuneBool("replica-serve-stale-data", "slave-serve-stale-data", "yes"),
	tuneBool("replica-read-only", "slave-read-only", "yes"),
	tuneInt("replica-priority", "slave-priority", "100"),
	tuneBool("replica-lazy-flush", "slave-lazy-flush", "no"),
	tuneBool("replica-ignore-maxmemory", "slave-ignore-maxmemory", "yes"),
	tuneText("replica-announce-ip", ""),
	tuneInt("replica-announce-port", "", "0"),
	tuneBool("replica-announced", "", "yes"),
	tuneBool("replica-ignore-disk-write-errors", "", "no"),
	tuneBytes("repl-backlog-size", "1048576"),
	tuneInt("repl-backlog-ttl", "", "3600"),
	tuneInt("repl-timeout", "", "60"),
	tuneInt("repl-ping-replica-period", "repl-ping-slave-period", "10"),
	tuneBool("repl-disable-tcp-nodelay", "", "no"),
	tuneBool("repl-diskless-sync", "", "yes"),
	tuneInt("repl-diskless-sync-delay", "", "5"),
	tuneInt("repl-diskless-sync-max-replicas", "", "0"),
	tuneText("repl-diskless-load", "disabled"),
	tuneInt("min-replicas-to-write", "min-slaves-to-write", "0"),
	tuneInt("min-replicas-max-lag", "min-slaves-max-lag", "10"),
	tuneText("propagation-error-behavior", "ignore"),

	tuneText("cluster-config-file", "nodes.conf"),
	tuneInt("cluster-node-timeout", "", "15000"),
	tuneInt("cluster-replica-validity-factor", "cluster-slave-validity-factor", "10"),
	tuneInt("cluster-migration-barrier", "", "1"),
	tuneBool("cluster-require-full-coverage", "", "yes"),
	tuneBool("cluster-allow-reads-when-down", "", "no"),

	tuneText("supervised", "no"),
	tuneBool("always-show-logo", "", "no"),
	tuneBool("set-proc-title", "", "yes"),
	tuneText("proc-title-template", "{title} {listen-addr} {server-mode}"),
	tuneInt("shutdown-timeout", "", "10"),
	tuneText("shutdown-on-sigint", "default"),
	tuneText("shutdown-on-sigterm", "default"),
	fixedText("enable-module-command", "no"),
	fixedText("enable-protected-configs", "no"),
	tuneText("tls-client-cert-file", ""),
	tuneText("tls-client-key-file", ""),
	secretText("tls-client-key-file-pass"),
	tuneText("tls-dh-params-file", ""),
	tuneBool("tls-prefer-server-ciphers", "", "no"),
	tuneInt("tls-session-cache-size", "", "20480"),
	tuneInt("tls-session-cache-timeout", "", "300"),
}

func tuneInt(name, alias, def string) option {
	return option{name: name, alias: alias, group: groupCompat, kind: kindInt, def: def}
}

func tuneBool(name, alias, def string) option {
	return option{name: name, alias: alias, group: groupCompat, kind: kindBool, def: def}
}

func tuneBytes(name, def string) option {
	return option{name: name, group: groupCompat, kind: kindBytes, def: def}
}

func tuneText(name, def string) option {
	return option{name: name, group: groupCompat, kind: kindString, def: def}
}

func secretText(name string) option {
	return option{name: name, group: groupCompat, kind: kindString, secret: true}
}

// fixedText is a text about where files are or what is allowed: no client may change
// the value from the file.
func fixedText(name, def string) option {
	return option{name: name, group: groupCompat, kind: kindString, def: def, fixed: true}
}

func tuneWords(name, def string) option {
	return option{name: name, group: groupCompat, kind: kindWords, def: def}
}
