package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit/await"
)

// TestGoRedisKeyp calls Keyp's own commands with go-redis, and checks the replies.
func TestGoRedisKeyp(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "KEYP.EXPIRING", run: expiringKeys, newer: "Keyp's own"},
		{name: "KEYP.TIMELINE", run: timelines, newer: "Keyp's own"},
		{name: "KEYP.UNTIMED", run: untimedKeys, newer: "Keyp's own"},
		{name: "KEYP.POLICY", run: policies, newer: "Keyp's own"},
		{name: "KEYP.OUTBOX", run: outboxes, newer: "Keyp's own"},
		{name: "KEYP.LEASE", run: leases, newer: "Keyp's own"},
		{name: "KEYP.LIMIT", run: limits, newer: "Keyp's own"},
		{name: "KEYP.DELAY", run: delayed, newer: "Keyp's own"},
		{name: "KEYP.BACKUP", run: backups, newer: "Keyp's own"},
	})
}

// walkKeyp sends a command with a cursor page by page, and returns the items of all pages.
func walkKeyp(t *testing.T, c subject, words ...any) (all []any) {
	t.Helper()
	cursor := any("0")
	for range 1000 {
		reply, err := c.do(append(slices.Clone(words), "CURSOR", cursor)...)
		page, ok := reply.([]any)
		if err != nil || !ok || len(page) != 2 {
			t.Fatalf("%v: %v, %v", words, reply, err)
		}
		all = append(all, page[1].([]any)...)
		if cursor = page[0]; cursor == "0" {
			return all
		}
	}
	t.Fatalf("%v does not end", words)
	return nil
}

// backups reads a backup piece by piece. The tests of keyp backup check its contents.
func backups(t *testing.T, c subject) {
	for i := range 30 {
		is(t, "OK")(c.Set(ctx, fmt.Sprint("k", i), strings.Repeat("v", 100_000), 0).Result())
	}
	conn, other := c.Conn(), c.Conn()
	defer conn.Close()
	defer other.Close()
	fails(t, "ERR this connection has no backup: KEYP.BACKUP BEGIN begins one",
		conn.Do(ctx, "KEYP.BACKUP", "READ"))
	fails(t, "ERR this connection has no backup: KEYP.BACKUP BEGIN begins one",
		conn.Do(ctx, "KEYP.BACKUP", "END"))
	if err := conn.Do(ctx, "KEYP.BACKUP", "BEGIN").Err(); err != nil {
		t.Fatal(err)
	}
	fails(t, "ERR this connection has a backup already: KEYP.BACKUP END ends it",
		conn.Do(ctx, "KEYP.BACKUP", "BEGIN"))
	if err := other.Do(ctx, "KEYP.BACKUP", "BEGIN").Err(); err == nil ||
		!strings.HasPrefix(err.Error(), "ERR another backup is being read, by client ") {
		t.Errorf("a second backup: %v", err)
	}
	is(t, any("OK"))(conn.Do(ctx, "KEYP.BACKUP", "END").Result())
	begun, err := conn.Do(ctx, "KEYP.BACKUP", "BEGIN").Result()
	if err != nil {
		t.Fatal(err)
	}
	id := fieldsOf(begun)["id"]
	piece, err := conn.Do(ctx, "KEYP.BACKUP", "READ").Text()
	if err != nil {
		t.Fatal(err)
	}
	// Another connection continues the backup, and reads the last piece again.
	fails(t, "ERR this connection has a backup already: KEYP.BACKUP END ends it",
		conn.Do(ctx, "KEYP.BACKUP", "RESUME", id, 0))
	fails(t, "ERR there is no such backup any more",
		other.Do(ctx, "KEYP.BACKUP", "RESUME", "another", 0))
	fails(t, "ERR 1 pieces of the backup were read: it cannot go on with piece 2",
		other.Do(ctx, "KEYP.BACKUP", "RESUME", id, 2))
	is(t, any("OK"))(other.Do(ctx, "KEYP.BACKUP", "RESUME", id, 0).Result())
	is(t, any(piece))(other.Do(ctx, "KEYP.BACKUP", "READ").Result())
	fails(t, "ERR this connection has no backup: KEYP.BACKUP BEGIN begins one",
		conn.Do(ctx, "KEYP.BACKUP", "READ"))
	is(t, any("OK"))(conn.Do(ctx, "KEYP.BACKUP", "RESUME", id, 0).Result())
	read := 0
	for pieces := 0; ; pieces++ {
		piece, err := conn.Do(ctx, "KEYP.BACKUP", "READ").Text()
		if errors.Is(err, redis.Nil) {
			break
		}
		if err != nil || pieces > 100 || len(piece) > 1<<20 {
			t.Fatalf("piece %d has %d bytes, %v", pieces, len(piece), err)
		}
		if pieces == 0 && !strings.HasPrefix(piece, "keypsnap") {
			t.Fatalf("it begins with %.20q", piece)
		}
		read += len(piece)
	}
	if read < 3_000_000 {
		t.Errorf("it has %d bytes", read)
	}
	is(t, any("OK"))(conn.Do(ctx, "KEYP.BACKUP", "END").Result())
	if err := other.Do(ctx, "KEYP.BACKUP", "BEGIN").Err(); err != nil {
		t.Fatal(err)
	}
	is(t, any("RESET"))(other.Do(ctx, "RESET").Result())
	await.Until(t, "RESET has ended the backup", func() bool {
		return conn.Do(ctx, "KEYP.BACKUP", "BEGIN").Err() == nil
	})
	is(t, any("OK"))(conn.Do(ctx, "KEYP.BACKUP", "END").Result())
	if lines, err := c.Do(ctx, "KEYP.BACKUP", "HELP").StringSlice(); err != nil || len(lines) < 4 {
		t.Errorf("KEYP.BACKUP HELP: %q, %v", lines, err)
	}
}

func untimedKeys(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "timed", "v", time.Hour).Result())
	is(t, "OK")(c.MSet(ctx, "a", 1, "b", 2, "c", 3).Result())
	is(t, int64(1))(c.HSet(ctx, "h", "f", "v").Result())
	is(t, []int64{1})(c.HExpire(ctx, "h", time.Hour, "f").Result())
	var names []string
	for _, name := range walkKeyp(t, c, "KEYP.UNTIMED", "COUNT", 1) {
		names = append(names, name.(string))
	}
	slices.Sort(names)
	is(t, []string{"a", "b", "c", "h"})(names, nil)
	is(t, any([]any{"0", []any{"h"}}))(c.do("KEYP.UNTIMED", "TYPE", "hash", "MATCH", "?"))
	fails(t, "ERR invalid cursor", c.Do(ctx, "KEYP.UNTIMED", "CURSOR", "x"))
}

func expiringKeys(t *testing.T, c subject) {
	const first = 4_102_444_800_000 // in 2100
	var want []any
	for i := range 20 {
		key := fmt.Sprint("order:", i)
		is(t, "OK")(c.SetArgs(ctx, key, "v",
			redis.SetArgs{ExpireAt: time.UnixMilli(int64(first + 1000*i))}).Result())
		is(t, "OK")(c.Set(ctx, fmt.Sprint("other:", i), "v", time.Hour).Result())
		want = append(want, []any{key, int64(first + 1000*i)})
	}
	is(t, want)(walkKeyp(t, c, "KEYP.EXPIRING", "-", "+", "MATCH", "order:*", "COUNT", 3), nil)
	is(t, want[5:15])(walkKeyp(t, c, "KEYP.EXPIRING", first+5000, first+15_000, "TYPE", "string"),
		nil)
	if soon := walkKeyp(t, c, "KEYP.EXPIRING", "-", time.Now().Add(2*time.Hour).UnixMilli(),
		"COUNT", 7); len(soon) != 20 {
		t.Errorf("%d keys expire within two hours: %v", len(soon), soon)
	}
	fails(t, "ERR invalid cursor", c.Do(ctx, "KEYP.EXPIRING", "-", "+", "CURSOR", "x"))

	want = nil
	for i := range 20 {
		field := fmt.Sprint("item:", i)
		is(t, int64(1))(c.HSet(ctx, "order:0:cart", field, "v").Result())
		is(t, []int64{1})(c.HPExpireAt(ctx, "order:0:cart", time.UnixMilli(int64(first+1000*i+500)),
			field).Result())
		want = append(want, []any{field, int64(first + 1000*i + 500)})
	}
	is(t, want)(walkKeyp(t, c, "KEYP.EXPIRING", "-", "+", "ELEMENTS", "order:0:cart", "COUNT", 7),
		nil)
}

func timelines(t *testing.T, c subject) {
	const first = 4_102_444_800_000 // in 2100
	for i := range 20 {
		at := time.UnixMilli(int64(first + 1000*i))
		is(t, "OK")(c.SetArgs(ctx, fmt.Sprint("order:", i), "v",
			redis.SetArgs{ExpireAt: at}).Result())
		is(t, "OK")(c.Set(ctx, fmt.Sprint("other:", i), "v", time.Hour).Result())
	}
	is(t, int64(2))(c.HSet(ctx, "h", "f", "v", "g", "v").Result())
	is(t, []int64{1})(c.HPExpireAt(ctx, "h", time.UnixMilli(first+1), "f").Result())
	bucket := func(from, n int64) any { return []any{from, n, n, n} }
	is(t, any([]any{bucket(first, 6), bucket(first+5000, 5)}))(c.do("KEYP.TIMELINE", first,
		first+10_000, 2))
	is(t, any([]any{bucket(first, 5), bucket(first+5000, 5)}))(c.do("KEYP.TIMELINE", first,
		first+10_000, 2, "MATCH", "order:*"))
	is(t, any([]any{bucket(first, 20)}))(c.do("KEYP.TIMELINE", first, "+", 1, "MATCH", "o*"))
	reply, err := c.do("KEYP.TIMELINE", "-", time.Now().Add(2*time.Hour).UnixMilli(), 4)
	sum := int64(0)
	if err == nil {
		for _, b := range reply.([]any) {
			sum += b.([]any)[1].(int64)
		}
	}
	if sum != 20 {
		t.Errorf("%d keys are due within two hours: %v, %v", sum, reply, err)
	}
	fails(t, "ERR the number of buckets is not from 1 to 10000",
		c.Do(ctx, "KEYP.TIMELINE", "-", "+", 0))
}

// policies introduces a default time to live, by a policy that only warns at first.
func policies(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "user:old", "v", 0).Result())
	is(t, any("OK"))(c.do("KEYP.POLICY", "SET", "all", "PATTERN", "*", "DEFAULT", "90d",
		"MAX", "90d", "CUT"))
	is(t, "OK")(c.Set(ctx, "user:1", "v", 0).Result())
	is(t, time.Duration(-1))(c.TTL(ctx, "user:1").Result())
	count := func(of string) (n any) {
		reply, err := c.do("KEYP.POLICY", "GET", "all")
		switch reply := reply.(type) {
		case []any:
			n = reply[slices.Index(reply, any(of))+1]
		case map[any]any:
			n = reply[of]
		default:
			t.Fatalf("%v, %v", reply, err)
		}
		return n
	}
	is(t, any(int64(1)))(count("defaulted"), nil)

	is(t, any("OK"))(c.do("KEYP.POLICY", "SET", "all", "PATTERN", "*", "ENFORCE", "DEFAULT", "90d",
		"MAX", "90d", "CUT"))
	is(t, any([]any{"0", int64(2), int64(2)}))(c.do("KEYP.POLICY", "APPLY", "all", "COUNT", 1000))
	for _, key := range []string{"user:old", "user:1"} {
		if left, err := c.TTL(ctx, key).Result(); err != nil || left <= 89*24*time.Hour {
			t.Errorf("%s has %v left, %v", key, left, err)
		}
	}
	is(t, any("OK"))(c.do("KEYP.POLICY", "SET", "strict", "PATTERN", "job:*", "ENFORCE", "REQUIRE"))
	fails(t, "POLICY the policy 'strict' requires a deadline", c.Set(ctx, "job:1", "v", 0))
	is(t, "OK")(c.Set(ctx, "job:1", "v", time.Minute).Result())
	if list, err := c.do("KEYP.POLICY", "LIST"); err != nil || len(list.([]any)) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if reply, err := c.do("KEYP.POLICY", "TEST", "job:2"); err != nil ||
		!strings.Contains(fmt.Sprint(reply), "[strict all]") {
		t.Errorf("%v, %v", reply, err)
	}
	for _, name := range []string{"all", "strict"} {
		is(t, any(int64(1)))(c.do("KEYP.POLICY", "DEL", name))
	}
	if help, err := c.do("KEYP.POLICY", "HELP"); err != nil || len(help.([]any)) < 10 {
		t.Errorf("%v, %v", help, err)
	}
}

// outboxes makes a consumer group read expiries: some before a consumer waits for them, and some
// while it waits.
func outboxes(t *testing.T, c subject) {
	is(t, any("OK"))(c.do("KEYP.OUTBOX", "SET", "carts", "PATTERN", "cart:*", "ELEMENTS", "STREAM",
		"carts", "VALUE", 100))
	is(t, "OK")(c.XGroupCreateMkStream(ctx, "carts", "g", "0").Result())
	read := func() map[string]string {
		t.Helper()
		got := map[string]string{}
		for len(got) < 3 {
			streams, err := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c",
				Streams: []string{"carts", ">"}, Count: 10, Block: await.Bound}).Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range streams[0].Messages {
				got[fmt.Sprint(m.Values["key"], m.Values["element"])] = fmt.Sprint(m.Values["type"],
					" ", m.Values["value"])
				if n, err := c.XAck(ctx, "carts", "g", m.ID).Result(); n != 1 || err != nil {
					t.Errorf("XACK: %d, %v", n, err)
				}
			}
		}
		return got
	}
	is(t, int64(1))(c.HSet(ctx, "cart:2", "g", "stays").Result())
	for range 2 {
		is(t, "OK")(c.Set(ctx, "cart:1", "books", 20*time.Millisecond).Result())
		is(t, int64(1))(c.HSet(ctx, "cart:2", "f", "field").Result())
		is(t, []int64{1})(c.HPExpire(ctx, "cart:2", 20*time.Millisecond, "f").Result())
		is(t, "OK")(c.Set(ctx, "cart:3", "at once", 0).Result())
		is(t, true)(c.ExpireAt(ctx, "cart:3", time.Unix(1, 0)).Result())
		if got, want := read(), map[string]string{"cart:1<nil>": "string books",
			"cart:2f": "hash field", "cart:3<nil>": "string at once"}; !maps.Equal(got, want) {
			t.Errorf("a group reads %v, want %v", got, want)
		}
	}
	await.Until(t, "what is acknowledged is trimmed", func() bool {
		return c.XLen(ctx, "carts").Val() == 0
	})
	for _, command := range []string{"GET", "STREAMS", "DEL"} {
		if reply, err := c.do("KEYP.OUTBOX", command, "carts"); err != nil || reply == nil {
			t.Errorf("%s: %v, %v", command, reply, err)
		}
	}
	if list, err := c.do("KEYP.OUTBOX", "LIST"); err != nil || len(list.([]any)) != 0 {
		t.Errorf("LIST: %v, %v", list, err)
	}
	if help, err := c.do("KEYP.OUTBOX", "HELP"); err != nil || len(help.([]any)) < 10 {
		t.Errorf("HELP: %v, %v", help, err)
	}
	is(t, int64(2))(c.Del(ctx, "carts", "cart:2").Result())
}

// leases lets owners take turns, after a release and after a deadline. The connection of one waiter
// ends.
func leases(t *testing.T, c subject) {
	acquire := func(c *redis.Client, owner string, ms int,
		options ...any) (token int64, err error) {
		reply, err := c.Do(ctx, append([]any{"KEYP.LEASE", "ACQUIRE", "l", owner, ms},
			options...)...).Int64Slice()
		if err != nil {
			return 0, err
		}
		return reply[0], nil
	}
	first, err := acquire(c.Client, "first", 1_000_000)
	is(t, first)(acquire(c.Client, "first", 1_000_000))
	if first < 1 || err != nil {
		t.Fatalf("token %d, %v", first, err)
	}
	if _, err := acquire(c.Client, "other", 1000); !errors.Is(err, redis.Nil) {
		t.Errorf("a second owner: %v", err)
	}
	if _, err := acquire(c.Client, "other", 1000, "WAIT", 1); !errors.Is(err, redis.Nil) {
		t.Errorf("a second owner waits: %v", err)
	}
	is(t, any("OK"))(c.do("KEYP.LEASE", "CHECK", "l", first))
	is(t, "lease")(c.Type(ctx, "l").Result())

	// Three clients wait, in this order. The second one's connection ends.
	tokens := make([]chan int64, 3)
	waiting := func() int {
		return strings.Count(fmt.Sprint(c.Do(ctx, "KEYP.LEASE", "INFO", "l").Val()), "waiter-")
	}
	var second *redis.Client
	for i := range tokens {
		tokens[i] = make(chan int64, 1)
		client := c.server.Client(c.proto)
		if i == 1 {
			second = client
		}
		go func() {
			token, err := acquire(client, fmt.Sprint("waiter-", i), 20+1_000_000*(i/2), "WAIT", 0)
			if err != nil {
				token = -1
			}
			tokens[i] <- token
		}()
		await.Until(t, "it waits", func() bool { return waiting() == i+1 })
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if token := await.For(t, "its connection has ended", tokens[1]); token != -1 {
		t.Errorf("it has token %d", token)
	}
	await.Until(t, "it has left", func() bool { return waiting() == 2 })
	is(t, any(int64(1)))(c.do("KEYP.LEASE", "RELEASE", "l", first))
	released := await.For(t, "the lease is released", tokens[0])
	expired := await.For(t, "the lease expires", tokens[2])
	if first >= released || released >= expired {
		t.Errorf("tokens %d, %d, %d", first, released, expired)
	}
	fails(t, "LEASE the lease is not held with this token",
		c.Do(ctx, "KEYP.LEASE", "CHECK", "l", released))
	fails(t, "LEASE the lease is not held with this token",
		c.Do(ctx, "KEYP.LEASE", "RENEW", "l", released, 1000))
	if reply, err := c.do("KEYP.LEASE", "RENEW", "l", expired, 1000); err != nil ||
		reply.(int64) <= time.Now().UnixMilli()-1000 {
		t.Errorf("RENEW: %v, %v", reply, err)
	}
	cmds, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Do(ctx, "KEYP.LEASE", "CHECK", "l", released)
		p.Set(ctx, "guarded", "v", 0)
		return nil
	})
	if !redis.HasErrorPrefix(err, "LEASE") || !redis.HasErrorPrefix(cmds[1].Err(),
		"LEASE not run") {
		t.Errorf("EXEC: %v, %v", err, cmds)
	}
	is(t, int64(0))(c.Exists(ctx, "guarded").Result())
	if help, err := c.do("KEYP.LEASE", "HELP"); err != nil || len(help.([]any)) < 10 {
		t.Errorf("HELP: %v, %v", help, err)
	}
	is(t, int64(1))(c.Del(ctx, "l").Result())
}

// limits admits costs by several limits, and by a reservation that is given back.
func limits(t *testing.T, c subject) {
	take := func(cost int, more ...any) []any {
		t.Helper()
		reply, err := c.Do(ctx, append([]any{"KEYP.LIMIT", "TAKE", "api", cost, "WINDOW", 3,
			600_000, "TOKENS", 10, 1, 600_000}, more...)...).Slice()
		if err != nil || len(reply) != 5 {
			t.Fatalf("TAKE: %v, %v", reply, err)
		}
		return reply
	}
	if reply := take(2); reply[0] != int64(1) || fmt.Sprint(reply[3]) != "[1 8]" {
		t.Errorf("the first cost: %v", reply)
	}
	if reply := take(2); reply[0] != int64(0) || reply[1] != int64(1) || reply[2].(int64) <= 0 ||
		reply[2].(int64) > 600_000 {
		t.Errorf("a cost too many: %v", reply)
	}
	if reply := take(1, "RESERVE", "job", 60_000); reply[0] != int64(1) {
		t.Errorf("a reservation: %v", reply)
	}
	is(t, "limit")(c.Type(ctx, "api").Result())
	held, err := c.Do(ctx, "KEYP.LIMIT", "HELD", "api").Slice()
	if err != nil || len(held) != 1 || held[0].([]any)[0] != "job" {
		t.Errorf("HELD: %v, %v", held, err)
	}
	info, err := c.Do(ctx, "KEYP.LIMIT", "INFO", "api").Result()
	if got := fmt.Sprint(info); err != nil || !strings.Contains(got, "window") ||
		!strings.Contains(got, "job") {
		t.Errorf("INFO: %v, %v", info, err)
	}
	is(t, any(int64(1)))(c.do("KEYP.LIMIT", "RETURN", "api", "job"))
	is(t, any(int64(0)))(c.do("KEYP.LIMIT", "CONFIRM", "api", "job"))
	if peek, err := c.Do(ctx, "KEYP.LIMIT", "PEEK", "api", 1, "WINDOW", 3,
		600_000).Slice(); err != nil || peek[0] != int64(1) || fmt.Sprint(peek[3]) != "[1]" {
		t.Errorf("PEEK: %v, %v", peek, err)
	}
	is(t, any(int64(1)))(c.do("KEYP.LIMIT", "RESET", "api"))
	for i := range 3 {
		reply, err := c.Do(ctx, "CL.THROTTLE", "throttled", 1, 1, 3600).Int64Slice()
		if err != nil || len(reply) != 5 || (reply[0] == 1) != (i == 2) || reply[1] != 2 ||
			reply[2] != int64(max(0, 1-i)) {
			t.Errorf("CL.THROTTLE: %v, %v", reply, err)
		}
	}
	if help, err := c.do("KEYP.LIMIT", "HELP"); err != nil || len(help.([]any)) < 10 {
		t.Errorf("HELP: %v, %v", help, err)
	}
}

// delayed delivers jobs in the order in which they are due, one of them twice, and acknowledges
// each.
func delayed(t *testing.T, c subject) {
	add := func(id string, due any, payload string, more ...any) (any, error) {
		return c.do(append([]any{"KEYP.DELAY", "ADD", "jobs", id, due, payload}, more...)...)
	}
	is(t, any(int64(1)))(add("second", 1_000_000_000_002, "b"))
	is(t, any(int64(1)))(add("first", 1_000_000_000_001, "a"))
	is(t, any(int64(1)))(add("later", "+600000", "c"))
	is(t, any(int64(0)))(add("first", 1_000_000_000_005, "another", "NX"))
	is(t, "delay")(c.Type(ctx, "jobs").Result())
	pop := func(id, payload string, deliveries int64, more ...any) (receipt any) {
		t.Helper()
		reply, err := c.Do(ctx, append([]any{"KEYP.DELAY", "POP", "jobs", "VISIBILITY", 600_000},
			more...)...).Slice()
		if err != nil || len(reply) != 1 {
			t.Fatalf("POP: %v, %v", reply, err)
		}
		job := reply[0].([]any)
		if job[0] != id || job[1] != payload || job[3] != deliveries {
			t.Errorf("POP gives %v, want %s with %q, delivery %d", job, id, payload, deliveries)
		}
		return job[2]
	}
	stale := pop("first", "a", 1)
	is(t, any(int64(1)))(c.do("KEYP.DELAY", "NACK", "jobs", stale))
	second := pop("second", "b", 1)
	first := pop("first", "a", 2, "BLOCK", 10_000)
	is(t, any(int64(1)))(c.do("KEYP.DELAY", "EXTEND", "jobs", first, 600_000))
	is(t, any(int64(3)))(c.do("KEYP.DELAY", "LEN", "jobs"))
	if info, err := c.Do(ctx, "KEYP.DELAY", "INFO", "jobs").Result(); err != nil ||
		!strings.Contains(fmt.Sprint(info), "delivered") {
		t.Errorf("INFO: %v, %v", info, err)
	}
	if list, err := c.Do(ctx, "KEYP.DELAY", "RANGE", "jobs", "-", "+", "COUNT",
		10).Slice(); err != nil || len(list) != 3 {
		t.Errorf("RANGE: %v, %v", list, err)
	}
	is(t, any(int64(2)))(c.do("KEYP.DELAY", "ACK", "jobs", stale, second, first))
	if none, err := c.do("KEYP.DELAY", "POP", "jobs", "VISIBILITY", 1000); none != nil {
		t.Errorf("nothing is due: %v, %v", none, err)
	}
	is(t, any(int64(1)))(c.do("KEYP.DELAY", "RESCHEDULE", "jobs", "later", "+0"))
	is(t, any(int64(1)))(c.do("KEYP.DELAY", "CANCEL", "jobs", "later"))
	is(t, int64(0))(c.Exists(ctx, "jobs").Result())
	if help, err := c.do("KEYP.DELAY", "HELP"); err != nil || len(help.([]any)) < 10 {
		t.Errorf("HELP: %v, %v", help, err)
	}
}
