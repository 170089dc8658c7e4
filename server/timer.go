package server

import (
	"container/heap"
	"time"
)

// timer is a function, run, that the loop calls at a certain time of its monotonic clock. The owner
// of a timer sets and stops it by methods of timers. It may be set again, even by run.
type timer struct {
	at    time.Duration
	run   func()
	index int // place in the heap and one; 0: not set
}

// timers are the loop's timers, the earliest first.
type timers struct{ heap timerHeap }

func (ts *timers) set(t *timer, at time.Duration) {
	t.at = at
	if t.index > 0 {
		heap.Fix(&ts.heap, t.index-1)
		return
	}
	heap.Push(&ts.heap, t)
}

func (ts *timers) stop(t *timer) {
	if t != nil && t.index > 0 {
		heap.Remove(&ts.heap, t.index-1)
	}
}

// next returns the time until the first timer; ok is false if there is none.
func (ts *timers) next(now time.Duration) (wait time.Duration, ok bool) {
	if len(ts.heap) == 0 {
		return 0, false
	}
	return max(0, ts.heap[0].at-now), true
}

// fire runs what is due. A timer that is set again for a time already past runs in
// the next call, so that this one ends.
func (ts *timers) fire(now time.Duration) {
	for n := len(ts.heap); n > 0 && len(ts.heap) > 0 && ts.heap[0].at <= now; n-- {
		t := ts.heap[0]
		heap.Pop(&ts.heap)
		t.run()
	}
}

type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	*h = append(*h, t)
	t.index = len(*h)
}

func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = 0
	return t
}
