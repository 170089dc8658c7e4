package commands

import (
	"fmt"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"keyp/internal/histogram"
)

// Latency records spikes by event: the commands and the background work that took at least
// latency-monitor-threshold. The zero value records nothing.
type Latency struct {
	threshold atomic.Int64 // ms; 0: off
	mu        struct {
		sync.Mutex
		events map[string]*latencyEvent
	}
}

// latencySamples is the number of spikes that an event keeps, at most one for each second.
const latencySamples = 160

type latencyEvent struct {
	samples []latencySample // the oldest first
	max     int64           // ms, since the last reset
}

type latencySample struct{ at, ms int64 } // Unix s

// Add records that event took this long, if that is at least the threshold. now is in Unix ms. Any
// goroutine may call it. Events are few, and the program defines their names.
func (l *Latency) Add(event string, took time.Duration, now int64) {
	limit, ms := l.threshold.Load(), took.Milliseconds()
	if limit <= 0 || ms < limit {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.mu.events[event]
	if e == nil {
		e = &latencyEvent{}
		if l.mu.events == nil {
			l.mu.events = map[string]*latencyEvent{}
		}
		l.mu.events[event] = e
	}
	e.max = max(e.max, ms)
	if n := len(e.samples); n > 0 && e.samples[n-1].at == now/1000 {
		e.samples[n-1].ms = max(e.samples[n-1].ms, ms)
		return
	}
	if len(e.samples) == latencySamples {
		e.samples = append(e.samples[:0], e.samples[1:]...)
	}
	e.samples = append(e.samples, latencySample{now / 1000, ms})
}

// namedEvent is a copy of an event.
type namedEvent struct {
	name string
	latencyEvent
}

// list copies the events, by name.
func (l *Latency) list() []namedEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []namedEvent
	for name, e := range l.mu.events {
		list = append(list, namedEvent{name,
			latencyEvent{append([]latencySample(nil), e.samples...), e.max}})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].name < list[j].name })
	return list
}

func (l *Latency) event(name []byte) (namedEvent, bool) {
	for _, e := range l.list() {
		if strings.EqualFold(e.name, string(name)) {
			return e, true
		}
	}
	return namedEvent{}, false
}

// reset removes the named events, or all events, and returns their number.
func (l *Latency) reset(names [][]byte) (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for event := range l.mu.events {
		hit := len(names) == 0
		for _, name := range names {
			hit = hit || strings.EqualFold(event, string(name))
		}
		if hit {
			delete(l.mu.events, event)
			n++
		}
	}
	return n
}

const latencyFlags = Admin | NoScript | Loading | Stale

var latencyCommands = []Spec{{
	Name: "LATENCY", Group: ServerGroup, Since: "2.8.13", Arity: -2,
	Summary: "Shows latency spikes and distributions.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "LATEST", Group: ServerGroup, Since: "2.8.13", Arity: 2, Flags: latencyFlags,
			Scope:   OnLoop,
			Summary: "Gives the latest spike of each event.", Complexity: "O(1)",
			Tips: []string{tipRandom, tipAllNodes, tipSpecialReply},
			Run:  latencyLatest,
		},
		{
			Name: "HISTORY", Group: ServerGroup, Since: "2.8.13", Arity: 3, Flags: latencyFlags,
			Scope:   OnLoop,
			Summary: "Gives the spikes of an event.", Complexity: "O(1)",
			Args: []Arg{stringArg("event")},
			Tips: []string{tipRandom, tipAllNodes, tipSpecialReply},
			Run:  latencyHistory,
		},
		{
			Name: "RESET", Group: ServerGroup, Since: "2.8.13", Arity: -2, Flags: latencyFlags,
			Scope:   OnLoop,
			Summary: "Forgets the spikes of events.", Complexity: "O(1)",
			Args: []Arg{stringArg("event").opt().many()},
			Tips: []string{tipAllNodes, tipSum},
			Run:  func(c *Ctx) error { c.Out.Int(c.Env.Latency.reset(c.Args[2:])); return nil },
		},
		{
			Name: "GRAPH", Group: ServerGroup, Since: "2.8.13", Arity: 3, Flags: latencyFlags,
			Scope:   OnLoop,
			Summary: "Draws the spikes of an event.", Complexity: "O(1)",
			Args: []Arg{stringArg("event")},
			Tips: []string{tipRandom, tipAllNodes, tipSpecialReply},
			Run:  latencyGraph,
		},
		{
			Name: "DOCTOR", Group: ServerGroup, Since: "2.8.13", Arity: 2, Flags: latencyFlags,
			Scope:   OnLoop,
			Summary: "Explains the spikes in words.", Complexity: "O(1)",
			Tips: []string{tipRandom, tipAllNodes, tipSpecialReply},
			Run:  latencyDoctor,
		},
		{
			Name: "HISTOGRAM", Group: ServerGroup, Since: "7.0.0", Arity: -2, Flags: latencyFlags,
			Scope:      OnLoop,
			Summary:    "Gives the cumulative distribution of commands' durations.",
			Complexity: "O(N) where N is the number of commands with latency information",
			Args:       []Arg{stringArg("command").opt().many()},
			Tips:       []string{tipRandom, tipAllNodes, tipSpecialReply},
			Run:        latencyHistogram,
		},
		helpFor("LATENCY", ServerGroup, "2.8.13", Loading|Stale,
			"DOCTOR", "    A report in words.",
			"GRAPH <event>", "    A drawing of the event's spikes.",
			"HISTORY <event>", "    The event's spikes: Unix time and milliseconds.",
			"LATEST", "    Each event's latest spike and its worst.",
			"RESET [<event> ...]", "    Forgets the spikes of these events (default: of all).",
			"HISTOGRAM [COMMAND ...]",
			"    How many calls of these commands (default: of all) stayed below each bound."),
	},
}}

func latencyLatest(c *Ctx) error {
	events := c.Env.Latency.list()
	c.Out.Array(len(events))
	for _, e := range events {
		last := e.samples[len(e.samples)-1]
		c.Out.Array(4)
		c.Out.BulkString(e.name)
		c.Out.Int(last.at)
		c.Out.Int(last.ms)
		c.Out.Int(e.max)
	}
	return nil
}

// latencyHistory replies with an empty array for an event that has not happened.
func latencyHistory(c *Ctx) error {
	e, _ := c.Env.Latency.event(c.Arg(2))
	c.Out.Array(len(e.samples))
	for _, s := range e.samples {
		c.Out.Array(2)
		c.Out.Int(s.at)
		c.Out.Int(s.ms)
	}
	return nil
}

// latencyGraph draws one column for each of the newest spikes, the oldest on the left,
// with its age below.
func latencyGraph(c *Ctx) error {
	e, ok := c.Env.Latency.event(c.Arg(2))
	if !ok {
		return Error("ERR No samples available for event '" + clip(c.Arg(2), 128) + "'")
	}
	const columns, rows = 72, 4
	samples := e.samples[max(0, len(e.samples)-columns):]
	low, high := samples[0].ms, samples[0].ms
	for _, s := range samples {
		low, high = min(low, s.ms), max(high, s.ms)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s - high %d ms, low %d ms (all time high %d ms)\n%s\n", e.name, high, low,
		e.max, strings.Repeat("-", 80))
	for row := rows; row > 0; row-- {
		line := make([]byte, len(samples))
		for i, s := range samples {
			line[i] = ' '
			if height := 1 + (s.ms-low)*(rows-1)/max(high-low, 1); height >= int64(row) {
				line[i] = '#'
			}
		}
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	ages := make([]string, len(samples))
	for i, s := range samples {
		ages[i] = shortAge(c.Txn.Now()/1000 - s.at)
	}
	b.WriteString("\n")
	for row := range 3 {
		line := make([]byte, len(samples))
		for i, age := range ages {
			line[i] = ' '
			if row < len(age) {
				line[i] = age[row]
			}
		}
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	c.Out.Verbatim("txt", b.String())
	return nil
}

// shortAge writes seconds in at most three characters: 45s, 12m, 5h, 3d.
func shortAge(s int64) string {
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", max(s, 0))
	case s < 3600:
		return fmt.Sprintf("%dm", s/60)
	case s < 86400:
		return fmt.Sprintf("%dh", s/3600)
	default:
		return fmt.Sprintf("%dd", min(s/86400, 99))
	}
}

// advice has advice on each event.
var advice = map[string]string{
	"command":      "A slow command ran: SLOWLOG GET shows which. Commands that walk a whole collection hold up the others that need its shard.",
	"fast-command": "A command that should be fast was not: the machine may be short of CPU time or memory (swapping, noisy neighbours).",
	"commit":       "Making writes durable took long: the disk is slow or busy. appendfsync everysec acknowledges without waiting for it.",
	"checkpoint":   "A checkpoint step took long: the disk is slow or busy.",
}

func latencyDoctor(c *Ctx) error {
	events := c.Env.Latency.list()
	var b strings.Builder
	switch {
	case c.Env.Latency.threshold.Load() == 0 && len(events) == 0:
		b.WriteString("Latency monitoring is off. CONFIG SET latency-monitor-threshold <milliseconds> turns it on.\n")
	case len(events) == 0:
		fmt.Fprintf(&b, "No spike of %d ms or more was seen.\n", c.Env.Latency.threshold.Load())
	default:
		for i, e := range events {
			var sum int64
			for _, s := range e.samples {
				sum += s.ms
			}
			fmt.Fprintf(&b, "%d. %s: %d spikes, %d ms on average, %d ms at worst.\n", i+1, e.name,
				len(e.samples), sum/int64(len(e.samples)), e.max)
			if text := advice[e.name]; text != "" {
				b.WriteString("   " + text + "\n")
			}
		}
	}
	c.Out.Verbatim("txt", b.String())
	return nil
}

// latencyHistogram leaves out commands that have not been called, and unknown names. A container's
// name means all its subcommands. After the commands come the histograms of lateness.
func latencyHistogram(c *Ctx) error {
	mark, n := c.Out.MapLater(), 0
	for _, use := range c.Env.Stats.PerCommand.used() {
		if !wanted(use.spec, c.Args[2:]) {
			continue
		}
		counts, total := use.latency.snapshot()
		if total == 0 {
			continue
		}
		n++
		c.Out.BulkString(use.spec.full)
		c.Out.Map(2)
		c.intField("calls", total)
		c.Out.BulkString("histogram_usec")
		list := octaves(counts)
		c.Out.Map(len(list))
		for _, o := range list {
			c.Out.Int(o.micros)
			c.Out.Int(o.cumulative)
		}
	}
	for _, l := range c.Env.lateness() {
		if l.Count == 0 || !chosen(l.name, lateness, c.Args[2:]) {
			continue
		}
		n++
		c.Out.BulkString(l.name)
		c.Out.Map(2)
		c.intField("calls", int64(l.Count))
		c.Out.BulkString("histogram_usec")
		bounds, below := c.Out.MapLater(), uint64(0)
		listed := 0
		for i, upto := range l.Upto {
			if upto > below {
				below = upto
				listed++
				c.Out.Int(l.Bounds[i])
				c.Out.Int(int64(upto))
			}
		}
		c.Out.SetLen(bounds, listed)
	}
	c.Out.SetLen(mark, n)
	return nil
}

// lateness is the name of the histograms that show how late keys and elements are removed and
// reported.
const lateness = "lateness"

// namedReading is a histogram that is not one of a command.
type namedReading struct {
	name string
	histogram.Reading
}

// lateness returns how late keys and elements are removed, how late their events are published, and
// how late they are reported in streams (keyp_expire_lateness_seconds).
func (e *Env) lateness() []namedReading {
	h := e.Store.Histograms()
	return []namedReading{
		{lateness + "|key", h.KeyLateness}, {lateness + "|element", h.ElementLateness},
		{lateness + "|event", e.Events.late.Read()},
		{lateness + "|outbox", e.Outboxes.Lateness()},
	}
}

// wanted reports whether names contains the command or its container. It returns true if names is
// empty.
func wanted(spec *Spec, names [][]byte) bool {
	of := spec.full
	if spec.parent != nil {
		of = spec.parent.full
	}
	return chosen(spec.full, of, names)
}

// chosen reports whether names contains name or of, the name of its container. It returns true if
// names is empty.
func chosen(name, of string, names [][]byte) bool {
	for _, n := range names {
		if strings.EqualFold(string(n), name) || strings.EqualFold(string(n), of) {
			return true
		}
	}
	return len(names) == 0
}
