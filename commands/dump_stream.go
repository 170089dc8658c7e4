package commands

import (
	"bytes"
	"slices"

	"keyp/internal/rdb"
	"keyp/storage/object"
)

// dumpedStream converts a stream to the form of package rdb. It does not copy the entries.
func dumpedStream(s *object.Stream) *rdb.StreamValue {
	to := &rdb.StreamValue{
		Last: rdb.StreamID(s.LastID()), MaxDeleted: rdb.StreamID(s.MaxDeleted()), Added: s.Added(),
		IIDs: s.IdempotentsAdded(), Duplicates: s.Duplicates(),
	}
	to.Duration, to.MaxSize = s.Idempotence()
	to.Entries = func(yield func(rdb.StreamEntry) bool) {
		var fields [][]byte
		s.Range(object.StreamID{}, object.MaxStreamID, false, func(e object.StreamEntry) bool {
			fields = fields[:0]
			e.EachField(func(field, val []byte) bool {
				fields = append(fields, field, val)
				return true
			})
			return yield(rdb.StreamEntry{ID: rdb.StreamID(e.ID), Fields: fields})
		})
	}
	s.EachGroup(func(g *object.StreamGroup) bool {
		to.Groups = append(to.Groups, dumpedGroup(g))
		return true
	})
	s.EachProducer(func(pid []byte, ids int) bool {
		p := rdb.StreamProducer{Name: pid, IIDs: make([]rdb.StreamIID, 0, ids)}
		s.EachIdempotent(pid, func(iid []byte, id object.StreamID) bool {
			p.IIDs = append(p.IIDs, rdb.StreamIID{IID: bytes.Clone(iid), ID: rdb.StreamID(id)})
			return true
		})
		to.Producers = append(to.Producers, p)
		return true
	})
	return to
}

func dumpedGroup(g *object.StreamGroup) rdb.StreamGroup {
	to := rdb.StreamGroup{Name: g.Name(), Last: rdb.StreamID(g.LastID), Read: g.EntriesRead()}
	at := map[*object.StreamConsumer]int{}
	g.EachConsumer(func(c *object.StreamConsumer) bool {
		at[c] = len(to.Consumers)
		to.Consumers = append(to.Consumers, rdb.StreamConsumer{Name: c.Name(), Seen: c.Seen,
			Active: c.Active})
		return true
	})
	to.Pending = make([]rdb.StreamPending, 0, g.Pending())
	g.EachPending(object.StreamID{}, object.MaxStreamID, func(p object.PendingEntry) bool {
		of := -1
		if p.Consumer != nil {
			of = at[p.Consumer]
		}
		to.Pending = append(to.Pending, rdb.StreamPending{ID: rdb.StreamID(p.ID), Consumer: of,
			Delivered: p.Delivered, Count: p.Count})
		return true
	})
	g.EachNacked(func(id object.StreamID) { to.Nacked = append(to.Nacked, rdb.StreamID(id)) })
	return to
}

// builtStream creates a stream from the content of a payload. It limits the settings of idempotent
// ids to the largest values that XCFGSET accepts.
func builtStream(from *rdb.StreamValue) *object.Stream {
	s := object.NewStream()
	for e := range from.Entries {
		s.Add(object.StreamID(e.ID), e.Fields)
	}
	s.SetID(object.StreamID(from.Last), from.Added, object.StreamID(from.MaxDeleted), nil)
	for i := range from.Groups {
		buildGroup(s, &from.Groups[i])
	}
	s.SetIdempotence(min(from.Duration, maxIdempotence), min(from.MaxSize, maxIdempotents), nil)
	var ids []idempotent
	for _, p := range from.Producers {
		for _, one := range p.IIDs {
			ids = append(ids, idempotent{p.Name, one})
		}
	}
	slices.SortStableFunc(ids, func(a, b idempotent) int {
		return object.StreamID(a.ID).Compare(object.StreamID(b.ID))
	})
	for _, one := range ids {
		s.AddIdempotent(one.pid, one.IID, object.StreamID(one.ID), int64(len(ids)), nil)
	}
	s.SetIdempotentCounts(from.IIDs, from.Duplicates, nil)
	return s
}

// idempotent is an idempotent id of a producer. All of a stream are in the order of their entries,
// so that the oldest are forgotten first.
type idempotent struct {
	pid []byte
	rdb.StreamIID
}

func buildGroup(s *object.Stream, from *rdb.StreamGroup) {
	// In data from a Redis before 8.10, an XSETID may have left a group with more entries read than
	// were added.
	s.CreateGroup(from.Name, object.StreamID(from.Last), min(from.Read, int64(s.Added())), nil)
	for _, c := range from.Consumers {
		s.CreateConsumer(from.Name, c.Name, c.Seen, nil)
		s.Touch(from.Name, c.Name, c.Seen, c.Active, nil)
	}
	count := map[rdb.StreamID]int64{}
	for _, p := range from.Pending {
		if p.Consumer < 0 {
			count[p.ID] = p.Count
			continue
		}
		s.Deliver(from.Name, from.Consumers[p.Consumer].Name, object.StreamID(p.ID),
			p.Delivered, p.Count, nil)
	}
	for _, id := range from.Nacked {
		s.Deliver(from.Name, nil, object.StreamID(id), 0, count[id], nil)
	}
}
