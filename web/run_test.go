package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"keyp/internal/testkit/await"
)

// post runs commands over HTTP as a user, with a page's token, from a page of origin.
func (s *served) post(user, token, origin, body string) (status int, reply string) {
	s.t.Helper()
	return s.postTo("/dashboard/run", user, token, origin, body)
}

func (s *served) postTo(path, user, token, origin, body string) (status int, reply string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(await.Context(s.t), http.MethodPost, "http://"+s.http+path,
		bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, user)
	}
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	r.Header.Set("X-Keyp-Token", token)
	return fetch(s.t, r)
}

func (s *served) token(user string) string {
	s.t.Helper()
	status, body := fetch(s.t, s.request("/dashboard/session", user, user))
	var opened session
	if err := json.Unmarshal([]byte(body), &opened); err != nil || status != 200 {
		s.t.Fatalf("%d %v: %s", status, err, body)
	}
	return opened.Token
}

// Commands run with the rights of their user, on a connection like any other, and only if the user
// has opened the page of this server.
func TestRun(t *testing.T) {
	s := keyp(t, "--requirepass", "default", "--user", "u", "on", ">u", "-@all", "+getrange",
		"+pexpire", "+pttl", "~mine:*")
	auth := command("AUTH", "default")
	s.redis(auth, command("SET", "mine:k", "v\r\n\x00"), command("SET", "other", "w"))
	here := "http://" + s.http
	mine, other := s.token("u"), s.token("default")
	look := string(command("PEXPIRE", "mine:k", "100000000")) +
		string(command("GETRANGE", "mine:k", "0", "-1"))
	if status, text := s.post("u", mine, here, look); status != 200 ||
		text != ":1\r\n$4\r\nv\r\n\x00\r\n" {
		t.Errorf("%d %q", status, text)
	}
	if _, text := s.post("u", mine, here, string(command("GETRANGE", "other", "0", "-1"))+
		string(command("UNLINK", "mine:k"))); !strings.HasPrefix(text,
		"-NOPERM No permissions to access") || !strings.Contains(text, "run the 'unlink' command") {
		t.Errorf("%q", text)
	}
	if status, text := s.post("default", other, here,
		string(command("GETRANGE", "other", "0", "-1"))+
			string(command("client", "list"))); status != 200 ||
		!strings.HasPrefix(text, "$1\r\nw\r\n") || !strings.Contains(text, "laddr=http") ||
		!strings.Contains(text, "user=default") {
		t.Errorf("%d %q", status, text)
	}
	for name, body := range map[string]string{
		"a write":              string(command("SET", "mine:hacked", "v")),
		"a write behind":       string(command("PTTL", "mine:k")) + string(command("flushall")),
		"a write inline":       "SET mine:hacked v\r\n",
		"another subcommand":   string(command("CLIENT", "KILL", "ID", "1")),
		"no subcommand":        string(command("CLIENT")),
		"what waits":           string(command("BLPOP", "mine:l", "0")),
		"an incomplete one":    "*2\r\n$4\r\nPTTL\r\n",
		"what is no command":   "*1\r\n:1\r\n",
		"another user":         string(command("HELLO", "3", "AUTH", "u", "u")),
		"another's connection": string(command("AUTH", "default", "default")),
	} {
		if status, text := s.post("default", other, here, body); status != 403 {
			t.Errorf("%s: %d %q", name, status, text)
		}
	}
	for name, c := range map[string]struct {
		user, token, origin string
		status              int
	}{
		"no token": {"u", "", here, 403}, "another token": {"u", mine[:len(mine)-2] + "xx", here,
			403}, "another user's token": {"u", other, here, 403},
		"no origin": {"u", mine, "", 403}, "another origin": {"u", mine, "http://example.com", 403},
		"no user": {"", mine, here, 401}, "nonsense": {"u", "!", here, 403},
	} {
		if status, text := s.post(c.user, c.token, c.origin,
			string(command("PEXPIRE", "mine:k", "1"))); status != c.status {
			t.Errorf("%s: %d %q, want %d", name, status, text, c.status)
		}
	}
	if status, _ := fetch(t, s.request("/dashboard/run", "u", "u")); status != 405 {
		t.Errorf("GET: %d", status)
	}
	if status, text := s.post("u", mine, here, strings.Repeat("x", runBytes+1)); status != 413 {
		t.Errorf("a body that is too large: %d %s", status, text)
	}
	if text := s.redis(auth, command("EXISTS", "mine:hacked"),
		command("EXPIRE", "mine:k", "50", "GT")); text != "+OK\r\n:0\r\n:0\r\n" {
		t.Errorf("a refused request changed something: %q", text)
	}
}

// A user whose requests come slowly does not keep others out.
func TestRunSlowly(t *testing.T) {
	s := keyp(t, "--user", "u", "on", ">u", "+@all", "~*")
	here, anyone, u := "http://"+s.http, s.token(""), s.token("u")
	for range maxRuns {
		conn, err := await.Dial("tcp", s.http)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		r := s.request("/dashboard/run", "u", "u")
		head :=
			fmt.Sprintf("POST /dashboard/run HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\nOrigin: %s\r\nX-Keyp-Token: %s\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
				s.http, r.Header.Get("Authorization"), here, u)
		if _, err := conn.Write([]byte(head)); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil ||
			!strings.Contains(line, " 100 ") && !strings.Contains(line, " 503 ") {
			t.Fatalf("%q %v", line, err)
		}
	}
	if status, text := s.post("", anyone, here, string(command("PTTL", "none"))); status != 200 ||
		text != ":-2\r\n" {
		t.Errorf("another user: %d %q", status, text)
	}
}

// Even if some users run as many requests as allowed, each other user can run one.
func TestRunShare(t *testing.T) {
	var r runs
	r.init(maxRuns, userRuns, true)
	for i := range 3 * userRuns {
		r.begin(fmt.Sprintf("u%d", i%3))
	}
	if r.mu.all != maxRuns {
		t.Fatalf("three users have %d requests", r.mu.all)
	}
	for i := range 5 {
		if user := fmt.Sprintf("u%d", i); r.begin(user) != (i >= 3) || i >= 3 && r.begin(user) {
			t.Errorf("%s: %v", user, r.mu.byUser)
		}
	}
	r.end("u3")
	if !r.begin("u3") {
		t.Error("whose request has ended gets no other")
	}
	var streams runs // which do not end
	streams.init(maxEvents, userEvents, false)
	for i := range 2 * maxEvents {
		if user := fmt.Sprintf("u%d", i); streams.begin(user) != (i < maxEvents) {
			t.Errorf("%d streams of as many users: %d are counted", i+1, streams.mu.all)
		}
	}
}

// Commands run in the database that the request names, or not at all.
func TestRunDatabase(t *testing.T) {
	s := keyp(t, "--databases", "4", "--user", "u", "on", ">u", "+@all", "-select", "~*")
	s.redis(command("SELECT", "3"), command("SET", "k", "v"), command("SELECT", "0"),
		command("SET", "k", "four"))
	here, length := "http://"+s.http, string(command("STRLEN", "k"))
	anyone, u := s.token(""), s.token("u")
	for _, c := range []struct {
		user, token, db string
		status          int
		reply           string
	}{
		{"u", u, "1", 409, "NOPERM"},
		{"", anyone, "4", 409, "DB index is out of range"},
		{"", anyone, "-1", 400, "db"},
		{"", anyone, "x", 400, "db"},
		{"", anyone, "3", 200, ":1\r\n"},
	} {
		if status, text := s.postTo("/dashboard/run?db="+c.db, c.user, c.token, here,
			length); status != c.status || !strings.Contains(text, c.reply) {
			t.Errorf("database %s: %d %q, want %d %q", c.db, status, text, c.status, c.reply)
		}
	}
	for _, path := range []string{"/dashboard/run", "/dashboard/run?db=0"} {
		if status, text := s.postTo(path, "u", u, here, length); status != 200 || text != ":4\r\n" {
			t.Errorf("%s: %d %q is the length in database 0", path, status, text)
		}
	}
}

// Without a user the default user's rights count, and long replies and many commands pass.
func TestRunMuch(t *testing.T) {
	s := keyp(t)
	token, here := s.token(""), "http://"+s.http
	s.redis(command("SETRANGE", "big", "5000000", "x"))
	var body strings.Builder
	for i := range 10_000 {
		body.Write(command("PEXPIRE", fmt.Sprintf("k%d%s", i, strings.Repeat("k", 500)), "1"))
	}
	if status, text := s.post("", token, here, body.String()); status != 200 ||
		text != strings.Repeat(":0\r\n", 10_000) {
		t.Errorf("%d, %d bytes", status, len(text))
	}
	if status, text := s.post("", token, here,
		strings.Repeat(string(command("GETRANGE", "big", "0", "-1")), 2)); status != 200 ||
		len(text) < 10_000_002 || !strings.HasSuffix(text, "x\r\n") {
		t.Errorf("%d, %d bytes", status, len(text))
	}
}

// Commands that CLIENT PAUSE would delay are refused, not dropped in silence.
func TestRunInPause(t *testing.T) {
	s := keyp(t)
	token, here := s.token(""), "http://"+s.http
	run := func(words ...string) string {
		t.Helper()
		status, text := s.post("", token, here, string(command(words...)))
		if status != 200 {
			t.Errorf("%v: %d", words, status)
		}
		return text
	}
	s.redis(command("SET", "k", "v"), command("CLIENT", "PAUSE", "3600000", "WRITE"))
	if text := run("PEXPIRE", "k", "100000"); !strings.HasPrefix(text, "-ERR CLIENT PAUSE ") {
		t.Errorf("%q", text)
	}
	s.redis(command("CLIENT", "UNPAUSE"))
	if text := run("PEXPIRE", "k", "100000"); text != ":1\r\n" {
		t.Errorf("after the pause: %q", text)
	}
}
