package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// A key's name is a prefix and twelve digits, as in redis-benchmark.
const (
	keyPrefix = "key:" // of redis-benchmark's own tests
	ttlPrefix = "ttl:" // keys with a deadline
)

const (
	// loadClients connections load keys, each with loadPipeline commands in flight.
	loadClients  = 8
	loadPipeline = 200
)

// keyName returns the name of key n.
func keyName(prefix string, n uint64) string { return fmt.Sprintf("%s%012d", prefix, n) }

// valueOf returns the value of key n. The number n determines its text, so any reply can be
// checked.
func valueOf(n uint64, size int) string {
	digits := fmt.Sprintf("%012d-", n)
	return strings.Repeat(digits, size/len(digits)+1)[:size]
}

// load writes the keys 0 to n-1 with a prefix, over several connections. All writes must succeed.
// at returns the deadline of each key, in Unix ms. If at is nil, the keys have no deadlines.
func (b *bench) load(ctx context.Context, s *server, prefix string, n uint64,
	at func(key uint64) int64) error {
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	var begun atomic.Uint64
	var clients sync.WaitGroup
	for range loadClients {
		clients.Go(func() {
			client := s.dial()
			defer client.Close()
			for ctx.Err() == nil {
				end := begun.Add(loadPipeline)
				first := end - loadPipeline
				if first >= n {
					return
				}
				_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
					for i := first; i < min(end, n); i++ {
						args := []any{"SET", keyName(prefix, i), valueOf(i, b.size)}
						if at != nil {
							args = append(args, "PXAT", at(i))
						}
						p.Do(ctx, args...)
					}
					return nil
				})
				if err != nil {
					failed(err)
				}
			}
		})
	}
	clients.Wait()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("loading keys: %w", err)
	}
	return nil
}
