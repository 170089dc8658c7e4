package exporter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"keyp/internal/clock"
	"keyp/internal/rdb"
	"keyp/internal/testkit/await"
	_ "keyp/internal/testkit/setup"
	"keyp/resp"
)

// script is a server whose replies the test gives.
type script struct {
	answers func(args []string) string
	asked   []string
	done    chan struct{}
}

// begin starts a script and returns the client's end of the connection.
func begin(t *testing.T, answers func(args []string) string) (*script, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	sc := &script{answers: answers, done: make(chan struct{})}
	go func() {
		defer close(sc.done)
		r := resp.Reader{}
		var out bytes.Buffer
		for {
			n, err := theirs.Read(r.Space(1 << 10))
			if err != nil {
				return
			}
			r.Advance(n)
			out.Reset()
			for {
				args, err := r.Next(&resp.DefaultLimits)
				if err != nil || args == nil {
					break
				}
				words := strings.Split(string(bytes.Join(args, []byte{0})), "\x00")
				sc.asked = append(sc.asked, strings.Join(words, " "))
				out.WriteString(sc.answers(words))
			}
			if _, err := theirs.Write(out.Bytes()); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = ours.Close() // a pipe's ends close without errors
		_ = theirs.Close()
	})
	return sc, ours
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// value is the reply of DUMP for a string.
func value(text string) string {
	return bulk(string(rdb.Encode(rdb.Value{Type: rdb.String, Str: []byte(text)})))
}

// usual answers the commands of an export other than those that read a key. The server has one key.
func usual(args []string) string {
	switch strings.Join(args, " ") {
	case "INFO server":
		return bulk("keyp_version:1\r\n")
	case "INFO keyspace":
		return bulk("# Keyspace\r\ndb2:keys=1,expires=0,avg_ttl=0\r\n")
	case "FUNCTION DUMP":
		return bulk(string(rdb.EncodeLibraries(nil)))
	case "KEYP.POLICY LIST", "KEYP.OUTBOX LIST":
		return "*0\r\n"
	case "SCAN 0 COUNT 512":
		return "*2\r\n" + bulk("0") + "*1\r\n" + bulk("k")
	}
	return "+OK\r\n"
}

// exportScript exports from a script as JSON.
func exportScript(t *testing.T, ctx context.Context,
	answers func(args []string) string) (sc *script, text string, err error) {
	t.Helper()
	sc, conn := begin(t, answers)
	s, err := NewServer(conn)
	var out bytes.Buffer
	if err == nil {
		_, err = Export(ctx, s, &out, Options{Format: JSON, Clock: clock.NewFake(1)})
	}
	if closed := conn.Close(); closed != nil {
		t.Error(closed)
	}
	await.For(t, "the end of the script", sc.done)
	return sc, out.String(), err
}

// TestKeyThatChanges: a key that changes is read again, until its value and deadline belong to the
// same instant.
func TestKeyThatChanges(t *testing.T) {
	for _, changes := range []int{0, 1, 3, 100} {
		tries, queued := 0, false
		sc, text, err := exportScript(t, t.Context(), func(args []string) string {
			switch args[0] {
			case "MULTI":
				queued = true
			case "DUMP", "PEXPIRETIME":
				switch {
				case queued:
					return "+QUEUED\r\n"
				case args[0] == "DUMP":
					return value(fmt.Sprint("torn", tries))
				default:
					return fmt.Sprintf(":%d\r\n", 1000+tries)
				}
			case "EXEC":
				queued = false
				if tries++; tries <= changes && tries <= 1+keyTries {
					return "*-1\r\n"
				}
				if tries > 1+keyTries {
					return "*2\r\n" + value("locked") + ":7\r\n"
				}
				return "*0\r\n"
			}
			return usual(args)
		})
		want := fmt.Sprintf(`{"db":2,"key":"k","type":"string","expireAt":%d,"value":"torn%d"}`,
			1000+changes, changes)
		if changes == 100 {
			want = `{"db":2,"key":"k","type":"string","expireAt":7,"value":"locked"}`
		}
		if err != nil || text != want+"\n" {
			t.Errorf("%d changes: %v: %s", changes, err, text)
		}
		last := sc.asked[len(sc.asked)-5:]
		if want := []string{"WATCH k", "DUMP k", "PEXPIRETIME k", "MULTI", "EXEC"}; changes < 100 &&
			strings.Join(last, ",") != strings.Join(want, ",") {
			t.Errorf("the last commands are %q", last)
		}
	}
}

// TestServerRefuses: an error reply or a closed connection ends the export.
func TestServerRefuses(t *testing.T) {
	for _, command := range []string{"INFO", "CLIENT", "FUNCTION", "KEYP.POLICY", "KEYP.OUTBOX",
		"SELECT", "SCAN", "WATCH", "DUMP", "PEXPIRETIME", "MULTI", "EXEC"} {
		for name, reply := range map[string]string{
			"error": "-NOPERM no\r\n", "garbage": "hello\r\n", "deep": strings.Repeat("*1\r\n",
				100), "length": "$x\r\n", "short": "*2\r\n:1\r\n:1\r\n",
		} {
			if name == "short" && command != "SCAN" && command != "DUMP" {
				continue // it is a reply
			}
			_, text, err := exportScript(t, t.Context(), func(args []string) string {
				if args[0] == command {
					return reply
				}
				switch args[0] {
				case "PEXPIRETIME":
					return ":-1\r\n"
				case "DUMP":
					return value("v")
				}
				return usual(args)
			})
			if err == nil {
				t.Errorf("%s of %s: exported %q", name, command, text)
			}
			if name == "error" && err != nil && !strings.Contains(err.Error(), "NOPERM") {
				t.Errorf("%s: %v", command, err)
			}
		}
	}
}

// TestExpiredKeys: a key that expires while it is being exported is counted and left out, from its
// deadline on. A key that is gone is not counted.
func TestExpiredKeys(t *testing.T) {
	for deadline, want := range map[int]string{-2: "0 keys, 0 expired", 1: "0 keys, 1 expired",
		2: "1 keys, 0 expired"} {
		_, conn := begin(t, func(args []string) string {
			switch args[0] {
			case "PEXPIRETIME":
				return fmt.Sprintf(":%d\r\n", deadline)
			case "DUMP":
				return value("v")
			}
			return usual(args)
		})
		s, err := NewServer(conn)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Export(t.Context(), s, io.Discard,
			Options{Format: RESP, Version: rdb.OldestWritten, Clock: clock.NewFake(1)})
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprintf("%d keys, %d expired", got.Keys, got.Expired); text != want {
			t.Errorf("deadline %d: %s", deadline, text)
		}
	}
}

// TestExportEnds: an export ends with its context.
func TestExportEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, text, err := exportScript(t, ctx, func(args []string) string {
		if args[0] == "SCAN" {
			cancel()
			return "*2\r\n" + bulk("1") + "*1\r\n" + bulk("k")
		}
		return usual(args)
	})
	if !errors.Is(err, context.Canceled) || text != "" {
		t.Errorf("%v: %q", err, text)
	}
}
