package commands

import (
	"context"
	"errors"

	"keyp/features/leases"
	"keyp/features/outbox"
	"keyp/storage"
	"keyp/storage/object"
)

// features are the hooks of a store with all features that commands have.
type features struct {
	*outbox.Outboxes
	*leases.Leases
}

// Features makes the features that commands build on a store: for storage.Options.Hooks.
func Features(s *storage.Store) storage.Hooks {
	return &features{outbox.New(s, dump), leases.New(s)}
}

func (f *features) Start(quit context.Context) error {
	return errors.Join(f.Outboxes.Start(quit), f.Leases.Start())
}

func (f *features) Leads(t *storage.Txn) {
	f.Leases.Leads(t)
	f.Outboxes.Leads(t)
}

func (f *features) Restored(instant int64) error { return f.Leases.Restored(instant) }

func (f *features) Arriving(t *storage.Txn, k storage.Key, v object.Value) object.Value {
	return f.Leases.Arriving(t, k, v)
}
