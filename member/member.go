package member

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/commands"
	"keyp/consensus"
	"keyp/consensus/raftlog"
	"keyp/internal/clock"
	"keyp/storage"
	"keyp/storage/format"
)

// Host is the part of the server that a member uses.
type Host interface {
	// SetFollower changes the store's role on the loop, as soon as the server's tasks allow it, and
	// then calls done there. It does nothing if ctx ends before.
	SetFollower(ctx context.Context, on bool, done func())
	// Post schedules fn to run on the loop.
	Post(fn func())
}

// Options are the options of a member.
type Options struct {
	Clock  clock.Clock
	Logger *slog.Logger
	Secret []byte      // of the cluster; nil: there is none
	TLS    *tls.Config // between members, with certificates of both sides; nil: there is none
	// Announced returns the addresses for clients and for other members. Listen opens the port for
	// members.
	Announced func() commands.Member
	Listen    func() (net.Listener, error)
	// KeptLog bounds the log that is kept only for members that are behind, in bytes. A member that
	// lacks more takes a snapshot.
	KeptLog func() int64
	// Again stops the server in good order; then Finish is called and the process executes itself
	// again. Exec executes the process again at once.
	Again func()
	Exec  func()

	seams seams
}

// seams are hooks for tests. Their zero value is a member in normal operation.
type seams struct {
	takes func(*consensus.Message) bool // whether a message arrives; nil: all do
}

// Member is this server's part in a group, or in none. It is a commands.Membership.
type Member struct {
	o         Options
	storage   storage.Options
	store     *storage.Store
	mirror    *storage.Mirror
	id        *identity // nil: alone. It does not change
	journal   *journal
	clocks    *clocks
	host      Host
	group     *consensus.Group
	transport *consensus.Transport
	status    atomic.Pointer[commands.GroupStatus]
	changed   func()
	gone      atomic.Uint64 // the leader whose connection has ended, 0: it has not
	ctx       context.Context
	stop      context.CancelFunc
	done      sync.WaitGroup
	closing   sync.Once

	queue tasks

	mu struct {
		sync.Mutex
		changed sync.Cond // of applied, conf or members
		role    commands.Role
		term    uint64
		leader  uint64
		leading uint64 // the term in which it was elected; 0: none
		led     bool   // the store accepts writes as the leader's
		first   uint64 // of a rising member: the entry that must be applied before it leads
		rises   uint64 // the same, from the election until the entry is queued to be applied
		last    uint64 // of a tentative member: its last entry that is not known to be committed
		reread  bool   // the group has applied an entry since the start
		stream  stream
		applied raftlog.Base // the last applied entry
		bases   []raftlog.Base
		conf    *pb.ConfState
		members []commands.Member
		written []commands.Member // those on disk
		// Members that announce another address than the group knows.
		moved   map[uint64]commands.Member
		waits   map[*wait]bool
		plan    func() error // what Finish does
		met     []hello
		joinID  uint64 // the ID with which a server that is alone joins
		elected int64
		stalled bool // this leader commits nothing, so it refuses writes
		taken   commands.SnapshotProgress
		// Members that are sent a snapshot, or continue after one, by ID.
		lagging map[uint64]*lagging
		// Index after which the log is needed, for backups and the archive.
		keeps map[*keptEntries]uint64
		// The first segment that a start from the newest checkpoint needs, even from one
		// under way.
		own   uint64
		saved uint64 // the same, as of the newest that has ended; 0: none has
		// The first segment that the data file records for such a start: backups and the
		// archive may need more than the start does.
		begin uint64
		// The first segment that such a start or other members need, as of that checkpoint.
		others uint64
	}
}

// New returns the member of a server with cluster-enabled. Open must be called next.
func New(o Options) *Member {
	m := &Member{o: o, changed: func() {}}
	m.clocks = &clocks{m: m, warned: map[uint64]bool{}}
	m.clocks.mu.readings = map[uint64]reading{}
	m.mu.changed.L = &m.mu.Mutex
	m.mu.waits, m.mu.lagging, m.mu.moved = map[*wait]bool{}, map[uint64]*lagging{},
		map[uint64]commands.Member{}
	m.mu.keeps = map[*keptEntries]uint64{}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.status.Store(&commands.GroupStatus{})
	return m
}

func (m *Member) logDir() string { return filepath.Join(m.storage.Dir, logDir) }

// Open opens the store of a member or of a server that is alone. The directory decides which.
func (m *Member) Open(o storage.Options) (*storage.Store, storage.Recovered, error) {
	if err := o.Complete(); err != nil {
		return nil, storage.Recovered{}, err
	}
	m.storage = o
	if err := left(o); err != nil {
		return nil, storage.Recovered{}, err
	}
	id, err := readIdentity(o.Dir)
	if err != nil {
		return nil, storage.Recovered{}, err
	}
	if id != nil {
		if _, err := os.Stat(filepath.Join(o.Dir, format.DataName)); err != nil {
			return nil, storage.Recovered{},
				fmt.Errorf("member: the directory is a member's, and has no data file: %w", err)
		}
		switch _, err := storage.ReadLogPosition(o); {
		case errors.Is(err, storage.ErrAlone): // convert was interrupted
			if err := discard(o.Dir); err != nil {
				return nil, storage.Recovered{}, err
			}
			id = nil
		case err != nil:
			return nil, storage.Recovered{}, err
		}
	}
	if id == nil {
		s, rec, err := storage.Open(o)
		if errors.Is(err, storage.ErrMember) {
			err = fmt.Errorf("member: %s is missing, which says who the member is: %w",
				filepath.Join(o.Dir, identityFile), err)
		}
		m.store = s
		return s, rec, err
	}
	m.id = id
	m.mu.members, m.mu.written = id.Members, id.Members
	if err := m.install(); err != nil {
		return nil, storage.Recovered{}, fmt.Errorf("member: installing a snapshot: %w", err)
	}
	m.journal = newJournal(m)
	o.Member, o.Follower, o.OpenLog, o.Archive.Member = true, true, m.journal.open, id.Node
	s, rec, err := storage.Open(o)
	if err != nil {
		return nil, rec, err
	}
	m.store, m.mirror = s, s.Mirror()
	m.mu.role, m.mu.conf = commands.Follower, m.mu.applied.Conf
	if m.mu.applied.Index == 0 {
		m.mu.role = commands.Joining
	}
	m.publish()
	return s, rec, nil
}

// Grouped reports whether the directory is a member's, and returns its node name and its shard.
func (m *Member) Grouped() (node, shard string, ok bool) {
	if m.id == nil {
		return "", "", false
	}
	return m.id.Node, m.id.Shard, true
}

// Start makes the member take part in its group. The server exists already, and its loop may be
// running. A server that is alone does nothing.
func (m *Member) Start(host Host) error {
	m.host = host
	if m.id == nil {
		return nil
	}
	listener, err := m.o.Listen()
	if err != nil {
		return fmt.Errorf("member: the port for members: %w", err)
	}
	r := &receiver{m, make(chan struct{})}
	m.transport, err = consensus.NewTransport(consensus.TransportOptions{
		Me: m.id.me(), Listener: listener, Receiver: r, Secret: m.o.Secret, TLS: m.o.TLS,
		Serve: r.serve, Logger: m.o.Logger,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	m.journal.log.SetSnapshot(m.snapshot)
	m.journal.log.SetBusy(m.store.DiskBusy)
	m.journal.log.SetPace(m.store.FollowThrottle)
	m.mu.Lock()
	applied := m.mu.applied
	m.mu.Unlock()
	m.queue.mu.busy = true // nothing is done before all is set
	m.group, err = consensus.Start(consensus.Options{
		ID: m.id.ID, Group: groupNumber, Log: m.journal.log, Applied: applied.Base,
		Machine: machine{m}, Network: m.transport,
		Clock: m.o.Clock, Time: m.clocks, Logger: m.o.Logger,
	})
	if err != nil {
		m.stop() // calls wait for the group: let them return
		return errors.Join(err, m.transport.Close())
	}
	close(r.started)
	m.do(task{run: m.connect})
	m.done.Go(func() { m.work(true) })
	m.done.Go(func() { m.journal.run(m.ctx) })
	m.done.Go(m.keepHouse)
	m.publish()
	m.o.Logger.Info("a member of a group", "node", m.id.Node, "id", m.id.ID, "members",
		len(m.id.Members), "applied", applied.Index)
	return nil
}

// receiver passes messages and calls on to the group, and waits until it is started.
type receiver struct {
	m       *Member
	started chan struct{}
}

func (r *receiver) wait() bool {
	select {
	case <-r.started:
		return true
	case <-r.m.ctx.Done():
		return false
	}
}

func (r *receiver) Receive(messages []*consensus.Message) {
	if takes := r.m.o.seams.takes; takes != nil {
		messages = slices.DeleteFunc(slices.Clone(messages), func(m *consensus.Message) bool {
			return !takes(m)
		})
	}
	if r.wait() {
		r.m.heard(messages)
		r.m.group.Receive(messages)
		if r.m.status.Load().Timeless && r.m.store.KnownTime() != 0 {
			r.m.publish()
		}
		r.m.look()
	}
}

func (r *receiver) serve(ctx context.Context, from uint64, text []byte, w io.Writer) error {
	if !r.wait() {
		return errNoLeader
	}
	return r.m.serve(ctx, from, text, w)
}

func (r *receiver) Unreachable(id uint64) {
	if r.wait() {
		r.m.group.Unreachable(id)
	}
}

// Gone makes clients wait for the next leader, instead of redirecting them to a leader whose
// process has most likely ended. Elections do not depend on it.
func (r *receiver) Gone(id uint64) {
	if r.wait() && id == r.m.status.Load().Leader {
		r.m.become(func() { r.m.gone.Store(id) })
	}
}

// heard clears gone if the messages show that the leader is still there.
func (m *Member) heard(messages []*consensus.Message) {
	gone := m.gone.Load()
	if gone == 0 {
		return
	}
	for _, x := range messages {
		if t := x.Raft.GetType(); x.Raft.GetFrom() == gone &&
			(t == pb.MsgHeartbeat || t == pb.MsgApp) {
			m.become(func() { m.gone.Store(0) })
			return
		}
	}
}

// connect passes the addresses of all members to the transport, on the goroutine of the queue.
func (m *Member) connect() {
	addrs := map[uint64]string{}
	m.mu.Lock()
	for _, o := range m.mu.members {
		if now, ok := m.mu.moved[o.ID]; ok {
			o = now
		}
		if o.ID != m.id.ID && o.IP != "" {
			addrs[o.ID] = busAddress(&o)
		}
	}
	m.mu.Unlock()
	m.transport.SetPeers(addrs)
}

func busAddress(o *commands.Member) string { return net.JoinHostPort(o.IP, fmt.Sprint(o.Bus)) }

// closeGroup ends this member's part in the group.
func (m *Member) closeGroup() {
	m.closing.Do(func() {
		m.stop()
		if m.group != nil {
			m.group.Close()
			if err := m.transport.Close(); err != nil {
				m.o.Logger.Warn("closing the connections to other members", "error", err)
			}
		}
		m.done.Wait()
	})
}

// Stop ends this member's part in the group, so that nothing is applied any more. It must be called
// before the store is closed.
func (m *Member) Stop() { m.closeGroup() }

// Finish does the work for which the server was stopped, if any, once the store is closed. again
// reports that the process must execute itself again.
func (m *Member) Finish() (again bool, err error) {
	m.mu.Lock()
	plan := m.mu.plan
	m.mu.Unlock()
	if plan == nil {
		return false, nil
	}
	return true, plan()
}

// replan stops the server to do something with its closed directory.
func (m *Member) replan(plan func() error) {
	m.mu.Lock()
	m.mu.plan = plan
	m.mu.Unlock()
	m.o.Again()
}

// rebuild executes the process again, because the open store cannot continue. It logs the reason,
// why.
func (m *Member) rebuild(why string, args ...any) {
	m.o.Logger.Warn("the server starts again: "+why, args...)
	m.become(func() { m.mu.role = commands.Rebuilding })
	m.o.Exec()
}

// become runs a change of the member's state, and publishes the new status.
func (m *Member) become(change func()) {
	m.mu.Lock()
	change()
	m.mu.changed.Broadcast()
	m.mu.Unlock()
	m.publish()
}

// publish computes the status from the member's state, and stores it.
func (m *Member) publish() {
	m.mu.Lock()
	st := &commands.GroupStatus{Role: m.mu.role, ID: m.id.ID, Term: m.mu.term, Leader: m.mu.leader,
		Shard: m.id.Shard, Stalled: m.mu.stalled, Timeless: m.store.KnownTime() == 0}
	unknown := len(m.mu.conf.GetVoters()) == 0 // it has nothing of the log yet
	for _, o := range m.mu.members {
		o.Learner = !unknown && !slices.Contains(m.mu.conf.GetVoters(), o.ID)
		if unknown || o.ID == m.id.ID || isMember(m.mu.conf, o.ID) {
			st.Members = append(st.Members, o)
		}
	}
	switch st.Role {
	case commands.Leader, commands.Resigning:
		st.Term, st.Leader = m.mu.leading, m.id.ID
	case commands.Rising, commands.Tentative:
		st.Leader = 0
	default:
		if st.Leader == m.id.ID || st.Leader == m.gone.Load() || st.Timeless {
			st.Leader = 0
		}
	}
	m.status.Store(st)
	changed := m.changed
	m.mu.Unlock()
	changed()
}

// joins records a member and its address, from an entry of the group.
func (m *Member) joins(o commands.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.members = merge(m.mu.members, o)
	delete(m.mu.moved, o.ID)
}

// passed records the last applied entry, unless the stream is within a batch.
func (m *Member) passed(b consensus.Base) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.stream.between() {
		m.mu.applied = raftlog.Base{Base: b, Position: m.mu.stream.position}
		m.mu.changed.Broadcast()
	}
}

// mark returns the base of a checkpoint that begins now, after it has written the members to disk.
func (m *Member) mark() (raftlog.Base, error) {
	m.mu.Lock()
	b, d, written := m.mu.applied, *m.id, m.mu.written
	d.Members = slices.Clone(m.mu.members)
	m.mu.Unlock()
	if !slices.Equal(d.Members, written) { // all shards are locked
		if err := d.write(m.storage.FS, m.storage.Dir); err != nil {
			return b, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.written = d.Members
	m.mu.bases = append(m.mu.bases, b)
	if n := len(m.mu.bases); n > 64 {
		m.mu.bases = slices.Clone(m.mu.bases[n-64:])
	}
	return b, nil
}

// houseEvery is the interval of keepHouse. After each failure to announce this member's address,
// keepHouse doubles the pause before the next try, up to houseMost intervals.
const (
	houseEvery = 200 * time.Millisecond
	houseMost  = 16
)

func (m *Member) keepHouse() {
	ticker := time.NewTicker(houseEvery)
	defer ticker.Stop()
	var s stall
	for wait, pause := 0, 1; ; {
		select {
		case <-m.ctx.Done():
			return
		case <-ticker.C:
			m.promote()
			m.stalls(&s)
			m.clocks.look()
			m.letGo()
			if wait--; wait <= 0 {
				if m.announce() {
					pause = 1
				} else {
					wait, pause = pause, min(2*pause, houseMost)
				}
			}
			m.look()
		}
	}
}
