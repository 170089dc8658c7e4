package lua

// seams is what tests change in a State, in one place. Its zero value is that of a server.
type seams struct {
	onNoMemory func() // called before "not enough memory" is raised
	onLook     func() // see OnLook
}

func (s *seams) noMemory() {
	if s.onNoMemory != nil {
		s.onNoMemory()
	}
}

// OnLook sets f, which is called whenever a builtin looks whether it is to end, and none ends; nil
// undoes that. With it tests count how often long work looks.
func (L *State) OnLook(f func()) {
	L.seams.onLook = f
	L.interrupted.Store(f != nil)
}
