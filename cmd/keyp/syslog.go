package main

import (
	"bytes"
	"context"
	"log/slog"
	"log/syslog"
	"sync"
	"time"
)

// This file sends the server's log messages to syslog, the log of the operating system.

const (
	// systemLogLines is how many lines may wait for the system's log; more are dropped.
	systemLogLines = 1000
	// systemLogBytes is the maximum length of a line for the system's log. macOS accepts datagrams
	// of at most 2 KiB.
	systemLogBytes = 1900
	// systemLogTime bounds how long close waits for the system's log.
	systemLogTime = time.Second
)

// facilities are syslog-facility's values.
var facilities = map[string]syslog.Priority{
	"user":   syslog.LOG_USER,
	"local0": syslog.LOG_LOCAL0, "local1": syslog.LOG_LOCAL1, "local2": syslog.LOG_LOCAL2,
	"local3": syslog.LOG_LOCAL3,
	"local4": syslog.LOG_LOCAL4, "local5": syslog.LOG_LOCAL5, "local6": syslog.LOG_LOCAL6,
	"local7": syslog.LOG_LOCAL7,
}

// systemLogAddr is the address of the system's log. The zero value means the usual address.
type systemLogAddr struct{ network, path string }

// systemLog sends lines to the system's log. Lines wait in a queue, so logging never waits. A line
// is dropped if the queue is full or there is no log.
type systemLog struct {
	dial  func() (*syslog.Writer, error)
	queue chan systemLine
	done  chan struct{} // closed when the last line is sent
}

// systemLine is a line of the log. A line without text marks the end.
type systemLine struct {
	level slog.Level
	text  string
}

func newSystemLog(at systemLogAddr, facility, ident string) *systemLog {
	s := &systemLog{queue: make(chan systemLine, systemLogLines), done: make(chan struct{})}
	s.dial = func() (*syslog.Writer, error) {
		return syslog.Dial(at.network, at.path, facilities[facility]|syslog.LOG_NOTICE, ident)
	}
	go s.run()
	return s
}

// run sends the lines of the queue until the end mark. As long as there is no connection to the
// log, each line makes it try again.
func (s *systemLog) run() {
	defer close(s.done)
	var to *syslog.Writer
	for line := range s.queue {
		if line.text == "" {
			break
		}
		if to == nil {
			var err error
			if to, err = s.dial(); err != nil {
				to = nil
				continue
			}
		}
		send := to.Debug
		switch {
		case line.level >= slog.LevelError:
			send = to.Err
		case line.level >= slog.LevelWarn:
			send = to.Warning
		case line.level >= slog.LevelInfo:
			send = to.Notice
		case line.level > slog.LevelDebug:
			send = to.Info
		}
		_ = send(line.text) // there is nowhere else to report it
	}
	if to != nil {
		_ = to.Close()
	}
}

// close sends the waiting lines, for systemLogTime at most. Later lines are dropped.
func (s *systemLog) close() {
	over := time.After(systemLogTime)
	select {
	case s.queue <- systemLine{}:
	case <-over:
		return
	}
	select {
	case <-s.done:
	case <-over:
	}
}

// handler returns a handler that writes records to the system's log. It omits the time, because the
// system's log adds the time itself.
func (s *systemLog) handler(form form, level slog.Leveler) slog.Handler {
	h := &systemHandler{to: s, shared: new(lineBuffer)}
	h.form = form(&h.shared.Buffer, &slog.HandlerOptions{Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
	return h
}

// lineBuffer is the buffer in which a record becomes a line.
type lineBuffer struct {
	sync.Mutex
	bytes.Buffer
}

type systemHandler struct {
	to     *systemLog
	shared *lineBuffer  // of all handlers that come from one
	form   slog.Handler // writes to it
}

func (h *systemHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.form.Enabled(ctx, level)
}

func (h *systemHandler) Handle(ctx context.Context, r slog.Record) error {
	h.shared.Lock()
	defer h.shared.Unlock()
	h.shared.Reset()
	if err := h.form.Handle(ctx, r); err != nil {
		return err
	}
	text := bytes.TrimSuffix(h.shared.Bytes(), []byte("\n"))
	select {
	case h.to.queue <- systemLine{r.Level, string(text[:min(len(text), systemLogBytes)])}:
	default:
	}
	return nil
}

func (h *systemHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &systemHandler{h.to, h.shared, h.form.WithAttrs(attrs)}
}

func (h *systemHandler) WithGroup(name string) slog.Handler {
	return &systemHandler{h.to, h.shared, h.form.WithGroup(name)}
}
