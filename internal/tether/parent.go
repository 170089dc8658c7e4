package tether

import (
	"os"
	"time"
)

// parentEvery is how often the parent is looked at.
const parentEvery = 200 * time.Millisecond

// EndWithParent has this process end soon after its parent has: a process whose parent is
// killed belongs to another one from then on, and nobody waits for it.
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
