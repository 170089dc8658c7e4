package storage

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// shardLock is a mutex that prefers commands to background work. With a plain mutex, a checkpoint
// that copies slot after slot locks it again before a waiting command has woken up. The command
// then waits for a millisecond, until the mutex turns fair.
type shardLock struct {
	mu sync.Mutex // guards what the shard says
	// Written by those that they count.
	waiting atomic.Int32 // commands that want the lock
	// Background work that has seen that the lock is not the global transaction's.
	checked atomic.Int32
}

const (
	// lockSpins bounds how often a command tries before it sleeps: background work keeps a lock for
	// microseconds, and waking up takes longer.
	lockSpins = 2000
	// yieldTries bounds how long background work lets commands go first.
	yieldTries = 100
	yieldPause = 20 * time.Microsecond
)

// tryLock takes the lock if it is free, and returns whether it did.
func (l *shardLock) tryLock() bool { return l.mu.TryLock() }

// lockFirst takes the lock for a command.
func (l *shardLock) lockFirst() {
	if l.tryLock() {
		return
	}
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	for range lockSpins {
		if l.tryLock() {
			return
		}
	}
	l.mu.Lock()
}

// Lock takes the lock for background work, after the commands that want it.
func (l *shardLock) Lock() {
	l.yield()
	l.mu.Lock()
}

// yield lets the commands that want the lock go first.
func (l *shardLock) yield() {
	for i := 0; i < yieldTries && l.wanted(); i++ {
		if i < yieldTries/10 {
			runtime.Gosched()
		} else {
			time.Sleep(yieldPause)
		}
	}
}

// wanted reports whether a command waits for the lock, so that background work can unlock it soon.
func (l *shardLock) wanted() bool { return l.waiting.Load() > 0 }

func (l *shardLock) Unlock() { l.mu.Unlock() }
