package commands

import (
	"context"

	"keyp/features/leases"
	"keyp/features/outbox"
	"keyp/storage"
)

// features implements the store's hooks (storage.Hooks) for outboxes and leases. If only one of the
// two has a hook, features gets it by embedding. If both have it, a method of features calls both.
type features struct {
	*outbox.Outboxes
	*leases.Leases
}

// Features returns the hooks of a store, for storage.Options.Hooks. It creates the outboxes and
// leases of the store.
func Features(s *storage.Store) storage.Hooks {
	return &features{outbox.New(s, dump), leases.New(s)}
}

func (f *features) Start(quit context.Context) error {
	if err := f.Outboxes.Start(quit); err != nil {
		return err
	}
	return f.Leases.Start(quit)
}

func (f *features) Leads(t *storage.Txn) {
	f.Leases.Leads(t)
	f.Outboxes.Leads(t)
}
