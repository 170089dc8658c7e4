//go:build !linux

package storage

// lowerPriority does nothing where a thread has no priority of its own.
func lowerPriority() {}
