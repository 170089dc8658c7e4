package raftlog

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/storage/wal"
)

// portion is the part of the result of Entries that has been found so far. It also records which
// entries are still missing.
type portion struct {
	lo, next, hi uint64 // from next on, before hi, something is missing
	size, most   uint64 // in bytes
	list         []*pb.Entry
}

// fits counts an entry, or ends the portion if the entry does not fit. The first entry always fits.
func (p *portion) fits(data []byte) bool {
	if p.size += uint64(len(data)) + 20; p.size > p.most && p.next > p.lo {
		p.hi = p.next
		return false
	}
	p.next++
	return true
}

// stored locates a record with entries that are not in memory.
type stored struct {
	place uint64 // the position before it
	until uint64 // entries from this one on are in later records
}

// Entries implements consensus.Log. It reads entries that are not in memory from the files, without
// holding mu.
func (l *Log) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	p := portion{lo: lo, next: lo, hi: hi, most: maxSize}
	s, more, err := l.take(&p)
	if err != nil || !more {
		return p.list, err
	}
	reader := l.wal.Reader()
	for more && err == nil {
		if err = l.read(reader, s, &p); err == nil {
			s, more, err = l.take(&p)
		}
	}
	if err = errors.Join(err, reader.Close()); err == nil {
		return p.list, nil
	}
	if lo <= l.Begin().Index { // released meanwhile
		return nil, raft.ErrCompacted
	}
	return nil, fmt.Errorf("raftlog: entry %d: %w", p.next, err)
}

// take adds entries from memory. If the next missing entry is not in memory, more is true, and s
// locates its record.
func (l *Log) take(p *portion) (s stored, more bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case p.next <= l.mu.base.Index:
		return s, false, raft.ErrCompacted
	case p.hi > l.mu.last+1:
		return s, false, raft.ErrUnavailable
	case p.next >= p.hi:
		return s, false, nil
	case p.next < l.mu.from:
		s.place, s.until = l.mu.table.find(p.next)
		return s, true, nil
	}
	for p.next < p.hi {
		if e := l.mu.cache[p.next-l.mu.from]; p.fits(e.Data) {
			p.list = append(p.list, e)
		}
	}
	return s, false, nil
}

// readEntry is an entry with all that its fields point to.
type readEntry struct {
	e           pb.Entry
	kind        pb.EntryType
	term, index uint64
}

// read adds the missing entries of a record to p.
func (l *Log) read(reader *wal.Reader, s stored, p *portion) error {
	batch, _, err := reader.After(s.place)
	if err != nil {
		return err
	}
	r, err := parse(batch, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	end := r.first + uint64(len(r.entries))
	if r.head || p.next < r.first || p.next >= min(end, s.until) {
		return fmt.Errorf("%w: a record that was to have entry %d has those from %d on, before %d",
			ErrLog, p.next, r.first, end)
	}
	entries := r.entries[p.next-r.first:]
	first, size := p.next, 0
	for _, e := range entries {
		if p.next == min(p.hi, s.until) || !p.fits(e.data) {
			break
		}
		size += len(e.data)
	}
	entries = entries[:p.next-first]
	list, data := make([]readEntry, len(entries)), make([]byte, 0, size)
	for i, e := range entries {
		x := &list[i]
		x.kind, x.term, x.index = e.kind, e.term, first+uint64(i)
		if term, err := l.Term(x.index); err == nil && term != e.term {
			return fmt.Errorf("%w: entry %d is of term %d, and a record has it of term %d", ErrLog,
				x.index, term, e.term)
		}
		x.e.Type, x.e.Term, x.e.Index = &x.kind, &x.term, &x.index
		if n := len(data); len(e.data) > 0 {
			data = append(data, e.data...)
			x.e.Data = data[n:len(data):len(data)]
		}
		p.list = append(p.list, &x.e)
	}
	return nil
}
