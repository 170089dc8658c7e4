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
	read    bool  // last is the sum of the batch before
	first   batch // is returned first; without pieces there is none
}

// batch is a batch in pieces, and the LSN of its end.
type batch struct {
	lsn    uint64
	pieces [][]byte
}

// ErrForked is the error for an archive of another copy of the directory, which went on by itself.
var ErrForked = fmt.Errorf("%w: it is of another copy of the directory", ErrHole)

// Join returns the batches after a position in the log of a history. Each of the archives may lack
// batches after the position. The batches may begin with earlier ones, if no archive has the
// position.
//
// sum is the sum of the batch that ends at the position (SumOf). An archive with that batch is
// preferred. An archive that begins at the position, or that begins again there after a hole,
// proves nothing; it is read if no other one has the batch. The error is ErrForked if only archives
// with another batch remain. If sum is nil, any batch will do: the history alone identifies the
// log.
func Join(from []Files, history string, position uint64, sum *[32]byte) (*Joined, error) {
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
	var why, forked []error
	for i, f := range j.from {
		chain, b, err := openAt(f, history, position)
		switch {
		case err == io.EOF: // it has nothing after the position
		case err != nil:
			why = append(why, err)
		case b.lsn == position && (sum == nil || SumOf(b.pieces) == *sum):
			j.last, j.read, j.first = SumOf(b.pieces), true, batch{}
			return j, j.begin(chain, i)
		case b.pieces != nil && sum != nil:
			forked = append(forked, fmt.Errorf("%s: %w", f.Path(chain.File()), ErrForked),
				chain.Close())
		case j.chain != nil:
			why = append(why, chain.Close())
		default:
			j.chain, j.at, j.first = chain, i, b
		}
	}
	switch err := errors.Join(why...); {
	case len(forked) > 0 && j.chain != nil:
		return nil, errors.Join(append(forked, j.chain.Close())...)
	case len(forked) > 0:
		return nil, errors.Join(forked...)
	case j.chain == nil && err != nil:
		return nil, err
	case j.chain == nil: // all of them end before the position
		j.chain, err = Open(j.from[0], history, position)
		return j, err
	}
	return j, nil
}

// Proven reports, until a batch is read, whether an archive has the batch that ends at the
// position.
func (j *Joined) Proven() bool { return j.read }

// begin reads on with another chain, that of one of from, and closes the one before.
func (j *Joined) begin(chain *Chain, at int) (err error) {
	if j.chain != nil {
		err = j.chain.Close()
	}
	j.chain, j.at = chain, at
	return err
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
	if err == nil {
		return chain, b, nil
	}
	if err != io.EOF {
		from, ok, failed := chain.Skip()
		if ok && from == position && failed == nil {
			return chain, batch{}, nil
		}
		err = errors.Join(err, failed)
	}
	if failed := chain.Close(); failed != nil {
		err = errors.Join(err, failed)
	}
	return nil, batch{}, err
}

// NextPieces returns the next batch, as Chain.NextPieces does.
func (j *Joined) NextPieces() (lsn uint64, pieces [][]byte, err error) {
	if lsn, pieces = j.first.lsn, j.first.pieces; pieces != nil {
		j.first = batch{}
	} else {
		lsn, pieces, err = j.chain.NextPieces()
	}
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
			return lsn, pieces, j.begin(chain, i)
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
	chain, b, err := openAt(from, j.history, position)
	if err != nil {
		return nil, 0, nil, err
	}
	begins := b.pieces == nil
	proven := j.read && b.lsn == position && SumOf(b.pieces) == j.last
	if lsn, pieces = b.lsn, b.pieces; lsn <= position {
		lsn, pieces, err = chain.NextPieces()
	}
	if err == nil && begins {
		// Its first file must name the sum of the files of the other archive.
		proven = j.chain.sum != "" && chain.r.Header.Previous == j.chain.sum
	}
	if err == nil && !proven {
		err = fmt.Errorf("%s: %w, or nothing proves that it is of the same one",
			from.Path(chain.File()), ErrForked)
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
