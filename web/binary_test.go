package web

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// served is a keyp process that serves HTTP.
type served struct {
	*testkit.Server
	t    *testing.T
	http string // host:port
}

func keyp(t *testing.T, args ...string) *served {
	t.Helper()
	return keypWith(t, testkit.Options{Args: args})
}

func keypWith(t *testing.T, o testkit.Options) *served {
	t.Helper()
	s := &served{t: t, http: "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))}
	o.Args = append(o.Args, "--http-addr", s.http)
	s.Server = testkit.NewKeyp(t, o)
	s.Start()
	return s
}

// redis sends commands to the server as a Redis client does, and returns all replies.
func (s *served) redis(commands ...[]byte) string {
	s.t.Helper()
	conn, err := await.Dial("tcp", s.Addr())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		for _, c := range commands {
			_, _ = conn.Write(c) // where it fails, replies lack
		}
		_ = conn.CloseWrite()
	}()
	text, err := io.ReadAll(conn)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// request returns a request for a page, as a user if user is not empty.
func (s *served) request(path, user, password string) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(await.Context(s.t), http.MethodGet, "http://"+s.http+path,
		nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	return r
}

func (s *served) get(path string) (status int, body string) {
	s.t.Helper()
	return fetch(s.t, s.request(path, "", ""))
}

// metrics returns the samples of a scrape: 'name{labels}' with its value.
func (s *served) metrics() map[string]float64 {
	s.t.Helper()
	status, text := s.get("/metrics")
	if status != 200 {
		s.t.Fatalf("/metrics: %d %s", status, text)
	}
	return samples(s.t, text)
}

func samples(t *testing.T, text string) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		found[line[:at]] = value
	}
	return found
}

// Each page is shown only to users who may run the page's commands. ACL LOG has an entry for each
// refusal.
func TestRights(t *testing.T) {
	s := keyp(t, "--requirepass", "secret",
		"--user", "watcher", "on", ">w", "-@all", "+info", "+latency|histogram",
		"--user", "sizer", "on", ">s", "-@all", "+info", "+memory|stats",
		"--user", "debugger", "on", ">d", "-@all", "+debug",
		"--user", "nobody", "on", ">n", "-@all",
		"--user", "gone", "off", ">g", "+@all")
	pages := []string{"/healthz", "/readyz", "/metrics", "/usage", "/version",
		"/debug/pprof/goroutine?debug=1", "/nothing"}
	for _, tt := range []struct {
		user, password string
		want           []int
	}{
		{"", "", []int{200, 200, 401, 401, 401, 401, 404}},
		{"default", "secret", []int{200, 200, 200, 200, 200, 200, 404}},
		{"default", "wrong", []int{200, 200, 401, 401, 401, 401, 404}},
		{"watcher", "w", []int{200, 200, 200, 403, 200, 403, 404}},
		{"sizer", "s", []int{200, 200, 403, 200, 200, 403, 404}},
		{"debugger", "d", []int{200, 200, 403, 403, 403, 200, 404}},
		{"nobody", "n", []int{200, 200, 403, 403, 403, 403, 404}},
		{"gone", "g", []int{200, 200, 401, 401, 401, 401, 404}},
		{"stranger", "w", []int{200, 200, 401, 401, 401, 401, 404}},
	} {
		for i, page := range pages {
			if status, body := fetch(t,
				s.request(page, tt.user, tt.password)); status != tt.want[i] {
				t.Errorf("%s asked by %q: %d, want %d: %s", page, tt.user, status, tt.want[i], body)
			}
		}
	}
	ctx := await.Context(t)
	client := s.Client(3)
	if err := client.Do(ctx, "AUTH", "secret").Err(); err != nil {
		t.Fatal(err)
	}
	c := testkit.NewClient(t, &redis.Options{Addr: s.Addr(), Password: "secret"})
	log := fmt.Sprint(c.Do(ctx, "ACL", "LOG", "100").Val())
	for _, want := range []string{"reason:auth", "username:stranger", "username:gone",
		"object:AUTH", "object:memory|stats", "username:watcher", "object:debug|digest",
		"name=http"} {
		if !strings.Contains(log, want) {
			t.Errorf("ACL LOG has no %q: %s", want, log)
		}
	}
	// The users may change at any time.
	if err := c.Do(ctx, "ACL", "SETUSER", "nobody", "+info").Err(); err != nil {
		t.Fatal(err)
	}
	if status, _ := fetch(t, s.request("/version", "nobody", "n")); status != 200 {
		t.Errorf("after +info: %d", status)
	}
	if err := c.Do(ctx, "ACL", "DELUSER", "nobody").Err(); err != nil {
		t.Fatal(err)
	}
	if status, _ := fetch(t, s.request("/version", "nobody", "n")); status != 401 {
		t.Errorf("after DELUSER: %d", status)
	}
}

// enable-debug-command no keeps profiles from everybody.
func TestNoProfiles(t *testing.T) {
	s := keyp(t, "--enable-debug-command", "no")
	if status, body := s.get("/debug/pprof/heap"); status != 401 ||
		!strings.Contains(body, "enable-debug-command") {
		t.Errorf("%d %s", status, body)
	}
}

// Events are visible in the metrics, and every number of INFO has a metric.
func TestMetrics(t *testing.T) {
	s := keyp(t, "--notify-keyspace-events", "Ex", "--expired-events-delay", "0")
	ctx, c := await.Context(t), s.Client(3)
	events := c.Subscribe(ctx, "__keyevent@0__:expired")
	defer events.Close()
	if _, err := events.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		c.Set(ctx, fmt.Sprint("k", i), "v", time.Hour)
	}
	for _, args := range [][]any{
		{"SET", "soon", "v", "PX", "1"}, {"HSET", "h", "f", "1", "g", "2"},
		{"HPEXPIRE", "h", "1", "FIELDS", "1", "f"},
		{"SAVE"}, {"EVAL", "return 1", "0"}, {"CLIENT", "TRACKING", "ON"},
		{"KEYP.OUTBOX", "SET", `"o" \ä`, "PATTERN", "\xff\r\n", "STREAM", "s"},
		{"KEYP.POLICY", "SET", `"p" \ä`, "PATTERN", "\xff\r\n", "REQUIRE"},
	} {
		if err := c.Do(ctx, args...).Err(); err != nil {
			t.Fatal(args, err)
		}
	}
	_ = c.Do(ctx, "LPUSH", "k1", "x").Err() // fails
	_ = c.Do(ctx, "GET").Err()              // is rejected
	if message, err := events.ReceiveMessage(ctx); err != nil || message.Payload != "soon" {
		t.Fatal(message, err)
	}
	var got map[string]float64
	await.Until(t, "the metrics show what happened", func() bool {
		got = s.metrics()
		return got["keyp_expired_elements_total"] == 1 && got[`keyp_keys_due{within="day"}`] > 0 &&
			got["keyp_keys_by_type_timestamp_seconds"] > 0
	})
	for name, want := range map[string]float64{
		`keyp_command_calls_total{command="set"}`:                                        21,
		`keyp_command_duration_seconds_count{command="set"}`:                             21,
		`keyp_command_duration_seconds_bucket{command="set",le="+Inf"}`:                  21,
		`keyp_command_failures_total{command="lpush"}`:                                   1,
		`keyp_command_rejections_total{command="get"}`:                                   1,
		`keyp_error_replies_by_code_total{code="WRONGTYPE"}`:                             1,
		`keyp_expire_lateness_seconds_count{of="key"}`:                                   1,
		`keyp_expire_lateness_seconds_count{of="element"}`:                               1,
		`keyp_expire_lateness_seconds_count{of="event"}`:                                 1,
		`keyp_expire_lateness_seconds_bucket{of="key",le="+Inf"}`:                        1,
		`keyp_policy_decisions_total{decision="refused",mode="WARN",policy="\"p\" \\ä"}`: 0,
		`keyp_keys{db="0"}`:                         21,
		`keyp_expiring_keys{db="0"}`:                20,
		`keyp_keys_by_type{db="0",type="string"}`:   20,
		`keyp_keys_by_type{db="0",type="hash"}`:     1,
		`keyp_keys_by_type{db="0",type="stream"}`:   0,
		`keyp_checkpoints_total`:                    1,
		`keyp_checkpoint_duration_seconds_count`:    1,
		`keyp_expired_keys_total`:                   1,
		`keyp_scripts`:                              1,
		`keyp_pubsub_subscriptions{kind="channel"}`: 1,
		`keyp_disk_full`:                            0,
		`keyp_log_failed`:                           0,
		`keyp_clients_limit`:                        10000,
	} {
		if value, found := got[name]; !found || value != want {
			t.Errorf("%s is %v (there: %v), want %v", name, value, found, want)
		}
	}
	for _, name := range []string{
		"keyp_log_sync_duration_seconds_count", "keyp_log_commit_size_bytes_sum",
		"keyp_memory_used_bytes", `keyp_memory_owner_bytes{owner="keys"}`,
		`keyp_memory_owner_bytes{owner="clients"}`, "keyp_connected_clients",
		"keyp_network_receive_bytes_total", "keyp_start_time_seconds",
		`keyp_expire_lateness_seconds_bucket{of="key",le="0.0001"}`,
		`keyp_expire_lateness_seconds_bucket{of="key",le="10"}`,
	} {
		if value, found := got[name]; !found || value <= 0 && !strings.Contains(name, "bucket") {
			t.Errorf("%s is %v (there: %v)", name, value, found)
		}
	}
	families := map[string]bool{}
	for sample := range got {
		name, _, _ := strings.Cut(sample, "{")
		families[name] = true
	}
	for _, m := range metrics {
		if name := m.name; !families[name] && !families[name+"_count"] && !ofGroups(&m) {
			t.Errorf("%s is not there", name)
		}
	}
	if len(got) > 3000 {
		t.Errorf("%d samples", len(got))
	}
	infoHasMetrics(t, c.Info(ctx, "everything").Val())
	sound(t, s)
}

// ofGroups reports whether only members of a group have a metric. TestGroupMetrics checks these
// metrics.
func ofGroups(m *metric) bool { return strings.HasPrefix(m.name, "keyp_group_") }

// notShown lists INFO's fields without a metric, with the reason. The fields of the sections
// commandstats, errorstats, latencystats and keyspace have metrics with labels.
var notShown = map[string]string{
	"instantaneous_ops_per_sec": "a rate, which Prometheus computes",
	"instantaneous_input_kbps":  "likewise", "instantaneous_output_kbps": "likewise",
	"client_recent_max_input_buffer":  "a look at each client",
	"client_recent_max_output_buffer": "likewise",
	"watching_clients":                "likewise", "total_watched_keys": "likewise",
	"used_memory_lua": "a walk through the interpreters' memory", "used_memory_vm_eval": "likewise",
	"used_memory_vm_functions": "likewise", "used_memory_vm_total": "likewise",
	"used_memory_scripts_eval": "in scripts of keyp_memory_owner_bytes",
	"used_memory_functions":    "likewise",
	"mem_fragmentation_ratio":  "computed from others", "mem_fragmentation_bytes": "likewise",
	"server_time_usec": "the time of the scrape", "lru_clock": "likewise",
	"hz": "has no effect", "configured_hz": "likewise", "repl_backlog_size": "likewise",
	"second_repl_offset": "likewise",
	"arch_bits":          "the same always", "aof_enabled": "likewise",
	"process_id": "of no use as a number", "tcp_port": "likewise",
}

// infoHasMetrics reports numbers of INFO that are neither in the table nor in notShown. It skips
// fields that are always 0 in Keyp.
func infoHasMetrics(t *testing.T, info string) {
	t.Helper()
	shown := map[string]bool{}
	for _, m := range metrics {
		for _, field := range strings.Fields(m.info) {
			shown[field] = true
			if !strings.Contains(info, "\n"+field+":") && !ofGroups(&m) {
				t.Errorf("INFO has no %s, which %s names", field, m.name)
			}
		}
	}
	for line := range strings.Lines(info) {
		field, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		value, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
		human := strings.HasSuffix(field, "_human") || strings.HasSuffix(field, "_perc")
		if err == nil && value != 0 && !human && !shown[field] && notShown[field] == "" {
			t.Errorf("INFO has %s:%s, which no metric shows", field, text)
		}
	}
}

// sound parses both forms of the metrics as a client does, and checks them.
func sound(t *testing.T, s *served) {
	t.Helper()
	r := s.request("/metrics", "", "")
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	_, text := fetch(t, r)
	if !strings.HasSuffix(text, "\n# EOF\n") ||
		!strings.Contains(text, "# TYPE keyp_commands_processed counter\n") ||
		!strings.Contains(text, "\nkeyp_commands_processed_total ") {
		t.Errorf("OpenMetrics: %.300s … %q", text, text[max(0, len(text)-100):])
	}
	r = s.request("/metrics", "", "")
	r.Header.Set("Accept-Encoding", "gzip")
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	zip, err := gzip.NewReader(answer.Body)
	if err != nil || answer.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal(err, answer.Header)
	}
	if text, err := io.ReadAll(zip); err != nil ||
		!strings.Contains(string(text), "\nkeyp_connected_clients ") {
		t.Errorf("gzip: %v", err)
	}
	_, text = s.get("/metrics")
	for _, m := range metrics {
		if ofGroups(&m) {
			continue
		}
		if !strings.Contains(text, "# TYPE "+m.name+" "+string(m.kind)+"\n") ||
			!strings.Contains(text, "# HELP "+m.name+" ") {
			t.Errorf("%s has no TYPE or HELP of its own", m.name)
		}
	}
	if !regexp.MustCompile(`^text/plain; version=0\.0\.4`).MatchString(contentType(t,
		s.request("/metrics", "", ""))) {
		t.Error("the usual form is not Prometheus's text")
	}
	promtool(t, text, "check", "metrics")
}

func contentType(t *testing.T, r *http.Request) string {
	t.Helper()
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.Header.Get("Content-Type")
}

func TestUsage(t *testing.T) {
	s := keyp(t, "--maxmemory", "1gb", "--maxclients", "500")
	ctx := context.Background()
	s.ClientDB(2, 3).Set(ctx, "k", strings.Repeat("v", 1000), time.Hour)
	_, text := s.get("/usage")
	var u usage
	if err := json.Unmarshal([]byte(text), &u); err != nil {
		t.Fatal(err)
	}
	if u.Keys.Total != 1 || u.Keys.Expiring != 1 ||
		!slices.Equal(u.Keys.Databases, []databaseUsage{{3, 1, 1}}) ||
		u.Memory.Limit != 1<<30 || u.Memory.Used <= 0 || u.Memory.ByOwner["keys"] < 1000 ||
		u.Disk.Log < 1000 || u.Disk.Free == 0 || u.Clients.Limit != 500 ||
		u.Clients.Connected != 1 {
		t.Errorf("%s", text)
	}
	sum := int64(0)
	for n := range maps.Values(u.Memory.ByOwner) {
		sum += n
	}
	if sum != u.Memory.Used {
		t.Errorf("the owners have %d of %d", sum, u.Memory.Used)
	}
	var version map[string]string
	if _, text := s.get("/version"); json.Unmarshal([]byte(text), &version) != nil ||
		version["version"] == "" || version["go_version"] == "" {
		t.Error(text)
	}
}

// While a script holds the whole keyspace and the server replies BUSY, pages are still shown.
func TestBesideScript(t *testing.T) {
	s := keyp(t, "--busy-reply-threshold", "50")
	ctx, c := await.Context(t), s.Client(2)
	c.Set(ctx, "k", "v", 0)
	await.Until(t, "the key is counted", func() bool {
		return s.metrics()[`keyp_keys{db="0"}`] == 1
	})
	ended := make(chan error, 1)
	go func() {
		ended <- c.Eval(ctx, "while true do redis.call('GET', 'k') end", []string{"k"}).Err()
	}()
	other := s.Client(2)
	await.Until(t, "the script is busy", func() bool {
		err := other.Get(ctx, "k").Err()
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	})
	for range 3 {
		for _, path := range []string{"/healthz", "/readyz", "/usage", "/debug/pprof/goroutine"} {
			if status, body := s.get(path); status != 200 {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		if got := s.metrics(); got[`keyp_keys{db="0"}`] != 1 {
			t.Errorf("%v keys", got[`keyp_keys{db="0"}`])
		}
	}
	if err := other.ScriptKill(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if err := await.For(t, "the script ends", ended); err == nil {
		t.Error("the script ended without an error")
	}
}

// Connections that send nothing, or only a part of a head, do not keep others out. Requests in
// progress end when the server stops.
func TestCrowd(t *testing.T) {
	s := keyp(t)
	dial := func(text string) *await.Conn {
		conn, err := await.Dial("tcp", s.http)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = conn.Write([]byte(text)) // it may be closed already
		return conn
	}
	var asked []*await.Conn
	for i := range 4 * MaxConns {
		conn := dial([]string{"", "GET /metrics HTTP/1.1\r\nHost: loc",
			"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"}[i%3])
		if i%3 == 2 {
			asked = append(asked, conn)
		}
	}
	for _, conn := range asked {
		// While all connections have a request in progress, nobody else gets one.
		_, _ = io.Copy(io.Discard, conn) // it may be closed to make room
	}
	if status, body := s.get("/healthz"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	r := s.request("/healthz", "", "")
	r.Header.Set("X-Long", strings.Repeat("x", 2*headBytes))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a head of %d bytes: %s", 2*headBytes, answer.Status)
	}
	// Only one profile is made at a time, and none that lasts for hours.
	if status, _ := s.get("/debug/pprof/profile?seconds=4000"); status != 400 {
		t.Errorf("an endless profile: %d", status)
	}
	// The server may have closed the connection that was silent for longest.
	http.DefaultClient.CloseIdleConnections()
	await.Until(t, "the profile is being made", func() bool {
		// The request is refused if the previous one has not ended.
		dial("GET /debug/pprof/trace?seconds=290 HTTP/1.1\r\nHost: localhost\r\n\r\n")
		status, _ := s.get("/debug/pprof/cmd")
		return status == 503
	})
	s.Stop()
}

// HTTP uses the certificates of the TLS port, also after they are renewed.
func TestTLS(t *testing.T) {
	authority := testkit.NewAuthority(t)
	s := keypWith(t, testkit.Options{TLS: authority, Args: []string{"--http-tls", "yes"}})
	serial := func() string {
		conn, err := await.Dial("tcp", s.http)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		secure := tls.Client(conn, authority.Trust())
		if _, err := fmt.Fprint(secure,
			"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(secure)
		if err != nil || !strings.HasSuffix(string(text), "\r\n\r\nready\n") {
			t.Fatalf("%q, %v", text, err)
		}
		return secure.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	cert, key := authority.Issue("renewed")
	if err := s.Client(2).Do(await.Context(t), "CONFIG", "SET", "tls-cert-file", cert,
		"tls-key-file", key).Err(); err != nil {
		t.Fatal(err)
	}
	if serial() == first {
		t.Error("the old certificate is served")
	}
	answer, err := http.DefaultClient.Do(s.request("/readyz", "", ""))
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != 400 {
		t.Errorf("without TLS: %s", answer.Status)
	}
}
