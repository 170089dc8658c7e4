package commands

import (
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// dataDigest is a digest of data as Redis's DEBUG DIGEST computes it: for the same data, Keyp and
// Redis reply with the same digest. The order of the elements of a set or a hash does not matter.
type dataDigest [sha1.Size]byte

// toggle adds data whose order does not matter.
func (d *dataDigest) toggle(b []byte) {
	for i, x := range sha1.Sum(b) {
		d[i] ^= x
	}
}

// mix adds data whose order matters.
func (d *dataDigest) mix(b []byte) {
	d.toggle(b)
	*d = sha1.Sum(d[:])
}

func (d *dataDigest) mixNumber(n int) { d.mix(binary.BigEndian.AppendUint32(nil, uint32(n))) }

func (d *dataDigest) text() string { return hex.EncodeToString(d[:]) }

// digestTypes are Redis's numbers of the types; Keyp's own types have further numbers.
var digestTypes = map[object.Type]int{
	object.TypeString: 0, object.TypeList: 1, object.TypeSet: 2, object.TypeZSet: 3,
	object.TypeHash: 4, object.TypeStream: 6,
	object.TypeLease: 7, object.TypeLimit: 8, object.TypeDelay: 9,
}

// addItem adds a key's value, and whether it has a deadline.
func (d *dataDigest) addItem(item storage.Item) error {
	d.mixNumber(digestTypes[item.Type()])
	switch v := item.Value().(type) {
	case *object.List:
		v.Each(0, false, func(_ int, _ int64, val []byte) bool {
			d.mix(val)
			return true
		})
	case *object.Set:
		for member := range membersOf(v) {
			d.toggle(member)
		}
	case *object.ZSet:
		v.Range(0, v.Len(), false, func(member []byte, score float64, _ int64) bool {
			var e dataDigest
			e.mix(member)
			e.mix(appendG17(nil, score))
			d.toggle(e[:])
			return true
		})
	case *object.Limit: // reservations with their deadlines, as these are of what is admitted
		v.Walk(func(elem, val []byte, deadline int64) bool {
			var e dataDigest
			e.mix(elem)
			e.mix(val)
			e.mix(binary.BigEndian.AppendUint64(nil, uint64(deadline)))
			d.toggle(e[:])
			return true
		})
	case *object.Hash, *object.DelayQueue:
		v.Walk(func(elem, val []byte, _ int64) bool {
			var e dataDigest
			e.mix(elem)
			e.mix(val)
			d.toggle(e[:])
			return true
		})
	case *object.Stream: // its entries alone
		v.Range(object.StreamID{}, object.MaxStreamID, false, func(e object.StreamEntry) bool {
			d.mix(fmt.Appendf(nil, "%d.%d", e.ID.Ms, e.ID.Seq))
			e.EachField(func(field, val []byte) bool {
				d.mix(field)
				d.mix(val)
				return true
			})
			return true
		})
	case *object.Lease:
		d.mix(v.Owner)
		d.mix(fmt.Appendf(nil, "%d.%d", v.Token, v.Delay))
	default:
		s, err := item.String()
		if err != nil {
			return err
		}
		d.mix(s)
	}
	if item.Deadline() != ttl.None {
		d.toggle([]byte("!!expire!!"))
	}
	return nil
}

// appendG17 writes a number as C's %.17g does.
func appendG17(b []byte, f float64) []byte {
	text := strconv.AppendFloat(nil, f, 'g', 17, 64)
	switch string(text) {
	case "+Inf":
		text = []byte("inf")
	case "-Inf":
		text = []byte("-inf")
	}
	return append(b, text...)
}

// debugDigestValue replies with the digest of each key's value. The digest of a missing key is all
// zeros.
func debugDigestValue(c *Ctx) error {
	digests := make([]dataDigest, len(c.Keys))
	for i, k := range c.EachKey {
		item, ok := c.Txn.Peek(k)
		if !ok {
			continue
		}
		if err := digests[i].addItem(item); err != nil {
			return err
		}
	}
	c.Out.Array(len(digests))
	for i := range digests {
		c.Out.Simple(digests[i].text())
	}
	return nil
}

// debugDigest replies with the digest of all data. Other clients are served meanwhile. So the
// digest shows a single moment only if nobody writes.
func debugDigest(c *Ctx) error {
	var all dataDigest
	txn := c.Env.Store.NewTxn()
	defer txn.End() // after a panic nothing stays locked
	for db := range c.Env.Store.Databases() {
		var names [][]byte
		err := c.view().Walk(db, func(name []byte, _ object.Type) bool {
			names = append(names, slices.Clone(name))
			return true
		})
		if err != nil {
			return err
		}
		if len(names) > 0 {
			all.mixNumber(db)
		}
		for _, name := range names {
			k := c.Env.Store.Key(db, name)
			if err := c.Env.beginBeside(txn, []storage.Key{k}); err != nil {
				return err
			}
			item, ok := txn.Peek(k)
			if ok {
				var d dataDigest
				d.mix(name)
				err = d.addItem(item)
				all.toggle(d[:])
			}
			c.LSN = max(c.LSN, txn.End())
			if err != nil {
				return err
			}
		}
	}
	c.shows()
	c.Out.Simple(all.text())
	return nil
}
