package consensus

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// TestLogger: of the library's messages, only errors appear in a log above the level debug.
func TestLogger(t *testing.T) {
	var out bytes.Buffer
	l := logger{slog.New(slog.NewTextHandler(&out, nil))}
	l.Debugf("debug %d", 1)
	l.Info("info")
	l.Infof("info %d", 1)
	l.Warning("warning")
	l.Warningf("warning %d", 1)
	if out.Len() > 0 {
		t.Errorf("%s", out.String())
	}
	l.Errorf("error %d", 1)
	l.Error("error")
	if got := out.String(); strings.Count(got, "level=WARN") != 2 ||
		strings.Count(got, "raft: error") != 2 {
		t.Errorf("%s", got)
	}
}

// logLines collects the log lines of several goroutines.
type logLines struct {
	mu struct {
		sync.Mutex
		bytes.Buffer
	}
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.Buffer.Write(b)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.Buffer.String()
}
