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
	name := ChunkName(o.Name)
	return parse(source, name, &o)
}

// ChunkName is how errors show a chunk that was given a name: what follows "=" or "@", or else
// the first line of the program that the name is.
func ChunkName(name string) string {
	const room = 59
	switch {
	case strings.HasPrefix(name, "="):
		return name[1:min(len(name), room+1)]
	case strings.HasPrefix(name, "@"):
		const most = room + 1 - len(" '...' ") - 1
		if name = name[1:]; len(name) > most {
			return "..." + name[len(name)-most:]
		}
		return name
	}
	const most = room + 1 - len(` [string "..."] `) - 1
	line := name
	if end := strings.IndexAny(name, "\r\n"); end >= 0 {
		line = name[:end]
	}
	if len(line) > most {
		line = line[:most]
	}
	if len(line) < len(name) {
		line += "..."
	}
	return `[string "` + line + `"]`
}
