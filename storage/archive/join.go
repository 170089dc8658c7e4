package archive

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// Joined reads a log from several archives of it, each of which may lack parts. It reads one of
// them until that ends, has a hole, or has a damaged file. Then it continues with another one,
// which must have the same batch at that position. If no archive continues after a damaged file,
// Joined returns an error: the log does not end there, and the content of the file is unknown.
type Joined struct {
	from    []Files // that have something of the history
	history string
	chain   *Chain // that is read
	at      int    // of which of from it is
	last    [32]byte
	read    bool // last is the sum of the batch before
}

var errForked = fmt.Errorf("%w: it is of another copy of the directory", ErrHole)

// Join is Open for several archives, each of which may lack batches after the position.
func Join(from []Files, history string, position uint64) (*Joined, error) {
	var why []error
	j := &Joined{history: history}
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
	for i, f := range j.from {
		chain, err := Open(f, history, position)
		if err == nil {
			j.chain, j.at = chain, i
			return j, nil
		}
		why = append(why, err)
	}
	return nil, errors.Join(why...)
}

// NextPieces returns the next batch, as Chain.NextPieces does.
func (j *Joined) NextPieces() (lsn uint64, pieces [][]byte, err error) {
	lsn, pieces, err = j.chain.NextPieces()
	if err != nil && len(j.from) > 1 {
		lsn, pieces, err = j.other(err)
	}
	if err == nil && len(j.from) > 1 {
		j.last, j.read = SumOf(pieces), true
	}
	return lsn, pieces, err
}

// other continues with another archive, since the present one does not go on, and returns the next
// batch. If none continues, it returns the reasons; io.EOF: all of them end there or before.
func (j *Joined) other(reason error) (lsn uint64, pieces [][]byte, err error) {
	var why []error
	if reason != io.EOF {
		why = append(why, reason)
	}
	for i, from := range j.from {
		if i == j.at {
			continue
		}
		chain, lsn, pieces, err := j.follow(from)
		switch {
		case err == nil:
			err = j.chain.Close()
			j.chain, j.at = chain, i
			return lsn, pieces, err
		case err != io.EOF:
			why = append(why, err)
		}
	}
	if len(why) == 0 {
		return 0, nil, io.EOF
	}
	return 0, nil, errors.Join(why...)
}

// follow returns the first batch of an archive after the one that was read last, and the chain that
// reads on from there.
func (j *Joined) follow(from Files) (chain *Chain, lsn uint64, pieces [][]byte, err error) {
	position := j.chain.Last()
	chain, err = Open(from, j.history, position)
	if err != nil {
		return nil, 0, nil, err
	}
	proven := false
	for lsn <= position && err == nil {
		before := chain.Last()
		lsn, pieces, err = chain.NextPieces()
		switch {
		case err != nil:
		case lsn == position:
			proven = j.read && SumOf(pieces) == j.last
		case lsn > position && before == position && !proven:
			// The archive begins here: its first file must name the sum of the files of the other
			// archive.
			proven = j.chain.sum != "" && chain.r.Header.Previous == j.chain.sum
		}
	}
	if err == nil && !proven {
		err = fmt.Errorf("%s: %w, or nothing proves that it is of the same one",
			from.Path(chain.File()), errForked)
	}
	if err == nil {
		return chain, lsn, pieces, nil
	}
	if failed := chain.Close(); failed != nil {
		err = errors.Join(err, failed)
	}
	return nil, 0, nil, err
}

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

// Last, Timed and Close are Chain's.
func (j *Joined) Last() uint64 { return j.chain.Last() }
func (j *Joined) Timed() bool  { return j.chain.Timed() }
func (j *Joined) Close() error { return j.chain.Close() }
