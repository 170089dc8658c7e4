package member

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"keyp/commands"
	"keyp/consensus"
	"keyp/consensus/raftlog"
	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/format"
	"keyp/storage/snapshotfile"
	"keyp/storage/wal"
)

// This file reads and writes member.json, which identifies a member of a group. It also converts
// the data directory when the server joins or leaves a group.

const (
	identityFile = "member.json"
	leavingFile  = "member.json.left" // exists while a member leaves its group
	logDir       = format.MemberLogDir
	snapshotName = "snapshot"
	groupNumber  = 1
)

// OwnFile reports whether a member uses a name in its data directory, besides the names that its
// store uses.
func OwnFile(name string) bool {
	return name == logDir || name == snapshotName || name == identityFile ||
		strings.HasPrefix(name, identityFile+".")
}

// identity is the content of the file member.json, which a member keeps with its log and its store.
type identity struct {
	Version int    `json:"version"`
	Cluster uint64 `json:"cluster"` // of the group, random
	ID      uint64 `json:"id"`
	Node    string `json:"node"`
	Shard   string `json:"shard"`
	// Members are all members at a moment of the group's log that is not before the log's base, and
	// this one.
	Members []commands.Member `json:"members"`
}

const identityVersion = 1

// me returns this member for consensus.
func (d *identity) me() consensus.Member { return consensus.Member{Cluster: d.Cluster, Node: d.ID} }

// log returns this member's identity in its log.
func (d *identity) log() raftlog.Identity {
	var b [8]byte
	le.PutUint64(b[:], d.Cluster)
	return raftlog.Identity{Cluster: hex.EncodeToString(b[:]), Group: groupNumber, Member: d.ID}
}

// owns returns an error unless the log is this member's.
func (m *Member) owns(log *raftlog.Log) error {
	if of, want := log.Identity(), m.id.log(); of != want {
		return fmt.Errorf(
			"member: the log in %s is of another member than %s: of %+v, and not of %+v",
			m.logDir(), identityFile, of, want)
	}
	return nil
}

// readIdentity reads the identity of a directory; nil: it belongs to a server that is alone.
func readIdentity(dir string) (*identity, error) {
	path := filepath.Join(dir, identityFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := &identity{}
	if err := json.Unmarshal(text, d); err != nil || d.Version != identityVersion || d.ID == 0 ||
		d.Cluster == 0 || len(d.Node) != 40 || len(d.Shard) != 40 {
		return nil, fmt.Errorf("member: %s cannot be read, or is of another version", path)
	}
	return d, nil
}

// write writes the file to disk, atomically.
func (d *identity) write(files vfs.FS, dir string) error {
	d.Version = identityVersion
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return snapshotfile.Keep(files, filepath.Join(dir, identityFile), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// newNumber returns a number of a cluster or a member.
func newNumber() uint64 { return rand.Uint64N(1<<63-1) + 1 }

// merge puts a member into a list in the order of nodes, in the place of one with its id.
func merge(list []commands.Member, m commands.Member) []commands.Member {
	list = slices.DeleteFunc(slices.Clone(list), func(o commands.Member) bool {
		return o.ID == m.ID
	})
	list = append(list, m)
	slices.SortFunc(list, func(a, b commands.Member) int { return strings.Compare(a.Node, b.Node) })
	return list
}

// walOptions returns the options of the log of a member whose store has options o.
func walOptions(o *storage.Options) wal.Options {
	return wal.Options{
		FS: o.FS, Dir: filepath.Join(o.Dir, logDir), Clock: o.Clock, Logger: o.Logger,
		SegmentSize: o.SegmentSize, Random: o.Random,
	}
}

// convert turns the closed directory of a server that is alone into that of a member. base is the
// base of its log. Until storage.BecomeMember, the directory belongs to a server that is alone. If
// convert is interrupted before that, the next try removes the member's files.
func convert(o storage.Options, d *identity, base raftlog.Base) error {
	if err := o.Complete(); err != nil {
		return err
	}
	if err := discard(o.Dir); err != nil {
		return err
	}
	if err := d.write(o.FS, o.Dir); err != nil {
		return err
	}
	first, err := raftlog.Create(walOptions(&o), d.log(), base)
	if err != nil {
		return err
	}
	if err := storage.BecomeMember(o,
		storage.LogPosition{Segment: first, Position: base.Position}); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(o.Dir, format.LogDir))
}

// discard removes the files that only a member has.
func discard(dir string) error {
	return errors.Join(os.RemoveAll(filepath.Join(dir, logDir)),
		os.RemoveAll(filepath.Join(dir, snapshotName)),
		os.RemoveAll(filepath.Join(dir, identityFile)))
}

// leave turns a member's closed directory into that of a new server. If it is interrupted, the next
// start completes it (left).
func leave(o storage.Options) error {
	if err := o.Complete(); err != nil {
		return err
	}
	if err := o.FS.Rename(filepath.Join(o.Dir, identityFile),
		filepath.Join(o.Dir, leavingFile)); err != nil {
		return err
	}
	return errors.Join(o.FS.SyncDir(o.Dir), left(o))
}

// left removes the remains of a member that has left its group from its directory.
func left(o storage.Options) error {
	leaving := filepath.Join(o.Dir, leavingFile)
	if _, err := os.Stat(leaving); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := errors.Join(os.RemoveAll(filepath.Join(o.Dir, format.DataName)), discard(o.Dir),
		os.RemoveAll(filepath.Join(o.Dir, format.LogDir)))
	if err == nil {
		err = o.FS.Remove(leaving) // comes last
	}
	return errors.Join(err, o.FS.SyncDir(o.Dir))
}
