package archive

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Joined reads a log from several archives of it, each of which may lack parts. It reads all that
// go on at a position, and compares their batches: they must be the same. Where the last of them
// ends, has a hole, or has a damaged file, it continues with others, which must have the same batch
// at that position. If none continues after a damaged file, Joined returns an error: the log does
// not end there, and the content of the file is unknown.
type Joined struct {
	from    []Files // that have something of the history
	history string
	open    []*opened // they go on at the position
	// position is the end of the batch that was returned last, and last is its sum, if that is
	// known.
	position uint64
	last     [32]byte
	known    bool
	ends     []string // the sums of the archives that end at the position
	unproven bool
}

// opened is an archive that is read.
type opened struct {
	chain  *Chain
	at     int   // of which of Joined.from
	next   batch // the one that comes next, if it was read already
	begins bool  // it has no batch that ends where it was opened
	proven bool  // it is of the same log
}

// batch is a batch in pieces, and the LSN of its end.
type batch struct {
	lsn    uint64
	pieces [][]byte
}

// ErrForked is the error for an archive of another copy of the directory, which went on by itself.
var ErrForked = fmt.Errorf("%w: it is of another copy of the directory, which went on by itself",
	ErrHole)

// Join returns the batches after a position in the log of a history. Each of the archives may lack
// batches after the position. Their order does not matter.
//
// sum is the sum of the batch that ends at the position (SumOf). The error is ErrForked if an
// archive has another batch there. An archive that begins at the position, or that begins again
// there after a hole, proves nothing (Unproven). If sum is nil, the history alone identifies the
// log.
func Join(from []Files, history string, position uint64, sum *[32]byte) (*Joined, error) {
	j := &Joined{history: history, position: position}
	for _, f := range from {
		files, _, err := filesOf(f, history)
		if err != nil {
			return nil, err
		}
		if len(files) > 0 {
			j.from = append(j.from, f)
		}
	}
	if len(j.from) == 0 {
		j.from = from[:1] // to say so
	}
	if sum != nil {
		j.last, j.known = *sum, true
	}
	why := j.enter(make([]bool, len(j.from)))
	for _, o := range j.open {
		if o.proven = o.proven || sum == nil; !o.proven && !o.begins {
			return nil, errors.Join(fmt.Errorf("%s: %w", j.path(o), ErrForked), j.Close())
		}
	}
	if len(j.open) == 0 && len(why) > 0 {
		return nil, errors.Join(why...)
	}
	return j, nil
}

// enter opens at the position the archives that go on there, but for those that were tried. It
// returns the reasons for which others do not.
func (j *Joined) enter(tried []bool) (why []error) {
	for i, f := range j.from {
		if tried[i] {
			continue
		}
		chain, b, err := openAt(f, j.history, j.position)
		if err != nil {
			if err != io.EOF {
				why = append(why, err)
			}
			continue
		}
		o := &opened{chain: chain, at: i, begins: b.pieces == nil}
		o.proven = j.known && b.lsn == j.position && SumOf(b.pieces) == j.last
		if b.lsn > j.position {
			o.next = b
		}
		j.open = append(j.open, o)
	}
	return why
}

// openAt opens an archive, and reads it up to a position. b is the batch that was read last: the
// one that ends at the position or spans it. It has no pieces if the archive begins at the
// position, or begins again there after a hole or a damaged file. The error is io.EOF if the
// archive ends before the position.
func openAt(f Files, history string, position uint64) (chain *Chain, b batch, err error) {
	chain, err = Open(f, history, position)
	if err != nil {
		return nil, b, err
	}
	for err == nil && chain.Last() < position {
		b.lsn, b.pieces, err = chain.NextPieces()
	}
	if err == nil || err == io.EOF {
		return chain, b, err
	}
	from, ok, failed := chain.Skip() // it closes the file
	if ok && from == position && failed == nil {
		return chain, batch{}, nil
	}
	return nil, batch{}, errors.Join(err, failed)
}

// NextPieces returns the next batch, as Chain.NextPieces does.
func (j *Joined) NextPieces() (lsn uint64, pieces [][]byte, err error) {
	tried := make([]bool, len(j.from))
	why := j.advance(tried)
	if len(j.open) == 0 {
		why = append(why, j.enter(tried)...)
		why = append(why, j.advance(tried)...)
		j.open = slices.DeleteFunc(j.open, func(o *opened) bool {
			if !o.proven {
				why = append(why, fmt.Errorf("%s: %w, or nothing proves the contrary",
					j.path(o), ErrForked), o.chain.Close())
			}
			return !o.proven
		})
	}
	if len(j.open) > 0 {
		return j.agreed()
	}
	if err := errors.Join(why...); err != nil {
		return 0, nil, err
	}
	return 0, nil, io.EOF // all of them end here or before
}

// advance reads the next batch of each archive that is open, and closes those that do not go on. It
// returns the reasons; an end is none. tried notes them.
func (j *Joined) advance(tried []bool) (why []error) {
	j.open = slices.DeleteFunc(j.open, func(o *opened) bool {
		tried[o.at] = true
		if o.next.pieces != nil {
			return false
		}
		var err error
		if o.next.lsn, o.next.pieces, err = o.chain.NextPieces(); err == nil {
			return false
		}
		if err != io.EOF {
			why = append(why, err)
		} else if o.proven {
			j.ends = append(j.ends, o.chain.sum)
		}
		if err := o.chain.Close(); err != nil {
			why = append(why, err)
		}
		return true
	})
	for _, o := range j.open {
		// Its first file may name the sum of all files of another archive that ends here.
		o.proven = o.proven || o.begins && slices.Contains(j.ends, o.chain.r.Header.Previous)
	}
	return why
}

// agreed returns the next batch, which must be the same in all archives that are open.
func (j *Joined) agreed() (lsn uint64, pieces [][]byte, err error) {
	first := j.open[0]
	lsn, pieces = first.next.lsn, first.next.pieces
	if j.known = len(j.from) > 1; j.known {
		j.last = SumOf(pieces)
	}
	proven := false
	for _, o := range j.open {
		if o != first && (o.next.lsn != lsn || SumOf(o.next.pieces) != j.last) {
			return 0, nil, fmt.Errorf(
				"%w: %s and %s are of two copies of the directory, which went on apart", ErrHole,
				j.path(first), j.path(o))
		}
		proven = proven || o.proven
	}
	for _, o := range j.open {
		o.next, o.proven = batch{}, true
	}
	j.position, j.ends, j.unproven = lsn, nil, j.unproven || !proven
	return lsn, pieces, nil
}

// path returns the path of the file that was read last of an archive.
func (j *Joined) path(o *opened) string { return j.from[o.at].Path(o.chain.File()) }

// SumOf returns the sum of a batch, by which two archives, or a backup and an archive, are
// compared.
func SumOf(pieces [][]byte) (sum [32]byte) {
	all := sha256.New()
	for _, piece := range pieces {
		all.Write(piece)
	}
	all.Sum(sum[:0])
	return sum
}

// Unproven reports whether nothing proves that the batches that were returned are of the log of the
// backup.
func (j *Joined) Unproven() bool { return j.unproven }

// Timed reports whether the log has the time of the batch that was read last: otherwise it ran
// without an archive.
func (j *Joined) Timed() bool {
	return slices.ContainsFunc(j.open, func(o *opened) bool { return o.chain.Timed() })
}

// Close closes the files that are read.
func (j *Joined) Close() (err error) {
	for _, o := range j.open {
		err = errors.Join(err, o.chain.Close())
	}
	j.open = nil
	return err
}
