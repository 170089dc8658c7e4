// Command keyp is the server. Its subcommands work on data directories and on running servers.
//
//	keyp [FILE | -] [--OPTION VALUE...]...    run the server (serve.go)
//	keyp --check-config [FILE | -]...         check its configuration
//	keyp check DIR                            verify a data directory (check.go)
//	keyp repair DIR NEWDIR                    save what is left of a damaged one (repair.go)
//	keyp compact DIR                          shorten its data file (compact.go)
//	keyp import FILE|DIR --dir NEWDIR | --to ADDR
//	                                          import files of Redis (import.go)
//	keyp export DIR|ADDR FILE                 write a file that Redis reads (export.go)
//	keyp backup ADDR|DIR TARGET               back up a server or a data directory (backup.go)
//	keyp backup verify FILE                   verify a backup
//	keyp restore BACKUP NEWDIR                make a data directory of a backup (restore.go)
//	keyp cluster create|add|remove|replace ADDR ADDR...
//	                                          make a group of servers, and change it (cluster.go)
//	keyp cluster status ADDR                  list its members (cluster_status.go)
//	keyp cluster recover DIR NEWDIR           make a data directory from that of a member of a
//	                                          group without a majority (cluster_recover.go)
//	keyp health [ADDR]                        ask a server whether it is ready (health.go)
//	keyp completion bash | zsh | fish         print what completes command lines (completion.go)
//	keyp help [TOPIC]                         explain all this
//	keyp version                              print the version
//
// With --check-config the server does not run. The command prints the options that the server would
// refuse, and those that have no effect.
//
// Each mistake or failure is printed as one line on standard error. The table config.Uses lists the
// exit statuses of each command.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"keyp/internal/clock"
	"keyp/internal/config"
)

// subcommand is a tool in addition to the server. usage is the beginning of the text that --help
// prints; run gets the arguments after the name.
type subcommand struct {
	name, usage string
	run         func(args []string, out io.Writer) error
}

// subcommands are all tools. A configuration file with the name of a tool is given as ./name.
var subcommands = []subcommand{
	{"check", checkUsage, check},
	{"repair", repairUsage, repairDir},
	{"compact", compactUsage, compact},
	{"import", importUsage, importFiles},
	{"export", exportUsage, exportFile},
	{"backup", backupUsage, backup},
	{"restore", restoreUsage, restore},
	{"cluster", clusterUsage, cluster},
	{"health", healthUsage, health},
	{"completion", completionUsage, completion},
	{"help", "usage: keyp help [TOPIC]", nil}, // see run
	{"version", "usage: keyp version", nil},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		mistakes := config.Mistakes{err}
		errors.As(err, &mistakes)
		for _, err := range mistakes {
			text := err.Error()
			if !strings.Contains(text, "usage: ") { // which may have several lines
				text = strings.ReplaceAll(text, "\n", "; ") // joined errors
			}
			fmt.Fprintln(os.Stderr, "keyp:", text)
		}
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
	i := slices.IndexFunc(subcommands, func(s subcommand) bool {
		return len(args) > 0 && args[0] == s.name
	})
	if i < 0 {
		return runServer(args)
	}
	tool, args := subcommands[i], args[1:]
	switch {
	case slices.Contains(args, "--help") || slices.Contains(args, "-h"):
		return help([]string{tool.name})
	case tool.name == "help":
		return help(args)
	case tool.name == "version" && len(args) == 0:
		return version()
	case tool.run == nil:
		return errors.New(tool.usage)
	}
	if slices.ContainsFunc(args, withPassword.MatchString) { // errors show addresses
		err :=
			fmt.Errorf("an address has no user and no password in it: --user NAME and REDISCLI_AUTH are for servers, "+
				"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for buckets (see keyp %s --help)",
				tool.name)
		if tool.name == "import" || tool.name == "export" { // status 1 says that a part is done
			return exit{statusFailed, err}
		}
		return err
	}
	return tool.run(args, os.Stdout)
}

// withPassword matches addresses with a password before the host, such as redis://:secret@host and
// user:secret@host:6379. In a pattern, or in the path of a bucket, there may be an @.
var withPassword = regexp.MustCompile(`//[^/@]*:.*@|^[^/]*:.*@[^@]*:\d+$`)

// help prints the text about a topic, or the usage of the program.
func help(topic []string) error {
	if len(topic) > 1 && slices.ContainsFunc(subcommands, func(s subcommand) bool {
		return s.name == topic[0]
	}) {
		topic = topic[:1] // its text has the others
	}
	if len(topic) > 1 {
		return errors.New("usage: keyp help [TOPIC]")
	}
	about := strings.Join(topic, "")
	if i := slices.IndexFunc(subcommands, func(s subcommand) bool {
		return s.name == about
	}); i >= 0 {
		fmt.Printf("%s\nexit status: %s\n", subcommands[i].usage, config.ExitStatus(about))
		if !config.HasTopic(about) {
			return nil
		}
		fmt.Println()
	}
	return config.Help(os.Stdout, about)
}

func version() error {
	_, err := fmt.Println(config.VersionLine())
	return err
}

// runServer runs the server, or checks its configuration.
func runServer(args []string) error {
	started := slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return arg == "--check-config"
	})
	cfg, err := config.Load(started, os.Environ(), os.Stdin)
	switch {
	case errors.Is(err, config.ErrHelp):
		return help(nil)
	case errors.Is(err, config.ErrVersion):
		return version()
	}
	if err := checkConfig(cfg, err); err != nil {
		return err
	}
	if len(started) < len(args) {
		for _, remark := range cfg.Warnings() {
			fmt.Println(remark)
		}
		_, err := fmt.Println("the configuration is valid")
		return err
	}
	machine := &clock.Machine{}
	machine.Shift(cfg.Int("debug-clock-offset"))
	if err := serve(cfg, machine); !errors.Is(err, errAgain) {
		return err
	}
	return executeAgain(cfg, machine)
}
