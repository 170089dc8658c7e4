package load

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/redcon"

	"keyp/cmd/keyp-bench/internal/wire"
	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	_ "keyp/internal/testkit/setup"
)

const patience = await.Bound

// startMap serves SET, GET, INCR and MSET from a map. After each command before
// is asked, if given, whether to answer itself.
func startMap(t *testing.T, before func(redcon.Conn, redcon.Command) bool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	values := map[string]string{}
	counters := map[string]int64{}
	handle := func(conn redcon.Conn, cmd redcon.Command) {
		mu.Lock()
		defer mu.Unlock()
		if before != nil && before(conn, cmd) {
			return
		}
		switch string(cmd.Args[0]) {
		case "SET", "MSET":
			for i := 1; i+1 < len(cmd.Args) && (i == 1 || len(cmd.Args[0]) == 4); i += 2 {
				values[string(cmd.Args[i])] = string(cmd.Args[i+1])
			}
			conn.WriteString("OK")
		case "GET":
			if v, ok := values[string(cmd.Args[1])]; ok {
				conn.WriteBulkString(v)
			} else {
				conn.WriteNull()
			}
		case "INCR":
			counters[string(cmd.Args[1])]++
			conn.WriteInt64(counters[string(cmd.Args[1])])
		}
	}
	server := redcon.NewServer(listener.Addr().String(), handle, nil, nil)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends with the listener
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return listener.Addr().String()
}

// startRaw serves each connection with a function of its own.
func startRaw(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func TestEveryRequestIsAnsweredOnceAndRight(t *testing.T) {
	addr := startMap(t, nil)
	data := NewData(503, 100)
	kinds := []struct {
		name     string
		source   func(int) Source
		requests int64
	}{
		{"preload", Preload(data), PreloadRequests(data)},
		{"get", Get(data), 2003},
		{"set", Set(data), 2003},
		{"setex", SetEX(data), 2003},
		{"incr", Incr(data), 2003},
		{"pxat", SetPXAT(data, Deadlines{Keys: 503, From: clock.System.Now() + 1e6, Over: 100}), 503},
		{"get of these", GetTTL(data), 2003},
	}
	shapes := []Options{
		{Clients: 1, Pipeline: 1, Threads: 1},
		{Clients: 7, Pipeline: 16, Threads: 3},
		{Clients: 2, Pipeline: 5000, Threads: 8},
		{Clients: 5, Pipeline: 2, Threads: 2, Rate: 20_000},
	}
	for i, shape := range shapes {
		for _, kind := range kinds {
			if i > 0 && (kind.name == "preload" || kind.name == "pxat") {
				continue // these count through their keys once
			}
			o := shape
			o.Addr, o.Timeout, o.Requests, o.Source = addr, patience, kind.requests, kind.source
			o.Done = new(atomic.Int64)
			result, err := Run(context.Background(), o)
			if err != nil || result.Errors != 0 {
				t.Fatalf("%s, shape %d: %v, %d errors, first %v", kind.name, i, err, result.Errors, result.First)
			}
			if result.Requests != kind.requests || o.Done.Load() != kind.requests ||
				result.Latency.Count() != uint64(kind.requests) {
				t.Fatalf("%s, shape %d: %d requests, %d done, %d timed, want %d", kind.name, i,
					result.Requests, o.Done.Load(), result.Latency.Count(), kind.requests)
			}
			if result.Elapsed <= 0 || result.OpsPerSec() <= 0 || result.Latency.Max() > result.Elapsed {
				t.Fatalf("%s, shape %d: elapsed %v, max latency %v", kind.name, i, result.Elapsed, result.Latency.Max())
			}
		}
	}
}

// Batches larger than the socket's buffers are written in pieces, and replies
// larger than the read buffer are put together.
func TestLargeValues(t *testing.T) {
	addr := startMap(t, nil)
	data := NewData(8, 3<<20)
	for i, source := range []func(int) Source{Preload(data), Set(data), Get(data)} {
		requests := int64(16)
		if i == 0 {
			requests = PreloadRequests(data)
		}
		result, err := Run(context.Background(), Options{
			Addr: addr, Clients: 2, Pipeline: 8, Requests: requests, Source: source, Timeout: patience,
		})
		if err != nil || result.Errors != 0 {
			t.Fatalf("%v, %d errors, first %v", err, result.Errors, result.First)
		}
	}
}

func TestRepliesInSmallPieces(t *testing.T) {
	data := NewData(1, 10)
	answer := "$10\r\n" + string(data.Value(0)) + "\r\n"
	addr := startRaw(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if !strings.HasPrefix(line, KeyPrefix) {
				continue
			}
			for _, c := range []byte(answer) {
				if _, err := conn.Write([]byte{c}); err != nil {
					return
				}
			}
		}
	})
	result, err := Run(context.Background(), Options{
		Addr: addr, Clients: 3, Pipeline: 4, Requests: 100, Source: Get(data), Timeout: patience,
	})
	if err != nil || result.Errors != 0 || result.Requests != 100 {
		t.Fatalf("%v, %d requests, %d errors, first %v", err, result.Requests, result.Errors, result.First)
	}
}

func TestWrongRepliesAreCounted(t *testing.T) {
	data := NewData(10, 10)
	tests := []struct {
		name   string
		source func(int) Source
		answer func(redcon.Conn)
		says   string
	}{
		{"error", Set(data), func(c redcon.Conn) { c.WriteError("MISCONF disk") }, "MISCONF disk"},
		{"other status", Set(data), func(c redcon.Conn) { c.WriteString("QUEUED") }, "QUEUED"},
		{"number for a status", SetEX(data), func(c redcon.Conn) { c.WriteInt(1) }, ":1"},
		{"missing key", Get(data), func(c redcon.Conn) { c.WriteNull() }, "null"},
		{"wrong value", Get(data), func(c redcon.Conn) { c.WriteBulkString("xxxxxxxxxx") }, "xxxxxxxxxx"},
		{"status for a value", Get(data), func(c redcon.Conn) { c.WriteString("FINE") }, "FINE"},
		{"text for a number", Incr(data), func(c redcon.Conn) { c.WriteBulkString("1") }, `$"1"`},
		{"null for a status", Set(data), func(c redcon.Conn) { c.WriteNull() }, "null"},
	}
	for _, tt := range tests {
		n := 0
		addr := startMap(t, func(c redcon.Conn, _ redcon.Command) bool {
			n++
			if n != 5 && n != 7 {
				return false
			}
			tt.answer(c)
			return true
		})
		run := func(source func(int) Source, requests int64) *Result {
			t.Helper()
			result, err := Run(context.Background(), Options{
				Addr: addr, Clients: 1, Requests: requests, Source: source, Timeout: patience,
			})
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			return result
		}
		run(Preload(data), 1)
		result := run(tt.source, 20)
		if result.Errors != 2 || result.Requests != 20 {
			t.Errorf("%s: %d of %d replies counted as wrong, want 2 of 20", tt.name, result.Errors, result.Requests)
		}
		if result.First == nil || !strings.Contains(result.First.Error(), tt.says) {
			t.Errorf("%s: first error %v, want one that says %q", tt.name, result.First, tt.says)
		}
	}
}

func TestLostConnection(t *testing.T) {
	n := 0
	addr := startMap(t, func(c redcon.Conn, _ redcon.Command) bool {
		n++
		if n == 100 {
			_ = c.Close()
			return true
		}
		return false
	})
	result, err := Run(context.Background(), Options{
		Addr: addr, Clients: 4, Threads: 2, Duration: patience, Source: Set(NewData(10, 10)), Timeout: patience,
	})
	if !errors.Is(err, ErrClosed) || result.Requests == 0 {
		t.Fatalf("%v after %d requests, want ErrClosed", err, result.Requests)
	}
}

func TestNothingListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close()
	_, err = Run(context.Background(), Options{
		Addr: addr, Clients: 1, Requests: 1, Source: Set(NewData(10, 10)), Timeout: patience,
	})
	if err == nil || !strings.Contains(err.Error(), "connection 1 of 1") {
		t.Fatalf("%v, want a failed connection", err)
	}
}

func TestSilentServer(t *testing.T) {
	addr := startRaw(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	o := Options{Addr: addr, Clients: 2, Requests: 10, Source: Set(NewData(10, 10)), Timeout: 500 * time.Millisecond}
	if _, err := Run(context.Background(), o); !errors.Is(err, ErrSilent) {
		t.Fatalf("%v, want ErrSilent", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
	o.Timeout = patience
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want the context's error", err)
	}
}

func TestReplyWithoutRequest(t *testing.T) {
	addr := startRaw(t, func(conn net.Conn) {
		_, _ = conn.Write([]byte("+OK\r\n+OK\r\n"))
		_, _ = io.Copy(io.Discard, conn)
	})
	_, err := Run(context.Background(), Options{
		Addr: addr, Clients: 1, Requests: 1, Source: Set(NewData(10, 10)), Timeout: patience,
	})
	if err == nil || !strings.Contains(err.Error(), "without a request") {
		t.Fatalf("%v, want a complaint about the second reply", err)
	}
}

func TestDurationAndRecordFrom(t *testing.T) {
	addr := startMap(t, nil)
	const whole, before = 600 * time.Millisecond, 300 * time.Millisecond
	o := Options{
		Addr: addr, Clients: 2, Duration: whole, Source: Set(NewData(10, 10)), Timeout: patience,
		RecordFrom: clock.System.Mono() + before, Done: new(atomic.Int64),
	}
	began := clock.System.Mono()
	result, err := Run(context.Background(), o)
	took := clock.System.Mono() - began
	if err != nil || took < whole {
		t.Fatalf("%v after %v, want %v", err, took, whole)
	}
	if result.Elapsed > took-before || result.Requests >= o.Done.Load() {
		t.Fatalf("recorded %d of %d requests in %v of %v, want those after %v",
			result.Requests, o.Done.Load(), result.Elapsed, took, before)
	}
}

// A stall is in the latency of every request whose time came during it, and no more
// requests are sent than the rate allows.
func TestRate(t *testing.T) {
	const stall, rate, requests = 300 * time.Millisecond, 1000, 600
	stalled := false
	addr := startMap(t, func(redcon.Conn, redcon.Command) bool {
		if !stalled {
			stalled = true
			await.Pass(stall)
		}
		return false
	})
	result, err := Run(context.Background(), Options{
		Addr: addr, Clients: 10, Requests: requests, Rate: rate, Source: Set(NewData(10, 10)), Timeout: patience,
	})
	if err != nil || result.Errors != 0 || result.Requests != requests {
		t.Fatalf("%v, %d requests, %d errors", err, result.Requests, result.Errors)
	}
	if least := requests * time.Second / rate * 9 / 10; result.Elapsed < least {
		t.Errorf("the requests took %v, at their rate they take %v", result.Elapsed, least)
	}
	// In a closed loop it would be that of ten, one in sixty.
	if got := result.Latency.Quantile(0.75); got < stall/4 {
		t.Errorf("a stall of %v over half of the requests, and a quarter of them took less than %v", stall, got)
	}
}

func TestKeysAndValues(t *testing.T) {
	data := NewData(100, 16)
	if got := Key(TTLPrefix, 42); got != "ttl:000000000042" {
		t.Errorf("Key = %q", got)
	}
	for _, key := range []uint64{0, 7, 999999999999} {
		got := string(appendKey(nil, KeyPrefix, key))
		if want := string(wire.AppendArg(nil, Key(KeyPrefix, key))); got != want {
			t.Errorf("key %d is sent as %q, want %q", key, got, want)
		}
	}
	seen := map[string]uint64{}
	for key := range data.Keys {
		v := string(data.Value(key))
		if other, ok := seen[v]; ok || len(v) != 16 {
			t.Errorf("keys %d and %d: value %q", key, other, v)
		}
		seen[v] = key
	}
	if len(NewData(1, 0).Value(0)) != 0 {
		t.Error("a value of size 0 has bytes")
	}
}
