package commands

// Testing has everything that tests change in the environment of commands. Its zero value changes
// nothing.
type Testing struct {
	// OnCompile is called before each compilation of a script or a library, by the goroutine that
	// compiles.
	OnCompile func()
	// onLoop is called with what a command on the loop does that belongs to it, without being of
	// its scope; nil: nothing is.
	onLoop func(func()) bool
	// maxEmitted takes the place of the constant; 0: nothing does.
	maxEmitted int
}

func (t *Testing) compiling() {
	if t.OnCompile != nil {
		t.OnCompile()
	}
}

// emitted bounds what a script emits, in bytes.
func (t *Testing) emitted() int {
	if t.maxEmitted != 0 {
		return t.maxEmitted
	}
	return maxEmitted
}
