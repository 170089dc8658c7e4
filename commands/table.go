package commands

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"keyp/internal/config"
)

// families lists every family once.
var families = [][]Spec{
	connectionCommands,
	clientCommands,
	stringCommands,
	bitmapCommands,
	hllCommands,
	listCommands,
	zsetCommands,
	geoCommands,
	streamCommands,
	hashCommands,
	setTypeCommands,
	keyCommands,
	expireCommands,
	serverCommands,
	monitorCommands,
	configCommands,
	commandCommands,
	scriptCommands,
	functionCommands,
	pubsubCommands,
	multiCommands,
	watchCommands,
	clusterCommands,
	keypCommands,
	policyCommands,
	keypClockCommands,
	keypBackupCommands,
	keypOutboxCommands,
	keypLeaseCommands,
	keypLimitCommands, keypDelayCommands,
}

// Table finds declarations by name.
type Table struct {
	byName   map[string]*Spec // as clients call them, in lower and upper case
	declared map[string]*Spec // in lower case, whatever Rename has done
	all      []*Spec
	specs    []*Spec // with subcommands, by Spec.id
}

// NewTable builds the table from the families.
func NewTable() *Table {
	t := &Table{byName: map[string]*Spec{}, declared: map[string]*Spec{}}
	for _, family := range families {
		for i := range family {
			spec := family[i]
			t.add(&spec)
		}
	}
	return t
}

func (t *Table) add(spec *Spec) {
	spec.full = strings.ToLower(spec.Name)
	subs := spec.Sub
	spec.Sub = make([]Spec, len(subs))
	for i := range subs {
		sub := subs[i]
		sub.parent, sub.full = spec, spec.full+"|"+strings.ToLower(sub.Name)
		if sub.Categories == nil {
			sub.Categories = spec.Categories
		}
		spec.Sub[i] = sub
	}
	t.declared[spec.full] = spec
	t.byName[spec.full] = spec
	t.byName[spec.Name] = spec
	t.all = append(t.all, spec)
	t.number(spec)
	for i := range spec.Sub {
		t.number(&spec.Sub[i])
	}
}

// number sets the number, the scope and the derived fields of a declaration.
func (t *Table) number(spec *Spec) {
	spec.id = len(t.specs)
	if spec.Scope == 0 && spec.Keys != nil {
		spec.Scope = KeysOnly
	}
	if spec.Is(Write) && spec.Keys != nil && !slices.ContainsFunc(spec.Keys, func(ks KeySpec) bool {
		return ks.Flags&Delete != 0
	}) {
		spec.Flags |= keeps
	}
	t.specs = append(t.specs, spec)
	spec.named = slices.DeleteFunc(spec.shownKeys(), func(ks *KeySpec) bool {
		return ks.Flags&NotKey != 0
	})
}

// All returns every top-level command that clients can call.
func (t *Table) All() []*Spec { return t.all }

// Rename makes clients and scripts call commands by other names, or not at all if the new name is
// empty. Users' rights still use the old names, as in Redis. The errors, config.Mistakes, are about
// missing commands and names that other commands have.
func (t *Table) Rename(renames []config.Rename) error {
	var all config.Mistakes
	for _, r := range renames {
		spec := t.Lookup([]byte(r.Old))
		switch {
		case spec == nil:
			all.Add(fmt.Errorf("%s: there is no command %q", r.At, r.Old))
			continue
		case r.New != "" && t.Lookup([]byte(r.New)) != nil && t.Lookup([]byte(r.New)) != spec:
			all.Add(fmt.Errorf("%s: another command is called %q", r.At, r.New))
			continue
		}
		maps.DeleteFunc(t.byName, func(_ string, s *Spec) bool { return s == spec })
		if r.New == "" {
			t.all = slices.DeleteFunc(t.all, func(s *Spec) bool { return s == spec })
			continue
		}
		t.byName[strings.ToLower(r.New)] = spec
		t.byName[strings.ToUpper(r.New)] = spec
	}
	return all.OrNil()
}

// longestName is longer than the name of any command, including renamed ones.
const longestName = 1024

// Lookup finds a command by its name in any case; nil if there is none.
func (t *Table) Lookup(name []byte) *Spec {
	if spec, ok := t.byName[string(name)]; ok {
		return spec
	}
	if len(name) > longestName {
		return nil
	}
	return t.byName[strings.ToLower(string(name))]
}

// Of returns the declaration of a call, or nil if there is none. For a container it returns the
// declaration of the subcommand. args are the names, in any case, and the arguments.
func (t *Table) Of(args [][]byte) *Spec { return t.Lookup(args[0]).called(args) }

// asDeclared is Of, but uses the names with which commands are declared.
func (t *Table) asDeclared(args [][]byte) *Spec {
	return t.declared[strings.ToLower(string(args[0]))].called(args)
}

// called returns the subcommand that a call of a container names, or nil if there is none. For any
// other command it returns the command.
func (s *Spec) called(args [][]byte) *Spec {
	if s != nil && len(s.Sub) > 0 && len(args) > 1 {
		return s.sub(args[1])
	}
	return s
}

// KeyPlace returns the index of the first key among the arguments of a command of that name: after
// the subcommand, if there are any. It is only a hint.
func (t *Table) KeyPlace(name []byte) int {
	if spec := t.byName[string(name)]; spec != nil && len(spec.Sub) > 0 {
		return 2
	}
	return 1
}

// takes reports whether a call may have n arguments, including its names.
func (s *Spec) takes(n int) bool { return n == s.Arity || s.Arity < 0 && n >= -s.Arity }

// sub finds a container's subcommand; nil if there is none.
func (s *Spec) sub(name []byte) *Spec {
	for i := range s.Sub {
		if isWord(name, s.Sub[i].Name) {
			return &s.Sub[i]
		}
	}
	return nil
}

// FullName returns the command's name as COMMAND shows it: "get", "client|list".
func (s *Spec) FullName() string { return s.full }

// Is reports whether the command has all of the flags.
func (s *Spec) Is(f Flags) bool { return s.Flags&f == f }
