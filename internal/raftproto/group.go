// Package raftproto is a prototype of the hot path of replication: three processes, one Raft group, an entry is what a
// pass commits. It has no recovery, no snapshots, no changes of the configuration and no authentication.
package raftproto

import (
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/storage"
	"keyp/storage/wal"
)

const (
	tick         = 40 * time.Millisecond
	electionTick = 8
	leaseTime    = 250 * time.Millisecond
	keepEntries  = 20000
)

// Stats are counted since the start.
type Stats struct {
	Proposals, Entries, EntryBytes             atomic.Int64 // of the leader
	Syncs, Written, WrittenBytes               atomic.Int64 // of this member: syncs, groups
	MessagesOut, BytesOut, WritesOut           atomic.Int64
	MessagesIn, BytesIn                        atomic.Int64
	Copied                                     atomic.Int64 // bytes of entries that were copied in memory
	Applied, Readies, Steps, Deferred, Dropped atomic.Int64
	LeaseChecks, LeaseMissing, LeaseTaken      atomic.Int64
	Mutexed                                    atomic.Int64 // ns with the RawNode locked
	// From the start of a pass's Pass, ns in sum: until it was sent, until it is synced here, until it is committed.
	Sent, Synced, Committed atomic.Int64
	// Of a follower: from a message's arrival until its answer is sent, and what of that writing and syncing took.
	Answered, Writing atomic.Int64
}

type place struct {
	index, lsn uint64
	began      time.Time
}

// Group is a member.
type Group struct {
	id      uint64
	log     *wal.Log
	store   *storage.Store
	window  int  // entries that may be on their way
	inline  bool // who proposes also syncs
	commits bool // a message that has a new commit index and no entry is sent
	wake    func(uint64)
	Stats   Stats
	peers   map[uint64]*peer
	lease   atomic.Int64
	began   time.Time
	kick    chan struct{}
	trace   bool

	mu       sync.Mutex
	node     *raft.RawNode
	memory   *raft.MemoryStorage
	leader   bool
	last     uint64 // index of the last own entry
	commit   uint64
	chunks   []wal.Chunk // proposed, to be named by MsgStorageAppend
	inflight []place
	appends  []*pb.Message
	writing  bool
	kept     int

	late      bool // who receives applies, when nothing more has come
	txn       *storage.Txn
	batches   wal.Batches
	applyMu   sync.Mutex
	applyCond *sync.Cond
	applies   []*pb.Message
}

// Start starts the member that the environment describes: KEYP_RAFT=ID/BASEPORT.
func Start(store *storage.Store, wake func(uint64)) (*Group, error) {
	spec := os.Getenv("KEYP_RAFT")
	if spec == "" {
		return nil, nil
	}
	a, b, _ := strings.Cut(spec, "/")
	id, err1 := strconv.Atoi(a)
	base, err2 := strconv.Atoi(b)
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("KEYP_RAFT=%s is not ID/BASEPORT", spec)
	}
	g := &Group{id: uint64(id), log: store.Log(), store: store, window: 1, inline: true, wake: wake, began: time.Now(), peers: map[uint64]*peer{}, kick: make(chan struct{}, 1)}
	if w := os.Getenv("KEYP_RAFT_WINDOW"); w != "" {
		g.window, _ = strconv.Atoi(w)
	}
	g.commits = os.Getenv("KEYP_RAFT_COMMITS") != "0"
	g.inline = os.Getenv("KEYP_RAFT_INLINE") != "0"
	g.applyCond = sync.NewCond(&g.applyMu)
	g.memory = raft.NewMemoryStorage()
	snap := &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64(1)), Term: new(uint64(1)), ConfState: &pb.ConfState{Voters: []uint64{1, 2, 3}}}}
	if err := g.memory.ApplySnapshot(snap); err != nil {
		return nil, err
	}
	g.commit = 1
	node, err := raft.NewRawNode(&raft.Config{
		ID: g.id, ElectionTick: electionTick, HeartbeatTick: 1, Storage: g.memory, Applied: 1, AsyncStorageWrites: true,
		MaxSizePerMsg: 1 << 20, MaxCommittedSizePerReady: 64 << 20, MaxUncommittedEntriesSize: 32 << 20, MaxInflightMsgs: 256,
		CheckQuorum: true, PreVote: true, ReadOnlyOption: raft.ReadOnlySafe, DisableProposalForwarding: true, StepDownOnRemoval: true,
		Logger: &raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)},
	})
	if err != nil {
		return nil, err
	}
	g.node = node
	if err := g.connect(base); err != nil {
		return nil, err
	}
	g.serveStats(base + 100 + id)
	g.txn = g.store.NewTxn()
	g.late = os.Getenv("KEYP_RAFT_APPLY") == "inline"
	if !g.late {
		go g.applyLoop()
	}
	go g.tickLoop()
	if !g.inline {
		go func() {
			for range g.kick {
				g.drain()
			}
		}()
	}
	g.log.SetReplicator(g)
	return g, nil
}

func (g *Group) tickLoop() {
	for range time.Tick(tick) {
		g.mu.Lock()
		g.node.Tick()
		if g.leader {
			g.node.ReadIndex(strconv.AppendInt(nil, int64(time.Since(g.began)), 10))
		}
		g.ready()
		g.mu.Unlock()
		g.carry()
	}
}

// Leased reports whether reads may leave.
func (g *Group) Leased() bool {
	g.Stats.LeaseChecks.Add(1)
	if int64(time.Since(g.began)) < g.lease.Load() {
		return true
	}
	g.Stats.LeaseMissing.Add(1)
	return false
}

// Pass proposes what was appended.
func (g *Group) Pass() error {
	if !g.log.Pending() {
		return g.log.Err()
	}
	g.mu.Lock()
	if !g.leader {
		g.mu.Unlock()
		return nil
	}
	if len(g.inflight) >= g.window {
		g.Stats.Deferred.Add(1)
		g.mu.Unlock()
		return nil
	}
	began := time.Now()
	from := len(g.chunks)
	g.chunks = g.log.TakeChunks(g.chunks)
	for i := from; i < len(g.chunks); i++ {
		frames := g.chunks[i].Frames()
		data := make([]byte, len(frames))
		copy(data, frames)
		g.Stats.Copied.Add(int64(len(data)))
		if err := g.node.Propose(data); err != nil {
			g.mu.Unlock()
			return fmt.Errorf("a proposal: %w", err)
		}
		g.last++
		g.inflight = append(g.inflight, place{g.last, g.chunks[i].End(), began})
		g.Stats.Entries.Add(1)
		g.Stats.EntryBytes.Add(int64(len(data)))
	}
	g.Stats.Proposals.Add(1)
	g.ready()
	g.Stats.Mutexed.Add(int64(time.Since(began)))
	g.mu.Unlock()
	for _, p := range g.peers {
		p.flush(g)
	}
	g.Stats.Sent.Add(int64(time.Since(began)))
	g.carry()
	g.Stats.Synced.Add(int64(time.Since(began)))
	return g.log.Err()
}

// ready takes what the node has to be done. g.mu is locked.
func (g *Group) ready() {
	for g.node.HasReady() {
		rd := g.node.Ready()
		g.Stats.Readies.Add(1)
		if rd.SoftState != nil {
			g.leader = rd.SoftState.RaftState == raft.StateLeader
			if g.leader {
				g.last, _ = g.memory.LastIndex()
				g.last++ // the first entry of the term
			}
			fmt.Fprintln(os.Stderr, "raft:", rd.SoftState.RaftState, "leader", rd.SoftState.Lead)
		}
		if rd.HardState != nil && rd.HardState.GetCommit() > g.commit {
			g.commit = rd.HardState.GetCommit()
			g.committed()
		}
		for _, s := range rd.ReadStates {
			if stamp, err := strconv.ParseInt(string(s.RequestCtx), 10, 64); err == nil {
				g.lease.Store(stamp + int64(leaseTime))
				g.Stats.LeaseTaken.Add(1)
			}
		}
		for _, m := range rd.Messages {
			switch m.GetTo() {
			case raft.LocalAppendThread:
				g.appends = append(g.appends, m)
			case raft.LocalApplyThread:
				if g.leader {
					g.respond(m)
					continue
				}
				g.applyMu.Lock()
				g.applies = append(g.applies, m)
				g.applyMu.Unlock()
				g.applyCond.Signal()
			default:
				g.send(m)
			}
		}
	}
}

// committed lets replies leave. g.mu is locked.
func (g *Group) committed() {
	n, lsn := 0, uint64(0)
	for n < len(g.inflight) && g.inflight[n].index <= g.commit {
		lsn = g.inflight[n].lsn
		g.Stats.Committed.Add(int64(time.Since(g.inflight[n].began)))
		n++
	}
	if n == 0 {
		return
	}
	g.inflight = append(g.inflight[:0], g.inflight[n:]...)
	g.log.Acknowledge(lsn)
}

// respond delivers the responses of a local message. g.mu is locked.
func (g *Group) respond(m *pb.Message) {
	for _, r := range m.GetResponses() {
		if to := r.GetTo(); to == g.id || to == raft.LocalAppendThread || to == raft.LocalApplyThread {
			g.Stats.Steps.Add(1)
			if err := g.node.Step(r); err != nil {
				fmt.Fprintln(os.Stderr, "raft: step:", err)
			}
			continue
		}
		g.send(r)
	}
}

// carry sends what is to be sent, and writes what is to be written unless somebody does already.
func (g *Group) carry() {
	for _, p := range g.peers {
		p.flush(g)
	}
	if g.inline {
		g.drain()
		return
	}
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// drain writes what MsgStorageAppend names, one sync for all that has come.
func (g *Group) drain() {
	for {
		g.mu.Lock()
		if g.writing || len(g.appends) == 0 {
			g.mu.Unlock()
			return
		}
		g.writing = true
		messages := g.appends
		g.appends = nil
		chunks, err := g.stage(messages)
		g.mu.Unlock()
		if err == nil && len(chunks) > 0 {
			began := time.Now()
			err = g.log.WriteChunks(chunks)
			g.Stats.Writing.Add(int64(time.Since(began)))
			g.Stats.Syncs.Add(1)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "raft: append:", err)
			os.Exit(3)
		}
		g.mu.Lock()
		began := time.Now()
		g.writing = false
		for _, m := range messages {
			g.memory.Append(m.GetEntries())
			g.respond(m)
		}
		g.compact(messages)
		g.ready()
		g.Stats.Mutexed.Add(int64(time.Since(began)))
		g.mu.Unlock()
		for _, p := range g.peers {
			p.flush(g)
		}
	}
}

func (g *Group) compact(messages []*pb.Message) {
	for _, m := range messages {
		g.kept += len(m.GetEntries())
	}
	if g.kept > 2*keepEntries {
		if last, _ := g.memory.LastIndex(); last > keepEntries+1000 {
			g.memory.Compact(last - keepEntries)
		}
		g.kept = keepEntries
	}
}

// stage gives the chunks of the entries that messages name. g.mu is locked.
func (g *Group) stage(messages []*pb.Message) ([]wal.Chunk, error) {
	var chunks []wal.Chunk
	for _, m := range messages {
		for _, e := range m.GetEntries() {
			if g.leader {
				if len(e.GetData()) == 0 {
					continue // the first entry of a term: no chunk in the prototype
				}
				c := g.chunks[0]
				g.chunks = g.chunks[1:]
				c.Name(e.GetTerm(), e.GetIndex(), g.commit)
				chunks = append(chunks, c)
			} else {
				if len(e.GetData()) == 0 {
					continue
				}
				if err := g.log.AppendEntry(e.GetData()); err != nil {
					return nil, err
				}
				g.Stats.Copied.Add(int64(len(e.GetData())))
				n := len(chunks)
				chunks = g.log.TakeChunks(chunks)
				for i := n; i < len(chunks); i++ {
					chunks[i].Name(e.GetTerm(), e.GetIndex(), g.commit)
				}
			}
			g.Stats.Written.Add(1)
			g.Stats.WrittenBytes.Add(int64(len(e.GetData())))
		}
	}
	return chunks, nil
}

// applyLoop changes a follower's memory.
func (g *Group) applyLoop() {
	for {
		g.applyMu.Lock()
		for len(g.applies) == 0 {
			g.applyCond.Wait()
		}
		g.applyMu.Unlock()
		g.applyAll()
	}
}

// applyAll applies what is committed. One goroutine calls it.
func (g *Group) applyAll() {
	g.applyMu.Lock()
	messages := g.applies
	g.applies = nil
	g.applyMu.Unlock()
	if len(messages) == 0 {
		return
	}
	for _, m := range messages {
		for _, e := range m.GetEntries() {
			if e.GetType() != pb.EntryNormal || len(e.GetData()) == 0 {
				continue
			}
			g.batches.Each(e.GetData(), func(batch []byte) {
				g.Stats.Applied.Add(1)
				if err := g.store.Mirror(g.txn, batch, 1); err != nil {
					fmt.Fprintln(os.Stderr, "raft: apply:", err)
					os.Exit(3)
				}
			})
		}
	}
	g.log.Acknowledge(g.log.Synced()) // so that reads here do not wait: all of it is applied when it is quiet
	g.mu.Lock()
	for _, m := range messages {
		g.respond(m)
	}
	g.ready()
	g.mu.Unlock()
	g.carry()
}

// take has a message from another member handled.
func (g *Group) take(messages []*pb.Message) {
	g.mu.Lock()
	began := time.Now()
	for _, m := range messages {
		g.Stats.Steps.Add(1)
		if err := g.node.Step(m); err != nil {
			fmt.Fprintln(os.Stderr, "raft: step:", err)
		}
	}
	g.ready()
	g.Stats.Mutexed.Add(int64(time.Since(began)))
	g.mu.Unlock()
	g.carry()
	g.Stats.Answered.Add(int64(time.Since(began)))
}
