package web

import (
	"sync/atomic"
	"time"

	"keyp/commands"
	"keyp/storage"
)

// The keys of each type are counted one by one. So this is done in the background, and only while
// the numbers are needed: while metrics are scraped, or a page is open.

const (
	// A count of keys by type takes one part in typesShare of the time. Two counts are at least
	// typesEvery apart, and at least as long as the earlier one took.
	typesShare = 250
	typesEvery = 2 * time.Second
	// typesStep is the maximum cost of a step: reading some hundred keys from a slow disk. A step
	// that took longer has waited for a lock.
	typesStep = 100 * time.Millisecond
	// typesIdle is the time for which keys are counted after the last request for the counts.
	// It is longer than the time between two scrapes.
	typesIdle = 5 * time.Minute
)

// byType holds the last count of keys by type.
type byType struct {
	asked atomic.Int64 // reading of Mono; 0: nobody has yet
	last  atomic.Pointer[typeCounts]
}

// typeCounts is a count of keys by type.
type typeCounts struct {
	At  int64         `json:"at"` // when it began, Unix ms
	DBs []databaseUse `json:"dbs"`
}

// databaseUse is the number of keys of each type, for one value of the label db.
type databaseUse struct {
	DB    string           `json:"db"`
	Types map[string]int64 `json:"types"`
}

// ask returns the last count, nil if there is none, and keeps the counting going.
func (b *byType) ask(now time.Duration) *typeCounts {
	b.asked.Store(int64(max(1, now)))
	return b.last.Load()
}

// wanted reports whether the counts were requested lately.
func (b *byType) wanted(now time.Duration) bool {
	asked := time.Duration(b.asked.Load())
	return asked > 0 && now-asked <= typesIdle
}

// types counts keys by type, again and again, while the counts are wanted.
func (p *pulse) types(env *commands.Env) {
	for next := time.Duration(0); ; {
		switch now := p.s.o.Clock.Mono(); {
		case !p.byType.wanted(now):
			p.byType.last.Store(nil) // it would be outdated
		case now >= next:
			if counts := p.countTypes(env); counts != nil {
				p.byType.last.Store(counts)
			}
			ended := p.s.o.Clock.Mono()
			next = ended + max(typesEvery, ended-now)
		}
		select {
		case <-time.After(dueEvery):
		case <-p.quit:
			return
		}
	}
}

// countTypes makes one count. It returns nil if that is not possible now, or no longer wanted.
func (p *pulse) countTypes(env *commands.Env) *typeCounts {
	pace := p.paced(typesShare)
	next := func() bool { return pace(typesStep) && p.byType.wanted(p.s.o.Clock.Mono()) }
	counts := &typeCounts{At: p.s.o.Clock.Now(), DBs: []databaseUse{}}
	for i, db := range env.Store.Populations() {
		found, whole := env.Store.CountTypes(db.DB, next)
		if !whole {
			return nil
		}
		if i <= maxDatabases {
			counts.DBs = append(counts.DBs, databaseUse{label(i, db), map[string]int64{}})
		}
		by := counts.DBs[min(i, maxDatabases)].Types
		for _, t := range storage.Types {
			by[t.String()] += found[t]
		}
	}
	return counts
}
