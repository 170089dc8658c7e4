package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"keyp/cmd/keyp-bench/internal/redisbench"
)

// config is the parsed command line.
type config struct {
	sides       []side
	workloads   []workload
	rounds      int
	duration    time.Duration
	clients     int
	pipelines   []int
	keys        uint64
	size        int
	ttlKeys     uint64        // 0: the workload's own number
	length      time.Duration // 0: the workload's own length
	maxmemory   string
	timeout     time.Duration
	dir         string
	json        bool
	quick       bool
	quiet       bool
	commandLine []string
}

// side is one of the servers that are compared. It has a command to run, or the address of a
// running server.
type side struct {
	name    string // keyp, peer or before
	command string
	addr    string
}

// isKeyp reports whether the server is a Keyp. The peer is none, so it does not know the options of
// Keyp.
func (s side) isKeyp() bool { return s.name != "peer" }

// quickValues are the flags that --quick sets unless they are given.
var quickValues = map[string]string{
	"rounds": "1", "duration": "100ms", "clients": "10", "keys": "5000", "ttl-keys": "5000",
	"length": "300ms",
}

// flags are the values of the command line from which a config is made.
type flags struct {
	config
	keyp, peer, before, keypAddr, peerAddr string
	pipelineList, workloadList             string
}

func (f *flags) set() *flag.FlagSet {
	fs := flag.NewFlagSet("keyp-bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints errors and usage
	fs.Usage = func() {}
	// A usage text is the name of the value, a bar, and the help.
	fs.StringVar(&f.keyp, "keyp", "", "COMMAND|runs Keyp; {port} and {dir} are replaced")
	fs.StringVar(&f.peer, "peer", "", "COMMAND|runs the server to compare with (optional)")
	fs.StringVar(&f.before, "before", "",
		"COMMAND|runs an earlier Keyp to compare with, instead of --peer")
	fs.StringVar(&f.keypAddr, "addr", "",
		"HOST:PORT|of a Keyp that runs already, instead of --keyp")
	fs.StringVar(&f.peerAddr, "peer-addr", "",
		"HOST:PORT|of a peer that runs already, instead of --peer")
	fs.StringVar(&f.workloadList, "workload", "standard",
		"NAMES|workloads, separated by commas; see below")
	fs.IntVar(&f.rounds, "rounds", 3, "N|measurements of each server, in turn; medians are shown")
	fs.DurationVar(&f.duration, "duration", 3*time.Second,
		"TIME|approximate length of one run of redis-benchmark")
	fs.IntVar(&f.clients, "clients", 50, "N|connections")
	fs.StringVar(&f.pipelineList, "pipeline", "1,16",
		"N,N…|requests in flight on a connection; each is measured")
	fs.Uint64Var(&f.keys, "keys", 1_000_000, "N|number of different keys that random commands use")
	fs.IntVar(&f.size, "size", 100, "BYTES|size of a value")
	fs.Uint64Var(&f.ttlKeys, "ttl-keys", 0,
		"N|keys of the workloads that have their own number (default: that number, see below)")
	fs.DurationVar(&f.length, "length", 0,
		"TIME|length of the workloads that have their own (default: that length, see below)")
	fs.StringVar(&f.maxmemory, "maxmemory", "1gb", "SIZE|of Keyp in bigger-than-memory")
	fs.DurationVar(&f.timeout, "timeout", 3*time.Minute,
		"TIME|limit for a start, a stop, a reply, and the removal of expired keys")
	fs.StringVar(&f.dir, "dir", "",
		"DIR|parent of the temporary data directories; choose the disk to be measured, not memory (default $TMPDIR or /tmp)")
	fs.BoolVar(&f.json, "json", false, "|print one JSON document instead of a table")
	fs.BoolVar(&f.quick, "quick", false,
		"|smoke run of seconds: short rounds, few keys; its figures mean little")
	fs.BoolVar(&f.quiet, "quiet", false, "|no progress on stderr")
	return fs
}

// parse parses the command line. It returns flag.ErrHelp if the user asks for help.
func parse(args []string) (config, error) {
	var f flags
	fs := f.set()
	if err := fs.Parse(args); err != nil {
		return config{}, err
	}
	if fs.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q; a command with blanks needs quotes",
			fs.Arg(0))
	}
	if f.quick {
		given := map[string]bool{}
		fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
		for name, value := range quickValues {
			if given[name] {
				continue
			}
			if err := fs.Set(name, value); err != nil {
				return config{}, fmt.Errorf("--quick: %w", err)
			}
		}
	}
	if err := f.resolve(); err != nil {
		return config{}, err
	}
	f.commandLine = args
	return f.config, f.config.check()
}

// resolve fills in the sides, pipelines and workloads.
func (f *flags) resolve() error {
	for _, s := range []side{{"keyp", f.keyp, f.keypAddr}, {"peer", f.peer, f.peerAddr},
		{"before", f.before, ""}} {
		if s.command != "" && s.addr != "" {
			return fmt.Errorf("%s: give a command or an address, not both", s.name)
		}
		if s.command != "" || s.addr != "" {
			f.sides = append(f.sides, s)
		} else if s.name == "keyp" {
			return errors.New("--keyp or --addr must name the server to measure")
		}
	}
	if len(f.sides) > 2 {
		return errors.New("--before and a peer can't be combined")
	}
	for word := range strings.SplitSeq(f.pipelineList, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > 100_000 {
			return fmt.Errorf("--pipeline: %q is not a number from 1 to 100000", word)
		}
		if !slices.Contains(f.pipelines, n) {
			f.pipelines = append(f.pipelines, n)
		}
	}
	var err error
	f.workloads, err = chosen(f.workloadList)
	return err
}

// check returns an error for a configuration that cannot be run.
func (c config) check() error {
	limits := []struct {
		name             string
		value, low, high int64
	}{
		{"rounds", int64(c.rounds), 1, 1000},
		{"clients", int64(c.clients), 1, 60_000},
		{"keys", int64(min(c.keys, 1<<62)), 1, 1e11},
		{"ttl-keys", int64(min(c.ttlKeys, 1<<62)), 0, 1e9},
		{"size", int64(c.size), 1, 64 << 20},
		{"duration", int64(c.duration), 1, int64(24 * time.Hour)},
		{"length", int64(c.length), 0, int64(24 * time.Hour)},
		{"timeout", int64(c.timeout), 1, int64(24 * time.Hour)},
	}
	for _, l := range limits {
		if l.value < l.low || l.value > l.high {
			return fmt.Errorf("--%s must be from %d to %d", l.name, l.low, l.high)
		}
	}
	if c.dir != "" {
		if info, err := os.Stat(c.dir); err != nil || !info.IsDir() {
			return fmt.Errorf("--dir: %s is not a directory", c.dir)
		}
	}
	_, missing := exec.LookPath(redisbench.Program)
	for _, w := range c.workloads {
		if w.requests != nil && missing != nil {
			return fmt.Errorf("workload %s needs %s: %w", w.name, redisbench.Program, missing)
		}
		for _, s := range c.sides {
			if w.starts && s.addr != "" {
				return fmt.Errorf(
					"workload %s starts and stops its servers: it needs commands, not addresses",
					w.name)
			}
		}
	}
	return nil
}

// usage returns the help text.
func usage() string {
	var b strings.Builder
	b.WriteString(`keyp-bench measures Keyp, alone or side by side with another server.

Usage:
  keyp-bench [flags] --keyp "bin/keyp --port {port} --dir {dir}" \
    --peer "redis-server --port {port} --dir {dir} --appendonly yes --appendfsync always --save ''"

Each server starts with a new temporary directory ({dir}) on a free loopback
port ({port}); sh splits its command line into words. Single commands are sent
by redis-benchmark: all servers are started once, get --keys keys, and are
measured in turn, in reverse order every second round, and never while one of
them saves or rewrites its log. Every other measurement starts a server, stops
it and removes its directory. --addr and --peer-addr measure servers that run
already; the keys that are written stay there (key:*, counter:*, ttl:*).

Flags:
`)
	var f flags
	f.set().VisitAll(func(fl *flag.Flag) {
		name, text, _ := strings.Cut(fl.Usage, "|")
		if !slices.Contains([]string{"", "false", "0", "0s"}, fl.DefValue) {
			text += " (default " + fl.DefValue + ")"
		}
		head := strings.TrimSpace("--" + fl.Name + " " + name)
		fmt.Fprintf(&b, "  %-22s %s\n", head, wrap(text, 25))
	})
	b.WriteString("\nWorkloads:\n")
	for _, w := range allWorkloads {
		fmt.Fprintf(&b, "  %-18s %s\n", w.name, wrap(w.summary, 21))
	}
	for g, name := range groupNames {
		text := strings.Join(named(group(g)), ", ")
		fmt.Fprintf(&b, "  %-18s %s\n", name, wrap(text, 21))
	}
	fmt.Fprintf(&b, "  %-18s %s\n", "all", "all of these")
	b.WriteString(`
Output: a table in Markdown on stdout, a line for each figure. Figures are
medians of the rounds; ratio is the first server's figure divided by the
second's, with the smallest and the largest of the single rounds behind it.
Latency is that of a whole pipeline, from its write to the reply.
"redis-benchmark busy" is the share of its time that redis-benchmark spent on a
processor: near 100 % it was the limit, not the server. "processor time" is what
the server's threads spend together on a request. JSON contains the single
rounds too.

Exit status: 0 on success; 1 when a server failed (the end of its output is
shown, and the run ends), when a reply was an error or wrong (the run goes on),
or on Ctrl-C; 2 for a wrong command line.
`)
	return b.String()
}

// wrap breaks text into lines of at most 80 columns, with the given indentation from the second
// line on.
func wrap(text string, indent int) string {
	var b strings.Builder
	column := indent
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > 80:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
