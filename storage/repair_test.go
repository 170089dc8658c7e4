package storage

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"keyp/internal/clock"
)

// TestRepair damages a data directory in one place, repairs it, and compares the keys with those
// before the damage. Every key is unchanged or is reported, by name unless the damage hides the
// name. The new directory is sound, and the old one is unchanged. KEYP_CORRUPT is the number of
// cases.
func TestRepair(t *testing.T) {
	runDamage(t, 14, 5, 30, []string{"all saved", "some lost", "log with gaps"},
		func(c *corruptCase, base string) string {
			r := repairCase{corruptCase: *c}
			r.run(filepath.Join(base, "repaired"))
			return fmt.Sprintf("%s; reported was %v", r.damage, r.reported)
		})
}

type repairCase struct {
	corruptCase
	log      RepairedLog
	reported []string
	named    map[string]bool // keys, and slots of which a key is lost
	all      bool            // any key may be lost
}

// mostKeys is more than the number of keys that damage of one page can affect.
const mostKeys = 200

func (r *repairCase) run(to string) {
	r.copy()
	r.harm()
	before := sums(r.t, r.dir)
	if err := os.RemoveAll(to); err != nil {
		r.t.Fatal(err)
	}
	r.clock = clock.NewFake(corruptNow)
	o := Options{Dir: r.dir, Clock: r.clock, Logger: slog.New(slog.DiscardHandler), Databases: 3,
		Shards: 4, SegmentSize: 32 << 10, InitialMmap: 1 << 22}
	var err error
	r.named = map[string]bool{}
	if r.log, err = RepairDir(o, to, r.loss); err != nil {
		r.t.Errorf("Repair gave %v", err)
		return
	}
	if !maps.Equal(before, sums(r.t, r.dir)) {
		r.t.Error("the damaged directory was changed")
	}
	if r.s, err = openCorrupt(to, r.clock); err != nil {
		r.t.Errorf("the repaired directory does not open: %v", err)
		return
	}
	wrong := r.compare()
	if err := r.s.Check(); err != nil {
		r.t.Errorf("the repaired directory: %v", err)
	}
	if err := r.s.Close(false); err != nil {
		r.t.Error(err)
	}
	if wrong > mostKeys && !r.all {
		r.t.Errorf("%d keys are not as they were", wrong)
	}
	switch {
	case r.log.Gaps > 0:
		r.counts["log with gaps"]++
		r.counts["keys lost or older by gaps"] += wrong
	case wrong > 0:
		r.counts["some lost"]++
		r.counts["keys lost"] += wrong
	default:
		r.counts["all saved"]++
	}
}

var (
	nameReported = regexp.MustCompile(
		`^(?:key|elements of key|the deadline of key) ("(?:[^"\\\\]|\\\\.)*")`)
	slotReported = regexp.MustCompile(`of (slot [0-9]+ of database [0-9]+), whose names`)
	allReported  = regexp.MustCompile(
		`^(all of the|how many keys some slots|what the data file says of the last checkpoint)`)
)

func (r *repairCase) loss(l Loss) {
	if r.reported = append(r.reported, l.What); l.Kind == Note {
		return
	}
	for _, re := range []*regexp.Regexp{nameReported, slotReported} {
		if found := re.FindStringSubmatch(l.What); found != nil {
			r.named[found[1]] = true
		}
	}
	r.all = r.all || allReported.MatchString(l.What)
}

// compare counts the keys that have changed, and fails for each that Repair has not reported.
func (r *repairCase) compare() (wrong int) {
	for _, n := range r.sound.names {
		got, found, err := r.read(n)
		want, there := r.sound.want[n]
		if err != nil {
			r.t.Errorf("%.40q: %v", n.key, err)
		}
		if found == there && (!found || same(model{n: got}, model{n: want})) {
			continue
		}
		wrong++
		slot := fmt.Sprintf("slot %d of database %d", Slot([]byte(n.key)), n.db)
		named := r.named[fmt.Sprintf("%.100q", n.key)] || r.named[slot]
		switch {
		case r.all, named && r.log.Gaps > 0:
		case r.log.Gaps > 0 && !r.log.Stated(n.db, n.key):
			if !r.had(n, got, found) {
				r.t.Errorf(
					"%.40q of database %d is there %t with %.60q, deadline %d, %v; it never was so",
					n.key, n.db, found, got.data, got.deadline, got.coll)
			}
		case named && (!found || there && got.data == want.data && (got.deadline == 0 ||
			got.deadline == want.deadline) && within(got.coll, want.coll)):
		default:
			r.t.Errorf("%.40q of database %d is there %t with %.60q, deadline %d, %v; it was there %t with %.60q, deadline %d, %v, and named %t",
				n.key, n.db, found, got.data, got.deadline, got.coll, there, want.data,
				want.deadline, want.coll, named)
		}
	}
	return wrong
}

// had reports whether a key ever had the value that it has now.
func (r *repairCase) had(n name, got value, found bool) bool {
	for _, v := range r.sound.had[n] {
		m := model{}
		if v.data != "" || v.coll != nil {
			m = model{n: v}.live(r.clock.Now())
		}
		if w, there := m[n]; there == found && (!found || same(model{n: got}, model{n: w})) {
			return true
		}
	}
	return false
}

// within reports whether b has everything that a has.
func within(a, b *content) bool {
	if a == nil || b == nil {
		return a == b
	}
	has := map[string]bool{}
	for _, e := range b.elems {
		has[fmt.Sprint(e)] = true
	}
	for _, e := range a.elems {
		if !has[fmt.Sprint(e)] {
			return false
		}
	}
	return a.typ == b.typ
}
