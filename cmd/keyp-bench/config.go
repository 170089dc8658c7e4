package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// config is the parsed command line.
type config struct {
	sides     []side
	workloads []workload // with their numbers filled in
	rounds    int
	duration  time.Duration // 0: the workload's own
	keys      uint64        // 0: the workload's own number
	clients   int
	pipeline  int // 0: all of pipelines
	size      int
	maxmemory string
	timeout   time.Duration
	dir       string
	quick     bool
	names     string   // of the workloads
	args      []string // the command line itself
}

// pipelines are the depths of pipelines that streams are measured with.
var pipelines = []int{1, 16}

// side is one of the servers that are compared.
type side struct {
	name    string // keyp, peer or before
	command string
	product string // name and version from INFO, or ""
}

// quickFlags are the flags that --quick sets. They come before the user's other flags, so that
// those win.
const quickFlags = "--rounds 1 --duration 200ms --clients 10 --keys 5000"

func (c *config) flags() *flag.FlagSet {
	c.sides = []side{{name: "keyp"}, {name: "peer"}, {name: "before"}}
	fs := flag.NewFlagSet("keyp-bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints errors and usage
	fs.StringVar(&c.sides[0].command, "keyp", "", "`COMMAND` that runs Keyp")
	fs.StringVar(&c.sides[1].command, "peer", "", "`COMMAND` that runs the server to compare with")
	fs.StringVar(&c.sides[2].command, "before", "",
		"`COMMAND` that runs an earlier Keyp to compare with, instead of --peer")
	fs.StringVar(&c.names, "workload", "standard", "`NAMES` separated by commas; see below")
	fs.IntVar(&c.rounds, "rounds", 3, "measure each server `N` times, in turn")
	fs.DurationVar(&c.duration, "duration", 0,
		"`TIME` of a measurement, instead of the workload's own; see below")
	fs.Uint64Var(&c.keys, "keys", 0, "`N` keys, instead of the workload's own number; see below")
	fs.IntVar(&c.clients, "clients", 50, "`N` connections")
	fs.IntVar(&c.pipeline, "pipeline", 0,
		"`N` requests in flight on a connection (default: measured with 1 and with 16)")
	fs.IntVar(&c.size, "size", 100, "size of a value in `BYTES`")
	fs.StringVar(&c.maxmemory, "maxmemory", "1gb", "`SIZE` for Keyp in bigger-than-memory")
	fs.DurationVar(&c.timeout, "timeout", 3*time.Minute,
		"longest `TIME` for a start, a stop, a reply, and the removal of expired keys")
	fs.StringVar(&c.dir, "dir", "",
		"`DIR` for the temporary data, on the disk to be measured (default $TMPDIR or /tmp)")
	fs.BoolVar(&c.quick, "quick", false,
		"smoke run of seconds, whose figures mean little:\n"+quickFlags)
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
	blank := func(s side) bool { return strings.TrimSpace(s.command) == "" }
	switch {
	case fs.NArg() > 0:
		return c, fmt.Errorf("unexpected argument %q; a command with blanks needs quotes",
			fs.Arg(0))
	case blank(c.sides[0]):
		return c, errors.New("--keyp must name the server to measure")
	case !blank(c.sides[1]) && !blank(c.sides[2]):
		return c, errors.New("--before and --peer can't be combined")
	case c.rounds < 1 || c.clients < 1 || c.size < 1 || c.timeout <= 0:
		return c, errors.New("--rounds, --clients, --size and --timeout must be positive")
	case c.duration < 0 || c.pipeline < 0 || c.keys > 1e9:
		return c, errors.New("--duration and --pipeline must be positive, --keys at most 1e9")
	}
	c.sides = slices.DeleteFunc(c.sides, blank)
	for name := range strings.SplitSeq(c.names, ",") {
		if err := c.choose(strings.TrimSpace(name)); err != nil {
			return c, err
		}
	}
	return c, nil
}

// choose adds the workloads of a name, each with its numbers, unless they are there.
func (c *config) choose(name string) error {
	found := false
	for _, w := range allWorkloads() {
		if name != w.name && name != "all" && (name != "standard" || w.procedure != nil) {
			continue
		}
		found = true
		if slices.ContainsFunc(c.workloads, func(o workload) bool { return o.name == w.name }) {
			continue
		}
		if _, err := exec.LookPath(redisBenchmark); w.requests != nil && err != nil {
			return fmt.Errorf("workload %s needs %s: %w", w.name, redisBenchmark, err)
		}
		depths := pipelines
		if w.procedure != nil || w.clients > 0 {
			depths = pipelines[:1]
		} else if c.pipeline > 0 {
			depths = []int{c.pipeline}
		}
		w.keys, w.length = cmp.Or(c.keys, w.keys), cmp.Or(c.duration, w.length)
		w.clients = cmp.Or(w.clients, c.clients)
		for _, w.pipeline = range depths {
			c.workloads = append(c.workloads, w)
		}
	}
	if !found {
		return fmt.Errorf("--workload: there is no workload %q, see --help", name)
	}
	return nil
}

// usage returns the help text.
func usage() string {
	var flags strings.Builder
	fs := new(config).flags()
	fs.SetOutput(&flags)
	fs.PrintDefaults()
	return helpBegin + strings.ReplaceAll("\n"+flags.String(), "\n  -", "\n  --") + helpEnd
}

const helpBegin = `keyp-bench measures Keyp, alone or side by side with another server.

Usage:
  keyp-bench [flags] --keyp "bin/keyp --port {port} --dir {dir}" \
    --peer "redis-server --port {port} --dir {dir} --appendonly yes --appendfsync always --save ''"

Each server starts with a new temporary directory, which replaces {dir}, on a
free loopback port, which replaces {port}. sh splits its command line into words.

Flags:`

const helpEnd = `
Workloads that redis-benchmark sends for about 3s (--duration). All servers start
once, get 1M keys (--keys), and are measured in turn, in reverse order every
second round, and never while one of them saves or rewrites its log:
  set       SET of random keys
  get       GET of random keys that all exist
  incr      INCR of random counters
  setex     SET … EX 3600 of random keys
  one       SET from one connection
  many      SET from 1000 connections
  standard  all of these

Other workloads, which start and stop a server for each measurement:
  restart
        3M keys (--keys) with a deadline; kill -9 after 1s (--duration) of
        SET EX, and a clean stop (SIGTERM): the time from the new start to the
        first right GET, and memory
  expire-burst
        1M keys (--keys) expire at one instant: the time until DBSIZE no longer
        counts them, and the latency of 5000 GETs a second meanwhile, for 1s
        (--duration) at least
  expire-events
        100k keys (--keys) expire spread over 10s (--duration): how late their
        expired events reach a subscriber
  bigger-than-memory
        10M keys (--keys) with a deadline, in Keyp with --maxmemory: memory
        after loading, then GET of random ones for 10s (--duration)
  abuse
        one client overloads the server with commands over collections of 1M
        elements (--keys), with strings of 256 MiB, deep pipelines, many
        connections, unread replies or scripts: the latency of 5000 GETs a
        second beside each, and by how much the server's memory grows

  all   the workloads of both lists

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
