package clockguard

import "fmt"

// Record is what the store keeps on disk about its clocks. From it a start sees whether the wall
// clock has been set meanwhile (see the package comment).
type Record struct {
	boot  uint64 // the run of the machine
	lead  int64
	since int64
	at    int64 // the guarded time when the record was made; 0 without a guard
}

const form = "%x %d %d %d"

// leadTolerance is the largest error of a recorded lead, in ms.
const leadTolerance = 1000

// Record returns the record that the store should have now. It is the zero Record if there is
// nothing to record.
func (g *Guard) Record() (r Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	since := g.since.Load()
	if since == 0 && g.limit.Load() == 0 {
		return r
	}
	r = Record{boot: g.o.Clock.BootID(), lead: g.mu.lead, since: since}
	if since != 0 {
		r.at = g.o.Newest()
	}
	return r
}

// At returns the guarded time when the record was made, or 0 if there was no guard.
func (r Record) At() int64 { return r.at }

// Near reports whether a start that finds the record was instead of r does nearly the same.
func (r Record) Near(was Record) bool {
	return r.boot == was.boot && max(r.lead-was.lead, was.lead-r.lead) < leadTolerance &&
		r.since == was.since && r.at-was.at < LookEvery
}

// Bytes encodes the record.
func (r Record) Bytes() []byte { return fmt.Appendf(nil, form, r.boot, r.lead, r.since, r.at) }

// Parse decodes a record.
func Parse(b []byte) (r Record, err error) {
	if _, err := fmt.Sscanf(string(b), form, &r.boot, &r.lead, &r.since, &r.at); err != nil {
		return Record{}, err
	}
	return r, nil
}
