package storage

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyp/internal/clock"
)

// TestRepair damages a directory in one place, as TestCorruption does, repairs it, and compares:
// what the damage has not hit is there as it was, what is not there was told, the new directory
// is sound, and the old one is as it was. KEYP_CORRUPT is the number of cases.
func TestRepair(t *testing.T) {
	runDamage(t, 40, 5, 30, []string{"all saved", "some lost", "log cut"}, func(c *corruptCase, base string) string {
		r := repairCase{corruptCase: *c}
		r.run(filepath.Join(base, "repaired"))
		return fmt.Sprintf("%s; told was %v", r.damage, r.told)
	})
}

type repairCase struct {
	corruptCase
	told         []string
	losses, logs int
}

// mostKeys is more than damage of one page of the data file can cost.
const mostKeys = 200

func (r *repairCase) run(to string) {
	r.copy()
	r.harm()
	before := sums(r.t, r.dir)
	if err := os.RemoveAll(to); err != nil {
		r.t.Fatal(err)
	}
	r.clock = clock.NewFake(corruptNow)
	o := Options{Dir: r.dir, Clock: r.clock, Logger: slog.New(slog.DiscardHandler), Databases: 3, Shards: 4, SegmentSize: 32 << 10, InitialMmap: 1 << 22}
	if _, err := Repair(o, to, r.tell); err != nil {
		r.t.Errorf("Repair gave %v", err)
		return
	}
	if !maps.Equal(before, sums(r.t, r.dir)) {
		r.t.Error("the damaged directory was changed")
	}
	var err error
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
	switch {
	case wrong > 0 && r.losses == 0:
		r.t.Errorf("%d keys are not as they were, and no loss was told", wrong)
	case wrong > mostKeys && r.logs == 0:
		r.t.Errorf("%d keys are not as they were", wrong)
	case r.logs > 0:
		r.counts["log cut"]++
	case wrong > 0:
		r.counts["some lost"]++
		r.counts["keys lost"] += wrong
	default:
		r.counts["all saved"]++
	}
}

func (r *repairCase) tell(l Loss) {
	if r.told = append(r.told, l.What); l.Note {
		return
	}
	r.losses++
	if strings.Contains(l.What, "the log") && !strings.Contains(l.What, "unless the log") || strings.Contains(l.What, "last checkpoint") {
		r.logs++
	}
}

// compare counts the keys that are not as they were. With all of the log applied, none may
// have a value that it never had.
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
		if r.logs > 0 || !found {
			continue
		}
		if !there || got.data != want.data || got.deadline != 0 && got.deadline != want.deadline || !within(got.coll, want.coll) {
			r.t.Errorf("%.40q of database %d is %.60q, deadline %d, %v; it was %.60q, deadline %d, %v", n.key, n.db, got.data, got.deadline, got.coll, want.data, want.deadline, want.coll)
		}
	}
	return wrong
}

// within says whether a has nothing that b has not.
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
