//go:build !linux

package childproc

import "os/exec"

// Start is cmd.Start: this system cannot be asked to kill a process with its parent.
func Start(cmd *exec.Cmd) error { return cmd.Start() }
