package group

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// This file tests transactions on a group of servers. Clients move money between accounts while
// servers are killed and stopped. The sum of all accounts must stay the same.

const (
	accounts = 12
	opening  = 100 // of each account
	tellers  = 6
)

// bank is a group with accounts, between which tellers move money. The ledger has a line for each
// transfer.
type bank struct {
	group
	t     *testing.T
	ctx   context.Context
	over  atomic.Bool
	moved atomic.Int64 // transfers that were acknowledged
	mu    struct {
		sync.Mutex
		acked  map[string]bool
		visits map[*redis.Client]*testkit.Server
		away   *testkit.Server // is stopped, and has no visits
	}
	sums map[*testkit.Server]*atomic.Int64 // how often the accounts were added up at a server
}

func account(i int) string { return fmt.Sprint("{bank}account:", i) }

const ledger = "{bank}ledger"

func names() (list []string) {
	for i := range accounts {
		list = append(list, account(i))
	}
	return list
}

const transferScript = `
	if tonumber(redis.call('GET', KEYS[1])) < tonumber(ARGV[1]) then return 0 end
	redis.call('DECRBY', KEYS[1], ARGV[1])
	redis.call('INCRBY', KEYS[2], ARGV[1])
	redis.call('RPUSH', KEYS[3], ARGV[2])
	return 1`

// transfer moves money through one server, and returns true if the transfer was acknowledged.
func (b *bank) transfer(c *redis.Conn, rng *rand.Rand, id string) bool {
	from, amount := rng.IntN(accounts), 1+rng.IntN(30)
	to := (from + 1 + rng.IntN(accounts-1)) % accounts
	line := fmt.Sprint(id, " ", from, " ", to, " ", amount)
	if rng.IntN(2) == 0 {
		n, err := c.Eval(b.ctx, transferScript, []string{account(from), account(to), ledger},
			amount, line).Int()
		return err == nil && n == 1
	}
	_, err := c.TxPipelined(b.ctx, func(p redis.Pipeliner) error {
		p.DecrBy(b.ctx, account(from), int64(amount))
		p.IncrBy(b.ctx, account(to), int64(amount))
		p.RPush(b.ctx, ledger, line)
		return nil
	})
	return err == nil
}

// visit connects to a server that is not stopped, and calls use until it returns false.
func (b *bank) visit(s *testkit.Server, protocol int, use func(c *redis.Conn) bool) {
	await.Pass(10 * time.Millisecond)
	client := s.Client(protocol)
	defer client.Close()
	b.mu.Lock()
	away := s == b.mu.away
	if !away {
		b.mu.visits[client] = s
	}
	b.mu.Unlock()
	if away {
		return
	}
	conn := client.Conn()
	for !b.over.Load() && use(conn) {
	}
	_ = conn.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.visits, client)
}

// stop stops a server's process with SIGSTOP. It also ends the visits to the server, which would
// wait for it.
func (b *bank) stop(s *testkit.Server) {
	b.signal(s, syscall.SIGSTOP)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.away = s
	for client, at := range b.mu.visits {
		if at == s {
			_ = client.Close()
		}
	}
}

// resume continues a process that stop has stopped.
func (b *bank) resume(s *testkit.Server) {
	b.signal(s, syscall.SIGCONT)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.away = nil
}

func (b *bank) signal(s *testkit.Server, signal syscall.Signal) {
	b.t.Helper()
	if err := syscall.Kill(s.Pid(), signal); err != nil {
		b.t.Fatal(err)
	}
}

// work makes transfers at any server that accepts them.
func (b *bank) work(teller int, rng *rand.Rand) {
	for n, at := 0, teller; !b.over.Load(); at++ {
		b.visit(b.Servers[at%len(b.Servers)], 2, func(c *redis.Conn) bool {
			id := fmt.Sprint(teller, ":", n)
			n++
			if !b.transfer(c, rng, id) {
				return false
			}
			b.mu.Lock()
			b.mu.acked[id] = true
			b.mu.Unlock()
			b.moved.Add(1)
			return true
		})
	}
}

// sum adds up all accounts as a server shows them. ok is false if the server does not answer.
func (b *bank) sum(c *redis.Conn) (sum int, ok bool) {
	values, err := c.MGet(b.ctx, names()...).Result()
	if err != nil {
		return 0, false
	}
	for _, v := range values {
		text, _ := v.(string)
		n, err := strconv.Atoi(text)
		if err != nil {
			b.t.Errorf("an account has %v", v)
		}
		sum += n
	}
	return sum, true
}

// supervise adds up the accounts at a server again and again, whether the server leads or not.
func (b *bank) supervise(s *testkit.Server) {
	for !b.over.Load() {
		b.visit(s, 3, func(c *redis.Conn) bool {
			if c.ReadOnly(b.ctx).Err() != nil {
				return false
			}
			sum, ok := b.sum(c)
			if !ok {
				return false
			}
			if sum != accounts*opening {
				b.t.Errorf("a member shows %d in all accounts, and there are %d", sum,
					accounts*opening)
				b.over.Store(true)
			}
			b.sums[s].Add(1)
			await.Pass(10 * time.Millisecond)
			return true
		})
	}
}

// TestBank: money moves between accounts, by EXEC and by scripts, while leaders are killed and
// stopped. The sum is the same in every read at each member, whichever member leads. Each
// acknowledged transfer was made exactly once, and all balances match the ledger.
func TestBank(t *testing.T) {
	b := &bank{group: group{members.New(t, 3)}, t: t, sums: map[*testkit.Server]*atomic.Int64{}}
	b.ctx = t.Context() // not a wait's: the whole test may take longer
	b.mu.acked, b.mu.visits = map[string]bool{}, map[*redis.Client]*testkit.Server{}
	var set []any
	for _, name := range names() {
		set = append(set, name, opening)
	}
	if err := b.Client().MSet(b.ctx, set...).Err(); err != nil {
		t.Fatal(err)
	}
	b.Agree()
	seed := testkit.Seed(t)
	var all sync.WaitGroup
	for i := range tellers {
		all.Go(func() { b.work(i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	for _, s := range b.Servers {
		b.sums[s] = &atomic.Int64{}
		all.Go(func() { b.supervise(s) })
	}
	rounds := 2
	if testkit.Long() {
		rounds = 40
	}
	for round := range rounds {
		b.progress(50)
		s := b.Leader()
		if round%2 == 0 {
			s.Kill()
		} else {
			b.stop(s)
		}
		b.progress(50) // with another leader
		if round%2 == 0 {
			s.Start()
		} else {
			b.resume(s)
		}
		if t.Failed() {
			break
		}
	}
	b.progress(50)
	await.Until(t, "each member has shown its accounts", func() bool {
		for _, n := range b.sums {
			if n.Load() == 0 && !b.over.Load() {
				return false
			}
		}
		return true
	})
	b.over.Store(true)
	all.Wait()
	b.Agree()
	for _, s := range b.Servers {
		b.audit(s)
	}
	t.Logf("%d transfers were acknowledged", b.moved.Load())
}

// progress waits until n more transfers are acknowledged.
func (b *bank) progress(n int64) {
	b.t.Helper()
	n += b.moved.Load()
	await.Until(b.t, "transfers are made", func() bool {
		return b.over.Load() || b.moved.Load() >= n
	})
}

// audit compares the accounts of a member with the ledger.
func (b *bank) audit(s *testkit.Server) {
	b.t.Helper()
	conn := s.Client(2).Conn()
	defer conn.Close()
	if err := conn.ReadOnly(b.ctx).Err(); err != nil {
		b.t.Fatal(err)
	}
	lines, err := conn.LRange(b.ctx, ledger, 0, -1).Result()
	if err != nil {
		b.t.Fatal(err)
	}
	var want [accounts]int
	for i := range want {
		want[i] = opening
	}
	made := map[string]bool{}
	for _, line := range lines {
		var id string
		var from, to, amount int
		if _, err := fmt.Sscan(line, &id, &from, &to, &amount); err != nil || made[id] {
			b.t.Errorf("the ledger has %q, made before: %t, %v", line, made[id], err)
			continue
		}
		made[id] = true
		want[from] -= amount
		want[to] += amount
	}
	for id := range b.mu.acked {
		if !made[id] {
			b.t.Errorf("the transfer %s was acknowledged, and is lost", id)
		}
	}
	for i, n := range want {
		got, err := conn.Get(b.ctx, account(i)).Result()
		if err != nil || got != strconv.Itoa(n) {
			b.t.Errorf("account %d has %q (%v), and the ledger says %d", i, got, err, n)
		}
	}
}
