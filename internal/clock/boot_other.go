//go:build !linux && !darwin

package clock

// bootTime is the time since the process started: what this system has is not known to go on while
// the machine sleeps.
func bootTime() int64 { return sinceStart() }

// systemBootID: one run of the machine is not distinguished from another.
func systemBootID() string { return "" }
