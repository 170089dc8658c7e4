package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"keyp/internal/config"
)

// TestRanges starts servers with each numeric option at its minimum and at its maximum. It writes
// values of all types and finds them again after a restart. The server refuses a value outside an
// option's range, and reports the range.
func TestRanges(t *testing.T) {
	// With these options the server is only started. Otherwise there would be no second client, no
	// room to grow, or 2 GB to write before a checkpoint begins.
	alone := map[string]bool{"maxclients": true, "disk-reserve": true, "wal-segment-size": true}
	// The test sets these options itself, or they only delay everything (debug-sync-delay: a minute
	// for each sync).
	left := map[string]bool{"port": true, "tls-port": true, "debug-sync-delay": true}
	var least, greatest []string
	databases := map[string]int64{}
	for _, r := range config.New().Ranges() {
		if left[r.Name] {
			continue
		}
		low, high := []string{"--" + r.Name, strconv.FormatInt(r.Min, 10)},
			[]string{"--" + r.Name, strconv.FormatInt(r.Max, 10)}
		if alone[r.Name] {
			for _, args := range [][]string{low, high} {
				p := startKeyp(t, t.TempDir(), args...)
				if err := p.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				p.status(t)
			}
			continue
		}
		least, greatest = append(least, low...), append(greatest, high...)
		if r.Name == "databases" {
			databases["least"], databases["greatest"] = r.Min, r.Max
		}
	}
	for name, args := range map[string][]string{"least": least, "greatest": greatest} {
		t.Run(name, func(t *testing.T) { tryOptions(t, args, databases[name]) })
	}
	for _, r := range config.New().Ranges() {
		var beyond []string
		if r.Min > -1<<62 {
			beyond = append(beyond, strconv.FormatInt(r.Min-1, 10))
		}
		if r.Max < 1<<62 {
			beyond = append(beyond, strconv.FormatInt(r.Max+1, 10))
		}
		for _, v := range beyond {
			_, err := config.Load([]string{"--" + r.Name, v}, nil, nil)
			want := fmt.Sprintf("argument must be between %d and %d inclusive", r.Min, r.Max)
			if err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(),
				"memory value") {
				t.Errorf("--%s %s gave %v, want %s", r.Name, v, err, want)
			}
		}
	}
}

func tryOptions(t *testing.T, args []string, databases int64) {
	dir := t.TempDir()
	write := []string{"set s v", "append s v", "hset h f v g w", "rpush l a b", "sadd i 1 2",
		"sadd m a b", "zadd z 1 a 2 b", "save"}
	read := map[string]string{"get s": "vv", "hlen h": "2", "llen l": "2", "scard i": "2",
		"scard m": "2", "zcard z": "2", "dbsize": "6"}
	for round := range 2 {
		p := startKeyp(t, dir, args...)
		c := p.client(t).Conn()
		do := func(line string) string {
			var words []any
			for _, w := range strings.Fields(line) {
				words = append(words, w)
			}
			got, err := c.Do(context.Background(), words...).Result()
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return fmt.Sprint(got)
		}
		do(fmt.Sprint("select ", databases-1))
		if round == 0 {
			for _, line := range write {
				do(line)
			}
		}
		for line, want := range read {
			if got := do(line); got != want {
				t.Errorf("%s gave %s, want %s", line, got, want)
			}
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		p.status(t)
	}
}
