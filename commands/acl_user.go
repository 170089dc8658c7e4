package commands

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Users and their permissions (acl_selector.go). The rules that change permissions are in
// acl_rules.go, and the check of a command in acl_check.go. acl_log.go contains the log of denials,
// acl_file.go the file of users, and acl_cmd.go the commands.
//
// A user's permissions are a value that never changes; a change replaces the value by another one.
// So a check needs no lock on any goroutine. A running check sees either the old permissions or the
// new ones.
//
// A connection keeps its user (type identity) until it authenticates again, resets or ends. No
// other code changes the user of a connection. A user that is deleted loses all permissions at
// once. Code may still run for that user, on any goroutine; all its further commands are refused. A
// user that is made later with the same name is another user.

// user is a user of the ACL.
type user struct {
	name string
	now  atomic.Pointer[permissions]
}

// end removes all permissions of a deleted user. That is final, because no list has the user any
// more.
func (u *user) end() { u.now.Store(&nothing) }

// nothing is the permissions of a deleted user, and of a connection without a user.
var nothing permissions

// identity is the user of a connection. The zero value is nobody, and has no permissions.
type identity struct{ user *user }

// become changes the user of the connection. Only the connection's own commands may call it, and
// the code that sets up a connection. A user that is removed is not replaced by another one: it
// loses its permissions or its connection.
func (id *identity) become(u *user) { id.user = u }

// is reports whether u is the connection's user, and not another user with the same name.
func (id identity) is(u *user) bool { return id.user == u }

func (id identity) name() string {
	if id.user == nil {
		return ""
	}
	return id.user.name
}

// permissions returns the present permissions of the user. Without a user there are none.
func (id identity) permissions() *permissions {
	if id.user == nil {
		return &nothing
	}
	return id.user.now.Load()
}

// permissions contains the permissions of a user at one time.
type permissions struct {
	free         bool // everything is allowed: no check is needed
	enabled      bool
	noPass       bool // any password is accepted
	skipSanitize bool
	passwords    [][sha256.Size]byte // their SHA-256; the passwords themselves are not kept
	selectors    []*selector         // the first is the user's own
}

// defaultUser is the user of every new connection. requirepass is its password.
const defaultUser = "default"

// users contains all users.
type users struct {
	table *Table
	// allTopics is acl-pubsub-default: whether a new selector allows all channels.
	allTopics atomic.Bool
	byDefault *user // always exists

	mu struct {
		sync.RWMutex
		list map[string]*user
	}
}

func (us *users) init(table *Table) {
	us.table = table
	us.byDefault = &user{name: defaultUser}
	us.byDefault.now.Store(us.freePermissions())
	us.mu.list = map[string]*user{defaultUser: us.byDefault}
}

// noPermissions returns the permissions of a new user.
func (us *users) noPermissions() *permissions {
	return &permissions{selectors: []*selector{newSelector(us.table, us.allTopics.Load())}}
}

// freePermissions returns the permissions that the default user has at first.
func (us *users) freePermissions() *permissions {
	p := us.noPermissions()
	for _, rule := range []string{"on", "nopass", "~*", "&*", "+@all"} {
		if err := p.apply(us, rule); err != nil {
			panic("commands: the rule " + rule + " is refused")
		}
	}
	p.free = true
	return p
}

// find returns a user; nil if there is none of that name.
func (us *users) find(name []byte) *user {
	us.mu.RLock()
	defer us.mu.RUnlock()
	return us.mu.list[string(name)]
}

// sorted returns all users by name.
func (us *users) sorted() []*user {
	us.mu.RLock()
	defer us.mu.RUnlock()
	list := make([]*user, 0, len(us.mu.list))
	for _, u := range us.mu.list {
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b *user) int { return strings.Compare(a.name, b.name) })
	return list
}

// put sets the permissions of a user. It makes the user if there is none.
func (us *users) put(name string, p *permissions) {
	us.mu.Lock()
	defer us.mu.Unlock()
	u := us.mu.list[name]
	if u == nil {
		u = &user{name: name}
		us.mu.list[name] = u
	}
	us.give(u, p)
}

func (us *users) give(u *user, p *permissions) {
	p.free = slices.ContainsFunc(p.selectors, func(s *selector) bool { return s.all(us.table) })
	u.now.Store(p)
}

// remove deletes a user and returns it; nil if there is none of that name.
func (us *users) remove(name []byte) *user {
	us.mu.Lock()
	defer us.mu.Unlock()
	u := us.mu.list[string(name)]
	if u != nil {
		delete(us.mu.list, string(name))
		u.end()
	}
	return u
}

// replace replaces all users by next, which must contain the default user. Users that exist already
// get their new permissions. It returns the former permissions, by name.
func (us *users) replace(next map[string]*permissions) (before map[string]*permissions) {
	us.mu.Lock()
	defer us.mu.Unlock()
	old := us.mu.list
	before, us.mu.list = map[string]*permissions{}, map[string]*user{}
	for name, u := range old {
		before[name] = u.now.Load()
	}
	for name, p := range next {
		u := old[name]
		if u == nil {
			u = &user{name: name}
		}
		us.give(u, p)
		us.mu.list[name] = u
	}
	for name, u := range old {
		if us.mu.list[name] == nil {
			u.end()
		}
	}
	return before
}

// setPassword sets the only password of the default user. If the password is empty, the user needs
// none.
func (us *users) setPassword(password string) {
	p := us.byDefault.now.Load().clone()
	p.setPassword(password)
	us.put(defaultUser, p)
}

func (p *permissions) setPassword(password string) {
	p.passwords, p.noPass = nil, password == ""
	if password != "" {
		p.passwords = [][sha256.Size]byte{sha256.Sum256([]byte(password))}
	}
}

// nobody has the permissions that login checks if there is no user of that name. No password has
// this hash.
var nobody = &permissions{passwords: make([][sha256.Size]byte, 1)}

// login returns the user of this name and password; nil if they are wrong or the user may not
// authenticate. Its running time reveals nothing about the passwords, nor whether there is such a
// user with a password.
func (us *users) login(name, password []byte) *user {
	u, hash := us.find(name), sha256.Sum256(password)
	p, same := nobody, 0
	if u != nil {
		p = u.now.Load()
	}
	for i := range p.passwords {
		same |= subtle.ConstantTimeCompare(p.passwords[i][:], hash[:])
	}
	if !p.enabled || !p.noPass && same == 0 {
		return nil
	}
	return u
}

// open reports whether clients need no password.
func (us *users) open() bool { return us.byDefault.now.Load().open() }

// open reports whether a client can become the user with any password.
func (p *permissions) open() bool { return p.noPass && p.enabled }

func (us *users) passwordless() (name string, found bool) {
	us.mu.RLock()
	defer us.mu.RUnlock()
	for name, u := range us.mu.list {
		if u.now.Load().open() {
			return name, true
		}
	}
	return "", false
}

func (p *permissions) clone() *permissions {
	c := *p
	c.passwords = slices.Clone(p.passwords)
	c.selectors = make([]*selector, len(p.selectors))
	for i, s := range p.selectors {
		c.selectors[i] = s.clone()
	}
	return &c
}

// flags returns the flags that ACL GETUSER replies.
func (p *permissions) flags() []string {
	list := []string{"off"}
	if p.enabled {
		list[0] = "on"
	}
	if p.noPass {
		list = append(list, "nopass")
	}
	if p.skipSanitize {
		return append(list, "skip-sanitize-payload")
	}
	return append(list, "sanitize-payload")
}

func (p *permissions) hashes() []string {
	list := make([]string, len(p.passwords))
	for i := range p.passwords {
		list[i] = hex.EncodeToString(p.passwords[i][:])
	}
	return list
}

// words returns the rules that give these permissions to a new user.
func (p *permissions) words() []string {
	list := p.flags()
	for _, hash := range p.hashes() {
		list = append(list, "#"+hash)
	}
	list = append(list, p.selectors[0].words()...)
	for _, s := range p.selectors[1:] {
		list = append(list, s.text())
	}
	return list
}

// line returns the line of an ACL file for the user, without the line's end.
func (u *user) line() string {
	return "user " + u.name + " " + strings.Join(u.now.Load().words(), " ")
}
