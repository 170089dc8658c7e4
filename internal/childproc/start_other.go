//go:build !linux

package childproc

import "os/exec"

// Start only calls cmd.Start, because this system cannot kill a process when its parent ends.
func Start(cmd *exec.Cmd) error { return cmd.Start() }
