package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/config"
)

// Options configure a server. Config, Env and Clock are required.
type Options struct {
	Config *config.Config
	Env    *commands.Env // its Host is set by New
	Log    *slog.Logger  // slog.Default() if nil
	Clock  clock.Clock
	// Bell is the Bell whose methods are the store's OnDurable and OnFail.
	Bell *Bell
	// Listen and ListenTLS are addresses (127.0.0.1:0) to listen on instead of bind with
	// port and tls-port.
	Listen, ListenTLS []string
	// Inside restricts clients to those of this process (Connect): there are no listeners.
	Inside bool
	// BeforeStop is called once, before a clean stop begins and while the server still serves; nil:
	// nothing is called.
	BeforeStop func()
}

// Bell lets the store notify the server, which is made after the store. Its methods serve as
// storage.Options.OnDurable and OnFail. The zero value is ready; its methods do nothing before New
// and after Run.
type Bell struct{ box atomic.Pointer[mailbox] }

// Durable notifies the server that more of the log is durable.
func (b *Bell) Durable(uint64) {
	if m := b.box.Load(); m != nil {
		m.wake()
	}
}

// Fail notifies the server that nothing becomes durable any more: the server asks the store why,
// and stops.
func (b *Bell) Fail(error) { b.Durable(0) }

// Server is a bound server. It implements commands.Host.
type Server struct {
	o    Options
	loop *loop
	save atomic.Bool
	// ready calls BeforeStop once; other callers wait meanwhile.
	ready sync.Once
}

// New binds the addresses, so it fails if one is in use, and prepares the loop. Connections wait
// until Run.
func New(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &Server{o: o}
	s.save.Store(true)
	listeners, err := listen(&s.o)
	if err != nil {
		return nil, err
	}
	s.loop, err = newLoop(&s.o, listeners)
	if err != nil {
		for _, l := range listeners {
			err = errors.Join(err, l.close())
		}
		return nil, err
	}
	if o.Bell != nil {
		o.Bell.box.Store(&s.loop.box)
	}
	o.Env.Host = s
	return s, nil
}

// Run serves until ctx ends or SHUTDOWN. Then no new commands are accepted, running commands are
// answered, and replies leave (for 5 seconds at most); last, the log is committed. The caller
// closes the store. An error says that the server could not go on, because the log or the poller
// failed. Nothing was sent that is not durable.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.stop)
	defer stop()
	return s.loop.run()
}

// stop begins a clean stop, after BeforeStop.
func (s *Server) stop() {
	if s.o.BeforeStop != nil {
		s.ready.Do(s.o.BeforeStop)
	}
	s.loop.box.post(s.loop.stop)
}

// SaveAtExit reports whether the store is to be closed with a last checkpoint: yes, except after
// SHUTDOWN NOSAVE.
func (s *Server) SaveAtExit() bool { return s.save.Load() }

// Addrs returns the addresses that the server listens on, TCP first: "127.0.0.1:6379",
// "[::1]:6379", "/run/keyp.sock".
func (s *Server) Addrs() []string {
	var list []string
	for _, l := range s.loop.listeners {
		list = append(list, l.addr)
	}
	return list
}

// Listeners returns the listeners, in the order of Addrs, for INFO.
func (s *Server) Listeners() []commands.Listener {
	var list []commands.Listener
	for _, l := range s.loop.listeners {
		kind := "tcp"
		switch {
		case l.unix:
			kind = "unix"
		case l.tls:
			kind = "tls"
		}
		list = append(list, commands.Listener{Kind: kind, Addr: l.addr})
	}
	return list
}

// Port returns the first TCP port, with TLS if there is none without; 0 if there is none.
func (s *Server) Port() int {
	for _, l := range s.loop.listeners {
		if !l.unix {
			return l.port
		}
	}
	return 0
}

// Shutdown begins a clean stop, from any goroutine.
func (s *Server) Shutdown(save bool) {
	s.save.Store(save)
	if s.o.BeforeStop != nil {
		go s.stop() // the loop may be needed for it
		return
	}
	s.stop()
}

// Post schedules fn to run on the loop, from any goroutine. After Run has returned, fn is dropped.
func (s *Server) Post(fn func()) { s.loop.box.post(fn) }

// restAgain is the pause before the loop looks again whether tasks have ended.
const restAgain = time.Millisecond

// AtRest is Post for a function that locks the whole keyspace. fn runs while no global task does,
// since such a task may need the loop to end.
func (s *Server) AtRest(fn func()) {
	s.Post(func() {
		if s.loop.tasks.global != nil {
			time.AfterFunc(restAgain, func() { s.AtRest(fn) })
			return
		}
		s.loop.busy = true
		fn()
	})
}

// SetFollower changes the store's role as soon as no running task forbids it, and calls done on the
// loop, unless ctx ends before. A caller that makes a server a follower has already ensured that no
// writing command begins.
func (s *Server) SetFollower(ctx context.Context, on bool, done func()) {
	s.AtRest(func() {
		switch {
		case ctx.Err() != nil:
			return
		case on && s.loop.tasks.count > 0:
			time.AfterFunc(restAgain, func() { s.SetFollower(ctx, on, done) })
			return
		case s.o.Env.Store.Follower() != on:
			s.o.Env.Store.SetFollower(on)
		}
		done()
	})
}

// Wake makes the loop do a pass, from any goroutine.
func (s *Server) Wake() { s.loop.box.wake() }

// ClientMemory returns the memory of all connections, in bytes, as of their last turns. Only the
// loop calls it.
func (s *Server) ClientMemory() int64 { return int64(s.loop.memory.total) }

// Pause begins or extends CLIENT PAUSE: the later end and the wider kind apply. Only the loop calls
// it.
func (s *Server) Pause(d time.Duration, all bool) {
	kind := commands.PauseWrite
	if all {
		kind = commands.PauseAll
	}
	s.loop.pauseFor(kind, d)
}

// Unpause ends CLIENT PAUSE. Only the loop calls it.
func (s *Server) Unpause() { s.loop.endPause() }
