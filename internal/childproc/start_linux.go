package childproc

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Start does what cmd.Start does. The kernel kills the process when this one ends.
//
// The kernel watches the thread that forked, not the process. So one thread that never ends starts
// all processes.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	done := make(chan error, 1)
	forks() <- func() { done <- cmd.Start() }
	return <-done
}

var forks = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for fork := range work {
			fork()
		}
	}()
	return work
})
