package restart

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// clockFields returns the fields of KEYP.CLOCK INFO.
func clockFields(t *testing.T, c *redis.Client) map[any]any {
	t.Helper()
	reply, err := c.Do(ctx, "KEYP.CLOCK", "INFO").Result()
	fields, ok := reply.(map[any]any)
	if err != nil || !ok {
		t.Fatalf("KEYP.CLOCK: %v, %v", reply, err)
	}
	return fields
}

// TestClockGuard steps the server's clock forward by a day, while the server runs and while it is
// down. Keys that are due only because of the step do not expire until the step is confirmed. A
// kill or a stop of the server does not change that. After the confirmation, deadlines that
// commands set relative to the guarded time are as far away as before. Other deadlines are not. If
// the clock goes back instead, nothing changes.
func TestClockGuard(t *testing.T) {
	const day = 24 * hour * 1000
	s := testkit.Keyp(t, small...)
	offset := 0
	c := s.Client(3)
	restart := func(by int, kill bool) {
		t.Helper()
		if kill {
			s.Kill()
		} else {
			s.Stop()
		}
		offset += by
		s.SetArgs(append(small[:len(small):len(small)], "--debug-clock-offset",
			fmt.Sprint(offset))...)
		s.Start()
		c = s.Client(3)
	}
	state := func(when, want string) {
		t.Helper()
		if got := clockFields(t, c)["state"]; got != want {
			t.Fatalf("%s: the state of the clock is %v, want %s", when, got, want)
		}
	}
	ttl := func(key string) time.Duration {
		t.Helper()
		d, err := c.PTTL(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	do(t, c, "SET", "hour", "v", "EX", 3600)
	restart(0, true)
	state("after a kill", "follows")
	restart(day, true)
	state("after a step while it was down", "guarded")
	if n := c.Exists(ctx, "hour").Val(); n != 1 {
		t.Error("a key has expired before its time")
	}
	at, err := c.Time(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	do(t, c, "SET", "relative", "v", "EX", 3600)
	do(t, c, "HSET", "fields", "f", "v")
	do(t, c, "HEXPIRE", "fields", 3600, "FIELDS", 1, "f")
	do(t, c, "SET", "absolute", "v", "EXAT", at.Unix()+3600)
	do(t, c, "SET", "soon", "v", "PX", 50)
	await.Until(t, "what is due by the guarded time is removed", func() bool {
		return c.DBSize(ctx).Val() == 4
	})
	restart(0, true)
	state("after a kill", "guarded")
	restart(0, false)
	state("after a stop", "guarded")
	if left := ttl("relative"); left <= 0 || left > time.Hour {
		t.Errorf("%v are left of the hour", left)
	}
	if got := do(t, c, "KEYP.CLOCK", "CONFIRM"); got != "OK" {
		t.Errorf("CONFIRM: %v", got)
	}
	state("confirmed", "follows")
	for key, want := range map[string]bool{"hour": false, "absolute": false, "relative": true,
		"fields": true} {
		if got := c.Exists(ctx, key).Val() == 1; got != want {
			t.Errorf("%s is there: %t, want %t", key, got, want)
		}
	}
	left := []time.Duration{ttl("relative"), 0}
	fields, err := c.HPTTL(ctx, "fields", "f").Result()
	if err != nil || len(fields) != 1 {
		t.Fatalf("%v, %v", fields, err)
	}
	left[1] = time.Duration(fields[0]) * time.Millisecond
	for _, d := range left {
		if d <= 0 || d > time.Hour {
			t.Errorf("%v are left of the hour, by a clock that stepped by a day", d)
		}
	}
	restart(0, true)
	state("after another kill", "follows")

	do(t, c, "DEBUG", "CLOCK-OFFSET", 2*day)
	state("after a step while it ran", "guarded")
	if n := c.Exists(ctx, "relative").Val(); n != 1 {
		t.Error("a key has expired before its time")
	}
	do(t, c, "DEBUG", "CLOCK-OFFSET", day)
	await.Until(t, "the clock is back", func() bool {
		return clockFields(t, c)["state"] == "follows"
	})
	if d := ttl("relative"); d <= 0 || d > time.Hour {
		t.Errorf("%v are left of the hour", d)
	}
	do(t, c, "CONFIG", "SET", "clock-jump-patience", 1)
	do(t, c, "DEBUG", "CLOCK-OFFSET", 2*day)
	await.Until(t, "patience is over", func() bool {
		return clockFields(t, c)["state"] == "follows" && c.Exists(ctx, "relative").Val() == 0
	})
	s.Stop()
	checkSound(t, s)
}
