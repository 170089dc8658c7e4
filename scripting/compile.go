package scripting

import (
	"errors"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// chunkName is what errors call an EVAL script, functionChunk what they call a library.
const (
	chunkName     = "user_script"
	functionChunk = "user_function"
)

// compile compiles a program. The error's text is as Lua words it: "name:LINE: what".
func compile(source, name string) (proto *lua.FunctionProto, err error) {
	defer func() {
		if p := recover(); p != nil {
			proto, err = nil, errors.New(name+":1: program is too large")
		}
	}()
	if strings.HasPrefix(source, "\x1b") {
		return nil, errors.New(name + ": bad header in precompiled chunk")
	}
	program, err := parse.Parse(strings.NewReader(source), name)
	if err != nil {
		return nil, syntaxError(err, source, name)
	}
	if err := rewrite(program, name); err != nil {
		return nil, err
	}
	proto, err = lua.Compile(program, name)
	if err != nil {
		return nil, compileError(err, name)
	}
	return proto, nil
}

// syntaxError words what the parser reports as Lua does.
func syntaxError(err error, source, name string) error {
	var e *parse.Error
	if !errors.As(err, &e) {
		return errors.New(name + ": " + err.Error())
	}
	line, near := e.Pos.Line, e.Token
	message := e.Message
	switch {
	case strings.Contains(message, "syntax error"):
		message = "unexpected symbol"
	case strings.Contains(message, "parse error"):
		message = "'=' expected"
	case strings.Contains(message, "invalid multiline"):
		message = "unfinished long" + strings.TrimPrefix(message, "invalid multiline")
	case strings.Contains(message, "unterminated"):
		message = "unfinished string"
	}
	if line <= 0 || near == "" {
		near = "<eof>"
	}
	if line <= 0 {
		line = strings.Count(source, "\n") + 1
	}
	return errors.New(name + ":" + strconv.Itoa(line) + ": " + message + " near '" + near + "'")
}

// compileError takes the line of what the compiler reports to its place.
func compileError(err error, name string) error {
	var e *lua.CompileError
	if !errors.As(err, &e) {
		return errors.New(name + ": " + err.Error())
	}
	return errors.New(name + ":" + strconv.Itoa(max(e.Line, 1)) + ": " + e.Message)
}
