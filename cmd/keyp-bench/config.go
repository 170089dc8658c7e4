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

	"keyp/cmd/keyp-bench/internal/proc"
	"keyp/cmd/keyp-bench/internal/redisbench"
)

// config is what the command line says.
type config struct {
	sides     []side
	workloads []workload

	redisBenchmark   bool // redis-benchmark is the load of streams
	noRedisBenchmark bool // it would be, but it is not installed

	rounds      int
	requests    int64
	duration    time.Duration // 0 when only requests bounds a measurement
	clients     int
	manyClients int
	pipelines   []int
	threads     int
	keys        uint64
	size        int
	ttlKeys     uint64        // 0: as each workload says
	length      time.Duration // 0: as each workload says
	slowKeyp    string
	boundedKeyp string
	compact     string
	timeout     time.Duration
	dir         string
	json        bool
	quick       bool
	quiet       bool
	commandLine []string
}

// side is one of the servers that are compared: a command to run, or the address
// of a server that runs already.
type side struct {
	name    string // keyp or peer
	command string
	addr    string
}

// quickValues is what --quick sets, where nothing else was asked for.
var quickValues = map[string]string{
	"rounds": "1", "duration": "100ms", "n": "2000", "clients": "10", "many-clients": "100", "keys": "5000",
	"ttl-keys": "5000", "length": "300ms",
}

// flags are the raw values behind a config.
type flags struct {
	config
	keyp, peer, keypAddr, peerAddr string
	pipelineList, workloadList     string
	loadName                       string
}

func (f *flags) set() *flag.FlagSet {
	fs := flag.NewFlagSet("keyp-bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints errors and usage
	fs.Usage = func() {}
	// A usage text is the name of the value, a bar, and what help says.
	fs.StringVar(&f.keyp, "keyp", "", "COMMAND|runs Keyp; {port} and {dir} are replaced")
	fs.StringVar(&f.peer, "peer", "", "COMMAND|runs the server to compare with (optional)")
	fs.StringVar(&f.keypAddr, "addr", "", "HOST:PORT|of a Keyp that runs already, instead of --keyp")
	fs.StringVar(&f.peerAddr, "peer-addr", "", "HOST:PORT|of a peer that runs already, instead of --peer")
	fs.StringVar(&f.workloadList, "workload", "standard", "NAMES|workloads, with commas between; see below")
	fs.StringVar(&f.loadName, "load", "", "NAME|redis-benchmark or own: what makes the load of streams of requests (default redis-benchmark where it is installed)")
	fs.IntVar(&f.rounds, "rounds", 3, "N|times each server is measured, in turn; medians are shown")
	fs.DurationVar(&f.duration, "duration", 3*time.Second, "TIME|about how long one measurement of a stream is")
	fs.Int64Var(&f.requests, "n", 0, "N|requests of one measurement, instead of --duration; with both, the first limit ends the own load, and -n redis-benchmark")
	fs.IntVar(&f.clients, "clients", 50, "N|connections")
	fs.IntVar(&f.manyClients, "many-clients", 1000, "N|connections of the workload many")
	fs.StringVar(&f.pipelineList, "pipeline", "1,16", "N,N…|requests under way on a connection; each is measured")
	fs.IntVar(&f.threads, "threads", 1, "N|threads of the own load generator")
	fs.Uint64Var(&f.keys, "keys", 1_000_000, "N|how many different keys the random ones are")
	fs.IntVar(&f.size, "size", 100, "BYTES|size of a value")
	fs.Uint64Var(&f.ttlKeys, "ttl-keys", 0, "N|keys of the workloads that have numbers of their own (default: those, see below)")
	fs.DurationVar(&f.length, "length", 0, "TIME|length of the workloads that have one of their own (default: that, see below)")
	fs.StringVar(&f.slowKeyp, "slow-keyp", "--debug-sync-delay {us}", "ARGS|added to --keyp in slow-disk; {us} is the delay of a sync in microseconds; empty: preload a library, as for the peer")
	fs.StringVar(&f.boundedKeyp, "bounded-keyp", "--maxmemory 1gb", "ARGS|added to --keyp in bigger-than-memory")
	fs.StringVar(&f.compact, "compact", "", "COMMAND|compacts the data directory {dir} of a stopped Keyp, for reuse (optional)")
	fs.DurationVar(&f.timeout, "timeout", 3*time.Minute, "TIME|patience with a start, a stop, a reply, and expired keys that still count")
	fs.StringVar(&f.dir, "dir", "", "DIR|where the temporary data directories are made; on the disk to be measured, not in memory (default $TMPDIR or /tmp)")
	fs.BoolVar(&f.json, "json", false, "|print one JSON document instead of tables")
	fs.BoolVar(&f.quick, "quick", false, "|a smoke run of seconds: short rounds, few keys; its figures mean little")
	fs.BoolVar(&f.quiet, "quiet", false, "|no progress on stderr")
	return fs
}

// parse reads the command line. It returns flag.ErrHelp when that asks for help.
func parse(args []string) (config, error) {
	var f flags
	fs := f.set()
	if err := fs.Parse(args); err != nil {
		return config{}, err
	}
	if fs.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q; a command with blanks needs quotes", fs.Arg(0))
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if f.quick {
		for name, value := range quickValues {
			if given[name] {
				continue
			}
			if err := fs.Set(name, value); err != nil {
				return config{}, fmt.Errorf("--quick: %w", err)
			}
		}
	}
	if given["n"] && !given["duration"] {
		f.duration = 0
	}
	if err := f.resolve(); err != nil {
		return config{}, err
	}
	f.commandLine = args
	return f.config, f.config.check()
}

// resolve makes lists of the list-like flags.
func (f *flags) resolve() error {
	for _, s := range []side{{"keyp", f.keyp, f.keypAddr}, {"peer", f.peer, f.peerAddr}} {
		if s.command != "" && s.addr != "" {
			return fmt.Errorf("%s: a command and an address are given; one must do", s.name)
		}
		if s.command != "" || s.addr != "" {
			f.sides = append(f.sides, s)
		} else if s.name == "keyp" {
			return errors.New("--keyp or --addr must say what to measure")
		}
		if s.command != "" {
			if words, err := proc.Split(s.command); err != nil || len(words) == 0 {
				return errors.Join(fmt.Errorf("--%s: no command", s.name), err)
			}
		}
	}
	for _, line := range []string{f.slowKeyp, f.boundedKeyp, f.compact} {
		if words, err := proc.Split(line); err != nil || line != "" && len(words) == 0 {
			return errors.Join(fmt.Errorf("%q: no command line", line), err)
		}
	}
	if err := f.chooseLoad(); err != nil {
		return err
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

// chooseLoad takes redis-benchmark unless it is not there or not wanted.
func (f *flags) chooseLoad() error {
	_, missing := exec.LookPath(redisbench.Program)
	switch f.loadName {
	case "own":
	case "":
		f.redisBenchmark, f.noRedisBenchmark = missing == nil, missing != nil
	case redisbench.Program:
		if missing != nil {
			return fmt.Errorf("--load: %w", missing)
		}
		f.redisBenchmark = true
	default:
		return fmt.Errorf("--load: %q is neither %s nor own", f.loadName, redisbench.Program)
	}
	return nil
}

// check refuses what can't be run.
func (c config) check() error {
	limits := []struct {
		name             string
		value, low, high int64
	}{
		{"rounds", int64(c.rounds), 1, 1000},
		{"clients", int64(c.clients), 1, 60_000},
		{"many-clients", int64(c.manyClients), 1, 60_000},
		{"threads", int64(c.threads), 1, 1024},
		{"n", c.requests, 0, 1 << 50},
		{"keys", int64(min(c.keys, 1<<62)), 1, 1e11},
		{"ttl-keys", int64(min(c.ttlKeys, 1<<62)), 0, 1e9},
		{"size", int64(c.size), 0, 64 << 20},
	}
	for _, l := range limits {
		if l.value < l.low || l.value > l.high {
			return fmt.Errorf("--%s must be from %d to %d", l.name, l.low, l.high)
		}
	}
	if c.duration < 0 || c.duration == 0 && c.requests == 0 {
		return errors.New("--duration or -n must be above 0")
	}
	if c.length < 0 {
		return errors.New("--length must not be below 0")
	}
	if c.timeout <= 0 {
		return errors.New("--timeout must be above 0")
	}
	if c.dir != "" {
		if info, err := os.Stat(c.dir); err != nil || !info.IsDir() {
			return fmt.Errorf("--dir: %s is no directory", c.dir)
		}
	}
	for _, w := range c.workloads {
		if w.procedure == nil && w.own == nil && !c.redisBenchmark {
			return fmt.Errorf("workload %s is a test of %s and needs it", w.name, redisbench.Program)
		}
		for _, s := range c.sides {
			if w.starts && s.addr != "" {
				return fmt.Errorf("workload %s starts and ends its servers: it needs commands, not addresses", w.name)
			}
		}
	}
	return nil
}

// usage is the help text.
func usage() string {
	var b strings.Builder
	b.WriteString(`keyp-bench measures Keyp, alone or side by side with another Redis server.

Usage:
  keyp-bench [flags] --keyp "bin/keyp --port {port} --dir {dir}" \
    --peer "redis-server --port {port} --dir {dir} --appendonly yes --appendfsync always --save ''"

Servers are started with a fresh temporary directory ({dir}) on a free loopback
port ({port}). For the streams of requests all servers are started once, hold
--keys keys, and take turns, the other way round in every round; none is
measured while one saves or rewrites its log. Every other measurement starts a
server of its own, stops it and removes its directory. Command lines are split
as a shell splits them, with quotes; nothing else of a shell is there. --addr
and --peer-addr measure servers that run already; these keep the keys that are
written (key:*, ctr:*, counter:*, ttl:*).

Flags:
`)
	var f flags
	f.set().VisitAll(func(fl *flag.Flag) {
		name, text, _ := strings.Cut(fl.Usage, "|")
		dashes := "--"
		if len(fl.Name) == 1 {
			dashes = "-"
		}
		if !slices.Contains([]string{"", "false", "0", "0s"}, fl.DefValue) {
			text += " (default " + fl.DefValue + ")"
		}
		head := strings.TrimSpace(dashes + fl.Name + " " + name)
		fmt.Fprintf(&b, "  %-22s %s\n", head, wrap(text, 25))
	})
	b.WriteString("\nWorkloads:\n")
	for _, w := range allWorkloads {
		if w.group != types {
			fmt.Fprintf(&b, "  %-18s %s\n", w.name, wrap(w.summary, 21))
		}
	}
	fmt.Fprintf(&b, "  %-18s %s\n", groupNames[standard], wrap(strings.Join(named(standard), ", "), 21))
	fmt.Fprintf(&b, "  %-18s %s\n", groupNames[types], wrap("redis-benchmark's tests "+strings.Join(named(types), ", "), 21))
	fmt.Fprintf(&b, "  %-18s %s\n", groupNames[slow], wrap(strings.Join(named(slow), ", "), 21))
	fmt.Fprintf(&b, "  %-18s %s\n", groupNames[abusive], wrap(strings.Join(named(abusive), ", "), 21))
	fmt.Fprintf(&b, "  %-18s %s\n", "all", "all of these")
	b.WriteString(`
Output: tables in Markdown on stdout. Rates, quantiles and readings are medians
of the rounds, max is the worst of them; ratio is Keyp / peer, of the medians,
with the least and the greatest of the single rounds behind it. Latency is that
of a whole pipeline, from its write to the reply; the load is closed: a
connection waits for all its replies before it sends again. The own load checks
every reply, also against the value; redis-benchmark looks for error replies. *
marks a rate at which the generator had no time to spare. JSON has the single
rounds too. The standard workloads with a peer take about five minutes, all of
them about an hour and a half.

Exit status: 0 when all went well; 1 when a server failed (the end of its output
is shown, and the run ends), when a reply was an error or wrong (the run goes
on), or on Ctrl-C; 2 for a wrong command line. What can't be measured here is
said on stderr.
`)
	return b.String()
}

// wrap breaks text into lines of at most 80 columns with the given indentation
// from the second line on.
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
