package storage

import (
	"bytes"
	"context"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
)

// loads is the queue of keys that sessions wait for. A worker takes several requests from the queue
// at a time and reads their keys in one transaction. While workers are busy, another one is woken
// only if the queue is longer than what the busy ones will take next. So even for many requests few
// threads are woken.
type loads struct {
	s  *Store // constant
	mu struct {
		sync.Mutex
		more   sync.Cond // queue or closed changed
		queue  []load
		idle   int // workers that wait
		busy   int // workers that use the queue, or are about to
		closed bool
	}
}

type load struct {
	keys []Key
	runs []Runs // of streams among them
	done func(error)
}

const (
	loadWorkers = 4
	// loadBatch is how many requests a worker removes from the queue at a time.
	loadBatch = 8

	// stretchSize is how many elements of a large value a transaction reads at least, stretchTime
	// how long it reads further ones.
	stretchSize = 1024
	stretchTime = 5 * time.Millisecond
)

func (l *loads) init(s *Store) {
	l.s = s
	l.mu.more.L = &l.mu.Mutex
	context.AfterFunc(s.quit, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.mu.closed = true
		l.mu.more.Broadcast()
	})
}

// Load reads keys into memory, notes those that do not exist, and then calls done, on another
// goroutine. The error is about the data file: a corrupt record is never served. Names are copied.
// After Close done gets ErrClosed.
func (s *Store) Load(keys []Key, done func(error)) { s.LoadWith(keys, nil, done) }

// LoadWith is Load for keys, and runs of streams.
func (s *Store) LoadWith(keys []Key, runs []Runs, done func(error)) {
	req := load{keys: make([]Key, len(keys)), done: done}
	for i, k := range keys {
		k.Name = append([]byte(nil), k.Name...)
		req.keys[i] = k
	}
	for _, r := range runs {
		r.Key.Name = append([]byte(nil), r.Key.Name...)
		req.runs = append(req.runs, r)
	}
	l := &s.loads
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		go done(ErrClosed)
		return
	}
	l.mu.queue = append(l.mu.queue, req)
	l.call()
}

// call wakes a worker if the queue has more requests than the busy workers will take next.
func (l *loads) call() {
	if l.mu.idle > 0 && len(l.mu.queue) > l.mu.busy*loadBatch {
		l.mu.idle--
		l.mu.busy++
		l.mu.more.Signal()
	}
}

// take waits for requests and returns them. It returns none if the store closes; then the requests
// left in the queue are answered. Only a worker that counts as busy calls it.
func (l *loads) take(batch []load) []load {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.mu.queue) == 0 && !l.mu.closed {
		l.mu.busy--
		l.mu.idle++
		l.mu.more.Wait()
	}
	if l.mu.closed {
		for _, req := range l.mu.queue {
			go req.done(ErrClosed)
		}
		l.mu.queue = nil
		return nil
	}
	n := min(len(l.mu.queue), loadBatch)
	batch = append(batch, l.mu.queue[:n]...)
	left := copy(l.mu.queue, l.mu.queue[n:])
	clear(l.mu.queue[left:])
	l.mu.queue = l.mu.queue[:left]
	return batch
}

// turn notes that a worker becomes busy or idle.
func (l *loads) turn(by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.busy += by
	l.call()
}

func (l *loads) loop() {
	l.turn(1)
	for {
		batch := l.take(nil)
		if batch == nil {
			return
		}
		slow := l.serveBatch(batch)
		if len(slow) == 0 {
			continue
		}
		l.turn(-1) // other requests must not wait for a large value
		for _, req := range slow {
			l.serve(req)
		}
		l.turn(1)
	}
}

// serve loads the keys of a request one by one.
func (l *loads) serve(req load) {
	var err error
	for _, k := range req.keys {
		if err = l.loadKey(k); err != nil {
			l.failed(k, err)
			break
		}
	}
	for i := 0; i < len(req.runs) && err == nil; i++ {
		err = l.loadRuns(req.runs[i])
	}
	req.done(err)
}

func (l *loads) failed(k Key, err error) {
	l.s.stats.LoadErrors.Add(1)
	l.s.Unread(err, "key", Clip(k.Name))
}

// cold is a key of a batch that was not in memory at first.
type cold struct {
	k     Key
	req   int // whose key it is
	p     *part
	epoch uint32
	sure  bool // the slot is verified
	at    []byte
	found bool
	read  bool // got is what the file has, if found
	got   resident
}

// serveBatch reads the small keys of requests in one transaction, and returns the unfinished
// requests: keys that are large, due or damaged are left to serve.
func (l *loads) serveBatch(batch []load) (slow []load) {
	s := l.s
	undone := make([]bool, len(batch))
	var keys []cold
	for i, req := range batch {
		undone[i] = len(req.runs) > 0
		for _, k := range req.keys {
			sh := s.shards[s.shardOf(k.Slot)]
			if !sh.lockPassingGlobal() {
				continue // the command tries again, and finds the shard locked
			}
			if !s.resident(k) {
				p := sh.mu.parts[k.DB]
				keys = append(keys, cold{k: k, req: i, p: p, epoch: p.slot(k).epoch,
					sure: p.slot(k).verified, at: format.DiskKey(nil, p.space, k)})
			} else if s.overdue(k, s.now()) {
				undone[i] = true
			}
			sh.mu.Unlock()
		}
	}
	if len(keys) > 0 {
		l.readBatch(keys)
	}
	for i := range keys {
		if c := &keys[i]; !c.read || !l.loadCold(c) {
			undone[c.req] = true
		}
	}
	for i, req := range batch {
		if undone[i] {
			slow = append(slow, req)
		} else {
			req.done(nil)
		}
	}
	return slow
}

// readBatch reads keys from the data file; it may skip some, whose read stays false.
func (l *loads) readBatch(keys []cold) {
	err := l.s.file.View(func(tx *bolt.Tx) error {
		cursor := tx.Bucket(format.BucketValues).Cursor()
		for i := range keys {
			c := &keys[i]
			at, record := cursor.Seek(c.at)
			if !bytes.Equal(at, c.at) {
				c.read = c.sure
				continue
			}
			im, err := format.ParseImage(c.at, record)
			if err != nil || !im.Inline || im.BadTime {
				continue
			}
			if c.got, err = readResident(tx, &im); err == nil {
				c.found, c.read = true, true
			}
		}
		return nil
	})
	if err != nil {
		for i := range keys {
			keys[i].read = false
		}
	}
	l.s.stats.Loads.Add(int64(len(keys)))
}

// loadCold adds a key that was read to memory, unless the read may be outdated.
func (l *loads) loadCold(c *cold) bool {
	sh := c.p.shard
	if !sh.lockPassingGlobal() {
		return true
	}
	defer sh.mu.Unlock()
	if sh.mu.parts[c.k.DB] != c.p || c.p.slot(c.k).epoch != c.epoch {
		return false
	}
	if c.p.find(c.p.slot(c.k), c.k) == nil {
		c.p.loadResult(c.k, c.got, c.found)
	}
	return true
}
