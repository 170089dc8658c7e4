package commands

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/internal/clock"
	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/wal"
)

// The test compares KEYP.LEASE with a model that has a single key. leaseState is the state of that
// key.
type leaseState struct {
	owner           string // "": there is no key
	token           int64
	deadline, delay int64
}

func (s *leaseState) at(now int64) leaseState {
	if s.owner != "" && now >= s.deadline+s.delay {
		return leaseState{}
	}
	return *s
}

func (s *leaseState) held(now int64) bool { return s.owner != "" && now < s.deadline }

// leaseWaiter is a blocked client.
type leaseWaiter struct {
	client     *Client
	waiter     *Waiter
	args       []string
	owner      string
	ttl, delay int64
}

// leaseMachine compares a store with the model. It runs the commands of blocked clients again in
// the same way as the event loop.
type leaseMachine struct {
	h     *harness
	rt    *rapid.T
	rng   *rand.Rand
	fs    *vfs.Mem
	state leaseState
	queue []*leaseWaiter
	// since are the states that are possible after a crash: the last durable one, and all later
	// ones.
	since []leaseState
	// seen is the highest token in a reply that has been sent. all is the highest token of all.
	seen, all int64
	clients   uint64
	grants    int
	handed    int
	asked     int
}

// TestLeaseModel: at most one owner holds the lease at any time. Tokens only grow, however the
// lease ends. Blocked clients get the lease in their order.
func TestLeaseModel(t *testing.T) {
	handed := 0
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem()
		h := &harness{t: rt, dir: t.TempDir(), clock: clock.NewFake(epoch), fs: fs, bare: true,
			sync: wal.Always}
		m := &leaseMachine{h: h, rt: rt,
			rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1)), fs: fs}
		h.open()
		defer func() { _ = h.store.Close(false) }() // after a failure, too
		m.durable()
		rt.Repeat(map[string]func(*rapid.T){
			"acquire": m.acquire, "acquire again": m.acquire, "wait": m.acquire, "renew": m.renew,
			"release": m.release, "check": m.check, "delete": m.remove,
			"copy": m.rename, "advance": m.advance, "advance more": m.advance, "leave": m.leave,
			"exec": m.exec, "reopen": m.reopen, "crash": m.crash,
			"": m.verify,
		})
		handed += m.handed
	})
	if handed == 0 {
		t.Error("nobody who waited has had a lease")
	}
}

func (m *leaseMachine) now() int64 { return m.h.clock.Now() }

// durable makes everything durable, so that all replies are sent.
func (m *leaseMachine) durable() {
	if err := m.h.store.Log().Commit(); err != nil {
		m.rt.Fatal(err)
	}
	m.since, m.seen = []leaseState{m.state}, m.all
}

// ends finishes an operation. It serves the blocked clients, and may make everything durable so
// that the replies are sent.
func (m *leaseMachine) ends(rt *rapid.T) {
	m.since = append(m.since, m.state)
	m.serve()
	if rapid.IntRange(0, 3).Draw(rt, "durable") > 0 {
		m.durable()
	}
}

// as runs a command for a client.
func (m *leaseMachine) as(c *Client, args ...string) string {
	m.h.ctx.Client = c
	return m.h.do(args...)
}

func (m *leaseMachine) newClient() *Client {
	m.clients++
	c := &Client{ID: 100 + m.clients}
	m.h.env.Reset(c)
	return c
}

// granted checks a reply to ACQUIRE that took a free lease.
func (m *leaseMachine) granted(reply, owner string, ttl, delay int64) {
	var token, deadline int64
	if n, _ := fmt.Sscanf(reply, "[%d, %d]", &token, &deadline); n != 2 || deadline != m.now()+ttl {
		m.rt.Fatalf("%s takes a free lease for %d ms at %d: %s", owner, ttl, m.now(), reply)
	}
	if token <= m.all {
		m.rt.Fatalf("token %d is granted after %d", token, m.all)
	}
	m.all = token
	m.state = leaseState{owner: owner, token: token, deadline: deadline, delay: delay}
	m.grants++
}

func (m *leaseMachine) acquire(rt *rapid.T) {
	owner := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "owner")
	ttl, delay := rapid.Int64Range(1, 50).Draw(rt, "ttl"),
		rapid.SampledFrom([]int64{0, 0, 20}).Draw(rt, "delay")
	waits := rapid.Bool().Draw(rt, "waits")
	args := []string{"KEYP.LEASE", "ACQUIRE", "l", owner, fmt.Sprint(ttl), "DELAY",
		fmt.Sprint(delay)}
	if waits {
		args = append(args, "WAIT", "0")
	}
	c := m.newClient()
	reply := m.as(c, args...)
	s := m.state.at(m.now())
	switch {
	case s.owner == "" && len(m.queue) == 0:
		m.granted(reply, owner, ttl, delay)
	case s.held(m.now()) && s.owner == owner:
		s.deadline = max(s.deadline, m.now()+ttl)
		m.state = s
		if want := fmt.Sprintf("[%d, %d]", s.token, s.deadline); reply != want {
			rt.Fatalf("%s asks again: %s, want %s", owner, reply, want)
		}
	case waits:
		if reply != "+(blocked)" {
			rt.Fatalf("%s does not wait: %s", owner, reply)
		}
		wait := m.h.ctx.Wait
		wait.Keys = slices.Clone(wait.Keys)
		wait.Keys[0].Name = bytes.Clone(wait.Keys[0].Name)
		m.queue = append(m.queue, &leaseWaiter{client: c, waiter: m.h.env.Waiters.Add(c, wait),
			args: args, owner: owner, ttl: ttl, delay: delay})
	case reply != "nilarray":
		rt.Fatalf("%s has the lease of %+v, for which %d wait: %s", owner, s, len(m.queue), reply)
	}
	m.ends(rt)
}

// Again runs the command of a blocked client.
func (m *leaseMachine) Again(w *Waiter) bool {
	at := slices.IndexFunc(m.queue, func(q *leaseWaiter) bool { return q.waiter == w })
	first, s := m.queue[at], m.state.at(m.now())
	again := s.owner == first.owner // on another connection
	if at > 0 && !again {
		m.rt.Fatalf("%s is served before %s, who came earlier", w.who, m.queue[0].owner)
	}
	reply := m.as(first.client, first.args...)
	if reply == "+(blocked)" {
		if m.state.at(m.now()).owner == "" {
			m.rt.Fatalf("the lease is free, and %s goes on waiting", first.owner)
		}
		return true
	}
	switch {
	case s.owner == "":
		m.granted(reply, first.owner, first.ttl, first.delay)
		m.handed++
	case again && s.held(m.now()):
		s.deadline = max(s.deadline, m.now()+first.ttl)
		m.state = s
		if want := fmt.Sprintf("[%d, %d]", s.token, s.deadline); reply != want {
			m.rt.Fatalf("%s, who has the lease, waited for it: %s, want %s", first.owner, reply,
				want)
		}
	default:
		m.rt.Fatalf("%s has the lease of %+v: %s", first.owner, s, reply)
	}
	m.since = append(m.since, m.state)
	m.h.env.Waiters.Remove(w)
	m.queue = slices.Delete(m.queue, at, at+1)
	return true
}

// Enough makes the store leave every other key for the next round.
func (m *leaseMachine) Enough() bool {
	m.asked++
	return m.asked%2 == 0
}

func (m *leaseMachine) Load(k storage.Key, done func(bool)) {
	m.h.store.Load([]storage.Key{k}, func(err error) { done(err == nil) })
	m.h.store.Manual().Serve()
}

// serve does the same as the event loop after each command.
func (m *leaseMachine) serve() {
	m.h.env.Changes.Deliver()
	m.h.env.Waiters.Serve(m.h.store.NewTxn(), m)
	for m.h.env.Waiters.Left() {
		m.h.env.Waiters.Resume()
		m.h.env.Waiters.Serve(m.h.store.NewTxn(), m)
	}
	if s := m.state.at(m.now()); s.held(m.now()) && slices.ContainsFunc(m.queue,
		func(q *leaseWaiter) bool { return q.owner == s.owner }) {
		m.rt.Fatalf("%s has the lease, and waits for it", s.owner)
	}
}

func (m *leaseMachine) token(rt *rapid.T) (token int64, right bool) {
	token = m.state.token + rapid.SampledFrom([]int64{0, 0, 0, 1, -1}).Draw(rt, "token")
	s := m.state.at(m.now())
	return max(token, 1), s.held(m.now()) && token == s.token
}

func (m *leaseMachine) renew(rt *rapid.T) {
	token, right := m.token(rt)
	ttl := rapid.Int64Range(1, 50).Draw(rt, "ttl")
	reply, want := m.as(m.newClient(), "KEYP.LEASE", "RENEW", "l", fmt.Sprint(token),
		fmt.Sprint(ttl)), "-"+string(errNotHeld)
	if right {
		m.state.deadline = m.now() + ttl
		want = fmt.Sprint(m.state.deadline)
	}
	if reply != want {
		rt.Fatalf("RENEW with %d: %s, want %s", token, reply, want)
	}
	m.ends(rt)
}

func (m *leaseMachine) release(rt *rapid.T) {
	token, right := m.token(rt)
	reply, want := m.as(m.newClient(), "KEYP.LEASE", "RELEASE", "l", fmt.Sprint(token)), "0"
	if right {
		m.state, want = leaseState{}, "1"
	}
	if reply != want {
		rt.Fatalf("RELEASE with %d: %s, want %s", token, reply, want)
	}
	m.ends(rt)
}

func (m *leaseMachine) check(rt *rapid.T) {
	token, right := m.token(rt)
	reply := m.as(m.newClient(), "KEYP.LEASE", "CHECK", "l", fmt.Sprint(token))
	if (reply == "+OK") != right {
		rt.Fatalf("CHECK with %d of %+v at %d: %s", token, m.state, m.now(), reply)
	}
	m.ends(rt)
}

func (m *leaseMachine) remove(rt *rapid.T) {
	m.as(m.newClient(), strings.Fields(rapid.SampledFrom([]string{"DEL l", "UNLINK l", "FLUSHALL",
		"FLUSHDB", "PEXPIREAT l 1"}).Draw(rt, "how"))...)
	m.state = leaseState{}
	m.ends(rt)
}

// rename renames the lease and back. The lease then has a new token.
func (m *leaseMachine) rename(rt *rapid.T) {
	s := m.state.at(m.now())
	if !s.held(m.now()) || len(m.queue) > 0 { // who waits would have it meanwhile
		return
	}
	c := m.newClient()
	if reply := m.as(c, "RENAME", "l", "m"); reply != "+OK" {
		rt.Fatalf("RENAME: %s", reply)
	}
	m.as(c, "RENAME", "m", "l")
	var token int64
	reply := m.as(c, "KEYP.LEASE", "ACQUIRE", "l", s.owner, "1")
	if fmt.Sscanf(reply, "[%d,", &token); token <= m.all {
		rt.Fatalf("renamed, the lease of token %d is %s, after %d", s.token, reply, m.all)
	}
	s.token, s.deadline = token, max(s.deadline, m.now()+1)
	m.state, m.all = s, token
	m.durable() // these were several operations
}

func (m *leaseMachine) advance(rt *rapid.T) {
	m.h.clock.Advance(time.Duration(rapid.IntRange(1, 40).Draw(rt, "ms")) * time.Millisecond)
	if rapid.Bool().Draw(rt, "reap") { // otherwise a command finds what has expired
		m.h.store.Reap()
		m.ends(rt)
	}
}

// leave removes one of the blocked clients.
func (m *leaseMachine) leave(rt *rapid.T) {
	if len(m.queue) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.queue)-1).Draw(rt, "who")
	m.h.env.Waiters.Remove(m.queue[i].waiter)
	m.queue = slices.Delete(m.queue, i, i+1)
	m.ends(rt)
}

// exec releases the lease and acquires it in one transaction. It must not get ahead of the blocked
// clients.
func (m *leaseMachine) exec(rt *rapid.T) {
	s := m.state.at(m.now())
	if !s.held(m.now()) {
		return
	}
	c := m.newClient()
	m.as(c, "MULTI")
	m.as(c, "KEYP.LEASE", "RELEASE", "l", fmt.Sprint(s.token))
	m.as(c, "KEYP.LEASE", "ACQUIRE", "l", "d", "10", "WAIT", "0")
	reply := m.as(c, "EXEC")
	m.state = leaseState{}
	if len(m.queue) == 0 {
		m.granted(strings.TrimSuffix(strings.TrimPrefix(reply, "[1, "), "]")+"]", "d", 10, 0)
	} else if reply != "[1, nilarray]" {
		rt.Fatalf("a transaction takes the lease for which %d wait: %s", len(m.queue), reply)
	}
	m.ends(rt)
}

func (m *leaseMachine) reopen(rt *rapid.T) {
	m.h.save = rapid.Bool().Draw(rt, "save")
	m.h.ctx.Client = m.h.client
	m.h.reopen()
	m.queue = nil
	m.durable()
}

// crash simulates a power failure. The latest changes may be lost if they were not durable.
func (m *leaseMachine) crash(rt *rapid.T) {
	m.fs = m.fs.Crash(m.rng)
	if err := m.h.store.Close(false); err != nil {
		rt.Fatal(err)
	}
	m.h.fs, m.queue = m.fs, nil
	m.h.open()
	m.h.env.Reset(m.h.client)
	info := m.as(m.h.client, "KEYP.LEASE", "INFO", "l")
	at := slices.IndexFunc(m.since, func(s leaseState) bool { return info == m.info(s) })
	if at < 0 {
		rt.Fatalf("after a crash the lease is %s: it was none of %+v", info, m.since)
	}
	m.state = m.since[at]
	m.all = max(m.seen, m.state.token)
	m.durable()
}

// info returns the reply of INFO for a state.
func (m *leaseMachine) info(s leaseState) string {
	s = s.at(m.now())
	state := "free"
	switch {
	case s.held(m.now()):
		state = "held"
	case s.owner != "":
		state = "delayed"
	}
	var queue []string
	for _, w := range m.queue {
		queue = append(queue, fmt.Sprintf(`["owner", %q, "client", %d, "since", %d]`, w.owner,
			w.client.ID, w.waiter.since))
	}
	return fmt.Sprintf(`["state", %q, "owner", %q, "token", %d, "deadline", %d, "delay", %d, "waiting", %d, "queue", [%s]]`,
		state, s.owner, s.token, s.deadline, s.delay, len(queue), strings.Join(queue, ", "))
}

func (m *leaseMachine) verify(rt *rapid.T) {
	info := m.as(m.newClient(), "KEYP.LEASE", "INFO", "l")
	if want := m.info(m.state); info != want {
		rt.Fatalf("at %d the lease is %s, want %s", m.now(), info, want)
	}
	m.serve() // INFO may have found that it has expired
}
