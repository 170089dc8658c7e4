package commands

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"keyp/internal/config"
	"keyp/storage"
)

// A backup is a stream of all data, as of one moment, which a client reads piece by piece. It
// belongs to its connection. A goroutine prepares the next piece, and waits until somebody asks for
// it. So a slow client costs no memory, and delays no other client.
//
// When the connection ends, the backup remains for backupGrace, or until somebody begins another
// backup. Meanwhile another connection can continue it by its id (RESUME). The last piece stays in
// memory, so it can be read again if the reply was lost.
var keypBackupCommands = []Spec{{
	Name: "KEYP.BACKUP", Group: KeypGroup, Since: "0.1.0", Arity: -2,
	Summary: "Reads a backup of all data.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "BEGIN", Group: KeypGroup, Since: "0.1.0", Arity: 2,
			Flags: Admin | NoScript | NoMulti, Scope: Unlocked, Categories: backupCategories,
			Summary:    "Begins a backup of the present moment, which the connection reads.",
			Complexity: "O(1), after the checkpoint under way.",
			Tips:       []string{tipRandom},
			Run:        backupBegin,
		},
		{
			Name: "READ", Group: KeypGroup, Since: "0.1.0", Arity: 2,
			Flags: Admin | NoScript | NoMulti, Scope: Unlocked, Categories: backupCategories,
			Summary:    "Reads the next piece of the connection's backup.",
			Complexity: "O(1): a piece has at most 1 MiB.",
			Tips:       []string{tipRandom},
			Run:        backupRead,
		},
		{
			Name: "END", Group: KeypGroup, Since: "0.1.0", Arity: 2,
			Flags: Admin | NoScript | NoMulti, Scope: Unlocked, Categories: backupCategories,
			Summary:    "Ends the connection's backup, whether it was read or not.",
			Complexity: "O(1)",
			Run:        backupEnd,
		},
		{
			Name: "RESUME", Group: KeypGroup, Since: "0.1.0", Arity: 4,
			Flags: Admin | NoScript | NoMulti, Scope: Unlocked, Categories: backupCategories,
			Args:    []Arg{stringArg("id"), intArg("piece")},
			Summary: "Goes on with the backup of a connection that was lost.", Complexity: "O(1)",
			Run: backupResume,
		},
		helpFor("KEYP.BACKUP", KeypGroup, "0.1.0", Loading|Stale,
			"BEGIN", "    Begins a backup of the present moment.",
			"READ", "    Reads its next piece; nil behind the last one.",
			"END", "    Ends it.",
			"RESUME <id> <piece>",
			"    Goes on with the backup of a connection that was lost, whose BEGIN has replied",
			"    this id. READ replies this piece next, which is the last one that was read,",
			"    or the one behind it; the first one is 0."),
	},
}}

// backupCategories has no category of Keyp's other commands. Rules that allow those commands for
// some keys would otherwise allow a user to read all data.
var backupCategories = []string{"@backup"}

const (
	errBackupHere Error = "ERR this connection has a backup already: KEYP.BACKUP END ends it"
	errNoBackup   Error = "ERR this connection has no backup: KEYP.BACKUP BEGIN begins one"
	errBackupGone Error = "ERR there is no such backup any more"
	errBackupBusy Error = "TRYAGAIN a piece of the backup is being read"
	errBackupLed  Error = "ERR this server has led its group, and does not know yet what the group has of its last writes: try again"
)

// backupPatience is how long a backup is protected after its last command. After that, another
// client that begins a backup ends it.
const backupPatience = 5 * time.Minute

// backupGrace is how long a backup remains after its connection has ended.
const backupGrace = time.Minute

// backupPiece is the length in bytes of each piece except the last one.
const backupPiece = 1 << 20

// backups has the backup that is being read; there is one at a time.
type backups struct {
	mu struct {
		sync.Mutex
		open *backup
	}
}

// backup is a backup that a client reads. Its commands run one after the other. While a READ runs,
// the field asked has the value busy, and no other connection can take the backup.
type backup struct {
	id     string
	client uint64 // guarded by backups.mu, as addr and lost
	addr   string
	// lost ends the backup some time after its connection has ended. It is nil while the connection
	// exists.
	lost   *time.Timer
	asked  atomic.Int64 // when its last command ended, by Clock.Mono; busy while one runs
	read   atomic.Bool  // to its end
	stop   context.CancelFunc
	from   *io.PipeReader
	ended  chan struct{} // closed when the store's snapshot is
	buf    []byte
	size   int   // of the last piece
	pieces int64 // that were read
	again  bool  // the last piece is the next one
}

// busy is backup.asked while a command runs.
const busy = math.MaxInt64

// take makes a new backup the only one of the server, for a client. If it replaces an earlier
// backup, it waits for the end of that backup.
func (bs *backups) take(client uint64, addr string,
	now time.Duration) (context.Context, *backup, error) {
	for {
		ctx, b, stalled, err := bs.tryTake(client, addr, now)
		if stalled == nil {
			return ctx, b, err
		}
		stalled.stop()
		<-stalled.ended
		bs.drop(stalled)
	}
}

func (bs *backups) tryTake(client uint64, addr string,
	now time.Duration) (_ context.Context, _, stalled *backup, err error) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	switch b := bs.mu.open; {
	case b == nil:
	case b.lost != nil:
		return nil, nil, b, nil
	case b.client == client:
		return nil, nil, nil, errBackupHere
	case b.read.Load() || now-time.Duration(b.asked.Load()) >= backupPatience:
		return nil, nil, b, nil
	default:
		return nil, nil, nil, Error(
			fmt.Sprintf("ERR another backup is being read, by client %d at %s", b.client, b.addr))
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &backup{id: rand.Text(), client: client, addr: addr, stop: stop,
		ended: make(chan struct{})}
	b.asked.Store(busy)
	bs.mu.open = b
	return ctx, b, nil, nil
}

// of returns a client's backup, or nil.
func (bs *backups) of(client uint64) *backup {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if b := bs.mu.open; b != nil && b.client == client && b.lost == nil {
		return b
	}
	return nil
}

// resume moves a backup to another client, which continues with a piece. The server may not know
// yet that the first client's connection has ended.
func (bs *backups) resume(id string, piece int64, client uint64, addr string,
	now time.Duration) error {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b := bs.mu.open
	switch {
	case b != nil && b.client == client && b.lost == nil:
		return errBackupHere
	case b == nil || subtle.ConstantTimeCompare([]byte(b.id), []byte(id)) == 0:
		return errBackupGone
	}
	asked := b.asked.Load()
	if asked == busy || !b.asked.CompareAndSwap(asked, busy) {
		return errBackupBusy
	}
	defer b.asked.Store(int64(now))
	if piece != b.pieces && (piece != b.pieces-1 || b.size == 0) {
		return Error(fmt.Sprintf(
			"ERR %d pieces of the backup were read: it cannot go on with piece %d",
			b.pieces, piece))
	}
	if b.lost != nil && !b.lost.Stop() {
		return errBackupGone
	}
	b.client, b.addr, b.lost, b.again = client, addr, nil, piece == b.pieces-1
	return nil
}

// drop stops a backup. After that another one can begin.
func (bs *backups) drop(b *backup) {
	b.stop()
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.mu.open == b {
		bs.mu.open = nil
	}
}

// gone keeps the backup of an ended connection for backupGrace, so that another one can resume it.
func (bs *backups) gone(client uint64) {
	b := bs.of(client)
	if b == nil {
		return
	}
	late := time.AfterFunc(backupGrace, func() { bs.end(b) })
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if b.client != client || b.lost != nil { // another connection has taken it just now
		late.Stop()
		return
	}
	b.lost = late
}

// reset ends a client's backup soon.
func (bs *backups) reset(client uint64) {
	if b := bs.of(client); b != nil {
		bs.end(b)
	}
}

// end ends a backup soon.
func (bs *backups) end(b *backup) {
	b.stop()
	select {
	case <-b.ended:
		bs.drop(b)
	default: // sendBackup does
	}
}

// backupBegin begins a backup and replies with a map that describes it.
func backupBegin(c *Ctx) error {
	e := c.Env
	ctx, b, err := e.backups.take(c.Client.ID, c.Client.Addr, e.Clock.Mono())
	if err != nil {
		return err
	}
	sn, err := e.Store.OpenBackup(ctx)
	if err != nil {
		e.backups.drop(b)
		switch {
		case errors.Is(err, storage.ErrDeposed):
			return errBackupLed
		case errors.Is(err, storage.ErrCorrupt):
			return err
		}
		return Error("ERR no backup begins: " + oneLine(err))
	}
	h := &sn.Header
	if st := e.groupStatus(); st != nil && st.Role == Follower {
		h.Time -= e.group.Progress().Heard.Milliseconds() // what it lacks may be as old as that
	}
	h.Server = config.Version
	from, to := io.Pipe()
	b.from = from
	context.AfterFunc(ctx, func() { from.CloseWithError(context.Canceled) })
	began := e.Clock.Mono()
	go e.sendBackup(ctx, b, c.Client.ID, sn, to, began)
	b.asked.Store(int64(began))
	e.Log.Info("a backup begins", "client", c.Client.ID, "address", c.Client.Addr, "lsn", h.Through,
		"bytes", h.Size)
	c.Out.Map(7)
	c.Out.BulkString("id")
	c.Out.BulkString(b.id)
	for _, field := range []struct {
		name  string
		value int64
	}{{"lsn", int64(h.Through)}, {"time", h.Time}, {"size", h.Size},
		{"log", int64(h.Through - min(h.Through, sn.LogFrom()))}, {"keys", h.Keys},
		{"deadlines", h.Deadlines}} {
		c.Out.BulkString(field.name)
		c.Out.Int(field.value)
	}
	return nil
}

// sendBackup writes a backup to the pipe, for a client that reads it, until all was read or ctx
// ends.
func (e *Env) sendBackup(ctx context.Context, b *backup, client uint64, sn *storage.FileSnapshot,
	to *io.PipeWriter, began time.Duration) {
	defer func() {
		close(b.ended)
		if ctx.Err() != nil { // its client may be gone
			e.backups.drop(b)
		}
	}()
	out := bufio.NewWriterSize(to, backupPiece)
	err := sn.SendBackup(ctx, out)
	if err == nil {
		err = out.Flush()
	}
	err = errors.Join(err, sn.Close())
	to.CloseWithError(err) // nil: io.EOF
	took := e.Clock.Mono() - began
	switch {
	case err == nil:
		e.Log.Info("a backup was read", "client", client, "lsn", sn.Header.Through, "took", took)
	case ctx.Err() != nil:
		e.Log.Warn("a backup was not read to its end", "client", client, "lsn", sn.Header.Through)
	default:
		e.Log.Error("a backup was given up", "client", client, "error", err)
	}
}

func backupRead(c *Ctx) error {
	b := c.Env.backups.of(c.Client.ID)
	if b == nil {
		return errNoBackup
	}
	if asked := b.asked.Load(); asked == busy || !b.asked.CompareAndSwap(asked, busy) {
		return errNoBackup // another connection takes it
	}
	if c.Env.backups.of(c.Client.ID) != b { // one has taken it
		b.asked.Store(int64(c.Env.Clock.Mono()))
		return errNoBackup
	}
	defer func() { b.asked.Store(int64(c.Env.Clock.Mono())) }()
	if b.again {
		b.again = false
		c.Out.Bulk(b.buf[:b.size])
		return nil
	}
	if b.buf == nil {
		b.buf = make([]byte, backupPiece)
	}
	n, err := io.ReadFull(b.from, b.buf)
	switch {
	case n > 0 && (err == nil || errors.Is(err, io.ErrUnexpectedEOF)):
		b.size, b.pieces = n, b.pieces+1
		c.Out.Bulk(b.buf[:n])
	case errors.Is(err, io.EOF):
		b.read.Store(true)
		c.Out.Null()
	default:
		c.Env.backups.drop(b)
		return Error("ERR the backup ended before all was read: " + oneLine(err))
	}
	return nil
}

// oneLine returns the text of an error as one line, for a reply.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func backupResume(c *Ctx) error {
	piece, ok := ParseInt(c.Arg(3))
	if !ok {
		return ErrNotInteger
	}
	e := c.Env
	if err := e.backups.resume(string(c.Arg(2)), piece, c.Client.ID, c.Client.Addr,
		e.Clock.Mono()); err != nil {
		return err
	}
	e.Log.Info("a backup goes on by another connection", "client", c.Client.ID, "address",
		c.Client.Addr, "piece", piece)
	c.Out.OK()
	return nil
}

func backupEnd(c *Ctx) error {
	b := c.Env.backups.of(c.Client.ID)
	if b == nil {
		return errNoBackup
	}
	b.stop()
	<-b.ended
	c.Env.backups.drop(b)
	c.Out.OK()
	return nil
}
