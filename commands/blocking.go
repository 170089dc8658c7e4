package commands

import (
	"keyp/resp"
	"keyp/storage"
	"keyp/storage/object"
)

// BlockedOn says what a blocking command waits for. That is a change of some keys, the sync of the
// log, or a call of the function done (see Begin). With none of these it waits until Timeout.
type BlockedOn struct {
	// Keys are the keys for whose change the command waits. Their names are parts of the
	// command's arguments.
	Keys []storage.Key
	// Type is the type of value that the command needs; values of other types are ignored.
	Type object.Type
	// Gone says that the command also has a reply if one of the keys is missing, or has a value of
	// another type.
	Gone bool
	// Who is the name for which the client waits: the owner of a lease. Since is the time when the
	// client began to wait, in Unix ms. Commands that report on waiting clients use both.
	Who   string
	Since int64
	// Again is the time in milliseconds after which the command runs again although no key has
	// changed. 0 means never.
	Again int64
	// LSN is a position in the log. The wait ends when the log up to there is on disk and cannot be
	// taken back. 0: the command does not wait for the log.
	LSN uint64
	// Leads says that the wait ends as soon as the server no longer leads its group.
	Leads bool
	// Begin is called on the loop when the wait has begun. Any goroutine may call done to end the
	// wait; end, if it is not nil, then replies. stop, if it is not nil, is called when the wait
	// has ended. A nil Begin is not called.
	Begin func(done func(end func(*Ctx))) (stop func())
	// Timeout is the longest wait in milliseconds; 0: no limit.
	Timeout int64
	// End replies when the log is on disk or the time is up. If it is nil, the reply at the
	// end of the time is a null array.
	End func(*Ctx)
	// Works says that the wait counts as the running time of the command.
	Works bool
}

// The errors of blocking commands.
const (
	errTimeoutFloat Error = "ERR timeout is not a float or out of range"
	errTimeoutRange Error = "ERR timeout is out of range"
	errUnblocked    Error = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
)

// block ends a handler that found nothing to pop. The command runs again, from its start, each time
// that one of the keys changes. So the handler must have replied nothing, and changed nothing that
// its next run changes again. In a transaction or a script block replies with a null array at once,
// since nobody else can change a key.
func (c *Ctx) block(keys []storage.Key, typ object.Type, timeout int64) error {
	if c.Nested {
		c.Out.NullArray()
		return nil
	}
	c.Wait = BlockedOn{Keys: keys, Type: typ, Timeout: timeout}
	return errBlocked
}

// waitFor ends a handler whose command waits for something other than keys. It must not be used in
// transactions and scripts.
func (c *Ctx) waitFor(wait BlockedOn) error {
	c.Wait = wait
	return errBlocked
}

// GiveUp replies to a blocking command whose wait is over. The time is up, the log is on disk, or
// CLIENT UNBLOCK … ERROR has ended the wait.
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

// seconds reads a timeout in seconds, as a double. It returns the timeout in milliseconds, rounded
// up; 0 means no limit. A timeout whose end overflows Unix milliseconds is an error. now is in Unix
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

// lastTimeout returns the timeout in the last argument, firstTimeout the one in the first.
func (c *Ctx) lastTimeout() (ms int64, err error) { return c.timeout(len(c.Args) - 1) }

func (c *Ctx) firstTimeout() (ms int64, err error) { return c.timeout(1) }

func (c *Ctx) timeout(arg int) (ms int64, err error) {
	a := c.Cursor(arg)
	ms = a.seconds(c.Txn.Now())
	return ms, a.Err()
}
