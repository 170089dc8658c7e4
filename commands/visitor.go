package commands

import (
	"slices"
	"strconv"

	"keyp/storage"
)

// Visitor is a client that uses HTTP in place of a connection of the Redis protocol. It always has
// the present permissions of a user.
type Visitor struct {
	env    *Env
	client *Client // is no connection, and nobody else knows it
}

// maxRefusals is the maximum number of refusals of visitors that wait until the loop writes them to
// ACL LOG. Further ones are only counted.
const maxRefusals = 128

// Visit returns the visitor with a user's name and password; an empty name means the default user.
// given is false if the request has no name and password. That suffices if the default user needs
// no password. The error is the reply of AUTH, or that of a command that needs AUTH. ACL LOG
// records it as for AUTH. The running time reveals nothing about names and passwords. Any goroutine
// may call it.
func (e *Env) Visit(addr, laddr string, given bool, name, password []byte) (*Visitor, error) {
	v := &Visitor{env: e, client: &Client{Addr: addr, LAddr: laddr, Name: "http", Proto: 2}}
	now := e.Clock.Mono()
	v.client.Created, v.client.LastActive = now, now
	switch {
	case given:
		if len(name) == 0 {
			name = []byte(defaultUser)
		}
		u := e.users.login(name, password)
		if u == nil {
			v.refused(deniedAuth, &Ctx{Args: [][]byte{[]byte("AUTH")}}, func(c *Ctx) {
				e.logBadLogin(c, name)
			})
			return nil, errWrongPass
		}
		v.client.user.become(u)
	case e.users.open():
		v.client.user.become(e.users.byDefault)
	default:
		return nil, ErrNoAuth
	}
	v.client.Authenticated = true
	return v, nil
}

// May returns nil if the visitor may run a command, which is given by its names and arguments.
// Otherwise it returns the error that the command would reply; ACL LOG has the refusal, too. Any
// goroutine may call it.
func (v *Visitor) May(words ...string) error {
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	spec := v.env.Table.asDeclared(args)
	d, at := v.client.user.permissions().check(spec, args)
	if d == allowed {
		return nil
	}
	v.refused(d, &Ctx{Spec: spec, Args: args}, func(c *Ctx) {
		v.env.logDenial(c, d, topLevel, spec, args[at])
	})
	return Error("NOPERM " + d.complaint(v.client.user.name(), spec, args[at], false))
}

// Name returns the user's name.
func (v *Visitor) Name() string { return v.client.user.name() }

// Rights returns a value that stays equal until somebody changes the user's permissions or deletes
// the user. Any goroutine may call it.
func (v *Visitor) Rights() any { return v.client.user.permissions() }

// Can is May for a command that the client has not requested: a refusal is neither logged nor
// counted. The command must have all its arguments.
func (v *Visitor) Can(args ...[]byte) bool {
	d, _ := v.client.user.permissions().check(v.env.Table.asDeclared(args), args)
	return d == allowed
}

// Runs reports whether the visitor may run a command on at least some keys. A refusal is neither
// logged nor counted.
func (v *Visitor) Runs(words ...string) bool {
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	spec, p := v.env.Table.asDeclared(args), v.client.user.permissions()
	return spec != nil && (p.free || slices.ContainsFunc(p.selectors, func(s *selector) bool {
		return s.runs(spec, args)
	}))
}

// Selects reports whether the visitor may see keys of a database: database 0, in which connections
// begin, or one that it may SELECT. A refusal is neither logged nor counted. Any goroutine may call
// it.
func (v *Visitor) Selects(db int) bool {
	return db == 0 || v.Can([]byte("SELECT"), strconv.AppendInt(nil, int64(db), 10))
}

// maySee reports whether the visitor may ask for the deadline of a key in a database that it
// selects.
func (v *Visitor) maySee(name []byte) bool {
	return v.env.maySee(v.client.user.permissions(), name)
}

// Due lists keys as storage.Store.NextDue does. It lists only keys that match a glob pattern (see
// cheapMatch) and whose deadline the visitor may ask for. Any goroutine may call it.
func (v *Visitor) Due(db int, from, until int64, limit int,
	pattern []byte) (list []storage.DueKey, through int64, err error) {
	if !v.Selects(db) {
		return nil, until, nil
	}
	return v.env.Store.NextDue(db, from, until, limit, func(name []byte) bool {
		return cheapMatch(pattern, name) && v.maySee(name)
	})
}

// Sort returns the index of the first of some glob patterns that matches a key's name, or
// len(patterns) if none does. It returns false if the visitor may not ask for the key's deadline.
// Any goroutine may call it.
func (v *Visitor) Sort(db int, name []byte, patterns []string) (i int, ok bool) {
	if !v.Selects(db) || !v.maySee(name) {
		return 0, false
	}
	for i, pattern := range patterns {
		if cheapMatch([]byte(pattern), name) {
			return i, true
		}
	}
	return len(patterns), true
}

// MayDebug is May for DEBUG, which enable-debug-command must allow as well.
func (v *Visitor) MayDebug() error {
	if err := v.May("DEBUG", "DIGEST"); err != nil {
		return err
	}
	return v.env.debugAllowed(v.client)
}

// refused writes a refusal to ACL LOG, which belongs to the loop.
func (v *Visitor) refused(why denial, c *Ctx, write func(*Ctx)) {
	e := v.env
	if e.refusals.Add(1) > maxRefusals {
		e.refusals.Add(-1)
		e.Stats.Denials[why].Add(1)
		return
	}
	c.Env, c.Client = e, v.client
	e.Host.Post(func() {
		e.refusals.Add(-1)
		write(c)
	})
}
