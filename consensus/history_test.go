package consensus

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/internal/testkit"
	"keyp/internal/testkit/setup"
)

// simRounds is how many times a simulated group has failures and is then repaired.
const simRounds = 6

// run plays a history: rounds of random events, each of which ends with a repaired group.
func (s *sim) run(rounds int) {
	s.settle()
	for range rounds {
		s.calm = false
		for range 20 + s.random.IntN(60) {
			s.act()
			s.pass(s.between(0, 60*time.Millisecond))
		}
		s.settle()
		if s.one(2) {
			s.minority()
			s.settle()
		}
	}
}

// act does something random to the group.
func (s *sim) act() {
	up := func(m *simMember) bool { return m.up && !m.stopped }
	switch n := s.random.IntN(100); {
	case n < 4:
		s.hunt()
	case n < 8:
		s.distance()
	case n < 45:
		for range 1 + s.random.IntN(8) {
			if m := s.pick((*simMember).leads); m != nil {
				s.propose(m, 1+s.random.IntN(3))
				s.pass(s.between(0, 2*time.Millisecond))
			}
		}
	case n < 52:
		for range 1 + s.random.IntN(2) {
			if m := s.pick(func(m *simMember) bool { return m.up }); m != nil {
				s.logf("member %d crashes", m.id)
				m.crash()
				if s.one(2) {
					s.pass(s.between(0, 40*time.Millisecond))
					m.start()
				}
			}
		}
	case n < 60:
		if m := s.pick(func(m *simMember) bool { return !m.up }); m != nil {
			s.logf("member %d starts", m.id)
			m.start()
		}
	case n < 66:
		s.partition()
	case n < 71:
		s.heal()
	case n < 76:
		s.loss, s.double, s.slow = 0.3*s.random.Float64()*float64(s.random.IntN(2)),
			0.1*s.random.Float64(), 0.3*s.random.Float64()*float64(s.random.IntN(2))
	case n < 80:
		if m := s.pick(up); m != nil {
			s.logf("member %d is stopped", m.id)
			m.stopped = true
			s.stops++
		}
	case n < 85:
		if m := s.pick(func(m *simMember) bool { return m.up && m.stopped }); m != nil {
			s.logf("member %d continues", m.id)
			m.resume()
		}
	case n < 89:
		s.transfer()
	case n < 92:
		s.changeMembers()
	case n < 96:
		if m := s.pick(up); m != nil {
			m.checkpoint()
		}
	case n < 98:
		if m := s.pick(up); m != nil {
			m.slow = !m.slow
		}
	case n < 99:
		if m := s.pick(up); m != nil {
			m.wall += s.between(-time.Hour, time.Hour)
		}
	default:
		if m := s.pick(up); m != nil {
			s.logf("the disk of member %d fails", m.id)
			m.log.Fail(io.ErrShortWrite)
		}
	}
}

// partition cuts links: a single one, all links of a member, or those between two parts. It cuts
// one direction or both.
func (s *sim) partition() {
	s.partitions++
	list, both := s.sorted(), s.one(2)
	between := func(a, b uint64) {
		s.cut[[2]uint64{a, b}] = true
		if both {
			s.cut[[2]uint64{b, a}] = true
		}
	}
	var part []uint64
	switch s.random.IntN(3) {
	case 0:
		between(list[s.random.IntN(len(list))].id, list[s.random.IntN(len(list))].id)
	case 1:
		part = []uint64{list[s.random.IntN(len(list))].id}
		if m := s.pick((*simMember).leads); m != nil && s.one(2) {
			part[0] = m.id
		}
	default:
		for _, m := range list {
			if s.one(2) {
				part = append(part, m.id)
			}
		}
	}
	reverse := s.one(2)
	for _, a := range part {
		for _, m := range list {
			if !slices.Contains(part, m.id) {
				if reverse {
					between(m.id, a)
				} else {
					between(a, m.id)
				}
			}
		}
	}
	s.logf("a partition: %d links are cut", len(s.cut))
}

func (s *sim) heal() {
	clear(s.cut)
	clear(s.far)
}

// distance delays messages on some links: on all links to a member, on all links from it, or on
// random ones.
func (s *sim) distance() {
	one, list := s.pick(func(*simMember) bool { return true }).id, s.sorted()
	if m := s.pick((*simMember).leads); m != nil && s.one(2) {
		one = m.id
	}
	how, most := s.random.IntN(3), s.between(0, 300*time.Millisecond)
	for _, a := range list {
		for _, b := range list {
			if how == 0 && a.id == one || how == 1 && b.id == one || how == 2 && s.one(3) {
				s.far[[2]uint64{a.id, b.id}] = s.between(most/2, most)
			}
		}
	}
	s.logf("messages take up to %v longer", most)
}

// hunt tries to make another member leader while the old one still believes that it leads. A member
// that is cut off from the leader campaigns while answers to the leader are still on their way.
// Members that would reject it are restarted, or the leader itself orders a campaign.
func (s *sim) hunt() {
	if s.one(2) { // from a group that is whole
		s.repair()
		s.pass(time.Second)
		s.calm = false
	}
	leader := s.pick((*simMember).leads)
	if leader == nil {
		return
	}
	most := s.between(0, 250*time.Millisecond)
	for _, m := range s.sorted() {
		s.far[[2]uint64{m.id, leader.id}] = most
	}
	s.logf("member %d is hunted", leader.id)
	how := s.random.IntN(3)
	switch how {
	case 0: // nobody hears it
		s.pass(s.between(0, 500*time.Millisecond))
		for _, m := range s.sorted() {
			s.cut[[2]uint64{leader.id, m.id}] = true
		}
	case 1: // one does not, and the others start anew
		if m := s.pick(func(m *simMember) bool { return m != leader }); m != nil {
			s.cut[[2]uint64{leader.id, m.id}] = true
			s.pass(s.between(200*time.Millisecond, 500*time.Millisecond))
			for range 20 {
				if other := s.pick(func(o *simMember) bool {
					return o != m && o != leader && o.up && !o.stopped
				}); other != nil {
					other.crash()
					s.pass(s.between(0, 10*time.Millisecond))
					other.start()
				}
				s.pass(s.between(0, 40*time.Millisecond))
			}
		}
	default: // it hands over, and the order comes late
		s.lateOrder = true
		s.transfer()
		s.lateOrder = false
		s.pass(s.between(0, 800*time.Millisecond))
	}
	s.pass(s.between(200*time.Millisecond, 600*time.Millisecond))
	if s.one(2) {
		s.heal()
	}
}

func (s *sim) transfer() {
	from := s.pick((*simMember).leads)
	if from == nil {
		return
	}
	if s.one(3) {
		for _, m := range s.sorted() {
			s.far[[2]uint64{m.id, from.id}] = s.between(0, 250*time.Millisecond)
		}
	}
	to := s.pick(func(m *simMember) bool { return m != from })
	if to == nil {
		return
	}
	if err := from.g.Transfer(to.id); err == nil {
		s.transfers++
		s.logf("member %d is to hand over to %d", from.id, to.id)
		from.follow()
	} else if !errors.Is(err, ErrTarget) && !errors.Is(err, ErrNotLeader) {
		s.fail("a transfer: %v", err)
	}
}

func (s *sim) changeMembers() {
	m := s.pick((*simMember).leads)
	if m == nil {
		return
	}
	conf := m.g.Status().Conf
	voters, learners := conf.GetVoters(), conf.GetLearners()
	one := func(t pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
		return &pb.ConfChangeSingle{Type: &t, NodeId: &id}
	}
	from := func(list []uint64) uint64 { return list[s.random.IntN(len(list))] }
	var changes []*pb.ConfChangeSingle
	fresh := func() uint64 { return s.join(Base{}).id }
	switch n := s.random.IntN(5); {
	case n == 0 && len(learners) == 0:
		changes = append(changes, one(pb.ConfChangeAddLearnerNode, fresh()))
	case n == 1 && len(learners) > 0 && len(voters) < 5:
		changes = append(changes, one(pb.ConfChangeAddNode, from(learners)))
	case n == 2 && len(voters) > 3:
		changes = append(changes, one(pb.ConfChangeRemoveNode, from(voters)))
	case n == 3 && len(learners) > 0:
		changes = append(changes, one(pb.ConfChangeRemoveNode, from(voters)),
			one(pb.ConfChangeAddNode, from(learners)))
	case n == 4 && len(s.members) < 8:
		changes = append(changes, one(pb.ConfChangeAddNode, fresh()),
			one(pb.ConfChangeRemoveNode, from(voters)))
	default:
		return
	}
	index, err := m.g.Change(changes...)
	s.logf("member %d changes the members by %v in entry %d: %v", m.id, changes, index, err)
	if err == nil {
		s.changes++
	} else if !errors.Is(err, ErrChange) && !errors.Is(err, ErrNotLeader) &&
		!errors.Is(err, ErrFull) {
		s.fail("a change of members: %v", err)
	}
	m.follow()
}

// checkpoint saves the machine's state, and makes the log begin after the previous checkpoint.
func (m *simMember) checkpoint() {
	m.older, m.saved = m.saved, *m.state
	if m.older.applied.Index > m.log.Base().Index {
		m.log.Compact(m.older.applied, m.saved.applied)
	}
}

// repair heals the network and starts or resumes all processes.
func (s *sim) repair() {
	s.heal()
	s.loss, s.double, s.slow, s.calm = 0, 0, 0, true
	for _, m := range s.sorted() {
		m.slow = false
		if m.up && m.stopped {
			m.resume()
		}
		if m.up && (m.log.Failing() || m.g.Status().Ended != nil) {
			m.crash()
		}
		if !m.up {
			m.start()
		}
	}
}

// settle repairs everything, and waits until all members have applied an entry that it proposes.
func (s *sim) settle() {
	s.logf("all is repaired")
	s.repair()
	index := s.progress("")
	var conf *pb.ConfState
	s.until("all members have the same", func() bool {
		leader := s.pick((*simMember).leads)
		if leader == nil {
			return false
		}
		conf = leader.state.applied.Conf
		for _, id := range slices.Concat(conf.GetVoters(), conf.GetLearners()) {
			// A member that does not know yet that the change of members has ended still needs the
			// members that left.
			if a := s.members[id].state.applied; a.Index < index ||
				len(a.Conf.GetVotersOutgoing()) > 0 {
				return false
			}
		}
		return len(conf.GetVotersOutgoing()) == 0 &&
			leader.state.applied.Index == leader.g.Status().Last
	})
	for index := range s.acked {
		if _, ok := s.sums[index]; !ok {
			s.fail("entry %d is acknowledged, and nobody has applied it", index)
		}
	}
	clear(s.acked)
	for _, m := range s.sorted() {
		if !slices.Contains(conf.GetVoters(), m.id) && !slices.Contains(conf.GetLearners(), m.id) {
			m.up = false
			delete(s.members, m.id)
		}
	}
	s.logf("all is quiet at entry %d, members %s", index, confText(conf))
}

// progress waits until a member leads with a lease, and until an entry that it proposes is
// committed. It returns the entry's index.
func (s *sim) progress(when string) (index uint64) {
	var leader *simMember
	s.until("an entry is proposed"+when, func() bool {
		leader = s.pick(func(m *simMember) bool {
			return m.leads() && m.machine.ready() && m.g.Leased()
		})
		return leader != nil && s.propose(leader, 1)
	})
	index = leader.machine.executed()
	s.until("an entry is committed"+when, func() bool {
		if !leader.leads() && s.sums[index] == 0 { // somebody else leads
			return true
		}
		return leader.state.applied.Index >= index
	})
	if s.sums[index] == 0 {
		return s.progress(when)
	}
	return index
}

// minority crashes, stops or cuts off less than half of the voters, perhaps with the leader. The
// others must still make progress.
func (s *sim) minority() {
	voters := s.pick((*simMember).leads).state.applied.Conf.GetVoters()
	n := (len(voters) - 1) / 2
	gone := map[uint64]bool{}
	for _, i := range s.random.Perm(len(voters))[:n] {
		gone[voters[i]] = true
	}
	how := s.random.IntN(3)
	s.logf("%v go, %d", gone, how)
	for _, m := range s.sorted() {
		switch {
		case !gone[m.id]:
		case how == 0:
			m.crash()
		case how == 1:
			m.stopped = true
			s.stops++
		default:
			for _, other := range s.sorted() {
				s.cut[[2]uint64{m.id, other.id}], s.cut[[2]uint64{other.id, m.id}] = true, true
			}
		}
	}
	if how == 2 {
		s.partitions++
		s.until("a leader that is cut off is deposed", func() bool {
			return s.pick(func(m *simMember) bool { return gone[m.id] && m.leads() }) == nil
		})
	}
	s.progress(" by a majority")
}

// simulate runs the history of a seed.
func simulate(seed uint64, rounds int, disk NewDisk) (s *sim, err error) {
	return observeOn(seed, disk, func(s *sim) { s.run(rounds) })
}

// observe runs play on a new group. It returns a failed check as an error.
func observe(seed uint64, play func(s *sim)) (s *sim, err error) {
	return observeOn(seed, newMemDisk, play)
}

func observeOn(seed uint64, disk NewDisk, play func(s *sim)) (s *sim, err error) {
	was := rand.Reader
	defer func() { rand.Reader = was }()
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(failure)
			if !ok && !isLibrary(p) {
				panic(p)
			}
			if !ok {
				f.text = fmt.Sprint("panic: ", p)
			}
			last := 40
			if os.Getenv("KEYP_CONSENSUS_TRACE") != "" {
				last = len(s.trace)
			}
			err = fmt.Errorf("seed %d, at %v: %s\nbefore that:\n%s", seed, s.now, f.text,
				strings.Join(s.trace[max(0, len(s.trace)-last):], "\n"))
		}
	}()
	s = &sim{}
	rand.Reader = simRandom{newSimRandom(seed)}
	s = newSim(seed, disk)
	play(s)
	return s, nil
}

// isLibrary reports whether a panic comes from the library, which has found invalid input.
func isLibrary(p any) bool {
	switch p.(type) {
	case string, error:
		return true
	}
	return false
}

// TestSimulation runs a few histories. With KEYP_CONSENSUS it runs as many as fit into that
// duration, and with KEYP_CONSENSUS_SEED only the one of that seed. KEYP_CONSENSUS_TRACE prints the
// events.
func TestSimulation(t *testing.T) {
	least := 20
	if testkit.Long() {
		least = 40
	}
	Histories(t, newMemDisk, least)
}

// Histories runs at least least histories with disks that disk makes.
func Histories(t *testing.T, disk NewDisk, least int) {
	if v := os.Getenv("KEYP_CONSENSUS_SEED"); v != "" {
		seed, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		s, err := simulate(seed, simRounds, disk)
		if err != nil {
			t.Fatal(err)
		}
		if os.Getenv("KEYP_CONSENSUS_TRACE") != "" {
			t.Log(strings.Join(s.trace, "\n"))
		}
		return
	}
	budget := time.Duration(0)
	if testkit.Race { // which finds nothing within one goroutine
		least = 3
	}
	if v := os.Getenv("KEYP_CONSENSUS"); v != "" {
		var err error
		if budget, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	began, first := time.Now(), testkit.Seed(t)*1_000_000
	var all sim
	n := 0
	for ; n < least || time.Since(began) < budget; n++ {
		s, err := simulate(first+uint64(n), simRounds, disk)
		if err != nil {
			t.Fatal(err)
		}
		all.crashes += s.crashes
		all.partitions += s.partitions
		all.stops += s.stops
		all.changes += s.changes
		all.transfers += s.transfers
		all.elections += s.elections
		all.leases += s.leases
		all.proposed += s.proposed
		all.now += s.now
	}
	t.Logf("%d histories, %v of simulated time in %v: %d crashes, %d partitions, %d stopped processes, %d elections, %d transfers, %d changes of members, %d entries, %d looks at a lease",
		n, all.now.Round(time.Second), time.Since(began).Round(time.Millisecond), all.crashes,
		all.partitions, all.stops, all.elections, all.transfers, all.changes,
		all.proposed, all.leases)
}

// TestSimulationReproduces runs a history twice.
func TestSimulationReproduces(t *testing.T) {
	var sums [2]uint64
	for i := range sums {
		s, err := simulate(setup.Seed, 2, newMemDisk)
		if err != nil {
			t.Fatal(err)
		}
		h := fnv.New64a()
		io.WriteString(h, strings.Join(s.trace, "\n"))
		sums[i] = h.Sum64()
	}
	if sums[0] != sums[1] {
		t.Errorf("the same seed gave two histories")
	}
}

// TestCommitRidesAlong: a commit index is sent with the next entry or, if there is none, by itself
// long before the next heartbeat. The messages come in order, as over a connection. Otherwise a
// follower might refuse a message that overtakes another one, and get the rest only after a
// heartbeat.
func TestCommitRidesAlong(t *testing.T) {
	if _, err := observe(setup.Seed, func(s *sim) { commitRidesAlong(t, s) }); err != nil {
		t.Error(err)
	}
}

func commitRidesAlong(t *testing.T, s *sim) {
	s.settle()
	s.inOrder = map[[2]uint64]time.Duration{}
	leader := s.pick((*simMember).leads)
	empty := 0
	s.watch = func(m *Message) {
		if m.Raft.GetType() == pb.MsgApp && len(m.Raft.Entries) == 0 {
			empty++
		}
	}
	const entries = 100
	for range entries {
		s.propose(leader, 1)
		s.pass(300 * time.Microsecond)
	}
	if empty > entries/5*(len(s.members)-1) {
		t.Errorf("%d messages without an entry for %d entries", empty, entries)
	}
	if s.pass(15 * time.Millisecond); empty == 0 {
		t.Error("no message tells of the last entry's commit")
	}
	for _, m := range s.sorted() {
		if m.state.applied.Index != leader.g.Status().Last {
			t.Errorf("member %d has applied %d of %d entries", m.id, m.state.applied.Index,
				leader.g.Status().Last)
		}
	}
}

// TestSnapshotReplacesEntries: when a snapshot replaces the entries of a leader that was cut off,
// its machine gets Replaced for them, and not Committed.
func TestSnapshotReplacesEntries(t *testing.T) {
	_, err := observe(setup.Seed, func(s *sim) {
		s.settle()
		old := s.pick((*simMember).leads)
		for _, m := range s.sorted() {
			s.cut[[2]uint64{m.id, old.id}], s.cut[[2]uint64{old.id, m.id}] = true, true
		}
		if !s.propose(old, 3) {
			t.Fatal("nothing is proposed")
		}
		s.until("another member leads", func() bool {
			return !old.machine.leading && s.pick((*simMember).leads) != nil
		})
		if len(old.machine.ahead) != 3 {
			t.Fatalf("%d entries are open", len(old.machine.ahead))
		}
		for range 2 {
			for range 10 {
				s.progress("")
			}
			s.pass(100 * time.Millisecond)
			for _, m := range s.sorted() {
				if m != old {
					m.checkpoint()
				}
			}
		}
		s.settle()
		if old.log.Base().Index == 1 {
			t.Error("no snapshot has come")
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPeersStayActive: a leader that hears all members each tick always reports them as active,
// also right after its election.
func TestPeersStayActive(t *testing.T) {
	_, err := observe(setup.Seed, func(s *sim) {
		s.settle()
		for range 20 * electionTicks {
			s.pass(tick)
			for _, p := range s.pick((*simMember).leads).g.Peers() {
				if !p.Active {
					t.Fatalf("member %d does not answer", p.ID)
				}
			}
		}
		gone := s.sorted()[0]
		if gone.leads() {
			gone = s.sorted()[1]
		}
		for _, m := range s.sorted() {
			s.cut[[2]uint64{m.id, gone.id}], s.cut[[2]uint64{gone.id, m.id}] = true, true
		}
		s.until("the leader does not hear who is cut off", func() bool {
			leader := s.pick((*simMember).leads)
			return leader != nil && slices.ContainsFunc(leader.g.Peers(), func(p Peer) bool {
				return p.ID == gone.id && !p.Active
			})
		})
	})
	if err != nil {
		t.Error(err)
	}
}
