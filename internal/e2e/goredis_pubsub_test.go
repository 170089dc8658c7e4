package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit/await"
)

func TestGoRedisPubSub(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "channels", run: pubsubChannels},
		{name: "patterns", run: pubsubPatterns},
		{name: "shard channels", run: pubsubShards},
		{name: "PUBSUB", run: pubsubCommand},
		{name: "the mode of RESP2", run: pubsubMode},
		{name: "messages of transactions and scripts", run: pubsubAtomic},
		{name: "a burst", run: pubsubBurst},
		{name: "reconnecting", run: pubsubReconnects},
		{name: "keyspace events", run: keyspaceEvents},
		{name: "expired events", run: expiredEvents},
		{name: "events of fields", run: fieldEvents, newer: "7.4"},
	})
}

// listener returns a subscriber that is closed after the test. It records the subscriber's commands
// as sent.
func (s subject) listener(t *testing.T, p *redis.PubSub, commands ...string) *redis.PubSub {
	t.Helper()
	for _, name := range commands {
		recorder{s.keyp}.note(redis.NewCmd(ctx, name))
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// hears reads the next messages and compares them: "kind channel count" or "channel message", with
// the pattern first if there is one.
func hears(t *testing.T, p *redis.PubSub, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if got := heard(t, p); got != want {
			t.Fatalf("heard %q, want %q", got, want)
		}
	}
}

func heard(t *testing.T, p *redis.PubSub) string {
	t.Helper()
	message, err := p.ReceiveTimeout(ctx, await.Bound)
	if err != nil {
		t.Fatal(err)
	}
	switch m := message.(type) {
	case *redis.Subscription:
		return fmt.Sprintf("%s %s %d", m.Kind, m.Channel, m.Count)
	case *redis.Message:
		if m.Pattern != "" {
			return m.Pattern + " " + m.Channel + " " + m.Payload
		}
		return m.Channel + " " + m.Payload
	case *redis.Pong:
		return "pong " + m.Payload
	}
	t.Fatalf("heard %v", message)
	return ""
}

func pubsubChannels(t *testing.T, s subject) {
	is(t, int64(0))(s.Publish(ctx, "news", "nobody").Result())
	p := s.listener(t, s.Subscribe(ctx, "news", "weather"), "subscribe", "unsubscribe")
	hears(t, p, "subscribe news 1", "subscribe weather 2")
	is(t, int64(1))(s.Publish(ctx, "news", "binary\r\n\x00").Result())
	is(t, int64(1))(s.Publish(ctx, "weather", "").Result())
	is(t, int64(0))(s.Publish(ctx, "News", "x").Result())
	hears(t, p, "news binary\r\n\x00", "weather ")
	if err := p.Ping(ctx, "hi"); err != nil {
		t.Fatal(err)
	}
	hears(t, p, "pong hi")
	if err := p.Unsubscribe(ctx, "news", "never"); err != nil {
		t.Fatal(err)
	}
	hears(t, p, "unsubscribe news 1", "unsubscribe never 1")
	if err := p.Unsubscribe(ctx); err != nil {
		t.Fatal(err)
	}
	hears(t, p, "unsubscribe weather 0")
	is(t, int64(0))(s.Publish(ctx, "news", "x").Result())
}

func pubsubPatterns(t *testing.T, s subject) {
	p := s.listener(t, s.PSubscribe(ctx, "a*", "?b"), "psubscribe", "punsubscribe")
	hears(t, p, "psubscribe a* 1", "psubscribe ?b 2")
	if err := p.Subscribe(ctx, "ab"); err != nil {
		t.Fatal(err)
	}
	hears(t, p, "subscribe ab 3")
	is(t, int64(3))(s.Publish(ctx, "ab", "x").Result())
	got := []string{heard(t, p), heard(t, p), heard(t, p)}
	slices.Sort(got) // which pattern comes first is not said
	if want := []string{"?b ab x", "a* ab x", "ab x"}; !slices.Equal(got, want) {
		t.Errorf("heard %q", got)
	}
	if err := p.PUnsubscribe(ctx, "a*"); err != nil {
		t.Fatal(err)
	}
	hears(t, p, "punsubscribe a* 2")
	is(t, int64(0))(s.Publish(ctx, "ac", "x").Result())
	is(t, int64(1))(s.Publish(ctx, "cb", "x").Result())
	hears(t, p, "?b cb x")
}

func pubsubShards(t *testing.T, s subject) {
	p := s.listener(t, s.SSubscribe(ctx, "s"), "ssubscribe", "sunsubscribe")
	hears(t, p, "ssubscribe s 1")
	is(t, int64(1))(s.SPublish(ctx, "s", "x").Result())
	is(t, int64(0))(s.Publish(ctx, "s", "y").Result())
	hears(t, p, "s x")
	is(t, map[string]int64{"s": 1, "none": 0})(s.PubSubShardNumSub(ctx, "s", "none").Result())
	is(t, []string{"s"})(s.PubSubShardChannels(ctx, "*").Result())
	if err := p.SUnsubscribe(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	hears(t, p, "sunsubscribe s 0")
	is(t, []string{})(s.PubSubShardChannels(ctx, "*").Result())
}

func pubsubCommand(t *testing.T, s subject) {
	p := s.listener(t, s.Subscribe(ctx, "one"))
	q := s.listener(t, s.Subscribe(ctx, "one", "two"))
	hears(t, p, "subscribe one 1")
	hears(t, q, "subscribe one 1", "subscribe two 2")
	if err := q.PSubscribe(ctx, "t*"); err != nil {
		t.Fatal(err)
	}
	hears(t, q, "psubscribe t* 3")
	is(t, map[string]int64{"one": 2, "two": 1, "three": 0})(s.PubSubNumSub(ctx, "one", "two",
		"three").Result())
	is(t, int64(1))(s.PubSubNumPat(ctx).Result())
	is(t, []string{"two"})(s.PubSubChannels(ctx, "t*").Result())
	if lines, err := s.Do(ctx, "PUBSUB", "HELP").StringSlice(); err != nil || len(lines) < 5 {
		t.Errorf("PUBSUB HELP: %q, %v", lines, err)
	}
	fails(t, "ERR unknown subcommand 'NOSUCH'. Try PUBSUB HELP.", s.Do(ctx, "PUBSUB", "NOSUCH"))
}

// pubsubMode sends commands on a subscribed connection that go-redis itself never sends there.
func pubsubMode(t *testing.T, s subject) {
	if s.proto == 3 {
		return
	}
	w, err := dialWire(s.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	for _, step := range []struct{ command, want string }{
		{"SUBSCRIBE", "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"},
		{"GET",
			"-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n"},
		{"PING", "*2\r\n$4\r\npong\r\n$1\r\na\r\n"},
		{"UNSUBSCRIBE", "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n"},
		{"GET", "$-1\r\n"},
		{"PSUBSCRIBE", "*3\r\n$10\r\npsubscribe\r\n$1\r\na\r\n:1\r\n"},
	} {
		if got, err := w.do(step.command, "a"); err != nil || got.raw != step.want {
			t.Fatalf("%s: %q, %v", step.command, got.raw, err)
		}
	}
	if got, err := w.do("RESET"); err != nil || got.text != "RESET" {
		t.Fatalf("RESET: %q, %v", got.raw, err)
	}
	is(t, int64(0))(s.PubSubNumPat(ctx).Result())
}

func pubsubAtomic(t *testing.T, s subject) {
	p := s.listener(t, s.Subscribe(ctx, "log"))
	hears(t, p, "subscribe log 1")
	_, err := s.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.Publish(ctx, "log", "first")
		tx.Set(ctx, "k", "v", 0)
		tx.Publish(ctx, "log", "second")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	hears(t, p, "log first", "log second")
	is[any](t, int64(1))(s.Eval(ctx,
		`redis.call('SET', KEYS[1], 'w'); return redis.call('PUBLISH', 'log', KEYS[1])`,
		[]string{"k"}).Result())
	hears(t, p, "log k")
}

// pubsubBurst: no message is lost or changes its position.
func pubsubBurst(t *testing.T, s subject) {
	p := s.listener(t, s.Subscribe(ctx, "burst"))
	hears(t, p, "subscribe burst 1")
	const messages = 2000
	done := make(chan error, 1)
	go func() {
		_, err := s.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range messages {
				pipe.Publish(ctx, "burst", i)
			}
			return nil
		})
		done <- err
	}()
	for i := range messages {
		hears(t, p, fmt.Sprint("burst ", i))
	}
	if err := await.For(t, "all is received", done); err != nil {
		t.Fatal(err)
	}
}

// pubsubReconnects: go-redis subscribes again by itself after its connection is lost.
func pubsubReconnects(t *testing.T, s subject) {
	p := s.listener(t, s.Subscribe(ctx, "again"))
	hears(t, p, "subscribe again 1")
	is(t, int64(1))(s.ClientKillByFilter(ctx, "TYPE", "pubsub").Result())
	for confirmed := false; !confirmed; { // an error shows the end first
		message, err := p.ReceiveTimeout(ctx, await.Bound)
		again, ok := message.(*redis.Subscription)
		confirmed = err == nil && ok && again.Channel == "again"
	}
	is(t, int64(1))(s.Publish(ctx, "again", "x").Result())
	hears(t, p, "again x")
}

// events turns on keyspace events until the end of the test, and returns a subscriber to all of
// them.
func (s subject) events(t *testing.T, classes string) *redis.PubSub {
	t.Helper()
	is(t, "OK")(s.ConfigSet(ctx, "notify-keyspace-events", classes).Result())
	t.Cleanup(func() { s.ConfigSet(ctx, "notify-keyspace-events", "") })
	p := s.listener(t, s.PSubscribe(ctx, "__key*__:*"))
	hears(t, p, "psubscribe __key*__:* 1")
	return p
}

func keyspaceEvents(t *testing.T, s subject) {
	p := s.events(t, "KEAmn")
	both := func(db int, key string, names ...string) {
		t.Helper()
		for _, name := range names {
			hears(t, p, fmt.Sprintf("__key*__:* __keyspace@%d__:%s %s", db, key, name),
				fmt.Sprintf("__key*__:* __keyevent@%d__:%s %s", db, name, key))
		}
	}
	is(t, "OK")(s.Set(ctx, "k", "v", time.Hour).Result())
	both(0, "k", "new", "set", "expire")
	is(t, int64(1))(s.other(5).SAdd(ctx, "s", "m").Result())
	both(5, "s", "new", "sadd")
	missing(t, s.Get(ctx, "none"))
	both(0, "none", "keymiss")
	is(t, "OK")(s.Rename(ctx, "k", "n").Result())
	both(0, "n", "new")
	both(0, "k", "rename_from")
	both(0, "n", "rename_to")
	is(t, int64(1))(s.Del(ctx, "n").Result())
	both(0, "n", "del")
	is(t, "OK")(s.ConfigSet(ctx, "notify-keyspace-events", "El").Result())
	is(t, "OK")(s.Set(ctx, "k", "v", 0).Result())
	is(t, int64(1))(s.LPush(ctx, "l", "x").Result())
	hears(t, p, "__key*__:* __keyevent@0__:lpush l")
}

func expiredEvents(t *testing.T, s subject) {
	p := s.events(t, "Ex")
	is(t, "OK")(s.Set(ctx, "k", "v", 5*time.Millisecond).Result())
	hears(t, p, "__key*__:* __keyevent@0__:expired k")
	missing(t, s.Get(ctx, "k"))
}

func fieldEvents(t *testing.T, s subject) {
	p := s.events(t, "Kh")
	is(t, int64(2))(s.HSet(ctx, "h", "f", "1", "g", "2").Result())
	is(t, []int64{1})(s.HPExpire(ctx, "h", 5*time.Millisecond, "f").Result())
	hears(t, p, "__key*__:* __keyspace@0__:h hset", "__key*__:* __keyspace@0__:h hexpire",
		"__key*__:* __keyspace@0__:h hexpired")
	is(t, map[string]string{"g": "2"})(s.HGetAll(ctx, "h").Result())
}
