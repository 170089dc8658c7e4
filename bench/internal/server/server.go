// Package server runs servers for a measurement, each with a directory and a port of its own.
package server

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Start replaces {port} and {dir} in the words of a command and starts it. It waits until the
// server accepts connections. stop ends the server and waits for its end. The server also ends with
// ctx.
func Start(ctx context.Context, command string, port int, dir string) (stop func(), err error) {
	var args []string
	for _, arg := range strings.Fields(command) {
		if arg == "''" {
			arg = ""
		}
		args = append(args, strings.NewReplacer("{port}", strconv.Itoa(port), "{dir}", dir).Replace(arg))
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan struct{})
	var failed error
	go func() {
		failed = cmd.Wait()
		close(ended)
		cancel()
	}()
	stop = func() {
		cancel()
		<-ended
	}
	if err := listens(ctx, Addr(port)); err != nil {
		stop()
		return nil, errors.Join(err, failed)
	}
	return stop, nil
}

// Addr returns the address of a server that listens on a port.
func Addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// FreePort returns a port on which nobody listens.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// listens waits until a server accepts connections.
func listens(ctx context.Context, addr string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}
