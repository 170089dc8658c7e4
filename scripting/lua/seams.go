package lua

// seams is what tests change in a State, in one place. Its zero value is that of a server.
type seams struct {
	onNoMemory func() // called before "not enough memory" is raised
}

func (s *seams) noMemory() {
	if s.onNoMemory != nil {
		s.onNoMemory()
	}
}
