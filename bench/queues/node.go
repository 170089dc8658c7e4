package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// node measures a library for Node. The script node.js prints the times for adding the jobs and for
// processing them, in ms.
func node(library string) func(context.Context, string, int) (result, error) {
	return func(ctx context.Context, addr string, jobs int) (r result, err error) {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return r, err
		}
		cmd := exec.CommandContext(ctx, "node", "node.js", library, port, strconv.Itoa(jobs), strconv.Itoa(clients), strconv.Itoa(payload))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return r, err
		}
		var add, work float64
		if _, err := fmt.Sscan(string(out), &add, &work); err != nil {
			return r, fmt.Errorf("%s prints %q: %w", library, out, err)
		}
		ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
		return result{ms(add), ms(work)}, nil
	}
}
