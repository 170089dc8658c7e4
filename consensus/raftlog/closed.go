package raftlog

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/storage/wal"
)

// Closed is a log that no member has open. It is read from its files, which are not changed.
type Closed struct {
	state
	o     wal.Options
	first uint64
}

// Read reads a log as Open does, from the segment first on. Of o only FS, Dir and Progress matter.
func Read(o wal.Options, first uint64) (*Closed, error) {
	if first == 0 {
		return nil, fmt.Errorf("%w: no segment is its first", ErrLog)
	}
	c := &Closed{o: o, first: first}
	if err := c.records(func(r *record, place uint64) error {
		return contradicts(c.apply(r, place))
	}); err != nil {
		return nil, err
	}
	return c, contradicts(c.begin())
}

// contradicts returns ErrLog with err as the reason; nil if err is nil.
func contradicts(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrLog, err)
}

// Identity returns the identity of the log's member.
func (c *Closed) Identity() Identity { return c.id }

// Begin returns the base of the log.
func (c *Closed) Begin() Base { return c.base }

// Last returns the last entry's index and term, those of the base if there is none.
func (c *Closed) Last() (index, term uint64) { return c.last, c.term(c.last) }

// Committed returns the highest commit index in the log. Later entries may be committed too.
func (c *Closed) Committed() uint64 { return c.hard.commit }

// Entries calls fn with each entry up to index to, in their order. fn may not keep it.
func (c *Closed) Entries(to uint64, fn func(*pb.Entry) error) error {
	next := c.base.Index + 1
	err := c.records(func(r *record, place uint64) error {
		for i, e := range r.entries {
			index := r.first + uint64(i)
			if index != next || index > min(to, c.last) {
				continue // another record has it, or none needs it
			}
			if stands, _ := c.table.find(index); stands != place {
				continue
			}
			if err := fn(&pb.Entry{Type: &e.kind, Term: &e.term, Index: &index,
				Data: e.data}); err != nil {
				return err
			}
			next++
		}
		return nil
	})
	if err == nil && next <= min(to, c.last) {
		err = contradicts(fmt.Errorf("entry %d is in no record", next))
	}
	return err
}

// records calls fn with each record, and the position before the record.
func (c *Closed) records(fn func(r *record, place uint64) error) error {
	var place uint64
	var entries []entry
	_, err := wal.Check(c.o, c.first, func(lsn uint64, batch []byte) error {
		r, err := parse(batch, entries)
		if err != nil {
			return contradicts(err)
		}
		if r.entries != nil {
			entries = r.entries
		}
		at := place
		place = lsn
		return fn(&r, at)
	})
	return err
}
