package lua

// seams holds the hooks for tests in a State. Its zero value is that of a server.
type seams struct {
	onNoMemory func() // called before "not enough memory" is raised
	onLook     func() // see OnLook
}

func (s *seams) noMemory() {
	if s.onNoMemory != nil {
		s.onNoMemory()
	}
}

// OnLook lets tests count how often long work polls for a kill: each poll calls f, and no kill ends
// a program. nil restores the normal behavior.
func (L *State) OnLook(f func()) {
	L.seams.onLook = f
	L.interrupted.Store(f != nil)
}
