package consensus

import (
	"context"
	"fmt"
	"log/slog"
)

// logger receives the log messages of the Raft library. Except for errors, they are only of use to
// somebody who looks for a fault in the library. For instance, it warns of each proposal that has
// no room, and of events that the machine is notified of too.
type logger struct{ to *slog.Logger }

func (l logger) log(level slog.Level, v ...any) {
	if l.to.Enabled(context.Background(), level) {
		l.to.Log(context.Background(), level, "raft: "+fmt.Sprint(v...))
	}
}

func (l logger) logf(level slog.Level, format string, v ...any) {
	if l.to.Enabled(context.Background(), level) {
		l.to.Log(context.Background(), level, "raft: "+fmt.Sprintf(format, v...))
	}
}

func (l logger) Debug(v ...any)                   { l.log(slog.LevelDebug, v...) }
func (l logger) Debugf(format string, v ...any)   { l.logf(slog.LevelDebug, format, v...) }
func (l logger) Info(v ...any)                    { l.log(slog.LevelDebug, v...) }
func (l logger) Infof(format string, v ...any)    { l.logf(slog.LevelDebug, format, v...) }
func (l logger) Warning(v ...any)                 { l.log(slog.LevelDebug, v...) }
func (l logger) Warningf(format string, v ...any) { l.logf(slog.LevelDebug, format, v...) }
func (l logger) Error(v ...any)                   { l.log(slog.LevelWarn, v...) }
func (l logger) Errorf(format string, v ...any)   { l.logf(slog.LevelWarn, format, v...) }

// A fault of the log or of the library ends the process: going on would spread it.
func (l logger) Fatal(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l logger) Fatalf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
func (l logger) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l logger) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
