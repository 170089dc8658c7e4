package commands

import (
	"fmt"
	"unsafe"
)

// denialContext is the context in which a command was refused.
type denialContext uint8

const (
	topLevel denialContext = iota
	inMulti
	inScript
)

func (d denialContext) String() string { return [...]string{"toplevel", "multi", "lua"}[d] }

const (
	// A denial within denialsAlike ms of the last one of its kind only raises the count of that
	// entry.
	denialsAlike = 60_000
	// denialsCompared is the number of newest entries that are compared with a new denial.
	denialsCompared = 10
	// denialText is the maximum length in bytes of a name from a client in an entry. There may
	// be many entries, and keys may be long.
	denialText = 1024
	// denialMemory bounds the memory of the entries, whatever acllog-max-len is.
	denialMemory = 64 << 20
)

// denialLog contains the entries of ACL LOG. Only the loop uses it.
type denialLog struct {
	entries []denialEntry // the newest first
	next    int64         // id of the next entry
	bytes   int           // of the entries
}

type denialEntry struct {
	id               int64
	count            int64
	reason           denial
	context          denialContext
	object, username string
	created, updated int64 // Unix ms
	client           string
}

// logDenial counts and logs the denial of a command. object is the key or channel that was denied.
// If the command itself was denied, the log shows its name instead. Only the loop may call it.
func (e *Env) logDenial(c *Ctx, reason denial, context denialContext, spec *Spec, object []byte) {
	entry := denialEntry{reason: reason, context: context, object: string(clipped(object)),
		username: c.Client.user.name()}
	if reason == deniedCommand {
		entry.object = spec.full
	}
	e.addDenial(c, entry)
}

// logBadLogin is like logDenial, for a wrong name or password.
func (e *Env) logBadLogin(c *Ctx, name []byte) {
	entry := denialEntry{reason: deniedAuth, object: string(clipped(c.Args[0])),
		username: string(clipped(name))}
	if c.Nested {
		entry.context = inMulti
	}
	e.addDenial(c, entry)
}

func (e *Env) addDenial(c *Ctx, entry denialEntry) {
	e.Stats.Denials[entry.reason].Add(1)
	limit := int(min(e.Config.Int("acllog-max-len"), 1<<30))
	now := e.Clock.Now()
	entry.created, entry.updated, entry.count = now, now, 1
	entry.client = string(clipped(c.appendClient(nil, c.Client)))
	entry.client = trimNewline(entry.client)
	e.denials.add(entry, limit)
}

func trimNewline(text string) string {
	if n := len(text); n > 0 && text[n-1] == '\n' {
		return text[:n-1]
	}
	return text
}

func clipped(text []byte) []byte {
	if len(text) <= denialText {
		return text
	}
	return fmt.Appendf(nil, "%s... (%d more bytes)", text[:denialText], len(text)-denialText)
}

// add adds an entry as the newest one. If there is a recent entry of the same kind, add raises the
// count of that entry and makes it the newest.
func (l *denialLog) add(e denialEntry, limit int) {
	for i := range l.entries[:min(len(l.entries), denialsCompared)] {
		old := l.entries[i]
		if !old.alike(&e) {
			continue
		}
		l.bytes += textBytes(e.client) - textBytes(old.client)
		old.count, old.updated, old.client = old.count+1, e.updated, e.client
		copy(l.entries[1:i+1], l.entries[:i])
		l.entries[0] = old
		return
	}
	if limit > 0 {
		e.id = l.next
		l.next++
		l.entries = append(l.entries, denialEntry{})
		copy(l.entries[1:], l.entries)
		l.entries[0] = e
		l.bytes += e.bytes()
	}
	for n := len(l.entries); n > limit || l.bytes > denialMemory; n = len(l.entries) {
		l.bytes -= l.entries[n-1].bytes()
		l.entries[n-1] = denialEntry{}
		l.entries = l.entries[:n-1]
	}
}

func (l *denialLog) reset() { l.entries, l.bytes = nil, 0 }

// bytes returns the memory of an entry, without the names of commands and users that exist. It adds
// an eighth for the spare room of the list, which is up to a quarter.
func (e *denialEntry) bytes() int {
	n := int(unsafe.Sizeof(*e))*9/8 + textBytes(e.client)
	if e.reason != deniedCommand {
		n += textBytes(e.object)
	}
	if e.reason == deniedAuth {
		n += textBytes(e.username)
	}
	return n
}

func (e *denialEntry) alike(other *denialEntry) bool {
	age := other.updated - e.updated
	return e.reason == other.reason && e.context == other.context && e.object == other.object &&
		e.username == other.username && -denialsAlike <= age && age <= denialsAlike
}

// aclLog replies with the newest entries, 10 if no count is given. With RESET it removes all
// entries.
func aclLog(c *Ctx) error {
	count := int64(10)
	switch len(c.Args) {
	case 2:
	case 3:
		a := c.Cursor(2)
		if a.Word("RESET") {
			c.Env.denials.reset()
			c.Out.OK()
			return nil
		}
		if count = max(a.Int(), 0); a.Err() != nil {
			return a.Err()
		}
	default:
		return errSubcommandArgs(c.Spec.parent.Name, c.Args[1])
	}
	entries := c.Env.denials.entries
	entries = entries[:min(int64(len(entries)), count)]
	now := c.Env.Clock.Now()
	c.Out.Array(len(entries))
	for i := range entries {
		c.denial(&entries[i], now)
	}
	return nil
}

func (c *Ctx) denial(e *denialEntry, now int64) {
	c.Out.Map(10)
	c.intField("count", e.count)
	c.textField("reason", e.reason.reason())
	c.textField("context", e.context.String())
	c.textField("object", e.object)
	c.textField("username", e.username)
	c.Out.BulkString("age-seconds")
	c.Out.Double(float64(now-e.updated) / 1000)
	c.textField("client-info", e.client)
	c.intField("entry-id", e.id)
	c.intField("timestamp-created", e.created)
	c.intField("timestamp-last-updated", e.updated)
}
