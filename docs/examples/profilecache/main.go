// Profilecache caches the profiles of a slow database (cache-aside). A read that misses the cache
// fills it for five minutes; an update drops the cached profile.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// Profile is a user's profile.
type Profile struct {
	UserID    string `json:"user_id"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	Email     string `json:"email"`
}

// Database stores the profiles.
type Database interface {
	Profile(ctx context.Context, user string) (Profile, error)
	Update(ctx context.Context, p Profile) error
}

// Profiles reads profiles through the cache. The cache keeps a profile for Fresh at most.
type Profiles struct {
	Redis    *redis.Client
	Database Database
	Fresh    time.Duration
}

func key(user string) string { return "cache:profile:" + user }

// Get returns a profile, from the cache if it is there.
func (p Profiles) Get(ctx context.Context, user string) (profile Profile, err error) {
	cached, err := p.Redis.Get(ctx, key(user)).Bytes()
	if err == nil {
		err = json.Unmarshal(cached, &profile)
		return profile, err
	}
	if !errors.Is(err, redis.Nil) {
		return profile, err
	}
	if profile, err = p.Database.Profile(ctx, user); err != nil {
		return profile, err
	}
	data, err := json.Marshal(profile)
	if err != nil {
		return profile, err
	}
	return profile, p.Redis.Set(ctx, key(user), data, p.Fresh).Err()
}

// Update changes a profile in the database, and then drops the cached one.
func (p Profiles) Update(ctx context.Context, profile Profile) error {
	if err := p.Database.Update(ctx, profile); err != nil {
		return err
	}
	return p.Redis.Del(ctx, key(profile.UserID)).Err()
}

// memory is a database for this example, which prints each read.
type memory struct {
	profiles map[string]Profile
	out      io.Writer
}

func (m memory) Profile(_ context.Context, user string) (Profile, error) {
	fmt.Fprintln(m.out, "the database is asked for", user)
	return m.profiles[user], nil
}

func (m memory) Update(_ context.Context, p Profile) error {
	m.profiles[p.UserID] = p
	return nil
}

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	taro := Profile{UserID: "u1", FirstName: "太郎", LastName: "山田", Email: "taro@example.com"}
	profiles := Profiles{rdb, memory{map[string]Profile{"u1": taro}, out}, 5 * time.Minute}
	show := func() error {
		p, err := profiles.Get(ctx, "u1")
		fmt.Fprintln(out, p.LastName, p.FirstName, p.Email)
		return err
	}
	for range 2 { // the second comes from the cache
		if err := show(); err != nil {
			return err
		}
	}
	taro.Email = "yamada@example.com"
	if err := profiles.Update(ctx, taro); err != nil {
		return err
	}
	return show()
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	if err := run(context.Background(), rdb, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
