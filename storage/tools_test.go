package storage

// storage/repair imports this package, so its tests here call it through these, which
// repair_init_test.go sets.
var (
	InspectDir func(o Options, found func(what string, harmless bool)) (Inspected, error)
	RepairDir  func(o Options, to string, report func(Loss)) (RepairedLog, error)
)

// Inspected is what repair.Inspect has counted.
type Inspected struct {
	Keys, Deadlines, Elements, Pages int64
	Batches                          int64
}

// Loss is a repair.Loss.
type Loss struct {
	What string
	Kind LossKind
}

// LossKind is a repair.LossKind.
type LossKind int

// These are those of repair.
const (
	Lost LossKind = iota
	Doubtful
	Note
)

// RepairedLog is what repair.Repair says of the log.
type RepairedLog struct {
	Gaps   int
	Stated func(db int, name string) bool
}
