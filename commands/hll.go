package commands

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"keyp/storage"
	"keyp/ttl"
)

// A HyperLogLog is a string that estimates how many different elements were added to it. The type
// sketch describes the bytes of the string. A missing key counts as an empty HyperLogLog.
var hllCommands = []Spec{
	{
		Name: "PFADD", Group: HyperLogLog, Since: "2.8.9",
		Summary:    "Adds elements to a HyperLogLog, and replies whether its estimate may have changed by that.",
		Complexity: "O(1) for each element; O(N) in the runs of registers while it is sparse.",
		Arity:      -2, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Insert)},
		Args: []Arg{keyArg("key"), stringArg("element").many().opt()},
		Run:  runPFAdd,
	},
	{
		Name: "PFCOUNT", Group: HyperLogLog, Since: "2.8.9",
		Summary:    "Estimates how many different elements were added to a HyperLogLog, or to any of several.",
		Complexity: "O(1) for one key whose estimate is cached, else O(N) in the registers of all keys.",
		Arity:      -2, Flags: ReadOnly | MayReplicate,
		Keys: []KeySpec{KeysFrom(1, 1, RW|Access)},
		Args: []Arg{keyArg("key").many()},
		Run:  runPFCount,
	},
	{
		Name: "PFMERGE", Group: HyperLogLog, Since: "2.8.9",
		Summary:    "Adds to a HyperLogLog what was added to others.",
		Complexity: "O(N) in the registers of all keys.",
		Arity:      -2, Flags: Write | DenyOOM,
		Keys: []KeySpec{Key(1, RW|Access|Insert), KeysFrom(2, 1, RO|Access)},
		Args: []Arg{keyArg("destkey"), keyArg("sourcekey").many()},
		Run:  runPFMerge,
	},
	{
		Name: "PFDEBUG", Group: HyperLogLog, Since: "2.8.9",
		Summary:    "Shows the registers of a HyperLogLog, or how it is encoded, or makes it a dense one.",
		Complexity: "O(N) in its registers.",
		Arity:      3, Flags: Write | DenyOOM | Admin,
		Keys: []KeySpec{Key(2, RW|Access)},
		Args: []Arg{stringArg("subcommand"), keyArg("key")},
		Run:  runPFDebug,
	},
	{
		Name: "PFSELFTEST", Group: HyperLogLog, Since: "2.8.9",
		Summary:    "Tests registers and estimates, sparse and dense ones, with random elements.",
		Complexity: "Some tenths of a second, beside other clients' commands.",
		Arity:      1, Flags: Admin, Scope: Unlocked,
		Run: runPFSelfTest,
	},
}

var eventPFAdd = storage.Event{Class: storage.EventString, Name: "pfadd"}

// readSketch is readString for a HyperLogLog. It returns errNoSketch for another string.
func (c *Ctx) readSketch(k storage.Key) (s sketch, ok bool, err error) {
	value, ok, err := c.readString(k)
	if err != nil || !ok {
		return nil, false, err
	}
	s, err = asSketch(value)
	return s, err == nil, err
}

// sketch returns the HyperLogLog of a key for a command that changes it. It counts no hit or miss.
// The key's encoding becomes "raw", even if the command then fails, as in Redis.
func (c *Ctx) sketch(k storage.Key) (s sketch, ok bool, err error) {
	value, ok, err := c.String(k)
	if err != nil || !ok {
		return nil, false, err
	}
	if s, err = asSketch(value); err != nil {
		return nil, false, err
	}
	c.Txn.MarkRaw(k)
	return s, true, nil
}

func (c *Ctx) sparseMax() int64 { return c.Env.Config.Int("hll-sparse-max-bytes") }

func runPFAdd(c *Ctx) error {
	k := c.Keys[0]
	old, exists, err := c.sketch(k)
	if err != nil {
		return err
	}
	s, changed := old, !exists
	if !exists {
		s = newSketch()
	} else if !s.dense() {
		s = slices.Clone(s)
	}
	sparseMax := c.sparseMax()
	for _, element := range c.Args[2:] {
		register, value := registerOf(element)
		if s.dense() && s.register(register) >= value {
			continue // most often; so a dense one is copied where it changes only
		}
		if s.dense() && !changed {
			s = slices.Clone(s)
		}
		raised := false
		if s, raised, err = s.raise(register, value, sparseMax); err != nil {
			return err
		}
		changed = changed || raised
	}
	if changed {
		s.forgetCached()
		c.putSketch(k, old, s, eventPFAdd)
	}
	c.bit(changed)
	return nil
}

// putSketch replaces the sketch old, which is nil for a missing key, by s. The key keeps its
// deadline. If both have the same length, the log gets only the bytes that differ, if that is
// shorter.
func (c *Ctx) putSketch(k storage.Key, old, s sketch, ev storage.Event) {
	var parts [][2]int
	size := math.MaxInt
	if len(old) == len(s) {
		parts, size = differences(old, s)
		size += len(parts) * (len(k.Name) + 32)
	}
	switch {
	case size >= len(s):
		deadline, _ := c.Txn.Deadline(k)
		c.Txn.SetRaw(k, s, ttl.At(deadline), ev)
	case len(parts) == 0:
		c.Txn.Notify(k, ev)
	default:
		for _, p := range parts {
			c.Txn.WriteRange(k, p[0], s[p[0]:p[1]], ev)
			ev = storage.Event{} // one event for all
		}
	}
}

// differences returns the parts in which two strings of one length differ, each as a half-open
// range. size is their total in bytes. It compares 64 bytes at a time.
func differences(a, b []byte) (parts [][2]int, size int) {
	const step = 64
	for at := 0; at < len(a); at += step {
		end := min(at+step, len(a))
		if bytes.Equal(a[at:end], b[at:end]) {
			continue
		}
		from := at
		for a[from] == b[from] {
			from++
		}
		for a[end-1] == b[end-1] {
			end--
		}
		parts = append(parts, [2]int{from, end})
		size += end - from
	}
	return parts, size
}

func runPFCount(c *Ctx) error {
	if len(c.Keys) == 1 {
		return countOne(c)
	}
	var registers [sketchRegisters]byte
	for _, k := range c.EachKey {
		s, ok, err := c.readSketch(k)
		if err != nil {
			return err
		}
		if ok && !s.mergeInto(&registers) {
			return errSketchBroken
		}
	}
	c.Out.Int(int64(cardinality(&registers)))
	return nil
}

// countOne runs PFCOUNT for one key. It caches the estimate in the key, as Redis does, except on a
// full disk and at a follower.
func countOne(c *Ctx) error {
	k := c.Keys[0]
	s, ok, err := c.readSketch(k)
	switch {
	case err != nil:
		return err
	case !ok:
		c.Out.Int(0)
		return nil
	}
	c.Txn.MarkRaw(k)
	n, valid := s.cached()
	if valid {
		c.Out.Int(int64(n))
		return nil
	}
	var registers [sketchRegisters]byte
	if !s.mergeInto(&registers) {
		return errSketchBroken
	}
	n = cardinality(&registers)
	if !c.Env.Store.Full() && !c.Env.Store.Follower() {
		c.Txn.WriteRange(k, 8, binary.LittleEndian.AppendUint64(nil, n), storage.Event{})
	}
	c.Out.Int(int64(n))
	return nil
}

func runPFMerge(c *Ctx) error {
	var registers [sketchRegisters]byte
	dense := false
	for _, k := range c.EachKey {
		s, ok, err := c.readSketch(k)
		switch {
		case err != nil:
			return err
		case !ok:
			continue
		case !s.mergeInto(&registers):
			return errSketchBroken
		}
		dense = dense || s.dense()
	}
	k := c.Keys[0]
	old, exists, err := c.sketch(k)
	if err != nil {
		return err
	}
	s := slices.Clone(old)
	if !exists {
		s = newSketch()
	}
	if dense {
		if s, exists = s.toDense(); !exists {
			return errSketchBroken
		}
	}
	sparseMax := c.sparseMax()
	for i, value := range registers {
		if value > 0 {
			if s, _, err = s.raise(i, value, sparseMax); err != nil {
				return err
			}
		}
	}
	s.forgetCached()
	c.putSketch(k, old, s, eventPFAdd)
	c.Out.OK()
	return nil
}

const (
	errSketchMissing Error = "ERR The specified key does not exist"
	errNotSparse     Error = "ERR HLL encoding is not sparse"
)

func runPFDebug(c *Ctx) error {
	k := c.Keys[0]
	s, ok, err := c.sketch(k)
	switch {
	case err != nil:
		return err
	case !ok:
		return errSketchMissing
	}
	word := strings.ToLower(string(c.Arg(1)))
	if !slices.Contains([]string{"getreg", "decode", "encoding", "todense"}, word) {
		return Error("ERR Unknown PFDEBUG subcommand '" + clip(c.Arg(1), 128) + "'")
	}
	switch word {
	case "decode":
		if s.dense() {
			return errNotSparse
		}
		c.Out.Bulk(s.decoded())
		return nil
	case "encoding":
		c.Out.Simple([]string{"dense", "sparse"}[s[4]])
		return nil
	}
	d, ok := s.toDense()
	if !ok {
		return errSketchBroken
	}
	if word == "todense" {
		c.bit(!s.dense())
	} else {
		c.Out.Array(sketchRegisters)
		for i := range sketchRegisters {
			c.Out.Int(int64(d.register(i)))
		}
	}
	if !s.dense() {
		c.putSketch(k, s, d, storage.Event{})
	}
	return nil
}

// testElements is the number of elements that PFSELFTEST adds.
const testElements = 1_000_000

// mostTested is the longest sparse sketch of PFSELFTEST, in bytes. Each added element walks through
// the whole sketch. With the longest sketch that hll-sparse-max-bytes allows, the test would take
// seconds.
const mostTested = 3000

func runPFSelfTest(c *Ctx) error {
	d := make(sketch, sketchDenseSize)
	var values [sketchRegisters]byte
	for range 100 {
		for i := range values {
			values[i] = byte(rand.IntN(64))
			d.setRegister(i, values[i])
		}
		for i, v := range values {
			if got := d.register(i); got != v {
				return Error(fmt.Sprintf("TESTFAILED Register %d should be %d but is %d", i, v,
					got))
			}
		}
	}
	d, _ = newSketch().toDense()
	s := newSketch()
	sparseMax := min(c.sparseMax(), mostTested)
	seed, next := rand.Uint64(), uint64(1)
	for n := uint64(1); n <= testElements; n++ {
		register, value := registerOf(binary.LittleEndian.AppendUint64(nil, n^seed))
		d, _, _ = d.raise(register, value, sparseMax)
		s, _, _ = s.raise(register, value, sparseMax)
		if n == next {
			if err := checkEstimate(n, d, s, sparseMax); err != nil {
				return err
			}
			next *= 10
		}
	}
	c.Out.OK()
	return nil
}

// checkEstimate compares the estimates of a dense and another sketch, both of n elements, with n.
func checkEstimate(n uint64, d, s sketch, sparseMax int64) error {
	var byDense, byOther [sketchRegisters]byte
	d.mergeInto(&byDense)
	s.mergeInto(&byOther)
	estimate := cardinality(&byDense)
	// Six times the standard error, so that chance does not fail the test.
	most := uint64(math.Ceil(1.04 / math.Sqrt(sketchRegisters) * 6 * float64(n)))
	switch off := max(estimate, n) - min(estimate, n); {
	case int64(n) < sparseMax/2 && s.dense():
		return Error("TESTFAILED sparse encoding not used")
	case estimate != cardinality(&byOther):
		return Error("TESTFAILED dense/sparse disagree")
	case off > most:
		return Error(fmt.Sprintf("TESTFAILED Too big error. card:%d abserr:%d", n, off))
	}
	return nil
}
