package commands

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// TestReplyDiskFull: SAVE returns an error that says so if the disk is full.
func TestReplyDiskFull(t *testing.T) {
	h := newHarness(t)
	h.ctx.Spec = &Spec{}
	h.ctx.reply(fmt.Errorf("a checkpoint: %w", syscall.ENOSPC))
	if got := string(h.ctx.Out.Buf); !strings.Contains(got, "no room on disk") {
		t.Errorf("the reply is %q", got)
	}
}
