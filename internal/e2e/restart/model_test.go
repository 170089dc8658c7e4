package restart

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The model gives the data that the server must have: it runs each command as Redis documents it.
// Every key belongs to one writer. So a model needs only the commands of one writer, in the order
// in which they were sent.

// name is a key in a database.
type name struct {
	db  int
	key string
}

// entry is the value of a key. Its deadline, in Unix ms, lies from lo to hi: a relative deadline
// depends on the moment at which the server ran the command. 0 means none.
type entry struct {
	data   string
	lo, hi int64
}

type state map[name]entry

// overlay returns a copy of s for these names, which can be changed without changing s.
func (s state) overlay(names map[name]bool) state {
	o := state{}
	for n := range names {
		if e, ok := s[n]; ok {
			o[n] = e
		}
	}
	return o
}

// put stores an entry, or removes the key.
func (s state) put(n name, e entry, ok bool) {
	if ok {
		s[n] = e
	} else {
		delete(s, n)
	}
}

// span is the time in which the server ran a command, in Unix ms.
type span struct{ from, to int64 }

// op is one command.
type op struct {
	args    []any
	touched []name
	// apply makes the command's change in the state. It returns the reply: an int64, a string, nil,
	// an error text that starts with "ERR ", or whatever if the reply is unknown.
	apply func(s state, at span) any
}

// whatever is a reply that the model does not know.
type whatever struct{}

func set(n name, data string) op {
	return op{[]any{"SET", n.key, data}, []name{n}, func(s state, _ span) any {
		s[n] = entry{data: data}
		return "OK"
	}}
}

func setPX(n name, data string, ttl int64) op {
	return op{[]any{"SET", n.key, data, "PX", ttl}, []name{n}, func(s state, at span) any {
		s[n] = entry{data, at.from + ttl, at.to + ttl}
		return "OK"
	}}
}

func setEX(n name, data string, seconds int64) op {
	return op{[]any{"SETEX", n.key, seconds, data}, []name{n}, func(s state, at span) any {
		s[n] = entry{data, at.from + seconds*1000, at.to + seconds*1000}
		return "OK"
	}}
}

// setPXAT sets a value with an absolute deadline. If the deadline has passed, it removes the key.
func setPXAT(n name, data string, deadline int64) op {
	return op{[]any{"SET", n.key, data, "PXAT", deadline}, []name{n}, func(s state, _ span) any {
		s[n] = entry{data, deadline, deadline}
		return "OK"
	}}
}

func setKeepTTL(n name, data string) op {
	return op{[]any{"SET", n.key, data, "KEEPTTL"}, []name{n}, func(s state, _ span) any {
		e := s[n]
		s[n] = entry{data, e.lo, e.hi}
		return "OK"
	}}
}

// setIf is SET with NX or XX.
func setIf(n name, data, condition string) op {
	return op{[]any{"SET", n.key, data, condition}, []name{n}, func(s state, _ span) any {
		if _, ok := s[n]; ok != (condition == "XX") {
			return nil
		}
		s[n] = entry{data: data}
		return "OK"
	}}
}

func getSet(n name, data string) op {
	return op{[]any{"GETSET", n.key, data}, []name{n}, func(s state, _ span) any {
		old := value(s, n)
		s[n] = entry{data: data}
		return old
	}}
}

// value returns the reply of GET.
func value(s state, n name) any {
	if e, ok := s[n]; ok {
		return e.data
	}
	return nil
}

func get(n name) op {
	return op{[]any{"GET", n.key}, []name{n}, func(s state, _ span) any { return value(s, n) }}
}

func getDel(n name) op {
	return op{[]any{"GETDEL", n.key}, []name{n}, func(s state, _ span) any {
		old := value(s, n)
		delete(s, n)
		return old
	}}
}

func appendTo(n name, data string) op {
	return op{[]any{"APPEND", n.key, data}, []name{n}, func(s state, _ span) any {
		e := s[n]
		e.data += data
		s[n] = e
		return int64(len(e.data))
	}}
}

func setRange(n name, offset int, data string) op {
	return op{[]any{"SETRANGE", n.key, offset, data}, []name{n}, func(s state, _ span) any {
		e := s[n]
		if data == "" {
			return int64(len(e.data))
		}
		b := []byte(e.data)
		if need := offset + len(data); need > len(b) {
			b = append(b, make([]byte, need-len(b))...)
		}
		copy(b[offset:], data)
		e.data = string(b)
		s[n] = e
		return int64(len(b))
	}}
}

func incrBy(n name, by int64) op {
	return op{[]any{"INCRBY", n.key, by}, []name{n}, func(s state, _ span) any {
		e := s[n]
		old, err := strconv.ParseInt("0"+e.data, 10, 64)
		if strings.HasPrefix(e.data, "-") {
			old, err = strconv.ParseInt(e.data, 10, 64)
		}
		if err != nil {
			return "ERR value is not an integer or out of range"
		}
		e.data = strconv.FormatInt(old+by, 10)
		s[n] = e
		return old + by
	}}
}

func expire(n name, seconds int64) op {
	return op{[]any{"EXPIRE", n.key, seconds}, []name{n}, func(s state, at span) any {
		return setDeadline(s, n, at.from+seconds*1000, at.to+seconds*1000)
	}}
}

func pexpireAt(n name, deadline int64) op {
	return op{[]any{"PEXPIREAT", n.key, deadline}, []name{n}, func(s state, _ span) any {
		return setDeadline(s, n, deadline, deadline)
	}}
}

func setDeadline(s state, n name, lo, hi int64) any {
	e, ok := s[n]
	if !ok {
		return int64(0)
	}
	s[n] = entry{e.data, lo, hi}
	return int64(1)
}

func persist(n name) op {
	return op{[]any{"PERSIST", n.key}, []name{n}, func(s state, _ span) any {
		e, ok := s[n]
		if !ok || e.lo == 0 {
			return int64(0)
		}
		s[n] = entry{data: e.data}
		return int64(1)
	}}
}

func del(names ...name) op {
	args := []any{"DEL"}
	for _, n := range names {
		args = append(args, n.key)
	}
	return op{args, names, func(s state, _ span) any {
		var gone int64
		for _, n := range names {
			if _, ok := s[n]; ok {
				delete(s, n)
				gone++
			}
		}
		return gone
	}}
}

func mset(data string, names ...name) op {
	args := []any{"MSET"}
	for _, n := range names {
		args = append(args, n.key, data)
	}
	return op{args, names, func(s state, _ span) any {
		for _, n := range names {
			s[n] = entry{data: data}
		}
		return "OK"
	}}
}

func rename(from, to name) op {
	return op{[]any{"RENAME", from.key, to.key}, []name{from, to}, func(s state, _ span) any {
		e, ok := s[from]
		if !ok {
			return "ERR no such key"
		}
		delete(s, from)
		s[to] = e
		return "OK"
	}}
}

func copyTo(from, to name) op {
	return op{[]any{"COPY", from.key, to.key, "DB", to.db, "REPLACE"}, []name{from, to},
		func(s state, _ span) any {
			e, ok := s[from]
			if !ok {
				return int64(0)
			}
			s[to] = e
			return int64(1)
		}}
}

func move(from name, db int) op {
	to := name{db, from.key}
	return op{[]any{"MOVE", from.key, db}, []name{from, to}, func(s state, _ span) any {
		e, ok := s[from]
		if _, there := s[to]; !ok || there {
			return int64(0)
		}
		delete(s, from)
		s[to] = e
		return int64(1)
	}}
}

// unknownReply returns the same command with an unknown reply, because its keys may expire just
// then. Its effect must not depend on that.
func unknownReply(o op) op {
	apply := o.apply
	o.apply = func(s state, at span) any {
		apply(s, at)
		return whatever{}
	}
	return o
}

// seen is the state of a key that the server shows.
type seen struct {
	there    bool
	data     string
	deadline int64 // Unix ms, 0: none
}

// matches reports whether a key that was read in a span of time agrees with the model. It is
// strict: a key whose deadline passed before the read must not be there.
func (s state) matches(n name, k seen, at span) bool {
	if strings.Contains(n.key, ":x:") {
		return s.matchesFields(n, k, at)
	}
	e, ok := s[n]
	if !k.there {
		return !ok || e.lo != 0 && e.lo <= at.to
	}
	return ok && e.data == k.data && e.lo <= k.deadline && k.deadline <= e.hi &&
		(k.deadline == 0 || k.deadline > at.from)
}

// settle compares the state of one writer with all of the writer's keys after a restart. Then it
// replaces the state by the server's data. Of the pending commands, the first ones may have
// happened, each completely. done is their number. Any other difference is a problem.
func (s state) settle(pending []op, at span, shown map[name]seen,
	look span) (done int, problems []problem) {
	touched := map[name]bool{}
	for _, o := range pending {
		for _, n := range o.touched {
			touched[n] = true
		}
	}
	for n, k := range shown {
		if !touched[n] && !s.matches(n, k, look) {
			problems = append(problems,
				problem{fmt.Sprintf("%v is %v, not %v", n, k, s[n]), []name{n}})
		}
	}
	candidate := s.overlay(touched)
	for ; !candidate.fits(touched, shown, look); done++ {
		if done == len(pending) {
			problems = append(problems, problem{s.explain(touched, pending, shown),
				slices.Collect(maps.Keys(touched))})
			break
		}
		pending[done].apply(candidate, at)
	}
	for n, k := range shown {
		s.put(n, entry{k.data, k.deadline, k.deadline}, k.there)
	}
	return done, problems
}

// problem is a difference between the server and the model, about these keys.
type problem struct {
	text  string
	names []name
}

func (s state) fits(names map[name]bool, shown map[name]seen, look span) bool {
	for n := range names {
		if !s.matches(n, shown[n], look) {
			return false
		}
	}
	return true
}

// explain describes pending commands that seem to have happened in part.
func (s state) explain(touched map[name]bool, pending []op, shown map[name]seen) string {
	var b strings.Builder
	b.WriteString("no prefix of the commands under way gives what is shown:")
	for _, o := range pending {
		fmt.Fprintf(&b, "\n\t%.80q", o.args)
	}
	for n := range touched {
		fmt.Fprintf(&b, "\n\t%v was %v and is %v", n, s[n], shown[n])
	}
	return b.String()
}

func (n name) String() string { return fmt.Sprintf("%s in database %d", n.key, n.db) }

func (e entry) String() string {
	if e.lo == 0 {
		return fmt.Sprintf("%d bytes %.40q without a deadline", len(e.data), e.data)
	}
	return fmt.Sprintf("%d bytes %.40q with a deadline from %d to %d", len(e.data),
		e.data, e.lo, e.hi)
}

func (k seen) String() string {
	if !k.there {
		return "not there"
	}
	return entry{k.data, k.deadline, k.deadline}.String()
}
