package commands

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"keyp/internal/config"
	"keyp/storage"
	"keyp/ttl"
)

// aclFilePerm lets only the owner read the ACL file, because it has hashes of passwords.
const aclFilePerm = 0o600

// LoadUsers creates the users when the server starts. It reads them from aclfile, or else from the
// configuration file. A member of a group uses the group's users instead, if there are any. The
// default user has requirepass as its password unless one of these says otherwise.
func (e *Env) LoadUsers() error {
	if err := e.loadConfiguredUsers(); err != nil {
		return err
	}
	e.loadUsersOfGroup()
	return nil
}

// CheckUsers returns the error that LoadUsers would return for a configuration.
func CheckUsers(cfg *config.Config) error {
	e := &Env{Config: cfg, Table: NewTable(), Log: slog.New(slog.DiscardHandler)}
	e.users.init(e.Table)
	return e.loadConfiguredUsers()
}

// loadConfiguredUsers makes the users of aclfile or of the configuration file.
func (e *Env) loadConfiguredUsers() error {
	path, given := e.Config.PathOf("aclfile"), e.Config.Users()
	if path != "" {
		if len(given) > 0 {
			return errors.New("users are defined both in the configuration file and by aclfile; only one of them can say who they are")
		}
		next, err := e.readUsers(path)
		var all config.Mistakes
		switch wrong := (*aclMistakes)(nil); {
		case errors.As(err, &wrong):
			all = wrong.each
		case err != nil:
			all.Add(e.Config.At("aclfile", errors.New(strings.TrimPrefix(err.Error(), "ERR "))))
		default:
			e.users.replace(next)
		}
		return all.OrNil()
	}
	var all config.Mistakes
	for _, user := range given {
		name := user.Words[0]
		p, err := e.users.parse(user.Words[1:])
		switch {
		case hasSpaces(name):
			err = errors.New("spaces are not allowed in the names of users")
		case err == nil && !p.enabled:
			e.Log.Warn("a user is disabled, since its rules do not contain on", "user", name)
		}
		if err != nil {
			all.Add(fmt.Errorf("%s: %q: %w", user.At, userShown(name), err))
			continue
		}
		e.users.put(name, p)
	}
	return all.OrNil()
}

// parse returns the permissions of a new user to which all rules were applied. An error names the
// rule that is refused.
func (us *users) parse(rules []string) (*permissions, error) {
	p := us.noPermissions()
	rules, unmatched := mergeSelectors(rules)
	if unmatched != "" {
		return nil, errors.New("unmatched parenthesis in the selector that begins with '" +
			shown(unmatched) + "'")
	}
	for _, rule := range rules {
		if err := p.apply(us, rule); err != nil {
			if !strings.ContainsAny(rule[:min(1, len(rule))], "+-~&%<>#!") { // it may be a password
				return nil,
					errors.New("a word is not a rule: passwords begin with >, commands with + or -, keys with ~")
			}
			return nil, fmt.Errorf("rule '%s': %w", shown(rule), err)
		}
	}
	return p, nil
}

// aclMistakes are the mistakes in an ACL file. ACL LOAD replies them as one text. At the start of
// the server each is reported separately, with its user.
type aclMistakes struct {
	text Error
	each config.Mistakes
}

func (m *aclMistakes) Error() string { return string(m.text) }
func (m *aclMistakes) Unwrap() error { return m.text }

// errUnchanged ends the error of an ACL file that is refused.
const errUnchanged = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"

// readUsers reads an ACL file: a line for each user; apart from these only empty lines are allowed.
// If the file does not name the default user, requirepass determines it. The error is the reply of
// ACL LOAD, and lists all mistakes.
func (e *Env) readUsers(path string) (map[string]*permissions, error) {
	data, err := readACLFile(path)
	if err != nil {
		return nil, Error("ERR Error loading ACLs, opening file '" + path + "': " +
			systemError(err))
	}
	return e.parseUsers(path, string(data))
}

// maxACLFile bounds an aclfile, which may be a device by mistake.
const maxACLFile = 64 << 20

func readACLFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	data, err := io.ReadAll(io.LimitReader(f, maxACLFile+1))
	if err == nil && len(data) > maxACLFile {
		err = errors.New("it is larger than 64 MiB")
	}
	return data, err
}

// parseUsers parses the text of an ACL file; see readUsers. Errors name the file by path.
func (e *Env) parseUsers(path, text string) (map[string]*permissions, error) {
	next, wrong := map[string]*permissions{}, &aclMistakes{}
	note := func(why string, each error) {
		if why != "" {
			wrong.text += Error(why)
			wrong.each.Add(each)
		}
	}
	for i, line := range strings.Split(text, "\n") {
		line = strings.Trim(line, " \t\r\n")
		if line == "" {
			continue
		}
		at := fmt.Sprintf("%s:%d", path, i+1)
		words := strings.Split(line, " ")
		switch {
		case words[0] != "user" || len(words) < 2:
			note(at+" should start with user keyword followed by the username. ",
				errors.New(at+": a line is: user NAME RULE…"))
		case hasSpaces(words[1]):
			note("'"+at+": username '"+words[1]+"' contains invalid characters. ",
				errors.New(at+": spaces are not allowed in the names of users"))
		case next[words[1]] != nil:
			note(fmt.Sprintf("WARNING: Duplicate user '%s' found on line %d. ", words[1], i+1),
				fmt.Errorf("%s: %q: the user is there twice", at, userShown(words[1])))
		default:
			var why string
			next[words[1]], why = e.users.parseLine(at, words[2:])
			_, err := e.users.parse(words[2:])
			note(why, fmt.Errorf("%s: %q: %w", at, userShown(words[1]), err))
		}
	}
	if wrong.text != "" {
		wrong.text = "ERR " + wrong.text + errUnchanged
		return nil, wrong
	}
	if next[defaultUser] == nil {
		next[defaultUser] = e.plainDefault()
	}
	return next, nil
}

// parseLine reads a user's rules; wrong describes the mistakes in them.
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

// systemError returns the reason why a system call failed, in the words of C's strerror.
func systemError(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// aclLoad replaces all users by the users of the file. If the file has a mistake, it replaces none.
// Connections of users that do not exist any more are closed.
func aclLoad(c *Ctx) error {
	e := c.Env
	path := e.Config.PathOf("aclfile")
	if path == "" {
		return errNoACLFile
	}
	next, err := e.readUsers(path)
	if err != nil {
		return err
	}
	if err := c.mayChangeUsers(); err != nil {
		return err
	}
	e.replaceUsers(next, c.kill)
	return c.keepUsers(func(c *Ctx) { c.Out.OK() })
}

// replaceUsers replaces all users. It calls end for each connection whose user does not exist any
// more, or whose user may no longer listen to the connection's channels.
func (e *Env) replaceUsers(next map[string]*permissions, end func(*Client)) {
	e.Tracking.Broadcast()
	before := e.users.replace(next)
	for _, other := range e.clientsByID() {
		name := other.user.name()
		if now := next[name]; now == nil || e.mayNotListen(other, before[name], now) {
			end(other)
		}
	}
}

// usersKey is the key of the system database where a group keeps its users, in the form of an ACL
// file. It exists once the leader has changed the users for the first time.
const usersKey = "users"

const errUsersNested Error = "ERR The users of a group can't be changed within a transaction"

// mayChangeUsers returns an error if this server is in a group but does not lead it. At the leader
// it returns an error if the command is part of EXEC or of a script.
func (c *Ctx) mayChangeUsers() error {
	switch st := c.Env.groupStatus(); {
	case st == nil:
		return nil
	case st.Role != Leader:
		return errReadOnlyReplica
	case c.Nested:
		return errUsersNested
	}
	return nil
}

// keepUsers writes the leader's users to the log, which brings them to all members of the group.
// Then it calls reply. Without a group it only calls reply.
func (c *Ctx) keepUsers(reply func(*Ctx)) error {
	e := c.Env
	if e.groupStatus() == nil {
		reply(c)
		return nil
	}
	return c.waitFor(BlockedOn{Works: true, Begin: func(done func(func(*Ctx))) func() {
		e.Host.AtRest(func() {
			if st := e.groupStatus(); st == nil || st.Role != Leader {
				done(func(c *Ctx) { c.Out.Error(string(errReadOnlyReplica)) })
				return
			}
			txn := e.Store.NewTxn()
			e.Store.BeginAll(txn)
			txn.SetString(e.Store.SystemKey(usersKey), []byte(e.usersText()), ttl.Deadline{},
				storage.Event{})
			txn.End()
			done(func(c *Ctx) {
				c.shows()
				reply(c)
			})
		})
		return nil
	}})
}

func (e *Env) usersText() string {
	var text strings.Builder
	for _, u := range e.users.sorted() {
		text.WriteString(u.line() + "\n")
	}
	return text.String()
}

// loadUsersOfGroup replaces this member's users by the users of its group. It changes nothing if
// there is no group, or the group has no users yet.
func (e *Env) loadUsersOfGroup() {
	if e.groupStatus() == nil {
		return
	}
	kept, err := keptStrings(e.Store, usersKey)
	if err == nil && len(kept) == 0 {
		return
	}
	var next map[string]*permissions
	if err == nil {
		next, err = e.parseUsers(usersKey, kept[0])
	}
	if err != nil {
		e.Log.Error("the users of the group cannot be read, and stay as they were", "error", err)
		return
	}
	e.replaceUsers(next, func(c *Client) { c.Conn.Kill() })
}

// aclSave writes all users to the file. A crash leaves the old one or the new one.
func aclSave(c *Ctx) error {
	e := c.Env
	path := e.Config.PathOf("aclfile")
	if path == "" {
		return errNoACLFile
	}
	e.saving.Lock()
	defer e.saving.Unlock()
	text := e.usersText()
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // and a link stays one
	}
	if err := config.ReplaceFile(path, []byte(text), aclFilePerm); err != nil {
		e.Log.Error("the users cannot be saved", "file", path, "error", err)
		return errACLSave
	}
	c.Out.OK()
	return nil
}

// userShown returns a name as it may be printed. It cuts the name at a space: after that come rules
// that were quoted together with the name, and they may have passwords.
func userShown(name string) string {
	if first, _, more := strings.Cut(name, " "); more {
		return first + " …"
	}
	return name
}

// configUsers returns the lines of the configuration file that define the users, without the word
// user. It leaves out the default user if that is as requirepass makes it. With an aclfile there
// are no lines.
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

// plainDefault returns the permissions of the default user if only requirepass changes them.
func (e *Env) plainDefault() *permissions {
	p := e.users.freePermissions()
	p.setPassword(e.Config.String("requirepass"))
	return p
}
