package vfs

// Slow returns base with pause before every sync of a file, for measurements of a slow
// disk. It is called from several goroutines at once, and should block its thread as
// the system call does that it stands for.
func Slow(base FS, pause func()) FS {
	return Inject(base, func(op Op, _ string, _ int64, _ int) error {
		if op == OpSync {
			pause()
		}
		return nil
	})
}
