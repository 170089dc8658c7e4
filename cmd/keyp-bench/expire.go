package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/clock"
)

// This file measures the expiry of keys. In one measurement all keys expire at the same instant. In
// the other one they expire over a while, and a subscriber receives their events.

const (
	// burstEarly is a time in ms: all keys must be in place this long before the first deadline.
	burstEarly = 1000
	// burstAttempts is how often loading the keys is tried. If it takes too long, it starts again
	// with a later deadline.
	burstAttempts = 4
)

// expireBurst makes many keys expire at one instant.
//
//	GETs begin … load …… T-1 s: all loaded …… T: GETs count from here …… DBSIZE is back: end
//
// It fails if a key disappears before the instant T. It also fails if the last key can still be
// read after T. The GETs continue for at least --duration after T.
func expireBurst(b *bench, ctx context.Context, w workload, s *server) ([]reading, error) {
	if err := b.load(ctx, s, keyPrefix, readerKeys, nil); err != nil { // without a deadline
		return nil, err
	}
	gets, err := b.startReaders(ctx, s)
	if err != nil {
		return nil, err
	}
	defer gets.stop()
	client := s.dial()
	defer client.Close()
	baseline, err := client.DBSize(ctx).Result()
	if err != nil {
		return nil, err
	}
	instant, err := b.loadBurst(ctx, s, w.keys, 0, client, baseline)
	if err != nil {
		return nil, err
	}
	memory := s.rssAnon()
	gone, err := b.waitGone(ctx, client, w.keys, baseline, instant)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, instant+w.length.Milliseconds()); err != nil {
		return nil, err
	}
	noticed, err := gets.end(instant)
	if err != nil && !errors.Is(err, errWrong) {
		return nil, err
	}
	return []reading{
		{"all gone after", "ms", millis(gone)},
		{"GET p50 meanwhile", "ms", millis(noticed.P50)},
		{"GET p99 meanwhile", "ms", millis(noticed.P99)},
		{"GET max meanwhile", "ms", millis(noticed.Max)},
		{"RssAnon before", "MiB", mebibytes(memory)},
	}, err
}

// loadBurst writes keys and returns an instant in Unix ms. The deadlines of the keys begin at that
// instant and are spread over the next over ms. The instant is at least burstEarly after loadBurst
// returns. If loading takes too long, loadBurst waits until the keys have expired, and tries again
// with more time.
func (b *bench) loadBurst(ctx context.Context, s *server, keys uint64, over int64,
	client *redis.Client, baseline int64) (int64, error) {
	lead := 2*burstEarly + int64(keys)/50
	for range burstAttempts {
		instant := clock.System.Now() + lead
		if err := b.load(ctx, s, ttlPrefix, keys, deadlines{keys, instant, over}.at); err != nil {
			return 0, err
		}
		if clock.System.Now() < instant-burstEarly {
			return instant, nil
		}
		if err := pause(ctx, instant+over); err != nil {
			return 0, err
		}
		if err := b.untilSize(ctx, client, 0, baseline); err != nil {
			return 0, err
		}
		lead *= 3
	}
	return 0, fmt.Errorf("loading %d keys takes longer than %d ms; try fewer --keys", keys,
		lead/3)
}

// deadlines spreads the deadlines of keys evenly over the over ms that begin at the instant from.
// Keys that are written one after the other have deadlines far apart.
type deadlines struct {
	keys       uint64
	from, over int64
}

// at returns the deadline of a key, in Unix ms.
func (d deadlines) at(key uint64) int64 {
	const stride = 999_999_937 // prime
	return d.from + int64(key*stride%d.keys*uint64(d.over)/d.keys)
}

// waitGone waits until DBSIZE is back at baseline. It returns the time from the instant until then,
// to about a millisecond.
func (b *bench) waitGone(ctx context.Context, client *redis.Client, keys uint64, baseline,
	instant int64) (time.Duration, error) {
	if err := pause(ctx, instant-20); err != nil {
		return 0, err
	}
	size, err := client.DBSize(ctx).Result()
	now, mono := clock.System.Now(), clock.System.Mono()
	if err != nil {
		return 0, err
	}
	// The clock is read after the reply, which proves that the reply came before the instant.
	if full := baseline + int64(keys); now < instant && size != full {
		return 0, fmt.Errorf("%w: DBSIZE is %d, not %d, %d ms before the keys expire", errWrong,
			size, full, instant-now)
	}
	monoInstant := mono + time.Duration(instant-now)*time.Millisecond
	// In Redis a key expires after the millisecond of its deadline. The last key written is
	// the last that a sweep in order would reach.
	if err := pause(ctx, instant+1); err != nil {
		return 0, err
	}
	key := keyName(ttlPrefix, keys-1)
	if value, err := client.Get(ctx, key).Result(); err == nil {
		return 0, fmt.Errorf("%w: GET %s after its deadline gave %q", errWrong, key, value)
	} else if !errors.Is(err, redis.Nil) {
		return 0, err
	}
	err = b.untilSize(ctx, client, 0, baseline)
	return max(clock.System.Mono()-monoInstant, 0), err
}

// untilSize sends DBSIZE about every millisecond until the reply is from least to most.
func (b *bench) untilSize(ctx context.Context, client *redis.Client, least, most int64) error {
	for until := clock.System.Mono() + b.timeout; ; {
		size, err := client.DBSize(ctx).Result()
		if err != nil || size >= least && size <= most {
			return err
		}
		if clock.System.Mono() > until {
			return fmt.Errorf("%w: DBSIZE is %d after %v, not from %d to %d", errWrong, size,
				b.timeout, least, most)
		}
		if err := pause(ctx, clock.System.Now()+1); err != nil {
			return err
		}
	}
}

// expireEvents makes keys expire over a while, and measures how long after each key's deadline a
// subscriber receives the event.
func expireEvents(b *bench, ctx context.Context, w workload, s *server) ([]reading, error) {
	client := s.dial()
	defer client.Close()
	if err := client.ConfigSet(ctx, "notify-keyspace-events", "Ex").Err(); err != nil {
		return nil, err
	}
	over := w.length.Milliseconds()
	instant, err := b.loadBurst(ctx, s, w.keys, over, client, 0)
	if err != nil {
		return nil, err
	}
	events := client.Subscribe(ctx, "__keyevent@0__:expired")
	defer events.Close()
	if _, err := events.Receive(ctx); err != nil {
		return nil, fmt.Errorf("SUBSCRIBE: %w", err)
	}
	if late := clock.System.Now() - instant; late >= 0 {
		return nil, fmt.Errorf("the subscriber was ready %d ms after the first key expired", late)
	}
	lateness, err := receiveExpired(func() (string, error) {
		message, err := events.ReceiveTimeout(ctx, b.timeout)
		if m, ok := message.(*redis.Message); ok {
			return m.Payload, errors.Join(err, ctx.Err())
		}
		return "", errors.Join(err, ctx.Err())
	}, deadlines{w.keys, instant, over})
	if err != nil && !errors.Is(err, errWrong) {
		return nil, err
	}
	p50, p99, largest := quantiles(lateness)
	return []reading{
		{"lateness of an event p50", "ms", millis(p50)},
		{"lateness of an event p99", "ms", millis(p99)},
		{"lateness of an event max", "ms", millis(largest)},
	}, err
}

// receiveExpired receives the names of expired keys until it has received each key once. It ignores
// other names. It returns how late the event of each key was, and errWrong for keys that expired
// twice or too early.
func receiveExpired(receive func() (string, error), d deadlines) ([]time.Duration, error) {
	var lateness []time.Duration
	var wrong error // the first one
	seen := make([]bool, d.keys)
	wall, mono := clock.System.Now(), clock.System.Mono()
	for uint64(len(lateness)) < d.keys {
		name, err := receive()
		if err != nil {
			return lateness, fmt.Errorf("after %d of %d events: %w", len(lateness), d.keys, err)
		}
		late := clock.System.Mono() - mono
		digits, own := strings.CutPrefix(name, ttlPrefix)
		key, err := strconv.ParseUint(digits, 10, 64)
		if !own || err != nil || key >= d.keys {
			continue
		}
		late += time.Duration(wall-d.at(key)) * time.Millisecond
		switch {
		case wrong != nil:
		case seen[key]:
			wrong = fmt.Errorf("%w: key %d expired twice", errWrong, key)
		case late < -2*time.Millisecond: // because wall is rounded down
			wrong = fmt.Errorf("%w: key %d expired %v before its deadline", errWrong, key, -late)
		}
		if !seen[key] {
			seen[key] = true
			lateness = append(lateness, max(late, 0))
		}
	}
	return lateness, wrong
}
