package commands

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// A command that finds no room on disk says so.
func TestReplyDiskFull(t *testing.T) {
	h := newHarness(t)
	h.ctx.Spec = &Spec{}
	h.ctx.reply(fmt.Errorf("a checkpoint: %w", syscall.ENOSPC))
	if got := string(h.ctx.Out.Buf); !strings.HasPrefix(got, "-MISCONF ") {
		t.Errorf("the reply is %q", got)
	}
}
