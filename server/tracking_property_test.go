package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestCacheIsNeverStale: clients cache the values that they read, by any command. Meanwhile other
// clients change the keys by any command, keys expire, or everything is flushed. When a client has
// read all available data from its socket, its cache is never older than the changes that the
// server had acknowledged before.
//
// Each state of a key has a rank: 2v for version v, and 2v+1 for the key's absence after version v.
func TestCacheIsNeverStale(t *testing.T) {
	ts := start(t)
	truth := &truth{started: map[string]int{}, acked: map[string]int{},
		turn: map[string]*sync.Mutex{}}
	for i := range 12 {
		key := fmt.Sprint("k", i)
		truth.keys = append(truth.keys, key)
		truth.turn[key] = &sync.Mutex{}
	}
	var stop atomic.Bool
	var writers, readers sync.WaitGroup
	for i := range 4 {
		w := &cacheWriter{newCacheConn(ts.dial(), uint64(i)), truth, fmt.Sprint("spare", i)}
		writers.Go(func() {
			for !stop.Load() && w.err == nil {
				w.step()
			}
			if w.err != nil {
				t.Errorf("writer %d: %v", i, w.err)
			}
		})
	}
	for i, options := range []string{"", "", "NOLOOP", "OPTIN", "OPTOUT", "BCAST", "BCAST PREFIX k",
		"BCAST PREFIX k NOLOOP"} {
		r := &cacheReader{cacheConn: newCacheConn(ts.tracks(options), uint64(100+i)), truth: truth,
			optIn: options == "OPTIN", cache: map[string]int{}}
		readers.Go(func() {
			for range 300 {
				r.step()
			}
			if r.err != nil {
				t.Errorf("the client with %q: %v", options, r.err)
			}
		})
	}
	readers.Wait()
	stop.Store(true)
	writers.Wait()
}

// truth is the state of the keys that writers know.
type truth struct {
	keys []string
	turn map[string]*sync.Mutex // of who writes the key

	mu             sync.Mutex
	started, acked map[string]int // ranks that the key may have, and that it has at least
}

func (o *truth) start(keys []string) (versions []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range keys {
		v := o.started[key]/2 + 1
		o.started[key] = 2*v + 1
		versions = append(versions, strconv.Itoa(v))
	}
	return versions
}

// ack notes that the last version of the keys is in place, or that the keys are gone.
func (o *truth) ack(keys []string, gone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range keys {
		o.acked[key] = o.started[key]
		if !gone {
			o.acked[key]--
		}
	}
}

// cacheConn is a connection whose first error ends the test.
type cacheConn struct {
	*client
	*rand.Rand
	err error
	// pushed takes the messages that answer no command.
	pushed func(string)
}

func newCacheConn(c *client, seed uint64) *cacheConn {
	return &cacheConn{client: c, Rand: rand.New(rand.NewPCG(seed, 0))}
}

// ask sends commands together and returns the last one's reply.
func (c *cacheConn) ask(commands ...string) (reply string) {
	if c.err != nil {
		return ""
	}
	if _, c.err = c.Write([]byte(strings.Join(commands, "\r\n") + "\r\n")); c.err != nil {
		return ""
	}
	for n := 0; n < len(commands) && c.err == nil; {
		if reply, c.err = readReply(c.r); strings.HasPrefix(reply, ">") {
			c.pushed(reply)
			continue
		}
		n++
		if strings.HasPrefix(reply, "-") {
			c.err = fmt.Errorf("%q replies %s", commands, reply)
		}
	}
	return reply
}

// some draws different keys and keeps their order.
func (c *cacheConn) some(keys []string, most int) []string {
	drawn := []string{}
	for range 1 + c.IntN(most) {
		drawn = append(drawn, keys[c.IntN(len(keys))])
	}
	slices.Sort(drawn)
	return slices.Compact(drawn)
}

// cacheWriter changes keys.
type cacheWriter struct {
	*cacheConn
	*truth
	spare string // a key of its own
}

// step changes some keys. A key that is gone has the rank that follows its last version.
func (w *cacheWriter) step() {
	keys := w.some(w.keys, 3)
	if w.IntN(200) == 0 {
		keys = slices.Sorted(slices.Values(w.keys)) // FLUSHALL
	}
	for _, key := range keys {
		w.turn[key].Lock()
		defer w.turn[key].Unlock()
	}
	how := w.IntN(10)
	if len(keys) == len(w.keys) {
		how = -1
	}
	if how <= 0 {
		w.ask(map[int]string{0: "DEL " + strings.Join(keys, " "), -1: "FLUSHALL"}[how])
		if w.err == nil {
			w.ack(keys, true)
		}
		return
	}
	versions := w.start(keys)
	pairs := make([]string, len(keys))
	for i := range keys {
		pairs[i] = keys[i] + " " + versions[i]
	}
	gone := false
	switch how {
	case 1:
		w.ask("MULTI", "MSET "+strings.Join(pairs, " "), "SET "+pairs[0], "EXEC")
	case 2:
		w.ask("MULTI", "SCAN 0", "MSET "+strings.Join(pairs, " "), "EXEC") // beside the loop
	case 3:
		w.ask(fmt.Sprintf(
			`EVAL "for i = 1, #KEYS do redis.call('set', KEYS[i], ARGV[i]) end" %d %s %s`,
			len(keys), strings.Join(keys, " "), strings.Join(versions, " ")))
	case 4:
		w.ask("SET "+w.spare+" "+versions[0], "RENAME "+w.spare+" "+keys[0])
		for i, pair := range pairs {
			if i > 0 {
				w.ask("SET " + pair)
			}
		}
	case 5:
		for _, pair := range pairs {
			w.ask("SET " + pair + " PX 2")
		}
		for _, key := range keys { // until they are gone
			for w.ask("GET "+key) != "$-1" && w.err == nil {
				continue
			}
		}
		gone = true
	case 6:
		for _, pair := range pairs {
			w.ask("SET " + pair)
		}
		for _, key := range keys {
			w.ask("PEXPIRE " + key + " 2")
		}
		for w.ask("EXISTS "+strings.Join(keys, " ")) != ":0" && w.err == nil {
			continue
		}
		gone = true
	default:
		w.ask("MSET " + strings.Join(pairs, " "))
	}
	if w.err == nil {
		w.ack(keys, gone)
	}
}

// cacheReader reads keys, and caches their ranks.
type cacheReader struct {
	*cacheConn
	*truth
	optIn bool
	cache map[string]int
}

func (r *cacheReader) step() {
	r.pushed = r.drop
	keys := r.some(r.keys, 4)
	list := strings.Join(keys, " ")
	before := []string{}
	if r.optIn {
		before = append(before, "CLIENT CACHING YES")
	}
	var reply string
	switch r.IntN(6) {
	case 0:
		reply = r.ask(append(before, "MULTI", "MGET "+list, "EXEC")...)
	case 1:
		reply = r.ask(append(before, "MULTI", "DBSIZE", "SCAN 0", "MGET "+list, "EXEC")...)
		reply = reply[max(0, strings.LastIndex(reply, "*")):]
	case 2:
		reply = r.ask(append(before,
			fmt.Sprintf(`EVAL "return redis.call('mget', unpack(KEYS))" %d %s`,
				len(keys), list))...)
	case 3:
		reply = r.ask(append(before,
			fmt.Sprintf(`EVAL_RO "local all = {} for i, key in ipairs(KEYS) do all[i] = redis.call('get', key) end return all" %d %s`,
				len(keys), list))...)
	default:
		reply = r.ask(append(before, "MGET "+list)...)
	}
	if r.err != nil {
		return
	}
	values := strings.Fields(reply)
	values = values[len(values)-len(keys):]
	r.mu.Lock()
	for i, key := range keys {
		if v, err := strconv.Atoi(values[i]); err == nil {
			r.cache[key] = 2 * v
		} else {
			r.cache[key] = r.started[key] // or an earlier absence
		}
	}
	floor := map[string]int{}
	for key := range r.cache {
		floor[key] = r.acked[key]
	}
	r.mu.Unlock()
	r.ask("PING")
	for key, rank := range r.cache {
		if rank < floor[key] {
			r.err = fmt.Errorf("%s is cached with rank %d, and had %d before", key,
				rank, floor[key])
		}
	}
}

// drop handles an invalidation message.
func (r *cacheReader) drop(message string) {
	words := strings.Fields(message)
	if words[len(words)-1] == "_" {
		clear(r.cache)
	}
	for _, key := range words[2:] {
		delete(r.cache, key)
	}
}
