// Queue hands each job to one worker and loses none. A worker that takes a job moves it to its own
// list, and removes it from there when it is done. When a worker that died starts again, its jobs
// return to the queue.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// Queue is a queue of jobs.
type Queue struct {
	Redis *redis.Client
	Name  string
}

func (q Queue) taken(worker string) string { return q.Name + ":taken:" + worker }

// Add puts jobs at the end of the queue.
func (q Queue) Add(ctx context.Context, jobs ...string) error {
	values := make([]any, len(jobs))
	for i, job := range jobs {
		values[i] = job
	}
	return q.Redis.RPush(ctx, q.Name, values...).Err()
}

// Take gives a worker the first job of the queue, and waits for one; a wait of 0 has no limit. ok
// is false if none came in time. The job is in the queue or with the worker at any time, so no
// failure loses it.
func (q Queue) Take(ctx context.Context, worker string,
	wait time.Duration) (job string, ok bool, err error) {
	job, err = q.Redis.BLMove(ctx, q.Name, q.taken(worker), "LEFT", "RIGHT", wait).Result()
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	return job, err == nil, err
}

// Done removes a job that a worker has done.
func (q Queue) Done(ctx context.Context, worker, job string) error {
	return q.Redis.LRem(ctx, q.taken(worker), 1, job).Err()
}

// Return puts back the jobs that a worker took and has not done, in the order in which it took
// them, before all waiting jobs. A worker calls it when it starts.
func (q Queue) Return(ctx context.Context, worker string) (jobs int, err error) {
	for {
		err := q.Redis.LMove(ctx, q.taken(worker), q.Name, "RIGHT", "LEFT").Err()
		if errors.Is(err, redis.Nil) {
			return jobs, nil
		}
		if err != nil {
			return jobs, err
		}
		jobs++
	}
}

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	q := Queue{rdb, "mails"}
	if err := q.Add(ctx, "to Ann", "to Bob", "to Eve"); err != nil {
		return err
	}
	job, _, err := q.Take(ctx, "first", 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "first takes %q and dies\n", job)
	for range 2 {
		job, _, err := q.Take(ctx, "second", 0)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "second sends %q\n", job)
		if err := q.Done(ctx, "second", job); err != nil {
			return err
		}
	}
	returned, err := q.Return(ctx, "first")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "first is back and returns %d\n", returned)
	job, _, err = q.Take(ctx, "second", 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "second sends %q\n", job)
	return q.Done(ctx, "second", job)
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	if err := run(context.Background(), rdb, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
