package commands

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"keyp/features/leases"
	"keyp/features/outbox"
	"keyp/features/policies"
	"keyp/internal/clock"
	"keyp/internal/config"
	"keyp/internal/histogram"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/storage/wal"
)

// RedisVersion is the version of Redis in the replies of HELLO and INFO. Clients use it to choose
// commands and options. It is the newest release of which Keyp has every command, except those for
// replication, cluster and modules. Redis 8.8 has a type that Keyp does not have: arrays.
const RedisVersion = "8.6.0"

// Env is the environment that all commands share: the store, the configuration, the clients, the
// statistics.
type Env struct {
	*OfLoop
	Store    *storage.Store
	Outboxes *outbox.Outboxes // of the store
	leases   *leases.Leases   // of the store
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
	Replies  Replies
	Scripts  Scripts
	Tracking Tracking
	lines    lines // of Waiters
	RunID    string
	Started  int64         // Unix ms
	began    time.Duration // then, by Mono

	// MaxReply is the largest length of a reply in bytes. It applies to replies to a client, and to
	// the reply of one command to a script. 0 means no limit.
	MaxReply atomic.Int64

	users   users
	backups backups
	// policies change in global tasks only.
	policies atomic.Pointer[policies.Set]
	// cluster is nil without cluster mode.
	cluster atomic.Pointer[cluster]
	// group is nil where SetMembership was not called.
	group Membership
	// refusals counts the refused calls of visitors (HTTP clients) that the loop has yet to write
	// to ACL LOG.
	refusals atomic.Int32
	saving   sync.Mutex // one ACL SAVE at a time

	rulesStale atomic.Bool // what loadRules takes over has changed, and will be read

	monitored atomic.Bool // there are monitors

	script     atomic.Pointer[running] // that runs at present, if any
	histograms atomic.Bool             // latency-tracking
	hotKeys    hotKeys
	nextHangUp atomic.Int64 // reading of Mono from which on hangUp writes to the log again

	Testing Testing
}

// OfLoop is the part of Env that belongs to the event loop, with everything reached through it.
// Handlers use it only where their Scope allows that.
type OfLoop struct {
	Clients map[uint64]*Client
	Waiters Waiters
	Pins    storage.Pins // what tasks have pinned
	// Paused says which commands CLIENT PAUSE delays at present.
	Paused Pause
	// Busy is the error of commands without AllowBusy while a script runs for too long.
	Busy Error

	tasks   tasks
	denials denialLog
	// undecided is the reading of Mono at which the group's leader became unknown. 0: it is known.
	undecided time.Duration
	leader    uint64    // the last known leader of the group; 0: none
	monitors  []*Client // see MONITOR
}

// NewEnv returns an Env without clients, for a store that was opened with the hooks of Features.
// The server sets its Host. CONFIG SET takes effect on the store, the slow log and the latency
// monitor.
func NewEnv(store *storage.Store, cfg *config.Config, log *slog.Logger, clk clock.Clock) *Env {
	e := &Env{
		Store: store, Outboxes: outbox.Of(store), leases: leases.In(store), Config: cfg,
		Table: NewTable(), Log: log, Clock: clk,
		RunID: newRunID(), Started: clk.Now(), began: clk.Mono(),
		OfLoop: &OfLoop{Clients: map[uint64]*Client{}},
	}
	if err := e.Table.Rename(cfg.Renames()); err != nil {
		// The program has checked this option before, so this should not happen.
		log.Error("a command has not got another name", "error", err)
	}
	e.Changes.store, e.Changes.waiters, e.Changes.tracking, e.Changes.wake = store, &e.Waiters,
		&e.Tracking, e.wake
	e.Tracking.init(e)
	e.Waiters.env, e.Waiters.lines = e, &e.lines
	e.Events.env, e.Events.late = e, histogram.New(histogram.Lateness)
	e.Replies = newReplies()
	e.PubSub.turned = e.Events.enable
	store.Listen(e.Events.hear)
	store.OnReap(func(took time.Duration) { e.Latency.Add("expire-cycle", took, clk.Now()) })
	e.Scripts.testing, e.Scripts.engine = &e.Testing, e.newEngine()
	e.loadRules()
	e.users.init(e.Table)
	e.users.setPassword(cfg.String("requirepass"))
	e.followConfig()
	return e
}

// wake makes the event loop run one pass.
func (e *Env) wake() {
	if e.Host != nil {
		e.Host.Wake()
	}
}

// loadRules loads functions, policies and the users of a group from the system database. It runs at
// the start, and on the loop when the leader has changed them. It locks the whole keyspace.
func (e *Env) loadRules() {
	e.loadLibraries()
	e.loadPolicies()
	e.loadUsersOfGroup()
}

// followRules makes this server load functions, policies and users again when the leader has
// changed them.
func (e *Env) followRules() {
	e.Store.OnSystem(func(names []string) {
		if slices.ContainsFunc(names, isRule) && !e.rulesStale.Swap(true) {
			e.Host.AtRest(func() {
				e.rulesStale.Store(false)
				e.loadRules()
			})
		}
	})
}

func isRule(name string) bool {
	return name == usersKey || strings.HasPrefix(name, libraryKey) ||
		strings.HasPrefix(name, policyKey)
}

// followConfig registers functions that apply options when CONFIG SET changes them. Until then the
// store keeps the options with which it was opened (appendfsync, maxmemory, the limits of small
// values).
func (e *Env) followConfig() {
	cfg, store := e.Config, e.Store
	on := func(apply func(), names ...string) {
		for _, name := range names {
			cfg.OnChange(name, func() error { apply(); return nil })
		}
	}
	monitors := func() {
		e.Slowlog.configure(cfg.Int("slowlog-log-slower-than"), cfg.Int("slowlog-max-len"))
		e.Latency.threshold.Store(cfg.Int("latency-monitor-threshold"))
		e.histograms.Store(cfg.Bool("latency-tracking"))
	}
	monitors()
	e.Events.enable()
	on(monitors, "slowlog-log-slower-than", "slowlog-max-len", "latency-monitor-threshold",
		"latency-tracking")
	tracked := func() { e.Tracking.max.Store(cfg.Int("tracking-table-max-keys")) }
	tracked()
	on(tracked, "tracking-table-max-keys")
	on(e.Events.enable, "notify-keyspace-events")
	reserve := func() { store.SetDiskReserve(uint64(cfg.Int("disk-reserve"))) }
	reserve()
	on(reserve, "disk-reserve")
	backlog := func() { e.Outboxes.SetBacklog(cfg.Int("outbox-backlog")) }
	backlog()
	on(backlog, "outbox-backlog")
	on(func() { store.SetClockGuard(ClockGuard(cfg)) }, "clock-jump-limit", "clock-jump-patience")
	on(func() { store.SetMaxMemory(cfg.Int("maxmemory")) }, "maxmemory")
	on(func() { store.SetFrequency(Frequency(cfg)) }, "maxmemory-policy", "lfu-log-factor",
		"lfu-decay-time")
	on(func() { store.SetSync(SyncPolicy(cfg)) }, "appendfsync")
	on(func() { SetThresholds(cfg) }, "hash-max-listpack-entries", "hash-max-listpack-value",
		"list-max-listpack-size",
		"set-max-intset-entries", "set-max-listpack-entries", "set-max-listpack-value",
		"zset-max-listpack-entries", "zset-max-listpack-value",
		"stream-node-max-bytes", "stream-node-max-entries")
	on(func() { e.users.setPassword(cfg.String("requirepass")) }, "requirepass")
	topics := func() { e.users.allTopics.Store(cfg.String("acl-pubsub-default") == "allchannels") }
	topics()
	on(topics, "acl-pubsub-default")
}

// Undelivered reports whether there are events or changes that the loop has not passed on yet.
func (e *Env) Undelivered() bool { return e.Events.waiting.Load() || e.Changes.waiting.Load() }

// Gone removes a connection from everything that refers to it. The connection has ended, or only
// waits for its client to notice its end. Gone may be called twice.
func (e *Env) Gone(c *Client) {
	delete(e.Clients, c.ID)
	e.PubSub.gone(c)
	e.discard(c)
	e.endMonitor(c)
	e.Tracking.end(c.ID)
	e.backups.gone(c.ID)
}

// SyncPolicy returns the log's policy for the option appendfsync.
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

// Frequency returns how accesses are counted for an LFU maxmemory-policy; nil for other policies.
func Frequency(cfg *config.Config) *storage.Frequency {
	if !strings.HasSuffix(cfg.String("maxmemory-policy"), "-lfu") {
		return nil
	}
	return &storage.Frequency{LogFactor: cfg.Int("lfu-log-factor"),
		Decay: cfg.Int("lfu-decay-time")}
}

// SetThresholds applies the options that limit the compact form of small values. They apply to the
// whole process, and only to values that change afterwards.
func SetThresholds(cfg *config.Config) {
	n := func(name string) int { return int(cfg.Int(name)) }
	object.SetThresholds(object.Thresholds{
		HashEntries: n("hash-max-listpack-entries"), HashValue: n("hash-max-listpack-value"),
		SetInts:    n("set-max-intset-entries"),
		SetEntries: n("set-max-listpack-entries"), SetValue: n("set-max-listpack-value"),
		ZSetEntries: n("zset-max-listpack-entries"), ZSetValue: n("zset-max-listpack-value"),
		ListSize:    n("list-max-listpack-size"),
		StreamBytes: n("stream-node-max-bytes"), StreamEntries: n("stream-node-max-entries"),
	})
}

// newRunID returns a new random id for this run of the server: 40 hexadecimal digits.
func newRunID() string {
	var id [20]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// Host is the part of the running server that commands use.
type Host interface {
	// Pause delays commands (all, or only those that may write) for a time. Changes of the wall
	// clock do not matter. Of two pauses the one that ends later counts. Unpause ends the pause.
	Pause(d time.Duration, all bool)
	Unpause()
	// Shutdown starts a clean stop. The server accepts no new connections, sends all replies, and
	// makes the log durable. It writes a last checkpoint unless save is false, and exits with 0.
	Shutdown(save bool)
	// Post schedules fn to run on the event loop soon. Any goroutine may call it.
	Post(fn func())
	// AtRest schedules fn as Post does, for functions that lock the whole keyspace. fn runs while
	// no global task runs, because a global task may need the loop in order to end.
	AtRest(fn func())
	// Wake makes the event loop run one pass. Any goroutine may call it.
	Wake()
	// ClientMemory returns the memory of all connections, in bytes, as of their last turns. Only
	// the loop calls it.
	ClientMemory() int64
	// Port and Listeners say where the server listens.
	Port() int
	Listeners() []Listener
}

// Listener is a place where the server takes connections.
type Listener struct {
	Kind string // tcp, tls or unix
	Addr string // "127.0.0.1:6379", "[::1]:6379", "/run/keyp.sock"
}
