//go:build !linux

package testkit

import "os/exec"

func start(cmd *exec.Cmd) error { return cmd.Start() }
