package storage

import (
	"time"

	"pgregory.net/rapid"

	"keyp/ttl"
)

// now is the store's time, as the model has it.
func (h *harness) now() int64 { return h.clock.Now() - h.ahead }

// tags is how many guards can be distinguished by the deadlines that count from their time: see
// tagged.
const tags = 50

// tagged makes a deadline one that counts from guarded time, or not. The deadline itself says which
// guard that is: its rest by 2*tags is odd and the guard's own.
func (m *machine) tagged(deadline int64, relative bool) int64 {
	deadline += deadline & 1
	if relative {
		deadline += (m.tag() - deadline%(2*tags) + 2*tags) % (2 * tags)
	}
	return deadline
}

// given is a deadline as a command gives it: one that has the present guard's tag counts from now.
func (m *machine) given(deadline int64) ttl.Deadline {
	return ttl.Deadline{At: deadline, FromNow: m.h.ahead != 0 && deadline%(2*tags) == m.tag()}
}

func (m *machine) tag() int64 { return 2*(m.guards%tags) + 1 }

// stepForward moves the wall clock forward so far that time is guarded.
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

// stepEnds confirms the step, by an operator or because patience is over, or takes it back.
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

// moved are the keys with all deadlines of a tag moved.
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
