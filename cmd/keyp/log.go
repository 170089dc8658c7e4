package main

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"keyp/internal/config"
	"keyp/internal/progress"
)

// levels are loglevel's values.
var levels = map[string]slog.Level{
	"debug":   slog.LevelDebug,
	"verbose": slog.LevelInfo - 2,
	"notice":  slog.LevelInfo,
	"warning": slog.LevelWarn,
	"nothing": math.MaxInt,
}

// logs are the destinations of a server's log: standard error or logfile, and the system's log if
// syslog-enabled is yes.
type logs struct {
	*slog.Logger
	file   *logFile           // nil: standard error
	tty    *progress.Terminal // the terminal of standard error, if lines go there
	system *systemLog         // nil: none
	hup    chan os.Signal
}

// openLog opens the logs that logfile and syslog-enabled ask for. CONFIG SET loglevel changes the
// level; SIGHUP reopens the file. close must be called once, after the last line is logged.
func openLog(cfg *config.Config) (*logs, error) {
	l := &logs{hup: make(chan os.Signal, 1)}
	var out io.Writer = os.Stderr
	if l.tty = progress.OnTerminal(os.Stderr); l.tty != nil {
		out = l.tty
	}
	if path := cfg.PathOf("logfile"); path != "" {
		l.tty = nil
		l.file = &logFile{path: path}
		if err := l.file.open(); err != nil {
			return nil, fmt.Errorf("cannot open the log file: %w", err)
		}
		out = l.file
	}
	level := new(slog.LevelVar)
	apply := func() error {
		level.Set(levels[cfg.String("loglevel")])
		return nil
	}
	cfg.OnChange("loglevel", apply)
	if err := apply(); err != nil {
		return nil, err
	}
	form := logForms[cfg.String("log-format")]
	l.Logger = slog.New(form(out, &slog.HandlerOptions{Level: level}))
	if cfg.Bool("syslog-enabled") {
		l.system = newSystemLog(systemLogAddr{}, cfg.String("syslog-facility"),
			cfg.String("syslog-ident"))
		l.Logger = slog.New(slog.NewMultiHandler(l.Handler(), l.system.handler(form, level)))
	}
	// The server must not end when its terminal, or the program that reads its log, ends.
	signal.Ignore(syscall.SIGPIPE)
	signal.Notify(l.hup, syscall.SIGHUP)
	go l.followSignal()
	return l, nil
}

// form returns a handler that writes records in a format.
type form func(io.Writer, *slog.HandlerOptions) slog.Handler

// logForms are log-format's values.
var logForms = map[string]form{
	"text": func(w io.Writer, o *slog.HandlerOptions) slog.Handler {
		return slog.NewTextHandler(w, o)
	},
	"json": func(w io.Writer, o *slog.HandlerOptions) slog.Handler {
		return slog.NewJSONHandler(w,
			&slog.HandlerOptions{Level: o.Level, ReplaceAttr: durationText})
	},
}

// durationText writes durations as in the text form, such as 1.5s. JSON would have nanoseconds.
func durationText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// followSignal reopens the log file by its name at each SIGHUP. A program that rotates logs renames
// the file and sends the signal.
func (l *logs) followSignal() {
	for range l.hup {
		if l.file == nil {
			continue
		}
		if err := l.file.open(); err != nil {
			l.Error("the log file cannot be opened again, so lines go to the old one", "file",
				l.file.path, "error", err)
			continue
		}
		l.Info("the log file is opened again", "file", l.file.path)
	}
}

// progress returns the sink for the progress of long work: a bar on the terminal if lines go to
// one, and otherwise lines.
func (l *logs) progress() progress.Sink {
	if l.tty != nil {
		return l.tty.Bar()
	}
	return progress.Log(l.Logger)
}

// apart reports whether lines are logged to a file or the system's log.
func (l *logs) apart() bool { return l.file != nil || l.system != nil }

func (l *logs) close() error {
	signal.Ignore(syscall.SIGHUP)
	signal.Stop(l.hup)
	close(l.hup)
	if l.system != nil {
		l.system.close()
	}
	if l.file == nil {
		return nil
	}
	return l.file.close()
}

// logFile is a file that can be opened again at its path, while others write to it.
type logFile struct {
	path string

	mu struct {
		sync.Mutex
		file *os.File
	}
}

// open opens the file that is at the path now, and closes the one that was open. After an error the
// old file stays open.
func (f *logFile) open() error {
	next, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.mu.file
	f.mu.file = next
	if before != nil {
		_ = before.Close() // the system has all that was written to it
	}
	return nil
}

func (f *logFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.file.Write(b)
}

func (f *logFile) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.file.Close()
}
