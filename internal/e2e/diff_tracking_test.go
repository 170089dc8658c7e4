package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"keyp/internal/testkit/await"
)

// The differential run of client-side caching and MONITOR: several connections read, write and
// track in every way. After each command both servers have sent the same to all of them. The steps
// avoid cases in which Keyp reports more than Redis (docs/reference/redis.md): keys that their own
// client changes under NOLOOP, SWAPDB, and deadlines.

// trackSteps is the number of commands of a case.
const trackSteps = 120

func TestDiffTracking(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	diffSeeds(t, diffShare(t, 3), func(seed uint64) ([]string, error) {
		r := newTrackRun(t, s, seeded(seed))
		defer r.end()
		for range trackSteps {
			if err := r.step(); err != nil {
				return r.history, err
			}
		}
		return nil, nil
	})
}

// trackRun is one running case.
type trackRun struct {
	*gen
	clients []*trackClient
	always  *trackClient
	history []string
}

// trackClient is a connection to each server, with its client ids there.
type trackClient struct {
	pair
	ids        [2]string
	proto      int
	subscribed bool
	noLoop     bool        // ever
	early      [2][]string // messages that stood before the reply
}

func newTrackRun(t *testing.T, s *both, g *gen) *trackRun {
	t.Helper()
	r := &trackRun{gen: g}
	for n := range 5 {
		c := &trackClient{proto: 3}
		c.keyp, c.redis = s.dial(t)
		if n == 4 {
			c.proto = 2
		}
		for side, w := range c.sides() {
			s.mustDo(t, w, "HELLO", fmt.Sprint(c.proto))
			c.ids[side] = s.mustDo(t, w, "CLIENT", "ID").text
		}
		r.clients = append(r.clients, c)
	}
	for _, w := range r.clients[0].sides() {
		s.mustDo(t, w, "FLUSHALL")
	}
	c := &trackClient{} // while somebody tracks, what one who stopped had read stays known
	c.keyp, c.redis = s.dial(t)
	for _, w := range c.sides() {
		s.mustDo(t, w, "CLIENT", "TRACKING", "ON")
	}
	r.always = c
	return r
}

func (r *trackRun) end() {
	for _, c := range append(r.clients, r.always) {
		c.keyp.Close()
		c.redis.Close()
	}
}

func (r *trackRun) step() error {
	n := r.IntN(len(r.clients))
	c := r.clients[n]
	if c.subscribed {
		return nil // it only listens
	}
	if c.proto == 2 && !c.noLoop && r.chance(15) {
		// Each read is of all keys: before 7.2 it counts as a read of all keys that the script
		// declares.
		script :=
			"local all = {redis.call('get', KEYS[1]), redis.call('mget', KEYS[2], KEYS[1])} " +
				r.from("", "redis.call('set', KEYS[2], 'v') ",
					"redis.call('del', KEYS[1], KEYS[2]) all[1] = redis.call('exists', KEYS[1], KEYS[2]) ") + "return all"
		if err := r.do(n, []string{r.from("EVAL", "EVAL_RO"), script, "2", r.from("a", "aa", "b"),
			r.from("ab", "bb", "c")}); err != nil {
			return err
		}
		return r.listen()
	}
	if c.proto == 2 && r.chance(15) { // before 7.2 messages stand amid the replies of RESP3
		return r.transaction(n)
	}
	if err := r.do(n, r.draw(c)); err != nil {
		return err
	}
	return r.listen()
}

// transaction makes a client run some commands in a transaction.
func (r *trackRun) transaction(n int) error {
	list := [][]string{{"MULTI"}}
	for range 1 + r.IntN(5) {
		args := r.draw(r.clients[n])
		if args[0] == "CLIENT" && args[1] != "CACHING" {
			// The reply to EXEC contains no ids, and only the state at its end is compared.
			args = []string{"GET", "a"}
		}
		list = append(list, args)
	}
	for _, args := range append(list, []string{r.from("EXEC", "EXEC", "EXEC", "DISCARD")}) {
		if err := r.do(n, args); err != nil {
			return err
		}
	}
	return r.listen()
}

// do sends a command to both servers and compares the replies.
func (r *trackRun) do(n int, args []string) error {
	c := r.clients[n]
	r.history = append(r.history, fmt.Sprintf("%d: %q", n, args))
	var replies [2]reply
	for side, w := range c.sides() {
		mine := slices.Clone(args)
		for i, arg := range mine {
			if strings.HasPrefix(arg, "id:") {
				mine[i] = r.clients[arg[3]-'0'].ids[side]
			}
		}
		if err := w.send(encode(mine...)); err != nil {
			return err
		}
		for replies[side].raw == "" || replies[side].kind == '>' {
			if replies[side].raw != "" {
				// Before 7.2 messages come before the reply.
				c.early[side] = append(c.early[side], replies[side].raw)
			}
			reply, err := w.receive()
			if err != nil {
				return err
			}
			replies[side] = reply
		}
	}
	if args[0] == "CLIENT" {
		for side := range replies {
			replies[side].raw = r.unnumbered(replies[side].raw, side)
		}
	}
	if replies[0].raw != replies[1].raw {
		return fmt.Errorf("%q\nkeyp  %s\nredis %s", args, brief(replies[0].raw),
			brief(replies[1].raw))
	}
	return nil
}

// listen compares what the servers have sent to all clients.
func (r *trackRun) listen() error {
	for n, c := range r.clients {
		var sent [2]string
		for side, w := range c.sides() {
			list, err := pushed(w, c.subscribed)
			if err != nil {
				return err
			}
			list, c.early[side] = append(c.early[side], list...), nil
			for i := range list {
				// The null of a flush is written in the protocol of the tracking client.
				list[i] = strings.ReplaceAll(r.unnumbered(list[i], side), "invalidate\r\n$-1\r\n",
					"invalidate\r\n_\r\n")
			}
			// In Redis, the messages to clients that the command's client has named come after
			// other messages of the command.
			slices.Sort(list)
			sent[side] = strings.Join(list, "")
		}
		if sent[0] != sent[1] {
			return fmt.Errorf("%d is sent\nkeyp  %q\nredis %q", n, sent[0], sent[1])
		}
		if sent[0] != "" {
			r.history = append(r.history, fmt.Sprintf("%d is sent %q", n, sent[0]))
		}
	}
	return nil
}

// unnumbered replaces the ids of clients in a text by names.
func (r *trackRun) unnumbered(text string, side int) string {
	for n, c := range r.clients {
		text = strings.ReplaceAll(text, ":"+c.ids[side]+"\r\n", fmt.Sprintf(":(client %d)\r\n", n))
	}
	return text
}

// pushed returns the messages that have arrived, up to the reply to a PING.
func pushed(w *wire, subscribed bool) (list []string, err error) {
	if err := w.send(encode("PING", "end")); err != nil {
		return nil, err
	}
	for {
		r, err := w.receive()
		if err != nil || r.text == "end" ||
			subscribed && len(r.items) == 2 && r.items[1].text == "end" {
			return list, err
		}
		list = append(list, r.raw)
	}
}

// draw draws a command. "id:N" stands for the id of client N.
func (r *trackRun) draw(c *trackClient) []string {
	key := func() string { return r.from("a", "aa", "ab", "b", "bb", "c", "user:1", "user:2") }
	switch r.IntN(20) {
	case 0, 1, 2:
		return r.drawTracking(c)
	case 3:
		return []string{"CLIENT", "CACHING", r.from("YES", "NO", "maybe")}
	case 4:
		return []string{"CLIENT", r.from("TRACKINGINFO", "GETREDIR")}
	case 5, 6:
		return []string{"GET", key()}
	case 7, 8:
		return []string{"MGET", key(), key(), key()}
	case 9:
		return []string{r.from("STRLEN", "TYPE", "LRANGE", "SCARD"), key()}
	case 10:
		return []string{"SINTER", key(), key()}
	case 11:
		if r.chance(20) {
			return []string{r.from("FLUSHALL", "FLUSHDB")}
		}
		return []string{"EXISTS", key(), key()}
	case 12:
		return []string{"RPUSH", "list", "x"}
	}
	if c.noLoop {
		return []string{"GET", key()}
	}
	switch r.IntN(6) {
	case 0:
		return []string{"MSET", key(), "1", key(), "2"}
	case 1:
		return []string{"DEL", key(), key()}
	case 2:
		return []string{"RENAME", key(), "renamed"}
	case 3:
		return []string{"INCR", key()}
	default:
		return []string{"SET", key(), "v"}
	}
}

func (r *trackRun) drawTracking(c *trackClient) []string {
	if r.chance(30) {
		return []string{"CLIENT", "TRACKING", "OFF"}
	}
	args := []string{"CLIENT", "TRACKING", "ON"}
	for range r.IntN(4) {
		switch r.IntN(8) {
		case 0, 1:
			args = append(args, "BCAST")
		case 2, 3:
			args = append(args, "PREFIX", r.from("a", "aa", "b", "user:", "user:1", ""))
		case 4:
			args = append(args, r.from("OPTIN", "OPTOUT"))
		case 5:
			args = append(args, "NOLOOP")
			c.noLoop = true
		case 6:
			args = append(args, "REDIRECT", r.from("id:0", "id:1", "id:4", "0", "-1",
				"x", "123456789"))
		default:
			args = append(args, r.from("foo", "REDIRECT", "PREFIX"))
		}
	}
	return args
}

// TestDiffTrackingRedirect: invalidations are redirected to a RESP2 subscriber, which then
// disconnects.
func TestDiffTrackingRedirect(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	r := newTrackRun(t, s, &gen{Rand: rand.New(rand.NewPCG(1, 1))})
	last := r.clients[4]
	last.subscribed = true
	for side, w := range last.sides() {
		s.mustDo(t, w, "SUBSCRIBE", "__redis__:invalidate")
		for n, c := range r.clients[:2] {
			args := []string{"CLIENT", "TRACKING", "ON", "REDIRECT", last.ids[side]}
			if n == 1 {
				args = append(args, "BCAST", "PREFIX", "k")
			}
			s.mustDo(t, c.sides()[side], args...)
		}
	}
	both := func(n int, args ...string) {
		t.Helper()
		for _, w := range r.clients[n].sides() {
			s.mustDo(t, w, args...)
		}
		r.history = append(r.history, fmt.Sprintf("%d: %q", n, args))
		if err := r.listen(); err != nil {
			t.Errorf("%s\n%v", strings.Join(r.history, "\n"), err)
		}
	}
	both(0, "MGET", "k1", "k2", "x")
	both(2, "MSET", "k1", "1", "k2", "2", "x", "3")
	both(0, "GET", "k1")
	both(0, "SET", "k1", "2")
	both(2, "FLUSHALL")
	both(0, "GET", "k1")
	last.keyp.Close()
	last.redis.Close()
	r.clients = r.clients[:4]
	for side, w := range r.clients[2].sides() {
		await.Until(t, "the subscriber is gone", func() bool {
			return !strings.Contains(s.mustDo(t, w, "CLIENT", "LIST").text,
				"id="+last.ids[side]+" ")
		})
	}
	r.clients = append(r.clients, &trackClient{ids: last.ids})
	r.clients[4].keyp, r.clients[4].redis = s.dial(t)
	both(2, "SET", "k1", "1")
	both(0, "CLIENT", "TRACKINGINFO")
	both(1, "CLIENT", "TRACKINGINFO")
}

// TestDiffMonitor compares the output of MONITOR for each command, except for the time and the
// port.
func TestDiffMonitor(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	m := pair{}
	m.keyp, m.redis = s.dial(t)
	c := pair{}
	c.keyp, c.redis = s.dial(t)
	for _, w := range []*wire{m.keyp, m.redis} {
		if r := s.mustDo(t, w, "MONITOR"); r.text != "OK" {
			t.Fatal(r.raw)
		}
	}
	show := func(w *wire) (list []string) {
		lines, err := pushed(w, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			from, command, _ := strings.Cut(strings.TrimSpace(line), "] ")
			_, db, _ := strings.Cut(from, "[")
			db, _, _ = strings.Cut(db, " ")
			if command != `"PING" "end"` {
				list = append(list, db+" "+command)
			}
		}
		return list
	}
	for _, args := range [][]string{
		{"SET", "k", "a\x00\x01\"\\\n\r\t\a\b~\x7f\xff é"}, {"set", "n", "12"}, {"GET"},
		{"INCR", "k"}, {"INCRBY", "n", "x"}, {"NONE", "a"},
		{"SELECT", "3"}, {"LPUSH", "l", "x"}, {"BLPOP", "l", "0"}, {"BLPOP", "l", "0.01"},
		{"SELECT", "0"}, {"SELECT", "99"},
		{"AUTH", "a"}, {"AUTH", "a", "b"}, {"HELLO", "3", "AUTH", "default", "pw", "SETNAME", "n"},
		{"HELLO", "2", "SETNAME", "n"}, {"HELLO", "9"},
		{"CONFIG", "GET", "save"}, {"CLIENT", "LIST"}, {"CLIENT", "GETNAME"}, {"CLIENT", "ID"},
		{"CLIENT", "NONE"}, {"SLOWLOG", "LEN"}, {"INFO", "cpu"}, {"COMMAND", "COUNT"},
		{"KEYS", "*"}, {"SCAN", "0"}, {"RANDOMKEY"}, {"DBSIZE"}, {"ECHO", ""}, {"TIME"},
		{"LASTSAVE"}, {"ROLE"}, {"OBJECT", "ENCODING", "n"}, {"FLUSHALL"},
		{"MULTI"}, {"SET", "k", "1"}, {"BLPOP", "l", "0"}, {"CONFIG", "GET", "save"}, {"MONITOR"},
		{"GET"}, {"EXEC"},
		{"MULTI"}, {"SET", "k", "1"}, {"SELECT", "1"}, {"BLPOP", "l", "0"},
		{"CONFIG", "GET", "save"}, {"MONITOR"}, {"KEYS", "*"}, {"EXEC"},
		{"EVAL",
			"redis.call('set', KEYS[1], 'x') redis.pcall('incr', KEYS[1]) redis.call('select', 3) return redis.call('get', 'k')",
			"1", "k"},
		{"EVAL", "return redis.call('none')", "0"}, {"EVAL", "return", "x"},
		{"EVAL_RO", "return redis.call('get', 'k')", "0"},
		{"EVALSHA", strings.Repeat("f", 40), "0"}, {"SCRIPT", "LOAD", "return redis.call('ping')"},
		{"EVALSHA", "f0f2b7d5a7e6e5ab9b6f0a1d4a0b3b3f9a8e9a6d", "0"},
		{"FUNCTION", "LOAD",
			"#!lua name=l\nredis.register_function('f', function(keys) return redis.call('get', keys[1]) end)"},
		{"FCALL", "f", "1", "k"}, {"FCALL", "g", "0"}, {"FUNCTION", "LIST"}, {"FUNCTION", "FLUSH"},
		{"SCRIPT", "FLUSH"},
		{"MULTI"}, {"SET", "k", "1"}, {"EVAL", "return redis.call('get', 'k')", "0"},
		{"GET", "k"}, {"EXEC"},
		{"MULTI"}, {"GET", "k"}, {"DISCARD"}, {"WATCH", "k"}, {"UNWATCH"}, {"RESET"}, {"PING"},
		{"MONITOR", "x"},
	} {
		for _, w := range []*wire{c.keyp, c.redis} {
			if _, err := w.do(args...); err != nil {
				t.Fatal(err)
			}
		}
		if keyp, redis := show(m.keyp), show(m.redis); !slices.Equal(keyp, redis) {
			t.Errorf("%q shows\nkeyp  %q\nredis %q", args, keyp, redis)
		}
	}
}
