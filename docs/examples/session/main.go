// Session keeps log-in sessions as JSON under session:<user>:<session>. A session ends an hour
// after log-in, at log-out, or when an administrator ends all sessions of a user.
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

// Session is the data of a log-in.
type Session struct {
	UserID       string    `json:"user_id"`
	ID           string    `json:"session_id"`
	AccessToken  string    `json:"access_token"`
	RefreshToken string    `json:"refresh_token"`
	CreatedAt    time.Time `json:"created_at"`
}

// Sessions stores sessions, each for Lifetime.
type Sessions struct {
	Redis    *redis.Client
	Lifetime time.Duration
}

func key(user, session string) string { return "session:" + user + ":" + session }

// Save stores a session together with its deadline, so it is never without one.
func (s Sessions) Save(ctx context.Context, session Session) error {
	data, err := json.Marshal(session)
	if err != nil {
		return err
	}
	return s.Redis.Set(ctx, key(session.UserID, session.ID), data, s.Lifetime).Err()
}

// Get returns a session; ok is false if it has ended or never existed.
func (s Sessions) Get(ctx context.Context, user, id string) (session Session, ok bool, err error) {
	data, err := s.Redis.Get(ctx, key(user, id)).Bytes()
	if errors.Is(err, redis.Nil) {
		return Session{}, false, nil
	}
	if err != nil {
		return Session{}, false, err
	}
	err = json.Unmarshal(data, &session)
	return session, err == nil, err
}

// End ends a session at log-out.
func (s Sessions) End(ctx context.Context, user, id string) error {
	return s.Redis.Del(ctx, key(user, id)).Err()
}

// EndAll ends every session of a user and returns their number.
func (s Sessions) EndAll(ctx context.Context, user string) (ended int64, err error) {
	all := s.Redis.Scan(ctx, 0, key(user, "*"), 1000).Iterator()
	for all.Next(ctx) {
		n, err := s.Redis.Del(ctx, all.Val()).Result()
		if err != nil {
			return ended, err
		}
		ended += n
	}
	return ended, all.Err()
}

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	sessions := Sessions{Redis: rdb, Lifetime: time.Hour}
	const user = "550e8400-e29b-41d4-a716-446655440000"
	for _, id := range []string{"sess-phone", "sess-laptop", "sess-tablet"} {
		err := sessions.Save(ctx, Session{UserID: user, ID: id, AccessToken: "eyJ…",
			RefreshToken: "eyJ…", CreatedAt: time.Now()})
		if err != nil {
			return err
		}
	}
	if err := sessions.End(ctx, user, "sess-tablet"); err != nil {
		return err
	}
	for _, id := range []string{"sess-phone", "sess-tablet"} {
		_, ok, err := sessions.Get(ctx, user, id)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s logged in: %v\n", id, ok)
	}
	ended, err := sessions.EndAll(ctx, user)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "sessions ended by an administrator: %d\n", ended)
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
