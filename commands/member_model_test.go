package commands

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// memberModel is the model of a set: members and their deadlines, or 0 for none.
type memberModel map[string]int64

// at removes the members that have expired at this time, and returns the set.
func (m memberModel) at(now int64) memberModel {
	for member, deadline := range m {
		if deadline != 0 && deadline <= now {
			delete(m, member)
		}
	}
	return m
}

// TestMemberDeadlinesProperty: sets and sorted sets always have exactly the expected members and
// deadlines. This holds in every encoding and size, over restarts and as time passes, whether the
// reaper or a command comes first.
func TestMemberDeadlinesProperty(t *testing.T) {
	harnesses := []*harness{newHarness(t), newHarness(t)}
	harnesses[1].save = false // restarts replay the log
	rapid.Check(t, func(t *rapid.T) {
		h := harnesses[rapid.IntRange(0, 1).Draw(t, "harness")]
		h.t = t
		h.do("FLUSHALL")
		sets := map[string]memberModel{"s": {}, "z": {}}
		size := rapid.SampledFrom([]int{4, 300}).Draw(t, "size")
		member := rapid.Map(rapid.IntRange(0, size), func(n int) string {
			if n%2 == 0 {
				return strconv.Itoa(n)
			}
			return fmt.Sprint("m", n)
		})
		add := func(key, m string) {
			args := []string{"SADD", key, m}
			if key == "z" {
				args = []string{"ZADD", key, strconv.Itoa(len(m)), m}
			}
			want := "1"
			if _, ok := sets[key].at(h.clock.Now())[m]; ok {
				want = "0"
			} else {
				sets[key][m] = 0
			}
			must(t, h, want, args...)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key, m := rapid.SampledFrom([]string{"s", "z"}).Draw(t, "key"), member.Draw(t, "member")
			now := h.clock.Now()
			model := sets[key].at(now)
			deadline, there := model[m]
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				add(key, m)
			case 2:
				for i := range size {
					add(key, fmt.Sprint("m", i))
				}
			case 3, 4:
				ms := rapid.SampledFrom([]int64{-1, 0, 1, 500, 1000, 100_000}).Draw(t, "delay")
				must(t, h, count(there), "EXPIREMEMBER", key, m, strconv.FormatInt(ms, 10), "ms")
				if there {
					model[m] = now + ms
				}
			case 5:
				must(t, h, count(deadline != 0), "PERSIST", key, m)
				if there {
					model[m] = 0
				}
			case 6:
				name := map[string]string{"s": "SREM", "z": "ZREM"}[key]
				must(t, h, count(there), name, key, m)
				delete(model, m)
			case 7:
				h.clock.Advance(time.Duration(rapid.SampledFrom([]int{1, 499, 1000}).Draw(t,
					"advance")) * time.Millisecond)
			case 8:
				h.store.Reap()
			case 9:
				if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
					h.reopen()
				}
			}
			checkMembers(t, h, key, sets[key].at(h.clock.Now()), m)
		}
	})
}

func count(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

// checkMembers compares a key and the deadline of one member with the model.
func checkMembers(t *rapid.T, h *harness, key string, model memberModel, m string) {
	t.Helper()
	list, size := []string{"SMEMBERS", key}, "SCARD"
	if key == "z" {
		list, size = []string{"ZRANGE", key, "0", "-1"}, "ZCARD"
	}
	must(t, h, strconv.Itoa(len(model)), size, key)
	must(t, h, count(len(model) > 0), "EXISTS", key)
	for _, got := range replied(h.do(list...)) {
		if _, ok := model[got]; !ok {
			t.Fatalf("%s has %q", key, got)
		}
	}
	want := "-2"
	if deadline, ok := model[m]; ok && deadline == 0 {
		want = "-1"
	} else if ok {
		want = strconv.FormatInt(deadline-h.clock.Now(), 10)
	}
	must(t, h, want, "PTTL", key, m)
}
