package web

import (
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"keyp/commands"
)

const (
	// dueEvery is the time between two counts of what is due soon; each of the two counts has a dueShare-th of
	// the time.
	dueEvery = time.Second
	dueShare = 200
	// dueCost is the most that a key takes that is counted, if nothing is in the way.
	dueCost = 2 * time.Microsecond

	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
	// dueDays is how many days have counts of their own.
	dueDays = 60
	// endOfTime is the last instant, as Unix ms. A span that ends there has what is due then, too.
	endOfTime = int64(math.MaxInt64)
)

// horizons are how far ahead the metrics look.
var horizons = []struct {
	name string
	ms   int64
}{{"minute", minute}, {"hour", hour}, {"day", day}}

// forecast is how much is due in spans of time: from now on, or those that a page asks for. All instants are Unix ms.
type forecast struct {
	From  int64   `json:"from"`
	Until []int64 `json:"until"` // the ends of the spans
	// DBs has, by database, the number of a span and its counts, without spans of 0. Counts are of keys by their own deadline
	// and by that of an element; or, with patterns, of keys at the first pattern that a name matches, and behind them
	// of the other names that the user may see.
	DBs   map[int][][]int64 `json:"dbs"`
	At    int64             `json:"at"`    // when it was ready
	Every int64             `json:"every"` // one in so many names was looked at, and counts as so many
	Long  int64             `json:"long"`  // names that take too long to match, which count nowhere
}

// countDue counts what is due from an instant on, and before each of some others. false: it was stopped, or could not be read.
func (p *pulse) countDue(env *commands.Env, from int64, until []int64, stop func() bool) (f *forecast, whole bool) {
	counts, whole := env.Store.CountDue(max(from, env.Store.Now()), until, stop)
	f = &forecast{From: from, Until: until, DBs: map[int][][]int64{}, At: env.Store.Now(), Every: 1}
	for db, d := range counts {
		f.put(db, d.Keys, d.Elements)
	}
	return f, whole
}

// put has the series of a database in the forecast.
func (f *forecast) put(db int, series ...[]int64) {
	for i := range series[0] {
		span, all := []int64{int64(i)}, int64(0)
		for _, s := range series {
			span, all = append(span, s[i]), all+s[i]
		}
		if all > 0 {
			f.DBs[db] = append(f.DBs[db], span)
		}
	}
}

// shown is what pages get of a forecast, which is nil before there is one: without databases beyond the first ones.
func (f *forecast) shown() forecast {
	if f == nil {
		return forecast{Until: []int64{}, DBs: map[int][][]int64{}}
	}
	part := *f
	part.DBs = maps.Clone(f.DBs)
	maps.DeleteFunc(part.DBs, func(db int, _ [][]int64) bool { return db >= maxDatabases })
	return part
}

// nearSpans are the ends of spans from now on: the seconds of at least a minute, then the minutes of at least an
// hour. They are those of the calendar (UTC), so that a later count has the same, and in addition the
// horizons.
func nearSpans(now int64) []int64 {
	list := calendar(now, now+minute, second, minute)
	list = append(list, calendar(list[len(list)-1], now+hour, minute, hour)...)
	return withHorizons(list, now)
}

// farSpans are the ends of spans from now on: the hours of at least a day and, with all, the days that follow and
// the end of time.
func farSpans(now int64, all bool) []int64 {
	list := calendar(now, now+day, hour, day)
	if all {
		end := list[len(list)-1]
		list = append(append(list, calendar(end, end+dueDays*day-1, day, day)...), endOfTime)
	}
	return withHorizons(list, now)
}

// calendar are the multiples of a step behind from, up to the first multiple of whole that is not before until.
func calendar(from, until, step, whole int64) (list []int64) {
	for at := from - from%step + step; ; at += step {
		list = append(list, at)
		if at >= until && at%whole == 0 {
			return list
		}
	}
}

func withHorizons(list []int64, now int64) []int64 {
	last := list[len(list)-1]
	for _, h := range horizons {
		if now+h.ms <= last {
			list = append(list, now+h.ms)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// within is how many keys of all databases are due in so many ms.
func (f *forecast) within(ms int64) (n int64) {
	for _, spans := range f.DBs {
		for _, span := range spans {
			if ms == endOfTime || f.Until[span[0]] <= f.From+ms {
				n += span[1] + span[2]
			}
		}
	}
	return n
}

// dueWithin are the counts of horizons; nil: they are not known yet.
func (p *pulse) dueWithin() []int64 {
	near, far := p.near.Load(), p.far.Load()
	if near == nil || far == nil {
		return nil
	}
	counts := make([]int64, len(horizons))
	for i, h := range horizons {
		if h.ms <= hour {
			counts[i] = near.within(h.ms)
		} else {
			counts[i] = far.within(h.ms)
		}
	}
	return counts
}

// counts counts what is due, again and again, with a hundredth of the time at most.
func (p *pulse) counts(env *commands.Env) {
	var nearAt, farAt time.Duration // when the next counts are due
	for {
		env.Store.Populations() // so that there is a recent reading beside a global transaction
		now := env.Store.Now()
		if mono := p.s.o.Clock.Mono(); mono >= nearAt {
			nearAt = p.count(env, &p.near, now, nearSpans(now))
		}
		far := p.far.Load()
		opened := p.pageOpen.Load() && far != nil && far.Until[len(far.Until)-1] != endOfTime
		if mono := p.s.o.Clock.Mono(); mono >= farAt || opened {
			farAt = p.count(env, &p.far, now, farSpans(now, p.pageOpen.Load()))
		}
		select {
		case <-time.After(dueEvery):
		case <-p.quit:
			return
		}
	}
}

// count makes a forecast, and returns when the next one may begin. What could not be counted leaves the last one.
func (p *pulse) count(env *commands.Env, to *atomic.Pointer[forecast], from int64, until []int64) time.Duration {
	stopped := func() bool {
		select {
		case <-p.quit:
			return true
		default:
			return false
		}
	}
	began := p.s.o.Clock.Mono()
	if f, whole := p.countDue(env, from, until, stopped); whole {
		to.Store(f)
	}
	// It may have waited for a processor or a lock, which is no cost: it counts as what such a count takes at most.
	n := int64(0)
	if last := to.Load(); last != nil {
		n = last.within(endOfTime)
	}
	ended := p.s.o.Clock.Mono()
	return ended + dueShare*min(ended-began, time.Millisecond+time.Duration(n)*dueCost)
}
