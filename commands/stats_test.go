package commands

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/internal/clock"
	"keyp/internal/config"
	"keyp/internal/testkit/await"
	"keyp/resp"
	"keyp/storage"
)

// observe runs a command in the same way as the server, as if it had taken this long.
func (h *harness) observe(took time.Duration, args ...string) string {
	list := make([][]byte, len(args))
	for i, arg := range args {
		list[i] = []byte(arg)
	}
	reply := h.raw(list...)
	h.env.Observe(&h.ctx, 0, took)
	text, _ := render(reply)
	return text
}

func TestCommandStats(t *testing.T) {
	h, _, _, _ := hosted(t)
	h.observe(10*time.Microsecond, "SET", "k", "v")
	h.observe(30*time.Microsecond, "SET", "k", "v")
	h.observe(time.Microsecond, "SET", "k", "v", "FOO")
	h.observe(time.Microsecond, "GET")
	h.observe(time.Microsecond, "NOSUCH")
	h.observe(time.Microsecond, "CLIENT", "ID")
	h.observe(time.Microsecond, "CONFIG", "FOO")
	text := h.do("INFO", "commandstats", "errorstats", "latencystats")
	for _, want := range []string{
		`cmdstat_set:calls=3,usec=41,usec_per_call=13.67,rejected_calls=0,failed_calls=1\r\n`,
		`cmdstat_get:calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0\r\n`,
		`cmdstat_client|id:calls=1,usec=1,`,
		`errorstat_ERR:count=4\r\n`,
		`latency_percentiles_usec_set:p50=10.239,p99=30.207,p99.9=30.207\r\n`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "latency_percentiles_usec_get") {
		t.Error("a command that never ran has percentiles")
	}
	if got := h.env.Stats.Commands.Load(); got != 7 {
		t.Errorf("%d commands counted", got)
	}
	h.run(`
		LATENCY HISTOGRAM SET nosuch get -> ["set", ["calls", 3, "histogram_usec", [1, 1, 16, 2, 32, 3]]]
		LATENCY HISTOGRAM client -> ["client|id", ["calls", 1, "histogram_usec", [1, 1]]]
		CONFIG RESETSTAT -> +OK
		LATENCY HISTOGRAM -> []
		INFO commandstats -> "# Commandstats\r\n"
		INFO errorstats -> "# Errorstats\r\n"
		CONFIG SET latency-tracking no -> +OK
	`)
	h.observe(time.Microsecond, "GET", "k")
	h.run(`LATENCY HISTOGRAM -> []`)
}

// TestLatenessHistogram: LATENCY HISTOGRAM also shows how late expired keys and elements are
// removed.
func TestLatenessHistogram(t *testing.T) {
	h, _, _, _ := hosted(t)
	h.run(`
		LATENCY HISTOGRAM lateness -> []
		SET k v PX 5 -> +OK
		HSET h f v -> 1
		HPEXPIRE h 5 FIELDS 1 f -> [1]
	`)
	h.clock.Advance(7 * time.Millisecond)
	h.run(`
		GET k -> nil
		HGET h f -> nil
		LATENCY HISTOGRAM lateness|key -> ["lateness|key", ["calls", 1, "histogram_usec", [2500, 1]]]
		LATENCY HISTOGRAM LATENESS get -> ["lateness|key", ["calls", 1, "histogram_usec", [2500, 1]], "lateness|element", ["calls", 1, "histogram_usec", [2500, 1]]]
	`)
}

func TestSlowlog(t *testing.T) {
	h, _, _, _ := hosted(t)
	h.client.Name = "joe"
	h.run(`
		SLOWLOG LEN -> 0
		SLOWLOG GET x -> -ERR count should be greater than or equal to -1
		SLOWLOG GET -2 -> -ERR count should be greater than or equal to -1
		SLOWLOG GET 1 2 -> -ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.
	`)
	h.observe(9999*time.Microsecond, "GET", "quick")
	h.observe(10*time.Millisecond, "GET", "slow")
	h.observe(20*time.Millisecond, "AUTH", "default", "secret")
	h.observe(20*time.Millisecond, "HELLO", "2", "AUTH", "default", "secret", "SETNAME", "joe")
	h.observe(20*time.Millisecond, "CONFIG", "SET", "timeout", "1", "requirepass", "secret",
		"TLS-Key-File-Pass", "secret", "hz", "11")
	h.observe(20*time.Millisecond, "PING", strings.Repeat("x", 130))
	h.run(`
		SLOWLOG LEN -> 5
		SLOWLOG GET 1 -> [[4, 1700000000, 20000, ["PING", "` + strings.Repeat("x", 128) + `... (2 more bytes)"], "127.0.0.1:1001", "joe", 2]]
		SLOWLOG GET 0 -> []
	`)
	all := h.do("SLOWLOG", "GET", "-1")
	for _, want := range []string{
		`[0, 1700000000, 10000, ["GET", "slow"], "127.0.0.1:1001", "joe", 2]`,
		`["AUTH", "(redacted)", "(redacted)"]`,
		`["HELLO", "2", "AUTH", "(redacted)", "(redacted)", "SETNAME", "joe"]`,
		`["CONFIG", "SET", "timeout", "1", "requirepass", "(redacted)", "TLS-Key-File-Pass", "(redacted)", "hz", "11"]`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in\n%s", want, all)
		}
	}
	many := append([]string{"DEL"}, make([]string, 40)...)
	h.observe(time.Second, many...)
	if text := h.do("SLOWLOG", "GET", "1"); !strings.Contains(text, `"... (10 more arguments)"]`) ||
		strings.Count(text, `""`) != 30 {
		t.Errorf("a long command: %s", text)
	}
	h.run(`
		CONFIG SET slowlog-max-len 2 -> +OK
		SLOWLOG LEN -> 2
		CONFIG SET slowlog-log-slower-than -1 -> +OK
	`)
	h.observe(time.Hour, "GET", "k")
	h.run(`
		SLOWLOG LEN -> 2
		CONFIG SET slowlog-log-slower-than 0 -> +OK
		SLOWLOG RESET -> +OK
	`)
	h.observe(0, "GET", "k")
	h.run(`
		SLOWLOG LEN -> 1
		SLOWLOG GET -> [[6, 1700000000, 0, ["GET", "k"], "127.0.0.1:1001", "joe", 2]]
	`)
}

func TestLatencyMonitor(t *testing.T) {
	h, _, _, _ := hosted(t)
	h.observe(time.Second, "GET", "k")
	h.run(`
		LATENCY LATEST -> []
		LATENCY DOCTOR -> "Latency monitoring is off. CONFIG SET latency-monitor-threshold <milliseconds> turns it on.\n"
		CONFIG SET latency-monitor-threshold 100 -> +OK
		LATENCY DOCTOR -> "No spike of 100 ms or more was seen.\n"
	`)
	h.observe(99*time.Millisecond, "GET", "k")
	h.observe(150*time.Millisecond, "GET", "k")
	h.observe(120*time.Millisecond, "GET", "k")
	h.run(`advance 2s`)
	h.observe(110*time.Millisecond, "GET", "k")
	h.observe(300*time.Millisecond, "INFO")
	h.run(`
		advance 65s
		LATENCY LATEST -> [["command", 1700000002, 300, 300], ["fast-command", 1700000002, 110, 150]]
		LATENCY HISTORY fast-command -> [[1700000000, 150], [1700000002, 110]]
		LATENCY HISTORY foo -> []
		LATENCY GRAPH foo -> -ERR No samples available for event 'foo'
		LATENCY GRAPH fast-command -> "fast-command - high 150 ms, low 110 ms (all time high 150 ms)\n--------------------------------------------------------------------------------\n#\n#\n#\n##\n\n11\nmm\n\n"
		LATENCY RESET foo -> 0
		LATENCY RESET fast-command -> 1
		LATENCY RESET -> 1
		LATENCY LATEST -> []
	`)
	for i := range 200 {
		h.env.Latency.Add("x", time.Second, epoch+int64(i)*1000)
	}
	if n := len(h.env.Latency.list()[0].samples); n != latencySamples {
		t.Errorf("%d samples are kept", n)
	}
}

// TestHistogramError: a percentile is never below the true value, and at most 1/32 above it.
func TestHistogramError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Uint64Range(0, 1<<maxBits-1), 1, 50).Draw(t, "values")
		var h durations
		for _, v := range values {
			h.add(time.Duration(v))
		}
		counts, total := h.snapshot()
		if total != int64(len(values)) {
			t.Fatalf("total %d of %d", total, len(values))
		}
		top := uint64(0)
		for _, v := range values {
			top = max(top, v)
			if b := bucketOf(v); upper(b) < v || b > 0 && upper(b-1) >= v {
				t.Fatalf("%d is in the bucket that ends at %d", v, upper(b))
			}
		}
		if got := percentile(counts, total, 100); got < top ||
			float64(got) > float64(top)*(1+1.0/32)+1 {
			t.Fatalf("the largest of the values is %d, the 100th percentile %d", top, got)
		}
		if low, high := percentile(counts, total, 10), percentile(counts, total, 90); low > high {
			t.Fatalf("p10 %d > p90 %d", low, high)
		}
		list := octaves(counts)
		for i := 1; i < len(list); i++ {
			if list[i].micros <= list[i-1].micros || list[i].cumulative <= list[i-1].cumulative {
				t.Fatalf("octaves do not rise: %v", list)
			}
		}
		if last := list[len(list)-1].cumulative; last != total {
			t.Fatalf("octaves end at %d of %d", last, total)
		}
	})
}

func TestInfo(t *testing.T) {
	h, _, _, _ := hosted(t)
	h.run(`
		SET a 1 -> +OK
		select 5
		SET a 1 -> +OK
		INFO keyspace -> "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0,subexpiry=0\r\ndb5:keys=1,expires=0,avg_ttl=0,subexpiry=0\r\n"
		INFO nosuch -> ""
		INFO CLUSTER replication nosuch -> ` + `"# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\nmaster_replid:` + h.env.RunID + `\r\nmaster_replid2:0000000000000000000000000000000000000000\r\nmaster_repl_offset:0\r\nsecond_repl_offset:-1\r\nrepl_backlog_active:0\r\nrepl_backlog_size:1048576\r\nrepl_backlog_first_byte_offset:0\r\nrepl_backlog_histlen:0\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n"
		proto 3
		INFO cluster -> =txt:"# Cluster\r\ncluster_enabled:0\r\n"
	`)
	h.client.Proto = 2
	h.do("SET", "b", "1", "EX", "5")
	if text := h.do("INFO", "keyspace"); !strings.Contains(text, `db5:keys=2,expires=1,avg_ttl=`) {
		t.Errorf("with a deadline: %s", text)
	}
	titles := func(args ...string) string {
		var list []string
		for _, line := range strings.Split(h.do(append([]string{"INFO"}, args...)...), `\r\n`) {
			if title, ok := strings.CutPrefix(strings.TrimLeft(strings.TrimPrefix(line, "=txt:"),
				`"`), "# "); ok {
				list = append(list, strings.ToLower(title))
			}
		}
		return strings.Join(list, " ")
	}
	const base = "server clients memory persistence expiry replies stats replication cpu "
	for args, want := range map[string]string{
		"":           base + "modules errorstats cluster keyspace",
		"default":    base + "modules errorstats cluster keyspace",
		"all":        base + "commandstats errorstats latencystats cluster keyspace",
		"everything": base + "modules commandstats errorstats latencystats cluster keyspace",
		"cpu server": "server cpu",
	} {
		if got := titles(strings.Fields(args)...); got != want {
			t.Errorf("INFO %s has %s\nwant %s", args, got, want)
		}
	}
	fields := map[string]string{}
	for _, line := range strings.Split(h.do("INFO", "everything"), `\r\n`) {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if _, twice := fields[name]; twice {
			t.Errorf("%s stands twice", name)
		}
		fields[name] = value
	}
	for name, want := range map[string]string{
		"redis_version": RedisVersion, "keyp_version": config.Version, "redis_mode": "standalone",
		"tcp_port":          "6379",
		"connected_clients": "2", "maxclients": "10000", "maxmemory_policy": "noeviction",
		"aof_enabled":            "1",
		"rdb_last_bgsave_status": "ok", "aof_last_write_status": "ok", "disk_full": "0",
		"role":      "master",
		"listener1": "name=unix,bind=/run/keyp.sock", "mem_clients_normal": "2000",
	} {
		if fields[name] != want {
			t.Errorf("%s is %q, want %q", name, fields[name], want)
		}
	}
	for _, name := range []string{"used_memory", "used_memory_rss", "total_system_memory",
		"used_memory_dataset", "data_file_bytes"} {
		if v := fields[name]; v == "" || v == "0" || v[0] == '-' {
			t.Errorf("%s is %q", name, v)
		}
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 1023: "1023B", 1024: "1.00K", 1015104: "991.31K",
		25276514304: "23.54G", 1 << 52: "4.00P"} {
		if got := human(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

// BenchmarkObserve measures the cost of statistics for a command that is neither slow nor an error.
func BenchmarkObserve(b *testing.B) {
	h := newHarness(b)
	h.client.Addr = "127.0.0.1:1"
	h.raw([]byte("PING"))
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		h.env.Observe(&h.ctx, 0, 12*time.Microsecond)
	}
}

// TestLazyFreed: INFO counts the values that Redis frees in the background. CONFIG SET appendonly
// is accepted with a warning. LATENCY has an event for slow batches of the reaper.
func TestLazyFreed(t *testing.T) {
	h := newHarness(t)
	for i := range 100 {
		h.do("SADD", "large", strconv.Itoa(i))
		h.do("SADD", "deleted", strconv.Itoa(i))
	}
	freed := func(want string) {
		t.Helper()
		if got := h.do("INFO", "memory"); !strings.Contains(got, `lazyfreed_objects:`+want+
			`\r\n`) || !strings.Contains(got, `lazyfree_pending_objects:0\r\n`) {
			t.Errorf("want %s, INFO has %q", want, got)
		}
	}
	h.run("SADD small 1 -> 1\nSET s v -> +OK\nUNLINK large small nosuch -> 2\nDEL deleted -> 1")
	freed("1")
	h.run("SET a 1 -> +OK\nFLUSHDB -> +OK\nSET a 1 -> +OK\nSET b 1 -> +OK\nFLUSHALL ASYNC -> +OK\nSET a 1 -> +OK\nFLUSHALL SYNC -> +OK")
	freed("6") // s is a key, too
	h.run("SET a 1 -> +OK\nMULTI -> +OK\nFLUSHALL -> +QUEUED\nEXEC -> [+OK]\nSET a 1 -> +OK")
	freed("6")
	h.run("MULTI -> +OK\nFLUSHDB ASYNC -> +QUEUED\nEXEC -> [+OK]")
	freed("7")
	h.run("FUNCTION FLUSH ASYNC -> +OK")
	freed("7")
	functions :=
		"#!lua name=many\nfor i=1,65 do redis.register_function('f'..i, function() end) end"
	for _, mode := range []string{"SYNC", "ASYNC"} {
		h.do("FUNCTION", "LOAD", functions)
		h.do("FUNCTION", "FLUSH", mode)
	}
	freed("73")
	h.run("CONFIG RESETSTAT -> +OK")
	freed("0")
}

func TestAppendOnlyWarning(t *testing.T) {
	h := newHarness(t)
	var log bytes.Buffer
	h.env.Log = slog.New(slog.NewTextHandler(&log, nil))
	h.run(`
		CONFIG SET appendonly yes -> +OK
		CONFIG SET APPENDONLY no timeout 5 -> +OK
		CONFIG GET appendonly -> ["appendonly", "yes"]
		CONFIG GET timeout -> ["timeout", "5"]
		CONFIG SET appendonly perhaps -> -ERR CONFIG SET failed (possibly related to argument 'appendonly') - argument must be 'yes' or 'no'
	`)
	if strings.Count(log.String(), "\n") != 1 ||
		!strings.Contains(log.String(), "appendonly no has no effect: ") {
		t.Errorf("the log has %q", log.String())
	}
}

// fastClock is a clock whose monotonic time runs a thousand times too fast, so every measured
// duration is long.
type fastClock struct{ clock.Clock }

func (c fastClock) Mono() time.Duration { return 1000 * c.Clock.Mono() }

func TestExpireCycle(t *testing.T) {
	store, _, err := storage.Open(storage.Options{Dir: t.TempDir(), Clock: fastClock{clock.System},
		Databases: 1, Shards: 1, SegmentSize: 1 << 20, Hooks: Features})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(false); err != nil {
			t.Error(err)
		}
	}()
	e := NewEnv(store, config.New(), slog.New(slog.NewTextHandler(io.Discard, nil)), clock.System)
	if err := e.Config.Set(config.Pair{Name: "latency-monitor-threshold", Value: "1"}); err != nil {
		t.Fatal(err)
	}
	client := &Client{ID: 1}
	e.Reset(client)
	c := Ctx{Client: client, Out: &resp.Writer{Proto: 2}, Txn: store.NewTxn()}
	await.Until(t, "a batch of the reaper is an event", func() bool {
		c.Args = byteArgs("SET", "k", "v", "PX", "1")
		e.Dispatch(&c)
		_, ok := e.Latency.event([]byte("expire-cycle"))
		return ok
	})
}

// changesSinceSave returns the rdb_changes_since_last_save of INFO.
func (h *harness) changesSinceSave() (n int) {
	h.t.Helper()
	_, rest, _ := strings.Cut(h.do("INFO", "persistence"), "rdb_changes_since_last_save:")
	if _, err := fmt.Sscanf(rest, "%d", &n); err != nil {
		h.t.Fatalf("INFO: %v", err)
	}
	return n
}

// TestChangesAsOne: a move from one list to another is one change. A consumer that reads its
// pending entries again changes nothing.
func TestChangesAsOne(t *testing.T) {
	h := newHarness(t)
	h.save = false
	for _, tt := range []struct {
		command string
		changes int
	}{
		{"RPUSH a x y z", 1}, {"LMOVE a b LEFT LEFT", 1}, {"LMOVEM a b LEFT LEFT COUNT 2 BULK", 1},
		{"EXISTS a", 0}, {"RPOPLPUSH b b", 1},
		{"XADD s 1-1 a b", 1}, {"XGROUP CREATE s g 0", 1}, {"XREADGROUP GROUP g c STREAMS s >", 1},
		{"XREADGROUP GROUP g c STREAMS s 0", 0}, {"XREADGROUP GROUP g c STREAMS s >", 0},
		{"XADD s 2-1 a b", 1},
		{"XREADGROUP GROUP g d STREAMS s 0", 1}, {"XREADGROUP GROUP g d STREAMS s 0", 0},
		{
			"EVAL redis.call('XREADGROUP','GROUP','g','d','STREAMS','s','0');redis.call('XADD','s','3-1','a','b') 0",
			1},
	} {
		before := h.changesSinceSave()
		h.do(strings.Fields(tt.command)...)
		if got := h.changesSinceSave() - before; got != tt.changes {
			t.Errorf("%s: %d changes, want %d", tt.command, got, tt.changes)
		}
	}
}

// TestChangesSinceSave: INFO counts the changes that are not in the data file yet. Each command
// counts once for each key that it changes. The count survives a restart.
func TestChangesSinceSave(t *testing.T) {
	h := newHarness(t)
	h.save = false
	changes := h.changesSinceSave
	long := strings.Repeat("x", 5000)
	want := 0
	for _, tt := range []struct {
		command string
		changes int
	}{
		{"SET a 1", 1}, {"GET a", 0}, {"MSET a 1 b 2 c 3", 3}, {"DEL a b none", 2},
		{"EXPIRE c 100", 1}, {"SET none 1 XX", 0},
		{"HSET h a 1 b 2 c 3", 1}, {"RPUSH l a b c", 1}, {"LTRIM l 1 1", 1}, {"XADD s 1-1 a b", 1},
		{"XTRIM s MAXLEN 0", 1},
		{"SETBIT bits 0 0", 1}, {"SETBIT bits 0 0", 0}, {"SETBIT bits 90 0", 1},
		{"BITFIELD bits SET i5 0 3 SET i5 8 3", 1},
		{"BITFIELD new INCRBY i5 0 1", 1}, {"BITFIELD new SET i5 90 1", 1},
		{"BITFIELD new SET i5 90 1", 0},
		{"SET large " + long, 1}, {"COPY large copy", 1}, {"RENAME large renamed", 1},
		{"SETRANGE renamed 10 y", 1},
		{"RPUSH e x", 1}, {"LPOP e", 1}, {"SADD one x", 1}, {"SMOVE one two x", 2},
		{"HSET f a 1", 1}, {"HDEL f a", 1}, {"SWAPDB 0 1", 1}, {"FLUSHDB", 0}, {"SET a 1", 1},
		{"FLUSHDB", 1}, {"PUBLISH a b", 0},
	} {
		h.do(strings.Fields(tt.command)...)
		if want += tt.changes; changes() != want {
			t.Errorf("%.60s: %d changes, want %d", tt.command, changes(), want)
			want = changes()
		}
	}
	h.bare = true // a start that replays begins a checkpoint beside the commands
	h.reopen()
	if got := changes(); got != want {
		t.Errorf("%d changes after a restart that replays them, %d before", got, want)
	}
	h.do("SAVE")
	if got := changes(); got != 0 {
		t.Errorf("%d changes after SAVE", got)
	}
	h.do("SET", "a", "1")
	h.save = true
	h.reopen()
	if got := changes(); got != 0 {
		t.Errorf("%d changes after a restart with a checkpoint", got)
	}
}

// TestErrorCodes: if the first word of a script's error looks like an error code, it is the code.
// Otherwise the code is ERR.
func TestErrorCodes(t *testing.T) {
	for reply, want := range map[string]string{
		"ERR x": "ERR", "MYCODE": "MYCODE", "WRONG\r\n": "WRONG", "\xffx y": "ERR",
		"a\x00b c": "ERR", strings.Repeat("A", 33) + " x": "ERR",
	} {
		if got := string(errorCode([]byte(reply))); got != want {
			t.Errorf("the code of %.40q is %q, want %q", reply, got, want)
		}
	}
}
