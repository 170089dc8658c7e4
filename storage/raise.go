package storage

// RaiseTo sets an atomic number to a value, unless the number is larger already. Several goroutines
// may call it at the same time.
func RaiseTo[T int64 | uint64](a interface {
	Load() T
	CompareAndSwap(old, new T) bool
}, to T) {
	for {
		if old := a.Load(); old >= to || a.CompareAndSwap(old, to) {
			return
		}
	}
}
