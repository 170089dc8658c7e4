package lua

import (
	"errors"
	"strings"
)

// ErrStopped is the error of a compilation that CompileOptions.Stop ended. ErrMemory is that of a
// compilation that needs more than CompileOptions.Memory.
var (
	ErrStopped = errors.New("compilation was stopped")
	ErrMemory  = errors.New("not enough memory")
)

// Compile compiles a chunk. The error's text is Lua's, "user_script:1: …". Like Redis, Compile does
// not accept precompiled chunks of C's Lua.
func Compile(source string, o CompileOptions) (*Program, error) {
	return parse(source, &o)
}

// The longest name of a chunk in errors of a running program and in errors of the compiler, counted
// with C's final NUL.
const (
	shownRunning   = 60
	shownCompiling = 80
)

// chunkName returns a chunk's name as errors show it: the text after "=" or "@", or else the
// first line of the name, which is then the program's text.
func chunkName(name string, room int) string {
	switch {
	case strings.HasPrefix(name, "="):
		return name[1:min(len(name), room)]
	case strings.HasPrefix(name, "@"):
		most := room - len(" '...' ") - 1
		if name = name[1:]; len(name) > most {
			return "..." + name[len(name)-most:]
		}
		return name
	}
	most := room - len(` [string "..."] `) - 1
	line := name[:min(len(name), most)]
	if end := strings.IndexAny(line, "\r\n"); end >= 0 {
		line = line[:end]
	}
	if len(line) < len(name) {
		line += "..."
	}
	return `[string "` + line + `"]`
}
