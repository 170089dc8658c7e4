package commands

import (
	"bytes"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// Stats are the counters that INFO shows. CONFIG RESETSTAT sets them to zero.
type Stats struct {
	Connections       atomic.Int64
	Rejected          atomic.Int64 // connections over maxclients
	Commands          atomic.Int64
	NetIn, NetOut     atomic.Int64 // bytes
	Hits, Misses      atomic.Int64
	Errors            atomic.Int64 // error replies
	Panics            atomic.Int64
	QueryBufferLimit  atomic.Int64 // clients cut at their query buffer limit
	OutputBufferLimit atomic.Int64
	LazyFreed         atomic.Int64 // values that Redis would free in the background
	EvictedClients    atomic.Int64 // for what all of them took together
	PeakClients       atomic.Int64
	OpsPerSec         atomic.Int64 // written by the server's timer (cron.go), as the next two
	InBytesPerSec     atomic.Int64
	OutBytesPerSec    atomic.Int64
	PeakMemory        atomic.Int64
	Denials           [deniedChannel + 1]atomic.Int64 // by the ACL, for each reason

	PerCommand CommandStats
	PerError   ErrorStats
}

// reset sets to zero the counters that CONFIG RESETSTAT resets. It leaves present readings
// unchanged.
func (s *Stats) reset() {
	for _, n := range []*atomic.Int64{
		&s.Connections, &s.Rejected, &s.Commands, &s.NetIn, &s.NetOut, &s.Hits, &s.Misses,
		&s.Errors, &s.Panics,
		&s.QueryBufferLimit, &s.OutputBufferLimit, &s.EvictedClients, &s.LazyFreed, &s.PeakMemory,
	} {
		n.Store(0)
	}
	for i := range s.Denials {
		s.Denials[i].Store(0)
	}
	s.PerCommand.reset()
	s.PerError.reset()
}

// Observe adds one command to the statistics after its reply was written. c is the context as the
// command left it. The reply begins at start in c.Out, and took is how long the command ran. The
// server calls Observe once for each command, on any goroutine. A command below all thresholds
// costs no allocation.
func (e *Env) Observe(c *Ctx, start int, took time.Duration) {
	if c.met == put {
		return // it counts when EXEC runs it
	}
	e.Stats.Commands.Add(1)
	failed := c.failedAt(start)
	if failed && !c.counted {
		e.Stats.PerError.add(c.Out.Buf[start+1:])
	}
	if c.Spec == nil {
		return
	}
	stat := e.Stats.PerCommand.of(c.Spec)
	if c.met == refused {
		stat.rejected.Add(1)
		return
	}
	if failed {
		stat.failed.Add(1)
	}
	stat.calls.Add(1)
	stat.nanos.Add(int64(took))
	if e.histograms.Load() {
		stat.latency.add(took)
	}
	if hot := e.hotKeys.counting.Load(); hot != nil {
		hot.observe(c, c.Out.Len()-start, took)
	}
	if took >= e.Slowlog.threshold() && !c.Spec.Is(SkipSlowlog) {
		e.Slowlog.add(c, took, e.Clock.Now())
	}
	if limit := e.Latency.threshold.Load(); limit > 0 &&
		took >= time.Duration(limit)*time.Millisecond {
		event := "command"
		if c.Spec.Is(Fast) {
			event = "fast-command"
		}
		e.Latency.Add(event, took, e.Clock.Now())
	}
}

// failedAt reports whether the reply that begins at start is an error.
func (c *Ctx) failedAt(start int) bool { return c.Out.Len() > start && c.Out.Buf[start] == '-' }

// CommandStats count calls of each command.
type CommandStats struct {
	mu sync.Mutex
	by atomic.Pointer[map[*Spec]*commandStat] // the map is replaced, never changed
}

type commandStat struct {
	calls, nanos     atomic.Int64
	rejected, failed atomic.Int64
	latency          durations
}

// of returns the counters of a command. It creates them on the first call for that command.
func (cs *CommandStats) of(spec *Spec) *commandStat {
	if by := cs.by.Load(); by != nil {
		if stat := (*by)[spec]; stat != nil {
			return stat
		}
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	grown := map[*Spec]*commandStat{}
	if by := cs.by.Load(); by != nil {
		if stat := (*by)[spec]; stat != nil {
			return stat
		}
		for k, v := range *by {
			grown[k] = v
		}
	}
	stat := &commandStat{}
	grown[spec] = stat
	cs.by.Store(&grown)
	return stat
}

func (cs *CommandStats) reset() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.by.Store(nil)
}

// commandUse is a command with its counters.
type commandUse struct {
	spec *Spec
	*commandStat
}

// used returns the commands that have counters, by name.
func (cs *CommandStats) used() []commandUse {
	by := cs.by.Load()
	if by == nil {
		return nil
	}
	var list []commandUse
	for spec, stat := range *by {
		list = append(list, commandUse{spec, stat})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].spec.full < list[j].spec.full })
	return list
}

// ErrorStats count error replies by their code. Most codes come from the server's own texts, so
// there are few. A script may invent more: further codes than maxErrorCodes are not counted. A
// reply without a valid code counts as ERR.
type ErrorStats struct {
	mu struct {
		sync.Mutex
		by map[string]int64
	}
}

// The largest number of codes, and the largest length of a code in bytes.
const (
	maxErrorCodes = 128
	maxErrorCode  = 32
)

// errorCode returns the code of an error reply: its first word, if that is short and printable.
// Otherwise it returns ERR. A script may reply any bytes.
func errorCode(reply []byte) []byte {
	code := reply
	if end := bytes.IndexAny(reply, " \r\n"); end >= 0 {
		code = reply[:end]
	}
	if len(code) > maxErrorCode || bytes.ContainsFunc(code, func(r rune) bool {
		return r < '!' || r > '~'
	}) {
		return []byte("ERR")
	}
	return code
}

func (es *ErrorStats) add(reply []byte) {
	code := errorCode(reply)
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.mu.by == nil {
		es.mu.by = map[string]int64{}
	}
	if _, known := es.mu.by[string(code)]; known || len(es.mu.by) < maxErrorCodes {
		es.mu.by[string(code)]++
	}
}

func (es *ErrorStats) reset() {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.mu.by = nil
}

// errorCount is an error code and the number of replies that had it.
type errorCount struct {
	code  string
	count int64
}

func (es *ErrorStats) list() []errorCount {
	es.mu.Lock()
	defer es.mu.Unlock()
	var list []errorCount
	for code, n := range es.mu.by {
		list = append(list, errorCount{code, n})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].code < list[j].code })
	return list
}
