package web

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"keyp/commands"
)

// This file checks twice a second whether the server works. The result is the reply to /readyz and
// /healthz.

const (
	// beat is the time between two checks.
	beat = 500 * time.Millisecond
	// readyBeats is the number of consecutive failed checks after which the server is not ready. A
	// check fails if the loop is silent, the log is not committed, or the disk does not answer.
	readyBeats = 10
	// aliveBeats is the number of consecutive checks with a silent loop after which the loop counts
	// as stuck for good.
	aliveBeats = 120
)

// pulse checks every half second whether the server makes progress, so that a request for its
// health has the answer at once. It counts checks, not time: neither a process that was stopped for
// a while nor a step of the clock looks like a standstill.
type pulse struct {
	s    *Server
	quit chan struct{}

	message  atomic.Pointer[string] // why nothing can be read; nil: it can
	loop     atomic.Pointer[commands.LoopReport]
	answered atomic.Bool // the loop has answered since the last check
	writable atomic.Bool // the disk has answered since the last check
	problem  atomic.Pointer[string]
	due      atomic.Pointer[forecast]
	byType   byType

	// Consecutive failed checks.
	silent, uncommitted, mute atomic.Int64
	// Only the pulse's goroutine uses these.
	end uint64 // of the log, when uncommitted was 0
}

func (p *pulse) init(s *Server) {
	p.s, p.quit = s, make(chan struct{})
	p.say("loading the data")
}

func (p *pulse) say(text string) { p.message.Store(&text) }

// says returns the reason why no data can be read; empty if data can be read.
func (p *pulse) says() string {
	if text := p.message.Load(); text != nil {
		return *text
	}
	return ""
}

// start makes the first requests and starts the goroutines. Each goroutine counts as a user of the
// store before it runs, so Withdraw waits for it.
func (p *pulse) start() {
	p.message.Store(nil)
	p.s.use(func(env *commands.Env) {
		p.ask(env)
		p.probe(env)
	})
	for _, work := range []func(*commands.Env){p.looks, p.minutes, p.counts, p.spans, p.types} {
		env := p.s.borrow()
		if env == nil {
			return
		}
		go func() {
			defer p.s.giveBack()
			work(env)
		}()
	}
}

// stop ends the goroutines of start. It may be called again, and without a start.
func (p *pulse) stop() {
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
}

func (p *pulse) looks(env *commands.Env) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.look(env)
		case <-p.quit:
			return
		}
	}
}

// minutes stores the expiries of each minute. It may wait for a shard or a disk, so looks must not
// do it.
func (p *pulse) minutes(env *commands.Env) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.s.live.note(env.Store, p.s.o.Clock.Now())
		case <-p.quit:
			return
		}
	}
}

// look makes the checks, and counts the failed ones.
func (p *pulse) look(env *commands.Env) {
	if p.answered.Swap(false) {
		p.silent.Store(0)
		p.ask(env)
	} else {
		p.silent.Add(1)
	}
	if p.writable.Swap(false) {
		p.mute.Store(0)
		p.probe(env)
	} else {
		p.mute.Add(1)
	}
	if durable := env.Store.Log().Durable(); durable >= p.end || !commits(env) {
		p.end = env.Store.Log().End()
		p.uncommitted.Store(0)
	} else {
		p.uncommitted.Add(1)
	}
}

// commits reports whether a log that is not committed is a defect of the server itself. A member of
// a group cannot commit anything unless it leads and has a majority.
func commits(env *commands.Env) bool {
	g := env.GroupReport()
	return g == nil || g.Leased
}

// ask posts a request to the loop, which sets answered when it runs the request.
func (p *pulse) ask(env *commands.Env) {
	env.Host.Post(func() {
		r := env.LoopReport()
		p.loop.Store(&r)
		p.answered.Store(true)
	})
}

// probe checks on its own goroutine whether the data directory can be written: a disk that is gone
// may never answer.
func (p *pulse) probe(env *commands.Env) {
	go func() {
		problem := ""
		if err := env.Store.Reachable(); err != nil {
			// Everybody may read this text, so it must not name a path.
			problem = fmt.Sprintf("the data directory cannot be written: %v", err)
		}
		p.problem.Store(&problem)
		p.writable.Store(true)
	}()
}

// standstill returns the text for consecutive failed checks.
func standstill(what string, looks int64) string {
	return fmt.Sprintf("%s for %v", what, time.Duration(looks)*beat)
}

// problems returns the reasons why the server is not ready.
func (p *pulse) problems() (list []string) {
	if text := p.says(); text != "" {
		return []string{text}
	}
	p.s.use(func(env *commands.Env) {
		if env.Store.Err() != nil { // which names files
			list = append(list, "the store has failed, its log says why")
		}
		if env.Store.Full() {
			list = append(list, "the disk is full")
		}
		limit := time.Duration(env.Config.Int("ready-archive-age")) * time.Second
		if age := env.Store.ArchiveAge(); limit != 0 && age > limit {
			list = append(list, fmt.Sprintf("the archive has lacked something for %v",
				age.Truncate(time.Second)))
		}
	})
	if text := p.problem.Load(); text != nil && *text != "" {
		list = append(list, *text)
	}
	for _, still := range []struct {
		looks int64
		what  string
	}{
		{p.mute.Load(), "the disk has not answered"},
		{p.uncommitted.Load(), "the log has not been committed"},
		{p.silent.Load(), "the event loop has not answered"},
	} {
		if still.looks >= readyBeats {
			list = append(list, standstill(still.what, still.looks))
		}
	}
	return list
}

func (s *Server) showReady(w http.ResponseWriter, _ *http.Request) {
	if list := s.pulse.problems(); len(list) > 0 {
		reply(w, http.StatusServiceUnavailable, "not ready: "+strings.Join(list, "; "))
		return
	}
	text, waits := "ready", ""
	s.use(func(env *commands.Env) {
		if g := env.GroupReport(); g != nil {
			text = "ready: " + g.Role.String()
			waits = g.Waiting()
		}
		if clock := env.Store.ClockGuard(); clock.Since != 0 {
			where, by := "stepped forward and is %v ahead",
				time.Duration(clock.Ahead)*time.Millisecond
			if by < 0 {
				where, by = "of this member is %v behind the group's time", -by
			}
			text += fmt.Sprintf(", but time is guarded: the wall clock "+where+" (KEYP.CLOCK INFO)",
				by)
		}
	})
	if waits != "" {
		reply(w, http.StatusServiceUnavailable, "waiting: this member "+waits)
		return
	}
	reply(w, http.StatusOK, text)
}

func (s *Server) showHealth(w http.ResponseWriter, _ *http.Request) {
	if looks := s.pulse.silent.Load(); looks >= aliveBeats {
		reply(w, http.StatusServiceUnavailable,
			standstill("the event loop has not answered", looks))
		return
	}
	reply(w, http.StatusOK, "alive")
}
