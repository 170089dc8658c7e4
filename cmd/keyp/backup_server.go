package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// resumeTime is how long the tool tries to replace a lost connection. The server keeps the backup
// for the same time.
const resumeTime = time.Minute

// ofServer backs up a server to the target to.
func (t *backupTool) ofServer(o *redis.Options, to string) error {
	client := redis.NewClient(o)
	defer client.Close()
	context.AfterFunc(t.ctx, func() { client.Close() }) // and so the reply that is awaited
	r := &backupReader{client: client, conn: client.Conn(), addr: o.Addr}
	defer func() { r.conn.Close() }()
	fields, err := r.conn.Do(t.ctx, "keyp.backup", "begin").Slice()
	if err != nil && strings.Contains(err.Error(), "unknown command") {
		return errors.New("it is no server of Keyp")
	}
	if err != nil {
		return lostServer(err)
	}
	values := map[string]int64{}
	for i := 0; i+1 < len(fields); i += 2 {
		name, _ := fields[i].(string)
		values[name], _ = fields[i+1].(int64)
		if id, ok := fields[i+1].(string); ok && name == "id" {
			r.id = id
		}
	}
	m := moment{lsn: uint64(values["lsn"]), at: values["time"], keys: values["keys"],
		deadlines: values["deadlines"], bytes: values["size"] + values["log"]}
	return t.write(to, m, func(w io.Writer) error {
		ctx, stop := context.WithCancel(t.ctx)
		pieces := r.pieces(ctx)
		defer func() {
			stop()
			client.Close()
			for range pieces { // until the goroutine has ended, which uses the connection
			}
		}()
		for p := range pieces {
			if p.err != nil {
				return lostServer(p.err)
			}
			if _, err := io.WriteString(w, p.text); err != nil {
				return err
			}
		}
		return t.ctx.Err()
	})
}

// lostServer returns err. If the server has closed the connection, it adds that to the text.
func lostServer(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the server has ended the connection: %w", err)
	}
	return err
}

// backupReader reads the pieces of a backup. If a connection is lost, it opens another one.
type backupReader struct {
	client *redis.Client
	conn   *redis.Conn
	addr   string
	id     string // empty: the server has none, and the backup ends with its connection
	read   int64  // pieces
}

// piece is a part of a backup, as a server sent it.
type piece struct {
	text string
	err  error
}

// pieces reads one piece after the other, and reads the next one while the caller writes the
// previous one. The channel is closed after the last piece, after an error, or when ctx ends.
func (r *backupReader) pieces(ctx context.Context) <-chan piece {
	pieces := make(chan piece, 1)
	go func() {
		defer close(pieces)
		for {
			text, err := r.next(ctx)
			if errors.Is(err, redis.Nil) {
				return
			}
			select {
			case pieces <- piece{text, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return pieces
}

// next reads the next piece. If the connection is lost, it resumes the backup on another connection
// and reads the piece there.
func (r *backupReader) next(ctx context.Context) (string, error) {
	for {
		text, err := r.conn.Do(ctx, "keyp.backup", "read").Text()
		if err == nil {
			r.read++
		}
		if err == nil || r.id == "" || !lostConnection(ctx, err) {
			return text, err
		}
		fmt.Fprintf(os.Stderr,
			"keyp: the connection to %s is lost behind piece %d, and is made again: %v\n",
			r.addr, r.read, err)
		if failed := r.resume(ctx); failed != nil {
			return "", errors.Join(err, failed)
		}
	}
}

// lostConnection reports whether another connection may help after an error. It returns false if
// the server replied with the error, if no server listens, if the client was closed, or if ctx has
// ended.
func lostConnection(ctx context.Context, err error) bool {
	var reply redis.Error
	return ctx.Err() == nil && !errors.As(err, &reply) && !errors.Is(err, redis.ErrClosed) &&
		!errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, os.ErrNotExist)
}

// resume continues the backup on another connection.
func (r *backupReader) resume(ctx context.Context) error {
	end := time.Now().Add(resumeTime)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		_ = r.conn.Close() // it is lost
		r.conn = r.client.Conn()
		err := r.conn.Do(ctx, "keyp.backup", "resume", r.id, r.read).Err()
		if err == nil || !lostConnection(ctx, err) && !strings.HasPrefix(err.Error(),
			"TRYAGAIN ") || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
