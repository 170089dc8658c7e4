package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"keyp/bench/internal/server"
)

// etcdMember is the argument with which this program runs as a member of etcd, in its own process
// like the other servers. The following arguments are the member's name, its directory, its address
// for clients, and the addresses of all members.
const etcdMember = "etcd-member"

func runEtcd(args []string) error {
	name, dir, client, members := args[0], args[1], args[2], args[3]
	c := embed.NewConfig()
	c.Name, c.Dir, c.LogLevel, c.InitialCluster = name, dir, "error", members
	c.QuotaBackendBytes = 8 << 30
	for _, m := range strings.Split(members, ",") {
		if of, peer, _ := strings.Cut(m, "="); of == name {
			u, err := url.Parse(peer)
			if err != nil {
				return err
			}
			c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*u}, []url.URL{*u}
		}
	}
	u := url.URL{Scheme: "http", Host: client}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{u}, []url.URL{u}
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	return <-e.Err() // until it is ended by a signal
}

// startEtcd starts three members. It returns a function that connects to the leader.
func startEtcd(ctx context.Context, dir string) (func() (conn, error), func(), error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	var peers []string
	for i := range 3 {
		port, err := server.FreePort()
		if err != nil {
			return nil, nil, err
		}
		peers = append(peers, fmt.Sprintf("m%d=http://%s", i, server.Addr(port)))
	}
	ports, stop, err := servers(ctx, program+" "+etcdMember, dir, 3, func(i int, ports []int) (string, error) {
		return fmt.Sprintf("m%d {dir} %s %s", i, server.Addr(ports[i]), strings.Join(peers, ",")), nil
	})
	if err != nil {
		return nil, nil, err
	}
	leader, err := etcdLeader(ctx, ports)
	if err != nil {
		stop()
		return nil, nil, err
	}
	return func() (conn, error) { return dialEtcd(leader) }, stop, nil
}

// etcdLeader waits for a leader and returns its address.
func etcdLeader(ctx context.Context, ports []int) (addr string, err error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, port := range ports {
			c, failed := dialEtcd(server.Addr(port))
			if err = failed; err != nil {
				continue
			}
			short, cancel := context.WithTimeout(ctx, time.Second)
			var st *clientv3.StatusResponse
			st, err = c.client.Status(short, server.Addr(port))
			cancel()
			c.Close()
			if err == nil && st.Leader != 0 && st.Leader == st.Header.MemberId {
				return server.Addr(port), nil
			}
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

type etcdConn struct{ client *clientv3.Client }

func dialEtcd(addr string) (*etcdConn, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	return &etcdConn{client}, err
}

// all calls fn for all keys at once. With etcd's client this is the way to have several requests on
// one connection.
func all(keys []string, fn func(key string) error) error {
	if len(keys) == 1 {
		return fn(keys[0])
	}
	errs := make(chan error, len(keys))
	for _, key := range keys {
		go func() { errs <- fn(key) }()
	}
	var err error
	for range keys {
		err = errors.Join(err, <-errs)
	}
	return err
}

func (c *etcdConn) Set(ctx context.Context, keys []string, value string) error {
	return all(keys, func(key string) error {
		_, err := c.client.Put(ctx, key, value)
		return err
	})
}

func (c *etcdConn) Get(ctx context.Context, keys []string) error {
	return all(keys, func(key string) error {
		_, err := c.client.Get(ctx, key)
		return err
	})
}

func (c *etcdConn) Close() error { return c.client.Close() }
