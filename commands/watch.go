package commands

import (
	"maps"
	"slices"
	"unsafe"

	"keyp/storage"
)

var watchCommands = []Spec{
	{
		Name: "WATCH", Group: Transactions, Since: "2.2.0",
		Summary:    "Has the next EXEC run only if none of the keys changed until then.",
		Complexity: "O(1) for each key.",
		Arity:      -2, Flags: NoScript | Loading | Stale | Fast | AllowBusy | Unqueued,
		Keys: []KeySpec{KeysFrom(1, 1, RO)},
		Args: []Arg{keyArg("key").many()},
		Run:  runWatch,
	},
	{
		Name: "UNWATCH", Group: Transactions, Since: "2.2.0",
		Summary:    "Forgets the keys that the connection watches.",
		Complexity: "O(N) in the number of keys that are watched.",
		Arity:      1, Flags: NoScript | Loading | Stale | Fast | AllowBusy, Scope: OnLoop,
		Run: func(c *Ctx) error { c.Env.Changes.unwatch(c.Client); c.Out.OK(); return nil },
	},
}

func runWatch(c *Ctx) error {
	if c.Client.queue != nil {
		return errWatchInMulti
	}
	for _, k := range c.EachKey {
		c.Env.Changes.watch(c.Client, c.Txn, k)
	}
	c.Out.OK()
	return nil
}

// watching contains the keys that a client watches. Changes.mu guards it.
type watching struct {
	keys  []*watch
	bytes int // of the watches
	// dirty means that one of the keys has changed. Then the others are not watched any more.
	dirty bool
}

// watch is one client's watch of one key. Changes.mu guards it.
type watch struct {
	by   *watching
	key  string
	db   int
	live bool // the key existed when the watch began
	// begun is false if the key was expired when the watch began, until the transaction that began
	// the watch ends. That transaction may remove the key, which does not count as a change.
	begun bool
}

// watchOverhead is about the memory of a watch in the tables, in bytes.
const watchOverhead = 100

// watchedKeys are the watches by database and key.
type watchedKeys map[int]map[string][]*watch

// watch begins to watch a key that txn has locked. An earlier expiry of the key is no change. If
// the client watches the key already, nothing happens.
func (c *Changes) watch(client *Client, txn *storage.Txn, k storage.Key) {
	w := c.newWatch(client, k) // before the look at the key, which may remove it
	if w == nil {
		return
	}
	_, live := txn.Peek(k)
	begun := !txn.Changed(k)
	c.mu.Lock()
	defer c.mu.Unlock()
	w.live, w.begun = live, begun // nobody has read them: txn has locked the key
}

// newWatch adds a watch. It returns nil if the watch is not needed.
func (c *Changes) newWatch(client *Client, k storage.Key) *watch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client.watching == nil {
		client.watching = &watching{}
	}
	by := client.watching
	if by.dirty || slices.ContainsFunc(c.mu.watched[k.DB][string(k.Name)], func(w *watch) bool {
		return w.by == by
	}) {
		return nil
	}
	w := &watch{by: by, key: string(k.Name), db: k.DB}
	by.keys = append(by.keys, w)
	by.bytes += int(unsafe.Sizeof(*w)) + len(w.key) + watchOverhead
	if c.mu.watched == nil {
		c.mu.watched = watchedKeys{}
	}
	c.mu.watched.add(w)
	c.listen()
	return w
}

// unwatch ends all watches of a client.
func (c *Changes) unwatch(client *Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client.watching == nil {
		return
	}
	c.mu.watched.drop(client.watching)
	client.watching = nil
	c.listen()
}

// unchanged reports whether no key that the client watches has changed. txn has locked all of them,
// so the result stays valid until the transaction ends. An error is one of the data file.
func (c *Changes) unchanged(client *Client, txn *storage.Txn) (bool, error) {
	for _, k := range c.watchedBy(client, nil) {
		if err := txn.Load(k); err != nil {
			return false, err
		}
		if txn.Peek(k); txn.Changed(k) { // it has expired
			return false, nil
		}
	}
	_, dirty := c.watches(client)
	return !dirty, nil
}

// watchedBy appends the keys that a client watches to keys.
func (c *Changes) watchedBy(client *Client, keys []storage.Key) []storage.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client.watching == nil {
		return keys
	}
	for _, w := range client.watching.keys {
		keys = append(keys, c.store.Key(w.db, []byte(w.key)))
	}
	return keys
}

// watches returns how many keys a client watches, and whether one of them has changed.
func (c *Changes) watches(client *Client) (keys int, dirty bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client.watching == nil {
		return 0, false
	}
	return len(client.watching.keys), client.watching.dirty
}

// watchMemory returns the memory of a client's watches, in bytes.
func (c *Changes) watchMemory(client *Client) int {
	if !c.anyWatched.Load() {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if client.watching == nil {
		return 0
	}
	return client.watching.bytes
}

// swapping marks the watches whose key exists in the database that replaces their own. Keys of the
// replaced database count as changed, as in FLUSHDB. txn has locked everything. An error is one of
// the data file.
func (c *Changes) swapping(txn *storage.Txn, a, b int) error {
	type watched struct {
		db   int
		name string
	}
	var appear []watched
	for db, other := range map[int]int{a: b, b: a} {
		for _, name := range c.watchedIn(db) {
			k := c.store.Key(other, []byte(name))
			if err := txn.Load(k); err != nil {
				return err
			}
			if _, ok := txn.Peek(k); ok {
				appear = append(appear, watched{db, name})
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range appear {
		c.mu.watched.markDirty(slices.Clone(c.mu.watched[w.db][w.name]))
	}
	return nil
}

// watchedIn returns the names of a database's keys that somebody watches.
func (c *Changes) watchedIn(db int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.mu.watched[db]))
}

func (ws watchedKeys) add(w *watch) {
	if ws[w.db] == nil {
		ws[w.db] = map[string][]*watch{}
	}
	ws[w.db][w.key] = append(ws[w.db][w.key], w)
}

// drop removes all watches of a client.
func (ws watchedKeys) drop(by *watching) {
	for _, w := range by.keys {
		keys := ws[w.db]
		keys[w.key] = slices.DeleteFunc(keys[w.key], func(o *watch) bool { return o == w })
		if len(keys[w.key]) == 0 {
			delete(keys, w.key)
		}
		if len(keys) == 0 {
			delete(ws, w.db)
		}
	}
	by.keys, by.bytes = nil, 0
}

// markDirty marks the clients of some watches as dirty. All their other watches end, because
// nothing else matters to these clients until EXEC.
func (ws watchedKeys) markDirty(list []*watch) {
	for _, w := range list {
		w.by.dirty = true
		ws.drop(w.by)
	}
}

// changed marks the clients that watch a key which a transaction changed. Emptying a database
// changes the keys that existed. If a watch remains, its key has not changed since the watch began.
// So the field live is still right.
func (ws watchedKeys) changed(changes []storage.Change) {
	if len(ws) == 0 {
		return
	}
	var hit, own []*watch
	for _, change := range changes {
		if change.Same {
			continue
		}
		keys := ws[change.DB]
		if change.Key != nil {
			hit = append(hit, keys[string(change.Key)]...)
			continue
		}
		for _, list := range keys {
			for _, w := range list {
				if w.live {
					hit = append(hit, w)
				}
			}
		}
	}
	hit = slices.DeleteFunc(hit, func(w *watch) bool {
		if !w.begun {
			own = append(own, w)
		}
		return !w.begun
	})
	for _, w := range own {
		w.begun = true
	}
	ws.markDirty(hit)
}
