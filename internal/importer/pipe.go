package importer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"keyp/resp"
)

// This file sends commands to a server in pipelines, and reads the replies.

const (
	batchCommands = 512
	batchBytes    = 1 << 20
	maxDepth      = 32 // of a reply
	null          = "(nil)"
)

// sent is a command whose reply has not arrived yet.
type sent struct {
	what    string // the command's name
	key     []byte // or the first line of a library
	typ     string // of the key; empty: it is about none
	expires bool   // the key has a deadline
}

// pipe sends commands in batches while a goroutine reads the replies. The goroutine gets each batch
// before the batch is sent, so that a server with long replies never waits for a reader.
type pipe struct {
	conn    net.Conn
	in      *bufio.Reader
	out     resp.Writer
	batch   []sent
	batches chan []sent
	done    chan error
	replied func(s sent, reply, failure string)
}

func newPipe(conn net.Conn) *pipe {
	return &pipe{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
}

// ask sends one command and returns its reply. It must not be called after start.
func (p *pipe) ask(args ...string) (reply, failure string, err error) {
	p.out.Array(len(args))
	for _, arg := range args {
		p.out.BulkString(arg)
	}
	if err := p.write(); err != nil {
		return "", "", err
	}
	return readReply(p.in, true, 0)
}

func (p *pipe) write() error {
	_, err := p.conn.Write(p.out.Buf)
	if p.out.Truncate(0); cap(p.out.Buf) > 4*batchBytes {
		p.out.Buf = nil
	}
	return err
}

// start begins to read replies. It calls replied for each; failure is the text of an error reply.
func (p *pipe) start(replied func(s sent, reply, failure string)) {
	p.replied, p.batches, p.done = replied, make(chan []sent, 4), make(chan error, 1)
	go func() {
		var err error
		for batch := range p.batches {
			for i := range batch {
				if err != nil {
					break
				}
				var reply, failure string
				if reply, failure, err = readReply(p.in, false, 0); err == nil {
					p.replied(batch[i], reply, failure)
				} else {
					err = errors.Join(fmt.Errorf("the server's replies end: %w", err),
						p.conn.Close())
				}
			}
		}
		p.done <- err
	}()
}

// add begins a command of n arguments, which the caller writes to out.
func (p *pipe) add(s sent, n int) error {
	if len(p.batch) >= batchCommands || p.out.Len() >= batchBytes {
		if err := p.flush(); err != nil {
			return err
		}
	}
	p.batch = append(p.batch, s)
	p.out.Array(n)
	return nil
}

func (p *pipe) flush() error {
	p.batches <- p.batch
	p.batch = make([]sent, 0, batchCommands)
	return p.write()
}

// finish sends the rest and waits for all replies. If err is not nil, it closes the connection
// instead.
func (p *pipe) finish(err error) error {
	if err == nil {
		err = p.flush()
	} else {
		err = errors.Join(err, p.conn.Close())
	}
	close(p.batches)
	failed := <-p.done
	if failed != nil && (err == nil || errors.Is(err, net.ErrClosed)) { // they closed it
		return failed
	}
	return err
}

// readReply reads one reply. reply is its text if text is true. failure is the first error that the
// reply is or contains.
func readReply(in *bufio.Reader, text bool, depth int) (reply, failure string, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", "", err
	}
	if len(line) < 3 || depth > maxDepth {
		return "", "", errors.New("it is no reply")
	}
	kind, word := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+', ':':
		return word, "", nil
	case '-':
		return "", word, nil
	case '$', '*':
	default:
		return "", "", errors.New("it is no reply")
	}
	n, err := strconv.Atoi(word)
	switch {
	case err != nil:
		return "", "", errors.New("it is no reply")
	case n < 0:
		return null, "", nil
	case kind == '$' && !text:
		_, err = in.Discard(n + 2)
		return "", "", err
	case kind == '$':
		b, err := io.ReadAll(io.LimitReader(in, int64(n)+2))
		return string(b[:min(len(b), n)]), "", err
	}
	for ; n > 0; n-- {
		one, bad, err := readReply(in, text, depth+1)
		if err != nil {
			return "", "", err
		}
		if failure == "" {
			failure = bad
		}
		reply += one + " "
	}
	return reply, failure, nil
}
