package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
)

// shards returns the members of the group of the server at addr. The leader knows most about them,
// so shards asks the leader that the server names. If there is none, or it does not answer, shards
// asks the server itself.
func (t *clusterTool) shards(addr string) (list []redis.Node, err error) {
	known, err := t.nodes(addr)
	if err != nil {
		return nil, err
	}
	for _, n := range known {
		if n.leads && n.host != "" && n.addr != addr {
			if list, err := t.shardsAt(n.addr); err == nil {
				return list, nil
			}
		}
	}
	return t.shardsAt(addr)
}

func (t *clusterTool) shardsAt(addr string) (list []redis.Node, err error) {
	c := t.client(addr)
	defer c.Close()
	found, err := c.ClusterShards(t.ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	for _, s := range found {
		list = append(list, s.Nodes...)
	}
	return list, nil
}

// nodeAddr returns the address at which the tool reaches a member.
func (t *clusterTool) nodeAddr(n *redis.Node) string {
	port := n.Port
	if t.o.TLSConfig != nil {
		port = n.TLSPort
	}
	return net.JoinHostPort(n.IP, strconv.FormatInt(port, 10))
}

// client returns a client of a server.
func (t *clusterTool) client(addr string) *redis.Client {
	o := *t.o
	o.Addr = addr
	return redis.NewClient(&o)
}

// stateOf asks a member for its own state. It does not rely on another member, because a former
// leader may show old states of others.
func (t *clusterTool) stateOf(n *redis.Node) string {
	c := t.client(t.nodeAddr(n))
	defer c.Close()
	info, err := c.ClusterInfo(t.ctx).Result()
	var refusal redis.Error
	switch {
	case errors.As(err, &refusal):
		code, _, _ := strings.Cut(refusal.Error(), " ")
		return "refuses: " + code
	case err != nil:
		return "does not answer"
	case n.Health == "loading":
		return "gets data"
	case !strings.Contains(info, "cluster_state:ok\r\n"):
		return "knows nobody who leads"
	}
	return memberOK
}

// memberOK is the state of a member without a problem.
const memberOK = "ok"

// status lists the members of a group and asks each of them for its state. It returns an error
// unless one member leads and all are well. A member that still receives its first data is not
// well.
func (t *clusterTool) status(addr string) error {
	t.o.ReadTimeout = clusterReach // a member that takes longer is not well
	id, err := t.ask(addr, "cluster", "myid")
	if err != nil {
		return err
	}
	list, err := t.shards(addr)
	if err != nil {
		return err
	}
	switch {
	case !slices.ContainsFunc(list, func(n redis.Node) bool { return n.ID == id }):
		return fmt.Errorf("%s is no member of its group any more", addr)
	case len(list) == 1:
		return fmt.Errorf("%s is in no group with others", addr)
	}
	newest, known, leads, wanting := int64(0), true, false, []string(nil)
	states := make([]string, len(list))
	var asked sync.WaitGroup
	for i := range list {
		newest = max(newest, list[i].ReplicationOffset)
		known = known && list[i].ReplicationOffset > 0 // only a leader knows it of others
		asked.Go(func() { states[i] = t.stateOf(&list[i]) })
	}
	asked.Wait()
	table := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ADDRESS\tNODE\tROLE\tSTATE\tBEHIND")
	for i := range list {
		n := &list[i]
		role, behind, state := "follower", "?", states[i]
		if known {
			behind = strconv.FormatInt(newest-n.ReplicationOffset, 10)
		}
		if n.Role == "master" && state == memberOK {
			role, leads = "leader", true
		}
		if state != memberOK {
			wanting = append(wanting, t.nodeAddr(n)+" "+state)
			behind = "?"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", t.nodeAddr(n), n.ID, role, state, behind)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if !leads {
		wanting = append([]string{"no member leads"}, wanting...)
	}
	if wanting != nil {
		return errors.New(strings.Join(wanting, ", "))
	}
	return nil
}

// fits introduces the server at addr to the group of another server (CLUSTER MEET). known are the
// nodes of the group. It returns an error if the server cannot join: it has keys, or is in another
// group.
func (t *clusterTool) fits(group, addr string, known []groupNode) error {
	host, port, err := net.SplitHostPort(group)
	if err != nil {
		return err
	}
	if _, err := t.greet(addr, host, port, known); err != nil {
		return err
	}
	c := t.client(addr)
	defer c.Close()
	if n, err := c.DBSize(t.ctx).Result(); err == nil && n > 0 {
		return fmt.Errorf("%s has keys, which would be lost: only an empty server can join a group",
			addr)
	}
	return nil
}

// replace removes a lost member from the group and adds a server in its place. The server may have
// the address of the lost member, if it has lost its disk and started empty.
func (t *clusterTool) replace(group, which, addr string) error {
	id, err := t.reach(addr)
	if err != nil {
		return err
	}
	known, err := t.nodes(group)
	if err != nil {
		return err
	}
	lost := slices.IndexFunc(known, func(n groupNode) bool {
		return (n.id == which || n.addr == which) && n.id != id
	})
	switch there := slices.ContainsFunc(known, func(n groupNode) bool { return n.id == id }); {
	case there && lost >= 0:
		return fmt.Errorf("%s is a member already: it cannot take the place of %s", addr, which)
	case there: // it has taken the place before
		return t.add(group, []string{addr})
	case lost < 0:
		return fmt.Errorf("%s is no member of the group of %s", which, group)
	}
	n := &known[lost]
	// The group may have heard from it just before it was lost.
	for end := time.Now().Add(clusterReach); ; {
		list, err := t.shards(group)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(m redis.Node) bool {
			return m.ID == n.id && m.Health == "online"
		}) {
			break
		}
		if t.pause(end) != nil {
			return fmt.Errorf("%s, node %s, answers: it is not replaced. keyp cluster remove takes away a member that works",
				n.addr, n.id)
		}
	}
	if err := t.fits(group, addr, known); err != nil { // before the other one is gone
		return err
	}
	if err := t.forget(known, n); err != nil {
		return err
	}
	t.say("%s, node %s, is no member any more", n.addr, n.id)
	return t.add(group, []string{addr})
}
