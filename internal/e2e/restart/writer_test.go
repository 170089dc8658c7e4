package restart

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
)

// This file contains the clients that write while the server is killed. Each one records its
// replies, so the test knows which data must still exist.

const (
	databases = 3
	// hour is the distance of far deadlines, in seconds. They do not pass during a test.
	hour = 3600
	// maxValue is the size of the largest value that is set at once. maxLength is the size to which
	// a value may grow.
	maxValue, maxLength = 100_000, 150_000
	// collectionKeys is how many keys each type of collection has in a database.
	collectionKeys = 5
)

// writer sends commands on its own keys, one command or one pipeline at a time.
type writer struct {
	id       int
	rng      *rand.Rand
	state    state // what has been acknowledged
	count    int   // values made
	sent     int   // commands
	answered *atomic.Int64

	// The commands that were sent and not completely answered, in order, and when.
	pending []op
	at      span
	// history has the latest commands on each key, for the message about a wrong key.
	history map[name][]string
	// failure is a reply that differs from the model's.
	failure error
}

// keys returns the names of all keys that the writer may use, in every database. The letters are:
// s: strings, with far deadlines or none; n: numbers, likewise; v: strings with near deadlines,
// which are only overwritten and deleted; c: a counter that only grows; h, l, t, z: hashes, lists,
// sets and sorted sets, where fields of hashes have far deadlines or none; x: hashes whose fields
// have near deadlines.
func (w *writer) keys() []name {
	var names []name
	for db := range databases {
		for i := range 15 {
			names = append(names, w.name(db, "s", i))
		}
		for i := range 5 {
			names = append(names, w.name(db, "n", i), w.name(db, "v", i))
		}
		for i := range collectionKeys {
			for _, kind := range []string{"h", "l", "t", "z", "x"} {
				names = append(names, w.name(db, kind, i))
			}
		}
	}
	return append(names, w.counter())
}

func (w *writer) name(db int, kind string, i int) name {
	// Some keys share a slot, so that the slot gets a page of its own.
	if i < 4 {
		return name{db, fmt.Sprintf("{w%d}:%s:%d", w.id, kind, i)}
	}
	return name{db, fmt.Sprintf("w%d:%s:%d", w.id, kind, i)}
}

func (w *writer) counter() name { return name{0, fmt.Sprintf("w%d:c", w.id)} }

// data returns a new unique value. It is often short and sometimes long.
func (w *writer) data() string {
	w.count++
	unique := fmt.Sprintf("%d.%d;", w.id, w.count)
	sizes := []int{0, 1, 10, 30, 60, 100, 100, 300, 1000, 4000, 5000, 20_000, maxValue}
	size := sizes[w.rng.IntN(len(sizes))]
	if size == maxValue && w.rng.IntN(4) > 0 {
		size = 50
	}
	return strings.Repeat(unique, size/len(unique)+1)[:size]
}

// ttl draws a far deadline and near a near one, for volatile keys, in milliseconds.
func (w *writer) ttl() int64  { return hour*1000 + w.rng.Int64N(hour*1000) }
func (w *writer) near() int64 { return 1 + w.rng.Int64N(400) }

// next draws a command for a database.
func (w *writer) next(db int) op {
	s, t := w.name(db, "s", w.rng.IntN(15)), w.name(db, "s", w.rng.IntN(15))
	n, v := w.name(db, "n", w.rng.IntN(5)), w.name(db, "v", w.rng.IntN(5))
	other := w.rng.IntN(databases)
	switch w.rng.IntN(28) {
	case 0, 1, 2:
		return set(s, w.data())
	case 3, 4:
		return setPX(s, w.data(), w.ttl())
	case 5:
		return setEX(s, w.data(), w.ttl()/1000)
	case 6:
		return setKeepTTL(s, w.data())
	case 7:
		return setIf(s, w.data(), []string{"NX", "XX"}[w.rng.IntN(2)])
	case 8:
		return getSet(s, w.data())
	case 9:
		return getDel(s)
	case 10, 11:
		if len(w.state[s].data) > maxLength {
			return set(s, "")
		}
		return appendTo(s, w.data())
	case 12:
		if len(w.state[s].data) > maxLength {
			return set(s, "")
		}
		return setRange(s, w.rng.IntN(6000), w.data())
	case 13:
		return incrBy(n, w.rng.Int64N(2000)-1000)
	case 14:
		return setPX(n, fmt.Sprint(w.rng.Int64N(1e6)), w.ttl())
	case 15:
		return expire([]name{s, n}[w.rng.IntN(2)], w.ttl()/1000)
	case 16:
		return pexpireAt(s, time.Now().UnixMilli()+w.ttl())
	case 17:
		return persist([]name{s, n}[w.rng.IntN(2)])
	case 18:
		if s == t {
			return del(s)
		}
		return del(s, t, n)
	case 19:
		return mset(w.data(), s, t)
	case 20:
		return rename(s, t)
	case 21:
		if target := (name{other, t.key}); target != s {
			return copyTo(s, target)
		}
		return get(s)
	case 22:
		if other != db {
			return move(s, other)
		}
		return get(n)
	case 23, 24:
		return setPX(v, w.data(), w.near())
	case 25:
		return setPXAT(v, w.data(), time.Now().UnixMilli()+w.near()-50)
	case 26:
		return unknownReply(del(v))
	default:
		return get(s)
	}
}

func now() int64 { return time.Now().UnixMilli() }

// run sends commands until the server has gone or a reply is wrong.
func (w *writer) run(server *testkit.Server) {
	var clients [databases]*redis.Client
	for db := range clients {
		clients[db] = server.ClientDB(2+w.id%2, db)
		defer clients[db].Close()
	}
	for w.pending = nil; w.failure == nil && w.pending == nil; {
		db := w.rng.IntN(databases)
		var ops []op
		for range 1 + max(0, w.rng.IntN(12)-6) {
			if w.rng.IntN(3) == 0 {
				ops = append(ops, w.collection(db))
			} else {
				ops = append(ops, w.next(db))
			}
		}
		if db == 0 {
			ops = append(ops, incrBy(w.counter(), 1))
		}
		w.send(clients[db], ops)
		w.sent += len(ops)
	}
}

// send sends commands in one pipeline and applies the replies to the state.
func (w *writer) send(client *redis.Client, ops []op) {
	ctx := context.Background()
	pipe := client.Pipeline()
	for _, o := range ops {
		pipe.Do(ctx, o.args...)
	}
	w.at.from = time.Now().UnixMilli()
	replies, _ := pipe.Exec(ctx) // each reply has its own error
	w.at.to = time.Now().UnixMilli()
	for i, reply := range replies {
		got, answered := answer(reply.(*redis.Cmd))
		if !answered {
			w.pending = ops[i:]
			return
		}
		w.answered.Add(1)
		w.note(ops[i])
		want := ops[i].apply(w.state, w.at)
		if _, any := want.(whatever); !any && got != want {
			w.failure = fmt.Errorf("%.200q: reply %.200v, want %.200v", ops[i].args, got, want)
			return
		}
	}
}

// note adds a command to the history of its keys.
func (w *writer) note(o op) {
	const kept = 12
	text := fmt.Sprintf("%s db %d %.60q", time.Now().Format("15:04:05.000"),
		o.touched[0].db, o.args)
	for _, n := range o.touched {
		h := append(w.history[n], text)
		w.history[n] = h[max(0, len(h)-kept):]
	}
}

// answer returns a reply in the form of the model: an int64, a string, nil, or an error's text.
// answered is false if there was no reply.
func answer(cmd *redis.Cmd) (reply any, answered bool) {
	reply, err := cmd.Result()
	var text redis.Error
	switch {
	case errors.Is(err, redis.Nil):
		return nil, true
	case errors.As(err, &text):
		return text.Error(), true
	default:
		return reply, err == nil
	}
}
