package childproc

import (
	"os"
	"time"
)

// A child process ends when its parent has ended. parentEvery is how often it checks whether the
// parent still runs.
const parentEvery = 200 * time.Millisecond

// EndWithParent ends this process soon after its parent has ended. It checks whether the process
// has got another parent.
func EndWithParent() {
	parent := os.Getppid()
	go func() {
		for range time.Tick(parentEvery) {
			if os.Getppid() != parent {
				os.Exit(1)
			}
		}
	}()
}
