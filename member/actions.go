package member

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	crand "crypto/rand"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/commands"
	"keyp/consensus"
	"keyp/consensus/raftlog"
)

// Requests that members send each other, and that a server sends to become a member.

const (
	askHello    = "hello"    // returns the members
	askJoin     = "join"     // to become a member
	askAnnounce = "announce" // to change the sender's address
	askForget   = "forget"   // to have a member removed
	askTransfer = "transfer" // to lead
	askSnapshot = "snapshot" // to get a snapshot

	askTime     = 5 * time.Second
	handOver    = time.Second // how long commands may wait for another leader
	forgetTries = 20
	forgetPause = 100 * time.Millisecond
	maxAnswer   = 1 << 20
	promoteLate = 1000 // entries that a learner may lack when it becomes a voter
)

// request is a request to a member, as JSON.
type request struct {
	Do     string           `json:"do"`
	Member *commands.Member `json:"member,omitempty"`
	Node   string           `json:"node,omitempty"`
	// After is the last entry that the sender of a request for a snapshot knows to be committed. A
	// snapshot with an older base is of no use to it.
	After uint64 `json:"after,omitempty"`
	// Via is the address at which the sender reached the member, which may not know its own
	// address.
	Via string `json:"via,omitempty"`
}

// hello is the answer to requests except askSnapshot: the group and its members.
type hello struct {
	Cluster uint64            `json:"cluster"`
	Shard   string            `json:"shard"`
	Leader  uint64            `json:"leader"` // 0: not known
	Members []commands.Member `json:"members"`
}

// Why something is refused.
var (
	errNoLeader  = errors.New("the group has no leader at this time; try again")
	errRemoved   = errors.New("this server was removed from the group: ask another member")
	errNotLeader = errors.New("this member does not lead")
	errUnmet     = errors.New("the node is not known: CLUSTER MEET comes before")
	errKeys      = errors.New(
		"this server has keys, which would be lost: only an empty one can join a group")
	errNotIn    = errors.New("this server is in no group")
	errLate     = errors.New("no other member could be elected in time")
	errMajority = errors.New("without this member the others that answer are no majority, so the group would stop: remove those that do not answer before")
)

// ask makes a call whose answer is short. local is this side's address.
func ask(ctx context.Context, o *consensus.TransportOptions, addr string, to uint64, q *request,
	answer any) (local string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	text, err := json.Marshal(q)
	if err != nil {
		return "", err
	}
	r, err := consensus.Ask(ctx, o, addr, to, text)
	if err != nil {
		return "", err
	}
	defer r.Close()
	reply, err := io.ReadAll(io.LimitReader(r, maxAnswer))
	if err == nil && answer != nil {
		err = json.Unmarshal(reply, answer)
	}
	local, _, _ = net.SplitHostPort(r.LocalAddr().String())
	return local, err
}

// askOptions returns the options of a call by this server.
func (m *Member) askOptions() *consensus.TransportOptions {
	o := &consensus.TransportOptions{Secret: m.o.Secret, TLS: m.o.TLS}
	if m.id != nil {
		o.Me = m.id.me()
	}
	return o
}

// askLeader sends a request to the leader of the group, which may be this member.
func (m *Member) askLeader(ctx context.Context, q *request) error {
	st := m.status.Load()
	if st.Role == commands.Leader {
		return m.asked(ctx, m.id.ID, q)
	}
	leader := st.Member(st.Leader)
	if leader == nil || leader.ID == st.ID {
		return m.leaderless()
	}
	_, err := ask(ctx, m.askOptions(), busAddress(leader), leader.ID, q, nil)
	return err
}

// leaderless returns why this member knows no leader.
func (m *Member) leaderless() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.role != commands.Joining && !isMember(m.mu.conf, m.id.ID) {
		return errRemoved
	}
	return errNoLeader
}

// serve answers other members, and strangers.
func (m *Member) serve(ctx context.Context, from uint64, text []byte, w io.Writer) error {
	var q request
	if err := json.Unmarshal(text, &q); err != nil {
		return errors.New("the request does not parse")
	}
	if q.Do == askSnapshot && from != 0 {
		return m.send(ctx, from, q.After, w)
	}
	if err := m.asked(ctx, from, &q); err != nil {
		return err
	}
	m.mu.Lock()
	st := m.status.Load()
	h := hello{Cluster: m.id.Cluster, Shard: m.id.Shard, Leader: st.Leader,
		Members: slices.Clone(st.Members)}
	m.mu.Unlock()
	answer, err := json.Marshal(h)
	if err != nil {
		return err
	}
	_, err = w.Write(answer)
	return err
}

// asked carries out a request, except askSnapshot, and returns when it is done.
func (m *Member) asked(ctx context.Context, from uint64, q *request) error {
	if q.Do == askHello {
		return nil
	}
	if q.Do == askAnnounce && q.Member != nil && q.Member.ID == from && from != 0 {
		m.moved(q.Member)
	}
	if m.status.Load().Role != commands.Leader {
		return errNotLeader
	}
	switch {
	case q.Do == askJoin && q.Member != nil && q.Member.ID != 0:
		return m.admit(ctx, q)
	case from == 0:
		return errors.New("only a member may ask that")
	case q.Do == askAnnounce && q.Member != nil && q.Member.ID == from:
		return m.propose(ctx, q.Member)
	case q.Do == askForget:
		return m.remove(ctx, q.Node)
	case q.Do == askTransfer:
		return m.transfer(from)
	}
	return errors.New("the request is not known to this version")
}

// propose proposes an entry with a member's names and addresses, and waits until this server has
// applied it.
func (m *Member) propose(ctx context.Context, o *commands.Member) error {
	p, err := m.group.Propose(memberEntry(o))
	if err != nil {
		return err
	}
	return m.until(ctx, func() bool { return m.mu.applied.Index >= p.Last })
}

// change proposes a change of the membership, and waits until it is applied here and no joint
// configuration is left.
func (m *Member) change(ctx context.Context, changes ...*pb.ConfChangeSingle) error {
	index, err := m.group.Change(changes...)
	if err != nil {
		return err
	}
	return m.until(ctx, func() bool {
		return m.mu.applied.Index >= index && len(m.mu.conf.GetVotersOutgoing()) == 0
	})
}

// until waits until over returns true, for askTime at most. It checks after each change of the
// member's state. mu is locked during over.
func (m *Member) until(ctx context.Context, over func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { m.become(func() {}) })
	defer stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for !over() {
		if ctx.Err() != nil || m.ctx.Err() != nil {
			return errors.New("the group has not agreed in time; try again")
		}
		m.mu.changed.Wait()
	}
	return nil
}

func single(kind pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
	return &pb.ConfChangeSingle{Type: &kind, NodeId: &id}
}

// admit makes a server a member that does not vote yet. The request may be repeated. A member with
// the same node name is replaced. A member with the server's address is replaced, too, for example
// after the loss of its disk; but if that member still answers, admit returns an error.
func (m *Member) admit(ctx context.Context, q *request) error {
	o := *q.Member
	m.mu.Lock()
	me := m.mu.members[slices.IndexFunc(m.mu.members, func(o commands.Member) bool {
		return o.ID == m.id.ID
	})]
	known, conf := slices.Clone(m.mu.members), m.mu.conf
	m.mu.Unlock()
	if o.Node == me.Node {
		return errors.New("the node has the name of the leader")
	}
	if me.IP == "" && q.Via != "" {
		me.IP = q.Via
		if err := m.propose(ctx, &me); err != nil {
			return err
		}
	}
	replaced := func(old *commands.Member) bool {
		return old.ID != o.ID && isMember(conf, old.ID) &&
			(old.Node == o.Node || o.IP != "" && o.IP == old.IP && o.Bus == old.Bus)
	}
	for _, old := range known {
		if replaced(&old) && old.Node != o.Node && m.isActive(old.ID) {
			return errors.New("a member with the server's address answered a moment ago; try again")
		}
	}
	if err := m.propose(ctx, &o); err != nil {
		return err
	}
	for _, old := range known {
		if replaced(&old) {
			if err := m.change(ctx, single(pb.ConfChangeRemoveNode, old.ID)); err != nil {
				return err
			}
		}
	}
	if isMember(conf, o.ID) {
		return nil
	}
	return m.change(ctx, single(pb.ConfChangeAddLearnerNode, o.ID))
}

// isActive reports whether a member has answered lately.
func (m *Member) isActive(id uint64) bool {
	return slices.ContainsFunc(m.group.Peers(), func(p consensus.Peer) bool {
		return p.ID == id && p.Active
	})
}

// remove removes a member.
func (m *Member) remove(ctx context.Context, node string) error {
	st := m.status.Load()
	for i := range st.Members {
		if o := &st.Members[i]; o.Node == node {
			if !m.majorityWithout(o.ID) {
				return errMajority
			}
			return m.change(ctx, single(pb.ConfChangeRemoveNode, o.ID))
		}
	}
	return nil // it was removed before
}

// majorityWithout reports whether the members that answer are a majority once another one is
// removed.
func (m *Member) majorityWithout(id uint64) bool {
	votes, answer := 1, 1 // this one
	for _, p := range m.group.Peers() {
		if p.Learner || p.ID == id {
			continue
		}
		if votes++; p.Active {
			answer++
		}
	}
	return answer > votes/2
}

// promote makes a learner a voter once it has nearly all of the log.
func (m *Member) promote() {
	if m.status.Load().Role != commands.Leader {
		return
	}
	last := m.group.Status().Last
	for _, p := range m.group.Peers() {
		if p.Learner && p.Active && !p.Taking && p.Match > 0 && p.Match+promoteLate >= last {
			if _, err := m.group.Change(single(pb.ConfChangeAddNode, p.ID)); err == nil {
				m.o.Logger.Info("a member votes from now on", "id", p.ID)
			}
			return // the next one later
		}
	}
}

// moved records the address that a member announces, until the group has agreed on it. Without
// this, a group could not agree on anything if too many of its members have moved.
func (m *Member) moved(o *commands.Member) {
	m.mu.Lock()
	known, ok := m.mu.moved[o.ID]
	m.mu.moved[o.ID] = *o
	m.mu.Unlock()
	if !ok || known != *o {
		m.do(task{run: m.connect})
	}
}

// announce tells the group the address of this member if it has changed. It returns false on
// failure.
func (m *Member) announce() bool {
	st := m.status.Load()
	me, now := st.Me(), m.o.Announced()
	if me == nil || st.Role != commands.Follower && st.Role != commands.Leader {
		return true
	}
	now.ID, now.Node, now.Learner = me.ID, me.Node, me.Learner
	if now.IP == "" {
		now.IP = me.IP
	}
	if now == *me {
		return true
	}
	now.Learner = false
	q := &request{Do: askAnnounce, Member: &now}
	err := m.askLeader(m.ctx, q)
	if err != nil {
		// The others may not know this server's address, and the leader may have moved too.
		for i := range st.Members {
			if o := &st.Members[i]; o.ID != me.ID && o.IP != "" && m.announceBy(o, q) {
				err = nil
			}
		}
	}
	if err != nil {
		m.o.Logger.Debug("the group does not know where this server is", "error", err)
	}
	return err == nil
}

// announceBy announces this member's address to another member or, through it, to the leader.
func (m *Member) announceBy(o *commands.Member, q *request) bool {
	if _, err := ask(m.ctx, m.askOptions(), busAddress(o), o.ID, q, nil); err == nil {
		return true
	}
	var h hello
	if _, err := ask(m.ctx, m.askOptions(), busAddress(o), o.ID, &request{Do: askHello},
		&h); err != nil {
		return false
	}
	i := slices.IndexFunc(h.Members, func(l commands.Member) bool { return l.ID == h.Leader })
	if i < 0 || h.Leader == o.ID || h.Leader == m.id.ID {
		return false
	}
	if _, err := ask(m.ctx, m.askOptions(), busAddress(&h.Members[i]), h.Leader,
		q, nil); err != nil {
		return false
	}
	m.moved(&h.Members[i]) // the leader has answered at this address
	return true
}

// Found, Meet, Replicate, Forget, Failover and Reset implement commands.Membership.
func (m *Member) Found(done func(error)) {
	go func() {
		me, err := m.able()
		if err != nil {
			done(err)
			return
		}
		me.ID = newNumber()
		id := &identity{Cluster: newNumber(), ID: me.ID, Node: me.Node, Shard: newShard(),
			Members: []commands.Member{me}}
		base := raftlog.Base{Base: consensus.Base{Index: 1, Term: 1,
			Conf: &pb.ConfState{Voters: []uint64{me.ID}}}}
		done(nil)
		m.replan(func() error { return convert(m.storage, id, base) })
	}()
}

// able returns this server as a member, if it can be one.
func (m *Member) able() (me commands.Member, err error) {
	if m.id != nil {
		return me, errors.New("this server is a member of a group already")
	}
	me = m.o.Announced()
	listener, err := m.o.Listen()
	if err != nil {
		return me, fmt.Errorf("the port for members cannot be opened: %w", err)
	}
	return me, listener.Close()
}

func newShard() string {
	var b [20]byte
	crand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (m *Member) Meet(host string, port, bus int, done func(error)) {
	if bus == 0 {
		bus = port + 10000
	}
	go func() {
		var h hello
		stranger := m.askOptions()
		stranger.Me = consensus.Member{} // so that a member of any group answers
		_, err := ask(m.ctx, stranger, net.JoinHostPort(host, fmt.Sprint(bus)), 0,
			&request{Do: askHello}, &h)
		if err != nil {
			done(fmt.Errorf("no member of a group answers at %s port %d: %w", host, bus, err))
			return
		}
		if m.id != nil {
			if h.Cluster != m.id.Cluster {
				err = errors.New("that server is a member of another group")
			}
			done(err)
			return
		}
		for i := range h.Members {
			if o := &h.Members[i]; o.IP == "" && o.Bus == bus {
				o.IP = host
			}
		}
		m.mu.Lock()
		m.mu.met = append(slices.DeleteFunc(m.mu.met, func(o hello) bool {
			return o.Cluster == h.Cluster
		}), h)
		m.mu.Unlock()
		done(nil)
	}()
}

func (m *Member) Replicate(node string, done func(error)) {
	go func() {
		id, err := m.join(node)
		done(err)
		if err == nil {
			m.replan(func() error { return convert(m.storage, id, raftlog.Base{}) })
		}
	}()
}

// join asks a group to admit this server.
func (m *Member) join(node string) (*identity, error) {
	me, err := m.able()
	if err != nil {
		return nil, err
	}
	if keys, _ := m.store.Count(0); keys > 0 {
		return nil, errKeys
	}
	m.mu.Lock()
	if m.mu.joinID == 0 {
		m.mu.joinID = newNumber()
	}
	me.ID = m.mu.joinID
	n := slices.IndexFunc(m.mu.met, func(h hello) bool {
		return slices.ContainsFunc(h.Members, func(o commands.Member) bool {
			return o.Node == node
		})
	})
	var h hello
	if n >= 0 {
		h = m.mu.met[n]
	}
	m.mu.Unlock()
	if n < 0 {
		return nil, errUnmet
	}
	err = errNoLeader
	for _, o := range h.Members {
		if o.IP == "" {
			continue
		}
		var now hello
		local, bad := ask(m.ctx, m.askOptions(), busAddress(&o), 0, &request{Do: askHello}, &now)
		if bad != nil || now.Leader != o.ID || now.Cluster != h.Cluster {
			if bad != nil {
				err = bad
			}
			continue
		}
		if me.IP == "" {
			me.IP = local
		}
		if _, err = ask(m.ctx, m.askOptions(), busAddress(&o), 0,
			&request{Do: askJoin, Member: &me, Via: o.IP}, &now); err == nil {
			return &identity{Cluster: now.Cluster, ID: me.ID, Node: me.Node, Shard: now.Shard,
				Members: merge(now.Members, me)}, nil
		}
	}
	return nil, err
}

func (m *Member) Forget(node string, done func(error)) {
	go func() { done(m.forget(node)) }()
}

// forget asks the leader to remove a member. It retries for two seconds, because there may be no
// leader for a moment, or a new one that has not heard all others yet.
func (m *Member) forget(node string) (err error) {
	for range forgetTries {
		if err = m.askLeader(m.ctx, &request{Do: askForget, Node: node}); err == nil ||
			m.ctx.Err() != nil {
			return err
		}
		select {
		case <-m.ctx.Done():
		case <-time.After(forgetPause):
		}
	}
	return err
}

func (m *Member) Failover(force bool, done func(error)) {
	go func() {
		err := m.askLeader(m.ctx, &request{Do: askTransfer})
		if err != nil && !force {
			done(err)
			return
		}
		ctx, cancel := context.WithTimeout(m.ctx, askTime)
		defer cancel()
		if err != nil {
			m.group.Campaign()
		}
		done(m.until(ctx, func() bool { return m.mu.role == commands.Leader }))
	}()
}

func (m *Member) Reset(hard bool, done func(error)) {
	go func() {
		if m.id == nil {
			done(errNotIn)
			return
		}
		st := m.status.Load()
		if me := st.Me(); me != nil && len(st.Members) > 1 {
			if st.Role == commands.Leader {
				done(errors.New(
					"the leader cannot leave: CLUSTER FAILOVER at another member comes before"))
				return
			}
			err := m.forget(me.Node)
			if errors.Is(err, consensus.ErrCall) { // the leader refuses it
				done(err)
				return
			}
			if err != nil {
				m.o.Logger.Warn("the group does not know that this server has left it",
					"error", err)
			}
		}
		done(nil)
		m.replan(func() error { return leave(m.storage) })
	}()
}
