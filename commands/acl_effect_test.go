package commands

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"keyp/internal/config"
)

// These tests show what ACL users may do in transactions and scripts, on open connections, and
// after ACL LOAD. They also show what ACL LOG reports about refusals.

func TestACLTransactions(t *testing.T) {
	const changed = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: "
	h := newHarness(t)
	h.run(`
		ACL SETUSER alice on +@all ~a* &a* -> +OK
		user alice
		MULTI -> +OK
		SET b 1 -> -NOPERM No permissions to access a key
		SET a 1 -> +QUEUED
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
		MULTI -> +OK
		SET ab 1 -> +QUEUED
	`)
	h.second("ACL", "SETUSER", "alice", "-set")
	h.run(`
		EXEC -> [` + changed + `no permission to execute the command or subcommand]
	`)
	h.second("ACL", "SETUSER", "alice", "+set")
	h.run(`
		MULTI -> +OK
		SET a 1 -> +QUEUED
		GET ab -> +QUEUED
		PUBLISH ab m -> +QUEUED
		PING -> +QUEUED
		EVAL "return redis.call('set', KEYS[1], 2)" 1 a -> +QUEUED
		EVAL "return redis.pcall('set', 'b', 2)" 0 -> +QUEUED
		INCR a -> +QUEUED
	`)
	h.second("ACL", "SETUSER", "alice", "resetkeys", "~a", "resetchannels", "-ping")
	h.run(`
		EXEC -> [+OK, ` + changed + `no permission to touch the specified keys, ` + changed + `no permission to access one of the channels used as arguments to the command, ` + changed + `no permission to execute the command or subcommand, +OK, -ERR ACL failure in script: No permissions to access a key, 3]
		MULTI -> +OK
		INCR a -> +QUEUED
	`)
	h.second("ACL", "SETUSER", "alice", "-exec")
	h.run(`
		EXEC -> -EXECABORT Transaction discarded because of: NOPERM User alice has no permissions to run the 'exec' command
		GET a -> "3"
		user default
	`)
	// The log shows where each command was refused.
	log := h.do("ACL", "LOG", "20")
	for _, want := range []string{
		`"reason", "key", "context", "multi", "object", "b", "username", "alice"`,
		`"reason", "key", "context", "multi", "object", "ab", "username", "alice"`,
		`"reason", "channel", "context", "multi", "object", "ab", "username", "alice"`,
		`"reason", "command", "context", "multi", "object", "ping", "username", "alice"`,
		`"reason", "key", "context", "lua", "object", "b", "username", "alice"`,
		`"reason", "command", "context", "multi", "object", "exec", "username", "alice"`,
	} {
		if strings.Count(log, want) != 1 {
			t.Errorf("the log has not once: %s\n%s", want, log)
		}
	}
}

// TestACLDeletedWithin: a user may be deleted in the middle of a transaction or script, even by
// itself. After that it may do nothing. It gets neither its old rights, nor those of the default
// user, nor those of a new user with the same name.
func TestACLDeletedWithin(t *testing.T) {
	const changed = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission to execute the command or subcommand"
	path := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(path, []byte("user bob on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"ACL DELUSER alice", "ACL LOAD"} {
		cfg, err := config.Load([]string{"--aclfile", path}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := configured(t, cfg)
		h.run(`
			SET secret s -> +OK
			ACL SETUSER alice on nopass +@all ~a* -> +OK
			user alice
			MULTI -> +OK
			SET a 1 -> +QUEUED
			` + end + ` -> +QUEUED
			SET a 2 -> +QUEUED
			ACL SETUSER alice on nopass +@all ~* -> +QUEUED
			EVAL "return redis.pcall('get', 'secret')" 0 -> +QUEUED
			PING -> +QUEUED
		`)
		reply := "1"
		if end == "ACL LOAD" {
			reply = "+OK"
		}
		h.run(`
			EXEC -> [+OK, ` + strings.Join([]string{reply, changed, changed, changed, changed}, ", ") + `]
			GET a -> -NOPERM User alice has no permissions to run the 'get' command
			user default
			GET a -> "1"
			ACL SETUSER alice on nopass +@all ~* -> +OK
		`)
	}
}

// TestUserChangesInOnePlace: only AUTH, HELLO and RESET change a connection's user. An HTTP request
// keeps the user with which it begins. Code on other goroutines relies on that, and on nobody being
// made the default user.
func TestUserChangesInOnePlace(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(
		`\.become\(|\.user(\.user)? *=[^=]|\.user(\.user)?, .*[^=!<>:]=[^=]`)
	found := map[string]int{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(calls.FindAll(text, -1)); n > 0 {
			found[file] = n
		}
	}
	want := map[string]int{
		"acl_user.go":   1, // become itself
		"client.go":     1, // Reset: also of a new connection
		"connection.go": 1, // AUTH and HELLO
		"visitor.go":    2, // who asks over HTTP, as the request begins
	}
	if !maps.Equal(found, want) {
		t.Errorf("users are changed in %v, want %v", found, want)
	}
}

func TestACLLog(t *testing.T) {
	h, _, _, _ := hosted(t)
	entry := func(count, reason, object, user, age, id, created, updated string) string {
		return `["count", ` + count + `, "reason", "` + reason +
			`", "context", "toplevel", "object", "` + object + `", "username", "` + user +
			`", "age-seconds", "` + age + `", "client-info", …, "entry-id", ` + id +
			`, "timestamp-created", ` + created + `, "timestamp-last-updated", ` + updated + `]`
	}
	log := func(args ...string) string {
		text := h.do(append([]string{"ACL", "LOG"}, args...)...)
		parts := strings.Split(text, `"client-info", "`)
		for i, part := range parts[1:] {
			info, rest, _ := strings.Cut(part, `"`)
			if !strings.HasPrefix(info, "id=1 addr=127.0.0.1:1001 ") ||
				strings.Contains(info, `\n`) {
				t.Errorf("client-info %q", info)
			}
			parts[i+1] = "…" + rest
		}
		return strings.Join(parts, `"client-info", `)
	}
	expect := func(got string, entries ...string) {
		t.Helper()
		if want := "[" + strings.Join(entries, ", ") + "]"; got != want {
			t.Errorf("log\n  %s\nwant\n  %s", got, want)
		}
	}
	expect(log())
	h.run(`
		ACL SETUSER alice on >pw +get ~a -> +OK
		AUTH alice wrong -> -WRONGPASS invalid username-password pair or user is disabled.
		HELLO 3 AUTH bob x -> -WRONGPASS invalid username-password pair or user is disabled.
		user alice
		advance 2s
		SET a 1 -> -NOPERM User alice has no permissions to run the 'set' command
		set b 2 -> -NOPERM User alice has no permissions to run the 'set' command
		GET k -> -NOPERM No permissions to access a key
		advance 1500ms
		auth alice wrong -> -WRONGPASS invalid username-password pair or user is disabled.
		AUTH alice wrong -> -WRONGPASS invalid username-password pair or user is disabled.
		user default
	`)
	authUpper := entry("2", "auth", "AUTH", "alice", "0", "0", "1700000000000", "1700000003500")
	authLower := entry("1", "auth", "auth", "alice", "0", "4", "1700000003500", "1700000003500")
	key := entry("1", "key", "k", "alice", "1.5", "3", "1700000002000", "1700000002000")
	command := entry("2", "command", "set", "alice", "1.5", "2", "1700000002000", "1700000002000")
	hello := entry("1", "auth", "HELLO", "bob", "3.5", "1", "1700000000000", "1700000000000")
	expect(log(), authUpper, authLower, key, command, hello)
	expect(log("2"), authUpper, authLower)
	expect(log("-1"))
	h.run(`
		ACL LOG foo -> -ERR value is not an integer or out of range
		ACL LOG 1 2 -> -ERR unknown subcommand or wrong number of arguments for 'LOG'. Try ACL HELP.
		config acllog-max-len 3
		advance 61s
		user alice
		GET k -> -NOPERM No permissions to access a key
		user default
	`)
	again := entry("1", "key", "k", "alice", "0", "5", "1700000064500", "1700000064500")
	late := func(e string) string {
		return strings.Replace(e, `"age-seconds", "0"`, `"age-seconds", "61"`, 1)
	}
	expect(log(), again, late(authUpper), late(authLower))
	h.run(`
		config acllog-max-len 0
		AUTH x y -> -WRONGPASS invalid username-password pair or user is disabled.
		ACL LOG -> []
		config acllog-max-len 10
		AUTH x y -> -WRONGPASS invalid username-password pair or user is disabled.
		ACL LOG RESET -> +OK
		ACL LOG -> []
	`)
	info := h.do("INFO", "stats")
	for _, want := range []string{"acl_access_denied_auth:6", "acl_access_denied_cmd:2",
		"acl_access_denied_key:2", "acl_access_denied_channel:0"} {
		if !strings.Contains(info, want+`\r\n`) {
			t.Errorf("INFO lacks %s: %s", want, info)
		}
	}
	// A long name from a client does not fill the memory.
	long := strings.Repeat("x", 100_000)
	h.do("AUTH", long, "y")
	if text := h.do("ACL", "LOG"); len(text) > 5000 ||
		!strings.Contains(text, "xxx... (98976 more bytes)") {
		t.Errorf("the log has %d bytes: %.3000s", len(text), text)
	}
}

func TestACLLogin(t *testing.T) {
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled."
	h := newHarness(t)
	h.run(`
		ACL SETUSER alice on >one >two ~* &* +@all -> +OK
		ACL SETUSER bob on nopass +@all -> +OK
		AUTH alice one -> +OK
		ACL WHOAMI -> "alice"
		AUTH alice two -> +OK
		AUTH alice three -> ` + wrong + `
		AUTH alice "" -> ` + wrong + `
		AUTH nobody one -> ` + wrong + `
		ACL WHOAMI -> "alice"
		AUTH bob whatever -> +OK
		ACL WHOAMI -> "bob"
		ACL SETUSER bob off -> +OK
		ACL WHOAMI -> "bob"
		AUTH bob whatever -> ` + wrong + `
		HELLO 2 AUTH alice one SETNAME n -> ["server", "redis", "version", "8.6.0", "proto", 2, "id", 1, "mode", "standalone", "role", "master", "modules", []]
		ACL SETUSER alice <one -> +OK
		AUTH alice one -> ` + wrong + `
		RESET -> +RESET
		ACL WHOAMI -> "default"
		ACL SETUSER default off -> +OK
		PING -> +PONG
		RESET -> +RESET
		PING -> -NOAUTH Authentication required.
		AUTH default x -> ` + wrong + `
		AUTH alice two -> +OK
		ACL SETUSER default on >pw -> +OK
		RESET -> +RESET
		PING -> -NOAUTH Authentication required.
		AUTH pw -> +OK
		ACL SETUSER default resetpass -> +OK
		RESET -> +RESET
		AUTH pw -> ` + wrong + `
		AUTH alice two -> +OK
		CONFIG SET requirepass new -> +OK
		AUTH new -> +OK
		CONFIG GET requirepass -> ["requirepass", "new"]
	`)
}

// TestACLConnections: connections are closed if their user is deleted, or if they listen to
// channels to which the user has lost access. No other connection is closed.
func TestACLConnections(t *testing.T) {
	h, _, own, other := hosted(t)
	listener := h.env.Clients[2]
	listen := func(topic Topic, name string) func() {
		return func() { h.env.PubSub.subscribe(listener, topic, []byte(name)) }
	}
	nothing := func() {}
	for _, tt := range []struct {
		name, rules, command string
		before               func()
		killed               bool
	}{
		{"deletion", "on", "ACL DELUSER alice", nothing, true},
		{"deletion of another", "on", "ACL DELUSER bob", nothing, false},
		{"new rules", "on", "ACL SETUSER alice off resetpass -@all resetkeys", nothing, false},
		{"channel kept", "on &a &b", "ACL SETUSER alice resetchannels &a", listen(Channel, "a"),
			false},
		{"channel lost", "on &a &b", "ACL SETUSER alice resetchannels &a", listen(Channel, "b"),
			true},
		{"channel of another pattern", "on &a*", "ACL SETUSER alice resetchannels &*b",
			listen(Channel, "ab"), false},
		{"all channels lost", "on &*", "ACL SETUSER alice resetchannels &a", listen(Channel, "b"),
			true},
		{"all channels to those", "on &*", "ACL SETUSER alice resetchannels &a",
			listen(Channel, "a"), false},
		{"pattern kept", "on &a* &b", "ACL SETUSER alice resetchannels &a*", listen(Pattern, "a*"),
			false},
		{"pattern within a larger one", "on &a* &aa*", "ACL SETUSER alice resetchannels &a*",
			listen(Pattern, "aa*"), true},
		{"shard channel lost", "on &a", "ACL SETUSER alice resetchannels",
			listen(ShardChannel, "a"), true},
		{"a selector has it", "on &a", "ACL SETUSER alice resetchannels (&a)", listen(Channel, "a"),
			false},
		// The connection subscribed as another user.
		{"more channels", "on &a", "ACL SETUSER alice &b", listen(Channel, "c"), false},
		{"a refused rule", "on &a", "ACL SETUSER alice resetchannels foo", listen(Channel, "a"),
			false},
		{"by user", "on", "CLIENT KILL USER alice", nothing, true},
		{"by another user", "on", "CLIENT KILL USER default", nothing, false},
	} {
		h.describe(strings.Fields(tt.rules)...)
		h.do("ACL", "SETUSER", "bob")
		alice := h.env.users.find([]byte("alice"))
		listener.user.become(alice)
		listener.Authenticated, other.killed = true, false
		tt.before()
		h.runOne(tt.command)
		if other.killed != tt.killed {
			t.Errorf("%s: the connection is closed: %v", tt.name, other.killed)
		}
		if tt.name == "deletion" &&
			(!listener.user.is(alice) || listener.user.permissions().enabled) {
			t.Error("the connection of a user who is no more may go on until it is closed")
		}
		h.env.PubSub.gone(listener)
	}
	if got := h.do("CLIENT", "KILL", "USER", "nobody"); got != "-ERR No such user 'nobody'" {
		t.Error(got)
	}
	// A client's own connection is closed after the reply.
	h.do("ACL", "SETUSER", "carol", "on", "+@all")
	h.run("user carol")
	if got := h.do("ACL", "DELUSER", "carol"); got != "1" || !h.client.Closing || !own.killed {
		t.Errorf("reply %s, closing %v", got, h.client.Closing)
	}
}

// TestACLSecrets: replies and logs that others can see contain no password.
func TestACLSecrets(t *testing.T) {
	h, _, _, other := hosted(t)
	h.env.Slowlog.configure(0, 1000)
	h.env.Clients[2].Monitor = true
	h.env.monitors = append(h.env.monitors, h.env.Clients[2])
	h.env.monitored.Store(true)
	var replies strings.Builder
	run := func(command string) {
		replies.WriteString(h.runOne(command) + "\n")
		h.env.Observe(&h.ctx, 0, time.Second)
		h.ctx.RunEmitted()
	}
	for _, command := range []string{
		"AUTH SECRET", "AUTH default SECRET", "AUTH default SECRET SECRET",
		"HELLO 3 AUTH default SECRET", "HELLO 2 SETNAME x AUTH default SECRET",
		"HELLO 2 AUTH nobody SECRET FOO",
		"ACL SETUSER alice on >SECRET", "ACL SETUSER alice <SECRETS", "ACL SETUSER alice #SECRET",
		"ACL SETUSER alice !SECRET",
		"ACL SETUSER alice ( >SECRET", "ACL SETUSER alice (+get <SECRET)",
		"CONFIG SET requirepass SECRET", "CONFIG SET masterauth SECRET masteruser SECRET",
		"CONFIG SET maxclients x requirepass SECRET",
		"CONFIG SET requirepas SECRET", "CONFIG SET maxclients 100 RequirePas SECRET",
		"CONFIG SET requirepass two SECRET", "CONFIG SET maxclients requirepass SECRET",
		"CONFIG STE requirepass SECRET", "ACL SETUSR alice >SECRET",
		"ACL DRYRUN default AUTH SECRET", "ACL DRYRUN default AUTH default SECRET",
		"ACL DRYRUN default HELLO 3 AUTH default SECRET",
		"ACL DRYRUN default CONFIG SET requirepass SECRET",
		"ACL DRYRUN default CONFIG SET requirepas SECRET",
		"ACL DRYRUN default ACL SETUSER alice >SECRET",
		"ACL DRYRUN default MIGRATE h 1 k 0 1 AUTH SECRET", "ACL DRYRUN default AUHT SECRET",
		"ACL DRYRUN default ACL SETUSR alice >SECRET",
		"ACL DRYRUN default ACL DRYRUN default AUTH SECRET",
		"ACL DRYRUN default COMMAND GETKEYS AUTH SECRET", "ACL DRYRUN nobody AUTH SECRET",
		"COMMAND GETKEYS AUTH SECRET", "COMMAND GETKEYS AUHT SECRET",
		"COMMAND GETKEYSANDFLAGS MIGRATE h 1 k 0 1 AUTH SECRET",
		"COMMAND GETKEYS ACL DRYRUN default AUTH SECRET",
		"COMMAND GETKEYS COMMAND GETKEYS AUTH SECRET",
		"ACL DRYRUN default SET key value", "COMMAND GETKEYS SET key value",
		"MULTI", "AUTH SECRET", "CONFIG SET requirepass SECRET", "EXEC", "AUTH default SECRET",
		"ACL LIST", "ACL GETUSER alice", "ACL LOG", "INFO everything", "CLIENT LIST",
		"SLOWLOG GET -1",
	} {
		run(command)
	}
	if strings.Contains(replies.String(), "SECRET") {
		t.Errorf("a reply has the password:\n%s", replies.String())
	}
	run("AUHT SECRET") // the reply names the arguments, as in Redis
	if shown := strings.Join(other.pushed, ""); strings.Contains(shown, "SECRET") ||
		!strings.Contains(shown, `"AUTH" "(redacted)"`) ||
		!strings.Contains(shown, `"HELLO" "3" "AUTH" "(redacted)" "(redacted)"`) {
		t.Errorf("MONITOR shows:\n%s", shown)
	}
	slow := h.do("SLOWLOG", "GET", "-1")
	for _, want := range []string{`["ACL", "SETUSER", "(redacted)", "(redacted)", "(redacted)"]`,
		`["CONFIG", "SET", "masterauth", "(redacted)", "masteruser", "(redacted)"]`,
		`["ACL", "DRYRUN", "default", "AUTH", "(redacted)"]`,
		`["ACL", "DRYRUN", "default", "SET", "key", "value"]`,
		`["COMMAND", "GETKEYS", "SET", "key", "value"]`,
		`["CONFIG", "SET", "maxclients", "100", "RequirePas", "(redacted)"]`} {
		if strings.Contains(slow, "SECRET") || !strings.Contains(slow, want) {
			t.Errorf("SLOWLOG lacks %s, or has the password:\n%s", want, slow)
		}
	}
}

// usersFrom returns a server with an ACL file of this content. If content is empty, there is no
// file.
func usersFrom(t *testing.T, content string) (h *harness, path string, err error) {
	path = filepath.Join(t.TempDir(), "users.acl")
	if content != "" {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load([]string{"--aclfile", path}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h = configured(t, cfg)
	return h, path, h.env.LoadUsers()
}

func TestACLFile(t *testing.T) {
	const hash = "#c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2"
	h, path, err := usersFrom(t,
		"\nuser alice on >foobar ~a* +get\r\n  \nuser bob off (+set ~x\t) ( +del ~y )\n")
	if err != nil {
		t.Fatal(err)
	}
	h.run(`
		ACL USERS -> ["alice", "bob", "default"]
		ACL SAVE -> +OK
	`)
	saved := "user alice on sanitize-payload " + hash + " ~a* resetchannels -@all +get\n" +
		"user bob off sanitize-payload resetchannels -@all (~x resetchannels -@all +set) (~y resetchannels -@all +del)\n" +
		"user default on nopass sanitize-payload ~* &* +@all\n"
	check := func() {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil || string(text) != saved {
			t.Errorf("the file is\n%s\nwant\n%s(%v)", text, saved, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if left, _ := filepath.Glob(path + ".*"); left != nil {
			t.Errorf("left behind: %v", left)
		}
	}
	check()
	conn := &fakeConn{}
	listener := &Client{ID: 7, Conn: conn, Proto: 3, Authenticated: true,
		user: identity{h.env.users.find([]byte("alice"))}}
	h.env.Clients[7] = listener
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A file with mistakes changes nothing, and the error names all of them.
	write("user alice on\nusers bob\nuser alice off\nuser carol foo >pw +nosuch\nuser dora (+get\nuser\tx on\nuser")
	want := "-ERR " + path +
		":2 should start with user keyword followed by the username. WARNING: Duplicate user 'alice' found on line 3. " +
		path + ":4: Syntax error. " + path + ":4: Unknown command or category name in ACL. " +
		path + ":5: Unmatched parenthesis in selector definition." +
		path + ":6 should start with user keyword followed by the username. " + path +
		":7 should start with user keyword followed by the username. " + errUnchanged
	if got := h.do("ACL", "LOAD"); got != want {
		t.Errorf("ACL LOAD\n  %s\nwant\n  %s", got, want)
	}
	h.run("ACL SAVE -> +OK")
	check()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, want := h.do("ACL", "LOAD"), "-ERR Error loading ACLs, opening file '"+path+
		"': No such file or directory"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// A user that still exists keeps the connection and has the new rules.
	write("user alice on nopass +set ~b\n")
	h.run(`
		ACL LOAD -> +OK
		ACL USERS -> ["alice", "default"]
	`)
	if conn.killed || !listener.user.is(h.env.users.find([]byte("alice"))) ||
		len(listener.user.permissions().passwords) != 0 {
		t.Error("a connection is closed, or has its old rules, though its user is still there")
	}
	write("user bob on\nuser default on >pw ~* +@all\n")
	h.run(`
		ACL LOAD -> +OK
		PING -> +PONG
		RESET -> +RESET
		PING -> -NOAUTH Authentication required.
		AUTH pw -> +OK
	`)
	if !conn.killed {
		t.Error("a connection outlives its user")
	}
}

// TestACLStart: a server does not start if it cannot be sure that it has the intended users.
func TestACLStart(t *testing.T) {
	if _, path, err := usersFrom(t, ""); err == nil ||
		err.Error() != "Error loading ACLs, opening file '"+path+"': No such file or directory" {
		t.Errorf("without the file: %v", err)
	}
	if _, path, err := usersFrom(t, "user alice >SECRET foo"); err == nil || err.Error() != path+
		":1: \"alice\": a word is not a rule: passwords begin with >, commands with + or -, keys with ~" {
		t.Errorf("with a mistake: %v", err)
	}
	for _, tt := range []struct{ args, want, users string }{
		{"--user alice on >pw +get ~a", "", "alice default"},
		{"--user alice on --user bob (+get ~x) (%R~b +set --aclfile x",
			"users are defined both in the configuration file and by aclfile; only one of them can say who they are",
			""},
		{"--user alice (%R~b +set",
			`--user: "alice": unmatched parenthesis in the selector that begins with '(%R~b'`, ""},
		{"--user alice on <SECRET", `--user: "alice": rule '<(redacted)': ` + string(errRuleNoPass),
			""},
		{"--user alice on +nosuch", `--user: "alice": rule '+nosuch': ` + string(errRuleCommand),
			""},
		{"--user default on >pw +@all --requirepass other", "", "default"},
	} {
		cfg, err := config.Load(strings.Fields(tt.args), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := configured(t, cfg)
		switch err := h.env.LoadUsers(); {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || err.Error() != tt.want):
			t.Errorf("%s: %v", tt.args, err)
		case err == nil:
			h.client.Authenticated = true
			if got := strings.ReplaceAll(strings.Trim(h.do("ACL", "USERS"), "[]"), `"`,
				""); got != strings.ReplaceAll(tt.users, " ", ", ") {
				t.Errorf("%s: users %s", tt.args, got)
			}
		}
	}
	quoted, err := config.Load([]string{"--user", "alice on >SECRET +get"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := configured(t, quoted).env.LoadUsers(); err == nil ||
		err.Error() != `--user: "alice …": spaces are not allowed in the names of users` {
		t.Errorf("rules quoted with the name: %v", err)
	}
	if _, err := config.Load([]string{"--user", "a", "--user", "a"}, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "Duplicate user found.") {
		t.Errorf("a user twice: %v", err)
	}
}

// TestACLConfigRewrite: CONFIG REWRITE writes the users to the configuration file, and a server
// that starts with the file has them again.
func TestACLConfigRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyp.conf")
	start := func() *harness {
		cfg, err := config.Load([]string{path}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := configured(t, cfg)
		if err := h.env.LoadUsers(); err != nil {
			t.Fatal(err)
		}
		return h
	}
	file := func(want string) {
		t.Helper()
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("the file is\n%s\nwant\n%s(%v)", text, want, err)
		}
	}
	const first = "# users\nuser alice on nopass ~a +get\nuser bob off\nport 7000\n"
	if err := os.WriteFile(path, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	h := start()
	h.run(`
		ACL DELUSER bob -> 1
		ACL SETUSER carol on ">p w" "~q\"'uo\\te#" #c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2 "(\"~\\\"x\\xff\" +set)" +select|0 -> +OK
		CONFIG REWRITE -> +OK
	`)
	users := h.do("ACL", "LIST")
	want := "# users\nuser alice on nopass sanitize-payload ~a resetchannels -@all +get\n"
	if text, err := os.ReadFile(path); err != nil ||
		!strings.HasPrefix(string(text), want+"user carol on sanitize-payload \"#") ||
		!strings.HasSuffix(string(text), "\nport 7000\n") ||
		strings.Contains(string(text), "default") || strings.Contains(string(text), "bob") {
		t.Errorf("the file is\n%s(%v)", text, err)
	}
	h = start()
	if got := h.do("ACL", "LIST"); got != users {
		t.Errorf("users from the file\n%s\nwant\n%s", got, users)
	}
	// The file has a line for the default user only if requirepass does not say everything about
	// it.
	h.run(`
		ACL DELUSER alice carol -> 2
		CONFIG SET requirepass pw -> +OK
		CONFIG REWRITE -> +OK
	`)
	file("# users\nport 7000\n# Generated by CONFIG REWRITE\nrequirepass pw\n")
	h = start()
	h.run(`
		AUTH pw -> +OK
		ACL SETUSER default -@dangerous +config|rewrite -> +OK
		CONFIG REWRITE -> +OK
	`)
	file("# users\nport 7000\n# Generated by CONFIG REWRITE\nrequirepass pw\n" +
		"user default on sanitize-payload \"#30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4\" ~* &* +@all -@dangerous +config|rewrite\n")
}
