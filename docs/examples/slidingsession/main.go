// Slidingsession keeps log-in sessions that end after half an hour without use, and after twelve
// hours in any case. A policy of the server does this: each read of a session starts its half hour
// again. The program only reads and writes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sessions stores sessions under login:<id>.
type Sessions struct {
	Redis *redis.Client
	// Idle is the lifetime of an unused session, Longest the longest lifetime of any session.
	Idle, Longest time.Duration
}

func key(id string) string { return "login:" + id }

// Prepare sets the policy, which is part of the data. Setting it again only resets its counts.
// REQUIRE refuses any write, by any program, that would make a session without a deadline.
func (s Sessions) Prepare(ctx context.Context) error {
	return s.Redis.Do(ctx, "KEYP.POLICY", "SET", "logins", "PATTERN", key("*"), "ENFORCE",
		"SLIDE", ms(s.Idle), "LIMIT", ms(s.Longest), "MAX", ms(s.Longest), "CUT", "REQUIRE").Err()
}

func ms(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// Save begins a session. LIMIT counts from this moment.
func (s Sessions) Save(ctx context.Context, id, user string) error {
	return s.Redis.Set(ctx, key(id), user, s.Idle).Err()
}

// User returns the user of a session and slides its end; ok is false if it has ended or never
// existed.
func (s Sessions) User(ctx context.Context, id string) (user string, ok bool, err error) {
	user, err = s.Redis.Get(ctx, key(id)).Result()
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	return user, err == nil, err
}

// Left returns the time for which a session lasts if nobody uses it. A call of Left does not count
// as use.
func (s Sessions) Left(ctx context.Context, id string) (time.Duration, error) {
	return s.Redis.PTTL(ctx, key(id)).Result()
}

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	sessions := Sessions{rdb, 30 * time.Minute, 12 * time.Hour}
	if err := sessions.Prepare(ctx); err != nil {
		return err
	}
	if err := sessions.Save(ctx, "sess-phone", "ada"); err != nil {
		return err
	}
	// The deadline is now as after twenty minutes without a request.
	if err := rdb.Expire(ctx, key("sess-phone"), 10*time.Minute).Err(); err != nil {
		return err
	}
	for _, what := range []string{"before", "after"} {
		left, err := sessions.Left(ctx, "sess-phone")
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s a request it lasts for %v\n", what, left.Round(time.Minute))
		if _, _, err = sessions.User(ctx, "sess-phone"); err != nil {
			return err
		}
	}
	if err := rdb.Set(ctx, key("sess-forever"), "eve", 0).Err(); err != nil {
		fmt.Fprintln(out, "a session without an end:", err)
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
