package e2e

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// infoFields has the fields of INFO that programs read, by section. The programs are redis-cli
// --stat, the graphs and alerts of the Prometheus exporter, the dashboards of Datadog and Telegraf,
// and client libraries that check the version, the role or whether data is loading.
var infoFields = map[string][]string{
	"Server": {
		"redis_version", "redis_mode", "os", "arch_bits", "process_id", "run_id", "tcp_port",
		"uptime_in_seconds", "uptime_in_days", "hz", "executable", "config_file",
	},
	"Clients": {"connected_clients", "maxclients", "blocked_clients"},
	"Memory": {
		"used_memory", "used_memory_human", "used_memory_rss", "used_memory_peak", "maxmemory",
		"maxmemory_human", "maxmemory_policy", "mem_fragmentation_ratio",
	},
	"Persistence": {
		"loading", "rdb_changes_since_last_save", "rdb_bgsave_in_progress", "rdb_last_save_time",
		"rdb_last_bgsave_status", "aof_enabled", "aof_rewrite_in_progress", "aof_last_write_status",
		"aof_last_bgrewrite_status",
	},
	"Stats": {
		"total_connections_received", "total_commands_processed", "instantaneous_ops_per_sec",
		"total_net_input_bytes", "total_net_output_bytes", "rejected_connections", "expired_keys",
		"evicted_keys", "keyspace_hits", "keyspace_misses", "total_error_replies",
	},
	"Replication": {"role", "connected_slaves", "master_replid", "master_repl_offset"},
	"CPU":         {"used_cpu_sys", "used_cpu_user"},
	"Cluster":     {"cluster_enabled"},
}

// clientFields has the fields of CLIENT LIST that go-redis, redis-cli and operators' scripts read.
var clientFields = []string{
	"id", "addr", "laddr", "fd", "name", "age", "idle", "flags", "db", "sub", "psub",
	"ssub", "multi",
	"qbuf", "qbuf-free", "argv-mem", "multi-mem", "rbs", "rbp", "obl", "oll", "omem", "tot-mem",
	"events", "cmd", "user", "redir", "resp",
}

// TestDiffInfo: these fields exist in Keyp and Redis, with values of the same kind: numbers, or
// words of the same form. The Redis of Debian has no subexpiry.
func TestDiffInfo(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	for _, side := range s.sides() {
		s.mustDo(t, side, "SET", "k", "v", "EX", "100")
		s.mustDo(t, side, "GET", "none")
	}
	keyp, redis := infoOf(t, s, s.keyp), infoOf(t, s, s.redis)
	for _, section := range slices.Sorted(maps.Keys(infoFields)) {
		for _, field := range infoFields[section] {
			compareKinds(t, section+" "+field, keyp[section][field], redis[section][field])
		}
	}
	compareKinds(t, "db0", strings.TrimSuffix(keyp["Keyspace"]["db0"], ",subexpiry=0"),
		redis["Keyspace"]["db0"])
	compareKinds(t, "cmdstat_set", keyp["Commandstats"]["cmdstat_set"],
		redis["Commandstats"]["cmdstat_set"])
}

func infoOf(t *testing.T, s *both, c *wire) map[string]map[string]string {
	t.Helper()
	sections, section := map[string]map[string]string{}, ""
	for line := range strings.Lines(s.mustDo(t, c, "INFO", "everything").text) {
		line = strings.TrimRight(line, "\r\n")
		if name, ok := strings.CutPrefix(line, "# "); ok {
			section = name
			sections[name] = map[string]string{}
		} else if field, value, ok := strings.Cut(line, ":"); ok {
			sections[section][field] = value
		} else if line != "" {
			t.Errorf("INFO has a line %q", line)
		}
	}
	return sections
}

// TestDiffClientList: every line has the clientFields, in the same form.
func TestDiffClientList(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	lists := map[*wire]map[string]string{}
	for _, side := range s.sides() {
		s.mustDo(t, side, "CLIENT", "SETNAME", "me")
		lists[side] = map[string]string{}
		for _, word := range strings.Fields(s.mustDo(t, side, "CLIENT", "LIST").text) {
			name, value, _ := strings.Cut(word, "=")
			lists[side][name] = value
		}
	}
	for _, field := range clientFields {
		compareKinds(t, "CLIENT LIST "+field, lists[s.keyp][field], lists[s.redis][field])
	}
}

var digits = regexp.MustCompile(`\d+`)

// shape returns a value without its numbers, or "word" for a value without numbers.
func shape(value string) string {
	if !digits.MatchString(value) {
		return "word"
	}
	return digits.ReplaceAllString(value, "0")
}

// compareKinds fails the test if a value is missing, or if only one of the two is a number.
func compareKinds(t *testing.T, what, keyp, redis string) {
	t.Helper()
	number := func(value string) bool {
		return shape(value) == "0" || shape(value) == "0.0" || shape(value) == "-0"
	}
	switch {
	case keyp == "" && redis != "":
		t.Errorf("%s is absent; in Redis it is %q", what, redis)
	case keyp != "" && redis == "":
		t.Errorf("%s is %q; Redis has no such field, so nobody reads it", what, keyp)
	case number(keyp) != number(redis):
		t.Errorf("%s is %q; in Redis it is %q", what, keyp, redis)
	case strings.ContainsRune(redis, '=') && shape(keyp) != shape(redis):
		t.Errorf("%s is %q; in Redis it is %q", what, keyp, redis)
	}
}

// TestDiffConfigGet: the options that clients, frameworks and operators ask for exist. They have
// Redis's defaults unless there is a reason for others.
func TestDiffConfigGet(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	for name, differs := range map[string]string{
		"appendonly":                  "always yes: there is always a log",
		"appendfsync":                 "always by default: an acknowledged write is on disk",
		"bind":                        "loopback only by default",
		"client-output-buffer-limit":  "",
		"client-query-buffer-limit":   "",
		"databases":                   "",
		"hz":                          "",
		"latency-monitor-threshold":   "",
		"lua-time-limit":              "",
		"maxclients":                  "",
		"maxmemory":                   "",
		"maxmemory-policy":            "",
		"notify-keyspace-events":      "",
		"proto-max-bulk-len":          "",
		"requirepass":                 "",
		"save":                        "differs by test",
		"slowlog-log-slower-than":     "",
		"slowlog-max-len":             "",
		"tcp-keepalive":               "",
		"timeout":                     "",
		"unixsocket":                  "",
		"hash-max-listpack-entries":   "",
		"list-max-listpack-size":      "",
		"set-max-intset-entries":      "",
		"zset-max-listpack-value":     "",
		"stream-node-max-entries":     "",
		"lazyfree-lazy-user-flush":    "",
		"activerehashing":             "",
		"cluster-enabled":             "",
		"protected-mode":              "",
		"port":                        "differs by test",
		"dir":                         "differs by test",
		"logfile":                     "",
		"loglevel":                    "",
		"latency-tracking":            "",
		"auto-aof-rewrite-percentage": "",
	} {
		keyp, redis := s.mustDo(t, s.keyp, "CONFIG", "GET", name),
			s.mustDo(t, s.redis, "CONFIG", "GET", name)
		switch {
		case len(keyp.items) != len(redis.items):
			t.Errorf("CONFIG GET %s: %q, in Redis %q", name, keyp.texts(), redis.texts())
		case differs == "" && keyp.raw != redis.raw:
			t.Errorf("CONFIG GET %s: %q, in Redis %q", name, keyp.texts(), redis.texts())
		}
	}
}

// both has a Keyp and a redis-server, with one connection to each.
type both struct {
	keypServer, redisServer *testkit.Server
	pair
	listens bool // events are compared too
}

// bothServers starts both servers with the same flags.
func bothServers(t *testing.T, args ...string) *both {
	t.Helper()
	s := &both{redisServer: testkit.Redis(t, args...)}
	s.keypServer = testkit.Keyp(t, args...)
	s.keyp, s.redis = s.dial(t)
	return s
}

// dial opens another connection to each server.
func (s *both) dial(t *testing.T) (keyp, redis *wire) {
	t.Helper()
	var conns [2]*wire
	for i, server := range []*testkit.Server{s.keypServer, s.redisServer} {
		conn, err := dialWire(server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // the test may have closed it
		conns[i] = conn
	}
	return conns[0], conns[1]
}

// mustDo sends a command that must not fail.
func (s *both) mustDo(t failer, c *wire, args ...string) reply {
	t.Helper()
	r, err := c.do(args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if r.isError() {
		t.Fatalf("%q: %s", args, r.text)
	}
	return r
}
