// Blacklist revokes tokens at log-out. blacklist:<kind>:<token id> exists for as long as the token
// would still be valid, so the list cleans itself up.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// Kind is the kind of a token.
type Kind string

// The kinds of tokens.
const (
	Access  Kind = "access"
	Refresh Kind = "refresh"
)

// Blacklist is the list of tokens that are valid by their date but no longer accepted.
type Blacklist struct{ Redis *redis.Client }

func key(kind Kind, id string) string { return "blacklist:" + string(kind) + ":" + id }

// Revoke puts a token on the list until it expires by itself.
func (b Blacklist) Revoke(ctx context.Context, kind Kind, id string, expires time.Time) error {
	// A Unix time in place of a duration: the entry ends in the same millisecond as the token,
	// however long this call takes. If the time is past, the entry ends at once.
	return b.Redis.SetArgs(ctx, key(kind, id), "true", redis.SetArgs{ExpireAt: expires}).Err()
}

// Revoked reports whether a token is on the list.
func (b Blacklist) Revoked(ctx context.Context, kind Kind, id string) (bool, error) {
	n, err := b.Redis.Exists(ctx, key(kind, id)).Result()
	return n > 0, err
}

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	list := Blacklist{rdb}
	now := time.Now()
	if err := list.Revoke(ctx, Access, "7f3d9a1b", now.Add(15*time.Minute)); err != nil {
		return err
	}
	if err := list.Revoke(ctx, Refresh, "9b1d6e8c", now.Add(7*24*time.Hour)); err != nil {
		return err
	}
	for _, id := range []string{"7f3d9a1b", "2c8e4f5a"} {
		revoked, err := list.Revoked(ctx, Access, id)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "access token %s revoked: %v\n", id, revoked)
	}
	return nil
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	if err := run(context.Background(), rdb, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
