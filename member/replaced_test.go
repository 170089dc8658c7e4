package member

import (
	"testing"

	_ "keyp/internal/testkit/setup"
)

// A leader's journal has the batches that are proposed to the group. If the leader is deposed, some
// of them may be replaced by those of the new leader. leading returns the journal of a leader, and
// a function that makes proposals for it.
func leading(t *testing.T, first uint64) (j *journal, propose func() uint64) {
	t.Helper()
	j = newJournal(&Member{})
	j.lead(1)
	next := first
	return j, func() uint64 {
		t.Helper()
		lsn := j.Append([]byte("batch"))
		p := j.begin()
		if p.data == nil {
			t.Fatal("nothing is to be proposed")
		}
		if j.proposed(p, next, nil).data != nil {
			t.Fatal("more is to be proposed")
		}
		next++
		return lsn
	}
}

// TestReplaced: another leader commits entries with the same indexes as a deposed leader's entries.
// That does not make the deposed leader's batches durable. follow reports the loss, whenever the
// commit index comes.
func TestReplaced(t *testing.T) {
	j, propose := leading(t, 5)
	first := propose()
	propose()
	j.advance(5)
	j.depose(1)
	if !j.replaced(6) {
		t.Error("a batch was replaced, and is not lost")
	}
	j.advance(9) // before this member has become a follower
	if got := j.Durable(); got != first {
		t.Errorf("the log is durable up to %d, want %d", got, first)
	}
	if lost, _ := j.follow(); !lost {
		t.Error("what was replaced is not lost")
	}
}

// TestReplacedWhileProposed does the same for an entry that is being proposed.
func TestReplacedWhileProposed(t *testing.T) {
	j, propose := leading(t, 5)
	first := propose()
	j.Append([]byte("batch"))
	p := j.begin()
	j.advance(5)
	j.depose(1)
	if j.replaced(6) {
		t.Error("something is lost that is not noted yet")
	}
	j.advance(6)
	j.proposed(p, 6, nil)
	j.advance(7)
	if got := j.Durable(); got != first {
		t.Errorf("the log is durable up to %d, want %d", got, first)
	}
	if lost, _ := j.follow(); !lost {
		t.Error("what was replaced is not lost")
	}
}

// TestNotReplaced: if another leader replaces only later entries than this member's, this member's
// entries are not lost.
func TestNotReplaced(t *testing.T) {
	j, propose := leading(t, 5)
	propose()
	last := propose()
	j.depose(1)
	if j.replaced(7) {
		t.Error("nothing that was run is replaced, and something is lost")
	}
	if lost, entry := j.follow(); lost || entry != 6 {
		t.Errorf("lost: %t; the last entry is %d", lost, entry)
	}
	j.advance(6)
	if got := j.Durable(); got != last {
		t.Errorf("the log is durable up to %d, want %d", got, last)
	}
}
