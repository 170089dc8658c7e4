package commands

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"keyp/internal/clock"
	"keyp/internal/config"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/storage/wal"
)

// RedisVersion is the version of Redis in the replies of HELLO and INFO: clients choose by it
// which commands and options to use.
const RedisVersion = "7.4.0"

// Server is what all commands share. Clients and everything reached through them
// belong to the event loop: handlers touch them only where their Scope says so.
type Server struct {
	Store    *storage.Store
	Config   *config.Config
	Table    *Table
	Log      *slog.Logger
	Clock    clock.Clock
	Host     Host
	Stats    Stats
	Slowlog  Slowlog
	Latency  Latency
	PubSub   Subscriptions
	Changes  Changes
	Events   Events
	Scripts  Scripts
	Waiters  Waiters
	Tracking Tracking
	Pins     storage.Pins // what jobs have pinned; belongs to the loop
	RunID    string
	Started  int64         // Unix ms
	began    time.Duration // then, by Mono

	Clients map[uint64]*Client
	// MaxReply is how long a reply may become, in bytes: a client's at most, and one of a command
	// to a script; 0: no bound.
	MaxReply atomic.Int64
	// Busy is the error of commands without AllowBusy while a script runs for too long; it
	// belongs to the loop.
	Busy Error

	jobs    jobs
	users   users
	denials denialLog  // belongs to the loop
	saving  sync.Mutex // one ACL SAVE at a time

	monitors  []*Client   // see MONITOR; belongs to the event loop
	monitored atomic.Bool // there are some

	script     atomic.Pointer[running] // that runs at present, if any
	histograms atomic.Bool             // latency-tracking
	nextHangUp atomic.Int64            // reading of Mono from which on hangUp writes to the log again

	maxEmitted int // maxEmitted, but in tests
}

// NewServer puts together what commands share; Host is set by the event loop. From
// then on CONFIG SET takes effect on the store and the monitors.
func NewServer(store *storage.Store, cfg *config.Config, log *slog.Logger, clk clock.Clock) *Server {
	s := &Server{
		Store: store, Config: cfg, Table: NewTable(), Log: log, Clock: clk,
		RunID: newRunID(), Started: clk.Now(), began: clk.Mono(), Clients: map[uint64]*Client{},
		maxEmitted: maxEmitted,
	}
	s.Changes.store, s.Changes.waiters, s.Changes.tracking, s.Changes.wake = store, &s.Waiters, &s.Tracking, s.wake
	s.Tracking.init(s)
	s.Waiters.server = s
	s.Events.server = s
	s.PubSub.turned = s.Events.enable
	store.Listen(s.Events.hear)
	store.OnReap(func(took time.Duration) { s.Latency.Add("expire-cycle", took, clk.Now()) })
	s.Scripts.engine = s.newEngine()
	s.loadLibraries()
	s.users.init(s.Table)
	s.users.setPassword(cfg.String("requirepass"))
	s.followConfig()
	return s
}

// wake makes the loop do a pass.
func (s *Server) wake() {
	if s.Host != nil {
		s.Host.Wake()
	}
}

// followConfig has options that CONFIG SET changes take effect. What the store was
// opened with (appendfsync, maxmemory, the limits of small values) is left as it is until then.
func (s *Server) followConfig() {
	cfg, store := s.Config, s.Store
	on := func(apply func(), names ...string) {
		for _, name := range names {
			cfg.OnChange(name, func() error { apply(); return nil })
		}
	}
	monitors := func() {
		s.Slowlog.configure(cfg.Int("slowlog-log-slower-than"), cfg.Int("slowlog-max-len"))
		s.Latency.threshold.Store(cfg.Int("latency-monitor-threshold"))
		s.histograms.Store(cfg.Bool("latency-tracking"))
	}
	monitors()
	s.Events.enable()
	on(monitors, "slowlog-log-slower-than", "slowlog-max-len", "latency-monitor-threshold", "latency-tracking")
	tracked := func() { s.Tracking.max.Store(cfg.Int("tracking-table-max-keys")) }
	tracked()
	on(tracked, "tracking-table-max-keys")
	on(s.Events.enable, "notify-keyspace-events")
	reserve := func() { store.SetDiskReserve(uint64(cfg.Int("disk-reserve"))) }
	reserve()
	on(reserve, "disk-reserve")
	on(func() { store.SetMaxMemory(cfg.Int("maxmemory")) }, "maxmemory")
	on(func() { store.SetFrequency(Frequency(cfg)) }, "maxmemory-policy", "lfu-log-factor", "lfu-decay-time")
	on(func() { store.SetSync(SyncPolicy(cfg)) }, "appendfsync")
	on(func() { SetValueLimits(cfg) }, "hash-max-listpack-entries", "hash-max-listpack-value", "list-max-listpack-size",
		"set-max-intset-entries", "set-max-listpack-entries", "set-max-listpack-value", "zset-max-listpack-entries", "zset-max-listpack-value")
	on(func() { s.users.setPassword(cfg.String("requirepass")) }, "requirepass")
	topics := func() { s.users.allTopics.Store(cfg.String("acl-pubsub-default") == "allchannels") }
	topics()
	on(topics, "acl-pubsub-default")
}

// Undelivered says whether there are events or changes that the loop has not passed on.
func (s *Server) Undelivered() bool { return s.Events.waiting.Load() || s.Changes.waiting.Load() }

// Gone takes a connection that ended, or only waits for its client to see that, out of
// all that names it. It may be called twice.
func (s *Server) Gone(c *Client) {
	delete(s.Clients, c.ID)
	s.PubSub.gone(c)
	s.discard(c)
	s.endMonitor(c)
	s.Tracking.end(c.ID)
}

// SyncPolicy is appendfsync as the log has it.
func SyncPolicy(cfg *config.Config) wal.Policy {
	switch cfg.String("appendfsync") {
	case "everysec":
		return wal.EverySec
	case "no":
		return wal.No
	default:
		return wal.Always
	}
}

// Frequency is how accesses are counted under an LFU maxmemory-policy; nil under any other.
func Frequency(cfg *config.Config) *storage.Frequency {
	if !strings.HasSuffix(cfg.String("maxmemory-policy"), "-lfu") {
		return nil
	}
	return &storage.Frequency{LogFactor: cfg.Int("lfu-log-factor"), Decay: cfg.Int("lfu-decay-time")}
}

// SetValueLimits has the options take effect that say how large a value may be in its
// small form. They apply to the whole process, and to values that change afterwards.
func SetValueLimits(cfg *config.Config) {
	n := func(name string) int { return int(cfg.Int(name)) }
	object.SetLimits(object.Limits{
		HashEntries: n("hash-max-listpack-entries"), HashValue: n("hash-max-listpack-value"),
		SetInts:    n("set-max-intset-entries"),
		SetEntries: n("set-max-listpack-entries"), SetValue: n("set-max-listpack-value"),
		ZSetEntries: n("zset-max-listpack-entries"), ZSetValue: n("zset-max-listpack-value"),
		ListSize: n("list-max-listpack-size"),
	})
}

// newRunID names one run of the server: 40 hexadecimal digits.
func newRunID() string {
	var id [20]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// Host is what commands may ask of the running server.
type Host interface {
	// Pause delays commands (all, or those that may write) for a time, whatever the
	// wall clock does; of two pauses the later end stands. Unpause ends it.
	Pause(d time.Duration, all bool)
	Unpause()
	// Shutdown begins a clean stop: no new connections, replies out, log durable, a
	// last checkpoint unless save is false, exit 0.
	Shutdown(save bool)
	// Post has fn run on the event loop soon. Any goroutine may call it.
	Post(fn func())
	// Wake makes the loop do a pass, from any goroutine.
	Wake()
	// Port and Listeners say where the server listens.
	Port() int
	Listeners() []Listener
}

// Listener is a place where the server takes connections.
type Listener struct {
	Kind string // tcp, tls or unix
	Addr string // "127.0.0.1:6379", "[::1]:6379", "/run/keyp.sock"
}
