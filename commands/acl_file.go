package commands

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"keyp/internal/config"
)

// aclFilePerm: the file has hashes of passwords.
const aclFilePerm = 0o600

// LoadUsers makes the users of a server that starts: those of aclfile, or else of the
// configuration file. The default user has requirepass as its password unless they say
// otherwise.
func (e *Env) LoadUsers() error {
	path, given := e.Config.String("aclfile"), e.Config.Users()
	if path != "" {
		if len(given) > 0 {
			return errors.New("users are defined both in the configuration file and by aclfile; only one of them can say who they are")
		}
		next, err := e.readUsers(path)
		if err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "ERR "))
		}
		e.users.replace(next)
		return nil
	}
	for _, words := range given {
		p, err := e.users.parse(words[1:])
		switch {
		case hasSpaces(words[0]):
			err = errors.New("spaces are not allowed in the names of users")
		case err == nil && !p.enabled:
			e.Log.Warn("a user is disabled, since its rules do not contain on", "user", words[0])
		}
		if err != nil {
			return fmt.Errorf("the user %q of the configuration file: %w", words[0], err)
		}
		e.users.put(words[0], p)
	}
	return nil
}

// parse gives a new user's permissions after all rules. An error says which one is refused.
func (us *users) parse(rules []string) (*permissions, error) {
	p := us.noPermissions()
	rules, unmatched := mergeSelectors(rules)
	if unmatched != "" {
		return nil, errors.New("unmatched parenthesis in the selector that begins with '" + shown(unmatched) + "'")
	}
	for _, rule := range rules {
		if err := p.apply(us, rule); err != nil {
			return nil, fmt.Errorf("rule '%s': %w", shown(rule), err)
		}
	}
	return p, nil
}

// errUnchanged ends the error of an ACL file that is refused.
const errUnchanged = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"

// readUsers reads an ACL file: a line for each user, which no empty lines, but nothing else,
// may be among. The default user is as requirepass makes it if the file does not name it. The
// error is what ACL LOAD replies and says all that is wrong.
func (e *Env) readUsers(path string) (map[string]*permissions, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, Error("ERR Error loading ACLs, opening file '" + path + "': " + systemError(err))
	}
	next, wrong := map[string]*permissions{}, ""
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.Trim(line, " \t\r\n")
		if line == "" {
			continue
		}
		at := fmt.Sprintf("%s:%d", path, i+1)
		words := strings.Split(line, " ")
		switch {
		case words[0] != "user" || len(words) < 2:
			wrong += at + " should start with user keyword followed by the username. "
		case hasSpaces(words[1]):
			wrong += "'" + at + ": username '" + words[1] + "' contains invalid characters. "
		case next[words[1]] != nil:
			wrong += fmt.Sprintf("WARNING: Duplicate user '%s' found on line %d. ", words[1], i+1)
		default:
			var why string
			next[words[1]], why = e.users.parseLine(at, words[2:])
			wrong += why
		}
	}
	if wrong != "" {
		return nil, Error("ERR " + wrong + errUnchanged)
	}
	if next[defaultUser] == nil {
		next[defaultUser] = e.plainDefault()
	}
	return next, nil
}

// parseLine reads a user's rules; wrong says what is not right with them.
func (us *users) parseLine(at string, rules []string) (p *permissions, wrong string) {
	p = us.noPermissions()
	rules, unmatched := mergeSelectors(rules)
	if unmatched != "" {
		return p, at + ": Unmatched parenthesis in selector definition."
	}
	for _, rule := range rules {
		if err := p.apply(us, strings.Trim(rule, "\t\r\n")); err != nil {
			wrong += at + ": " + err.Error() + ". "
		}
	}
	return p, wrong
}

// systemError is the reason of a failed system call, as C words it.
func systemError(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// aclLoad has the users of the file take the place of those who are there, all or, if anything
// in it is wrong, none. Connections of users who are no more are closed.
func aclLoad(c *Ctx) error {
	e := c.Env
	path := e.Config.String("aclfile")
	if path == "" {
		return errNoACLFile
	}
	next, err := e.readUsers(path)
	if err != nil {
		return err
	}
	before := e.users.replace(next)
	for _, other := range e.clientsByID() {
		name := other.user.name()
		if now := next[name]; now == nil || e.mayNotListen(other, before[name], now) {
			c.kill(other)
		}
	}
	c.Out.OK()
	return nil
}

// aclSave writes all users to the file. A crash leaves the old one or the new one.
func aclSave(c *Ctx) error {
	e := c.Env
	path := e.Config.String("aclfile")
	if path == "" {
		return errNoACLFile
	}
	e.saving.Lock()
	defer e.saving.Unlock()
	var text strings.Builder
	for _, u := range e.users.sorted() {
		text.WriteString(u.line() + "\n")
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // and a link stays one
	}
	if err := config.ReplaceFile(path, []byte(text.String()), aclFilePerm); err != nil {
		e.Log.Error("the users cannot be saved", "error", err)
		return errACLSave
	}
	c.Out.OK()
	return nil
}

// configUsers are the lines of the configuration file for the users, without the word user. The
// default user needs none where it is as requirepass makes it.
func (e *Env) configUsers() [][]string {
	if e.Config.String("aclfile") != "" {
		return nil
	}
	var lines [][]string
	for _, u := range e.users.sorted() {
		words := u.now.Load().words()
		if u == e.users.byDefault && slices.Equal(words, e.plainDefault().words()) {
			continue
		}
		lines = append(lines, append([]string{u.name}, words...))
	}
	return lines
}

// plainDefault is what requirepass alone makes of the default user.
func (e *Env) plainDefault() *permissions {
	p := e.users.freePermissions()
	p.setPassword(e.Config.String("requirepass"))
	return p
}
