package importer

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"keyp/internal/clock"
	"keyp/internal/glob"
	"keyp/internal/progress"
	"keyp/internal/rdb"
)

// AllDBs as Options.DB chooses all databases.
const AllDBs = -1

// maxValue is the longest argument that servers take by default (proto-max-bulk-len).
const maxValue = 512 << 20

// Options control an import.
type Options struct {
	// Conn is a connection to the server. If it is nil, nothing is sent, and the report says
	// what would be imported.
	Conn net.Conn
	// DB is the only database to import; libraries are then left out. AllDBs means all databases.
	DB int
	// Match is a pattern that keys must match; libraries are then left out. Empty means all keys.
	Match string
	// Replace lets the import replace keys and libraries that exist on the server; otherwise they
	// are refused.
	Replace bool
	// Durable makes the import wait until the server has synced its log.
	Durable bool
	// DryRun: nothing is changed on the server, and the report says what would be imported.
	DryRun bool
	// Allowed reports whether a command of an append-only file may be sent.
	Allowed func(args [][]byte) bool
	// Keys returns the keys of a command that is sent while database db is selected. ok is false if
	// the keys are not known.
	Keys     func(args [][]byte, db int) (keys []Key, ok bool)
	Clock    clock.Clock
	Progress *progress.Meter
}

// Key is a key of a database.
type Key struct {
	DB   int
	Name []byte
}

// importer is one import. The goroutine of the pipe uses only replies.
type importer struct {
	Options
	source *Source
	report Report
	// replies counts what the server refused. Only the pipe's goroutine changes it.
	replies Report
	pipe    *pipe
	dbs     map[uint64]string // those of the files; why the server has no such one, if it has none
	aof     bool
	now     int64

	at      uint64 // the database of the file's next command
	server  uint64 // the one that the server has selected
	known   bool   // server is right
	payload []byte
}

// Import sends the contents of the source and returns a report. After an error the server may have
// a part of them. If a file is damaged, the server has none.
func Import(s *Source, o Options) (_ *Report, err error) {
	im := &importer{Options: o, source: s, dbs: map[uint64]string{}, now: o.Clock.Now()}
	im.report.Types, im.replies.Types = map[string]int64{}, map[string]int64{}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		fault := recover()
		if _, ok := fault.(interface{ Addr() uintptr }); ok {
			err = errors.New("a file became shorter while it was read")
		} else if fault != nil {
			panic(fault)
		}
	}()
	if err := im.survey(); err != nil {
		return nil, err
	}
	im.Progress.Begin("import")
	defer im.Progress.End()
	im.Progress.Expect(s.Bytes())
	if im.Conn == nil {
		return &im.report, im.send()
	}
	if err := im.prepare(); err != nil {
		return nil, err
	}
	im.pipe.start(im.replied)
	sent := false
	defer func() {
		if !sent { // a panic: the goroutine ends with its batches
			err = im.pipe.finish(errors.Join(err, errors.New("the import ended early")))
		}
	}()
	err = im.send()
	sent = true
	if err = im.pipe.finish(err); err != nil {
		return nil, err
	}
	im.report.without(&im.replies)
	if im.Durable && !im.DryRun {
		err := im.await()
		if err != nil && len(im.replies.Refused) > 0 {
			err = fmt.Errorf("%w; what it refused begins with %q: %s", err,
				im.replies.Refused[0].First[0], im.replies.Refused[0].Reason)
		}
		return &im.report, err
	}
	return &im.report, nil
}

// await waits until the server has synced everything that was sent.
func (im *importer) await() error {
	reply, failure, err := im.pipe.ask("WAITAOF", "1", "0", durableTime)
	switch {
	case err != nil:
		return err
	case strings.Contains(strings.ToLower(failure), "unknown command"):
		im.report.NotSaid = true
	case failure != "":
		return errors.New("all is sent, and whether it is durable the server does not say: " +
			failure)
	case !strings.HasPrefix(reply, "1"):
		return errors.New("all is sent, and the server has not synced its log")
	}
	return nil
}

// durableTime is how many milliseconds the server has to sync its log at the end.
const durableTime = "60000"

// survey reads all files, so that damage is found before anything is sent.
func (im *importer) survey() error {
	for i, f := range im.source.files {
		var err error
		f.aof, err = f.rdbLength(func(r rdb.Record) error {
			if r.Kind == rdb.RecordKey {
				im.dbs[r.DB] = ""
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		n, err := survey(f.all[f.aof:], func(args [][]byte) {
			im.aof = true
			if db, ok := selects(args); ok {
				im.dbs[db] = ""
			}
		})
		f.end = f.aof + n
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if torn := len(f.all) - f.end; torn > 0 {
			if i != len(im.source.files)-1 {
				return fmt.Errorf("%s ends within a command, and it is not the last file", f.name)
			}
			im.report.Torn, im.report.TornFile = int64(torn), f.name
		}
	}
	return nil
}

// selects returns the database that a SELECT names. ok is false for any other command.
func selects(args [][]byte) (db uint64, ok bool) {
	if len(args) != 2 || !named(args, "SELECT") {
		return 0, false
	}
	db, err := strconv.ParseUint(string(args[1]), 10, 64)
	return db, err == nil
}

// prepare finds out which databases the server has. If there are commands to import, the server
// must have no keys.
func (im *importer) prepare() error {
	im.pipe = newPipe(im.Conn)
	if im.aof {
		has, failure, err := im.pipe.ask("INFO", "keyspace")
		switch {
		case err != nil || failure != "":
			return fmt.Errorf("the server does not say what it has: %s %w", failure,
				errors.Join(err))
		case strings.Contains(has, "keys="):
			return errors.New("the server has keys: commands of an append-only file can only follow those before them")
		}
	}
	for db := range im.dbs {
		_, failure, err := im.pipe.ask("SELECT", strconv.FormatUint(db, 10))
		if err != nil {
			return fmt.Errorf("the server does not answer: %w", err)
		}
		if strings.HasPrefix(failure, "NOAUTH") {
			return errors.New(failure)
		}
		if im.dbs[db] = failure; strings.HasSuffix(failure, "out of range") {
			if im.dbs[db], err = im.noDatabase(); err != nil {
				return err
			}
		}
	}
	_, _, err := im.pipe.ask("SELECT", "0")
	return err
}

// noDatabase returns why the data of a missing database is not imported. If the
// server reports how many databases it has, the reason names that number and a sufficient one.
func (im *importer) noDatabase() (string, error) {
	reply, _, err := im.pipe.ask("CONFIG", "GET", "databases")
	has, ok := strings.CutPrefix(reply, "databases ")
	if err != nil || !ok {
		return errNoDatabase, err
	}
	reason := errNoDatabase + ": databases is " + strings.TrimSpace(has)
	if last := slices.Max(slices.Collect(maps.Keys(im.dbs))); last < maxDatabases {
		reason += ", and KEYP_DATABASES=" + strconv.FormatUint(last+1, 10) + " makes it larger"
	}
	return reason, nil
}

const (
	errNoDatabase = "the server has no such database"
	// maxDatabases is how many databases a server can have.
	maxDatabases = 65536
)

// send reads the files a second time and sends their contents.
func (im *importer) send() error {
	for _, f := range im.source.files {
		last := int64(0)
		if f.aof > 0 {
			in, err := rdb.OpenFile(f.all)
			for err == nil {
				var r rdb.Record
				if r, err = in.Next(); err != nil || r.Kind == rdb.RecordEnd {
					break
				}
				err = im.record(&r)
				im.Progress.Done(in.Offset() - last)
				last = in.Offset()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		c := commands{f.all[:f.end], f.aof}
		im.at = 0 // each file begins there
		var args [][]byte
		for {
			from := c.at
			var err error
			if args, err = c.next(args[:0]); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			if len(args) == 0 {
				break
			}
			if err := im.command(args); err != nil {
				return err
			}
			im.Progress.Done(int64(c.at - from))
		}
	}
	return nil
}

// command sends a command of an append-only file.
func (im *importer) command(args [][]byte) error {
	if named(args, "SELECT") {
		db, ok := selects(args)
		if !ok {
			db = noDB
		}
		im.at = db
		return nil
	}
	name := strings.ToUpper(string(args[0][:min(len(args[0]), maxName)]))
	switch reason := im.cannotUse(im.at); {
	case !im.Allowed(args):
		im.report.Refused.Add("commands that are unknown or change nothing", name)
		return nil
	case reason != "":
		im.report.Refused.Add(reason, strconv.FormatUint(im.at, 10))
		return nil
	}
	for _, arg := range args {
		if len(arg) > maxValue {
			im.report.Refused.Add("longer than 512 MB", name)
			return nil
		}
	}
	switch wanted, problem := im.wantsCommand(name, args); {
	case problem != "":
		im.report.Refused.Add(problem, name)
		return nil
	case !wanted:
		im.report.LeftOut++
		return nil
	}
	im.report.Commands++
	if im.Conn == nil || im.DryRun {
		return nil
	}
	if err := im.use(im.at); err != nil {
		return err
	}
	if name == "EXEC" {
		im.known = false // what it selected it may have refused
	}
	return im.do(sent{what: name}, args...)
}

// wantsCommand reports whether a command concerns only keys that were chosen. A command that also
// concerns other keys is a problem: its effect on the chosen keys may depend on the others.
func (im *importer) wantsCommand(name string, args [][]byte) (wanted bool, problem string) {
	if im.all() {
		return true, ""
	}
	switch name {
	case "FUNCTION":
		return false, ""
	case "MULTI", "EXEC", "FLUSHALL", "SCRIPT": // the server has nothing but what was chosen
		return true, ""
	case "FLUSHDB":
		return im.DB == AllDBs || im.at == uint64(im.DB), ""
	}
	keys, ok := im.Keys(args, int(im.at))
	if !ok || len(keys) == 0 {
		return false, "commands that do not name their keys"
	}
	n := 0
	for _, k := range keys {
		if im.chosen(uint64(k.DB), k.Name) {
			n++
		}
	}
	if n > 0 && n < len(keys) {
		return false, "commands about keys that were chosen and others"
	}
	return n > 0, ""
}

// noDB stands for the database of a SELECT without a valid number.
const noDB = 1 << 63

// cannotUse returns why a database cannot be used; empty if it can.
func (im *importer) cannotUse(db uint64) string {
	if db == noDB {
		return errNoDatabase
	}
	return im.dbs[db]
}

// use selects a database on the server, if another one is selected.
func (im *importer) use(db uint64) error {
	if im.known && im.server == db {
		return nil
	}
	im.server, im.known = db, true
	return im.do(sent{what: "SELECT"}, []byte("SELECT"), strconv.AppendUint(nil, db, 10))
}

func (im *importer) do(s sent, args ...[]byte) error {
	if err := im.pipe.add(s, len(args)); err != nil {
		return err
	}
	for _, arg := range args {
		im.pipe.out.Bulk(arg)
	}
	return nil
}

// record sends the content of a record of an RDB file.
func (im *importer) record(r *rdb.Record) error {
	switch r.Kind {
	case rdb.RecordSkipped:
		name := string(r.Key)
		if im.wanted(r) || r.Key == nil {
			im.report.Refused.Add(r.Skipped, name)
		}
	case rdb.RecordFunction:
		if !im.all() {
			im.report.LeftOut++
			return nil
		}
		if im.report.Libraries++; im.Conn == nil {
			return nil
		}
		line, _, _ := bytes.Cut(r.Source, []byte("\n"))
		s := sent{what: "FUNCTION LOAD", key: line}
		if im.DryRun {
			return im.lookForLibrary(line)
		}
		if im.Replace {
			return im.do(s, []byte("FUNCTION"), []byte("LOAD"), []byte("REPLACE"), r.Source)
		}
		return im.do(s, []byte("FUNCTION"), []byte("LOAD"), r.Source)
	case rdb.RecordKey:
		return im.key(r)
	}
	return nil
}

// all reports whether neither a database nor a pattern was chosen. Otherwise libraries are left
// out.
func (im *importer) all() bool { return im.DB == AllDBs && im.Match == "" }

func (im *importer) wanted(r *rdb.Record) bool { return im.chosen(r.DB, r.Key) }

func (im *importer) chosen(db uint64, key []byte) bool {
	return (im.DB == AllDBs || db == uint64(im.DB)) &&
		(im.Match == "" || glob.Match([]byte(im.Match), key))
}

func (im *importer) key(r *rdb.Record) error {
	switch reason := im.cannotUse(r.DB); {
	case !im.wanted(r):
		im.report.LeftOut++
		return nil
	case r.Expires && r.Deadline <= im.now:
		im.report.Expired++
		return nil
	case reason != "":
		im.report.Refused.Add(reason, strconv.FormatUint(r.DB, 10))
		return nil
	case r.PayloadBytes() > maxValue || len(r.Key) > maxValue:
		im.report.Refused.Add("longer than 512 MB", string(r.Key[:min(len(r.Key), maxName)]))
		return nil
	}
	if im.Conn == nil || im.DryRun {
		v, err := r.Value()
		if err != nil || len(v.Str) > maxValue {
			im.report.Refused.Add("its value is damaged", string(r.Key))
			return nil
		}
	}
	if err := im.count(r); err != nil || im.Conn == nil {
		return err
	}
	if im.DryRun {
		return im.lookFor(r)
	}
	return im.restore(r)
}

func (im *importer) count(r *rdb.Record) error {
	im.report.Keys++
	im.report.Types[r.Type.String()]++
	if r.Expires {
		im.report.Deadlines++
	}
	if im.Conn == nil {
		return nil
	}
	return im.use(r.DB)
}

// lookFor asks whether a key exists, since the server would then refuse the key of the file.
func (im *importer) lookFor(r *rdb.Record) error {
	if im.Replace {
		return nil
	}
	return im.do(sent{"EXISTS", r.Key, r.Type.String(), r.Expires}, []byte("EXISTS"), r.Key)
}

// lookForLibrary asks whether the server has the library named in the first line, #!lua name=NAME.
func (im *importer) lookForLibrary(line []byte) error {
	_, name, _ := bytes.Cut(line, []byte("name="))
	if name, _, _ = bytes.Cut(name, []byte(" ")); im.Replace {
		return nil
	}
	return im.do(sent{what: "FUNCTION LIST", key: line}, []byte("FUNCTION"), []byte("LIST"),
		[]byte("LIBRARYNAME"), name)
}

func (im *importer) restore(r *rdb.Record) error {
	deadline := int64(0)
	if r.Expires {
		deadline = r.Deadline
	}
	if im.payload = r.AppendPayload(im.payload[:0]); cap(im.payload) > 4*batchBytes {
		defer func() { im.payload = nil }()
	}
	args := [][]byte{[]byte("RESTORE"), r.Key, strconv.AppendInt(nil, deadline, 10), im.payload,
		[]byte("ABSTTL")}
	if im.Replace {
		args = append(args, []byte("REPLACE"))
	}
	if r.Idle >= 0 {
		args = append(args, []byte("IDLETIME"), strconv.AppendInt(nil, r.Idle, 10))
	} else if r.Freq >= 0 {
		args = append(args, []byte("FREQ"), strconv.AppendInt(nil, r.Freq, 10))
	}
	return im.do(sent{"RESTORE", r.Key, r.Type.String(), r.Expires}, args...)
}

// replied handles a reply, on the pipe's goroutine. s.key lies in the mapped files.
func (im *importer) replied(s sent, reply, failure string) {
	switch {
	case failure != "":
	case s.what == "EXISTS" && reply != "0":
		failure = "BUSYKEY Target key name already exists."
	case s.what == "FUNCTION LIST" && reply != "":
		failure = "ERR Library already exists"
	}
	if failure == "" {
		return
	}
	name := s.what
	switch {
	case s.typ != "":
		im.replies.Keys++
		im.replies.Types[s.typ]++
		if s.expires {
			im.replies.Deadlines++
		}
	case s.key != nil:
		im.replies.Libraries++
	case s.what != "SELECT":
		im.replies.Commands++
	}
	if s.key != nil {
		name = string(s.key[:min(len(s.key), maxName)])
	}
	im.replies.Refused.Add(failure, name)
}
