package storage

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// feed passes the batches of the log to the replays. Each replay runs on its own goroutine. It
// reads every batch in the order of the log, but applies only the records of its own shards. So the
// records of one shard are applied in order. If a record concerns several shards, one replay
// applies it while the others wait at the same record (meeting).
//
// The result of a damaged record does not depend on which replay is faster. The error of the first
// damaged record in the log counts, and no replay stops before it has reached that record.
type feed struct {
	// Constant once newFeed has returned.
	r       *recovering
	idle    chan *stretch
	queues  []chan *stretch
	running sync.WaitGroup

	// Used only by the goroutine that reads the log.
	batches int64
	bytes   int64 // in them
	filling *stretch
	ended   bool

	mu struct {
		sync.Mutex
		failed failure // read without the lock once running has ended
	}
	failedAt atomic.Uint64 // the LSN of failed, or the largest number; written while mu is locked
}

// stretch is a run of whole batches.
type stretch struct {
	bytes   []byte
	batches []batchEnd
	readers atomic.Int32 // that have not finished with it
}

type batchEnd struct {
	lsn uint64
	end int // in bytes
}

// failure is the first place in the log that could not be replayed.
type failure struct {
	lsn uint64 // of the batch
	at  int    // in the batch
	err error  // nil: none
}

// before reports whether f is about an earlier record than g.
func (f failure) before(g failure) bool { return f.lsn < g.lsn || f.lsn == g.lsn && f.at < g.at }

const (
	// stretchBytes is the usual size of a stretch: one fits a core's cache.
	stretchBytes = 256 << 10
	// stretches bounds what is read ahead of the replays.
	stretches = 8
)

func newFeed(r *recovering) *feed {
	f := &feed{r: r, idle: make(chan *stretch, stretches)}
	f.failedAt.Store(math.MaxUint64)
	for range stretches {
		f.idle <- &stretch{}
	}
	for _, one := range r.replays {
		queue := make(chan *stretch, stretches)
		f.queues = append(f.queues, queue)
		f.running.Add(1)
		go func() {
			defer f.running.Done()
			f.run(one, queue)
		}()
	}
	return f
}

// batch adds a copy of a batch. The errors of the replay come from end.
func (f *feed) batch(lsn uint64, batch []byte) error {
	if len(batch) == 0 { // of a checkpoint's rotation
		return nil
	}
	f.batches++
	f.bytes += int64(len(batch))
	if f.filling != nil && len(f.filling.bytes)+len(batch) > stretchBytes {
		f.send()
	}
	if f.filling == nil {
		f.filling = <-f.idle
	}
	st := f.filling
	st.bytes = append(st.bytes, batch...)
	st.batches = append(st.batches, batchEnd{lsn, len(st.bytes)})
	return nil
}

func (f *feed) send() {
	f.filling.readers.Store(int32(len(f.queues)))
	for _, queue := range f.queues {
		queue <- f.filling
	}
	f.filling = nil
}

// end waits until all is replayed and returns the error of the first record that could not be.
func (f *feed) end() error {
	if !f.ended {
		f.ended = true
		if f.filling != nil {
			f.send()
		}
		for _, queue := range f.queues {
			close(queue)
		}
		f.running.Wait()
	}
	if f.mu.failed.err != nil {
		return fmt.Errorf("replay of the batch before position %d: %w", f.mu.failed.lsn,
			f.mu.failed.err)
	}
	return nil
}

// run is one replay. After a failure it only discards stretches, so that the other replays
// continue.
func (f *feed) run(r *replay, queue chan *stretch) {
	for st := range queue {
		from := 0
		for i, b := range st.batches {
			if b.lsn > f.failedAt.Load() {
				break
			}
			if window := PrefetchKeys * len(f.queues); i%window == 0 {
				r.prefetch(st.bytes[from:], from, st.batches[i:min(i+window, len(st.batches))])
			}
			if at, err := r.batch(st.bytes[from:b.end]); err != nil {
				f.fail(failure{b.lsn, at, err})
				break
			}
			from = b.end
		}
		if st.readers.Add(-1) == 0 {
			st.reuse()
			f.idle <- st
		}
	}
}

// reuse empties a stretch, so that it can be filled again. It drops a buffer that a large batch has
// made too large.
func (st *stretch) reuse() {
	st.batches = st.batches[:0]
	if st.bytes = st.bytes[:0]; cap(st.bytes) > 2*stretchBytes {
		st.bytes = nil
	}
}

func (f *feed) fail(at failure) {
	f.mu.Lock()
	if !errors.Is(at.err, errCalledOff) && (f.mu.failed.err == nil || at.before(f.mu.failed)) {
		f.mu.failed = at
		f.failedAt.Store(at.lsn)
	}
	f.mu.Unlock()
	f.r.meeting.callOff()
}

// errCalledOff is the error of a meeting that does not take place, since another replay has failed.
var errCalledOff = errors.New("storage: another replay has failed")

// meeting is where the replays wait for each other.
type meeting struct {
	all int // replays; constant
	mu  struct {
		sync.Mutex
		over    *sync.Cond // round or off changed
		arrived int
		round   int
		off     bool
	}
}

func (m *meeting) init(all int) {
	m.all = all
	m.mu.over = sync.NewCond(&m.mu.Mutex)
}

// alone is called by every replay at the same record. It runs fn once, when all have arrived, and
// returns when that is done. The replay that ran fn gets its error. If a replay has failed it
// returns errCalledOff: that failure was before this record, since all come to every meeting.
func (m *meeting) alone(fn func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.off {
		return errCalledOff
	}
	if m.mu.arrived++; m.mu.arrived < m.all {
		for round := m.mu.round; m.mu.round == round; m.mu.over.Wait() {
			if m.mu.off {
				return errCalledOff
			}
		}
		return nil
	}
	m.mu.arrived = 0
	m.mu.round++
	err := fn() // with the lock: the others wait for it anyway
	m.mu.over.Broadcast()
	return err
}

// callOff ends this meeting and all later ones.
func (m *meeting) callOff() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.off = true
	m.mu.over.Broadcast()
}
