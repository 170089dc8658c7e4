// Package redisbench runs redis-benchmark and parses its report for people. The report of --csv
// does not have p99.9.
package redisbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Program is the name of the executable, which is looked up in PATH.
const Program = "redis-benchmark"

var (
	// ErrReply is returned if the server answered with an error. redis-benchmark stops at the
	// first one.
	ErrReply = errors.New("error reply")
	// ErrOutput is returned for a report that cannot be parsed.
	ErrOutput = errors.New("not a report of " + Program)
)

const (
	// killPatience is the time for which the output may stay open after the process was killed.
	killPatience = 5 * time.Second
	// tailBytes is the number of bytes of its output that an error message shows.
	tailBytes = 500
)

// Options define what to send. A run ends after Requests, or with its context.
type Options struct {
	Addr     string
	Clients  int
	Pipeline int
	Requests int64
	Keys     uint64 // how many different numbers __rand_int__ is
	Size     int    // bytes of the values that redis-benchmark makes
	// Args choose the requests: -t and a test's name, or a command in which
	// __rand_int__ is replaced by twelve digits.
	Args []string
}

// Result is the result of the last test that ran. Latencies are in milliseconds, and of a whole
// pipeline.
type Result struct {
	OpsPerSec           float64
	P50, P99, P999, Max float64
	// Busy is the share of the time that redis-benchmark spent on a CPU.
	Busy float64
}

// Run runs redis-benchmark to its end. If ctx ends, Run kills it and returns the error of ctx.
// redis-benchmark never stops trying to reach a server, so ctx must have a limit.
func Run(ctx context.Context, o Options) (Result, error) {
	host, port, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return Result{}, err
	}
	args := []string{
		"-h", host, "-p", port, "-c", strconv.Itoa(o.Clients), "-P", strconv.Itoa(o.Pipeline),
		"-n", strconv.FormatInt(o.Requests, 10), "-r", strconv.FormatUint(o.Keys, 10), "-d",
		strconv.Itoa(o.Size),
		"--precision", "3",
	}
	cmd := exec.CommandContext(ctx, Program, append(args, o.Args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this program
	cmd.WaitDelay = killPatience
	began := time.Now()
	err = cmd.Run()
	took := time.Since(began)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	if err != nil {
		// Either stream may contain the reason, after progress lines that end with \r.
		all := out.String() + errs.String()
		if _, text, found := strings.Cut(all, "Error from server: "); found {
			line, _, _ := strings.Cut(text, "\n")
			// The reply may quote the arguments, so the error shows only its start.
			return Result{}, fmt.Errorf("%w: %.100s", ErrReply, strings.TrimSpace(line))
		}
		return Result{}, fmt.Errorf("%s: %w: %s", Program, err, tail(all))
	}
	result, err := parse(out.String())
	if took > 0 {
		busy := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		result.Busy = float64(busy) / float64(took)
	}
	return result, err
}

func tail(text string) string {
	return strings.TrimSpace(text[max(len(text)-tailBytes, 0):])
}

// parse reads the last report in the output: some tests fill a key with another first.
//
//	Latency by percentile distribution:
//	0.000% <= 0.119 milliseconds (cumulative count 1)
//	…                                                     99.9% and more: p99.9
//	Summary:
//	  throughput summary: 68027.21 requests per second
//	  latency summary (msec):
//	          avg       min       p50       p95       p99       max
//	        0.499     0.112     0.487     0.687     0.839     3.383
func parse(text string) (Result, error) {
	at := strings.LastIndex(text, "Latency by percentile distribution:")
	if at < 0 {
		return Result{}, fmt.Errorf("%w: %s", ErrOutput, tail(text))
	}
	r := Result{P999: -1}
	rate, latencies := false, false
	var previous []string
	for line := range strings.Lines(text[at:]) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 3 && fields[1] == "<=" && r.P999 < 0:
			percent, err1 := strconv.ParseFloat(strings.TrimSuffix(fields[0], "%"), 64)
			ms, err2 := strconv.ParseFloat(fields[2], 64)
			if err1 == nil && err2 == nil && percent >= 99.9 {
				r.P999 = ms
			}
		case len(fields) > 2 && fields[0] == "throughput" && fields[1] == "summary:":
			ops, err := strconv.ParseFloat(fields[2], 64)
			r.OpsPerSec, rate = ops, err == nil
		case len(previous) == 6 && previous[0] == "avg" && previous[5] == "max" && len(fields) == 6:
			var errs [3]error
			r.P50, errs[0] = strconv.ParseFloat(fields[2], 64)
			r.P99, errs[1] = strconv.ParseFloat(fields[4], 64)
			r.Max, errs[2] = strconv.ParseFloat(fields[5], 64)
			latencies = errors.Join(errs[:]...) == nil
		}
		previous = fields
	}
	if !rate || !latencies || r.P999 < 0 {
		return Result{}, fmt.Errorf("%w: %s", ErrOutput, tail(text))
	}
	return r, nil
}
