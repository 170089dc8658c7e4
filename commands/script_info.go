package commands

// infoScripts writes the fields about scripts of INFO's memory section.
func infoScripts(c *Ctx, b *infoText) {
	scripts := &c.Env.Scripts
	n, sources, _ := scripts.sizes()
	vm := scripts.engine.Memory()
	b.bytes("used_memory_lua", vm)
	b.int("used_memory_vm_eval", vm)
	b.int("used_memory_scripts_eval", sources)
	b.int("number_of_cached_scripts", int64(n))
	libraries, functions, bytes := scripts.functions.sizes()
	libraryVM := scripts.functions.memory()
	b.int("number_of_functions", int64(functions))
	b.int("number_of_libraries", int64(libraries))
	b.int("used_memory_vm_functions", libraryVM)
	b.bytes("used_memory_vm_total", vm+libraryVM)
	b.int("used_memory_functions", bytes)
	b.bytes("used_memory_scripts", sources+bytes)
}
