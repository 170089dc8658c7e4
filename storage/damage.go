package storage

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/boltfile"
	"keyp/storage/datafile"
	"keyp/storage/format"
)

// damages contains the places of the data file that were already logged as damaged.
type damages struct {
	mu struct {
		sync.Mutex
		told map[string]bool
	}
}

// maxPlaces bounds how many places the log names.
const maxPlaces = 100

// Unread reports that something cannot be read from the data file. It logs one line at level ERROR
// for each damaged page, and one for each record elsewhere; further errors there are logged at
// level DEBUG. about names the data that was to be read.
func (s *Store) Unread(err error, about ...any) {
	if !s.tellDamage(err, 0) {
		s.options.Logger.Debug("something could not be read from the data file",
			append(about, "error", err)...)
	}
}

// tellDamage logs the place of an error, unless it has done so before. If keys is known, it adds
// how many keys at most cannot be read because of the error. It reports whether it logged anything.
func (s *Store) tellDamage(err error, keys int64) bool {
	place := damagedPlace(err)
	s.damages.mu.Lock()
	told := s.damages.mu.told[place] || len(s.damages.mu.told) > maxPlaces
	if !told {
		if s.damages.mu.told == nil {
			s.damages.mu.told = map[string]bool{}
		}
		s.damages.mu.told[place] = true
	}
	places := len(s.damages.mu.told)
	s.damages.mu.Unlock()
	if told {
		return false
	}
	if places > maxPlaces {
		s.options.Logger.Error("the data file is damaged in further places, which are not named")
		return true
	}
	about := []any{"error", err}
	if keys > 0 {
		about = append(about, "keys_at_most", keys)
	}
	s.options.Logger.Error("the data file is damaged: what stands there is not served, all else is. Stop the server; `keyp check "+s.options.place()+"` says what to do",
		about...)
	return true
}

// damagedPlace returns the name of the page that an error is about. If that is unknown, it returns
// the text of the error.
func damagedPlace(err error) string {
	var d *boltfile.Damage
	if errors.As(err, &d) {
		return fmt.Sprint("page ", d.Page)
	}
	// bbolt panics with this text.
	if _, rest, found := strings.Cut(err.Error(), "Page expected to be: "); found {
		page, _, _ := strings.Cut(rest, ",")
		return "page " + page
	}
	return err.Error()
}

// repairTimes replaces the damaged times of an image, and logs and counts the damage.
func (s *Store) repairTimes(tx *bolt.Tx, at []byte, im *format.Image) {
	if !im.BadTime {
		return
	}
	s.stats.BadDeadlines.Add(1)
	if datafile.RepairTimes(tx, at, im) {
		s.options.Logger.Error("the deadline of a key is corrupt on disk, and was repaired", "key",
			Clip(im.Name), "deadline", im.Deadline)
	} else {
		s.options.Logger.Error(
			"the deadline of a key is corrupt on disk; the key is now persistent",
			"key", Clip(im.Name))
	}
}
