package datafile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
	"keyp/storage/snapshotfile"
)

// Receive writes a snapshot, the output of Send, to a new file and makes that the data file of the
// directory. It replaces an existing file, which nobody has open. A snapshot may be followed by a
// part of the sender's log: records, if it is not nil, gets each record of that. segment is the
// first segment of the log that will be used with the file. If alone is true, the file becomes that
// of a server that is alone, even if the snapshot is a member's. The new file replaces the old one
// only when it is complete, checked and on disk. Until then, and after an error, the directory
// keeps its content. After an error of the last sync it has either the old or the new file.
func (f *File) Receive(r io.Reader, segment uint64, alone bool,
	records func(position uint64, b []byte) error) (h snapshotfile.Header, err error) {
	path := filepath.Join(f.o.Dir, ReceivedName)
	if err := removeFile(path); err != nil {
		return h, err
	}
	if h, err = f.receive(path, r, segment, alone, records); err != nil {
		return h, errors.Join(err, removeFile(path))
	}
	if err := f.syncPath(); err != nil {
		return h, errors.Join(err, removeFile(path))
	}
	if err := os.Rename(path, f.Path()); err != nil {
		return h, errors.Join(err, removeFile(path))
	}
	if err := f.o.step(StepTaken); err != nil {
		return h, err
	}
	return h, f.syncDir()
}

// receive writes the file at path from a stream, and proves it.
func (f *File) receive(path string, r io.Reader, segment uint64, alone bool,
	records func(uint64, []byte) error) (h snapshotfile.Header, err error) {
	from, err := snapshotfile.NewReader(r)
	if err != nil {
		return h, err
	}
	h = from.Header
	if h.DataFormat != format.Version || h.PageSize != format.PageSize {
		return h,
			fmt.Errorf("%w: the snapshot is of format %d with pages of %d bytes, and this version writes %d with %d",
				format.ErrFormat, h.DataFormat, h.PageSize, format.Version, format.PageSize)
	}
	if h.Member != f.o.Member && !alone {
		return h,
			fmt.Errorf("storage: a snapshot is of a member of a group or not, as the directory is to be: %t and %t",
				h.Member, f.o.Member)
	}
	if err := f.receiveParts(path, from, records); err != nil {
		return h, err
	}
	if err := f.prove(path); err != nil {
		return h, err
	}
	db, _, err := f.openBolt(path)
	if err != nil {
		return h, err
	}
	f.mu.db = db
	defer func() { err = errors.Join(err, db.Close()); f.mu.db = nil }()
	if err := f.ProveTree(); err != nil {
		return h, err
	}
	c := compaction{f: f, to: db, at: f.o.step}
	if err := viewRecovering(db, c.prove); err != nil {
		return h, f.damaged(path, err)
	}
	again := func(*bolt.Tx) error { return nil } // so that both meta pages lead to it
	return h, errors.Join(updateNew(db, func(tx *bolt.Tx) error {
		return setLog(tx, &h, segment, alone)
	}), updateNew(db, again))
}

// receiveParts writes and syncs all pieces, and passes records on.
func (f *File) receiveParts(path string, from *snapshotfile.Reader,
	records func(uint64, []byte) error) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(from.Header.Size); err != nil {
		return err
	}
	out := Writer(osFile{file})
	if on := f.o.OnFile; on != nil {
		out = on(path, out)
	}
	for {
		p, err := from.Next()
		switch {
		case err == io.EOF:
			return out.Sync()
		case err != nil:
			return err
		case !p.Record:
			_, err = out.WriteAt(p.Bytes, int64(p.At))
		case records != nil:
			err = records(p.At, p.Bytes)
		}
		if err == nil {
			err = f.o.step(StepPiece)
		}
		if err != nil {
			return err
		}
	}
}

// setLog writes into the received file's state the first segment of its log, and whether the log is
// a member's.
func setLog(tx *bolt.Tx, h *snapshotfile.Header, segment uint64, alone bool) error {
	meta, err := readMeta(tx)
	if err != nil {
		return err
	}
	st := &meta.State
	if st.Member != h.Member || st.Position != h.Position || st.First != h.Segment {
		return fmt.Errorf(
			"%w: the snapshot's header names position %d of the log, and its state %d",
			format.ErrCorrupt,
			h.Position, st.Position)
	}
	st.First = segment
	if alone {
		st.Member, st.Position = false, 0
	}
	return PutMeta(tx, format.MetaState, st.Append(nil))
}
