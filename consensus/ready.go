package consensus

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Each goroutine that changes the node (proposes, receives, ticks, has written) calls ready under
// the mutex. ready takes the node's pending work. Messages go to the network. Data to store, and
// calls of the Machine, go into two queues. Then, without the mutex, proceed flushes the network,
// writes the log and notifies the Machine. In this order no answer waits for the Machine. One
// goroutine at a time works on each of the two queues; others leave their work to it.

// ready takes the node's pending work. mu is locked.
func (g *Group) ready() {
	for g.mu.ended == nil && g.mu.node.HasReady() {
		rd := g.mu.node.Ready()
		g.follow(&rd)
		for i, m := range rd.Messages {
			switch m.GetTo() {
			case raft.LocalAppendThread:
				g.mu.appends = append(g.mu.appends, m)
			case raft.LocalApplyThread:
				g.apply(m)
			default:
				if !repeated(m, rd.Messages[i+1:]) {
					g.post(m)
				}
			}
		}
	}
}

// repeated reports whether a heartbeat is followed by another one to the same member. At a tick the
// node makes one heartbeat, and the question for the lease makes another. The second one contains
// everything that the first one does.
func repeated(m *pb.Message, later []*pb.Message) bool {
	return m.GetType() == pb.MsgHeartbeat && slices.ContainsFunc(later, func(l *pb.Message) bool {
		return l.GetType() == pb.MsgHeartbeat && l.GetTo() == m.GetTo()
	})
}

// follow records the changes of the node's state, and queues calls of the machine. mu is locked.
func (g *Group) follow(rd *raft.Ready) {
	was := g.mu.term
	if rd.HardState != nil {
		g.mu.term = rd.HardState.GetTerm()
	}
	if rd.SoftState != nil {
		if leader, term := rd.SoftState.Lead, g.mu.term; leader != g.mu.leader || term != was {
			g.notify(func() { g.o.Machine.Led(term, leader) })
		}
		g.mu.leader = rd.SoftState.Lead
		leads := rd.SoftState.RaftState == raft.StateLeader
		switch r := g.mu.role; {
		case r.leading && !leads:
			g.mu.role = role{}
			g.lease.Store(0)
			g.forget()
			committed := g.mu.commit
			g.notify(func() { g.o.Machine.Deposed(was, committed) })
		case !r.leading && leads:
			g.forget()
			g.elected(rd.Entries)
		}
	}
	if s := rd.Snapshot; !raft.IsEmptySnap(s) {
		if first := g.mu.commit + 1; first <= g.mu.last {
			// The log does not agree with the snapshot, and begins again.
			g.notify(func() { g.o.Machine.Replaced(first) })
		}
		g.mu.last = s.GetMetadata().GetIndex()
	}
	if n := len(rd.Entries); n > 0 {
		if first := rd.Entries[0].GetIndex(); first <= g.mu.last {
			g.notify(func() { g.o.Machine.Replaced(first) })
		}
		g.mu.last = rd.Entries[n-1].GetIndex()
		g.mu.lastType = rd.Entries[n-1].GetType()
	}
	if rd.HardState != nil && rd.HardState.GetCommit() > g.mu.commit {
		commit := rd.HardState.GetCommit()
		g.mu.commit = commit
		g.notify(func() { g.o.Machine.Committed(commit) })
	}
	for _, s := range rd.ReadStates {
		g.confirmed(s.RequestCtx)
	}
}

// elected records that this member leads. The first entry of the term announces that. mu is locked.
func (g *Group) elected(entries []*pb.Entry) {
	term := g.mu.term
	i := slices.IndexFunc(entries, func(e *pb.Entry) bool { return e.GetTerm() == term })
	first := entries[i].GetIndex()
	g.mu.role = role{leading: true, first: first}
	g.notify(func() { g.o.Machine.Elected(term, first) })
}

// notify appends a call of the machine to the queue. mu is locked.
func (g *Group) notify(what func()) { g.mu.events = append(g.mu.events, what) }

// post sends a message of the node. A message with nothing but a newer commit index is held back,
// to be sent with an entry. mu is locked.
func (g *Group) post(m *pb.Message) {
	if m.GetType() != pb.MsgApp {
		g.send(m)
		return
	}
	p := g.peer(m.GetTo())
	if len(m.Entries) == 0 && m.GetCommit() > p.commit {
		p.held = m
		if g.mu.delay == nil {
			g.mu.delay = g.o.After(commitDelay, g.sendHeld)
		}
		return
	}
	p.commit, p.held = max(p.commit, m.GetCommit()), nil
	g.send(m)
}

// sendHeld sends the messages that have been held back for long enough.
func (g *Group) sendHeld() {
	g.mu.Lock()
	g.mu.delay = nil
	if g.mu.ended == nil {
		for _, id := range slices.Sorted(maps.Keys(g.mu.peers)) {
			if p := g.mu.peers[id]; p.held != nil {
				m := p.held
				p.commit, p.held = m.GetCommit(), nil
				g.send(m)
			}
		}
		g.ready()
	}
	g.mu.Unlock()
	g.proceed()
}

// send passes a message to the network. mu is locked.
func (g *Group) send(m *pb.Message) {
	out := Message{Group: g.o.Group, Time: g.timeOf(m), Stamp: g.stamp(m), Raft: m}
	sent := g.o.Network.Send(&out)
	switch {
	case m.GetType() == pb.MsgSnap && sent:
		g.peer(m.GetTo()).snapshot = snapshotTicks
	case m.GetType() == pb.MsgSnap:
		g.mu.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
	case m.GetType() == pb.MsgApp && !sent:
		g.mu.node.ReportUnreachable(m.GetTo())
	}
}

// peer returns the state of another member, and adds it if it is missing. mu is locked.
func (g *Group) peer(id uint64) *peer {
	p := g.mu.peers[id]
	if p == nil {
		p = &peer{}
		g.mu.peers[id] = p
	}
	return p
}

// forget drops everything that is known of other members, and the messages held back for them. mu
// is locked.
func (g *Group) forget() {
	clear(g.mu.peers)
	if g.mu.delay != nil {
		g.mu.delay()
		g.mu.delay = nil
	}
}

// apply passes committed entries to the machine, and changes of members to the node. mu is locked.
func (g *Group) apply(m *pb.Message) {
	entries := m.GetEntries()
	for _, e := range entries {
		if change, ok := changeOf(e); ok {
			g.mu.conf = g.mu.node.ApplyConfChange(change)
		}
	}
	if known := slices.IndexFunc(entries, func(e *pb.Entry) bool {
		return e.GetIndex() > g.mu.applied
	}); known > 0 {
		entries = entries[known:]
	} else if known < 0 {
		entries = nil
	}
	a := Applying{Entries: entries, Conf: g.mu.conf}
	done := func() {
		g.mu.Lock()
		g.respond(m)
		g.ready()
		g.mu.Unlock()
		g.proceed()
	}
	if len(entries) == 0 {
		g.notify(done)
		return
	}
	g.mu.applied = entries[len(entries)-1].GetIndex()
	g.notify(func() { g.o.Machine.Apply(a, done) })
}

// changeOf returns the change of members in an entry; ok is false if it has none.
func changeOf(e *pb.Entry) (pb.ConfChangeI, bool) {
	var change pb.ConfChangeI
	var err error
	switch e.GetType() {
	case pb.EntryConfChange:
		c := &pb.ConfChange{}
		change, err = c, proto.Unmarshal(e.Data, c)
	case pb.EntryConfChangeV2:
		c := &pb.ConfChangeV2{}
		change, err = c, proto.Unmarshal(e.Data, c)
	default:
		return nil, false
	}
	if err != nil {
		// The library has parsed it when it was proposed.
		panic(fmt.Sprintf("consensus: entry %d: %v", e.GetIndex(), err))
	}
	return change, true
}

// respond delivers the messages that had to wait for the work of a local message. mu is locked.
func (g *Group) respond(m *pb.Message) {
	if g.mu.ended != nil {
		return
	}
	for _, r := range m.GetResponses() {
		if r.GetTo() == g.o.ID {
			_ = g.mu.node.Step(r) // it fails for answers of removed members
		} else {
			g.send(r)
		}
	}
}

// proceed does the work that ready has queued, unless another goroutine is doing it.
func (g *Group) proceed() {
	g.o.Network.Flush()
	for g.write() {
	}
	g.report()
}

// write appends the next entries to the log. It reports whether there may be more for this
// goroutine.
func (g *Group) write() bool {
	g.mu.Lock()
	if g.mu.syncing || g.mu.ended != nil || len(g.mu.appends) == 0 {
		g.mu.Unlock()
		return false
	}
	g.mu.syncing = true
	n := slices.IndexFunc(g.mu.appends, restores)
	switch {
	case n < 0:
		n = len(g.mu.appends)
	case n == 0:
		m := g.mu.appends[0]
		g.mu.appends = g.mu.appends[1:]
		g.notify(func() {
			g.o.Machine.Restore(m.GetSnapshot(), func(err error) { g.restored(m, err) })
		})
		g.mu.Unlock()
		return false
	}
	batch := g.mu.appends[:n:n]
	g.mu.appends = g.mu.appends[n:]
	must := g.append(batch)
	g.mu.Unlock()
	return g.sync(batch, must)
}

// restores reports whether a message has a snapshot. The machine has to get that before the log
// begins again.
func restores(m *pb.Message) bool { return m.GetSnapshot() != nil }

// restored continues when the machine has the data of a snapshot.
func (g *Group) restored(m *pb.Message, err error) {
	batch := []*pb.Message{m}
	if err != nil {
		g.written(batch, fmt.Errorf("consensus: a snapshot: %w", err))
	} else {
		meta := m.GetSnapshot().GetMetadata()
		g.mu.Lock()
		g.mu.applied, g.mu.conf = meta.GetIndex(), meta.GetConfState()
		must := g.append(batch)
		g.mu.Unlock()
		g.sync(batch, must)
	}
	g.proceed()
}

// append hands messages to the log, and reports whether their answers have to wait for a sync. mu
// is locked.
func (g *Group) append(batch []*pb.Message) (must bool) {
	for _, m := range batch {
		w := Write{Entries: m.GetEntries()}
		if m.Term != nil {
			w.Hard = &pb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
		}
		if s := m.GetSnapshot(); s != nil {
			meta := s.GetMetadata()
			w.Base = &Base{Index: meta.GetIndex(), Term: meta.GetTerm(), Conf: meta.GetConfState()}
		}
		g.o.Log.Append(w)
		must = must || len(m.GetResponses()) > 0
	}
	return must
}

// sync brings the appended data to disk, and then answers. It reports whether that is done already;
// if not, it is done later on another goroutine.
func (g *Group) sync(batch []*pb.Message, must bool) bool {
	if !must {
		g.written(batch, nil)
		return true
	}
	const early, late = 1, 2 // who came first: done, or the return of Sync
	var first atomic.Int32
	var result error
	g.o.Log.Sync(func(err error) {
		result = err
		if !first.CompareAndSwap(0, early) {
			g.written(batch, err)
			g.proceed()
		}
	})
	if first.CompareAndSwap(0, late) {
		return false
	}
	g.written(batch, result)
	return true
}

// written sends the answers that waited for a write. An error ends the group.
func (g *Group) written(batch []*pb.Message, err error) {
	g.mu.Lock()
	g.mu.syncing = false
	if err != nil && g.mu.ended == nil {
		g.end(err)
		g.notify(func() { g.o.Machine.Failed(err) })
	}
	for _, m := range batch {
		g.respond(m)
	}
	g.ready()
	g.mu.idle.Broadcast()
	g.mu.Unlock()
	g.o.Network.Flush()
}

// report makes the queued calls of the machine.
func (g *Group) report() {
	g.mu.Lock()
	for !g.mu.telling && len(g.mu.events) > 0 {
		events := g.mu.events
		g.mu.events, g.mu.telling = nil, true
		g.mu.Unlock()
		for _, call := range events {
			call()
		}
		g.mu.Lock()
		g.mu.telling = false
		g.mu.idle.Broadcast()
	}
	g.mu.Unlock()
}
