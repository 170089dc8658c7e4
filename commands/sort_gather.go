package commands

import (
	"errors"

	"keyp/storage"
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
	watched := newGathering([]storage.Key{source})
	defer s.Env.Changes.record(watched)()
	found, err := s.copyElements(watched)
	if err != nil {
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
	err = s.gather(true, func(i int, item storage.Item, ok bool, now int64) {
		if seen[i] = ok; i == 0 || tooMuch {
			return
		}
		val := []byte(nil)
		if ok {
			val, ok = patterns[(i-1)%len(patterns)].of(item, now)
		}
		tooMuch = !f.set(i-1, val, ok)
	}, func(t *storage.Txn) {
		stayed = seen[0] == found && len(watched.again(&s.Env.Changes, t.Now())) == 0
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

// copyElements takes in the elements of the source, the key of watched, which records its changes from now
// on. It returns false if there is none.
func (s *sorting) copyElements(watched *gathering) (found bool, err error) {
	t := s.Env.Store.NewTxn()
	if err := s.Env.beginBeside(t, watched.keys); err != nil {
		return false, err
	}
	defer func() { s.LSN = max(s.LSN, t.End()) }()
	watched.again(&s.Env.Changes, t.Now()) // what changed until now is seen
	item, ok := t.Peek(watched.keys[0])
	if !ok || !t.Left(item) {
		s.ordered = true
		return false, nil
	}
	if watched.dues[0] = item.Due(); watched.dues[0] != 0 {
		watched.earliest = watched.dues[0]
	}
	if s.ordered, err = s.loadFrom(item, t.Now()); err != nil {
		return true, err
	}
	for i := range s.items {
		s.items[i].elem, s.items[i].at = s.keep(s.items[i].elem), int32(i)
	}
	return true, nil
}
