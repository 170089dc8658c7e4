package commands

import (
	"keyp/resp"
	"keyp/storage"
	"keyp/storage/object"
)

// BlockedOn describes what a blocking command waits for: a change of keys, or the log being on
// disk. Without either it waits for Timeout.
type BlockedOn struct {
	// Keys are what the command waits for: a change of any of them. Their names are parts of
	// the command's arguments.
	Keys []storage.Key
	// Type is the type of value that the command needs; values of other types are ignored.
	Type object.Type
	// Gone says that the command has an answer, too, when one of the keys is missing or of another
	// type.
	Gone bool
	// Who says on whose behalf the client waits, and Since when it began to wait (Unix ms). Both
	// are for commands that report on waiting clients.
	Who   string
	Since int64
	// Again is after how many milliseconds the command runs again although no key has changed; 0:
	// never.
	Again int64
	// LSN is how far the log is to settle; 0: the command does not wait for that.
	LSN uint64
	// Leads says that the wait ends when the server does not lead its group any more.
	Leads bool
	// Begin is called on the loop when the wait has begun. Any goroutine may call done to end the
	// wait; end, if it is not nil, then replies. stop, if it is not nil, is called when the wait
	// has ended. A nil Begin is not called.
	Begin func(done func(end func(*Ctx))) (stop func())
	// Timeout is how long to wait at most, in milliseconds; 0: for ever.
	Timeout int64
	// End replies when the log is on disk or the time is up; nil: a null array, when the time is
	// up.
	End func(*Ctx)
	// Works says that the wait is the command's work: it counts as its time.
	Works bool
}

// The errors of blocking commands. errTimeoutSign is another one.
const (
	errTimeoutFloat Error = "ERR timeout is not a float or out of range"
	errTimeoutRange Error = "ERR timeout is out of range"
	errUnblocked    Error = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
)

// block ends a handler that found nothing to pop. The command runs again, from its start, each time
// that one of the keys changes. So the handler must have replied nothing, and changed nothing that
// its next run changes again. In a transaction or a script, where nobody else can change a key, the
// time is up at once.
func (c *Ctx) block(keys []storage.Key, typ object.Type, timeout int64) error {
	if c.Nested {
		c.Out.NullArray()
		return nil
	}
	c.Wait = BlockedOn{Keys: keys, Type: typ, Timeout: timeout}
	return errBlocked
}

// waitFor ends a handler whose command waits, outside of transactions and scripts, for something
// other than keys.
func (c *Ctx) waitFor(wait BlockedOn) error {
	c.Wait = wait
	return errBlocked
}

// GiveUp replies to a blocking command whose wait is over: because the time is up, the log is on
// disk, or CLIENT UNBLOCK … ERROR ended it.
func (c *Ctx) GiveUp(withError bool) {
	switch {
	case withError:
	case c.Wait.End != nil:
		c.Wait.End(c)
		return
	default:
		c.Out.NullArray()
		return
	}
	c.Env.Stats.Errors.Add(1)
	c.Out.Error(string(errUnblocked))
}

// seconds takes a timeout in seconds, as a double, and returns milliseconds, rounded up; 0 means
// for ever. A timeout whose end overflows Unix milliseconds is an error; now is in Unix
// milliseconds.
func (a *Cursor) seconds(now int64) int64 {
	b := a.Bytes()
	if a.err != nil {
		return 0
	}
	timeout, ok := resp.ParseLongDouble(b)
	if !ok {
		a.err = errTimeoutFloat
		return 0
	}
	ms, ok := timeout.Milliseconds()
	switch {
	case !ok:
		a.err = errTimeoutRange
	case ms < 0:
		a.err = errTimeoutSign
	case ms > 0 && now+ms < 0:
		a.err = errTimeoutRange
	}
	return ms
}

// lastTimeout returns the timeout that is the last argument, firstTimeout the one that is the
// first.
func (c *Ctx) lastTimeout() (ms int64, err error) { return c.timeout(len(c.Args) - 1) }

func (c *Ctx) firstTimeout() (ms int64, err error) { return c.timeout(1) }

func (c *Ctx) timeout(arg int) (ms int64, err error) {
	a := c.Cursor(arg)
	ms = a.seconds(c.Txn.Now())
	return ms, a.Err()
}
