package lua

// seams contains the test hooks of a State. A server uses the zero value.
type seams struct {
	onNoMemory func() // called before "not enough memory" is raised
	onLook     func() // see OnLook
}

func (s *seams) noMemory() {
	if s.onNoMemory != nil {
		s.onNoMemory()
	}
}

// OnLook makes each poll of long work for a kill call f, so that tests can count the polls. No kill
// ends a program then. nil restores the normal behavior.
func (L *State) OnLook(f func()) {
	L.seams.onLook = f
	L.interrupted.Store(f != nil)
}
