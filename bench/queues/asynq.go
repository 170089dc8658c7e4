package main

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// runAsynq measures asynq, which looks for due tasks once a second. It cannot do so more often.
func runAsynq(ctx context.Context, addr string, jobs int) (r result, err error) {
	opt := asynq.RedisClientOpt{Addr: addr, PoolSize: clients}
	client := asynq.NewClient(opt)
	defer client.Close()
	data := []byte(strings.Repeat("x", payload))
	began := time.Now()
	err = each(ctx, jobs, func(int) error {
		_, err := client.EnqueueContext(ctx, asynq.NewTask("job", data), asynq.ProcessIn(time.Millisecond))
		return err
	})
	if err != nil {
		return r, err
	}
	r.add = time.Since(began)
	began = time.Now()
	server := asynq.NewServer(opt, asynq.Config{Concurrency: clients, DelayedTaskCheckInterval: time.Second, LogLevel: asynq.FatalLevel})
	var done atomic.Int64
	all := make(chan struct{})
	err = server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if done.Add(1) == int64(jobs) {
			close(all)
		}
		return nil
	}))
	if err != nil {
		return r, err
	}
	select {
	case <-all:
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.work = time.Since(began)
	server.Shutdown()
	return r, err
}
