package commands

import "keyp/storage"

// writeMany deletes the command's keys, or gives them values, as a job that gathers them first, if may allows that: it
// is given how many of the keys there are. That is what writeMany gives.
func (c *Ctx) writeMany(values [][]byte, ev storage.Event, see func(i int, item storage.Item, live bool), may func(live int64) bool) (live int64, err error) {
	m := c.Env.Store.NewMany(c.Keys, values)
	err = c.gather(c.Env.Store.BeginMany, m.Each(), false, func(i int, item storage.Item, ok bool, _ int64) {
		see(m.See(i, item, ok), item, ok)
	}, func(t *storage.Txn) {
		if live = m.Live(); !may(live) {
			return
		}
		t.By = c.Client.ID
		t.Install(m, ev)
		c.Env.Tracking.ranIn(c, t)
	})
	return live, err
}

// deleteMany is deleteKeys for very many keys.
func deleteMany(c *Ctx, lazy func(storage.Item) bool) error {
	counts := make([]bool, len(c.Keys)) // as lazy
	n, err := c.writeMany(nil, storage.Deleted, func(i int, item storage.Item, live bool) {
		counts[i] = live && lazy(item)
	}, func(live int64) bool { return live > 0 })
	if err != nil {
		return err
	}
	for _, is := range counts {
		if is {
			c.Env.Stats.LazyFreed.Add(1)
		}
	}
	c.Out.Int(n)
	return nil
}

// storeMany is storeAll for very many keys, if may allows that: it is given how many of them there are. That is what
// storeMany gives.
func (c *Ctx) storeMany(may func(live int64) bool) (live int64, err error) {
	values := make([][]byte, len(c.Keys))
	for i := range values {
		values[i] = c.Arg(2*i + 2)
	}
	governed := false
	live, err = c.writeMany(values, eventSet, func(int, storage.Item, bool) {}, func(live int64) bool {
		governed = c.Env.Store.Governed()
		return !governed && may(live)
	})
	if governed {
		return 0, errBlocked // the first policy came meanwhile: the call is dispatched again, and is no job then
	}
	return live, err
}
