package commands

import (
	"slices"

	"keyp/storage"
)

// keyCommands are the commands that work on keys of any type. Each kind of command has a file.
var keyCommands = slices.Concat(existenceCommands, renameCommands, scanCommands, flushCommands,
	objectCommands, dumpCommands, migrateCommands, sortCommands)

var existenceCommands = []Spec{
	severalKeysCommand("DEL", "1.0.0", "Deletes keys.",
		"O(N) in the number of keys, and in the elements of large values.", Write,
		RM|Delete, runDel),
	severalKeysCommand("UNLINK", "4.0.0",
		"Deletes keys; the memory of large values is given back later.",
		"O(1) for each key.", Write|Fast, RM|Delete, runUnlink),
	severalKeysCommand("EXISTS", "1.0.0",
		"Counts the keys that exist; one that is named twice counts twice.",
		"O(N) in the number of keys.", ReadOnly|Fast, RO,
		func(c *Ctx) error { return countKeys(c, c.peek) },
		[2]string{"3.0.3", "Accepts multiple `key` arguments."}),
	{
		Name: "TYPE", Group: Generic, Since: "1.0.0",
		Summary:    "Replies the type of a key's value, or none.",
		Complexity: "O(1)",
		Arity:      2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO)},
		Args: []Arg{keyArg("key")},
		Run:  runType,
	},
	severalKeysCommand("TOUCH", "3.2.1", "Marks keys as accessed and counts those that exist.",
		"O(N) in the number of keys.", ReadOnly|Fast, RO,
		func(c *Ctx) error { return countKeys(c, c.read) }),
}

// severalKeysCommand declares a command that replies with the number of keys that it has processed.
func severalKeysCommand(name, since, summary, complexity string, flags Flags, keys KeyFlags,
	run func(*Ctx) error, history ...[2]string) Spec {
	return Spec{
		Name: name, Group: Generic, Since: since,
		Summary:    summary,
		Complexity: complexity,
		History:    history,
		Arity:      -2, Flags: flags,
		Keys: []KeySpec{KeysFrom(1, 1, keys)},
		Args: []Arg{keyArg("key").many()},
		Tips: []string{tipMultiShard, tipSum},
		Run:  run,
	}
}

func runDel(c *Ctx) error { return deleteKeys(c, func(storage.Item) bool { return false }) }

// lazyElements is the number of elements from which Redis frees a value of UNLINK in the
// background. Only such values count as lazyfreed_objects.
const lazyElements = 65

// runUnlink deletes the keys as DEL does. Memory is freed in the background in any case.
func runUnlink(c *Ctx) error {
	return deleteKeys(c, func(item storage.Item) bool {
		return item.Value() != nil && item.Value().Len() >= lazyElements
	})
}

// deleteKeys deletes the command's keys and replies with the number of keys that existed. It counts
// those for which lazy returns true as freed lazily.
func deleteKeys(c *Ctx, lazy func(storage.Item) bool) error {
	var n int64
	for _, k := range c.EachKey {
		if item, ok := c.Txn.Peek(k); ok && lazy(item) {
			c.Env.Stats.LazyFreed.Add(1)
		}
		if c.Txn.Delete(k, storage.Deleted) {
			n++
		}
	}
	c.Out.Int(n)
	return nil
}

// countKeys replies with the number of the command's keys that look finds. look may mark accesses.
func countKeys(c *Ctx, look func(storage.Key) (storage.Item, bool)) error {
	var n int64
	for _, k := range c.EachKey {
		if _, ok := look(k); ok {
			n++
		}
	}
	c.Out.Int(n)
	return nil
}

func runType(c *Ctx) error {
	item, ok := c.peek(c.Keys[0])
	if !ok {
		c.Out.Simple("none")
		return nil
	}
	c.Out.Simple(item.Type().String())
	return nil
}
