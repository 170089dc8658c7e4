package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

// The differential run of transactions: on both servers several connections queue, watch, run and
// discard, with other connections' writes in between. Every reply is compared byte for byte, and so
// are the descriptions of transactions in CLIENT LIST.

const (
	multiConns = 4 // the last one speaks RESP3
	multiSteps = 120
	lentTime   = 100 // how long a key lives, in ms, that is watched meanwhile, on a quiet machine
)

func TestDiffMulti(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	s.runMulti(t, nil)
}

// TestDiffMultiFromDisk is the same run while keys leave memory as soon as they can.
func TestDiffMultiFromDisk(t *testing.T) {
	t.Parallel()
	onlyLong(t)
	s := forgetful(t)
	s.runMulti(t, func() { s.unload(t) })
}

// runMulti runs cases. If between is not nil, it is called every few steps.
func (s *both) runMulti(t *testing.T, between func()) {
	cases := diffShare(t, 4)
	if between != nil {
		cases = max(1, cases/8)
	}
	diffSeeds(t, cases, func(seed uint64) ([]string, error) {
		return inTime(func(slack int) ([]string, error) {
			return s.multiCase(t, seeded(seed), slack*lentTime, between)
		})
	})
}

// multiCase runs a case in which some watched keys live for lentTime, in ms. It returns errLate if
// that was too short.
func (s *both) multiCase(t *testing.T, g *gen, lentTime int,
	between func()) (history []string, err error) {
	for _, c := range s.sides() {
		s.mustDo(t, c, "FLUSHALL")
	}
	var conns [multiConns]pair
	for i := range conns {
		conns[i].keyp, conns[i].redis = s.dial(t)
		defer conns[i].keyp.Close()
		defer conns[i].redis.Close()
		if i == multiConns-1 {
			if _, _, err := conns[i].ask("HELLO", "3"); err != nil {
				return nil, err
			}
		}
	}
	for step := range multiSteps {
		if between != nil && step%loseEvery == loseEvery-1 {
			between()
		}
		n := g.IntN(multiConns)
		args, lent := drawMulti(g), false
		if lent = args == nil; lent {
			args = []string{"WATCH", g.from("a", "l")}
			if _, _, err := s.ask("SET", args[1], "lent", "PX", fmt.Sprint(lentTime)); err != nil {
				return history, err
			}
		}
		keyp, redis, err := conns[n].ask(args...)
		history = append(history, fmt.Sprintf("%d: %q: %s", n, args, brief(redis.raw)))
		if err != nil {
			return history, err
		}
		if keyp.raw != redis.raw {
			return history, fmt.Errorf("%q\nkeyp  %s\nredis %s", args, brief(keyp.raw),
				brief(redis.raw))
		}
		if lent {
			history = append(history, args[1]+" has expired")
			if keyp, redis, err := s.ask("EXISTS", args[1]); err != nil || keyp.raw != ":1\r\n" ||
				redis.raw != ":1\r\n" {
				return history, errors.Join(err, errLate) // WATCH may have come after its end
			}
			// The real servers' clocks decide.
			await.Pass(time.Duration(lentTime+margin) * time.Millisecond)
		}
		if slices.Contains(args, "PX") ||
			args[0] == "EXEC" && redis.kind == '*' && len(redis.items) > 0 {
			// until the key has expired on both, or they would not agree on whether it has
			await.Pass((near + margin) * time.Millisecond)
		}
		if g.chance(20) {
			keyp, redis, err := (pair{s.keyp, s.redis}).ask("CLIENT", "LIST")
			if err != nil {
				return history, err
			}
			if ours, theirs := multiState(keyp.text), multiState(redis.text); ours != theirs {
				return history, fmt.Errorf("CLIENT LIST\nkeyp  %s\nredis %s", ours, theirs)
			}
		}
	}
	return history, nil
}

// multiState returns the transactions of all connections according to CLIENT LIST. It leaves out
// whether a watched key has changed: Redis notices the expiry of such a key only when a command
// asks for it, and until then queues commands that will not run.
func multiState(list string) string {
	var b strings.Builder
	for _, field := range strings.Fields(list) {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "flags":
			b.WriteString(strings.Trim(value, "dN") + " ")
		case "db":
			b.WriteString(value + ", ")
		}
	}
	return b.String()
}

// drawMulti draws a command of a connection. A nil result means to watch a key that expires
// afterwards.
func drawMulti(g *gen) []string {
	key := func() string { return g.from("a", "b", "c", "l", "h") }
	switch n := g.IntN(100); {
	case n < 14:
		return []string{"MULTI"}
	case n < 30:
		return []string{"EXEC"}
	case n < 33:
		return []string{"DISCARD"}
	case n < 42:
		return append([]string{"WATCH"}, one(g, []string{key()}, []string{key(), key()})...)
	case n < 44:
		return []string{"UNWATCH"}
	case n < 47:
		return one(g, []string{"NOSUCH", "x"}, []string{"GET"}, []string{"EXEC", "x"},
			[]string{"MULTI", "x"},
			[]string{"CONFIG", "NOSUCH"}, []string{"SAVE"}, []string{"WATCH"},
			[]string{"DISCARD", "x"}, []string{"SHUTDOWN", "x", "y"})
	case n < 50:
		return []string{"SELECT", g.from("0", "0", "1", "99", "x")}
	case n < 52:
		return one(g, []string{"FLUSHDB"}, []string{"FLUSHALL"}, []string{"SWAPDB", "0", "1"},
			[]string{"SWAPDB", "1", "2"})
	case n < 53:
		return nil
	case n < 60:
		return []string{"SET", key(), "short", "PX", fmt.Sprint(near)}
	default:
		return one(g,
			[]string{"SET", key(), g.between(1, 9)}, []string{"GET", key()},
			[]string{"INCR", key()}, []string{"APPEND", key(), "x"},
			[]string{"DEL", key(), key()}, []string{"RENAME", key(), key()},
			[]string{"COPY", key(), key(), "DB", g.from("0", "1")},
			[]string{"MOVE", key(), g.from("0", "1")}, []string{"EXISTS", key(), key()},
			[]string{"TYPE", key()},
			[]string{"RPUSH", "l", "1", "2"}, []string{"LPOP", "l"},
			[]string{"LRANGE", "l", "0", "-1"}, []string{"HSET", "h", "f", "v"},
			[]string{"HGETALL", "h"}, []string{"EXPIRE", key(), "0"},
			[]string{"EXPIRE", key(), "100"}, []string{"PERSIST", key()},
			[]string{"PING"}, []string{"ECHO", "x"}, []string{"GETDEL", key()},
			[]string{"MSET", key(), "1", key(), "2"},
			[]string{"BLPOP", "l", "nolist", "0.01"},
			[]string{"SORT", "l", "BY", "nosort", "GET", "#"})
	}
}
