package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"keyp/cmd/keyp-bench/internal/hist"
	"keyp/cmd/keyp-bench/internal/wire"
	"keyp/internal/clock"
)

// pollWait is how soon a thread notices that it shall stop.
const pollWait = 50 * time.Millisecond

// worker is one thread with its connections. Its counters are read after run.
type worker struct {
	*shared
	source Source
	conns  []conn
	fds    []unix.PollFd // of conns, by index; Fd is -1 once nothing is under way
	active int           // connections with a batch under way

	requests, errors int64
	first            error
	latency          hist.Histogram
	lastReply        time.Duration
	err              error
}

// conn is one connection and its batch.
type conn struct {
	fd     int
	out    []byte // what of the batch is not yet written
	buf    []byte // memory of out
	in     []byte // read and not yet scanned
	tokens []uint64
	next   int // index in tokens of the next reply
	sentAt time.Duration
	due    time.Duration // with a rate: when the next batch is to be sent
}

// idle says that nothing is under way.
func (c *conn) idle() bool { return c.next == len(c.tokens) }

// connect adds a connection. The descriptor is taken from the net package, so
// that name resolution and timeouts are its own, and then out of the runtime's
// poller, which would be woken by every reply beside ours.
func (w *worker) connect(ctx context.Context) error {
	dialer := net.Dialer{Timeout: w.Timeout}
	nc, err := dialer.DialContext(ctx, "tcp", w.Addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	fd := -1
	var dupErr error
	if err := raw.Control(func(original uintptr) {
		fd, dupErr = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return err
	}
	if dupErr != nil {
		return dupErr
	}
	w.conns = append(w.conns, conn{fd: fd, in: make([]byte, 0, 16<<10)})
	w.fds = append(w.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	return unix.SetNonblock(fd, true)
}

// close closes all connections. Their state no longer matters.
func (w *worker) close() {
	for i := range w.conns {
		_ = unix.Close(w.conns[i].fd)
	}
	w.conns = nil
}

// run is the thread's loop. A failure stops the other threads too.
func (w *worker) run() {
	if err := w.loop(); err != nil {
		w.err = err
		w.stop.Store(true)
	}
}

func (w *worker) loop() error {
	now := clock.System.Mono()
	w.active = len(w.conns)
	for i := range w.conns {
		// Spread over the interval, so that the rate is even.
		w.conns[i].due = now + w.interval*time.Duration(i)/time.Duration(len(w.conns))
	}
	if err := w.sendDue(now); err != nil {
		return err
	}
	heard := now
	for w.active > 0 && !w.stop.Load() {
		ready, err := unix.Poll(w.fds, int(w.wait(now)/time.Millisecond))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("poll: %w", err)
		}
		now = clock.System.Mono()
		if w.interval > 0 {
			if err := w.sendDue(now); err != nil {
				return err
			}
		}
		if ready <= 0 {
			if now-heard > w.Timeout {
				return fmt.Errorf("%w for %v", ErrSilent, w.Timeout)
			}
			continue
		}
		heard = now
		for i := range w.fds {
			events := w.fds[i].Revents
			if events == 0 || w.fds[i].Fd < 0 {
				continue
			}
			if err := w.handle(i, events); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendDue starts the next batch of every idle connection whose time has come.
func (w *worker) sendDue(now time.Duration) error {
	for i := range w.conns {
		c := &w.conns[i]
		if w.fds[i].Fd < 0 || !c.idle() || c.due > now {
			continue
		}
		if err := w.send(i, now, now); err != nil {
			return err
		}
	}
	return nil
}

// wait is how long to wait for replies: until the next batch is due, in whole
// milliseconds since poll knows no less.
func (w *worker) wait(now time.Duration) time.Duration {
	wait := pollWait
	if w.interval > 0 {
		for i := range w.conns {
			if w.conns[i].idle() && w.fds[i].Fd >= 0 {
				wait = min(wait, w.conns[i].due-now)
			}
		}
	}
	return max(wait, time.Millisecond)
}

// handle serves one connection that poll named.
func (w *worker) handle(i int, events int16) error {
	c := &w.conns[i]
	if events&unix.POLLOUT != 0 {
		if err := w.flush(i); err != nil {
			return err
		}
	}
	if events&^unix.POLLOUT == 0 {
		return nil
	}
	now, err := w.receive(c)
	if err != nil {
		return err
	}
	switch {
	case !c.idle():
		return nil
	case w.interval == 0:
		return w.send(i, now, now)
	case c.due <= now: // while the connection waited, and its user with it
		return w.send(i, now, c.due)
	}
	return nil
}

// send starts the next batch, whose latency counts from since, or retires the
// connection when the run is over.
func (w *worker) send(i int, now, since time.Duration) error {
	c := &w.conns[i]
	n := 0
	if now < w.deadline {
		n = w.take(w.Pipeline)
	}
	c.tokens, c.next = c.tokens[:0], 0
	if n == 0 {
		w.fds[i].Fd = -1
		w.active--
		return nil
	}
	c.buf = c.buf[:0]
	for range n {
		var token uint64
		c.buf, token = w.source.Next(c.buf)
		c.tokens = append(c.tokens, token)
	}
	c.out, c.sentAt = c.buf, since
	c.due += w.interval
	return w.flush(i)
}

// flush writes what the socket takes and asks poll for the rest.
func (w *worker) flush(i int) error {
	c := &w.conns[i]
	w.fds[i].Events = unix.POLLIN
	for len(c.out) > 0 {
		n, err := unix.Write(c.fd, c.out)
		switch {
		case err == nil:
			c.out = c.out[n:]
		case errors.Is(err, unix.EAGAIN):
			w.fds[i].Events |= unix.POLLOUT
			return nil
		case errors.Is(err, unix.EINTR):
		default:
			return lost("write", err)
		}
	}
	return nil
}

// receive reads once, takes the whole replies off, and returns the time of the
// read, which is that of every reply it brought.
func (w *worker) receive(c *conn) (time.Duration, error) {
	if len(c.in) == cap(c.in) { // one reply larger than the buffer
		c.in = append(c.in, make([]byte, cap(c.in))...)[:len(c.in)]
	}
	n, err := unix.Read(c.fd, c.in[len(c.in):cap(c.in)])
	now := clock.System.Mono()
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return now, nil
	case err != nil:
		return now, lost("read", err)
	case n == 0:
		return now, ErrClosed
	}
	c.in = c.in[:len(c.in)+n]

	replies, used := 0, 0
	for used < len(c.in) {
		reply, size, err := wire.Scan(c.in[used:])
		if err != nil {
			return now, err
		}
		if size == 0 {
			break
		}
		if c.next == len(c.tokens) {
			return now, fmt.Errorf("a reply without a request: %v", reply)
		}
		if err := w.source.Check(reply, c.tokens[c.next]); err != nil {
			w.errors++
			if w.first == nil {
				w.first = err
			}
		}
		c.next++
		used += size
		replies++
	}
	c.in = c.in[:copy(c.in, c.in[used:])]
	if replies > 0 && now >= w.RecordFrom {
		w.requests += int64(replies)
		w.latency.Record(now-c.sentAt, replies)
		w.lastReply = now
	}
	if w.Done != nil {
		w.Done.Add(int64(replies))
	}
	return now, nil
}

// lost names the ways in which a socket says that the server is gone.
func lost(doing string, err error) error {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return ErrClosed
	}
	return fmt.Errorf("%s: %w", doing, err)
}
