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
