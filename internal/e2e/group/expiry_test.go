package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// TestExpiriesOverLeaders: keys and fields expire while leaders are killed. A key or field that a
// client has seen as expired does not return. Each expiry has one entry in the outbox, and in the
// end all members have the same data. KEYP_FAILOVERS is the number of killed leaders.
func TestExpiriesOverLeaders(t *testing.T) {
	g := group{members.New(t, 3)}
	ctx, c := await.Context(t), g.Client()
	if err := c.Do(ctx, "KEYP.OUTBOX", "SET", "gone", "PATTERN", "e*", "ELEMENTS", "STREAM",
		"stream").Err(); err != nil {
		t.Fatal(err)
	}
	fill(t, c, 1000, 1010)
	const keys, hashes = 60, 30
	want, twice := map[string]int{}, map[string]bool{}
	for round := range max(2, int(testkit.Number(t, "KEYP_FAILOVERS", 0))) {
		// The client repeats a command without a reply. If that happened after the first deadline,
		// a key could expire twice.
		first := time.Now().Add(3 * time.Second)
		at := func(i int) time.Time { return first.Add(time.Duration(i) * 20 * time.Millisecond) }
		var names []string
		write := func(from, to int) {
			for i := from; i < to; i++ {
				name := fmt.Sprintf("e%d:%d", round, i)
				names = append(names, name)
				p := c.Pipeline()
				p.Do(ctx, "SET", name, "v", "PXAT", at(i).UnixMilli())
				if i < hashes {
					p.HSet(ctx, "eh"+name, "goes", "v", "stays", "v")
					p.Do(ctx, "HPEXPIREAT", "eh"+name, at(i).UnixMilli(), "FIELDS", 1, "goes")
				}
				if _, err := p.Exec(ctx); err != nil {
					t.Fatal(err)
				}
				want[name]++
				if i < hashes {
					want["eh"+name+" goes"]++
				}
			}
		}
		write(0, keys/2)
		killed := g.Leader()
		if round%2 == 0 {
			killed.Kill()
		}
		write(keys/2, keys)
		if time.Now().After(first) {
			for _, name := range names {
				twice[name], twice["eh"+name+" goes"] = true, true
			}
		}
		gone := map[string]bool{}
		look := func() {
			p := c.Pipeline()
			replies := map[string]*redis.IntCmd{}
			for _, name := range names {
				replies[name] = p.Exists(ctx, name)
			}
			if _, err := p.Exec(ctx); err != nil {
				t.Fatal(err)
			}
			for name, reply := range replies {
				if gone[name] && reply.Val() != 0 {
					t.Fatalf("%s was gone, and is there again", name)
				}
				gone[name] = reply.Val() == 0
			}
		}
		await.Until(t, "a third has expired", func() bool { look(); return gone[names[keys/3]] })
		if round%2 == 1 {
			killed = g.Leader()
			killed.Kill()
		}
		await.Until(t, "all have expired", func() bool { look(); return gone[names[keys-1]] })
		killed.Start()
		await.Until(t, "the member is back", func() bool {
			return members.Field(killed, "master_link_status") == "up"
		})
	}
	var got map[string]int
	await.Until(t, "all expiries are reported", func() bool {
		got = map[string]int{}
		entries, err := c.XRange(ctx, "stream", "-", "+").Result()
		for _, e := range entries {
			name := fmt.Sprint(e.Values["key"])
			if element, ok := e.Values["element"]; ok {
				name += " " + fmt.Sprint(element)
			}
			got[name]++
		}
		return err == nil && len(got) >= len(want)
	})
	for name, n := range got {
		if n != want[name] && !(twice[name] && n > want[name]) {
			t.Errorf("%s has %d entries, want %d", name, n, want[name])
		}
	}
	g.Agree()
}
