package commands

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	"keyp/resp"
	"keyp/storage"
	"keyp/ttl"
)

// TestGather: commands of very many keys are jobs, and reply as those of few do.
func TestGather(t *testing.T) {
	const many = manyElements + 2000
	h := newHarness(t)
	h.run(`
		SET key:5 expired PX 1 -> +OK
		HSET key:7 f v -> 1
		HPEXPIRE key:7 1 FIELDS 1 f -> [1]
		advance 1s
		RPUSH key:9 list -> 1
	`)
	for i := 10; i < many; i += 3 {
		h.do("SET", "key:"+strconv.Itoa(i), strconv.Itoa(i), "EX", strconv.Itoa(1000+i))
	}
	h.do("SET", "key:12", "")
	names := numbered(many, "key:", "")
	names = append(names, names[:5]...)
	var pieces [][]byte // the replies of MGET for few keys
	exist := int64(0)
	for from := 0; from < len(names); from += 1000 {
		part := names[from:min(from+1000, len(names))]
		_, elements, _ := bytes.Cut(h.raw(append(byteArgs("MGET"), part...)...), []byte("\r\n"))
		pieces = append(pieces, bytes.Clone(elements))
		n, _ := ParseInt(bytes.Trim(h.raw(append(byteArgs("EXISTS"), part...)...), ":\r\n"))
		exist += n
	}
	h.reopen() // what is only on disk is read
	hits, misses := h.env.Stats.Hits.Load(), h.env.Stats.Misses.Load()
	want := append(fmt.Appendf(nil, "*%d\r\n", len(names)), bytes.Join(pieces, nil)...)
	if got := h.raw(append(byteArgs("MGET"), names...)...); !bytes.Equal(got, want) {
		t.Errorf("MGET replies %.200q, and not %.200q", got, want)
	}
	if got := h.env.Stats.Hits.Load() - hits; got != exist || h.env.Stats.Misses.Load()-misses != int64(len(names))-exist {
		t.Errorf("%d hits, and not %d", got, exist)
	}
	for _, name := range []string{"EXISTS", "TOUCH"} {
		h.ctx.Args = append(byteArgs(name), names...)
		h.ctx.Spec = h.env.Table.Of(h.ctx.Args)
		if h.ctx.scope() != Unlocked {
			t.Errorf("%s of %d keys is no job", name, len(names))
		}
		if got := string(h.raw(h.ctx.Args...)); got != fmt.Sprintf(":%d\r\n", exist) {
			t.Errorf("%s replies %q, and not %d", name, got, exist)
		}
	}
	h.run(`
		MULTI -> +OK
	`)
	h.raw(append(byteArgs("EXISTS"), names...)...)
	if got := h.do("EXEC"); got != fmt.Sprintf("[%d]", exist) {
		t.Errorf("EXEC replies %s", got)
	}
	if h.env.Changes.mu.reported {
		t.Error("changes are reported still")
	}
}

// gatherCtx is the context of a job that gathers n keys.
func (h *harness) gatherCtx(n int) *Ctx {
	c := &Ctx{Env: h.env, Client: h.client, Args: byteArgs("MGET"), Scope: Unlocked}
	for i := range n {
		c.Keys = append(c.Keys, h.store.Key(0, fmt.Appendf(nil, "key:%d", i)))
	}
	return c
}

// TestGatherAgain: a key that changes, or comes to be due, after it was seen is seen again.
func TestGatherAgain(t *testing.T) {
	const many = 3 * gatherStep
	for name, meanwhile := range map[string]func(h *harness){
		"changed":   func(h *harness) { h.do("SET", "key:0", "changed") },
		"removed":   func(h *harness) { h.do("DEL", "key:0") },
		"expired":   func(h *harness) { h.clock.Advance(time.Second) },
		"emptied":   func(h *harness) { h.do("FLUSHALL") },
		"exchanged": func(h *harness) { h.do("SWAPDB", "0", "1") },
		"renamed":   func(h *harness) { h.do("RENAME", "key:1", "key:0") },
		"all":       func(h *harness) { h.raw(numbered(many, "key:", "changed", "MSET")...) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.raw(numbered(many, "key:", "v", "MSET")...)
			h.run(`PEXPIRE key:0 500 -> 1`)
			c := h.gatherCtx(many)
			g := newGathering(c.Keys)
			ended := h.env.Changes.record(g)
			g.dues[0], g.earliest = h.clock.Now()+500, h.clock.Now()+500
			meanwhile(h)
			again := map[int]bool{}
			for _, i := range g.again(&h.env.Changes, h.clock.Now()) {
				again[i] = true
			}
			if !again[0] || name == "all" && len(again) != many || (name == "changed" || name == "expired") && len(again) != 1 {
				t.Errorf("%d keys are looked up again, the first one: %v", len(again), again[0])
			}
			if name != "expired" && len(g.again(&h.env.Changes, epoch)) > 0 {
				t.Error("what was recorded is not forgotten")
			}
			ended()
			h.do("SET", "key:0", "later")
			if len(g.recorded.changed) > 0 || g.recorded.all {
				t.Error("changes are recorded still")
			}
		})
	}
}

// TestGatherIsAtomic: while a transaction after the other gives some of the keys a new value, all of them the
// same, what is gathered shows that of one transaction; so do sorted elements and what they lead to.
func TestGatherIsAtomic(t *testing.T) {
	const many, together = manyElements + 100, 40
	h := newHarness(t)
	h.raw(numbered(many, "key:", "0", "MSET")...)
	h.raw(append(byteArgs("RPUSH", "list"), numbered(many, "", "")...)...)
	var keys []storage.Key
	for i := range together {
		keys = append(keys, h.store.Key(0, fmt.Appendf(nil, "key:%d", i*many/together)))
	}
	var writing sync.WaitGroup
	stop := make(chan struct{})
	defer writing.Wait()
	defer close(stop)
	writing.Go(func() {
		txn := h.store.NewTxn()
		for n := many; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if !h.store.Begin(txn, keys) {
				continue
			}
			for i, k := range keys {
				if n%10 == 0 && i%3 == 0 {
					txn.Delete(k, storage.Deleted)
				} else {
					txn.SetString(k, strconv.AppendInt(nil, int64(n), 10), ttl.None, eventSet)
				}
			}
			txn.End()
			await.Pass(100 * time.Microsecond) // so that others come to lock the shards
		}
	})
	all := byteArgs("MGET")
	for i := range many {
		all = append(all, fmt.Appendf(nil, "key:%d", i))
	}
	for round := range 4 {
		for what, args := range map[string][][]byte{
			"MGET":     all,
			"SORT GET": byteArgs("SORT", "list", "GET", "key:*"),
			"SORT BY":  byteArgs("SORT", "list", "BY", "nosort", "GET", "#", "GET", "key:*"),
		} {
			values := bytes.Split(h.raw(args...), []byte("\r\n"))
			found := map[string]bool{}
			for _, v := range values[1:] {
				if n, ok := ParseInt(v); ok && n >= many { // a transaction's number, and no element
					found[string(v)] = true
				}
			}
			if len(found) > 1 {
				t.Fatalf("round %d: %s shows the values of %d transactions: %v", round, what, len(found), found)
			}
		}
	}
}

// TestSortGathers: a SORT of many elements that looks keys up replies as within a transaction, where it
// locks all of them.
func TestSortGathers(t *testing.T) {
	const many = manyElements + 50
	h := newHarness(t)
	h.raw(append(byteArgs("RPUSH", "list"), numbered(many, "", "")...)...)
	for i := range many {
		switch i % 4 {
		case 0:
			h.do("SET", fmt.Sprint("weight:", i), strconv.Itoa(i*7919%1000))
		case 1:
			h.do("HSET", fmt.Sprint("weight:", i), "w", strconv.Itoa(i*31%997))
		case 2:
			h.do("SADD", fmt.Sprint("weight:", i), "m")
		}
	}
	h.raw(append(byteArgs("SADD", "set"), numbered(many, "", "")...)...)
	zset := byteArgs("ZADD", "zset")
	for i := range many {
		zset = append(zset, []byte("1"), strconv.AppendInt(nil, int64(i), 10))
	}
	h.raw(zset...)
	for _, line := range []string{
		"SORT list BY weight:*", "SORT list BY weight:* DESC LIMIT 5 100", "SORT list BY weight:*->w ALPHA", "SORT_RO set BY weight:* LIMIT 0 7",
		"SORT list GET weight:*", "SORT set GET weight:* GET #", "SORT zset BY weight:*->none GET #",
		"SORT list GET weight:* GET # GET weight:*->w", "SORT list BY weight:*->w GET nothing GET weight:* DESC",
		"SORT list BY nosort GET weight:* DESC", "SORT list BY nosort LIMIT 3 5 GET weight:*", "SORT list BY weight:* GET weight:* LIMIT 2 3",
		"SORT none BY weight:*", "SORT weight:0 BY weight:*", "SORT list BY weight:* STORE stored",
	} {
		got := h.do(strings.Fields(line)...)
		h.run(`MULTI -> +OK`)
		h.do(strings.Fields(line)...)
		if want := h.do("EXEC"); "["+got+"]" != want {
			t.Errorf("%s replies %.300s, and within a transaction %.300s", line, got, want)
		}
	}
	h.do("SET", "weight:1", "no number")
	h.run(`SORT list BY weight:* -> -ERR One or more scores can't be converted into double`)
}

// TestSortGathersLittle: where the values that BY leads to take much together, a SORT takes in only what
// it needs, with all shards locked. It replies the same.
func TestSortGathersLittle(t *testing.T) {
	h := newHarness(t)
	elements := byteArgs("RPUSH", "list")
	for range manyElements + 1 {
		elements = append(elements, []byte("x"))
	}
	h.raw(elements...)
	h.do("SET", "weight:x", strings.Repeat("y", 2*sortGatheredBytes/manyElements))
	h.run(`
		SORT list BY weight:* ALPHA LIMIT 0 2 -> ["x", "x"]
		SORT_RO list BY nosort LIMIT 3 1 GET # -> ["x"]
	`)
}

// hookedClock calls a function when a job that gathers looks at the clock: then it has no shard locked, has
// looked at all keys, and is to look again at those that have changed.
type hookedClock struct {
	clock.Clock
	looked func()
}

func (c *hookedClock) Now() int64 {
	c.looked()
	return c.Clock.Now()
}

// whenLooked has fn called the first n times when a job has looked at all keys.
func (h *harness) whenLooked(n int, fn func()) {
	h.env.Clock = &hookedClock{h.clock, func() {
		if n--; n >= 0 {
			fn()
		}
	}}
}

// TestGatherCountsOnce: values that change while they are gathered count once to what the client may be sent.
func TestGatherCountsOnce(t *testing.T) {
	const many, rounds = 3 * gatherStep, 5
	h := newHarness(t)
	value := func(round int) string { return strings.Repeat("v", 500) + strconv.Itoa(round) }
	set := func(round int) { h.raw(numbered(many, "key:", value(round), "MSET")...) }
	set(0)
	c, round := h.gatherCtx(many), 0
	want := fmt.Sprintf("*%d\r\n", many) + strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", len(value(rounds)), value(rounds)), many)
	c.Out = &resp.Writer{Proto: 2, Max: len(want) + 1000}
	h.whenLooked(rounds, func() {
		round++
		set(round)
	})
	if err := getMany(c); err != nil || c.Out.Full || string(c.Out.Buf) != want {
		t.Errorf("%v, more than the client may be sent: %v; %.80q", err, c.Out.Full, c.Out.Buf)
	}
	c = h.gatherCtx(many)
	c.Out = &resp.Writer{Proto: 2, Max: len(want) - 1000}
	if err := getMany(c); err != nil || !c.Out.Full {
		t.Errorf("%v, more than the client may be sent: %v", err, c.Out.Full)
	}
}

// TestGatherReadsBeforeItLocks: a key that changes after it was seen, and leaves memory, is read before all shards are
// locked to look at it again.
func TestGatherReadsBeforeItLocks(t *testing.T) {
	const many = 3 * gatherStep
	h := newHarness(t)
	h.raw(numbered(many, "key:", "v", "MSET")...)
	c, looks := h.gatherCtx(many), 0
	c.Out = &resp.Writer{Proto: 2}
	h.whenLooked(gatherRounds, func() {
		if looks++; looks == 1 {
			h.do("SET", "key:0", "changed")
			h.do("SAVE")
			h.store.Manual().Evict(1)
		}
	})
	if err := getMany(c); err != nil || !bytes.HasPrefix(c.Out.Buf, fmt.Appendf(nil, "*%d\r\n$7\r\nchanged\r\n", many)) {
		t.Errorf("%v, %.80q", err, c.Out.Buf)
	}
	if looks != 2 {
		t.Errorf("it has looked at keys %d times without all shards, and not twice", looks)
	}
}

// gathered gives what a SORT replies, as a job that has begun.
func (h *harness) gathered(line string) string {
	args := byteArgs(strings.Fields(line)...)
	c := &Ctx{Env: h.env, Client: h.client, Args: args, Spec: h.env.Table.Of(args), Scope: Unlocked, Out: &resp.Writer{Proto: 2}}
	c.Keys = []storage.Key{h.store.Key(0, args[1])}
	if err := runSort(c); err != nil {
		return err.Error()
	}
	got, _ := render(c.Out.Buf)
	return got
}

// TestGatherBesidePinned: elements of pinned values whose deadline has come are not shown, and neither are keys
// that have no others. They do not come back if the server stops then, and the clock goes back.
func TestGatherBesidePinned(t *testing.T) {
	const many = manyElements + 10
	h := newHarness(t)
	h.save = false
	h.raw(append(byteArgs("RPUSH", "list"), numbered(many, "", "")...)...)
	h.raw(append(byteArgs("SADD", "set"), numbered(many, "", "")...)...)
	h.run(`
		HSET key:1 due 1 -> 1
		HPEXPIRE key:1 500 FIELDS 1 due -> [1]
		HSET key:2 due 2 stays 3 -> 2
		HPEXPIRE key:2 500 FIELDS 1 due -> [1]
		EXPIREMEMBER set 0 500 ms -> 1
	`)
	names := append(byteArgs("EXISTS"), numbered(many, "key:", "")...)
	check := func(exist int, due1, due2, first string) {
		t.Helper()
		for _, command := range []string{"EXISTS", "TOUCH"} {
			names[0] = []byte(command)
			if got := string(h.raw(names...)); got != fmt.Sprintf(":%d\r\n", exist) {
				t.Errorf("%s gives %q, want %d", command, got, exist)
			}
		}
		got := h.gathered("SORT list GET key:*->due GET key:*->stays")
		if want := fmt.Sprintf(`[nil, nil, %s, nil, %s, "3", nil, nil`, due1, due2); !strings.HasPrefix(got, want) {
			t.Errorf("SORT list gives %.80s, want %s", got, want)
		}
		got = h.gathered("SORT set BY key:*->none GET #")
		if want := fmt.Sprintf(`["%s", `, first); !strings.HasPrefix(got, want) {
			t.Errorf("SORT set gives %.80s, want %s", got, want)
		}
	}
	check(2, `"1"`, `"2"`, "0")
	pinned, txn := []storage.Key{h.store.Key(0, []byte("key:1")), h.store.Key(0, []byte("key:2")), h.store.Key(0, []byte("set"))}, h.store.NewTxn()
	if !h.store.Begin(h.ctx.Txn, pinned) {
		t.Fatal("the keys are not in memory")
	}
	h.env.Pins.Pin(h.ctx.Txn, pinned, txn)
	check(2, `"1"`, `"2"`, "0")
	h.clock.Advance(500 * time.Millisecond)
	check(1, "nil", "nil", "1")
	h.env.Pins.Unpin(txn)
	h.close()
	h.clock = clock.NewFake(epoch)
	h.open()
	h.run(`
		EXISTS key:1 -> 0
		HGET key:2 due -> nil
	`)
	h.save = true
}

// TestSortSourceChanges: a SORT whose elements change while it gathers what they lead to replies those that are
// there at the end, also if they change each time.
func TestSortSourceChanges(t *testing.T) {
	for _, times := range []int{1, sortTries, 10} {
		h := newHarness(t)
		h.raw(append(byteArgs("RPUSH", "list"), numbered(manyElements+5, "", "")...)...)
		h.do("SET", "value:-1", "found")
		n := 0
		h.whenLooked(times, func() {
			n++
			h.do("RPUSH", "list", "-1")
		})
		want := `["found", ` + strings.Repeat(`"found", `, min(times, sortTries)-1) + "nil, "
		if got := h.gathered("SORT list GET value:*"); !strings.HasPrefix(got, want) || n != min(times, sortTries) {
			t.Errorf("after %d changes it replies %.80s, want %s", n, got, want)
		}
	}
}

// TestSortNoTouch: for a client with NO-TOUCH a SORT that gathers marks no key, also if it ends up looking the
// keys up with all shards locked.
func TestSortNoTouch(t *testing.T) {
	for _, times := range []int{0, sortTries} {
		h := newHarness(t)
		h.raw(append(byteArgs("RPUSH", "list"), numbered(manyElements+5, "", "")...)...)
		h.run(`
			SET value:1 found -> +OK
			CLIENT NO-TOUCH ON -> +OK
			advance 100s
		`)
		h.whenLooked(times, func() { h.do("RPUSH", "list", "-1") })
		h.gathered("SORT list GET value:*")
		h.run(`
			OBJECT IDLETIME value:1 -> 100
			CLIENT NO-TOUCH OFF -> +OK
		`)
		h.gathered("SORT list GET value:*")
		h.run(`OBJECT IDLETIME value:1 -> 0`)
	}
}

// TestSortWhileRotated: a SORT that gathers has each element once, whatever moves while it copies them.
func TestSortWhileRotated(t *testing.T) {
	const many = 3*sortPortion + 100
	h := newHarness(t)
	h.raw(append(byteArgs("RPUSH", "list"), numbered(many, "", "")...)...)
	k := []storage.Key{h.store.Key(0, []byte("list"))}
	sorted := []string{"SORT", "list", "BY", "nothing:*", "GET", "#"}
	want := h.do(sorted...)
	var writing sync.WaitGroup
	stop := make(chan struct{})
	defer writing.Wait()
	defer close(stop)
	writing.Go(func() {
		txn := h.store.NewTxn()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if h.store.Begin(txn, k) {
				list, _ := txn.List(k[0])
				for range sortPortion / 2 {
					_, val := list.Value().At(many - 1)
					list.PushFront(bytes.Clone(val))
				}
				list.RemoveRange(many, many+sortPortion/2)
				txn.End()
			}
			await.Pass(100 * time.Microsecond) // so that others come to lock the shard
		}
	})
	for round := range 20 {
		if got := h.do(sorted...); got != want {
			t.Fatalf("round %d: SORT gives %d elements, and not all of %d once", round, strings.Count(got, ",")+1, many)
		}
	}
}

// TestErrorCodes: the first word of an error that a script replies is its code if it looks like one, else ERR is.
func TestErrorCodes(t *testing.T) {
	for reply, want := range map[string]string{
		"ERR x": "ERR", "MYCODE": "MYCODE", "WRONG\r\n": "WRONG", "\xffx y": "ERR", "a\x00b c": "ERR", strings.Repeat("A", 33) + " x": "ERR",
	} {
		if got := string(errorCode([]byte(reply))); got != want {
			t.Errorf("the code of %.40q is %q, want %q", reply, got, want)
		}
	}
}
