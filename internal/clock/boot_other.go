//go:build !linux && !darwin

package clock

// bootTime returns the time since the process started, in milliseconds. No clock of this system is
// known to go on while the machine sleeps.
func bootTime() int64 { return sinceStart() }

// systemBootID returns an empty string: runs of the machine are not distinguished.
func systemBootID() string { return "" }
