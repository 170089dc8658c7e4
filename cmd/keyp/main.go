// Command keyp is the server; its subcommands work on data directories.
//
//	keyp [FILE | -] [--OPTION VALUE...]...    run the server (serve.go)
//	keyp check DIR                            verify a data directory (check.go)
//	keyp repair DIR NEWDIR                    save what is left of a damaged one (repair.go)
//	keyp compact DIR                          shorten its data file (compact.go)
//	keyp health [ADDR]                        ask a server whether it is ready (health.go)
//	keyp completion bash | zsh | fish         print what completes command lines (completion.go)
//
// Any mistake or failure is one line on standard error and exit status 1. For repair that status
// is 2, and 1 means that data is lost.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"keyp/internal/config"
)

// subcommand is a tool in addition to the server. run gets the arguments after the name.
type subcommand struct {
	name string
	run  func(args []string, out io.Writer) error
}

// subcommands, each in a file of its own. A configuration file of such a name is
// given as ./name.
var subcommands = []subcommand{
	{"check", check},
	{"repair", repairDir},
	{"compact", compact},
	{"health", health},
	{"completion", completion},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		// Joined errors are on separate lines.
		fmt.Fprintln(os.Stderr, "keyp:", strings.ReplaceAll(err.Error(), "\n", "; "))
		status := 1
		if e := (exit{}); errors.As(err, &e) {
			status = e.status
		}
		os.Exit(status)
	}
}

// exit is an error with its own exit status.
type exit struct {
	status int
	error
}

func (e exit) Unwrap() error { return e.error }

func run(args []string) error {
	for _, s := range subcommands {
		if len(args) > 0 && args[0] == s.name {
			return s.run(args[1:], os.Stdout)
		}
	}
	cfg, err := config.Load(args, os.Environ(), os.Stdin)
	switch {
	case errors.Is(err, config.ErrHelp):
		return config.Usage(os.Stdout)
	case errors.Is(err, config.ErrVersion):
		_, err := fmt.Println(config.VersionLine())
		return err
	case err != nil:
		return err
	}
	return serve(cfg)
}
