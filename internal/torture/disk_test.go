package torture

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/wal"
)

// errPower is what everything gets from the crash on: the machine is off, and what the code
// still does with its disk goes nowhere.
var errPower = errors.New("torture: the power is off")

const (
	dataName    = "keyp.db"
	compactName = "keyp.db.compact"
	newName     = "keyp.db.new"

	sector   = 512
	page     = 4096     // what the kernel writes in one go, most of the time
	metaArea = 2 * 8192 // the data file's two meta pages
)

// disk is where a history's Keyp keeps its log and its data file, until it crashes.
type disk struct {
	rng *rand.Rand
	dir string // of the data file
	log *vfs.Mem
	// data is the data file as it is on disk; nil: there is none.
	data []byte
	// left is how many moments go by until the next crash; 0: none comes.
	left    int
	moments int
	running *wal.Log // asked at the crash for what must be there
	faults  bool     // errors may come in place of crashes
	fault   *fault
	after   *after
}

// fault is an error that the log's disk gives, once or from then on.
type fault struct {
	err  error
	stay bool
	sync bool // it has lost what was written and not synced
}

// after is what a crash has left.
type after struct {
	at     string
	log    *vfs.Mem
	files  map[string][]byte // beside the log
	killed bool              // the power is on, and no sync has failed: nothing that was written is lost
	// How far the log was acknowledged, and how far of that it was synced. They differ under a
	// lax policy alone.
	written, synced uint64
}

func newDisk(rng *rand.Rand, dir string) *disk {
	return &disk{rng: rng, dir: dir, log: vfs.NewMem()}
}

func (d *disk) off() bool { return d.after != nil }

// fs is the log's file system.
func (d *disk) fs() vfs.FS {
	return vfs.Inject(d.log, func(op vfs.Op, name string, _ int64, n int) error {
		if d.off() {
			return errPower
		}
		if d.fault != nil && d.fault.stay && faulty(op) {
			return d.fault.err
		}
		if !d.due(1) {
			return nil
		}
		if d.faults && faulty(op) && d.rng.IntN(4) == 0 {
			return d.begin(op, name, n)
		}
		d.crash(op.String()+" "+filepath.Base(name), d.data, nil)
		return errPower
	})
}

// faulty says whether an operation may fail.
func faulty(op vfs.Op) bool {
	return op != vfs.OpClose && op != vfs.OpSize && op != vfs.OpFree && op != vfs.OpLock
}

// begin makes an operation fail; a write of n bytes perhaps amid them.
func (d *disk) begin(op vfs.Op, name string, n int) error {
	if op == vfs.OpSync {
		d.log.FailSync(name, d.dice())
	}
	d.fault = &fault{err: syscall.EIO, stay: d.rng.IntN(2) == 0, sync: op == vfs.OpSync}
	if d.rng.IntN(3) == 0 && (op == vfs.OpWrite || op == vfs.OpCreate || op == vfs.OpRename) {
		d.fault.err = syscall.ENOSPC
	}
	if op == vfs.OpWrite && d.rng.IntN(2) == 0 {
		return &vfs.ShortWrite{N: d.rng.IntN(n), Err: d.fault.err}
	}
	return d.fault.err
}

// due counts n moments and says whether the crash is among them.
func (d *disk) due(n int) bool {
	d.moments += n
	if d.left == 0 {
		return false
	}
	d.left = max(d.left-n, 0)
	return d.left == 0
}

// crash notes what is left if the power goes now, or the process is killed; of the data file
// data, nil for none.
func (d *disk) crash(at string, data []byte, others map[string][]byte) {
	files := map[string][]byte{}
	if data != nil {
		files[dataName] = slices.Clone(data)
	}
	for name, b := range others {
		files[name] = b
	}
	d.after = &after{at: at, files: files}
	rng := d.dice()
	if d.after.killed = d.rng.IntN(4) == 0; d.after.killed {
		d.after.at, d.after.log = at+" (killed)", d.log
		d.after.killed = d.fault == nil || !d.fault.sync
	} else {
		d.after.log = d.log.Crash(rng)
	}
	if d.running != nil {
		d.after.written, d.after.synced = d.running.Durable(), min(d.running.Durable(), d.running.Synced())
	}
}

// restart puts what the crash has left in place.
func (d *disk) restart() error {
	d.log = d.after.log
	d.data = d.after.files[dataName]
	for _, name := range []string{dataName, compactName, newName} {
		path := filepath.Join(d.dir, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if b := d.after.files[name]; b != nil {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				return err
			}
		}
	}
	d.after, d.fault = nil, nil
	return nil
}

func (d *disk) read(name string) []byte {
	b, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		return nil
	}
	return b
}

// writing is how many moments a transaction of the data file counts for: it has more of them
// than any call of the log.
const writing = 3

// step is told of the moments of the data file.
func (d *disk) step(step storage.Step) error {
	if d.off() {
		return errPower
	}
	switch step {
	case storage.StepWritten:
		now := d.read(dataName)
		if d.due(writing) {
			d.crash("amid a transaction of the data file", d.torn(d.data, now), nil)
		}
		d.data = now
	case storage.StepMade:
		if d.due(writing) {
			d.crash("amid the making of the data file", nil, map[string][]byte{newName: d.torn(nil, d.read(newName))})
		}
	case storage.StepNamed, "renamed":
		now := d.read(dataName)
		if d.due(writing) {
			d.crash("before the sync of the name", d.one(d.data, now), nil)
		}
		d.data = now
	case "batch", "proving", "proven":
		if d.due(1) {
			d.crash("amid a compaction", d.data, map[string][]byte{compactName: d.torn(nil, d.read(compactName))})
		}
	default:
		if !d.due(1) {
			return nil
		}
		if d.faults && step == storage.StepWrite && d.rng.IntN(3) == 0 {
			d.fault = &fault{err: []error{syscall.EIO, syscall.ENOSPC}[d.rng.IntN(2)]}
			return d.fault.err
		}
		d.crash(string(step), d.data, nil)
	}
	if d.off() {
		return errPower
	}
	return nil
}

func (d *disk) one(a, b []byte) []byte {
	if d.rng.IntN(2) == 0 {
		return a
	}
	return b
}

// dice is for draws whose number a seed does not decide: that of differing pages is bbolt's.
func (d *disk) dice() *rand.Rand { return rand.New(rand.NewPCG(d.rng.Uint64(), 0)) }

// torn is what is left of a file when the power goes while a transaction makes now of was.
func (d *disk) torn(was, now []byte) []byte {
	if len(now) == 0 {
		return slices.Clone(was)
	}
	b := make([]byte, len(now))
	copy(b, was)
	rng := d.dice()
	switch rng.IntN(8) {
	case 0: // only the length was synced, or not even that
		if rng.IntN(2) == 0 {
			return slices.Clone(was)
		}
	case 1, 2: // all data, and perhaps the meta page
		copy(b[min(metaArea, len(b)):], now[min(metaArea, len(now)):])
		some(rng, b, now, 0, min(metaArea, len(b)), sector)
	default:
		some(rng, b, now, min(metaArea, len(b)), len(b), page)
	}
	return b
}

// some copies some of the pieces from lo to hi that differ, pages now and then in part.
func some(rng *rand.Rand, b, now []byte, lo, hi, piece int) {
	share := rng.IntN(5)
	for at := lo; at < hi; at += piece {
		end := min(at+piece, hi)
		if bytes.Equal(b[at:end], now[at:end]) {
			continue
		}
		if piece > sector && rng.IntN(4) == 0 {
			some(rng, b, now, at, end, sector)
		} else if rng.IntN(4) < share {
			copy(b[at:end], now[at:end])
		}
	}
}
