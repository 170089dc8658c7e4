package restart

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// In the model a collection's data is JSON: a map of fields, a slice of elements, or a map of
// members or scores. JSON sorts maps, so equal collections have equal texts. An empty collection
// does not exist as a key.

// field is a field of a hash. Its deadline is in Unix ms, 0 if it has none.
type field struct {
	Value    string
	Deadline int64
}

type (
	fields  map[string]field
	members map[string]bool
	scores  map[string]int64
)

// fieldNames are all fields that hashes can have, so that a check can ask for the deadline of each.
var fieldNames = []string{"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"}

// kind returns the letter in a key's name that stands for the types it may hold: see writer.keys.
func (n name) kind() string { return strings.Split(n.key, ":")[1] }

// load returns a collection of the model, empty if it does not exist.
func load[T any](s state, n name) (v T) {
	if e, ok := s[n]; ok {
		if err := json.Unmarshal([]byte(e.data), &v); err != nil {
			panic(err) // the model wrote it
		}
	}
	return v
}

// save stores a collection in the model. The key keeps its deadline.
func save(s state, n name, v any, length int) {
	e := s[n]
	e.data = text(v)
	s.put(n, e, length > 0)
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// changeMap returns a command that changes a collection with names. change makes the change in the
// model and returns the reply.
func changeMap[T ~map[string]V, V any](n name, change func(v T) any, args ...any) op {
	return op{args, []name{n}, func(s state, _ span) any {
		v := load[T](s, n)
		if v == nil {
			v = T{}
		}
		reply := change(v)
		save(s, n, v, len(v))
		return reply
	}}
}

func changeList(n name, change func(v []string) ([]string, any), args ...any) op {
	return op{args, []name{n}, func(s state, _ span) any {
		v, reply := change(load[[]string](s, n))
		save(s, n, v, len(v))
		return reply
	}}
}

func hset(n name, value string, names ...string) op {
	args := []any{"HSET", n.key}
	for _, f := range names {
		args = append(args, f, value)
	}
	return changeMap(n, func(v fields) any {
		before := len(v)
		for _, f := range names {
			v[f] = field{Value: value}
		}
		return int64(len(v) - before)
	}, args...)
}

func hdel(n name, names ...string) op {
	args := []any{"HDEL", n.key}
	for _, f := range names {
		args = append(args, f)
	}
	return changeMap(n, func(v fields) any {
		before := len(v)
		for _, f := range names {
			delete(v, f)
		}
		return int64(before - len(v))
	}, args...)
}

// hpexpireAt sets the deadline of a field to a time far after the test, or removes it if deadline
// is 0.
func hpexpireAt(n name, f string, deadline int64) op {
	args := []any{"HPEXPIREAT", n.key, deadline, "FIELDS", 1, f}
	if deadline == 0 {
		args = []any{"HPERSIST", n.key, "FIELDS", 1, f}
	}
	return unknownReply(changeMap(n, func(v fields) any {
		if old, ok := v[f]; ok {
			v[f] = field{old.Value, deadline}
		}
		return nil
	}, args...))
}

// hsetex sets a field with a deadline that may be near or past.
func hsetex(n name, f, value string, deadline int64) op {
	return unknownReply(changeMap(n, func(v fields) any {
		v[f] = field{value, deadline}
		return nil
	}, "HSETEX", n.key, "PXAT", deadline, "FIELDS", 1, f, value))
}

func push(n name, left bool, values ...string) op {
	args := []any{map[bool]string{true: "LPUSH", false: "RPUSH"}[left], n.key}
	for _, value := range values {
		args = append(args, value)
	}
	return changeList(n, func(v []string) ([]string, any) {
		for _, value := range values {
			if left {
				v = slices.Insert(v, 0, value)
			} else {
				v = append(v, value)
			}
		}
		return v, int64(len(v))
	}, args...)
}

func lpop(n name) op {
	return changeList(n, func(v []string) ([]string, any) {
		if len(v) == 0 {
			return nil, nil
		}
		return v[1:], v[0]
	}, "LPOP", n.key)
}

func lset(n name, index int, value string) op {
	return changeList(n, func(v []string) ([]string, any) {
		switch {
		case len(v) == 0:
			return v, "ERR no such key"
		case index >= len(v):
			return v, "ERR index out of range"
		}
		v[index] = value
		return v, "OK"
	}, "LSET", n.key, index, value)
}

// linsert puts an element before the first that is equal to pivot.
func linsert(n name, pivot, value string) op {
	return changeList(n, func(v []string) ([]string, any) {
		at := slices.Index(v, pivot)
		switch {
		case len(v) == 0:
			return v, int64(0)
		case at < 0:
			return v, int64(-1)
		}
		v = slices.Insert(v, at, value)
		return v, int64(len(v))
	}, "LINSERT", n.key, "BEFORE", pivot, value)
}

func ltrim(n name, from, to int) op {
	return changeList(n, func(v []string) ([]string, any) {
		return v[min(from, len(v)):max(min(to+1, len(v)), min(from, len(v)))], "OK"
	}, "LTRIM", n.key, from, to)
}

func sadd(n name, names ...string) op {
	args := []any{"SADD", n.key}
	for _, m := range names {
		args = append(args, m)
	}
	return changeMap(n, func(v members) any {
		before := len(v)
		for _, m := range names {
			v[m] = true
		}
		return int64(len(v) - before)
	}, args...)
}

func srem(n name, m string) op {
	return changeMap(n, func(v members) any {
		before := len(v)
		delete(v, m)
		return int64(before - len(v))
	}, "SREM", n.key, m)
}

// sunionStore stores the union of two sets at to.
func sunionStore(to, a, b name) op {
	return op{[]any{"SUNIONSTORE", to.key, a.key, b.key}, []name{to, a, b},
		func(s state, _ span) any {
			v := members{}
			for _, from := range []name{a, b} {
				for m := range load[members](s, from) {
					v[m] = true
				}
			}
			delete(s, to)
			save(s, to, v, len(v))
			return int64(len(v))
		}}
}

func zadd(n name, m string, score int64) op {
	return changeMap(n, func(v scores) any {
		before := len(v)
		v[m] = score
		return int64(len(v) - before)
	}, "ZADD", n.key, score, m)
}

func zincrby(n name, m string, by int64) op {
	return unknownReply(changeMap(n, func(v scores) any {
		v[m] += by
		return nil
	}, "ZINCRBY", n.key, by, m))
}

func zrem(n name, m string) op {
	return changeMap(n, func(v scores) any {
		before := len(v)
		delete(v, m)
		return int64(before - len(v))
	}, "ZREM", n.key, m)
}

func zremBelow(n name, score int64) op {
	return changeMap(n, func(v scores) any {
		before := len(v)
		for m, at := range v {
			if at < score {
				delete(v, m)
			}
		}
		return int64(before - len(v))
	}, "ZREMRANGEBYSCORE", n.key, "-inf", fmt.Sprintf("(%d", score))
}

// collection draws a command on collections for a database.
func (w *writer) collection(db int) op {
	kind := []string{"h", "h", "l", "l", "t", "z", "x"}[w.rng.IntN(7)]
	n, other := w.name(db, kind, w.rng.IntN(collectionKeys)),
		w.name(db, kind, w.rng.IntN(collectionKeys))
	if kind != "x" {
		switch w.rng.IntN(20) {
		case 0:
			return rename(n, other)
		case 1:
			if target := (name{w.rng.IntN(databases), other.key}); target != n {
				return copyTo(n, target)
			}
		case 2:
			if to := w.rng.IntN(databases); to != db {
				return move(n, to)
			}
		case 3:
			return del(n)
		case 4:
			return expire(n, w.ttl()/1000)
		case 5:
			return persist(n)
		}
	}
	f, m := fieldNames[w.rng.IntN(len(fieldNames))], fmt.Sprint("m", w.rng.IntN(300))
	value := w.data()
	value = value[:min(len(value), 4000)]
	switch kind {
	case "h":
		return w.hash(n, f, value)
	case "l":
		return w.list(n, value)
	case "t":
		switch w.rng.IntN(4) {
		case 0:
			return srem(n, m)
		case 1:
			return sunionStore(n, other, w.name(db, kind, w.rng.IntN(collectionKeys)))
		}
		return sadd(n, m, fmt.Sprint(w.rng.IntN(50)), m+"b")
	case "z":
		switch w.rng.IntN(6) {
		case 0:
			return zrem(n, m)
		case 1:
			return zincrby(n, m, w.rng.Int64N(20)-10)
		case 2:
			return zremBelow(n, w.rng.Int64N(60)-50)
		}
		return zadd(n, m, w.rng.Int64N(100)-50)
	}
	return hsetex(n, f, value, now()+w.near()-20)
}

func (w *writer) hash(n name, f, value string) op {
	switch w.rng.IntN(7) {
	case 0:
		return hdel(n, f, fieldNames[w.rng.IntN(len(fieldNames))])
	case 1, 2:
		return hpexpireAt(n, f, now()+w.ttl())
	case 3:
		return hpexpireAt(n, f, 0)
	}
	return hset(n, value, f, fieldNames[w.rng.IntN(len(fieldNames))])
}

func (w *writer) list(n name, value string) op {
	length := len(load[[]string](w.state, n))
	switch w.rng.IntN(8) {
	case 0:
		return lpop(n)
	case 1:
		return lset(n, w.rng.IntN(20), value)
	case 2:
		return linsert(n, "pivot", value)
	case 3:
		return ltrim(n, w.rng.IntN(3), max(length-w.rng.IntN(3), 0))
	case 4:
		return push(n, false, "pivot", value)
	}
	if length > 60 {
		return ltrim(n, 30, 45)
	}
	return push(n, w.rng.IntN(2) == 0, value, "second")
}

// askData adds a request for a key's data to a pipeline. After the pipeline has run, the returned
// function gives the data in the form of the model.
func askData(pipe redis.Pipeliner, n name) func() (data string, ok bool, err error) {
	switch n.kind() {
	case "h", "x":
		values, deadlines := pipe.HMGet(ctx, n.key, fieldNames...),
			pipe.HPExpireTime(ctx, n.key, fieldNames...)
		return func() (string, bool, error) {
			v := fields{}
			at := deadlines.Val() // of a missing key some versions say nothing
			for i, value := range values.Val() {
				if value != nil && i < len(at) && at[i] != -2 {
					// One that ends between the two is gone.
					v[fieldNames[i]] = field{value.(string), max(at[i], 0)}
				}
			}
			return text(v), len(v) > 0, errors.Join(values.Err(), deadlines.Err())
		}
	case "l":
		c := pipe.LRange(ctx, n.key, 0, -1)
		return func() (string, bool, error) { return text(c.Val()), len(c.Val()) > 0, c.Err() }
	case "t":
		c := pipe.SMembers(ctx, n.key)
		return func() (string, bool, error) {
			v := members{}
			for _, m := range c.Val() {
				v[m] = true
			}
			return text(v), len(v) > 0, c.Err()
		}
	case "z":
		c := pipe.ZRangeWithScores(ctx, n.key, 0, -1)
		return func() (string, bool, error) {
			v := scores{}
			for _, z := range c.Val() {
				v[z.Member.(string)] = int64(z.Score)
			}
			return text(v), len(v) > 0, c.Err()
		}
	}
	c := pipe.Get(ctx, n.key)
	return func() (string, bool, error) {
		if errors.Is(c.Err(), redis.Nil) {
			return "", false, nil
		}
		return c.Val(), true, c.Err()
	}
}

// matchesFields is like state.matches, for a hash whose fields may expire at any moment.
func (s state) matchesFields(n name, k seen, at span) bool {
	var shown fields
	if k.there {
		shown = load[fields](state{n: {data: k.data}}, n)
	}
	have := load[fields](s, n)
	for f, is := range shown {
		if was, ok := have[f]; !ok || was != is || is.Deadline <= at.from {
			return false
		}
	}
	for f, was := range have {
		if _, ok := shown[f]; !ok && was.Deadline > at.to {
			return false
		}
	}
	return true
}
