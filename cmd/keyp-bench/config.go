package main

import (
	"cmp"
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
)

// config is the parsed command line.
type config struct {
	sides     []side
	workloads []workload // with their numbers filled in
	rounds    int
	duration  time.Duration
	clients   int
	keys      uint64
	size      int
	ttlKeys   uint64        // 0: the workload's own number
	length    time.Duration // 0: the workload's own length
	maxmemory string
	timeout   time.Duration
	dir       string
	quick     bool
	args      []string // the command line itself

	pipelineList, workloadList string
}

// side is one of the servers that are compared.
type side struct {
	name    string // keyp, peer or before
	command string
	product string // name and version from INFO, or ""
}

// quickFlags come before the other flags with --quick, so that the others win.
const quickFlags = "--rounds 1 --duration 100ms --clients 10 --keys 5000 --ttl-keys 5000 " +
	"--length 300ms"

func (c *config) flags() *flag.FlagSet {
	c.sides = []side{{name: "keyp"}, {name: "peer"}, {name: "before"}}
	fs := flag.NewFlagSet("keyp-bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints errors and usage
	fs.Usage = func() {}
	fs.StringVar(&c.sides[0].command, "keyp", "", "`COMMAND` that runs Keyp")
	fs.StringVar(&c.sides[1].command, "peer", "", "`COMMAND` that runs the server to compare with")
	fs.StringVar(&c.sides[2].command, "before", "",
		"`COMMAND` that runs an earlier Keyp to compare with, instead of --peer")
	fs.StringVar(&c.workloadList, "workload", "standard", "`NAMES` separated by commas; see below")
	fs.IntVar(&c.rounds, "rounds", 3, "measure each server `N` times, in turn")
	fs.DurationVar(&c.duration, "duration", 3*time.Second,
		"approximate `TIME` of one run of redis-benchmark")
	fs.IntVar(&c.clients, "clients", 50, "`N` connections")
	fs.StringVar(&c.pipelineList, "pipeline", "1,16",
		"`N,N…` requests in flight on a connection; each is measured")
	fs.Uint64Var(&c.keys, "keys", 1_000_000, "`N` different keys that random commands use")
	fs.IntVar(&c.size, "size", 100, "size of a value in `BYTES`")
	fs.Uint64Var(&c.ttlKeys, "ttl-keys", 0,
		"`N` keys in the workloads that have a number of their own, see below")
	fs.DurationVar(&c.length, "length", 0,
		"`TIME` of the workloads that have a length of their own, see below")
	fs.StringVar(&c.maxmemory, "maxmemory", "1gb", "`SIZE` for Keyp in bigger-than-memory")
	fs.DurationVar(&c.timeout, "timeout", 3*time.Minute,
		"longest `TIME` for a start, a stop, a reply, and the removal of expired keys")
	fs.StringVar(&c.dir, "dir", "",
		"`DIR` for the temporary data, on the disk to be measured (default $TMPDIR or /tmp)")
	fs.BoolVar(&c.quick, "quick", false,
		"smoke run of seconds, whose figures mean little:\n        "+quickFlags)
	return fs
}

// parse parses the command line. It returns flag.ErrHelp if the user asks for help.
func parse(args []string) (config, error) {
	c := config{args: args}
	fs := c.flags()
	err := fs.Parse(args)
	if err == nil && c.quick {
		err = fs.Parse(append(strings.Fields(quickFlags), args...))
	}
	if err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q; a command with blanks needs quotes",
			fs.Arg(0))
	}
	blank := func(s side) bool { return strings.TrimSpace(s.command) == "" }
	if blank(c.sides[0]) {
		return c, errors.New("--keyp must name the server to measure")
	}
	if c.sides = slices.DeleteFunc(c.sides, blank); len(c.sides) > 2 {
		return c, errors.New("--before and --peer can't be combined")
	}
	if err := c.check(); err != nil {
		return c, err
	}
	c.workloads, err = c.chosen()
	return c, err
}

// check returns an error for numbers that cannot be used.
func (c *config) check() error {
	for _, l := range []struct {
		name             string
		value, low, high int64
	}{
		{"rounds", int64(c.rounds), 1, 1000},
		{"clients", int64(c.clients), 1, 60_000},
		{"keys", int64(min(c.keys, 1<<62)), 1, 1e11},
		{"ttl-keys", int64(min(c.ttlKeys, 1<<62)), 0, 1e9},
		{"size", int64(c.size), 1, 64 << 20},
	} {
		if l.value < l.low || l.value > l.high {
			return fmt.Errorf("--%s must be from %d to %d", l.name, l.low, l.high)
		}
	}
	if c.duration <= 0 || c.timeout <= 0 || c.length < 0 {
		return errors.New("--duration, --timeout and --length must be positive")
	}
	if info, err := os.Stat(c.dir); c.dir != "" && (err != nil || !info.IsDir()) {
		return fmt.Errorf("--dir: %s is not a directory", c.dir)
	}
	return nil
}

// chosen returns the workloads of the command line with their numbers. Each name counts once.
func (c *config) chosen() (chosen []workload, err error) {
	var pipelines []int
	for word := range strings.SplitSeq(c.pipelineList, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > 100_000 {
			return nil, fmt.Errorf("--pipeline: %q is not a number from 1 to 100000", word)
		}
		pipelines = append(pipelines, n)
	}
	for name := range strings.SplitSeq(c.workloadList, ",") {
		found := false
		for _, w := range allWorkloads() {
			standard := w.procedure == nil && name == "standard"
			if name != w.name && name != "all" && !standard {
				continue
			}
			found = true
			if slices.ContainsFunc(chosen, func(c workload) bool { return c.name == w.name }) {
				continue
			}
			if _, err := exec.LookPath(redisBenchmark); w.requests != nil && err != nil {
				return nil, fmt.Errorf("workload %s needs %s: %w", w.name, redisBenchmark, err)
			}
			chosen = append(chosen, c.filled(w, pipelines)...)
		}
		if !found {
			return nil, fmt.Errorf("--workload: there is no workload %q, see --help", name)
		}
	}
	return chosen, nil
}

// filled returns a workload with its numbers filled in, for each pipeline it is measured with.
func (c *config) filled(w workload, pipelines []int) (all []workload) {
	if w.procedure == nil {
		w.keys, w.length = c.keys, c.duration
	} else {
		w.keys, w.length = cmp.Or(c.ttlKeys, w.keys), cmp.Or(c.length, w.length)
	}
	if w.procedure != nil || w.clients > 0 {
		pipelines = []int{1}
	}
	w.clients = cmp.Or(w.clients, c.clients)
	for _, w.pipeline = range pipelines {
		all = append(all, w)
	}
	return all
}

// usage returns the help text.
func usage() string {
	var b strings.Builder
	b.WriteString(`keyp-bench measures Keyp, alone or side by side with another server.

Usage:
  keyp-bench [flags] --keyp "bin/keyp --port {port} --dir {dir}" \
    --peer "redis-server --port {port} --dir {dir} --appendonly yes --appendfsync always --save ''"

Each server starts with a new temporary directory, which replaces {dir}, on a
free loopback port, which replaces {port}. sh splits its command line into words.

Flags:
`)
	new(config).flags().VisitAll(func(f *flag.Flag) {
		name, text := flag.UnquoteUsage(f)
		if !slices.Contains([]string{"", "false", "0", "0s"}, f.DefValue) {
			text += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&b, "  --%s %s\n        %s\n", f.Name, name, text)
	})
	b.WriteString(helpEnd)
	return b.String()
}

const helpEnd = `
Workloads that redis-benchmark sends (together: standard). All servers start
once, get --keys keys, and are measured in turn, in reverse order every second
round, and never while one of them saves or rewrites its log:
  set     SET of random keys
  get     GET of random keys that all exist
  incr    INCR of random counters
  setex   SET … EX 3600 of random keys
  one     SET from one connection
  many    SET from 1000 connections

Other workloads, which start and stop a server for each measurement:
  restart
        3M keys (--ttl-keys) with a deadline; kill -9 after a second (--length)
        of SET EX, and a clean stop (SIGTERM): the time from the new start to
        the first right GET, and memory
  expire-burst
        1M keys (--ttl-keys) expire at one instant: the time until DBSIZE no
        longer counts them, and the latency of 5000 GETs a second meanwhile, for
        a second (--length) at least
  expire-events
        100k keys (--ttl-keys) expire spread over 10s (--length): how late their
        expired events reach a subscriber
  bigger-than-memory
        10M keys (--ttl-keys) with a deadline, in Keyp with --maxmemory: memory
        after loading, then GET of random ones for 10s (--length)
  abuse
        one client overloads the server with commands over collections of 1M
        elements (--ttl-keys), with strings of 256 MiB, deep pipelines, many
        connections, unread replies or scripts: the latency of 5000 GETs a
        second beside each, and by how much the server's memory grows

  all   all of these

Output: a table in Markdown on stdout, a line for each figure. Figures are
medians of the rounds; ratio is the first server's figure divided by the
second's, with the smallest and the largest of the single rounds behind it.
Latency is that of a whole pipeline, from its write to the reply.
"redis-benchmark busy" is the share of its time that redis-benchmark spent on a
processor: near 100 % it was the limit, not the server. "processor time" is what
the server's threads spend together on a request.

Exit status: 0 on success; 1 when a server failed (the end of its output is
shown, and the run ends), when a reply was an error or wrong (the run goes on),
or on Ctrl-C; 2 for a wrong command line.
`
