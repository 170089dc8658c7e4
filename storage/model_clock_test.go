package storage

import (
	"time"

	"pgregory.net/rapid"

	"keyp/ttl"
)

// now returns the store's time according to the model.
func (h *harness) now() int64 { return h.clock.Now() - h.ahead }

// tags is the number of clock guards that deadlines counted from guarded time can distinguish: see
// tagged.
const tags = 50

// tagged changes a deadline slightly, to mark whether it counts from guarded time. If it does, its
// remainder by 2*tags is the guard's tag, an odd number. Other deadlines are even.
func (m *machine) tagged(deadline int64, relative bool) int64 {
	deadline += deadline & 1
	if relative {
		deadline += (m.tag() - deadline%(2*tags) + 2*tags) % (2 * tags)
	}
	return deadline
}

// given returns a deadline as a command sets it. If the deadline has the present guard's tag, it
// counts from now.
func (m *machine) given(deadline int64) ttl.Deadline {
	return ttl.Deadline{At: deadline, FromNow: m.h.ahead != 0 && deadline%(2*tags) == m.tag()}
}

func (m *machine) tag() int64 { return 2*(m.guards%tags) + 1 }

// stepForward moves the wall clock so far forward that the guard begins.
func (m *machine) stepForward(rt *rapid.T) {
	h := m.h
	h.s.Manual().KeepClock() // the next start knows of steps back
	if h.ahead == 0 {
		m.guards++
	}
	step := testJump + rapid.Int64Range(minute, 48*hour).Draw(rt, "ms")
	h.clock.Set(h.clock.Now() + step)
	h.ahead += step
	h.s.Manual().KeepClock()
	h.commit()
}

// stepEnds ends the step: an operator confirms it, its patience runs out, or the clock goes back.
func (m *machine) stepEnds(rt *rapid.T) {
	h := m.h
	if h.ahead == 0 {
		return
	}
	how := rapid.SampledFrom([]string{"confirmed", "patience", "back"}).Draw(rt, "how")
	if how == "back" {
		h.clock.Set(h.now())
	} else if h.ahead&1 == 0 { // so that no deadline that moves is tagged any more
		h.clock.Set(h.clock.Now() + 1)
		h.ahead++
	}
	if how != "back" {
		h.model = h.model.live(h.now()).moved(h.ahead, m.tag())
	}
	h.ahead = 0
	switch how {
	case "confirmed":
		if err := h.s.ConfirmClock(); err != nil {
			rt.Fatal(err)
		}
	case "patience":
		h.s.SetClockGuard(h.jumpLimit, time.Nanosecond)
		h.s.Manual().KeepClock()
		h.s.SetClockGuard(h.jumpLimit, h.jumpPatience)
	default:
		h.s.Manual().KeepClock()
	}
	if got := h.s.now(); got != h.now() {
		rt.Fatalf("%s: time is %d ms ahead", how, got-h.now())
	}
	h.commit()
}

// moved returns the keys, with all deadlines of a tag moved.
func (m model) moved(by, tag int64) model {
	move := func(deadline int64) int64 {
		if deadline%(2*tags) == tag {
			deadline += by
		}
		return deadline
	}
	c := model{}
	for n, v := range m {
		if !v.fixed {
			v.deadline = move(v.deadline)
		}
		if v.coll != nil {
			v.coll = v.coll.clone()
			for i := range v.coll.elems {
				v.coll.elems[i].deadline = move(v.coll.elems[i].deadline)
			}
		}
		c[n] = v
	}
	return c
}
