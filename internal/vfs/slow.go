package vfs

// Slow returns base with a call of pause before every sync of a file, to simulate a slow disk.
// Several goroutines may call pause at once. It should block its thread, as a real sync does.
func Slow(base FS, pause func()) FS {
	return Inject(base, func(op Op, _ string, _ int64, _ int) error {
		if op == OpSync {
			pause()
		}
		return nil
	})
}
