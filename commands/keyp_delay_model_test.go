package commands

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/internal/clock"
	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/wal"
)

// modelJob is a job of the model. number is its position among the jobs that are due at the same
// time.
type modelJob struct {
	id, payload             string
	due, number, deliveries int64
	receipt                 int64 // 0: nobody has it
}

// delayState is the state of the model: the jobs of the queue in order, and the ids and deliveries
// of its dead letters.
type delayState struct {
	jobs []modelJob
	dead []string
}

func (s *delayState) clone() delayState {
	return delayState{slices.Clone(s.jobs), slices.Clone(s.dead)}
}

func (s *delayState) sort() {
	slices.SortFunc(s.jobs, func(a, b modelJob) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.number, b.number))
	})
}

func (s *delayState) find(id string) *modelJob {
	for i := range s.jobs {
		if s.jobs[i].id == id {
			return &s.jobs[i]
		}
	}
	return nil
}

func (s *delayState) remove(id string) (was modelJob, ok bool) {
	i := slices.IndexFunc(s.jobs, func(j modelJob) bool { return j.id == id })
	if i < 0 {
		return was, false
	}
	was = s.jobs[i]
	s.jobs = slices.Delete(s.jobs, i, i+1)
	return was, true
}

func (s *delayState) bury(id string) {
	j, _ := s.remove(id)
	s.dead = append(s.dead, fmt.Sprint(j.id, j.deliveries))
}

// modelPop is a POP in the model.
type modelPop struct {
	count            int
	visibility, most int64
	noAck            bool
}

func (p *modelPop) args(more ...string) []string {
	args := []string{"KEYP.DELAY", "POP", "q", "COUNT", fmt.Sprint(p.count)}
	if p.noAck {
		args = append(args, "NOACK")
	} else {
		args = append(args, "VISIBILITY", fmt.Sprint(p.visibility))
	}
	if p.most > 0 {
		args = append(args, "MAXDELIVERIES", fmt.Sprint(p.most), "DEADLETTER", "dead")
	}
	return append(args, more...)
}

// pop returns the jobs that POP delivers, with receipt 0, and moves others to the dead letters.
func (s *delayState) pop(now int64, p modelPop) (out []modelJob) {
	for _, j := range slices.Clone(s.jobs) {
		if j.due > now || len(out) == p.count {
			break
		}
		if p.most > 0 && j.deliveries >= p.most {
			s.bury(j.id)
			continue
		}
		out = append(out, j)
	}
	return out
}

// delayWaiter is a blocked client.
type delayWaiter struct {
	client *Client
	waiter *Waiter
	pop    modelPop
	args   []string
	look   int64 // when its timer has it run again
}

// delayMachine compares a store with the model. It runs the commands of blocked clients again in
// the same way as the event loop.
type delayMachine struct {
	h      *harness
	rt     *rapid.T
	rng    *rand.Rand
	fs     *vfs.Mem
	state  delayState
	number int64
	queue  []*delayWaiter
	// since are the states that are possible after a crash: the last durable one, and all later
	// ones.
	since []delayState
	// seen is the highest receipt in a reply that has been sent. all is the highest receipt of all.
	seen, all int64
	old       []string // receipts that are, or were, valid
	clients   uint64
	served    int
}

// TestDelayModel: jobs are delivered in order, and each again until it is acknowledged. Blocked
// clients get them in the order in which they came. No receipt is given twice. After a crash the
// queue has a state that it had before.
func TestDelayModel(t *testing.T) {
	served, dead, stale := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem()
		h := &harness{t: rt, dir: t.TempDir(), clock: clock.NewFake(epoch), fs: fs, bare: true,
			sync: wal.Always}
		m := &delayMachine{h: h, rt: rt,
			rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1)), fs: fs}
		h.open()
		defer func() { _ = h.store.Close(false) }() // after a failure, too
		m.durable()
		rt.Repeat(map[string]func(*rapid.T){
			"add": m.add, "add more": m.add, "add another": m.add, "pop": m.pop, "pop more": m.pop,
			"wait": m.wait, "ack": m.ack, "extend": m.extend, "nack": m.nack,
			"cancel": m.cancel, "reschedule": m.reschedule, "delete": m.remove, "copy": m.copy,
			"advance": m.advance, "advance more": m.advance, "timers": m.timers,
			"leave": m.leave, "reopen": m.reopen, "crash": m.crash, "": m.verify,
		})
		served += m.served
		dead += len(m.state.dead)
		stale += len(m.old)
	})
	if served == 0 || dead == 0 || stale == 0 {
		t.Errorf("%d who waited have had jobs, %d jobs are dead, %d receipts were given",
			served, dead, stale)
	}
}

func (m *delayMachine) Enough() bool { return false }

func (m *delayMachine) now() int64 { return m.h.clock.Now() }

func (m *delayMachine) durable() {
	if err := m.h.store.Log().Commit(); err != nil {
		m.rt.Fatal(err)
	}
	m.since, m.seen = []delayState{m.state.clone()}, m.all
}

// ends finishes an operation. It serves the blocked clients, and may make everything durable so
// that the replies are sent.
func (m *delayMachine) ends(rt *rapid.T) {
	m.state.sort()
	m.since = append(m.since, m.state.clone())
	m.serve()
	if rapid.IntRange(0, 3).Draw(rt, "durable") > 0 {
		m.durable()
	}
}

func (m *delayMachine) as(c *Client, args ...string) string {
	m.h.ctx.Client = c
	return m.h.do(args...)
}

func (m *delayMachine) newClient() *Client {
	m.clients++
	c := &Client{ID: 100 + m.clients}
	m.h.env.Reset(c)
	return c
}

// replies checks the reply to a command, which is a number.
func (m *delayMachine) replies(want any, args ...string) {
	m.rt.Helper()
	if got := m.as(m.newClient(), args...); got != fmt.Sprint(want) {
		m.rt.Fatalf("%v at %d: %s, want %v", args, m.now(), got, want)
	}
}

func drawID(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "id")
}

// due draws a due time, and returns it as a number and as an argument.
func (m *delayMachine) due(rt *rapid.T) (due int64, text string) {
	by := rapid.Int64Range(0, 60).Draw(rt, "by")
	switch rapid.IntRange(0, 2).Draw(rt, "due") {
	case 0:
		return m.now() + by, fmt.Sprint("+", by)
	case 1:
		return m.now() + by/10, fmt.Sprint(m.now() + by/10)
	default:
		return oldestInstant + by, fmt.Sprint(oldestInstant + by)
	}
}

func (m *delayMachine) add(rt *rapid.T) {
	id, nx := drawID(rt), rapid.IntRange(0, 3).Draw(rt, "nx") == 0
	payload := strings.Repeat(rapid.StringMatching("[xyz]").Draw(rt, "payload"),
		rapid.SampledFrom([]int{1, 1, 200, 5000}).Draw(rt, "size"))
	due, text := m.due(rt)
	args := []string{"KEYP.DELAY", "ADD", "q", id, text, payload}
	if nx {
		args = append(args, "NX")
	}
	there := m.state.find(id) != nil
	if there && nx {
		m.replies(0, args...)
		return
	}
	m.state.remove(id)
	m.number++
	m.state.jobs = append(m.state.jobs, modelJob{id: id, payload: payload, due: due,
		number: m.number})
	want := 1
	if there {
		want = 0
	}
	m.replies(want, args...)
	m.ends(rt)
}

func (m *delayMachine) drawPop(rt *rapid.T) modelPop {
	return modelPop{
		count:      rapid.IntRange(1, 3).Draw(rt, "count"),
		visibility: rapid.Int64Range(0, 30).Draw(rt, "visibility"),
		most:       rapid.SampledFrom([]int64{0, 0, 1, 2}).Draw(rt, "most"),
		noAck:      rapid.IntRange(0, 3).Draw(rt, "noack") == 0,
	}
}

var delivered = regexp.MustCompile(`\["(\w+)", "(\w+)", (?:nil|"(\d+)-(\w+)"), (\d+)\]`)

// gets compares a reply to POP with the model, and applies the delivery to the model.
func (m *delayMachine) gets(p modelPop, reply string) {
	want, got := m.state.pop(m.now(), p), delivered.FindAllStringSubmatch(reply, -1)
	if len(got) != len(want) || len(want) == 0 && reply != "nilarray" {
		m.rt.Fatalf("POP %+v at %d: %s, want %+v", p, m.now(), reply, want)
	}
	for i, w := range want {
		g := got[i]
		receipt, _ := strconv.ParseInt(g[3], 10, 64)
		if g[1] != w.id || g[2] != w.payload || g[5] != fmt.Sprint(w.deliveries+1) ||
			(g[3] == "") != p.noAck || !p.noAck && g[4] != w.id {
			m.rt.Fatalf("POP %+v at %d: job %d of %s, want %+v", p, m.now(), i, reply, w)
		}
		if p.noAck {
			m.state.remove(w.id)
			continue
		}
		if receipt <= m.all {
			m.rt.Fatalf("receipt %d is given after %d", receipt, m.all)
		}
		m.all = receipt
		m.old = append(m.old, g[3]+"-"+w.id)
		j := m.state.find(w.id)
		j.due, j.deliveries, j.receipt = m.now()+p.visibility, j.deliveries+1, receipt
	}
	m.state.sort()
}

func (m *delayMachine) pop(rt *rapid.T) {
	p := m.drawPop(rt)
	reply := m.as(m.newClient(), p.args()...)
	if len(m.queue) == 0 {
		m.gets(p, reply)
	} else if reply != "nilarray" {
		rt.Fatalf("%s is delivered, for which %d wait", reply, len(m.queue))
	}
	m.ends(rt)
}

func (m *delayMachine) wait(rt *rapid.T) {
	p, c := m.drawPop(rt), m.newClient()
	args := p.args("BLOCK", "0")
	reply := m.as(c, args...)
	if reply != "+(blocked)" {
		if len(m.queue) > 0 {
			rt.Fatalf("%s is delivered, for which %d wait", reply, len(m.queue))
		}
		m.gets(p, reply)
		m.ends(rt)
		return
	}
	if len(m.queue) == 0 {
		m.gets(p, "nilarray")
	}
	wait := m.h.ctx.Wait
	if len(wait.Keys) != 1 {
		rt.Fatalf("it waits for %d keys", len(wait.Keys))
	}
	wait.Keys = slices.Clone(wait.Keys)
	wait.Keys[0].Name = bytes.Clone(wait.Keys[0].Name)
	m.queue = append(m.queue, &delayWaiter{client: c, waiter: m.h.env.Waiters.Add(c, wait), pop: p,
		args: args, look: m.look(wait)})
	m.ends(rt)
}

// look returns the time at which a blocked command runs again.
func (m *delayMachine) look(wait BlockedOn) int64 {
	if wait.Again == 0 {
		return 0
	}
	return m.now() + wait.Again
}

// Again runs the command of a blocked client.
func (m *delayMachine) Again(w *Waiter) bool {
	first := m.queue[0]
	if first.waiter != w {
		m.rt.Fatalf("client %d is served before %d, who came earlier", w.Client.ID, first.client.ID)
	}
	reply := m.as(first.client, first.args...)
	if reply == "+(blocked)" {
		m.gets(first.pop, "nilarray")
		first.look = m.look(m.h.ctx.Wait)
		m.since = append(m.since, m.state.clone())
		return true
	}
	m.gets(first.pop, reply)
	m.since = append(m.since, m.state.clone())
	m.served++
	m.queue = m.queue[1:]
	m.h.env.Waiters.Remove(w)
	return true
}

func (m *delayMachine) Load(k storage.Key, done func(bool)) {
	m.h.store.Load([]storage.Key{k}, func(err error) { done(err == nil) })
	m.h.store.Manual().Serve()
}

// serve does the same as the event loop after each command.
func (m *delayMachine) serve() {
	m.h.env.Changes.Deliver()
	m.h.env.Waiters.Serve(m.h.store.NewTxn(), m)
}

// receipt draws a receipt, and returns it with the job for which it is valid.
func (m *delayMachine) receipt(rt *rapid.T) (receipt string, j *modelJob) {
	var of []string
	for _, j := range m.state.jobs {
		if j.receipt > 0 {
			of = append(of, fmt.Sprint(j.receipt, "-", j.id))
		}
	}
	if rapid.IntRange(0, 3).Draw(rt, "stale") == 0 || len(of) == 0 {
		of = append(slices.Clone(m.old), "0-a", "x")
	}
	receipt = rapid.SampledFrom(of).Draw(rt, "receipt")
	number, id, _ := strings.Cut(receipt, "-")
	if j = m.state.find(id); j == nil || j.receipt == 0 || fmt.Sprint(j.receipt) != number {
		return receipt, nil
	}
	return receipt, j
}

func (m *delayMachine) ack(rt *rapid.T) {
	receipt, j := m.receipt(rt)
	want := 0
	if j != nil {
		m.state.remove(j.id)
		want = 1
	}
	m.replies(want, "KEYP.DELAY", "ACK", "q", receipt, receipt)
	m.ends(rt)
}

func (m *delayMachine) extend(rt *rapid.T) {
	receipt, j := m.receipt(rt)
	ms, want := rapid.Int64Range(0, 40).Draw(rt, "ms"), 0
	if j != nil {
		j.due, want = m.now()+ms, 1
	}
	m.replies(want, "KEYP.DELAY", "EXTEND", "q", receipt, fmt.Sprint(ms))
	m.ends(rt)
}

func (m *delayMachine) nack(rt *rapid.T) {
	receipt, j := m.receipt(rt)
	ms, most, want := rapid.Int64Range(0, 20).Draw(rt, "ms"),
		rapid.SampledFrom([]int64{0, 1, 2}).Draw(rt, "most"), 0
	args := []string{"KEYP.DELAY", "NACK", "q", receipt}
	if ms > 0 {
		args = append(args, "DELAY", fmt.Sprint(ms))
	}
	if most > 0 {
		args = append(args, "MAXDELIVERIES", fmt.Sprint(most), "DEADLETTER", "dead")
	}
	if j != nil {
		want = 1
		if most > 0 && j.deliveries >= most {
			m.state.bury(j.id)
		} else {
			j.due, j.receipt = m.now()+ms, 0
		}
	}
	m.replies(want, args...)
	m.ends(rt)
}

func (m *delayMachine) cancel(rt *rapid.T) {
	one, other, want := drawID(rt), drawID(rt), 0
	for _, id := range []string{one, other} {
		if _, ok := m.state.remove(id); ok {
			want++
		}
	}
	m.replies(want, "KEYP.DELAY", "CANCEL", "q", one, other)
	m.ends(rt)
}

func (m *delayMachine) reschedule(rt *rapid.T) {
	id, want := drawID(rt), 0
	due, text := m.due(rt)
	if j := m.state.find(id); j != nil {
		j.due, j.receipt, want = due, 0, 1
	}
	m.replies(want, "KEYP.DELAY", "RESCHEDULE", "q", id, text)
	m.ends(rt)
}

func (m *delayMachine) remove(rt *rapid.T) {
	m.as(m.newClient(), strings.Fields(rapid.SampledFrom([]string{"DEL q", "UNLINK q",
		"PEXPIREAT q 1"}).Draw(rt, "how"))...)
	m.state.jobs = nil
	m.ends(rt)
}

// copy replaces the queue by a copy of itself, or renames it for a while. Jobs and receipts stay
// the same.
func (m *delayMachine) copy(rt *rapid.T) {
	if len(m.state.jobs) == 0 || len(m.queue) > 0 { // who waits would have jobs meanwhile
		return
	}
	c := m.newClient()
	for _, line := range rapid.SampledFrom([][]string{{"COPY q m", "DEL q", "RENAME m q"},
		{"RENAME q m", "COPY m q", "DEL m"}}).Draw(rt, "how") {
		if reply := m.as(c, strings.Fields(line)...); reply[0] == '-' {
			rt.Fatalf("%s: %s", line, reply)
		}
	}
	m.durable() // these were several operations
}

func (m *delayMachine) advance(rt *rapid.T) {
	m.h.clock.Advance(time.Duration(rapid.IntRange(1, 40).Draw(rt, "ms")) * time.Millisecond)
	if rapid.Bool().Draw(rt, "timers") { // otherwise a command comes before them
		m.timers(rt)
	}
}

// timers runs the blocked commands whose time has come. After that no client waits while a job is
// due.
func (m *delayMachine) timers(rt *rapid.T) {
	for _, w := range m.queue {
		if w.look != 0 && w.look <= m.now() {
			w.look = 0
			m.h.env.Waiters.LookAgain(w.waiter)
		}
	}
	m.ends(rt)
	if len(m.queue) > 0 && len(m.state.jobs) > 0 && m.state.jobs[0].due <= m.now() {
		rt.Fatalf("%d wait at %d, though %+v is due", len(m.queue), m.now(), m.state.jobs[0])
	}
}

// leave removes one of the blocked clients.
func (m *delayMachine) leave(rt *rapid.T) {
	if len(m.queue) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.queue)-1).Draw(rt, "who")
	gone := m.queue[i]
	m.queue = slices.Delete(m.queue, i, i+1)
	m.h.env.Waiters.Remove(gone.waiter)
	m.ends(rt)
}

func (m *delayMachine) reopen(rt *rapid.T) {
	m.h.save = rapid.Bool().Draw(rt, "save")
	m.h.ctx.Client = m.h.client
	m.h.reopen()
	m.queue = nil
	m.durable()
}

// crash simulates a power failure. The latest changes may be lost if they were not durable.
func (m *delayMachine) crash(rt *rapid.T) {
	m.fs = m.fs.Crash(m.rng)
	if err := m.h.store.Close(false); err != nil {
		rt.Fatal(err)
	}
	m.h.fs, m.queue = m.fs, nil
	m.h.open()
	m.h.env.Reset(m.h.client)
	is := m.shown(m.h.client)
	at := slices.IndexFunc(m.since, func(s delayState) bool { return is == s.text() })
	if at < 0 {
		rt.Fatalf("after a crash the queue is %s: it was none of %+v", is, m.since)
	}
	m.state = m.since[at].clone()
	m.all = m.seen
	for _, j := range m.state.jobs {
		m.all = max(m.all, j.receipt)
	}
	m.durable()
}

var (
	listed = regexp.MustCompile(
		`\["\d+-\d+", "(\w+)", (\d+), (\d+), (?:nil|"(\d+)-\w+"), "(\w+)"\]`)
	buried = regexp.MustCompile(
		`"id", "(\w+)", "payload", "\w+", "queue", "q", "deliveries", "(\d+)"`)
)

// shown returns the content of the store as text.
func (m *delayMachine) shown(c *Client) string {
	var s delayState
	list := m.as(c, "KEYP.DELAY", "RANGE", "q", "-", "+")
	for i, g := range listed.FindAllStringSubmatch(list, -1) {
		due, _ := strconv.ParseInt(g[2], 10, 64)
		deliveries, _ := strconv.ParseInt(g[3], 10, 64)
		receipt, _ := strconv.ParseInt(g[4], 10, 64)
		s.jobs = append(s.jobs, modelJob{g[1], g[5], due, int64(i), deliveries, receipt})
	}
	for _, g := range buried.FindAllStringSubmatch(m.as(c, "XRANGE", "dead", "-", "+"), -1) {
		s.dead = append(s.dead, g[1]+g[2])
	}
	return s.text()
}

func (s *delayState) text() string {
	var b strings.Builder
	for _, j := range s.jobs {
		fmt.Fprintf(&b, "%s %d %d %d %.1s%d\n", j.id, j.due, j.deliveries, j.receipt,
			j.payload, len(j.payload))
	}
	return b.String() + strings.Join(s.dead, " ")
}

// info returns the reply of INFO for the model's state.
func (m *delayMachine) info() string {
	var due, delivered int
	var first, last int64
	for i, j := range m.state.jobs {
		if j.due <= m.now() {
			due++
		}
		if j.receipt != 0 {
			delivered++
		}
		if last = j.due; i == 0 {
			first = j.due
		}
	}
	return fmt.Sprintf(
		`["jobs", %d, "due", %d, "delivered", %d, "first", %d, "last", %d, "waiting", %d]`,
		len(m.state.jobs), due, delivered, first, last, len(m.queue))
}

func (m *delayMachine) verify(rt *rapid.T) {
	c := m.newClient()
	if is, want := m.shown(c), m.state.text(); is != want {
		rt.Fatalf("at %d the queue is\n%s\nwant\n%s", m.now(), is, want)
	}
	if is, want := m.as(c, "KEYP.DELAY", "INFO", "q"), m.info(); is != want {
		rt.Fatalf("at %d INFO is %s, want %s", m.now(), is, want)
	}
	m.replies(len(m.state.jobs), "KEYP.DELAY", "LEN", "q")
	m.replies(min(len(m.state.jobs), 1), "EXISTS", "q")
	// A listing in pages has the same jobs.
	var pages []string
	for from := "-"; ; {
		page := m.as(c, "KEYP.DELAY", "RANGE", "q", from, "+", "COUNT", "1")
		place, _, _ := strings.Cut(strings.TrimPrefix(page, `[["`), `"`)
		if page == "[]" {
			break
		}
		pages, from = append(pages, strings.Trim(page, "[]")), "("+place
	}
	if whole := strings.Trim(m.as(c, "KEYP.DELAY", "RANGE", "q", "-", "+"),
		"[]"); strings.Join(pages, "], [") != whole {
		rt.Fatalf("page by page the queue is %q, want %s", pages, whole)
	}
	m.serve()
}
