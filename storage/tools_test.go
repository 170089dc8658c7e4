package storage

// storage/repair imports this package, so the tests here call it through these variables. The file
// repair_init_test.go sets them.
var (
	InspectDir func(o Options, found func(what string, harmless bool)) (Inspected, error)
	RepairDir  func(o Options, to string, report func(Loss)) (RepairedLog, error)
)

// Inspected has the counts of repair.Inspect.
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

// These constants are those of the package repair.
const (
	Lost LossKind = iota
	Doubtful
	Note
)

// RepairedLog is the result of repair.Repair for the log.
type RepairedLog struct {
	Gaps   int
	Stated func(db int, name string) bool
}
