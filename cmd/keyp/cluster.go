package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/config"
)

// This file contains the subcommand "keyp cluster". It creates a group of servers with the same
// data, adds, replaces and removes servers, and shows their state.

const clusterUsage = `usage: keyp cluster create ADDR ADDR [ADDR...]    make a group of servers with cluster-enabled; the first one's keys stay, the others have none
       keyp cluster add ADDR NEWADDR              make a server a member of the group of another one
       keyp cluster remove ADDR NODE|MEMBERADDR   remove a member
       keyp cluster replace ADDR MEMBERADDR       have a server that has started empty at the address of a member whose disk is lost take its place
       keyp cluster replace ADDR NODE|MEMBERADDR NEWADDR
                                                  the same for a server at another address
       keyp cluster status ADDR                   list the members; status 0 if one leads and all answer and have got their data
       keyp cluster recover DIR NEWDIR [--yes]    of a group that has lost its majority: make a directory of one that is left; says first what may be lost
options: ` + serverUsage

const (
	// clusterWait bounds how long a member may take to get all data. After clusterSilent the tool
	// says what it waits for.
	clusterWait   = 10 * time.Minute
	clusterSilent = 30 * time.Second
	// clusterLook is the time between two questions to a member.
	clusterLook = 100 * time.Millisecond
	// clusterReach bounds how long a server that was just started may take to answer.
	clusterReach = 5 * time.Second
	// clusterStart bounds how long a server that starts again may take to answer.
	clusterStart = 30 * time.Second
)

// cluster makes and changes groups. Each command may be repeated: it does only what is still to do.
func cluster(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o := &redis.Options{Password: os.Getenv("REDISCLI_AUTH"), MaxRetries: -1, DialerRetries: 1,
		DialTimeout: 5 * time.Second, ReadTimeout: clusterStart, Protocol: 2, DisableIdentity: true}
	server := addServerFlags(flags)
	sure := flags.Bool("yes", false, "")
	words, err := parseWords(flags, args)
	if err == nil {
		err = server.apply(o)
	}
	if err != nil {
		return fmt.Errorf("%w; %s", err, clusterUsage)
	}
	redis.SetLogger(noLog{}) // errors are reported here
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	t := &clusterTool{ctx: ctx, o: o, out: out}
	switch {
	case len(words) >= 3 && words[0] == "create":
		return t.create(words[1:])
	case len(words) == 3 && words[0] == "add":
		return t.add(words[1], words[2:])
	case len(words) == 3 && words[0] == "remove":
		return t.remove(words[1], words[2])
	case len(words) == 3 && words[0] == "replace":
		return t.replace(words[1], words[2], words[2])
	case len(words) == 4 && words[0] == "replace":
		return t.replace(words[1], words[2], words[3])
	case len(words) == 2 && words[0] == "status":
		return t.status(words[1])
	case len(words) == 3 && words[0] == "recover":
		return recoverGroup(ctx, words[1], words[2], *sure, out)
	}
	commands := []string{"create", "add", "remove", "replace", "status", "recover"}
	if len(words) > 0 && !slices.Contains(commands, words[0]) {
		return fmt.Errorf("there is no command cluster %s%s (see keyp cluster --help)", words[0],
			config.Suggestion(words[0], commands...))
	}
	return errors.New(clusterUsage)
}

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// clusterTool runs a command of keyp cluster.
type clusterTool struct {
	ctx context.Context
	o   *redis.Options
	out io.Writer
}

// ask returns the reply to a command of a server.
func (t *clusterTool) ask(addr string, command ...any) (string, error) {
	c := t.client(addr)
	defer c.Close()
	reply, err := c.Do(t.ctx, command...).Text()
	if err != nil {
		return "", fmt.Errorf("%s: %w", addr, err)
	}
	return reply, nil
}

// groupNode is a line of CLUSTER NODES.
type groupNode struct {
	id, addr  string
	host      string
	port, bus string
	myself    bool
	leads     bool
}

// nodes returns the nodes of a server's group, as the server knows them.
func (t *clusterTool) nodes(addr string) (list []groupNode, err error) {
	text, err := t.ask(addr, "cluster", "nodes")
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Fields(line)
		if len(words) < 3 {
			return nil, fmt.Errorf("%s: CLUSTER NODES has the line %q", addr, line)
		}
		at, _, _ := strings.Cut(words[1], ",")
		client, bus, _ := strings.Cut(at, "@")
		n := groupNode{id: words[0], addr: client, bus: bus, myself: strings.Contains(words[2],
			"myself"), leads: strings.Contains(words[2], "master")}
		if n.host, n.port, err = net.SplitHostPort(client); err != nil {
			return nil, fmt.Errorf("%s: CLUSTER NODES has the line %q", addr, line)
		}
		list = append(list, n)
	}
	return list, nil
}

func (t *clusterTool) say(format string, args ...any) { fmt.Fprintf(t.out, format+"\n", args...) }

// pause waits until the next look is due. It returns an error if it is called after end, or ctx
// ends.
func (t *clusterTool) pause(end time.Time) error {
	if time.Now().After(end) {
		return errors.New("it takes too long")
	}
	select {
	case <-t.ctx.Done():
		return t.ctx.Err()
	case <-time.After(clusterLook):
		return nil
	}
}

// groupedAlready is a part of the error of a server that should found or join a group, but is
// already a member of one.
const groupedAlready = "member of a group already"

// lasting contains parts of servers' error texts. After an error with such a text, a retry does not
// help.
var lasting = []string{groupedAlready, "another group", "has keys", "secret of the cluster",
	"cluster support disabled"}

func (t *clusterTool) create(addrs []string) error {
	named := map[string]string{}
	for _, addr := range addrs {
		id, err := t.reach(addr)
		if err != nil {
			return err
		}
		if other, twice := named[id]; twice {
			return fmt.Errorf("%s and %s are the same server", other, addr)
		}
		named[id] = addr
	}
	switch _, err := t.ask(addrs[0], "cluster", "found"); {
	case err == nil:
		t.say("%s founds a group, with the keys that it has", addrs[0])
	case strings.Contains(err.Error(), groupedAlready):
		t.say("%s is a member of a group", addrs[0])
	default:
		return err
	}
	return t.add(addrs[0], addrs[1:])
}

// reach waits until a server that may be starting answers, and returns the server's node id.
func (t *clusterTool) reach(addr string) (id string, err error) {
	for end := time.Now().Add(clusterReach); ; {
		id, err := t.ask(addr, "cluster", "myid")
		if !errors.Is(err, syscall.ECONNREFUSED) || t.pause(end) != nil {
			return id, err
		}
	}
}

// add makes servers members of the group of another server, one after the other. Then it waits
// until they vote.
func (t *clusterTool) add(group string, addrs []string) error {
	added := map[string]bool{}
	for _, addr := range addrs {
		id, err := t.reach(addr)
		if err == nil {
			err = t.join(group, addr, id)
		}
		if err != nil {
			return err
		}
		added[id] = true
	}
	return t.complete(group, added)
}

func (t *clusterTool) join(group, addr, id string) error {
	host, port, err := net.SplitHostPort(group)
	if err != nil {
		return err
	}
	for end := time.Now().Add(clusterStart); ; {
		known, err := t.nodes(group)
		if err == nil {
			for i := range known {
				if known[i].id == id && known[i].myself {
					return fmt.Errorf("%s is the server that is asked: it cannot join itself", addr)
				}
				if known[i].id == id {
					t.say("%s is a member already", addr)
					return nil
				}
			}
			if err = t.meet(addr, host, port, known); err == nil {
				t.say("%s joins the group of %s", addr, group)
				return nil
			}
		}
		if slices.ContainsFunc(lasting, func(what string) bool {
			return strings.Contains(err.Error(), what)
		}) {
			return err
		}
		if t.pause(end) != nil {
			return err
		}
	}
}

// meet makes a server join the group of another one, whose nodes are known.
func (t *clusterTool) meet(addr, host, port string, known []groupNode) error {
	id, err := t.greet(addr, host, port, known)
	if err == nil {
		_, err = t.ask(addr, "cluster", "replicate", id)
	}
	return err
}

// greet introduces a server to the group of another one, whose nodes are known. It returns the id
// of the node of that other server, and an error if the server cannot join.
func (t *clusterTool) greet(addr, host, port string, known []groupNode) (id string, err error) {
	for _, n := range known {
		if !n.myself {
			continue
		}
		if ip, err := net.ResolveIPAddr("ip", host); err == nil {
			host = ip.String()
		}
		_, err := t.ask(addr, "cluster", "meet", host, port, n.bus)
		return n.id, err
	}
	return "", errors.New("the group does not name the server that was asked")
}

// complete waits until the added servers, given by their ids, have all data and vote. It reports
// other members that do not answer, and does not wait for them.
func (t *clusterTool) complete(group string, added map[string]bool) error {
	began, said, last := time.Now(), map[string]bool{}, error(nil)
	say := func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); !said[line] {
			said[line] = true
			t.say("%s", line)
		}
	}
	for {
		s, err := t.standing(group, added)
		if err == nil {
			for _, addr := range s.silent {
				say("%s is a member, and does not answer", addr)
			}
			if s.waits == "" && s.added == len(added) {
				t.completed(&s)
				return nil
			}
			if err = errors.New("the group does not name all new members"); s.waits != "" {
				err = errors.New(s.waits)
			}
		}
		if last = err; time.Since(began) > clusterSilent {
			say("waiting until the new members have all data, and vote: %v", last)
		}
		if bad := t.pause(began.Add(clusterWait)); bad != nil {
			return fmt.Errorf("the new members do not have all data yet, and go on to get it: %w",
				errors.Join(bad, last))
		}
	}
}

// completed prints how many members the group has.
func (t *clusterTool) completed(s *standing) {
	if silent := len(s.silent); silent > 0 {
		t.say("the group has %d members, of which %d vote and answer", s.members, s.members-silent)
		return
	}
	t.say("the group has %d members, and all of them vote", s.members)
}

// standing is the state of a group while servers are added to it.
type standing struct {
	members, added int
	waits          string   // why the tool waits: a new member, or another one, has not all data
	silent         []string // others that do not answer
}

func (t *clusterTool) standing(group string, added map[string]bool) (now standing, err error) {
	list, err := t.shards(group)
	if err != nil {
		return now, err
	}
	for i := range list {
		node, addr := &list[i], t.nodeAddr(&list[i])
		now.members++
		switch {
		case added[node.ID]:
			now.added++
		case node.Health == "failed":
			now.silent = append(now.silent, addr)
			continue
		}
		if node.Health != "online" {
			now.waits = fmt.Sprintf("%s is %s", addr, node.Health)
		}
	}
	return now, nil
}

func (t *clusterTool) remove(group, which string) error {
	known, err := t.nodes(group)
	if err != nil {
		return err
	}
	var gone *groupNode
	for i := range known {
		if n := &known[i]; n.id == which || n.addr == which {
			if gone != nil {
				return fmt.Errorf(
					"two members have the address %s: name one by its node id, %s or %s",
					which, gone.id, n.id)
			}
			gone = n
		}
	}
	if gone == nil {
		t.say("%s is no member", which)
		return nil
	}
	if err := t.forget(known, gone); err != nil {
		return err
	}
	t.say("%s is no member any more. Stop it, or have it begin again, without its keys: CLUSTER RESET HARD",
		gone.addr)
	return nil
}

// forget removes a node from a group. If that node leads, another one becomes the leader first.
func (t *clusterTool) forget(known []groupNode, gone *groupNode) error {
	var other *groupNode
	for i := range known {
		if n := &known[i]; n != gone && (other == nil || n.leads) {
			other = n
		}
	}
	if other == nil {
		return errors.New("the last member cannot be removed")
	}
	if gone.leads {
		if _, err := t.ask(other.addr, "cluster", "failover"); err != nil {
			return err
		}
		t.say("%s leads now", other.addr)
	}
	_, err := t.ask(other.addr, "cluster", "forget", gone.id)
	return err
}
