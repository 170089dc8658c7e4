package exporter

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"keyp/internal/clock"
	"keyp/internal/importer"
	"keyp/internal/progress"
	"keyp/internal/rdb"
)

// Source is where keys come from.
type Source interface {
	// Size returns the approximate number of keys.
	Size() (int64, error)
	// Libraries returns the sources of the libraries of functions.
	Libraries() ([]string, error)
	// Rules returns the rules of the source. Rules are not keys, and Redis does not have them.
	Rules() ([]Rule, error)
	// Each visits all keys once, one database after the other. A key is valid until visit
	// returns. Each returns the first error of visit or of the context.
	Each(ctx context.Context, visit func(*Key) error) error
}

// Key is a key with its value.
type Key struct {
	DB       int
	Name     []byte
	Deadline int64  // Unix ms; 0: none
	Payload  []byte // as DUMP replies it
	// Aged: the key is a stream with a maximum age (XCFGSET MAXAGE), which is not in the
	// payload.
	Aged bool
}

// Rule is a rule that only Keyp knows.
type Rule struct{ What, Name string }

// Format is how keys are written.
type Format string

// The formats.
const (
	RDB  Format = "rdb"
	RESP Format = "resp"
	JSON Format = "json"
)

// Formats lists all formats.
var Formats = []Format{RDB, RESP, JSON}

// Options control an export.
type Options struct {
	Format Format
	// Version is the version of the RDB format, for a file or for values in commands. It is
	// from rdb.OldestWritten to rdb.NewestWritten.
	Version  int
	Clock    clock.Clock
	Progress *progress.Meter
}

// Report is what was exported.
type Report struct {
	Types           map[string]int64 // keys by their type
	Keys, Deadlines int64
	Expired         int64 // keys that expired meanwhile
	Libraries       int64
	LeftOut         importer.Refusals
}

// writer writes a format.
type writer interface {
	library(source string) error
	// refuses returns why the format cannot have a key's value; empty if it can.
	refuses(k *Key) (reason string, err error)
	key(k *Key) error
	end() error
}

const (
	// bufferBytes is how many bytes are written at once.
	bufferBytes = 256 << 10
	// keyWork is how many bytes the meter counts for a key.
	keyWork = 1 << 10
)

// Export writes all data of the source and returns a report. After an error the file is incomplete.
func Export(ctx context.Context, src Source, to io.Writer, o Options) (*Report, error) {
	out := bufio.NewWriterSize(to, bufferBytes)
	var w writer
	switch o.Format {
	case RDB:
		w = &rdbFormat{rdb.NewFileWriter(out, o.Version), o.Version}
	case RESP:
		w = &respFormat{out: out, version: o.Version}
	case JSON:
		w = &jsonFormat{out: out}
	default:
		return nil, fmt.Errorf("%q is no format", o.Format)
	}
	report := &Report{Types: map[string]int64{}}
	o.Progress.Begin("export")
	defer o.Progress.End()
	size, err := src.Size()
	if err != nil {
		return nil, err
	}
	o.Progress.Expect(size * keyWork)
	if err := exportOthers(src, w, report); err != nil {
		return nil, err
	}
	err = src.Each(ctx, func(k *Key) error {
		o.Progress.Done(keyWork)
		return report.export(w, k, o.Clock.Now())
	})
	if err != nil {
		return nil, err
	}
	if err := w.end(); err != nil {
		return nil, err
	}
	return report, out.Flush()
}

// exportOthers writes the data that a source has besides keys.
func exportOthers(src Source, w writer, report *Report) error {
	libraries, err := src.Libraries()
	if err != nil {
		return err
	}
	for _, source := range libraries {
		if err := w.library(source); err != nil {
			return err
		}
		report.Libraries++
	}
	rules, err := src.Rules()
	for _, r := range rules {
		report.LeftOut.Add(r.What+" are Keyp's own", r.Name)
	}
	return err
}

// export writes a key, or counts the reason why it cannot.
func (r *Report) export(w writer, k *Key, now int64) error {
	if k.Deadline != 0 && k.Deadline <= now {
		r.Expired++
		return nil
	}
	reason, err := w.refuses(k)
	if err != nil {
		return fmt.Errorf("key %.100q: %w", k.Name, err)
	}
	if reason != "" {
		r.LeftOut.Add(reason, string(k.Name))
		return nil
	}
	if k.Aged {
		r.LeftOut.Add("the age of entries (XCFGSET MAXAGE) is Keyp's own: these streams are exported without it",
			string(k.Name))
	}
	r.Keys++
	r.Types[rdb.TypeOf(k.Payload).String()]++
	if k.Deadline != 0 {
		r.Deadlines++
	}
	return w.key(k)
}

// rdbFormat writes an RDB file.
type rdbFormat struct {
	file    *rdb.FileWriter
	version int
}

func (f *rdbFormat) library(source string) error    { return f.file.Library([]byte(source)) }
func (f *rdbFormat) refuses(k *Key) (string, error) { return rdb.Portable(k.Payload, f.version) }
func (f *rdbFormat) key(k *Key) error {
	return f.file.Key(uint64(k.DB), k.Name, k.Deadline, k.Payload)
}
func (f *rdbFormat) end() error { return f.file.End() }
