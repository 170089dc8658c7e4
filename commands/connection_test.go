package commands

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

// fakeHost records what commands ask of the running server.
type fakeHost struct {
	pausedFor time.Duration
	pausedAll bool
	unpaused  int
	stopped   string
}

func (f *fakeHost) Pause(d time.Duration, all bool) { f.pausedFor, f.pausedAll = d, all }
func (f *fakeHost) Post(fn func())                  { fn() }
func (f *fakeHost) Unpause()                        { f.unpaused++ }
func (f *fakeHost) Wake()                           {}
func (f *fakeHost) Shutdown(save bool) {
	f.stopped = "nosave"
	if save {
		f.stopped = "save"
	}
}
func (f *fakeHost) ClientMemory() int64 { return 2000 }

func (f *fakeHost) AtRest(fn func()) { f.Post(fn) }
func (f *fakeHost) Port() int        { return 6379 }
func (f *fakeHost) Listeners() []Listener {
	return []Listener{{"tcp", "127.0.0.1:6379"}, {"unix", "/run/keyp.sock"}}
}

// fakeConn is a connection that records how it was closed or unblocked.
type fakeConn struct {
	killed, blocked bool
	unblocked       string
	pushed          []string
}

func (f *fakeConn) Secure() bool { return false }

func (f *fakeConn) QueryBuffer() (used, free int) { return 26, 20448 }
func (f *fakeConn) OutputBuffer() int             { return 0 }
func (f *fakeConn) Memory() int                   { return 1000 }
func (f *fakeConn) Blocked() bool                 { return f.blocked }
func (f *fakeConn) Kill()                         { f.killed = true }
func (f *fakeConn) Push(_ uint64, message []byte) { f.pushed = append(f.pushed, string(message)) }
func (f *fakeConn) Unblock(withError bool) bool {
	f.unblocked = "timeout"
	if withError {
		f.unblocked = "error"
	}
	return true
}

// hosted returns a harness whose server has a host and two clients. Client 1 is the harness's own.
func hosted(t *testing.T) (h *harness, host *fakeHost, own, other *fakeConn) {
	h = newHarness(t)
	host, own, other = &fakeHost{}, &fakeConn{}, &fakeConn{}
	h.env.Host = host
	h.client.Conn, h.client.Addr, h.client.LAddr = own, "127.0.0.1:1001", "127.0.0.1:6379"
	h.env.Clients[1] = h.client
	h.env.Clients[2] = &Client{
		ID: 2, Conn: other, Addr: "127.0.0.1:1002", LAddr: "127.0.0.1:6379", FD: 9,
		user: identity{h.env.users.byDefault}, Proto: 3, DB: 3,
		Created: -90 * time.Second, LastActive: -30 * time.Second, Name: "worker",
		Authenticated: true,
	}
	return h, host, own, other
}

func TestConnectionCommands(t *testing.T) {
	h, _, _, _ := hosted(t)
	h.run(`
		PING -> +PONG
		ping hello -> "hello"
		PING a b -> -ERR wrong number of arguments for 'ping' command
		ECHO "a b" -> "a b"
		ECHO -> -ERR wrong number of arguments for 'echo' command
		SELECT 15 -> +OK
		SELECT 16 -> -ERR DB index is out of range
		SELECT -1 -> -ERR DB index is out of range
		SELECT x -> -ERR value is not an integer or out of range
		SELECT 2147483648 -> -ERR value is out of range, value must between -2147483648 and 2147483647
		SET k v -> +OK
		SELECT 0 -> +OK
		GET k -> nil
		HELLO -> ["server", "redis", "version", "8.6.0", "proto", 2, "id", 1, "mode", "standalone", "role", "master", "modules", []]
		HELLO 3 SETNAME joe -> {"server": "redis", "version": "8.6.0", "proto": 3, "id": 1, "mode": "standalone", "role": "master", "modules": []}
		CLIENT GETNAME -> "joe"
		GET k -> null
		HELLO 4 -> -NOPROTO unsupported protocol version
		HELLO x -> -ERR Protocol version is not an integer or out of range
		HELLO 2 FOO -> -ERR Syntax error in HELLO option 'FOO'
		HELLO 2 AUTH a -> -ERR Syntax error in HELLO option 'AUTH'
		HELLO 2 SETNAME -> -ERR Syntax error in HELLO option 'SETNAME'
		HELLO 2 AUTH a b -> -WRONGPASS invalid username-password pair or user is disabled.
		HELLO 2 SETNAME "a b" -> -ERR Client names cannot contain spaces, newlines or special characters.
		# none of them changed the protocol
		GET k -> null
		HELLO 2 AUTH default any SETNAME jim -> ["server", "redis", "version", "8.6.0", "proto", 2, "id", 1, "mode", "standalone", "role", "master", "modules", []]
		SELECT 3 -> +OK
		CLIENT NO-TOUCH ON -> +OK
		HELLO 3 -> {"server": "redis", "version": "8.6.0", "proto": 3, "id": 1, "mode": "standalone", "role": "master", "modules": []}
		RESET -> +RESET
		CLIENT GETNAME -> nil
	`)
	if h.client.DB != 0 || h.client.Proto != 2 || h.client.NoTouch {
		t.Errorf("after RESET: %+v", h.client)
	}
	h.run(`QUIT -> +OK`)
	if !h.client.Closing {
		t.Error("QUIT does not close")
	}
}

func TestAuth(t *testing.T) {
	h, _, _, _ := hosted(t)
	h.run(`
		AUTH x -> -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
		AUTH default x -> +OK
		AUTH foo x -> -WRONGPASS invalid username-password pair or user is disabled.
		AUTH a b c -> -ERR syntax error
		AUTH -> -ERR wrong number of arguments for 'auth' command
		CONFIG SET requirepass secret -> +OK
		PING -> +PONG
		RESET -> +RESET
		PING -> -NOAUTH Authentication required.
		GET k -> -NOAUTH Authentication required.
		CONFIG FOO -> -NOAUTH Authentication required.
		HELLO -> -NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time
		AUTH wrong -> -WRONGPASS invalid username-password pair or user is disabled.
		AUTH secre -> -WRONGPASS invalid username-password pair or user is disabled.
		AUTH foo secret -> -WRONGPASS invalid username-password pair or user is disabled.
		PING -> -NOAUTH Authentication required.
		AUTH secret -> +OK
		PING -> +PONG
		RESET -> +RESET
		AUTH default secret -> +OK
		RESET -> +RESET
		HELLO 2 AUTH default wrong -> -WRONGPASS invalid username-password pair or user is disabled.
		PING -> -NOAUTH Authentication required.
		HELLO 2 AUTH default secret -> ["server", "redis", "version", "8.6.0", "proto", 2, "id", 1, "mode", "standalone", "role", "master", "modules", []]
	`)
	// A client that has not authenticated yet needs no password once requirepass is empty.
	other := h.env.Clients[2]
	other.Authenticated = false
	for _, step := range []struct {
		password string
		required bool
	}{{"secret", true}, {"", false}, {"again", true}} {
		if got := h.do("CONFIG", "SET", "requirepass", step.password); got != "+OK" {
			t.Fatal(got)
		}
		if got := h.env.AuthRequired(other); got != step.required {
			t.Errorf("requirepass %q: a client that has not authenticated has to: %v",
				step.password, got)
		}
	}
}

func TestClientCommands(t *testing.T) {
	h, host, _, other := hosted(t)
	h.run(`
		CLIENT -> -ERR wrong number of arguments for 'client' command
		CLIENT FOO -> -ERR unknown subcommand 'FOO'. Try CLIENT HELP.
		CLIENT ID -> 1
		CLIENT SETNAME joe -> +OK
		CLIENT GETNAME -> "joe"
		CLIENT SETNAME "a b" -> -ERR Client names cannot contain spaces, newlines or special characters.
		CLIENT SETNAME "" -> +OK
		CLIENT GETNAME -> nil
		CLIENT SETINFO LIB-NAME go-redis -> +OK
		CLIENT SETINFO lib-ver 9.1 -> +OK
		CLIENT SETINFO lib-ver "a b" -> -ERR lib-ver cannot contain spaces, newlines or special characters.
		CLIENT SETINFO foo x -> -ERR Unrecognized option 'foo'
		CLIENT INFO -> "id=1 addr=127.0.0.1:1001 laddr=127.0.0.1:6379 fd=0 name= age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 watch=0 qbuf=26 qbuf-free=20448 argv-mem=10 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=1000 events=r cmd=client|info user=default redir=-1 resp=2 lib-name=go-redis lib-ver=9.1 io-thread=0 tot-net-in=0 tot-net-out=0 tot-cmds=0\n"
		CLIENT LIST ID 2 -> "id=2 addr=127.0.0.1:1002 laddr=127.0.0.1:6379 fd=9 name=worker age=90 idle=30 flags=N db=3 sub=0 psub=0 ssub=0 multi=-1 watch=0 qbuf=26 qbuf-free=20448 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=1000 events=r cmd=NULL user=default redir=-1 resp=3 lib-name= lib-ver= io-thread=0 tot-net-in=0 tot-net-out=0 tot-cmds=0\n"
		CLIENT LIST ID 7 -> ""
		CLIENT LIST ID x -> -ERR Invalid client ID
		CLIENT LIST ID -7 8 -> ""
		CLIENT LIST ID 1 2 NOT-ID 1 NOT-NAME worker -> ""
		CLIENT LIST SKIPME yes NOT-DB 3 -> ""
		CLIENT LIST ID 1 2 NOT-NAME worker NOT-LIB-NAME go-redis -> ""
		CLIENT LIST NOT-ID x -> -ERR Invalid client ID
		CLIENT LIST ID 1 SKIPME maybe -> -ERR syntax error
		CLIENT LIST ID -> -ERR syntax error
		CLIENT LIST TYPE master -> ""
		CLIENT LIST TYPE foo -> -ERR Unknown client type 'foo'
		CLIENT LIST FOO -> -ERR syntax error
		CLIENT REPLY FOO -> -ERR syntax error
		CLIENT REPLY ON -> +OK
		CLIENT NO-EVICT ON -> +OK
		CLIENT NO-EVICT maybe -> -ERR syntax error
		CLIENT NO-TOUCH off -> +OK
		CLIENT GETREDIR -> -1
		CLIENT TRACKINGINFO -> ["flags", ["off"], "redirect", -1, "prefixes", []]
		CLIENT PAUSE x -> -ERR timeout is not an integer or out of range
		CLIENT PAUSE -1 -> -ERR timeout is negative
		CLIENT PAUSE 9223372036854775807 -> -ERR timeout is not an integer or out of range
		CLIENT PAUSE 1 FOO -> -ERR CLIENT PAUSE mode must be WRITE or ALL
		CLIENT PAUSE 1000 WRITE -> +OK
	`)
	if host.pausedFor != time.Second || host.pausedAll {
		t.Errorf("paused for %v, all %v", host.pausedFor, host.pausedAll)
	}
	h.run(`
		CLIENT PAUSE 5 -> +OK
		CLIENT UNPAUSE -> +OK
		CLIENT UNBLOCK x -> -ERR value is not an integer or out of range
		CLIENT UNBLOCK 1 foo -> -ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR
		CLIENT UNBLOCK 2 -> 0
		CLIENT UNBLOCK 99 -> 0
	`)
	if !host.pausedAll || host.unpaused != 1 || other.unblocked != "" {
		t.Errorf("%+v, unblocked %q", host, other.unblocked)
	}
	other.blocked = true
	h.run(`CLIENT UNBLOCK 2 ERROR -> 1`)
	if other.unblocked != "error" {
		t.Errorf("unblocked with %q", other.unblocked)
	}
	h.run(`
		proto 3
		CLIENT TRACKINGINFO -> {"flags": ~["off"], "redirect": -1, "prefixes": []}
		CLIENT LIST TYPE replica -> =txt:""
	`)
}

// TestClientReply: CLIENT REPLY switches replies on or off. It has no reply itself, except for ON.
func TestClientReply(t *testing.T) {
	h, _, _, _ := hosted(t)
	for _, step := range []struct {
		arg  string
		want ReplyMode
	}{{"SKIP", ReplySkipNext}, {"OFF", ReplyOff}, {"SKIP", ReplyOff}} {
		reply := h.raw([]byte("CLIENT"), []byte("REPLY"), []byte(step.arg))
		if len(reply) != 0 || h.client.Reply != step.want {
			t.Errorf("%s: reply %q, mode %d, want %d", step.arg, reply, h.client.Reply, step.want)
		}
	}
	h.run(`CLIENT REPLY ON -> +OK`)
	if h.client.Reply != ReplyOn {
		t.Errorf("mode %d", h.client.Reply)
	}
}

func TestClientKill(t *testing.T) {
	tests := []struct {
		step       string
		own, other bool // killed
	}{
		{`CLIENT KILL 127.0.0.1:9 -> -ERR No such client`, false, false},
		{`CLIENT KILL 127.0.0.1:1002 -> +OK`, false, true},
		{`CLIENT KILL 127.0.0.1:1001 -> +OK`, true, false},
		{`CLIENT KILL ID 2 -> 1`, false, true},
		{`CLIENT KILL ID 1 -> 0`, false, false},
		{`CLIENT KILL ID 1 SKIPME no -> 1`, true, false},
		{`CLIENT KILL ID 0 -> -ERR client-id should be greater than 0`, false, false},
		{`CLIENT KILL ID x -> -ERR client-id should be greater than 0`, false, false},
		{`CLIENT KILL SKIPME maybe -> -ERR syntax error`, false, false},
		{`CLIENT KILL SKIPME yes -> 1`, false, true},
		{`CLIENT KILL ID 2 FOO -> -ERR syntax error`, false, false},
		{`CLIENT KILL FOO 1 -> -ERR syntax error`, false, false},
		{`CLIENT KILL TYPE foo -> -ERR Unknown client type 'foo'`, false, false},
		{`CLIENT KILL TYPE pubsub -> 0`, false, false},
		{`CLIENT KILL TYPE normal -> 1`, false, true},
		{`CLIENT KILL USER foo -> -ERR No such user 'foo'`, false, false},
		{`CLIENT KILL USER default SKIPME no -> 2`, true, true},
		{`CLIENT KILL LADDR 127.0.0.1:6379 -> 1`, false, true},
		{`CLIENT KILL ADDR 127.0.0.1:1002 ID 3 -> 0`, false, false},
		{`CLIENT KILL MAXAGE 90 SKIPME no -> 1`, false, true},
		{`CLIENT KILL MAXAGE 91 -> 0`, false, false},
		{`CLIENT KILL MAXAGE 0 -> -ERR maxage should be greater than 0`, false, false},
		{`CLIENT KILL MAXAGE x -> -ERR maxage is not an integer or out of range`, false, false},
		{`CLIENT KILL ID 7 2 8 -> 1`, false, true},
		{`CLIENT KILL ID 1 2 SKIPME no -> 2`, true, true},
		{`CLIENT KILL ID 1 2 NAME worker SKIPME no -> 1`, false, true},
		{`CLIENT KILL ID 2 0 -> -ERR client-id should be greater than 0`, false, false},
		{`CLIENT KILL ID 2 ID 1 -> 0`, false, false}, // the last one counts
		{`CLIENT KILL ID 1 ID 2 -> 1`, false, true},
		{`CLIENT KILL NOT-ID 2 SKIPME no -> 1`, true, false},
		{`CLIENT KILL NOT-ID 2 3 -> 0`, false, false},
		{`CLIENT KILL NOT-ADDR 127.0.0.1:1001 SKIPME no -> 1`, false, true},
		{`CLIENT KILL NOT-LADDR 127.0.0.1:6379 SKIPME no -> 0`, false, false},
		{`CLIENT KILL NOT-TYPE pubsub -> 1`, false, true},
		{`CLIENT KILL NOT-USER default SKIPME no -> 0`, false, false},
		{`CLIENT KILL NOT-USER foo -> -ERR No such user 'foo'`, false, false},
		{`CLIENT KILL NOT-MAXAGE 1 -> -ERR syntax error`, false, false},
		{`CLIENT KILL NOT-SKIPME yes -> -ERR syntax error`, false, false},
		{`CLIENT KILL NOT-FOO 1 -> -ERR syntax error`, false, false},
		{`CLIENT KILL IP 127.0.0.1 -> 1`, false, true},
		{`CLIENT KILL IP 127.0.0.1:1002 -> 0`, false, false},
		{`CLIENT KILL NOT-IP 127.0.0.1 SKIPME no -> 0`, false, false},
		{`CLIENT KILL IDLE 30 SKIPME no -> 1`, false, true},
		{`CLIENT KILL IDLE 31 -> 0`, false, false},
		{`CLIENT KILL IDLE 0 -> -ERR idle should be greater than 0`, false, false},
		{`CLIENT KILL DB 3 -> 1`, false, true},
		{`CLIENT KILL NOT-DB 3 SKIPME no -> 1`, true, false},
		{`CLIENT KILL DB 16 -> -ERR DB index is out of range`, false, false},
		{`CLIENT KILL DB x -> -ERR value is not an integer or out of range`, false, false},
		{`CLIENT KILL LIB-NAME "" LIB-VER "" NOT-LIB-NAME x -> 1`, false, true},
		{`CLIENT KILL NOT-NAME "" SKIPME no -> 1`, false, true},
		{`CLIENT KILL FLAGS N SKIPME no -> 2`, true, true},
		{`CLIENT KILL FLAGS Ne SKIPME no -> 0`, false, false},
		{`CLIENT KILL NOT-FLAGS P -> 1`, false, true},
		{`CLIENT KILL FLAGS Nz -> -ERR Unknown flags found in the provided filter: Nz`, false,
			false},
	}
	for _, tt := range tests {
		h, _, own, other := hosted(t)
		h.run(tt.step)
		if own.killed != tt.own || other.killed != tt.other {
			t.Errorf("%s: own connection killed %v, the other %v", tt.step,
				own.killed, other.killed)
		}
	}
}

func TestShutdownAndSave(t *testing.T) {
	h, host, _, _ := hosted(t)
	h.run(`
		SHUTDOWN FOO -> -ERR syntax error
		SHUTDOWN SAVE NOSAVE -> -ERR syntax error
		SHUTDOWN ABORT NOW -> -ERR syntax error
		SHUTDOWN ABORT -> -ERR No shutdown in progress.
		BGSAVE FOO -> -ERR syntax error
		LASTSAVE -> 1700000000
		SET k v -> +OK
		advance 90s
		SAVE -> +OK
		LASTSAVE -> 1700000090
		BGSAVE SCHEDULE -> +Background saving started
		reopen
		GET k -> "v"
	`)
	if host.stopped != "" {
		t.Errorf("stopped with %q by an invalid command", host.stopped)
	}
	h.env.Host = host
	for args, want := range map[string]string{"NOSAVE": "nosave", "SAVE": "save", "NOW": "save"} {
		if reply := h.raw([]byte("SHUTDOWN"), []byte(args)); len(reply) != 0 ||
			host.stopped != want {
			t.Errorf("SHUTDOWN %s: reply %q, stopped with %q, want %q", args, reply,
				host.stopped, want)
		}
	}
}

func TestServerCommands(t *testing.T) {
	h, _, _, _ := hosted(t)
	h.run(`
		advance 1234ms
		TIME -> ["1700000001", "234000"]
		advance 56us
		TIME -> ["1700000001", "234056"]
		ROLE -> ["master", 0, []]
		WAIT 0 0 -> 0
		WAIT x 0 -> -ERR value is not an integer or out of range
		WAIT 1 x -> -ERR timeout is not an integer or out of range
		WAIT 1 -1 -> -ERR timeout is negative
		WAITAOF 2 0 0 -> -ERR value is out of range, must be between 0 and 1
		WAITAOF x 0 0 -> -ERR value is not an integer or out of range
		WAITAOF 0 -1 0 -> -ERR value is out of range, must be positive
		WAITAOF 1 0 x -> -ERR timeout is not an integer or out of range
		WAITAOF 1 0 -1 -> -ERR timeout is negative
		SET k v -> +OK
		WAITAOF 1 0 0 -> [1, 0]
		WAITAOF 1 3 60000 -> [1, 0]
		WAITAOF 0 0 0 -> [1, 0]
		DEL k -> 1
		REPLICAOF no one -> +OK
		SLAVEOF NO ONE -> +OK
		REPLICAOF localhost 8888 -> -ERR this server has no replication: it can't be a replica
		MODULE LIST -> []
		MODULE LOADEX /nowhere.so CONFIG a b ARGS c -> -ERR Error loading the extension. Please check the server logs.
		MODULE LOAD /nowhere.so -> -ERR Error loading the extension. Please check the server logs.
		MODULE UNLOAD x -> -ERR Error unloading module: no such module with that name
		MEMORY USAGE k -> nil
		SET k v -> +OK
		MEMORY USAGE k SAMPLES -1 -> -ERR syntax error
		MEMORY USAGE k SAMPLES x -> -ERR value is not an integer or out of range
		MEMORY USAGE k SAMPLES -> -ERR syntax error
		MEMORY USAGE k FOO 1 -> -ERR syntax error
		MEMORY PURGE -> +OK
		MEMORY DOCTOR -> "No problem with memory was found.\n"
		DEBUG FOO -> -ERR unknown subcommand 'FOO'. Try DEBUG HELP.
		DEBUG PANIC -> -ERR internal error
		DEBUG COMPACT -> +OK
		DEBUG ERROR "MY text\r\nof two lines" -> -MY text  of two lines
		DEBUG STRINGMATCH-LEN a* abc -> 1
		DEBUG STRINGMATCH-LEN b* abc -> 0
		DEBUG RELOAD NOSAVE MERGE -> +OK
		DEBUG RELOAD -> +OK
		DEBUG JMAP -> +OK
		DEBUG CHANGE-REPL-ID -> +OK
		DEBUG OBJECT none -> -ERR no such key
		SET k bar -> +OK
		DEBUG OBJECT k -> +Value at:0x0 refcount:1 encoding:embstr serializedlength:4 lru:5501185 lru_seconds_idle:0
		DEBUG SLEEP x -> -ERR value is not a valid float
		DEBUG SLEEP 0 -> +OK
		DEBUG CLOCK-OFFSET x -> -ERR value is not an integer or out of range
		DEBUG CLOCK-OFFSET 400000000000 -> -ERR value is not an integer or out of range
		DEBUG CLOCK-OFFSET 1 -> -ERR this clock can't be shifted
		DEBUG SET-ACTIVE-EXPIRE x -> -ERR value is not an integer or out of range
		DEBUG SET-ACTIVE-EXPIRE 0 -> +OK
		PING -> +PONG
	`)
	small, err1 := strconv.Atoi(h.do("MEMORY", "USAGE", "k"))
	h.do("SET", "large", strings.Repeat("x", 100_000))
	large, err2 := strconv.Atoi(h.do("MEMORY", "USAGE", "large"))
	if err1 != nil || err2 != nil || small < 2 || small > 500 || large < 100_000 ||
		large > 200_000 {
		t.Errorf("sizes %d and %d, %v %v", small, large, err1, err2)
	}
	h.client.Addr = "10.0.0.1:5"
	h.run(`DEBUG PANIC -> ` + "-" + string(errDebug))
}

// TestDebugSleep: DEBUG SLEEP ends when its time is over and not before.
func TestDebugSleep(t *testing.T) {
	h, _, _, _ := hosted(t)
	done := make(chan string, 1)
	go func() { done <- h.do("DEBUG", "SLEEP", "2.5") }()
	moved := time.Duration(0)
	await.Until(t, "DEBUG SLEEP ends", func() bool {
		select {
		case reply := <-done:
			if reply != "+OK" || moved < 2500*time.Millisecond {
				t.Errorf("reply %s after %v", reply, moved)
			}
			return true
		default:
			h.clock.Advance(100 * time.Millisecond)
			moved += 100 * time.Millisecond
			return false
		}
	})
}
