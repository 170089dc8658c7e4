package restart

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// This file tests that a transaction is either complete or absent after the server was killed. The
// transactions move money between accounts.

const (
	accounts = 40
	// opening is the first balance of each account.
	opening = 1000
	// padding is the number of keys that take memory, so that the accounts' keys leave it.
	padding = 300
	// maxNote is the size of the largest note of a transfer. Its batch then takes many frames of
	// the log, and more than one small segment.
	maxNote = 200_000
)

// TestTransfers kills the server while clients move money between accounts, in transactions of all
// kinds. After each restart a transfer is there either completely or not at all. Every acknowledged
// transfer is there.
func TestTransfers(t *testing.T) {
	seed := testkit.Seed(t)
	for i, run := range runs {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t, rand.New(rand.NewPCG(seed, uint64(i))), crowd(run.name), run.args)
			rounds := max(2, allRounds(t)*run.share/allShares/2)
			for round := 0; round < rounds || b.unused() && round < 10*rounds; round++ {
				// The last rounds take longer, in case something is slow on this machine.
				b.round(round, time.Duration(max(1, 2+round-rounds)))
			}
			b.server.Stop()
			for way, n := range b.done {
				t.Logf("%s: %d transfers", way, n.Load())
				if n.Load() == 0 {
					t.Errorf("nothing was done by %s", way)
				}
			}
		})
	}
}

// unused reports whether a way of transfer has not been used yet. That can happen in a short run.
func (b *bank) unused() bool {
	for _, n := range b.done {
		if n.Load() == 0 {
			return true
		}
	}
	return false
}

// bank is a server with tellers. Each teller has a ledger on database 1: a list to which every
// transfer adds a line. Balances are stored as strings, and again as fields of the hash "balances".
// The note of a teller's last transfer is a string.
type bank struct {
	t       *testing.T
	rng     *rand.Rand
	server  *testkit.Server
	tellers []*teller
	done    map[string]*atomic.Int64 // by way
}

type teller struct {
	b   *bank
	id  int
	rng *rand.Rand
	// acked is the number of acknowledged transfers, which are numbered from 1. One more may have
	// been sent.
	acked   int
	failure error
}

// ways are the ways to make a transfer.
var ways = map[string]func(*teller, *redis.Conn, transfer) error{
	"MULTI": (*teller).byMulti,
	"WATCH": (*teller).byWatch,
	"EVAL":  (*teller).byScript,
	"FCALL": (*teller).byFunction,
	"slow":  (*teller).bySlowScript,
}

// transfer is one line of a ledger.
type transfer struct {
	number, from, to, amount int
	note                     string // its number, again and again
}

func (x transfer) String() string {
	return fmt.Sprintf("%d %d %d %d", x.number, x.from, x.to, x.amount)
}

func newBank(t *testing.T, rng *rand.Rand, tellers int, args []string) *bank {
	b := &bank{t: t, rng: rng, server: testkit.Keyp(t, args...), done: map[string]*atomic.Int64{}}
	for way := range ways {
		b.done[way] = &atomic.Int64{}
	}
	for id := range tellers {
		b.tellers = append(b.tellers,
			&teller{b: b, id: id, rng: rand.New(rand.NewPCG(rng.Uint64(), 0))})
	}
	c := b.server.Client(3)
	defer c.Close()
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range accounts {
			p.Set(ctx, account(i), opening, 0)
			p.HSet(ctx, "balances", account(i), opening)
		}
		p.FunctionLoad(ctx, transferLibrary)
		for i := range padding {
			p.Set(ctx, fmt.Sprint("padding:", i), strings.Repeat("x", 4000), 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func account(i int) string { return fmt.Sprint("account:", i) }

func (w *teller) ledger() string { return fmt.Sprint("ledger:", w.id) }
func (w *teller) note() string   { return fmt.Sprint("note:", w.id) }

// round lets the tellers work until it kills the server, and audits the data after the restart. The
// round takes times as long as usual.
func (b *bank) round(round int, times time.Duration) {
	var all sync.WaitGroup
	for _, w := range b.tellers {
		all.Go(w.work)
	}
	all.Go(b.supervise)
	all.Go(beside(b.rng, b.server))
	await.Pass(times * time.Duration(100+b.rng.IntN(600)) * time.Millisecond)
	b.server.Kill()
	all.Wait()
	for _, w := range b.tellers {
		if w.failure != nil {
			b.t.Fatalf("round %d, teller %d: %v", round, w.id, w.failure)
		}
	}
	startAfterTrouble(b.t, b.rng, b.server)
	b.audit(round)
	if b.t.Failed() {
		b.t.Fatalf("in round %d", round)
	}
}

// supervise adds up the balances until the server has gone. No client may see half a transfer.
func (b *bank) supervise() {
	c := b.server.Client(3)
	defer c.Close()
	names := make([]string, accounts)
	for i := range names {
		names[i] = account(i)
	}
	for {
		balances, err := c.MGet(ctx, names...).Result()
		if err != nil {
			return
		}
		sum := 0
		for _, text := range balances {
			n, err := strconv.Atoi(fmt.Sprint(text))
			if err != nil {
				b.t.Errorf("a balance of %v", text)
			}
			sum += n
		}
		if sum != accounts*opening {
			b.t.Errorf("a client has seen %d in all accounts, not %d", sum, accounts*opening)
			return
		}
	}
}

// work makes transfers until the server has gone. An error reply of the server is a failure.
func (w *teller) work() {
	client := w.b.server.Client(2 + w.rng.IntN(2))
	defer client.Close()
	c := client.Conn()
	defer c.Close()
	names := make([]string, 0, len(ways))
	for way := range ways {
		names = append(names, way)
	}
	for {
		x := w.next()
		way := names[w.rng.IntN(len(names))]
		err := ways[way](w, c, x)
		var refused redis.Error
		switch {
		case errors.As(err, &refused):
			w.failure = fmt.Errorf("%v by %s: %w", x, way, err)
			return
		case err != nil:
			return // the server is gone
		}
		w.acked = x.number
		w.b.done[way].Add(1)
	}
}

func (w *teller) next() transfer {
	x := transfer{number: w.acked + 1, from: w.rng.IntN(accounts), amount: 1 + w.rng.IntN(100)}
	x.to = (x.from + 1 + w.rng.IntN(accounts-1)) % accounts
	size := []int{0, 10, 100, 1000, 10_000, maxNote}[w.rng.IntN(6)]
	if size == maxNote && w.rng.IntN(4) > 0 {
		size = 20
	}
	unit := fmt.Sprint(x.number, ";")
	x.note = strings.Repeat(unit, size/len(unit)+1)
	return x
}

// book queues the commands that all ways have in common.
func (w *teller) book(p redis.Pipeliner, x transfer) {
	p.HIncrBy(ctx, "balances", account(x.from), int64(-x.amount))
	p.HIncrBy(ctx, "balances", account(x.to), int64(x.amount))
	p.Set(ctx, w.note(), x.note, 0)
	p.Do(ctx, "SELECT", 1)
	p.RPush(ctx, w.ledger(), x.String())
	p.Do(ctx, "SELECT", 0)
}

func (w *teller) byMulti(c *redis.Conn, x transfer) error {
	_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.DecrBy(ctx, account(x.from), int64(x.amount))
		p.IncrBy(ctx, account(x.to), int64(x.amount))
		w.book(p, x)
		return nil
	})
	return err
}

// byWatch watches and reads the balances and then writes them. If somebody has changed them
// meanwhile, it starts again.
func (w *teller) byWatch(c *redis.Conn, x transfer) error {
	for {
		if err := c.Do(ctx, "WATCH", account(x.from), account(x.to)).Err(); err != nil {
			return err
		}
		from, err := c.Get(ctx, account(x.from)).Int()
		if err != nil {
			return err
		}
		to, err := c.Get(ctx, account(x.to)).Int()
		if err != nil {
			return err
		}
		_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, account(x.from), from-x.amount, 0)
			p.Set(ctx, account(x.to), to+x.amount, 0)
			w.book(p, x)
			return nil
		})
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
}

// transferBody is the Lua code of a transfer.
const transferBody = `
	local from, to = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
	redis.call('SET', KEYS[1], from - ARGV[1])
	redis.call('INCRBY', KEYS[2], ARGV[1])
	redis.call('HINCRBY', KEYS[3], KEYS[1], -ARGV[1])
	redis.call('HINCRBY', KEYS[3], KEYS[2], ARGV[1])
	redis.call('SET', KEYS[4], ARGV[2])
	redis.call('SELECT', 1)
	redis.call('RPUSH', KEYS[5], ARGV[3])
	redis.call('SELECT', 0)
	return redis.status_reply('DONE')`

var transferScript = redis.NewScript(transferBody)

const transferLibrary = "#!lua name=bank\nredis.register_function('transfer', function(KEYS, ARGV)" + transferBody + "\nend)"

func (w *teller) byScript(c *redis.Conn, x transfer) error {
	keys, args := w.scriptArguments(x)
	return transferScript.Run(ctx, c, keys, args...).Err()
}

func (w *teller) byFunction(c *redis.Conn, x transfer) error {
	keys, args := w.scriptArguments(x)
	return c.FCall(ctx, "transfer", keys, args...).Err()
}

func (w *teller) scriptArguments(x transfer) (keys []string, args []any) {
	return []string{account(x.from), account(x.to), "balances", w.note(), w.ledger()},
		[]any{x.amount, x.note, x.String()}
}

// slowBody takes some milliseconds several times, while the server serves other clients. It uses
// keys that are not declared in KEYS.
const slowBody = `
	local function rest() for i = 1, tonumber(ARGV[9]) do end end
	rest()
	local from = redis.call('GET', ARGV[1])
	rest()
	redis.call('SET', ARGV[1], from - ARGV[6])
	redis.call('INCRBY', ARGV[2], ARGV[6])
	rest()
	redis.call('HINCRBY', ARGV[3], ARGV[1], -ARGV[6])
	redis.call('HINCRBY', ARGV[3], ARGV[2], ARGV[6])
	redis.call('SET', ARGV[4], ARGV[7])
	redis.call('SELECT', 1)
	rest()
	redis.call('RPUSH', ARGV[5], ARGV[8])
	redis.call('SELECT', 0)`

var slowScript = redis.NewScript(slowBody)

func (w *teller) bySlowScript(c *redis.Conn, x transfer) error {
	keys, args := w.scriptArguments(x)
	all := make([]any, 0, len(keys)+len(args)+1)
	for _, k := range keys {
		all = append(all, k)
	}
	all = append(append(all, args...), w.rng.IntN(200_000))
	if err := slowScript.Run(ctx, c, nil, all...).Err(); !errors.Is(err, redis.Nil) {
		return err
	}
	return nil
}

// audit adds up all ledgers and compares the balances and notes with them.
func (b *bank) audit(round int) {
	b.t.Helper()
	var want [accounts]int
	for i := range want {
		want[i] = opening
	}
	c, ledgers := b.server.Client(3), b.server.ClientDB(3, 1)
	defer c.Close()
	defer ledgers.Close()
	for _, w := range b.tellers {
		lines, err := ledgers.LRange(ctx, w.ledger(), 0, -1).Result()
		if err != nil {
			b.t.Fatal(err)
		}
		if len(lines) != w.acked && len(lines) != w.acked+1 {
			b.t.Errorf("round %d: teller %d has %d lines after %d acknowledged transfers", round,
				w.id, len(lines), w.acked)
		}
		for i, line := range lines {
			var x transfer
			if _, err := fmt.Sscan(line, &x.number, &x.from, &x.to, &x.amount); err != nil ||
				x.number != i+1 {
				b.t.Fatalf("round %d: line %d of teller %d is %q", round, i+1, w.id, line)
			}
			want[x.from] -= x.amount
			want[x.to] += x.amount
		}
		w.acked = len(lines)
		note, err := c.Get(ctx, w.note()).Result()
		if err != nil && (!errors.Is(err, redis.Nil) || len(lines) > 0) {
			b.t.Fatal(err)
		}
		if unit := fmt.Sprint(len(lines), ";"); len(lines) > 0 && strings.Trim(
			strings.ReplaceAll(note, unit, ""), " ") != "" || len(lines) > 0 && note == "" {
			b.t.Errorf("round %d: teller %d has %d lines, the note begins %.20q", round, w.id,
				len(lines), note)
		}
	}
	all, err := c.HGetAll(ctx, "balances").Result()
	if err != nil {
		b.t.Fatal(err)
	}
	for i, n := range want {
		text, err := c.Get(ctx, account(i)).Result()
		if err != nil || text != strconv.Itoa(n) || all[account(i)] != text {
			b.t.Errorf("round %d: account %d has %q, %v, and %q in the hash; the ledgers say %d",
				round, i, text, err, all[account(i)], n)
		}
	}
}
