package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"keyp/internal/testkit/await"
)

// Random CLIENT LIST and CLIENT KILL commands, with all the filters of 7.0.15, run among clients of
// two users, some of them subscribed. Both servers send the same replies, list the same clients and
// disconnect the same ones.

// clientSteps is the number of commands of a case.
const clientSteps = 60

func TestDiffClientFilters(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	for _, w := range s.sides() {
		s.mustDo(t, w, "ACL", "SETUSER", "alice", "on", ">secret", "~*", "&*", "+@all")
		_ = w.Close()
	}
	diffSeeds(t, diffShare(t, 2), func(seed uint64) ([]string, error) {
		r := &clientRun{gen: seeded(seed), t: t, s: s}
		defer r.end()
		for n := range r.clients {
			r.dial(n)
		}
		r.alone()
		for range clientSteps {
			if err := r.step(); err != nil {
				return r.history, err
			}
		}
		return nil, nil
	})
}

// clientRun is one running case. The clients with odd numbers are alice's, and the last two are
// subscribed.
type clientRun struct {
	*gen
	t       *testing.T
	s       *both
	clients [6]filterClient
	history []string
}

const firstSubscribed = 4

// filterClient is a connection to each server, with its ids and addresses there.
type filterClient struct {
	pair
	id, addr, local [2]string
}

var clientAddresses = regexp.MustCompile(` addr=(\S+) laddr=(\S+) `)

func (r *clientRun) dial(n int) {
	c := &r.clients[n]
	c.keyp, c.redis = r.s.dial(r.t)
	for side, w := range c.sides() {
		if n%2 == 1 {
			r.s.mustDo(r.t, w, "AUTH", "alice", "secret")
		}
		r.s.mustDo(r.t, w, "CLIENT", "SETNAME", fmt.Sprint("c", n))
		c.id[side] = r.s.mustDo(r.t, w, "CLIENT", "ID").text
		found := clientAddresses.FindStringSubmatch(r.s.mustDo(r.t, w, "CLIENT", "INFO").text)
		c.addr[side], c.local[side] = found[1], found[2]
		if n >= firstSubscribed {
			r.s.mustDo(r.t, w, "SUBSCRIBE", "channel")
		}
	}
}

// alone waits until only the clients of this case are connected.
func (r *clientRun) alone() {
	for _, w := range r.clients[0].sides() {
		await.Until(r.t, "only this case's clients are there", func() bool {
			return strings.Count(r.s.mustDo(r.t, w, "CLIENT", "LIST").text, "\n") == len(r.clients)
		})
	}
}

func (r *clientRun) end() {
	for _, c := range r.clients {
		_, _ = c.keyp.Close(), c.redis.Close()
	}
}

var listedClient = regexp.MustCompile(` name=(c\d)`)

// listedClients returns the sorted names of the clients in a list, each once. Redis changes the
// order of the list of all clients over time. Redis 7.0.15 lists a client as often as the option ID
// names it.
func listedClients(list reply) (names []string) {
	for _, found := range listedClient.FindAllStringSubmatch(list.text, -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// step sends a command from a client that is not subscribed. It compares the replies, and after
// KILL the clients that are left.
func (r *clientRun) step() error {
	asks := &r.clients[r.IntN(firstSubscribed)]
	args := r.list()
	if r.chance(60) {
		args = r.kill()
	}
	var replies [2]reply
	for side, w := range asks.sides() {
		var err error
		if replies[side], err = w.do(args[side]...); err != nil {
			return fmt.Errorf("%q: %w", args[side], err)
		}
	}
	keyp, redis := replies[0], replies[1]
	r.history = append(r.history, fmt.Sprintf("%q, %q: %.100q, %.100q", args[0], args[1],
		keyp.raw, redis.raw))
	if args[0][1] == "LIST" && keyp.kind == redis.kind && !redis.isError() {
		if ours, theirs := listedClients(keyp), listedClients(redis); !slices.Equal(ours, theirs) {
			return fmt.Errorf("keyp lists %q, redis %q", ours, theirs)
		}
		return nil
	}
	if keyp.raw != redis.raw {
		return fmt.Errorf("keyp %q, redis %q", keyp.raw, redis.raw)
	}
	return r.replace()
}

// replace compares which clients are gone, and connects new ones in their place.
func (r *clientRun) replace() error {
	var lists [2][]string
	var looks pair
	looks.keyp, looks.redis = r.s.dial(r.t)
	for side, w := range looks.sides() {
		lists[side] = listedClients(r.s.mustDo(r.t, w, "CLIENT", "LIST"))
		_ = w.Close()
	}
	if !slices.Equal(lists[0], lists[1]) {
		return fmt.Errorf("keyp has left %q, redis %q", lists[0], lists[1])
	}
	for n := range r.clients {
		if slices.Contains(lists[0], fmt.Sprint("c", n)) {
			continue
		}
		for _, w := range r.clients[n].sides() {
			if _, err := w.rest(); err != nil {
				return fmt.Errorf("a client that was killed is still connected: %w", err)
			}
			_ = w.Close()
		}
		r.dial(n)
	}
	r.alone()
	return nil
}

// both returns an argument for each server: either the result of find for a client, or the same odd
// text.
func (r *clientRun) both(find func(*filterClient) [2]string, odd ...string) [2]string {
	if n := r.IntN(len(r.clients) + 1); n < len(r.clients) {
		return find(&r.clients[n])
	}
	text := r.from(odd...)
	return [2]string{text, text}
}

func (r *clientRun) anID() [2]string {
	return r.both(func(c *filterClient) [2]string { return c.id }, "0", "-1", "x", "", "99999999",
		"9223372036854775808")
}

func (r *clientRun) anAddress() [2]string {
	return r.both(func(c *filterClient) [2]string { return c.addr }, "127.0.0.1:1", "x", "", "ID")
}

func (r *clientRun) same(odd ...string) [2]string {
	text := r.from(odd...)
	return [2]string{text, text}
}

// clientCall makes the commands for both servers from a subcommand and pairs of arguments.
func clientCall(subcommand string, args ...[2]string) (commands [2][]string) {
	for side := range commands {
		commands[side] = []string{"CLIENT", subcommand}
		for _, arg := range args {
			commands[side] = append(commands[side], arg[side])
		}
	}
	return commands
}

func (r *clientRun) list() [2][]string {
	switch r.IntN(4) {
	case 0:
		return clientCall("LIST")
	case 1:
		return clientCall("LIST", r.same("TYPE", "type"),
			r.same("normal", "pubsub", "PubSub", "master", "replica", "slave", "x"))
	case 2:
		return clientCall("LIST", r.same("x", "ID", "TYPE"))
	}
	args := [][2]string{r.same("ID", "id"), r.anID()}
	for range r.IntN(4) { // what is no number begins the next option, with the newest Redis
		args = append(args, r.both(func(c *filterClient) [2]string {
			return c.id
		}, "0", "-1", "99999999"))
	}
	return clientCall("LIST", args...)
}

// kill draws a call in the older form, or one with up to three filters.
func (r *clientRun) kill() [2][]string {
	if r.chance(20) {
		return clientCall("KILL", r.anAddress())
	}
	var args [][2]string
	for range 1 + r.IntN(3) {
		name := r.from("ID", "id", "TYPE", "USER", "ADDR", "LADDR", "SKIPME", "SKIPME", "x")
		value := map[string]func() [2]string{
			"ID": r.anID, "ADDR": r.anAddress,
			"LADDR": func() [2]string {
				return r.both(func(c *filterClient) [2]string {
					return c.local
				}, "127.0.0.1:1", "x")
			},
			"TYPE": func() [2]string {
				return r.same("normal", "pubsub", "PUBSUB", "master", "replica", "slave", "x")
			},
			"USER":   func() [2]string { return r.same("default", "alice", "alice", "nobody", "") },
			"SKIPME": func() [2]string { return r.same("yes", "no", "NO", "maybe") },
			"X":      func() [2]string { return r.same("x") },
		}[strings.ToUpper(name)]
		args = append(args, [2]string{name, name}, value())
	}
	if r.chance(5) {
		args = args[:len(args)-1]
	}
	return clientCall("KILL", args...)
}
