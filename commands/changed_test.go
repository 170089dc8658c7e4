package commands

import (
	"crypto/sha1"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// changedSteps are tables of the changes between Redis 7.0 and 8.6. Each has the name of its row in
// docs/reference/redis.md.
var changedSteps = map[string]string{
	"ACL DRYRUN": `
		ACL SETUSER u on nopass +get ~a* -> +OK
		ACL DRYRUN u SET a 1 -> "User u has no permissions to run the 'set' command"
		ACL DRYRUN u GET b -> "User u has no permissions to access the 'b' key"
	`,
	"ACL GETUSER, ACL LIST": `
		ACL SETUSER u on +@read -get +get -> +OK
		ACL GETUSER u -> ["flags", ["on", "sanitize-payload"], "passwords", [], "commands", "-@all +@read +get", "keys", "", "channels", "", "selectors", []]
		ACL LIST -> ["user default on nopass sanitize-payload ~* &* +@all", "user u on sanitize-payload resetchannels -@all +@read +get"]
	`,
	"ACL SETUSER": `
		ACL SETUSER u -> +OK
		ACL LIST -> ["user default on nopass sanitize-payload ~* &* +@all", "user u off sanitize-payload resetchannels -@all"]
	`,
	"BITCOUNT, BITPOS": `
		BITCOUNT none a b -> -ERR value is not an integer or out of range
		BITCOUNT none 1 -> -ERR syntax error
		BITCOUNT none 0 1 BITS -> -ERR syntax error
		BITPOS none 0 a -> -ERR value is not an integer or out of range
		BITPOS none 1 0 1 BITS -> -ERR syntax error
		BITCOUNT none 0 1 BIT -> 0
	`,
	"BLPOP and its like": `
		BLPOP k 1e300 -> -ERR timeout is out of range
		BLPOP k 9223372036854775 -> -ERR timeout is out of range
		BZMPOP 9223372036854775807 1 k MIN -> -ERR timeout is out of range
		BLPOP k -1 -> -ERR timeout is negative
	`,
	"BLPOP in scripts": `
		EVAL "return redis.call('blpop', KEYS[1], 0)" 1 none -> nil
		EVAL "return redis.call('blmove', 'none', 'to', 'left', 'right', 0)" 0 -> nil
		EVAL "return redis.call('wait', 0, 0)" 0 -> 0
		RPUSH l a -> 1
		EVAL "return redis.call('blpop', KEYS[1], 0)" 1 l -> ["l", "a"]
	`,
	"COMMAND GETKEYS": `
		COMMAND GETKEYS PING -> -ERR The command has no key arguments
		COMMAND GETKEYS nosuch -> -ERR Invalid command specified
		COMMAND GETKEYS GET -> -ERR Invalid number of arguments specified for command
	`,
	"COMMAND GETKEYS PFMERGE": `
		COMMAND GETKEYS PFMERGE d -> ["d"]
		COMMAND GETKEYS PFMERGE d s -> ["d", "s"]
	`,
	"CONFIG GET: names": `
		CONFIG GET server-cpulist -> ["server-cpulist", ""]
		CONFIG GET server_cpulist -> ["server_cpulist", ""]
		CONFIG GET bio-cpulist -> ["bio-cpulist", ""]
		CONFIG GET aof-rewrite-cpulist -> ["aof-rewrite-cpulist", ""]
		CONFIG GET bgsave-cpulist -> ["bgsave-cpulist", ""]
	`,
	"EVAL: error with a table": `
		EVAL "error({})" 0 -> -ERR unknown error script: 367bf7fe449ba40e54d99d9086aa3c2164008136, on @user_script:1.
		EVAL "error({err={}})" 0 -> -ERR unknown error script: 3620f1eddc49c670cf705a7e46babf69320e6b16, on @user_script:1.
		EVAL "return select('#', pcall(error, {}))" 0 -> 2
	`,
	"EVAL: line ends in errors": `
		EVAL "error({err='MY a' .. string.char(13, 10) .. '+b'})" 0 -> -MY a  +b script: 97782c8fcb35d9b3c757892aac5f2d0190d96d86, on @user_script:1.
		EVAL "return redis.error_reply('MY a' .. string.char(13, 10) .. '+b')" 0 -> -MY a  +b
	`,
	"EVAL: no permission": `
		ACL SETUSER u on nopass +get +eval ~a* -> +OK
		user u
		EVAL "return redis.pcall('get', 'b')" 0 -> -ERR ACL failure in script: No permissions to access a key
		EVAL "return redis.pcall('del', 'a')" 0 -> -ERR ACL failure in script: User u has no permissions to run the 'del' command
	`,
	"EVAL: numbers as arguments": `
		EVAL "return redis.call('echo', 0.1)" 0 -> "0.1"
		EVAL "return redis.call('echo', -0)" 0 -> "0"
		EVAL "return redis.call('echo', 1e300)" 0 -> "1e+300"
		EVAL "return redis.call('echo', 1e20)" 0 -> "1e+20"
	`,
	"EVAL: time": `
		EVAL "local a = redis.call('time') for i = 1, 100000 do end local b = redis.call('time') return a[1] == b[1] and a[2] == b[2]" 0 -> 1
	`,
	"EXEC": `
		SET k v -> +OK
		config maxmemory 1
		MULTI -> +OK
		GET k -> +QUEUED
		EXEC -> ["v"]
	`,
	"GEOPOS, GEOSEARCH, GEORADIUS": `
		GEOADD g 13.361389 38.115556 p -> 1
		GEOPOS g p -> [["13.361389338970184", "38.1155563954963"]]
		GEOSEARCH g FROMMEMBER p BYRADIUS 1 m WITHCOORD -> [["p", ["13.361389338970184", "38.1155563954963"]]]
		GEORADIUSBYMEMBER g p 1 m WITHCOORD -> [["p", ["13.361389338970184", "38.1155563954963"]]]
		proto 3
		GEOPOS g p -> [[,13.361389338970184, ,38.1155563954963]]
	`,
	"GETRANGE, SUBSTR": `
		SET k Hello -> +OK
		GETRANGE k 0 -100 -> ""
		SUBSTR k 0 -100 -> ""
		GETRANGE k -100 -99 -> ""
		GETRANGE k 0 -6 -> ""
		GETRANGE k 0 -5 -> "H"
		GETRANGE k -100 -5 -> "H"
		GETRANGE k -100 100 -> "Hello"
		GETRANGE k 0 -9223372036854775808 -> ""
		GETRANGE k -9223372036854775808 9223372036854775807 -> "Hello"
	`,
	"HELLO": `
		HELLO 3 SETNAME joe AUTH nobody x -> -WRONGPASS invalid username-password pair or user is disabled.
		CLIENT GETNAME -> nil
	`,
	"HELLO without a password": `
		CONFIG SET requirepass secret -> +OK
		RESET -> +RESET
		HELLO 3 -> -NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time
	`,
	"INFO keyspace": `
		HSET h f 1 g 2 -> 2
		HEXPIRE h 60 FIELDS 1 f -> [1]
		INFO keyspace -> "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=60000,subexpiry=1\r\n"
		HEXPIRE h 60 FIELDS 2 f g -> [1, 1]
		INFO keyspace -> "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=60000,subexpiry=1\r\n"
		HPERSIST h FIELDS 1 f -> [1]
		COPY h h2 -> 1
		INFO keyspace -> "# Keyspace\r\ndb0:keys=2,expires=0,avg_ttl=60000,subexpiry=2\r\n"
		HDEL h g -> 1
		RENAME h2 h -> +OK
		INFO keyspace -> "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=60000,subexpiry=1\r\n"
		SET h text -> +OK
		INFO keyspace -> "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0,subexpiry=0\r\n"
	`,
	"LPOS": `
		RPUSH l a -> 1
		LPOS l a RANK -9223372036854775808 -> -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
		LPOS l a RANK -9223372036854775807 -> nil
	`,
	"LREM": `
		RPUSH l a -> 1
		LREM l -9223372036854775808 a -> -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
		LREM l -9223372036854775807 a -> 1
	`,
	"NOPERM": `
		ACL SETUSER u on nopass +get +publish ~a* -> +OK
		user u
		GET b -> -NOPERM No permissions to access a key
		DEL a -> -NOPERM User u has no permissions to run the 'del' command
		PUBLISH c m -> -NOPERM No permissions to access a channel
	`,
	"OBJECT ENCODING": `
		RPUSH l a -> 1
		SADD s a -> 1
		OBJECT ENCODING l -> "listpack"
		OBJECT ENCODING s -> "listpack"
	`,
	"SCAN and its like": `
		SET k v -> +OK
		SCAN "" -> -ERR invalid cursor
		SCAN -1 -> -ERR invalid cursor
		SSCAN none "" -> -ERR invalid cursor
		SCAN 0 -> ["0", ["k"]]
	`,
	"XGROUP CREATE, XGROUP SETID": `
		XADD s 1-0 a b -> "1-0"
		XGROUP CREATE s g 1-0 ENTRIESREAD 100 -> +OK
		XINFO GROUPS s -> [["name", "g", "consumers", 0, "pending", 0, "last-delivered-id", "1-0", "entries-read", 1, "lag", 0]]
		XGROUP SETID s g 1-0 ENTRIESREAD 7 -> +OK
		XINFO GROUPS s -> [["name", "g", "consumers", 0, "pending", 0, "last-delivered-id", "1-0", "entries-read", 1, "lag", 0]]
	`,
	"XINFO CONSUMERS, XINFO STREAM FULL": `
		XADD s 1-0 a b -> "1-0"
		XGROUP CREATE s g 0 -> +OK
		does XREADGROUP GROUP g c STREAMS s >
		advance 5ms
		XREADGROUP GROUP g c STREAMS s > -> nilarray
		advance 2ms
		XINFO CONSUMERS s g -> [["name", "c", "pending", 1, "idle", 2, "inactive", 7]]
	`,
	"XINFO GROUPS": `
		XADD s 1-0 a b -> "1-0"
		XADD s 2-0 a b -> "2-0"
		XADD s 3-0 a b -> "3-0"
		XGROUP CREATE s g 0 -> +OK
		does XREADGROUP GROUP g c COUNT 1 STREAMS s >
		XTRIM s MAXLEN 1 -> 2
		XINFO GROUPS s -> [["name", "g", "consumers", 1, "pending", 1, "last-delivered-id", "1-0", "entries-read", 1, "lag", 1]]
		DEL s -> 1
		XADD s 1-0 a b -> "1-0"
		XADD s 2-0 a b -> "2-0"
		XADD s 3-0 a b -> "3-0"
		XGROUP CREATE s g 0 -> +OK
		does XREADGROUP GROUP g c COUNT 1 STREAMS s >
		XDEL s 2-0 -> 1
		does XREADGROUP GROUP g c COUNT 1 STREAMS s >
		XINFO GROUPS s -> [["name", "g", "consumers", 1, "pending", 2, "last-delivered-id", "3-0", "entries-read", 3, "lag", 0]]
	`,
	"XREAD, XREADGROUP": `
		XREAD STREAMS a b c -> -ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified.
		XREADGROUP GROUP g c STREAMS a b c -> -ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.
	`,
	"XREAD BLOCK in scripts": `
		EVAL "return redis.call('xread', 'block', 0, 'streams', 'none', '$')" 0 -> nil
	`,
	"XREADGROUP that waits": `
		XGROUP CREATE s g $ MKSTREAM -> +OK
		XREADGROUP GROUP g c BLOCK 0 STREAMS s > -> +(blocked)
		DEL s -> 1
		# The server runs the command again.
		XREADGROUP GROUP g c BLOCK 0 STREAMS s > -> -NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option
		SET s x -> +OK
		XREADGROUP GROUP g c BLOCK 0 STREAMS s > -> -WRONGTYPE Operation against a key holding the wrong kind of value
	`,
	"XREADGROUP, XCLAIM, XAUTOCLAIM": `
		XADD s 1-0 a b -> "1-0"
		XGROUP CREATE s g $ -> +OK
		XREADGROUP GROUP g c1 STREAMS s > -> nilarray
		XCLAIM s g c2 0 1-0 -> []
		XAUTOCLAIM s g c3 0 0 -> ["0-0", [], []]
		XINFO CONSUMERS s g -> [["name", "c1", "pending", 0, "idle", 0, "inactive", -1], ["name", "c2", "pending", 0, "idle", 0, "inactive", -1], ["name", "c3", "pending", 0, "idle", 0, "inactive", -1]]
	`,
	"XSETID": `
		XADD s 1-0 a b -> "1-0"
		XSETID s 7-0 ENTRIESADDED 3 MAXDELETEDID 6-0 -> +OK
		XSETID s 5-5 -> -ERR The ID specified in XSETID is smaller than current max_deleted_entry_id
		XSETID s 6-5 -> +OK
	`,
	"ZRANK, ZREVRANK": `
		ZADD z 1 a -> 1
		ZRANK z a x -> -ERR syntax error
		ZREVRANK z a x -> -ERR syntax error
	`,
	"ZRANGE and others with scores": `
		ZADD z 0.1 a 0.2 b 1e17 c -> 3
		ZRANGE z 0 -1 WITHSCORES -> ["a", "0.1", "b", "0.2", "c", "100000000000000000"]
		ZSCORE z a -> "0.1"
	`,
	"nan": `
		EVAL "return {double = 0/0}" 0 -> "nan"
		EVAL "return {double = -(0/0)}" 0 -> "nan"
		proto 3
		EVAL "return {double = 0/0}" 0 -> ,nan
	`,
	"permissions of who waits": `
		ACL SETUSER u on nopass +@all ~* -> +OK
		user u
		BLPOP l 0 -> +(blocked)
		ACL SETUSER u -blpop -> +OK
		RPUSH l a -> 1
		# The server runs the command again.
		BLPOP l 0 -> -NOPERM User u has no permissions to run the 'blpop' command
		LRANGE l 0 -1 -> ["a"]
	`,
	"redis.log": `
		EVAL "return select(2, pcall(redis.log, 9, 'y'))" 0 -> "ERR Invalid log level."
	`,
	"redis.set_repl": `
		EVAL "return select(2, pcall(redis.set_repl))" 0 -> "ERR redis.set_repl() requires one argument."
		EVAL "return select(2, pcall(redis.set_repl, 1, 2))" 0 -> "ERR redis.set_repl() requires one argument."
	`,
}

// changedCases are the changes whose tests need more than a table.
var changedCases = map[string]func(t *testing.T){
	"ACL LOAD": func(t *testing.T) {
		h, path, err := usersFrom(t, "user alice on nopass\nuser bob on nopass\n")
		if err != nil {
			t.Fatal(err)
		}
		conns := map[string]*fakeConn{}
		for i, name := range []string{"alice", "bob"} {
			conns[name] = &fakeConn{}
			id := uint64(7 + i)
			h.env.Clients[id] = &Client{ID: id, Conn: conns[name], Proto: 3, Authenticated: true,
				user: identity{h.env.users.find([]byte(name))}}
		}
		if err := os.WriteFile(path, []byte("user alice on nopass +get\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		h.run("ACL LOAD -> +OK")
		if conns["alice"].killed || !conns["bob"].killed {
			t.Errorf("closed: of who is there %v, of who is gone %v", conns["alice"].killed,
				conns["bob"].killed)
		}
	},
	"ACL LOG": func(t *testing.T) {
		h, _, _, _ := hosted(t)
		h.run(`
			ACL SETUSER u on nopass -> +OK
			user u
			ECHO x -> -NOPERM User u has no permissions to run the 'echo' command
			user default
		`)
		if text := h.do("ACL", "LOG"); !strings.HasSuffix(text,
			`"entry-id", 0, "timestamp-created", 1700000000000, "timestamp-last-updated", 1700000000000]]`) {
			t.Errorf("the log is %s", text)
		}
	},
	"CLIENT UNBLOCK": func(t *testing.T) {
		h, _, _, other := hosted(t)
		other.blocked = false // CLIENT PAUSE holds it up, and no command of its own
		h.run("CLIENT UNBLOCK 2 ERROR -> 0")
		if other.unblocked != "" {
			t.Errorf("it ends with %s", other.unblocked)
		}
	},
	"COMMAND DOCS": func(t *testing.T) {
		h := newHarness(t)
		if text := h.do("COMMAND", "DOCS", "getrange"); !strings.Contains(text,
			`"name", "start", "type", "integer", "display_text", "start"`) {
			t.Errorf("no text to display: %s", text)
		}
		if text := h.do("COMMAND", "DOCS", "quit", "setnx", "setex",
			"psetex"); strings.Contains(text, "deprecated") {
			t.Errorf("a command is deprecated: %s", text)
		}
	},
	"COMMAND INFO: flags": func(t *testing.T) {
		for command, want := range map[string]string{
			"blpop": "[+write, +blocking]", "bzpopmin": "[+write, +blocking, +fast]",
			"brpoplpush": "[+write, +denyoom, +blocking]", "wait": "[+blocking]",
			"cluster|shards": "[+loading, +stale]", "cluster|slots": "[+loading, +stale]",
			"sinterstore": `["flags", [+OW, +update]`,
		} {
			if text := newHarness(t).do("COMMAND", "INFO", command); !strings.Contains(text, want) {
				t.Errorf("%s: no %s in %s", command, want, text)
			}
		}
	},
	"COMMAND INFO: tips": func(t *testing.T) {
		const everywhere = `["request_policy:all_nodes", "response_policy:all_succeeded"]`
		for command, want := range map[string]string{
			"acl|deluser": everywhere, "acl|save": everywhere, "acl|setuser": everywhere,
			"client|setname": everywhere, "config|resetstat": everywhere,
			"config|rewrite": everywhere,
			"latency|reset":  `["request_policy:all_nodes", "response_policy:agg_sum"]`,
			"randomkey":      "response_policy:special", "scan": "response_policy:special",
			"msetnx": "+@slow], [], [[",
		} {
			if text := newHarness(t).do("COMMAND", "INFO", command); !strings.Contains(text, want) {
				t.Errorf("%s: no %s in %s", command, want, text)
			}
		}
	},
	"DUMP": func(t *testing.T) {
		h := newHarness(t)
		h.do("SET", "k", "v")
		payload, err := strconv.Unquote(h.do("DUMP", "k"))
		if err != nil || len(payload) < 10 {
			t.Fatalf("%q, %v", payload, err)
		}
		if end := payload[len(payload)-10:]; end[0] != 10 || end[1] != 0 {
			t.Errorf("the version is %d", int(end[0])|int(end[1])<<8)
		}
	},
	"EVAL: cached scripts": func(t *testing.T) {
		h := newHarness(t)
		digest := func(script string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(script))) }
		h.do("SCRIPT", "LOAD", "return 'kept'")
		for i := range 501 {
			h.do("EVAL", "return "+strconv.Itoa(i), "0")
		}
		h.run("SCRIPT EXISTS " + digest("return 0") + " " + digest("return 1") + " " +
			digest("return 'kept'") + " -> [0, 1, 1]")
	},
	"EVAL: cluster mode": func(t *testing.T) {
		clustered(t, true).run(`
			EVAL "return redis.pcall('MGET', '{a}1', '{b}1')" 0 -> -ERR Command 'mget' in script attempted to access keys that don't hash to the same slot
			CLUSTER DELSLOTS 3300 -> +OK
			CONFIG SET cluster-require-full-coverage no -> +OK
			EVAL "return redis.pcall('GET', '{b}1')" 0 -> -ERR Script attempted to access a slot not served
		`)
	},
	"INFO errorstats": func(t *testing.T) {
		h, _, _, _ := hosted(t)
		for i := range 200 {
			h.observe(time.Microsecond, "EVAL", "return redis.error_reply(ARGV[1])", "0",
				"E"+strconv.Itoa(i)+" x")
		}
		h.observe(time.Microsecond, "EVAL", "return redis.error_reply('E0 x')", "0")
		text := h.do("INFO", "errorstats")
		if n := strings.Count(text, "errorstat_"); n != 128 ||
			!strings.Contains(text, `errorstat_E0:count=2\r\n`) {
			t.Errorf("%d codes: %s", n, text)
		}
	},
	"PUBLISH": func(t *testing.T) {
		h, _, own, _ := hosted(t)
		h.client.Proto = 3
		h.all("SUBSCRIBE c")
		if got := h.do("PUBLISH", "c", "m"); got != "1" || len(own.pushed) > 0 {
			t.Errorf("the reply is %s, and before it comes %q", got, own.pushed)
		}
		h.ctx.RunEmitted()
		if got := own.heardBy(); got != `>["message", "c", "m"]` {
			t.Errorf("behind the reply comes %s", got)
		}
	},
	"PUNSUBSCRIBE": func(t *testing.T) {
		h, _, _, _ := hosted(t)
		h.expectAll(`
			PSUBSCRIBE b a -> ["psubscribe", "b", 1] ["psubscribe", "a", 2]
			PUNSUBSCRIBE -> ["punsubscribe", "a", 1] ["punsubscribe", "b", 0]
		`)
	},
	"RESET": func(t *testing.T) {
		h, _, _, _ := hosted(t)
		h.run(`
			CLIENT NO-EVICT on -> +OK
			RESET -> +RESET
		`)
		if text := h.do("CLIENT", "LIST", "ID", "1"); !strings.Contains(text, " flags=N ") {
			t.Errorf("the client is %s", text)
		}
	},
	"SLOWLOG": func(t *testing.T) {
		h, _, _, _ := hosted(t)
		h.env.Slowlog.configure(0, 10)
		h.observe(time.Second, "ACL", "GETUSER", "alice")
		h.observe(time.Second, "ACL", "DELUSER", "alice", "bob")
		text := h.do("SLOWLOG", "GET")
		for _, want := range []string{`["ACL", "GETUSER", "(redacted)"]`,
			`["ACL", "DELUSER", "(redacted)", "(redacted)"]`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in %s", want, text)
			}
		}
	},
	"SORT in cluster mode": func(t *testing.T) {
		clustered(t, true).run(`
			RPUSH {a}l 2 1 -> 2
			MSET {a}w1 5 {a}w2 3 -> +OK
			SORT {a}l BY {a}w* GET {a}w* -> ["3", "5"]
			SORT {a}l BY w* -> -ERR BY option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.
		`)
	},
	"client-side caching": func(t *testing.T) {
		newCachers(t).play(`
			a: CLIENT TRACKING on -> +OK
			a: EVAL "return redis.call('get', KEYS[1])" 2 k l -> null
			b: SET l 1 -> +OK
			a hears
			b: SET k 1 -> +OK
			a hears [k]]
		`)
	},
}

// TestChangedSinceSeven: Keyp follows the newest Redis in everything that changed between 7.0 and
// 8.6, except as the table of docs/reference/redis.md describes.
func TestChangedSinceSeven(t *testing.T) {
	for name, steps := range changedSteps {
		t.Run(name, func(t *testing.T) { table(t, steps) })
	}
	for name, run := range changedCases {
		t.Run(name, run)
	}
}

// TestChangedSinceSevenIsDocumented: each row of the document has a test case, and each test case
// has a row.
func TestChangedSinceSevenIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Changed between Redis 7.0 and 8.6\n")
	if !ok {
		t.Fatal("the document has no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| command |") {
			continue
		}
		if len(cells) != 4 {
			t.Errorf("a row of %d cells: %s", len(cells), line)
		}
		rows = append(rows, strings.ReplaceAll(strings.TrimPrefix(cells[0], "| "), "`", ""))
	}
	slices.Sort(rows)
	cases := slices.Concat(slices.Collect(maps.Keys(changedSteps)),
		slices.Collect(maps.Keys(changedCases)))
	slices.Sort(cases)
	if !slices.Equal(rows, cases) {
		t.Errorf("the document has the rows\n%q\nand there are the cases\n%q", rows, cases)
	}
}
