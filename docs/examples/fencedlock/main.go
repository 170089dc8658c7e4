// Fencedlock lets one worker at a time change a resource outside of Keyp, such as a file store. The
// worker has a lease with a token, which the resource checks. A worker may sleep past the end of
// its lease and not know that another worker has it by now. The resource then refuses its old
// token, so its write changes nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrStale is the error of a resource for the holder of an older lease.
var ErrStale = errors.New("a later lease has written here")

// Resource is the resource that the lease protects. It remembers the highest token that it has
// seen: fencing needs nothing more.
type Resource struct {
	mu struct {
		sync.Mutex
		token int64
		value string
	}
}

// Write changes the resource for the holder of a lease. It returns ErrStale if the token is too
// old.
func (r *Resource) Write(token int64, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.mu.token {
		return ErrStale
	}
	r.mu.token, r.mu.value = token, value
	return nil
}

// Read returns the value.
func (r *Resource) Read() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.value
}

// ErrTaken says that another owner has the lease.
var ErrTaken = errors.New("the lease is taken")

// ErrLost says that the lease is not held any more.
var ErrLost = errors.New("the lease is lost")

// Lease is a lease that was granted.
type Lease struct {
	Redis *redis.Client
	Key   string
	Token int64
	Until time.Time
}

// Acquire takes the lease of a key. If another owner has it, Acquire waits up to wait; the client's
// ReadTimeout must be longer. The owner must be a unique name. After a lost connection the same
// call returns the same lease.
func Acquire(ctx context.Context, rdb *redis.Client, key, owner string, ttl,
	wait time.Duration) (*Lease, error) {
	words := []any{"KEYP.LEASE", "ACQUIRE", key, owner, ttl.Milliseconds()}
	if wait > 0 { // WAIT 0 would be without end
		words = append(words, "WAIT", max(wait.Milliseconds(), 1))
	}
	reply, err := rdb.Do(ctx, words...).Int64Slice()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, ErrTaken
	case err != nil:
		return nil, err
	}
	return &Lease{rdb, key, reply[0], time.UnixMilli(reply[1])}, nil
}

// Renew makes the lease end after ttl from now. It returns ErrLost if the lease is not held any
// more.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	until, err := l.Redis.Do(ctx, "KEYP.LEASE", "RENEW", l.Key, l.Token, ttl.Milliseconds()).Int64()
	if err != nil {
		return lost(err)
	}
	l.Until = time.UnixMilli(until)
	return nil
}

// Release ends the lease. It is no error if the lease has ended already.
func (l *Lease) Release(ctx context.Context) error {
	return l.Redis.Do(ctx, "KEYP.LEASE", "RELEASE", l.Key, l.Token).Err()
}

// Record writes a result of the holder to Keyp, if the lease is still held. One transaction does
// the check and the write.
func (l *Lease) Record(ctx context.Context, key string, value any) error {
	_, err := l.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Do(ctx, "KEYP.LEASE", "CHECK", l.Key, l.Token)
		p.Set(ctx, key, value, 0)
		return nil
	})
	return lost(err)
}

func lost(err error) error {
	if err != nil && redis.HasErrorPrefix(err, "LEASE") {
		return ErrLost
	}
	return err
}

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	const key, ttl = "report:lease", 2 * time.Second
	report := &Resource{}
	first, err := Acquire(ctx, rdb, key, "worker-1", ttl, 0)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "worker-1 writes:", report.Write(first.Token, "by worker-1"))
	_, err = Acquire(ctx, rdb, key, "worker-2", ttl, 0)
	fmt.Fprintln(out, "worker-2 asks:", err)
	// worker-1 hangs; worker-2 waits for the end of worker-1's lease.
	second, err := Acquire(ctx, rdb, key, "worker-2", time.Minute, 10*time.Second)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "worker-2 writes:", report.Write(second.Token, "by worker-2"))
	fmt.Fprintln(out, "worker-1 writes late:", report.Write(first.Token, "by worker-1, late"))
	fmt.Fprintln(out, "worker-1 renews:", first.Renew(ctx, ttl))
	fmt.Fprintln(out, "worker-1 records:", first.Record(ctx, "report:done", "by worker-1"))
	fmt.Fprintln(out, "worker-2 records:", second.Record(ctx, "report:done", "by worker-2"))
	fmt.Fprintln(out, "the report:", report.Read())
	if err := second.Release(ctx); err != nil {
		return err
	}
	return rdb.Del(ctx, "report:done").Err()
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *addr, ReadTimeout: 15 * time.Second})
	if err := run(context.Background(), rdb, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
