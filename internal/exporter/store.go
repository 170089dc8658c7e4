package exporter

import (
	"bytes"
	"context"
	"fmt"

	"keyp/commands"
	"keyp/features/outbox"
	"keyp/storage"
	"keyp/storage/object"
)

// This file reads all keys of a data directory that no server uses.

const (
	// storeBatch is how many names are read at a time.
	storeBatch = 256
	// trimBytes is how many bytes of memory the visited keys may take until Trim is called.
	trimBytes = 16 << 20
)

// Store is a store that nobody else uses, without background work.
type Store struct{ *storage.Store }

// Size implements Source.
func (s Store) Size() (n int64, _ error) {
	for db := range s.Databases() {
		keys, _ := s.Count(db)
		n += int64(keys)
	}
	return n, nil
}

// Libraries implements Source.
func (s Store) Libraries() ([]string, error) { return commands.Libraries(s.Store) }

// Rules implements Source.
func (s Store) Rules() (rules []Rule, err error) {
	policies, err := commands.PolicyNames(s.Store)
	if err != nil {
		return nil, err
	}
	for _, name := range policies {
		rules = append(rules, Rule{What: "policies", Name: name})
	}
	outboxes, err := outbox.Names(s.Store)
	for _, name := range outboxes {
		rules = append(rules, Rule{What: "outboxes", Name: name})
	}
	return rules, err
}

// Each implements Source.
func (s Store) Each(ctx context.Context, visit func(*Key) error) error {
	txn, size := s.NewTxn(), 0
	for db := range s.Databases() {
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			var names [][]byte
			next, err := s.Scan(db, cursor, storeBatch, func(name []byte, _ object.Type) {
				names = append(names, bytes.Clone(name))
			})
			if err != nil {
				return err
			}
			for _, name := range names {
				n, err := s.visit(txn, db, name, visit)
				if err != nil {
					return err
				}
				if size += n; size >= trimBytes {
					s.Trim()
					size = 0
				}
			}
			cursor = next
		}
	}
	return nil
}

// visit visits a key unless the key has expired. It returns how many bytes of memory the key takes.
func (s Store) visit(txn *storage.Txn, db int, name []byte,
	visit func(*Key) error) (size int, err error) {
	k := s.Key(db, name)
	if err := s.BeginBeside(txn, []storage.Key{k}); err != nil {
		return 0, err
	}
	item, ok := txn.Peek(k)
	if !ok {
		txn.End()
		return 0, nil
	}
	payload, aged, err := commands.Export(item)
	deadline, size := item.Deadline(), item.Memory()
	txn.End()
	if err != nil {
		return 0, fmt.Errorf("key %.100q: %w", name, err)
	}
	return size, visit(&Key{DB: db, Name: name, Deadline: deadline, Payload: payload, Aged: aged})
}
