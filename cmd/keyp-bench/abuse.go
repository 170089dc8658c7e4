package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tidwall/redcon"

	"keyp/internal/clock"
)

const (
	// abuseLead is the time in ms for which GETs run before they are counted, and after the
	// abuse has ended.
	abuseLead = 150
	// abuseSample is the time in ms between two readings of the server's memory.
	abuseSample = 10
)

// abuse is one way to overload a server.
type abuse struct {
	name    string
	prepare func(a *abuser) error // called before the measurement; may be nil
	do      func(a *abuser) error
	times   int // how often do is called; 0: once
}

// abuser is the client that overloads the server.
type abuser struct {
	ctx   context.Context
	b     *bench
	t     *target
	n     int // elements of a large value
	main  *rawConn
	extra []net.Conn // closed when the abuse has ended
}

// abuses returns a procedure for a list of abuses. For each abuse it measures the latency of GETs
// that other clients send meanwhile, and the growth of the server's memory.
func abuses(list []abuse) procedure {
	return func(b *bench, ctx context.Context, l line, t *target,
		round int) (readings []reading, err error) {
		ctx, release := t.while(ctx)
		defer release()
		if err := b.load(ctx, t, l.keys); err != nil {
			return nil, err
		}
		a := &abuser{ctx: ctx, b: b, t: t, n: int(l.keys)}
		for _, what := range list {
			more, err := a.measure(l, what, round)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", what.name, err)
			}
			readings = append(readings, more...)
		}
		return readings, nil
	}
}

// measure runs one abuse together with GETs and returns the measurements.
func (a *abuser) measure(l line, what abuse, round int) (readings []reading, err error) {
	if a.main, err = a.dial(); err != nil {
		return nil, err
	}
	defer func() {
		a.main.conn.Close()
		for _, conn := range a.extra {
			conn.Close()
		}
		a.extra = nil
	}()
	if what.prepare != nil {
		if err := what.prepare(a); err != nil {
			return nil, fmt.Errorf("preparing: %w", err)
		}
	}
	if err := a.b.waitIdle(a.ctx, []*target{a.t}); err != nil {
		return nil, err
	}
	gets, err := a.b.startReaders(a.ctx, a.t, l.keys, clock.System.Now()+abuseLead)
	if err != nil {
		return nil, err
	}
	grown, err := a.beside(what)
	if err != nil {
		return nil, errors.Join(err, gets.stop())
	}
	noticed, err := gets.end()
	if err != nil {
		return nil, err
	}
	a.b.report.addFailure(l, a.t.name, round, noticed.Errors, errors.New(noticed.First))
	return []reading{
		{what.name + ": GET p99", "ms", millis(noticed.P99)},
		{what.name + ": GET max", "ms", millis(noticed.Max)},
		{what.name + ": memory", "MiB", mebibytes(grown)},
	}, nil
}

// beside runs the abuse while GETs run, with a pause before and after. It returns by how many bytes
// the server's memory grew.
func (a *abuser) beside(what abuse) (grown int64, err error) {
	if err := pause(a.ctx, clock.System.Now()+abuseLead); err != nil {
		return 0, err
	}
	memory := a.watchMemory()
	for range max(what.times, 1) {
		if err := what.do(a); err != nil {
			memory()
			return 0, err
		}
	}
	err = pause(a.ctx, clock.System.Now()+abuseLead)
	return memory(), err
}

// watchMemory begins to read the server's memory. The function that it returns ends this, and
// returns the largest growth in bytes.
func (a *abuser) watchMemory() (ended func() int64) {
	before, largest := a.t.rssAnon(), int64(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			largest = max(largest, a.t.rssAnon())
			select {
			case <-stop:
				return
			case <-time.After(abuseSample * time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-stopped
		return max(0, largest-before)
	}
}

// rawConn is a connection that does not parse replies and only finds their end.
type rawConn struct {
	conn    net.Conn
	timeout time.Duration
	in      []byte
}

func (a *abuser) dial() (*rawConn, error) {
	d := net.Dialer{Timeout: a.b.timeout}
	conn, err := d.DialContext(a.ctx, "tcp", a.t.addr)
	if err != nil {
		return nil, err
	}
	return &rawConn{conn: conn, timeout: a.b.timeout, in: make([]byte, 256<<10)}, nil
}

// open makes a connection that stays until the abuse has ended.
func (a *abuser) open() (*rawConn, error) {
	c, err := a.dial()
	if err == nil {
		a.extra = append(a.extra, c.conn)
	}
	return c, err
}

// endOfReplies is the text of an ECHO after the requests, which marks the end of their replies.
const endOfReplies = "abuse-ends-here"

// ask sends encoded commands, and reads until all are answered. If the first reply is an error,
// ask returns it.
func (c *rawConn) ask(requests []byte) error {
	if err := c.conn.SetDeadline(time.UnixMilli(clock.System.Now()).Add(c.timeout)); err != nil {
		return err
	}
	var writing sync.WaitGroup
	var failed error
	writing.Go(func() {
		if _, failed = c.conn.Write(requests); failed == nil {
			_, failed = c.conn.Write(encode("ECHO", endOfReplies))
		}
	})
	end := redcon.AppendBulkString(nil, endOfReplies)
	var tail []byte
	var refused error
	for first := true; ; first = false {
		n, err := c.conn.Read(c.in)
		if err != nil {
			c.conn.Close()
			writing.Wait()
			return errors.Join(err, failed)
		}
		if first && c.in[0] == '-' {
			line, _, _ := bytes.Cut(c.in[:n], []byte("\r\n"))
			refused = fmt.Errorf("%w: %s", errWrong, line)
		}
		tail = append(tail, c.in[max(0, n-len(end)):n]...)
		tail = tail[max(0, len(tail)-len(end)):]
		if bytes.Equal(tail, end) {
			writing.Wait()
			return errors.Join(refused, failed)
		}
	}
}

// run sends one command.
func (a *abuser) run(args ...string) error { return a.main.ask(encode(args...)) }

// encode returns a command in RESP.
func encode(args ...string) []byte { return appendCommand(nil, args...) }

func appendCommand(b []byte, args ...string) []byte {
	b = redcon.AppendArray(b, len(args))
	for _, arg := range args {
		b = redcon.AppendBulkString(b, arg)
	}
	return b
}

// command returns a step of an abuse that sends one command.
func command(args ...string) func(*abuser) error {
	return func(a *abuser) error { return a.run(args...) }
}

// steps returns a step that does several steps in turn.
func steps(all ...func(*abuser) error) func(*abuser) error {
	return func(a *abuser) error {
		for _, step := range all {
			if err := step(a); err != nil {
				return err
			}
		}
		return nil
	}
}
