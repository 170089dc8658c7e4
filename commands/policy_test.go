package commands

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/storage/wal"
	"keyp/ttl"
)

// keyState is the state of a key, with the parts that a policy may change and those that it may
// not.
type keyState struct {
	deadline int64
	idle     int64  // seconds
	value    string // a digest, and when the first element is due
	own      bool   // policies leave its deadline alone
}

// keyspace returns all keys that have not expired, by "database:name".
func (h *harness) keyspace() map[string]keyState {
	h.t.Helper()
	all := map[string]keyState{}
	for db := range h.store.Databases() {
		var names [][]byte
		err := h.store.View.Walk(db, func(name []byte, _ object.Type) bool {
			names = append(names, bytes.Clone(name))
			return true
		})
		if err != nil {
			h.t.Fatalf("%v", err)
		}
		txn := h.store.NewTxn()
		for _, name := range names {
			k := h.store.Key(db, name)
			if err := h.env.beginBeside(txn, []storage.Key{k}); err != nil {
				h.t.Fatalf("%v", err)
			}
			if item, ok := txn.Peek(k); ok {
				var digest dataDigest // fields and members have no order
				if err := digest.addItem(item); err != nil {
					h.t.Fatalf("%v", err)
				}
				all[fmt.Sprintf("%d:%s", db, name)] = keyState{item.Deadline(),
					txn.Now()/1000 - int64(item.Access()), digest.text() + fmt.Sprint(item.Due()),
					item.Type().OwnDeadline()}
			}
			txn.End()
		}
	}
	return all
}

// governed returns a run of random commands in which each database has a policy. It leaves out
// RESTORE, to which policies do not apply. It also leaves out the command that makes an outbox,
// because no command writes the outbox's stream.
func governed(t *testing.T, seed uint64, policy string) *fuzzed {
	data := make([]byte, 1<<16)
	rng := rand.New(rand.NewPCG(seed, 16))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	f := newFuzzed(t, data)
	f.specs = slices.DeleteFunc(f.specs, func(s *Spec) bool {
		return s.full == "restore" || s.full == "keyp.policy|set" || s.full == "keyp.policy|del" ||
			s.full == "keyp.outbox|set"
	})
	f.govern(policy)
	return f
}

// policyEvents are the events that a refused command must not raise. Misses are not among them,
// because the command may have read.
const policyEvents = storage.EventGeneric | storage.EventString | storage.EventList |
	storage.EventHash | storage.EventSet | storage.EventZSet | storage.EventStream |
	storage.EventExpired | storage.EventNew | storage.EventOverwritten | storage.EventTypeChanged

// govern gives each database a policy.
func (f *fuzzed) govern(policy string) {
	for db := range f.store.Databases() {
		line := fmt.Sprintf("KEYP.POLICY SET of:%d PATTERN * DB %d %s", db, db, policy)
		if got := f.all(line); got != "+OK" {
			f.t.Fatalf("%s: %s", line, got)
		}
	}
}

// fill creates the keys that random calls use, if the policies allow it.
func (f *fuzzed) fill() {
	for _, line := range strings.Split(strings.TrimSpace(fuzzStore), "\n") {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "CONFIG") {
			f.all(line)
		}
	}
}

// TestPoliciesOnEveryCommand sends random calls of every command. After each call all keys comply
// with the policy. A refused command has changed nothing, and a restart changes nothing.
func TestPoliciesOnEveryCommand(t *testing.T) {
	keepLimits(t)
	const most = 200_000
	for _, tt := range []struct {
		name, policy string
		filled       string // a policy for the time while there are no keys yet
		broken       func(deadline, now int64) bool
	}{
		{"default and cut", "ENFORCE DEFAULT 100s MAX 200s CUT JITTER 20", "",
			func(deadline, now int64) bool {
				return deadline == ttl.None || deadline > now+most
			}},
		{"required and refused", "ENFORCE MAX 200s REFUSE REQUIRE",
			"ENFORCE DEFAULT 100s MAX 200s CUT", func(deadline, now int64) bool {
				return deadline == ttl.None || deadline > now+most
			}},
	} {
		for seed := range randomRuns {
			t.Run(fmt.Sprintf("%s %d", tt.name, seed), func(t *testing.T) {
				f := governed(t, seed, tt.policy)
				f.all("FLUSHALL")
				if tt.filled != "" {
					f.govern(tt.filled)
				}
				f.fill()
				f.govern(tt.policy)
				refused := 0
				for range testkit.Cases(200, 400) {
					if f.One(60) {
						before := f.keyspace()
						f.save = f.One(2)
						f.reopen()
						f.connect()
						if after := f.keyspace(); !maps.EqualFunc(before, after, sameValue) {
							f.fail("a restart changes %v to %v", before, after)
						}
					}
					if f.One(10) {
						f.clock.Advance(time.Duration(f.N(30_000)) * time.Millisecond)
						f.store.Reap() // else a command that is refused reports what is due
						f.fill()
					}
					before := f.keyspace()
					f.store.SetEvents(policyEvents) // which CONFIG SET may have changed
					f.heard()
					switch f.N(6) {
					case 0:
						f.transaction()
					case 1:
						f.send(append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"},
							f.call()...))
					default:
						f.send(f.call())
					}
					after := f.keyspace()
					for name, k := range after {
						if !k.own && tt.broken(k.deadline, f.clock.Now()) {
							f.fail("%s has the deadline %d, now it is %d", name,
								k.deadline, f.clock.Now())
						}
					}
					if reply := f.ctx.Out.Buf; bytes.HasPrefix(reply, []byte("-POLICY")) {
						refused++
						if events := f.heard(); !maps.EqualFunc(before, after, sameValue) ||
							events != "" {
							f.fail("is refused, raises %q, and changes\n%v\nto\n%v",
								events, before, after)
						}
					}
					if conn := f.client.Conn.(*fakeConn); conn.killed || f.client.Closing ||
						f.client.queue != nil || f.One(24) {
						f.connect()
					}
				}
				if f.Over() {
					t.Error("the last commands were not random")
				}
				t.Logf("%d commands were refused", refused)
			})
		}
	}
}

func sameValue(a, b keyState) bool { return a.deadline == b.deadline && a.value == b.value }

// TestEveryReadSlides: a command that reads extends the deadlines of exactly those keys whose idle
// time it resets.
func TestEveryReadSlides(t *testing.T) {
	keepLimits(t)
	f := governed(t, 1, "ENFORCE SLIDE 1000s")
	slid := map[string]bool{}
	for _, spec := range f.specs {
		if !spec.Is(ReadOnly) || spec.full == "keyp.policy|test" {
			continue
		}
		for range 20 {
			f.connect()
			f.all("FLUSHALL")
			f.fill()
			for name := range f.keyspace() {
				f.all(fmt.Sprintf("EXPIRE %q 1000", name[strings.IndexByte(name, ':')+1:]))
			}
			f.clock.Advance(150 * time.Second)
			before := f.keyspace()
			f.heard()
			f.send(f.of(spec))
			for name, k := range f.keyspace() {
				want := before[name].deadline
				if k.idle == 0 {
					want = f.clock.Now() + 1_000_000
					slid[spec.full] = true
				}
				if k.deadline != want {
					f.fail("%s was idle for %d s and is for %d s, its deadline was %d and is %d, now it is %d",
						name, before[name].idle, k.idle, before[name].deadline,
						k.deadline, f.clock.Now())
				}
			}
		}
	}
	t.Logf("%d commands read: %v", len(slid), slices.Sorted(maps.Keys(slid)))
}

// TestPolicyCommands runs the subcommands and checks their errors.
func TestPolicyCommands(t *testing.T) {
	h := newHarness(t)
	h.run(`
		KEYP.POLICY LIST -> []
		KEYP.POLICY GET none -> nil
		KEYP.POLICY DEL none -> 0
		KEYP.POLICY TEST k -> ["policies", [], "ttl", -1]
		KEYP.POLICY APPLY none -> -ERR no such policy
		KEYP.POLICY SET -> -ERR wrong number of arguments for 'keyp.policy|set' command
		KEYP.POLICY SET a -> -ERR a policy needs PATTERN
		KEYP.POLICY SET a PATTERN * -> -ERR a policy needs at least one of DEFAULT, MAX, JITTER, SLIDE, REQUIRE and MAXAGE
		KEYP.POLICY SET a PATTERN "" REQUIRE -> -ERR a policy's pattern has 1 to 512 bytes
		KEYP.POLICY SET a PATTERN * WARN -> -ERR a policy needs at least one of DEFAULT, MAX, JITTER, SLIDE, REQUIRE and MAXAGE
		KEYP.POLICY SET a DEFAULT 1d ENFORCE -> -ERR a policy needs PATTERN
		KEYP.POLICY SET "" PATTERN * REQUIRE -> -ERR a policy's name has 1 to 128 bytes, in UTF-8 and without control characters
		KEYP.POLICY SET "a\r\n+OK" PATTERN * REQUIRE -> -ERR a policy's name has 1 to 128 bytes, in UTF-8 and without control characters
		KEYP.POLICY SET "a\xff" PATTERN * REQUIRE -> -ERR a policy's name has 1 to 128 bytes, in UTF-8 and without control characters
		KEYP.POLICY SET a PATTERN * DEFAULT 0 -> -ERR DEFAULT is a positive number of milliseconds, or has a unit: ms, s, m, h or d
		KEYP.POLICY SET a PATTERN * DEFAULT 1.5h -> -ERR DEFAULT is a positive number of milliseconds, or has a unit: ms, s, m, h or d
		KEYP.POLICY SET a PATTERN * DEFAULT 9223372036854775807d -> -ERR DEFAULT is a positive number of milliseconds, or has a unit: ms, s, m, h or d
		KEYP.POLICY SET a PATTERN * MAX 10 -> -ERR MAX needs CUT or REFUSE
		KEYP.POLICY SET a PATTERN * JITTER 91 -> -ERR JITTER is between 1 and 90 percent
		KEYP.POLICY SET a PATTERN * JITTER 0 -> -ERR JITTER is between 1 and 90 percent
		KEYP.POLICY SET a PATTERN * SLIDE 10 LIMIT 9 -> -ERR LIMIT must not be shorter than SLIDE
		KEYP.POLICY SET a PATTERN * DEFAULT 10 MAX 9 CUT -> -ERR DEFAULT, SLIDE and LIMIT must not be longer than MAX
		KEYP.POLICY SET a PATTERN * DB 16 REQUIRE -> -ERR DB index is out of range
		KEYP.POLICY SET a PATTERN * REQUIRE NONSENSE -> -ERR syntax error: 'NONSENSE' is no option here
		KEYP.POLICY SET sessions PATTERN session:* ENFORCE DEFAULT 30m MAX 1d CUT -> +OK
		KEYP.POLICY SET all PATTERN * JITTER 10 REQUIRE -> +OK
		KEYP.POLICY SET other PATTERN * DB 1 ENFORCE MAX 90s REFUSE -> +OK
		KEYP.POLICY GET sessions -> ["name", "sessions", "pattern", "session:*", "db", 0, "mode", "ENFORCE", "over", "CUT", "require", 0, "default", 1800000, "max", 86400000, "jitter", 0, "slide", 0, "limit", 0, "defaulted", 0, "cut", 0, "jittered", 0, "refused", 0, "slid", 0]
		KEYP.POLICY TEST session:1 -> ["policies", ["sessions", "all"], "ttl", 1800000]
		KEYP.POLICY TEST user:1 -> ["policies", ["all"], "ttl", -1]
		SET session:1 x -> +OK
		PTTL session:1 -> 1800000
		events -> set:session:1 expire:session:1
		SET session:1 x EX 100000 -> +OK
		PTTL session:1 -> 86400000
		PERSIST session:1 -> 1
		PTTL session:1 -> 1800000
		RPUSH session:l a -> 1
		PTTL session:l -> 1800000
		advance 10s
		RPUSH session:l b -> 2
		PTTL session:l -> 1790000
		SET user:1 x -> +OK
		PTTL user:1 -> -1
		reopen
		PTTL session:l -> 1790000
		KEYP.POLICY TEST session:1 -> ["policies", ["sessions", "all"], "ttl", 1800000]
		SET session:2 x -> +OK
		PTTL session:2 -> 1800000
		select 1
		SET k v EX 90 -> +OK
		SET k w EX 91 -> -POLICY the policy 'other' allows a time to live of 90000 ms at most
		GET k -> "v"
		SET k w -> +OK
		TTL k -> -1
		EXPIRE k 91 -> -POLICY the policy 'other' allows a time to live of 90000 ms at most
		KEYP.POLICY DEL other -> 1
		EXPIRE k 91 -> 1
		reopen
		select 1
		EXPIRE k 92 -> 1
		KEYP.POLICY SET a PATTERN * DB 1 ENFORCE REQUIRE -> +OK
		SET new v -> -POLICY the policy 'a' requires a deadline
		MSET k v new v -> -POLICY the policy 'a' requires a deadline
		TTL k -> 92
		HSET new f v -> -POLICY the policy 'a' requires a deadline
		EXISTS new -> 0
		SET new v EX 10 -> +OK
		PERSIST new -> -POLICY the policy 'a' requires a deadline
		SELECT 0 -> +OK
		MOVE user:1 1 -> -POLICY the policy 'a' requires a deadline
	`)
}

// TestWarningPolicy: a policy that only warns changes nothing, and counts what it would do.
func TestWarningPolicy(t *testing.T) {
	var log strings.Builder
	h := &harness{t: t, dir: t.TempDir(), clock: clock.NewFake(epoch), save: true,
		sync: wal.No, log: &log}
	h.open()
	t.Cleanup(h.close)
	h.run(`
		KEYP.POLICY SET p PATTERN * DEFAULT 100s MAX 200s CUT JITTER 50 SLIDE 150s -> +OK
		SET a v -> +OK
		PTTL a -> -1
		SET b v EX 300 -> +OK
		PTTL b -> 300000
		SET c v EX 100 -> +OK
		advance 60s
		GET c -> "v"
		PTTL c -> 40000
		KEYP.POLICY SET r PATTERN r:* MAX 200s REFUSE REQUIRE -> +OK
		SET r:1 v -> +OK
		SET r:2 v EX 201 -> +OK
		HSET r:3 f v -> 1
		TTL r:1 -> -1
	`)
	for _, want := range []string{`"defaulted", 1`, `"cut", 1`, `"jittered", 3`, `"slid", 1`} {
		if got := h.do("KEYP.POLICY", "GET", "p"); !strings.Contains(got, want) {
			t.Errorf("it counts %s, want %s", got, want)
		}
	}
	if got := h.do("KEYP.POLICY", "GET", "r"); !strings.Contains(got, `"refused", 3`) {
		t.Errorf("it counts %s, want 3 refused", got)
	}
	h.run(`
		advance 1h
		SET r:4 v -> +OK
		SET r:5 v -> +OK
	`)
	if text := log.String(); !strings.Contains(text,
		`msg="a policy would refuse the command" policy=r times=3 db=0 key=r:4`) {
		t.Errorf("after an hour the log has %s", text)
	}
	if text := log.String(); strings.Count(text, "a policy would give the key a deadline") != 1 ||
		strings.Count(text, "a policy would refuse the command") != 2 {
		t.Errorf("the log has %s", text)
	}
}

// TestRefusedSlidesNothing: a command that a policy refuses changes nothing. Deadlines that its
// reads have extended are set back.
func TestRefusedSlidesNothing(t *testing.T) {
	h := newHarness(t)
	h.run(`
		KEYP.POLICY SET s PATTERN s* ENFORCE SLIDE 100s MAX 200s REFUSE -> +OK
		KEYP.POLICY SET d PATTERN d* ENFORCE REQUIRE -> +OK
		SET s v EX 50 -> +OK
		GETEX s EX 201 -> -POLICY the policy 's' allows a time to live of 200000 ms at most
		PTTL s -> 50000
		RPUSH sl a -> 1
		PEXPIRE sl 50000 -> 1
		SORT sl ALPHA STORE d -> -POLICY the policy 'd' requires a deadline
		EVAL "return redis.pcall('SORT', 'sl', 'ALPHA', 'STORE', 'd')" 2 sl d -> -POLICY the policy 'd' requires a deadline
		PTTL sl -> 50000
		MULTI -> +OK
		GET s -> +QUEUED
		GETEX s EX 201 -> +QUEUED
		PTTL s -> +QUEUED
		SORT sl ALPHA STORE d -> +QUEUED
		EXEC -> ["v", -POLICY the policy 's' allows a time to live of 200000 ms at most, 100000, -POLICY the policy 'd' requires a deadline]
		PTTL sl -> 50000
		reopen
		PTTL s -> 100000
		PTTL sl -> 50000
		GETEX s EX 20 -> "v"
		PTTL s -> 20000
	`)
	if got := h.do("KEYP.POLICY", "GET", "s"); !strings.Contains(got, `"slid", 0`) {
		t.Errorf("after a start it counts %s", got)
	}
}

// TestSliding: a read extends the deadline up to the limit, if the extension is at least a tenth.
// The extension is not a change for WATCH, and raises no event.
func TestSliding(t *testing.T) {
	h := newHarness(t)
	h.run(`
		KEYP.POLICY SET s PATTERN s* ENFORCE DEFAULT 100s SLIDE 100s LIMIT 250s -> +OK
		SET s v -> +OK
		events -> set:s expire:s
		WATCH s -> +OK
		advance 9s
		GET s -> "v"
		PTTL s -> 91000
		advance 1s
		EXISTS s -> 1
		TTL s -> 90
		OBJECT ENCODING s -> "embstr"
		TTL s -> 90
		GET s -> "v"
		PTTL s -> 100000
		events -> 
		MULTI -> +OK
		PING -> +QUEUED
		EXEC -> [+PONG]
		reopen
		PTTL s -> 100000
		advance 90s
		GET s -> "v"
		PTTL s -> 100000
		advance 90s
		GET s -> "v"
		PTTL s -> 60000
		CLIENT NO-TOUCH ON -> +OK
		SET s2 v -> +OK
		advance 50s
		GET s2 -> "v"
		PTTL s2 -> 50000
		PTTL s -> 10000
		advance 10s
		GET s -> nil
		CLIENT NO-TOUCH OFF -> +OK
		HSET sh f v -> 1
		advance 20s
		HGET sh f -> "v"
		TTL sh -> 100
		SET other v EX 100 -> +OK
		advance 50s
		GET other -> "v"
		TTL other -> 50
	`)
}

// TestApplyPolicy: APPLY applies a policy to the existing keys, page by page.
func TestApplyPolicy(t *testing.T) {
	h := newHarness(t)
	const n = 1000
	for i := range n {
		h.do("SET", fmt.Sprint("a:", i), "v")
		h.do("SET", fmt.Sprint("b:", i), "v")
	}
	h.do("SET", "a:short", "v", "EX", "10")
	h.do("SET", "a:long", "v", "EX", "1000")
	h.heard()
	for _, mode := range []string{"WARN", "ENFORCE", "again"} {
		if mode != "again" {
			h.do("KEYP.POLICY", "SET", "p", "PATTERN", "a:*", mode, "DEFAULT", "100s",
				"MAX", "100s", "CUT")
		}
		met, changed, cursor := 0, 0, "0"
		for pages := 0; pages == 0 || cursor != "0"; pages++ {
			var m, c int
			reply := h.do("KEYP.POLICY", "APPLY", "p", "CURSOR", cursor, "COUNT", "50")
			if _, err := fmt.Sscanf(strings.ReplaceAll(reply, ",", ""), "[%q %d %d]", &cursor, &m,
				&c); err != nil {
				t.Fatalf("%s: %v", reply, err)
			}
			met, changed = met+m, changed+c
		}
		want := n + 1
		if mode == "again" {
			want = 0
		}
		if met != n+2 || changed != want {
			t.Errorf("%s meets %d and changes %d", mode, met, changed)
		}
		if events := strings.Fields(h.heard()); mode == "ENFORCE" && len(events) != n ||
			mode != "ENFORCE" && len(events) != 0 {
			t.Errorf("%s raises %d events", mode, len(events))
		}
		ttl := "-1"
		if mode != "WARN" {
			ttl = "100"
		}
		must(t, h, ttl, "TTL", "a:7")
		must(t, h, "-1", "TTL", "b:7")
		must(t, h, "10", "TTL", "a:short")
	}
	must(t, h, "100", "TTL", "a:long")
}

// TestLargeReadsSlide: a read of a large value runs as a task, and extends the deadline like any
// other read. The same is true for a read of very many keys.
func TestLargeReadsSlide(t *testing.T) {
	h := newHarness(t)
	h.do("KEYP.POLICY", "SET", "p", "PATTERN", "*", "ENFORCE", "DEFAULT", "100s", "SLIDE", "100s")
	const many = manyElements + 1
	h.raw(append(byteArgs("SADD", "large"), numbered(100_000, "", "")...)...)
	h.raw(numbered(many, "key:", "v", "MSET")...)
	h.clock.Advance(50 * time.Second)
	must(t, h, "50", "TTL", "large")
	must(t, h, "50", "TTL", "key:7")
	h.do("SMEMBERS", "large")
	must(t, h, "100", "TTL", "large")
	h.raw(numbered(many, "key:", "", "MGET")...)
	must(t, h, "100", "TTL", "key:7")
}

// TestLimitCountsFromTheDeadline: the time of LIMIT does not start again when a command gives a key
// another value or name and keeps its deadline.
func TestLimitCountsFromTheDeadline(t *testing.T) {
	h := newHarness(t)
	h.do("KEYP.POLICY", "SET", "p", "PATTERN", "*", "ENFORCE", "DEFAULT", "100s", "SLIDE", "100s",
		"LIMIT", "150s")
	h.raw(append(byteArgs("SADD", "set"), numbered(400, "", "")...)...)
	h.run(`
		SET kept v -> +OK
		SET number 1 -> +OK
		SET from v PXAT 1700000150000 -> +OK
		SET source v PXAT 1700000150000 -> +OK
		advance 60s
		SET to old PXAT 1700000150000 -> +OK
		SET copy old PXAT 1700000150000 -> +OK
		RENAME from to -> +OK
		COPY source copy REPLACE -> 1
		does SPOP set 398
		SET kept w KEEPTTL -> +OK
		INCR number -> 2
		advance 35s
		SCARD set -> 2
		GET kept -> "w"
		GET number -> "2"
		GET to -> "v"
		GET copy -> "v"
		TTL set -> 55
		TTL kept -> 55
		TTL number -> 55
		TTL to -> 55
		TTL copy -> 55
	`)
}

// TestWarningCountsOnce: a command that would be refused counts once, however it writes.
func TestWarningCountsOnce(t *testing.T) {
	h := newHarness(t)
	h.do("KEYP.POLICY", "SET", "p", "PATTERN", "*", "REQUIRE")
	for i, line := range []string{
		"SET a v", "APPEND b v", "SETRANGE c 5 v", "SETRANGE d 100000 v", "SETBIT e 5 1",
		"BITFIELD f SET u8 0 1", "HSET g f v", "PFADD h v", "MSET i v", "COPY a j", "XADD k * f v",
	} {
		h.runOne(line)
		if got, want := h.do("KEYP.POLICY", "GET", "p"),
			fmt.Sprintf(`"refused", %d,`, i+1); !strings.Contains(got, want) {
			t.Fatalf("%s: the policy counts %s, want %s", line, got, want)
		}
	}
}

// TestPolicyEffects: a command without any effect is not refused. A key that gets its deadline from
// a policy raises the event for a deadline once.
func TestPolicyEffects(t *testing.T) {
	h := newHarness(t)
	h.run(`
		SADD source a b -> 2
		KEYP.POLICY SET r PATTERN r* ENFORCE REQUIRE -> +OK
		SMOVE source r none -> 0
		SMOVE source r a -> -POLICY the policy 'r' requires a deadline
		SMEMBERS source -> ["a", "b"]
		ZADD r XX 1 a -> 0
		LMOVE none r LEFT LEFT -> nil
		KEYP.POLICY SET d PATTERN d* ENFORCE DEFAULT 100s -> +OK
		INCREX d EX 10 -> [1, 1]
		events -> sadd:source incrby:d expire:d
		INCREX d PERSIST -> [2, 1]
		TTL d -> 100
		events -> incrby:d expire:d
		RENAME source d1 -> +OK
		events -> rename_from:source rename_to:d1 expire:d1
		COPY d1 d2 -> 1
		TTL d2 -> 100
		events -> copy_to:d2
		SET u v -> +OK
		COPY u d3 -> 1
		SELECT 1 -> +OK
		SET d4 v -> +OK
		events -> set:u copy_to:d3 expire:d3 set:d4@1
		MOVE d4 0 -> 1
		events -> move_from:d4@1 move_to:d4 expire:d4
	`)
}

// TestRestoreIsExempt: a key from another server keeps the deadline that it had there.
func TestRestoreIsExempt(t *testing.T) {
	h := newHarness(t)
	h.run("SET k v -> +OK")
	payload, err := strconv.Unquote(h.do("DUMP", "k"))
	if err != nil {
		t.Fatal(err)
	}
	h.run("KEYP.POLICY SET r PATTERN r* ENFORCE REQUIRE MAX 10s CUT -> +OK")
	for _, call := range [][]string{{"RESTORE", "r1", "0", payload},
		{"RESTORE", "r2", "100000", payload}} {
		if got := h.do(call...); got != "+OK" {
			t.Errorf("%q: %s", call, got)
		}
	}
	h.run(`
		PTTL r1 -> -1
		PTTL r2 -> 100000
		PERSIST r2 -> -POLICY the policy 'r' requires a deadline
	`)
}
