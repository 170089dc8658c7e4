package e2e

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit/await"
)

func TestGoRedisStreams(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "entries", run: streamEntries},
		{name: "reading", run: streamReading},
		{name: "groups", run: streamGroups},
		{name: "claiming", run: streamClaiming},
		{name: "information", run: streamInformation},
		{name: "references", run: streamReferences, newer: "8.2"},
		{name: "newest", run: streamNewest, newer: "8.10"},
	})
}

// message returns an entry with one field.
func message(id, field, value string) redis.XMessage {
	return redis.XMessage{ID: id, Values: map[string]any{field: value}}
}

// threeEntries adds three entries.
func threeEntries(t *testing.T, c subject) {
	t.Helper()
	for _, id := range []string{"1-1", "1-2", "2-0"} {
		is(t, id)(c.XAdd(ctx, &redis.XAddArgs{Stream: "s", ID: id,
			Values: []string{"f", id}}).Result())
	}
}

func streamEntries(t *testing.T, c subject) {
	threeEntries(t, c)
	first, second, third := message("1-1", "f", "1-1"), message("1-2", "f", "1-2"),
		message("2-0", "f", "2-0")
	is(t, int64(3))(c.XLen(ctx, "s").Result())
	is(t, []redis.XMessage{first, second, third})(c.XRange(ctx, "s", "-", "+").Result())
	is(t, []redis.XMessage{third})(c.XRevRangeN(ctx, "s", "+", "-", 1).Result())
	is(t, int64(1))(c.XDel(ctx, "s", "1-2", "9-9").Result())
	is(t, int64(1))(c.XTrimMaxLen(ctx, "s", 1).Result())
	is(t, int64(1))(c.XTrimMinID(ctx, "s", "3").Result())
	fails(t, "ERR The ID specified in XADD is equal or smaller than the target stream top item",
		c.XAdd(ctx, &redis.XAddArgs{Stream: "s", ID: "1-1", Values: []string{"f", "v"}}))
	missing(t, c.XAdd(ctx, &redis.XAddArgs{Stream: "none", NoMkStream: true,
		Values: []string{"f", "v"}}))
	is(t, "OK")(c.Do(ctx, "XSETID", "s", "5-0").Text())
	is(t, "5-1")(c.XAdd(ctx,
		&redis.XAddArgs{Stream: "s", ID: "5-*", Values: []string{"f", "v"}}).Result())
}

func streamReading(t *testing.T, c subject) {
	threeEntries(t, c)
	is(t, []redis.XStream{{Stream: "s", Messages: []redis.XMessage{message("2-0", "f", "2-0")}}})(
		c.XReadStreams(ctx, "s", "1-2").Result())
	missing(t, c.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", "$"}, Block: time.Millisecond}))
	got := later(t, c, func(c *redis.Conn) ([]redis.XStream, error) {
		return c.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", "$"}, Block: 0}).Result()
	})
	c.waiting(t, 1)
	is(t, "3-0")(c.XAdd(ctx,
		&redis.XAddArgs{Stream: "s", ID: "3-0", Values: []string{"f", "new"}}).Result())
	is(t, []redis.XStream{{Stream: "s", Messages: []redis.XMessage{message("3-0", "f", "new")}}})(
		got())
}

func streamGroups(t *testing.T, c subject) {
	fails(t,
		"ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
		c.XGroupCreate(ctx, "s", "g", "0"))
	is(t, "OK")(c.XGroupCreateMkStream(ctx, "s", "g", "$").Result())
	fails(t, "BUSYGROUP Consumer Group name already exists",
		c.XGroupCreateMkStream(ctx, "s", "g", "$"))
	threeEntries(t, c)
	is(t, int64(1))(c.XGroupCreateConsumer(ctx, "s", "g", "a").Result())
	is(t, []redis.XStream{{Stream: "s", Messages: []redis.XMessage{message("1-1", "f", "1-1")}}})(
		c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "a",
			Streams: []string{"s", ">"}, Count: 1, Block: -1}).Result())
	is(t, []redis.XStream{{Stream: "s", Messages: []redis.XMessage{message("1-2", "f", "1-2"),
		message("2-0", "f", "2-0")}}})(
		c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "b",
			Streams: []string{"s", ">"}, Block: -1}).Result())
	missing(t, c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "b",
		Streams: []string{"s", ">"}, Block: time.Millisecond}))
	is(t, &redis.XPending{Count: 3, Lower: "1-1", Higher: "2-0",
		Consumers: map[string]int64{"a": 1, "b": 2}})(c.XPending(ctx, "s", "g").Result())
	is(t, int64(1))(c.XAck(ctx, "s", "g", "1-2", "7-7").Result())
	is(t, int64(1))(c.XGroupDelConsumer(ctx, "s", "g", "b").Result())
	is(t, "OK")(c.XGroupSetID(ctx, "s", "g", "0").Result())
	is(t, int64(1))(c.XGroupDestroy(ctx, "s", "g").Result())
	fails(t, "NOGROUP No such key 's' or consumer group 'g'", c.XPending(ctx, "s", "g"))
	for _, container := range []string{"XGROUP", "XINFO"} {
		if help, err := c.do(container, "HELP"); err != nil || len(help.([]any)) < 5 {
			t.Errorf("%s HELP: %v, %v", container, help, err)
		}
	}
}

func streamClaiming(t *testing.T, c subject) {
	is(t, "OK")(c.XGroupCreateMkStream(ctx, "s", "g", "0").Result())
	threeEntries(t, c)
	if err := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "a",
		Streams: []string{"s", ">"}, Block: -1}).Err(); err != nil {
		t.Fatal(err)
	}
	is(t, []redis.XMessage{message("1-1", "f", "1-1")})(
		c.XClaim(ctx, &redis.XClaimArgs{Stream: "s", Group: "g", Consumer: "b",
			Messages: []string{"1-1"}}).Result())
	is(t, []string{"1-2"})(c.XClaimJustID(ctx, &redis.XClaimArgs{Stream: "s", Group: "g",
		Consumer: "b", Messages: []string{"1-2"}}).Result())
	ids, next, err := c.XAutoClaimJustID(ctx, &redis.XAutoClaimArgs{Stream: "s", Group: "g",
		Consumer: "c", Start: "0", Count: 2}).Result()
	if len(ids) != 2 || next != "2-0" || err != nil {
		t.Errorf("claimed %q, next %s, %v", ids, next, err)
	}
	pending, err := c.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: "-",
		End: "+", Count: 10, Consumer: "c"}).Result()
	if len(pending) != 2 || pending[0].ID != "1-1" || pending[0].RetryCount != 2 || err != nil {
		t.Errorf("pending: %+v, %v", pending, err)
	}
}

func streamInformation(t *testing.T, c subject) {
	is(t, "OK")(c.XGroupCreateMkStream(ctx, "s", "g", "0").Result())
	threeEntries(t, c)
	if err := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "a",
		Streams: []string{"s", ">"}, Count: 2, Block: -1}).Err(); err != nil {
		t.Fatal(err)
	}
	is(t, []redis.XInfoGroup{{Name: "g", Consumers: 1, Pending: 2, LastDeliveredID: "1-2",
		EntriesRead: 2, Lag: 1}})(c.XInfoGroups(ctx, "s").Result())
	if stream, err := c.XInfoStream(ctx, "s").Result(); err != nil || stream.Length != 3 ||
		stream.Groups != 1 || stream.LastGeneratedID != "2-0" ||
		stream.EntriesAdded != 3 || stream.FirstEntry.ID != "1-1" || stream.LastEntry.ID != "2-0" {
		t.Errorf("%+v, %v", stream, err)
	}
	if full, err := c.XInfoStreamFull(ctx, "s", 1).Result(); err != nil || full.Length != 3 ||
		len(full.Entries) != 1 || len(full.Groups) != 1 ||
		full.Groups[0].PelCount != 2 || len(full.Groups[0].Consumers) != 1 ||
		full.Groups[0].Consumers[0].Name != "a" {
		t.Errorf("%+v, %v", full, err)
	}
	if consumers, err := c.XInfoConsumers(ctx, "s", "g").Result(); err != nil ||
		len(consumers) != 1 || consumers[0].Pending != 2 || consumers[0].Idle > c.age() {
		t.Errorf("%+v, %v", consumers, err)
	}
	is(t, "stream")(c.Type(ctx, "s").Result())
	is(t, "stream")(c.ObjectEncoding(ctx, "s").Result())
}

func streamReferences(t *testing.T, c subject) {
	is(t, "OK")(c.XGroupCreateMkStream(ctx, "s", "g", "0").Result())
	threeEntries(t, c)
	if err := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "a",
		Streams: []string{"s", ">"}, Block: -1}).Err(); err != nil {
		t.Fatal(err)
	}
	is(t, []any{int64(2), int64(2)})(c.XDelEx(ctx, "s", "ACKED", "1-1", "7-7").Result())
	is(t, []any{int64(1), int64(-1)})(c.XAckDel(ctx, "s", "g", "DELREF", "1-1", "7-7").Result())
	is(t, int64(0))(c.XTrimMaxLenMode(ctx, "s", 0, "ACKED").Result())
	is(t, int64(2))(c.XTrimMaxLenMode(ctx, "s", 0, "DELREF").Result())
	is(t, int64(0))(c.XLen(ctx, "s").Result())
}

func streamNewest(t *testing.T, c subject) {
	is(t, "OK")(c.XGroupCreateMkStream(ctx, "s", "g", "0").Result())
	once := &redis.XAddArgs{Stream: "s", ProducerID: "p", IdempotentID: "1",
		Values: []string{"f", "v"}}
	id, err := c.XAdd(ctx, once).Result()
	if err != nil {
		t.Fatal(err)
	}
	is(t, id)(c.XAdd(ctx, once).Result())
	is(t, "OK")(c.Do(ctx, "XIDMPRECORD", "s", "p", "2", id).Text())
	is(t, "OK")(c.XCfgSet(ctx, &redis.XCfgSetArgs{Stream: "s", Duration: 10, MaxSize: 5}).Result())
	is(t, "1-1")(c.XAdd(ctx, &redis.XAddArgs{Stream: "aged", ID: "1-1",
		Values: []string{"f", "v"}}).Result())
	is(t, "OK")(c.Do(ctx, "XCFGSET", "aged", "MAXAGE", 1000, "DELREF").Text())
	is(t, int64(0))(c.XLen(ctx, "aged").Result())
	if err := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "a",
		Streams: []string{"s", ">"}, Block: -1}).Err(); err != nil {
		t.Fatal(err)
	}
	is(t, int64(1))(c.XNack(ctx, &redis.XNackArgs{Stream: "s", Group: "g", Mode: "FAIL",
		IDs: []string{id}}).Result())
	got, err := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "b",
		Streams: []string{"s", ">"}, Claim: time.Millisecond, Block: -1}).Result()
	if err != nil || len(got) != 1 || len(got[0].Messages) != 1 || got[0].Messages[0].ID != id {
		t.Errorf("%+v, %v", got, err)
	}
	// A client that waits gets an entry once it has been pending for long enough. It gets an error
	// when the group is deleted.
	var ended atomic.Bool
	next := func(claim time.Duration) func() ([]redis.XStream, error) {
		ended.Store(false)
		return later(t, c, func(c *redis.Conn) ([]redis.XStream, error) {
			defer ended.Store(true)
			return c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c",
				Streams: []string{"s", ">"}, Claim: claim, Block: 0}).Result()
		})
	}
	// On a busy machine the entry may have been pending for that long before the client begins to
	// wait.
	for claim, waits := time.Second, false; !waits; claim *= 2 {
		wait := next(claim)
		await.Until(t, "the client waits, or has the entry", func() bool {
			waits = c.blocked(t) == 1
			return waits || ended.Load()
		})
		is(t, 1)(messages(wait()))
	}
	wait := next(time.Hour)
	c.waiting(t, 1)
	is(t, int64(1))(c.XGroupDestroy(ctx, "s", "g").Result())
	if _, err := wait(); err == nil ||
		err.Error() != "NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option" {
		t.Errorf("error %v", err)
	}
	is(t, 1)(messages(c.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", "0"}, MaxCount: 1,
		MaxSize: 10, Block: -1}).Result()))
}

// messages counts the entries of a reply.
func messages(streams []redis.XStream, err error) (n int, _ error) {
	for _, s := range streams {
		n += len(s.Messages)
	}
	return n, err
}
