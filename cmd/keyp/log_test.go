package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

// said returns the content of a log file.
func said(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// TestLogRotation: after SIGHUP the server writes to a new log file, and no longer to the renamed
// one. If it cannot open the new file, it keeps writing to the old one.
func TestLogRotation(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "logs", "keyp.log")
	if err := os.Mkdir(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	p := startKeyp(t, filepath.Join(dir, "data"), "--logfile", log)
	rotate := func(to string) {
		t.Helper()
		if err := os.Rename(log, to); err != nil {
			t.Fatal(err)
		}
		p.signal(t, syscall.SIGHUP)
		await.Until(t, "the log file is opened again", func() bool {
			return strings.Contains(said(t, log), "opened again")
		})
	}
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	rotate(first)
	rotate(second)
	elsewhere := filepath.Join(dir, "elsewhere")
	if err := os.Rename(filepath.Dir(log), elsewhere); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGHUP)
	kept := filepath.Join(elsewhere, "keyp.log")
	await.Until(t, "the old log file is kept", func() bool {
		return strings.Contains(said(t, kept), "cannot be opened again")
	})
	p.signal(t, syscall.SIGTERM)
	if status := p.status(t); status != 0 {
		t.Errorf("status %d", status)
	}
	for path, want := range map[string]string{first: "msg=ready", second: "opened again",
		kept: "msg=stopped"} {
		for _, line := range []string{"msg=ready", "opened again", "msg=stopped"} {
			if got := strings.Contains(said(t, path), line); got != (line == want ||
				path == kept && line == "opened again") {
				t.Errorf("%s has a line %q: %v\n%s", filepath.Base(path), line, got, said(t, path))
			}
		}
	}
}

// TestLogJSON: with log-format json each line is an object. If a server does not start, the reason
// is in its log file, too.
func TestLogJSON(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	p := startKeyp(t, filepath.Join(dir, "data"), "--logfile", log, "--log-format", "json",
		"--loglevel", "debug")
	p.signal(t, syscall.SIGTERM)
	if status := p.status(t); status != 0 {
		t.Errorf("status %d", status)
	}
	damaged := filepath.Join(dir, "damaged")
	if err := errors.Join(os.Mkdir(damaged, 0o700), os.WriteFile(filepath.Join(damaged, "keyp.db"),
		[]byte("no data file"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := runKeyp(t, "", nil, "--dir", damaged, "--logfile", log, "--log-format",
		"json"); status != 1 || !strings.HasPrefix(errs, "keyp: cannot open the data") {
		t.Errorf("status %d, %s", status, errs)
	}
	found := map[string]string{}
	for line := range strings.Lines(said(t, log)) {
		var record struct{ Time, Level, Msg, Error string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" ||
			record.Level == "" {
			t.Errorf("%s: %v", line, err)
		}
		found[record.Msg] = record.Level + record.Error
	}
	var line bytes.Buffer
	slog.New(logForms["json"](&line, &slog.HandlerOptions{})).Info("done", "took",
		1500*time.Millisecond)
	if !strings.Contains(line.String(), `"took":"1.5s"`) {
		t.Errorf("a duration is %s", line.Bytes())
	}
	if found["ready"] != "INFO" || found["stopped"] != "INFO" || found["recovered"] != "DEBUG" ||
		!strings.HasPrefix(found["the server ends"], "ERRORcannot open the data") {
		t.Errorf("%q", found)
	}
}

// TestSyslog: the system's log gets each line with its priority, facility and ident, as soon as
// that log exists.
func TestSyslog(t *testing.T) {
	at := systemLogAddr{"unixgram", filepath.Join(socketDir(t), "log")}
	system := newSystemLog(at, "local3", "store")
	level := new(slog.LevelVar)
	level.Set(slog.LevelDebug)
	log := slog.New(system.handler(logForms["text"], level))
	log.Error("nobody is there")
	await.Until(t, "the line is dropped", func() bool { return len(system.queue) == 0 })

	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	lines := make(chan string, 100)
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := socket.Read(buf)
			if err != nil {
				close(lines)
				return
			}
			if line := string(buf[:n]); !strings.Contains(line, "nobody is there") {
				// The line may have waited in the socket's queue.
				lines <- line
			}
		}
	}()
	const local3 = 19 << 3
	for _, tt := range []struct {
		level    slog.Level
		priority int
	}{{slog.LevelError, 3}, {slog.LevelWarn, 4}, {slog.LevelInfo, 5}, {levels["verbose"], 6},
		{slog.LevelDebug, 7}} {
		log.With("a", 1).Log(context.Background(), tt.level, "some text")
		line := await.For(t, "the line", lines)
		if head, tail := fmt.Sprintf("<%d>", local3|tt.priority),
			fmt.Sprintf(" store[%d]: level=%v msg=\"some text\" a=1\n", os.Getpid(),
				tt.level); !strings.HasPrefix(line, head) || !strings.HasSuffix(line, tail) {
			t.Errorf("%q, want %s … %q", line, head, tail)
		}
	}
	level.Set(slog.LevelWarn)
	log.Info("not asked for")
	log.Warn(strings.Repeat("x", 100_000))
	if line := await.For(t, "the long line", lines); len(line) < systemLogBytes ||
		len(line) > systemLogBytes+100 {
		t.Errorf("%d bytes of it", len(line))
	}
	log.Warn("the last one")
	system.close()
	log.Warn("too late")
	if line := await.For(t, "the last line", lines); !strings.HasSuffix(line,
		"msg=\"the last one\"\n") {
		t.Error(line)
	}
}

// TestSyslogStuck: nobody waits if the system's log does not read what it is sent.
func TestSyslogStuck(t *testing.T) {
	at := systemLogAddr{"unixgram", filepath.Join(socketDir(t), "log")}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close() // frees who writes to it
	system := newSystemLog(at, "user", "keyp")
	log := slog.New(system.handler(logForms["json"], slog.LevelInfo))
	for i := range 3 * systemLogLines {
		log.Info("a line that nobody reads", "number", i)
	}
	system.close()
}
