package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/config"
	"keyp/internal/testkit/await"
	"keyp/internal/vfs"
	"keyp/resp"
	"keyp/storage"
	"keyp/ttl"
)

// loopHost is an event loop that runs posted functions at once, or keeps them while it is stuck.
type loopHost struct {
	stuck  atomic.Bool
	posted chan func()
}

func (h *loopHost) Post(fn func()) {
	if h.stuck.Load() {
		h.posted <- fn
		return
	}
	fn()
}

func (h *loopHost) Pause(time.Duration, bool)      {}
func (h *loopHost) Unpause()                       {}
func (h *loopHost) Shutdown(bool)                  {}
func (h *loopHost) Wake()                          {}
func (h *loopHost) AtRest(fn func())               { h.Post(fn) }
func (h *loopHost) ClientMemory() int64            { return 4321 }
func (h *loopHost) Port() int                      { return 6379 }
func (h *loopHost) Listeners() []commands.Listener { return nil }

// harness is a server with a store and a loopHost.
type harness struct {
	*Server
	t         *testing.T
	env       *commands.Env
	host      *loopHost
	maxMemory int64               // of the store; 0: none
	group     commands.Membership // nil: there is none
	archive   storage.Archive
	fail      atomic.Pointer[error] // of writes to the log's files; nil: they work
}

// listen makes a server that is still loading.
func listen(t *testing.T, args ...string) *harness {
	t.Helper()
	h := &harness{t: t}
	cfg, err := config.Load(append([]string{"--http-addr", "127.0.0.1:0", "--dir", t.TempDir()},
		args...), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.Server, err = Listen(Options{Config: cfg, Log: slog.New(slog.DiscardHandler),
		Clock: clock.System})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// load gives the server its data.
func (h *harness) load() {
	h.t.Helper()
	store, _, err := storage.Open(storage.Options{
		Databases: int(h.o.Config.Int("databases")), FS: vfs.Inject(vfs.OS, h.failWrites),
		Dir: h.o.Config.String("dir"), Clock: h.o.Clock, Logger: h.o.Log, SegmentSize: 1 << 20,
		InitialMmap: 1 << 20, MaxMemory: h.maxMemory,
		Archive: h.archive, Hooks: commands.Features,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		h.Withdraw()
		if err := store.Close(false); err != nil && h.fail.Load() == nil {
			h.t.Error(err)
		}
	})
	h.host = &loopHost{posted: make(chan func(), 1000)}
	h.env = commands.NewEnv(store, h.o.Config, h.o.Log, h.o.Clock)
	h.env.Host = h.host
	if h.group != nil {
		h.env.SetMembership(h.group)
	}
	h.Ready(h.env, nil)
}

func (h *harness) failWrites(op vfs.Op, _ string, _ int64, _ int) error {
	if err := h.fail.Load(); err != nil && op == vfs.OpWrite {
		return *err
	}
	return nil
}

// run runs a command as the server itself would.
func (h *harness) run(command string) {
	h.t.Helper()
	client := &commands.Client{ID: 1}
	h.env.Reset(client)
	client.Authenticated = true
	c := commands.Ctx{Client: client, Out: &resp.Writer{Proto: 2}, Txn: h.env.Store.NewTxn()}
	for _, word := range strings.Fields(command) {
		c.Args = append(c.Args, []byte(word))
	}
	if outcome := h.env.Dispatch(&c); outcome != commands.Done || string(c.Out.Buf) != "+OK\r\n" {
		h.t.Fatalf("%s: %v %q", command, outcome, c.Out.Buf)
	}
}

// get asks for a page over the network.
func (h *harness) get(path string, headers ...string) (status int, body string) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(await.Context(h.t), http.MethodGet,
		"http://"+h.Addr()+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return fetch(h.t, r)
}

func fetch(t *testing.T, r *http.Request) (status int, body string) {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range headers {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s: %s is %q, want %q", r.URL, name, got, want)
		}
	}
	return answer.StatusCode, string(text)
}

// want asks for a page.
func (h *harness) want(path string, status int, text string) {
	h.t.Helper()
	if got, body := h.get(path); got != status || !strings.Contains(body, text) {
		h.t.Errorf("%s: %d %q, want %d with %q", path, got, body, status, text)
	}
}

// still stops the pulse, so that only the test makes checks.
func (h *harness) still() {
	h.t.Helper()
	h.pulse.stop()
	await.Until(h.t, "the pulse stops", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.mu.readers == 0
	})
	await.Until(h.t, "the disk has answered", h.pulse.writable.Load)
}

// looks makes n checks; the disk answers each time.
func (h *harness) looks(n int) {
	for range n {
		h.pulse.writable.Store(true)
		h.pulse.look(h.env)
	}
}

// The port answers from before the data is loaded until after the store is closed, and replies why
// it shows no data.
func TestLife(t *testing.T) {
	h := listen(t)
	h.want("/healthz", 200, "alive\n")
	h.want("/readyz", 503, "not ready: loading the data\n")
	h.want("/metrics", 503, "loading the data\n")
	h.load()
	h.want("/healthz", 200, "alive\n")
	h.want("/readyz", 200, "ready\n")
	h.want("/metrics", 200, "keyp_build_info{")
	h.Stopping()
	h.want("/readyz", 503, "not ready: stopping\n")
	h.Withdraw()
	for _, path := range []string{"/metrics", "/usage", "/version", "/debug/pprof/"} {
		h.want(path, 503, "stopping\n")
	}
	h.want("/healthz", 200, "alive\n")
}

// TestUsualPorts: without an http-addr the server takes the first free one of ten ports, or none.
// It takes no other port than one that was given.
func TestUsualPorts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have one loopback address, at which others listen")
	}
	addr := netip.MustParseAddrPort("127.83.79.1:8379") // used by no other test
	log := slog.New(slog.DiscardHandler)
	o := Options{Config: config.New(), Log: log}
	for i := range usualPorts {
		l, err := bind(&o, addr)
		if err != nil || l == nil || l.Addr().String() != netip.AddrPortFrom(addr.Addr(),
			addr.Port()+uint16(i)).String() {
			t.Fatalf("port %d: %v, %v", i, l, err)
		}
		defer l.Close()
		if got := o.Config.String("http-addr"); got != l.Addr().String() ||
			o.Config.Given("http-addr") {
			t.Errorf("CONFIG GET shows %s", got)
		}
	}
	if l, err := bind(&o, addr); l != nil || err != nil || o.Config.String("http-addr") != "" {
		t.Errorf("all are taken: %v, %v", l, err)
	}
	// Nor does it take the ports of clients, which are not open yet.
	shared, err := config.Load([]string{"--port", "8379", "--tls-port", "8380"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := bind(&Options{Config: shared, Log: log}, netip.MustParseAddrPort("127.83.79.2:8379"))
	if err != nil || l.Addr().String() != "127.83.79.2:8381" {
		t.Fatalf("beside the ports of clients: %v, %v", l, err)
	}
	defer l.Close()
	given, err := config.Load([]string{"--http-addr", addr.String()}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := bind(&Options{Config: given, Log: log}, addr); l != nil || err == nil {
		t.Errorf("a port that was given is taken: %v, %v", l, err)
	}
}

// The methods of a nil server, as with an empty http-addr, do nothing.
func TestOff(t *testing.T) {
	cfg, err := config.Load([]string{"--http-addr", ""}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Listen(Options{Config: cfg})
	if s != nil || err != nil {
		t.Fatal(s, err)
	}
	s.Ready(nil, nil)
	s.Stopping()
	s.Withdraw()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// While the event loop is stuck, every page is served with the loop's last report. After some time
// the server is not ready, and in the end not alive.
func TestStuckLoop(t *testing.T) {
	h := listen(t)
	h.load()
	h.still()
	h.want("/metrics", 200, `keyp_memory_owner_bytes{owner="clients"} 4321`)
	h.host.stuck.Store(true)
	h.want("/metrics", 200, "keyp_event_loop_wait_seconds 0.25\n")
	h.want("/metrics", 200, `keyp_memory_owner_bytes{owner="clients"} 4321`)
	h.want("/usage", 200, `"clients": 4321`)
	h.looks(readyBeats + 1)
	h.want("/readyz", 503, "not ready: the event loop has not answered for ")
	h.want("/healthz", 200, "alive\n")
	h.looks(aliveBeats)
	h.want("/healthz", 503, "the event loop has not answered for 1m")
	h.host.stuck.Store(false)
	for len(h.host.posted) > 0 {
		await.For(t, "a question to the loop", h.host.posted)()
	}
	h.looks(1)
	h.want("/readyz", 200, "ready")
}

// The pulse continues while the loop is stuck with the keyspace locked, also at the beginning of a
// minute.
func TestPulseBesideLockedShards(t *testing.T) {
	h := listen(t)
	h.load()
	h.still()
	h.live.minute = expiries{}
	h.host.stuck.Store(true)
	txn := h.env.Store.NewTxn()
	h.env.Store.BeginAll(txn)
	defer txn.End()
	looked := make(chan struct{})
	go func() {
		h.looks(aliveBeats + 1)
		close(looked)
	}()
	await.For(t, "the pulse has looked", looked)
	h.want("/healthz", 503, "the event loop has not answered")
}

// A log that is not committed for some time makes the server not ready.
func TestUncommitted(t *testing.T) {
	h := listen(t)
	h.load()
	h.still()
	k := h.env.Store.Key(0, []byte("k"))
	txn := h.env.Store.NewTxn()
	if !h.env.Store.Begin(txn, []storage.Key{k}) {
		t.Fatal("the shard is locked")
	}
	txn.SetString(k, []byte("v"), ttl.Deadline{}, storage.Event{})
	txn.End()
	h.looks(readyBeats + 2)
	h.want("/readyz", 503, "not ready: the log has not been committed for ")
	if err := h.env.Store.Log().Commit(); err != nil {
		t.Fatal(err)
	}
	h.looks(1)
	h.want("/readyz", 200, "ready")
	h.env.Store.SetDiskReserve(1 << 62)
	await.Until(t, "the disk counts as full", h.env.Store.Full)
	h.want("/readyz", 503, "not ready: the disk is full")
}

// With ready-archive-age, a server is not ready if its archive has lacked something for longer than
// the setting.
func TestReadyByArchive(t *testing.T) {
	h := listen(t)
	var works atomic.Bool
	h.archive = storage.Archive{Timeout: func() time.Duration {
		return 0
	}, Run: func(context.Context, string) error {
		if !works.Load() {
			return errors.New("the archive is away")
		}
		return nil
	}}
	h.load()
	h.still()
	h.run("SET k v")
	if err := h.env.Store.Log().Commit(); err != nil {
		t.Fatal(err)
	}
	const limit = 1000 * time.Millisecond
	await.Until(t, "the archive has lacked that for long", func() bool {
		return h.env.Store.ArchiveAge() > limit
	})
	h.want("/readyz", 200, "ready") // that does not count
	if err := h.o.Config.Set(config.Pair{Name: "ready-archive-age", Value: "1"}); err != nil {
		t.Fatal(err)
	}
	h.want("/readyz", 503, "not ready: the archive has lacked something for ")
	works.Store(true)
	await.Until(t, "the archive has all", func() bool {
		status, _ := h.get("/readyz")
		return status == 200
	})
}

// Everybody may see that the disk fails. Nobody may see paths, or the store's errors about its
// files.
func TestReadyHidesPaths(t *testing.T) {
	h := listen(t)
	h.load()
	h.still()
	dir := h.o.Config.String("dir")
	if err := os.Rename(dir, dir+".elsewhere"); err != nil {
		t.Fatal(err)
	}
	h.pulse.writable.Store(false)
	h.pulse.probe(h.env)
	await.Until(t, "the disk has answered", h.pulse.writable.Load)
	h.want("/readyz", 503,
		"not ready: the data directory cannot be written: no such file or directory\n")
	if err := os.Rename(dir+".elsewhere", dir); err != nil {
		t.Fatal(err)
	}
	var failure error = &os.PathError{Op: "write", Path: dir, Err: syscall.EIO}
	h.fail.Store(&failure)
	h.run("SET k v")
	if err := h.env.Store.Log().Commit(); err == nil {
		t.Fatal("the write did not fail")
	}
	h.want("/readyz", 503, "not ready: the store has failed, its log says why; the data directory")
	if _, body := h.get("/readyz"); strings.Contains(body, dir) {
		t.Errorf("it names %s: %s", dir, body)
	}
}

// Withdraw waits until no request uses the store.
func TestWithdrawWaits(t *testing.T) {
	h := listen(t)
	h.patience = await.Bound
	h.load()
	h.still()
	inside, leave, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go h.use(func(*commands.Env) { close(inside); <-leave })
	await.For(t, "the request has begun", inside)
	go func() { h.Withdraw(); close(done) }()
	await.Until(t, "no new request can use it", func() bool {
		return !h.use(func(*commands.Env) {})
	})
	select {
	case <-done:
		t.Error("Withdraw returned before the request ended")
	default:
	}
	close(leave)
	await.For(t, "Withdraw returns", done)
}

// Requests from another machine, for another host name, from another site, with another method or
// with a body are refused.
func TestGuard(t *testing.T) {
	h := listen(t, "--http-protected", "no")
	h.load()
	const local, far = "127.0.0.1:5000", "192.0.2.7:5000"
	open := func() {}
	password := func() {
		if err := h.o.Config.Set(config.Pair{Name: "requirepass", Value: "secret"}); err != nil {
			t.Fatal(err)
		}
	}
	user := func(rules string) func() {
		return func() { h.run("ACL SETUSER " + rules) }
	}
	for _, tt := range []struct {
		name    string
		set     func()
		method  string
		peer    string
		host    string
		headers string
		body    string
		want    int
	}{
		{"this machine", open, "GET", local, "127.0.0.1:8379", "", "", 200},
		{"by HEAD", open, "HEAD", local, "localhost", "", "", 200},
		{"over IPv6", open, "GET", "[::1]:5000", "[::1]:8379", "", "", 200},
		{"mapped", open, "GET", "[::ffff:127.0.0.1]:5000", "127.0.0.1", "", "", 200},
		{"another machine", open, "GET", far, "127.0.0.1:8379", "", "", 403},
		{"a name that points here", open, "GET", local, "evil.example:8379", "", "", 403},
		{"a name like an address", open, "GET", local, "127.0.0.1.evil.example", "", "", 403},
		{"a name behind an address", open, "GET", local, "fe80::1%evil.example", "", "", 403},
		{"the same in brackets", open, "GET", local, "[fe80::1%evil.example]:8379", "", "", 403},
		{"a local address", open, "GET", local, "[fe80::1]:8379", "", "", 200},
		{"no host", open, "GET", local, "", "", "", 403},
		{"another site", open, "GET", local, "127.0.0.1:8379", "Origin: https://evil.example", "",
			403},
		{"a site without an origin", open, "GET", local, "127.0.0.1:8379", "Origin: null", "", 403},
		{"the same site", open, "GET", local, "127.0.0.1:8379", "Origin: http://127.0.0.1:8379", "",
			200},
		{"the same site with TLS", open, "GET", local, "127.0.0.1:8379",
			"Origin: https://127.0.0.1:8379", "", 403},
		{"an image of another site", open, "GET", local, "127.0.0.1:8379",
			"Sec-Fetch-Site: cross-site", "", 403},
		{"another port of this machine", open, "GET", local, "127.0.0.1:8379",
			"Sec-Fetch-Site: same-site", "", 403},
		{"typed by the user", open, "GET", local, "127.0.0.1:8379", "Sec-Fetch-Site: none", "",
			200},
		{"POST", open, "POST", local, "127.0.0.1:8379", "", "", 405},
		{"OPTIONS", open, "OPTIONS", local, "127.0.0.1:8379", "", "", 405},
		{"a body", open, "GET", local, "127.0.0.1:8379", "", "x", 413},
		{"another machine, with a password", password, "GET", far, "keyp.example:8379", "", "",
			200},
		{"a name, with a password", password, "GET", local, "keyp.example", "", "", 200},
		{"another site, with a password", password, "GET", local, "keyp.example",
			"Origin: http://evil.example", "", 403},
		{"another machine, and a user without a password", user("other on nopass"), "GET", far,
			"keyp.example", "", "", 403},
		{"a name, and a user without a password", user("other on nopass"), "GET", local,
			"keyp.example", "", "", 403},
		{"an address, and a user without a password", user("other on nopass"), "GET", local,
			"127.0.0.1", "", "", 200},
		{"another machine, and a user who is off", user("other off"), "GET", far,
			"keyp.example", "", "", 200},
		{"another machine, and a user who is on again", user("other on"), "GET", far,
			"keyp.example", "", "", 403},
		{"another machine, and a user who has got a password", user("other >p"), "GET", far,
			"keyp.example", "", "", 200},
		{"another machine, and one whose passwords are removed", user("other resetpass"), "GET",
			far, "keyp.example", "", "", 200},
		{"another machine, and a default user who is off", user("default off nopass"), "GET", far,
			"keyp.example", "", "", 200},
	} {
		tt.set()
		r := httptest.NewRequest(tt.method, "/healthz", strings.NewReader(tt.body))
		r.RemoteAddr, r.Host = tt.peer, tt.host
		if tt.body == "" {
			r.ContentLength = 0
		}
		if name, value, found := strings.Cut(tt.headers, ": "); found {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.serve(w, r)
		if w.Code != tt.want {
			t.Errorf("%s: status %d, want %d: %s", tt.name, w.Code, tt.want, w.Body)
		}
		if w.Code == 405 && w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: Allow is %q", tt.name, w.Header().Get("Allow"))
		}
		for name, want := range headers {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q", tt.name, name, got)
			}
		}
	}
}

// A stream from another machine ends when some user no longer needs a password.
func TestStreamIsGuarded(t *testing.T) {
	h := listen(t, "--http-protected", "no", "--requirepass", "secret")
	h.load()
	r := httptest.NewRequest(http.MethodGet, "/dashboard/live", nil)
	r.RemoteAddr, r.Host = "192.0.2.7:5000", "keyp.example"
	r.SetBasicAuth("default", "secret")
	out := h.eventStream(httptest.NewRecorder(), r)
	if !out.send([]byte("1")) {
		t.Fatal("it does not begin")
	}
	h.run("ACL SETUSER other on nopass")
	if out.send([]byte("2")) {
		t.Error("it goes on")
	}
	h.run("ACL SETUSER other off")
	if !out.send([]byte("3")) {
		t.Error("one would not begin again")
	}
}

// Every request gets the same limits and headers, even without a page at its path.
func TestHead(t *testing.T) {
	h := listen(t)
	h.load()
	head := func(size int) string {
		const begin, end = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: ", "\r\n\r\n"
		return begin + strings.Repeat("x", size-len(begin)-len(end)) + end
	}
	for text, want := range map[string]int{
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n":                     405,
		"OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n":                  403,
		"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example:80\r\n\r\n": 403,
		"GET /healthz HTTP/1.0\r\n\r\n":                                     403,
		head(headBytes):                                                     200,
		head(headBytes + 1):                                                 431,
	} {
		conn, err := await.Dial("tcp", h.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%.40q: %v", text, err)
		}
		if answer.Body.Close(); answer.StatusCode != want {
			t.Errorf("%.40q of %d bytes: %s, want %d", text, len(text), answer.Status, want)
		}
		if got := answer.Header.Get("X-Frame-Options"); got != "DENY" && want != 431 {
			t.Errorf("%.40q: X-Frame-Options is %q", text, got)
		}
	}
}

func TestAccepts(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "gzip": true, "deflate, gzip;q=1.0": true, "gzip;q=0": false,
		"gzip; q=0.0": false, "gzip;q=0.5": true, "br": false, "xgzip": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", text)
		if got := accepts(r, "gzip"); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A deadline that is very far away counts in the mean as docs/reference/redis.md describes.
func TestAverageOfFarDeadlines(t *testing.T) {
	h := listen(t)
	h.load()
	h.run(fmt.Sprintf("SET far v PXAT %d", int64(math.MaxInt64)))
	_, text := h.get("/metrics")
	if got := samples(t, text)[`keyp_average_ttl_seconds{db="0"}`]; got > 1<<40/1000.0 ||
		got < 34*365*24*3600 {
		t.Errorf("%v seconds", got)
	}
}

// Databases beyond the 64th are counted together.
func TestPopulations(t *testing.T) {
	var list []storage.Population
	for db := range 70 {
		list = append(list, storage.Population{DB: db, Keys: 10, Expires: int64(db - 60),
			AverageTTL: 1000 * int64(db)})
	}
	got := populations(list)
	if len(got) != maxDatabases+1 || got[3].db != "3" {
		t.Fatalf("%d: %v", len(got), got)
	}
	other := got[maxDatabases]
	if want := (4.0*64 + 5*65 + 6*66 + 7*67 + 8*68 + 9*69) / 39; other.db != "other" ||
		other.keys != 60 || other.expires != 39 || other.ttl < want-0.01 || other.ttl > want+0.01 {
		t.Errorf("%+v, want a TTL of %v", other, want)
	}
}
