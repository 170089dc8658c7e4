package linear

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// TestFailoversLinearizable: clients work with the leader of a group of three. Meanwhile leaders
// are killed, stopped for a while, cut off from the others or asked to hand over. One order
// explains all replies, including those of a leader that did not know that it had lost its role.
func TestFailoversLinearizable(t *testing.T) {
	checkFailovers(t, trial{model: model, fresh: func() workload { return keyed{} }},
		killsByDefault*2)
}

// TestFailoversInBadNetworks does the same with a slow and late line between each pair of members.
// Messages from leaders, or to leaders, come too late.
func TestFailoversInBadNetworks(t *testing.T) {
	checkFailovers(t, trial{model: model, fresh: func() workload {
		return keyed{}
	}, weather: true, faults: append(slices.Clone(lateness), faults...)}, killsByDefault*2)
}

// TestFailoversOfCollections does the same with hashes, lists, sets and sorted sets, over slow and
// late lines.
func TestFailoversOfCollections(t *testing.T) {
	checkFailovers(t, trial{model: collectionModel, fresh: func() workload {
		return collected{}
	}, weather: true}, killsByDefault)
}

// TestFailoversOfStreams does the same with streams and their groups.
func TestFailoversOfStreams(t *testing.T) {
	checkFailovers(t, trial{model: streamModel, fresh: func() workload {
		return &streamed{}
	}, weather: true}, killsByDefault)
}

// TestFailoversWithClocksApart does the same with strings, in a group whose members' clocks are
// hours apart. The group's time continues across all failovers, whichever member leads. So no key
// expires before its deadline or exists after it.
func TestFailoversWithClocksApart(t *testing.T) {
	checkFailovers(t, trial{model: model, fresh: func() workload { return keyed{} }, apart: true},
		killsByDefault*2)
}

// TestLeaseFailoversLinearizable does the same with leases, and makes the clocks of all members
// step between the faults. A failover neither renews nor shortens a lease, and no token is granted
// twice.
func TestLeaseFailoversLinearizable(t *testing.T) { checkFailovers(t, leases, killsByDefault) }

// TestDelayFailoversLinearizable does the same with delay queues.
func TestDelayFailoversLinearizable(t *testing.T) { checkFailovers(t, delays, killsByDefault) }

// checkFailovers records and checks histories of clients of a group whose leader has one fault
// after the other. KEYP_KILLS is half the number of faults.
func checkFailovers(t *testing.T, what trial, byDefault int) {
	rounds := int(testkit.Number(t, "KEYP_KILLS", 0)) * 2
	if rounds == 0 {
		rounds = byDefault
	}
	const each = 8 // in one history
	seed := testkit.Seed(t)
	total := tally{done: map[string]int{}}
	for i := 0; (i*each < rounds || total.lacks(what.verbs) && i*each < 60*rounds) &&
		!t.Failed(); i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			f := newFailovers(t, what, rand.New(rand.NewPCG(seed, uint64(i))))
			n := max(1, min(each, rounds-i*each))
			f.run(i*each, n)
			total.add(f.rec.history, n)
			explain(t, what.model, f.rec.history, seed, &total)
		})
	}
	t.Logf("%d failovers, %d operations, %d of them lost, %d misses; the longest search took %v",
		total.kills, total.operations, total.lost, total.misses,
		total.search.Round(time.Millisecond))
	total.worth(t, what.verbs)
}

// failovers is a group with working clients.
type failovers struct {
	t    *testing.T
	what trial
	args [][]string // of each server but for its clock
	rng  *rand.Rand
	g    *members.Group
	rec  *recorder
	team []*roaming
	// away is a server with a fault, which clients avoid.
	away  atomic.Pointer[testkit.Server]
	over  atomic.Bool
	apart *apart // nil: the members' clocks agree
	// marked is the last value that was set for the key "mark".
	marked atomic.Int64
	seen   atomic.Int64 // how often the count was read at a member of any role
	own    atomic.Int64 // the number of the last key of a probe
	mu     struct {
		sync.Mutex
		set  []string // keys that were acknowledged
		lost []lostCall
		// marks has the times at which a leader had committed a write that was sent after it had
		// begun to lead, in a newer term than before.
		marks []time.Time
	}
}

// lostCall is an operation of unknown outcome. If it has a log entry, the entry belongs to the term
// of a former leader. So the entry comes before all entries of later terms, or never.
type lostCall struct {
	client     int
	op         call
	from, lost time.Time
}

// roaming is a client that goes from member to member of a group.
type roaming struct {
	client
	f     *failovers
	at    atomic.Pointer[visit]
	count atomic.Int64
}

// visit has the connections of a client to one server.
type visit struct {
	s  *testkit.Server
	mu struct {
		sync.Mutex
		over  bool
		conns []net.Conn
	}
}

// dial is the Dialer of the client.
func (v *visit) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.over {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	v.mu.conns = append(v.mu.conns, c)
	return c, nil
}

// end closes the visit's connections, even while the client waits for a reply.
func (v *visit) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.over = true
	for _, c := range v.mu.conns {
		c.Close()
	}
}

func newFailovers(t *testing.T, what trial, rng *rand.Rand) *failovers {
	var args []string
	if what.steps {
		args = steppedArgs
	}
	each := slices.Repeat([][]string{args}, 3)
	f := &failovers{t: t, what: what, rng: rng}
	if what.apart {
		f.apart, each = newApart(t, rng)
	}
	f.g, f.rec = members.EachBehindProxy(t, each...), &recorder{began: time.Now()}
	if f.apart != nil {
		f.apart.begin(f.g)
	}
	for _, s := range f.g.Servers {
		f.args = append(f.args, s.Args())
	}
	for id := range clients {
		f.team = append(f.team, &roaming{f: f, client: client{workload: what.fresh(), id: id,
			rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), rec: f.rec, inCluster: true}})
	}
	return f
}

// run makes one leader after the other fail.
func (f *failovers) run(first, rounds int) {
	f.asLeader(f.team[0].workload.first())
	var all sync.WaitGroup
	for _, c := range f.team {
		all.Go(c.roam)
	}
	for _, s := range f.g.Servers {
		all.Go(func() { f.watch(s) })
	}
	list := f.what.faults
	if list == nil {
		list = faults
	}
	for i := range rounds {
		if f.what.weather {
			f.weather()
		}
		f.enough()
		if f.what.steps {
			f.step()
			f.enough()
		}
		s := f.g.Leader()
		fault := list[(first+i)%len(list)]
		term := epoch(s)
		p := newProbe(f, s)
		await.Until(f.t, "the probe has replies", func() bool { return p.replies.Load() > 1 })
		end := fault.do(f, s)
		stop := f.mark(f.newLeader(s, term))
		f.enough()
		end()
		p.end()
		stop()
		f.away.Store(nil)
		await.Until(f.t, fault.name+": the member is back", func() bool {
			return members.Field(s, "master_link_status") == "up" || members.Role(s) == "master"
		})
	}
	await.Until(f.t, "the count is read with READONLY", func() bool { return f.seen.Load() > 0 })
	f.over.Store(true)
	s := f.g.Leader()
	term := epoch(s)
	s.Kill() // what is lost is decided now
	f.newLeader(s, term)
	all.Wait()
	f.last()
	f.lastOwn()
	s.Start()
	f.g.Agree()
	f.settle()
	f.rec.place()
}

// step makes the clocks of all members step by the same amount, while none has a fault. The
// leader's clock is the last one, as it makes the others follow.
func (f *failovers) step() {
	before := f.rec.offset()
	offset := drawOffset(f.rng, before)
	f.rec.step(time.Now(), offset, func() {
		leader := f.g.Leader()
		for i, s := range f.g.Servers {
			s.SetArgs(steppedAt(f.args[i], offset)...)
			if s != leader {
				setClock(f.t, s, offset)
			}
		}
		setClock(f.t, leader, offset)
		looks := 0
		await.Until(f.t, "the time of all members follows their clocks", func() bool {
			if looks++; looks%200 == 0 { // another one leads
				leader = f.g.Leader()
				setClock(f.t, leader, before)
				setClock(f.t, leader, offset)
			}
			for _, s := range f.g.Servers {
				if !follows(s, offset) {
					return false
				}
			}
			return true
		})
	})
}

// enough waits until the clients have done enough operations.
func (f *failovers) enough() {
	n := f.rec.size() + leastWork/2
	await.Until(f.t, "the clients work", func() bool { return f.rec.size() >= n })
}

// newLeader waits until another member leads in a later term. It closes the clients' connections to
// the old leader, and makes the new one commit a write.
func (f *failovers) newLeader(old *testkit.Server, term int64) (leader *testkit.Server) {
	f.t.Helper()
	f.away.Store(old)
	await.Until(f.t, "another member leads", func() bool {
		for _, s := range f.g.Servers {
			if s != old && s.Running() && members.Role(s) == "master" && epoch(s) > term {
				f.leave(old)
				leader = s
				return f.lead(s)
			}
		}
		return false
	})
	return leader
}

// leave ends the visits at a server, and returns when no client is there.
func (f *failovers) leave(s *testkit.Server) {
	for _, c := range f.team {
		looks := 0
		await.Until(f.t, "a client leaves", func() bool {
			v := c.at.Load()
			if v == nil || v.s != s {
				return true
			}
			v.end()
			if looks++; looks%500 == 0 {
				f.t.Logf("client %d stays at %s after %d operations, with %d connections; away is %s, leaders %v",
					c.id, s.Addr(), c.count.Load(), len(v.mu.conns), f.away.Load().Addr(),
					f.g.Leader().Addr())
			}
			return false
		})
	}
}

// lead returns true if a server has committed a write as the leader.
func (f *failovers) lead(s *testkit.Server) bool {
	c := s.Client(2)
	defer c.Close()
	if n := f.marked.Load() + 1; c.Set(ctx, "mark", n, f.lives()).Err() == nil {
		f.marked.Store(n)
	} else {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.marks = append(f.mu.marks, time.Now())
	return true
}

// epoch returns the group's term according to a server, or 0 if the server does not reply.
func epoch(s *testkit.Server) int64 {
	c := s.Client(2)
	defer c.Close()
	text, _ := c.ClusterInfo(ctx).Result()
	_, rest, _ := strings.Cut(text, "cluster_current_epoch:")
	word, _, _ := strings.Cut(rest, "\r\n")
	n, _ := strconv.ParseInt(word, 10, 64)
	return n
}

// settle adds the lost operations to the history.
func (f *failovers) settle() {
	for _, l := range f.mu.lost {
		i := slices.IndexFunc(f.mu.marks, func(m time.Time) bool { return m.After(l.lost) })
		if i < 0 {
			f.t.Errorf("an operation was lost after the last leader was there: %v", l.op)
			continue
		}
		if f.apart != nil {
			l.op.ledBy.to = f.apart.latest(f.mu.marks[i])
		}
		f.rec.add(l.client, l.op, outcome{lost: true}, l.from, f.mu.marks[i])
	}
}

// last reads all keys.
func (f *failovers) last() { f.asLeader(f.team[0].workload.last()) }

// asLeader runs commands for each group at the leader, while no other client runs.
func (f *failovers) asLeader(commands []command) {
	c := f.team[0]
	var leader *testkit.Server
	var pool *redis.Client
	var term int64
	for group := range groups {
		for _, cmd := range commands {
			await.Until(f.t, "a leader answers", func() bool {
				if leader == nil {
					leader = f.g.Leader()
					pool, term = leader.Client(2), epoch(leader)
				}
				conn, known := pool.Conn(), int64(0)
				defer conn.Close()
				op := call{group: group, commands: []command{cmd}}
				o, from, to, asked := c.ask(conn, &op, &known)
				switch {
				case !asked:
					pool.Close()
					leader = nil
					return false
				case o.lost:
					f.mu.lost = append(f.mu.lost, lostCall{clients, op, from, to})
					await.Until(f.t, "another member leads", func() bool {
						s := f.g.Leader()
						return epoch(s) > term && f.lead(s)
					})
					fallthrough
				case elsewhere(o):
					pool.Close()
					leader = nil
					return false
				}
				f.rec.add(clients, op, o, from, to)
				return true
			})
		}
	}
	if pool != nil {
		pool.Close()
	}
}

// lastOwn checks that all keys that probes have set exist.
func (f *failovers) lastOwn() {
	c := f.g.Client()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range f.mu.set {
		if got, err := c.Get(ctx, name).Result(); err != nil || got != "1" {
			f.t.Errorf("%s was acknowledged, and is %q: %v", name, got, err)
		}
	}
	if len(f.mu.set) == 0 {
		f.t.Error("no leader has acknowledged anything to a probe")
	}
}

// roam sends operations to any server that accepts them.
func (c *roaming) roam() {
	for i := c.id; !c.f.over.Load(); i++ {
		s := c.f.g.Servers[i%len(c.f.g.Servers)]
		if s != c.f.away.Load() {
			c.visit(s)
		}
		await.Pass(time.Duration(c.rng.IntN(5)) * time.Millisecond)
	}
}

// visit sends operations to a server until the server is down or says that another one leads.
func (c *roaming) visit(s *testkit.Server) {
	v := &visit{s: s}
	pool := testkit.NewClient(c.f.t, &redis.Options{Addr: s.Addr(), Protocol: 2 + c.id%2,
		Dialer: v.dial})
	defer pool.Close()
	conn := pool.Conn()
	defer conn.Close()
	c.at.Store(v)
	defer c.at.Store(nil)
	if s == c.f.away.Load() || conn.Ping(ctx).Err() != nil {
		return // before anything was sent
	}
	known := int64(0)
	for !c.f.over.Load() {
		op := c.next()
		o, from, to, asked := c.ask(conn, &op, &known)
		c.sent++
		c.count.Add(1)
		switch {
		case !asked:
			return
		case o.lost && c.writes(op):
			c.f.mu.Lock()
			c.f.mu.lost = append(c.f.mu.lost, lostCall{c.id, op, from, to})
			c.f.mu.Unlock()
			return
		case o.lost || elsewhere(o):
			return
		case c.strange(o) != "":
			c.f.t.Errorf("%s: %v: %s", s.Addr(), op, c.strange(o))
			return
		}
		c.rec.add(c.id, op, o, from.Add(min(op.waited(o), to.Sub(from))), to)
		await.Pass(time.Duration(c.rng.IntN(3000)) * time.Microsecond)
	}
}

// elsewhere returns true if a server has refused an operation because it does not lead, or does not
// know whether it does.
func elsewhere(o outcome) bool {
	return slices.ContainsFunc(o.replies, func(reply any) bool {
		text, _ := reply.(refusal)
		word, _, _ := strings.Cut(string(text), " ")
		return slices.Contains([]string{"MOVED", "CLUSTERDOWN", "TRYAGAIN", "LOADING", "MASTERDOWN",
			"EXECABORT", "UNBLOCKED"}, word)
	})
}

// mark makes the leader increase a counter until stop is called.
func (f *failovers) mark(s *testkit.Server) (stop func()) {
	var over atomic.Bool
	var done sync.WaitGroup
	done.Go(func() {
		c := s.Client(2)
		for n := f.marked.Load() + 1; !over.Load() &&
			c.Set(ctx, "mark", n, f.lives()).Err() == nil; n++ {
			f.marked.Store(n)
			await.Pass(200 * time.Microsecond)
		}
	})
	return func() {
		over.Store(true)
		done.Wait()
	}
}

// strange returns a reply that is an error other than those of the model's commands.
func (c *roaming) strange(o outcome) refusal {
	var known []string
	if _, ok := c.workload.(*streamed); ok {
		known = []string{"NOGROUP", "BUSYGROUP", "ERR"}
	}
	for _, reply := range o.replies {
		r, ok := reply.(refusal)
		word, _, _ := strings.Cut(string(r), " ")
		if ok && r != errNotInteger && r != errNotHeld && r != errNotRun &&
			!slices.Contains(known, word) {
			return r
		}
	}
	return ""
}

// watch reads the counter at a server all the time, whether the server leads or not. Over one
// connection the counter must never go back.
func (f *failovers) watch(s *testkit.Server) {
	for !f.over.Load() {
		if c, err := await.Dial("tcp", s.Addr()); err == nil {
			f.watchOver(c)
			c.Close()
		}
		await.Pass(5 * time.Millisecond)
	}
}

func (f *failovers) watchOver(c *await.Conn) {
	in := bufio.NewReader(c)
	last := int64(0)
	for !f.over.Load() {
		if _, err := io.WriteString(c, "READONLY\r\nGET mark\r\n"); err != nil {
			return
		}
		if line, err := in.ReadString('\n'); err != nil || line != "+OK\r\n" {
			return
		}
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if line[0] == '$' && line != "$-1\r\n" {
			var value string
			if value, err = in.ReadString('\n'); err != nil {
				return
			}
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil || n < last {
				f.t.Errorf("over one connection the count was %d, and is %q: %v", last, value, err)
			}
			last = n
			f.seen.Add(1)
		} else if line[0] == '$' && last > 0 {
			f.t.Errorf("over one connection the count was %d, and is not there", last)
		}
		await.Pass(time.Millisecond)
	}
}

// probe sends commands to a server that may no longer lead and not know that yet. It reads the
// counter and sets keys of its own, all the time and without waiting for replies.
type probe struct {
	f    *failovers
	conn *await.Conn
	over atomic.Bool
	done sync.WaitGroup
	// asked has the least counter that each reply must show. A negative value is the number of a
	// key that was set.
	asked chan int64
	stale atomic.Int64

	replies atomic.Int64
}

// newProbe starts a probe.
func newProbe(f *failovers, s *testkit.Server) *probe {
	p := &probe{f: f, conn: s.Dial(), asked: make(chan int64, 100_000)}
	p.done.Go(func() {
		defer close(p.asked)
		living := ""
		if ttl := f.lives(); ttl != 0 {
			living = fmt.Sprint(" PX ", ttl.Milliseconds())
		}
		// The server answers everything that was sent, and closes the connection.
		defer func() { _ = p.conn.CloseWrite() }()
		for !p.over.Load() && len(p.asked) < cap(p.asked)-1 {
			p.asked <- f.marked.Load()
			n := f.own.Add(1)
			p.asked <- -n
			if _, err := fmt.Fprintf(p.conn, "GET mark\r\nSET own:%d 1%s\r\n", n,
				living); err != nil {
				return // the server was killed
			}
			await.Pass(200 * time.Microsecond)
		}
	})
	p.done.Go(p.read)
	return p
}

// end stops the probe after all replies have arrived.
func (p *probe) end() {
	p.over.Store(true)
	p.done.Wait()
	p.conn.Close()
	if n := p.stale.Load(); n > 0 {
		p.f.t.Errorf(
			"%d replies have an older count than had been acknowledged before they were asked for",
			n)
	}
}

// read checks the replies. Replies that are not refusals must be recent enough.
func (p *probe) read() {
	in := bufio.NewReader(p.conn)
	for least := range p.asked {
		line, err := in.ReadString('\n')
		if err != nil {
			continue // the server has ended
		}
		p.replies.Add(1)
		line = strings.TrimSpace(line)
		if line[0] == '-' && elsewhere(outcome{replies: []any{refusal(line[1:])}}) {
			continue
		}
		if least < 0 && line == "+OK" {
			p.f.mu.Lock()
			p.f.mu.set = append(p.f.mu.set, fmt.Sprint("own:", -least))
			p.f.mu.Unlock()
			continue
		}
		got := int64(0)
		if line != "$-1" {
			var value string
			if value, err = in.ReadString('\n'); err != nil {
				continue
			}
			got, err = strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
		if err != nil || line[0] != '$' {
			p.f.t.Errorf("%q, %v", line, err)
		}
		if got < least {
			p.stale.Add(1)
		}
	}
}
