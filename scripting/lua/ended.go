package lua

// ended is the place where a killed program was.
type ended struct {
	source string
	line   int
}

// EndedAt returns where the program was when a kill ended it, in the form of Place. ok is false if
// no kill has ended a program.
func (L *State) EndedAt() (source string, line int, ok bool) {
	return L.ended.source, L.ended.line, L.ended.line > 0
}

// noteEnd remembers the innermost Lua function that runs.
func (L *State) noteEnd() {
	for i := len(L.running.frames) - 1; i > 0; i-- {
		if f := &L.running.frames[i]; f.fn != nil && f.fn.proto != nil {
			L.ended = ended{f.fn.proto.program.name, f.fn.proto.line(max(f.pc-1, 0))}
			return
		}
	}
}
