package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The differential test of publish and subscribe: several connections of both protocols subscribe,
// publish and send other commands. After each command all of them have received the same from both
// servers. Three orders are not compared. The first is that of messages that a client gets by
// several patterns. The second is that of the replies to UNSUBSCRIBE without arguments. The third
// is that of a client's own message and its reply to PUBLISH: Redis 7.0.15 sends the message before
// the reply, and later versions after it.

// pubsubSteps is the number of commands of a case.
const pubsubSteps = 150

func TestDiffPubSub(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	diffSeeds(t, diffShare(t, 3), func(seed uint64) ([]string, error) {
		r := &pubsubRun{gen: seeded(seed)}
		for range 5 {
			var p pair
			p.keyp, p.redis = s.dial(t)
			r.conns = append(r.conns, p)
		}
		for range pubsubSteps {
			if err := r.step(); err != nil {
				return r.history, err
			}
		}
		for _, p := range r.conns {
			if _, _, err := p.ask("RESET"); err != nil { // closing takes effect some time later
				return r.history, err
			}
			_, _ = p.keyp.Close(), p.redis.Close()
		}
		return nil, nil
	})
}

// pubsubRun is one running case.
type pubsubRun struct {
	*gen
	conns   []pair
	history []string
}

// step makes one connection send a command or a transaction, and compares what all connections
// receive.
func (r *pubsubRun) step() error {
	on := r.IntN(len(r.conns))
	commands := [][]string{r.command()}
	if r.chance(8) {
		commands = [][]string{{"MULTI"}, r.quiet(), r.quiet(), {"EXEC"}}
	}
	mark := fmt.Sprint("mark ", len(r.history))
	for _, args := range commands {
		r.history = append(r.history, fmt.Sprintf("connection %d: %q", on, args))
		raw := encode(args...)
		for _, w := range []*wire{r.conns[on].keyp, r.conns[on].redis} {
			if err := w.send(raw); err != nil {
				return err
			}
		}
	}
	// Messages to other clients are sent before the reply to the command that caused them.
	order := append([]pair{r.conns[on]}, r.conns...)
	for n, p := range order {
		keyp, err := receivedUntil(p.keyp, fmt.Sprint(mark, n))
		if err != nil {
			return fmt.Errorf("keyp: %w", err)
		}
		redis, err := receivedUntil(p.redis, fmt.Sprint(mark, n))
		if err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		if !slices.Equal(keyp, redis) {
			return fmt.Errorf("a connection is sent\nkeyp  %q\nredis %q", keyp, redis)
		}
	}
	return nil
}

// names draws some of few names, so that published messages reach subscribers. No name is empty, as
// in Redis no pattern matches the empty name.
func (r *pubsubRun) names(most int) []string {
	list := make([]string, r.IntN(most+1))
	for i := range list {
		list[i] = r.from("a", "b", "ab", "news.1", "news.2", "\r\n\x00")
	}
	return list
}

func (r *pubsubRun) patterns(most int) []string {
	list := make([]string, r.IntN(most+1))
	for i := range list {
		list[i] = r.from("*", "a*", "?", "[ab]", "news.*", "[^a]*", "", "a")
	}
	return list
}

// command draws a command.
func (r *pubsubRun) command() []string {
	with := func(name string, args []string) []string { return append([]string{name}, args...) }
	switch r.IntN(20) {
	case 0, 1:
		return with(r.from("SUBSCRIBE", "ssubscribe", "SSUBSCRIBE"), r.names(3))
	case 2, 3:
		return with("PSUBSCRIBE", r.patterns(3))
	case 4:
		return with(r.from("UNSUBSCRIBE", "SUNSUBSCRIBE"), r.names(3))
	case 5:
		return with("PUNSUBSCRIBE", r.patterns(3))
	case 6, 7, 8, 9, 10:
		return []string{r.from("PUBLISH", "PUBLISH", "SPUBLISH"),
			r.from("a", "b", "ab", "news.1", "\r\n\x00"), r.value()}
	case 11:
		return with("PUBSUB", with(r.from("NUMSUB", "SHARDNUMSUB"), r.names(3)))
	case 12:
		return r.one([]string{"PUBSUB", "NUMPAT"}, []string{"PUBSUB", "CHANNELS"},
			[]string{"PUBSUB", "CHANNELS", "*a*"},
			[]string{"PUBSUB", "SHARDCHANNELS", "*"}, []string{"PUBSUB", "NOSUCH"},
			[]string{"PUBSUB"}, []string{"PUBSUB", "CHANNELS", "a", "b"},
			[]string{"PUBSUB", "NUMPAT", "a"})
	case 13:
		return []string{"HELLO", r.from("2", "3", "3")}
	case 14:
		return []string{"RESET"}
	}
	return r.quiet()
}

// quiet draws a command that affects, at most, which messages its own client receives.
func (r *pubsubRun) quiet() []string {
	return r.one([]string{"PING"}, []string{"PING", "x"}, []string{"GET", "k"},
		[]string{"PING", "x", "y"}, []string{"PUBLISH", "a"},
		[]string{"SUBSCRIBE", "a", "b"}, []string{"UNSUBSCRIBE", "a"}, []string{"NOSUCH"},
		[]string{"CLIENT", "GETNAME"}, []string{"get"})
}

// one draws one of the list.
func (r *pubsubRun) one(list ...[]string) []string { return list[r.IntN(len(list))] }

// receivedUntil returns everything that a connection has received before the reply to PING with
// mark. The list is sorted, as some of it has no fixed order.
func receivedUntil(w *wire, mark string) ([]string, error) {
	if err := w.send(encode("PING", mark)); err != nil {
		return nil, err
	}
	var list []string
	for {
		got, err := w.receive()
		if err != nil {
			return nil, err
		}
		if got.text == mark || len(got.items) == 2 && got.items[1].text == mark {
			break
		}
		if (got.kind == '*' || got.kind == '%') && len(got.items) > 0 &&
			got.items[0].text == "server" {
			continue // HELLO replies versions and ids
		}
		if len(got.items) == 3 && strings.HasSuffix(got.items[0].text, "unsubscribe") {
			// A name, and some count.
			list = append(list, got.items[0].raw+got.items[1].raw, got.items[2].raw)
			continue
		}
		if len(got.items) > 0 && got.kind == '*' && !strings.Contains(got.items[0].text,
			"message") && len(got.items[0].items) == 0 {
			got.raw = got.unordered(1) // PUBSUB CHANNELS
		}
		list = append(list, got.raw)
	}
	slices.Sort(list)
	return list, nil
}
