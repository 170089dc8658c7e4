package commands

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/storage"
)

// report advances the clock, removes expired keys, and moves their outbox entries to the streams of
// the rules.
func (h *harness) report(d time.Duration) {
	h.clock.Advance(d)
	h.store.Reap()
	h.env.Outboxes.Move()
}

// reported returns the fields of a stream's entries.
func (h *harness) reported(stream string) string {
	h.t.Helper()
	text := h.do("XRANGE", stream, "-", "+")
	return strings.ReplaceAll(regexp.MustCompile(`\["\d+-\d+", (\[[^]]*\])\]`).ReplaceAllString(
		text, "$1"), fmt.Sprint(epoch), "T")
}

func TestOutboxCommands(t *testing.T) {
	table(t, `
		KEYP.OUTBOX -> -ERR wrong number of arguments for 'keyp.outbox' command
		KEYP.OUTBOX SET -> -ERR wrong number of arguments for 'keyp.outbox|set' command
		KEYP.OUTBOX SET r -> -ERR an outbox needs PATTERN and STREAM
		KEYP.OUTBOX SET r PATTERN k* -> -ERR an outbox needs PATTERN and STREAM
		KEYP.OUTBOX SET r PATTERN k* STREAM -> -ERR STREAM needs a value
		KEYP.OUTBOX SET r PATTERN k* DB 0 -> -ERR an outbox needs PATTERN and STREAM
		KEYP.OUTBOX SET r STREAM s DB 0 -> -ERR an outbox needs PATTERN and STREAM
		KEYP.OUTBOX SET r PATTERN k* STREAM s DB 16 -> -ERR DB index is out of range
		KEYP.OUTBOX SET r PATTERN k* STREAM s DB -1 -> -ERR DB index is out of range
		KEYP.OUTBOX SET r PATTERN k* STREAM s DB x -> -ERR DB index is out of range
		KEYP.OUTBOX SET r PATTERN k* STREAM s TYPE x -> -ERR TYPE is string, list, set, zset, hash, stream, lease, limit or delay
		KEYP.OUTBOX SET r PATTERN k* STREAM s TYPE list ELEMENTS -> -ERR with ELEMENTS, TYPE is hash, set, zset, stream or limit: elements of other types have no deadlines
		KEYP.OUTBOX SET r PATTERN k* STREAM s MAXLEN 0 -> -ERR MAXLEN is 1 or more
		KEYP.OUTBOX SET r PATTERN k* STREAM s VALUE -1 -> -ERR VALUE is between 0 and 1048576 bytes
		KEYP.OUTBOX SET r PATTERN k* STREAM s VALUE 1048577 -> -ERR VALUE is between 0 and 1048576 bytes
		KEYP.OUTBOX SET r PATTERN k* STREAM s OTHER -> -ERR syntax error: 'OTHER' is no option here
		KEYP.OUTBOX SET "" PATTERN k* STREAM s -> -ERR an outbox's name has 1 to 128 bytes, in UTF-8 and without control characters
		KEYP.OUTBOX SET r PATTERN "" STREAM s -> -ERR an outbox's pattern has 1 to 512 bytes
		KEYP.OUTBOX LIST -> []
		KEYP.OUTBOX GET r -> nil
		KEYP.OUTBOX DEL r -> 0
		KEYP.OUTBOX STREAMS r -> -ERR no such outbox
		KEYP.OUTBOX SET r PATTERN k* STREAM s -> +OK
		KEYP.OUTBOX SET other PATTERN * DB 3 TYPE hash ELEMENTS STREAM s MAXLEN 5 VALUE 10 -> +OK
		KEYP.OUTBOX GET r -> ["name", "r", "pattern", "k*", "db", 0, "type", "any", "elements", 0, "stream", "s", "maxlen", 0, "value", 0, "written", 0, "waiting", 0, "oldest", 0, "lost", 0, "full", 0, "error", ""]
		KEYP.OUTBOX STREAMS r -> ["s"]
		KEYP.OUTBOX DEL r -> 1
		reopen
		KEYP.OUTBOX LIST -> [["name", "other", "pattern", "*", "db", 3, "type", "hash", "elements", 1, "stream", "s", "maxlen", 5, "value", 10, "written", 0, "waiting", 0, "oldest", 0, "lost", 0, "full", 0, "error", ""]]
		MULTI -> +OK
		KEYP.OUTBOX SET r PATTERN k* STREAM s -> +QUEUED
		KEYP.OUTBOX DEL other -> +QUEUED
		EXEC -> [+OK, 1]
		EVAL "return redis.call('KEYP.OUTBOX', 'STREAMS', 'r')" 0 -> ["s"]
		EVAL "return redis.call('KEYP.OUTBOX', 'SET', 'script', 'PATTERN', 'x', 'STREAM', KEYS[1])" 1 s -> +OK
		EVAL "return redis.call('KEYP.OUTBOX', 'DEL', 'script')" 0 -> 1
		COMMAND GETKEYSANDFLAGS KEYP.OUTBOX SET r PATTERN STREAM STREAM s -> [["s", [+RW, +update]]]
		COMMAND GETKEYS KEYP.OUTBOX GET r -> -ERR The command has no key arguments
	`)
}

// TestOutboxReports shows the entries as a client reads them.
func TestOutboxReports(t *testing.T) {
	h := newHarness(t)
	h.run(`
		KEYP.OUTBOX SET r PATTERN k* ELEMENTS STREAM s VALUE 10 -> +OK
		XGROUP CREATE s g 0 MKSTREAM -> +OK
		SET k1 value PX 10 -> +OK
		RPUSH k2 a b -> 2
		PEXPIRE k2 20 -> 1
		HSET k3 f v g longer-than-ten -> 2
		HPEXPIRE k3 30 FIELDS 2 f g -> [1, 1]
		SADD k4 m -> 1
		EXPIREMEMBER k4 m 40 ms -> 1
		SET other v PX 10 -> +OK
	`)
	h.heard()
	h.report(40 * time.Millisecond)
	events := h.heard()
	if !strings.Contains(events, "expired:k1") || strings.Count(events, "xadd:s") != 5 {
		t.Errorf("events: %s", events)
	}
	const wanted = `[["rule", "r", "db", "0", "key", "k1", "type", "string", "deadline", "1700000000010", "removed", "1700000000040", "value", "value"], ` +
		`["rule", "r", "db", "0", "key", "k2", "type", "list", "deadline", "1700000000020", "removed", "1700000000040", "value-bytes", "N"], ` +
		`["rule", "r", "db", "0", "key", "k3", "element", "f", "type", "hash", "deadline", "1700000000030", "removed", "1700000000040", "value", "v"], ` +
		`["rule", "r", "db", "0", "key", "k3", "element", "g", "type", "hash", "deadline", "1700000000030", "removed", "1700000000040", "value", "longer-tha", "value-bytes", "15"], ` +
		`["rule", "r", "db", "0", "key", "k4", "element", "m", "type", "set", "deadline", "1700000000040", "removed", "1700000000040"]]`
	got := regexp.MustCompile(`("list"[^]]*"value-bytes", )"\d+"`).ReplaceAllString(h.reported("s"),
		`$1"N"`)
	if got != wanted {
		t.Errorf("the stream has\n%s\nwant\n%s", got, wanted)
	}
	if got := h.do("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"); strings.Count(got,
		`"key"`) != 5 {
		t.Errorf("a group reads %s", got)
	}
	h.run(`
		KEYP.OUTBOX SET r PATTERN k* STREAM s VALUE 1000 -> +OK
		RPUSH k2 a b -> 2
		PEXPIRE k2 1 -> 1
	`)
	dump := h.do("DUMP", "k2")
	h.report(time.Millisecond)
	if got := h.reported("s"); !strings.Contains(got, `"value", `+dump+`]`) {
		t.Errorf("the value of a list is not what DUMP replied, %s: %s", dump, got)
	}
	if got := h.do("LATENCY", "HISTOGRAM", "lateness|outbox"); !strings.HasPrefix(got,
		`["lateness|outbox", ["calls", 6, `) {
		t.Errorf("LATENCY HISTOGRAM: %s", got)
	}
	if got := h.do("INFO", "expiry"); !strings.Contains(got, "outbox_entries_written:6") ||
		!strings.Contains(got, "outbox_entries_waiting:0") {
		t.Errorf("INFO: %s", got)
	}
}

// TestOutboxPassed: a command that sets a deadline in the past raises Redis's event. The outbox
// reports it as an expiry.
func TestOutboxPassed(t *testing.T) {
	h := newHarness(t)
	h.run(`
		KEYP.OUTBOX SET r PATTERN k* ELEMENTS STREAM s VALUE 10 -> +OK
		SET k1 v -> +OK
		PEXPIREAT k1 5 -> 1
		EXPIRE k1 -1 -> 0
		SET k2 old -> +OK
		SET k2 new PXAT 6 -> +OK
		GET k2 -> nil
		SET k3 v -> +OK
		GETEX k3 PXAT 7 -> "v"
		HSET k4 f v g w h x -> 3
		HPEXPIREAT k4 8 FIELDS 2 f none -> [2, -2]
		HGETEX k4 PXAT 9 FIELDS 1 g -> ["w"]
		HSETEX k4 PXAT 10 FIELDS 1 h new -> 1
		SADD k5 m -> 1
		PEXPIREMEMBERAT k5 m 11 -> 1
		SET src v -> +OK
	`)
	payload := h.dumpOf("src")
	if got := h.raw([]byte("RESTORE"), []byte("k6"), []byte("12"), payload,
		[]byte("ABSTTL")); string(got) != "+OK\r\n" {
		t.Errorf("RESTORE: %s", got)
	}
	h.run(`
		SET k7 v -> +OK
		DEL k7 -> 1
		SET k8 v NX PXAT 13 -> +OK
		MSETEX 1 k9 v PXAT 14 -> 1
		EXISTS k1 k2 k3 k4 k5 k6 k7 k8 k9 -> 0
	`)
	h.run(`
		HSET fields f v g w -> 2
		HPEXPIRE fields 100 FIELDS 1 f -> [1]
		ZADD scores 1.5 m -> 1
		EXPIREMEMBER scores m 100 MS -> 1
	`)
	fields, scores := h.dumpOf("fields"), h.dumpOf("scores")
	h.clock.Set(h.clock.Now() + 200)
	for key, payload := range map[string][]byte{"kf": fields, "kz": scores} {
		if got := h.raw([]byte("RESTORE"), []byte(key), []byte("0"),
			payload); string(got) != "+OK\r\n" {
			t.Errorf("RESTORE %s: %s", key, got)
		}
	}
	h.run(`
		HGETALL kf -> ["g", "w"]
		EXISTS kz -> 0
	`)
	h.report(0)
	var got []string
	for _, m := range regexp.MustCompile(`"key", "(k.)"(?:, "element", "(.)")?, "type", "(\w+)", "deadline", "(\d+)", "removed", "\w+"(?:, "value", "([\w.]+)")?`).FindAllStringSubmatch(h.reported("s"), -1) {
		got = append(got, strings.Join(m[1:], "/"))
	}
	slices.Sort(got) // the mover may have come between
	want :=
		"k1//string/5/v k2//string/6/new k3//string/7/v k4/f/hash/8/v k4/g/hash/9/w k4/h/hash/10/new k5/m/set/11/ k6//string/12/v k8//string/13/v k9//string/14/v" +
			fmt.Sprintf(" kf/f/hash/%d/v kz/m/zset/%[1]d/1.5", int64(epoch)+100)
	if text := strings.Join(got, " "); text != want {
		t.Errorf("reported: %s\nwant: %s\n%s", text, want, h.reported("s"))
	}
}

// dumpOf returns the payload that DUMP replies.
func (h *harness) dumpOf(key string) []byte {
	reply := h.raw([]byte("DUMP"), []byte(key))
	_, body, _ := strings.Cut(string(reply), "\r\n")
	return []byte(strings.TrimSuffix(body, "\r\n"))
}

// TestOutboxRefuses: while too many entries wait, commands that may grow keys of the pattern are
// refused. All other commands run.
func TestOutboxRefuses(t *testing.T) {
	h := newHarness(t)
	const refused = "-OUTBOX too many entries of the outbox 'r' wait to be written to its stream. Commands that may grow keys of its pattern are refused until they are written."
	h.run(`
		CONFIG SET outbox-backlog 1 -> +OK
		SET s "no stream" -> +OK
		KEYP.OUTBOX SET r PATTERN k* STREAM s -> +OK
		SET k1 v PX 1 -> +OK
		SET k2 v PX 1 -> +OK
		HSET k3 f v -> 1
	`)
	h.report(time.Millisecond)
	h.run(`
		SET k1 v -> ` + refused + `
		MSET x v k2 v -> ` + refused + `
		HSET k3 g v -> ` + refused + `
		EVAL "return redis.call('SET', KEYS[1], 'v')" 1 k1 -> ` + refused + ` script: 219bb33e7c6773035c720850383aa2ebb63d9904, on @user_script:1.
		KEYP.LEASE ACQUIRE k4 owner 1000 -> ` + refused + `
		KEYP.LIMIT TAKE k4 1 TOKENS 5 1 1000 -> ` + refused + `
		CL.THROTTLE k4 5 1 1 -> ` + refused + `
		KEYP.DELAY ADD k4 j 0 v -> ` + refused + `
		GET k3 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		HDEL k3 f -> 1
		SET x v -> +OK
		MULTI -> +OK
		SET x v -> +QUEUED
		GET k1 -> +QUEUED
		EXEC -> [+OK, nil]
		MULTI -> +OK
		SELECT 1 -> +QUEUED
		SET k1 v -> +QUEUED
		EXEC -> [+OK, +OK]
		select 0
		MULTI -> +OK
		SET k1 v -> +QUEUED
		EXEC -> -EXECABORT Transaction discarded because of: ` + refused[1:] + `
		select 1
		SET k1 v -> +OK
		select 0
	`)
	h.env.Outboxes.Move()
	if r := h.env.Outboxes.List()[0]; r.Waiting != 2 || r.Failure == "" || !r.Full {
		t.Errorf("%+v", r)
	}
	if got := h.do("KEYP.OUTBOX", "GET", "r"); !strings.Contains(got,
		`"waiting", 2, "oldest", 1700000000001, "lost", 0, "full", 1, "error", "the stream's key holds another type"`) {
		t.Errorf("GET: %s", got)
	}
	h.run(`
		DEL s -> 1
	`)
	h.report(time.Second)
	h.run(`
		XLEN s -> 2
		SET k1 v -> +OK
	`)
}

// TestOutboxReroutes: the pattern of a rule also matches the names of streams. Such a rule can
// still be replaced while writes are refused.
func TestOutboxReroutes(t *testing.T) {
	h := newHarness(t)
	h.run(`
		CONFIG SET outbox-backlog 1 -> +OK
		SET s "no stream" -> +OK
		KEYP.OUTBOX SET r PATTERN * STREAM s -> +OK
		SET k1 v PX 1 -> +OK
		SET k2 v PX 1 -> +OK
	`)
	h.report(time.Millisecond)
	h.run(`
		KEYP.OUTBOX SET other PATTERN k* STREAM t -> +OK
		MULTI -> +OK
		KEYP.OUTBOX SET r PATTERN * STREAM t -> +QUEUED
		EXEC -> [+OK]
		EVAL "return redis.call('KEYP.OUTBOX', 'SET', 'r', 'PATTERN', '*', 'STREAM', 't')" 0 -> +OK
		KEYP.OUTBOX SET r PATTERN * STREAM t -> +OK
	`)
	h.report(time.Second)
	h.run(`
		XLEN t -> 2
		SET k1 v -> +OK
	`)
}

// TestOutboxRightsOfOthers: a user who replaces or deletes a rule needs the same rights as the one
// who made it. Otherwise its waiting entries would go to a stream that the user can read.
func TestOutboxRightsOfOthers(t *testing.T) {
	h := newHarness(t)
	const others = "-NOPERM the outbox of that name needs the right to read the keys of its pattern, and to write its stream"
	h.run(`
		SET s "no stream" -> +OK
		KEYP.OUTBOX SET r PATTERN secret* STREAM s VALUE 100 -> +OK
		SET secret data PX 1 -> +OK
		ACL SETUSER u on nopass +@all ~u:* -> +OK
		ACL SETUSER reader on nopass +@all ~u:* %R~secret* -> +OK
		ACL SETUSER writer on nopass +@all ~u:* %R~secret* %W~s -> +OK
	`)
	h.report(time.Millisecond)
	for _, user := range []string{"u", "reader"} {
		h.run("user " + user + `
			KEYP.OUTBOX SET r PATTERN u:* STREAM u:s -> ` + others + `
			KEYP.OUTBOX DEL r -> ` + others + `
			KEYP.OUTBOX SET ` + user + ` PATTERN u:* STREAM u:s -> +OK
			KEYP.OUTBOX SET ` + user + ` PATTERN u:a* STREAM u:t -> +OK
			KEYP.OUTBOX DEL ` + user + ` -> 1
		`)
	}
	h.run(`
		user writer
		KEYP.OUTBOX SET r PATTERN u:* STREAM u:s -> +OK
	`)
	h.report(time.Second)
	h.run(`
		XLEN u:s -> 1
		KEYP.OUTBOX DEL r -> 1
	`)
}

// TestOutboxRights: a user who makes an outbox needs the rights to write its stream and to read the
// keys of its pattern.
func TestOutboxRights(t *testing.T) {
	h := newHarness(t)
	for i, c := range []struct {
		keys string
		ok   bool
	}{
		{"~*", true}, {"%R~* %W~s", true}, {"%W~* %R~k:*", true}, {"%W~s %R~k:*", true},
		{"%RW~s %R~k:*", true}, {"%RW~s %R~k:a*", true},
		{"%RW~s %R~k:a", false}, {"%RW~s %R~*:a*", false}, {"%RW~s %W~*", false},
		{"%R~* %R~s", false}, {"%RW~s %R~k:[a]*", false},
	} {
		h.do("ACL", "SETUSER", fmt.Sprint("u", i), "reset", "on", "nopass", "+@all")
		h.do(append([]string{"ACL", "SETUSER", fmt.Sprint("u", i)}, strings.Fields(c.keys)...)...)
		h.run("user " + fmt.Sprint("u", i))
		name := fmt.Sprint("r", i) // nobody else's, which would need rights to it, too
		got := h.do("KEYP.OUTBOX", "SET", name, "PATTERN", "k:a*", "STREAM", "s")
		if ok := got == "+OK"; ok != c.ok || !ok && !strings.HasPrefix(got, "-NOPERM") {
			t.Errorf("with %s: %s", c.keys, got)
		}
	}
	h.run(`
		user default
		ACL SETUSER reader on nopass +@read +@keyp -@admin ~* -> +OK
		user reader
		KEYP.OUTBOX GET none -> nil
		KEYP.OUTBOX SET r PATTERN k STREAM s -> -NOPERM User reader has no permissions to run the 'keyp.outbox|set' command
		KEYP.OUTBOX DEL r -> -NOPERM User reader has no permissions to run the 'keyp.outbox|del' command
		user default
	`)
}

// TestOutboxWakes: the entries of the outbox reach clients that wait for the stream, watch it, or
// track it.
func TestOutboxWakes(t *testing.T) {
	h := newHarness(t)
	h.run(`
		KEYP.OUTBOX SET r PATTERN k* STREAM s -> +OK
		SET k v PX 10 -> +OK
		WATCH s -> +OK
		MULTI -> +OK
		PING -> +QUEUED
	`)
	h.report(10 * time.Millisecond)
	h.run(`
		EXEC -> nilarray
	`)
	var changed []string
	h.store.Observe(func(list []storage.Change) {
		for _, c := range list {
			changed = append(changed, fmt.Sprint(c.DB, string(c.Key)))
		}
	})
	h.run("SET k v PX 10 -> +OK")
	changed = nil
	h.report(10 * time.Millisecond)
	h.store.Observe(nil)
	if got := strings.Join(changed, " "); got != "0k 0s" {
		t.Errorf("changed: %s", got)
	}
}
