package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/clock"
)

// The rule of an outbox, its stream, and who reads it.
const (
	outboxName   = "bench-outbox"
	outboxStream = "bench-outbox-stream"
	outboxGroup  = "bench-outbox-group"
	// outboxRead is how many entries a consumer asks for at a time.
	outboxRead = 1000
)

// outbox makes keys expire under a rule, and measures how late the entry of each is in a consumer's hands: first
// spread over a while, then all at one instant.
func outbox(b *bench, ctx context.Context, l line, t *target, round int) ([]reading, error) {
	client := t.dial(b.timeout)
	defer client.Close()
	if err := client.Do(ctx, "KEYP.OUTBOX", "SET", outboxName, "PATTERN", ttlPrefix+"*", "STREAM", outboxStream).Err(); err != nil {
		return nil, err
	}
	if err := client.XGroupCreateMkStream(ctx, outboxStream, outboxGroup, "0").Err(); err != nil {
		return nil, err
	}
	var readings []reading
	for _, part := range []struct {
		what string
		keys uint64
		over int64
	}{
		{fmt.Sprintf("of %d spread over %v", l.keys/10, l.duration), l.keys / 10, l.duration.Milliseconds()},
		{fmt.Sprintf("of %d at one instant", l.keys), l.keys, 0},
	} {
		late, err := b.receiveOutbox(ctx, l, t, round, client, part.keys, part.over)
		if err != nil {
			return nil, err
		}
		p50, p99, largest := quantiles(late)
		readings = append(readings,
			reading{"entry p50 " + part.what, "ms", millis(p50)}, reading{"entry p99 " + part.what, "ms", millis(p99)}, reading{"entry max " + part.what, "ms", millis(largest)})
	}
	err := client.Do(ctx, "KEYP.OUTBOX", "DEL", outboxName).Err()
	return readings, errors.Join(err, client.Del(ctx, outboxStream).Err())
}

// receiveOutbox has keys expire, and reads and acknowledges their entries.
func (b *bench) receiveOutbox(ctx context.Context, l line, t *target, round int, client *redis.Client, keys uint64, over int64) ([]time.Duration, error) {
	baseline, err := client.DBSize(ctx).Result()
	if err != nil {
		return nil, err
	}
	instant, err := b.loadBurst(ctx, t, keys, over, burstEarly, client, baseline)
	if err != nil {
		return nil, err
	}
	if err := passOver(ctx, client, instant); err != nil {
		return nil, err
	}
	reader := t.dial(b.timeout)
	defer reader.Close()
	if late := clock.System.Now() - instant; late >= 0 {
		return nil, fmt.Errorf("the consumer was ready %d ms after the first key expired", late)
	}
	var batch []redis.XMessage
	var acknowledge []string
	receive := func() (string, error) {
		for len(batch) == 0 {
			if len(acknowledge) > 0 {
				if err := reader.XAck(ctx, outboxStream, outboxGroup, acknowledge...).Err(); err != nil {
					return "", err
				}
				acknowledge = acknowledge[:0]
			}
			streams, err := reader.XReadGroup(ctx, &redis.XReadGroupArgs{Group: outboxGroup, Consumer: "c", Streams: []string{outboxStream, ">"}, Count: outboxRead, Block: b.timeout}).Result()
			if err != nil {
				return "", err
			}
			batch = streams[0].Messages
			for _, m := range batch {
				acknowledge = append(acknowledge, m.ID)
			}
		}
		key, _ := batch[0].Values["key"].(string)
		batch = batch[1:]
		return key, nil
	}
	received, err := receiveExpired(receive, deadlines{keys, instant, over})
	b.report.addFailure(l, t.name, round, int64(len(received.wrong)), errors.Join(received.wrong...))
	if err != nil {
		return nil, fmt.Errorf("after %d of %d entries: %w", len(received.lateness), keys, err)
	}
	return received.lateness, reader.XAck(ctx, outboxStream, outboxGroup, acknowledge...).Err()
}

// passOver has the group not read the entries that there are before the first key expires: those of keys that loadBurst had
// loaded too late.
func passOver(ctx context.Context, client *redis.Client, instant int64) error {
	for {
		state, err := client.Do(ctx, "KEYP.OUTBOX", "GET", outboxName).Slice()
		if err != nil {
			return err
		}
		if i := slices.Index(state, any("waiting")); i < 0 || i+1 == len(state) || state[i+1] == int64(0) {
			return client.XGroupSetID(ctx, outboxStream, outboxGroup, "$").Err()
		}
		if err := pause(ctx, min(clock.System.Now()+10, instant)); err != nil {
			return err
		}
		if clock.System.Now() >= instant {
			return errors.New("entries of an earlier attempt wait until the first key expires")
		}
	}
}
