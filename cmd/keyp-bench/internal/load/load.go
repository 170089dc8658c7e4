// Package load drives a RESP server with many connections and measures how long
// each request takes.
//
// A few threads (one by default) each own a share of the connections as plain
// non-blocking sockets and wait for them in one poll(2) call:
//
//	send a batch of Pipeline requests on every connection
//	loop: poll → for each readable connection: read, check the replies;
//	      when the batch is answered: record its latency, send the next
//
// A closed loop: every connection has exactly one batch under way, so offered
// load follows the server, and a stall of the server shows as latency of the
// batches that were under way, not of those it kept from being sent.
//
// With Options.Rate each connection sends at times fixed beforehand. A request whose
// time comes while its connection still waits counts from that time, so that a stall
// is in the latency of all that it kept from being sent.
//
// Goroutines per connection cost 30% more CPU per request here (11.4 us against
// 8.5), since every reply wakes the runtime's own poller and scheduler; and what
// the generator burns, the server on the same machine lacks. epoll saves nothing
// over poll at 50 connections, nor at 1000 in a closed loop, where many are ready
// at once; and poll is the same on Linux and macOS.
package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"keyp/cmd/keyp-bench/internal/hist"
	"keyp/cmd/keyp-bench/internal/wire"
	"keyp/internal/clock"
)

var (
	// ErrClosed is returned when the server closed a connection or reset it.
	ErrClosed = errors.New("the server closed the connection")
	// ErrSilent is returned when no reply at all came for Options.Timeout.
	ErrSilent = errors.New("no reply")
)

// Source makes the requests of one thread and judges their replies. It is used
// by one goroutine.
type Source interface {
	// Next appends one request to b. The token comes back to Check with the reply.
	Next(b []byte) (out []byte, token uint64)
	// Check returns what is wrong with a reply; the run goes on and counts it.
	Check(reply wire.Reply, token uint64) error
}

// Options says what to send. Run ends after Requests or Duration, whichever is
// set (both: whichever is first), or with its context.
type Options struct {
	Addr     string
	Clients  int // connections
	Pipeline int // requests under way on each connection
	Threads  int // goroutines that drive them; 0 counts as 1
	Requests int64
	Duration time.Duration
	Source   func(thread int) Source
	// Rate is how many requests a second all connections send together, 0 for as
	// many as they can; see the package comment.
	Rate float64
	// RecordFrom is the reading of clock.System.Mono before which replies are
	// checked but neither counted nor timed; 0 counts all.
	RecordFrom time.Duration
	// Timeout bounds connecting and the wait for any reply.
	Timeout time.Duration
	// Done, if not nil, follows the number of answered requests.
	Done *atomic.Int64
}

// Result is what was measured.
type Result struct {
	Requests int64         // answered, errors included
	Errors   int64         // replies that Check refused
	First    error         // the first of them
	Elapsed  time.Duration // from the first request, or RecordFrom, to the last reply
	Latency  hist.Histogram
	// Busy is the share of the threads' time that the generator spent on the CPU;
	// near 1 it measures itself rather than the server.
	Busy float64
}

// Run connects, sends, and returns when all requests under way are answered. A
// lost connection or a silent server is an error, with the Result so far; so is
// the end of ctx, with the context's own error.
func Run(ctx context.Context, o Options) (*Result, error) {
	o.Threads = min(max(o.Threads, 1), o.Clients)
	o.Pipeline = max(o.Pipeline, 1)
	result := &Result{}
	shared := &shared{Options: o}
	shared.left.Store(o.Requests)
	if o.Rate > 0 {
		shared.interval = time.Duration(float64(o.Clients*o.Pipeline) / o.Rate * float64(time.Second))
	}
	workers := make([]*worker, o.Threads)
	for i := range workers {
		workers[i] = &worker{shared: shared, source: o.Source(i)}
		defer workers[i].close()
	}
	for i := range o.Clients {
		if err := workers[i%o.Threads].connect(ctx); err != nil {
			return result, fmt.Errorf("connection %d of %d: %w", i+1, o.Clients, err)
		}
	}

	defer context.AfterFunc(ctx, func() { shared.stop.Store(true) })()
	cpu := processTime()
	began := clock.System.Mono()
	shared.deadline = math.MaxInt64
	if o.Duration > 0 {
		shared.deadline = began + o.Duration
	}
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(w.run)
	}
	wg.Wait()

	var errs []error
	ended := began
	for _, w := range workers {
		result.Requests += w.requests
		result.Errors += w.errors
		if result.First == nil {
			result.First = w.first
		}
		result.Latency.Merge(&w.latency)
		ended = max(ended, w.lastReply)
		errs = append(errs, w.err)
	}
	if whole := clock.System.Mono() - began; whole > 0 {
		result.Busy = float64(processTime()-cpu) / float64(whole) / float64(o.Threads)
	}
	result.Elapsed = max(ended-max(began, o.RecordFrom), 0)
	err := errors.Join(errs...)
	if err == nil && shared.stop.Load() {
		err = ctx.Err()
	}
	return result, err
}

// OpsPerSec is answered requests per second; 0 when nothing was answered.
func (r *Result) OpsPerSec() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Requests) / r.Elapsed.Seconds()
}

// processTime is the CPU time of this process. The generator is all that runs
// in it while Run measures.
func processTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// shared is what the threads of a run have in common.
type shared struct {
	Options
	left     atomic.Int64 // requests that may still be sent, when they are bounded
	stop     atomic.Bool  // the context ended or a thread failed
	deadline time.Duration
	interval time.Duration // between batches of a connection; 0: without a rate
}

// take claims up to n requests to send.
func (s *shared) take(n int) int {
	if s.Requests <= 0 {
		return n
	}
	after := s.left.Add(-int64(n))
	return int(max(int64(n)+min(after, 0), 0))
}
