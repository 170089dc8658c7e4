package storage_test

import (
	"keyp/storage"
	"keyp/storage/repair"
)

// init gives the tests of package storage the functions of package repair. A direct import would be
// a cycle.
func init() {
	storage.InspectDir = func(o storage.Options,
		found func(what string, harmless bool)) (storage.Inspected, error) {
		got, err := repair.Inspect(o, func(f repair.Finding) { found(f.String(), f.Harmless) })
		return storage.Inspected{Keys: got.Keys, Deadlines: got.Deadlines, Elements: got.Elements,
			Pages: got.Pages, Batches: int64(got.Log.Batches)}, err
	}
	storage.RepairDir = func(o storage.Options, to string,
		report func(storage.Loss)) (storage.RepairedLog, error) {
		got, err := repair.Repair(o, to, func(l repair.Loss) {
			report(storage.Loss{What: l.What, Kind: storage.LossKind(l.Kind)})
		})
		return storage.RepairedLog{Gaps: got.Gaps, Stated: got.Stated}, err
	}
}
