package format

import (
	"encoding/binary"
	"fmt"
)

// State is stored in the bucket meta. It describes the data at the moment when the newest finished
// checkpoint began. A start replays the log from the segment First, which begins at that moment.
type State struct {
	First      uint64 // log segment
	Generation uint64
	NextSpace  uint32
	Shards     int          // fixed when the data directory is made: the log's records name them
	Spaces     []uint32     // by database number
	Counts     []PartCounts // of parts that are not empty
	// The time in the last record time of the log, in Unix ms. 0: there was none, or the state is
	// of a version without such records.
	Time int64
	// Member: the directory belongs to a member of a group, and not to a server that is alone.
	Member bool
	// Position is the end of a member's log at that moment. Replay skips the batches before it in
	// segment First. It is 0 for a server that is alone.
	Position uint64
}

// The flags follow the counts and the time. Optional fields follow the flags. Only states of older
// versions have no flags.
const (
	stateMember = 1 << iota // Position
	stateTimed              // Timed of all counts; older states lack it
)

// PartCounts contains the number of keys of a keyspace in a shard, and how many of them have a
// deadline.
type PartCounts struct {
	Space         uint32
	Shard         int
	Keys, Expires int64
	Timed         int64 // keys that have elements with a deadline, or Unknown
}

// Unknown is the value of Timed in a state of an older version, which did not count these keys.
const Unknown = -1

// Append appends the encoded state to dst.
func (st *State) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, st.First)
	dst = binary.AppendUvarint(dst, st.Generation)
	dst = binary.AppendUvarint(dst, uint64(st.NextSpace))
	dst = binary.AppendUvarint(dst, uint64(st.Shards))
	dst = binary.AppendUvarint(dst, uint64(len(st.Spaces)))
	for _, sp := range st.Spaces {
		dst = binary.AppendUvarint(dst, uint64(sp))
	}
	dst = binary.AppendUvarint(dst, uint64(len(st.Counts)))
	for _, c := range st.Counts {
		for _, v := range []uint64{uint64(c.Space), uint64(c.Shard), uint64(c.Keys),
			uint64(c.Expires)} {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(st.Time))
	flags := uint64(stateTimed)
	if st.Member {
		flags |= stateMember
	}
	dst = binary.AppendUvarint(dst, flags)
	if st.Member {
		dst = binary.AppendUvarint(dst, st.Position)
	}
	for _, c := range st.Counts {
		dst = binary.AppendUvarint(dst, uint64(c.Timed))
	}
	return dst
}

// ParseState decodes a state. It returns ErrCorrupt if that is not possible.
func ParseState(b []byte) (st State, err error) {
	f := Fields{Rest: b}
	st.First, st.Generation, st.NextSpace, st.Shards = f.Int(), f.Int(),
		uint32(f.Int()), int(f.Int())
	for n := f.Int(); n > 0 && !f.Bad; n-- {
		st.Spaces = append(st.Spaces, uint32(f.Int()))
	}
	for n := f.Int(); n > 0 && !f.Bad; n-- {
		st.Counts = append(st.Counts, PartCounts{uint32(f.Int()), int(f.Int()), int64(f.Int()),
			int64(f.Int()), Unknown})
	}
	if len(f.Rest) > 0 {
		st.Time = f.Instant()
	}
	if len(f.Rest) > 0 {
		flags := f.Int()
		f.Bad = f.Bad || flags > stateMember|stateTimed
		if st.Member = flags&stateMember != 0; st.Member {
			st.Position = f.Int()
		}
		for i := range st.Counts {
			if flags&stateTimed != 0 {
				st.Counts[i].Timed = int64(f.Int())
			}
		}
	}
	if f.Bad || len(f.Rest) > 0 || !ValidShards(st.Shards) {
		return st, fmt.Errorf("%w: the meta bucket's state does not parse", ErrCorrupt)
	}
	return st, nil
}

// ValidShards reports whether a directory may have n shards.
func ValidShards(n int) bool { return n >= 1 && n <= 64 && n&(n-1) == 0 }
