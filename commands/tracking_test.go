package commands

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cachers is a harness with clients a, b, c (ids 1 to 3, RESP3) and old (4, RESP2).
type cachers struct {
	*harness
	clients map[string]*Client
}

func newCachers(t *testing.T) *cachers {
	h := newHarness(t)
	h.env.Host = &fakeHost{}
	cs := &cachers{h, map[string]*Client{}}
	for i, name := range []string{"a", "b", "c", "old"} {
		cs.clients[name] = &Client{ID: uint64(i + 1), Conn: &fakeConn{}, Proto: 3,
			Authenticated: true, user: identity{h.env.users.byDefault},
			Addr: "127.0.0.1:" + strconv.Itoa(i+1)}
	}
	cs.clients["old"].Proto = 2
	for _, c := range cs.clients {
		h.env.Clients[c.ID] = c
	}
	return cs
}

// as runs a command for a client, and then does the same as the event loop after a command.
func (cs *cachers) as(name, command string) {
	cs.t.Helper()
	cs.client = cs.clients[name]
	cs.ctx.Client = cs.client
	cs.run(command)
	cs.ctx.RunEmitted()
	cs.env.Changes.Deliver()
}

// heard returns the messages that a client got since the last call.
func (cs *cachers) heard(name string) string {
	conn := cs.clients[name].Conn.(*fakeConn)
	var list []string
	for _, m := range conn.pushed {
		text, _ := render([]byte(m))
		list = append(list, strings.TrimPrefix(text, `>["invalidate", `))
	}
	conn.pushed = nil
	return strings.ReplaceAll(strings.ReplaceAll(strings.Join(list, " "),
		`["message", "__redis__:invalidate", `, "message "), `"`, "")
}

// play runs steps, one for each line:
//
//	a: GET k -> "v"       the client's command, as in harness.run
//	a hears [k]] [l]]     its messages since the last such line, in short
//	pass                  one round of the event loop ends
func (cs *cachers) play(steps string) {
	cs.t.Helper()
	for n, line := range strings.Split(steps, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if name, want, ok := strings.Cut(line, " hears"); ok {
			if got := cs.heard(name); got != strings.TrimSpace(want) {
				cs.t.Errorf("line %d: %s heard %s, want %s", n+1, name, got, want)
			}
			continue
		}
		if line == "pass" {
			cs.env.Changes.Deliver()
			cs.env.Tracking.Broadcast()
			continue
		}
		if name, command, ok := strings.Cut(line, ": "); ok {
			cs.as(name, command)
			continue
		}
		cs.run(line)
	}
}

func TestTracking(t *testing.T) {
	newCachers(t).play(`
		b: does MSET k 1 l 2 m 3
		a: CLIENT TRACKING on -> +OK
		a: GET k -> "1"
		a: MGET l none -> ["2", null]
		c: GET m -> "3"
		b: SET m 4 -> +OK
		b: SET k 2 -> +OK
		a hears [k]]
		# Once for each look at it.
		b: SET k 3 -> +OK
		b: SET l 1 -> +OK
		b: SET none 1 -> +OK
		a hears [l]] [none]]
		# Its own changes too.
		a: GET k -> "3"
		a: DEL k -> 1
		a hears [k]]
		# What writes is not remembered, whatever it replies.
		a: INCR n -> 1
		a: GETEX l -> "1"
		b: SET n 5 -> +OK
		b: SET l 5 -> +OK
		a hears
		# Errors are remembered as replies are: another type, for example.
		b: LPUSH list x -> 1
		a: GET list -> -WRONGTYPE Operation against a key holding the wrong kind of value
		b: LPOP list -> "x"
		a hears [list]]
		# Any command that changes a key: deadlines, renames, copies, other databases.
		a: MGET k l m n -> [null, "5", "4", "5"]
		b: EXPIRE l 100 -> 1
		b: RENAME m k -> +OK
		b: SELECT 1 -> +OK
		b: SET n other -> +OK
		b: SELECT 0 -> +OK
		a hears [l]] [m]] [k]] [n]]
		# FLUSHDB and FLUSHALL: one message, whatever was read.
		a: GET l -> "5"
		b: does FLUSHALL
		a hears null]
		b: SET l 1 -> +OK
		a hears
		b: does FLUSHDB
		a hears null]
		b: does SWAPDB 0 1
		a hears null]
		a: GET l -> null
		a: CLIENT TRACKING off -> +OK
		b: SET l 2 -> +OK
		b hears
		a hears
	`)
}

// TestTrackingExpiry: clients are notified of expired keys, whether a command finds them or not.
func TestTrackingExpiry(t *testing.T) {
	cs := newCachers(t)
	cs.play(`
		a: CLIENT TRACKING on NOLOOP -> +OK
		b: CLIENT TRACKING on BCAST -> +OK
		b: does MSET k 1 l 2
		b: does PEXPIRE k 10
		b: does PEXPIRE l 20
		b: HSET h f v g w -> 2
		b: HPEXPIRE h 10 FIELDS 1 f -> [1]
		pass
		b hears [h, k, l]]
		a: MGET k l -> ["1", "2"]
		a: HGETALL h -> {"f": "v", "g": "w"}
		advance 15ms
		c: EXISTS k -> 0
		a hears [k]]
		# With NOLOOP too, since it is not the client's doing.
		a: HGETALL h -> {"g": "w"}
		a hears [h]]
		pass
		b hears [h, k]]
		c: HSET h g x -> 0
		a hears [h]]
	`)
	cs.clock.Advance(time.Second)
	cs.store.Reap()
	cs.play(`
		pass
		a hears [l]]
		b hears [h, l]]
	`)
}

func TestTrackingOptions(t *testing.T) {
	newCachers(t).play(`
		# OPTIN: only what CLIENT CACHING YES says, and that for one command.
		a: CLIENT CACHING YES -> -ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled
		a: CLIENT TRACKING on OPTIN -> +OK
		a: CLIENT CACHING NO -> -ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.
		a: CLIENT CACHING MAYBE -> -ERR syntax error
		a: CLIENT CACHING -> -ERR wrong number of arguments for 'client|caching' command
		a: GET k -> null
		a: CLIENT CACHING YES -> +OK
		a: CLIENT TRACKINGINFO -> {"flags": ~["on", "optin", "caching-yes"], "redirect": 0, "prefixes": []}
		a: GET l -> null
		a: GET m -> null
		a: CLIENT TRACKINGINFO -> {"flags": ~["on", "optin"], "redirect": 0, "prefixes": []}
		b: does MSET k 1 l 1 m 1
		a hears [l]]
		a: CLIENT TRACKING on OPTOUT -> -ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.
		a: CLIENT TRACKING on -> +OK
		a: CLIENT TRACKING on OPTOUT -> +OK
		a: CLIENT TRACKING on OPTIN -> -ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.
		a: CLIENT CACHING YES -> -ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.
		a: CLIENT CACHING NO -> +OK
		a: CLIENT TRACKINGINFO -> {"flags": ~["on", "optout", "caching-no"], "redirect": 0, "prefixes": []}
		a: GET k -> "1"
		a: GET l -> "1"
		b: does MSET k 1 l 1 m 1
		a hears [l]]
		a: CLIENT TRACKING off -> +OK

		# NOLOOP: not what it changes by itself, but what others change afterwards.
		a: CLIENT TRACKING on NOLOOP -> +OK
		c: CLIENT TRACKING on -> +OK
		a: GET k -> "1"
		c: GET k -> "1"
		a: SET k 2 -> +OK
		a hears
		c hears [k]]
		b: SET k 3 -> +OK
		a hears [k]]
		a: CLIENT TRACKINGINFO -> {"flags": ~["on", "noloop"], "redirect": 0, "prefixes": []}
		a: does FLUSHALL
		a hears null]
	`)
}

// TestTrackingTransactions: reads in EXEC are tracked. Reads and changes in it count in the order
// of the commands.
func TestTrackingTransactions(t *testing.T) {
	newCachers(t).play(`
		a: CLIENT TRACKING on -> +OK
		a: does MULTI
		a: does SET k 1
		a: does GET k
		a: does GET l
		a: EXEC -> [+OK, "1", null]
		a hears
		b: does MULTI
		b: does SET k 2
		b: does SET k 3
		b: does DEL l
		b: EXEC -> [+OK, +OK, 0]
		a hears [k]]
		# Read, then changed.
		a: does MULTI
		a: does GET k
		a: does SET k 4
		a: does GET l
		a: EXEC -> ["3", +OK, null]
		a hears [k]]
		# One that comes to nothing.
		b: does MULTI
		b: does SET l 1
		b: SET l -> -ERR wrong number of arguments for 'set' command
		b: EXEC -> -EXECABORT Transaction discarded because of previous errors.
		a hears
		b: does MULTI
		b: does FLUSHDB
		b: does FLUSHALL
		b: does EXEC
		a hears null] null]

		# NOLOOP: its own read after its own change still counts.
		a: CLIENT TRACKING on NOLOOP -> +OK
		a: does MULTI
		a: does SET k 5
		a: does GET k
		a: does EXEC
		b: SET k 6 -> +OK
		a hears [k]]

		# CLIENT CACHING says it for the whole transaction, or for what follows in it.
		a: CLIENT TRACKING off -> +OK
		a: CLIENT TRACKING on OPTIN -> +OK
		a: CLIENT CACHING YES -> +OK
		a: does MULTI
		a: does GET k
		a: does GET l
		a: does EXEC
		a: GET m -> null
		b: does MSET k 1 l 1 m 1
		a hears [k]] [l]]
		a: does MULTI
		a: does GET k
		a: does CLIENT CACHING YES
		a: does GET l
		a: does GET m
		a: does EXEC
		a: GET k -> "1"
		b: does MSET k 1 l 1 m 1
		a hears [l]] [m]]
	`)
}

func TestTrackingErrors(t *testing.T) {
	newCachers(t).play(`
		a: CLIENT TRACKING -> -ERR wrong number of arguments for 'client|tracking' command
		a: CLIENT TRACKING maybe -> -ERR syntax error
		a: CLIENT TRACKING on foo -> -ERR syntax error
		a: CLIENT TRACKING maybe REDIRECT 9 -> -ERR The client ID you want redirect to does not exist
		a: CLIENT TRACKING on REDIRECT -> -ERR syntax error
		a: CLIENT TRACKING on REDIRECT x -> -ERR value is not an integer or out of range
		a: CLIENT TRACKING on REDIRECT 0 -> -ERR The client ID you want redirect to does not exist
		a: CLIENT TRACKING on REDIRECT -1 -> -ERR The client ID you want redirect to does not exist
		a: CLIENT TRACKING on REDIRECT 2 REDIRECT 3 -> -ERR A client can only redirect to a single other client
		a: CLIENT TRACKING on PREFIX a -> -ERR PREFIX option requires BCAST mode to be enabled
		a: CLIENT TRACKING off PREFIX a -> +OK
		a: CLIENT TRACKING on PREFIX -> -ERR syntax error
		a: CLIENT TRACKING on BCAST OPTIN -> -ERR OPTIN and OPTOUT are not compatible with BCAST
		a: CLIENT TRACKING on BCAST OPTOUT -> -ERR OPTIN and OPTOUT are not compatible with BCAST
		a: CLIENT TRACKING on OPTIN OPTOUT -> -ERR You can't specify both OPTIN mode and OPTOUT mode
		a: CLIENT TRACKING on BCAST PREFIX ab PREFIX c PREFIX abc -> -ERR Prefix 'ab' overlaps with another provided prefix 'abc'. Prefixes for a single client must not overlap.
		a: CLIENT TRACKING on BCAST PREFIX a PREFIX a -> -ERR Prefix 'a' overlaps with another provided prefix 'a'. Prefixes for a single client must not overlap.
		a: CLIENT TRACKINGINFO -> {"flags": ~["off"], "redirect": -1, "prefixes": []}
		a: CLIENT TRACKING on -> +OK
		a: CLIENT TRACKING on BCAST -> -ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.
		a: CLIENT TRACKING off -> +OK
		a: CLIENT TRACKING on BCAST PREFIX foo PREFIX bar -> +OK
		a: CLIENT TRACKING on -> -ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.
		a: CLIENT TRACKING on BCAST PREFIX fooo -> -ERR Prefix 'fooo' overlaps with an existing prefix 'foo'. Prefixes for a single client must not overlap.
		a: CLIENT TRACKING on BCAST PREFIX x NOLOOP -> +OK
		a: CLIENT TRACKINGINFO -> {"flags": ~["on", "bcast", "noloop"], "redirect": 0, "prefixes": ["bar", "foo", "x"]}
		a: CLIENT TRACKING on BCAST -> +OK
		a: CLIENT TRACKING on BCAST PREFIX y -> -ERR Prefix 'y' overlaps with an existing prefix ''. Prefixes for a single client must not overlap.
		old: CLIENT TRACKING on REDIRECT 4 -> +OK
		old: CLIENT TRACKINGINFO -> ["flags", ["on"], "redirect", 4, "prefixes", []]
	`)
}

func TestTrackingBroadcast(t *testing.T) {
	cs := newCachers(t)
	cs.play(`
		a: CLIENT TRACKING on BCAST PREFIX user: PREFIX job: -> +OK
		c: CLIENT TRACKING on BCAST NOLOOP -> +OK
		b: does MSET user:2 x user:1 x job:1 x other x
		c: SET user:3 x -> +OK
		b: SET user:2 y -> +OK
		a hears
		pass
		a hears [job:1]] [user:1, user:2, user:3]]
		c hears [job:1, other, user:1, user:2]]
		pass
		a hears
		# Reads are not remembered.
		a: GET other -> "x"
		b: SET other y -> +OK
		c: SET other z -> +OK
		pass
		a hears
		c hears
		b: does FLUSHALL
		pass
		a hears null]
		c hears null]
		c: CLIENT TRACKING off -> +OK
		a: CLIENT TRACKING off -> +OK
		b: SET user:1 x -> +OK
		pass
		a hears
		c hears
	`)
	if n := len(cs.env.Tracking.mu.prefixes); n != 0 {
		t.Errorf("%d prefixes are left", n)
	}
}

func TestTrackingRedirect(t *testing.T) {
	cs := newCachers(t)
	cs.play(`
		a: CLIENT GETREDIR -> -1
		a: CLIENT TRACKING on REDIRECT 2 -> +OK
		a: CLIENT GETREDIR -> 2
		a: GET k -> null
		c: SET k 1 -> +OK
		a hears
		b hears [k]]
		# RESP2: nothing without a subscription, and nothing to itself.
		old: CLIENT TRACKING on -> +OK
		old: CLIENT GETREDIR -> 0
		old: GET k -> "1"
		c: SET k 2 -> +OK
		old hears
		old: does SUBSCRIBE __redis__:invalidate
		old hears
		c: CLIENT TRACKING on REDIRECT 4 NOLOOP -> +OK
		c: MGET k l -> ["2", null]
		b: MSET k 2 l 1 -> +OK
		old hears message [k]] message [l]]
		b: does FLUSHALL
		old hears message nil]
		b hears null]
		b: SET k 2 -> +OK
		c: CLIENT TRACKING off -> +OK
		# The other one goes: the one that tracks is notified, if it can be.
		a: GET k -> "2"
	`)
	cs.env.Gone(cs.clients["b"])
	cs.play(`
		c: SET k 3 -> +OK
		a hears >[tracking-redir-broken, 2]
		a: CLIENT TRACKINGINFO -> {"flags": ~["on", "broken_redirect"], "redirect": 2, "prefixes": []}
		a: CLIENT TRACKING on -> +OK
		a: CLIENT TRACKINGINFO -> {"flags": ~["on"], "redirect": 0, "prefixes": []}
		a: GET k -> "3"
		c: SET k 4 -> +OK
		a hears [k]]
	`)
}

// TestTrackingTable: tracking-table-max-keys limits the table. When a key leaves the table, the
// clients that have read it are notified, and the figures in INFO change.
func TestTrackingTable(t *testing.T) {
	cs := newCachers(t)
	info := func(want string) {
		t.Helper()
		tr := cs.env.Tracking.totals()
		if got := fmt.Sprintf("%d clients, %d keys, %d items, %d prefixes", tr.clients, tr.keys,
			tr.items, tr.prefixes); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	cs.play(`
		config tracking-table-max-keys 10
		a: CLIENT TRACKING on NOLOOP -> +OK
		b: CLIENT TRACKING on -> +OK
		c: CLIENT TRACKING on BCAST PREFIX x -> +OK
		a: does MGET 0 1 2 3 4 5 6 7 8 9
		b: does MGET 0 1 2 3
		b: does MGET 0 1 2 3
		c: does MGET 0 1 2 3
		a hears
	`)
	info("3 clients, 10 keys, 14 items, 1 prefixes")
	cs.play(`a: does MGET 10 11 12`)
	if got := strings.Count(cs.heard("a"), "["); got != 3 {
		t.Errorf("%d keys left the table, want 3", got)
	}
	cs.heard("b")
	if tr := cs.env.Tracking.totals(); tr.keys != 10 {
		t.Errorf("%d keys", tr.keys)
	}
	list := cs.do("CLIENT", "LIST")
	for _, want := range []string{" flags=t ", " flags=tB ", " redir=0 ", " redir=-1 "} {
		if !strings.Contains(list, want) {
			t.Errorf("CLIENT LIST has no %q: %s", want, list)
		}
	}
	if text := cs.do("INFO", "stats"); !strings.Contains(text, "tracking_total_keys:10") ||
		!strings.Contains(text, "tracking_total_prefixes:1") {
		t.Errorf("INFO has %s", text)
	}
	cs.heard("a")
	cs.play("c: CONFIG SET tracking-table-max-keys 4 -> +OK")
	if got := strings.Count(cs.heard("a"), "["); got != 6 {
		t.Errorf("%d keys left the table when it became smaller, want 6", got)
	}
	for _, name := range []string{"a", "b"} {
		cs.env.Gone(cs.clients[name])
	}
	cs.play("c: RESET -> +RESET")
	info("0 clients, 0 keys, 0 items, 0 prefixes")
	if cs.env.Tracking.active.Load() || cs.env.Changes.mu.reported {
		t.Error("nobody tracks any more, and changes are still reported")
	}
}

// TestTrackingTableShrinks: hundreds of keys leave the table without any further command.
func TestTrackingTableShrinks(t *testing.T) {
	cs := newCachers(t)
	cs.as("a", "CLIENT TRACKING on -> +OK")
	for i := range 250 {
		cs.as("a", "GET "+strconv.Itoa(i)+" -> null")
	}
	cs.as("b", "CONFIG SET tracking-table-max-keys 1 -> +OK")
	if got := strings.Count(cs.heard("a"), "["); got != 249 {
		t.Errorf("%d keys left the table, want 249", got)
	}
}

// TestTrackingManyReaders: many clients read the same key, and each is notified once.
func TestTrackingManyReaders(t *testing.T) {
	cs := newCachers(t)
	for id := uint64(10); id < 100; id++ {
		name := strconv.FormatUint(id, 10)
		cs.clients[name] = &Client{ID: id, Conn: &fakeConn{}, Proto: 3, Authenticated: true,
			user: identity{cs.env.users.byDefault}}
		cs.env.Clients[id] = cs.clients[name]
		cs.as(name, "CLIENT TRACKING on -> +OK")
		cs.as(name, "GET k -> null")
		cs.as(name, "GET k -> null")
	}
	if tr := cs.env.Tracking.totals(); tr.keys != 1 || tr.items != 90 {
		t.Fatalf("%d keys, %d items", tr.keys, tr.items)
	}
	cs.as("a", "SET k v -> +OK")
	for id := 10; id < 100; id++ {
		if got := cs.heard(strconv.Itoa(id)); got != "[k]]" {
			t.Errorf("%d heard %q", id, got)
		}
	}
	if tr := cs.env.Tracking.totals(); tr.keys != 0 || tr.items != 0 {
		t.Errorf("%d keys, %d items are left", tr.keys, tr.items)
	}
}

// TestTrackingTableBytes: long names or many readers do not make the table larger than
// tracking-table-max-keys allows. Its counted size is that of its entries.
func TestTrackingTableBytes(t *testing.T) {
	cs := newCachers(t)
	tr := &cs.env.Tracking
	check := func(limit int) {
		t.Helper()
		bytes := 0
		for key, r := range tr.mu.keys {
			bytes += entryBytes + len(key) + r.bytes()
		}
		if bytes != tr.mu.bytes {
			t.Fatalf("the entries take %d bytes, and %d are counted", bytes, tr.mu.bytes)
		}
		if bytes > limit {
			t.Fatalf("%d keys take %d bytes, the limit is %d", len(tr.mu.keys), bytes, limit)
		}
	}
	const most = 200
	cs.play(`
		config tracking-table-max-keys 200
		a: CLIENT TRACKING on NOLOOP -> +OK
	`)
	for i := range 150 {
		cs.as("a", fmt.Sprintf("GET small:%d -> null", i))
	}
	long := strings.Repeat("x", 10_000)
	for i := range 100 {
		cs.as("a", fmt.Sprintf("GET %s%d -> null", long, i))
		check((most + 1) * keyBytes)
	}
	if tr.totals().keys < 5 {
		t.Errorf("%d keys are left", tr.totals().keys)
	}
	for id := uint64(10); id < 150; id++ {
		name := strconv.FormatUint(id, 10)
		cs.clients[name] = &Client{ID: id, Conn: &fakeConn{}, Proto: 3, Authenticated: true,
			user: identity{cs.env.users.byDefault}}
		cs.env.Clients[id] = cs.clients[name]
		cs.as(name, "CLIENT TRACKING on -> +OK")
		for i := range most / 4 {
			cs.as(name, fmt.Sprintf("GET many:%d -> null", i))
		}
		check((most + 1) * keyBytes)
	}
	cs.as("a", "SET many:1 v -> +OK")
	check((most + 1) * keyBytes)
	cs.as("a", "FLUSHALL -> +OK")
	check(0)
}

// TestTrackingOfMigrate: a client that has cached a key is notified when MIGRATE deletes the key.
func TestTrackingOfMigrate(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	go func() {
		if conn, err := target.Accept(); err == nil {
			_, _ = io.WriteString(conn, "+OK\r\n+OK\r\n") // to SELECT and RESTORE
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(target.Addr().String())
	newCachers(t).play(`
		b: does SET k v
		a: CLIENT TRACKING on -> +OK
		a: GET k -> "v"
		b: MIGRATE 127.0.0.1 ` + port + ` k 0 10000 -> +OK
		a hears [k]]
		a: GET k -> null
	`)
}

// TestCachingEndsBesideTheLoop: CLIENT CACHING applies to the next command, even if that runs as a
// task.
func TestCachingEndsBesideTheLoop(t *testing.T) {
	newCachers(t).play(`
		a: CLIENT TRACKING on OPTIN -> +OK
		a: CLIENT CACHING yes -> +OK
		a: KEYS k -> []
		a: GET k -> null
		b: does SET k v
		a hears
		a: CLIENT CACHING yes -> +OK
		a: GET k -> "v"
		b: does SET k w
		a hears [k]]
	`)
}

// TestTrackingRights: a client with BCAST is notified only of keys that its user may read. The
// rights at the time of the change count.
func TestTrackingRights(t *testing.T) {
	newCachers(t).play(`
		b: ACL SETUSER app on nopass ~app:* %W~write:* +@all -> +OK
		a: AUTH app x -> +OK
		a: CLIENT TRACKING ON BCAST -> +OK
		c: AUTH app x -> +OK
		c: CLIENT TRACKING ON BCAST NOLOOP PREFIX app PREFIX secret -> +OK
		b: MSET secret:1 v app:1 v write:1 v -> +OK
		pass
		a hears [app:1]]
		c hears [app:1]]
		c: SET app:2 v -> +OK
		b: SET secret:2 v -> +OK
		pass
		a hears [app:2]]
		c hears
		# What has changed before is sent by the rights of then.
		b: MSET app:3 v secret:3 v -> +OK
		b: ACL SETUSER app resetkeys ~secret:* -> +OK
		a hears [app:3]]
		c hears [app:3]]
		b: SET app:4 v -> +OK
		b: SET secret:4 v -> +OK
		a: AUTH default "" -> +OK
		a hears [secret:4]]
		b: SET app:5 v -> +OK
		pass
		a hears [app:5]]
		b: SET app:6 v -> +OK
		a: AUTH app x -> +OK
		a hears [app:6]]
	`)
}
