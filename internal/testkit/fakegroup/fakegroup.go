// Package fakegroup provides a fake Raft group, so that tests of commands, pages and metrics can
// put a server into any state of a member.
package fakegroup

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"keyp/commands"
	"keyp/internal/testkit/await"
)

// Group is the view that one member has of a fake group. The test sets the leader and the progress
// of the members.
type Group struct {
	ID     uint64 // of the member me
	status atomic.Pointer[commands.GroupStatus]
	Lease  atomic.Uint64 // the term in which it has the lease

	mu struct {
		sync.Mutex
		changed  func()
		progress commands.GroupProgress
		confirms []func(bool)
		waits    map[int]*wait
		next     int
		synced   map[uint64]uint64 // by member
		asked    []string          // actions
		done     []func(error)
	}
}

type wait struct {
	lsn     uint64
	members int
	done    func()
}

// New returns the Group of a member that is alone.
func New(id uint64) *Group {
	g := &Group{ID: id}
	g.mu.waits, g.mu.synced, g.mu.changed = map[int]*wait{}, map[uint64]uint64{}, func() {}
	g.status.Store(&commands.GroupStatus{})
	return g
}

// Become sets the role of the member, its leader and the term.
func (g *Group) Become(role commands.Role, leader, term uint64) {
	s := *g.status.Load()
	s.Role, s.ID, s.Leader, s.Term, s.Shard = role, g.ID, leader, term, strings.Repeat("5", 40)
	g.status.Store(&s)
	g.notify()
}

// Join sets the members of the group, with the ports of servers on this machine. The first member
// has the id 1, the next one 2, and so on.
func (g *Group) Join(ports ...int) {
	s := *g.status.Load()
	s.Members = nil
	g.mu.Lock()
	g.mu.progress.Members = nil
	for i, port := range ports {
		id := uint64(i + 1)
		s.Members = append(s.Members, commands.Member{ID: id, Node: NodeID(id), IP: "127.0.0.1",
			Port: port, Bus: port + 10000})
		if id != g.ID {
			g.mu.progress.Members = append(g.mu.progress.Members, commands.MemberProgress{ID: id,
				Connected: true, Created: 1_700_000_000_000, In: 3, Out: 4})
		}
	}
	g.mu.Unlock()
	g.status.Store(&s)
}

// NodeID returns the node id of a member.
func NodeID(id uint64) string { return strings.Repeat(strconv.FormatUint(id, 10), 40) }

func (g *Group) notify() {
	g.mu.Lock()
	changed := g.mu.changed
	g.mu.Unlock()
	changed()
}

// Status and the other methods of commands.Membership return the values that the test has set.
func (g *Group) Status() *commands.GroupStatus { return g.status.Load() }

func (g *Group) OnChange(fn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.changed = fn
}

func (g *Group) Progress() commands.GroupProgress {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.mu.progress
	p.Members = slices.Clone(p.Members)
	for i := range p.Members {
		p.Members[i].SyncedLSN = g.mu.synced[p.Members[i].ID]
	}
	return p
}

func (g *Group) Leased(term uint64) bool { return g.Lease.Load() == term }

func (g *Group) Confirm(_ uint64, done func(bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.confirms = append(g.mu.confirms, done)
}

// Answer answers all pending calls of Confirm and returns their number.
func (g *Group) Answer(leads bool) (n int) {
	g.mu.Lock()
	asked := g.mu.confirms
	g.mu.confirms = nil
	g.mu.Unlock()
	for _, done := range asked {
		done(leads)
	}
	return len(asked)
}

func (g *Group) Synced(lsn uint64) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count(lsn)
}

func (g *Group) count(lsn uint64) (n int) {
	for _, to := range g.mu.synced {
		if to >= lsn {
			n++
		}
	}
	return n
}

func (g *Group) AwaitSynced(lsn uint64, members int, done func()) (stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.mu.next
	g.mu.next++
	g.mu.waits[n] = &wait{lsn, members, done}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.mu.waits, n)
	}
}

// Asked returns the number of calls of Confirm that have no answer.
func (g *Group) Asked() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.mu.confirms)
}

// Set changes the result of Progress.
func (g *Group) Set(change func(*commands.GroupProgress)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.mu.progress)
}

// Waiters returns the number of calls of AwaitSynced that have neither ended nor been stopped.
func (g *Group) Waiters() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.mu.waits)
}

// SyncTo notes that a member has the log up to an LSN on its disk. It ends the waits that this
// fulfils.
func (g *Group) SyncTo(member, lsn uint64) {
	g.mu.Lock()
	g.mu.synced[member] = lsn
	var over []func()
	for _, n := range slices.Sorted(maps.Keys(g.mu.waits)) {
		if w := g.mu.waits[n]; g.count(w.lsn) >= w.members {
			over = append(over, w.done)
			delete(g.mu.waits, n)
		}
	}
	g.mu.Unlock()
	for _, done := range over {
		done()
	}
}

func (g *Group) act(done func(error), what ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.asked = append(g.mu.asked, strings.TrimSpace(fmt.Sprintln(what...)))
	g.mu.done = append(g.mu.done, done)
}

func (g *Group) Found(done func(error)) { g.act(done, "found") }
func (g *Group) Meet(host string, port, bus int, done func(error)) {
	g.act(done, "meet", host, port, bus)
}
func (g *Group) Replicate(node string, done func(error)) { g.act(done, "replicate", node) }
func (g *Group) Forget(node string, done func(error))    { g.act(done, "forget", node) }
func (g *Group) Failover(force bool, done func(error))   { g.act(done, "failover", force) }
func (g *Group) Reset(hard bool, done func(error))       { g.act(done, "reset", hard) }

// Acted waits for an action, which must be want, and ends it with err.
func (g *Group) Acted(t testing.TB, want string, err error) {
	t.Helper()
	await.Until(t, want, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.mu.done) > 0
	})
	g.mu.Lock()
	got, done := g.mu.asked[0], g.mu.done[0]
	g.mu.asked, g.mu.done = g.mu.asked[1:], g.mu.done[1:]
	g.mu.Unlock()
	if got != want {
		t.Errorf("asked for %q, want %q", got, want)
	}
	done(err)
}
