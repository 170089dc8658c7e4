package commands

import (
	"sort"
	"sync"
	"sync/atomic"

	"keyp/resp"
)

// Topic is a kind of name to which a client can subscribe.
type Topic uint8

// The topics. Shard channels are channels with names of their own.
const (
	Channel Topic = iota
	Pattern
	ShardChannel
	topics
)

// Subscriptions are the subscriptions of all clients. Any goroutine may call the methods: a script
// publishes on the goroutine of its task.
type Subscriptions struct {
	mu struct {
		sync.Mutex
		audience [topics]map[string]*audience
		patterns []*audience // the audiences of the patterns, to be walked
		clients  int         // clients that have subscriptions
	}

	listened atomic.Bool // somebody listens to a channel or pattern
	turned   func()      // called when listened changes; may be nil
}

// audience contains the subscribers of one name.
type audience struct {
	name    []byte
	members []*Subscriber
	alone   [1]*Subscriber // the memory of members while there is one
	at      int            // place in Subscriptions.patterns
}

// Subscriber is a client as Subscriptions sees it. It exists until the client ends, even without
// subscriptions.
type Subscriber struct {
	client *Client
	// places has, for each audience that the client is in, the client's index among the audience's
	// members. Subscriptions.mu guards places. mu is also locked while number and bytes are
	// written; these are read without it.
	places [topics]map[*audience]int
	number atomic.Int64
	bytes  atomic.Int64 // of the subscriptions, about
}

// Subscribed reports whether the client has subscriptions, which restrict it in RESP2.
func (c *Client) Subscribed() bool { return c.subscriber != nil && c.subscriber.number.Load() > 0 }

// subscribe adds a subscription. It returns how many the client then has: of shard channels, or of
// channels and patterns together.
func (p *Subscriptions) subscribe(c *Client, topic Topic, name []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.subscriber == nil {
		c.subscriber = &Subscriber{client: c}
	}
	s := c.subscriber
	a := p.mu.audience[topic][string(name)]
	if a == nil {
		a = p.open(topic, name)
	} else if _, there := s.places[topic][a]; there {
		return s.count(topic)
	}
	if s.places[topic] == nil {
		s.places[topic] = map[*audience]int{}
	}
	s.places[topic][a] = len(a.members)
	a.members = append(a.members, s)
	s.bytes.Add(subscriptionMemory(a.name))
	if s.number.Add(1) == 1 {
		p.mu.clients++
	}
	return s.count(topic)
}

// subscriptionMemory returns about the memory of a subscription, in bytes: its name for the client
// and for the audience, and its places.
func subscriptionMemory(name []byte) int64 {
	const overhead = 145
	return int64(2*len(name) + overhead)
}

// open creates the audience of a name that has no subscribers yet.
func (p *Subscriptions) open(topic Topic, name []byte) *audience {
	a := &audience{name: append([]byte{}, name...), at: len(p.mu.patterns)}
	a.members = a.alone[:0]
	if p.mu.audience[topic] == nil {
		p.mu.audience[topic] = map[string]*audience{}
	}
	p.mu.audience[topic][string(name)] = a
	if topic == Pattern {
		p.mu.patterns = append(p.mu.patterns, a)
	}
	p.turn()
	return a
}

// turn updates whether anybody listens to a channel or a pattern. Keyspace events are raised only
// if somebody does.
func (p *Subscriptions) turn() {
	listened := len(p.mu.audience[Channel])+len(p.mu.patterns) > 0
	if p.listened.Swap(listened) != listened && p.turned != nil {
		p.turned()
	}
}

// unsubscribe removes a subscription, if there is one. It returns the same count as subscribe.
func (p *Subscriptions) unsubscribe(c *Client, topic Topic, name []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := c.subscriber
	if s == nil {
		return 0
	}
	if a := p.mu.audience[topic][string(name)]; a != nil {
		if at, there := s.places[topic][a]; there {
			p.leave(s, topic, a, at)
		}
	}
	return s.count(topic)
}

// leave removes a member from an audience. The last member takes the free index.
func (p *Subscriptions) leave(s *Subscriber, topic Topic, a *audience, at int) {
	last := len(a.members) - 1
	moved := a.members[last]
	a.members[at], a.members[last] = moved, nil
	a.members = a.members[:last]
	moved.places[topic][a] = at
	delete(s.places[topic], a)
	s.bytes.Add(-subscriptionMemory(a.name))
	if s.number.Add(-1) == 0 {
		p.mu.clients--
	}
	if last > 0 {
		if cap(a.members) > 64 && last < cap(a.members)/4 {
			a.members = append(make([]*Subscriber, 0, 2*last), a.members...)
		}
		return
	}
	delete(p.mu.audience[topic], string(a.name))
	if topic == Pattern {
		last := len(p.mu.patterns) - 1
		p.mu.patterns[last].at = a.at
		p.mu.patterns[a.at], p.mu.patterns[last] = p.mu.patterns[last], nil
		p.mu.patterns = p.mu.patterns[:last]
	}
	p.turn()
}

// gone ends all subscriptions of a client.
func (p *Subscriptions) gone(c *Client) {
	if c.subscriber == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic, places := range c.subscriber.places {
		for a, at := range places {
			p.leave(c.subscriber, Topic(topic), a, at)
		}
	}
	c.subscriber = nil
}

// count returns the number that a confirmation contains.
func (s *Subscriber) count(topic Topic) int {
	if topic == ShardChannel {
		return len(s.places[ShardChannel])
	}
	return len(s.places[Channel]) + len(s.places[Pattern])
}

// subscriptions returns how many subscriptions of each topic a client has.
func (p *Subscriptions) subscriptions(c *Client) (n [topics]int) {
	if c.subscriber == nil {
		return n
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic, places := range c.subscriber.places {
		n[topic] = len(places)
	}
	return n
}

// names returns the names to which a client listens, in order.
func (p *Subscriptions) names(c *Client, topic Topic) []string {
	if c.subscriber == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]string, 0, len(c.subscriber.places[topic]))
	for a := range c.subscriber.places[topic] {
		list = append(list, string(a.name))
	}
	sort.Strings(list)
	return list
}

// active returns the names that have subscribers and for which takes returns true, in order.
func (p *Subscriptions) active(topic Topic, takes func(name []byte) bool) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for name, a := range p.mu.audience[topic] {
		if takes(a.name) {
			list = append(list, name)
		}
	}
	sort.Strings(list)
	return list
}

// listeners returns how many clients listen to a name.
func (p *Subscriptions) listeners(topic Topic, name []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.mu.audience[topic][string(name)]; a != nil {
		return len(a.members)
	}
	return 0
}

// counts returns how many names of each topic have subscribers, and how many clients have
// subscriptions.
func (p *Subscriptions) counts() (n [topics]int, clients int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic := range p.mu.audience {
		n[topic] = len(p.mu.audience[topic])
	}
	return n, p.mu.clients
}

// delivery contains the subscribers of one name that get a message.
type delivery struct {
	pattern []byte // nil: they listen to the channel itself
	to      []*Subscriber
}

// receivers returns the subscribers that get a message to a channel or shard channel now. Those of
// the channel itself come first. n is how often the message is received: a client gets it once for
// the channel and once for each matching pattern.
func (p *Subscriptions) receivers(topic Topic, channel []byte) (list []delivery, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.mu.audience[topic][string(channel)]; a != nil {
		list = append(list, delivery{to: append([]*Subscriber(nil), a.members...)})
		n = len(a.members)
	}
	if topic == ShardChannel {
		return list, n
	}
	for _, a := range p.mu.patterns {
		if cheapMatch(a.name, channel) {
			list = append(list, delivery{pattern: a.name,
				to: append([]*Subscriber(nil), a.members...)})
			n += len(a.members)
		}
	}
	return list, n
}

// publish sends a message to the subscribers in list after the log is durable up to lsn. It encodes
// the message once for each protocol and pattern. Only the loop may call publish.
func (e *Env) publish(list []delivery, topic Topic, channel, message []byte, lsn uint64) {
	for _, d := range list {
		var encoded [2][]byte
		for _, to := range d.to {
			c := to.client
			if c.Conn == nil {
				continue
			}
			as := &encoded[c.Proto-2]
			if *as == nil {
				*as = encodeMessage(c.Proto, topic, d.pattern, channel, message)
			}
			c.Conn.Push(lsn, *as)
		}
	}
}

func encodeMessage(proto int, topic Topic, pattern, channel, message []byte) []byte {
	const overhead = 64
	w := resp.Writer{Proto: proto,
		Buf: make([]byte, 0, overhead+len(pattern)+len(channel)+len(message))}
	switch {
	case pattern != nil:
		w.Push(4)
		w.BulkString("pmessage")
		w.Bulk(pattern)
	case topic == ShardChannel:
		w.Push(3)
		w.BulkString("smessage")
	default:
		w.Push(3)
		w.BulkString("message")
	}
	w.Bulk(channel)
	w.Bulk(message)
	return w.Buf
}
