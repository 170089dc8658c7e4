package commands

import (
	"slices"
	"strings"
	"sync"
	"time"

	"keyp/scripting"
)

// functionLibraries are the loaded libraries of functions (FUNCTION LOAD). The store also keeps
// their sources, so that they can be loaded after a restart. A command that changes the libraries
// changes them here and in the store. No two such commands run at a time.
type functionLibraries struct {
	mu struct {
		sync.Mutex
		libraries map[string]*library
		functions map[string]*function // by name in lower case
	}
}

// library is a loaded library. It never changes.
type library struct {
	name   string
	source string // as it was loaded, with its first line
	loaded *scripting.Library
}

// function is one of a library's functions.
type function struct {
	*scripting.Function
	library *library
	flags   scriptFlags
}

// parseLibrary splits a library's source into the name in its first line and the program, which
// begins with the line's end.
func parseLibrary(source string) (name, program string, err error) {
	if !strings.HasPrefix(source, "#!") {
		return "", "", Error("ERR Missing library metadata")
	}
	line, _, ok := strings.Cut(source, "\n")
	words := shebangWords(line)
	if !ok || len(words) == 0 {
		return "", "", Error("ERR Invalid library metadata")
	}
	named := false
	for _, word := range words[1:] {
		const prefix = "name="
		switch {
		case len(word) < len(prefix) || !strings.EqualFold(word[:len(prefix)], prefix):
			return "", "", Error("ERR Invalid metadata value given: " + word)
		case named:
			return "", "",
				Error("ERR Invalid metadata value, name argument was given multiple times")
		}
		name, named = word[len(prefix):], true
	}
	engine := strings.TrimPrefix(words[0], "#!")
	switch {
	case !named:
		return "", "", Error("ERR Library name was not given")
	case !scripting.ValidName(name):
		return "", "",
			Error("ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long")
	case !strings.EqualFold(engine, "lua"):
		return "", "", Error("ERR Engine '" + engine + "' not found")
	}
	return name, source[len(line):], nil
}

// libraryTime is the longest time that the load of a library may take.
const libraryTime = 500 * time.Millisecond

// loadLibrary loads a library from its source. The first line of the source has the library's name.
// A caller may kill r to end the load. If r is nil, only libraryTime limits the load.
func (s *Scripts) loadLibrary(source string, r *scripting.Run) (*library, error) {
	name, program, err := parseLibrary(source)
	if err != nil {
		return nil, err
	}
	s.testing.compiling()
	loaded, err := s.engine.Load(program, libraryTime, r)
	if err != nil {
		return nil, Error("ERR " + err.Error())
	}
	return &library{name: name, source: source, loaded: loaded}, nil
}

// libraryBytes is the memory of a library without its source and its program, as measured.
const libraryBytes = 6 << 10

// bytes is the library's memory, in bytes.
func (l *library) bytes() int64 { return libraryBytes + int64(len(l.source)) + l.loaded.Bytes() }

// list returns the libraries in the order of their names.
func (f *functionLibraries) list() []*library {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*library, 0, len(f.mu.libraries))
	for _, lib := range f.mu.libraries {
		list = append(list, lib)
	}
	slices.SortFunc(list, func(a, b *library) int { return strings.Compare(a.name, b.name) })
	return list
}

// function returns the function with this name, in any case; nil if there is none.
func (f *functionLibraries) function(name []byte) *function {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.functions[strings.ToLower(string(name))]
}

// library returns a library by its name; nil if there is none.
func (f *functionLibraries) library(name string) *library {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.libraries[name]
}

// sizes returns the number of libraries, of functions, and the bytes of all sources.
func (f *functionLibraries) sizes() (libraries, functions int, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, lib := range f.mu.libraries {
		bytes += int64(len(lib.source))
	}
	return len(f.mu.libraries), len(f.mu.functions), bytes
}

// memory is the memory of the libraries' interpreters and programs, in bytes.
func (f *functionLibraries) memory() (bytes int64) {
	for _, lib := range f.list() {
		bytes += lib.loaded.Memory()
	}
	return bytes
}

// totalBytes is the memory of all libraries, their sources included, in bytes.
func (f *functionLibraries) totalBytes() (bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, lib := range f.mu.libraries {
		bytes += lib.bytes()
	}
	return bytes
}

// with returns the present libraries together with added. It changes nothing itself. If a library
// of the same name exists, it is replaced if replace is true; otherwise that is an error. Two
// functions of the same name, or two added libraries of the same name, are always an error.
func (f *functionLibraries) with(added []*library,
	replace bool) (next map[string]*library, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next = map[string]*library{}
	for name, lib := range f.mu.libraries {
		next[name] = lib
	}
	fresh := map[string]bool{}
	for _, lib := range added {
		if next[lib.name] != nil && (!replace || fresh[lib.name]) {
			return nil, Error("ERR Library " + lib.name + " already exists")
		}
		next[lib.name], fresh[lib.name] = lib, true
	}
	owner := map[string]*library{}
	for _, lib := range next {
		for _, fn := range lib.loaded.Functions {
			name := strings.ToLower(fn.Name)
			if owner[name] != nil {
				return nil, Error("ERR Function " + fn.Name + " already exists")
			}
			owner[name] = lib
		}
	}
	return next, nil
}

// set replaces all libraries, and the index of their functions.
func (f *functionLibraries) set(libraries map[string]*library) {
	functions := map[string]*function{}
	for _, lib := range libraries {
		for _, fn := range lib.loaded.Functions {
			of := &function{Function: fn, library: lib}
			for _, flag := range fn.Flags {
				of.flags |= parseFlag(flag)
			}
			functions[strings.ToLower(fn.Name)] = of
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.libraries, f.mu.functions = libraries, functions
}
