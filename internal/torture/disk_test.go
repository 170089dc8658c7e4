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

// errPower is the error of every operation after the crash: the machine is off, and the code's
// later operations on the disk have no effect.
var errPower = errors.New("torture: the power is off")

const (
	dataName    = "keyp.db"
	compactName = "keyp.db.compact"
	newName     = "keyp.db.new"

	metaArea = 2 * 8192 // the data file's two meta pages
)

// disk is the storage for the log and the data file of a history's Keyp, until it crashes.
type disk struct {
	rng *rand.Rand
	dir string // of the data file
	mem *vfs.Mem
	// left is the number of operations until the next crash, or 0 if none comes.
	left    int
	moments int
	running storage.Journal // asked at the crash for what must be there
	faults  bool            // errors may come in place of crashes
	fault   *fault
	failing int  // an error comes at that page of the data file that is written
	amid    bool // pages of the data file were written and not synced
	after   *after
}

// fault is an error of the disk, once or for ever.
type fault struct {
	err  error
	stay bool
	sync bool // it has lost what was written and not synced
}

// after is the state after a crash.
type after struct {
	at     string
	mem    *vfs.Mem
	killed bool // the power is on, and no sync has failed: nothing that was written is lost
	// The log position that was acknowledged, and the one that was synced. They differ only if the
	// policy does not sync each commit.
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

// page is called for each page of a transaction that is written to a data file, except the meta
// page. All these pages count as one moment, because bbolt decides how many there are. Until the
// sync their order is open, so it does not matter at which one the power fails. One of the writes
// may fail, or the sync after them.
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

// mirror returns a writer for a data file that also applies the writes to mem.
func (d *disk) mirror(path string, f datafile.Writer) datafile.Writer {
	m, err := vfs.NewMirror(d.mem, d.fs(), path, f)
	if err != nil {
		return failing{err}
	}
	return m
}

// failing is the writer for a data file that could not be opened.
type failing struct{ err error }

func (f failing) WriteAt([]byte, int64) (int, error) { return 0, f.err }
func (f failing) Sync() error                        { return f.err }

// faulty reports whether an operation may fail.
func faulty(op vfs.Op) bool {
	return op != vfs.OpClose && op != vfs.OpSize && op != vfs.OpFree && op != vfs.OpLock
}

// begin makes an operation fail. A write of n bytes may fail after some of them.
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

// due counts n moments and reports whether the crash is among them.
func (d *disk) due(n int) bool {
	d.moments += n
	if d.left == 0 {
		return false
	}
	d.left = max(d.left-n, 0)
	return d.left == 0
}

// crash records the state after a power failure, or after a kill of the process.
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

// restart restores the state that the crash has left.
func (d *disk) restart() error {
	d.mem = d.after.mem
	d.after, d.fault, d.amid, d.failing = nil, nil, false, 0
	var paths []string
	for _, name := range []string{dataName, compactName, newName} {
		paths = append(paths, filepath.Join(d.dir, name))
	}
	return d.mem.Restore(paths...)
}

// step is called for each step of the store. Two of the steps rename a data file.
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

// dice returns a generator for draws whose number the seed does not determine, because bbolt
// decides how many pages differ.
func (d *disk) dice() *rand.Rand { return rand.New(rand.NewPCG(d.rng.Uint64(), 0)) }
