package commands

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"slices"
	"strconv"
	"time"

	"keyp/internal/clock"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// MIGRATE moves keys to another server. It runs outside of the loop, and other clients are served
// meanwhile, so a key may change while its value is in transit. A key is deleted here only after
// the target has replied OK, and only if it has not changed since it was sent. A key that has
// changed is sent again, and replaces the value that was sent before.
var migrateCommands = []Spec{{
	Name: "MIGRATE", Group: Generic, Since: "2.6.0",
	Summary:    "Moves keys to another server: each is deleted here when the other one has it.",
	Complexity: "O(N) in the size of the values, here and there.",
	History: [][2]string{
		{"3.0.0", "Added the `COPY` and `REPLACE` options."},
		{"3.0.6", "Added the `KEYS` option."},
		{"4.0.7", "Added the `AUTH` option."},
		{"6.0.0", "Added the `AUTH2` option."},
	},
	Arity: -6, Flags: Write | Dangerous | elsewhere, Scope: Unlocked,
	Keys: []KeySpec{
		{Flags: RW | Access | Delete, Begin: 3, Find: migrateOne},
		{Flags: RW | Access | Delete | Incomplete, Begin: -2, Last: -1, Find: migrateMany,
			Word: "KEYS"},
	},
	Args: []Arg{
		stringArg("host"), intArg("port"),
		oneOf("key-selector", keyArg("key"), Arg{Name: "empty-string", Type: ArgToken}),
		intArg("destination-db"), intArg("timeout"),
		word("COPY").opt().since("3.0.0"), word("REPLACE").opt().since("3.0.0"),
		oneOf("authentication", stringArg("password").after("AUTH").opt().since("4.0.7"),
			block("auth2", stringArg("username"), stringArg("password")).after("AUTH2").opt().since(
				"6.0.0")).opt(),
		keyArg("key").after("KEYS").opt().many().of(2).since("3.0.6"),
	},
	Tips: []string{tipRandom},
	Run:  runMigrate,
}}

// The errors of MIGRATE.
const (
	errMigrateKeys    Error = "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string"
	errMigrateConnect Error = "IOERR error or timeout connecting to the client"
	errMigrateWrite   Error = "IOERR error or timeout writing to target instance"
	errMigrateRead    Error = "IOERR error or timeout reading to target instance"
	errMigrateEnded   Error = "IOERR ended before the target had replied, since its client has left, or CLIENT PAUSE or a stop waited for it: keys that are still here may be there, too"
	errMigrateNested  Error = "ERR MIGRATE waits for another server, and so is not allowed in transactions and scripts"
	errMigrateChanges Error = "ERR a key changed each time that it was sent: the target has an older value of it"
)

const (
	// migrateTimeout replaces a timeout that is not positive.
	migrateTimeout = time.Second
	// migrateTries is the maximum number of times that a key is sent if it changes each time.
	migrateTries = 10
	// migrateChunk is the number of bytes that must be sent within one timeout.
	migrateChunk = 64 << 10
	// migrateLine bounds a reply of the target, in bytes.
	migrateLine = 64 << 10
)

// migrateOne finds the key at its fixed place, and migrateMany finds the keys after KEYS.
func migrateOne(args [][]byte) (first, last int) {
	if len(args) > 3 && len(args[3]) == 0 {
		if first, last := migrateMany(args); first <= last {
			return 1, 0
		}
	}
	return 3, min(3, len(args)-1)
}

func migrateMany(args [][]byte) (first, last int) {
	for i := 6; i < len(args); i++ {
		switch {
		case isWord(args[i], "AUTH"):
			i++
		case isWord(args[i], "AUTH2"):
			i += 2
		case isWord(args[i], "KEYS") && len(args[3]) == 0:
			return i + 1, len(args) - 1
		}
	}
	return 1, 0
}

// migration is a MIGRATE under way.
type migration struct {
	c             *Ctx
	txn           *storage.Txn
	keys          []storage.Key
	db            int64
	timeout       time.Duration
	copy, replace bool
	auth          [][]byte // arguments of AUTH

	conn net.Conn
	in   *bufio.Reader
}

func parseMigrate(c *Ctx) (*migration, error) {
	m := &migration{c: c, txn: c.Env.Store.NewTxn(), keys: c.Keys}
	a := c.Cursor(6)
	for a.More() {
		switch {
		case a.Word("COPY"):
			m.copy = true
		case a.Word("REPLACE"):
			m.replace = true
		case a.Word("AUTH"):
			m.auth = [][]byte{a.Bytes()}
		case a.Word("AUTH2"):
			m.auth = [][]byte{a.Bytes(), a.Bytes()}
		case a.Word("KEYS"):
			if len(c.Arg(3)) != 0 {
				a.Fail(errMigrateKeys)
			}
			a.Skip(int64(a.Len()))
		default:
			a.Fail(ErrSyntax)
		}
	}
	b := c.Cursor(4)
	dbArg := b.Bytes()
	ms := b.Int()
	db, ok := ParseInt(dbArg)
	if !ok {
		b.Fail(ErrNotInteger)
	}
	a.Fail(b.Err())
	m.db, m.timeout = db, time.Duration(min(ms, int64(time.Hour/time.Millisecond)))*time.Millisecond
	if m.timeout <= 0 {
		m.timeout = migrateTimeout
	}
	return m, a.Err()
}

func runMigrate(c *Ctx) error {
	if c.Nested { // what the others of it have locked would stay so meanwhile
		return errMigrateNested
	}
	m, err := parseMigrate(c)
	if err != nil {
		return err
	}
	defer m.txn.End() // after a panic nothing stays locked
	there, err := m.anyThere()
	switch {
	case err != nil:
		return err
	case !there:
		c.Out.Simple("NOKEY")
		return nil
	}
	switch err := m.run(); {
	case err != nil && c.work.Err() != nil:
		return errMigrateEnded
	case err != nil:
		return err
	}
	c.Out.OK()
	return nil
}

func (m *migration) run() error {
	if err := m.connect(); err != nil {
		return err
	}
	defer func() { _ = m.conn.Close() }() // what matters has been replied
	defer context.AfterFunc(m.c.work, func() { _ = m.conn.Close() })()
	if err := m.greet(); err != nil {
		return err
	}
	return m.move()
}

// begin locks a key. The caller ends the transaction.
func (m *migration) begin(k storage.Key) error {
	if err := m.c.Env.beginBeside(m.txn, []storage.Key{k}); err != nil {
		return err
	}
	m.txn.By = m.c.Client.ID
	return nil
}

func (m *migration) end() {
	m.c.Env.Tracking.ranIn(m.c, m.txn)
	m.c.LSN = max(m.c.LSN, m.txn.End())
}

func (m *migration) anyThere() (bool, error) {
	for _, k := range m.keys {
		if err := m.begin(k); err != nil {
			return false, err
		}
		_, ok := m.txn.Peek(k)
		m.end()
		if ok {
			return true, nil
		}
	}
	return false, nil
}

func (m *migration) connect() error {
	addr := net.JoinHostPort(string(m.c.Arg(1)), string(m.c.Arg(2)))
	dialer := net.Dialer{Timeout: m.timeout}
	conn, err := dialer.DialContext(m.c.work, "tcp", addr)
	var failure net.Error
	switch {
	case errors.As(err, &failure) && failure.Timeout():
		return errMigrateConnect
	case err != nil:
		return errMigrateWrite // as Redis has it, which notices it when it writes
	}
	m.conn, m.in = conn, bufio.NewReaderSize(conn, migrateLine)
	return nil
}

// greet authenticates and selects the database. It must run before anything else is sent.
func (m *migration) greet() error {
	if m.auth != nil {
		if err := m.call(slices.Concat([][]byte{[]byte("AUTH")}, m.auth)); err != nil {
			return err
		}
	}
	return m.call([][]byte{[]byte("SELECT"), strconv.AppendInt(nil, m.db, 10)})
}

func (m *migration) call(args [][]byte) error {
	if err := m.write(appendCall(nil, args)); err != nil {
		return err
	}
	return m.reply()
}

func appendCall(b []byte, args [][]byte) []byte {
	b = append(strconv.AppendInt(append(b, '*'), int64(len(args)), 10), "\r\n"...)
	for _, arg := range args {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(arg)), 10), "\r\n"...)
		b = append(append(b, arg...), "\r\n"...)
	}
	return b
}

// deadline returns the time by which an operation that begins now must end. It is a time of the
// system's clock, which the server's clock may differ from.
func (m *migration) deadline() time.Time {
	return time.UnixMilli(clock.System.Now()).Add(m.timeout)
}

func (m *migration) write(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), migrateChunk)
		if m.conn.SetWriteDeadline(m.deadline()) != nil {
			return errMigrateWrite
		}
		if _, err := m.conn.Write(b[:n]); err != nil {
			return errMigrateWrite
		}
		b = b[n:]
	}
	return nil
}

// errTarget is an error reply of the target. The connection remains usable.
type errTarget struct{ error }

func (e errTarget) Unwrap() error { return e.error }

// reply reads one reply of a line. It returns an error reply of the target as an errTarget.
func (m *migration) reply() error {
	if m.conn.SetReadDeadline(m.deadline()) != nil {
		return errMigrateRead
	}
	line, err := m.in.ReadSlice('\n')
	if err != nil || !bytes.HasSuffix(line, []byte("\r\n")) {
		return errMigrateRead
	}
	line = line[:len(line)-2]
	switch {
	case len(line) > 0 && line[0] == '-':
		return errTarget{Error("ERR Target instance replied with error: " + string(line[1:]))}
	case len(line) > 0 && line[0] == '+':
		return nil
	}
	return errMigrateRead // no reply of any of our commands
}

// sent is a key whose value is on its way.
type sent struct {
	key   storage.Key
	watch *Client // watches the key since it was read
	// sum is the checksum of the command that sent the key, for streams: a watch does not see
	// changes of their groups.
	sum     [sha256.Size]byte
	replace bool // as in the command
	// deadline is the deadline that was sent: a watch does not see that a policy moves it when the
	// key is read.
	deadline int64
}

// move sends the keys, reads the replies and deletes the keys that the target has. If the target
// replies errors, move returns the first one, after it has moved the other keys.
func (m *migration) move() error {
	var failed error
	keys, replace := m.keys, m.replace
	for tries := 0; len(keys) > 0; tries++ {
		if tries == migrateTries {
			return errMigrateChanges
		}
		list, err := m.send(keys, replace)
		if err == nil {
			keys, err = m.finish(list, &failed)
		}
		for _, s := range list {
			m.c.Env.Changes.unwatch(s.watch)
		}
		if err != nil {
			return err
		}
		replace = true // what changed is there in an older state, which is ours
	}
	return failed
}

// send sends the keys that exist and returns them.
func (m *migration) send(keys []storage.Key, replace bool) (list []sent, err error) {
	var b []byte
	for _, k := range keys {
		if err := m.begin(k); err != nil {
			return list, err
		}
		item, ok := m.txn.Peek(k)
		if !ok {
			m.end()
			continue
		}
		s := sent{key: k, watch: &Client{}, replace: replace, deadline: item.Deadline()}
		m.c.Env.Changes.watch(s.watch, m.txn, k)
		b, err = appendRestore(b[:0], k, item, replace)
		if item.Type() == object.TypeStream {
			s.sum = sha256.Sum256(b)
		}
		list = append(list, s)
		m.end()
		if err == nil {
			err = m.write(b)
		}
		if err != nil {
			return list, err
		}
	}
	return list, nil
}

// appendRestore appends the command that makes the key at the target. The deadline stays the same
// instant.
func appendRestore(b []byte, k storage.Key, item storage.Item, replace bool) ([]byte, error) {
	payload, _, err := Export(item)
	if err != nil {
		return nil, err
	}
	args := [][]byte{[]byte("RESTORE"), k.Name, strconv.AppendInt(nil, item.Deadline(), 10),
		payload}
	if item.Deadline() != ttl.None {
		args = append(args, []byte("ABSTTL"))
	}
	if replace {
		args = append(args, []byte("REPLACE"))
	}
	return appendCall(b, args), nil
}

// finish reads the replies, deletes the keys that the target has accepted, and returns those that
// have changed since they were sent. If failed is nil, it becomes the first error that the target
// replies.
func (m *migration) finish(list []sent, failed *error) (again []storage.Key, err error) {
	for _, s := range list {
		err := m.reply()
		var refused errTarget
		switch {
		case errors.As(err, &refused):
			if *failed == nil {
				*failed = refused.error
			}
			continue
		case err != nil:
			return nil, err
		case m.copy:
			continue
		}
		deleted, err := m.deleteSent(s)
		if err != nil {
			return nil, err
		}
		if !deleted {
			again = append(again, s.key)
		}
	}
	return again, nil
}

// deleteSent deletes a key, unless it has changed since it was sent.
func (m *migration) deleteSent(s sent) (bool, error) {
	if err := m.begin(s.key); err != nil {
		return false, err
	}
	defer m.end()
	item, there := m.txn.Peek(s.key) // which removes it where it is due
	if _, changed := m.c.Env.Changes.watches(s.watch); changed && there {
		return false, nil
	}
	if there && item.Deadline() != s.deadline {
		return false, nil
	}
	if there && item.Type() == object.TypeStream {
		b, err := appendRestore(nil, s.key, item, s.replace)
		if err != nil || sha256.Sum256(b) != s.sum {
			return false, err
		}
	}
	m.txn.Delete(s.key, storage.Deleted)
	return true, nil
}
