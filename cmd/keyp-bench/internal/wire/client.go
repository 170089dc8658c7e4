package wire

import (
	"context"
	"fmt"
	"net"
	"time"

	"keyp/internal/clock"
)

// Client asks one question at a time over one connection. It is not safe for
// concurrent use.
type Client struct {
	conn    net.Conn
	timeout time.Duration
	out, in []byte
	pending int // bytes of in that hold an answer already given out
	parts   []Reply
}

// Dial connects to a server. Each later question must be answered within timeout.
func Dial(ctx context.Context, addr string, timeout time.Duration) (*Client, error) {
	dialer := net.Dialer{Timeout: timeout}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, timeout: timeout, in: make([]byte, 0, 4096)}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Do sends a command and returns its reply; an error reply is a reply. The reply
// is valid until the next question. After an error the client is of no more use.
func (c *Client) Do(args ...string) (reply Reply, err error) {
	if err := c.Send(args...); err != nil {
		return Reply{}, err
	}
	err = c.next(func(b []byte) (n int, err error) {
		reply, n, err = Scan(b)
		return n, err
	})
	return reply, err
}

// Send sends a command that is answered by messages: see Receive.
func (c *Client) Send(args ...string) error {
	c.out = AppendCommand(c.out[:0], args...)
	if err := c.patience(); err != nil {
		return err
	}
	_, err := c.conn.Write(c.out)
	return err
}

// Receive waits for the next message, for the timeout at most, and gives its parts. They are
// valid until the next call.
func (c *Client) Receive() (parts []Reply, err error) {
	if err := c.patience(); err != nil {
		return nil, err
	}
	err = c.next(func(b []byte) (n int, err error) {
		c.parts, n, err = ScanArray(c.parts[:0], b)
		return n, err
	})
	return c.parts, err
}

// patience is for what comes next.
func (c *Client) patience() error {
	return c.conn.SetDeadline(time.UnixMilli(clock.System.Now()).Add(c.timeout))
}

// next reads until scan finds what it looks for, which has n bytes.
func (c *Client) next(scan func(b []byte) (n int, err error)) error {
	c.in = append(c.in[:0], c.in[c.pending:]...)
	c.pending = 0
	for {
		n, err := scan(c.in)
		if err != nil {
			return err
		}
		if n > 0 {
			c.pending = n
			return nil
		}
		if len(c.in) == cap(c.in) {
			c.in = append(c.in, 0)[:len(c.in)]
		}
		m, err := c.conn.Read(c.in[len(c.in):cap(c.in)])
		if err != nil {
			return err
		}
		c.in = c.in[:len(c.in)+m]
	}
}

// Int asks a question whose answer is a number.
func (c *Client) Int(args ...string) (int64, error) {
	reply, err := c.Do(args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", args[0], err)
	}
	if reply.Kind != Integer {
		return 0, fmt.Errorf("%s: answered with %v, not a number", args[0], reply)
	}
	return reply.Int, nil
}
