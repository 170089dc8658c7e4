package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"keyp/cmd/keyp-bench/internal/hist"
	"keyp/cmd/keyp-bench/internal/load"
	"keyp/cmd/keyp-bench/internal/wire"
	"keyp/internal/clock"
)

// expiredChannel is where database 0 publishes the keys that expire.
const expiredChannel = "__keyevent@0__:expired"

// expireEvents makes keys expire over a while and measures how late a subscriber hears of each:
// from the key's deadline to the message.
func expireEvents(b *bench, ctx context.Context, s shape, t *target, round int) ([]reading, error) {
	client, err := wire.Dial(ctx, t.addr, b.timeout)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if reply, err := client.Do("CONFIG", "SET", "notify-keyspace-events", "Ex"); err != nil {
		return nil, err
	} else if reply.Kind != wire.Simple {
		return nil, fmt.Errorf("%w: CONFIG SET notify-keyspace-events: %v", errWrong, reply)
	}
	baseline, err := client.Int("DBSIZE")
	if err != nil {
		return nil, err
	}
	over := s.duration.Milliseconds()
	instant, err := b.loadBurst(ctx, t, s.keys, over, client, baseline)
	if err != nil {
		return nil, err
	}
	listener, err := wire.Dial(ctx, t.addr, b.timeout)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	if err := listener.Send("SUBSCRIBE", expiredChannel); err != nil {
		return nil, err
	}
	if _, err := listener.Receive(); err != nil {
		return nil, fmt.Errorf("SUBSCRIBE: %w", err)
	}
	if late := clock.System.Now() - instant; late >= 0 {
		return nil, fmt.Errorf("the subscriber was ready %d ms after the first key expired", late)
	}

	defer context.AfterFunc(ctx, func() { _ = listener.Close() })() // so that it waits no longer
	defer b.progress.watch("listening", nil)()
	heard, err := listenExpired(listener, load.Deadlines{Keys: s.keys, From: instant, Over: over})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.report.addFailure(s, t.name, round, heard.wrong, heard.first)
	if err != nil {
		return nil, fmt.Errorf("after %d of %d events: %w", heard.lateness.Count(), s.keys, err)
	}
	return []reading{
		{"lateness of an event p50", "ms", millis(heard.lateness.Quantile(0.5))},
		{"lateness of an event p99", "ms", millis(heard.lateness.Quantile(0.99))},
		{"lateness of an event max", "ms", millis(heard.lateness.Max())},
	}, nil
}

// expiredHeard is what a subscriber heard.
type expiredHeard struct {
	lateness hist.Histogram
	wrong    int64 // messages that came twice, before their time, or that are none
	first    error
}

func (h *expiredHeard) fail(err error) {
	if h.wrong++; h.first == nil {
		h.first = err
	}
}

// listenExpired reads messages until each key has been told of.
func listenExpired(listener *wire.Client, deadlines load.Deadlines) (*expiredHeard, error) {
	heard := &expiredHeard{}
	told := make([]bool, deadlines.Keys)
	wall, mono := clock.System.Now(), clock.System.Mono()
	for left := deadlines.Keys; left > 0; {
		message, err := listener.Receive()
		if err != nil {
			return heard, err
		}
		late := clock.System.Mono() - mono
		key, err := expiredKey(message)
		switch {
		case err != nil:
			heard.fail(err)
			continue
		case key >= deadlines.Keys:
			continue // of somebody else
		case told[key]:
			heard.fail(fmt.Errorf("%w: key %d expired twice", errWrong, key))
			continue
		}
		told[key] = true
		left--
		late += time.Duration(wall-deadlines.At(key)) * time.Millisecond
		if late < -2*time.Millisecond { // wall is the millisecond that had begun
			heard.fail(fmt.Errorf("%w: key %d expired %v before its deadline", errWrong, key, -late))
		}
		heard.lateness.Record(max(late, 0), 1)
	}
	return heard, nil
}

// expiredKey is the number of the key that a message is about; one of another family gives a
// number that no key has.
func expiredKey(message []wire.Reply) (uint64, error) {
	const other = 1<<64 - 1
	if len(message) != 3 || string(message[0].Text) != "message" {
		return other, fmt.Errorf("%w: %v is no message", errWrong, message)
	}
	digits, found := strings.CutPrefix(string(message[2].Text), load.TTLPrefix)
	if !found {
		return other, nil
	}
	return strconv.ParseUint(digits, 10, 64)
}
