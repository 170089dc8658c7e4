package commands

import (
	"errors"

	"keyp/storage"
	"keyp/storage/object"
)

// A SORT that replies many elements, and looks a key up for each, gathers these keys (see gathering). So it
// locks all shards only for what changes meanwhile, and not while it sorts.

// errTooMuch ends gathering when that would take too much memory.
var errTooMuch = errors.New("commands: too much to gather")

// errGather ends a SORT that finds out only now that it is to gather. It has replied and changed nothing.
var errGather = errors.New("commands: the command is to gather")

// sortTries is how often a SORT gathers, when its list changes meanwhile, before it sorts with all shards
// locked.
const sortTries = 3

// A SORT gathers at most sortGatheredKeys keys, and values of sortGatheredBytes: beyond that it sorts with all
// shards locked, and takes in only what it sorts by and replies.
const (
	sortGatheredKeys  = 2 << 20
	sortGatheredBytes = 64 << 20
)

// gathers reports whether the SORT may gather. With a limit it looks up what GET patterns lead to for few
// elements, but to gather it would for all. For a client whose keys are tracked see manyKeys.
func (s *sorting) gathers() bool {
	if _, tracks := s.Env.Tracking.of(s.Client.ID); tracks {
		return false
	}
	roaming := len(s.roaming())
	if s.by.roams() {
		roaming--
	}
	return !s.Nested && s.Scope == AllKeys && !s.target && (roaming == 0 || s.sortOptions.count < 0 && s.offset <= 0)
}

// roaming gives the patterns that lead to other keys: BY's, if it does, and those of GET.
func (o *sortOptions) roaming() (list []pattern) {
	if o.by.roams() {
		list = append(list, o.by)
	}
	for _, p := range o.get {
		if p.roams() {
			list = append(list, p)
		}
	}
	return list
}

// sortFound is what was gathered: for each element the values that the roaming patterns lead to.
type sortFound struct {
	patterns int
	*texts
}

func (f *sortFound) value(number, at int) ([]byte, bool) { return f.get(at*f.patterns + number) }

func sortGathered(c *Ctx, o sortOptions) error {
	source := c.Keys[0]
	for range sortTries {
		s := &sorting{Ctx: c, sortOptions: o, texts: []byte{}}
		stayed, err := s.gatherValues(source)
		if errors.Is(err, errTooMuch) {
			break
		}
		switch {
		case err != nil:
			return err
		case stayed:
			if !s.ordered {
				if err := s.scores(); err != nil {
					return err
				}
				s.sort()
			}
			return s.reply()
		}
	}
	all := *c
	all.Keys, all.Scope, all.Txn, all.final = []storage.Key{source}, AllKeys, c.Env.Store.NewTxn(), true
	all.Nested = true // so it does not gather
	all.Txn.NoTouch = c.noTouch()
	c.Env.Store.BeginAll(all.Txn)
	defer func() { c.LSN = max(c.LSN, all.Txn.End()) }()
	err := runSort(&all)
	c.hits, c.misses = all.hits, all.misses
	return err
}

// gatherValues takes in the elements of the source and what the patterns lead to for them. It returns false
// if the source has changed meanwhile.
func (s *sorting) gatherValues(source storage.Key) (stayed bool, err error) {
	origin := newGathering([]storage.Key{source})
	defer s.Env.Changes.record(origin)()
	found, stayed, err := s.copyElements(origin)
	if err != nil || !stayed {
		return false, err
	}
	patterns := s.roaming()
	if len(patterns)*len(s.items) > sortGatheredKeys {
		return false, errTooMuch
	}
	f := &sortFound{len(patterns), newTexts(len(patterns)*len(s.items), sortGatheredBytes)}
	names, ends := []byte(nil), make([]int, 0, len(f.first))
	for i := range s.items {
		for _, p := range patterns {
			names = append(append(append(names, p.before...), s.items[i].elem...), p.after...)
			ends = append(ends, len(names))
		}
	}
	s.Keys = append(make([]storage.Key, 0, 1+len(ends)), source)
	from := 0
	for _, end := range ends {
		s.Keys = append(s.Keys, s.Env.Store.Key(source.DB, names[from:end:end]))
		from = end
	}
	seen, tooMuch := make([]bool, len(s.Keys)), false
	err = s.gather(s.Env.Store.BeginAll, s.allKeys(), true, func(i int, item storage.Item, ok bool, now int64) {
		if seen[i] = ok; i == 0 || tooMuch {
			return
		}
		val := []byte(nil)
		if ok {
			val, ok = patterns[(i-1)%len(patterns)].of(item, now)
		}
		tooMuch = !f.set(i-1, val, ok)
	}, func(t *storage.Txn) {
		stayed = seen[0] == found && len(origin.again(&s.Env.Changes, t.Now())) == 0
		if stayed && !tooMuch {
			s.countGathered(t, seen)
		}
	})
	s.found = f
	if err == nil && tooMuch {
		err = errTooMuch
	}
	return stayed, err
}

// copyElements takes in the elements of the source, the key of origin, which records its changes from now
// on. It returns found false if there is none, and stayed false if it has changed meanwhile.
func (s *sorting) copyElements(origin *gathering) (found, stayed bool, err error) {
	t := s.Env.Store.NewTxn()
	defer t.End() // after a panic
	for from, more := uint64(0), true; more && err == nil; {
		if err := s.Env.beginBeside(t, origin.keys); err != nil {
			return false, false, err
		}
		if changed := origin.again(&s.Env.Changes, t.Now()); len(changed) == 0 || from == 0 {
			from, found, err = s.copySome(t, origin, from)
			more, stayed = from != 0, true
		} else {
			more, stayed = false, false
		}
		s.LSN = max(s.LSN, t.End())
	}
	return found, stayed, err
}

// sortPortion is how many elements are copied while their key's shard is locked.
const sortPortion = 4096

// copySome takes in some elements of the source from a place on, and returns the place of the next ones; 0:
// there are none. Where the elements' own order counts it takes in all that are wanted.
func (s *sorting) copySome(t *storage.Txn, origin *gathering, from uint64) (next uint64, found bool, err error) {
	item, ok := t.Peek(origin.keys[0])
	if !ok || !t.Left(item) {
		s.ordered = true
		return 0, false, nil
	}
	due := item.Due()
	if origin.dues[0] = due; due != 0 {
		origin.earliest = due
	}
	if s.by.text != nil && !s.by.star || due != 0 && due <= t.Now() {
		s.ordered, err = s.loadFrom(item, t.Now())
		for i := range s.items {
			s.items[i].elem, s.items[i].at = s.keep(s.items[i].elem), int32(i)
		}
		return 0, true, err
	}
	if v := item.Value(); v != nil && from == 0 {
		s.items = make([]sortItem, 0, v.Len())
	}
	copied := func(elem []byte) {
		s.items = append(s.items, sortItem{elem: s.keep(elem), at: int32(len(s.items))})
	}
	next = from + sortPortion
	switch v := item.Value().(type) {
	case *object.List:
		v.Each(int(from), false, func(i int, _ int64, val []byte) bool {
			copied(val)
			return uint64(i+1) < next
		})
	case *object.ZSet:
		v.Range(int(from), int(next), false, func(member []byte, _ float64, _ int64) bool {
			copied(member)
			return true
		})
	case *object.Set:
		return v.Scan(from, sortPortion, func(member, _ []byte, _ int64) { copied(member) }), true, nil
	default:
		return 0, true, ErrWrongType
	}
	if next >= uint64(item.Value().Len()) {
		next = 0
	}
	return next, true, nil
}
