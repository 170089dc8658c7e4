package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"keyp/internal/clock"
)

// Readers send GETs at fixed times during a measurement. redis-benchmark sends only as fast as a
// server answers, so during a stall it does not measure the requests that it could not send. Here
// each connection sends at times that are fixed beforehand. If the time of a request comes while
// its connection still waits, its latency counts from that time. A GET that is refused with -BUSY,
// while a script runs, is sent again and counts from its first time.
//
// Readers run in a separate process, with a higher priority where the system allows that. Within
// the measuring process they would wait for its goroutines, which would falsify the figures.
//
//	keyp-bench                 keyp-bench readers ADDRESS TIMEOUT
//	                         ← a line, when all connections have an answer
//	an instant in Unix ms  →
//	                         ← what the readers noticed since then, as JSON (type noticed)

// readersArg is the first argument of the process of readers.
const readersArg = "readers"

const (
	// readerRate is the number of GETs a second of all connections together. It is far below
	// the rate of a server, so that their latency is that of the server alone.
	readerRate    = 5_000
	readerClients = 20
	// readerKeys is the number of keys that readers read. The keys must exist.
	readerKeys = 10_000
	readerNice = -10
)

// noticed is what readers noticed: their latencies and the first error.
type noticed struct {
	P50, P99, Max time.Duration
	Error         string
}

// sample is the latency of one GET.
type sample struct {
	ended   int64 // Unix ms
	latency time.Duration
}

// gets are the GETs that one process sends.
type gets struct {
	addr    string
	timeout time.Duration
	mu      struct {
		sync.Mutex
		noticed
		samples []sample
	}
}

// runReaders is the main function of the process of readers. It ends without a result if its input
// ends without an instant.
func runReaders(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, readerNice) // unchanged if refused
	if len(args) != 2 {
		return errors.New("readers need an address and a timeout")
	}
	timeout, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g := gets{addr: args[0], timeout: timeout}
	var connected, ended sync.WaitGroup
	connected.Add(readerClients)
	for i := range uint64(readerClients) {
		ended.Go(func() { g.read(ctx, i, sync.OnceFunc(connected.Done)) })
	}
	connected.Wait()
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	var from int64
	_, noInstant := fmt.Fscan(in, &from)
	stop()
	ended.Wait()
	if noInstant != nil {
		return nil
	}
	var latencies []time.Duration
	for _, s := range g.mu.samples {
		if s.ended >= from {
			latencies = append(latencies, s.latency)
		}
	}
	g.mu.P50, g.mu.P99, g.mu.Max = quantiles(latencies)
	return json.NewEncoder(out).Encode(g.mu.noticed)
}

// read sends the GETs of one connection until ctx ends. It calls connected after each one.
func (g *gets) read(ctx context.Context, number uint64, connected func()) {
	defer connected() // if ctx ends before
	client := dial(g.addr, g.timeout)
	defer client.Close()
	const interval = time.Second * readerClients / readerRate
	due := clock.System.Mono() + interval*time.Duration(number)/readerClients
	for key := number; ; key += readerClients {
		since := due // while the connection waited
		if now := clock.System.Mono(); now < due {
			select {
			case <-time.After(due - now):
			case <-ctx.Done():
				return
			}
			since = clock.System.Mono()
		}
		value, err := client.Get(ctx, keyName(keyPrefix, key%readerKeys)).Result()
		connected()
		if ctx.Err() != nil {
			return
		}
		if redis.HasErrorPrefix(err, "BUSY") {
			time.Sleep(time.Millisecond)
			continue // with another GET, which counts from the same time
		}
		took := sample{clock.System.Now(), clock.System.Mono() - since}
		g.mu.Lock()
		g.mu.samples = append(g.mu.samples, took)
		if err != nil || value == "" {
			g.mu.Error = cmp.Or(g.mu.Error, fmt.Sprintf("GET gave %.100q, %v", value, err))
		}
		g.mu.Unlock()
		due += interval
	}
}

// quantiles returns the median, the 99th percentile and the maximum; 0 if all is empty. It sorts
// all.
func quantiles(all []time.Duration) (p50, p99, largest time.Duration) {
	if len(all) == 0 {
		return 0, 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
}

// readers is a running process of readers, as its parent sees it.
type readers struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     io.Reader
}

// startReaders starts readers, and returns when all connections have got an answer.
func (b *bench) startReaders(ctx context.Context, s *server) (*readers, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &readers{process: exec.CommandContext(ctx, self, readersArg, s.addr,
		b.timeout.String())}
	r.process.Stderr = os.Stderr
	if r.in, err = r.process.StdinPipe(); err != nil {
		return nil, err
	}
	if r.out, err = r.process.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := r.process.Start(); err != nil {
		return nil, err
	}
	if _, err = io.ReadFull(r.out, make([]byte, 1)); err != nil {
		return nil, errors.Join(fmt.Errorf("GETs do not start: %w", err), r.stop())
	}
	return r, nil
}

// end stops the GETs and returns what they noticed since an instant, in Unix ms. A GET that failed
// is errWrong.
func (r *readers) end(from int64) (result noticed, err error) {
	_, err1 := fmt.Fprintln(r.in, from)
	err2 := json.NewDecoder(r.out).Decode(&result)
	if err := errors.Join(err1, err2, r.stop()); err != nil {
		return result, err
	}
	if result.Error != "" {
		return result, fmt.Errorf("%w beside the measurement: %s", errWrong, result.Error)
	}
	return result, nil
}

// stop ends the process, if it still runs, and waits for it. A second call does nothing.
func (r *readers) stop() error {
	if r.process.ProcessState != nil {
		return nil
	}
	_ = r.in.Close() // it may be closed
	if err := r.process.Wait(); err != nil {
		return fmt.Errorf("the process of the GETs: %w", err)
	}
	return nil
}
