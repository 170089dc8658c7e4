package commands

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyp/features/leases"
	"keyp/internal/rdb"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// leaseTable runs a table of commands and replies. In the table, T is the time at which the test's
// clock starts, and T+n is n ms later. $1, $2 … are the first tokens that a store grants if it is
// opened at T.
func leaseTable(t *testing.T, steps string) {
	t.Helper()
	table(t, tokens(steps))
}

func tokens(steps string) string {
	for n := 20; n > 0; n-- {
		steps = strings.ReplaceAll(steps, fmt.Sprint("$", n), fmt.Sprint(epoch*1000+int64(n)))
	}
	return strings.ReplaceAll(steps, "T+", "1700000")
}

func TestLease(t *testing.T) {
	leaseTable(t, `
		KEYP.LEASE ACQUIRE l a 5000 -> [$1, T+005000]
		TYPE l -> +lease
		OBJECT ENCODING l -> "lease"
		PTTL l -> 5000
		KEYP.LEASE CHECK l $1 -> +OK
		KEYP.LEASE INFO l -> ["state", "held", "owner", "a", "token", $1, "deadline", T+005000, "delay", 0, "waiting", 0, "queue", []]
		KEYP.LEASE ACQUIRE l b 5000 -> nilarray
		KEYP.LEASE ACQUIRE l b 5000 WAIT 100 -> +(blocked)
		KEYP.LEASE RENEW l $2 5000 -> -LEASE the lease is not held with this token
		KEYP.LEASE RELEASE l $2 -> 0
		KEYP.LEASE CHECK l $2 -> -LEASE the lease is not held with this token
		advance 1000ms
		reopen
		# the same owner has the same token, and time from now on; a shorter time takes nothing away
		KEYP.LEASE ACQUIRE l a 5000 -> [$1, T+006000]
		KEYP.LEASE ACQUIRE l a 1 -> [$1, T+006000]
		KEYP.LEASE RENEW l $1 2000 -> T+003000
		reopen
		PEXPIRETIME l -> T+003000
		KEYP.LEASE RENEW l $1 3000 -> T+004000
		advance 2999ms
		KEYP.LEASE CHECK l $1 -> +OK
		advance 1ms
		KEYP.LEASE CHECK l $1 -> -LEASE the lease is not held with this token
		KEYP.LEASE RENEW l $1 5000 -> -LEASE the lease is not held with this token
		KEYP.LEASE RELEASE l $1 -> 0
		KEYP.LEASE INFO l -> ["state", "free", "owner", "", "token", 0, "deadline", 0, "delay", 0, "waiting", 0, "queue", []]
		EXISTS l -> 0
	`)
}

func TestLeaseTokensGrow(t *testing.T) {
	h := newHarness(t)
	last := int64(0)
	grow := func(after string) {
		t.Helper()
		var token, deadline int64
		reply := h.do("KEYP.LEASE", "ACQUIRE", "l", "a", "1000")
		if n, err := fmt.Sscanf(reply, "[%d, %d]", &token, &deadline); n != 2 || token <= last {
			t.Fatalf("after %s: %s, %v; the token before was %d", after, reply, err, last)
		}
		last = token
	}
	grow("nothing")
	for _, s := range []struct{ name, does string }{
		{"RELEASE", "KEYP.LEASE RELEASE l TOKEN"}, {"DEL", "DEL l"}, {"SET", "SET l v\nDEL l"},
		{"FLUSHALL", "FLUSHALL"}, {"FLUSHDB", "FLUSHDB ASYNC"},
		{"the deadline", "advance 1000ms"}, {"a restart", "DEL l\nreopen"},
		{"two restarts", "DEL l\nreopen\nreopen"},
		{"RENAME", "RENAME l m"}, {"COPY of an older one", "COPY l old\nDEL l\nCOPY old l\nDEL l"},
	} {
		var steps strings.Builder
		for _, line := range strings.Split(s.does, "\n") {
			line = strings.ReplaceAll(line, "TOKEN", fmt.Sprint(last))
			if word, _, _ := strings.Cut(line, " "); word != "reopen" && word != "advance" {
				line = "does " + line
			}
			steps.WriteString(line + "\n")
		}
		h.run(steps.String())
		grow(s.name)
	}
	// These restarts only replay the log. Then the clock is set back.
	h.save = false
	for range 3 {
		h.do("DEL", "l")
		h.reopen()
		grow("a crash")
	}
	h.clock.Advance(-time.Hour)
	h.do("DEL", "l")
	h.reopen()
	h.do("DEL", "l")
	grow("a restart with an earlier clock")
	// This is like a copy of the directory from before the tokens were granted, started some time
	// later.
	h.clock.Advance(2 * time.Hour)
	h.reopen()
	h.do("DEL", "l")
	if grow("a restart later"); last <= h.clock.Now()*1000 {
		t.Errorf("tokens go on at %d, though later ones may have been granted by then", last)
	}
}

// TestLeaseTokensAhead: only a few grants write a reservation of tokens to the store. No token is
// outside a reservation, in any shard.
func TestLeaseTokensAhead(t *testing.T) {
	h := newHarness(t)
	h.save = false
	var last int64
	for i := range 100 {
		key := fmt.Sprint("l", i)
		if n, _ := fmt.Sscanf(h.do("KEYP.LEASE", "ACQUIRE", key, "a", "1000"), "[%d,",
			&last); n != 1 || last != epoch*1000+int64(i)+1 {
			t.Fatalf("token %d is %d", i+1, last)
		}
	}
	h.reopen()
	var next int64
	fmt.Sscanf(h.do("KEYP.LEASE", "ACQUIRE", "other", "a", "1000"), "[%d,", &next)
	if next <= last || next > last+2<<16 {
		t.Errorf("after a restart the next token is %d behind", next-last)
	}
}

func TestLeaseArguments(t *testing.T) {
	leaseTable(t, `
		KEYP.LEASE -> -ERR wrong number of arguments for 'keyp.lease' command
		KEYP.LEASE ACQUIRE l a -> -ERR wrong number of arguments for 'keyp.lease|acquire' command
		KEYP.LEASE ACQUIRE l "" 5 -> -ERR an owner has 1 to 512 bytes
		KEYP.LEASE ACQUIRE l a x -> -ERR the time of a lease is a number of milliseconds, or has a unit, such as 30s
		KEYP.LEASE ACQUIRE l a 0 -> -ERR invalid expire time in 'keyp.lease|acquire' command
		KEYP.LEASE ACQUIRE l a -1 -> -ERR invalid expire time in 'keyp.lease|acquire' command
		KEYP.LEASE ACQUIRE l a 9223372036854775807 -> -ERR invalid expire time in 'keyp.lease|acquire' command
		KEYP.LEASE ACQUIRE l a 9223370336000000000 -> -ERR invalid expire time in 'keyp.lease|acquire' command
		KEYP.LEASE ACQUIRE l a 5 WAIT -> -ERR WAIT needs a value
		KEYP.LEASE ACQUIRE l a 5 WAIT -1 -> -ERR WAIT is 0 or more milliseconds, or has a unit, such as 5s
		KEYP.LEASE ACQUIRE l a 5 DELAY -1 -> -ERR DELAY is between 0 and 31622400000 milliseconds, or has a unit, such as 5s
		KEYP.LEASE ACQUIRE l a 5 DELAY 31622400001 -> -ERR DELAY is between 0 and 31622400000 milliseconds, or has a unit, such as 5s
		KEYP.LEASE ACQUIRE l a 5 OTHER -> -ERR syntax error: 'OTHER' is no option here
		KEYP.LEASE RENEW l 0 5 -> -ERR a token is a number of 1 or more
		KEYP.LEASE RENEW l x 5 -> -ERR a token is a number of 1 or more
		KEYP.LEASE RENEW l 1 x -> -ERR the time of a lease is a number of milliseconds, or has a unit, such as 30s
		KEYP.LEASE RENEW l 1 0 -> -ERR invalid expire time in 'keyp.lease|renew' command
		KEYP.LEASE RELEASE l x -> -ERR a token is a number of 1 or more
		KEYP.LEASE CHECK l -1 -> -ERR a token is a number of 1 or more
		KEYP.LEASE CHECK l 1 -> -LEASE the lease is not held with this token
		EXISTS l -> 0
		SET s v -> +OK
		KEYP.LEASE ACQUIRE s a 5 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.LEASE ACQUIRE s a 5 WAIT 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.LEASE RENEW s 1 5 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.LEASE RELEASE s 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.LEASE CHECK s 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.LEASE INFO s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.LEASE ACQUIRE l a 31536000000 DELAY 31622400000 -> [$1, 1731536000000]
		GET l -> -WRONGTYPE Operation against a key holding the wrong kind of value
		RPUSH l x -> -WRONGTYPE Operation against a key holding the wrong kind of value
		XADD l * f v -> -WRONGTYPE Operation against a key holding the wrong kind of value
		COMMAND GETKEYSANDFLAGS KEYP.LEASE ACQUIRE l a 5 -> [["l", [+RW, +access, +update]]]
	`)
	h := newHarness(t)
	if got := h.do("KEYP.LEASE", "ACQUIRE", "l", strings.Repeat("o", object.MaxOwner+1),
		"5"); got != "-"+string(errLeaseOwner) {
		t.Errorf("a long owner: %s", got)
	}
	if got := h.do("KEYP.LEASE", "ACQUIRE", "l", strings.Repeat("o", object.MaxOwner),
		"5000"); got[0] != '[' {
		t.Errorf("the longest owner: %s", got)
	}
	h.reopen()
	if got := h.do("KEYP.LEASE", "INFO", "l"); !strings.Contains(got,
		strings.Repeat("o", object.MaxOwner)) {
		t.Errorf("the longest owner after a restart: %s", got)
	}
}

func TestLeaseDelay(t *testing.T) {
	leaseTable(t, `
		KEYP.LEASE ACQUIRE l a 1000 DELAY 500 -> [$1, T+001000]
		PTTL l -> 1500
		advance 999ms
		KEYP.LEASE CHECK l $1 -> +OK
		KEYP.LEASE ACQUIRE l a 1000 DELAY 9 -> [$1, T+001999]
		PTTL l -> 1500
		advance 1000ms
		KEYP.LEASE CHECK l $1 -> -LEASE the lease is not held with this token
		KEYP.LEASE RENEW l $1 1000 -> -LEASE the lease is not held with this token
		KEYP.LEASE RELEASE l $1 -> 0
		KEYP.LEASE ACQUIRE l b 1000 -> nilarray
		KEYP.LEASE ACQUIRE l a 1000 -> nilarray
		KEYP.LEASE INFO l -> ["state", "delayed", "owner", "a", "token", $1, "deadline", T+001999, "delay", 500, "waiting", 0, "queue", []]
		advance 499ms
		KEYP.LEASE ACQUIRE l b 1000 -> nilarray
		advance 1ms
		KEYP.LEASE ACQUIRE l b 1000 DELAY 500 -> [$2, T+003499]
		KEYP.LEASE RENEW l $2 2000 -> T+004499
		PTTL l -> 2500
		KEYP.LEASE RELEASE l $2 -> 1
		EXISTS l -> 0
		KEYP.LEASE ACQUIRE l a 1000 -> [$3, T+003499]
	`)
}

// TestLeaseKeys runs commands for keys of any type on a lease.
func TestLeaseKeys(t *testing.T) {
	leaseTable(t, `
		KEYP.LEASE ACQUIRE l a 1000 DELAY 500 -> [$1, T+001000]
		KEYS * -> ["l"]
		DBSIZE -> 1
		SCAN 0 TYPE lease -> ["0", ["l"]]
		SCAN 0 TYPE string -> ["0", []]
		KEYP.EXPIRING - + TYPE lease -> ["0", [["l", T+001500]]]
		OBJECT REFCOUNT l -> 1
		# EXPIRE moves the deadline; the delay is before that of the key
		PEXPIRE l 2000 -> 1
		KEYP.LEASE INFO l -> ["state", "held", "owner", "a", "token", $1, "deadline", T+001500, "delay", 500, "waiting", 0, "queue", []]
		PEXPIRE l 500 -> 1
		KEYP.LEASE CHECK l $1 -> -LEASE the lease is not held with this token
		# PERSIST makes a lease that only its owner ends
		PERSIST l -> 1
		KEYP.LEASE CHECK l $1 -> +OK
		KEYP.LEASE ACQUIRE l a 1000 -> [$1, 0]
		KEYP.LEASE ACQUIRE l b 1000 -> nilarray
		advance 10000ms
		reopen
		KEYP.LEASE CHECK l $1 -> +OK
		KEYP.LEASE RENEW l $1 1000 -> T+011000
	`)
	// A copied or renamed lease has a new token. The owner gets it by ACQUIRE.
	h := newHarness(t)
	h.run(tokens(`
		KEYP.LEASE ACQUIRE l a 1000 DELAY 500 -> [$1, T+001000]
		COPY l c -> 1
		COPY l c DB 1 -> 1
		KEYP.LEASE CHECK c $1 -> -LEASE the lease is not held with this token
		KEYP.LEASE ACQUIRE c a 1000 -> [$2, T+001000]
		KEYP.LEASE CHECK l $1 -> +OK
		RENAME l r -> +OK
		EXISTS l -> 0
		KEYP.LEASE ACQUIRE r b 1000 -> nilarray
		KEYP.LEASE ACQUIRE r a 1000 -> [$4, T+001000]
		MOVE r 2 -> 1
		select 2
		KEYP.LEASE CHECK r $4 -> -LEASE the lease is not held with this token
		KEYP.LEASE ACQUIRE r a 1000 -> [$5, T+001000]
		select 0
		SWAPDB 0 2 -> +OK
		KEYP.LEASE CHECK r $5 -> +OK
		reopen
		KEYP.LEASE CHECK r $5 -> +OK
		PTTL r -> 1500
		SET r v -> +OK
		GET r -> "v"
	`))
	memory := h.do("KEYP.LEASE", "ACQUIRE", "m", "a", "1000") + h.do("MEMORY", "USAGE", "m")
	if !strings.HasPrefix(memory, "[") || strings.HasSuffix(memory, "nil") {
		t.Errorf("MEMORY USAGE: %s", memory)
	}
	one, other := h.digest("DIGEST-VALUE", "m"), h.digest("DIGEST-VALUE", "r")
	if one == other {
		t.Errorf("the digest of a lease is that of a string: %s", one)
	}
}

// TestLeaseDump: RESTORE gives a lease to the same owner, with a new token, until the time in
// RESTORE.
func TestLeaseDump(t *testing.T) {
	h := newHarness(t)
	h.run(tokens(`KEYP.LEASE ACQUIRE l owner 1000 DELAY 500 -> [$1, T+001000]`))
	payload := string(h.raw([]byte("DUMP"), []byte("l")))
	_, payload, _ = strings.Cut(payload, "\r\n")
	payload = strings.TrimSuffix(payload, "\r\n")
	if got := h.do("RESTORE", "r", "2500", payload); got != "+OK" {
		t.Fatalf("RESTORE: %s", got)
	}
	h.run(tokens(`
		KEYP.LEASE CHECK r $1 -> -LEASE the lease is not held with this token
		KEYP.LEASE INFO r -> ["state", "held", "owner", "owner", "token", $2, "deadline", T+002000, "delay", 500, "waiting", 0, "queue", []]
		reopen
		KEYP.LEASE CHECK r $2 -> +OK
		KEYP.LEASE RELEASE r $2 -> 1
		KEYP.LEASE RELEASE l $1 -> 1
	`))
	for i := range len(payload) { // each byte in turn is another one
		broken := []byte(payload)
		broken[i]++
		if got := h.do("RESTORE", "broken", "0", string(broken)); got[0] != '-' {
			t.Errorf("byte %d: %s", i, got)
		}
	}
}

// TestLeaseEnds: if the lease is not held, CHECK and RENEW abort the transaction or script.
func TestLeaseEnds(t *testing.T) {
	leaseTable(t, `
		KEYP.LEASE ACQUIRE l a 1000 -> [$1, T+001000]
		MULTI -> +OK
		KEYP.LEASE CHECK l $1 -> +QUEUED
		SET k held -> +QUEUED
		EXEC -> [+OK, +OK]
		MULTI -> +OK
		SET before v -> +QUEUED
		KEYP.LEASE CHECK l $2 -> +QUEUED
		SET k lost -> +QUEUED
		PUBLISH channel lost -> +QUEUED
		DEL before -> +QUEUED
		EXEC -> [+OK, -LEASE the lease is not held with this token, -LEASE not run: a lease that the transaction depends on is not held, -LEASE not run: a lease that the transaction depends on is not held, -LEASE not run: a lease that the transaction depends on is not held]
		MGET k before -> ["held", "v"]
		# the next transaction is another one
		MULTI -> +OK
		KEYP.LEASE RELEASE l $2 -> +QUEUED
		SET k again -> +QUEUED
		EXEC -> [0, +OK]
		MULTI -> +OK
		KEYP.LEASE RENEW l $2 1000 -> +QUEUED
		SET k lost -> +QUEUED
		EXEC -> [-LEASE the lease is not held with this token, -LEASE not run: a lease that the transaction depends on is not held]
		# whatever makes it fail
		SET text v -> +OK
		MULTI -> +OK
		KEYP.LEASE CHECK text $2 -> +QUEUED
		SET k lost -> +QUEUED
		EXEC -> [-WRONGTYPE Operation against a key holding the wrong kind of value, -LEASE not run: a lease that the transaction depends on is not held]
		MULTI -> +OK
		KEYP.LEASE CHECK l none -> +QUEUED
		SET k lost -> +QUEUED
		EXEC -> [-ERR a token is a number of 1 or more, -LEASE not run: a lease that the transaction depends on is not held]
		MULTI -> +OK
		KEYP.LEASE RENEW l $1 -1 -> +QUEUED
		SET k lost -> +QUEUED
		EXEC -> [-ERR invalid expire time in 'keyp.lease|renew' command, -LEASE not run: a lease that the transaction depends on is not held]
		GET k -> "again"
		# also where EXEC is a task
		MULTI -> +OK
		KEYP.LEASE CHECK l $2 -> +QUEUED
		FLUSHALL -> +QUEUED
		EXEC -> [-LEASE the lease is not held with this token, -LEASE not run: a lease that the transaction depends on is not held]
		GET k -> "again"
		EVAL "redis.call('KEYP.LEASE', 'CHECK', KEYS[1], ARGV[1]) return redis.call('SET', KEYS[2], 'script')" 2 l k $1 -> +OK
		EVAL "redis.call('KEYP.LEASE', 'CHECK', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], 'lost')" 2 l k $2 -> -LEASE the lease is not held with this token script: 7c6265646d07799f4d11eac43d11a36250c7a64e, on @user_script:1.
		GET k -> "script"
		# what waits outside of them has its answer at once within
		MULTI -> +OK
		KEYP.LEASE ACQUIRE l b 1000 WAIT 0 -> +QUEUED
		KEYP.LEASE RELEASE l $1 -> +QUEUED
		KEYP.LEASE ACQUIRE l b 1000 WAIT 0 -> +QUEUED
		EXEC -> [nilarray, 1, [$2, T+001000]]
		EVAL "return redis.call('KEYP.LEASE', 'ACQUIRE', KEYS[1], 'c', 1000, 'WAIT', 0)" 1 l -> nil
		EVAL "return redis.call('KEYP.LEASE', 'ACQUIRE', KEYS[1], 'b', 1000)" 1 l -> [$2, T+001000]
	`)
}

func TestLeaseEvents(t *testing.T) {
	h := newHarness(t)
	h.store.SetEvents(eventLeaseAcquire.Class | 1)
	h.run(tokens(`
		KEYP.LEASE ACQUIRE l a 1000 -> [$1, T+001000]
		KEYP.LEASE ACQUIRE l b 1000 -> nilarray
		KEYP.LEASE ACQUIRE l a 1000 -> [$1, T+001000]
		events -> lease.acquire:l
		KEYP.LEASE RENEW l $1 1000 -> T+001000
		KEYP.LEASE CHECK l $1 -> +OK
		KEYP.LEASE INFO l -> ["state", "held", "owner", "a", "token", $1, "deadline", T+001000, "delay", 0, "waiting", 0, "queue", []]
		events -> lease.renew:l
		KEYP.LEASE RELEASE l $1 -> 1
		events -> lease.release:l del:l
	`))
}

// TestLeasePolicies: policies do not apply to the commands of KEYP.LEASE, and do not change leases.
func TestLeasePolicies(t *testing.T) {
	leaseTable(t, `
		KEYP.POLICY SET p PATTERN * ENFORCE DEFAULT 1s MAX 1s CUT SLIDE 1s -> +OK
		KEYP.LEASE ACQUIRE l a 5000 -> [$1, T+005000]
		KEYP.LEASE CHECK l $1 -> +OK
		KEYP.LEASE ACQUIRE short a 800 -> [$2, T+000800]
		advance 500ms
		TYPE l -> +lease
		TOUCH l short -> 2
		PEXPIRETIME short -> T+000800
		does DUMP l
		KEYP.POLICY APPLY p -> ["0", 2, 0]
		KEYP.LEASE RENEW l $1 9000 -> T+009500
		PEXPIRETIME l -> T+009500
	`)
}

// TestLeaseTokensOfPayloads: after RESTORE, new tokens are above those that another server granted
// for the key. After a forged payload, tokens stay exact as numbers in scripts.
func TestLeaseTokensOfPayloads(t *testing.T) {
	h := newHarness(t)
	h.save = false
	for _, step := range []struct {
		token uint64
		want  int64
	}{{uint64(epoch)*1000 + 5_000_000, epoch*1000 + 5_000_001}, {7, epoch*1000 + 5_000_002},
		{math.MaxUint64, 1<<52 + 1}} {
		payload := rdb.Encode(rdb.Value{Type: rdb.Lease, Lease: &rdb.LeaseValue{Owner: []byte("o"),
			Token: step.token}})
		if got := h.do("RESTORE", "r", "5000", string(payload), "REPLACE"); got != "+OK" {
			t.Fatalf("RESTORE of token %d: %s", step.token, got)
		}
		if got, want := h.do("KEYP.LEASE", "CHECK", "r", fmt.Sprint(step.want)),
			"+OK"; got != want {
			t.Errorf("after token %d the next one is not %d: %s", step.token, step.want,
				h.do("KEYP.LEASE", "INFO", "r"))
		}
	}
	h.reopen()
	var token int64
	if fmt.Sscanf(h.do("KEYP.LEASE", "ACQUIRE", "other", "a", "1000"), "[%d,",
		&token); token <= 1<<52 {
		t.Errorf("after a restart tokens go on at %d", token)
	}
}

// TestLeaseRestored: after a restore, new tokens are above those that may have been granted since
// the backup.
func TestLeaseRestored(t *testing.T) {
	h := newHarness(t)
	h.do("KEYP.LEASE", "ACQUIRE", "l", "a", "1000")
	sn, err := h.env.Store.OpenBackup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer sn.Close()
	var stream bytes.Buffer
	if err := sn.SendBackup(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	o := h.env.Store.Options()
	o.Dir, o.FS = t.TempDir(), nil
	if _, err := storage.RestoreBackup(o, &stream); err != nil {
		t.Fatal(err)
	}
	s, _, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(true)
	x := s.NewTxn()
	s.BeginAll(x)
	defer x.End()
	const most = uint64(epoch)*1000 + 1<<32 // that could have been granted
	if token := leases.In(s).Next(x, s.Key(0, []byte("l"))); token <= most {
		t.Errorf("the first token after the restore is %d, and %d may have been granted", token,
			most)
	}
}

// TestLeaseLeads: a server that becomes the leader continues after the tokens that the leader
// before it has reserved.
func TestLeaseLeads(t *testing.T) {
	h := newHarness(t)
	h.save = false
	const reserved = uint64(epoch)*1000 + 1<<40
	x, k := h.store.NewTxn(), h.store.SystemKey("lease.tokens{"+h.store.TagOf(0)+"}")
	h.store.BeginAll(x)
	x.SetString(k, strconv.AppendUint(nil, reserved, 10), ttl.Deadline{}, storage.Event{})
	x.End()
	h.store.SetFollower(true)
	h.store.SetFollower(false)
	var token uint64
	if fmt.Sscanf(h.do("KEYP.LEASE", "ACQUIRE", "l", "a", "1000"), "[%d,",
		&token); token <= reserved {
		t.Errorf("the token is %d, and up to %d were reserved", token, reserved)
	}
}

// TestLeaseWaiterMemory: the counted memory of a client that waits for a lease includes its owner's
// name.
func TestLeaseWaiterMemory(t *testing.T) {
	h := newHarness(t)
	h.do("KEYP.LEASE", "ACQUIRE", "l", "holder", "1000")
	counted := func(owner string) int {
		h.do("KEYP.LEASE", "ACQUIRE", "l", owner, "1000", "WAIT", "0")
		wait := h.ctx.Wait
		wait.Keys = slices.Clone(wait.Keys)
		c := &Client{}
		h.env.Reset(c)
		w := h.env.Waiters.Add(c, wait)
		n := c.waits
		h.env.Waiters.Remove(w)
		if c.waits != 0 {
			t.Errorf("a client that has left counts with %d bytes", c.waits)
		}
		return n
	}
	if short, long := counted("a"),
		counted(strings.Repeat("a", object.MaxOwner)); long-short != object.MaxOwner-1 {
		t.Errorf("a waiter takes %d bytes with a short name, and %d with a long one", short, long)
	}
}

// TestLeaseOwnerWaitsOften: several clients may wait as the same owner. They are found in the order
// in which they came, whoever leaves or comes.
func TestLeaseOwnerWaitsOften(t *testing.T) {
	h := newHarness(t)
	ws := &h.env.Waiters
	k := h.store.Key(0, []byte("l"))
	add := func(owner string) *Waiter {
		return ws.Add(&Client{}, BlockedOn{Keys: []storage.Key{k}, Type: object.None, Who: owner})
	}
	other := add("other")
	for leaves := range 3 {
		var waiting []*Waiter
		for range 3 {
			waiting = append(waiting, add("owner"))
		}
		ws.Remove(waiting[leaves])
		waiting = append(slices.Delete(waiting, leaves, leaves+1), add("owner"))
		for i, w := range waiting {
			p := ws.lines.mu.keys[0]["l"].waitsAs("owner")
			if p == nil || p.by != w {
				t.Fatalf("number %d has left: number %d of the others is not found", leaves, i)
			}
			ws.Remove(w)
		}
		if a := ws.lines.mu.keys[0]["l"]; len(a.owners) != 1 || a.waitsAs("other").by != other {
			t.Errorf("number %d has left: %d owners are listed, want the other one",
				leaves, len(a.owners))
		}
	}
	ws.Remove(other)
}

// TestLeaseForged: RESTORE refuses a payload with an impossible lease.
func TestLeaseForged(t *testing.T) {
	h := newHarness(t)
	for _, l := range []rdb.LeaseValue{
		{Owner: []byte("o")}, {Token: 1},
		{Owner: []byte(strings.Repeat("o", object.MaxOwner+1)), Token: 1},
		{Owner: []byte("o"), Token: 1, Delay: uint64(object.MaxDelay) + 1},
		{Owner: []byte("o"), Token: 1, Delay: math.MaxUint64},
	} {
		if got := h.do("RESTORE", "r", "0",
			string(rdb.Encode(rdb.Value{Type: rdb.Lease, Lease: &l}))); !strings.HasPrefix(got,
			"-ERR Bad data format") {
			t.Errorf("%+v: %s", l, got)
		}
	}
}
