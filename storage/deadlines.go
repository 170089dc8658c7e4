package storage

import (
	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
)

// repairTimes replaces the damaged times of an image. It takes them from ttl or the corrected
// record; without either the key has no deadline. It logs and counts the damage.
func (s *Store) repairTimes(tx *bolt.Tx, at []byte, im *format.Image) {
	if !im.BadTime {
		return
	}
	s.stats.BadDeadlines.Add(1)
	d := format.Deadlines{Of: map[string][]format.Times{string(at): nil},
		Doubt: tx.Bucket(format.BucketMeta).Get(format.MetaDoubt) != nil}
	pending, err := pendingEntries(tx)
	d.Doubt = d.Doubt || err != nil
	d.Read(pending, func(fn func(at, v []byte)) {
		_ = each(tx, format.BucketTTL, nil, func(error) {
			d.Holes = true
		}, func(at, v []byte) error { fn(at, v); return nil })
	})
	if d.Repair(at, im) {
		s.options.Logger.Error("the deadline of a key is corrupt on disk, and was repaired", "key",
			Clip(im.Name), "deadline", im.Deadline)
	} else {
		s.options.Logger.Error(
			"the deadline of a key is corrupt on disk; the key is now persistent",
			"key", Clip(im.Name))
	}
}
