package commands

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"keyp/storage"
)

// waitModel is a model of how blocked clients are served. Keys are served in the order in which
// they changed. The waiters of a key are served in the order in which they came, each with its
// whole command. Lists and sorted sets contain rising numbers, so both are in the same order.
type waitModel struct {
	keys    map[string]*modelValue
	waiters []*modelWaiter
	ready   []string
	served  []string
}

type modelValue struct {
	zset  bool
	items []string
}

type modelWaiter struct {
	id   int
	args []string
	keys []string
	zset bool
}

func (m *waitModel) change(key string) {
	if !slices.Contains(m.ready, key) {
		m.ready = append(m.ready, key)
	}
}

func (m *waitModel) push(key, item string) {
	if m.keys[key] == nil {
		m.keys[key] = &modelValue{}
	}
	m.keys[key].items = append(m.keys[key].items, item)
	m.change(key)
}

// pop removes the first or last element of a value that is not empty.
func (m *waitModel) pop(key string, back bool) string {
	v := m.keys[key]
	at := 0
	if back {
		at = len(v.items) - 1
	}
	item := v.items[at]
	if v.items = slices.Delete(v.items, at, at+1); len(v.items) == 0 {
		delete(m.keys, key)
	}
	m.change(key)
	return item
}

// run runs a waiter's command. It returns false if the command has to wait.
func (m *waitModel) run(w *modelWaiter) (reply string, ok bool) {
	const wrongType = "-" + string(ErrWrongType)
	for _, key := range w.keys {
		switch v := m.keys[key]; {
		case v == nil:
			continue
		case v.zset != w.zset:
			return wrongType, true
		}
		switch w.args[0] {
		case "BLMOVE":
			if to := m.keys[w.args[2]]; to != nil && to.zset {
				return wrongType, true
			}
			item := m.pop(key, w.args[3] == "RIGHT")
			m.push(w.args[2], item)
			return fmt.Sprintf("%q", item), true
		case "BZPOPMIN":
			item := m.pop(key, false)
			return fmt.Sprintf("[%q, %q, %q]", key, item, item), true
		default:
			return fmt.Sprintf("[%q, %q]", key, m.pop(key, w.args[0] == "BRPOP")), true
		}
	}
	return "", false
}

// serve serves waiters until no more can be served.
func (m *waitModel) serve() {
	for len(m.ready) > 0 {
		key := m.ready[0]
		m.ready = m.ready[1:]
		for v := m.keys[key]; v != nil; v = m.keys[key] {
			at := slices.IndexFunc(m.waiters, func(w *modelWaiter) bool {
				return w.zset == v.zset && slices.Contains(w.keys, key)
			})
			if at < 0 {
				break
			}
			w := m.waiters[at]
			m.waiters = slices.Delete(m.waiters, at, at+1)
			reply, _ := m.run(w)
			m.served = append(m.served, fmt.Sprint(w.id, " ", reply))
		}
	}
}

// waitRun does the same with the real commands.
type waitRun struct {
	h       *harness
	waiting map[*Client]*realWaiter
	served  []string
}

type realWaiter struct {
	id     int
	args   [][]byte
	waiter *Waiter
}

func (r *waitRun) Enough() bool                 { return false }
func (r *waitRun) Load(storage.Key, func(bool)) { panic("all is in memory") }

func (r *waitRun) Again(w *Waiter) bool {
	it := r.waiting[w.Client]
	reply, _ := render(r.h.raw(it.args...))
	if reply == "+(blocked)" {
		return true
	}
	r.h.env.Waiters.Remove(w)
	delete(r.waiting, w.Client)
	r.served = append(r.served, fmt.Sprint(it.id, " ", reply))
	r.h.env.Changes.Deliver() // as the loop does after each command
	return true
}

// wait runs a blocking command, and makes it wait if there is nothing to take.
func (r *waitRun) wait(id int, args []string) (reply string) {
	it := &realWaiter{id: id}
	for _, arg := range args {
		it.args = append(it.args, []byte(arg))
	}
	reply, _ = render(r.h.raw(it.args...))
	if reply == "+(blocked)" {
		c := &Client{ID: uint64(id)}
		it.waiter = r.h.env.Waiters.Add(c, r.h.ctx.Wait)
		r.waiting[c] = it
		return ""
	}
	return reply
}

// TestWaitersProperty: each waiter gets what the model says, in the model's order. The changes
// include several commands at once, as in EXEC.
func TestWaitersProperty(t *testing.T) {
	h := newHarness(t)
	rapid.Check(t, func(rt *rapid.T) {
		h.t = rt
		h.do("FLUSHALL")
		m := &waitModel{keys: map[string]*modelValue{}}
		r := &waitRun{h: h, waiting: map[*Client]*realWaiter{}}
		defer r.end()
		var history []string
		key := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		end := rapid.SampledFrom([]string{"LEFT", "RIGHT"})
		for n := range rapid.IntRange(1, 40).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "waits") {
				w := &modelWaiter{id: n}
				switch rapid.IntRange(0, 3).Draw(rt, "kind") {
				case 0:
					w.keys = []string{key.Draw(rt, "from")}
					w.args = []string{"BLMOVE", w.keys[0], key.Draw(rt, "to"), end.Draw(rt, "end"),
						"RIGHT", "0"}
				case 1:
					w.zset = true
					w.keys = rapid.SliceOfN(key, 1, 3).Draw(rt, "keys")
					w.args = slices.Concat([]string{"BZPOPMIN"}, w.keys, []string{"0"})
				default:
					w.keys = rapid.SliceOfN(key, 1, 3).Draw(rt, "keys")
					w.args = slices.Concat([]string{rapid.SampledFrom([]string{"BLPOP",
						"BRPOP"}).Draw(rt, "pop")}, w.keys, []string{"0"})
				}
				history = append(history, strings.Join(w.args, " "))
				want, ok := m.run(w)
				if !ok {
					m.waiters = append(m.waiters, w)
				}
				if got := r.wait(n, w.args); got != want {
					rt.Fatalf("%s\nreply %s, want %s", strings.Join(history, "\n"), got, want)
				}
			} else {
				for i := range rapid.IntRange(1, 4).Draw(rt, "commands") {
					history = append(history, m.draw(rt, h, key, fmt.Sprintf("%d", 10*n+i+100)))
				}
			}
			m.serve()
			h.env.Changes.Deliver()
			h.env.Waiters.Serve(h.store.NewTxn(), r)
			if got, want := strings.Join(r.served, "\n"),
				strings.Join(m.served, "\n"); got != want {
				rt.Fatalf("%s\nserved\n%s\nwant\n%s", strings.Join(history, "\n"), got, want)
			}
		}
		if len(r.waiting) != len(m.waiters) {
			rt.Fatalf("%s\n%d wait, want %d", strings.Join(history, "\n"),
				len(r.waiting), len(m.waiters))
		}
		if r.end(); h.env.Waiters.awaited.Load() != 0 {
			rt.Fatalf("keys are waited for by nobody")
		}
	})
}

// end ends all waits.
func (r *waitRun) end() {
	for c, it := range r.waiting {
		r.h.env.Waiters.Remove(it.waiter)
		delete(r.waiting, c)
	}
	r.h.env.Changes.Deliver()
	r.h.env.Waiters.Serve(r.h.store.NewTxn(), r)
}

// draw draws a command that changes something, and runs it on the model and on the server.
func (m *waitModel) draw(rt *rapid.T, h *harness, keys *rapid.Generator[string],
	item string) string {
	key := keys.Draw(rt, "key")
	v := m.keys[key]
	var args []string
	switch kind := rapid.IntRange(0, 6).Draw(rt, "change"); {
	case kind <= 2 && (v == nil || !v.zset):
		args = []string{"RPUSH", key, item}
		m.push(key, item)
	case kind <= 4 && (v == nil || v.zset):
		args = []string{"ZADD", key, item, item}
		m.push(key, item)
		m.keys[key].zset = true
	case kind == 5 && v != nil:
		to := keys.Draw(rt, "to")
		args = []string{"RENAME", key, to}
		if to != key {
			m.keys[to] = v
			delete(m.keys, key)
			m.change(key)
			m.change(to)
		}
	default:
		args = []string{"DEL", key}
		if v != nil {
			delete(m.keys, key)
			m.change(key)
		}
	}
	h.do(args...)
	return strings.Join(args, " ")
}
