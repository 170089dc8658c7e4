package commands

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"keyp/features/outbox"
	"keyp/internal/histogram"
	"keyp/storage"
	"keyp/storage/procmem"
)

// Report contains the data for monitoring: INFO's counters and gauges, and their distributions. It
// leaves out data that belongs to the loop (LoopReport), and data that takes longer to collect with
// more clients or scripts.
type Report struct {
	Store       storage.Stats
	Histograms  storage.Histograms
	Populations []storage.Population
	Saved       int64 // LastCheckpoint, in Unix ms; before the first one the time of the start
	SaveFailed  bool  // the last checkpoint
	Saving      bool
	Failed      bool // the store accepts no more writes
	Full        bool // what grows is refused, since the disk is full

	Process                  procmem.Memory
	Resident, Peak, Machine  int64         // memory, in bytes
	SystemTime, UserTime     time.Duration // of processors
	Scripts, Libraries       int64
	Functions                int64
	ScriptBytes              int64 // of scripts and libraries, sources included
	EvictedScripts           int64
	TrackingClients          int64
	TrackedKeys              int64
	TrackedItems             int64
	TrackedPrefixes          int64
	Channels, Patterns       int64
	ShardChannels            int64
	Subscribers              int64
	Blocked                  int64 // clients that wait for keys, a time or the log
	BlockedTimed, BlockedFor int64 // of them, with a timeout; the keys that are waited for

	Slow           int64             // commands in SLOWLOG
	EventLateness  histogram.Reading // from deadline to publication of expired, in microseconds
	Replies        ReplyReport       // how long clients wait
	Commands       []CommandReport
	Errors         []ErrorReport
	Denials        []DenialReport
	Policies       []PolicyReport
	Outboxes       []outbox.State
	OutboxTotals   outbox.Totals
	OutboxLateness histogram.Reading // from deadline to the entry in the stream
	Group          *GroupReport      // nil: the server is alone
}

// CommandReport is a command's use. Latency is in nanoseconds. Without latency-tracking, Latency
// has only the calls from before the option was turned off; if there are none, it is empty.
type CommandReport struct {
	Name                    string // as COMMAND has it: client|list
	Group                   Group
	Calls, Failed, Rejected int64
	Latency                 histogram.Reading
}

// ErrorReport is the number of error replies that began with a code.
type ErrorReport struct {
	Code  string
	Count int64
}

// DenialReport is the number of times that ACL rules refused something for a reason of ACL LOG.
type DenialReport struct {
	Reason string
	Count  int64
}

// PolicyReport counts the decisions of a policy.
type PolicyReport struct {
	Name, Mode string
	Counts     []PolicyCount
}

// Report collects the data. It takes a millisecond or less, never waits for commands, and may be
// called from any goroutine.
func (e *Env) Report() *Report {
	r := &Report{
		Store: e.Store.Stats(), Histograms: e.Store.Histograms(),
		Populations: e.Store.Populations(),
		Saved:       e.lastSave(), Saving: e.Store.Checkpointing(), Failed: e.Store.Err() != nil,
		Full:    e.Store.Full(),
		Process: procmem.Read(), Resident: residentSize(), Machine: systemMemory(),
		Blocked: e.Waiters.clients.Load(), BlockedTimed: e.Waiters.timed.Load(),
		BlockedFor:    e.Waiters.awaited.Load(),
		EventLateness: e.Events.late.Read(), Replies: e.Replies.report(),
		Slow: int64(e.Slowlog.length()),
	}
	_, err := e.Store.LastCheckpoint()
	r.SaveFailed = err != nil
	r.Peak = max(e.Stats.PeakMemory.Load(), r.Process.Used)
	r.SystemTime, r.UserTime = cpuTime(unix.RUSAGE_SELF)

	scripts, bytes, evicted := e.Scripts.sizes()
	libraries, functions, _ := e.Scripts.functions.sizes()
	r.Scripts, r.Libraries, r.Functions, r.EvictedScripts = int64(scripts), int64(libraries),
		int64(functions), evicted
	r.ScriptBytes = bytes + e.Scripts.functions.totalBytes()
	tracked := e.Tracking.totals()
	r.TrackingClients, r.TrackedKeys, r.TrackedItems, r.TrackedPrefixes = tracked.clients,
		tracked.keys, tracked.items, tracked.prefixes
	listened, subscribers := e.PubSub.counts()
	r.Channels, r.Patterns, r.ShardChannels = int64(listened[Channel]), int64(listened[Pattern]),
		int64(listened[ShardChannel])
	r.Subscribers = int64(subscribers)

	for _, use := range e.Stats.PerCommand.used() {
		r.Commands = append(r.Commands, CommandReport{
			Name: use.spec.full, Group: use.spec.Group, Calls: use.calls.Load(),
			Failed: use.failed.Load(), Rejected: use.rejected.Load(),
			Latency: use.latency.reading(use.nanos.Load(), use.calls.Load()),
		})
	}
	for _, one := range e.Stats.PerError.list() {
		r.Errors = append(r.Errors, ErrorReport{one.code, one.count})
	}
	for _, one := range e.policies.Load().List() {
		p := policy{one}
		r.Policies = append(r.Policies, PolicyReport{p.Name, p.mode(), p.counts()})
	}
	r.Outboxes, r.OutboxTotals, r.OutboxLateness = e.Outboxes.List(), e.Outboxes.Totals(),
		e.Outboxes.Lateness()
	r.Group = e.GroupReport()
	for why := deniedCommand; why <= deniedChannel; why++ {
		r.Denials = append(r.Denials, DenialReport{why.reason(), e.Stats.Denials[why].Load()})
	}
	return r
}

// LoopReport contains the data of the loop for monitoring.
type LoopReport struct {
	Clients      int64 // connections
	ClientMemory int64 // bytes
}

// LoopReport collects the data in constant time. Only the loop calls it.
func (e *Env) LoopReport() LoopReport {
	r := LoopReport{Clients: int64(len(e.Clients))}
	if e.Host != nil {
		r.ClientMemory = e.Host.ClientMemory()
	}
	return r
}

// latencyBounds are powers of two from 1 µs to 17 s, so that no bucket of a histogram lies on both
// sides of a bound.
var latencyBounds = func() (bounds []int64) {
	for exponent := 10; exponent <= 34; exponent++ {
		bounds = append(bounds, 1<<exponent)
	}
	return bounds
}()

// reading sums the counts up to each of latencyBounds. took is the time of all calls. Calls without
// latency-tracking are not in the histogram, so the sum is scaled.
func (h *durations) reading(took, calls int64) histogram.Reading {
	counts, total := h.snapshot()
	if total == 0 {
		return histogram.Reading{}
	}
	r := histogram.Reading{Bounds: latencyBounds, Upto: make([]uint64, len(latencyBounds)),
		Count: uint64(total)}
	r.Sum = int64(float64(took) * min(1, ratio(total, calls)))
	for i, n := range counts {
		if n == 0 {
			continue
		}
		if at, _ := slices.BinarySearch(latencyBounds, int64(upper(i))); at < len(r.Upto) {
			r.Upto[at] += uint64(n)
		}
	}
	for i := 1; i < len(r.Upto); i++ {
		r.Upto[i] += r.Upto[i-1]
	}
	return r
}
