package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"keyp/cmd/keyp-bench/internal/load"
	"keyp/internal/clock"
)

// Bystanders are GETs beside an abuse, made by a process of their own, which the system runs
// before others where it may: in the process that does the abuse they would wait for its
// goroutines, and the figures would be about keyp-bench as much as about the server.
//
//	abuser                     bystanders (keyp-bench bystandersArg)
//	bystanderOrder as JSON →
//	                         ← a line, when GETs run
//	end of input           →
//	                         ← bystanderResult as JSON

// bystandersArg is the only argument of a process that is no abuser.
const bystandersArg = "bystanders"

// bystanderNice is the priority of that process, where it may have one.
const bystanderNice = -10

// bystanderOrder says what GETs to send.
type bystanderOrder struct {
	Addr    string
	Clients int
	Threads int
	Rate    float64
	Keys    uint64
	Size    int
	Lead    time.Duration // for which replies are not timed
	Timeout time.Duration
}

// bystanderResult is what they noticed.
type bystanderResult struct {
	P99, Max time.Duration
	Errors   int64
	First    string // of the errors
}

// standBy is the process: it follows one order, until its input ends.
func standBy(ctx context.Context, in io.Reader, out io.Writer) error {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, bystanderNice) // as it is if refused
	var o bystanderOrder
	orders := json.NewDecoder(in)
	if err := orders.Decode(&o); err != nil {
		return fmt.Errorf("reading what to send: %w", err)
	}
	gets := background(ctx, load.Options{
		Addr: o.Addr, Clients: o.Clients, Threads: o.Threads, Rate: o.Rate,
		Source:     load.Get(load.NewData(o.Keys, o.Size)),
		RecordFrom: clock.System.Mono() + o.Lead, Timeout: o.Timeout,
	})
	defer gets.end()
	if err := gets.underWay(ctx); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	_, endErr := io.Copy(io.Discard, io.MultiReader(orders.Buffered(), in))
	gets.cancel()
	result, err := gets.wait()
	if endErr != nil || !errors.Is(err, context.Canceled) {
		return errors.Join(err, endErr)
	}
	answer := bystanderResult{P99: result.Latency.Quantile(0.99), Max: result.Latency.Max(), Errors: result.Errors}
	if result.First != nil {
		answer.First = result.First.Error()
	}
	return json.NewEncoder(out).Encode(answer)
}

// bystanders is the other side: such a process that runs.
type bystanders struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     io.Reader
	said    bytes.Buffer // to stderr
}

// startBystanders gives GETs that are under way.
func startBystanders(ctx context.Context, o bystanderOrder) (*bystanders, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &bystanders{process: exec.CommandContext(ctx, self, bystandersArg)}
	b.process.Stderr = &b.said
	if b.in, err = b.process.StdinPipe(); err != nil {
		return nil, err
	}
	if b.out, err = b.process.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := b.process.Start(); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(b.in).Encode(o); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	var line [1]byte
	if _, err := io.ReadFull(b.out, line[:]); err != nil {
		return nil, errors.Join(fmt.Errorf("GETs do not get under way: %w", err), b.stop())
	}
	return b, nil
}

// end has them stop and gives what they noticed.
func (b *bystanders) end() (bystanderResult, error) {
	var result bystanderResult
	closeErr := b.in.Close()
	err := json.NewDecoder(b.out).Decode(&result)
	return result, errors.Join(err, closeErr, b.stop())
}

// stop ends the process, if it still runs, and waits for it. A second call does nothing.
func (b *bystanders) stop() error {
	if b.process.ProcessState != nil {
		return nil
	}
	_ = b.in.Close() // it may be closed
	if err := b.process.Wait(); err != nil {
		return fmt.Errorf("the process of the GETs: %w: %s", err, bytes.TrimSpace(b.said.Bytes()))
	}
	return nil
}
