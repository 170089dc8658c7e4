package commands

import "time"

// ReplyMode is the setting of CLIENT REPLY: whether a client gets replies.
type ReplyMode uint8

// The reply modes. CLIENT REPLY SKIP sets ReplySkipNext. That becomes ReplySkip for the next
// command, and ReplyOn after it.
const (
	ReplyOn ReplyMode = iota
	ReplyOff
	ReplySkip
	ReplySkipNext
)

// Client is the state of one connection. It belongs to the event loop: only code that runs there
// touches it.
type Client struct {
	ID            uint64
	Conn          Conn
	Addr, LAddr   string
	FD            int
	Created       time.Duration // reading of Mono, as the wall clock may step
	LastActive    time.Duration // when it last sent something, or took a reply
	Name          string
	LibName       string
	LibVer        string
	DB            int
	Proto         int // 2 or 3
	Authenticated bool
	Reply         ReplyMode
	NoEvict       bool
	NoTouch       bool
	ReadOnly      bool        // has said READONLY
	Monitor       bool        // is shown all commands
	Last          *Spec       // the last command
	Wrote         uint64      // the LSN that its replies have depended on, the largest one
	Commands      uint64      // commands run
	NetIn, NetOut uint64      // bytes
	Closing       bool        // close after the output is sent; no further command runs
	subscriber    *Subscriber // nil: it never had a subscription

	user     identity  // whose permissions it has
	queue    *queue    // since MULTI; nil: no transaction
	waits    int       // bytes of its places in Waiters
	watching *watching // by WATCH; Changes.mu guards it

	fieldsets fieldsets // of HIMPORT
}

// Conn is the part of a connection that commands use.
type Conn interface {
	// QueryBuffer is the unparsed input and the free room of its buffer, in bytes.
	QueryBuffer() (used, free int)
	// OutputBuffer is the output that is not sent yet, in bytes.
	OutputBuffer() int
	// Memory is the memory of the connection, in bytes.
	Memory() int
	// Push sends a message that is not the reply to a command. The message is already encoded for
	// the client's protocol, and must not change afterwards. It is sent when the log is durable to
	// lsn, and after the reply of the client's running command. A connection that is about to end
	// drops it. A connection over its output limit is closed.
	Push(lsn uint64, message []byte)
	// Blocked reports whether the connection waits for a blocking command. Unblock ends that wait:
	// with an -UNBLOCKED error, or as if the command's time were up.
	Blocked() bool
	Unblock(withError bool) bool
	// Secure reports whether the connection uses TLS.
	Secure() bool
	// Kill closes the connection. It closes the caller's own connection after the reply, and any
	// other one at once.
	Kill()
}

// Reset gives a client the state of a new connection (RESET). CLIENT REPLY SKIP still applies to
// the next reply, even if that is the one of RESET.
func (e *Env) Reset(c *Client) {
	e.Tracking.Broadcast()
	c.user.become(e.users.byDefault)
	c.Name, c.DB, c.Proto, c.Authenticated = "", 0, 2, e.users.open()
	e.backups.reset(c.ID)
	if c.Reply != ReplySkip {
		c.Reply = ReplyOn
	}
	c.NoEvict, c.NoTouch, c.ReadOnly, c.fieldsets = false, false, false, fieldsets{}
}

// ClientMemory returns the memory that the server keeps for a connection besides its buffers, in
// bytes. That is the memory of commands that wait for EXEC, watched keys, keys that the client
// waits for, subscriptions, and prefixes of CLIENT TRACKING.
func (e *Env) ClientMemory(c *Client) int {
	n := c.Queued() + e.Changes.watchMemory(c) + c.waits + c.fieldsets.bytes
	if c.subscriber != nil {
		n += int(c.subscriber.bytes.Load())
	}
	if tr, on := e.Tracking.of(c.ID); on {
		n += tr.bytes
	}
	return n
}
