package restart

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// groupTest is a server with a stream, clients that add entries to it, and the consumers of its
// group.
type groupTest struct {
	t         *testing.T
	server    *testkit.Server
	mu        sync.Mutex
	next      [4]int
	added     map[string]bool   // values whose addition was acknowledged
	delivered map[string]string // entries that came to a consumer, by ID: its name
	tried     map[string]bool   // entries whose acknowledgement was sent
	acked     map[string]bool   // those for which it was confirmed
	last      string            // the last delivered ID that the group had
	progress  chan struct{}
}

const groupConsumers = 4

// twin is the suffix of the second value that a transaction or a script adds together with the
// first one.
const twin = "+"

// TestGroupsOverKills lets clients add to a stream and others read it as a group, while the server
// is killed again and again. No added entry is lost, and none is delivered twice as new.
// Acknowledged entries are no longer pending, and other delivered entries still are.
func TestGroupsOverKills(t *testing.T) {
	g := &groupTest{
		t: t, added: map[string]bool{}, delivered: map[string]string{}, tried: map[string]bool{},
		acked:  map[string]bool{},
		server: testkit.Keyp(t, "--wal-segment-size", "64kb", "--checkpoint-log-size", "1mb"),
	}
	if err := g.server.Client(3).XGroupCreateMkStream(ctx, "s", "g", "0").Err(); err != nil {
		t.Fatal(err)
	}
	for range max(5, testkit.Number(t, "KEYP_KILLS", 0)/10) {
		g.round()
		g.server.Start()
		g.check()
	}
	g.drain()
}

// round lets all clients work until some entries have come through, and then kills the server.
func (g *groupTest) round() {
	g.progress = make(chan struct{}, 1<<16)
	var all sync.WaitGroup
	for i := range g.next {
		all.Go(func() { g.add(i) })
	}
	for i := range groupConsumers {
		all.Go(func() { g.consume(fmt.Sprint("c", i)) })
	}
	for range 150 {
		await.For(g.t, "a client makes progress", g.progress)
	}
	g.server.Kill()
	all.Wait()
}

// add adds entries until the server has gone: one at a time, or two in a transaction or a script.
func (g *groupTest) add(i int) {
	client := g.server.Client(2 + i%2)
	defer client.Close()
	entry := func(value string) *redis.XAddArgs {
		return &redis.XAddArgs{Stream: "s", Values: []string{"v", value}}
	}
	for {
		value := fmt.Sprint(i, ":", g.next[i])
		g.next[i]++
		values := []string{value, value + twin}
		var err error
		switch i {
		case 0:
			_, err = client.TxPipelined(ctx, func(p redis.Pipeliner) error {
				for _, v := range values {
					p.XAdd(ctx, entry(v))
				}
				return nil
			})
		case 1:
			err = client.Eval(ctx,
				"for _, v in ipairs(ARGV) do redis.call('xadd', KEYS[1], '*', 'v', v) end",
				[]string{"s"}, values).Err()
			if errors.Is(err, redis.Nil) {
				err = nil
			}
		default:
			values = values[:1]
			err = client.XAdd(ctx, entry(value)).Err()
		}
		if err != nil {
			return
		}
		g.mu.Lock()
		for _, v := range values {
			g.added[v] = true
		}
		g.mu.Unlock()
	}
}

// consume reads new entries, and acknowledges every other one, until the server has gone.
func (g *groupTest) consume(name string) {
	client := g.server.Client(3)
	defer client.Close()
	conn := client.Conn()
	defer conn.Close()
	for {
		streams, err := conn.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: name,
			Streams: []string{"s", ">"}, Count: 3, Block: 0}).Result()
		if err != nil {
			return
		}
		for i, m := range streams[0].Messages {
			g.mu.Lock()
			if before := g.delivered[m.ID]; before != "" {
				g.t.Errorf("%s came to %s and to %s", m.ID, before, name)
			}
			g.delivered[m.ID] = name
			g.tried[m.ID] = i%2 == 0
			g.mu.Unlock()
			if i%2 == 1 {
				continue
			}
			n, err := conn.XAck(ctx, "s", "g", m.ID).Result()
			if err != nil {
				return
			}
			if n != 1 {
				g.t.Errorf("%d entries are acknowledged by %s", n, m.ID)
			}
			g.mu.Lock()
			g.acked[m.ID] = true
			g.mu.Unlock()
		}
		g.progress <- struct{}{}
	}
}

// check checks each entry: additions and acknowledgements that the server confirmed are there.
func (g *groupTest) check() {
	t, c := g.t, g.server.Client(3)
	entries, err := c.XRange(ctx, "s", "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]bool{}
	for _, m := range entries {
		value := m.Values["v"].(string)
		if values[value] {
			t.Errorf("%s is there twice", value)
		}
		values[value] = true
	}
	for value := range g.added {
		if !values[value] {
			t.Errorf("%s is lost", value)
		}
	}
	for value := range values {
		first, second := strings.CutSuffix(value, twin)
		if twins := value[0] == '0' || value[0] == '1'; twins && !values[first] ||
			twins && !second && !values[value+twin] {
			t.Errorf("of what was added together only %s is there", value)
		}
	}
	pending := map[string]string{}
	list, err := c.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: "-",
		End: "+", Count: 1 << 30}).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		pending[p.ID] = p.Consumer
	}
	for id, name := range g.delivered {
		switch owner := pending[id]; {
		case g.acked[id] && owner != "":
			t.Errorf("%s is pending at %s although it was acknowledged", id, owner)
		case !g.tried[id] && owner != name:
			t.Errorf("%s came to %s and is pending at %q", id, name, owner)
		}
	}
	groups, err := c.XInfoGroups(ctx, "s").Result()
	if err != nil || len(groups) != 1 {
		t.Fatalf("%+v, %v", groups, err)
	}
	last := groups[0].LastDeliveredID
	if olderID(t, last, g.last) {
		t.Errorf("the group's last delivered ID was %s and is %s", g.last, last)
	}
	g.last = last
	for id := range g.delivered {
		if olderID(t, last, id) {
			t.Errorf("the group's last delivered ID is %s, and %s was delivered", last, id)
		}
	}
	unread, err := c.XRange(ctx, "s", "("+last, "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range entries[:len(entries)-len(unread)] {
		if pending[m.ID] == "" && !g.tried[m.ID] {
			t.Errorf("%s was delivered, and is pending at nobody", m.ID)
		}
	}
}

// olderID reports whether the ID a is before b. If b is empty it returns false.
func olderID(t *testing.T, a, b string) bool {
	t.Helper()
	var ids [2][2]uint64
	for i, text := range []string{a, b} {
		if text == "" {
			return false
		}
		if _, err := fmt.Sscanf(text, "%d-%d", &ids[i][0], &ids[i][1]); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
	return slices.Compare(ids[0][:], ids[1][:]) < 0
}

// drain reads and acknowledges the remaining entries.
func (g *groupTest) drain() {
	t, c := g.t, g.server.Client(3)
	seen := map[string]bool{}
	for id := range g.acked {
		seen[id] = true
	}
	take := func(messages []redis.XMessage) {
		for _, m := range messages {
			seen[m.ID] = true
			if err := c.XAck(ctx, "s", "g", m.ID).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	streams, err := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "last",
		Streams: []string{"s", ">"}, Block: -1}).Result()
	if err == nil {
		take(streams[0].Messages)
	}
	for start := "0-0"; ; {
		messages, next, err := c.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "s", Group: "g",
			Consumer: "last", Start: start, Count: 50}).Result()
		if err != nil {
			t.Fatal(err)
		}
		take(messages)
		if start = next; start == "0-0" {
			break
		}
	}
	left, err := c.XPending(ctx, "s", "g").Result()
	if err != nil || left.Count != 0 {
		t.Errorf("%+v are pending, %v", left, err)
	}
	for id := range g.delivered {
		if !seen[id] && !g.tried[id] {
			t.Errorf("%s is nowhere", id)
		}
	}
	t.Logf("%d entries added, %d delivered, %d acknowledged", len(g.added), len(g.delivered),
		len(g.acked))
}
