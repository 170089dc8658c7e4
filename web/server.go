package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/config"
)

// Limits of a connection.
const (
	headTime  = 5 * time.Second  // for the head of a request, and a handshake
	replyTime = 10 * time.Second // for a reply to leave; profiles have their own
	idleTime  = 2 * time.Minute  // between requests
	dropTime  = 5 * time.Second  // for the rest of a body that nobody reads
	headBytes = 16 << 10
	// stopTime is how long requests under way have at the end.
	stopTime = time.Second
)

// Options configure a Server.
type Options struct {
	Config *config.Config
	Log    *slog.Logger
	Clock  clock.Clock
	// TLS returns the configuration for a new connection; nil: connections have no TLS.
	TLS func() *tls.Config
}

// Server serves HTTP at http-addr. It is nil if http-addr is empty or if the usual ports are taken.
// All its methods except Addr do nothing if it is nil.
type Server struct {
	o     Options
	addr  string
	url   string
	http  *http.Server
	pages map[string]page
	heavy chan struct{} // turns of expensive pages, see inTurn
	slow  chan struct{} // profiles
	conns *conns
	pulse pulse
	live  live
	// connect returns a new connection to the server, for the dashboard's commands. Ready sets it.
	connect func(addr string) (net.Conn, error)
	tokens  tokens
	runs    runs
	events  runs
	spans   spans
	// requests counts all requests.
	requests atomic.Int64

	mu struct {
		sync.Mutex
		env     *commands.Env // what requests read; nil before Ready and from Withdraw on
		readers int           // users of env: requests, and goroutines of pulse
	}
	unused   chan struct{} // closed when there are no readers after Withdraw
	patience time.Duration // how long Withdraw waits for them
}

// usualPorts is how many ports bind tries, from that of http-addr on, if http-addr was not given.
const usualPorts = 10

// bind listens at http-addr. If http-addr was not given, bind may choose another port. If all usual
// ports are taken, it logs that and returns nil.
func bind(o *Options, addr netip.AddrPort) (net.Listener, error) {
	if o.Config.Given("http-addr") {
		network := "tcp"
		if addr.Addr() == netip.IPv4Unspecified() { // for which Go would also listen on IPv6
			network = "tcp4"
		}
		listener, err := net.Listen(network, addr.String())
		if err != nil {
			return nil, fmt.Errorf("cannot listen on http-addr: %w", err)
		}
		return listener, nil
	}
	for i := range uint16(usualPorts) {
		if port := int64(addr.Port() + i); port == o.Config.Int("port") ||
			port == o.Config.Int("tls-port") {
			continue // the port of the Redis protocol
		}
		listener, err := net.Listen("tcp", netip.AddrPortFrom(addr.Addr(), addr.Port()+i).String())
		if err == nil {
			o.Config.Choose("http-addr", listener.Addr().String())
			return listener, nil
		}
	}
	o.Config.Choose("http-addr", "")
	o.Log.Warn("HTTP is not served, since its usual ports are taken: http-addr gives another one",
		"from", addr.String(), "ports", usualPorts)
	return nil, nil
}

// Address returns http-addr, or an invalid address if http-addr is empty. It returns the error with
// which Listen refuses http-addr.
func Address(cfg *config.Config) (addr netip.AddrPort, err error) {
	text := cfg.String("http-addr")
	if text == "" {
		return addr, nil
	}
	addr, err = netip.ParseAddrPort(text)
	switch {
	case err != nil:
		return addr, fmt.Errorf(
			"http-addr %q is not an IP address with a port, such as 127.0.0.1:8379", text)
	case !addr.Addr().IsLoopback() && cfg.Bool("http-protected"):
		return addr,
			fmt.Errorf("http-addr %q is not a loopback address: only http-protected no allows that, for servers whose users have passwords",
				text)
	}
	return addr, nil
}

// Listen binds http-addr and serves at once. Until Ready, pages with data reply that the data is
// being loaded. It returns a nil Server if http-addr is empty or all usual ports are taken.
func Listen(o Options) (*Server, error) {
	addr, err := Address(o.Config)
	switch {
	case err != nil || !addr.IsValid():
		return nil, err
	case !addr.Addr().IsLoopback() && o.TLS == nil:
		o.Log.Warn("passwords cross the network in the clear, since HTTP has no TLS: see http-tls",
			"http-addr", addr.String())
	}
	listener, err := bind(&o, addr)
	if listener == nil {
		return nil, err
	}
	s := &Server{o: o, addr: listener.Addr().String(), heavy: make(chan struct{}, 2),
		slow: make(chan struct{}, 1), conns: newConns(MaxConns), unused: make(chan struct{}),
		patience: stopTime}
	s.pages = s.allPages()
	s.pulse.init(s)
	s.live.init(s)
	s.tokens.init()
	s.runs.init(maxRuns, userRuns, true)
	s.events.init(maxEvents, userEvents, false)
	s.spans.init()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // one request at a time on a connection
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.serve), Protocols: protocols, ConnState: s.conns.note,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		ReadHeaderTimeout: headTime, ReadTimeout: replyTime, WriteTimeout: replyTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               headBytes - 4<<10, // to which as much is added
		DisableGeneralOptionsHandler: true,
		// The level is debug, because clients can cause many messages.
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	s.url = "http://" + s.addr + "/"
	if o.TLS != nil {
		s.url = "https://" + s.addr + "/"
		listener = tls.NewListener(listener,
			&tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return o.TLS(), nil
			}})
	}
	go func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("HTTP is not served any more", "error", err)
		}
	}()
	o.Log.Info("serving HTTP", "url", s.url)
	return s, nil
}

// URL returns the address of the dashboard, or "" if HTTP is not served.
func (s *Server) URL() string {
	if s == nil {
		return ""
	}
	return s.url
}

// Addr returns the host:port at which the server listens.
func (s *Server) Addr() string { return s.addr }

// Ready must be called when the data is loaded and the loop is about to run; env.Host must be set.
// connect must return a connection to the server, as for a client at addr.
func (s *Server) Ready(env *commands.Env, connect func(addr string) (net.Conn, error)) {
	if s == nil {
		return
	}
	s.connect = connect
	if user, open := env.Passwordless(); open && !s.loopback() {
		s.o.Log.Warn("HTTP is served to this machine only, although http-protected is no: a user needs no password",
			"http-addr", s.addr, "user", user)
	}
	s.mu.Lock()
	s.mu.env = env
	s.mu.Unlock()
	s.pulse.start()
}

// Stopping makes the server not ready, because the process ends soon.
func (s *Server) Stopping() {
	if s != nil {
		s.pulse.say("stopping")
	}
}

// Withdraw must be called before the store closes. It waits until no request uses the store, and no
// later request will. It waits a second at most, because after a failure a request may wait for a
// lock that is never released.
func (s *Server) Withdraw() {
	if s == nil {
		return
	}
	s.Stopping()
	s.pulse.stop()
	s.mu.Lock()
	used := s.mu.env != nil
	s.mu.env = nil
	if used && s.mu.readers == 0 {
		close(s.unused)
	}
	used = s.mu.readers > 0
	s.mu.Unlock()
	if !used {
		return
	}
	select {
	case <-s.unused:
	case <-time.After(s.patience):
		s.o.Log.Warn("a request over HTTP has not ended")
	}
}

// Close stops serving. Requests in progress get a second to end.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	s.Withdraw()
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := s.http.Shutdown(ctx); err == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return s.http.Close()
}

// loopback reports whether the server listens on a loopback address.
func (s *Server) loopback() bool {
	addr, err := netip.ParseAddrPort(s.addr)
	return err == nil && addr.Addr().IsLoopback()
}

// use calls fn with the environment. It returns false before Ready and after Withdraw.
func (s *Server) use(fn func(*commands.Env)) bool {
	env := s.borrow()
	if env == nil {
		return false
	}
	defer s.giveBack()
	fn(env)
	return true
}

// borrow returns the environment that requests read, nil if there is none. Withdraw waits until
// giveBack was called for each borrow.
func (s *Server) borrow() *commands.Env {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.env != nil {
		s.mu.readers++
	}
	return s.mu.env
}

func (s *Server) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.readers--; s.mu.readers == 0 && s.mu.env == nil {
		close(s.unused)
	}
}
