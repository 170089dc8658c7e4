package commands

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"keyp/storage"
	"keyp/storage/object"
)

// TestBlockingPops: a blocking command that finds an element does the same as the command that does
// not block, and so does its record in the log.
func TestBlockingPops(t *testing.T) {
	table(t, `
		RPUSH l a b c d e f -> 6
		does ZADD z 1 a 2 b 3 c 4 d 5 e
		events -> rpush:l zadd:z
		BLPOP no l 0 -> ["l", "a"]
		BRPOP l no 0.1 -> ["l", "f"]
		BLMPOP 0 2 no l LEFT -> ["l", ["b"]]
		BLMPOP 1e3 1 l RIGHT COUNT 2 -> ["l", ["e", "d"]]
		BZPOPMIN no z 0 -> ["z", "a", "1"]
		BZPOPMAX z 0 -> ["z", "e", "5"]
		BZMPOP 0 2 no z MIN -> ["z", [["b", "2"]]]
		events -> lpop:l rpop:l lpop:l rpop:l zpopmin:z zpopmax:z zpopmin:z
		proto 3
		BZPOPMIN z 0 -> ["z", "c", ,3]
		BZMPOP 0 1 z MAX COUNT 5 -> ["z", [["d", ,4]]]
		reopen
		EXISTS z -> 0
		BLMOVE l m LEFT RIGHT 0 -> "c"
		EXISTS l -> 0
		BRPOPLPUSH m m 0 -> "c"
		reopen
		LRANGE m 0 -1 -> ["c"]
	`)
}

// TestBlockingOnNothing: a blocking command that finds nothing waits, unless it runs in a
// transaction or script.
func TestBlockingOnNothing(t *testing.T) {
	h := newHarness(t)
	h.run(`
		SET s x -> +OK
		RPUSH l a -> 1
		does ZADD z 1 a
		BLPOP k 0 -> +(blocked)
		BLPOP s 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		BLPOP k s 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		BLPOP l s 0 -> ["l", "a"]
		RPUSH l a -> 1
		BRPOP z 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		BLMPOP 0 1 s LEFT -> -WRONGTYPE Operation against a key holding the wrong kind of value
		BZPOPMIN l 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		BZMPOP 0 1 l MAX -> -WRONGTYPE Operation against a key holding the wrong kind of value
		BLMOVE s k LEFT LEFT 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		# the destination matters once there is a source
		BLMOVE k s LEFT LEFT 0 -> +(blocked)
		BLMOVE l s LEFT LEFT 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		BRPOPLPUSH l z 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LLEN l -> 1
		# a key that has expired holds nothing
		PEXPIRE l 100 -> 1
		advance 100ms
		BLPOP l 0 -> +(blocked)
	`)
	c := &h.ctx
	for _, w := range []struct {
		command string
		want    string
	}{
		{"BLPOP a b 0.0015", "[a b] list 2"},
		{"BLPOP a 0", "[a] list 0"},
		{"BLMOVE a b LEFT LEFT 1", "[a] list 1000"},
		{"BRPOPLPUSH a b 1", "[a] list 1000"},
		{"BLMPOP 3 2 a b LEFT", "[a b] list 3000"},
		{"BZPOPMAX a b 2", "[a b] zset 2000"},
		{"BZMPOP 0.5 1 a MIN", "[a] zset 500"},
	} {
		if got := h.do(strings.Fields(w.command)...); got != "+(blocked)" {
			t.Errorf("%s: %s", w.command, got)
		}
		var names []string
		for _, k := range c.Wait.Keys {
			names = append(names, string(k.Name))
		}
		if got := fmt.Sprint(names, " ", c.Wait.Type, " ", c.Wait.Timeout); got != w.want {
			t.Errorf("%s waits for %s, want %s", w.command, got, w.want)
		}
		if c.Out.Len() != 0 {
			t.Errorf("%s leaves %q", w.command, c.Out.Buf)
		}
	}
	c.Nested = true
	h.run(`
		BLPOP a b 0 -> nilarray
		BRPOP a 100 -> nilarray
		BLMPOP 0 1 a LEFT -> nilarray
		BLMOVE a b LEFT LEFT 0 -> nil
		BRPOPLPUSH a b 0 -> nil
		BZPOPMIN a 0 -> nilarray
		BZMPOP 0 1 a MIN -> nilarray
		proto 3
		BLPOP a b 0 -> null
		BLMOVE a b LEFT LEFT 0 -> null
	`)
	c.Nested = false
}

func TestBlockingArguments(t *testing.T) {
	table(t, `
		BLPOP k -> -ERR wrong number of arguments for 'blpop' command
		BLPOP k x -> -ERR timeout is not a float or out of range
		BLPOP k "" -> -ERR timeout is not a float or out of range
		BLPOP k " 1" -> -ERR timeout is not a float or out of range
		BLPOP k nan -> -ERR timeout is not a float or out of range
		BLPOP k 1e5000 -> -ERR timeout is not a float or out of range
		BLPOP k -1 -> -ERR timeout is negative
		BLPOP k -inf -> -ERR timeout is negative
		BLPOP k inf -> -ERR timeout is out of range
		BLPOP k 1e400 -> -ERR timeout is out of range
		BLPOP k 9223372036854775807 -> -ERR timeout is out of range
		BLPOP k 9223372036854775.807 -> -ERR timeout is out of range
		BLPOP k 9223372036000000 -> -ERR timeout is out of range
		BLPOP k 9223370000000000 -> +(blocked)
		BLPOP k -0.0001 -> +(blocked)
		BLPOP k 1e-4000 -> +(blocked)
		BLPOP k 0x1p-3 -> +(blocked)
		BLMOVE k l LEFT UP x -> -ERR syntax error
		BLMOVE k l LEFT RIGHT x -> -ERR timeout is not a float or out of range
		BLMPOP x 0 k UP -> -ERR numkeys should be greater than 0
		BLMPOP x 1 k UP -> -ERR syntax error
		BLMPOP x 1 k LEFT -> -ERR timeout is not a float or out of range
		BLMPOP 1 0 k UP -> -ERR numkeys should be greater than 0
		BLMPOP 1 2 k LEFT -> -ERR syntax error
		BLMPOP 1 1 k UP -> -ERR syntax error
		BLMPOP 1 1 k LEFT COUNT -> -ERR syntax error
		BLMPOP 1 1 k LEFT COUNT 0 -> -ERR count should be greater than 0
		BZMPOP x 0 k UP -> -ERR numkeys should be greater than 0
		BZMPOP -1 1 k MIN -> -ERR timeout is negative
		BZMPOP 1 x k MIN -> -ERR numkeys should be greater than 0
		BZMPOP 1 1 k LEFT -> -ERR syntax error
		BZMPOP 1 1 k MIN COUNT 1 COUNT 1 -> -ERR syntax error
		BZPOPMIN k x -> -ERR timeout is not a float or out of range
		EXISTS k -> 0
	`)
}

// standIn is a waiter in the tests of Waiters. It deletes the value when it runs.
type standIn struct {
	name   string
	waiter *Waiter
	busy   bool // it can't run
}

// standIns runs waiters by calling again.
type standIns struct {
	again func(*Client)
	loads []func(bool)
	// enough is the result of Enough.
	enough bool
}

func (s *standIns) Again(w *Waiter) bool {
	s.again(w.Client)
	return true
}
func (s *standIns) Enough() bool                        { return s.enough }
func (s *standIns) Load(_ storage.Key, done func(bool)) { s.loads = append(s.loads, done) }

// TestWaiters: the first waiter in a key's line is served first, and each value serves one. Waiters
// for another type keep their position, and so do those after a busy one.
func TestWaiters(t *testing.T) {
	h := newHarness(t)
	ws := &h.env.Waiters
	var served []string
	by := map[*Client]*standIn{}
	wait := func(name string, typ object.Type, keys ...string) *standIn {
		s := &standIn{name: name}
		w := BlockedOn{Type: typ}
		for _, key := range keys {
			w.Keys = append(w.Keys, h.store.Key(0, []byte(key)))
		}
		c := &Client{Name: name}
		by[c] = s
		s.waiter = ws.Add(c, w)
		return s
	}
	host := &standIns{again: func(c *Client) {
		s := by[c]
		if s.busy {
			return
		}
		served = append(served, s.name)
		ws.Remove(s.waiter)
		if strings.HasPrefix(s.name, "taker") {
			h.do("DEL", "a", "b")
		}
	}}
	serve := func(want string) {
		t.Helper()
		served = nil
		h.env.Changes.Deliver()
		ws.Serve(h.store.NewTxn(), host)
		if got := strings.Join(served, " "); got != want {
			t.Errorf("served %q, want %q", got, want)
		}
	}
	wait("taker 1", object.TypeList, "a", "a", "b", "a")
	wait("zset", object.TypeZSet, "a")
	wait("taker 2", object.TypeList, "b", "a")
	peek := wait("peek", object.TypeList, "a")
	if ws.clients.Load() != 4 || ws.awaited.Load() != 2 || ws.timed.Load() != 0 {
		t.Errorf("%d wait for %d keys", ws.clients.Load(), ws.awaited.Load())
	}
	h.do("SET", "b", "x")
	serve("")
	h.do("RENAME", "b", "a")
	serve("")
	h.do("DEL", "a")
	h.do("RPUSH", "other", "x")
	h.do("RPUSH", "b", "x")
	serve("taker 1")
	h.do("RPUSH", "b", "x")
	h.do("RPUSH", "a", "x")
	serve("taker 2")
	ws.load(ws.mu.keys[0]["a"], host)
	if !peek.waiter.Loads() {
		t.Error("its key is being read, and it does not know")
	}
	if host.loads[0](true); peek.waiter.Loads() {
		t.Error("its key has been read, and it does not know")
	}
	serve("")
	peek.busy = true
	wait("last", object.TypeList, "a")
	h.do("RPUSH", "a", "x")
	serve("")
	peek.busy = false
	ws.LookAgain(peek.waiter)
	serve("peek last")
	h.do("DEL", "a")
	h.do("ZADD", "c", "1", "x")
	h.do("RENAME", "c", "a")
	serve("zset")
	if ws.clients.Load() != 0 || ws.awaited.Load() != 0 || len(ws.mu.keys[0]) != 0 {
		t.Errorf("%d wait for %d keys", ws.clients.Load(), ws.awaited.Load())
	}
	// The client is also served if SWAPDB brings the value into its database.
	wait("in 0", object.TypeList, "k")
	h.run(`
		select 3
		RPUSH k x -> 1
		select 0
	`)
	serve("")
	h.do("SWAPDB", "0", "3")
	serve("in 0")
}

// TestChangedAsItBeginsToWait: another goroutine may change the key after a blocking command has
// found nothing, and before the command waits. The change still serves it. This holds for each
// blocking command. Before and afterwards, changes are not reported to anybody.
func TestChangedAsItBeginsToWait(t *testing.T) {
	calls := map[string][2]string{ // the call, and what it waits for
		"BLPOP":      {"BLPOP k 0", "RPUSH k x"},
		"BRPOP":      {"BRPOP k 0", "RPUSH k x"},
		"BLMOVE":     {"BLMOVE k l LEFT LEFT 0", "RPUSH k x"},
		"BLMOVEM":    {"BLMOVEM k l LEFT LEFT 0 COUNT 1 BULK", "RPUSH k x"},
		"BRPOPLPUSH": {"BRPOPLPUSH k l 0", "RPUSH k x"},
		"BLMPOP":     {"BLMPOP 0 1 k LEFT", "RPUSH k x"},
		"BZPOPMIN":   {"BZPOPMIN k 0", "ZADD k 1 x"},
		"BZPOPMAX":   {"BZPOPMAX k 0", "ZADD k 1 x"},
		"BZMPOP":     {"BZMPOP 0 1 k MIN", "ZADD k 1 x"},
		"XREAD":      {"XREAD BLOCK 0 STREAMS k $", "XADD k 1-1 f v"},
		"XREADGROUP": {"XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XADD s 1-1 f v"},

		"KEYP.LEASE|ACQUIRE": {"KEYP.LEASE ACQUIRE l me 1000 WAIT 0", "DEL l"},
		"KEYP.DELAY|POP":     {"KEYP.DELAY POP k BLOCK 0 NOACK", "KEYP.DELAY ADD k id 0 x"},
	}
	for _, spec := range NewTable().specs {
		if name := strings.ToUpper(spec.full); spec.Is(Blocking) && spec.Keys != nil &&
			calls[name] == [2]string{} {
			t.Errorf("%s is not tried", name)
		}
	}
	for name, call := range calls {
		h := newHarness(t)
		h.do("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
		h.do("KEYP.LEASE", "ACQUIRE", "l", "other", "1000")
		if got := h.do(strings.Fields(call[0])...); got != "+(blocked)" {
			t.Errorf("%s: %s", name, got)
			continue
		}
		wait := h.ctx.Wait
		wait.Keys = slices.Clone(wait.Keys)
		h.do(strings.Fields(call[1])...)
		client := &Client{}
		w := h.env.Waiters.Add(client, wait)
		served := false
		host := &standIns{again: func(*Client) {
			served = true
			h.env.Waiters.Remove(w)
		}}
		h.env.Changes.Deliver()
		h.env.Waiters.Serve(h.store.NewTxn(), host)
		if !served {
			t.Errorf("%s is not served", name)
		}
		if h.env.Changes.mu.wanted != 0 || h.env.Changes.mu.reported {
			t.Errorf("%s: changes are reported to nobody", name)
		}
	}
}

// TestWaitersCost: a push that serves one of a thousand waiters costs no more than with two
// waiters.
func TestWaitersCost(t *testing.T) {
	h := newHarness(t)
	ws := &h.env.Waiters
	txn := h.store.NewTxn()
	waiters := map[*Client]*Waiter{}
	key := h.store.Key(0, []byte("k"))
	add := func() {
		c := &Client{}
		waiters[c] = ws.Add(c, BlockedOn{Keys: []storage.Key{key}, Type: object.TypeList})
	}
	for range 1000 {
		add()
	}
	ran := 0
	host := &standIns{again: func(c *Client) {
		ran++
		ws.Remove(waiters[c])
		delete(waiters, c)
		h.do("LPOP", "k")
	}}
	for range 1000 {
		h.do("RPUSH", "k", "x")
		h.env.Changes.Deliver()
		ws.Serve(txn, host)
	}
	if ran != 1000 || ws.clients.Load() != 0 {
		t.Errorf("%d pushes ran %d commands, %d wait", 1000, ran, ws.clients.Load())
	}
}

// TestFirstLeaves: only the first waiter in line may take a missing lease or the jobs of a queue.
// When it leaves, the key is looked up again for the next waiter.
func TestFirstLeaves(t *testing.T) {
	for _, typ := range []object.Type{object.None, object.TypeDelay, object.TypeList} {
		h := newHarness(t)
		ws := &h.env.Waiters
		var line []*Waiter
		for range 3 {
			line = append(line, ws.Add(&Client{}, BlockedOn{
				Keys: []storage.Key{h.store.Key(0, []byte("k"))}, Type: typ}))
		}
		if ws.Remove(line[1]) || ws.Waiting() {
			t.Errorf("type %v: the second one leaves, and the key is looked at", typ)
		}
		looks := typ != object.TypeList
		if more := ws.Remove(line[0]); more != looks || ws.Waiting() != looks {
			t.Errorf("type %v: the first one leaves: %t, and %t", typ, more, ws.Waiting())
		}
	}
}

// TestLeaseWaitersInPasses: serving many waiters for leases may take several rounds. Each waiter is
// served once, in order.
func TestLeaseWaitersInPasses(t *testing.T) {
	h := newHarness(t)
	ws := &h.env.Waiters
	waiters, got := map[*Client]*Waiter{}, []string(nil)
	host := &standIns{}
	host.again = func(c *Client) {
		got = append(got, c.Name)
		ws.Remove(waiters[c])
		host.enough = true
	}
	var want []string
	for i := range 5 {
		k := []byte("l" + strconv.Itoa(i))
		h.do("KEYP.LEASE", "ACQUIRE", string(k), "holder", "1000")
		for j := range 2 {
			c := &Client{Name: string(k) + " " + strconv.Itoa(j)}
			waiters[c] = ws.Add(c, BlockedOn{Keys: []storage.Key{h.store.Key(0, k)},
				Type: object.None, Who: "w" + strconv.Itoa(j)})
			want = append(want, c.Name)
		}
	}
	h.env.Changes.Deliver()
	h.do("FLUSHALL")
	h.env.Changes.Deliver()
	for pass := range want {
		if ws.Resume(); len(got) != pass || ws.Left() {
			t.Fatalf("%d were served in %d passes", len(got), pass)
		}
		host.enough = false
		ws.Serve(h.store.NewTxn(), host)
		if ws.Left() != (len(got) < len(want)) {
			t.Fatalf("after %d of %d keys are left: %v", len(got), len(want), ws.Left())
		}
	}
	slices.Sort(got) // FLUSHALL has no order of keys
	if !slices.Equal(got, want) {
		t.Errorf("served %q", got)
	}
}
