package torture

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"keyp/internal/clock"
	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/datafile"
	"keyp/storage/wal"
)

// epoch is the time at which a history's clock starts, in Unix ms.
const epoch int64 = 1_700_000_000_000

// op is an operation as it was issued.
type op struct {
	at       int64 // the clock's reading
	from     int64 // the clock was set back from that to at, and there is nothing else; or 0
	db       int
	commands [][][]byte
	replies  [][]byte
	wrote    bool
	end      uint64 // where the log ended afterwards
	lsn      uint64 // what the last reply waits for
}

// history runs random operations until the first failure.
type history struct {
	seed    uint64
	rng     *rand.Rand
	draw    draw
	dir     string
	policy  wal.Policy
	disk    *disk
	clock   *clock.Fake
	k       *keyp
	twin    *keyp
	ops     []op // that the twin has not run
	changed changes
	seen    seenAt
	// newest is the latest time of the clock since it was last set back durably.
	newest int64
	amid   bool   // a checkpoint or compaction is under way, between two steps of it
	over   bool   // the clock went back while the machine was off
	left   int    // how much is done after an error of the disk before the crash
	ended  uint64 // how far the log was durable when the store failed

	crashes, issued, recoveries int
	sum                         uint64 // of all that was replied and recovered
	trace                       []string
}

// failure is the value of the panic that reports a failure.
type failure struct{ text string }

func (h *history) fail(format string, args ...any) {
	panic(failure{fmt.Sprintf(format, args...)})
}

func (h *history) note(format string, args ...any) {
	if len(h.trace) >= 2000 {
		h.trace = append(h.trace[:0], h.trace[1000:]...)
	}
	h.trace = append(h.trace, fmt.Sprintf("%d ", h.clock.Now()-epoch)+fmt.Sprintf(format, args...))
}

// must fails the history if an operation has an error while the disk works.
func (h *history) must(err error, what string) {
	if err != nil && !h.disk.off() && h.disk.fault == nil {
		h.fail("%s: %v", what, err)
	}
}

// endure checks that a store that has failed acknowledges nothing more. In the end it kills the
// process or cuts the power.
func (h *history) endure() {
	if h.disk.off() || h.disk.fault == nil {
		return
	}
	if h.left == 0 {
		h.note("the disk says: %v (for good: %v)", h.disk.fault.err, h.disk.fault.stay)
		h.left = 1 + h.rng.IntN(25)
	}
	log := h.k.store.Log()
	switch {
	case log.Err() == nil:
	case h.ended == 0:
		h.note("the log has failed: %v", log.Err())
		h.ended = log.Durable()
	case log.Durable() != h.ended:
		h.fail("a log that has failed acknowledges more: %d, after %d: %v", log.Durable(),
			h.ended, log.Err())
	}
	if h.left--; h.left == 0 {
		if log.Err() == nil && h.k.store.Err() == nil { // it goes on, and must know what it has
			if err := h.k.store.Check(); err != nil {
				h.fail("check after an error of the disk: %v", err)
			}
		}
		h.disk.crash("after an error of the disk")
	}
}

// newHistory starts a history in its own directory.
func newHistory(seed uint64, list []template, dir string) *history {
	h := &history{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), dir: dir,
		clock: clock.NewFake(epoch), newest: epoch}
	h.draw = draw{rng: h.rng, now: h.clock.Now, list: list}
	h.seen.forget()
	for _, sub := range []string{"keyp", "twin"} {
		h.must2(os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	h.disk = newDisk(rand.New(rand.NewPCG(seed, 2)), filepath.Join(dir, "keyp"))
	h.disk.faults = h.rng.IntN(2) == 0
	if h.rng.IntN(5) == 0 {
		h.policy = wal.No
	}
	numbers := rand.New(rand.NewPCG(seed, 3))
	twin, err := open(storage.Options{FS: vfs.NewMem(), Dir: filepath.Join(dir, "twin"),
		SegmentSize: 1 << 20, Random: numbers.Uint64}, clock.NewFake(epoch))
	h.must2(err)
	h.twin = twin
	return h
}

func (h *history) must2(err error) {
	if err != nil {
		h.fail("%v", err)
	}
}

// open starts the Keyp from the contents of its disk.
func (h *history) open() error {
	numbers := rand.New(rand.NewPCG(h.seed, uint64(4+h.recoveries)))
	h.recoveries++
	h.disk.running = nil
	k, err := open(storage.Options{
		FS: h.disk.fs(), Dir: h.disk.dir, Sync: h.policy, SegmentSize: 32 << 10,
		CheckpointBytes: 128 << 10, Testing: storage.Testing{OnStep: h.step, OnData: h.disk.mirror},
		Random: numbers.Uint64,
		// With 1 the start does not keep the stream runs that it reads in memory.
		MaxMemory: int64(numbers.Uint64() % 2),
	}, h.clock)
	if err != nil {
		return err
	}
	h.k = k
	h.changed.listen(k.store)
	h.disk.running = k.store.Log()
	return nil
}

// close closes the Keyp if it still runs, and ignores errors.
func (h *history) close() {
	if h.k != nil {
		_ = h.k.store.Close(false) // the disk is off
		h.k = nil
	}
}

// run goes on until the machine has crashed a number of times, or the time is up.
func (h *history) run(crashes int, until func() bool) {
	h.disk.left = h.moment()
	h.must(h.open(), "first start")
	if h.disk.fault != nil && !h.disk.off() {
		h.disk.crash("after an error amid the first start")
	}
	for h.crashes < crashes && !h.over && !until() {
		for !h.disk.off() {
			h.act()
			h.endure()
		}
		h.crash()
	}
	if h.disk.off() { // amid the first start, and time is up
		h.crash()
	}
	h.disk.left = 0
	h.reopen(h.rng.IntN(2) == 0)
	h.close()
}

// moment draws the number of operations until the next crash.
func (h *history) moment() int {
	scale := []float64{4, 40, 150}[h.rng.IntN(3)]
	return 1 + int(h.rng.ExpFloat64()*scale)
}

// act performs a random action.
func (h *history) act() {
	switch n := h.rng.IntN(200); {
	case n < 150:
		h.issue()
	case n < 172:
		h.commit()
	case n < 178:
		h.pass()
	case n < 179:
		h.stepBack()
	case n < 184:
		n := h.k.store.Reap()
		h.note("reap %d", n)
	case n < 190:
		h.note("evict")
		h.k.store.Manual().Leave(2)
		h.k.store.Manual().Evict(1 + h.rng.Uint64N(4))
	case n < 192:
		h.note("fill")
		h.k.store.Manual().LoadAll()
	case n < 197:
		h.between("checkpoint", h.k.store.Checkpoint)
	case n < 198:
		h.between("compaction", func() error {
			_, _, err := h.k.store.Compact()
			return err
		})
	default:
		if !h.amid && h.disk.fault == nil {
			h.reopen(n == 198)
		}
	}
}

// between runs an action with steps. Other actions run between the steps.
func (h *history) between(what string, do func() error) {
	if h.amid {
		return
	}
	h.note("%s", what)
	h.amid = true
	err := do()
	h.amid = false
	h.must(err, what)
	h.k.store.Manual().Room()
	h.note("end of %s", what)
}

// step is called for each step of the store's work on its data file.
func (h *history) step(step datafile.Step) error {
	if err := h.disk.step(step); err != nil {
		return err
	}
	if h.amid && h.k != nil && h.rng.IntN(3) == 0 {
		h.note("at step %s", step)
		for range 1 + h.rng.IntN(5) {
			if !h.disk.off() {
				h.act()
			}
		}
	}
	if h.disk.off() {
		return errPower
	}
	return nil
}

// issue runs one operation.
func (h *history) issue() {
	o := op{at: h.clock.Now()}
	if h.rng.IntN(4) == 0 {
		o.db = h.rng.IntN(databases)
	}
	list := h.draw.commands()
	switch list[0][0] {
	case "SAVE":
		if h.amid {
			return
		}
	case "EVAL", "FCALL":
		if h.k.store.Full() {
			return // it would not tell which of its commands were refused
		}
	}
	log := h.k.store.Log()
	h.k.client.DB = o.db
	before := log.End()
	var lsn uint64
	for _, c := range list {
		args := make([][]byte, len(c))
		for i := range c {
			args[i] = []byte(c[i])
		}
		h.note("%d: %s", o.db, brief(args))
		var reply []byte
		reply, lsn = h.k.do(args)
		o.commands, o.replies = append(o.commands, args), append(o.replies, reply)
	}
	if h.disk.off() && list[0][0] == "SAVE" {
		return
	}
	o.end, o.lsn = log.End(), lsn
	o.wrote = o.end != before
	if h.refused(o) {
		return
	}
	h.changed.saw(&o)
	if h.k.store.Err() == nil {
		if key, need := h.changed.shown(&o); lsn < need {
			h.fail("%s waits for %d, and key %.30q was changed at %d", brief(o.commands[0]), lsn,
				key, need)
		}
	}
	h.ops = append(h.ops, o)
	h.issued++
	h.took(o.replies...)
}

// refused reports whether the Keyp refused an operation because the disk is full or the store has
// failed.
func (h *history) refused(o op) bool {
	for _, reply := range o.replies {
		if bytes.HasPrefix(reply, []byte("-MISCONF")) || string(reply) == unread {
			if o.wrote && len(o.commands) == 1 {
				h.fail("%s was refused and yet wrote something", brief(o.commands[0]))
			}
			return true
		}
	}
	return false
}

// brief returns a command as it appears in the trace.
func brief(args [][]byte) string {
	var b strings.Builder
	for _, arg := range args[:min(len(args), 40)] {
		if len(arg) > 24 {
			fmt.Fprintf(&b, " %.16q(%d)", arg, len(arg))
		} else {
			fmt.Fprintf(&b, " %q", arg)
		}
	}
	if len(args) > 40 {
		fmt.Fprintf(&b, " … (%d)", len(args))
	}
	return b.String()
}

// took adds to the checksum of the history.
func (h *history) took(list ...[]byte) {
	f := fnv.New64a()
	fmt.Fprintf(f, "%d %d", h.sum, h.disk.moments)
	for _, b := range list {
		f.Write(b)
	}
	h.sum = f.Sum64()
}

// commit commits the log, and reports whether all operations are acknowledged now.
func (h *history) commit() bool {
	h.note("commit")
	err := h.k.store.Log().Commit()
	h.must(err, "commit")
	return err == nil && !h.disk.off()
}

// sync syncs the log, and reports whether all is on disk now, under any policy.
func (h *history) sync() bool {
	log := h.k.store.Log()
	err := log.Settled(context.Background(), log.End())
	h.must(err, "sync")
	return err == nil && !h.disk.off()
}

// pass advances the clock.
func (h *history) pass() {
	d := time.Duration(h.rng.ExpFloat64()*800) * time.Millisecond
	if h.rng.IntN(30) == 0 {
		d = time.Hour
	}
	h.clock.Advance(d)
	h.newest = max(h.newest, h.clock.Now())
}

// stepBack sets the wall clock back and waits until the store follows it.
func (h *history) stepBack() {
	if !h.sync() {
		return
	}
	from := h.clock.Now()
	h.k.store.Manual().AwaitClock() // it knows of that instant
	to := from - 1000 - int64(h.rng.IntN(5000))
	h.note("the clock steps to %d", to-epoch)
	h.clock.Set(to)
	h.k.store.Manual().AwaitClock()
	log := h.k.store.Log()
	h.ops = append(h.ops, op{at: to, from: from, wrote: true, end: log.End()})
	if h.sync() {
		h.newest = to
	}
}

// reopen restarts the Keyp without a crash, unless a crash happens meanwhile.
func (h *history) reopen(save bool) {
	h.note("restart, save %v", save)
	err := h.k.store.Close(save)
	if h.disk.fault != nil && !h.disk.off() {
		h.disk.crash("after an error amid a stop")
	}
	if h.disk.off() {
		return // k is closed, and once more does no harm
	}
	h.must(err, "close")
	h.k = nil
	err = h.open()
	h.must(err, "restart")
	if h.disk.fault != nil && !h.disk.off() {
		h.disk.crash("after an error amid a start")
	}
	if h.disk.off() {
		return
	}
	left := h.disk.left
	h.disk.left = 0
	h.find(len(h.ops), len(h.ops), math.MaxUint64)
	h.disk.left = left
}

// acknowledged returns how many of the operations must be there if the log was durable to lsn.
func (h *history) acknowledged(lsn uint64) (n int) {
	for i, o := range h.ops {
		if o.wrote && o.end <= lsn {
			n = i + 1
		}
	}
	return n
}

// crash restarts the machine after a crash, which may happen again, and checks the recovered data.
func (h *history) crash() {
	written, synced := h.disk.after.written, h.disk.after.synced
	durable, least := written, h.acknowledged(written)
	for h.disk.off() {
		if !h.disk.after.killed {
			durable, least = synced, h.acknowledged(synced)
		}
		h.crashes++
		h.note("crash %d: %s; %d of %d must be there", h.crashes, h.disk.after.at,
			least, len(h.ops))
		h.close()
		h.must2(h.disk.restart())
		if h.rng.IntN(3) == 0 {
			h.pass()
		}
		if h.rng.IntN(40) == 0 {
			h.clock.Set(h.clock.Now() - int64(h.rng.IntN(8000)))
		}
		if h.rng.IntN(3) == 0 {
			h.disk.left = 1 + int(h.rng.ExpFloat64()*12)
		}
		err := h.open()
		h.must(err, "recovery")
		if h.disk.fault != nil && !h.disk.off() {
			h.note("the disk says amid recovery: %v; that gives: %v", h.disk.fault.err, err)
			h.disk.crash("after an error amid recovery")
		}
	}
	h.left, h.ended = 0, 0
	h.disk.left = 0
	h.find(least, len(h.ops), durable)
	h.disk.left = h.moment()
}

// near is the number of operations with the smallest difference from the recovered content.
type near struct {
	n          int
	difference string
}

func (best *near) see(n int, difference string) {
	if best.difference == "" || strings.Count(difference, "\n") < strings.Count(best.difference,
		"\n") {
		best.n, best.difference = n, difference
	}
}

// around returns the operations around number n.
func (h *history) around(n int) string {
	var lines []string
	for i := max(0, n-4); i < min(len(h.ops), n+4); i++ {
		for _, c := range h.ops[i].commands {
			lines = append(lines, fmt.Sprintf("%d of %d: %s", i+1, h.ops[i].db, brief(c)))
		}
	}
	return "amid\n" + strings.Join(lines, "\n") + "\n"
}

// find searches for a number of operations, from least to most, after which the twin has the same
// content as the Keyp. It drops the operations that did not survive. durable is the LSN to which
// the log was durable.
func (h *history) find(least, most int, durable uint64) {
	h.k.store.Manual().AwaitClock()
	asOf := max(h.clock.Now(), h.newest)
	all := h.read(h.k)
	got := all.at(asOf)
	for n := range h.ops[:least] {
		h.repeat(&h.ops[n])
	}
	n, nearest := least, near{}
	for {
		want := h.read(h.twin).at(asOf)
		if got.same(want) {
			break
		}
		if n == most {
			nearest.see(n, got.difference(want))
			h.fail("what came back is not the content after any of the operations %d to %d; the nearest is that after %d, %s; the differences are\n%s",
				least, most, nearest.n, h.around(nearest.n), nearest.difference)
		}
		nearest.see(n, got.difference(want))
		h.repeat(&h.ops[n])
		n++
	}
	h.note("found %d of %d", n, len(h.ops))
	steps := false // the clock was set back
	for i := range h.ops {
		o := &h.ops[i]
		steps = steps || o.from != 0
		if i < n && (o.from != 0 || o.moves()) {
			h.seen.forget()
		} else if o.lsn <= durable {
			h.seen.saw(o)
		}
	}
	if n, back := h.seen.returned(all); back {
		h.fail("%d %.30q: %v is back, which was shown as gone", n.db, n.key, all[n])
	}
	if steps {
		// This is needed even if the clock's step did not survive: keys set now may have deadlines
		// before instants at which replies showed other keys as gone.
		h.seen.forget()
	}
	h.ops = h.ops[:0]
	h.took([]byte(fmt.Sprint(n)))
	if h.over = h.clock.Now() < h.newest; h.over {
		return
	}
	h.newest = h.clock.Now()
	if h.twin.clock.Now() > h.newest { // by a second or less a running store does not follow
		h.twin.clock.Set(h.newest - 2000)
		h.twin.store.Manual().AwaitClock()
	}
	h.twin.clock.Set(h.newest)
	h.must2(h.twin.store.Log().Commit())
	h.commit()
	if err := h.k.store.Check(); err != nil {
		h.fail("check: %v", err)
	}
}

func (h *history) read(k *keyp) content {
	c, err := k.read()
	if err != nil {
		h.fail("reading: %v", err)
	}
	return c
}

// repeat runs an operation on the twin.
func (h *history) repeat(o *op) {
	if o.from != 0 {
		h.twin.clock.Set(o.from)
		h.twin.store.Manual().AwaitClock()
	}
	h.twin.clock.Set(o.at)
	h.twin.store.Manual().AwaitClock()
	h.twin.client.DB = o.db
	for i, c := range o.commands {
		if string(c[0]) == "SAVE" {
			continue
		}
		reply, _ := h.twin.do(c)
		if got := o.replies[i]; !sameReply(c, got, reply) {
			h.fail("%d: %s\nreply %.500q\ntwin  %.500q", o.db, brief(c), got, reply)
		}
	}
}

// sameReply compares replies. The order of their parts does not matter, because sets have none.
// DBSIZE counts expired keys that are not removed yet, and RANDOMKEY draws at random, so these
// replies need not be equal. Of a receipt only the job is compared.
func sameReply(c [][]byte, a, b []byte) bool {
	switch string(c[0]) {
	case "DBSIZE":
		return true
	case "RANDOMKEY":
		return bytes.HasPrefix(a, []byte("$-1")) == bytes.HasPrefix(b, []byte("$-1"))
	}
	a, b = receipts.ReplaceAll(a, []byte("-")), receipts.ReplaceAll(b, []byte("-"))
	return bytes.Equal(a, b) || slices.Equal(sorted(a), sorted(b))
}

// receipts matches the numbers in receipts of KEYP.DELAY, which start from the time at which the
// store was opened.
var receipts = regexp.MustCompile(`\b1\d{15}-`)

func sorted(reply []byte) []string {
	lines := strings.Split(string(reply), "\r\n")
	slices.Sort(lines)
	return lines
}
