package main

import (
	"bytes"
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

	"golang.org/x/sys/unix"

	"keyp/cmd/keyp-bench/internal/proc"
	"keyp/internal/clock"
)

// Readers send GETs at fixed times during a measurement. redis-benchmark sends only as fast as a
// server answers, so during a stall it does not measure the requests that it could not send. Here
// each connection sends at times that are fixed beforehand. If the time of a request comes while
// its connection still waits, its latency counts from that time.
//
// Readers run in a separate process, with a higher priority where the system allows that. Within
// the measuring process they would wait for its goroutines, which would falsify the figures.
//
//	keyp-bench                 readers (keyp-bench readersArg)
//	readerOptions as JSON  →
//	                         ← a line, when all connections have an answer
//	end of input           →
//	                         ← readerResult as JSON

// readersArg is the only argument of the process of readers.
const readersArg = "readers"

const (
	// readerRate is the number of GETs a second of all connections together. It is far below
	// the rate of a server, so that their latency is that of the server alone.
	readerRate    = 5_000
	readerClients = 20
	// readerKeys is the maximum number of keys that they read.
	readerKeys = 10_000
	readerNice = -10
)

// readerOptions say what GETs to send.
type readerOptions struct {
	Addr    string
	Keys    uint64 // key:0 to key:Keys-1, which must exist
	From    int64  // Unix ms; earlier GETs are not counted
	Timeout time.Duration
}

// readerResult is the result of readers: their latencies and errors.
type readerResult struct {
	P50, P99, Max time.Duration
	Errors        int64
	First         string // of the errors
}

// add counts an error.
func (r *readerResult) add(err error) {
	if r.Errors++; r.First == "" {
		r.First = err.Error()
	}
}

// runReaders is the main function of the process of readers.
func runReaders(ctx context.Context, in io.Reader, out io.Writer) error {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, readerNice) // unchanged if refused
	var o readerOptions
	input := json.NewDecoder(in)
	if err := input.Decode(&o); err != nil {
		return fmt.Errorf("reading the options: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var (
		connected, ended sync.WaitGroup
		seen             struct {
			sync.Mutex
			readerResult
			latencies []time.Duration
		}
	)
	connected.Add(readerClients)
	for i := range readerClients {
		ended.Go(func() {
			latencies, result := o.read(ctx, i, connected.Done)
			seen.Lock()
			defer seen.Unlock()
			seen.latencies = append(seen.latencies, latencies...)
			seen.Errors += result.Errors
			seen.First = cmp.Or(seen.First, result.First)
		})
	}
	connected.Wait()
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, io.MultiReader(input.Buffered(), in))
	stop()
	ended.Wait()
	if err != nil {
		return err
	}
	seen.P50, seen.P99, seen.Max = quantiles(seen.latencies)
	return json.NewEncoder(out).Encode(seen.readerResult)
}

// read sends the GETs of one connection until ctx ends or the connection fails. It calls connected
// when a first PING has a reply or has failed.
func (o readerOptions) read(ctx context.Context, number int,
	connected func()) (latencies []time.Duration, result readerResult) {
	client := proc.Dial(o.Addr, o.Timeout)
	defer client.Close()
	interval := time.Second * readerClients / readerRate
	_, err := client.Ping(ctx).Result()
	connected()
	if err != nil {
		result.add(err)
		return nil, result
	}
	due := clock.System.Mono() + interval*time.Duration(number)/readerClients
	for key := uint64(number); ; key += readerClients {
		since := due // while the connection waited
		if now := clock.System.Mono(); now < due {
			select {
			case <-time.After(due - now):
			case <-ctx.Done():
				return latencies, result
			}
			since = clock.System.Mono()
		}
		value, err := client.Get(ctx, keyName(keyPrefix, key%o.Keys)).Result()
		if ctx.Err() != nil {
			return latencies, result
		}
		if err != nil || value == "" {
			result.add(fmt.Errorf("GET gave %.100q: %w", value, err))
		}
		if clock.System.Now() >= o.From {
			latencies = append(latencies, clock.System.Mono()-since)
		}
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
	printed bytes.Buffer // to stderr
}

// startReaders starts readers, and returns when all connections have got an answer. GETs before
// from, in Unix ms, are not counted.
func (b *bench) startReaders(ctx context.Context, t *target, keys uint64,
	from int64) (*readers, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &readers{process: exec.CommandContext(ctx, self, readersArg)}
	r.process.Stderr = &r.printed
	if r.in, err = r.process.StdinPipe(); err != nil {
		return nil, err
	}
	if r.out, err = r.process.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := r.process.Start(); err != nil {
		return nil, err
	}
	err = json.NewEncoder(r.in).Encode(readerOptions{t.addr, min(keys, readerKeys),
		from, b.timeout})
	if err == nil {
		var line [1]byte
		_, err = io.ReadFull(r.out, line[:])
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("GETs do not start: %w", err), r.stop())
	}
	return r, nil
}

// end stops the GETs and returns their result.
func (r *readers) end() (readerResult, error) {
	var result readerResult
	closeErr := r.in.Close()
	err := json.NewDecoder(r.out).Decode(&result)
	return result, errors.Join(err, closeErr, r.stop())
}

// stop ends the process, if it still runs, and waits for it. A second call does nothing.
func (r *readers) stop() error {
	if r.process.ProcessState != nil {
		return nil
	}
	_ = r.in.Close() // it may be closed
	if err := r.process.Wait(); err != nil {
		return fmt.Errorf("the process of the GETs: %w: %s", err,
			bytes.TrimSpace(r.printed.Bytes()))
	}
	return nil
}
