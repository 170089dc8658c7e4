package commands

import (
	"slices"
	"strconv"

	"keyp/storage/object"
)

// denial is the reason why a user may not run a command. The order of the values matters.
// selector.check checks first the command, then the keys, then the channels. So a larger value
// means that the check got further.
type denial uint8

const (
	allowed denial = iota
	deniedCommand
	deniedKey
	deniedAuth // a wrong password; check does not return it
	deniedChannel
)

// reason returns the reason as ACL LOG names it.
func (d denial) reason() string {
	return [...]string{"", "command", "key", "auth", "channel"}[d]
}

// channelArgs names the arguments of a command that are channels.
type channelArgs uint8

const (
	noChannels channelArgs = iota
	firstChannel
	allChannels
	allPatterns // that a client subscribes to
)

// check returns allowed if one of the selectors allows a call. Otherwise it returns the result of
// the selector whose check got furthest; at is the index of the argument that it refuses.
func (p *permissions) check(spec *Spec, args [][]byte) (d denial, at int) {
	if p.free {
		return allowed, 0
	}
	d = deniedCommand
	for _, s := range p.selectors {
		other, where := s.check(spec, args)
		if other == allowed {
			return allowed, 0
		}
		if other > d || other == d && where > at {
			d, at = other, where
		}
	}
	return d, at
}

func (s *selector) check(spec *Spec, args [][]byte) (d denial, at int) {
	if !s.runs(spec, args) {
		return deniedCommand, 0
	}
	if !s.allKeys {
		if at := spec.findKey(args, func(name []byte, need keyAccess) bool {
			return !s.takesKey(name, need)
		}); at > 0 {
			return deniedKey, at
		}
	}
	if !s.allTopics {
		for at, name := range spec.channels(args) {
			if !s.takesChannel(name, spec.Channels == allPatterns) {
				return deniedChannel, at + 1
			}
		}
	}
	return allowed, 0
}

// channels returns a call's channels; the first is argument 1.
func (spec *Spec) channels(args [][]byte) [][]byte {
	switch spec.Channels {
	case noChannels:
		return nil
	case firstChannel:
		return args[1:2]
	}
	return args[1:]
}

// findKey returns the index of the first key argument for which the function is returns true, or 0
// if there is none. The argument need of is is the access to the key that the command needs.
func (spec *Spec) findKey(args [][]byte, is func(name []byte, need keyAccess) bool) int {
	if !spec.counts(args) {
		return 0
	}
	for _, ks := range spec.named {
		need := ks.flags(args).access()
		first, last, step := ks.span(args)
		for at := first; at <= last; at += step {
			if is(args[at], need) {
				return at
			}
		}
	}
	return 0
}

// counts reports whether each number of keys among the arguments is possible. If one is not, no
// argument counts as a key. So the command fails because of the number, and not because of rights
// or slots.
func (spec *Spec) counts(args [][]byte) bool {
	return !slices.ContainsFunc(spec.named, func(ks *KeySpec) bool { return !ks.counts(args) })
}

// counts reports whether the number of keys, if there is one, is possible.
func (ks *KeySpec) counts(args [][]byte) bool {
	if !ks.Num {
		return true
	}
	n, ok := ParseInt(args[ks.Begin])
	return ok && n >= 0 && n <= int64(len(args)-ks.Begin-1)/int64(max(ks.Step, 1))
}

// flags returns the flags of the specification for these arguments.
func (ks *KeySpec) flags(args [][]byte) KeyFlags {
	if ks.Vary != nil {
		return ks.Vary(args)
	}
	return ks.Flags
}

// access returns the rights that a user needs for a key with these flags.
func (f KeyFlags) access() (need keyAccess) {
	if f&Access != 0 {
		need |= mayRead
	}
	if f&(Insert|Update|Delete) != 0 {
		need |= mayWrite
	}
	return need
}

// readsAllKeys reports whether a selector that allows the call also allows reading every key.
func (p *permissions) readsAllKeys(spec *Spec, args [][]byte) bool {
	return p.free || slices.ContainsFunc(p.selectors, func(s *selector) bool {
		d, _ := s.check(spec, args)
		return d == allowed && s.takesAllKeys(mayRead)
	})
}

// reads reports whether a user may read a key.
func (p *permissions) reads(name []byte) bool {
	return p.free || slices.ContainsFunc(p.selectors, func(s *selector) bool {
		return s.takesKey(name, mayRead)
	})
}

// takesRule reports whether a selector that allows the call also allows the access need to all keys
// of a rule's pattern. If stream is not nil, the selector must also allow writing that stream.
func (c *Ctx) takesRule(pattern []byte, need keyAccess, stream []byte) bool {
	p := c.Client.user.permissions()
	return p.free || slices.ContainsFunc(p.selectors, func(s *selector) bool {
		d, _ := s.check(c.Spec, c.Args)
		return d == allowed && s.takesPattern(pattern, need) &&
			(stream == nil || s.takesKey(stream, mayWrite))
	})
}

// mayRule refuses a call about a rule for keys of a pattern in a database, unless the user may read
// and write all these keys. If the database is not the client's own, the user must also be allowed
// to select it.
func (c *Ctx) mayRule(pattern []byte, db int) error {
	switch {
	case !c.takesRule(pattern, mayRead|mayWrite, nil):
		return errRuleRights
	case !c.maySelect(db):
		return errRuleDatabase
	}
	return nil
}

// maySelect reports whether the client is in a database, or its user may select it.
func (c *Ctx) maySelect(db int) bool {
	return db == c.Client.DB || c.Env.mayRun(c.Client.user.permissions(), "SELECT",
		strconv.AppendInt(nil, int64(db), 10))
}

const (
	errRuleRights   Error = "NOPERM a rule needs the right to read and write all keys of its pattern"
	errRuleDatabase Error = "NOPERM a rule for another database needs the right to select that"
)

// maySee reports whether a user with these permissions may ask for the deadline of a key
// (PEXPIRETIME). Lists of keys by deadline show only such keys.
func (e *Env) maySee(p *permissions, name []byte) bool {
	if p.free {
		return true
	}
	return e.mayRun(p, "PEXPIRETIME", name)
}

// maySeeElements reports whether a user with these permissions may see the names of a key's
// elements (HSCAN, SSCAN, ZSCAN, KEYP.LIMIT HELD). The caller has checked that the user may ask for
// the deadline of the key.
func (e *Env) maySeeElements(p *permissions, name []byte, typ object.Type) bool {
	if p.free {
		return true
	}
	switch typ {
	case object.TypeHash:
		return e.mayRun(p, "HSCAN", name, '0')
	case object.TypeSet:
		return e.mayRun(p, "SSCAN", name, '0')
	case object.TypeLimit:
		args := [][]byte{[]byte("KEYP.LIMIT"), []byte("HELD"), name}
		d, _ := p.check(e.Table.asDeclared(args), args)
		return d == allowed
	default:
		return e.mayRun(p, "ZSCAN", name, '0')
	}
}

func (e *Env) mayRun(p *permissions, command string, name []byte, more ...byte) bool {
	args := [][]byte{[]byte(command), name}
	if len(more) > 0 {
		args = append(args, more)
	}
	d, _ := p.check(e.Table.asDeclared(args), args)
	return d == allowed
}

// complaint returns the error text of a denial. If shown is set, the text names the key or channel.
func (d denial) complaint(user string, spec *Spec, arg []byte, shown bool) string {
	what := "key"
	switch {
	case d == deniedCommand:
		return "User " + user + " has no permissions to run the '" + spec.full + "' command"
	case d == deniedChannel:
		what = "channel"
	}
	if shown {
		return "User " + user + " has no permissions to access the '" + string(arg) + "' " + what
	}
	return "No permissions to access a " + what
}

// permit checks whether the user may run the command of c, which is about to run or to be queued.
// It logs a denial.
func (e *Env) permit(c *Ctx) error {
	d, at := c.Client.user.permissions().check(c.Spec, c.Args)
	if d == allowed {
		return nil
	}
	context := topLevel
	if c.Client.queue != nil {
		context = inMulti
	}
	e.logDenial(c, d, context, c.Spec, c.Args[at])
	return Error("NOPERM " + d.complaint(c.Client.user.name(), c.Spec, c.Args[at], false))
}

// permitQueued checks a command of a transaction once more when EXEC runs it.
func (c *Ctx) permitQueued(spec *Spec, args [][]byte) error {
	d, at := c.Client.user.permissions().check(spec, args)
	if d == allowed {
		return nil
	}
	c.atLoop(func() { c.Env.logDenial(c, d, inMulti, spec, args[at]) })
	why := map[denial]string{
		deniedCommand: "no permission to execute the command or subcommand",
		deniedKey:     "no permission to touch the specified keys",
		deniedChannel: "no permission to access one of the channels used as arguments to the command",
	}[d]
	return Error("NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: " + why)
}

// permitScripted checks a command that a script calls. c is the context of the script.
func (c *Ctx) permitScripted(spec *Spec, args [][]byte) error {
	d, at := c.Client.user.permissions().check(spec, args)
	if d == allowed {
		return nil
	}
	c.atLoop(func() { c.Env.logDenial(c, d, inScript, spec, args[at]) })
	return Error("ERR ACL failure in script: " + d.complaint(c.Client.user.name(), spec,
		args[at], false))
}

// AuthRequired reports whether a connection must authenticate before anything else: it has not done
// so, and the default user is off or needs a password.
func (e *Env) AuthRequired(c *Client) bool { return !c.Authenticated && !e.users.open() }

// Passwordless returns a user that may authenticate with any password, or without one. found
// reports whether there is such a user. Any goroutine may call it.
func (e *Env) Passwordless() (name string, found bool) { return e.users.passwordless() }

// Open reports whether the default user has no password. Then protected mode refuses connections
// from other machines.
func (e *Env) Open() bool { return e.users.byDefault.now.Load().noPass }
