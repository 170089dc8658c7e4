package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

func TestGoRedisTracking(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "what is read", run: trackReads},
		{name: "prefixes", run: trackPrefixes},
		{name: "only what is asked for", run: trackOptIn},
		{name: "a connection for messages", run: trackRedirect},
		{name: "errors", run: trackErrors},
		{name: "MONITOR", run: monitor},
	})
}

// invalidated collects the keys of the invalidation messages that a client gets with CLIENT
// TRACKING.
type invalidated struct{ keys []string }

func (i *invalidated) HandlePushNotification(_ context.Context, _ push.NotificationHandlerContext,
	message []any) error {
	keys, ok := message[1].([]any)
	if !ok {
		i.keys = append(i.keys, "(all)")
	}
	for _, key := range keys {
		i.keys = append(i.keys, key.(string))
	}
	return nil
}

// tracker returns a connection that tracks, and a function that returns the messages it has
// received since the last call.
func (s subject) tracker(t *testing.T,
	options *redis.ClientTrackingOptions) (c *redis.Conn, notified func() []string) {
	t.Helper()
	c = s.conn(t)
	heard := &invalidated{}
	if err := c.RegisterPushNotificationHandler("invalidate", heard, false); err != nil {
		t.Fatal(err)
	}
	is(t, "OK")(c.ClientTrackingOn(ctx, options).Result())
	return c, func() []string {
		t.Helper()
		is(t, "PONG")(c.Ping(ctx).Result()) // what was sent before it has come
		keys := heard.keys
		heard.keys = nil
		return keys
	}
}

func trackReads(t *testing.T, s subject) {
	if s.proto == 2 {
		return // nothing to hear
	}
	is(t, "OK")(s.MSet(ctx, "a", 1, "b", 2).Result())
	c, notified := s.tracker(t, nil)
	is(t, "1")(c.Get(ctx, "a").Result())
	is(t, []any{"2", nil})(c.MGet(ctx, "b", "none").Result())
	s.Set(ctx, "a", 2, 0)
	s.Set(ctx, "a", 3, 0)
	s.Set(ctx, "none", 1, 0)
	is(t, []string{"a", "none"})(notified(), nil)
	is(t, int64(1))(s.Del(ctx, "b").Result())
	is(t, []string{"b"})(notified(), nil)
	is(t, "3")(c.Get(ctx, "a").Result())
	s.FlushAll(ctx)
	is(t, []string{"(all)"})(notified(), nil)
	// On a busy machine the key may expire before it is read. Then no client tracks it.
	for life := 20 * time.Millisecond; ; life *= 4 {
		s.Set(ctx, "short", 1, life)
		notified()
		if c.Get(ctx, "short").Err() == nil {
			break
		}
	}
	await.Until(t, "the key expires", func() bool { return len(notified()) == 1 })
	is(t, "OK")(c.ClientTrackingOff(ctx).Result())
	c.Get(ctx, "a")
	s.Set(ctx, "a", 4, 0)
	is[[]string](t, nil)(notified(), nil)
}

func trackPrefixes(t *testing.T, s subject) {
	if s.proto == 2 {
		return
	}
	c, notified := s.tracker(t, &redis.ClientTrackingOptions{Bcast: true,
		Prefixes: []string{"user:", "job:"}, NoLoop: true})
	s.MSet(ctx, "user:2", 1, "user:1", 1, "job:1", 1, "other", 1)
	is(t, []string{"job:1", "user:1", "user:2"})(notified(), nil)
	c.Set(ctx, "user:3", 1, 0)
	is[[]string](t, nil)(notified(), nil)
	info, err := c.Do(ctx, "CLIENT", "TRACKINGINFO").Result()
	want := map[any]any{"flags": []any{"on", "bcast", "noloop"}, "redirect": int64(0),
		"prefixes": []any{"job:", "user:"}}
	if fmt.Sprint(info) != fmt.Sprint(want) || err != nil {
		t.Errorf("TRACKINGINFO: %v, %v", info, err)
	}
}

func trackOptIn(t *testing.T, s subject) {
	if s.proto == 2 {
		return
	}
	c, notified := s.tracker(t, &redis.ClientTrackingOptions{OptIn: true})
	c.Get(ctx, "a")
	is[any](t, "OK")(c.Do(ctx, "CLIENT", "CACHING", "YES").Result())
	c.Get(ctx, "b")
	c.Get(ctx, "c")
	s.MSet(ctx, "a", 1, "b", 1, "c", 1)
	is(t, []string{"b"})(notified(), nil)
}

// trackRedirect: messages are redirected to a subscriber, as RESP2 requires.
func trackRedirect(t *testing.T, s subject) {
	messages := s.server.Client(2).Subscribe(ctx, "__redis__:invalidate")
	defer messages.Close()
	if _, err := messages.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	subscriber := regexp.MustCompile(`(?m)^id=(\d+) .* sub=1 `)
	var lines [][]string
	await.Until(t, "nobody else is subscribed, as somebody was", func() bool {
		lines = subscriber.FindAllStringSubmatch(s.ClientList(ctx).Val(), -1)
		return len(lines) == 1
	})
	var id int64
	fmt.Sscan(lines[0][1], &id)
	c := s.conn(t)
	is(t, "OK")(c.ClientTrackingOn(ctx, &redis.ClientTrackingOptions{Redirect: id}).Result())
	is(t, id)(c.Do(ctx, "CLIENT", "GETREDIR").Int64())
	c.Get(ctx, "a")
	c.Get(ctx, "b")
	s.MSet(ctx, "b", 1, "a", 1)
	for _, want := range []string{"b", "a"} {
		got, err := messages.ReceiveMessage(ctx)
		if err != nil || got.Channel != "__redis__:invalidate" ||
			fmt.Sprint(got.PayloadSlice) != "["+want+"]" {
			t.Errorf("%v, %v; want %s", got, err, want)
		}
	}
}

func trackErrors(t *testing.T, s subject) {
	c := s.conn(t)
	fails(t,
		"ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
		c.Do(ctx, "CLIENT", "CACHING", "YES"))
	fails(t, "ERR The client ID you want redirect to does not exist",
		c.Do(ctx, "CLIENT", "TRACKING", "ON", "REDIRECT", 1<<40))
	fails(t, "ERR PREFIX option requires BCAST mode to be enabled",
		c.Do(ctx, "CLIENT", "TRACKING", "ON", "PREFIX", "a"))
	fails(t, "ERR OPTIN and OPTOUT are not compatible with BCAST",
		c.Do(ctx, "CLIENT", "TRACKING", "ON", "BCAST", "OPTIN"))
	fails(t, "ERR You can't specify both OPTIN mode and OPTOUT mode",
		c.Do(ctx, "CLIENT", "TRACKING", "ON", "OPTOUT", "OPTIN"))
	fails(t, "ERR syntax error", c.Do(ctx, "CLIENT", "TRACKING", "PERHAPS"))
	is[any](t, "OK")(c.Do(ctx, "CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a").Result())
	fails(t,
		"ERR Prefix 'ab' overlaps with an existing prefix 'a'. Prefixes for a single client must not overlap.",
		c.Do(ctx, "CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "ab"))
	fails(t,
		"ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
		c.Do(ctx, "CLIENT", "TRACKING", "ON"))
	is[any](t, "RESET")(c.Do(ctx, "RESET").Result())
	is[any](t, int64(-1))(c.Do(ctx, "CLIENT", "GETREDIR").Result())
}

// monitor reads the output of MONITOR from the socket, since the reader of go-redis never stops.
func monitor(t *testing.T, s subject) {
	c := s.conn(t)
	is[any](t, "OK")(c.Do(ctx, "MONITOR").Result())
	is[any](t, "RESET")(c.Do(ctx, "RESET").Result())
	missing(t, c.Get(ctx, "k"))

	w, err := dialWire(s.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if r, err := w.do("MONITOR"); err != nil || r.text != "OK" {
		t.Fatal(r.raw, err)
	}
	other := s.conn(t)
	other.Set(ctx, "k", "a \"b\"\n", 0)
	for {
		r, err := w.receive()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(r.text, `"set"`) {
			if !regexp.MustCompile(
				`^\d{10}\.\d{6} \[0 127\.0\.0\.1:\d+\] "set" "k" "a \\"b\\"\\n"$`).MatchString(
				r.text) {
				t.Errorf("shown %s", r.text)
			}
			return
		}
	}
}

// TestGoRedisCache: the client-side cache of go-redis, which tracks with every connection of its
// pool, has what other clients write.
func TestGoRedisCache(t *testing.T) {
	t.Parallel()
	keyp := testkit.Keyp(t)
	writer := keyp.Client(3)
	cached := testkit.NewClient(t, &redis.Options{Addr: keyp.Addr(), Protocol: 3,
		ClientSideCacheConfig: &redis.ClientSideCacheConfig{}})
	for i := range 50 {
		want := fmt.Sprint(i)
		is(t, "OK")(writer.Set(ctx, "k", want, 0).Result())
		await.Until(t, "the cache has "+want, func() bool {
			return cached.Get(ctx, "k").Val() == want
		})
	}
	hits := func() string {
		info, err := writer.Info(ctx, "stats").Result()
		_, rest, _ := strings.Cut(info, "keyspace_hits:")
		n, _, _ := strings.Cut(rest, "\r\n")
		if err != nil || n == "" {
			t.Fatal(n, err)
		}
		return n
	}
	before := hits()
	for range 100 {
		is(t, "49")(cached.Get(ctx, "k").Result())
	}
	if now := hits(); now != before {
		t.Errorf("the server was asked: %s hits, then %s", before, now)
	}
	is(t, true)(writer.PExpire(ctx, "k", 30*time.Millisecond).Result())
	await.Until(t, "the key leaves the cache with its deadline", func() bool {
		return cached.Get(ctx, "k").Err() == redis.Nil
	})
}
