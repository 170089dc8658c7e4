//go:build !linux

package childproc

import "os/exec"

// Start does what cmd.Start does: this system cannot kill a process together with its parent.
func Start(cmd *exec.Cmd) error { return cmd.Start() }
