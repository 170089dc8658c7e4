package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/config"
	"keyp/internal/progress"
	"keyp/internal/target"
	"keyp/storage"
	"keyp/storage/backupfile"
	"keyp/storage/snapshotfile"
)

const backupUsage = `usage: keyp backup ADDR TARGET     back up a server while it serves; ADDR is HOST:PORT or the path of a socket
       keyp backup DIR TARGET      back up a data directory that no server uses, a member's of a group too
       keyp backup verify FILE     prove that a backup is whole and sound
       keyp backup prune DIR --keep N|DAYSd [--archive DIR] [--dry-run] [--force]
                                   remove old backups, and what only they need of an archive
TARGET is a file that is not there, a directory, s3://BUCKET/PREFIX, or - for standard output; FILE and DIR may be in a bucket too, which
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL say how to reach
options: ` + targetUsage + ", " + serverUsage

// backupShort is the short form of backupUsage, for error messages.
const backupShort = "usage: keyp backup ADDR|DIR TARGET, keyp backup verify FILE, keyp backup prune DIR (see keyp backup --help)"

// backupPatience bounds how long a server may take for the next piece. It may have to finish a
// checkpoint first.
const backupPatience = 5 * time.Minute

// targetUsage is the option of tools that reach a bucket.
const targetUsage = "--s3-endpoint URL"

func addTargetFlags(flags *flag.FlagSet) *target.Options {
	o := &target.Options{}
	flags.StringVar(&o.Endpoint, "s3-endpoint", "", "")
	return o
}

// backup runs keyp backup. It writes all data of a server or a directory, as of one moment, to a
// target. With prune it removes old backups, and with verify it verifies one.
func backup(args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "prune" {
		return prune(args[1:], out)
	}
	flags := flag.NewFlagSet("backup", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o := &redis.Options{Password: os.Getenv("REDISCLI_AUTH"), MaxRetries: -1,
		DialTimeout: 5 * time.Second, ReadTimeout: backupPatience, Protocol: 2,
		DisableIdentity: true, PoolSize: 1}
	server, remote := addServerFlags(flags), addTargetFlags(flags)
	words, err := parseWords(flags, args)
	if err != nil {
		return fmt.Errorf("%w; %s", err, backupShort)
	}
	if len(words) != 2 || words[1] == "" {
		return errors.New(backupShort)
	}
	if err := server.apply(o); err != nil {
		return err
	}
	if meant := config.Suggestion(words[0], "verify", "prune"); meant != "" &&
		words[0] != "verify" {
		if _, err := os.Stat(words[0]); err != nil {
			return fmt.Errorf("there is no command backup %s, and no directory of that name%s (see keyp backup --help)",
				words[0], meant)
		}
	}
	if err := mayCreate(words[0], words[1], *remote); err != nil {
		return err
	}
	redis.SetLogger(noLog{}) // errors are reported here
	yieldToServers()
	from, to := words[0], words[1]
	ctx := context.Background()
	if from == "verify" || to != "-" {
		// A signal ends a backup to a pipe at once, because there is nothing to remove.
		interrupted, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		ctx = interrupted
	}
	if from == "verify" {
		return verifyBackup(ctx, to, *remote, out)
	}
	t := &backupTool{ctx: ctx, out: out, remote: *remote, progress: toolProgress(),
		began: time.Now()}
	info, err := os.Stat(from)
	switch {
	case err == nil && info.IsDir():
		err = t.ofDir(from, to)
	case err == nil && info.Mode().Type() != os.ModeSocket, err != nil &&
		!strings.Contains(from, ":"):
		err = errors.New("it is no data directory, no socket, and no HOST:PORT")
	default:
		o.Network, o.Addr = networkOf(from), from
		err = t.ofServer(o, to)
	}
	if err != nil {
		return fmt.Errorf("%s is not backed up: %w", from, inUse(interruption(ctx, err)))
	}
	return nil
}

// mayCreate returns an error if no backup can be made at the target. It is called before the work
// begins.
func mayCreate(from, to string, remote target.Options) error {
	if from == "verify" || to == "-" {
		return nil
	}
	if storage.IsWithin(to, from) {
		return fmt.Errorf(
			"%s is in the directory of the data, and a backup is to survive the loss of that", to)
	}
	if isFolder(to) {
		_, err := target.Open(to, remote)
		return err
	}
	if _, err := os.Stat(to); err == nil { // only Create makes sure
		return fmt.Errorf("%s: %w", to, target.ErrExists)
	}
	return nil
}

var errInterrupted = errors.New("it was interrupted")

// interruption returns errInterrupted if a signal has ended ctx, and err otherwise.
func interruption(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// backupTool makes one backup.
type backupTool struct {
	ctx      context.Context
	out      io.Writer
	remote   target.Options
	progress *progress.Meter
	began    time.Time
}

// moment describes the state of the data that a backup contains.
type moment struct {
	lsn             uint64
	at              int64 // Unix ms
	keys, deadlines int64
	bytes           int64 // about what will be sent
}

// ofDir backs up a directory that no server uses.
func (t *backupTool) ofDir(dir, to string) (err error) {
	store, closed, err := openDir(toolOptions(dir, t.progress))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(false)) }()
	sn, err := store.OpenBackup(t.ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sn.Close()) }()
	h := &sn.Header
	h.Server = config.Version
	if closed != nil {
		closed.AsOf(sn)
	}
	m := moment{lsn: h.Through, at: h.Time, keys: h.Keys, deadlines: h.Deadlines,
		bytes: h.Size + int64(h.Through-sn.LogFrom())}
	return t.write(to, m, func(w io.Writer) error { return sn.SendBackup(t.ctx, w) })
}

// write writes the backup to a target. The function stream provides the data.
func (t *backupTool) write(to string, m moment, stream func(io.Writer) error) error {
	t.progress.Begin("backing up")
	defer t.progress.End()
	t.progress.Expect(m.bytes)
	if to == "-" {
		_, err := t.pack(os.Stdout, stream)
		return err
	}
	folder, name, err := t.place(to, m)
	if err != nil {
		return err
	}
	size, err := folder.Create(t.ctx, name, m.bytes, func(w io.Writer) error {
		_, err := t.pack(w, stream)
		return err
	})
	if err != nil {
		return err
	}
	t.progress.End()
	_, err = fmt.Fprintf(t.out,
		"%s has %s, %d with a deadline, as of %s, LSN %d: %d bytes, done in %v\n",
		folder.Path(name), count(m.keys, "key"), m.deadlines, instant(m.at), m.lsn, size,
		time.Since(t.began).Round(time.Millisecond))
	return err
}

// place returns the folder and the name of a backup at a target.
func (t *backupTool) place(to string, m moment) (target.Folder, string, error) {
	if isFolder(to) {
		folder, err := target.Open(to, t.remote)
		return folder, backupName(m.at, m.lsn), err
	}
	return target.Split(to, t.remote)
}

// isFolder reports whether a target is an existing directory or a bucket, in which backups get
// names.
func isFolder(path string) bool {
	if target.Remote(path) {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// pack compresses the stream into w. It returns the number of bytes written to w.
func (t *backupTool) pack(w io.Writer, stream func(io.Writer) error) (n int64, err error) {
	counted := &countWriter{w: w}
	packed, err := backupfile.NewWriter(counted)
	if err != nil {
		return 0, err
	}
	err = stream(&countWriter{w: packed, progress: t.progress})
	if err != nil {
		packed.Abort()
		return counted.n, err
	}
	err = packed.Close()
	return counted.n, err
}

// countWriter counts the bytes that are written through it.
type countWriter struct {
	w        io.Writer
	n        int64
	progress *progress.Meter
}

func (c *countWriter) Write(b []byte) (n int, err error) {
	n, err = c.w.Write(b)
	c.n += int64(n)
	c.progress.Done(int64(n))
	return n, err
}

// WriteString is Write, without a copy if the writer below has WriteString.
func (c *countWriter) WriteString(s string) (n int, err error) {
	n, err = io.WriteString(c.w, s)
	c.n += int64(n)
	c.progress.Done(int64(n))
	return n, err
}

// backupName returns the name of a backup in a directory. These names sort in order of time.
func backupName(at int64, lsn uint64) string {
	return fmt.Sprintf("keyp-%s-%d.backup", time.UnixMilli(at).UTC().Format("20060102T150405.000Z"),
		lsn)
}

// instant formats a time in Unix ms.
func instant(at int64) string { return time.UnixMilli(at).UTC().Format("2006-01-02T15:04:05.000Z") }

// openBackup opens a backup. The path - stands for standard input.
func openBackup(ctx context.Context, path string,
	remote target.Options) (io.ReadCloser, int64, error) {
	if path == "-" {
		return os.Stdin, 0, nil
	}
	folder, name, err := target.Split(path, remote)
	if err != nil {
		return nil, 0, err
	}
	return folder.Open(ctx, name)
}

// unpacked passes the content of a backup file to use, and shows the progress in meter.
func unpacked(ctx context.Context, path string, remote target.Options, meter *progress.Meter,
	use func(io.Reader) error) error {
	file, size, err := openBackup(ctx, path, remote)
	if err != nil {
		return err
	}
	defer file.Close() // read only
	meter.Expect(size)
	from, err := backupfile.NewReader(&countReader{ctx, file, meter})
	if err != nil {
		return err
	}
	defer from.Close()
	if err := use(from); err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, from) // reads the end, which has to be there
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: %d bytes stand behind its end", snapshotfile.ErrBad, n)
	}
	return err
}

// countReader counts the bytes that are read through it. It fails after ctx has ended.
type countReader struct {
	ctx      context.Context
	r        io.Reader
	progress *progress.Meter
}

func (c *countReader) Read(b []byte) (n int, err error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err = c.r.Read(b)
	c.progress.Done(int64(n))
	return n, err
}
