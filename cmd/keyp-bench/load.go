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
	// loadKeys is the number of keys in one MSET.
	loadKeys = 50
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
func (b *bench) load(ctx context.Context, t *target, n uint64) error {
	return b.loadAll(ctx, t, (n+loadKeys-1)/loadKeys, func(i uint64) []any {
		args := []any{"MSET"}
		for key := i * loadKeys; key < min((i+1)*loadKeys, n); key++ {
			args = append(args, keyName(keyPrefix, key), valueOf(key, b.size))
		}
		return args
	})
}

// loadTTL writes the keys ttl:0 to ttl:n-1. ms returns the argument of each key for SET's option,
// which is PX or PXAT.
func (b *bench) loadTTL(ctx context.Context, t *target, n uint64, option string,
	ms func(key uint64) int64) error {
	return b.loadAll(ctx, t, n, func(key uint64) []any {
		return []any{"SET", keyName(ttlPrefix, key), valueOf(key, b.size), option, ms(key)}
	})
}

// loadAll sends the commands 0 to n-1 over some connections. All must succeed.
func (b *bench) loadAll(ctx context.Context, t *target, n uint64,
	command func(i uint64) []any) error {
	ctx, cancel := t.while(ctx)
	defer cancel()
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	var next atomic.Uint64
	var clients sync.WaitGroup
	for range loadClients {
		clients.Go(func() {
			client := t.dial(b.timeout)
			defer client.Close()
			for first := next.Add(loadPipeline) - loadPipeline; first < n; first =
				next.Add(loadPipeline) - loadPipeline {
				_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
					for i := first; i < min(first+loadPipeline, n); i++ {
						p.Do(ctx, command(i)...)
					}
					return nil
				})
				if err != nil {
					failed(err)
					return
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
