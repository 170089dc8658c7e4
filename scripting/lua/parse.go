package lua

func parse(source, name string, o *CompileOptions) (*Program, error) { panic("todo") }
