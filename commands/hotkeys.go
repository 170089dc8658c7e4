package commands

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"keyp/resp"
	"keyp/storage"
)

// HOTKEYS finds the keys that take most of the processor's time and of the bytes on the network. It
// counts from HOTKEYS START until HOTKEYS STOP, or until DURATION has passed.
var hotKeysCommands = []Spec{{
	Name: "HOTKEYS", Group: ServerGroup, Since: "8.6.0", Arity: -2,
	Summary: "Finds the keys that take most time or traffic.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "START", Group: ServerGroup, Since: "8.6.0", Arity: -2, Flags: Admin | NoScript,
			Scope:   OnLoop,
			Summary: "Begins to count.", Complexity: "O(1)",
			Args: []Arg{
				block("metrics", intArg("count"), word("CPU").opt(),
					word("NET").opt()).after("METRICS"),
				intArg("k").after("COUNT").opt(),
				intArg("seconds").after("DURATION").opt(),
				intArg("ratio").after("SAMPLE").opt(),
				block("slots", intArg("count"), intArg("slot").many()).after("SLOTS").opt(),
			},
			Run: hotKeysStart,
		},
		{
			Name: "STOP", Group: ServerGroup, Since: "8.6.0", Arity: 2, Flags: Admin | NoScript,
			Scope:   OnLoop,
			Summary: "Ends counting; what was counted stays.", Complexity: "O(1)",
			Run: hotKeysStop,
		},
		{
			Name: "GET", Group: ServerGroup, Since: "8.6.0", Arity: 2, Flags: Admin | NoScript,
			Scope:   OnLoop,
			Summary: "Shows what was counted.", Complexity: "O(K) in the number of keys shown.",
			Run: hotKeysGet,
		},
		{
			Name: "RESET", Group: ServerGroup, Since: "8.6.0", Arity: 2, Flags: Admin | NoScript,
			Scope:   OnLoop,
			Summary: "Forgets what was counted.", Complexity: "O(1)",
			Run: hotKeysReset,
		},
		helpFor("HOTKEYS", ServerGroup, "8.6.1", Loading|Stale,
			"START METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>]",
			"    Begins to count the processor's time, the bytes sent and received, or both.",
			"    * COUNT: how many keys are shown (default: 10)",
			"    * DURATION: for how long (default: until STOP)",
			"    * SAMPLE: only one of so many commands is looked at (default: 1)",
			"STOP", "    Ends counting.",
			"GET", "    Shows what was counted.",
			"RESET", "    Forgets what was counted."),
	},
}}

const (
	errHotKeysActive  Error = "ERR hotkey tracking session already in progress"
	errHotKeysStop    Error = "ERR hotkey tracking session in progress, stop tracking first"
	errMetricsMissing Error = "ERR METRICS parameter is required"
	errMetricsCount   Error = "ERR METRICS count must be > 0 and <= 2"
	errMetricsFew     Error = "ERR METRICS count does not match number of metric types provided"
	errMetricsNone    Error = "ERR METRICS no valid metrics passed. Supported: CPU|NET"
	errHotKeysCount   Error = "ERR COUNT must be between 1 and 64"
	errHotKeysTime    Error = "ERR DURATION must be between 1 and 1000000"
	errHotKeysSample  Error = "ERR SAMPLE ratio must be positive"
	errHotKeysSlots   Error = "ERR SLOTS parameter cannot be used in non-cluster mode"
)

// hotKeys is the state of HOTKEYS; session is nil before the first START and after RESET.
type hotKeys struct {
	counting atomic.Pointer[hotKeysSession] // nil while nothing is counted
	session  *hotKeysSession                // belongs to the loop
}

// hotKeysSession contains the counts since a START.
type hotKeysSession struct {
	show              int   // keys of each metric
	sample            int64 // one of sample commands is looked at
	started           int64 // Unix ms
	userTime, sysTime time.Duration
	began             time.Duration // reading of Mono
	lasts             time.Duration // 0: until STOP

	mu struct {
		sync.Mutex
		took     time.Duration // of all commands with keys
		bytes    int64         // the same
		cpu, net *heavyKeys    // nil: not asked for
		ended    bool
		lasted   time.Duration // once it has ended
	}
}

// over ends the session when its time is up, and reports whether it has ended. mu is locked.
func (s *hotKeysSession) over(now time.Duration) bool {
	if !s.mu.ended && s.lasts > 0 && now-s.began >= s.lasts {
		s.mu.ended, s.mu.lasted = true, s.lasts
	}
	return s.mu.ended
}

// hotKeysMetrics reads the option METRICS, which must be the first.
func (a *Cursor) hotKeysMetrics() (cpu, net bool) {
	if a.Len() < 2 || !a.Word("METRICS") {
		a.Fail(errMetricsMissing)
		return
	}
	n := a.Int()
	if a.Err() != nil || n < 1 || n > 2 {
		a.err = errMetricsCount
		return
	}
	for ; n > 0 && a.More(); n-- {
		switch {
		case isWord(a.args[0], "CPU") && cpu:
			a.Fail(Error("ERR METRICS CPU defined more than once!"))
		case isWord(a.args[0], "NET") && net:
			a.Fail(Error("ERR METRICS NET defined more than once!"))
		case isWord(a.args[0], "CPU"):
			cpu = true
		case isWord(a.args[0], "NET"):
			net = true
		}
		a.Bytes()
	}
	switch {
	case n > 0:
		a.Fail(errMetricsFew)
	case !cpu && !net:
		a.Fail(errMetricsNone)
	}
	return cpu, net
}

func hotKeysStart(c *Ctx) error {
	now := c.Env.Clock.Mono()
	if s := c.Env.hotKeys.session; s != nil && !s.ended(now) {
		return errHotKeysActive
	}
	a := c.Cursor(2)
	cpu, net := a.hotKeysMetrics()
	s := &hotKeysSession{show: 10, sample: 1, started: c.Txn.Now(), began: now}
	for a.More() {
		more := a.Len() > 1
		switch {
		case more && a.Word("COUNT"):
			s.show = int(a.intBetween(1, 64, errHotKeysCount))
		case more && a.Word("DURATION"):
			s.lasts = time.Duration(a.intBetween(1, 1_000_000, errHotKeysTime)) * time.Second
		case more && a.Word("SAMPLE"):
			s.sample = a.intBetween(1, 1<<31-1, errHotKeysSample)
		case more && a.Word("SLOTS"):
			a.Fail(errHotKeysSlots)
		default:
			a.Fail(ErrSyntax)
		}
	}
	if a.Err() != nil {
		return a.Err()
	}
	if cpu {
		s.mu.cpu = newHeavyKeys(s.show)
		s.sysTime, s.userTime = cpuTime(unix.RUSAGE_SELF)
	}
	if net {
		s.mu.net = newHeavyKeys(s.show)
	}
	c.Env.hotKeys.session = s
	c.Env.hotKeys.counting.Store(s)
	c.Out.OK()
	return nil
}

// intBetween takes an integer within bounds; for anything else it fails with err.
func (a *Cursor) intBetween(low, high int64, err error) int64 {
	n := a.IntFrom(low, err)
	if n > high {
		a.Fail(err)
	}
	return n
}

func (s *hotKeysSession) ended(now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over(now)
}

func hotKeysStop(c *Ctx) error {
	h, now := &c.Env.hotKeys, c.Env.Clock.Mono()
	if h.session == nil || h.session.ended(now) {
		c.Out.Null()
		return nil
	}
	h.counting.Store(nil)
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	h.session.mu.ended, h.session.mu.lasted = true, now-h.session.began
	c.Out.OK()
	return nil
}

func hotKeysReset(c *Ctx) error {
	h := &c.Env.hotKeys
	if h.session != nil && !h.session.ended(c.Env.Clock.Mono()) {
		return errHotKeysStop
	}
	h.counting.Store(nil)
	h.session = nil
	c.Out.OK()
	return nil
}

// hotKeysGet replies with an array of one map, or with null if nothing was counted.
func hotKeysGet(c *Ctx) error {
	s, now := c.Env.hotKeys.session, c.Env.Clock.Mono()
	if s == nil {
		c.Out.Null()
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ended, lasted := s.over(now), now-s.began
	active := int64(1)
	if ended {
		active, lasted = 0, s.mu.lasted
	}
	fields := 7
	if s.mu.cpu != nil {
		fields += 3
	}
	if s.mu.net != nil {
		fields += 2
	}
	c.Out.Array(1)
	c.Out.Map(fields)
	c.intField("tracking-active", active)
	c.intField("sample-ratio", s.sample)
	c.Out.BulkString("selected-slots") // ranges: all of them
	c.Out.Array(1)
	c.Out.Array(2)
	c.Out.Int(0)
	c.Out.Int(storage.Slots - 1)
	c.intField("all-commands-all-slots-us", s.mu.took.Microseconds())
	c.intField("net-bytes-all-commands-all-slots", s.mu.bytes)
	c.intField("collection-start-time-unix-ms", s.started)
	c.intField("collection-duration-ms", lasted.Milliseconds())
	if s.mu.cpu != nil {
		system, user := cpuTime(unix.RUSAGE_SELF)
		c.intField("total-cpu-time-user-ms", (user - s.userTime).Milliseconds())
		c.intField("total-cpu-time-sys-ms", (system - s.sysTime).Milliseconds())
	}
	if s.mu.net != nil {
		c.intField("total-net-bytes", s.mu.net.total)
	}
	if s.mu.cpu != nil {
		c.Out.BulkString("by-cpu-time-us")
		s.mu.cpu.reply(c.Out, s.show, int64(time.Microsecond))
	}
	if s.mu.net != nil {
		c.Out.BulkString("by-net-bytes")
		s.mu.net.reply(c.Out, s.show, 1)
	}
	return nil
}

// observe counts a command that has run; reply is the length of its reply in bytes. The commands of
// a script count for the script's keys, as part of the script.
func (s *hotKeysSession) observe(c *Ctx, reply int, took time.Duration) {
	if c.parent != nil && !c.parent.Spec.Is(execs) {
		return
	}
	names, keys := c.someKeys()
	if keys == 0 {
		return
	}
	bytes := int64(reply + requestBytes(c.Args))
	sampled := s.sample == 1 || rand.Int64N(s.sample) == 0
	now := c.Env.Clock.Mono()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over(now) {
		c.Env.hotKeys.counting.CompareAndSwap(s, nil)
		return
	}
	s.mu.took += took
	s.mu.bytes += bytes
	if !sampled {
		return
	}
	s.mu.cpu.add(names, keys, int64(took))
	s.mu.net.add(names, keys, bytes)
}

// hotKeysLooks is about the maximum number of keys of a command that are counted.
const hotKeysLooks = 500

// someKeys returns the names of the command's keys, and how many keys there are. If there are very
// many, it returns names that are spread over all of them, different ones each time.
func (c *Ctx) someKeys() (names [][]byte, keys int) {
	for _, ks := range c.Spec.named {
		first, last, step := ks.span(c.Args)
		keys += max(last-first+step, 0) / step
	}
	apart := max((keys+hotKeysLooks-1)/hotKeysLooks, 1)
	names = make([][]byte, 0, min(keys, hotKeysLooks+len(c.Spec.named)))
	for _, ks := range c.Spec.named {
		first, last, step := ks.span(c.Args)
		for at := first + rand.IntN(apart)*step; at <= last; at += apart * step {
			names = append(names, c.Args[at])
		}
	}
	return names, keys
}

// requestBytes returns the length of a command in RESP, in bytes.
func requestBytes(args [][]byte) int {
	header := func(n int) int { // of an array or string, with its line end
		size := len("*0\r\n")
		for ; n >= 10; n /= 10 {
			size++
		}
		return size
	}
	n := header(len(args))
	for _, arg := range args {
		n += header(len(arg)) + len(arg) + len("\r\n")
	}
	return n
}

// heavyKeys finds the keys with the largest sums among any number of keys, in bounded memory (the
// Space-Saving algorithm). It has a fixed number of places, each for one key. A new key takes the
// place of the key with the least sum. It is charged with that sum, because it may have had a place
// before. So the charge is the largest possible error of a key's sum. Every key whose sum is more
// than the total divided by the number of places is found.
type heavyKeys struct {
	places int
	total  int64
	by     map[string]*heavyKey
	least  heavyHeap
}

type heavyKey struct {
	name         string
	sum, charged int64
	at           int // in the heap
}

const (
	// heavyPlaces is the number of places for each key that is to be shown.
	heavyPlaces = 100
	// heavyName is the longest name of a key that is counted, in bytes.
	heavyName = 1 << 10
)

func newHeavyKeys(show int) *heavyKeys {
	return &heavyKeys{places: show * heavyPlaces, by: map[string]*heavyKey{}}
}

// add divides n evenly among a command's keys, and adds one part to the sum of each name. names are
// some of the keys.
func (h *heavyKeys) add(names [][]byte, keys int, n int64) {
	if h == nil {
		return
	}
	n /= int64(keys)
	h.total += n * int64(keys)
	for _, name := range names {
		k := h.by[string(name)]
		switch {
		case k != nil:
		case n == 0 || len(name) > heavyName:
			continue
		case len(h.least) < h.places:
			k = &heavyKey{name: string(name)}
			h.by[k.name] = k
			heap.Push(&h.least, k)
		default:
			k = h.least[0]
			delete(h.by, k.name)
			k.name, k.charged = string(name), k.sum
			h.by[k.name] = k
		}
		k.sum += n
		heap.Fix(&h.least, k.at)
	}
}

// reply writes the keys with the largest certain sums, and these sums in the given unit. A certain
// sum does not include the charge.
func (h *heavyKeys) reply(out *resp.Writer, show int, unit int64) {
	list := slices.Clone(h.least)
	slices.SortFunc(list, func(a, b *heavyKey) int {
		return cmp.Or(cmp.Compare(b.sum-b.charged, a.sum-a.charged), cmp.Compare(a.name, b.name))
	})
	n := 0
	for n < min(show, len(list)) && (list[n].sum-list[n].charged)/unit > 0 {
		n++
	}
	out.Array(2 * n)
	for _, k := range list[:n] {
		out.BulkString(k.name)
		out.Int((k.sum - k.charged) / unit)
	}
}

// heavyHeap has the key with the least sum first.
type heavyHeap []*heavyKey

func (h heavyHeap) Len() int           { return len(h) }
func (h heavyHeap) Less(i, j int) bool { return h[i].sum < h[j].sum }

func (h heavyHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *heavyHeap) Push(x any) {
	k := x.(*heavyKey)
	k.at = len(*h)
	*h = append(*h, k)
}

func (h *heavyHeap) Pop() any { panic("commands: no key leaves but for another one") }
