package commands

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyp/storage/object"
	"keyp/ttl"
)

const dayMs = 24 * 60 * 60 * 1000

// If the wall clock was wrong and is set right, deadlines relative to now (EXPIRE) must move, and
// absolute ones (EXPIREAT) must not. guardedDeadlines are commands that give the key k, or its
// element f, a deadline. It is an hour from now, or an instant: %[1]d for seconds, %[2]d for
// milliseconds.
var guardedDeadlines = []struct{ before, give, ttl string }{
	{"", "SET k v EX 3600", "PTTL k"},
	{"", "SET k v PX 3600000", "PTTL k"},
	{"", "SETEX k 3600 v", "PTTL k"},
	{"", "PSETEX k 3600000 v", "PTTL k"},
	{"", "MSETEX 2 k v j v EX 3600", "PTTL k"},
	{"", "INCREX k EX 3600", "PTTL k"},
	{"", "INCREX k BYFLOAT 1.5 EX 3600", "PTTL k"},
	{"", "RESTORE k 3600000 {dump}", "PTTL k"},
	{"SET k v", "GETEX k EX 3600", "PTTL k"},
	{"SET k v", "EXPIRE k 3600", "PTTL k"},
	{"RPUSH k v", "PEXPIRE k 3600000", "PTTL k"},
	{"HSET k f v", "HEXPIRE k 3600 FIELDS 1 f", "HPTTL k FIELDS 1 f"},
	{"HSET k f v", "HPEXPIRE k 3600000 FIELDS 1 f", "HPTTL k FIELDS 1 f"},
	{"HSET k f v", "HGETEX k EX 3600 FIELDS 1 f", "HPTTL k FIELDS 1 f"},
	{"", "HSETEX k PX 3600000 FIELDS 1 f v", "HPTTL k FIELDS 1 f"},
	{"SADD k f", "EXPIREMEMBER k f 3600", "PTTL k f"},
	{"ZADD k 1 f", "EXPIREMEMBER k f 3600000 ms", "PTTL k f"},
	{"", "KEYP.LEASE ACQUIRE k o 3600000", "PTTL k"},
	{"", "KEYP.LEASE ACQUIRE k o 3000000 DELAY 600000", "PTTL k"},
	{"KEYP.LEASE ACQUIRE k o 1000", "KEYP.LEASE ACQUIRE k o 3600000", "PTTL k"},
	{"KEYP.LEASE ACQUIRE k o 1000 DELAY 600000", fmt.Sprintf("KEYP.LEASE RENEW k %d 3000000",
		epoch*1000+1), "PTTL k"},

	{"", "SET k v EXAT %[1]d", "PTTL k"},
	{"", "SET k v PXAT %[2]d", "PTTL k"},
	{"", "MSETEX 1 k v EXAT %[1]d", "PTTL k"},
	{"", "INCREX k PXAT %[2]d", "PTTL k"},
	{"", "RESTORE k %[2]d {dump} ABSTTL", "PTTL k"},
	{"SET k v", "GETEX k PXAT %[2]d", "PTTL k"},
	{"SET k v", "EXPIREAT k %[1]d", "PTTL k"},
	{"RPUSH k v", "PEXPIREAT k %[2]d", "PTTL k"},
	{"HSET k f v", "HEXPIREAT k %[1]d FIELDS 1 f", "HPTTL k FIELDS 1 f"},
	{"HSET k f v", "HPEXPIREAT k %[2]d FIELDS 1 f", "HPTTL k FIELDS 1 f"},
	{"HSET k f v", "HGETEX k EXAT %[1]d FIELDS 1 f", "HPTTL k FIELDS 1 f"},
	{"", "HSETEX k PXAT %[2]d FIELDS 1 f v", "HPTTL k FIELDS 1 f"},
	{"SADD k f", "EXPIREMEMBERAT k f %[1]d", "PTTL k f"},
	{"ZADD k 1 f", "PEXPIREMEMBERAT k f %[2]d", "PTTL k f"},
}

// TestClockConfirmOfCommands: confirming a step of the clock moves exactly those deadlines that
// commands have counted from the guarded time. This includes deadlines at the same instant in one
// transaction. It also includes those of keys that were changed, renamed, copied or moved since.
func TestClockConfirmOfCommands(t *testing.T) {
	for _, g := range guardedDeadlines {
		relative := !strings.Contains(g.give, "%")
		for how, give := range map[string][]string{
			"alone":   {"%s"},
			"EXEC":    {"MULTI", "SET earlier v EX 3600", "SET earlier v PXAT %[2]d", "%s", "EXEC"},
			"script":  {"EVAL \"return redis.call(unpack(ARGV))\" 1 k %s"},
			"kept":    {"%s", "kept"},
			"renamed": {"%s", "RENAME k {k}2", "RENAME {k}2 k"},
			"copied":  {"%s", "COPY k {k}2", "DEL k", "COPY {k}2 k"},
			"moved":   {"%s", "MOVE k 1", "SWAPDB 0 1", "SWAPDB 1 2"},
		} {
			t.Run(how+" "+g.give, func(t *testing.T) {
				h := newHarness(t)
				h.store.SetClockGuard(10*time.Minute, time.Hour)
				h.do("SET", "source", "v")
				payload := h.dump("source")
				h.clock.Set(h.clock.Now() + dayMs)
				guarded := h.store.Now()
				// In a transaction, this absolute deadline is at the same instant as a relative
				// one. They must be distinguished.
				at := guarded + 3600_000
				left := "3600000"
				if !relative {
					if how != "EXEC" {
						at = guarded + 2*dayMs
					}
					left = fmt.Sprint(at - guarded - dayMs)
				}
				command := func(text string) {
					if strings.Contains(text, "%[") {
						text = fmt.Sprintf(text, at/1000, at)
					}
					args := strings.Fields(text)
					for i := range args {
						if args[i] == "{dump}" {
							args[i] = payload
						}
					}
					if strings.HasPrefix(text, "EVAL") {
						args = append([]string{"EVAL", "return redis.call(unpack(ARGV))", "1", "k"},
							args[5:]...)
					}
					if got := h.do(args...); strings.HasPrefix(got, "-") {
						t.Fatalf("%q: %s", args, got)
					}
				}
				if g.before != "" {
					command(g.before)
				}
				for _, step := range give {
					switch {
					case step == "kept" && strings.HasPrefix(g.ttl, "HPTTL"):
						command("HINCRBY k other 1")
					case step == "kept" && g.ttl == "PTTL k" &&
						strings.HasPrefix(h.do("TYPE", "k"), "+string"):
						command("SET k 1 KEEPTTL")
						command("APPEND k 2")
					case step == "kept":
					default:
						command(strings.ReplaceAll(step, "%s", g.give))
					}
				}
				if got := h.do("KEYP.CLOCK", "CONFIRM"); got != "+OK" {
					t.Fatal(got)
				}
				got := strings.Trim(h.do(strings.Fields(g.ttl)...), "[]:")
				if relative || how != "EXEC" {
					if got != left {
						t.Errorf("%s ms are left, want %s", got, left)
					}
				} else if got != "-2" {
					t.Errorf("%s ms are left of what was due before the wall clock's time", got)
				}
			})
		}
	}
}

// TestClockConfirmAtTheEndOfTime: confirming a step of the clock moves no deadline past the last
// possible instant. A deadline at that instant stays.
func TestClockConfirmAtTheEndOfTime(t *testing.T) {
	h := newHarness(t)
	h.store.SetClockGuard(10*time.Minute, time.Hour)
	h.clock.Set(h.clock.Now() + dayMs)
	most := fmt.Sprint(math.MaxInt64 - h.store.Now())
	lease := fmt.Sprint(math.MaxInt64 - object.MaxDelay - h.store.Now())
	for _, give := range [][]string{
		{"SET", "k", "v", "PX", most},
		{"HSET", "h", "f", "v"},
		{"HPEXPIRE", "h", fmt.Sprint(ttl.MaxField - h.store.Now()), "FIELDS", "1", "f"},
		{"KEYP.LEASE", "ACQUIRE", "l", "o", lease, "DELAY", fmt.Sprint(object.MaxDelay)},
		{"KEYP.CLOCK", "CONFIRM"},
	} {
		if got := h.do(give...); strings.HasPrefix(got, "-") {
			t.Fatalf("%q: %s", give, got)
		}
	}
	h.run(fmt.Sprintf(`
		GET k -> "v"
		PEXPIRETIME k -> 9223372036854775807
		HGET h f -> "v"
		KEYP.LEASE INFO l -> ["state", "held", "owner", "o", "token", 1700000000000001, "deadline", %[1]d, "delay", %[2]d, "waiting", 0, "queue", []]
		reopen
		PEXPIRETIME k -> 9223372036854775807
		HGET h f -> "v"
		KEYP.LEASE CHECK l 1700000000000001 -> +OK
	`, math.MaxInt64-object.MaxDelay, object.MaxDelay))
}

// TestClockConfirmOfPolicies: confirming a step moves the deadlines that policies have counted from
// now. No policy shortens or refuses the move.
func TestClockConfirmOfPolicies(t *testing.T) {
	h := newHarness(t)
	h.store.SetClockGuard(10*time.Minute, time.Hour)
	h.run(`
		does KEYP.POLICY SET default PATTERN default* ENFORCE DEFAULT 1h
		does KEYP.POLICY SET cut PATTERN cut* ENFORCE MAX 2h CUT
		does KEYP.POLICY SET refuse PATTERN refuse* ENFORCE MAX 2h REFUSE
		does KEYP.POLICY SET slide PATTERN slide* ENFORCE SLIDE 1h LIMIT 3h
		does KEYP.POLICY SET jitter PATTERN jitter* ENFORCE JITTER 50
		SET slide v EX 600 -> +OK
	`)
	h.clock.Set(h.clock.Now() + dayMs)
	at := h.store.Now() + dayMs + 1800_000
	// The loop looks for a key whose deadline the policy moves to before the wall clock's time. The
	// jitter differs from key to key.
	early := ""
	for i := 0; early == ""; i++ {
		name := fmt.Sprint("jitter-early", i)
		h.do("SET", name, "v", "PXAT", fmt.Sprint(at))
		if left, err := strconv.Atoi(h.do("PTTL", name)); err != nil {
			t.Fatal(err)
		} else if left < dayMs {
			early = name
		} else {
			h.do("DEL", name)
		}
	}
	h.run(`
		SET default v -> +OK
		HSET default2 f v -> 1
		RPUSH default3 v -> 1
		SET cut v EX 100000 -> +OK
		SET cut2 v PXAT 4102444800000 -> +OK
		SET refuse v EX 7200 -> +OK
		HSET refuse2 f v -> 1
		HEXPIRE refuse2 7200 FIELDS 1 f -> [1]
		HSET old f v -> 1
		HEXPIRE old 7200 FIELDS 1 f -> [1]
		does KEYP.POLICY SET old PATTERN old ENFORCE DEFAULT 1h
		GET slide -> "v"
		SET slide2 v EX 600 -> +OK
		SET jitter v EX 3600 -> +OK
		MSETEX 2 jitter3 v jitter4 v EX 3600 -> 1
	`)
	keys := []string{"default", "default2", "default3", "cut", "cut2", "refuse", "slide", "slide2",
		"jitter", "jitter3", "jitter4"}
	var before []string
	for _, k := range keys {
		before = append(before, h.do("PTTL", k))
	}
	h.run(`
		PTTL default -> 3600000
		PTTL default2 -> 3600000
		PTTL default3 -> 3600000
		PTTL cut -> 7200000
		PTTL cut2 -> 7200000
		PTTL slide -> 3600000
		KEYP.CLOCK CONFIRM -> +OK
		HPTTL refuse2 FIELDS 1 f -> [7200000]
		HPTTL old FIELDS 1 f -> [7200000]
		PTTL old -> -1
	`)
	if got := h.do("EXISTS", early); got != "0" {
		t.Errorf("the key whose deadline has come is there: %s", got)
	}
	for i, k := range keys {
		if got := h.do("PTTL", k); got != before[i] {
			t.Errorf("%s: %s ms are left, before %s", k, got, before[i])
		}
	}
	h.run(`
		GET slide2 -> "v"
		PTTL slide2 -> 3600000
	`)
}

// TestKeypClock: KEYP.CLOCK shows and ends the guard, for users with the right to do so.
func TestKeypClock(t *testing.T) {
	h := newHarness(t)
	h.store.SetClockGuard(10*time.Minute, time.Hour)
	h.run(`
		KEYP.CLOCK CONFIRM -> -ERR time is not guarded: there is no step of the clock to confirm
		MULTI -> +OK
		KEYP.CLOCK CONFIRM -> -ERR Command not allowed inside a transaction
		DISCARD -> +OK
		EVAL "return redis.call('KEYP.CLOCK', 'CONFIRM')" 0 -> -ERR This Redis command is not allowed from script script: 9d949a28ef4e84672e90431b8ba5ffbf5a63de2f, on @user_script:1.
		ACL DRYRUN default KEYP.CLOCK CONFIRM -> +OK
		ACL SETUSER reader on nopass ~* +@keyp -@admin -> +OK
		ACL DRYRUN reader KEYP.CLOCK INFO -> +OK
		COMMAND GETKEYS KEYP.CLOCK INFO -> -ERR The command has no key arguments
	`)
	if got := h.do("ACL", "CAT", "keyp"); !strings.Contains(got, "keyp.clock|confirm") ||
		!strings.Contains(got, "keyp.clock|info") {
		t.Errorf("ACL CAT keyp: %s", got)
	}
	if got := h.do("ACL", "DRYRUN", "reader", "KEYP.CLOCK", "CONFIRM"); !strings.Contains(got,
		"no permissions") {
		t.Errorf("a user without @admin: %s", got)
	}
	if got := h.do("COMMAND", "DOCS", "KEYP.CLOCK"); !strings.Contains(got, "keyp.clock|confirm") {
		t.Errorf("COMMAND DOCS: %s", got)
	}
	h.do("SET", "k", "v", "EX", "3600")
	h.clock.Set(h.clock.Now() + dayMs)
	guarded := h.store.Now()
	if got, want := h.do("KEYP.CLOCK", "INFO"),
		fmt.Sprintf(`["state", "guarded", "wall", %d, "time", %d, "ahead", %d, "since", %d, "patience", %d]`,
			guarded+dayMs, guarded, dayMs, guarded, 3600_000); got != want {
		t.Errorf("INFO: %s, want %s", got, want)
	}
	h.run(`
		EXISTS k -> 1
		PTTL k -> 3600000
		KEYP.CLOCK CONFIRM -> +OK
		EXISTS k -> 0
	`)
}
