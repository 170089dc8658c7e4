package consensus

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A call is a request to another member and its answer, which may be long, such as a snapshot. Each
// call uses a connection of its own.
//
//	caller                                   called
//	call    request ──►
//	        ◄── part    bytes of the answer, any number of times
//	        ◄── end     nothing, or why the answer is not whole
//
// An answer without an end is not whole. The caller waits up to two minutes for each part.

const (
	// callsEach is the maximum number of calls of one member that are answered at once.
	// callsOfStrangers is the maximum of all strangers together. So a member that calls often, or
	// reads slowly, does not prevent answers to others.
	callsEach        = 4
	callsOfStrangers = 16

	maxRequest = 64 << 10
	partSize   = 256 << 10
	partTime   = 2 * time.Minute
)

// ErrCall is wrapped by the errors of Ask and Reply.Read when the other member refuses the call or
// ends the answer with an error.
var ErrCall = errors.New("the other member answers")

// Ask calls the member at an address. A stranger sets to to 0, and calls whichever member is there.
// The caller reads the Reply until io.EOF, which means that the answer is whole, and closes it. ctx
// bounds the whole call, including the reading.
func Ask(ctx context.Context, o *TransportOptions, addr string, to uint64,
	request []byte) (*Reply, error) {
	shake, cancel := context.WithTimeout(ctx, usualTimes.shake)
	defer cancel()
	plain, err := (&net.Dialer{}).DialContext(shake, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { plain.Close() })
	c, in, err := greetMember(shake, o, usualTimes.shake, plain, addr, to, Calls)
	if err == nil {
		if err = plain.SetWriteDeadline(inTime(usualTimes.write)); err == nil {
			err = writeFrame(c, KindCall, request)
		}
	}
	if err != nil {
		stop()
		return nil, errors.Join(err, plain.Close())
	}
	return replyOf(plain, in, func() { stop() }), nil
}

// Ask calls the function Ask for this member. Closing the transport also ends the call.
func (t *Transport) Ask(ctx context.Context, addr string, to uint64,
	request []byte) (*Reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(t.ctx, cancel)
	r, err := Ask(ctx, &t.o, addr, to, request)
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	before := r.stop
	r.stop = func() {
		before()
		stop()
		cancel()
	}
	return r, nil
}

// Reply is the answer to a call, for one goroutine.
type Reply struct {
	plain net.Conn
	in    *bufio.Reader
	stop  func()
	rest  []byte
	err   error
}

// replyOf returns a Reply that reads from in. Its Close calls stop and closes plain.
func replyOf(plain net.Conn, in io.Reader, stop func()) *Reply {
	return &Reply{plain: plain, in: bufio.NewReaderSize(in, partSize), stop: stop}
}

// Read implements io.Reader. It returns io.EOF only after a whole answer.
func (a *Reply) Read(b []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.err == nil {
			a.err = a.next()
		}
		if a.err != nil {
			return 0, a.err
		}
	}
	n := copy(b, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// next reads a frame into rest. It returns io.EOF if the frame ends a whole answer.
func (a *Reply) next() error {
	if err := a.plain.SetReadDeadline(inTime(partTime)); err != nil {
		return err
	}
	f, err := ReadFrame(a.in, MaxFrame)
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case f.Kind == KindPart:
		a.rest = f.Body
	case f.Kind == KindEnd && len(f.Body) > 0:
		return fmt.Errorf("%w: %s", ErrCall, f.Body)
	case f.Kind == KindEnd:
		return io.EOF
	default:
		return fmt.Errorf("%w: it is no part of an answer", ErrMessage)
	}
	return nil
}

// LocalAddr returns this side's address.
func (a *Reply) LocalAddr() net.Addr { return a.plain.LocalAddr() }

// Close ends the call.
func (a *Reply) Close() error {
	a.stop()
	return a.plain.Close()
}

// answer answers a call.
func (t *Transport) answer(plain, c net.Conn, in *bufio.Reader, from uint64) error {
	if err := plain.SetReadDeadline(inTime(t.times.shake)); err != nil {
		return err
	}
	f, err := ReadFrame(in, maxRequest)
	if err != nil {
		return err
	}
	if f.Kind != KindCall {
		return fmt.Errorf("%w: it is no call", ErrMessage)
	}
	w := &answerWriter{t: t, plain: plain, c: c}
	if !t.takeCall(from) {
		return w.end(errors.New("too many calls are being answered"))
	}
	defer t.endCall(from)
	if t.o.Serve == nil {
		return w.end(errors.New("calls are not answered here"))
	}
	if err := plain.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(t.ctx)
	var done sync.WaitGroup
	done.Go(func() { // the caller sends nothing more, so ReadByte returns when it has gone
		defer cancel()
		_, _ = in.ReadByte()
	})
	err = w.end(t.o.Serve(ctx, from, f.Body, w))
	cancel()
	plain.Close()
	done.Wait()
	return err
}

// takeCall reports whether a call may be answered now, and counts it if so.
func (t *Transport) takeCall(from uint64) bool {
	most := callsEach
	if from == 0 {
		most = callsOfStrangers
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.calls[from] == most {
		return false
	}
	t.mu.calls[from]++
	return true
}

// endCall uncounts a call that takeCall has counted.
func (t *Transport) endCall(from uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.calls[from]--; t.mu.calls[from] == 0 {
		delete(t.mu.calls, from)
	}
}

// answerWriter sends the bytes that Serve writes as parts of the answer.
type answerWriter struct {
	t        *Transport
	plain, c net.Conn
}

func (w *answerWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		part := b[:min(len(b), partSize)]
		if err := w.frame(KindPart, part); err != nil {
			return n, err
		}
		n, b = n+len(part), b[len(part):]
	}
	return n, nil
}

func (w *answerWriter) frame(kind Kind, body []byte) error {
	if err := w.plain.SetWriteDeadline(inTime(w.t.times.write)); err != nil {
		return err
	}
	return writeFrame(w.c, kind, body)
}

// end sends the end of the answer, with the text of an error that tells the caller why the answer
// is not whole.
func (w *answerWriter) end(why error) error {
	var text []byte
	if why != nil {
		text = []byte(cmp.Or(why.Error(), "an error without a word"))
	}
	return w.frame(KindEnd, text[:min(len(text), 1<<10)])
}
