package childproc

import (
	"os"
	"time"
)

// parentEvery is the time between two checks of the parent.
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
