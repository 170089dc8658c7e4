package commands

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"keyp/resp"
)

// heardBy returns the messages that a connection got since the last call, in the notation of
// render.
func (f *fakeConn) heardBy() string {
	var list []string
	for _, b := range f.pushed {
		text, _ := render([]byte(b))
		list = append(list, text)
	}
	f.pushed = nil
	return strings.Join(list, " ")
}

// all returns all replies of a command that may have any number of them.
func (h *harness) all(line string) string {
	h.t.Helper()
	words, _ := resp.SplitArgs([]byte(line))
	var list []string
	for rest := h.raw(words...); len(rest) > 0; {
		var text string
		text, rest = render(rest)
		list = append(list, text)
	}
	h.ctx.RunEmitted()
	return strings.Join(list, " ")
}

// as makes client n the one that runs the following commands.
func (h *harness) as(n uint64) {
	h.client = h.env.Clients[n]
	h.ctx.Client = h.client
}

// expectAll runs lines of the form "command -> all its replies".
func (h *harness) expectAll(table string) {
	h.t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
		command, want, _ := strings.Cut(strings.TrimSpace(line), " -> ")
		if got := h.all(command); strings.TrimSpace(got) != want {
			h.t.Errorf("%s\n  replies %s\n  want    %s", command, got, want)
		}
	}
}

func TestSubscribe(t *testing.T) {
	h, _, own, other := hosted(t)
	h.expectAll(`
		UNSUBSCRIBE -> ["unsubscribe", nil, 0]
		PUNSUBSCRIBE -> ["punsubscribe", nil, 0]
		SUNSUBSCRIBE -> ["sunsubscribe", nil, 0]
		SUBSCRIBE a b a -> ["subscribe", "a", 1] ["subscribe", "b", 2] ["subscribe", "a", 2]
		PSUBSCRIBE x* -> ["psubscribe", "x*", 3]
		SSUBSCRIBE s a -> ["ssubscribe", "s", 1] ["ssubscribe", "a", 2]
		UNSUBSCRIBE b none -> ["unsubscribe", "b", 2] ["unsubscribe", "none", 2]
		PUNSUBSCRIBE none -> ["punsubscribe", "none", 2]
		SUNSUBSCRIBE none -> ["sunsubscribe", "none", 2]
		UNSUBSCRIBE -> ["unsubscribe", "a", 1]
		UNSUBSCRIBE -> ["unsubscribe", nil, 1]
		SUNSUBSCRIBE -> ["sunsubscribe", "a", 1] ["sunsubscribe", "s", 0]
		PUNSUBSCRIBE -> ["punsubscribe", "x*", 0]
		GET k -> nil
		SUBSCRIBE -> -ERR wrong number of arguments for 'subscribe' command
		SUBSCRIBE c d -> ["subscribe", "c", 1] ["subscribe", "d", 2]
		RESET -> +RESET
		GET k -> nil
		PUBSUB CHANNELS -> []`)
	h.as(2)
	h.expectAll(`
		SUBSCRIBE a -> >["subscribe", "a", 1]
		UNSUBSCRIBE a b -> >["unsubscribe", "a", 0] >["unsubscribe", "b", 0]
		UNSUBSCRIBE -> >["unsubscribe", null, 0]
		GET k -> null
		SUBSCRIBE a -> >["subscribe", "a", 1]
		PING -> +PONG
		GET k -> null
		HELLO 2 -> ["server", "redis", "version", "8.6.0", "proto", 2, "id", 2, "mode", "standalone", "role", "master", "modules", []]
		PING -> ["pong", ""]`)
	if own.heardBy()+other.heardBy() != "" {
		t.Error("confirmations came as messages")
	}
}

// TestRestricted: in RESP2, each kind of subscription restricts the commands that a client may use.
func TestRestricted(t *testing.T) {
	for _, kind := range []string{"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"} {
		h, _, _, _ := hosted(t)
		h.run(`SET k v -> +OK`)
		h.all(kind + " a")
		const only = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
		h.expectAll(`
			GET k -> -ERR Can't execute 'get': ` + only + `
			CLIENT LIST -> -ERR Can't execute 'client|list': ` + only + `
			PUBLISH a b -> -ERR Can't execute 'publish': ` + only + `
			HELLO 3 -> -ERR Can't execute 'hello': ` + only + `
			GET -> -ERR wrong number of arguments for 'get' command
			NOSUCH -> -ERR unknown command 'NOSUCH', with args beginning with: 
			PING -> ["pong", ""]
			PING hi -> ["pong", "hi"]
			PING a b -> -ERR wrong number of arguments for 'ping' command
			SUBSCRIBE b -> ["subscribe", "b", ` + map[bool]string{true: "1", false: "2"}[kind == "SSUBSCRIBE"] + `]
			QUIT -> +OK`)
		if stat := h.env.Stats.PerCommand.of(
			h.env.Table.Lookup([]byte("get"))); stat.rejected.Load() != 0 {
			t.Error("Observe is the session's to call")
		}
	}
}

func TestPublish(t *testing.T) {
	h, _, own, other := hosted(t)
	h.env.Clients[3] = &Client{ID: 3, Conn: own, Proto: 2, user: identity{h.env.users.byDefault},
		Authenticated: true}
	publish := func(line, toOwn, toOther string) {
		t.Helper()
		h.as(1)
		h.expectAll(line)
		if got := own.heardBy(); got != toOwn {
			t.Errorf("%s: the RESP2 client hears %s, want %s", line, got, toOwn)
		}
		if got := other.heardBy(); got != toOther {
			t.Errorf("%s: the RESP3 client hears %s, want %s", line, got, toOther)
		}
	}
	publish(`PUBLISH news x -> 0`, "", "")
	for _, n := range []uint64{2, 3} {
		h.as(n)
		h.all("SUBSCRIBE news")
		h.all("PSUBSCRIBE n*")
		h.all("PSUBSCRIBE new[r-t] z")
		h.all("SSUBSCRIBE news")
	}
	publish(`PUBLISH news hello -> 6`,
		`["message", "news", "hello"] ["pmessage", "n*", "news", "hello"] ["pmessage", "new[r-t]", "news", "hello"]`,
		`>["message", "news", "hello"] >["pmessage", "n*", "news", "hello"] >["pmessage", "new[r-t]", "news", "hello"]`)
	publish(`SPUBLISH news hello -> 2`, `["smessage", "news", "hello"]`,
		`>["smessage", "news", "hello"]`)
	publish(`PUBLISH nose "" -> 2`, `["pmessage", "n*", "nose", ""]`,
		`>["pmessage", "n*", "nose", ""]`)
	publish(`SPUBLISH nose x -> 0`, "", "")
	h.env.Gone(h.env.Clients[3])
	publish(`PUBLISH z y -> 1`, "", `>["pmessage", "z", "z", "y"]`)
	h.as(2)
	h.all("PUNSUBSCRIBE")
	publish(`PUBLISH news last -> 1`, "", `>["message", "news", "last"]`)
}

func TestPubSubCommand(t *testing.T) {
	h, _, _, _ := hosted(t)
	h.as(2)
	h.all("SUBSCRIBE a b news.x news.y")
	h.all("PSUBSCRIBE n* m*")
	h.all("SSUBSCRIBE s1 s2")
	h.as(1)
	h.expectAll(`
		PUBSUB CHANNELS -> ["a", "b", "news.x", "news.y"]
		PUBSUB CHANNELS news.? -> ["news.x", "news.y"]
		PUBSUB CHANNELS a b -> -ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.
		PUBSUB NUMSUB -> []
		PUBSUB NUMSUB a none a -> ["a", 1, "none", 0, "a", 1]
		PUBSUB NUMPAT -> 2
		PUBSUB NUMPAT a -> -ERR wrong number of arguments for 'pubsub|numpat' command
		PUBSUB SHARDCHANNELS -> ["s1", "s2"]
		PUBSUB SHARDCHANNELS *2 -> ["s2"]
		PUBSUB SHARDNUMSUB s1 a -> ["s1", 1, "a", 0]
		PUBSUB NOSUCH -> -ERR unknown subcommand 'NOSUCH'. Try PUBSUB HELP.
		PUBSUB -> -ERR wrong number of arguments for 'pubsub' command`)
	list := h.all("CLIENT LIST TYPE pubsub")
	for _, want := range []string{"id=2 ", " sub=4 psub=2 ssub=2 ", " flags=P "} {
		if !strings.Contains(list, want) || strings.Contains(list, "id=1 ") {
			t.Errorf("CLIENT LIST has no %s: %s", want, list)
		}
	}
	for _, want := range []string{"pubsub_channels:4", "pubsub_patterns:2",
		"pubsubshard_channels:2", "pubsub_clients:1"} {
		if !strings.Contains(h.all("INFO"), want) {
			t.Errorf("INFO has no %s", want)
		}
	}
	h.expectAll(`CLIENT KILL TYPE pubsub -> 1`)
	h.env.Gone(h.env.Clients[2])
	h.expectAll(`
		PUBSUB CHANNELS -> []
		PUBSUB NUMPAT -> 0`)
}

// TestSubscriptionsModel compares the registry with plain sets: the receivers of a message, and the
// counts.
func TestSubscriptionsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Subscriptions
		type entry struct {
			client uint64
			topic  Topic
			name   string
		}
		model := map[entry]bool{}
		clients := map[uint64]*Client{}
		for id := range uint64(5) {
			clients[id] = &Client{ID: id, Conn: &fakeConn{}, Proto: 2}
		}
		draw := func(t *rapid.T) entry {
			return entry{
				rapid.Uint64Range(0, 4).Draw(t, "client"),
				Topic(rapid.IntRange(0, 2).Draw(t, "topic")),
				rapid.SampledFrom([]string{"a", "b", "ab", "a*", "?", "*"}).Draw(t, "name"),
			}
		}
		count := func(client uint64, shard bool) (n int) {
			for e := range model {
				if e.client == client && (e.topic == ShardChannel) == shard {
					n++
				}
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"subscribe": func(t *rapid.T) {
				e := draw(t)
				model[e] = true
				if got := p.subscribe(clients[e.client], e.topic,
					[]byte(e.name)); got != count(e.client, e.topic == ShardChannel) {
					t.Fatalf("%v: count %d", e, got)
				}
			},
			"unsubscribe": func(t *rapid.T) {
				e := draw(t)
				delete(model, e)
				if got := p.unsubscribe(clients[e.client], e.topic,
					[]byte(e.name)); got != count(e.client, e.topic == ShardChannel) {
					t.Fatalf("%v: count %d", e, got)
				}
			},
			"gone": func(t *rapid.T) {
				id := rapid.Uint64Range(0, 4).Draw(t, "client")
				p.gone(clients[id])
				for e := range model {
					if e.client == id {
						delete(model, e)
					}
				}
			},
			"": func(t *rapid.T) {
				for _, topic := range []Topic{Channel, ShardChannel} {
					for _, channel := range []string{"a", "b", "ab", "*"} {
						want := map[string]int{}
						for e := range model {
							switch {
							case e.topic == topic && e.name == channel:
								want[fmt.Sprint(e.client)]++
							case topic == Channel && e.topic == Pattern &&
								globMatch([]byte(e.name), []byte(channel)):
								want[fmt.Sprint(e.client, " by ", e.name)]++
							}
						}
						list, n := p.receivers(topic, []byte(channel))
						total := 0
						for _, d := range list {
							for _, to := range d.to {
								who := fmt.Sprint(to.client.ID)
								if d.pattern != nil {
									who += " by " + string(d.pattern)
								}
								want[who]--
								total++
							}
						}
						for who, left := range want {
							if left != 0 {
								t.Fatalf("%s of topic %d: %s is missed or reported twice",
									channel, topic, who)
							}
						}
						if n != total {
							t.Fatalf("%d receivers, %d counted", total, n)
						}
					}
				}
				for id, c := range clients {
					if got := c.Subscribed(); got != (count(id, false)+count(id, true) > 0) {
						t.Fatalf("client %d: subscribed %v", id, got)
					}
				}
			},
		})
	})
}
