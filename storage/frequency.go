package storage

import "math/rand/v2"

// Frequency makes the store count how often keys are accessed, as Redis does under its LFU
// policies. A key's access word then is not the second of its last access, but
//
//	┌────── 24 bits ───────┬── 8 ──┐
//	│ minute of last access│ count │
//
// with minutes since 2020, which overflow after 31 years. The count is about the logarithm of the
// number of accesses, and falls while there are none. If counting is turned on or off, words of the
// other kind are misread until the next access of their keys.
type Frequency struct {
	LogFactor int64 // how many more accesses each further count takes
	Decay     int64 // minutes without access that cost a count; 0: none do
}

const (
	minutes2020 = 26_297_280 // since 1970
	minuteMask  = 1<<24 - 1
	// firstCount is a new key's count, high enough that the key is not the first to leave memory.
	firstCount = 5
	mostCount  = 255
)

func minuteOf(now int64) uint32 { return uint32(now/60_000-minutes2020) & minuteMask }

// count returns a word's count after its decay.
func (f *Frequency) count(word uint32, now int64) uint32 {
	count := word & mostCount
	if f.Decay <= 0 {
		return count
	}
	idle := (minuteOf(now) - word>>8) & minuteMask
	return count - min(count, uint32(min(int64(idle)/f.Decay, mostCount)))
}

// accessed returns the word after one more access.
func (f *Frequency) accessed(word uint32, now int64) uint32 {
	count := f.count(word, now)
	beyond := float64(count) - firstCount
	if count < mostCount && rand.Float64()*(max(beyond, 0)*float64(f.LogFactor)+1) < 1 {
		count++
	}
	return frequencyWord(count, now)
}

func frequencyWord(count uint32, now int64) uint32 { return minuteOf(now)<<8 | count }

// SetFrequency enables LFU counting; nil disables it.
func (s *Store) SetFrequency(f *Frequency) { s.frequency.Store(f) }

// accessed returns a key's access word after an access. word is the word before, and now is in Unix
// ms.
func (s *Store) accessed(word uint32, now int64) uint32 {
	if f := s.frequency.Load(); f != nil {
		return f.accessed(word, now)
	}
	return uint32(now / 1000)
}

// firstAccess returns the access word of a key that was created or loaded at now, in Unix ms.
func (s *Store) firstAccess(now int64) uint32 {
	if s.frequency.Load() != nil {
		return frequencyWord(firstCount, now)
	}
	return uint32(now / 1000)
}

// accessOrder returns a number by which access words are ordered. Keys with the lowest numbers
// leave memory first.
func (s *Store) accessOrder(word uint32, now int64) uint32 {
	if f := s.frequency.Load(); f != nil {
		return f.count(word, now)<<24 | word>>8
	}
	return word
}

// Frequency returns the count of a key's accesses, up to 255. It is about the logarithm of their
// number. ok is false if LFU counting is off.
func (t *Txn) Frequency(item Item) (count int, ok bool) {
	f := t.s.frequency.Load()
	if f == nil {
		return 0, false
	}
	return int(f.count(item.Access(), t.now)), true
}

// SetCount sets the count that Frequency returns for a key. It does nothing for a missing or
// expired key, or if LFU counting is off.
func (t *Txn) SetCount(k Key, count int) {
	if item, ok := t.Peek(k); ok && t.s.frequency.Load() != nil {
		item.setAccess(frequencyWord(uint32(max(0, min(count, mostCount))), t.now))
	}
}
