package storage

import (
	"bytes"
	"errors"
	"testing"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/wal"
	"keyp/ttl"
)

// memberHarness returns a harness for the store of a group's member. A member's log is that of
// package consensus; here a simple log stands for it, that of a server without a group. It records
// the log position with which the store opens the log. It fails if records before that position are
// replayed.
func memberHarness(t testing.TB) (h *harness, opened *LogPosition) {
	h, opened = closedHarness(t), &LogPosition{}
	h.member = true
	h.openLog = func(o wal.Options, from LogPosition,
		replay func(uint64, []byte) error) (Journal, error) {
		*opened = from
		log, err := openAlone(o, from, func(lsn uint64, batch []byte) error {
			if lsn <= from.Position && len(batch) > 0 { // and not the head of the segment
				h.t.Fatalf("the batch that ends at %d is replayed, and the data file has everything up to %d",
					lsn, from.Position)
			}
			return replay(lsn, batch)
		})
		if err != nil {
			return nil, err
		}
		return &membersLog{log, h}, nil
	}
	return h, opened
}

// membersLog is a log that must name everything that expires.
type membersLog struct {
	Journal
	h *harness
}

func (l *membersLog) Append(batch []byte) uint64 {
	l.named(batch)
	return l.Journal.Append(batch)
}

func (l *membersLog) AppendKeeping(pieces [][]byte) uint64 {
	l.named(bytes.Join(pieces, nil))
	return l.Journal.AppendKeeping(pieces)
}

func (l *membersLog) named(batch []byte) {
	for f := (format.Fields{Rest: batch}); len(f.Rest) > 0; {
		if r := format.ReadRecord(&f); f.Bad || r.Tag == format.RecReaped {
			l.h.t.Fatalf("a member's log gets the record %+v (unreadable: %t)", r, f.Bad)
		}
	}
}

// TestMemberPlace: the state in the data file has the position from which a member's log is needed.
func TestMemberPlace(t *testing.T) {
	h, opened := memberHarness(t)
	h.open()
	if *opened != (LogPosition{}) {
		t.Errorf("a new directory's log begins at %+v", *opened)
	}
	set := func(key string) {
		k := h.s.Key(0, []byte(key))
		h.model[name{0, key}] = value{data: key}
		h.do(func(x *Txn) { x.SetString(k, []byte(key), ttl.Deadline{}, eventSet) }, k)
	}
	set("a")
	h.commit()
	mark := uint64(0)
	// Writes during the checkpoint come after its mark in the log.
	h.s.options.Testing.OnStep = only(datafile.StepWrite, func() error {
		if mark == 0 {
			mark = h.s.Log().End()
			set("b")
		}
		return nil
	})
	h.saved()
	h.s.options.Testing.OnStep = nil
	h.commit()
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
	h.open()
	if opened.Position != mark || opened.Segment < 2 {
		t.Errorf("the log is opened at %+v, and the checkpoint began at %d", *opened, mark)
	}
	names := map[name]bool{{0, "a"}: true, {0, "b"}: true}
	h.verify(names)
	if err := h.s.Close(true); err != nil {
		t.Fatal(err)
	}
	h.member, h.openLog = false, nil
	if err := h.tryOpen(); !errors.Is(err, ErrMember) {
		t.Errorf("a server that is alone opens a member's directory: %v", err)
	}
}

// TestMemberUnfinishedCheckpoint: a checkpoint stops between the rotation of the log and the new
// state of the data file. The state keeps the position of the checkpoint before, and the log has
// everything from there on. The next checkpoint, in the same store or after a restart, records the
// position at which it begins.
func TestMemberUnfinishedCheckpoint(t *testing.T) {
	h, opened := memberHarness(t)
	h.open()
	names := map[name]bool{}
	set := func(key string) {
		k := h.s.Key(0, []byte(key))
		names[name{0, key}], h.model[name{0, key}] = true, value{data: key}
		h.do(func(x *Txn) { x.SetString(k, []byte(key), ttl.Deadline{}, eventSet) }, k)
	}
	restart := func() LogPosition {
		t.Helper()
		if err := h.s.Close(false); err != nil {
			t.Fatal(err)
		}
		h.open()
		h.verify(names)
		return *opened
	}
	set("a")
	mark := h.s.Log().End()
	h.saved()
	h.commit()
	if at := restart(); at.Position < mark {
		t.Fatalf("after a checkpoint at %d the log is opened at %+v", mark, at)
	}
	place := *opened
	for failures := 1; failures <= 3; failures++ {
		// The checkpoint fails before the keys are written, then before the state is written. The
		// third time it fails before the keys again, and the store goes on.
		set(string(rune('a' + failures)))
		h.commit()
		writes := 0
		h.s.options.Testing.OnStep = only(datafile.StepWrite, func() error {
			if writes++; failures != 2 || writes == 2 {
				return ErrDeposed // the error that does not end the store
			}
			return nil
		})
		if err := h.s.Checkpoint(); !errors.Is(err, ErrDeposed) {
			t.Fatalf("the checkpoint: %v", err)
		}
		h.s.options.Testing.OnStep = nil
		set("between")
		h.commit()
		if failures == 3 {
			break
		}
		if at := restart(); at != place {
			t.Fatalf("after an unfinished checkpoint the log is opened at %+v instead of %+v", at,
				place)
		}
	}
	mark = h.s.Log().End()
	h.saved()
	set("last")
	h.commit()
	if at := restart(); at.Position < mark || at.Segment <= place.Segment {
		t.Errorf("after a checkpoint at %d the log is opened at %+v", mark, at)
	}
	if err := h.s.Close(true); err != nil {
		t.Fatal(err)
	}
	o := h.options()
	o.ReadOnly, o.FS, o.Member = true, nil, false
	if s, _, err := Open(o); !errors.Is(err, ErrMember) {
		t.Errorf("a member's directory is opened for reading, without its log: %v, %v", s != nil,
			err)
	}
}

// TestBecomeMember: the directory of a server without a group becomes a member's directory, with
// all of its data. This fails while some data is only in the log. After a crash the directory is of
// one kind or the other.
func TestBecomeMember(t *testing.T) {
	h := newHarness(t)
	k := h.s.Key(0, []byte("key"))
	names := map[name]bool{{0, "key"}: true}
	h.model[name{0, "key"}] = value{data: "value"}
	h.do(func(x *Txn) { x.SetString(k, []byte("value"), ttl.Deadline{}, eventSet) }, k)
	h.commit()
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
	at := LogPosition{Segment: 1, Position: 77}
	if err := BecomeMember(h.options(), at); err == nil {
		t.Fatal("a directory became a member's, and what is only in its log is lost")
	}
	h.open()
	seed := h.s.seed
	if err := h.s.Close(true); err != nil {
		t.Fatal(err)
	}
	h.member = true
	if err := h.tryOpen(); !errors.Is(err, ErrAlone) {
		t.Fatalf("a member opens the directory of a server that is alone: %v", err)
	}
	var opened LogPosition
	h.openLog = func(o wal.Options, from LogPosition,
		replay func(uint64, []byte) error) (Journal, error) {
		opened = from
		o.Dir += "-of-member"
		return openAlone(o, LogPosition{}, replay)
	}
	stop := errors.New("stopped")
	o := h.options()
	for _, step := range []datafile.Step{datafile.StepWrite, datafile.StepWritten} {
		o.Testing.OnStep = only(step, func() error { return stop })
		if err := BecomeMember(o, at); !errors.Is(err, stop) {
			t.Fatalf("at step %s: %v", step, err)
		}
		err := h.tryOpen()
		if step == datafile.StepWrite {
			if !errors.Is(err, ErrAlone) {
				t.Fatalf("before it is written the directory is a member's: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if opened != at {
		t.Errorf("the member's log is opened at %+v instead of %+v", opened, at)
	}
	if h.s.seed != seed {
		t.Error("the member has another seed")
	}
	h.verify(names)
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
	if err := BecomeMember(h.options(), at); !errors.Is(err, ErrMember) {
		t.Errorf("a member's directory became one again: %v", err)
	}
}

// TestStateOfMember: a state has the data of a member only if the directory belongs to one.
func TestStateOfMember(t *testing.T) {
	st := format.State{First: 3, Shards: 4, Spaces: []uint32{1}, Time: 9}
	alone := st.Append(nil)
	for _, position := range []uint64{0, 1 << 40} {
		st.Member, st.Position = true, position
		got, err := format.ParseState(st.Append(nil))
		if err != nil || !got.Member || got.Position != position || got.Time != 9 {
			t.Errorf("with position %d: %+v, %v", position, got, err)
		}
	}
	for cut, want := range map[int]int64{0: 9, 1: 9, 2: 0} {
		// Without the flags and the time, the bytes are a state of an older format.
		if got, err := format.ParseState(alone[:len(alone)-cut]); err != nil || got.Member ||
			got.Position != 0 || got.Time != want {
			t.Errorf("without %d bytes: %+v, %v", cut, got, err)
		}
	}
	for _, more := range [][]byte{{4, 0}, {1}, {1, 0, 0}, {2, 0}} {
		if got, err := format.ParseState(append(alone[:len(alone)-1:len(alone)-1],
			more...)); err == nil {
			t.Errorf("with %v behind it a state is %+v", more, got)
		}
	}
}

// TestFollowerCheckpointsApplied: a follower's log may have a batch that the follower has not
// applied yet. A checkpoint then needs the log from before that batch on.
func TestFollowerCheckpointsApplied(t *testing.T) {
	leader, _ := memberHarness(t)
	var batches [][]byte
	open := leader.openLog
	leader.openLog = func(o wal.Options, from LogPosition,
		replay func(uint64, []byte) error) (Journal, error) {
		log, err := open(o, from, replay)
		return &recordingLog{log, &batches}, err
	}
	leader.open()
	for _, key := range []string{"a", "b"} {
		leader.puts(0, key, key, 0)
	}
	list := batches[len(batches)-2:] // before them is the time
	if err := leader.s.Close(false); err != nil {
		t.Fatal(err)
	}

	h, opened := memberHarness(t)
	h.follower = true
	h.open()
	mirror := h.s.Mirror()
	var ends []uint64
	apply := func(i int) {
		if err := mirror.Apply(ends[i], list[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, batch := range list {
		ends = append(ends, h.s.Log().Append(batch))
	}
	apply(0)
	if err := h.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	apply(1)
	h.commit()
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
	h.open()
	if opened.Position != ends[0] {
		t.Errorf("the log is opened at %+v, and the checkpoint had everything up to %d", *opened,
			ends[0])
	}
	_ = h.s.Close(false)
}

// recordingLog records the batches that are appended.
type recordingLog struct {
	Journal
	batches *[][]byte
}

func (l *recordingLog) Append(batch []byte) uint64 {
	*l.batches = append(*l.batches, bytes.Clone(batch))
	return l.Journal.Append(batch)
}
