package childproc

import (
	"os"
	"time"
)

// parentEvery is the time between two looks at the parent.
const parentEvery = 200 * time.Millisecond

// EndWithParent ends this process soon after its parent has ended: a process whose parent is
// killed gets another parent, which does not wait for it.
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
