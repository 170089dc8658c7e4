package object

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func compareJobs(a, b Job) int {
	if a.Due != b.Due {
		return int(a.Due - b.Due)
	}
	return int(a.Number) - int(b.Number)
}

func sameJob(a, b Job) bool {
	return a.Place() == b.Place() && a.Deliveries == b.Deliveries && a.Receipt == b.Receipt &&
		bytes.Equal(a.ID, b.ID) && bytes.Equal(a.Payload, b.Payload)
}

// TestDelayQueue: whatever operations were done, a queue has the jobs that were put into it, in
// their order.
func TestDelayQueue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q, model := NewDelayQueue(), map[string]Job{}
		drawID := func() string { return fmt.Sprint("job:", rapid.IntRange(0, 400).Draw(rt, "id")) }
		put := func(many int) {
			for range many {
				id := drawID()
				j := Job{
					ID: []byte(id), Due: rapid.Int64Range(0, 50).Draw(rt, "due"),
					Number:     q.NextNumber(),
					Deliveries: rapid.Uint64Range(0, 300).Draw(rt, "deliveries"),
					Receipt:    rapid.Uint64Range(0, 1).Draw(rt, "receipt") << 50,
					Payload: bytes.Repeat([]byte("p"),
						rapid.SampledFrom([]int{0, 10, 500, 6000}).Draw(rt, "size")),
				}
				if old, ok := model[id]; ok && rapid.Bool().Draw(rt, "moves") {
					j.Number = old.Number
				}
				if err := q.Put(j.ID, j.Append(nil), 0); err != nil {
					rt.Fatal(err)
				}
				model[id] = j
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put":      func(*rapid.T) { put(1) },
			"put many": func(*rapid.T) { put(50) },
			"remove": func(*rapid.T) {
				for range rapid.SampledFrom([]int{1, 100}).Draw(rt, "many") {
					id := drawID()
					q.Remove([]byte(id))
					delete(model, id)
				}
			},
			"remove the first": func(*rapid.T) {
				var id []byte
				q.From(JobPlace{}, func(j Job) bool { id = bytes.Clone(j.ID); return false })
				q.Remove(id)
				delete(model, string(id))
			},
			"clone":   func(*rapid.T) { q = q.Clone().(*DelayQueue) },
			"reload":  func(*rapid.T) { q = reloaded(rt, q) },
			"restore": func(*rapid.T) { restore(rt, q) },
			"":        func(rt *rapid.T) { checkQueue(rt, q, model) },
		})
	})
}

// reloaded returns the queue as a load from disk makes it, with the elements put in another order.
func reloaded(rt *rapid.T, q *DelayQueue) *DelayQueue {
	to := NewDelayQueue()
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		cursor = q.Scan(cursor, 10, func(elem, val []byte, deadline int64) {
			if err := to.Put(elem, val, deadline); err != nil {
				rt.Fatal(err)
			}
		})
	}
	return to
}

// restore makes a queue as RESTORE would: the same jobs in the same order, with no job being
// reserved.
func restore(rt *rapid.T, q *DelayQueue) {
	to := NewDelayQueue()
	var want []Job
	q.From(JobPlace{}, func(j Job) bool {
		if j.Receipt != 0 && to.Restore(j.ID, j.Append(nil)) == nil {
			rt.Fatal("a job that somebody has is restored")
		}
		j.Receipt = 0
		want = append(want, j)
		if err := to.Restore(j.ID, j.Append(nil)); err != nil {
			rt.Fatal(err)
		}
		return true
	})
	i := 0
	to.From(JobPlace{}, func(j Job) bool {
		if j.Number = want[i].Number; !sameJob(j, want[i]) {
			rt.Fatalf("restored, job %d is %s, want %s", i, j.ID, want[i].ID)
		}
		i++
		return true
	})
	if i != len(want) || to.Delivered() != 0 {
		rt.Fatalf("restored are %d of %d jobs, %d of them delivered", i, len(want), to.Delivered())
	}
}

func checkQueue(rt *rapid.T, q *DelayQueue, model map[string]Job) {
	var want []Job
	delivered := 0
	for _, j := range model {
		want = append(want, j)
		if j.Receipt != 0 {
			delivered++
		}
	}
	slices.SortFunc(want, compareJobs)
	if q.Len() != len(want) || q.Delivered() != delivered || q.LenAt(1000) != len(want) ||
		q.Earliest() != 0 {
		rt.Fatalf("it has %d jobs, %d delivered, want %d, %d", q.Len(), q.Delivered(),
			len(want), delivered)
	}
	i := 0
	same := func(j Job) bool {
		if i == len(want) || !sameJob(j, want[i]) {
			rt.Fatalf("job %d is %s at %v", i, j.ID, j.Place())
		}
		i++
		return true
	}
	q.From(JobPlace{}, same)
	if i != len(want) {
		rt.Fatalf("From visits %d of %d", i, len(want))
	}
	i = 0
	q.Walk(func(elem, val []byte, deadline int64) bool {
		j, _ := parseJob(elem, val)
		return same(j) && deadline == 0
	})
	if i != len(want) {
		rt.Fatalf("Walk visits %d of %d", i, len(want))
	}
	first, last, ok := q.Ends()
	if ok != (len(want) > 0) ||
		ok && (first != want[0].Place() || last != want[len(want)-1].Place()) {
		rt.Fatalf("it begins at %v and ends at %v", first, last)
	}
	now := rapid.Int64Range(0, 60).Draw(rt, "now")
	due := 0
	for _, j := range want {
		if j.Due <= now {
			due++
		}
	}
	if got := q.DueBy(now); got != due {
		rt.Fatalf("%d are due by %d, want %d", got, now, due)
	}
	if len(want) == 0 {
		return
	}
	at := rapid.IntRange(0, len(want)-1).Draw(rt, "at")
	from := want[at].Place()
	if rapid.Bool().Draw(rt, "behind") {
		from.Number++
		at++
	}
	i = at
	q.From(from, func(j Job) bool { return same(j) && i < at+3 })
	if i != min(at+3, len(want)) {
		rt.Fatalf("from %v on it visits %d", from, i-at)
	}
	j := want[len(want)/2]
	if got, ok := q.Job(j.ID); !ok || !sameJob(got, j) {
		rt.Fatalf("job %s is %s at %v", j.ID, got.ID, got.Place())
	}
	if val, deadline, ok := q.Element(j.ID); !ok || deadline != 0 ||
		!bytes.Equal(val, j.Append(nil)) {
		rt.Fatalf("the element of job %s is %q", j.ID, val)
	}
	if _, ok := q.Job([]byte("none")); ok {
		rt.Fatal("it has a job that it never had")
	}
}

func TestDelayElements(t *testing.T) {
	q := NewDelayQueue()
	j := Job{ID: []byte("id"), Due: MaxJobDue, Number: 7, Payload: []byte("p")}
	good := j.Append(nil)
	for name, e := range map[string]struct {
		elem, val []byte
		deadline  int64
	}{
		"no id": {nil, good, 0}, "a long id": {bytes.Repeat([]byte("x"), MaxJobID+1), good, 0},
		"a deadline": {j.ID, good, 1},
		"no value":   {j.ID, nil, 0}, "half a due time": {j.ID, good[:5], 0},
		"no number": {j.ID, good[:6], 0}, "no deliveries": {j.ID, good[:7], 0},
		"no receipt":      {j.ID, good[:8], 0},
		"a large number":  {j.ID, (&Job{Number: maxJobNumber}).Append(nil), 0},
		"many deliveries": {j.ID, (&Job{Deliveries: maxJobNumber}).Append(nil), 0},
	} {
		if err := q.Put(e.elem, e.val, e.deadline); err == nil {
			t.Errorf("it takes an element with %s", name)
		}
		if TypeDelay.Names(e.elem) != (len(e.elem) == 2) {
			t.Errorf("it names an element with %s", name)
		}
	}
	if err := q.Put(bytes.Repeat([]byte("x"), MaxJobID), good, 0); err != nil {
		t.Error(err)
	}
	if err := q.Restore(j.ID, good[:5]); err == nil {
		t.Error("it restores half a job")
	}
	// Numbers continue after the existing ones, and payloads may be empty.
	if q.NextNumber() != 8 {
		t.Errorf("the next number is %d", q.NextNumber())
	}
	q.Remove([]byte("none"))
	if err := q.Put([]byte("empty"), good[:9], 0); err != nil || q.Len() != 2 {
		t.Errorf("an empty payload: %v, %d jobs", err, q.Len())
	}
}

// TestDelayMemory: the memory of a queue with many jobs is bounded by the size of the jobs.
func TestDelayMemory(t *testing.T) {
	const n, payload = 200_000, 256
	q, size := NewDelayQueue(), 0
	for i := range n {
		j := Job{ID: fmt.Appendf(nil, "%036d", i), Due: 1_700_000_000_000 + int64(i)*7919%1_000_000,
			Number: q.NextNumber(), Payload: bytes.Repeat([]byte{'x'}, payload)}
		size += len(j.ID) + len(j.Payload) + 8
		if err := q.Put(j.ID, j.Append(nil), 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := float64(q.Bytes()) / float64(size); got > 1.3 {
		t.Errorf("%d jobs take %.2f times their bytes", n, got)
	} else {
		t.Logf("%.3f times the bytes: arena %d, index %d, dense %d, order %d, of %d", got,
			q.big.arena.bytes()/n, q.big.index.Bytes()/n, q.big.dense.bytes()/n,
			q.big.scores.bytes()/n, size/n)
	}
}

// TestDelayRestoreBounds: a job from elsewhere is refused if its count of deliveries is too high.
// An accepted job can still be delivered again and again.
func TestDelayRestoreBounds(t *testing.T) {
	for _, deliveries := range []uint64{0, 1 << 48, 1<<48 + 1, 1<<56 - 1, 1 << 56, 1<<64 - 1} {
		q := NewDelayQueue()
		j := Job{ID: []byte("a"), Due: MaxJobDue, Number: 1<<56 - 1, Deliveries: deliveries}
		err := q.Restore(j.ID, j.Append(nil))
		if (err == nil) != (deliveries <= 1<<48) {
			t.Errorf("%d deliveries: %v", deliveries, err)
		}
		if err != nil {
			continue
		}
		got, _ := q.Job(j.ID)
		if got.Number != 1 {
			t.Errorf("number %d", got.Number)
		}
		for range 10 {
			got.Deliveries++
			if err := q.Put(got.ID, got.Append(nil), 0); err != nil {
				t.Errorf("after %d deliveries: %v", got.Deliveries, err)
			}
		}
	}
}
