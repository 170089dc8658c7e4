package web

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"keyp/commands"
	"keyp/storage"
)

// A page can draw how many keys are due in each part of a span of time. It asks for a number for
// each bar of its chart; the keys may be limited to names that match patterns. Spans are counted in
// the background, one at a time, again and again while a page asks for them. Each request gets the
// last count there is.

const (
	// maxBars and maxPatterns bound a span.
	maxBars     = 120
	maxPatterns = 4
	// userSpans is how many spans of a user are counted: one for each page that a user may have
	// open.
	userSpans = userStreams
	// The counts take one part in spanShare of the time.
	spanShare = 250
	// spanEvery is the least time between two counts of a span. spanIdle is how long a span is
	// counted after the last request for it. A span requested within spanShown counts as shown on a
	// screen, because pages request theirs more often.
	spanEvery = 2 * time.Second
	spanIdle  = 15 * time.Second
	spanShown = 2 * time.Second
	// stepTime is the maximum time of a step of a count, if nothing delays it.
	stepTime = 2 * time.Millisecond
	// stepMatch is how much matching a step does: bytes of names by bytes of patterns. matchTime is
	// the maximum time for one byte of a name and one byte of a pattern. A name for which that
	// product is over nameMatch is not matched: after it the count would have to pause for over
	// five seconds.
	stepMatch = 100_000
	nameMatch = 5_000_000
	matchTime = 10 * time.Nanosecond
	// rightsBytes is the assumed length of the key patterns of a user's rights, which each name is
	// also matched with.
	rightsBytes = 1 << 10
)

// question is a count that pages request, for a user.
type question struct {
	user     string
	from     int64 // Unix ms; 0: from now on
	unit     int64 // of a bar, in ms
	bars     int64
	patterns string // as a query; empty: all names
}

// span is a question that pages ask, with the last answer.
type span struct {
	question
	visitor *commands.Visitor
	asked   time.Duration // reading of Mono
	next    time.Duration // when it is to be counted again
	answer  *dueBars      // nil: not counted yet
	rights  any           // the visitor's, when it was counted
}

// spans is the list of spans to count.
type spans struct {
	mu struct {
		sync.Mutex
		list []*span
	}
	came  chan struct{} // signals a new span
	names int64         // the most names that a count matches; of more it matches a sample
}

func (a *spans) init() { a.came, a.names = make(chan struct{}, 1), 200_000 }

// ask returns the last count of a question; nil if there is none under the visitor's present
// rights. It adds the question to the list or keeps it there. If the user has too many questions, a
// new one replaces the one that was not asked for the longest time. ok is false if all of them are
// on screens.
func (a *spans) ask(q question, v *commands.Visitor, now time.Duration) (answer *dueBars, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var mine []*span
	for _, s := range a.mu.list {
		if s.question == q {
			s.asked, s.visitor = now, v
			if s.answer != nil && s.rights != v.Rights() {
				s.answer, s.next = nil, now
			}
			return s.answer, true
		}
		if s.user == q.user {
			mine = append(mine, s)
		}
	}
	if len(mine) >= userSpans {
		oldest := slices.MinFunc(mine, func(a, b *span) int {
			return cmp.Compare(a.asked, b.asked)
		})
		if oldest.shown(now) {
			return nil, false
		}
		a.mu.list = slices.DeleteFunc(a.mu.list, func(s *span) bool { return s == oldest })
	}
	a.mu.list = append(a.mu.list, &span{question: q, visitor: v, asked: now, next: now})
	select {
	case a.came <- struct{}{}:
	default:
	}
	return nil, true
}

func (s *span) shown(now time.Duration) bool { return now-s.asked <= spanShown }

// due returns the span to count next, nil if there is none yet. It removes spans that are no longer
// requested. Spans on screens come before the others, and the one that has waited longest comes
// first.
func (a *spans) due(now time.Duration) (*span, *commands.Visitor) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.list = slices.DeleteFunc(a.mu.list, func(s *span) bool { return now-s.asked > spanIdle })
	var first *span
	for _, s := range a.mu.list {
		if s.next > now {
			continue
		}
		if first == nil || s.shown(now) && !first.shown(now) ||
			s.shown(now) == first.shown(now) && s.next < first.next {
			first = s
		}
	}
	if first == nil {
		return nil, nil
	}
	return first, first.visitor
}

// wanted reports whether a page still asks for a span, under the same rights.
func (a *spans) wanted(s *span, rights any, now time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now-s.asked <= spanIdle && slices.Contains(a.mu.list, s) && s.visitor.Rights() == rights
}

// counted stores the count of a span under some rights, nil if it was incomplete, and when the next
// one may begin.
func (a *spans) counted(s *span, rights any, answer *dueBars, next time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.next = next
	if answer != nil {
		s.answer, s.rights = answer, rights
	}
}

// spans counts the spans that pages request.
func (p *pulse) spans(env *commands.Env) {
	a := &p.s.spans
	for {
		began := p.s.o.Clock.Mono()
		if s, v := a.due(began); s != nil {
			rights := v.Rights()
			answer := p.countSpan(env, s, v, rights)
			ended := p.s.o.Clock.Mono()
			a.counted(s, rights, answer, ended+max(spanEvery, ended-began))
			continue
		}
		select {
		case <-a.came:
		case <-time.After(dueEvery):
		case <-p.quit:
			return
		}
	}
}

// countSpan makes the count of a span. It returns nil if that is not possible now, or no longer
// wanted.
func (p *pulse) countSpan(env *commands.Env, s *span, v *commands.Visitor, rights any) *dueBars {
	now, q, pace := env.Store.Now(), s.question, p.paced(spanShare)
	step := func(most time.Duration) bool {
		return pace(most) && p.s.spans.wanted(s, rights, p.s.o.Clock.Mono())
	}
	first := q.from
	if first == 0 {
		first = now - now%q.unit
	}
	c := countBars(env, first, q.unit, int(q.bars), step)
	if c == nil || q.patterns == "" {
		return c
	}
	if !p.countNames(env, q, v, c, step) {
		return nil
	}
	c.At = env.Store.Now()
	return c
}

// countNames replaces a count by one that is split by patterns. It matches all names, or a sample
// of them. A step matches no more than stepMatch and one further name.
func (p *pulse) countNames(env *commands.Env, q question, v *commands.Visitor, c *dueBars,
	step func(most time.Duration) bool) (whole bool) {
	all := int64(0)
	for _, bars := range c.DBs {
		for _, bar := range bars {
			all += bar[1]
		}
	}
	c.Every, c.DBs = 1+all/p.s.spans.names, map[int][][]int64{}
	query, _ := url.ParseQuery(q.patterns) // which Encode made
	patterns, bytes := query["match"], rightsBytes
	for _, pattern := range patterns {
		bytes += len(pattern)
	}
	by := map[int][][]int64{}
	last := c.From + q.bars*q.unit
	whole = env.Store.WalkDue(max(c.From, env.Store.Now()), last, uint64(c.Every),
		func(list []storage.DueKey) bool {
			matched := 0 // since the last step
			for _, k := range list {
				if len(k.Name)*bytes > nameMatch {
					c.Long += c.Every
					continue
				}
				if i, ok := v.Sort(k.DB, k.Name, patterns); ok && k.DB < maxDatabases {
					if by[k.DB] == nil {
						by[k.DB] = make([][]int64, len(patterns)+1)
						for j := range by[k.DB] {
							by[k.DB][j] = make([]int64, q.bars)
						}
					}
					by[k.DB][i][(k.At-c.From)/q.unit] += c.Every
				}
				if matched += len(k.Name) * bytes; matched > stepMatch {
					if !step(stepTime + time.Duration(matched)*matchTime) {
						return false
					}
					matched = 0
				}
			}
			return step(stepTime)
		})
	for db, series := range by {
		for i := range q.bars {
			bar, found := []int64{i}, false
			for _, s := range series {
				bar, found = append(bar, s[i]), found || s[i] > 0
			}
			if found {
				c.DBs[db] = append(c.DBs[db], bar)
			}
		}
	}
	return whole
}

// paced returns a function that a count in the background calls after each of its steps. That
// function waits, so that the steps take one part in share of the time, and returns false when the
// server stops. most is the time of a step that nothing delays. A longer step has waited for a
// processor or a lock, so only most counts.
func (p *pulse) paced(share int) func(most time.Duration) bool {
	began, spent := p.s.o.Clock.Mono(), time.Duration(0)
	return func(most time.Duration) bool {
		spent += min(p.s.o.Clock.Mono()-began, most)
		wait := time.Duration(0)
		if spent >= time.Millisecond {
			wait, spent = spent*time.Duration(share-1), 0
		}
		defer func() { began = p.s.o.Clock.Mono() }()
		if wait == 0 {
			select {
			case <-p.quit:
				return false
			default:
				return true
			}
		}
		select {
		case <-p.quit:
			return false
		case <-time.After(wait):
			return true
		}
	}
}

// showSpan replies with the last count of a span.
func (s *Server) showSpan(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	q := question{from: max(0, number(query.Get("from"))), unit: number(query.Get("unit")),
		bars: number(query.Get("bars"))}
	patterns := query["match"]
	tooLong := slices.ContainsFunc(patterns, func(p string) bool { return len(p) > maxPattern })
	if q.unit < 1 || q.unit > day || q.bars < 1 || q.bars > maxBars || q.from > math.MaxInt64/2 ||
		len(patterns) > maxPatterns || tooLong {
		reply(w, http.StatusBadRequest,
			"wanted: unit (in ms, a day at most), bars and, if wished, from (Unix time in ms) and up to 4 times match")
		return
	}
	s.useAs(w, r, func(_ *commands.Env, v *commands.Visitor) {
		if len(patterns) > 0 {
			if err := mayList(v); err != nil {
				reply(w, http.StatusForbidden, err.Error())
				return
			}
			q.patterns = url.Values{"match": patterns}.Encode()
		}
		q.user = v.Name()
		answer, ok := s.spans.ask(q, v, s.o.Clock.Mono())
		if !ok {
			w.Header().Set("Retry-After", "1")
			reply(w, http.StatusServiceUnavailable,
				fmt.Sprintf("%d other spans are counted for your pages; this one is counted when you leave one of them",
					userSpans))
			return
		}
		s.replyJSON(w, struct {
			Count *dueBars `json:"count"`
		}{answer})
	})
}
