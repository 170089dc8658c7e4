package server

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/internal/testkit/await"
)

// TestOutputNeverShowsTheUndurable writes replies with and without LSNs in passes of the loop, and
// takes out the bytes that may leave. They must be the longest prefix of replies whose LSNs are all
// durable. The replies of one pass leave together, when the highest of their LSNs is durable.
func TestOutputNeverShowsTheUndurable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type reply struct {
			end  int // position in all that was written
			lsn  uint64
			pass uint64
		}
		var (
			pool    bufferPool
			o       output
			replies []reply
			written []byte
			sent    []byte
			lsn     uint64
			durable uint64
			pass    uint64
		)
		write := func() {
			text := bytes.Repeat([]byte{byte('a' + len(replies)%26)},
				rapid.SampledFrom([]int{1, 5, 300, 20_000, blockSize}).Draw(t, "size"))
			var mark int
			if rapid.IntRange(0, 3).Draw(t, "how") == 0 {
				mark = o.add(bytes.Clone(text), &pool)
			} else {
				o.begin(&pool)
				mark = o.w.Len()
				o.w.Buf = append(o.w.Buf, text...)
			}
			written = append(written, text...)
			r := reply{end: len(written), pass: pass}
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				lsn++
				r.lsn = lsn
			case 1:
				r.lsn = uint64(rapid.IntRange(0, int(lsn)).Draw(t, "seen"))
			}
			if r.lsn > durable {
				o.depend(mark, r.lsn, pass)
			}
			replies = append(replies, r)
		}
		// allowed returns how many of the written bytes may have left.
		allowed := func() (most int) {
			for _, r := range replies {
				if r.lsn > durable {
					break
				}
				most = r.end
			}
			return most
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(*rapid.T) { write() },
			"pass":  func(*rapid.T) { pass++ },
			"durable": func(t *rapid.T) {
				durable = uint64(rapid.IntRange(int(durable), int(lsn)).Draw(t, "to"))
			},
			"send": func(t *rapid.T) {
				ready := o.ready(durable)
				n := rapid.IntRange(0, len(ready)).Draw(t, "taken")
				sent = append(sent, ready[:n]...)
				o.advance(n, &pool)
			},
			"": func(t *rapid.T) {
				if len(sent)+len(o.ready(durable)) > allowed() {
					t.Fatalf("%d bytes may leave, %d are durable", len(sent)+len(o.ready(durable)),
						allowed())
				}
				if len(sent)+o.pending() != len(written) {
					t.Fatalf("%d sent and %d pending of %d", len(sent), o.pending(), len(written))
				}
			},
		})
		durable = lsn
		for ready := o.ready(durable); len(ready) > 0; ready = o.ready(durable) {
			sent = append(sent, ready...)
			o.advance(len(ready), &pool)
		}
		if !bytes.Equal(sent, written) {
			t.Fatal("what left is not what was written")
		}
	})
}

// TestOutputThatWaitsStays: when much output waits, adding more does not move it. The memory used
// is about the size of the waiting output.
func TestOutputThatWaitsStays(t *testing.T) {
	var pool bufferPool
	var o output
	const size, many = 100_000, 300
	var first *byte
	for range many {
		o.begin(&pool)
		o.w.Buf = append(o.w.Buf, make([]byte, size)...)
		if ready := o.ready(0); first == nil {
			first = &ready[0]
		} else if first != &ready[0] {
			t.Fatal("what waits has moved")
		}
	}
	if o.pending() != many*size || o.memory() > many*size*3/2 {
		t.Errorf("%d bytes wait in %d, want %d", o.pending(), o.memory(), many*size)
	}
	for o.pending() > 0 {
		o.advance(len(o.ready(0)), &pool)
	}
	if o.memory() != 0 {
		t.Errorf("empty, it takes %d bytes", o.memory())
	}
}

func TestOutputGivesLargeBuffersBack(t *testing.T) {
	var pool bufferPool
	var o output
	o.begin(&pool)
	o.w.Buf = append(o.w.Buf, make([]byte, 8<<20)...)
	o.advance(8<<20-10, &pool)
	o.begin(&pool)
	if o.pending() != 10 || o.memory() > 2*pooledLargest {
		t.Fatalf("%d bytes pending in %d", o.pending(), o.memory())
	}
	o.advance(10, &pool)
	if o.memory() != 0 || len(pool.free) != 1 {
		t.Fatalf("empty, it takes %d bytes; %d buffers in the pool", o.memory(), len(pool.free))
	}
}

// TestTimersFireInOrder compares the timers with a plain list.
func TestTimersFireInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ts timers
		var fired []int
		all := make([]*timer, 8)
		set := map[int]time.Duration{}
		for i := range all {
			all[i] = &timer{run: func() { fired = append(fired, i) }}
		}
		var now time.Duration
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "timer")
				set[i] = now + time.Duration(rapid.IntRange(-2, 20).Draw(t, "in"))
				ts.set(all[i], set[i])
			},
			"stop": func(t *rapid.T) {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "timer")
				ts.stop(all[i])
				delete(set, i)
			},
			"advance": func(t *rapid.T) {
				now += time.Duration(rapid.IntRange(0, 5).Draw(t, "by"))
				fired = fired[:0]
				ts.fire(now)
				for n, i := range fired {
					at, ok := set[i]
					if !ok || at > now {
						t.Fatalf("timer %d fired at %v, set %v %v", i, now, at, ok)
					}
					if n > 0 && set[fired[n-1]] > at {
						t.Fatalf("out of order: %v", fired)
					}
				}
				for _, i := range fired {
					delete(set, i)
				}
			},
			"": func(t *rapid.T) {
				want, any := time.Duration(0), false
				for _, at := range set {
					if left := max(0, at-now); !any || left < want {
						want, any = left, true
					}
				}
				if got, ok := ts.next(now); ok != any || got != want {
					t.Fatalf("next is %v %v, want %v %v", got, ok, want, any)
				}
			},
		})
	})
}

// TestTimerSetAgainWhileItRuns: a timer that sets itself again does not run for ever within one
// call.
func TestTimerSetAgainWhileItRuns(t *testing.T) {
	var ts timers
	runs := 0
	var again timer
	again.run = func() { runs++; ts.set(&again, 0) }
	ts.set(&again, 0)
	ts.fire(10)
	ts.fire(10)
	if runs != 2 {
		t.Fatalf("%d runs in two calls", runs)
	}
}

// TestLongRepliesLeaveInPieces: however fast a client reads, the server sends at most one piece of
// a long reply before other clients have their turns.
func TestLongRepliesLeaveInPieces(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	s := ts.sessionOf(c)
	long := strings.Repeat("x", 5*sendTurn)
	ts.onLoop(func(l *loop) {
		s.out.add([]byte("+"+long+"\r\n"), &l.buffers)
		l.flush(s)
		if left := s.out.pending(); left < 4*sendTurn || left == len(long)+3 {
			t.Errorf("%d bytes of %d are left", left, len(long))
		}
		if !s.full && len(l.unsent) != 1 {
			t.Error("nobody is to send the rest")
		}
	})
	c.expect("+" + long)
}

// TestUnwantedReplyWaitsForNothing: a client that wants no reply to a write reads all earlier
// output while the write is not durable yet. None of that output waits for the log.
func TestUnwantedReplyWaitsForNothing(t *testing.T) {
	d := &disk{}
	ts := start(t, d.use)
	c, other := ts.dial(), ts.dial()
	s := ts.sessionOf(c)
	const size = outputPause / 4
	c.raw(multibulk("SET", "long", strings.Repeat("x", size)))
	c.expect("+OK")
	slowDisk(t, ts, d)
	release := d.hold()
	asked := 0
	for full := false; !full; asked++ {
		c.send("GET long\nECHO done\n")
		await.Until(t, "the socket is full or took all", func() bool {
			var took bool
			ts.onLoop(func(*loop) {
				full = s.full
				took = s.client.NetOut >= uint64((asked+1)*size)
			})
			return full || took
		})
	}
	c.send("CLIENT REPLY OFF\nSET a 1\n")
	await.Until(t, "the write has run", func() (ran bool) {
		ts.onLoop(func(l *loop) { ran = l.log.End() > l.log.Durable() })
		return ran
	})
	for range asked {
		c.expect(strings.Repeat("x", size), "done")
	}
	await.Until(t, "the output has left", func() (left bool) {
		ts.onLoop(func(*loop) { left = s.out.pending() == 0 })
		return left
	})
	release()
	if got := other.do("INCR n"); got != ":1" {
		t.Error(got)
	}
	c.send("CLIENT REPLY ON\nGET a\n")
	c.expect("+OK", "1")
}
