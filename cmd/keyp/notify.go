package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"keyp/internal/progress"
)

// This file reports to a service manager, such as systemd, that the server loads its data, is
// ready, runs or stops.

const (
	// A start that takes long asks systemd for more time: every extendEvery, for extendBy more.
	extendEvery = 5 * time.Second
	extendBy    = time.Minute
	// notifyTime bounds how long a message waits for the service manager.
	notifyTime = time.Second
)

// notifier reports the state of the server to a service manager, such as systemd. It sends
// datagrams to NOTIFY_SOCKET, as sd_notify(3) describes. The methods of a nil notifier do nothing.
type notifier struct {
	log      *slog.Logger
	conn     *net.UnixConn
	watchdog time.Duration // how often the manager wants a sign of life; 0: it wants none
	loading  atomic.Bool
	stopped  atomic.Bool
	stop     sync.Once
	quit     chan struct{}
}

// newNotifier returns a notifier if the environment has NOTIFY_SOCKET. It returns nil if it has
// none, or if the socket cannot be reached.
func newNotifier(getenv func(string) string, log *slog.Logger) *notifier {
	socket := getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	// A name that begins with @ is abstract.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		log.Warn("the service manager cannot be notified", "error", err)
		return nil
	}
	n := &notifier{log: log, conn: conn, quit: make(chan struct{})}
	n.loading.Store(true)
	pid := getenv("WATCHDOG_PID")
	if us, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 &&
		(pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(us) * time.Microsecond
	}
	return n
}

func (n *notifier) send(message string) {
	_ = n.conn.SetWriteDeadline(time.Now().Add(notifyTime)) // if this fails, the write fails too
	if _, err := n.conn.Write([]byte(message)); err != nil {
		n.log.Debug("the service manager is not notified", "error", err)
	}
}

// loads returns a sink that reports the progress of a start to the manager, so that the manager
// waits longer.
func (n *notifier) loads() progress.Sink {
	return progress.Sink{Every: extendEvery, Show: func(r progress.Report) {
		if n == nil || !n.loading.Load() {
			return
		}
		n.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\nSTATUS=%s: %d%%", extendBy.Microseconds(),
			r.What, r.Percent))
	}}
}

// ready is called when the data is loaded and the server listens, before its loop runs. post makes
// the loop run a function. ready notifies the manager when the loop runs. If the manager wants
// signs of life, it gets them while the loop answers.
func (n *notifier) ready(post func(func())) {
	if n == nil {
		return
	}
	n.loading.Store(false)
	post(func() { n.send("READY=1\nSTATUS=serving") })
	if n.watchdog == 0 {
		return
	}
	go func() {
		tick := time.NewTicker(max(n.watchdog/10, time.Millisecond))
		defer tick.Stop()
		n.watch(tick.C, post)
	}()
}

// watch sends a sign of life at each tick if the loop has answered since the last one. When the
// server stops, the loop no longer answers. Then watch sends a sign at every tick, because the
// manager limits the time of a stop itself.
func (n *notifier) watch(tick <-chan time.Time, post func(func())) {
	answered := make(chan struct{}, 1)
	ask := func() { post(func() { answered <- struct{}{} }) }
	ask()
	for {
		select {
		case <-tick:
		case <-n.quit:
			return
		}
		select {
		case <-answered:
			n.send("WATCHDOG=1")
			ask()
		default:
			if n.stopped.Load() {
				n.send("WATCHDOG=1")
			}
		}
	}
}

// stopping notifies the manager that the server begins to stop, before it returns. Only the first
// call has an effect.
func (n *notifier) stopping() {
	if n != nil {
		n.stop.Do(func() {
			n.stopped.Store(true)
			n.send("STOPPING=1\nSTATUS=stopping")
		})
	}
}

func (n *notifier) close() {
	if n != nil {
		close(n.quit)
		_ = n.conn.Close() // it has nothing more to send
	}
}
