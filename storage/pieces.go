package storage

import (
	"encoding/binary"

	"keyp/internal/bigcopy"
	"keyp/storage/format"
	"keyp/storage/object"
)

// A transaction may write hundreds of MiB. So its batch is a list of pieces: a single slice would
// be copied each time that it grows. A large string is not copied into the batch: the piece is the
// value's own memory, and the log copies that when it writes the batch. So until the batch is
// durable, a command that changes such a value in place copies the value first.

const (
	// pieceBytes is the length at which a piece of the batch is complete.
	pieceBytes = maxKept
	// shareBytes is the least length of a string to which records refer.
	shareBytes = object.ChunkSize
	// headsRoom is the room for the record headers between pieces of a value.
	headsRoom = 4 << 10
)

// pieceList is a batch, or its beginning, in pieces.
type pieceList struct {
	list [][]byte
	size int // bytes
}

func (l *pieceList) add(piece []byte) {
	l.list = append(l.list, piece)
	l.size += len(piece)
}

// BatchBytes returns the length of the batch so far.
func (b *txnBatch) BatchBytes() int { return b.before.size + len(b.buf) }

// cutBatch begins another piece if the last one is complete.
func (b *txnBatch) cutBatch() {
	if len(b.buf) >= pieceBytes {
		b.before.add(b.buf)
		b.buf = make([]byte, 0, pieceBytes+headsRoom)
	}
}

// takeBatch returns the batch in pieces, and leaves an empty one.
func (b *txnBatch) takeBatch() [][]byte {
	b.before.add(b.buf)
	taken := b.before.list
	b.buf, b.before = nil, pieceList{}
	return taken
}

// mayShare reports whether the records of a string may refer to its bytes. The string must be in no
// earlier batch, and so large that copies would need much memory.
func (b *txnBatch) mayShare(o *Object, s *object.String) bool {
	return o.lsn == 0 && len(s.Data) >= shareBytes && len(s.Data)+b.BatchBytes() >= pieceBytes
}

// shareString records a string's chunks.
func (t *Txn) shareString(o *Object, s *object.String) {
	o.state |= stateShared
	s.Walk(func(elem, val []byte, deadline int64) bool {
		t.elementRecord(format.RecElement, format.RecMore, nil, o, elem)
		t.buf = binary.AppendUvarint(t.buf, uint64(deadline))
		t.buf = binary.AppendUvarint(t.buf, uint64(len(val)))
		t.before.add(t.buf)
		t.before.add(val)
		if t.buf = t.buf[len(t.buf):]; cap(t.buf) < headsRoom/8 {
			t.buf = make([]byte, 0, headsRoom)
		}
		return true
	})
}

// unshare is called before a string is changed in place. It copies the bytes if the log may still
// need the old ones.
func (o *Object) unshare(st *Store) {
	if !o.is(stateShared) {
		return
	}
	o.state &^= stateShared
	if s := o.val.(*object.String); o.lsn == 0 || o.lsn > st.log.Durable() {
		s.Data = bigcopy.Clone(s.Data)
	}
}
