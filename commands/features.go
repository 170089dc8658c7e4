package commands

import (
	"context"

	"keyp/features/leases"
	"keyp/features/outbox"
	"keyp/storage"
)

// features are the hooks of a store with all features that commands have. Each hook is that of the
// feature that has it; those that both have are methods here.
type features struct {
	*outbox.Outboxes
	*leases.Leases
}

// Features makes the features that commands build on a store: for storage.Options.Hooks.
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
