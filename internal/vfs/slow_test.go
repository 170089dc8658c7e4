package vfs

import "testing"

// TestSlow: each sync pauses once, before it happens. No other operation pauses.
func TestSlow(t *testing.T) {
	base := NewMem()
	pauses := 0
	slow := Slow(base, func() { pauses++ })
	f, err := slow.Create("/f")
	must(t, err)
	write(t, f, 0, "text")
	must(t, slow.SyncDir("/"))
	if pauses != 0 {
		t.Fatalf("%d pauses before any sync of a file", pauses)
	}
	for want := 1; want <= 3; want++ {
		must(t, f.Sync())
		if pauses != want {
			t.Fatalf("%d pauses after %d syncs", pauses, want)
		}
	}
	must(t, f.Close())
	again, err := slow.Open("/f")
	must(t, err)
	must(t, again.Sync())
	if pauses != 4 {
		t.Fatalf("%d pauses after the sync of a file that was opened, want 4", pauses)
	}
	if got := content(t, base, "/f"); got != "text" {
		t.Fatalf("the file below holds %q", got)
	}
}
