package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// Load returns these errors when the command line asks for text instead of a server.
var (
	ErrHelp    = errors.New("help was asked for")
	ErrVersion = errors.New("the version was asked for")
)

// envPrefix starts the names of environment variables: KEYP_MAXMEMORY.
const envPrefix = "KEYP_"

// Load reads the defaults, then the files that args names ("-" is stdin), then env ("NAME=value"
// each), then the options in args. Later values win. args does not have the program's name.
//
// If the command line cannot be read, Load returns only an error. Other errors are Mistakes, which
// name the file and line, the variable or the argument. Together with Mistakes, Load returns the
// options that it has understood, for further checks. A wrong value is no mistake if a later source
// replaces it.
func Load(args, env []string, stdin io.Reader) (*Config, error) {
	c := New()
	files, given, err := splitCommandLine(args)
	if err != nil {
		return nil, err
	}
	for _, variable := range env {
		if s, text := c.variable(variable); s != nil && !isService(text) {
			s.replaced = fromEnvironment
		}
	}
	for _, g := range given {
		if s := c.slots[g.name]; s != nil {
			s.replaced = commandLine
		}
	}
	var all Mistakes
	for _, name := range files {
		all.Add(c.loadFile(name, stdin))
	}
	all.Add(c.loadEnv(env))
	for _, g := range given {
		if g.name == "user" {
			c.usersAt = "on the " + commandLine
		}
		c.at = "--" + named(g.name)
		if err := c.put(commandLine, g.name, g.words); err != nil {
			all.Add(fmt.Errorf("--%s: %w%s", named(g.name), err, hint(g.name, err)))
		}
	}
	if len(all) > 0 {
		return c, all
	}
	c.remarkTuning()
	return c, nil
}

// commandLine is the name of the source whose values win.
const commandLine = "command line"

// fromEnvironment is the name of the source of environment variables.
const fromEnvironment = "environment"

// Mistakes are all errors of a configuration, in the order of its sources.
type Mistakes []error

func (m Mistakes) Error() string { return errors.Join(m...).Error() }

// Unwrap returns the errors, for errors.Is and errors.As.
func (m Mistakes) Unwrap() []error { return m }

// Add adds an error, or each of several Mistakes; nil adds nothing.
func (m *Mistakes) Add(err error) {
	var several Mistakes
	switch {
	case errors.As(err, &several):
		*m = append(*m, several...)
	case err != nil:
		*m = append(*m, err)
	}
}

// Each puts a prefix before the text of an error, or of each of several Mistakes. It returns nil
// for nil.
func Each(prefix string, err error) error {
	var all Mistakes
	all.Add(err)
	for i, err := range all {
		all[i] = fmt.Errorf("%s: %w", prefix, err)
	}
	return all.OrNil()
}

// OrNil returns m as an error; nil if m is empty.
func (m Mistakes) OrNil() error {
	if len(m) == 0 {
		return nil
	}
	return m
}

// remarkTuning adds warnings about options that have no effect, and about a maxmemory below 1 MiB.
func (c *Config) remarkTuning() {
	var names []string
	for _, s := range c.order {
		if s.group == groupCompat && s.value.Load().text != s.initial.text {
			names = append(names, s.name)
		}
	}
	names = append(names, slices.Sorted(maps.Keys(c.passed))...)
	if len(names) > 0 {
		c.warnings = append(c.warnings,
			"options without effect, since they only tune Redis's own machinery: "+
				strings.Join(names, ", "))
	}
	for _, user := range c.users {
		if user.Words[0] == "default" && c.String("requirepass") != "" {
			c.warnings = append(c.warnings,
				"requirepass has no effect, since the user default has rules ("+user.At+")")
		}
	}
	const small = 1 << 20
	if n := c.Int("maxmemory"); n > 0 && n < small {
		c.warnings = append(c.warnings,
			fmt.Sprintf("maxmemory is less than 1 MiB (%d), so keys are read from disk again and again; 100mb is 100 MiB",
				n))
	}
	c.warnings = append(c.warnings,
		c.Ineffective(Pair{"maxmemory-policy", c.String("maxmemory-policy")})...)
}

// directive is an option with the words given for it.
type directive struct {
	name  string
	words []string
}

// splitCommandLine returns the configuration files and the options in args. As for redis-server, an
// option takes the words up to the next argument that begins with "--", for example --save ""
// --bind 127.0.0.1 ::1. --name=value takes one word, which may begin with anything.
func splitCommandLine(args []string) (files []string, given []directive, err error) {
	if len(args) > 1 && nearCommand(args[0]) {
		return nil, nil, errors.New(unknownWord(args[0]))
	}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--help" || arg == "-h":
			return nil, nil, ErrHelp
		case arg == "--version" || arg == "-v" || arg == "-V":
			return nil, nil, ErrVersion
		case strings.HasPrefix(arg, "--"):
			name, word, inline := strings.Cut(arg[2:], "=")
			d := directive{name: strings.ToLower(name)}
			if inline {
				d.words = []string{word}
				if isSecret(d.name) && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
					return nil, nil,
						fmt.Errorf(
							"unexpected argument behind --%s=…: a value with blanks needs quotes",
							d.name)
				}
			}
			for !inline && i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") &&
				!endsOptions(args, i+1) {
				i++
				d.words = append(d.words, args[i])
			}
			given = append(given, d)
		case arg == "-" || !strings.HasPrefix(arg, "-"):
			files = append(files, arg)
		default:
			return nil, nil, fmt.Errorf("unknown argument %q (see keyp help)",
				named(strings.ToLower(arg)))
		}
	}
	if len(files) > 2 || len(files) == 2 && (files[0] == "-") == (files[1] == "-") {
		unexpected := files[1]
		if isSecret(strings.ToLower(files[0])) {
			unexpected = files[0] // behind it is a password
		}
		return nil, nil,
			fmt.Errorf("unexpected argument %q: one configuration file can be given, and - for standard input (see keyp help)",
				unexpected)
	}
	return files, given, nil
}

// isSecret reports whether an option's value is a password.
func isSecret(name string) bool {
	return slices.Contains(secretNames(slices.Concat(options, compat)), name)
}

// endsOptions reports whether argument i is redis-server's trailing "-": standard input.
func endsOptions(args []string, i int) bool { return args[i] == "-" && i == len(args)-1 }

// put sets one option from a source. Unlike Set it may set options that cannot change later.
func (c *Config) put(source, name string, words []string) error {
	name = strings.ToLower(name)
	if why, ok := unsupported[name]; ok {
		return errors.New(why)
	}
	switch {
	case name == "user":
		return c.addUser(words)
	case name == "rename-command":
		return c.rename(words)
	case passedOver[name]:
		c.passed[name] = true
		return nil
	}
	s := c.slots[name]
	if s == nil {
		return errUnknownOption
	}
	judged := source == commandLine || source == s.replaced || s.replaced == ""
	if len(words) == 0 && judged {
		return errWords
	}
	var old value
	if !s.accumulate || s.given == source {
		old = *s.value.Load()
	}
	v, err := s.read(old, words)
	if err != nil && !judged {
		return nil
	}
	if s.ignores(err) {
		c.warnings = append(c.warnings, s.remark(words))
		return nil
	}
	if err != nil && !s.secret && strings.HasPrefix(err.Error(), "argument") {
		return fmt.Errorf("%w (it is %q)", err, strings.Join(words, " "))
	}
	if err != nil {
		return err
	}
	s.given, s.at = source, c.at
	if source == commandLine {
		s.at = ""
	}
	s.value.Store(&v)
	return nil
}

// addUser adds the user of a line "user NAME RULE…". words are the words after "user".
func (c *Config) addUser(words []string) error {
	if len(words) == 0 {
		return errWords
	}
	for _, other := range c.users {
		if other.Words[0] == words[0] {
			//lint:ignore ST1005 Redis's text
			return errors.New(
				"Duplicate user found. A user can only be defined once in config files")
		}
	}
	c.users = append(c.users, User{words, c.at})
	return nil
}

var errUnknownOption = errors.New("unknown option")

// hint suggests another option if err says that the option is unknown. Otherwise it returns an
// empty text.
func hint(name string, err error) string {
	if errors.Is(err, errUnknownOption) {
		return cmp.Or(suggestion(name, append(optionNames(), "help", "version", "check-config")),
			" (keyp help options lists all)")
	}
	return ""
}

// isService reports whether a variable's value is the address of a service. Kubernetes gives every
// pod KEYP_PORT=tcp://10.0.0.1:6379 when there is a service named keyp.
func isService(text string) bool { return strings.HasPrefix(text, "tcp://") }

// optionOf returns the name of the option that a variable sets.
func optionOf(key string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(key, envPrefix), "_", "-"))
}

// variables returns the variables that set the options of these names.
func variables(names []string) (keys []string) {
	for _, name := range names {
		keys = append(keys, envPrefix+strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	}
	return keys
}

// variable returns the option that a variable sets, and its value. The option is nil if there is
// none.
func (c *Config) variable(variable string) (s *slot, text string) {
	key, text, _ := strings.Cut(variable, "=")
	if !strings.HasPrefix(key, envPrefix) {
		return nil, ""
	}
	return c.slots[optionOf(key)], text
}

// loadEnv applies KEYP_… variables. A variable that names no option only causes a warning, since
// orchestrators set such variables by themselves. It is a mistake if it may be meant to protect the
// server.
func (c *Config) loadEnv(env []string) error {
	var all Mistakes
	for _, variable := range env {
		key, text, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(key, envPrefix) {
			continue
		}
		name := optionOf(key)
		s, _ := c.variable(variable)
		if s == nil || isService(text) && !s.secret {
			meant := suggestion(key, variables(secretNames(options)))
			switch {
			case s != nil:
				c.warnings = append(c.warnings, "environment variable "+key+
					" is passed over: it has the address of a service, and no value of the option")
			case meant != "" && !isService(text):
				all.Add(fmt.Errorf("%s: %w%s", key, errUnknownOption, meant))
			case protects(name):
				all.Add(fmt.Errorf(
					"%s: %w, and the server does not start without what may protect it: "+
						"KEYP_REQUIREPASS is the password, KEYP_TLS_CERT_FILE and the like are for TLS; users and rename-command stand in the configuration file",
					key, errUnknownOption))
			default:
				c.warnings = append(c.warnings, "environment variable "+key+
					" is passed over: it is no option"+suggestion(key, variables(optionNames())))
			}
			continue
		}
		words := []string{text}
		if s.kind == kindWords || s.kind == kindCustom {
			words = strings.Fields(text)
			if len(words) == 0 {
				words = []string{""}
			}
		}
		c.at = key
		if err := c.put(fromEnvironment, name, words); err != nil {
			all.Add(fmt.Errorf("%s: %w", key, err))
		}
	}
	return all.OrNil()
}

// protects reports whether the name of an unknown variable suggests that its value protects the
// server. Names that Kubernetes and Docker derive from services do not.
func protects(name string) bool {
	if strings.HasSuffix(name, "-service-host") || strings.Contains(name, "-service-port") ||
		strings.Contains(name, "-port") {
		return false
	}
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' })
	return slices.ContainsFunc(words, func(word string) bool {
		return strings.HasPrefix(word, "requirepass") ||
			slices.Contains([]string{"password", "pass", "passwd", "user", "users", "username",
				"auth", "acl", "secret", "token", "tls", "rename"}, word)
	})
}

// readFile returns the content of a file. More than maxFile bytes are an error.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", name)
	}
	return readBounded(name, f)
}

// readBounded reads r to its end. More than maxFile bytes are an error.
func readBounded(name string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return data, err
}

// maxFile bounds a configuration file, in bytes. A larger file was probably named by mistake.
const maxFile = 16 * mb
