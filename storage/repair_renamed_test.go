package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"keyp/internal/clock"
	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/ttl"
)

// TestRepairRenamed: values were renamed, and an unfinished checkpoint has written only the removal
// of the old keys, or also the new keys. Some of their elements are damaged. Repair reports the new
// key of each incomplete value. It saves a string as a whole or not at all, and the remaining
// fields of a hash.
func TestRepairRenamed(t *testing.T) {
	for written := range 4 {
		// Transactions before the checkpoint ends: 3 are about the old names, and 0 is for all.
		for _, damaged := range []string{"string", "hash", "nothing"} {
			for _, page := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d/%s/page %t", written, damaged, page), func(t *testing.T) {
					g := &gapCase{t: t}
					g.repairedRenames(written, damaged, page)
				})
			}
		}
	}
}

// TestRepairForeignPiece: a damaged bit in the id of a string's piece makes it look like a piece of
// the string with that id. That string is whole all the same.
func TestRepairForeignPiece(t *testing.T) {
	dir := t.TempDir()
	g := &gapCase{t: t}
	g.h = &harness{t: t, clock: clock.NewFake(corruptNow), model: model{}}
	g.open(filepath.Join(dir, "data"), 2)
	g.h.s.generation.Add(1 << 40) // so that nothing else in the file looks like the piece
	names, ids := []string{"a", "b", "c"}, map[string]uint64{}
	for _, n := range names {
		g.do(func(x *Txn) {
			x.SetString(g.key(n), bytes.Repeat([]byte(n), 40_000), ttl.Deadline{}, Event{})
			item, _ := x.Peek(g.key(n))
			ids[n] = item.o.id
		}, n)
	}
	want := g.content(0)
	if err := errors.Join(g.h.s.Checkpoint(), g.h.s.Close(false)); err != nil {
		t.Fatal(err)
	}
	from, to := "a", "b"
	if ids[from]^1 != ids[to] {
		from, to = "b", "c"
	}
	if ids[from]^1 != ids[to] {
		t.Fatalf("%v: no two differ in the last bit alone", ids)
	}
	path := filepath.Join(dir, "data", format.DataName)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := -1
	for n := range uint64(3) {
		piece := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, ids[from]), n)
		if at = bytes.Index(b, piece); at >= 0 && !bytes.Contains(b[at+1:], piece) {
			// Otherwise the piece is the first of its page.
			break
		}
		at = -1
	}
	if at < 0 {
		t.Fatal("no piece is there once")
	}
	b[at+7] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: filepath.Join(dir, "data"), Clock: g.h.clock,
		Logger: slog.New(slog.DiscardHandler), Databases: 2, InitialMmap: 1 << 22}
	if _, err := RepairDir(o, filepath.Join(dir, "new"), func(l Loss) {
		g.reported = append(g.reported, l)
	}); err != nil {
		t.Fatal(err)
	}
	g.open(filepath.Join(dir, "new"), 2)
	defer func() { _ = g.h.s.Close(false) }()
	g.wantReported(Lost, fmt.Sprintf("key %q of database 0", from))
	kept := slices.DeleteFunc(strings.Split(want, " "), func(line string) bool {
		return strings.HasPrefix(line, from+"=")
	})
	if got := g.content(0); got != strings.Join(kept, " ") {
		t.Errorf("there is %.60q…, %d bytes, want %d", got, len(got), len(strings.Join(kept, " ")))
	}
}

// renamedPiece is the damaged piece of the string, renamedField the damaged field of the hash.
var (
	renamedPiece = bytes.Repeat([]byte("b"), 16<<10)
	renamedField = "value of field 77 "
)

func (g *gapCase) repairedRenames(written int, damaged string, page bool) {
	dir := g.t.TempDir()
	g.h = &harness{t: g.t, clock: clock.NewFake(corruptNow), model: model{}}
	g.open(filepath.Join(dir, "data"), 2)
	from, to := g.inOrder()
	g.h.doAll(func(x *Txn) {
		x.SetString(g.key("string"+from), fmt.Appendf(nil, "%016384d%s%016384d%d", 1, renamedPiece,
			3, 4), ttl.Deadline{}, Event{})
		x.SetString(g.key("other"+from), bytes.Repeat([]byte("other"), 5000),
			ttl.Deadline{}, Event{})
		hash, _ := x.Hash(g.key("hash" + from))
		for i := range 500 {
			hash.Set(fmt.Appendf(nil, "field%03d", i), fmt.Appendf(nil, "value of field %d %s", i,
				strings.Repeat("v", 50)), ttl.Deadline{})
		}
	})
	g.h.commit()
	if err := g.h.s.Checkpoint(); err != nil {
		g.t.Fatal(err)
	}
	want := map[string]string{}
	for _, n := range []string{"string", "other", "hash"} {
		g.do(func(x *Txn) { x.Rename(g.key(n+from), g.key(n+to)) }, n+from, n+to)
	}
	for _, line := range strings.Split(g.content(0), " ") {
		name, what, _ := strings.Cut(line, "=")
		want[name] = what
	}
	g.h.s.bounds.batchBytes, g.h.s.bounds.pendingBytes = 1, 1
	g.h.s.options.Testing.OnStep = func(step datafile.Step) error {
		if step == datafile.StepWritten {
			written--
		}
		if written == 0 && step == datafile.StepWritten || step == StepPending {
			return errInterrupted
		}
		return nil
	}
	due := "due0"
	for i := 1; g.h.s.shardOf(g.key(due).Slot) == 0; i++ {
		due = fmt.Sprintf("due%d", i)
	}
	// This makes the bucket ttl change.
	g.do(func(x *Txn) {
		x.SetString(g.key(due), []byte("later"), ttl.At(corruptNow+1000), Event{})
	}, due)
	want[due] = "later"
	if err := g.h.s.checkpointInterrupted(); err != errInterrupted {
		g.t.Fatalf("the checkpoint gave %v", err)
	}
	if err := g.h.s.Close(false); err != nil {
		g.t.Fatal(err)
	}
	g.damageElement(filepath.Join(dir, "data", format.DataName),
		map[string][]byte{"string": renamedPiece, "hash": []byte(renamedField)}[damaged], page)
	o := Options{Dir: filepath.Join(dir, "data"), Clock: g.h.clock,
		Logger: slog.New(slog.DiscardHandler), Databases: 2, InitialMmap: 1 << 22}
	if _, err := RepairDir(o, filepath.Join(dir, "new"), func(l Loss) {
		g.reported = append(g.reported, l)
	}); err != nil {
		g.t.Fatal(err)
	}
	g.open(filepath.Join(dir, "new"), 2)
	g.t.Cleanup(func() { _ = g.h.s.Close(false) })
	if err := g.h.s.Check(); err != nil {
		g.t.Error(err)
	}
	g.judgeRenames(want, to, damaged)
}

// inOrder returns two suffixes of names. A checkpoint writes the keys with the first suffix in an
// earlier transaction than those with the second one.
func (g *gapCase) inOrder() (from, to string) {
	shards := func(suffix string) (first, last int) {
		first = len(g.h.s.shards)
		for _, n := range []string{"string", "other", "hash"} {
			at := g.h.s.shardOf(g.key(n + suffix).Slot)
			first, last = min(first, at), max(last, at)
		}
		return first, last
	}
	for i := 0; from == "" || to == ""; i++ {
		switch first, last := shards(fmt.Sprint(i)); {
		case last == 0:
			from = fmt.Sprint(i)
		case first > 0:
			to = fmt.Sprint(i)
		}
	}
	return from, to
}

// damageElement flips a bit of the element that contains these bytes, or fills the page of its
// entry with zeros.
func (g *gapCase) damageElement(path string, has []byte, page bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		g.t.Fatal(err)
	}
	if has == nil {
		return
	}
	at := bytes.Index(b, has)
	if at < 0 || bytes.Contains(b[at+len(has):], has) {
		g.t.Fatalf("%.20q is not there once", has)
	}
	b[at] ^= 1
	if page {
		at -= at % format.PageSize
		clear(b[at : at+format.PageSize])
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gapCase) judgeRenames(want map[string]string, to, damaged string) {
	got := map[string]string{}
	for _, line := range strings.Split(g.content(0), " ") {
		name, what, _ := strings.Cut(line, "=")
		got[name] = what
	}
	lost := 0
	for name, value := range want {
		if got[name] == value {
			continue
		}
		lost++
		has := map[string]bool{}
		for _, elem := range strings.Split(value, ",") {
			has[elem] = true
		}
		for _, elem := range strings.Split(got[name], ",") {
			if !has[elem] && elem != "" {
				g.t.Errorf("%s has %.50q, which it never had", name, elem)
			}
		}
		g.wantReported(Lost, fmt.Sprintf("key %q of database 0", name))
	}
	if same := got[damaged+to] == want[damaged+to]; damaged == "nothing" && lost > 0 ||
		damaged != "nothing" && same {
		g.t.Errorf("%d keys are not as they were; reported was %v", lost, g.reported)
	}
	for name := range got {
		if _, was := want[name]; !was {
			g.t.Errorf("%s is there, too", name)
		}
	}
}
