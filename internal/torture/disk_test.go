package torture

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"syscall"

	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/datafile"
)

// errPower is what everything gets from the crash on: the machine is off, and what the code
// still does with its disk goes nowhere.
var errPower = errors.New("torture: the power is off")

const (
	dataName    = "keyp.db"
	compactName = "keyp.db.compact"
	newName     = "keyp.db.new"

	metaArea = 2 * 8192 // the data file's two meta pages
)

// disk is where a history's Keyp keeps its log and its data file, until it crashes.
type disk struct {
	rng *rand.Rand
	dir string // of the data file
	mem *vfs.Mem
	// left is how many moments go by until the next crash; 0: none comes.
	left    int
	moments int
	running storage.Journal // asked at the crash for what must be there
	faults  bool            // errors may come in place of crashes
	fault   *fault
	failing int  // an error comes at that page of the data file that is written
	amid    bool // pages of the data file were written and not synced
	after   *after
}

// fault is an error that the disk gives, once or always.
type fault struct {
	err  error
	stay bool
	sync bool // it has lost what was written and not synced
}

// after is what a crash has left.
type after struct {
	at     string
	mem    *vfs.Mem
	killed bool // the power is on, and no sync has failed: nothing that was written is lost
	// How far the log was acknowledged, and how far of that it was synced. They differ under a
	// lax policy alone.
	written, synced uint64
}

func newDisk(rng *rand.Rand, dir string) *disk {
	return &disk{rng: rng, dir: dir, mem: vfs.NewMem()}
}

func (d *disk) off() bool { return d.after != nil }

// fs is the disk's file system.
func (d *disk) fs() vfs.FS {
	return vfs.Inject(d.mem, func(op vfs.Op, name string, off int64, n int) error {
		switch {
		case d.off():
			return errPower
		case d.fault != nil && d.fault.stay && faulty(op):
			return d.fault.err
		case op == vfs.OpWrite && off >= metaArea && filepath.Dir(name) == d.dir:
			return d.page(name, n)
		case op == vfs.OpSync && filepath.Dir(name) == d.dir:
			late := d.failing > 0 // there were not as many pages
			if d.amid, d.failing = false, 0; late {
				return d.begin(op, name, n)
			}
		}
		if !d.due(1) {
			return nil
		}
		if d.faults && faulty(op) && d.rng.IntN(4) == 0 {
			return d.begin(op, name, n)
		}
		d.crash(op.String() + " " + filepath.Base(name))
		return errPower
	})
}

// page is called for each page of a transaction that is written to a data file, but the meta page.
// All of them are one moment, since how many there are is bbolt's: in what order they arrive is
// open until they are synced, so it makes no difference at which one the power goes. One of them
// may fail, or the sync behind them.
func (d *disk) page(name string, n int) error {
	if d.failing > 0 {
		if d.failing--; d.failing == 0 {
			return d.begin(vfs.OpWrite, name, n)
		}
	}
	if d.amid {
		return nil
	}
	if d.amid = true; !d.due(1) {
		return nil
	}
	if d.faults && d.rng.IntN(2) == 0 {
		if d.failing = d.rng.IntN(6); d.failing == 0 {
			return d.begin(vfs.OpWrite, name, n)
		}
		return nil
	}
	d.crash("page of " + filepath.Base(name))
	return errPower
}

// mirror has the disk know what is written to a data file.
func (d *disk) mirror(path string, f datafile.Writer) datafile.Writer {
	m, err := vfs.NewMirror(d.mem, d.fs(), path, f)
	if err != nil {
		return failing{err}
	}
	return m
}

// failing is a data file that could not be opened.
type failing struct{ err error }

func (f failing) WriteAt([]byte, int64) (int, error) { return 0, f.err }
func (f failing) Sync() error                        { return f.err }

// faulty says whether an operation may fail.
func faulty(op vfs.Op) bool {
	return op != vfs.OpClose && op != vfs.OpSize && op != vfs.OpFree && op != vfs.OpLock
}

// begin makes an operation fail; a write of n bytes perhaps amid them.
func (d *disk) begin(op vfs.Op, name string, n int) error {
	if op == vfs.OpSync {
		d.mem.FailSync(name, d.dice())
	}
	d.fault = &fault{err: syscall.EIO, stay: d.rng.IntN(2) == 0, sync: op == vfs.OpSync}
	if d.rng.IntN(3) == 0 && (op == vfs.OpWrite || op == vfs.OpSync || op == vfs.OpCreate ||
		op == vfs.OpRename) {
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

// crash notes what is left if the power goes now, or the process is killed.
func (d *disk) crash(at string) {
	d.after = &after{at: at}
	rng := d.dice()
	if d.after.killed = d.rng.IntN(4) == 0; d.after.killed {
		d.after.at, d.after.mem = at+" (killed)", d.mem
		d.after.killed = d.fault == nil || !d.fault.sync
	} else {
		d.after.mem = d.mem.Crash(rng)
	}
	if d.running != nil {
		d.after.written, d.after.synced = d.running.Durable(),
			min(d.running.Durable(), d.running.Synced())
	}
}

// restart puts what the crash has left in place.
func (d *disk) restart() error {
	d.mem = d.after.mem
	d.after, d.fault, d.amid, d.failing = nil, nil, false, 0
	var paths []string
	for _, name := range []string{dataName, compactName, newName} {
		paths = append(paths, filepath.Join(d.dir, name))
	}
	return d.mem.Restore(paths...)
}

// step is called for each step of the store. Two of them are the renaming of a data file.
func (d *disk) step(step datafile.Step) error {
	if d.off() {
		return errPower
	}
	if from := map[datafile.Step]string{datafile.StepNamed: newName,
		"renamed": compactName}[step]; from != "" {
		if err := d.mem.Rename(filepath.Join(d.dir, from),
			filepath.Join(d.dir, dataName)); err != nil {
			return err
		}
	}
	if d.due(1) {
		d.crash(string(step))
		return errPower
	}
	return nil
}

// dice is for draws whose number a seed does not decide: that of differing pages is bbolt's.
func (d *disk) dice() *rand.Rand { return rand.New(rand.NewPCG(d.rng.Uint64(), 0)) }
