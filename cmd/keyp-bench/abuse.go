package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/tidwall/redcon"

	"keyp/internal/clock"
)

const (
	// abuseLead is the time in ms for which GETs are counted before and after the abuse.
	abuseLead = 150
	// abuseSample is the time in ms between two readings of the server's memory.
	abuseSample = 10
)

// abuser is the client that overloads the server.
type abuser struct {
	ctx   context.Context
	s     *server
	n     int // elements of a large value
	main  net.Conn
	conns []net.Conn // closed when the abuse has ended
}

// measureAbuses measures, for each abuse, the latency of GETs that other clients send meanwhile,
// and the growth of the server's memory. An abuse that the server refuses is a failure, and the
// others are measured.
func measureAbuses(b *bench, ctx context.Context, w workload, s *server) ([]reading, error) {
	if err := b.load(ctx, s, keyPrefix, max(w.keys, readerKeys), nil); err != nil {
		return nil, err
	}
	var readings []reading
	var wrong []error
	for _, what := range abuses {
		a := &abuser{ctx: ctx, s: s, n: int(w.keys)}
		noticed, grown, err := a.measure(b, what)
		for _, conn := range a.conns {
			conn.Close()
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", what.name, err)
			if !errors.Is(err, errWrong) {
				return readings, fmt.Errorf("%w (before that: %v)", err, wrong)
			}
			wrong = append(wrong, err)
			continue
		}
		readings = append(readings, reading{what.name + ": GET p99", "ms", millis(noticed.P99)},
			reading{what.name + ": GET max", "ms", millis(noticed.Max)},
			reading{what.name + ": memory", "MiB", mebibytes(grown)})
	}
	return readings, errors.Join(wrong...)
}

// measure runs one abuse together with GETs. It returns what they noticed, and by how many bytes
// the server's memory grew.
func (a *abuser) measure(b *bench, what abuse) (got noticed, grown int64, err error) {
	if a.main, err = a.dial(); err != nil {
		return got, 0, err
	}
	if what.prepare != nil {
		if err := what.prepare(a); err != nil {
			return got, 0, fmt.Errorf("preparing: %w", err)
		}
	}
	if err := a.s.waitIdle(a.ctx); err != nil {
		return got, 0, err
	}
	gets, err := b.startReaders(a.ctx, a.s)
	if err != nil {
		return got, 0, err
	}
	defer gets.stop()
	from, before := clock.System.Now(), a.s.rssAnon()
	ended := make(chan error, 1)
	go func() {
		err := pause(a.ctx, from+abuseLead)
		if err == nil {
			err = what.do(a)
		}
		if err == nil {
			err = pause(a.ctx, clock.System.Now()+abuseLead)
		}
		ended <- err
	}()
	for {
		grown = max(grown, a.s.rssAnon()-before)
		select {
		case err := <-ended:
			if err == nil {
				got, err = gets.end(from)
			}
			return got, grown, err
		case <-time.After(abuseSample * time.Millisecond):
		}
	}
}

// dial opens a connection that stays until the abuse has ended, or the user ends the run.
func (a *abuser) dial() (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", a.s.addr, a.s.timeout)
	if err != nil {
		return nil, err
	}
	a.conns = append(a.conns, conn)
	context.AfterFunc(a.ctx, func() { conn.Close() })
	return conn, nil
}

// endOfReplies is the text of an ECHO after the requests, which marks the end of their replies.
const endOfReplies = "abuse-ends-here"

// ask sends encoded commands, and reads until all are answered. It does not parse replies and only
// finds their end. If the first reply is an error, ask returns it with errWrong.
func (a *abuser) ask(requests []byte) error {
	conn := a.main
	if err := conn.SetDeadline(time.Now().Add(a.s.timeout)); err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(append(requests, encode("ECHO", endOfReplies)...))
		written <- err
	}()
	end := redcon.AppendBulkString(nil, endOfReplies)
	in := make([]byte, 256<<10)
	var last []byte
	var refused error
	for first := true; !bytes.HasSuffix(last, end); first = false {
		n, err := conn.Read(in)
		if err != nil {
			conn.Close()
			return errors.Join(err, <-written)
		}
		if first && in[0] == '-' {
			line, _, _ := bytes.Cut(in[:n], []byte("\r\n"))
			refused = fmt.Errorf("%w: %.200s", errWrong, line)
		}
		last = append(last, in[max(0, n-len(end)):n]...)
		last = last[max(0, len(last)-len(end)):]
	}
	return errors.Join(refused, <-written)
}
