package server

import (
	"sync"
	"sync/atomic"
)

// mailbox carries functions from other goroutines to the loop, and wakes it. After
// close it swallows them: whatever finishes late finds nobody, and no write goes to
// a descriptor whose number may have a new owner.
type mailbox struct {
	poll   *poller
	woken  atomic.Bool // a wake-up is under way, so no further one is needed
	mu     sync.Mutex
	posts  []func()
	closed bool
}

// post has fn called on the loop.
func (m *mailbox) post(fn func()) {
	m.mu.Lock()
	if !m.closed {
		m.posts = append(m.posts, fn)
	}
	m.mu.Unlock()
	m.wake()
}

// wake makes the loop do a pass.
func (m *mailbox) wake() {
	if m.woken.Swap(true) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.poll.wake()
	}
}

// take gives what was posted. A post from here on wakes the loop again.
func (m *mailbox) take() []func() {
	if !m.woken.Swap(false) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	posts := m.posts
	m.posts = nil
	return posts
}

func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.posts = true, nil
}
