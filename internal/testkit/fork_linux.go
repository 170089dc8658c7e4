package testkit

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// start runs cmd so that the kernel kills it when this process dies, however that
// comes about: a test that times out ends without its cleanups.
//
// The kernel watches the thread that forked, not the process, so one thread that
// never ends does it.
func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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
