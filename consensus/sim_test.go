package consensus

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// The simulation
//
// All members of a group run in one goroutine. Everything that happens is an event at a certain
// time: a message arrives, a timer fires, a sync ends. All delays are drawn from one seed, so a
// seed gives the same history again. Each member has its own disk (a memLog or another SimDisk),
// and a clock with its own rate. The rates of two clocks differ by up to 8 percent, and the lease
// allows for 10.
//
// A crash loses the unsynced data, or a part of it. A stopped process does nothing, while its clock
// goes on. When it continues, it first handles everything that has arrived in the meantime. The
// network delays, loses, doubles and reorders messages, some by seconds. Links are cut in one
// direction or both.
//
// After each event all checks of the simulation run: see sim.check, simMachine and simNet.Send.

// failure is the result of a failed check.
type failure struct{ text string }

// simEvent is something that happens.
type simEvent struct {
	at  time.Duration
	seq int
	run func()
}

type simEvents []simEvent

func (h simEvents) Len() int { return len(h) }
func (h simEvents) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h simEvents) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *simEvents) Push(e any)   { *h = append(*h, e.(simEvent)) }
func (h *simEvents) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = simEvent{}
	*h = old[:len(old)-1]
	return e
}

// sim is one history.
type sim struct {
	random    *rand.Rand
	disk      NewDisk
	now       time.Duration
	events    simEvents
	seq       int
	members   map[uint64]*simMember
	next      uint64 // the id of the next member that joins
	cut       map[[2]uint64]bool
	loss      float64
	double    float64
	slow      float64                     // how many messages are late
	far       map[[2]uint64]time.Duration // how much longer messages take
	calm      bool                        // nothing goes wrong by itself
	lateOrder bool                        // orders to campaign are late
	inOrder   map[[2]uint64]time.Duration // when a link's last message comes; nil: in any order
	watch     func(m *Message)            // sees all that is sent, unless nil
	past      [1000]simSent               // some of that

	// These fields describe the group as a whole, as far as the simulation has seen it.
	sums       map[uint64]uint64 // of all entries up to an index
	terms      map[uint64]uint64 // of committed entries
	leaders    map[uint64]uint64 // by term
	acked      map[uint64]uint64 // hashes of acknowledged entries, by index
	lastAcked  uint64
	lastTerm   uint64 // the newest in which a leader has committed an entry of its own
	proposed   int
	crashes    int
	partitions int
	stops      int
	changes    int
	transfers  int
	elections  int
	leases     int // looks at a lease that is held
	trace      []string
}

// NewDisk makes the disk of a new member.
type NewDisk func(base Base, random *rand.Rand) SimDisk

func newSim(seed uint64, disk NewDisk) *sim {
	s := &sim{
		random: rand.New(rand.NewPCG(seed, 1)), disk: disk, members: map[uint64]*simMember{},
		cut: map[[2]uint64]bool{}, far: map[[2]uint64]time.Duration{}, sums: map[uint64]uint64{},
		terms: map[uint64]uint64{}, leaders: map[uint64]uint64{}, acked: map[uint64]uint64{},
	}
	n := uint64(3 + 2*s.random.IntN(2))
	base := Base{Index: 1, Term: 1, Conf: &pb.ConfState{}}
	for id := uint64(1); id <= n; id++ {
		base.Conf.Voters = append(base.Conf.Voters, id)
	}
	s.sums[1] = 1
	for id := uint64(1); id <= n; id++ {
		s.join(base)
	}
	return s
}

// simRandom is the source of random numbers for the library.
type simRandom struct{ random *rand.Rand }

func (r simRandom) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.random.Uint32())
	}
	return len(b), nil
}

func (s *sim) fail(format string, args ...any) {
	panic(failure{fmt.Sprintf(format, args...)})
}

func (s *sim) logf(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%8.3f  ", s.now.Seconds())+fmt.Sprintf(format, args...))
}

// after schedules an event.
func (s *sim) after(d time.Duration, run func()) {
	s.seq++
	heap.Push(&s.events, simEvent{s.now + d, s.seq, run})
}

// step runs the next event.
func (s *sim) step() {
	e := heap.Pop(&s.events).(simEvent)
	s.now = e.at
	e.run()
	s.check()
}

// pass lets time pass.
func (s *sim) pass(d time.Duration) {
	for end := s.now + d; ; {
		if len(s.events) == 0 || s.events[0].at > end {
			s.now = end
			s.check()
			return
		}
		s.step()
	}
}

// until lets time pass until done returns true, which must happen within some seconds.
func (s *sim) until(what string, done func() bool) {
	const bound = 15 * time.Second
	for end := s.now + bound; !done(); {
		if s.now > end {
			var state []string
			for _, m := range s.sorted() {
				if m.up {
					state = append(state, fmt.Sprintf("%d: %+v, applied %d", m.id, m.g.Status(),
						m.state.applied.Index))
				}
			}
			s.fail("not within %v: %s; %v", bound, what, state)
		}
		s.pass(5 * time.Millisecond)
	}
}

// between draws a duration.
func (s *sim) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)+1))
}

func (s *sim) one(in int) bool { return s.random.IntN(in) == 0 }

// chance returns true with a probability.
func (s *sim) chance(p float64) bool { return s.random.Float64() < p }

func (s *sim) sorted() []*simMember {
	list := make([]*simMember, 0, len(s.members))
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		list = append(list, s.members[id])
	}
	return list
}

// pick draws one of the members for which is returns true. It returns nil if there is none.
func (s *sim) pick(is func(m *simMember) bool) *simMember {
	list := slices.DeleteFunc(s.sorted(), func(m *simMember) bool { return !is(m) })
	if len(list) == 0 {
		return nil
	}
	return list[s.random.IntN(len(list))]
}

// check checks that two leases never overlap. A lease begins with an event, so a check after each
// event finds every overlap.
func (s *sim) check() {
	holder := uint64(0)
	for _, m := range s.members {
		if !m.up || m.stopped || !m.g.Leased() {
			continue
		}
		st := m.g.Status()
		s.leases++
		switch {
		case holder != 0:
			s.fail("the members %d and %d have the lease", holder, m.id)
		case !st.Leading:
			s.fail("member %d has the lease, and does not lead", m.id)
		case st.Term < s.lastTerm:
			s.fail("member %d has the lease of term %d, and in term %d entries were committed",
				m.id, st.Term, s.lastTerm)
		case m.machine.executed() < s.lastAcked:
			s.fail("member %d has the lease, and reads what is there up to entry %d, while %d is acknowledged",
				m.id, m.machine.executed(), s.lastAcked)
		}
		holder = m.id
	}
}

// simMember is a process with its disk and clock. The process may be down or stopped.
type simMember struct {
	s       *sim
	id      uint64
	log     SimDisk
	saved   simState // on disk
	older   simState // an earlier one
	up      bool
	stopped bool
	life    int // how often it has started
	held    []func()
	inbox   []*Message
	rate    float64       // of its clock
	boot    time.Duration // of its clock at 0
	wall    time.Duration // likewise
	machine *simMachine
	state   *simState
	g       *Group
	slow    bool // its disk
	term    uint64
	commit  uint64
}

// simSent is a message that was sent.
type simSent struct {
	to   *simMember
	wire []byte
}

// simState is the state of a machine after some entries.
type simState struct {
	applied Base
	sum     uint64
}

func (s *sim) join(base Base) *simMember {
	s.next++
	m := &simMember{
		s: s, id: s.next, log: s.disk(base, s.random), rate: 0.96 + 0.08*s.random.Float64(),
		boot: s.between(0, time.Hour), wall: s.between(0, time.Hour),
		saved: simState{applied: base, sum: 1},
	}
	m.older = m.saved
	s.members[m.id] = m
	m.start()
	return m
}

// start starts the process.
func (m *simMember) start() {
	m.life++
	m.state = new(m.saved)
	m.machine = &simMachine{m: m}
	m.log.Begin(func(f func()) {
		d := m.s.between(50*time.Microsecond, time.Millisecond)
		if m.slow {
			d = m.s.between(0, 200*time.Millisecond)
		}
		m.after(d, f)
	}, func() (*pb.Snapshot, error) {
		if m.s.one(10) || m.state.applied.Index < m.log.Base().Index {
			return nil, raft.ErrSnapshotTemporarilyUnavailable
		}
		b := m.state.applied
		return &pb.Snapshot{Data: le.AppendUint64(nil, m.state.sum),
			Metadata: &pb.SnapshotMetadata{Index: &b.Index, Term: &b.Term, ConfState: b.Conf}}, nil
	})
	m.term, m.commit = 0, 0
	m.up, m.stopped = true, false
	g, err := Start(Options{
		ID: m.id, Group: 1, Log: m.log, Applied: m.saved.applied, Machine: m.machine,
		Network: simNet{m}, Clock: m,
		After: func(d time.Duration, f func()) func() {
			stopped := false
			m.after(time.Duration(float64(d)/m.rate), func() {
				if !stopped {
					f()
				}
			})
			return func() { stopped = true }
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		m.s.fail("member %d does not start: %v", m.id, err)
	}
	m.g = g
}

// after schedules f in the process, unless the process ends before. While it is stopped, f waits
// until it continues.
func (m *simMember) after(d time.Duration, f func()) {
	life := m.life
	var run func()
	run = func() {
		switch {
		case m.life != life || !m.up:
		case m.stopped:
			m.held = append(m.held, run)
		default:
			f()
			m.follow()
		}
	}
	m.s.after(d, run)
}

// follow checks that the term and the commit index only grow.
func (m *simMember) follow() {
	if !m.up {
		return
	}
	st := m.g.Status()
	if st.Term < m.term || st.Committed < m.commit {
		m.s.fail("member %d was in term %d with %d committed, and is in term %d with %d", m.id,
			m.term, m.commit, st.Term, st.Committed)
	}
	m.term, m.commit = st.Term, st.Committed
	if st.Ended == nil && st.Leading != m.machine.leading {
		m.s.fail("member %d leads: %v, and its machine was notified of %v", m.id, st.Leading,
			m.machine.leading)
	}
}

func (m *simMember) crash() {
	m.log = m.log.Crash(m.s.random)
	m.up, m.held, m.inbox = false, nil, nil
	m.s.crashes++
}

// resume lets a stopped process continue.
func (m *simMember) resume() {
	held := m.held
	m.stopped, m.held = false, nil
	for _, run := range held {
		run()
		m.s.check()
	}
}

func (m *simMember) leads() bool { return m.up && !m.stopped && m.machine.leading }

// elapsed returns the time since the start of the simulation by the member's clock.
func (m *simMember) elapsed() time.Duration { return time.Duration(float64(m.s.now) * m.rate) }

func (m *simMember) Now() int64          { return (m.wall + m.elapsed()).Milliseconds() }
func (m *simMember) Micros() int64       { return (m.wall + m.elapsed()).Microseconds() }
func (m *simMember) Mono() time.Duration { return m.elapsed() }
func (m *simMember) Boot() int64         { return (m.boot + m.elapsed()).Milliseconds() }
func (m *simMember) BootID() uint64      { return m.id }
func (m *simMember) Until(int64) (<-chan struct{}, func()) {
	panic("nothing of consensus waits for wall time")
}

// simNet is a member's network.
type simNet struct{ m *simMember }

func (n simNet) Flush() {}

// Send checks that the sender's disk has everything that an answer confirms. It delivers the
// message after some time, or loses it.
func (n simNet) Send(m *Message) bool {
	s, from, to := n.m.s, n.m.id, m.Raft.GetTo()
	r, disk := m.Raft, n.m.log
	if s.watch != nil {
		s.watch(m)
	}
	switch {
	case r.GetReject():
	case r.GetType() == pb.MsgVoteResp:
		if term, vote := disk.Vote(); term < r.GetTerm() || term == r.GetTerm() && vote != to {
			s.fail("member %d votes for %d in term %d, and its disk has a vote for %d in term %d",
				from, to, r.GetTerm(), vote, term)
		}
	case r.GetType() == pb.MsgAppResp:
		if disk.Saved() < r.GetIndex() && !cutLater(disk, r.GetTerm()) {
			s.fail(
				"member %d says in term %d it has entries up to %d, and its disk has them up to %d",
				from, r.GetTerm(), r.GetIndex(), disk.Saved())
		}
	}
	other := s.members[to]
	if other == nil || s.cut[[2]uint64{from, to}] {
		return s.one(2)
	}
	wire, err := AppendMessage(nil, m)
	if err != nil {
		s.fail("%v", err)
	}
	copies := 1
	if s.chance(s.loss) {
		copies = 0
	}
	if s.chance(s.double) {
		copies++
	}
	for range copies {
		d := s.between(100*time.Microsecond, 2*time.Millisecond) + s.far[[2]uint64{from, to}]
		late := s.slow
		if r.GetType() == pb.MsgTimeoutNow {
			late = max(late, 0.3) // they are few, and matter
		}
		switch {
		case r.GetType() == pb.MsgTimeoutNow && s.lateOrder:
			d = s.between(300*time.Millisecond, 900*time.Millisecond)
		case s.chance(late):
			// Up to 2 s.
			d = time.Duration(math.Pow(10, 3*s.random.Float64()) * float64(2*time.Millisecond))
		}
		if link := [2]uint64{from, to}; s.inOrder != nil {
			at := max(s.now+d, s.inOrder[link])
			s.inOrder[link], d = at, at-s.now
		}
		s.after(d, func() { other.arrive(wire) })
	}
	if s.chance(s.double) { // something from long ago comes once more
		again := s.past[s.random.IntN(len(s.past))]
		if again.wire != nil {
			s.after(s.between(0, 2*time.Millisecond), func() { again.to.arrive(again.wire) })
		}
	}
	s.past[s.random.IntN(len(s.past))] = simSent{other, wire}
	astray := 300
	if r.GetType() == pb.MsgVoteResp {
		astray = 4
	}
	if s.one(astray) { // the address is another member's now
		if third := s.pick(func(m *simMember) bool {
			return m.id != from && m.id != to
		}); third != nil {
			s.after(s.between(0, 2*time.Millisecond), func() { third.arrive(wire) })
		}
	}
	return true
}

// cutLater reports whether the disk ends with an entry of a later term than term, because a later
// leader has replaced entries. One sync may have ended for both terms, so the answer to the earlier
// leader is sent too. That leader cannot commit the replaced entries. A majority has voted for the
// later leader without having them, and accepts nothing of the earlier term any more.
func cutLater(disk SimDisk, term uint64) bool {
	for now, _ := disk.Vote(); now > term; now-- {
		if disk.Has(disk.Saved(), now) {
			return true
		}
	}
	return false
}

// arrive delivers a message to the process that runs now, which may have started since the message
// was sent.
func (m *simMember) arrive(wire []byte) { m.after(0, func() { m.receive(wire) }) }

// receive adds an arrived message. Messages that arrive within a short time are received together.
func (m *simMember) receive(wire []byte) {
	f, err := ReadFrame(bufio.NewReader(bytes.NewReader(wire)), MaxFrame)
	if err != nil {
		m.s.fail("%v", err)
	}
	message, err := ParseMessage(f)
	if err != nil {
		m.s.fail("%v", err)
	}
	m.inbox = append(m.inbox, message)
	if len(m.inbox) == 1 {
		m.after(m.s.between(0, 100*time.Microsecond), func() {
			all := m.inbox
			m.inbox = nil
			m.g.Receive(all)
		})
	}
}

// simMachine runs commands in the same way as the server. A leader runs them before they are
// committed, and all other members afterwards.
type simMachine struct {
	m       *simMember
	leading bool
	term    uint64
	first   uint64
	ahead   []simAhead // has run here, and is not applied
}

// simAhead is an entry that has run before it was applied.
type simAhead struct{ index, term, hash uint64 }

// hashOf returns a hash of an entry's content, without the index and term.
func hashOf(data []byte) uint64 {
	h := fnv.New64a()
	h.Write(data)
	return h.Sum64()
}

// executed returns the index of the last entry that has run here.
func (x *simMachine) executed() uint64 {
	if n := len(x.ahead); n > 0 {
		return x.ahead[n-1].index
	}
	return x.m.state.applied.Index
}

// ready reports whether the machine may propose.
func (x *simMachine) ready() bool { return x.leading && x.m.state.applied.Index >= x.first }

func (x *simMachine) Led(uint64, uint64) {}

func (x *simMachine) Elected(term, first uint64) {
	s := x.m.s
	if other := s.leaders[term]; other != 0 {
		s.fail("the members %d and %d lead in term %d", other, x.m.id, term)
	}
	s.leaders[term] = x.m.id
	s.elections++
	if x.leading {
		s.fail("member %d is elected twice", x.m.id)
	}
	x.leading, x.term, x.first = true, term, first
	s.logf("member %d leads in term %d from entry %d on", x.m.id, term, first)
}

func (x *simMachine) Deposed(term, committed uint64) {
	if !x.leading || x.term != term {
		x.m.s.fail("member %d is deposed of term %d", x.m.id, term)
	}
	x.leading = false
	x.m.s.logf("member %d is deposed of term %d, %d entries are open", x.m.id, term, len(x.ahead))
}

func (x *simMachine) Replaced(from uint64) {
	for i, a := range x.ahead {
		if a.index >= from {
			x.m.s.logf("member %d has lost %d entries", x.m.id, len(x.ahead)-i)
			x.ahead = x.ahead[:i]
			return
		}
	}
	if from <= x.m.state.applied.Index {
		x.m.s.fail("member %d: entry %d is applied, and is replaced", x.m.id, from)
	}
}

// Committed acknowledges all entries up to index, and checks that a majority has them on disk.
func (x *simMachine) Committed(index uint64) {
	s := x.m.s
	for _, a := range x.ahead {
		if a.index <= index {
			s.acknowledge(x.m, a)
		}
	}
	if x.leading && index >= x.first {
		s.lastTerm = max(s.lastTerm, x.term)
	}
	if x.m.g == nil || !x.leading {
		return
	}
	confs := []*pb.ConfState{x.m.state.applied.Conf, x.m.g.Status().Conf}
	if !slices.ContainsFunc(confs, func(c *pb.ConfState) bool {
		return s.majorityHas(c.GetVoters(), index, x.term) &&
			s.majorityHas(c.GetVotersOutgoing(), index, x.term)
	}) {
		s.fail("member %d says that entry %d of term %d is committed, and it is not on the disks of a majority of %v",
			x.m.id, index, x.term, confs)
	}
}

func (s *sim) acknowledge(m *simMember, a simAhead) {
	if known, ok := s.acked[a.index]; ok && known != a.hash {
		s.fail("member %d acknowledges another entry %d than was acknowledged before", m.id,
			a.index)
	}
	s.acked[a.index] = a.hash
	s.lastAcked = max(s.lastAcked, a.index)
}

func (s *sim) majorityHas(ids []uint64, index, term uint64) bool {
	n := 0
	for _, id := range ids {
		if m := s.members[id]; m == nil || m.log.Has(index, term) {
			// A member that has left counts as having the entry.
			n++
		}
	}
	return len(ids) == 0 || n > len(ids)/2
}

func (x *simMachine) Apply(a Applying, done func()) {
	s, st := x.m.s, x.m.state
	conf := st.applied.Conf
	for _, e := range a.Entries {
		if e.GetIndex() != st.applied.Index+1 || e.GetTerm() < st.applied.Term {
			s.fail("member %d applies entry %d of term %d after %d of term %d", x.m.id,
				e.GetIndex(), e.GetTerm(), st.applied.Index, st.applied.Term)
		}
		content := hashOf(e.Data)
		st.sum = st.sum*0x9e3779b97f4a7c15 ^ content ^ e.GetIndex()<<32 ^ e.GetTerm()
		if known, ok := s.sums[e.GetIndex()]; ok && known != st.sum {
			s.fail("member %d applies another entry %d than others", x.m.id, e.GetIndex())
		}
		s.sums[e.GetIndex()] = st.sum
		s.terms[e.GetIndex()] = e.GetTerm()
		if hash, ok := s.acked[e.GetIndex()]; ok && hash != content {
			s.fail("member %d applies another entry %d than was acknowledged", x.m.id, e.GetIndex())
		}
		if len(x.ahead) > 0 && x.ahead[0].index <= e.GetIndex() {
			if own := x.ahead[0]; own.index != e.GetIndex() || own.term != e.GetTerm() ||
				own.hash != content {
				s.fail("member %d has run %+v, and applies entry %d of term %d", x.m.id, own,
					e.GetIndex(), e.GetTerm())
			}
			x.ahead = x.ahead[1:]
		}
		st.applied.Index, st.applied.Term = e.GetIndex(), e.GetTerm()
		if !x.m.log.Has(e.GetIndex(), e.GetTerm()) {
			s.fail("member %d applies entry %d, which is not on its disk", x.m.id, e.GetIndex())
		}
		before := conf
		conf = confAfter(conf, e)
		if c, err := ConfAfter(before, e); err != nil || confText(c) != confText(conf) {
			x.m.s.fail("after entry %d the members are %v: %v", e.GetIndex(), c, err)
		}
	}
	if confText(conf) != confText(a.Conf) {
		s.fail("member %d has the members %s after entry %d, which should be %s", x.m.id,
			confText(a.Conf), st.applied.Index, confText(conf))
	}
	st.applied.Conf = a.Conf
	if s.one(5) {
		x.m.after(s.between(0, 5*time.Millisecond), done)
	} else {
		done()
	}
}

func (x *simMachine) Restore(snapshot *pb.Snapshot, done func(error)) {
	s, meta := x.m.s, snapshot.GetMetadata()
	crash := func(most time.Duration) {
		x.m.after(s.between(0, most), func() {
			if !s.calm {
				s.logf("member %d crashes amid a snapshot", x.m.id)
				x.m.crash()
			}
		})
	}
	end := func() {
		sum := le.Uint64(snapshot.GetData())
		if known := s.sums[meta.GetIndex()]; known != sum {
			s.fail("member %d gets a snapshot that ends with entry %d, and is not what was applied",
				x.m.id, meta.GetIndex())
		}
		if meta.GetIndex() < x.m.state.applied.Index {
			s.fail("member %d has applied %d, and gets a snapshot that ends with %d", x.m.id,
				x.m.state.applied.Index, meta.GetIndex())
		}
		*x.m.state = simState{Base{meta.GetIndex(), meta.GetTerm(), meta.GetConfState()}, sum}
		x.m.saved = *x.m.state
		x.m.older = x.m.saved
		x.ahead = nil
		s.logf("member %d has a snapshot that ends with entry %d", x.m.id, meta.GetIndex())
		if s.one(2) {
			crash(200 * time.Microsecond)
		}
		done(nil)
	}
	if s.one(5) {
		crash(20 * time.Millisecond)
	}
	if s.one(2) {
		x.m.after(s.between(0, 50*time.Millisecond), end)
	} else {
		end()
	}
}

func (x *simMachine) Failed(err error) {
	if !errors.Is(err, io.ErrShortWrite) {
		x.m.s.fail("member %d has failed: %v", x.m.id, err)
	}
	x.leading = false
}

// confAfter returns the members after a change. It does not use the library's code.
func confAfter(c *pb.ConfState, e *pb.Entry) *pb.ConfState {
	change, ok := changeOf(e)
	if !ok {
		return c
	}
	v2 := change.AsV2()
	after := &pb.ConfState{Voters: slices.Clone(c.GetVoters()),
		Learners:       slices.Clone(c.GetLearners()),
		VotersOutgoing: slices.Clone(c.GetVotersOutgoing())}
	switch len(v2.GetChanges()) {
	case 0:
		after.VotersOutgoing = nil
	case 1:
	default:
		after.VotersOutgoing = slices.Clone(c.GetVoters())
	}
	without := func(list []uint64, id uint64) []uint64 {
		return slices.DeleteFunc(list, func(other uint64) bool { return other == id })
	}
	for _, one := range v2.GetChanges() {
		id := one.GetNodeId()
		after.Voters, after.Learners = without(after.Voters, id), without(after.Learners, id)
		switch one.GetType() {
		case pb.ConfChangeAddNode:
			after.Voters = append(after.Voters, id)
		case pb.ConfChangeAddLearnerNode:
			after.Learners = append(after.Learners, id)
		}
	}
	return after
}

func confText(c *pb.ConfState) string {
	return fmt.Sprint(slices.Sorted(slices.Values(c.GetVoters())),
		slices.Sorted(slices.Values(c.GetLearners())),
		slices.Sorted(slices.Values(c.GetVotersOutgoing())))
}

// propose makes a leader run commands.
func (s *sim) propose(m *simMember, n int) bool {
	if !m.leads() || !m.machine.ready() {
		return false
	}
	var entries [][]byte
	for range n {
		s.proposed++
		data := binary.LittleEndian.AppendUint64(nil, uint64(s.proposed))
		if s.one(50) {
			data = append(data, make([]byte, s.random.IntN(300<<10))...)
		}
		entries = append(entries, data)
	}
	life, before := m.life, m.machine.executed()
	p, err := m.g.Propose(entries...)
	if m.life != life {
		s.fail("a crash within Propose")
	}
	if err != nil && !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrFull) {
		s.fail("member %d: %v", m.id, err)
	}
	if err != nil && p.First == 0 {
		return false
	}
	if p.First <= before {
		s.fail("member %d has run what is up to %d, and proposes entry %d", m.id, before, p.First)
	}
	for i := p.First; i <= p.Last; i++ {
		m.machine.ahead = append(m.machine.ahead, simAhead{i, p.Term, hashOf(entries[i-p.First])})
	}
	for _, e := range entries { // a copy was made
		clear(e)
	}
	m.follow()
	return true
}

func newSimRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }
