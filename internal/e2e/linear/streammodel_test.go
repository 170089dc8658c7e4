package linear

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// The model of streams. As in the model of strings, keys are in groups, and each group is checked
// by itself.
//
// A stream is the list of all entries that were added since the key was created, including deleted
// ones. An entry's index in this list never changes, and IDs ascend along the list. So the model
// stores a consumer group's last delivered ID and its pending entries as indexes. If XADD got no
// reply, the ID of its entry is unknown until another reply shows it. Until then any ID between
// those of its neighbours is possible.

var streamGroups = [...]string{"a", "b"}

type streams [groupKeys]stream

type stream struct {
	there  bool
	log    []logged
	groups [len(streamGroups)]consumerGroup
}

// logged is an entry of a stream.
type logged struct {
	id    id // zero: not known
	value string
	gone  bool
}

type consumerGroup struct {
	there   bool
	last    int       // how many of the log are before or at the last delivered ID
	pending []pending // by place
	// back: SETID has moved last back, and no entry was added since. Moving last back wakes no
	// client.
	back bool
}

// pending is an entry that was delivered and not acknowledged. If it was given back, its consumer
// is "".
type pending struct {
	at       int
	consumer string
	count    int64
}

var streamModel = (&porcupine.NondeterministicModel{
	Partition: byGroup,
	Init:      func() []any { return []any{streams{}} },
	Equal:     func(a, b any) bool { return a.(streams).equal(b.(streams)) },
	Step: func(s, input, output any) (next []any) {
		before, o := s.(streams), output.(outcome)
		if o.lost {
			next = append(next, before)
		}
		after := before.clone()
		if after.run(input.(call).commands, o) && !(o.lost && after.equal(before)) {
			next = append(next, after)
		}
		return next
	},
	DescribeOperation: func(input, output any) string {
		return describe(&streamed{}, input.(call), output.(outcome))
	},
	DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
}).ToModel()

func (s streams) clone() streams {
	for i := range s {
		s[i].log = slices.Clone(s[i].log)
		for j := range s[i].groups {
			s[i].groups[j].pending = slices.Clone(s[i].groups[j].pending)
		}
	}
	return s
}

func (s streams) equal(o streams) bool {
	return slices.EqualFunc(s[:], o[:], func(a, b stream) bool {
		return a.there == b.there && slices.Equal(a.log, b.log) &&
			slices.EqualFunc(a.groups[:], b.groups[:], func(g, h consumerGroup) bool {
				return g.there == h.there && g.last == h.last && g.back == h.back &&
					slices.Equal(g.pending, h.pending)
			})
	})
}

// run applies the commands and reports whether the replies are right. The replies of a lost
// operation are unknown.
func (s *streams) run(commands []command, o outcome) bool {
	for i, cmd := range commands {
		var reply any = unknown{}
		if !o.lost {
			reply = o.replies[i]
		}
		if !s[cmd.key].apply(cmd, reply) {
			return false
		}
	}
	return true
}

// unknown is the reply of a lost operation.
type unknown struct{}

// is reports whether a reply can be the wanted one.
func is(reply, want any) bool { return reply == unknown{} || reply == want }

// refused reports whether a reply can be an error of this kind.
func refused(reply any, kind string) bool {
	text, ok := reply.(refusal)
	return reply == unknown{} || ok && strings.HasPrefix(string(text), kind+" ")
}

// apply runs a command.
func (s *stream) apply(cmd command, reply any) bool {
	switch cmd.verb {
	case "XADD":
		return s.add(cmd, reply)
	case "XLEN":
		return is(reply, int64(s.length()))
	case "XRANGE":
		return s.shows(reply, s.live(0, len(s.log)))
	case "XREAD":
		return s.readAfter(cmd, reply)
	case "XDEL":
		at := s.find(cmd.id)
		done := at >= 0 && !s.log[at].gone
		if done {
			s.log[at].gone = true
		}
		return is(reply, number(done))
	case "XTRIM":
		return is(reply, s.trim(cmd.n))
	case "DEL":
		done := s.there
		*s = stream{}
		return is(reply, number(done))
	case "XINFO GROUPS":
		return s.showsGroups(reply)
	case "XGROUP CREATE":
		return s.create(cmd, reply)
	}
	g := &s.groups[cmd.of]
	switch {
	case cmd.verb == "XGROUP DESTROY" && s.there:
		done := g.there
		*g = consumerGroup{}
		return is(reply, number(done))
	case cmd.verb == "XACK":
		i, found := g.find(s.find(cmd.id))
		if found {
			g.pending = slices.Delete(g.pending, i, i+1)
		}
		return is(reply, number(found))
	case strings.HasPrefix(cmd.verb, "XGROUP") && !s.there:
		return refused(reply, "ERR")
	case !g.there:
		return refused(reply, "NOGROUP")
	}
	return s.applyToGroup(g, cmd, reply)
}

// applyToGroup runs a command that needs a group.
func (s *stream) applyToGroup(g *consumerGroup, cmd command, reply any) bool {
	switch cmd.verb {
	case "XGROUP SETID":
		to := s.begin(cmd.from)
		g.last, g.back = to, g.back || to < g.last
		return is(reply, "OK")
	case "XGROUP DELCONSUMER":
		before := len(g.pending)
		g.pending = slices.DeleteFunc(g.pending, func(p pending) bool {
			return p.consumer == cmd.consumer
		})
		return is(reply, int64(before-len(g.pending)))
	case "XPENDING":
		return s.showsPending(reply, g.pending)
	case "XREADGROUP":
		if cmd.from == ">" {
			return s.deliver(g, cmd, reply)
		}
		return s.history(g, cmd, reply)
	case "XNACK":
		i, found := g.find(s.find(cmd.id))
		if found {
			p := &g.pending[i]
			if p.consumer = ""; cmd.mode == "SILENT" {
				p.count = max(p.count-1, 0)
			}
		}
		return is(reply, number(found))
	case "XCLAIM":
		i, found := g.find(s.find(cmd.id))
		if !found {
			return s.shows(reply, nil)
		}
		list, _ := s.take(g, []pending{g.pending[i]}, cmd.consumer)
		return s.shows(reply, list)
	case "XAUTOCLAIM":
		return s.autoClaim(g, cmd, reply)
	}
	panic("no such command: " + cmd.verb)
}

func number(done bool) int64 {
	if done {
		return 1
	}
	return 0
}

// length returns the number of entries that are not deleted.
func (s *stream) length() int { return len(s.live(0, len(s.log))) }

// live returns the indexes in [from, to) of the entries that are not deleted.
func (s *stream) live(from, to int) (list []int) {
	for i := from; i < to; i++ {
		if !s.log[i].gone {
			list = append(list, i)
		}
	}
	return list
}

// find returns the index of an entry, or -1 if no entry ever had this ID.
func (s *stream) find(wanted id) int {
	return slices.IndexFunc(s.log, func(e logged) bool { return e.id == wanted && wanted != id{} })
}

// begin returns the index at which a group begins.
func (s *stream) begin(from string) int {
	if from == "$" {
		return len(s.log)
	}
	return 0
}

// learn takes the ID of an entry from a reply. It reports whether the ID can be right.
func (s *stream) learn(at int, shown id) bool {
	if e := &s.log[at]; e.id != (id{}) {
		return e.id == shown
	}
	for i := at - 1; i >= 0; i-- {
		if before := s.log[i].id; before != (id{}) {
			if !before.less(shown) {
				return false
			}
			break
		}
	}
	for _, e := range s.log[at+1:] {
		if e.id != (id{}) {
			if !shown.less(e.id) {
				return false
			}
			break
		}
	}
	s.log[at].id = shown
	return true
}

// shows reports whether a reply can be the entries at these indexes.
func (s *stream) shows(reply any, places []int) bool {
	if reply == (unknown{}) {
		return true
	}
	list, ok := reply.([]shown)
	if !ok || len(list) != len(places) {
		return false
	}
	for i, at := range places {
		e := s.log[at]
		if list[i].gone != e.gone || !e.gone && list[i].value != e.value ||
			!s.learn(at, list[i].id) {
			return false
		}
	}
	return true
}

// add is XADD. In the chosen stream each ID follows from the one before.
func (s *stream) add(cmd command, reply any) bool {
	e := logged{value: cmd.data}
	if cmd.key == chosen {
		e.id = id{1, 0}
		if n := len(s.log); n > 0 {
			e.id.seq = s.log[n-1].id.seq + 1
		}
	}
	s.there = true
	s.log = append(s.log, e)
	for i := range s.groups {
		s.groups[i].back = false
	}
	if cmd.n > 0 {
		s.trim(cmd.n)
	}
	added, ok := reply.(id)
	return reply == unknown{} || ok && s.learn(len(s.log)-1, added)
}

// trim removes all but the n latest entries, and returns how many it removed.
func (s *stream) trim(n int) int64 {
	live := s.live(0, len(s.log))
	live = live[:max(0, len(live)-n)]
	for _, at := range live {
		s.log[at].gone = true
	}
	return int64(len(live))
}

// readAfter is XREAD.
func (s *stream) readAfter(cmd command, reply any) bool {
	at := len(s.log)
	for at > 0 && (s.log[at-1].id == id{} || cmd.id.less(s.log[at-1].id)) {
		at--
	}
	list := upTo(cmd.n, s.live(at, len(s.log)))
	if len(list) == 0 {
		return is(reply, nil)
	}
	return s.shows(reply, list)
}

// upTo returns the first n elements of a list, or all if n is 0, like COUNT.
func upTo[T any](n int, list []T) []T {
	if n > 0 && len(list) > n {
		return list[:n]
	}
	return list
}

// create is XGROUP CREATE with MKSTREAM.
func (s *stream) create(cmd command, reply any) bool {
	s.there = true
	g := &s.groups[cmd.of]
	if g.there {
		return refused(reply, "BUSYGROUP")
	}
	*g = consumerGroup{there: true, last: s.begin(cmd.from)}
	return is(reply, "OK")
}

// find returns the index of an entry in the list of pending ones.
func (g *consumerGroup) find(at int) (int, bool) {
	return slices.BinarySearchFunc(g.pending, at, func(p pending, at int) int { return p.at - at })
}

// put makes an entry pending.
func (g *consumerGroup) put(p pending) {
	i, found := g.find(p.at)
	if found {
		g.pending[i] = p
	} else {
		g.pending = slices.Insert(g.pending, i, p)
	}
}

// deliver is XREADGROUP with ">".
func (s *stream) deliver(g *consumerGroup, cmd command, reply any) bool {
	list := upTo(cmd.n, s.live(g.last, len(s.log)))
	if len(list) == 0 || g.back && cmd.block > 0 && reply == nil {
		return is(reply, nil)
	}
	for _, at := range list {
		if g.last = at + 1; !cmd.noAck {
			g.put(pending{at, cmd.consumer, 1})
		}
	}
	return s.shows(reply, list)
}

// history is XREADGROUP with an ID: it returns the consumer's pending entries, deleted ones as IDs
// only.
func (s *stream) history(g *consumerGroup, cmd command, reply any) bool {
	var list []int
	for i := range g.pending {
		if p := &g.pending[i]; p.consumer == cmd.consumer && (cmd.n == 0 || len(list) < cmd.n) {
			list = append(list, p.at)
			if !s.log[p.at].gone {
				p.count++
			}
		}
	}
	return s.shows(reply, list)
}

// take gives pending entries to a consumer. Entries that the stream has deleted are no longer
// pending.
func (s *stream) take(g *consumerGroup, list []pending, consumer string) (taken, gone []int) {
	for _, p := range list {
		if s.log[p.at].gone {
			i, _ := g.find(p.at)
			g.pending = slices.Delete(g.pending, i, i+1)
			gone = append(gone, p.at)
			continue
		}
		g.put(pending{p.at, consumer, p.count + 1})
		taken = append(taken, p.at)
	}
	return taken, gone
}

func (s *stream) autoClaim(g *consumerGroup, cmd command, reply any) bool {
	list := slices.Clone(upTo(cmd.n, g.pending))
	next := -1
	if len(list) < len(g.pending) {
		next = g.pending[len(list)].at
	}
	taken, gone := s.take(g, list, cmd.consumer)
	if reply == (unknown{}) {
		return true
	}
	r, ok := reply.(claimed)
	if !ok || len(r.gone) != len(gone) || next < 0 && r.next != (id{}) ||
		next >= 0 && !s.learn(next, r.next) {
		return false
	}
	for i, at := range gone {
		if !s.learn(at, r.gone[i]) {
			return false
		}
	}
	return s.shows(r.entries, taken)
}

func (s *stream) showsPending(reply any, want []pending) bool {
	if reply == (unknown{}) {
		return true
	}
	list, ok := reply.([]owned)
	if !ok || len(list) != len(want) {
		return false
	}
	for i, p := range want {
		if list[i].consumer != p.consumer || list[i].count != p.count ||
			!s.learn(p.at, list[i].id) {
			return false
		}
	}
	return true
}

func (s *stream) showsGroups(reply any) bool {
	if !s.there {
		return refused(reply, "ERR")
	}
	if reply == (unknown{}) {
		return true
	}
	list, ok := reply.([]groupShown)
	for i, g := range s.groups {
		if !g.there {
			continue
		}
		if !ok || len(list) == 0 || list[0].name != streamGroups[i] ||
			list[0].pending != int64(len(g.pending)) {
			return false
		}
		if last := list[0].last; g.last == 0 && last != (id{}) ||
			g.last > 0 && !s.learn(g.last-1, last) {
			return false
		}
		list = list[1:]
	}
	return ok && len(list) == 0
}
