package storage

import (
	"encoding/binary"
	"math"
	"slices"

	"keyp/storage/format"
	"keyp/ttl"
)

// onDiskThrough returns the largest number of keys on disk that can be due by an instant.
func (l *timeline) onDiskThrough(at int64) (n int64, err error) {
	for _, sh := range l.s.shards {
		err := l.locked(sh, func() {
			if p := sh.mu.parts[l.db]; p != nil {
				n += p.onDiskIn(0, at).High
			}
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// onDiskIn returns how many keys that are only on disk are due in a span. The shard is locked.
func (p *part) onDiskIn(from, through int64) (s ttl.Span) {
	d := p.disk
	switch {
	case p.shard.store.partials.Load() == 0:
		return s
	case d == nil:
		return ttl.Span{High: max(p.keys-int64(p.index.Len()), 0)}
	}
	s = d.bins.Count(from, through, nil)
	if d.through != nil && through >= int64(binary.BigEndian.Uint64(d.through)) {
		s.High += max(p.keys-int64(p.index.Len()+d.bins.Len()), 0)
	}
	return s
}

// count counts the keys of a shard in each span.
func (l *timeline) count(sh *shard, most *int) error {
	for i := 0; i < len(l.starts); {
		if err := l.locked(sh, func() { i = l.countSome(sh, i, most) }); err != nil {
			return err
		}
	}
	return nil
}

// countSome counts the keys of a shard in some spans from i on, and returns the next span.
func (l *timeline) countSome(sh *shard, i int, most *int) (next int) {
	p := sh.mu.parts[l.db]
	if p == nil {
		return len(l.starts)
	}
	due := l.dueIn(sh)
	end := min(i+dueStep, len(l.starts))
	for had := *most; i < end && had-*most < 2*dueStep; i++ {
		from, through := l.bounds(i)
		if due > l.now && from <= due { // what the transaction has written itself may be there
			none := 0
			l.memory[i].High += p.index.Count(max(from, l.now+1), min(through, due), &none).High
		}
		if from = max(from, due+1); from > through {
			continue
		}
		l.memory[i].Add(p.index.Count(from, through, most))
		l.disk[i].Add(p.onDiskIn(from, through))
	}
	return i
}

// onlyOn is onlyOnDisk for the keys of the timeline's database.
func (l *timeline) onlyOn(list []diskDue) (only []diskDue, err error) {
	only, err = l.onlyOnDisk(list)
	return slices.DeleteFunc(only, func(e diskDue) bool { return e.DB != l.db }), err
}

// walkDisk visits the keys that are only on disk and due in the spans. It returns the instant up to
// which it has visited them: the last one, or an earlier one after about most entries.
func (l *timeline) walkDisk(most int, visit func(e diskDue, span int)) (through int64, err error) {
	l.loose = true
	looks, step, until := 0, min(l.s.bounds.dueStep, l.exact), l.last
	if until < math.MaxInt64 {
		until++
	}
	for place := format.TTLKey(nil, max(l.first, l.now+1), nil); place != nil; looks += step {
		if looks >= most {
			return int64(binary.BigEndian.Uint64(place)) - 1, nil
		}
		var list []diskDue
		if list, place, err = l.s.readDue(place, until, step); err != nil {
			return 0, err
		}
		if list, err = l.onlyOn(list); err != nil {
			return 0, err
		}
		for _, e := range list {
			if i := l.spanOf(e.At); i >= 0 && e.At > l.dueIn(l.s.shards[l.s.shardOf(e.key.Slot)]) {
				visit(e, i)
			}
		}
	}
	return l.last, nil
}

// readDisk counts the keys on disk by their entries in ttl.
func (l *timeline) readDisk() error {
	found := make([]int64, len(l.starts))
	through, err := l.walkDisk(2*l.exact, func(_ diskDue, span int) { found[span]++ })
	if err != nil {
		return err
	}
	for i := range l.starts {
		if _, end := l.bounds(i); end <= through {
			l.disk[i] = ttl.Exactly(found[i])
		}
	}
	return nil
}

// moved returns how many keys may have been counted twice or not at all. Such keys have moved
// between memory and disk, or have lost elements that were due.
func (l *timeline) moved() (n int64, err error) {
	if !l.loose && len(l.again) == 0 {
		return 0, nil
	}
	for i, sh := range l.s.shards {
		err := l.locked(sh, func() {
			p := sh.mu.parts[l.db]
			if p == nil || p != l.parts[i] {
				return // what it had is gone
			}
			if l.loose {
				n += p.moves - l.moves[i]
			}
			for _, k := range l.again {
				if k.part == p && !p.index.Has(k.was.ID, k.was.Deadline) {
					n++
				}
			}
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// spans returns the timeline's result; moved is the number of keys that have moved.
func (l *timeline) spans(moved int64) []DueSpan {
	list := make([]DueSpan, len(l.starts))
	for i, from := range l.starts {
		s := l.memory[i]
		s.Add(l.disk[i])
		if _, through := l.bounds(i); through > l.now {
			s.Low, s.High = max(s.Low-moved, 0), s.High+moved+l.unknown
		}
		list[i] = DueSpan{From: from, Span: s}
	}
	for _, k := range l.again {
		if i := l.spanOf(k.at); i >= 0 && (l.match == nil || l.match(k.name)) {
			list[i].Add(ttl.Exactly(1))
		}
	}
	return list
}

// countNames counts the keys of the spans whose names match.
func (l *timeline) countNames() error {
	l.loose = true
	for _, sh := range l.s.shards {
		if err := l.countNamesIn(sh); err != nil {
			return err
		}
	}
	if l.s.partials.Load() == 0 {
		return nil
	}
	_, err := l.walkDisk(math.MaxInt, func(e diskDue, span int) {
		if l.match(e.Name) {
			l.disk[span].Add(ttl.Exactly(1))
		}
	})
	return err
}

// countNamesIn counts the matching keys that a shard has in memory.
func (l *timeline) countNamesIn(sh *shard) error {
	due := l.dueIn(sh)
	w := dueWalk{View: l.View, until: l.last, every: 1}
	if w.until < math.MaxInt64 {
		w.until++
	}
	at := ttl.Entry{Deadline: max(l.first, due+1)}
	for more := true; more; {
		if err := l.locked(sh, func() {
			at, more = w.inMemory(sh.mu.parts[l.db], l.db, at)
		}); err != nil {
			return err
		}
		for _, k := range w.list {
			if i := l.spanOf(k.At); i >= 0 && l.match(k.Name) {
				l.memory[i].Add(ttl.Exactly(1))
			}
		}
		w.list, w.names = w.list[:0], w.names[:0]
	}
	return nil
}
