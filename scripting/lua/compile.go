package lua

import (
	"errors"
	"strings"
)

// ErrStopped is the error of a compilation that CompileOptions.Stop has ended, ErrMemory that of
// one that takes more than CompileOptions.Memory.
var (
	ErrStopped = errors.New("compilation was stopped")
	ErrMemory  = errors.New("not enough memory")
)

// Compile compiles a chunk. The error's text is Lua's, "user_script:1: …". What a compiler of C's
// Lua has made is no program, as in Redis.
func Compile(source string, o CompileOptions) (*Program, error) {
	return parse(source, &o)
}

// The most that errors show of a chunk's name, with the NUL behind it that C needs: those of a
// program that runs, and those of the compiler.
const (
	shownRunning   = 60
	shownCompiling = 80
)

// chunkName is how errors show a chunk that was given a name: what follows "=" or "@", or else
// the first line of the program that the name is.
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
