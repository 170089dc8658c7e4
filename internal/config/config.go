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
	path     string // the file that was read; empty if there is none, or it was standard input
	included []string
	start    string // the working directory at the start; empty if it is unknown
	users    []User
	at       string // the place of the option that is being read, for errors
	usersAt  string // the place of "user …" lines that Rewrite cannot replace; empty: none
	renames  []Rename
	passed   map[string]bool // the names of passedOver that were read
	warnings []string

	mu sync.Mutex // serialises Set and Rewrite
}

// slot is an option with its value.
type slot struct {
	*option
	value    atomic.Pointer[value]
	initial  value // the default
	onChange []func() error
	replaced string // the environment or the command line, if it sets the value; else empty
	chosen   bool   // the value is the server's own choice (Choose)
	given    string // the source that set it last; only lines of one source add up
	at       string // the line or the variable that set it last, empty for the command line
}

// New returns a configuration with the default values.
func New() *Config {
	c := &Config{slots: map[string]*slot{}, passed: map[string]bool{}}
	c.start, _ = os.Getwd() // if it is unknown, paths stay as they are given
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

// readDefault returns the default in the table. It panics if the option refuses its own default,
// which is a mistake in the table.
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

// get returns the value of an option. It panics if there is no such option, which is a mistake in
// the program.
func (c *Config) get(name string) *value {
	s := c.slots[name]
	if s == nil {
		panic("config: no option " + name)
	}
	return s.value.Load()
}

// Int returns an option as a number: a count, bytes, permissions, an enum's index, or 1 for yes.
// For notify-keyspace-events it returns the bits in the order of storage.EventClass. For
// maxmemory-clients use MaxMemoryClients.
func (c *Config) Int(name string) int64 { return c.get(name).num }

// Bool reports whether a yes/no option is on.
func (c *Config) Bool(name string) bool { return c.get(name).num != 0 }

// String returns an option's text, as CONFIG GET shows it.
func (c *Config) String(name string) string { return c.get(name).text }

// PathOf returns an option's text as a path; empty if the text is empty. A relative path is
// relative to the directory in which the server was started, since the server works in its data
// directory later. The path is not cleaned, so that the system resolves ".." after symbolic links.
func (c *Config) PathOf(name string) string {
	path := c.String(name)
	if path == "" || filepath.IsAbs(path) || c.start == "" {
		return path
	}
	// filepath.Join would remove a link together with a ".." after it.
	return c.start + string(filepath.Separator) + path
}

// Start returns the working directory in which the server was started; empty if it is unknown.
func (c *Config) Start() string { return c.start }

// Given reports whether a file, the environment or the command line set an option.
func (c *Config) Given(name string) bool {
	s := c.slots[name]
	return s != nil && s.given != ""
}

// Choose replaces the default of a text option that was not set. CONFIG GET shows the text, and
// CONFIG REWRITE does not write it.
func (c *Config) Choose(name, text string) {
	s := c.slots[name]
	s.initial.text, s.chosen = text, true
	v := s.initial
	s.value.Store(&v)
}

// Words returns the words of an option that is a list. The caller must not change them.
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

// Warn adds a remark to Warnings, unless Warnings has it already.
func (c *Config) Warn(text string) {
	if !slices.Contains(c.warnings, text) {
		c.warnings = append(c.warnings, text)
	}
}

// At adds to an error the place where an option was set, if that is in a file or a variable.
func (c *Config) At(option string, err error) error {
	if at := c.slots[option].at; at != "" {
		return fmt.Errorf("%w (%s)", err, at)
	}
	return err
}

// Locate adds to an error the places where the options that it names were set, if in files or
// variables. Names that are also usual words (port, bind) count only at the beginning of the text
// and after "and".
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

// Warnings returns remarks for the log about settings that were accepted without effect.
func (c *Config) Warnings() []string { return c.warnings }

// User is a line "user NAME RULE…" of the file, or a --user option. Words are the words after
// "user". At is the place: FILE:LINE: OPTION or --OPTION.
type User struct {
	Words []string
	At    string
}

// Users returns the users of the configuration in their order, each name once. The rules are not
// checked.
func (c *Config) Users() []User { return c.users }

// Path returns the absolute path of the file that was read; empty if there is none.
func (c *Config) Path() string { return c.path }

// Included returns the paths of the files that were read by include lines.
func (c *Config) Included() []string { return c.included }

// Pair is a name with a value.
type Pair struct{ Name, Value string }

// Match returns the options whose lower-case name or alias is accepted by match, sorted by name.
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

// Range is a numeric option with its smallest and its largest value.
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

// OnChange registers fn, which is called after each Set of the option, on the goroutine that called
// Set. The getters then return the new value. If fn returns an error, Set restores the old values
// and calls fn again. OnChange panics if there is no such option.
func (c *Config) OnChange(name string, fn func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[name]
	if s == nil {
		panic("config: no option " + name)
	}
	s.onChange = append(s.onChange, fn)
}

// SetError is the error of a refused Set. Option is the argument that it is about. Unknown means
// that there is no such option.
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

// The errors for an option that cannot be set, whatever the value.
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

// Ineffective returns remarks for the log about values that Set accepts but that have no effect.
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

// apply stores the values and calls the listeners. If a listener returns an error, apply restores
// all values.
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
