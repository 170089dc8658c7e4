//go:build !linux

package storage

// standBack does nothing where a thread has no priority of its own.
func standBack() {}
