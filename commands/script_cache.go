package commands

import (
	"container/list"
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"

	"keyp/resp"
	"keyp/scripting"
)

// Scripts are the script cache, the function libraries, and the script that runs at present. A
// script is cached when it first runs or is loaded. It stays until SCRIPT FLUSH or the server's
// end. Scripts that only EVAL used may leave earlier. If there are more than maxEvaluated of these,
// or they need more than maxEvaluatedBytes, the least recently used one is removed.
type Scripts struct {
	testing *Testing
	engine  *scripting.Engine
	current atomic.Pointer[scriptRun] // nil: none
	stopped atomic.Bool               // EndScripts has been called

	mu struct {
		sync.Mutex
		by map[string]*script // SHA1 in lower case
		// evaluated has each *script that only EVAL used. The last used one is at the end.
		evaluated list.List
		bytes     int64 // of all sources and compiled programs
		passing   int64 // bytes of the scripts in evaluated
		evicted   int64
	}

	functions functionLibraries // has its own lock
}

// maxEvaluated bounds the number of cached scripts that were not loaded, and maxEvaluatedBytes
// their size. The last one is kept whatever its size.
const (
	maxEvaluated      = 500
	maxEvaluatedBytes = 32 << 20
)

// scriptOverhead is about the memory of a script without its source and its program, in bytes.
const scriptOverhead = 208

// programShare is the part of maxmemory that loaded scripts and libraries may use.
const programShare = 4

// errOOM is Redis's error for writes that do not fit maxmemory.
const errOOM Error = "OOM command not allowed when used memory > 'maxmemory'."

// script is a compiled script. Only node ever changes.
type script struct {
	sha      string
	source   string
	compiled *scripting.Script
	flags    scriptFlags
	strict   bool          // its shebang line has flags
	node     *list.Element // in Scripts.mu.evaluated
}

// bytes returns the memory of a script, in bytes.
func (s *script) bytes() int64 {
	return scriptOverhead + int64(len(s.source)) + s.compiled.Bytes()
}

// scriptFlags are the flags that a script's or function's author gave it.
type scriptFlags uint8

const (
	noWrites scriptFlags = 1 << iota
	allowOOM
	allowStale
	noCluster
	allowCrossSlot
)

// parseFlag returns a flag by its name; 0 for an unknown name.
func parseFlag(name string) scriptFlags {
	for i, known := range scripting.FunctionFlags {
		if known == name {
			return 1 << i
		}
	}
	return 0
}

// parseShebang parses the first line of a script, if that is a shebang. It returns its flags and
// the program after it. The program begins with the line's end, so lines keep their numbers.
func parseShebang(source string) (program string, flags scriptFlags, strict bool, err error) {
	if !strings.HasPrefix(source, "#!") {
		return source, 0, false, nil
	}
	line, _, ok := strings.Cut(source, "\n")
	if !ok {
		return "", 0, false, Error("ERR Invalid script shebang")
	}
	words := shebangWords(line)
	if len(words) == 0 {
		return "", 0, false, Error("ERR Invalid engine in script shebang")
	}
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

// shebangWords splits a first line as Redis does: words may be in quotes. If a closing quote is
// missing, it returns none.
func shebangWords(line string) (words []string) {
	args, _ := resp.SplitArgs([]byte(line))
	for _, arg := range args {
		words = append(words, string(arg))
	}
	return words
}

// compile compiles a source. Killing r ends it.
func (s *Scripts) compile(sha, source string, r *scripting.Run) (*script, error) {
	s.testing.compiling()
	program, flags, strict, err := parseShebang(source)
	if err != nil {
		return nil, err
	}
	compiled, err := s.engine.Compile(program, r)
	if err != nil {
		return nil, Error("ERR Error compiling script (new function): " + err.Error())
	}
	return &script{sha: sha, source: source, compiled: compiled, flags: flags, strict: strict}, nil
}

// digestSize is the length of the digest that names a script.
const digestSize = 2 * sha1.Size

// scriptDigest returns the digest that names a script.
func scriptDigest(source []byte) (sha [digestSize]byte) {
	sum := sha1.Sum(source)
	hex.Encode(sha[:], sum[:])
	return sha
}

// find returns a script by its digest, in upper or lower case; nil if it is not cached.
func (s *Scripts) find(sha []byte) *script {
	if len(sha) != digestSize {
		return nil
	}
	var lower [digestSize]byte
	for i, b := range sha {
		if 'A' <= b && b <= 'F' {
			b += 'a' - 'A'
		}
		lower[i] = b
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.mu.by[string(lower[:])]
	if found != nil && found.node != nil {
		s.mu.evaluated.MoveToBack(found.node)
	}
	return found
}

// isLoaded reports whether a script is kept until SCRIPT FLUSH.
func (s *Scripts) isLoaded(of *script) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.by[of.sha] == of && of.node == nil
}

// keep caches a script; with loaded until SCRIPT FLUSH.
func (s *Scripts) keep(kept *script, loaded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.by[kept.sha] == nil {
		if s.mu.by == nil {
			s.mu.by = map[string]*script{}
		}
		s.mu.by[kept.sha] = kept
		s.mu.bytes += kept.bytes()
		s.mu.passing += kept.bytes()
		kept.node = s.mu.evaluated.PushBack(kept)
	}
	if loaded && kept.node != nil {
		s.mu.evaluated.Remove(kept.node)
		s.mu.passing -= kept.bytes()
		kept.node = nil
	}
	for s.mu.evaluated.Len() > maxEvaluated ||
		s.mu.evaluated.Len() > 1 && s.mu.passing > maxEvaluatedBytes {
		oldest := s.mu.evaluated.Remove(s.mu.evaluated.Front()).(*script)
		delete(s.mu.by, oldest.sha)
		s.mu.bytes -= oldest.bytes()
		s.mu.passing -= oldest.bytes()
		s.mu.evicted++
	}
}

// loaded returns the bytes of the scripts that are kept until SCRIPT FLUSH.
func (s *Scripts) loaded() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.bytes - s.mu.passing
}

// programsFit reports whether loaded scripts and function libraries may use more bytes in addition.
// Without maxmemory there is no bound.
func (e *Env) programsFit(more int64) bool {
	limit := e.Config.Int("maxmemory")
	return limit <= 0 || e.Scripts.loaded()+e.Scripts.functions.totalBytes()+
		more <= limit/programShare
}

func (s *Scripts) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.by, s.mu.bytes, s.mu.passing = nil, 0, 0
	s.mu.evaluated.Init()
}

// sizes returns the number of cached scripts, their bytes, and how many were evicted.
func (s *Scripts) sizes() (n int, bytes, evicted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.by), s.mu.bytes, s.mu.evicted
}
