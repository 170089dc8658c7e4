package commands

import (
	"container/list"
	"strings"
	"sync"
	"sync/atomic"

	"keyp/scripting"
)

// Scripts are the scripts and function libraries that the server knows, and the one that
// runs at present. A script is known from the first time that it runs or is loaded, until
// SCRIPT FLUSH, the server's end, or, if only EVAL named it, until maxEvaluated others have, or
// others that take maxEvaluatedBytes.
type Scripts struct {
	engine  *scripting.Engine
	current atomic.Pointer[scriptRun] // nil: none

	mu        sync.Mutex
	by        map[string]*script // SHA1 in lower case
	evaluated list.List          // of *script: those that only EVAL named, the last used at the end
	bytes     int64              // of all sources and compiled programs
	passing   int64              // those of evaluated
	evicted   int64

	functions functionLibraries
}

// maxEvaluated is how many scripts are kept that were not loaded, maxEvaluatedBytes what they may
// take; the last one is kept however large it is.
const (
	maxEvaluated      = 500
	maxEvaluatedBytes = 32 << 20
)

// script is a script that was compiled. It does not change, but for node.
type script struct {
	sha      string
	source   string
	compiled *scripting.Script
	flags    scriptFlags
	strict   bool          // it says its flags
	node     *list.Element // in Scripts.evaluated
}

// bytes is what a script takes.
func (s *script) bytes() int64 { return int64(len(s.source)) + s.compiled.Bytes() }

// scriptFlags are what a script or function says of itself.
type scriptFlags uint8

const (
	noWrites scriptFlags = 1 << iota
	allowOOM
	allowStale
	noCluster
	allowCrossSlot
)

// parseFlag gives a flag by its name; 0: there is none of that name.
func parseFlag(name string) scriptFlags {
	for i, known := range scripting.FunctionFlags {
		if known == name {
			return 1 << i
		}
	}
	return 0
}

// parseShebang splits a script into what its first line says, if that is one, and the rest,
// which begins with the line's end: so lines keep their numbers.
func parseShebang(source string) (program string, flags scriptFlags, strict bool, err error) {
	if !strings.HasPrefix(source, "#!") {
		return source, 0, false, nil
	}
	line, _, ok := strings.Cut(source, "\n")
	if !ok {
		return "", 0, false, Error("ERR Invalid script shebang")
	}
	words := strings.Fields(line)
	if words[0] != "#!lua" {
		return "", 0, false, Error("ERR Unexpected engine in script shebang: " + words[0])
	}
	for _, word := range words[1:] {
		names, ok := strings.CutPrefix(word, "flags=")
		if !ok {
			return "", 0, false, Error("ERR Unknown lua shebang option: " + word)
		}
		for _, name := range strings.Split(names, ",") {
			flag := parseFlag(name)
			if flag == 0 && name != "" {
				return "", 0, false, Error("ERR Unexpected flag in script shebang: " + name)
			}
			flags |= flag
		}
	}
	return source[len(line):], flags, true, nil
}

// compileScript makes a script of its source.
func (s *Scripts) compile(sha, source string) (*script, error) {
	program, flags, strict, err := parseShebang(source)
	if err != nil {
		return nil, err
	}
	compiled, err := s.engine.Compile(program, nil)
	if err != nil {
		return nil, Error("ERR Error compiling script (new function): " + err.Error())
	}
	return &script{sha: sha, source: source, compiled: compiled, flags: flags, strict: strict}, nil
}

// find gives a script by its SHA1, in any case; nil if it is not known.
func (s *Scripts) find(sha string) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.by[strings.ToLower(sha)]
	if found != nil && found.node != nil {
		s.evaluated.MoveToBack(found.node)
	}
	return found
}

// add gives the script of a source, which it compiles if it is new. loaded says that it is
// to be kept until SCRIPT FLUSH.
func (s *Scripts) add(source string, loaded bool) (*script, error) {
	sha := scripting.SHA1(source)
	found := s.find(sha)
	if found == nil {
		var err error
		if found, err = s.compile(sha, source); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[sha] == nil {
		if s.by == nil {
			s.by = map[string]*script{}
		}
		s.by[sha] = found
		s.bytes += found.bytes()
		s.passing += found.bytes()
		found.node = s.evaluated.PushBack(found)
	}
	if loaded && found.node != nil {
		s.evaluated.Remove(found.node)
		s.passing -= found.bytes()
		found.node = nil
	}
	for s.evaluated.Len() > maxEvaluated || s.evaluated.Len() > 1 && s.passing > maxEvaluatedBytes {
		oldest := s.evaluated.Remove(s.evaluated.Front()).(*script)
		delete(s.by, oldest.sha)
		s.bytes -= oldest.bytes()
		s.passing -= oldest.bytes()
		s.evicted++
	}
	return found, nil
}

func (s *Scripts) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by, s.bytes, s.passing = nil, 0, 0
	s.evaluated.Init()
}

// sizes gives the number of known scripts, their bytes, and how many were evicted.
func (s *Scripts) sizes() (n int, bytes, evicted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.by), s.bytes, s.evicted
}
