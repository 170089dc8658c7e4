package commands

// Testing has everything that tests change in the environment of commands. Its zero value changes
// nothing.
type Testing struct {
	// OnCompile is called before each compilation of a script or a library, by the goroutine that
	// compiles.
	OnCompile func()
	// onLoop is called with the parts of a command that belong to the loop but not to the
	// command's scope. nil means that they run directly.
	onLoop func(func()) bool
	// maxEmitted replaces the constant unless it is 0.
	maxEmitted int
}

func (t *Testing) compiling() {
	if t.OnCompile != nil {
		t.OnCompile()
	}
}

// emitted returns the bound for the effects that a script emits, in bytes.
func (t *Testing) emitted() int {
	if t.maxEmitted != 0 {
		return t.maxEmitted
	}
	return maxEmitted
}
