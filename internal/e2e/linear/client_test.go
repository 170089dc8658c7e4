package linear

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// This file contains the clients of the tests. They send random operations to a server, and record
// each operation with its reply and its time.

var ctx = context.Background()

const (
	// Keys are divided into groups. When a server is killed, some operations get no reply. The
	// search tries all orders of these operations within a group, so a group must have few.
	groups  = 5
	clients = 16
)

// recorder records the history of all clients. Its clock is the test's monotonic one.
type recorder struct {
	mu      sync.Mutex
	history []porcupine.Operation
	began   time.Time
	regimes clock // of the servers' clock; none: it is the machine's
}

func (r *recorder) add(client int, c call, o outcome, from, to time.Time) {
	c.from, c.to = from.UnixMilli(), to.UnixMilli()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{
		ClientId: client, Input: c, Output: o, Call: from.Sub(r.began).Nanoseconds(),
		Return: to.Sub(r.began).Nanoseconds(),
	})
}

// size returns the number of completed operations.
func (r *recorder) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.history)
}

// workload decides what a client sends.
type workload interface {
	// draw returns the i-th command of a client's next operation. The operation is a single
	// command, or a transaction or script of several (way). Each value contains the number of the
	// client that wrote it.
	draw(c *client, group int, way string, i int) command
	// words returns a command as it is sent.
	words(group int, cmd command) []any
	// read converts a reply that is no error to the form that the model compares.
	read(group int, cmd command, reply any) any
	// first returns commands that prepare each group, if necessary. last returns commands that read
	// all its data.
	first() []command
	last() []command
}

// client sends one operation after the other.
type client struct {
	workload
	id   int
	rng  *rand.Rand
	rec  *recorder
	sent int
	// inCluster is true if the keys of a transaction or script must be in one slot.
	inCluster bool
	// lost is the operation that was running when the server was killed, and since the time of its
	// start.
	lost  *call
	since time.Time
}

// work sends operations until the server is down.
func (c *client) work(server *testkit.Server) {
	pool := server.Client(2 + c.id%2)
	defer pool.Close()
	conn := pool.Conn()
	defer conn.Close()
	if conn.Ping(ctx).Err() != nil {
		return // before anything was sent
	}
	for {
		op := c.next()
		from := time.Now()
		o := c.send(conn, op)
		to := time.Now()
		c.sent++
		if o.lost {
			c.lost, c.since = &op, from
			return
		}
		c.rec.add(c.id, op, o, from.Add(min(op.waited(o), to.Sub(from))), to)
		await.Pass(time.Duration(c.rng.IntN(3000)) * time.Microsecond)
	}
}

// ended adds the operation that was running when the server exited to the history. It leaves out an
// operation that was sent later, which cannot have arrived, and one that only reads.
func (c *client) ended(at time.Time) {
	if c.lost != nil && c.since.Before(at) && c.writes(*c.lost) {
		c.rec.add(c.id, *c.lost, outcome{lost: true}, c.since, at)
	}
	c.lost = nil
}

// next draws an operation.
func (c *client) next() call {
	op := call{group: c.rng.IntN(groups)}
	n := 1
	if c.rng.IntN(3) == 0 && (!c.inCluster || oneSlot(op.group)) {
		n = 2 + c.rng.IntN(4)
		op.way = []string{"EXEC", "EXEC", "EVAL"}[c.rng.IntN(3)]
	}
	for i := range n {
		op.commands = append(op.commands, c.draw(c, op.group, op.way, i))
	}
	return op
}

// reading has the commands that change nothing.
var reading = []string{"GET", "PEXPIRETIME", "XRANGE", "XLEN", "XREAD", "XPENDING", "XINFO GROUPS",
	"CHECK", "RANGE", "LEN", "HGETALL", "LRANGE", "SMEMBERS", "SCARD", "ZRANGE"}

// writes returns true if an operation may change something. Under rules a read may move a deadline.
func (c *client) writes(op call) bool {
	_, rules := c.workload.(ruled)
	return rules || slices.ContainsFunc(op.commands, func(cmd command) bool {
		return !slices.Contains(reading, cmd.verb)
	})
}

func (c *client) send(conn *redis.Conn, op call) outcome {
	o := c.exchange(conn, op)
	for i, reply := range o.replies {
		if _, refused := reply.(refusal); !refused {
			o.replies[i] = c.read(op.group, op.commands[i], reply)
		}
	}
	return o
}

func (c *client) exchange(conn *redis.Conn, op call) outcome {
	switch op.way {
	case "EXEC":
		cmds, _ := conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
			// Each reply has its own error.
			for _, cmd := range op.commands {
				p.Do(ctx, c.words(op.group, cmd)...)
			}
			return nil
		})
		return gather(cmds)
	case "EVAL":
		return c.eval(conn, op)
	}
	return gather([]redis.Cmder{conn.Do(ctx, c.words(op.group, op.commands[0])...)})
}

// gather makes an outcome of replies. If any of them is missing, the operation is lost.
func gather(cmds []redis.Cmder) (o outcome) {
	for _, cmd := range cmds {
		reply, err := cmd.(*redis.Cmd).Result()
		var refused redis.Error
		switch {
		case errors.Is(err, redis.Nil):
			reply = nil
		case errors.As(err, &refused):
			reply = refusal(refused.Error())
		case err != nil:
			return outcome{lost: true}
		}
		o.replies = append(o.replies, reply)
	}
	return o
}

// keyName returns the name of a key of a group.
func keyName(group, key int) string {
	if oneSlot(group) {
		return fmt.Sprintf("{g%d}:k%d", group, key)
	}
	return fmt.Sprintf("g%d:k%d", group, key)
}

// oneSlot returns true if the keys of a group are in one slot.
func oneSlot(group int) bool { return group%2 == 1 }

const runAll = `
	local replies = {}
	for i, words in ipairs(ARGV) do replies[i] = redis.pcall(unpack(cjson.decode(words))) end
	return replies`

func (c *client) eval(conn *redis.Conn, op call) outcome {
	args := []any{"EVAL", runAll, groupKeys}
	for key := range groupKeys {
		args = append(args, keyName(op.group, key))
	}
	for _, cmd := range op.commands {
		words, err := json.Marshal(c.words(op.group, cmd))
		if err != nil {
			panic(err) // they are texts
		}
		args = append(args, string(words))
	}
	replies, err := conn.Do(ctx, args...).Slice()
	var refused redis.Error
	switch {
	case errors.As(err, &refused):
		return outcome{replies: make([]any, len(op.commands))}.fail(refused)
	case err != nil:
		return outcome{lost: true}
	}
	for i, reply := range replies {
		if err, ok := reply.(error); ok {
			replies[i] = refusal(err.Error())
		}
	}
	return outcome{replies: replies}
}

// fail sets all replies to an error that no command of the model returns.
func (o outcome) fail(err error) outcome {
	for i := range o.replies {
		o.replies[i] = refusal(err.Error())
	}
	return o
}
