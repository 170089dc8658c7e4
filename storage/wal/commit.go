package wal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"keyp/internal/vfs"
)

// everySecond is the period of EverySec in milliseconds.
const everySecond = 1000

// Commit makes all that was appended before it durable in the sense of the policy. If another
// commit is about to do that, Commit waits for the other commit instead. It also waits while all
// prepared room is used and there is no more (see Full). A caller that must not wait uses
// CommitAsync.
func (l *Log) Commit() error {
	if err := l.Err(); err != nil {
		return err
	}
	return l.commit(l.End())
}

// CommitAsync is Commit on the log's own goroutine; OnDurable reports when it is done, and
// OnFail when it cannot be. Calls while one is under way become one.
func (l *Log) CommitAsync() { kick(l.kickWrite) }

// commit makes everything up to lsn durable in the sense of the policy.
func (l *Log) commit(lsn uint64) error {
	if l.durable.Load() >= lsn {
		return nil
	}
	l.flushMu.Lock()
	before := l.durable.Load()
	var err error
	if before < lsn { // else the commit before this one took our batches along
		err = l.flush()
	}
	advanced := l.durable.Load() > before
	l.flushMu.Unlock()
	if advanced {
		l.signalDurable()
	}
	if err == nil && l.o.NoBackground {
		err = l.prepareNow()
	}
	return err
}

func (l *Log) signalDurable() {
	if l.o.OnDurable != nil {
		l.o.OnDurable(l.durable.Load())
	}
}

// flush writes what was appended and, under Always, syncs it. flushMu is locked.
func (l *Log) flush() error {
	if err := l.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	chunks := l.mu.tail.take()
	l.mu.Unlock()

	always := Policy(l.policy.Load()) == Always
	began, before := l.o.Clock.Mono(), l.written.Load()
	var waited time.Duration
	var spare []byte
	for i := range chunks {
		c := &chunks[i]
		late := c.rest != nil
		if c.head > 0 {
			entered := l.o.Clock.Mono()
			if err := l.enter(c.identity, always); err != nil {
				return err
			}
			waited += l.o.Clock.Mono() - entered
		}
		spare = c.complete(spare)
		if err := l.write(c); err != nil {
			return err
		}
		if i >= keepBuffers || late {
			c.buf = nil // of a large batch; its memory is free while later batches are written
		}
	}
	if always {
		if err := l.sync(); err != nil {
			return err
		}
	} else {
		raise(&l.durable, l.written.Load())
	}
	if len(chunks) > 0 {
		l.measure(l.o.Clock.Mono() - began - waited)
		l.sizes.Observe(int64(l.written.Load() - before))
	}

	l.mu.Lock()
	l.mu.tail.give(chunks)
	l.mu.Unlock()
	return nil
}

// write writes one chunk to its place.
func (l *Log) write(c *chunk) error {
	c.seal(l.synced.Load())
	if _, err := l.flushMu.cur.WriteAt(c.buf, c.offset()); err != nil {
		return l.fail(fmt.Errorf("write %s: %w", segmentName(c.number), err))
	}
	l.written.Store(c.end())
	return nil
}

// enter makes the prepared segment the current one. If none is prepared yet, it waits. The previous
// segment is then complete and gets its last sync. Under Always the sync happens at once, so that a
// commit over many segments does not pile up dirty pages. Otherwise it happens in the background.
func (l *Log) enter(id identity, always bool) error {
	if always {
		if err := l.sync(); err != nil {
			return err
		}
	} else if l.flushMu.cur != nil {
		kick(l.kickSync)
	}
	if l.o.NoBackground {
		if err := l.prepareNow(); err != nil {
			return err
		}
	}
	s, err := l.takeReady()
	if err != nil {
		return err
	}
	if s.number != id.number {
		return l.fail(fmt.Errorf("segment %d is prepared but %d is needed", s.number, id.number))
	}
	l.segMu.Lock()
	l.segMu.unsynced = append(l.segMu.unsynced, *s)
	l.segMu.live = append(l.segMu.live, liveSegment{identity: id, size: s.size})
	l.segMu.Unlock()
	l.flushMu.cur = s.file
	return nil
}

// sync makes what is written durable on disk. It may run concurrently with flush.
func (l *Log) sync() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	// A file is added to unsynced before its first byte is written. So the list, read after the
	// position, has all files up to that position.
	upTo := l.written.Load()
	if upTo <= l.synced.Load() {
		return nil
	}
	l.segMu.Lock()
	files := l.segMu.unsynced // only appended to beyond this length, and cut by us
	l.segMu.Unlock()
	for _, s := range files {
		began := l.o.Clock.Mono()
		if err := s.file.Sync(); err != nil {
			return l.fail(fmt.Errorf("sync %s: %w", segmentName(s.number), err))
		}
		l.syncs.Observe((l.o.Clock.Mono() - began).Microseconds())
	}
	if complete := files[:len(files)-1]; len(complete) > 0 {
		if err := l.closeComplete(complete); err != nil {
			return err
		}
	}
	l.synced.Store(upTo)
	if Policy(l.policy.Load()) == Always {
		raise(&l.durable, upTo)
	}
	l.moved.broadcast()
	return nil
}

// closeComplete closes segments that were synced after their last write.
func (l *Log) closeComplete(complete []openSegment) error {
	l.segMu.Lock()
	rest := make([]openSegment, len(l.segMu.unsynced)-len(complete))
	copy(rest, l.segMu.unsynced[len(complete):])
	l.segMu.unsynced = rest
	l.segMu.Unlock()
	for _, s := range complete {
		if err := s.file.Close(); err != nil {
			return l.fail(fmt.Errorf("close %s: %w", segmentName(s.number), err))
		}
	}
	return nil
}

// measure adds the duration of a flush to the moving average. flushMu is locked.
func (l *Log) measure(d time.Duration) {
	old := l.cost.Load()
	if old == 0 {
		old = int64(d)
	}
	l.cost.Store(old + (int64(d)-old)/8)
}

// writeLoop does the asynchronous commits.
func (l *Log) writeLoop() {
	defer l.background.Done()
	for {
		select {
		case <-l.quit:
			return
		case <-l.kickWrite:
		}
		// The error is in Err, and OnFail was called.
		if l.commit(l.End()) == nil && l.wanted.Load() > l.synced.Load() {
			kick(l.kickSync)
		}
	}
}

// syncLoop does the syncs that no commit does: each second under EverySec, at the end
// of a segment, and for Settled.
func (l *Log) syncLoop() {
	defer l.background.Done()
	for {
		var tick <-chan struct{}
		stop := func() {}
		if Policy(l.policy.Load()) == EverySec {
			tick, stop = l.o.Clock.Until(l.o.Clock.Now() + everySecond)
		}
		quit := false
		select {
		case <-l.quit:
			quit = true
		case <-l.kickSync:
		case <-tick:
		}
		stop()
		if quit {
			return
		}
		before := l.durable.Load()
		// The error is in Err, and OnFail was called.
		if l.sync() == nil && l.durable.Load() > before {
			l.signalDurable()
		}
	}
}

// openSegment is a segment file that is open for writing.
type openSegment struct {
	number uint64
	size   int64
	file   vfs.File
}

// kick wakes the goroutine that receives from c, at once or when it receives next.
func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// raise sets a to v unless it is higher already.
func raise(a *atomic.Uint64, v uint64) {
	for {
		old := a.Load()
		if old >= v || a.CompareAndSwap(old, v) {
			return
		}
	}
}

// signal wakes all waiters. It is cheap while there are none.
type signal struct {
	waiting atomic.Bool
	mu      struct {
		sync.Mutex
		ch chan struct{}
	}
}

// wait returns a channel that the next broadcast closes. The caller must check the condition that
// it waits for between wait and the receive.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ch == nil {
		s.mu.ch = make(chan struct{})
	}
	s.waiting.Store(true)
	return s.mu.ch
}

func (s *signal) broadcast() {
	if !s.waiting.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ch != nil {
		close(s.mu.ch)
		s.mu.ch = nil
	}
	s.waiting.Store(false)
}
