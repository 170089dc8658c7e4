package commands

import (
	"math"

	"keyp/storage"
	"keyp/storage/object"
)

// runXReadGroup replies with null if no stream has entries for the consumer. Even then it creates
// the consumer, and sets the time at which the consumer was last seen. A waiting command that runs
// again and finds no entries does not set that time.
func runXReadGroup(c *Ctx) error {
	r := streamRead{inGroup: true}
	if err := r.parse(c); err != nil {
		return err
	}
	if r.large(c) {
		return errOffload
	}
	var few [fewIDs]object.StreamID
	after, err := r.places(c, few[:0])
	if err != nil {
		return err
	}
	p := streamReply{c: c, r: &r}
	for i, k := range c.Keys {
		if s, err := c.Txn.Stream(k); err == nil {
			c.wantRead(&s, &r, after[i], p.left())
		}
	}
	if err := c.haveRuns(); err != nil {
		return err
	}
	end := p.begin()
	oldest := int64(math.MaxInt64)
	for i, k := range c.Keys {
		s, err := c.Txn.Stream(k)
		if err != nil {
			return err
		}
		c.count(k, true)
		d := groupRead{p: &p, k: k, s: s, left: p.left()}
		d.serve(after[i])
		oldest = min(oldest, d.oldest(after[i]))
	}
	switch {
	case end():
		return nil
	case !r.block:
		c.Out.NullArray()
		return nil
	}
	err = c.block(c.Keys, object.TypeStream, r.timeout)
	if err == errBlocked {
		c.Wait.Gone = true
		if r.claim >= 0 {
			idle := max(c.Txn.Now()-oldest, 0)
			c.Wait.Again = max(r.claim-idle, 1)
		}
	}
	return err
}

// onlyNew means the ID ">": entries that the group has not delivered yet.
var onlyNew = object.MaxStreamID

// places parses XREADGROUP's IDs.
func (r *streamRead) places(c *Ctx, ids []object.StreamID) ([]object.StreamID, error) {
	for i, k := range c.Keys {
		s, err := c.readStream(k)
		if err != nil {
			return nil, err
		}
		if s.Value().Group(r.group) == nil {
			return nil, errNoReadGroup(k.Name, r.group)
		}
		id := onlyNew
		switch arg := c.Arg(r.ids + i); string(upToNUL(arg)) {
		case ">":
		case "$":
			err = errGroupLatest
		case "+":
			err = errGroupLast
		default:
			id, err = streamID(arg)
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// groupRead reads entries of one stream for a consumer of a group.
type groupRead struct {
	p    *streamReply
	k    storage.Key
	s    storage.Stream
	left int64 // how many entries may follow
	got  bool  // entries that were not pending at the consumer
}

func (d *groupRead) group() *object.StreamGroup { return d.s.Value().Group(d.p.r.group) }

// serve replies with new entries, or with those after an ID that are pending at the consumer.
func (d *groupRead) serve(after object.StreamID) {
	c, r := d.p.c, d.p.r
	created := c.consumer(&d.s, d.k, r.group, r.consumer)
	switch {
	case after != onlyNew:
		d.p.stream(d.k, true, func() { d.history(after) })
	case !d.p.full:
		idle := d.idle()
		last, ok := d.s.Value().LastEntry()
		if fresh := ok && last.Compare(d.group().LastID) > 0; fresh || len(idle) > 0 {
			d.p.stream(d.k, false, func() {
				d.claim(idle)
				d.deliver()
			})
		}
	}
	switch now, consumer := c.Txn.Now(), d.group().Consumer(r.consumer); {
	case d.got:
		d.s.Touch(r.group, r.consumer, now, now)
	case !created && !c.Past.Waited:
		d.s.Touch(r.group, r.consumer, now, consumer.Active)
	}
}

// consumer creates a consumer if it is missing, and reports whether it did.
func (c *Ctx) consumer(s *storage.Stream, k storage.Key, group, name []byte) bool {
	if s.Value().Group(group).Consumer(name) != nil {
		return false
	}
	s.CreateConsumer(group, name, c.Txn.Now())
	c.Txn.Notify(k, eventCreateConsumer)
	return true
}

// oldest returns when the first entry that CLAIM may take was delivered, or math.MaxInt64 if there
// is none.
func (d *groupRead) oldest(after object.StreamID) int64 {
	at := int64(math.MaxInt64)
	if d.p.r.claim >= 0 && after == onlyNew {
		d.s.Value().EachIdle(d.group(), func(e object.PendingEntry) bool {
			at = e.Delivered
			return false
		})
	}
	return at
}

// idle returns the pending entries that CLAIM takes: those that were delivered long enough ago.
func (d *groupRead) idle() (list []object.PendingEntry) {
	if d.p.r.claim < 0 {
		return nil
	}
	now := d.p.c.Txn.Now()
	d.s.Value().EachIdle(d.group(), func(e object.PendingEntry) bool {
		if now-e.Delivered < d.p.r.claim || int64(len(list)) >= d.left {
			return false
		}
		list = append(list, e)
		return true
	})
	return list
}

// claim gives pending entries to the consumer.
func (d *groupRead) claim(list []object.PendingEntry) {
	r, now := d.p.r, d.p.c.Txn.Now()
	for _, pending := range list {
		e, _ := d.s.Value().Get(pending.ID)
		if !d.entry(e, now-pending.Delivered, pending.Count) {
			return
		}
		d.s.Deliver(r.group, r.consumer, pending.ID, now, oneMore(pending.Count))
		d.got = true
	}
}

// oneMore returns count+1, or count if it is the largest integer.
func oneMore(count int64) int64 {
	if count < math.MaxInt64 {
		count++
	}
	return count
}

// entry replies with an entry. With CLAIM it adds how long the entry was pending and how often it
// was delivered.
func (d *groupRead) entry(e object.StreamEntry, idle, count int64) bool {
	c := d.p.c
	d.left--
	return d.p.entry(func() {
		if d.p.r.claim < 0 {
			c.streamEntry(e)
			return
		}
		c.Out.Array(4)
		c.entryParts(e)
		c.Out.Int(idle)
		c.Out.Int(count)
	})
}

// deliver delivers to the consumer entries that the group has not delivered yet.
func (d *groupRead) deliver() {
	if d.left <= 0 || d.p.full {
		return
	}
	r, v, g := d.p.r, d.s.Value(), d.group()
	read, last := g.EntriesRead(), g.LastID
	var ids []object.StreamID
	from, ok := last.Next()
	if !ok {
		return
	}
	v.Range(from, object.MaxStreamID, false, func(e object.StreamEntry) bool {
		if !d.entry(e, 0, 0) {
			return false
		}
		read = readOn(v, read, last, e.ID)
		last = e.ID
		ids = append(ids, e.ID)
		return d.left > 0
	})
	if len(ids) == 0 {
		return
	}
	if !r.noAck {
		now := d.p.c.Txn.Now()
		for _, id := range ids {
			d.s.Deliver(r.group, r.consumer, id, now, 1)
		}
		d.got = true
	}
	d.s.SetGroup(r.group, last, read)
}

// history replies with entries after an ID that are pending at the consumer, and counts another
// delivery of each. If the stream does not have an entry any more, it replies only with the ID.
func (d *groupRead) history(after object.StreamID) {
	c, r := d.p.c, d.p.r
	var ids []object.StreamID
	if from, ok := after.Next(); ok {
		d.group().Consumer(r.consumer).EachPending(from, object.MaxStreamID,
			func(id object.StreamID) bool {
				ids = append(ids, id)
				return int64(len(ids)) < d.left
			})
	}
	for _, id := range ids {
		e, there := d.s.Value().Get(id)
		fits := d.p.entry(func() {
			if there {
				c.streamEntry(e)
				return
			}
			c.Out.Array(2)
			c.streamID(id)
			c.Out.NullArray()
		})
		if !fits {
			return
		}
		if there {
			pending, _ := d.group().PendingEntry(id)
			c.Txn.Uncounted(func() {
				d.s.Deliver(r.group, r.consumer, id, c.Txn.Now(), oneMore(pending.Count))
			})
		}
	}
}
