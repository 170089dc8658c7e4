package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

// do requests a page, as a user if user is not empty, and returns the reply with an unread body.
func (h *harness) do(ctx context.Context, path, user string) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.Addr()+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, user)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer
}

func (h *harness) read(path, user string) (status int, body string) {
	h.t.Helper()
	answer := h.do(await.Context(h.t), path, user)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// Each file that the page refers to is served, with its type, and with a policy that allows only
// the page's own scripts.
func TestDashboardFiles(t *testing.T) {
	h := listen(t)
	h.load()
	types := map[string]string{".html": "text/html; charset=utf-8",
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
		".svg": "image/svg+xml"}
	files, err := fs.ReadDir(pageFiles, "page")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	paths := []string{"/"}
	for _, f := range files {
		paths = append(paths, "/dashboard/"+f.Name())
	}
	names := regexp.MustCompile(`(?:from |href=|src=)"(/dashboard/|\./)([a-z.]+)"`)
	for _, path := range paths {
		answer := h.do(await.Context(t), path, "")
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != 200 || len(text) == 0 {
			t.Fatalf("%s: %d %v", path, answer.StatusCode, err)
		}
		want := types[".html"]
		if path != "/" {
			want = types[path[strings.LastIndexByte(path, '.'):]]
		}
		if got := answer.Header.Get("Content-Type"); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
		if policy := answer.Header.Get("Content-Security-Policy"); !strings.Contains(policy,
			"default-src 'none'; script-src 'self'; style-src 'self'") ||
			strings.Contains(policy, "unsafe") {
			t.Errorf("%s has the policy %q", path, policy)
		}
		for _, name := range names.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(paths, "/dashboard/"+name[2]) {
				t.Errorf("%s names %s, which is not there", path, name[2])
			}
		}
		if banned :=
			regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|https?://[^w]`).Find(text); banned != nil {
			t.Errorf("%s has %q", path, banned)
		}
	}
	for _, path := range []string{"/dashboard/", "/dashboard/nothing.js", "/dashboard/../server.go",
		"/index.html", "/nothing"} {
		if status, _ := h.read(path, ""); status != 404 {
			t.Errorf("%s: %d, want 404", path, status)
		}
	}
}

// Each part of the dashboard is shown only to users who may run its commands, and lists only keys
// whose deadline they may read.
func TestDashboardRights(t *testing.T) {
	h := listen(t)
	h.load()
	h.run("ACL SETUSER watcher on >watcher -@all +info +latency|histogram")
	h.run("ACL SETUSER lister on >lister -@all +scan +pexpiretime ~a:* %R~b:*")
	h.run("ACL SETUSER nobody on >nobody -@all")
	now := h.o.Clock.Now()
	for i, name := range []string{"a:1", "b:1", "c:1", "a:2"} {
		h.run(fmt.Sprintf("SET %s v PXAT %d", name, now+60_000+int64(i)))
	}
	due := fmt.Sprintf("/dashboard/due?db=0&from=%d&until=%d", now, now+120_000)
	for _, want := range []struct {
		user, path string
		status     int
		text       string
	}{
		{"nobody", "/", 200, "<title>Keyp</title>"},
		{"nobody", "/dashboard/session", 200, `"watch": false`},
		{"nobody", "/dashboard/live", 403, "NOPERM"},
		{"nobody", due, 403, "NOPERM"},
		{"watcher", "/dashboard/session", 200, `"watch": true`},
		{"watcher", due, 403, "NOPERM"},
		{"lister", "/dashboard/live", 403, "NOPERM"},
		{"lister", due, 200, `"through"`},
		{"default", "/", 200, "<title>"},
		{"stranger", "/", 401, "WRONGPASS"},
		{"lister", "/dashboard/due?db=0", 400, "wanted"},
		{"lister", "/dashboard/due?db=16&from=0&until=1", 400, "no such database"},
		{"lister", "/dashboard/due?db=0&from=0&until=1&match=" + strings.Repeat("x", maxPattern+1),
			400, "wanted"},
	} {
		user := want.user
		if user == "default" {
			user = ""
		}
		if status, body := h.read(want.path, user); status != want.status ||
			!strings.Contains(body, want.text) {
			t.Errorf("%s asks for %s: %d %s, want %d with %q", want.user, want.path, status, body,
				want.status, want.text)
		}
	}
	for query, want := range map[string][]string{"": {"a:1", "b:1", "a:2"},
		"&match=a:*": {"a:1", "a:2"}, "&match=c*": {}} {
		_, body := h.read(due+query, "lister")
		var list dueKeys
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, k := range list.Keys {
			names = append(names, string(k.Name))
		}
		if !slices.Equal(names, want) || list.Through != now+120_000 {
			t.Errorf("%q lists %v up to %d, want %v", query, names, list.Through-now, want)
		}
	}
}

// stream reads the messages of a page that is open.
type stream struct {
	*bufio.Scanner
	t    *testing.T
	stop context.CancelFunc
}

func (h *harness) stream(user string) *stream {
	h.t.Helper()
	ctx, stop := context.WithCancel(await.Context(h.t))
	h.t.Cleanup(stop)
	answer := h.do(ctx, "/dashboard/live", user)
	h.t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		h.t.Fatalf("%d %v", answer.StatusCode, answer.Header)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return &stream{lines, h.t, stop}
}

// next returns the next message, or false at the end.
func (s *stream) next() (m message, ok bool) {
	s.t.Helper()
	for s.Scan() {
		if text, is := strings.CutPrefix(s.Text(), "data: "); is {
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				s.t.Fatalf("%v: %s", err, text)
			}
			return m, true
		}
	}
	return m, false
}

func (h *harness) streams() (streams int, running bool) {
	h.live.mu.Lock()
	defer h.live.mu.Unlock()
	return h.live.streams.under(), h.live.mu.running
}

// An open page gets messages with the changes, whether or not other pages read theirs. Without an
// open page no messages are made.
func TestLive(t *testing.T) {
	h := listen(t)
	h.load()
	if _, running := h.streams(); running {
		t.Fatal("messages are made for nobody")
	}
	idle := h.stream("") // reads nothing
	s := h.stream("")
	first, ok := s.next()
	if !ok || first.Usage.Keys.Total != 0 {
		t.Fatalf("%+v %v", first, ok)
	}
	for i := range 50 {
		h.run(fmt.Sprintf("SET k%d v PX 100000000", i))
	}
	for {
		m, ok := s.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		var due int64
		if m.Due != nil && m.Due.Within[0] != nil {
			due = m.Due.Within[0][slices.IndexFunc(horizons, func(h horizon) bool {
				return h.ms == 60*day
			})][0]
		}
		if m.Usage.Keys.Total == 50 && due == 50 {
			break
		}
	}
	s.stop()
	idle.stop()
	await.Until(t, "no messages are made any more", func() bool {
		n, running := h.streams()
		return n == 0 && !running
	})
	again := h.stream("")
	if _, ok := again.next(); !ok {
		t.Error("a page that is opened later gets nothing")
	}
}

// The numbers of pages of a user and of all users are bounded.
func TestStreamsAreBounded(t *testing.T) {
	h := listen(t)
	h.load()
	for i := range 5 {
		h.run(fmt.Sprintf("ACL SETUSER u%d on >u%d -@all +info +latency|histogram", i, i))
	}
	for i := range maxStreams {
		h.stream(fmt.Sprintf("u%d", i/userStreams))
		if i == userStreams-1 {
			if status, body := h.read("/dashboard/live", "u0"); status != 503 ||
				!strings.Contains(body, "too many pages") {
				t.Errorf("one more of a user: %d %s", status, body)
			}
		}
	}
	if status, body := h.read("/dashboard/live", "u4"); status != 503 ||
		!strings.Contains(body, "too many pages") {
		t.Errorf("one more of another: %d %s", status, body)
	}
	if status, _ := h.read("/metrics", ""); status != 200 {
		t.Errorf("beside them metrics reply %d", status)
	}
}

// A stream ends when its user may no longer see it, and when the server stops.
func TestStreamsEnd(t *testing.T) {
	h := listen(t)
	h.load()
	h.run("ACL SETUSER u on >u -@all +info +latency|histogram")
	watched, open := h.stream("u"), h.stream("")
	if _, ok := watched.next(); !ok {
		t.Fatal("no message")
	}
	h.run("ACL SETUSER u -info")
	for ok := true; ok; {
		_, ok = watched.next()
	}
	if _, ok := open.next(); !ok {
		t.Error("the other one ended, too")
	}
	h.Withdraw()
	for ok := true; ok; {
		_, ok = open.next()
	}
}

// The expiries of a minute are kept when the minute has passed, for the last liveMinutes. The
// lateness covers keys and elements together.
func TestMinutes(t *testing.T) {
	h := listen(t)
	h.load()
	var l live
	l.note(h.env.Store, 10*minute)
	h.run("SET k v PX 1")
	await.Until(t, "the key is gone", func() bool { return h.env.Store.Stats().Expired == 1 })
	l.note(h.env.Store, 11*minute-1)
	if len(l.mu.minutes) != 0 {
		t.Errorf("a minute that has not passed: %+v", l.mu.minutes)
	}
	l.note(h.env.Store, 11*minute)
	l.note(h.env.Store, 12*minute)
	if m := l.mu.minutes; len(m) != 2 || m[0].At != 10*minute || m[0].Keys != 1 || m[0].Max == 0 ||
		m[1].At != 11*minute || m[1].Keys != 0 || m[1].Max != 0 {
		t.Errorf("%+v", m)
	}
	for i := range int64(2 * liveMinutes) {
		l.note(h.env.Store, (13+i)*minute)
	}
	if n := len(l.mu.minutes); n != liveMinutes {
		t.Errorf("%d minutes are kept", n)
	}
}

// A message compares two readings. Rates are per second, and a counter that started from 0 again
// does not give a negative number.
func TestRise(t *testing.T) {
	if rise(7, 5) != 2 || rise(3, 5) != 3 {
		t.Error("a counter")
	}
	if milliseconds(-1) != -1 || milliseconds(1500) != 1.5 {
		t.Error("a lateness")
	}
}

// Keys of a database are listed and counted by name, and their events are shown, only for users who
// may select the database.
func TestDashboardDatabases(t *testing.T) {
	const rights = "-@all +info +latency|histogram +scan +pexpiretime +psubscribe ~* &*"
	args := []string{"--notify-keyspace-events", "KEA"}
	for name, more := range map[string]string{"none": "", "five": "+select|5", "all": "+select"} {
		args = append(append(args, "--user", name, "on", ">"+name),
			strings.Fields(rights+" "+more)...)
	}
	s := keyp(t, args...)
	set := func(db int) {
		t.Helper()
		if text := s.redis(command("SELECT", fmt.Sprint(db)),
			command("SET", fmt.Sprintf("in%d", db), "v", "EX", "1000")); text != "+OK\r\n+OK\r\n" {
			t.Fatal(text)
		}
	}
	dbs := []int{5, 6, 0}
	for _, db := range dbs {
		set(db)
	}
	now := time.Now().UnixMilli()
	for user, want := range map[string][]int{"none": {0}, "five": {0, 5}, "all": {0, 5, 6}} {
		var listed, counted, happened []int
		for _, db := range dbs {
			status, text := fetch(t, s.request(fmt.Sprintf("/dashboard/due?db=%d&from=%d&until=%d",
				db, now, now+2_000_000), user, user))
			var list dueKeys
			if err := json.Unmarshal([]byte(text), &list); err != nil || status != 200 {
				t.Fatalf("%d %s: %v", status, text, err)
			}
			for _, k := range list.Keys {
				listed = append(listed, int(k.Name[len("in")]-'0'))
			}
		}
		await.Until(t, "the span is counted", func() bool {
			_, text := fetch(t, s.request("/dashboard/span?unit=86400000&bars=2&match=in*", user,
				user))
			var answer struct{ Count *dueBars }
			if err := json.Unmarshal([]byte(text), &answer); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if answer.Count != nil {
				counted = slices.Collect(maps.Keys(answer.Count.DBs))
			}
			return answer.Count != nil
		})
		answer, lines := s.events(user)
		if _, ok := nextEvents(t, lines); !ok {
			t.Fatal("the stream ended")
		}
		await.Until(t, "the subscription is there", func() bool {
			return s.redis(command("PUBSUB", "NUMPAT")) == ":1\r\n"
		})
		for _, db := range dbs {
			set(db)
		}
		for !slices.Contains(happened, 0) {
			m, ok := nextEvents(t, lines)
			if !ok || m.Skipped > 0 {
				t.Fatalf("%+v %v", m, ok)
			}
			for _, e := range m.Events {
				happened = append(happened, int(e.DB))
			}
		}
		for what, got := range map[string][]int{"due": listed, "a span": counted,
			"events": happened} {
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Errorf("%s of %s is of the databases %v, want %v", what, user, got, want)
			}
		}
		_ = answer.Body.Close() // read as far as wanted
		await.Until(t, "the subscription has ended", func() bool {
			return s.redis(command("PUBSUB", "NUMPAT")) == ":0\r\n"
		})
	}
}
