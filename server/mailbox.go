package server

import (
	"sync"
	"sync/atomic"
)

// mailbox carries functions from other goroutines to the loop, and wakes it. Waking a loop that is
// awake costs no system call: it looks again before it sleeps.
//
//	waker                         loop
//	rung = true                   asleep = true
//	if asleep, clear it: write    if not rung: sleep
//
// Whichever comes first, one of the two sees the other's store. After close the mailbox drops
// everything. So a late result is lost, and nothing is written to a descriptor whose number may
// have a new owner.
type mailbox struct {
	poll    *poller
	rung    atomic.Bool // something has changed since begin
	asleep  atomic.Bool // the loop sleeps or is about to
	pending atomic.Bool // mu.posts is not empty
	mu      struct {
		sync.Mutex
		posts  []func()
		closed bool
	}
}

// post schedules fn to run on the loop. After close fn is dropped.
func (m *mailbox) post(fn func()) {
	m.mu.Lock()
	if !m.mu.closed {
		m.mu.posts = append(m.mu.posts, fn)
		m.pending.Store(true)
	}
	m.mu.Unlock()
	m.wake()
}

// wake makes the loop do a pass.
func (m *mailbox) wake() {
	m.rung.Store(true)
	if !m.asleep.Swap(false) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mu.closed {
		m.poll.wake()
	}
}

// maySleep reports whether the loop may sleep. If so, the next wake writes to the poller.
func (m *mailbox) maySleep() bool {
	m.asleep.Store(true)
	if m.rung.Load() || m.pending.Load() {
		m.asleep.Store(false)
		return false
	}
	return true
}

// begin begins a pass. The pass looks at everything that has changed so far.
func (m *mailbox) begin() {
	m.asleep.Store(false)
	m.rung.Store(false)
}

// quiet forgets that the log has changed, because the loop looks at the log next by itself.
func (m *mailbox) quiet() { m.rung.Store(false) }

// take returns the posted functions.
func (m *mailbox) take() []func() {
	if !m.pending.Load() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	posts := m.mu.posts
	m.mu.posts = nil
	m.pending.Store(false)
	return posts
}

func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.closed, m.mu.posts = true, nil
}
