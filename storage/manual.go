package storage

import "keyp/storage/object"

// Step is a moment at which a test may look at the store or interrupt it.
type Step string

// Steps of writing to the data file. Those of a compaction are its compactSteps.
const (
	StepWrite   Step = "write"   // a transaction is about to be written
	StepWritten Step = "written" // it is on disk
	StepMade    Step = "made"    // a new data file is complete, under another name
	StepNamed   Step = "named"   // it has its name, which may not be durable yet
)

func (s *Store) step(step Step) error {
	if s.options.OnStep == nil {
		return nil
	}
	return s.options.OnStep(step)
}

// Manual does, when called, the work that background goroutines do without NoBackground. Reap,
// Checkpoint and Compact belong to it too. It is for tests that choose the order of events.
type Manual struct{ s *Store }

// FixHashes gives the elements of large values, and so the steps of checkpoints, the same order in
// every process. It is called before a store is opened.
func FixHashes() { object.FixHashes() }

// Manual is for a store with NoBackground.
func (s *Store) Manual() Manual { return Manual{s} }

// Serve reads the keys that Load has queued.
func (m Manual) Serve() {
	l := &m.s.loads
	l.mu.Lock()
	batch := l.mu.queue
	l.mu.queue = nil
	l.mu.Unlock()
	for _, slow := range m.s.loadBatch(batch) {
		m.s.load(slow)
	}
}

// LoadAll reads all keys into memory, as the loader does after a start.
func (m Manual) LoadAll() { m.s.loadAll() }

// Evict removes clean keys from memory, in one of oneIn slots with keys.
func (m Manual) Evict(oneIn uint64) {
	for _, sh := range m.s.shards {
		for db, p := range sh.mu.parts[:m.s.options.Databases] {
			if p == nil {
				continue
			}
			for _, sl := range p.allUsed() {
				if sl.table.used > 0 && m.s.options.Random()%oneIn == 0 {
					m.s.evictSlot(sh, db, int(sl.num-p.first))
				}
			}
		}
	}
}

// Room checks whether the disk has room again.
func (m Manual) Room() { m.s.lowSpace.Store(m.s.spaceIsLow()) }

// AwaitClock waits until a step back of the wall clock is handled: the store's time is the clock's
// again, unless the clock is a second or less behind.
func (m Manual) AwaitClock() {
	m.s.now()
	m.s.background.Wait()
}

// makeStepsSmall implements Options.SmallSteps. Nothing else uses the store yet.
func (s *Store) makeStepsSmall() {
	s.window.size = 8 // it is read and cut often
	s.reapLooks, s.garbageTime = 1, 0
	s.checkpointer.batchBytes, s.checkpointer.portion, s.checkpointer.portionBytes = 4<<10, 30, 20<<10
	s.checkpointer.pendingBytes, s.checkpointer.pendingStep = 300, 3
	s.loads.stretch, s.loads.stretchTime = 30, 0
}
