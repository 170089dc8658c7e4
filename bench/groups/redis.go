package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/bench/internal/server"
)

// redisConn is a connection to a server that speaks Redis's protocol. With wait each write is
// followed by WAIT 1.
type redisConn struct {
	client *redis.Client
	wait   bool
}

func connectTo(addr string, wait bool) func() (conn, error) {
	return func() (conn, error) {
		return &redisConn{redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, MaxRetries: -1, DisableIdentity: true}), wait}, nil
	}
}

func (c *redisConn) Set(ctx context.Context, keys []string, value string) error {
	var waits []*redis.Cmd
	_, err := c.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Set(ctx, key, value, 0)
			if c.wait {
				waits = append(waits, p.Do(ctx, "WAIT", 1, 0))
			}
		}
		return nil
	})
	for _, w := range waits {
		if n, bad := w.Int(); err == nil && (bad != nil || n < 1) {
			err = fmt.Errorf("WAIT 1 replies %v", w.Val())
		}
	}
	return err
}

func (c *redisConn) Get(ctx context.Context, keys []string) error {
	_, err := c.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Get(ctx, key)
		}
		return nil
	})
	if err == redis.Nil { // one of the keys was not set
		err = nil
	}
	return err
}

func (c *redisConn) Close() error { return c.client.Close() }

// servers starts n servers on free ports, each in its own directory. further returns further
// options for server i.
func servers(ctx context.Context, command, dir string, n int, further func(i int, ports []int) (string, error)) (ports []int, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for i := range n {
		port, err := server.FreePort()
		if err != nil {
			stop()
			return nil, nil, err
		}
		ports = append(ports, port)
		own := filepath.Join(dir, strconv.Itoa(i))
		options, err := further(i, ports)
		if err == nil {
			err = os.Mkdir(own, 0o700)
		}
		if err == nil {
			var s func()
			s, err = server.Start(ctx, command+" "+options, port, own)
			if err == nil {
				stops = append(stops, s)
			}
		}
		if err != nil {
			stop()
			return nil, nil, err
		}
	}
	return ports, stop, nil
}

func startAlone(ctx context.Context, program, dir string) (func() (conn, error), func(), error) {
	ports, stop, err := servers(ctx, program+" --port {port} --dir {dir} --loglevel warning", dir, 1, func(int, []int) (string, error) { return "", nil })
	if err != nil {
		return nil, nil, err
	}
	return connectTo(server.Addr(ports[0]), false), stop, nil
}

// startGroup starts a group of three members. It returns a function that connects to the leader.
func startGroup(ctx context.Context, program, dir string) (func() (conn, error), func(), error) {
	ports, stop, err := servers(ctx, program+" --port {port} --dir {dir} --loglevel warning --cluster-enabled yes", dir, 3, func(int, []int) (string, error) {
		port, err := server.FreePort()
		return "--cluster-port " + strconv.Itoa(port), err
	})
	if err != nil {
		return nil, nil, err
	}
	args := []string{"cluster", "create"}
	for _, port := range ports {
		args = append(args, server.Addr(port))
	}
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		stop()
		return nil, nil, fmt.Errorf("%s: %w", out, err)
	}
	for _, port := range ports {
		client := redis.NewClient(&redis.Options{Addr: server.Addr(port)})
		role, err := client.Do(ctx, "ROLE").Slice()
		client.Close()
		if err == nil && role[0] == "master" {
			return connectTo(server.Addr(port), false), stop, nil
		}
	}
	stop()
	return nil, nil, fmt.Errorf("none of the members %v leads", ports)
}

// startRedis starts a server with two replicas, and waits until both have its data. It returns a
// function that connects to the server.
func startRedis(ctx context.Context, program, dir string) (func() (conn, error), func(), error) {
	command := program + " --port {port} --dir {dir} --appendonly yes --appendfsync always --save '' --loglevel warning --repl-diskless-sync-delay 0"
	ports, stop, err := servers(ctx, command, dir, 3, func(i int, ports []int) (string, error) {
		if i == 0 {
			return "", nil
		}
		return "--replicaof 127.0.0.1 " + strconv.Itoa(ports[0]), nil
	})
	if err != nil {
		return nil, nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(ports[0])})
	defer client.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := client.Info(ctx, "replication").Result()
		if strings.Count(info, "state=online") == 2 {
			return connectTo(server.Addr(ports[0]), true), stop, nil
		}
		select {
		case <-ctx.Done():
			stop()
			return nil, nil, fmt.Errorf("the replicas are not there: %q, %w", info, err)
		case <-tick.C:
		}
	}
}
