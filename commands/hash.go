package commands

import (
	"slices"

	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// hashCommands are the commands of hashes. Each kind of command has a file. They treat a missing or
// expired key as an empty hash. A field whose deadline has passed counts as missing. If the key has
// another type, they return ErrWrongType; HIMPORT SET replaces any value instead.
var hashCommands = slices.Concat(hashSetCommands, hashReadCommands, hashCounterCommands,
	hashRandomCommands, hashDeadlineCommands, hashGetExCommands, himportCommands)

var hashSetCommands = []Spec{
	{
		Name: "HSET", Group: HashGroup, Since: "2.0.0",
		Summary:    "Sets fields of a hash, which lose their deadlines, and replies how many are new.",
		Complexity: "O(N) in the number of fields set.",
		History:    [][2]string{{"4.0.0", "Accepts multiple `field` and `value` arguments."}},
		Arity:      -4, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: hashSetArgs,
		Run:  setFields(func(c *Ctx, created int64) { c.Out.Int(created) }),
	},
	{
		Name: "HMSET", Group: HashGroup, Since: "2.0.0",
		Summary:    "Sets fields of a hash, as HSET does, and replies OK.",
		Complexity: "O(N) in the number of fields set.",
		Arity:      -4, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: hashSetArgs,
		Run:  setFields(func(c *Ctx, _ int64) { c.Out.OK() }),
	},
	{
		Name: "HSETNX", Group: HashGroup, Since: "2.0.0",
		Summary:    "Sets a field of a hash that does not exist yet.",
		Complexity: "O(1)",
		Arity:      4, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Insert)},
		Args: []Arg{keyArg("key"), stringArg("field"), stringArg("value")},
		Run:  changing((*storage.Txn).Hash, setNewField),
	},
	{
		Name: "HDEL", Group: HashGroup, Since: "2.0.0",
		Summary:    "Deletes fields of a hash, which is deleted with its last one, and replies how many there were.",
		Complexity: "O(N) in the number of fields named.",
		History:    [][2]string{{"2.4.0", "Accepts multiple `field` arguments."}},
		Arity:      -3, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Delete)},
		Args: []Arg{keyArg("key"), stringArg("field").many()},
		Run: changing((*storage.Txn).Hash, func(c *Ctx, h storage.Hash) error {
			return c.countChanges(h.Delete, eventHDel)
		}),
	},
}

var hashSetArgs = []Arg{keyArg("key"), block("data", stringArg("field"), stringArg("value")).many()}

var (
	eventHSet = hashEvent("hset")
	eventHDel = hashEvent("hdel")
)

func hashEvent(name string) storage.Event {
	return storage.Event{Class: storage.EventHash, Name: name}
}

// readHash opens a hash for a command that reads; it is empty for a missing or expired
// key.
func (c *Ctx) readHash(k storage.Key) (*object.Hash, error) {
	h, err := c.Txn.Hash(k)
	c.count(k, err != nil || h.Exists())
	return h.Value(), err
}

// notifyPairs raises an event about fields. pairs has fields and values in turn.
func (c *Ctx) notifyPairs(k storage.Key, ev storage.Event, pairs [][]byte) {
	var fields [][]byte
	for i := 0; i < len(pairs) && c.Txn.HearsFields(ev); i += 2 {
		fields = append(fields, pairs[i])
	}
	c.Txn.NotifyFields(k, ev, fields...)
}

// setFields returns the handler of HSET or HMSET. The two differ only in reply.
func setFields(reply func(c *Ctx, created int64)) func(*Ctx) error {
	return func(c *Ctx) error {
		pairs := c.Args[2:]
		if len(pairs)%2 != 0 {
			return errArity(c.Spec.full)
		}
		h, err := c.Txn.Hash(c.Keys[0])
		if err != nil {
			return err
		}
		h.Reserve(len(pairs) / 2)
		created := int64(0)
		for i := 0; i < len(pairs); i += 2 {
			if h.Set(pairs[i], pairs[i+1], ttl.Deadline{}) {
				created++
			}
		}
		c.notifyPairs(c.Keys[0], eventHSet, pairs)
		reply(c, created)
		return nil
	}
}

func setNewField(c *Ctx, h storage.Hash) error {
	_, _, exists := h.Value().Get(c.Arg(2))
	if !exists {
		h.Set(c.Arg(2), c.Arg(3), ttl.Deadline{})
		c.Txn.NotifyFields(c.Keys[0], eventHSet, c.Arg(2))
	}
	c.bit(!exists)
	return nil
}
