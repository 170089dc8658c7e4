package commands

import (
	"strings"
	"time"
)

// clientFilter selects the connections that CLIENT LIST or CLIENT KILL applies to. A connection
// must meet all conditions. If an option is repeated, only the last one counts.
type clientFilter struct {
	conditions map[string]func(*Client) bool
	skipMe     bool
}

func (f *clientFilter) fits(c *Ctx, other *Client) bool {
	if f.skipMe && other == c.Client {
		return false
	}
	for _, holds := range f.conditions {
		if !holds(other) {
			return false
		}
	}
	return true
}

// clientFilter reads the options of CLIENT LIST or CLIENT KILL. Each is a word and a value; ID may
// have several values. An option with the prefix NOT- selects all other connections, as in Valkey.
// badID is the error for an invalid id.
func (c *Ctx) clientFilter(skipMe bool, badID Error) (f clientFilter, err error) {
	f = clientFilter{conditions: map[string]func(*Client) bool{}, skipMe: skipMe}
	a := c.Cursor(2)
	for a.More() {
		word := strings.ToUpper(string(a.Bytes()))
		if word == "SKIPME" {
			f.skipMe = a.Word("YES")
			if !f.skipMe && !a.Word("NO") {
				a.Fail(ErrSyntax)
			}
			continue
		}
		name, negated := strings.CutPrefix(word, "NOT-")
		if !a.More() || negated && (name == "MAXAGE" || name == "IDLE") {
			return f, ErrSyntax
		}
		holds := c.clientCondition(name, &a, badID)
		if negated {
			not := holds
			holds = func(other *Client) bool { return !not(other) }
		}
		f.conditions[word] = holds
	}
	return f, a.Err()
}

// clientCondition reads the value of the named option, and returns its condition.
func (c *Ctx) clientCondition(name string, a *Cursor, badID Error) func(*Client) bool {
	switch name {
	case "ID":
		return a.clientIDs(badID)
	case "TYPE":
		kind := a.clientType()
		return func(other *Client) bool { return other.kind() == kind }
	case "USER":
		name := a.Bytes()
		named := c.Env.users.find(name)
		if named == nil {
			a.Fail(Error("ERR No such user '" + clip(name, 128) + "'"))
		}
		return func(other *Client) bool { return other.user.is(named) }
	case "ADDR":
		return a.clientText(func(other *Client) string { return other.Addr })
	case "LADDR":
		return a.clientText(func(other *Client) string { return other.LAddr })
	case "IP":
		return a.clientText(clientIP)
	case "NAME":
		return a.clientText(func(other *Client) string { return other.Name })
	case "LIB-NAME":
		return a.clientText(func(other *Client) string { return other.LibName })
	case "LIB-VER":
		return a.clientText(func(other *Client) string { return other.LibVer })
	case "MAXAGE":
		return c.clientSince(a, "maxage", func(other *Client) time.Duration {
			return other.Created
		})
	case "IDLE":
		return c.clientSince(a, "idle", func(other *Client) time.Duration {
			return other.LastActive
		})
	case "DB":
		db := a.Int()
		if a.Err() == nil && (db != int64(int(db)) || !c.Env.database(int(db))) {
			a.Fail(ErrDBIndex)
		}
		return func(other *Client) bool { return int64(other.DB) == db }
	case "FLAGS":
		return c.clientHasFlags(a)
	}
	a.Fail(ErrSyntax)
	return nil
}

// clientIDs reads all numbers that follow; there must be one.
func (a *Cursor) clientIDs(bad Error) func(*Client) bool {
	ids := map[uint64]bool{}
	for a.More() {
		id, ok := ParseInt(a.args[0])
		if !ok && len(ids) > 0 {
			break
		}
		if a.Bytes(); !ok || id < 1 && bad == errClientID {
			a.Fail(bad)
		}
		ids[uint64(id)] = true
	}
	return func(other *Client) bool { return ids[other.ID] }
}

// clientText reads a text; the condition is that a connection has the same text.
func (a *Cursor) clientText(of func(*Client) string) func(*Client) bool {
	text := string(a.Bytes())
	return func(other *Client) bool { return of(other) == text }
}

// clientIP returns the client's address without its port.
func clientIP(other *Client) string {
	return strings.Trim(other.Addr[:max(strings.LastIndexByte(other.Addr, ':'), 0)], "[]")
}

// clientSince reads a number of seconds. The condition is that at least this time has passed since
// the reading of Mono that since returns.
func (c *Ctx) clientSince(a *Cursor, name string, since func(*Client) time.Duration) func(
	*Client) bool {
	seconds, ok := ParseInt(a.Bytes())
	switch {
	case !ok:
		a.Fail(Error("ERR " + name + " is not an integer or out of range"))
	case seconds <= 0:
		a.Fail(Error("ERR " + name + " should be greater than 0"))
	}
	return func(other *Client) bool {
		return int64((c.Env.Clock.Mono()-since(other))/time.Second) >= seconds
	}
}

// clientLetters are the flags of connections that Redis and Valkey have.
const clientLetters = "AbBcdeIiMNOPrRStTuUx"

// clientHasFlags reads letters; the condition is that all of them are among a connection's flags.
func (c *Ctx) clientHasFlags(a *Cursor) func(*Client) bool {
	letters := clip(a.Bytes(), 128)
	if strings.Trim(letters, clientLetters) != "" {
		a.Fail(Error("ERR Unknown flags found in the provided filter: " + letters))
	}
	return func(other *Client) bool {
		_, changed := c.Env.Changes.watches(other)
		return strings.Trim(letters, other.flags(&c.Env.Tracking, changed)) == ""
	}
}
