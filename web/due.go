package web

import (
	"time"

	"keyp/commands"
	"keyp/storage"
)

// This file counts the keys that will expire within the next minute, hour, day and so on. The
// dashboard and the metrics show these numbers.

const (
	// dueEvery is the least time between two counts of due keys. The counts take at most
	// 1/dueShare of the time.
	dueEvery = time.Second
	dueShare = 100
	// dueLooks is about how many deadlines a count reads for the spans of a database. dueCost is
	// the maximum time for one of them if nothing delays it.
	dueLooks = 300_000
	dueCost  = 2 * time.Microsecond

	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// scales are the scales of the bars that pages show, from now on, in units of the calendar (UTC).
// There are more bars than a page shows, because a page shows an old count for a while.
var scales = []struct {
	name string
	unit int64
	bars int
}{{"second", second, 120}, {"minute", minute, 120}, {"hour", hour, 48}, {"day", day, 61}}

// horizons are the times ahead for which pages show the number of due keys. The metrics use the
// first measured of them. The last count of a forecast is that of the keys due after the last
// horizon.
var horizons = []horizon{{"minute", minute}, {"hour", hour}, {"day", day}, {"60 days", 60 * day}}

const measured = 3

type horizon struct {
	name string
	ms   int64
}

// forecast counts the keys that are due from now on. A key counts once, at its next deadline: its
// own or the first of an element.
type forecast struct {
	From   int64               `json:"from"` // when the count began, in Unix ms
	Scales map[string]*dueBars `json:"scales"`
	// Within has, by database, the counts of the horizons in the form of packed.
	Within map[int][][]int64 `json:"within"`

	within []int64 // estimates for all databases
}

// dueBars is how many keys are due in consecutive spans of time of one length.
type dueBars struct {
	From int64 `json:"from"` // Unix ms
	Unit int64 `json:"unit"` // of each, in ms
	// DBs has, by database, the number of each bar and its counts, without bars of 0. Without
	// patterns that is one count, as packed returns it. With patterns each key counts at the
	// first pattern that its name matches. The last count is that of other names that the user
	// may see. Only databases below maxDatabases are included.
	DBs map[int][][]int64 `json:"dbs"`
	At  int64             `json:"at"` // when it was ready
	// One name in Every was read, and counts as Every names.
	Every int64 `json:"every"`
	Long  int64 `json:"long"` // names that take too long to match, which count nowhere
}

// packed returns a count as pages get it: the number of keys or, where that is not known, an
// estimate, a lower and an upper bound.
func packed(s storage.DueSpan) []int64 {
	if s.Exact() {
		return []int64{s.Estimate}
	}
	return []int64{s.Estimate, s.Low, s.High}
}

// timelines counts the due keys of each database in equal spans of time. It calls step after each
// database. It returns false if step told it to end, or if the data file could not be read. During
// a global transaction it waits.
func timelines(env *commands.Env, from, until storage.Instant, spans int,
	step func(most time.Duration) bool, add func(db int, list []storage.DueSpan)) bool {
	for _, d := range env.Store.Populations() {
		list, err := env.Store.Monitoring().Timeline(d.DB, from, until, spans, nil)
		if err != nil || !step(time.Millisecond+time.Duration(min(d.Keys, dueLooks))*dueCost) {
			return false
		}
		add(d.DB, list)
	}
	return true
}

// countBars counts the due keys in bars. It returns nil where timelines returns false.
func countBars(env *commands.Env, from, unit int64, bars int,
	step func(most time.Duration) bool) *dueBars {
	c := &dueBars{From: from, Unit: unit, DBs: map[int][][]int64{}, Every: 1}
	until := storage.Instant{At: from + unit*int64(bars)}
	if !timelines(env, storage.Instant{At: from}, until, bars, step,
		func(db int, list []storage.DueSpan) {
			for i, s := range list {
				if s.High > 0 && db < maxDatabases {
					c.DBs[db] = append(c.DBs[db], append([]int64{int64(i)}, packed(s)...))
				}
			}
		}) {
		return nil
	}
	c.At = env.Store.Now()
	return c
}

// countDue makes a forecast. It returns nil where timelines returns false.
func countDue(env *commands.Env, step func(most time.Duration) bool) *forecast {
	now := env.Store.Now()
	f := &forecast{From: now, Scales: map[string]*dueBars{}, Within: map[int][][]int64{},
		within: make([]int64, len(horizons)+1)}
	from := storage.Instant{Open: true}
	for i := range f.within {
		until := storage.Instant{Open: true}
		if i < len(horizons) {
			until = storage.Instant{At: now + horizons[i].ms}
		} else {
			from = storage.Instant{At: now + horizons[i-1].ms}
		}
		if !timelines(env, from, until, 1, step, func(db int, list []storage.DueSpan) {
			all := storage.DueSpan{} // there is no span if nothing is due so late
			for _, s := range list {
				all.Add(s.Span)
			}
			f.within[i] += all.Estimate
			if f.Within[db] == nil && db < maxDatabases {
				f.Within[db] = make([][]int64, len(f.within))
			}
			if db < maxDatabases {
				f.Within[db][i] = packed(all)
			}
		}) {
			return nil
		}
	}
	for _, s := range scales {
		bars := countBars(env, now-now%s.unit, s.unit, s.bars, step)
		if f.Scales[s.name] = bars; bars == nil {
			return nil
		}
	}
	return f
}

// dueWithin returns the counts of the measured horizons; nil if they are not known yet.
func (p *pulse) dueWithin() []int64 {
	if f := p.due.Load(); f != nil {
		return f.within[:measured]
	}
	return nil
}

// counts counts the due keys again and again. If a count fails, the last one stays.
func (p *pulse) counts(env *commands.Env) {
	for {
		if f := countDue(env, p.paced(dueShare)); f != nil {
			p.due.Store(f)
		}
		select {
		case <-time.After(dueEvery):
		case <-p.quit:
			return
		}
	}
}
