package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestRun: the example cancels an e-mail, sends others after retries, and puts one aside after
// three failures.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), testkit.Keyp(t).Client(3), &out); err != nil {
		t.Fatal(err)
	}
	// Jobs with the same due time are delivered in order. The retries of failed ones may come
	// before or after the reminder.
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(got) < 3 || strings.Join(got[:3],
		"\n") != "reminder:cid is taken back: true\nwelcome:ann: try 1 fails\nwelcome:bob: try 1 fails" {
		t.Errorf("it begins with %q", got)
	}
	want := []string{
		"put aside: welcome:bob after 3 tries", "reminder:ann: sent to ann@example.com",
		"reminder:cid is taken back: true",
		"welcome:ann: sent to ann@example.com", "welcome:ann: try 1 fails",
		"welcome:bob: try 1 fails", "welcome:bob: try 2 fails", "welcome:bob: try 3 fails",
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("it prints\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestKills: workers add and complete jobs while the server is killed again and again. Each
// accepted job is delivered at least once. It is never delivered after a confirmed acknowledgement.
// No receipt is given twice.
func TestKills(t *testing.T) {
	const rounds, workers = 4, 6
	server := testkit.Keyp(t)
	h := history{accepted: map[string]bool{}, delivered: map[string]int{}, done: map[string]int64{},
		receipts: map[string]bool{}}
	for round := range rounds {
		client := server.Client(3)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := 0; h.work(t, client, fmt.Sprint(round, "-", w, "-", i), i%10 == 9); i++ {
				}
			})
		}
		await.Until(t, "the workers are at work", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return len(h.done) >= 100*(round+1)
		})
		server.Kill()
		wg.Wait()
		server.Start()
	}
	client := server.Client(3)
	await.Until(t, "all is done", func() bool {
		h.deliver(t, client, false)
		left, err := client.Do(t.Context(), "KEYP.DELAY", "LEN", "jobs").Int()
		return err == nil && left == 0
	})
	for _, id := range slices.Sorted(maps.Keys(h.accepted)) {
		if h.delivered[id] == 0 {
			t.Errorf("%s was never delivered", id)
		}
	}
}

// history is the knowledge of the workers.
type history struct {
	mu        sync.Mutex
	accepted  map[string]bool
	delivered map[string]int
	done      map[string]int64 // the number of the receipt that was acknowledged
	receipts  map[string]bool
}

// work adds a job and gets some jobs delivered. It returns false when the server is killed.
func (h *history) work(t *testing.T, c *redis.Client, id string, fails bool) bool {
	if c.Do(t.Context(), "KEYP.DELAY", "ADD", "jobs", id, "+5", "text of "+id, "NX").Err() != nil {
		return false
	}
	h.mu.Lock()
	h.accepted[id] = true
	h.mu.Unlock()
	return h.deliver(t, c, fails)
}

// deliver gets some jobs delivered, and acknowledges them or gives them back.
func (h *history) deliver(t *testing.T, c *redis.Client, fails bool) bool {
	jobs, err := c.Do(t.Context(), "KEYP.DELAY", "POP", "jobs", "COUNT", 2, "BLOCK", 20,
		"VISIBILITY", 50).Slice()
	if err != nil {
		return errors.Is(err, redis.Nil)
	}
	for _, j := range jobs {
		id, text, receipt := j.([]any)[0].(string), j.([]any)[1].(string), j.([]any)[2].(string)
		var number int64
		if n, err := fmt.Sscanf(receipt, "%d-"+id, &number); n != 1 || err != nil ||
			text != "text of "+id {
			t.Errorf("job %s has the receipt %s and the payload %q", id, receipt, text)
		}
		h.mu.Lock()
		h.delivered[id]++
		if done := h.done[id]; done != 0 && number > done {
			t.Errorf("%s is delivered with receipt %d, though %d was acknowledged",
				id, number, done)
		}
		if h.receipts[receipt] {
			t.Errorf("receipt %s comes twice", receipt)
		}
		h.receipts[receipt] = true
		h.mu.Unlock()
		command := "ACK"
		if fails {
			command = "NACK"
		}
		valid, err := c.Do(t.Context(), "KEYP.DELAY", command, "jobs", receipt).Int()
		if err != nil {
			return false
		}
		if valid == 1 && !fails {
			h.mu.Lock()
			h.done[id] = number
			h.mu.Unlock()
		}
	}
	return true
}
