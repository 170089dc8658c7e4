package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// The differential run with a subscriber to all keyspace events of each server: after each command
// both must have published the same events in the same order. Expiry events are compared at the
// end. Redis reports an expiry when it finds the key, and Keyp when the key is due.

// allEvents is the value of notify-keyspace-events that includes every event of Redis.
const allEvents = "KEAmn"

// TestDiffEvents compares the events of commands on keys and types.
func TestDiffEvents(t *testing.T) {
	t.Parallel()
	s := &both{redisServer: testkit.Redis(t, bulkFlag...), keypServer: testkit.Keyp(t, bulkFlag...),
		listens: true}
	s.run(t, diffShare(t, 2), false, nil)
	s.run(t, diffShare(t, 2), true, nil)
}

// ears has a subscriber to each server, and counts of expiry events.
type ears struct {
	pair
	aside [2]map[string]int // of Keyp, of Redis
}

// listen subscribes to all events of both servers.
func (r *diffRun) listen() error {
	e := &ears{aside: [2]map[string]int{{}, {}}}
	r.ears = e
	if keyp, redis, err := r.conns[1].ask("CONFIG", "SET", "notify-keyspace-events",
		allEvents); err != nil || keyp.text != "OK" || redis.text != "OK" {
		return fmt.Errorf("CONFIG SET notify-keyspace-events: %s, %s, %w", keyp.text,
			redis.text, err)
	}
	for side, addr := range map[**wire]string{&e.keyp: r.conns[0].keyp.RemoteAddr().String(),
		&e.redis: r.conns[0].redis.RemoteAddr().String()} {
		conn, err := dialWire(addr)
		if err != nil {
			return err
		}
		*side = conn
	}
	_, _, err := e.ask("PSUBSCRIBE", "__key*__:*", "end of *")
	if err != nil {
		return err
	}
	// PSUBSCRIBE with two patterns is confirmed twice.
	return errors.Join(second(e.keyp.receive()), second(e.redis.receive()))
}

func second[T any](_ T, err error) error { return err }

// compareEvents compares the events that the servers have published since the last call. For SORT
// the order is ignored, as it looks up keys in an order of its own.
func (r *diffRun) compareEvents(args []string) error {
	keyp, redis, err := r.ears.hear(r)
	if err != nil {
		return err
	}
	if name := strings.ToUpper(args[0]); strings.HasPrefix(name, "SORT") ||
		len(consumersOf(args)) > 0 {
		slices.Sort(keyp)
		slices.Sort(redis)
	}
	if !slices.Equal(keyp, redis) {
		return fmt.Errorf("%q: events\nkeyp  %q\nredis %q", args, keyp, redis)
	}
	return nil
}

// forget drops the events so far: comparing replies may send commands that make the servers equal
// where they decided at random.
func (e *ears) forget(r *diffRun) error {
	_, _, err := e.hear(r)
	return err
}

// hear returns the events that the servers have published since the last call.
func (e *ears) hear(r *diffRun) (keyp, redis []string, err error) {
	if _, _, err := r.conns[1].ask("PUBLISH", "end of step", ""); err != nil {
		return nil, nil, err
	}
	if keyp, err = e.heard(e.keyp, e.aside[0]); err != nil {
		return nil, nil, fmt.Errorf("events of keyp: %w", err)
	}
	if redis, err = e.heard(e.redis, e.aside[1]); err != nil {
		return nil, nil, fmt.Errorf("events of redis: %w", err)
	}
	return keyp, redis, nil
}

// heard reads the messages up to the one that ends a step.
func (e *ears) heard(c *wire, aside map[string]int) (list []string, err error) {
	for {
		message, err := c.receive()
		if err != nil {
			return nil, err
		}
		words := message.texts()
		if len(words) != 4 || words[0] != "pmessage" {
			return nil, fmt.Errorf("%s is no message", brief(message.raw))
		}
		channel, text := words[2], words[3]
		switch {
		case channel == "end of step":
			return list, nil
		case text == "expired" || strings.HasSuffix(channel, "__:expired"):
			aside[channel+" "+text]++
		default:
			list = append(list, channel+" "+text)
		}
	}
}

// compareExpired compares the expiry events after Redis has looked at all keys.
func (r *diffRun) compareExpired() error {
	if err := r.ears.forget(r); err != nil { // those of looking at all keys
		return err
	}
	keyp, redis := r.ears.aside[0], r.ears.aside[1]
	for event, n := range keyp {
		if redis[event] != n {
			return fmt.Errorf("%q: %d times with keyp, %d times with redis", event, n, redis[event])
		}
	}
	for event, n := range redis {
		if keyp[event] != n {
			return fmt.Errorf("%q: %d times with keyp, %d times with redis", event, keyp[event], n)
		}
	}
	return nil
}

func (e *ears) close() {
	for _, c := range []*wire{e.keyp, e.redis} {
		if c != nil {
			_ = c.Close() // all that was to be read has been
		}
	}
}
