package config

// The headings of --help.
const (
	groupNetwork = "Network"
	groupCluster = "Cluster mode"
	groupHTTP    = "HTTP"
	groupTLS     = "TLS"
	groupData    = "Data and durability"
	groupMemory  = "Memory"
	groupValues  = "Small values"
	groupClients = "Clients"
	groupExpiry  = "Keys and events"
	groupLog     = "Logging"
	groupWatch   = "Watching"
	groupCompat  = "Accepted for redis.conf's sake, without effect"
)

// Eviction policies, in the order of Int("maxmemory-policy").
var policies = []string{"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction"}

const (
	minInt32  = -1 << 31
	maxInt32  = 1<<31 - 1
	maxUint32 = 1<<32 - 1
	mb        = 1 << 20

	maxClockOffset = 10 * 365 * 24 * 3600 * 1000 // ms
)

// options are those that Keyp acts on.
var options = []option{
	{name: "port", group: groupNetwork, kind: kindInt, def: "6379", max: 65535, fixed: true,
		help: "TCP port; 0: none"},
	{name: "bind", group: groupNetwork, kind: kindWords, def: "127.0.0.1", fixed: true,
		help: "addresses to listen on; -ADDR: may be unavailable; *: all"},
	{name: "protected-mode", group: groupNetwork, kind: kindBool, def: "yes",
		help: "without a password serve this machine only"},
	{name: "requirepass", group: groupNetwork, kind: kindString, secret: true,
		help: "password of the user default, which clients must give with AUTH"},
	{name: "aclfile", group: groupNetwork, kind: kindString, fixed: true,
		help: "file with the users, for ACL LOAD and ACL SAVE; empty: they are lines \"user NAME RULE…\" of the configuration file"},
	{name: "acl-pubsub-default", group: groupNetwork, kind: kindEnum, def: "resetchannels", enum: []string{"allchannels", "resetchannels"},
		help: "what a new user may do with channels: everything or nothing"},
	{name: "acllog-max-len", group: groupNetwork, kind: kindInt, def: "128",
		help: "refusals that ACL LOG keeps"},
	{name: "unixsocket", group: groupNetwork, kind: kindString, fixed: true,
		help: "path of a Unix socket to listen on too"},
	{name: "unixsocketperm", group: groupNetwork, kind: kindOctal, def: "0", fixed: true,
		help: "its permissions in octal; 0: those that the umask leaves"},
	{name: "tcp-backlog", group: groupNetwork, kind: kindInt, def: "511", max: maxInt32, fixed: true,
		help: "connections waiting to be accepted"},
	{name: "tcp-keepalive", group: groupNetwork, kind: kindInt, def: "300", max: maxInt32,
		help: "seconds between probes of silent peers; 0: none"},

	{name: "cluster-enabled", group: groupCluster, kind: kindBool, def: "no", fixed: true,
		help: "cluster mode: be the one node of a cluster, for clients that expect one, or a member of a group of servers that have the same data (keyp cluster create); only database 0 may have keys"},
	{name: "cluster-port", group: groupCluster, kind: kindInt, def: "0", max: 65535, fixed: true,
		help: "port on which a member of a group listens for the others; 0: 10000 more than the port"},
	{name: "cluster-secret-file", group: groupCluster, kind: kindString, fixed: true,
		help: "file with the secret that members prove to each other that they know; without it, and without tls-cluster, they talk on the loopback interface only"},
	{name: "tls-cluster", group: groupCluster, kind: kindBool, def: "no", fixed: true,
		help: "members talk TLS with each other, with certificates of both sides (tls-cert-file, tls-key-file, tls-ca-cert-file)"},
	{name: "cluster-log-size", group: groupCluster, kind: kindBytes, def: "1gb",
		help: "how many bytes of disk the log takes that a member keeps only for others which are behind; one that lacks more takes a snapshot, and until it has caught up it may lack four times as much, or the snapshot's size"},
	{name: "cluster-require-full-coverage", group: groupCluster, kind: kindBool, def: "yes",
		help: "serve keys only while all hash slots are served"},
	{name: "cluster-allow-reads-when-down", group: groupCluster, kind: kindBool, def: "no",
		help: "serve what only reads also while they are not"},
	{name: "cluster-reads", group: groupCluster, kind: kindEnum, def: "lease", enum: []string{"lease", "quorum"},
		help: "when the leader's replies leave: while its lease lasts, which clocks decide, or when a majority has confirmed that it leads (quorum)"},
	{name: "replica-serve-stale-data", alias: "slave-serve-stale-data", group: groupCluster, kind: kindBool, def: "yes",
		help: "a follower goes on serving clients that have said READONLY when it has had no leader for a second"},
	{name: "cluster-announce-ip", group: groupCluster, kind: kindString, valid: validAddress,
		help: "address that clients of the cluster, and other members, are given; empty: they use the one that they have"},
	{name: "cluster-announce-port", group: groupCluster, kind: kindInt, def: "0", max: 65535,
		help: "port that they are given; 0: the one that the server listens on"},
	{name: "cluster-announce-tls-port", group: groupCluster, kind: kindInt, def: "0", max: 65535,
		help: "that for TLS; 0: the one that the server listens on"},
	{name: "cluster-announce-bus-port", group: groupCluster, kind: kindInt, def: "0", max: 65535,
		help: "port for other members that they are given; 0: the one that the server listens on, cluster-port"},
	{name: "cluster-announce-hostname", group: groupCluster, kind: kindString, valid: validHostname,
		help: "name of the host that clients are given, too"},
	{name: "cluster-preferred-endpoint-type", group: groupCluster, kind: kindEnum, def: "ip", enum: []string{"ip", "hostname", "unknown-endpoint"},
		help: "what clients are to connect to: ip, hostname or unknown-endpoint (the address that they have)"},

	{name: "http-addr", group: groupHTTP, kind: kindString, def: "127.0.0.1:8379", fixed: true,
		help: "address with a port to serve the dashboard, metrics, health and profiles at over HTTP, to those who may run the commands that these stand for; if it is not given, the next free one of ten ports; empty: off"},
	{name: "http-protected", group: groupHTTP, kind: kindBool, def: "yes", fixed: true,
		help: "serve HTTP on loopback addresses only; with no, others are served as long as each user needs a password"},
	{name: "http-tls", group: groupHTTP, kind: kindBool, def: "no", fixed: true,
		help: "serve HTTP with TLS, as the tls options say"},

	{name: "tls-port", group: groupTLS, kind: kindInt, def: "0", max: 65535, fixed: true,
		help: "TCP port for TLS; 0: none"},
	{name: "tls-cert-file", group: groupTLS, kind: kindString,
		help: "the server's certificate, with those that lead to its authority behind it, in PEM form"},
	{name: "tls-key-file", group: groupTLS, kind: kindString,
		help: "its private key, in PEM form"},
	{name: "tls-key-file-pass", group: groupTLS, kind: kindString, secret: true,
		help: "password of that key; empty: it has none"},
	{name: "tls-ca-cert-file", group: groupTLS, kind: kindString,
		help: "authorities whose certificates clients may show, in PEM form"},
	{name: "tls-ca-cert-dir", group: groupTLS, kind: kindString,
		help: "directory of such files; all are read"},
	{name: "tls-auth-clients", group: groupTLS, kind: kindEnum, def: "yes", enum: []string{"no", "yes", "optional"},
		help: "whether clients need a certificate: no, yes, optional (a wrong one is refused)"},
	{name: "tls-protocols", group: groupTLS, kind: kindString,
		help: "TLSv1.2, TLSv1.3 or both; empty: both. Older ones are not served"},
	{name: "tls-ciphers", group: groupTLS, kind: kindString,
		help: "ciphers of TLS 1.2 by their names with : between them; DEFAULT: all safe ones, !NAME: without it; empty: DEFAULT"},
	{name: "tls-ciphersuites", group: groupTLS, kind: kindString,
		help: "ciphers of TLS 1.3; a list must name all three, since none can be left out"},
	{name: "tls-session-caching", group: groupTLS, kind: kindBool, def: "yes",
		help: "let clients resume sessions, by tickets; the server keeps none"},

	{name: "dir", group: groupData, kind: kindString, def: "./keyp-data", fixed: true,
		help: "data directory; made if missing"},
	{name: "appendfsync", group: groupData, kind: kindEnum, def: "always", enum: []string{"always", "everysec", "no"},
		help: "when an acknowledged write is on disk: always, everysec (a crash of the machine may lose a second), no"},
	{name: "databases", group: groupData, kind: kindInt, def: "16", min: 1, max: 65536, fixed: true,
		help: "number of databases for SELECT"},
	{name: "shards", group: groupData, kind: kindInt, def: "16", min: 1, max: 64, fixed: true, valid: validShards,
		help: "parts of the keyspace with a lock each, a power of two"},
	{name: "wal-segment-size", group: groupData, kind: kindBytes, def: "64mb", min: 64 << 10, max: 2 << 30, fixed: true,
		help: "size of a log file at most; the first ones have 4mb"},
	{name: "checkpoint-log-size", group: groupData, kind: kindBytes, def: "512mb", min: mb, fixed: true,
		help: "size of the log at which a checkpoint starts, which bounds the time of a restart; as much of its files is kept to be used again"},
	{name: "disk-reserve", group: groupData, kind: kindBytes, def: "64mb",
		help: "free disk space below which commands that may grow the data are refused; half of it is for the log, half for checkpoints"},
	{name: "archive-dir", group: groupData, kind: kindString, fixed: true,
		help: "directory that gets all of the log, to restore any moment since a backup with it (keyp restore --archive); empty: none"},
	{name: "archive-command", group: groupData, kind: kindString, fixed: true,
		help: "command that gets each file of the archive instead and copies it to where it is safe: %p is the path, %f the name; run by /bin/sh, again after an error"},
	{name: "archive-timeout", group: groupData, kind: kindInt, def: "60", min: 1, max: maxInt32,
		help: "seconds after which what was written is archived, if it makes no whole file of 64 MiB before"},
	{name: "ready-archive-age", group: groupData, kind: kindInt, def: "0", max: maxInt32,
		help: "seconds for which the archive may lack something until /readyz says that the server is not ready, more than archive-timeout; 0: that does not count"},

	{name: "maxmemory", group: groupMemory, kind: kindBytes, def: "0",
		help: "bound of the memory for data; 0: none. Data beyond it stays on disk"},
	{name: "maxmemory-policy", group: groupMemory, kind: kindEnum, def: "noeviction", enum: policies,
		help: "…-lfu: keys used least often leave memory first; otherwise keys unused for longest. No policy deletes keys"},
	{name: "lfu-log-factor", group: groupMemory, kind: kindInt, def: "10", max: maxInt32,
		help: "under such a policy, how many more uses each further count of OBJECT FREQ takes"},
	{name: "lfu-decay-time", group: groupMemory, kind: kindInt, def: "1", max: maxInt32,
		help: "minutes without use that cost a count; 0: none do"},

	{name: "hash-max-listpack-entries", alias: "hash-max-ziplist-entries", group: groupValues, kind: kindInt, def: "512",
		help: "fields of a hash in its small form"},
	{name: "hash-max-listpack-value", alias: "hash-max-ziplist-value", group: groupValues, kind: kindBytes, def: "64",
		help: "bytes of a field or value in it"},
	{name: "list-max-listpack-size", alias: "list-max-ziplist-size", group: groupValues, kind: kindInt, def: "-2", min: minInt32, max: maxInt32,
		help: "elements of a list in its small form; -1 to -5: 4, 8, 16, 32 or 64 KiB"},
	{name: "stream-node-max-bytes", group: groupValues, kind: kindBytes, def: "4096",
		help: "bytes of a run of a stream's entries; 0: no limit but 64 KiB"},
	{name: "stream-node-max-entries", group: groupValues, kind: kindInt, def: "100",
		help: "entries of a run, deleted ones included; 0: no limit but 10,000"},
	{name: "set-max-intset-entries", group: groupValues, kind: kindInt, def: "512",
		help: "members of a set of integers in its small form"},
	{name: "set-max-listpack-entries", group: groupValues, kind: kindInt, def: "128",
		help: "members of another set in its small form"},
	{name: "set-max-listpack-value", group: groupValues, kind: kindBytes, def: "64",
		help: "bytes of a member in it"},
	{name: "zset-max-listpack-entries", alias: "zset-max-ziplist-entries", group: groupValues, kind: kindInt, def: "128",
		help: "members of a sorted set in its small form"},
	{name: "zset-max-listpack-value", alias: "zset-max-ziplist-value", group: groupValues, kind: kindBytes, def: "64",
		help: "bytes of a member in it"},
	{name: "hll-sparse-max-bytes", group: groupValues, kind: kindBytes, def: "3000",
		help: "bytes of a HyperLogLog in its sparse form"},

	{name: "maxclients", group: groupClients, kind: kindInt, def: "10000", min: 1, max: maxUint32,
		help: "connections at a time"},
	{name: "maxmemory-clients", group: groupClients, kind: kindCustom, def: "0", parse: readShare,
		help: "bytes, or percent of maxmemory (5%), that all clients together may take for what they send and are sent; who takes most is disconnected first. 0, or a share of no maxmemory: half of the memory that the server may use"},
	{name: "timeout", group: groupClients, kind: kindInt, def: "0", max: maxInt32,
		help: "seconds until an idle client is disconnected; 0: never"},
	{name: "proto-max-bulk-len", group: groupClients, kind: kindBytes, def: "512mb", min: mb, max: 512 * mb,
		help: "size of one argument, and of a string value"},
	{name: "client-query-buffer-limit", group: groupClients, kind: kindBytes, def: "1gb", min: mb,
		help: "unparsed input of one client"},
	{name: "client-output-buffer-limit", group: groupClients, kind: kindCustom, parse: readOutputLimits, lines: outputLimitLines,
		def:  "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
		help: "CLASS HARD SOFT SECONDS: output that may wait for a client of class normal, replica or pubsub"},

	{name: "tracking-table-max-keys", group: groupClients, kind: kindInt, def: "1000000",
		help: "keys remembered for CLIENT TRACKING, with their names and who has read them 512 bytes each on average; 0: no bound"},

	{name: "notify-keyspace-events", group: groupExpiry, kind: kindCustom, parse: readEvents, lines: quotedLine,
		help: "events to publish: letters of Ag$lshzxeKEtmdnocSTIV"},
	{name: "expired-events-delay", group: groupExpiry, kind: kindInt, def: "1000", min: 0, max: 60_000, fixed: true,
		help: "milliseconds after a start before keys that expired meanwhile are removed and their events published, so that clients are back; none without notify-keyspace-events"},
	{name: "clock-jump-limit", group: groupExpiry, kind: kindInt, def: "600000",
		help: "milliseconds by which the wall clock may step forward before keys go on to expire by the time that the machine counts, until KEYP.CLOCK CONFIRM; 0: no step is too far"},
	{name: "clock-jump-patience", group: groupExpiry, kind: kindInt, def: "3600000",
		help: "milliseconds after which a longer step is taken as right without that; 0: at once"},
	{name: "outbox-backlog", group: groupExpiry, kind: kindInt, def: "1000000", min: 1,
		help: "entries of an outbox, or KiB of entries, that may wait to be written to its stream before commands that may grow keys of its pattern are refused"},
	{name: "busy-reply-threshold", alias: "lua-time-limit", group: groupExpiry, kind: kindInt, def: "5000",
		help: "milliseconds after which other commands get -BUSY while a script runs"},

	{name: "loglevel", group: groupLog, kind: kindEnum, def: "notice", enum: []string{"debug", "verbose", "notice", "warning", "nothing"},
		help: "debug, verbose, notice, warning or nothing"},
	{name: "logfile", group: groupLog, kind: kindString, fixed: true,
		help: "file to log to, opened again at SIGHUP; empty: standard error"},
	{name: "log-format", group: groupLog, kind: kindEnum, def: "text", enum: []string{"text", "json"}, fixed: true,
		help: "how lines of the log look: text or json"},
	{name: "syslog-enabled", group: groupLog, kind: kindBool, def: "no", fixed: true,
		help: "log to the system's log, too"},
	{name: "syslog-ident", group: groupLog, kind: kindString, def: "keyp", fixed: true,
		help: "the server's name there"},
	{name: "syslog-facility", group: groupLog, kind: kindEnum, def: "local0", fixed: true,
		enum: []string{"user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"},
		help: "the facility there: user, or local0 to local7"},
	{name: "pidfile", group: groupLog, kind: kindString, fixed: true,
		help: "file with the process id while the server runs"},

	{name: "slowlog-log-slower-than", group: groupWatch, kind: kindInt, def: "10000", min: -1,
		help: "microseconds that put a command in SLOWLOG; 0: all, -1: none"},
	{name: "slowlog-max-len", group: groupWatch, kind: kindInt, def: "128",
		help: "commands that SLOWLOG keeps"},
	{name: "latency-monitor-threshold", group: groupWatch, kind: kindInt, def: "0",
		help: "milliseconds that put an event in LATENCY; 0: none"},
	{name: "latency-tracking", group: groupWatch, kind: kindBool, def: "yes",
		help: "keep a histogram of each command's time"},
	{name: "latency-tracking-info-percentiles", group: groupWatch, kind: kindCustom, def: "50 99 99.9", parse: readPercentiles, lines: wordsLine,
		help: "percentiles of INFO latencystats"},
	{name: "enable-debug-command", group: groupWatch, kind: kindEnum, def: "local", enum: []string{"no", "yes", "local"}, fixed: true,
		help: "who may call DEBUG: no (nobody), local (this machine), yes (everybody)"},
	{name: "debug-sync-delay", group: groupWatch, kind: kindInt, def: "0", max: 60_000_000, fixed: true,
		help: "for measurements: microseconds that each sync of the log takes longer; 0: none"},
	{name: "debug-clock-offset", group: groupWatch, kind: kindInt, def: "0", min: -maxClockOffset, max: maxClockOffset, fixed: true,
		help: "for tests: milliseconds that the server's clock is ahead of the machine's at the start; DEBUG CLOCK-OFFSET changes it"},

	// Redis can turn these on and off; Keyp has one way only.
	{name: "appendonly", group: groupCompat, kind: kindBool, def: "yes", only: "yes", tolerate: true,
		why: "the log is Keyp's storage and can't be turned off; appendfsync chooses how careful it is"},
	{name: "daemonize", group: groupCompat, kind: kindBool, def: "no", only: "no", fixed: true,
		why: "Keyp stays in the foreground; let a service manager run it"},
	{name: "replicaof", alias: "slaveof", group: groupCompat, kind: kindWords, only: "", fixed: true,
		why: "there are no replicas; three servers that form a group have the same data: see cluster-enabled and keyp cluster create"},
	{name: "tls-replication", group: groupCompat, kind: kindBool, def: "no", only: "no",
		why: "there are no replicas; members of a group use TLS with tls-cluster"},
}

// unsupported are redis.conf's directives that ask for what Keyp does not have; to
// pass over them would be to run with less than was asked for.
var unsupported = map[string]string{
	"debug-addr":         "profiles are served at http-addr now, under /debug/pprof/",
	"debug-addr-exposed": "profiles are served at http-addr now, under /debug/pprof/",
	"loadmodule":         "modules are not supported",
	"sentinel":           "this is a file of Redis Sentinel; keyp cluster create makes a group that fails over by itself",
	"unixsocketgroup":    "the group of the socket is that of the process; start it with that group",
}
