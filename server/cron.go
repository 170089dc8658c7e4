package server

import (
	"math"
	"time"

	"keyp/commands"
	"keyp/internal/config"
	"keyp/resp"
)

// tick does the housekeeping, every cronTime.
func (l *loop) tick() {
	l.timers.set(&l.cron, l.mono+cronTime)
	stats := &l.env.Stats
	ops, in, out := l.rates.sample(l.mono, stats.Commands.Load(), stats.NetIn.Load(),
		stats.NetOut.Load())
	stats.OpsPerSec.Store(ops)
	stats.InBytesPerSec.Store(in)
	stats.OutBytesPerSec.Store(out)
	if used := commands.UsedMemory(); used > stats.PeakMemory.Load() {
		stats.PeakMemory.Store(used)
	}
	if l.log.End() > l.log.Durable() {
		l.log.CommitAsync() // what no reply depends on
	}
	l.sweep()
}

// sweep looks at a part of the sessions, all of them about once a second. It frees input buffers of
// sessions that have received nothing since, and cuts the sessions that are over their soft limit
// for too long.
func (l *loop) sweep() {
	n := len(l.sessions)
	for range n/int(time.Second/cronTime) + 1 {
		if n == 0 {
			return
		}
		l.swept = (l.swept + 1) % n
		s := l.sessions[l.swept]
		if s == nil || s.state >= lingering {
			continue
		}
		if s.reader != nil && !s.waiting() && !s.queued && s.seenIn == s.client.NetIn {
			s.reader.Release()
			s.room = s.reader.Buffered()
			l.memory.count(s)
		}
		s.seenIn = s.client.NetIn
		l.checkSoftLimit(s)
	}
}

// checkSoftLimit cuts a session whose output has been over the soft limit for too
// long.
func (l *loop) checkSoftLimit(s *session) {
	limit := l.outputLimit(s)
	switch {
	case limit.soft == 0 || l.owedTo(s) <= limit.soft:
		s.softSince = 0
	case s.softSince == 0:
		s.softSince = max(l.mono, 1)
	case l.mono-s.softSince > limit.patience:
		l.cutOutput(s)
	}
}

// followSettings reads the settings now and after each change.
func (l *loop) followSettings() {
	for _, name := range []string{
		"proto-max-bulk-len", "client-query-buffer-limit", "client-output-buffer-limit", "timeout",
		"maxmemory", "maxmemory-clients",
	} {
		l.o.Config.OnChange(name, func() error {
			l.stale.Store(true)
			l.box.wake()
			return nil
		})
	}
	l.readSettings()
}

func (l *loop) readSettings() {
	cfg := l.o.Config
	st := &l.settings
	st.limits = resp.DefaultLimits
	st.limits.MaxBulk = cfg.Int("proto-max-bulk-len")
	st.guest = st.limits
	st.guest.Unauthenticated = true
	st.queryBuffer = int(min(cfg.Int("client-query-buffer-limit"), math.MaxInt))
	st.normal, st.pubsub = readOutputLimit(cfg, config.ClassNormal),
		readOutputLimit(cfg, config.ClassPubSub)
	l.limitMemory(cfg.MaxMemoryClients(), st.limits.MaxBulk)
	l.group.quorum = cfg.String("cluster-reads") == "quorum"
	idle := time.Duration(cfg.Int("timeout")) * time.Second
	if idle == st.idle {
		return
	}
	st.idle = idle
	for _, s := range l.sessions {
		if s != nil && s.state < lingering && s.state != forHandshake {
			l.armIdle(s)
		}
	}
}

func readOutputLimit(cfg *config.Config, class int) outputLimit {
	limit := cfg.OutputLimit(class)
	return outputLimit{
		hard:     int(min(limit.Hard, math.MaxInt)),
		soft:     int(min(limit.Soft, math.MaxInt)),
		patience: time.Duration(limit.Seconds) * time.Second,
	}
}

// outputLimit returns the limit for a session's output. A session that has subscriptions is of
// class pubsub.
func (l *loop) outputLimit(s *session) *outputLimit {
	if s.client.Subscribed() {
		return &l.settings.pubsub
	}
	return &l.settings.normal
}

// armIdle sets the timer that ends a session which has sent nothing for too long. It is not moved
// with every command: when it fires early, it is set again for the remaining time.
func (l *loop) armIdle(s *session) {
	if l.settings.idle == 0 {
		l.timers.stop(s.idle)
		return
	}
	if s.idle == nil {
		s.idle = &timer{run: func() { l.checkIdle(s) }}
	}
	l.timers.set(s.idle, l.mono+l.idleLeft(s))
}

// idleLeft returns how long a session may stay silent from now on; it may be below zero.
func (l *loop) idleLeft(s *session) time.Duration {
	return l.settings.idle - (l.mono - s.client.LastActive)
}

func (l *loop) checkIdle(s *session) {
	left := l.idleLeft(s)
	if left > 0 || s.waiting() || s.client.Monitor || s.client.Subscribed() {
		l.timers.set(s.idle, l.mono+max(left, cronTime))
		return
	}
	l.o.Log.Debug("closing an idle client", "client", s.client.ID, "address", s.client.Addr)
	l.close(s)
}

// rates are averages over the last samples.
type rates struct {
	ring [16]rateSample
	n    int // samples taken
}

type rateSample struct {
	at           time.Duration
	ops, in, out int64
}

// sample records the counters' present values and returns their growth per second. A counter that
// was set back counts as standing still.
func (r *rates) sample(now time.Duration, ops, in, out int64) (opsPS, inPS, outPS int64) {
	oldest := r.ring[r.n%len(r.ring)]
	if r.n < len(r.ring) {
		oldest = r.ring[0]
	}
	r.ring[r.n%len(r.ring)] = rateSample{now, ops, in, out}
	r.n++
	span := (now - oldest.at).Seconds()
	if r.n == 1 || span <= 0 {
		return 0, 0, 0
	}
	per := func(growth int64) int64 { return max(0, int64(float64(growth)/span)) }
	return per(ops - oldest.ops), per(in - oldest.in), per(out - oldest.out)
}
