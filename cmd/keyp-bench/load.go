package main

import (
	"context"
	"errors"
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

// load writes the keys key:0 to key:n-1, which SET and GET use.
func (b *bench) load(ctx context.Context, s *server, n uint64) error {
	return b.loadAll(ctx, s, n, func(key uint64) []any {
		return []any{"SET", keyName(keyPrefix, key), valueOf(key, b.size)}
	})
}

// loadTTL writes the keys ttl:0 to ttl:n-1. at returns the deadline of each key, in Unix ms.
func (b *bench) loadTTL(ctx context.Context, s *server, n uint64,
	at func(key uint64) int64) error {
	return b.loadAll(ctx, s, n, func(key uint64) []any {
		return []any{"SET", keyName(ttlPrefix, key), valueOf(key, b.size), "PXAT", at(key)}
	})
}

// loadAll sends the commands 0 to n-1 over some connections. All must succeed.
func (b *bench) loadAll(ctx context.Context, s *server, n uint64,
	command func(i uint64) []any) error {
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
						p.Do(ctx, command(i)...)
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
	err := context.Cause(ctx)
	if refused := redis.Error(nil); errors.As(err, &refused) {
		err = fmt.Errorf("%w: %w", errWrong, err)
	}
	if err != nil {
		return fmt.Errorf("loading keys: %w", err)
	}
	return nil
}
