package commands

import (
	"strings"

	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// libraryKey is the prefix of the keys of function libraries in the store's system database. The
// library's name follows it. The value is the source of the library.
const libraryKey = "function:"

// keepLibrary stores a library for restarts, as part of the command's transaction.
func (c *Ctx) keepLibrary(lib *library) error {
	k := c.Env.Store.SystemKey(libraryKey + lib.name)
	c.Txn.Use([]storage.Key{k})
	if err := c.load([]storage.Key{k}); err != nil {
		return err
	}
	c.Txn.SetString(k, []byte(lib.source), ttl.Deadline{}, storage.Event{})
	return nil
}

// forgetLibrary removes a library that keepLibrary stored.
func (c *Ctx) forgetLibrary(lib *library) error {
	k := c.Env.Store.SystemKey(libraryKey + lib.name)
	c.Txn.Use([]storage.Key{k})
	if err := c.load([]storage.Key{k}); err != nil {
		return err
	}
	c.Txn.Delete(k, storage.Event{})
	return nil
}

// loadLibraries replaces all libraries by those that keepLibrary stored. A library that no longer
// loads stays in the store, and the reason is logged.
func (e *Env) loadLibraries() {
	sources, err := Libraries(e.Store)
	if err != nil {
		e.Log.Error("libraries of functions cannot be read", "error", err)
	}
	functions := &e.Scripts.functions
	functions.set(nil)
	for _, source := range sources {
		lib, err := e.Scripts.loadLibrary(source, nil)
		var next map[string]*library
		if err == nil {
			next, err = functions.with([]*library{lib}, false)
		}
		if err != nil {
			name, _, _ := parseLibrary(source) // it was one when it was loaded
			e.Log.Error("a library of functions does not load and is left out; it stays on disk",
				"library", name, "error", err)
			continue
		}
		functions.set(next)
	}
}

// Libraries returns the sources of the libraries of functions that a store has.
func Libraries(s *storage.Store) ([]string, error) { return keptStrings(s, libraryKey) }

// keptNames returns the names in a store's system database that begin with a prefix.
func keptNames(s *storage.Store, prefix string) (names []string, err error) {
	err = s.WalkSystem(func(name []byte, _ object.Type) bool {
		if strings.HasPrefix(string(name), prefix) {
			names = append(names, string(name))
		}
		return true
	})
	return names, err
}

// keptStrings returns the values of the keys that keptNames lists.
func keptStrings(s *storage.Store, prefix string) (values []string, err error) {
	names, err := keptNames(s, prefix)
	if len(names) == 0 {
		return nil, err
	}
	txn := s.NewTxn()
	s.BeginAll(txn)
	defer txn.End()
	for _, name := range names {
		k := s.SystemKey(name)
		if err := txn.Load(k); err != nil {
			return values, err
		}
		item, ok := txn.Get(k)
		if !ok {
			continue
		}
		value, err := item.String()
		if err != nil {
			return values, err
		}
		values = append(values, string(value))
	}
	return values, err
}
