package commands

import (
	"math"

	"keyp/storage"
	"keyp/storage/object"
)

// A large stream is stored in runs of entries, and some of its runs may be only on disk
// (storage/streamruns.go). Before a handler changes anything, it calls wants for the runs that it
// needs, and then haveRuns. If runs are missing, they are read outside of the loop, and the handler
// starts again. In two cases the handler reads runs itself: if the runs have only a few entries,
// and if the handler has begun to walk over very many.

// wants records runs that the handler needs. A Wanted method of the stream's value has returned
// them. The stream is Cold.
func (c *Ctx) wants(s *storage.Stream, runs []int64) {
	if len(runs) > 0 {
		c.Runs = append(c.Runs, s.Missing(runs))
	}
}

// haveRuns returns errNeedKeys if wanted runs are not in memory; then the handler ends with it.
// With c.final it reads the runs at once. Any other error is about the data file.
func (c *Ctx) haveRuns() error {
	runs := c.Runs
	if len(runs) == 0 {
		return nil
	}
	if !c.final {
		return errNeedKeys
	}
	c.Runs = c.Runs[:0]
	for _, w := range runs {
		if err := c.Txn.LoadRuns(w); err != nil {
			return err
		}
	}
	return nil
}

// haveRange calls wants and haveRuns for the first count entries of a range; for all if count is
// below 1.
func (c *Ctx) haveRange(s *storage.Stream, from, to object.StreamID, reverse bool,
	count int64) error {
	if s.Cold() {
		c.wants(s, s.Value().Wanted(nil, from, to, reverse, bound(count)))
	}
	return c.haveRuns()
}

// bound returns a count for Wanted: -1, for no bound, if the count is below 1 or math.MaxInt64.
func bound(count int64) int64 {
	if count < 1 || count == math.MaxInt64 {
		return -1
	}
	return count
}

// haveIDs calls wants and haveRuns for entries that the command names.
func (c *Ctx) haveIDs(s *storage.Stream, ids []object.StreamID) error {
	if s.Cold() {
		var runs []int64
		for _, id := range ids {
			runs = s.Value().WantedID(runs, id)
		}
		c.wants(s, runs)
	}
	return c.haveRuns()
}

// haveTrimmed calls wants and haveRuns for a trim after added more entries.
func (c *Ctx) haveTrimmed(s *storage.Stream, t *streamTrim, added int) error {
	if t.by == 0 || !s.Cold() {
		return nil
	}
	v := s.Value()
	if t.by == byMinID {
		c.wants(s, v.WantedBefore(nil, t.minID))
		if err := c.haveRuns(); err != nil {
			return err
		}
	}
	n := t.excess(v)
	if t.by == byMaxLen {
		n = int(max(int64(v.Entries()+added)-t.length, 0))
	}
	switch {
	case t.refs > keepRef:
		return c.haveRange(s, object.StreamID{}, object.MaxStreamID, false, int64(t.looks(v, n)))
	case !t.about:
		c.wants(s, v.WantedTrim(nil, n))
	}
	return c.haveRuns()
}

// wantRead calls wants for the entries of the reply to XREADGROUP.
func (c *Ctx) wantRead(s *storage.Stream, r *streamRead, after object.StreamID, left int64) {
	if !s.Cold() {
		return
	}
	v := s.Value()
	g := v.Group(r.group)
	if after == onlyNew {
		if from, ok := g.LastID.Next(); ok {
			c.wants(s, v.Wanted(nil, from, object.MaxStreamID, false, bound(left)))
		}
	}
	switch consumer := g.Consumer(r.consumer); {
	case after == onlyNew && r.claim >= 0:
		c.wantPending(s, left, func(visit func(object.StreamID) bool) {
			g.EachByTime(func(e object.PendingEntry) bool {
				return c.Txn.Now()-e.Delivered >= r.claim && visit(e.ID)
			})
		})
	case after != onlyNew && consumer != nil:
		from, _ := after.Next()
		c.wantPending(s, left, func(visit func(object.StreamID) bool) {
			consumer.EachPending(from, object.MaxStreamID, visit)
		})
	}
}

// wantPending calls wants for the first left pending entries, or fewer if these are in very many
// runs.
func (c *Ctx) wantPending(s *storage.Stream, left int64,
	each func(visit func(object.StreamID) bool)) {
	var runs []int64
	each(func(id object.StreamID) bool {
		runs = s.Value().WantedID(runs, id)
		left--
		return left > 0 && len(runs) < object.MostWanted
	})
	c.wants(s, runs)
}
