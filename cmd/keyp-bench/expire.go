package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/clock"
)

const (
	// burstEarly is how long before the first deadline, in ms, all keys must be in place.
	burstEarly = 500
	// burstAttempts is the maximum number of attempts, each with a later instant, if loading or
	// starting the GETs takes too long.
	burstAttempts = 4
)

// expireBurst makes many keys expire at one instant.
//
//	load …… T-500 ms: GETs begin …… T: counted from here …… DBSIZE is back: end
//
// It fails if a key disappears before the instant T. It also fails if the last key can still be
// read after T. The GETs continue for at least --length after T.
func expireBurst(b *bench, ctx context.Context, l line, t *target, round int) ([]reading, error) {
	bystanders := min(b.keys, readerKeys) // keys without a deadline
	if err := b.load(ctx, t, bystanders); err != nil {
		return nil, err
	}
	client := t.dial(b.timeout)
	defer client.Close()
	baseline, err := client.DBSize(ctx).Result()
	if err != nil {
		return nil, err
	}
	var (
		instant, memory int64
		gets            *readers
	)
	for attempt, early := 1, int64(burstEarly); ; attempt, early = attempt+1, early*3 {
		if instant, err = b.loadBurst(ctx, t, l.keys, 0, early, client, baseline); err != nil {
			return nil, err
		}
		memory = t.rssAnon()
		if err := pause(ctx, instant-early); err != nil {
			return nil, err
		}
		if gets, err = b.startReaders(ctx, t, bystanders, instant); err != nil {
			return nil, err
		}
		late := clock.System.Now() - instant
		if late < 0 {
			break
		}
		if err := gets.stop(); err != nil {
			return nil, err
		}
		if attempt == burstAttempts {
			return nil, fmt.Errorf("the GETs began %d ms after the keys expired", late)
		}
	}
	gone, err := b.waitGone(ctx, client, l.keys, baseline, instant)
	if err = errors.Join(err, pause(ctx, instant+l.duration.Milliseconds())); err != nil {
		return nil, errors.Join(err, gets.stop())
	}
	noticed, err := gets.end()
	if err != nil {
		return nil, err
	}
	b.report.addFailure(l, t.name, round, noticed.Errors, errors.New(noticed.First))

	readings := []reading{
		{"all gone after", "ms", millis(gone)},
		{"GET p50 meanwhile", "ms", millis(noticed.P50)},
		{"GET p99 meanwhile", "ms", millis(noticed.P99)},
		{"GET max meanwhile", "ms", millis(noticed.Max)},
	}
	if memory > 0 {
		readings = append(readings, reading{"RssAnon before", "MiB", mebibytes(memory)})
	}
	return readings, nil
}

// loadBurst writes keys and returns an instant in Unix ms. The deadlines of the keys begin at that
// instant and are spread over the next over ms. The instant is at least early ms after loadBurst
// returns. If loading takes too long, loadBurst waits until the keys have expired. Then it tries
// again with more time, up to burstAttempts times in all.
func (b *bench) loadBurst(ctx context.Context, t *target, keys uint64, over, early int64,
	client *redis.Client, baseline int64) (int64, error) {
	lead := 2*early + int64(keys)/50
	for range burstAttempts {
		instant := clock.System.Now() + lead
		if err := b.loadTTL(ctx, t, keys, "PXAT", deadlines{keys, instant, over}.at); err != nil {
			return 0, err
		}
		if clock.System.Now() < instant-early {
			return instant, nil
		}
		if err := pause(ctx, instant+over); err != nil {
			return 0, err
		}
		if _, err := b.untilBack(ctx, client, baseline); err != nil {
			return 0, err
		}
		lead *= 3
	}
	return 0, fmt.Errorf("loading %d keys takes longer than %d ms; try fewer --ttl-keys", keys,
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

// waitGone reads DBSIZE from before the instant until it is back at baseline. It returns the time
// from the instant until then, to about a millisecond.
func (b *bench) waitGone(ctx context.Context, client *redis.Client, keys uint64, baseline,
	instant int64) (time.Duration, error) {
	monoInstant := clock.System.Mono() + time.Duration(instant-clock.System.Now())*time.Millisecond
	full := baseline + int64(keys)
	for clock.System.Now() < instant {
		size, err := client.DBSize(ctx).Result()
		if err != nil {
			return 0, err
		}
		// The clock is read after the reply, which proves that the reply came before the instant.
		if now := clock.System.Now(); now < instant && size != full {
			return 0, fmt.Errorf("%w: DBSIZE is %d, not %d, %d ms before the keys expire", errWrong,
				size, full, instant-now)
		}
		if err := pause(ctx, min(clock.System.Now()+10, instant)); err != nil {
			return 0, err
		}
	}
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
	back, err := b.untilBack(ctx, client, baseline)
	return max(back-monoInstant, 0), err
}

// untilBack sends DBSIZE about every millisecond until the reply is at most baseline. It returns
// the time of that reply on the monotonic clock.
func (b *bench) untilBack(ctx context.Context, client *redis.Client,
	baseline int64) (time.Duration, error) {
	until := clock.System.Mono() + b.timeout
	for {
		size, err := client.DBSize(ctx).Result()
		now := clock.System.Mono()
		if err != nil {
			return 0, err
		}
		if size <= baseline {
			return now, nil
		}
		if now > until {
			return 0, fmt.Errorf("%w: %d keys still count %v after they expired", errWrong,
				size-baseline, b.timeout)
		}
		if err := pause(ctx, clock.System.Now()+1); err != nil {
			return 0, err
		}
	}
}
