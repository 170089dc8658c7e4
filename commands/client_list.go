package commands

import (
	"sort"
	"strconv"
	"time"
)

// clientType is a kind of connection as CLIENT LIST and KILL name it.
type clientType uint8

const (
	typeNormal clientType = iota
	typeMaster
	typeReplica
	typePubSub
)

// clientType reads the name of a kind of connection.
func (a *Cursor) clientType() clientType {
	name := a.Bytes()
	for i, names := range [][]string{{"NORMAL"}, {"MASTER"}, {"REPLICA", "SLAVE"}, {"PUBSUB"}} {
		for _, n := range names {
			if isWord(name, n) {
				return clientType(i)
			}
		}
	}
	a.Fail(Error("ERR Unknown client type '" + clip(name, 128) + "'"))
	return typeNormal
}

// kind is the kind of a connection. There are no replicas yet.
func (c *Client) kind() clientType {
	if c.Subscribed() {
		return typePubSub
	}
	return typeNormal
}

func clientList(c *Ctx) error {
	f, err := c.clientFilter(false, errListID)
	if err != nil {
		return err
	}
	var text []byte
	for _, other := range c.Env.clientsByID() {
		if f.fits(c, other) {
			text = c.appendClient(text, other)
		}
		if c.Out.Max > 0 && len(text) > c.Out.Max {
			break // Out is full with that, and no reply is sent
		}
	}
	c.Out.Verbatim("txt", string(text))
	return nil
}

// clientsByID returns the connections, the oldest first.
func (e *Env) clientsByID() []*Client {
	list := make([]*Client, 0, len(e.Clients))
	for _, other := range e.Clients {
		list = append(list, other)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].ID < list[j].ID })
	return list
}

// appendClient appends a connection's line of CLIENT LIST to b.
func (c *Ctx) appendClient(b []byte, other *Client) []byte {
	now := c.Env.Clock.Mono()
	field := func(name, value string) {
		if len(b) > 0 && b[len(b)-1] != '\n' {
			b = append(b, ' ')
		}
		b = append(append(append(b, name...), '='), value...)
	}
	number := func(name string, n int64) { field(name, strconv.FormatInt(n, 10)) }
	var used, free, output, memory int
	if other.Conn != nil {
		used, free = other.Conn.QueryBuffer()
		output, memory = other.Conn.OutputBuffer(), other.Conn.Memory()
	}
	last, idle, args := other.Last, now-other.LastActive, 0
	if other == c.Client {
		last, idle = c.Spec, 0
		for _, arg := range c.Args {
			args += len(arg)
		}
	}
	field("id", strconv.FormatUint(other.ID, 10))
	field("addr", other.Addr)
	field("laddr", other.LAddr)
	number("fd", int64(other.FD))
	field("name", other.Name)
	number("age", int64((now-other.Created)/time.Second))
	number("idle", int64(max(idle, 0)/time.Second))
	watches, changed := c.Env.Changes.watches(other)
	field("flags", other.flags(&c.Env.Tracking, changed))
	number("db", int64(other.DB))
	subscriptions := c.Env.PubSub.subscriptions(other)
	number("sub", int64(subscriptions[Channel]))
	number("psub", int64(subscriptions[Pattern]))
	number("ssub", int64(subscriptions[ShardChannel]))
	number("multi", int64(other.multi()))
	number("watch", int64(watches))
	number("qbuf", int64(used))
	number("qbuf-free", int64(free))
	number("argv-mem", int64(args))
	number("multi-mem", int64(other.Queued()+c.Env.Changes.watchMemory(other)))
	number("rbs", 0)
	number("rbp", 0)
	number("obl", int64(output))
	number("oll", 0)
	number("omem", int64(output))
	number("tot-mem", int64(memory))
	events := "r"
	if output > 0 {
		events = "rw"
	}
	field("events", events)
	if last == nil {
		field("cmd", "NULL")
	} else {
		field("cmd", last.full)
	}
	field("user", other.user.name())
	number("redir", c.Env.Tracking.redirection(other.ID))
	number("resp", int64(other.Proto))
	field("lib-name", other.LibName)
	field("lib-ver", other.LibVer)
	number("io-thread", 0)
	number("tot-net-in", int64(other.NetIn))
	number("tot-net-out", int64(other.NetOut))
	number("tot-cmds", int64(other.Commands))
	return append(b, '\n')
}

// multi returns the number of commands in the client's transaction; -1 if there is none.
func (c *Client) multi() int {
	if c.queue == nil {
		return -1
	}
	return len(c.queue.commands)
}

// flags returns the letters of CLIENT LIST for the client; N if no other letter applies. changed
// says that a key which the client watches has changed.
func (c *Client) flags(t *Tracking, changed bool) string {
	var b []byte
	if c.Monitor {
		b = append(b, 'O')
	}
	if c.Subscribed() {
		b = append(b, 'P')
	}
	if c.queue != nil {
		b = append(b, 'x')
	}
	if c.Conn != nil && c.Conn.Blocked() {
		b = append(b, 'b')
	}
	if tr, on := t.of(c.ID); on {
		b = append(b, 't')
		if tr.mode.is(trackBroken) {
			b = append(b, 'R')
		}
		if tr.mode.is(trackBcast) {
			b = append(b, 'B')
		}
	}
	if changed {
		b = append(b, 'd')
	}
	if c.ReadOnly {
		b = append(b, 'r')
	}
	if c.Closing {
		b = append(b, 'c')
	}
	if len(c.Addr) > 0 && c.Addr[0] == '/' {
		b = append(b, 'U')
	}
	if c.NoEvict {
		b = append(b, 'e')
	}
	if c.NoTouch {
		b = append(b, 'T')
	}
	if b == nil {
		return "N"
	}
	return string(b)
}

func clientKill(c *Ctx) error {
	if len(c.Args) == 3 {
		for _, other := range c.Env.clientsByID() {
			if other.Addr == string(c.Arg(2)) {
				c.kill(other)
				c.Out.OK()
				return nil
			}
		}
		return errNoClient
	}
	f, err := c.clientFilter(true, errClientID)
	if err != nil {
		return err
	}
	killed := int64(0)
	for _, other := range c.Env.clientsByID() {
		if f.fits(c, other) {
			c.kill(other)
			killed++
		}
	}
	c.Out.Int(killed)
	return nil
}

// kill closes a connection. It closes the caller's own connection only after the reply.
func (c *Ctx) kill(other *Client) {
	if other == c.Client {
		other.Closing = true
	}
	if other.Conn != nil {
		other.Conn.Kill()
	}
}
