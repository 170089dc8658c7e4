// Defaultttl limits the time to live of all keys of a database to which many programs write. First
// a policy only counts its effects, which shows the programs that it concerns. Then the same policy
// is enforced. Finally it is applied to the keys that existed before.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Rule is a policy for the keys of a pattern. Lifetime is their default and longest time to live.
type Rule struct {
	Redis         *redis.Client
	Name, Pattern string
	Lifetime      time.Duration
}

// set sets the policy, in the mode WARN or ENFORCE.
func (r Rule) set(ctx context.Context, mode string) error {
	lifetime := fmt.Sprint(r.Lifetime.Milliseconds())
	return r.Redis.Do(ctx, "KEYP.POLICY", "SET", r.Name, "PATTERN", r.Pattern, mode, "DEFAULT",
		lifetime, "MAX", lifetime, "CUT").Err()
}

// Warn makes the server count and log the effects of the rule. No key gets another deadline.
func (r Rule) Warn(ctx context.Context) error { return r.set(ctx, "WARN") }

// Enforce applies the rule to every key that is written from now on.
func (r Rule) Enforce(ctx context.Context) error { return r.set(ctx, "ENFORCE") }

// Counts returns two numbers of keys that the rule has changed, or would have changed, since it was
// set. defaulted counts keys without a deadline, and cut counts keys whose deadline is too far
// away.
func (r Rule) Counts(ctx context.Context) (defaulted, cut int64, err error) {
	reply, err := r.Redis.Do(ctx, "KEYP.POLICY", "GET", r.Name).Result()
	if err != nil {
		return 0, 0, err
	}
	fields, ok := reply.(map[any]any) // in RESP3, as go-redis speaks
	if !ok {
		return 0, 0, fmt.Errorf("KEYP.POLICY GET replied %v", reply)
	}
	defaulted, _ = fields["defaulted"].(int64)
	cut, _ = fields["cut"].(int64)
	return defaulted, cut, nil
}

// Untimed returns the number of keys without a deadline for each kind, the part of a name before
// the first colon. The kind shows which program writes the keys.
func (r Rule) Untimed(ctx context.Context) (map[string]int, error) {
	kinds := map[string]int{}
	for cursor := "0"; ; {
		reply, err := r.Redis.Do(ctx, "KEYP.UNTIMED", "MATCH", r.Pattern, "COUNT", 1000,
			"CURSOR", cursor).Slice()
		if err != nil {
			return nil, err
		}
		for _, name := range reply[1].([]any) {
			kind, _, _ := strings.Cut(name.(string), ":")
			kinds[kind]++
		}
		if cursor = reply[0].(string); cursor == "0" {
			return kinds, nil
		}
	}
}

// Apply applies the rule to the existing keys, some at a time. It returns the number of changed
// deadlines.
func (r Rule) Apply(ctx context.Context) (changed int64, err error) {
	for cursor := "0"; ; {
		reply, err := r.Redis.Do(ctx, "KEYP.POLICY", "APPLY", r.Name, "CURSOR", cursor,
			"COUNT", 1000).Slice()
		if err != nil {
			return changed, err
		}
		changed += reply[2].(int64)
		if cursor = reply[0].(string); cursor == "0" {
			return changed, nil
		}
	}
}

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	for i := range 3 {
		if err := rdb.Set(ctx, fmt.Sprint("cart:", i), "old", 0).Err(); err != nil {
			return err
		}
	}
	rule := Rule{rdb, "lifetime", "*", 90 * 24 * time.Hour}
	if err := rule.Warn(ctx); err != nil {
		return err
	}
	use := func(key string, lifetime time.Duration) error {
		return rdb.Set(ctx, key, "data", lifetime).Err()
	}
	for i := range 5 {
		if err := use(fmt.Sprint("user:", i), 0); err != nil {
			return err
		}
	}
	if err := use("report", 1000*24*time.Hour); err != nil {
		return err
	}
	defaulted, cut, err := rule.Counts(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "it would give %d keys a deadline, and %d an earlier one\n", defaulted, cut)
	kinds, err := rule.Untimed(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "without a deadline: %d carts, %d users\n", kinds["cart"], kinds["user"])
	if err := rule.Enforce(ctx); err != nil {
		return err
	}
	changed, err := rule.Apply(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d keys have got another deadline\n", changed)
	if err := use("user:new", 0); err != nil {
		return err
	}
	left, err := rdb.TTL(ctx, "user:new").Result()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "a new one ends in %d days\n", int(left.Round(time.Hour).Hours()/24))
	kinds, err = rule.Untimed(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "without a deadline: %d\n", len(kinds))
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
