package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

// Config is a set of option values. Once it is loaded any goroutine may call its methods.
type Config struct {
	slots map[string]*slot // by name and alias; the map itself never changes
	order []*slot

	// Constant once the configuration is loaded.
	path     string // the file that was read; empty: none that can be rewritten
	included []string
	start    string // the working directory of the start, empty if it has no name
	users    []User
	at       string // where what is being read stands, for errors
	usersAt  string // where lines "user …" stand that Rewrite cannot replace; empty: nowhere
	renames  []Rename
	passed   map[string]bool // of passedOver
	warnings []string

	mu sync.Mutex // serialises Set and Rewrite
}

// slot is an option with its value.
type slot struct {
	*option
	value    atomic.Pointer[value]
	initial  value // the default
	onChange []func() error
	replaced string // the last source that gives a value; empty: only files do
	chosen   bool   // the value is the server's own choice (Choose)
	given    string // the source that set it last, so that only lines of one source add up
	at       string // the line or the variable that set it last, empty for the command line
}

// New returns the defaults.
func New() *Config {
	c := &Config{slots: map[string]*slot{}, passed: map[string]bool{}}
	c.start, _ = os.Getwd() // without a name of it the paths stay as they are given
	for _, list := range [][]option{options, compat} {
		for i := range list {
			s := &slot{option: &list[i]}
			s.initial = s.readDefault()
			v := s.initial
			s.value.Store(&v)
			c.order = append(c.order, s)
			c.slots[s.name] = s
			if s.alias != "" {
				c.slots[s.alias] = s
			}
		}
	}
	return c
}

// readDefault reads the default in the table; one that its own option refuses is a
// mistake in the table.
func (o *option) readDefault() value {
	words := []string{o.def}
	if o.kind == kindWords {
		words = strings.Fields(o.def)
	}
	v, err := o.read(value{}, words)
	if err != nil {
		panic("config: default of " + o.name + ": " + err.Error())
	}
	return v
}

// get finds an option that the program names; one that does not exist is a mistake
// in the program.
func (c *Config) get(name string) *value {
	s := c.slots[name]
	if s == nil {
		panic("config: no option " + name)
	}
	return s.value.Load()
}

// Int returns a number: a count, bytes, permissions, an enum's index, 1 for yes, the bits of
// notify-keyspace-events in the order of storage.EventClass. See MaxMemoryClients for its option.
func (c *Config) Int(name string) int64 { return c.get(name).num }

// Bool reports whether a yes/no option is on.
func (c *Config) Bool(name string) bool { return c.get(name).num != 0 }

// String returns the text that CONFIG GET shows.
func (c *Config) String(name string) string { return c.get(name).text }

// PathOf returns the path that an option's text is, empty if that is. One that is not absolute
// begins where the server was started, as the server works in its data directory later on. What
// follows a symbolic link is what the system takes it for.
func (c *Config) PathOf(name string) string {
	path := c.String(name)
	if path == "" || filepath.IsAbs(path) || c.start == "" {
		return path
	}
	// Join would take .. for the directory above a link's name.
	return c.start + string(filepath.Separator) + path
}

// Start is the working directory in which the server was started.
func (c *Config) Start() string { return c.start }

// Given reports whether a file, the environment or the command line set an option.
func (c *Config) Given(name string) bool {
	s := c.slots[name]
	return s != nil && s.given != ""
}

// Choose replaces the default of a text option that nobody gave: CONFIG GET shows it, and CONFIG
// REWRITE does not write it.
func (c *Config) Choose(name, text string) {
	s := c.slots[name]
	s.initial.text, s.chosen = text, true
	v := s.initial
	s.value.Store(&v)
}

// Words returns the words of an option that is a list. They are not to be changed.
func (c *Config) Words(name string) []string { return c.get(name).words }

// OutputLimit returns client-output-buffer-limit for a class (ClassNormal …).
func (c *Config) OutputLimit(class int) OutputLimit {
	return c.get("client-output-buffer-limit").limit[class]
}

// Secret reports whether an option's value may be a password. The name may be in any case. A name
// that is no option may be a misspelt one, so its value may be a password, too.
func (c *Config) Secret(name string) bool {
	s := c.slots[strings.ToLower(name)]
	return s == nil || s.secret
}

// Warn adds a remark to Warnings, once.
func (c *Config) Warn(text string) {
	if !slices.Contains(c.warnings, text) {
		c.warnings = append(c.warnings, text)
	}
}

// At adds to an error where an option was set, if in a file or by a variable.
func (c *Config) At(option string, err error) error {
	if at := c.slots[option].at; at != "" {
		return fmt.Errorf("%w (%s)", err, at)
	}
	return err
}

// Locate adds to an error where the options that it names were set, if in a file or by a variable.
// Names that are also usual words (port, bind) count at the begin of the text and after "and".
func (c *Config) Locate(err error) error {
	var places []string
	words := strings.FieldsFunc(err.Error(), func(r rune) bool {
		return r != '-' && (r < 'a' || r > 'z')
	})
	for i, word := range words {
		if i > 0 && words[i-1] != "and" && !strings.Contains(word, "-") {
			continue
		}
		if s := c.slots[word]; s != nil && s.at != "" && !slices.Contains(places, s.at) {
			places = append(places, s.at)
		}
	}
	if len(places) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(places, ", "))
}

// Warnings are remarks for the log about what was accepted without effect.
func (c *Config) Warnings() []string { return c.warnings }

// User is a line "user NAME RULE…" of the file, or such an option: Words are what follows the word
// user, and At is where they stand, as FILE:LINE: OPTION or --OPTION.
type User struct {
	Words []string
	At    string
}

// Users are the users of the configuration, in their order. Each name comes once. The rules are not
// checked.
func (c *Config) Users() []User { return c.users }

// Path is the file that was read, empty if none.
func (c *Config) Path() string { return c.path }

// Included are the files that were read because a file includes them.
func (c *Config) Included() []string { return c.included }

// Pair is a name with a value.
type Pair struct{ Name, Value string }

// Match returns the options whose lower-case name, or older name, match accepts, by name.
func (c *Config) Match(match func(name string) bool) []Pair {
	var found []Pair
	for name, s := range c.slots {
		if match(name) {
			found = append(found, Pair{name, s.value.Load().text})
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Name < found[j].Name })
	return found
}

// Range is a numeric option, with the least and the greatest value that it may have.
type Range struct {
	Name     string
	Min, Max int64
}

// Ranges returns all numeric options.
func (c *Config) Ranges() (list []Range) {
	for _, s := range c.order {
		if s.kind == kindInt || s.kind == kindBytes {
			list = append(list, Range{s.name, s.min, s.top()})
		}
	}
	return list
}

// OnChange registers fn. It is called after each Set of the option, on the goroutine that called
// Set, when the getters give the new value. An error takes the whole Set back; fn is called again
// then.
func (c *Config) OnChange(name string, fn func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[name]
	if s == nil {
		panic("config: no option " + name)
	}
	s.onChange = append(s.onChange, fn)
}

// SetError is a refused Set: Option is the argument it is about, Unknown reports that
// there is no such option.
type SetError struct {
	Option  string
	Unknown bool
	Err     error
}

func (e *SetError) Error() string {
	if e.Unknown {
		return "Unknown option or number of arguments for CONFIG SET - '" + e.Option + "'"
	}
	return "CONFIG SET failed (possibly related to argument '" + e.Option + "') - " + e.Err.Error()
}

func (e *SetError) Unwrap() error { return e.Err }

// The reasons for which an option may not be set whatever the value.
var (
	ErrImmutable = errors.New("can't set immutable config")
	ErrDuplicate = errors.New("duplicate parameter")
)

// Set changes options as CONFIG SET does: all or none. Names may be in any case. Errors
// are *SetError.
func (c *Config) Set(pairs ...Pair) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	slots := make([]*slot, len(pairs))
	values := make([]value, len(pairs))
	seen := map[*slot]bool{}
	for i, p := range pairs {
		s := c.slots[strings.ToLower(p.Name)]
		if s == nil {
			return &SetError{Option: p.Name, Unknown: true}
		}
		slots[i] = s
	}
	for i, p := range pairs {
		s := slots[i]
		switch {
		case s.fixed:
			return &SetError{Option: p.Name, Err: ErrImmutable}
		case seen[s]:
			return &SetError{Option: p.Name, Err: ErrDuplicate}
		}
		seen[s] = true
		var old value
		if !s.accumulate {
			old = *s.value.Load()
		}
		v, err := s.read(old, []string{p.Value})
		if s.ignores(err) {
			v, err = *s.value.Load(), nil
		}
		if err != nil {
			return &SetError{Option: p.Name, Err: err}
		}
		values[i] = v
	}
	return c.apply(pairs, slots, values)
}

// Ineffective is the reason why a value that Set accepts has no effect, for the log.
func (c *Config) Ineffective(pairs ...Pair) (remarks []string) {
	for _, p := range pairs {
		s := c.slots[strings.ToLower(p.Name)]
		if s != nil && s.name == "maxmemory-policy" && !strings.EqualFold(p.Value, "noeviction") {
			remarks = append(remarks, "maxmemory-policy "+p.Value+
				" deletes no keys: what does not fit into maxmemory stays "+
				"on disk; keys that are to go need a time to live, which KEYP.POLICY gives by pattern")
		}
		if s != nil && s.tolerate {
			if _, err := s.read(value{}, []string{p.Value}); s.ignores(err) {
				remarks = append(remarks, s.remark([]string{p.Value}))
			}
		}
	}
	return remarks
}

// apply stores the values and calls the listeners; a listener's error takes all
// back.
func (c *Config) apply(pairs []Pair, slots []*slot, values []value) error {
	before := make([]*value, len(slots))
	for i, s := range slots {
		before[i] = s.value.Swap(&values[i])
	}
	for i, s := range slots {
		err := s.changed()
		if err == nil {
			continue
		}
		for j := range slots {
			slots[j].value.Store(before[j])
		}
		for _, s := range slots[:i+1] {
			if back := s.changed(); back != nil {
				err = fmt.Errorf("%w (and the old value of %s is refused too: %v)",
					err, s.name, back)
			}
		}
		return &SetError{Option: pairs[i].Name, Err: err}
	}
	return nil
}

func (s *slot) changed() error {
	for _, fn := range s.onChange {
		if err := fn(); err != nil {
			return err
		}
	}
	return nil
}
