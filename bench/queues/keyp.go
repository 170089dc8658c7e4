package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// keypDelay measures KEYP.DELAY, where each client adds, takes and acknowledges size jobs at a
// time.
func keypDelay(size int) func(context.Context, string, int) (result, error) {
	return func(ctx context.Context, addr string, jobs int) (r result, err error) {
		client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: clients})
		defer client.Close()
		data := strings.Repeat("x", payload)
		batches := (jobs + size - 1) / size
		began := time.Now()
		err = each(ctx, batches, func(batch int) error {
			_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i := batch * size; i < min((batch+1)*size, jobs); i++ {
					p.Do(ctx, "KEYP.DELAY", "ADD", "queue", "job:"+strconv.Itoa(i), "+1", data)
				}
				return nil
			})
			return err
		})
		if err != nil {
			return r, err
		}
		r.add = time.Since(began)
		began = time.Now()
		var done atomic.Int64
		err = each(ctx, clients, func(int) error {
			for done.Load() < int64(jobs) {
				acked, err := work(ctx, client, size)
				if err != nil {
					return err
				}
				done.Add(acked)
			}
			return nil
		})
		r.work = time.Since(began)
		return r, err
	}
}

// work takes up to size jobs and acknowledges them. It returns their number.
func work(ctx context.Context, client *redis.Client, size int) (int64, error) {
	got, err := client.Do(ctx, "KEYP.DELAY", "POP", "queue", "COUNT", size, "BLOCK", 20, "VISIBILITY", 600_000).Slice()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	ack := []any{"KEYP.DELAY", "ACK", "queue"}
	for _, j := range got {
		ack = append(ack, j.([]any)[2])
	}
	acked, err := client.Do(ctx, ack...).Int64()
	if err == nil && acked != int64(len(got)) {
		err = fmt.Errorf("%d of %d jobs are acknowledged", acked, len(got))
	}
	return acked, err
}
