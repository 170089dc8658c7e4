package linear

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

var ctx = context.Background()

const (
	// groups are enough that few operations of one are under way when the server is killed:
	// the search tries those in all orders, done or not.
	groups  = 5
	clients = 16
)

// recorder has the history of all clients. Its clock is the test's monotonic one.
type recorder struct {
	mu      sync.Mutex
	history []porcupine.Operation
	began   time.Time
}

func (r *recorder) add(client int, c call, o outcome, from, to time.Time) {
	c.from, c.to = from.UnixMilli(), to.UnixMilli()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{
		ClientId: client, Input: c, Output: o, Call: from.Sub(r.began).Nanoseconds(), Return: to.Sub(r.began).Nanoseconds(),
	})
}

// client sends one operation after the other.
type client struct {
	id     int
	rng    *rand.Rand
	rec    *recorder
	prefix string // of its history's keys
	sent   int
	// lost is the operation that was under way when the server was killed, since.
	lost  *call
	since time.Time
}

// work sends operations until the server is gone.
func (c *client) work(server *testkit.Server) {
	pool := server.Client(2 + c.id%2)
	defer pool.Close()
	conn := pool.Conn()
	defer conn.Close()
	if conn.Ping(ctx).Err() != nil {
		return // before anything was sent
	}
	for {
		op := c.draw()
		from := time.Now()
		o := c.send(conn, op)
		to := time.Now()
		c.sent++
		if o.lost {
			c.lost, c.since = &op, from
			return
		}
		c.rec.add(c.id, op, o, from, to)
		await.Pass(time.Duration(c.rng.IntN(3000)) * time.Microsecond)
	}
}

// ended reports to the history the operation that was under way when the server ended. One
// that was sent after that has reached nobody, and what only reads shows nothing.
func (c *client) ended(at time.Time) {
	if c.lost != nil && c.since.Before(at) && c.lost.writes() {
		c.rec.add(c.id, *c.lost, outcome{lost: true}, c.since, at)
	}
	c.lost = nil
}

// writes says whether an operation may change something.
func (c call) writes() bool {
	return slices.ContainsFunc(c.commands, func(cmd command) bool { return cmd.verb != "GET" && cmd.verb != "PEXPIRETIME" })
}

func (c *client) draw() call {
	op := call{group: c.rng.IntN(groups)}
	n := 1
	if c.rng.IntN(3) == 0 {
		n = 2 + c.rng.IntN(4)
		op.way = []string{"EXEC", "EXEC", "EVAL"}[c.rng.IntN(3)]
	}
	for i := range n {
		op.commands = append(op.commands, c.drawCommand(i))
	}
	return op
}

// drawCommand draws the i-th command of an operation. Values tell who wrote them.
func (c *client) drawCommand(i int) command {
	cmd := command{key: c.rng.IntN(groupKeys)}
	value := fmt.Sprintf("c%d.%d.%d", c.id, c.sent, i)
	if c.rng.IntN(3) == 0 {
		value = strconv.Itoa((c.id+1)*1_000_000 + c.sent*1000)
	}
	near := 1 + c.rng.Int64N(300)
	switch c.rng.IntN(16) {
	case 0, 1, 2, 3:
		cmd.verb = "GET"
	case 4, 5:
		cmd.verb, cmd.data = "SET", value
	case 6:
		cmd.verb, cmd.data, cmd.ttl = "SET", value, near
	case 7:
		cmd.verb, cmd.data = "SETNX", value
	case 8, 9, 10:
		cmd.verb = "INCR"
	case 11:
		cmd.verb = "DEL"
	case 12:
		cmd.verb, cmd.ttl = "PEXPIRE", near
	case 13:
		cmd.verb, cmd.ttl = "PEXPIRE", []int64{0, 1000, 3_600_000}[c.rng.IntN(3)]
	case 14:
		cmd.verb = "PERSIST"
	default:
		cmd.verb = "PEXPIRETIME"
	}
	return cmd
}

// words are a command as it is sent. The keys of a group are in different slots. EXPIRE is
// PEXPIRE in seconds.
func (c *client) words(group int, cmd command) (words []any) {
	words = []any{cmd.verb, fmt.Sprintf("%sg%d:k%d", c.prefix, group, cmd.key)}
	switch {
	case cmd.verb == "PEXPIRE" && cmd.ttl%1000 == 0:
		words[0] = "EXPIRE"
		words = append(words, fmt.Sprint(cmd.ttl/1000))
	case cmd.verb == "PEXPIRE":
		words = append(words, fmt.Sprint(cmd.ttl))
	case cmd.verb == "SET" && cmd.ttl != 0:
		words = append(words, cmd.data, "PX", fmt.Sprint(cmd.ttl))
	case cmd.data != "":
		words = append(words, cmd.data)
	}
	return words
}

func (c *client) send(conn *redis.Conn, op call) outcome {
	switch op.way {
	case "EXEC":
		cmds, _ := conn.TxPipelined(ctx, func(p redis.Pipeliner) error { // each reply has its own error
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

// gather makes an outcome of replies: either all are there, or it is lost.
func gather(cmds []redis.Cmder) (o outcome) {
	for _, cmd := range cmds {
		reply, err := cmd.(*redis.Cmd).Result()
		var refused redis.Error
		switch {
		case errors.Is(err, redis.Nil):
			reply = nil
		case errors.As(err, &refused):
			reply = refused.Error()
		case err != nil:
			return outcome{lost: true}
		}
		o.replies = append(o.replies, reply)
	}
	return o
}

const runAll = `
	local replies = {}
	for i, words in ipairs(ARGV) do replies[i] = redis.pcall(unpack(cjson.decode(words))) end
	return replies`

func (c *client) eval(conn *redis.Conn, op call) outcome {
	args := []any{"EVAL", runAll, groupKeys}
	for key := range groupKeys {
		args = append(args, c.words(op.group, command{verb: "GET", key: key})[1])
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
			replies[i] = err.Error()
		}
	}
	return outcome{replies: replies}
}

// fail makes an error that no command of the model replies the reply of all.
func (o outcome) fail(err error) outcome {
	for i := range o.replies {
		o.replies[i] = err.Error()
	}
	return o
}
