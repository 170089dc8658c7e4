package commands

import (
	"sync"
	"sync/atomic"

	"keyp/storage"
)

// Changes brings word of changed keys from the store, where any goroutine may change them
// (a command on the loop, a script, the reaper), to those who wait for it. The store is
// asked for it only while somebody does.
//
// Who has to know before the next transaction touches the key, as WATCH has, is told at
// once, while the key is still held. All others are told by the loop: Deliver.
type Changes struct {
	store    *storage.Store
	waiters  *Waiters // of blocking commands
	tracking *Tracking
	wake     func() // has the loop call Deliver

	mu      sync.Mutex
	wanted  int              // who waits for Deliver
	unowned int              // who waits for it to tell only what nobody's command changes
	watched watchedKeys      // by WATCH
	told    bool             // the store tells what changes
	queue   []storage.Change // not delivered yet
	waiting atomic.Bool      // queue is not empty
	// anyWatched: watched is not empty.
	anyWatched atomic.Bool
}

// Want counts who wants to be told by Deliver: by 1 when one comes, by -1 when it goes. Only
// the loop calls it.
func (c *Changes) Want(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted += by
	c.listen()
}

// WantUnowned is Want for who needs only what nobody's command changes: what the reaper
// removes. Any goroutine may call it.
func (c *Changes) WantUnowned(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unowned += by
	c.listen()
}

// listen has the store tell what changes while somebody wants to know.
func (c *Changes) listen() {
	c.anyWatched.Store(len(c.watched) > 0)
	switch want := c.wanted > 0 || c.unowned > 0 || len(c.watched) > 0; {
	case want == c.told:
	case want:
		c.store.Observe(c.heard)
		c.told = true
	default:
		c.store.Observe(nil)
		c.told = false
	}
}

// heard takes in what a transaction changed, whose shards are still held.
func (c *Changes) heard(changes []storage.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched.changed(changes)
	c.listen() // the last watched key may be gone
	for _, change := range changes {
		if c.wanted == 0 && (c.unowned == 0 || change.By != 0) {
			continue
		}
		if change.Key != nil {
			change.Key = append([]byte{}, change.Key...)
		}
		c.queue = append(c.queue, change)
	}
	if len(c.queue) > 0 {
		c.waiting.Store(true)
		c.wake()
	}
}

// Deliver hands what came in to those who wait for it. The loop calls it after each command,
// so that they come before the next one, and in each pass, for what others changed.
func (c *Changes) Deliver() {
	if !c.waiting.Load() {
		return
	}
	c.mu.Lock()
	changes := c.queue
	c.queue = nil
	c.waiting.Store(false)
	c.mu.Unlock()
	c.tracking.changed(changes)
	for _, change := range changes {
		c.waiters.changed(change)
	}
}
