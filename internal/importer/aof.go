package importer

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// errTorn is for a command whose end is missing.
var errTorn = errors.New("the command is not complete")

// errCommand is for bytes that are no command.
var errCommand = errors.New("bytes that are no command")

// commands reads the commands of an append-only file:
//
//	*count CR LF, and so many of $length CR LF bytes CR LF
//	#text CR LF      an annotation
type commands struct {
	all []byte
	at  int
}

// line returns the bytes before the next line end: CR LF, or LF alone, which Redis accepts too.
func (c *commands) line() ([]byte, error) {
	i := bytes.IndexByte(c.all[c.at:], '\n')
	if i < 0 {
		return nil, errTorn
	}
	line := bytes.TrimSuffix(c.all[c.at:c.at+i], []byte("\r"))
	c.at += i + 1
	return line, nil
}

// number reads a line that has a mark and a number, which must be at least least.
func (c *commands) number(mark byte, least int64) (int64, error) {
	if c.at < len(c.all) && c.all[c.at] != mark {
		return 0, errCommand
	}
	const longest = 24 // so that a file without line ends is not searched for each
	end := min(len(c.all), c.at+longest)
	part := commands{c.all[:end], c.at}
	line, err := part.line()
	if err != nil {
		if end < len(c.all) {
			err = errCommand
		}
		return 0, err
	}
	c.at = part.at
	n, err := strconv.ParseInt(string(line[1:]), 10, 64)
	if err != nil || n < least {
		return 0, errCommand
	}
	return n, nil
}

// next appends the arguments of the next command to args. At the end of the file it appends none.
// After an error the position is the beginning of the command with the error.
func (c *commands) next(args [][]byte) (_ [][]byte, err error) {
	start := c.at
	defer func() {
		if err != nil {
			c.at = start
		}
	}()
	for c.at < len(c.all) && c.all[c.at] == '#' {
		if _, err := c.line(); err != nil {
			return nil, err
		}
	}
	if c.at == len(c.all) {
		return args, nil
	}
	n, err := c.number('*', 1)
	if err != nil {
		return nil, err
	}
	for ; n > 0; n-- {
		size, err := c.number('$', 0)
		if err != nil {
			return nil, err
		}
		if size+2 > int64(len(c.all)-c.at) || size+2 < 0 {
			return nil, errTorn
		}
		args = append(args, c.all[c.at:c.at+int(size)])
		c.at += int(size) + 2
	}
	return args, nil
}

func named(args [][]byte, name string) bool { return bytes.EqualFold(args[0], []byte(name)) }

// survey passes all commands to visit. It returns the length of the file without an incomplete
// command or transaction at its end.
func survey(b []byte, visit func(args [][]byte)) (valid int, err error) {
	c := commands{all: b}
	multi := false
	var args [][]byte
	for {
		if !multi {
			valid = c.at
		}
		args, err = c.next(args[:0])
		switch {
		case errors.Is(err, errTorn):
			return valid, nil
		case err != nil:
			return 0, fmt.Errorf("%w at byte %d", err, c.at)
		case len(args) == 0:
			return valid, nil
		case named(args, "MULTI"):
			multi = true
		case named(args, "EXEC"):
			multi = false
		}
		visit(args)
	}
}
