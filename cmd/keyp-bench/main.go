// Keyp-bench compares two servers that promise durability, side by side. It measures things that
// redis-benchmark does not measure: expiring keys, restarts and memory. It also measures how costly
// commands slow down other clients. For streams of single commands it calls redis-benchmark. See
// --help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1 // a server failed, a reply was wrong, or the run was interrupted
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt,
		syscall.SIGTERM, syscall.SIGHUP)
	status := exitOK
	if len(os.Args) > 1 && os.Args[1] == readersArg {
		if err := runReaders(ctx, os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = exitFailed
		}
	} else {
		status = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	os.Exit(status)
}

// run is the whole program. Results go to stdout, everything else to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage())
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "keyp-bench: %v\nTry keyp-bench --help.\n", err)
		return exitUsage
	}
	b := &bench{config: cfg, stderr: stderr}
	err = b.run(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %w", err)
	}
	// The table shows the results from before a failure.
	err = errors.Join(err, b.writeTable(stdout))
	for _, failure := range b.failures {
		fmt.Fprintf(stderr, "keyp-bench: %s\n", failure)
	}
	if err != nil {
		fmt.Fprintf(stderr, "keyp-bench: %v\n", err)
	}
	if err != nil || len(b.failures) > 0 {
		return exitFailed
	}
	return exitOK
}
