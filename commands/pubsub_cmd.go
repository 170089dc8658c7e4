package commands

import (
	"bytes"
	"unsafe"
)

// subscriptionFlags are the flags of commands that reply with push messages, which CLIENT REPLY
// does not hold back.
const subscriptionFlags = PubSubFlag | NoScript | Loading | Stale | Pushes | InSubscription

const publishFlags = PubSubFlag | Loading | Stale | Fast | MayReplicate

var pubsubCommands = []Spec{
	{
		Name: "SUBSCRIBE", Group: PubSub, Since: "2.0.0", Arity: -2, Flags: subscriptionFlags,
		Scope:      OwnClient,
		Channels:   allChannels,
		Summary:    "Listens to channels.",
		Complexity: "O(N) where N is the number of channels to subscribe to.",
		Args:       []Arg{stringArg("channel").many()},
		Run:        func(c *Ctx) error { return c.subscribe(Channel, "subscribe") },
	},
	{
		Name: "UNSUBSCRIBE", Group: PubSub, Since: "2.0.0", Arity: -1, Flags: subscriptionFlags,
		Scope:      OwnClient,
		Summary:    "Listens no longer to channels.",
		Complexity: "O(N) where N is the number of channels to unsubscribe.",
		Args:       []Arg{stringArg("channel").opt().many()},
		Run:        func(c *Ctx) error { return c.unsubscribe(Channel, "unsubscribe") },
	},
	{
		Name: "PSUBSCRIBE", Group: PubSub, Since: "2.0.0", Arity: -2, Flags: subscriptionFlags,
		Scope:      OwnClient,
		Channels:   allPatterns,
		Summary:    "Listens to the channels that match patterns.",
		Complexity: "O(N) where N is the number of patterns to subscribe to.",
		Args:       []Arg{patternArg("pattern").many()},
		Run:        func(c *Ctx) error { return c.subscribe(Pattern, "psubscribe") },
	},
	{
		Name: "PUNSUBSCRIBE", Group: PubSub, Since: "2.0.0", Arity: -1, Flags: subscriptionFlags,
		Scope:      OwnClient,
		Summary:    "Listens no longer to the channels that match patterns.",
		Complexity: "O(N) where N is the number of patterns to unsubscribe.",
		Args:       []Arg{patternArg("pattern").opt().many()},
		Run:        func(c *Ctx) error { return c.unsubscribe(Pattern, "punsubscribe") },
	},
	{
		Name: "SSUBSCRIBE", Group: PubSub, Since: "7.0.0", Arity: -2, Flags: subscriptionFlags,
		Scope:      OwnClient,
		Channels:   allChannels,
		Summary:    "Listens to shard channels.",
		Complexity: "O(N) where N is the number of shard channels to subscribe to.",
		Keys:       []KeySpec{KeysFrom(1, 1, NotKey)},
		Args:       []Arg{stringArg("shardchannel").many()},
		Run:        func(c *Ctx) error { return c.subscribe(ShardChannel, "ssubscribe") },
	},
	{
		Name: "SUNSUBSCRIBE", Group: PubSub, Since: "7.0.0", Arity: -1, Flags: subscriptionFlags,
		Scope:      OwnClient,
		Summary:    "Listens no longer to shard channels.",
		Complexity: "O(N) where N is the number of shard channels to unsubscribe.",
		Keys:       []KeySpec{KeysFrom(1, 1, NotKey)},
		Args:       []Arg{stringArg("shardchannel").opt().many()},
		Run:        func(c *Ctx) error { return c.unsubscribe(ShardChannel, "sunsubscribe") },
	},
	{
		Name: "PUBLISH", Group: PubSub, Since: "2.0.0", Arity: 3, Flags: publishFlags,
		Scope:      OwnClient,
		Channels:   firstChannel,
		Summary:    "Sends a message to those who listen to a channel.",
		Complexity: "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of subscribed patterns (by any client).",
		Args:       []Arg{stringArg("channel"), stringArg("message")},
		Run:        func(c *Ctx) error { return c.publish(Channel) },
	},
	{
		Name: "SPUBLISH", Group: PubSub, Since: "7.0.0", Arity: 3, Flags: publishFlags,
		Scope:      OwnClient,
		Channels:   firstChannel,
		Summary:    "Sends a message to those who listen to a shard channel.",
		Complexity: "O(N) where N is the number of clients subscribed to the receiving shard channel.",
		Keys:       []KeySpec{Key(1, NotKey)},
		Args:       []Arg{stringArg("shardchannel"), stringArg("message")},
		Run:        func(c *Ctx) error { return c.publish(ShardChannel) },
	},
	{
		Name: "PUBSUB", Group: PubSub, Since: "2.8.0", Arity: -2,
		Summary: "Describes subscriptions.", Complexity: "Depends on subcommand.",
		Sub: []Spec{
			{
				Name: "CHANNELS", Group: PubSub, Since: "2.8.0", Arity: -2,
				Flags: PubSubFlag | Loading | Stale, Scope: OnLoop,
				Summary:    "Gives the channels that somebody listens to.",
				Complexity: "O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively short channels and patterns)",
				Args:       []Arg{patternArg("pattern").opt()},
				Run:        func(c *Ctx) error { return c.activeChannels(Channel) },
			},
			{
				Name: "NUMSUB", Group: PubSub, Since: "2.8.0", Arity: -2,
				Flags: PubSubFlag | Loading | Stale, Scope: OnLoop,
				Summary:    "Counts who listens to channels.",
				Complexity: "O(N) for the NUMSUB subcommand, where N is the number of requested channels",
				Args:       []Arg{stringArg("channel").opt().many()},
				Run:        func(c *Ctx) error { return c.countListeners(Channel) },
			},
			{
				Name: "NUMPAT", Group: PubSub, Since: "2.8.0", Arity: 2,
				Flags: PubSubFlag | Loading | Stale, Scope: OnLoop,
				Summary: "Counts the patterns that somebody listens to.", Complexity: "O(1)",
				Run: func(c *Ctx) error {
					n, _ := c.Env.PubSub.counts()
					c.Out.Int(int64(n[Pattern]))
					return nil
				},
			},
			{
				Name: "SHARDCHANNELS", Group: PubSub, Since: "7.0.0", Arity: -2,
				Flags: PubSubFlag | Loading | Stale, Scope: OnLoop,
				Summary:    "Gives the shard channels that somebody listens to.",
				Complexity: "O(N) where N is the number of active shard channels, and assuming constant time pattern matching (relatively short shard channels).",
				Args:       []Arg{patternArg("pattern").opt()},
				Run:        func(c *Ctx) error { return c.activeChannels(ShardChannel) },
			},
			{
				Name: "SHARDNUMSUB", Group: PubSub, Since: "7.0.0", Arity: -2,
				Flags: PubSubFlag | Loading | Stale, Scope: OnLoop,
				Summary:    "Counts who listens to shard channels.",
				Complexity: "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels",
				Args:       []Arg{stringArg("shardchannel").opt().many()},
				Run:        func(c *Ctx) error { return c.countListeners(ShardChannel) },
			},
			uncategorised(helpFor("PUBSUB", PubSub, "6.2.0", Loading|Stale,
				"CHANNELS [<pattern>]",
				"    The channels that somebody listens to, those that match the pattern (default: '*').",
				"NUMPAT", "    The number of patterns that somebody listens to.",
				"NUMSUB [<channel> ...]", "    How many listen to each channel, patterns left out.",
				"SHARDCHANNELS [<pattern>]",
				"    The shard channels that somebody listens to, those that match the pattern (default: '*').",
				"SHARDNUMSUB [<shardchannel> ...]", "    How many listen to each shard channel.")),
		},
	},
}

// uncategorised removes the group's ACL category from a declaration.
func uncategorised(spec Spec) Spec {
	spec.Categories = []string{}
	return spec
}

// errRestricted returns the error for a command of a RESP2 client that has subscriptions. Such a
// client cannot distinguish a reply from a message.
func errRestricted(command string) Error {
	return Error("ERR Can't execute '" + command +
		"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
}

// restricted reports whether the client's subscriptions forbid a command.
func (c *Ctx) restricted(spec *Spec) bool {
	return c.Client.Proto == 2 && c.Client.Subscribed() && !spec.Is(InSubscription)
}

// confirm writes one of the messages that confirm a change of subscriptions; a nil name becomes
// null.
func (c *Ctx) confirm(kind string, name []byte, count int) {
	c.Out.Push(3)
	c.Out.BulkString(kind)
	if name == nil {
		c.Out.Null()
	} else {
		c.Out.Bulk(name)
	}
	c.Out.Int(int64(count))
}

func (c *Ctx) subscribe(topic Topic, kind string) error {
	for _, name := range c.Args[1:] {
		c.confirm(kind, name, c.Env.PubSub.subscribe(c.Client, topic, name))
	}
	return nil
}

// unsubscribe ends the subscriptions that are named, or all of a topic.
func (c *Ctx) unsubscribe(topic Topic, kind string) error {
	p := &c.Env.PubSub
	for _, name := range c.Args[1:] {
		c.confirm(kind, name, p.unsubscribe(c.Client, topic, name))
	}
	if len(c.Args) > 1 {
		return nil
	}
	names := p.names(c.Client, topic)
	for _, name := range names {
		c.confirm(kind, []byte(name), p.unsubscribe(c.Client, topic, []byte(name)))
	}
	if len(names) == 0 {
		n := p.subscriptions(c.Client)
		count := n[Channel] + n[Pattern]
		if topic == ShardChannel {
			count = n[ShardChannel]
		}
		c.confirm(kind, nil, count)
	}
	return nil
}

// publish determines the receivers of the message. The message is sent when the earlier changes of
// its transaction are durable.
func (c *Ctx) publish(topic Topic) error {
	list, n := c.Env.PubSub.receivers(topic, c.Arg(1))
	if n > 0 {
		channel, message := bytes.Clone(c.Arg(1)), bytes.Clone(c.Arg(2))
		env := c.Env // c is another command's by the time it leaves
		publish := func(lsn uint64) { env.publish(list, topic, channel, message, lsn) }
		if c.parent == nil {
			c.Emit(0, publish)
		} else { // among what the commands around it raise
			c.root().emits += len(channel) + len(message) + n*int(unsafe.Sizeof(&Subscriber{}))
			c.Txn.Among(publish)
		}
	}
	c.Out.Int(int64(n))
	return nil
}

func (c *Ctx) activeChannels(topic Topic) error {
	if len(c.Args) > 3 {
		return errSubcommandArgs("PUBSUB", c.Args[1])
	}
	names := c.Env.PubSub.active(topic, func(name []byte) bool {
		return len(c.Args) < 3 || c.matches(c.Arg(2), name)
	})
	c.Out.Array(len(names))
	for _, name := range names {
		c.Out.BulkString(name)
	}
	return nil
}

func (c *Ctx) countListeners(topic Topic) error {
	c.Out.Array(2 * (len(c.Args) - 2))
	for _, name := range c.Args[2:] {
		c.Out.Bulk(name)
		c.Out.Int(int64(c.Env.PubSub.listeners(topic, name)))
	}
	return nil
}
