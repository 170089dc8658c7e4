package lua

func (L *State) execute(co *Coroutine) { panic("todo") }
