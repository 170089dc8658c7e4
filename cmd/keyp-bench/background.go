package main

import (
	"context"
	"errors"
	"sync/atomic"

	"keyp/cmd/keyp-bench/internal/load"
	"keyp/internal/clock"
)

// backgroundLoad is a load without an end of its own that runs beside something
// else that is measured.
type backgroundLoad struct {
	done   *atomic.Int64
	cancel context.CancelFunc
	ended  chan struct{}
	result *load.Result // after ended
	err    error        // after ended
}

// background starts a load; Requests, Duration and Done of o are left empty.
func background(ctx context.Context, o load.Options) *backgroundLoad {
	ctx, cancel := context.WithCancel(ctx)
	l := &backgroundLoad{done: new(atomic.Int64), cancel: cancel, ended: make(chan struct{})}
	o.Done = l.done
	go func() {
		defer close(l.ended)
		l.result, l.err = load.Run(ctx, o)
	}()
	return l
}

// underWay waits until all connections stand and a first request is answered. The
// load's own timeout bounds that.
func (l *backgroundLoad) underWay(ctx context.Context) error {
	for l.done.Load() == 0 {
		select {
		case <-l.ended:
			return errors.Join(errors.New("the load ended before it got under way"), l.err)
		default:
		}
		if err := pause(ctx, clock.System.Now()+1); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for the end of the load, which comes with end, with that of its
// context, or with a failure. The error is never nil.
func (l *backgroundLoad) wait() (*load.Result, error) {
	<-l.ended
	if l.err == nil {
		l.err = errors.New("the load ended by itself")
	}
	return l.result, l.err
}

// end stops the load and waits for it.
func (l *backgroundLoad) end() {
	l.cancel()
	<-l.ended
}

// streamBeside is a stream without an end of its own that runs beside something else
// that is measured.
type streamBeside struct {
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // after ended
}

// beside starts the stream of s and returns when the server runs it.
func (b *bench) beside(ctx context.Context, s shape, t *target) (*streamBeside, error) {
	commands, err := t.commands(ctx, b.timeout)
	if err != nil {
		return nil, err
	}
	l := &streamBeside{ended: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(ctx)
	go func() {
		defer close(l.ended)
		_, l.err = b.load(l.ctx, s, t, runSize{})
	}()
	enough := commands + int64(2*s.clients*s.pipeline)
	for until := clock.System.Mono() + b.timeout; commands < enough; {
		if err := pause(l.ctx, clock.System.Now()+10); err != nil {
			return nil, errors.Join(err, l.end())
		}
		select {
		case <-l.ended:
			return nil, l.end()
		default:
		}
		if commands, err = t.commands(ctx, b.timeout); err != nil {
			return nil, errors.Join(err, l.end())
		}
		if clock.System.Mono() > until {
			return nil, errors.Join(errors.New("the load does not get under way"), l.end())
		}
	}
	return l, nil
}

// end stops the stream and waits for it. It is an error when that ended before. A
// second call does nothing.
func (l *streamBeside) end() error {
	early := l.ctx.Err() == nil
	if early {
		select {
		case <-l.ended:
		default:
			early = false
		}
	}
	l.cancel()
	<-l.ended
	if early {
		return errors.Join(errors.New("the load beside the measurement ended too early"), l.err)
	}
	return nil
}
