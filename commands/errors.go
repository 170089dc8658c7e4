package commands

import (
	"bytes"
	"errors"

	"keyp/storage"
	"keyp/ttl"
)

// Error is an error that a client sees, with Redis's code and text.
type Error string

func (e Error) Error() string { return string(e) }

// The errors that several commands share.
const (
	ErrSyntax       Error = "ERR syntax error"
	ErrWrongType    Error = "WRONGTYPE Operation against a key holding the wrong kind of value"
	ErrNotInteger   Error = "ERR value is not an integer or out of range"
	ErrNotInt32     Error = "ERR value is out of range, value must between -2147483648 and 2147483647"
	ErrNotFloat     Error = "ERR value is not a valid float"
	ErrNoSuchKey    Error = "ERR no such key"
	ErrDBIndex      Error = "ERR DB index is out of range"
	ErrSameObject   Error = "ERR source and destination objects are the same"
	ErrOverflow     Error = "ERR increment or decrement would overflow"
	ErrDecrOverflow Error = "ERR decrement would overflow"
	ErrNaN          Error = "ERR increment would produce NaN or Infinity"
	ErrOffset       Error = "ERR offset is out of range"
	ErrTooLong      Error = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	ErrLCSType      Error = "ERR The specified keys must contain string values"
	ErrLCSBoth      Error = "ERR If you want both the length and indexes, please just use IDX."
	ErrLCSMemory    Error = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
	ErrDBFirst      Error = "ERR invalid first DB index"
	ErrDBSecond     Error = "ERR invalid second DB index"
	ErrNoLFU        Error = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
	ErrLFU          Error = "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
	ErrNoAuth       Error = "NOAUTH Authentication required."
	ErrInternal     Error = "ERR internal error"
	ErrUnread       Error = "ERR what the command needs cannot be read from the data file; the server's log says why"
	ErrDiskFull     Error = "MISCONF Errors writing to the disk: no space is left. Commands that may grow the data are refused until there is room again; reads and deletions go on."
	ErrReadOnly     Error = "READONLY You can't write against a read only replica."
	ErrStopping     Error = "ERR the server is shutting down"
	ErrCursor       Error = "ERR invalid cursor"
	ErrNoValues     Error = "ERR NOVALUES option can only be used in HSCAN"
	ErrNoProto      Error = "NOPROTO unsupported protocol version"
	ErrIntRange     Error = "ERR value is out of range"
	ErrBusyKey      Error = "BUSYKEY Target key name already exists."
	ErrPayload      Error = "ERR DUMP payload version or checksum are wrong"
	ErrDataFormat   Error = "ERR Bad data format"
	ErrIntPositive  Error = "ERR value is out of range, must be positive"
)

// reply writes the error reply for any error. It is the only place that maps errors to texts.
func (c *Ctx) reply(err error) {
	var text Error
	switch {
	case errors.As(err, &text):
	case errors.Is(err, ttl.ErrInvalidTTL), errors.Is(err, ttl.ErrInvalidTimestamp):
		text = Error("ERR invalid expire time in '" + c.Spec.full + "' command")
	case errors.Is(err, ttl.ErrNegative), errors.Is(err, ttl.ErrConditionNX),
		errors.Is(err, ttl.ErrConditionGTLT):
		text = Error("ERR " + err.Error())
	case errors.Is(err, storage.ErrWrongType):
		text = ErrWrongType
	case storage.OutOfSpace(err): // of SAVE
		text = errSaveFull
	case errors.Is(err, storage.ErrCorrupt):
		c.Env.Store.Unread(err, "command", c.Spec.full)
		text = ErrUnread
	default:
		c.Env.Log.Error("command failed", "command", c.Spec.full, "error", err)
		text = ErrInternal
	}
	c.Out.Error(string(text))
}

func errArity(name string) Error {
	return Error("ERR wrong number of arguments for '" + name + "' command")
}

// errUnknown quotes at most 128 bytes of the name, and about as many of the arguments.
func errUnknown(args [][]byte) Error {
	const most = 128
	var quoted string
	for _, arg := range args[1:] {
		if len(quoted) >= most {
			break
		}
		quoted += "'" + clip(arg, most-len(quoted)) + "' "
	}
	return Error("ERR unknown command '" + clip(args[0], most) + "', with args beginning with: " +
		quoted)
}

func errOption(word []byte) Error { return Error("ERR Unsupported option " + clip(word, 128)) }

func errSubcommand(container string, sub []byte) Error {
	return Error("ERR unknown subcommand '" + clip(sub, 128) + "'. Try " + container + " HELP.")
}

// errSubcommandArgs returns Redis's error for a subcommand that counts its arguments itself.
func errSubcommandArgs(container string, sub []byte) Error {
	return Error("ERR unknown subcommand or wrong number of arguments for '" + clip(sub, 128) +
		"'. Try " + container + " HELP.")
}

// clip returns the part of a client's text that an error quotes. It has at most n bytes and ends
// before a NUL, since Redis writes a C string.
func clip(b []byte, n int) string {
	b = b[:min(len(b), n)]
	if nul := bytes.IndexByte(b, 0); nul >= 0 {
		b = b[:nul]
	}
	return string(b)
}
