package server

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// This file is the layer of TLS between a session and its socket. After the handshake (greet.go) no
// goroutine is needed for TLS. The loop reads encrypted ("sealed") data from the socket and
// decrypts it. It encrypts the data that it sends, and sends it as on other sockets.
//
//	session.read  ◄── tls.Conn.Read  ◄── wire.Read    recv(2); "again" when there is no more
//	session.write ──► tls.Conn.Write ──► wire.Write   into wire.out, which never blocks
//	                                     wire.flush   send(2)
//
// Invariants:
//
//   - Output counts as sent when all of its sealed form has left. Until then the session keeps it.
//     So the limits, the stalling and the end of a session are the same as without TLS.
//   - wire.out holds at most one piece of output (sealPiece) and messages of TLS itself (session
//     tickets, key updates, alerts), up to maxSealed in all.
//   - A tls.Conn may be read again after an error that is Temporary: it keeps the part of a record
//     that has arrived. It may not be written to again after any error, so wire.Write returns an
//     error only when the connection is to end.
const (
	// sealPiece is the output in bytes that is sealed before it is sent.
	sealPiece = 64 << 10
	// sealTurn bounds the output in bytes that is sealed for a session in a pass.
	sealTurn = 1 << 20
	// maxSealed bounds what is sealed and has not left, in bytes.
	maxSealed = 256 << 10
)

// secure is the TLS of one session. It belongs to the loop, except for the parts that the handshake
// uses while it runs (greet.go).
type secure struct {
	conn  *tls.Conn
	wire  wire
	owed  int       // bytes of the session's output whose sealed form is in wire.out
	greet *greeting // nil once the handshake has succeeded
}

// wire is the socket as crypto/tls sees it: a net.Conn that does not block.
type wire struct {
	fd    int
	in    []byte    // came during the handshake and was not read
	out   []byte    // sealed; out[sent:] has not left
	sent  int       //
	greet *greeting // while the handshake runs
	// dry: the last recv did not fill its room, so there is no more at present. toEnd says that
	// this is unknown, as the end of input is near.
	dry, toEnd bool
}

// errAgain is the error of wire.Read if there is no input at present.
var errAgain net.Error = again{}

type again struct{}

func (again) Error() string   { return "no input at present" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

var errTooMuchSealed = errors.New("the client makes TLS answer without taking the answers")

// Read returns the next input, sealed. During the handshake it waits for the loop to fetch some.
func (w *wire) Read(p []byte) (int, error) {
	if w.greet != nil && len(w.in) == 0 {
		if err := w.greet.await(); err != nil {
			return 0, err
		}
	}
	if len(w.in) > 0 {
		n := copy(p, w.in)
		if w.in = w.in[n:]; len(w.in) == 0 {
			w.in = nil
		}
		return n, nil
	}
	if w.greet != nil {
		return 0, io.EOF // the loop fetched nothing
	}
	if w.dry && !w.toEnd {
		return 0, errAgain
	}
	n, err := readSocket(w.fd, p)
	switch {
	case n > 0:
		w.dry = n < len(p)
		return n, nil
	case err == nil:
		return 0, io.EOF
	case errors.Is(err, unix.EAGAIN):
		return 0, errAgain
	}
	return 0, err
}

// Write appends sealed data to out, and never blocks.
func (w *wire) Write(p []byte) (int, error) {
	if len(w.out)-w.sent+len(p) > maxSealed {
		return 0, errTooMuchSealed
	}
	w.out = append(w.out, p...)
	return len(p), nil
}

// flush sends what is sealed; it reports whether all has left.
func (w *wire) flush(pool *bufferPool) (done bool, err error) {
	if w.sent < len(w.out) {
		n, err := writeSocket(w.fd, w.out[w.sent:])
		if w.sent += n; w.sent < len(w.out) {
			return false, err
		}
	}
	if w.out != nil {
		pool.put(w.out)
		w.out, w.sent = nil, 0
	}
	return true, nil
}

// The other methods of a net.Conn. The loop closes the socket, and bounds every wait.

func (w *wire) Close() error                     { return nil }
func (w *wire) LocalAddr() net.Addr              { return nil }
func (w *wire) RemoteAddr() net.Addr             { return nil }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// read is session.receive for TLS. It reads until p is full or there is no more.
func (t *secure) read(p []byte, toEnd bool) (n int, more bool, err error) {
	t.wire.dry, t.wire.toEnd = false, toEnd
	for n < len(p) {
		m, err := t.conn.Read(p[n:])
		n += m
		switch {
		case err == nil:
		case errors.Is(err, errAgain):
			if n == 0 {
				return 0, false, unix.EAGAIN
			}
			return n, false, nil
		case n > 0:
			return n, true, nil // the error comes again
		case err == io.EOF:
			return 0, false, nil
		default:
			return 0, false, err
		}
	}
	return n, true, nil
}

// write is session.transmit for TLS. The first t.owed bytes of p are those of the last call whose
// sealed form has not left.
func (t *secure) write(p []byte, pool *bufferPool) (n int, full bool, err error) {
	for {
		done, err := t.wire.flush(pool)
		if !done || err != nil {
			return n, true, err
		}
		n += t.owed
		t.owed = 0
		if n == len(p) || n >= sealTurn {
			return n, n < len(p), nil
		}
		piece := p[n:min(n+sealPiece, len(p))]
		t.wire.out = pool.get()
		if _, err := t.conn.Write(piece); err != nil {
			return n, false, err
		}
		t.owed = len(piece)
	}
}

// greetMemory is about what a handshake takes, in bytes.
const greetMemory = 32 << 10

// memory returns the memory of TLS for a session in addition to that of crypto/tls, in bytes.
// During a handshake the wire is not read: the handshake's goroutine has it.
func (t *secure) memory() int {
	if t.greet != nil {
		return greetMemory
	}
	return cap(t.wire.out)
}

// unsent reports whether some sealed data has not left.
func (t *secure) unsent() bool { return t.wire.sent < len(t.wire.out) }

// end notifies the client that nothing follows, if no output is left and the socket has room. A
// client that is gone, or does not read, needs no notice.
func (t *secure) end(pool *bufferPool) {
	if t.greet != nil {
		return
	}
	if !t.unsent() {
		_ = t.conn.CloseWrite()
	}
	_, _ = t.wire.flush(pool)
}
