package commands

import (
	"context"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

// TestBackupPlace: only one client at a time makes a backup. Another one may begin when the first
// has read everything, or has been idle for long. It may not while a command of the first runs.
func TestBackupPlace(t *testing.T) {
	var bs backups
	ctx, first, err := bs.take(1, "one:1", 0)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(now time.Duration) {
		t.Helper()
		if _, _, err := bs.take(2, "two:2", now); err == nil ||
			!strings.Contains(err.Error(), "by client 1 at one:1") {
			t.Errorf("at %v: %v", now, err)
		}
	}
	refused(10 * backupPatience) // it begins
	first.asked.Store(int64(time.Minute))
	refused(time.Minute + backupPatience - 1)
	if _, _, err := bs.take(1, "one:1", 10*backupPatience); err != errBackupHere {
		t.Errorf("the same client: %v", err)
	}
	go func() {
		<-ctx.Done() // as sendBackup
		close(first.ended)
		bs.drop(first)
	}()
	_, second, err := bs.take(2, "two:2", time.Minute+backupPatience)
	if err != nil || ctx.Err() == nil || bs.of(1) != nil || bs.of(2) != second {
		t.Fatalf("%v: the first one's context is %v", err, ctx.Err())
	}
	second.read.Store(true)
	close(second.ended)
	if _, third, err := bs.take(3, "three:3", 0); err != nil || bs.of(3) != third ||
		bs.of(2) != nil {
		t.Errorf("behind one that was read: %v", err)
	}
}

// TestBackupResume: when a connection ends, its backup waits for another connection that resumes
// it. It ends when somebody begins a new backup, or after some time. The next piece is the last one
// that was read, or the one after it.
func TestBackupResume(t *testing.T) {
	var bs backups
	begin := func(client uint64) (context.Context, *backup) {
		t.Helper()
		ctx, b, err := bs.take(client, "one:1", 0)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-ctx.Done() // as sendBackup
			close(b.ended)
			bs.drop(b)
		}()
		b.asked.Store(0)
		b.pieces, b.size = 3, 10
		return ctx, b
	}
	ctx, b := begin(1)
	bs.gone(1)
	if bs.of(1) != nil || ctx.Err() != nil {
		t.Errorf("its connection has ended, and it is that one's; its context is %v", ctx.Err())
	}
	b.asked.Store(busy)
	if err := bs.resume(b.id, 3, 2, "two:2", 0); err != errBackupBusy {
		t.Errorf("while a piece is read: %v", err)
	}
	b.asked.Store(0)
	for piece, want := range map[int64]bool{1: false, 2: true, 3: true, 4: false} {
		client := uint64(10 + piece)
		if err := bs.resume(b.id, piece, client, "ten:10", 0); (err == nil) != want {
			t.Errorf("piece %d: %v", piece, err)
		}
		if want && (bs.of(client) != b || b.again != (piece == 2) || b.lost != nil) {
			t.Errorf("piece %d: again is %t", piece, b.again)
		}
	}
	if err := bs.resume(b.id+"x", 3, 2, "two:2", 0); err != errBackupGone {
		t.Errorf("another one: %v", err)
	}

	bs.gone(b.client)
	second, b2 := begin(4)
	if ctx.Err() == nil || second.Err() != nil {
		t.Errorf("behind another BEGIN the contexts are %v and %v", ctx.Err(), second.Err())
	}
	if err := bs.resume(b.id, 3, 2, "two:2", 0); err != errBackupGone {
		t.Errorf("one whose place is another one's: %v", err)
	}
	bs.gone(4)
	b2.lost.Reset(0)
	await.For(t, "its time is over", second.Done())
	await.For(t, "it ends", b2.ended)
	bs.drop(b2)
	if err := bs.resume(b2.id, 3, 2, "two:2", 0); err != errBackupGone {
		t.Errorf("one that has waited for too long: %v", err)
	}
}
