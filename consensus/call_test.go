package consensus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"keyp/internal/testkit/await"
)

type serve func(ctx context.Context, from uint64, request []byte, w io.Writer) error

// serving starts a transport that answers calls.
func serving(t *testing.T, node uint64, fn serve) *stand {
	return newStand(t, node, func(o *TransportOptions) { o.Serve = fn })
}

// ask calls one transport from another, and returns the part of the answer that was read.
func ask(t *testing.T, from, to *stand, request string) (string, error) {
	t.Helper()
	r, err := from.Ask(t.Context(), to.addr, to.o.Me.Node, []byte(request))
	if err != nil {
		t.Fatalf("Ask: %v", err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

// TestCalls: an answer of any length, written in any pieces, arrives whole. Serve gets the caller's
// number.
func TestCalls(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 3*partSize/16+1)
	a := newStand(t, 1, nil)
	b := serving(t, 2, func(_ context.Context, from uint64, request []byte, w io.Writer) error {
		if from != 1 {
			return fmt.Errorf("member %d asks", from)
		}
		var err error
		switch string(request) {
		case "long":
			_, err = io.WriteString(w, long)
		case "bytes":
			_, err = io.Copy(w, iotest.OneByteReader(strings.NewReader(long[:1000])))
		default:
			_, err = w.Write(request)
		}
		return err
	})
	for request, want := range map[string]string{"": "", "x": "x", "long": long,
		"bytes": long[:1000], long[:maxRequest-100]: long[:maxRequest-100]} {
		if got, err := ask(t, a, b, request); err != nil || got != want {
			t.Errorf("%d bytes are asked: %d bytes come, %v; want %d", len(request),
				len(got), err, len(want))
		}
	}
}

// TestCallsFail: an answer that ends with an error, or with the end of the connection, is not
// whole.
func TestCallsFail(t *testing.T) {
	a := newStand(t, 1, nil)
	b := serving(t, 2, func(ctx context.Context, _ uint64, request []byte, w io.Writer) error {
		if _, err := io.WriteString(w, "part"); err != nil {
			return err
		}
		switch string(request) {
		case "gone":
			w.(*answerWriter).plain.Close()
			return nil
		case "whole":
			return nil
		}
		return errors.New(string(request))
	})
	for request, want := range map[string]string{"no room": "no room", "": "", "gone": "",
		strings.Repeat("x", 5000): strings.Repeat("x", 1000)} {
		got, err := ask(t, a, b, request)
		if got != "part" || err == nil || !strings.Contains(err.Error(), want) ||
			request != "gone" && !errors.Is(err, ErrCall) {
			t.Errorf("%.20q: %q and %v, want an error with %.20q", request, got, err, want)
		}
	}
	if got, err := ask(t, a, b, "whole"); got != "part" || err != nil {
		t.Errorf("%q and %v", got, err)
	}
	none := newStand(t, 3, nil)
	if got, err := ask(t, a, none, "x"); got != "" || !errors.Is(err, ErrCall) {
		t.Errorf("one who answers no calls gives %q and %v", got, err)
	}
}

// TestCallsBoundRequests: a request longer than maxRequest is refused.
func TestCallsBoundRequests(t *testing.T) {
	a := newStand(t, 1, nil)
	b := serving(t, 2, func(_ context.Context, _ uint64, _ []byte, w io.Writer) error {
		return nil
	})
	if _, err := ask(t, a, b, strings.Repeat("x", maxRequest+1)); err == nil {
		t.Error("a request that is too long is answered")
	}
}

// TestCallsEnd: a call ends when the caller closes it, when its context ends, and when either side
// closes its transport.
func TestCallsEnd(t *testing.T) {
	for _, how := range []string{"closed", "context", "caller's transport", "called transport"} {
		t.Run(how, func(t *testing.T) {
			began, ended := make(chan struct{}), make(chan error, 1)
			a := newStand(t, 1, nil)
			b := serving(t, 2, func(ctx context.Context, _ uint64, _ []byte, w io.Writer) error {
				if _, err := io.WriteString(w, "part"); err != nil {
					return err
				}
				close(began)
				<-ctx.Done()
				ended <- ctx.Err()
				return ctx.Err()
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, err := a.Ask(ctx, b.addr, 2, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			await.For(t, "the call begins", began)
			read := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, r)
				read <- err
			}()
			switch how {
			case "closed":
				r.Close()
			case "context":
				cancel()
			case "caller's transport":
				a.Close()
			default:
				b.Close()
			}
			if err := await.For(t, "the answer ends", read); err == nil {
				t.Error("an answer that was broken off is whole")
			}
			await.For(t, "who answers knows that the caller has gone", ended)
		})
	}
}

// TestCallsAtOnce: a transport answers a limited number of calls of each member at once and refuses
// more. Other members still get answers. When a call ends, another one is accepted.
func TestCallsAtOnce(t *testing.T) {
	a := newStand(t, 1, nil)
	b := serving(t, 2, func(ctx context.Context, _ uint64, _ []byte, w io.Writer) error {
		_, err := io.WriteString(w, "x")
		<-ctx.Done()
		return err
	})
	var open []*Reply
	for range callsEach {
		r, err := a.Ask(t.Context(), b.addr, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := r.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
	}
	if _, err := ask(t, a, b, ""); !errors.Is(err, ErrCall) {
		t.Fatalf("one call too many gives %v", err)
	}
	for _, other := range []*stand{newStand(t, 3, nil), newStand(t, 0, nil)} {
		r, err := other.Ask(t.Context(), b.addr, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(make([]byte, 1)); err != nil {
			t.Errorf("while one member has all its calls, %d gets %v", other.o.Me.Node, err)
		}
		r.Close()
	}
	open[0].Close()
	await.Until(t, "there is room", func() bool {
		r, err := a.Ask(t.Context(), b.addr, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		_, err = r.Read(make([]byte, 1))
		return err == nil
	})
}

// TestCallsAreChecked: both sides of a call are checked. A caller without the secret, of another
// cluster, or for another member gets no answer.
func TestCallsAreChecked(t *testing.T) {
	b := serving(t, 2, func(_ context.Context, _ uint64, _ []byte, w io.Writer) error {
		t.Error("a call is answered")
		return nil
	})
	for name, c := range map[string]struct {
		change func(*TransportOptions)
		to     uint64
	}{
		"secret":  {func(o *TransportOptions) { o.Secret = []byte("other") }, 2},
		"cluster": {func(o *TransportOptions) { o.Me.Cluster = 8 }, 2},
		"member":  {nil, 3},
	} {
		a := newStand(t, 1, c.change)
		if r, err := a.Ask(t.Context(), b.addr, c.to, nil); err == nil {
			_, err = io.ReadAll(r)
			if r.Close(); err == nil {
				t.Errorf("%s: there is an answer", name)
			}
		}
	}
}

// TestAnswersAreChecked: if any byte of an answer is changed, reading it fails.
func TestAnswersAreChecked(t *testing.T) {
	var whole bytes.Buffer
	for _, f := range []Frame{{Kind: KindPart, Body: []byte("abc")},
		{Kind: KindPart, Body: []byte("d")}, {Kind: KindEnd}} {
		if err := writeFrame(&whole, f.Kind, f.Body); err != nil {
			t.Fatal(err)
		}
	}
	read := func(b []byte) (string, error) {
		here, there := net.Pipe()
		defer there.Close()
		r := replyOf(here, bytes.NewReader(b), func() {})
		defer r.Close()
		got, err := io.ReadAll(r)
		return string(got), err
	}
	if got, err := read(whole.Bytes()); got != "abcd" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	for i := range whole.Len() {
		if got, err := read(whole.Bytes()[:i]); err == nil {
			t.Errorf("the first %d bytes are an answer: %q", i, got)
		}
		changed := bytes.Clone(whole.Bytes())
		changed[i] ^= 0x41
		if got, err := read(changed); err == nil {
			t.Errorf("with byte %d changed there is an answer: %q", i, got)
		}
	}
	var other bytes.Buffer
	if err := writeFrame(&other, KindIdle, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := read(other.Bytes()); !errors.Is(err, ErrMessage) {
		t.Errorf("a frame that is no part of an answer gives %v", err)
	}
}

// TestCallersThatReadNothing: if a caller reads nothing, the answering side gives up after a while.
func TestCallersThatReadNothing(t *testing.T) {
	ended := make(chan error, 1)
	a := newStand(t, 1, nil)
	b := newStand(t, 2, func(o *TransportOptions) {
		o.times = quick()
		o.times.shake = await.Bound
		o.Serve = func(_ context.Context, _ uint64, _ []byte, w io.Writer) error {
			for part := make([]byte, partSize); ; {
				if _, err := w.Write(part); err != nil {
					ended <- err
					return err
				}
			}
		}
	})
	r, err := a.Ask(t.Context(), b.addr, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var timeout net.Error
	if err := await.For(t, "the answer is given up", ended); !errors.As(err, &timeout) ||
		!timeout.Timeout() {
		t.Errorf("%v", err)
	}
}
