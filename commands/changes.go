package commands

import (
	"sync"
	"sync/atomic"

	"keyp/storage"
)

// Changes passes changed keys on from the store to WATCH, to blocking commands and to client
// tracking. In the store any goroutine may change keys: a command on the loop, a script, the
// reaper. The store reports changes only while WATCH, a blocking command or tracking needs them.
//
// WATCH must know a change before the next transaction reads the key. So it is notified at once,
// while the key is still locked. The loop notifies blocking commands and tracking later (Deliver).
type Changes struct {
	store    *storage.Store
	waiters  *Waiters // of blocking commands
	tracking *Tracking
	wake     func() // has the loop call Deliver

	mu struct {
		sync.Mutex
		wanted   int              // how many need all changes from Deliver
		unowned  int              // how many need only those that no client's command made
		watched  watchedKeys      // by WATCH
		reported bool             // the store reports changes
		queue    []storage.Change // not delivered yet
	}
	waiting    atomic.Bool // mu.queue is not empty
	anyWatched atomic.Bool // mu.watched is not empty
	expects    bool        // expect has been called since the last Deliver; only the loop uses it
}

// expect makes the store report changes until Deliver, for a command that is about to wait for
// them. It is called while the command's keys are locked. So the next change of these keys is
// reported, on whichever goroutine it happens.
func (c *Changes) expect() {
	if !c.expects {
		c.expects = true
		c.Want(1)
	}
}

// Want changes the number of listeners that need Deliver: by is 1 or -1. Only the loop may call it.
func (c *Changes) Want(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.wanted += by
	c.listen()
}

// WantUnowned is like Want, for a listener that needs only the changes that do not come from a
// command: the removals of the reaper. Any goroutine may call it.
func (c *Changes) WantUnowned(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.unowned += by
	c.listen()
}

// listen makes the store report changes while there are listeners.
func (c *Changes) listen() {
	c.anyWatched.Store(len(c.mu.watched) > 0)
	switch want := c.mu.wanted > 0 || c.mu.unowned > 0 || len(c.mu.watched) > 0; {
	case want == c.mu.reported:
	case want:
		c.store.Observe(c.heard)
		c.mu.reported = true
	default:
		c.store.Observe(nil)
		c.mu.reported = false
	}
}

// heard records the changes of a transaction, whose shards are still locked.
func (c *Changes) heard(changes []storage.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.watched.changed(changes)
	c.listen() // the last watched key may be gone
	for _, change := range changes {
		if c.mu.wanted == 0 && (c.mu.unowned == 0 || change.By != 0) {
			continue
		}
		if change.Key != nil {
			change.Key = append([]byte{}, change.Key...)
		}
		c.mu.queue = append(c.mu.queue, change)
	}
	if len(c.mu.queue) > 0 {
		c.waiting.Store(true)
		c.wake()
	}
}

// Deliver passes recorded changes on. The loop calls it after each command, so that listeners get
// the changes before the next command runs. The loop also calls it once in each pass, for the
// changes that other goroutines made.
func (c *Changes) Deliver() {
	if c.expects { // the command is among the waiters by now, or has ended
		c.expects = false
		c.Want(-1)
	}
	if !c.waiting.Load() {
		return
	}
	c.mu.Lock()
	changes := c.mu.queue
	c.mu.queue = nil
	c.waiting.Store(false)
	c.mu.Unlock()
	c.tracking.changed(changes)
	for _, change := range changes {
		c.waiters.changed(change)
	}
}
