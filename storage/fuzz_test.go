package storage

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/testkit"
	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// fuzzKeys lists the keys that fillAll makes, and some that it does not make.
var fuzzKeys = []string{"small", "due", "string", "h", "set", "z", "l", "hl", "none", "", "x"}

// fillAll makes keys of every type, in memory and by element on disk.
func fillAll(h *harness) {
	key := func(name string) Key { return h.s.Key(0, []byte(name)) }
	hash, set, zset, list, large := &object.Hash{}, &object.Set{}, &object.ZSet{},
		&object.List{}, &object.Hash{}
	for i := range 3 {
		name := fmt.Appendf(nil, "e%d", i)
		hash.Set(name, []byte("v"), int64(i)*1_700_000_000_500)
		set.Add(name, 0)
		zset.Set(name, float64(i), 0)
		list.PushBack(name)
	}
	for i := range 40 {
		large.Set(fmt.Appendf(nil, "e%d", i), []byte(strings.Repeat("v", 300)), 0)
	}
	values := map[string]object.Value{"h": hash, "set": set, "z": zset, "l": list, "hl": large}
	h.doAll(func(x *Txn) {
		x.SetString(key("small"), []byte("v"), ttl.Deadline{}, Event{})
		x.SetString(key("due"), []byte("v"), ttl.At(h.clock.Now()+1000), Event{})
		x.SetString(key("string"), []byte(strings.Repeat("0123456789", 3000)),
			ttl.Deadline{}, Event{})
		for _, name := range []string{"h", "set", "z", "l", "hl"} {
			x.Replace(key(name), values[name], ttl.Deadline{}, Event{})
		}
	})
}

// batchMaker makes batches of records that may contain any numbers.
type batchMaker struct {
	testkit.Dice
	spaces []uint32
}

func (m *batchMaker) batch() (b []byte) {
	for range 1 + m.N(5) {
		b = m.record(b)
	}
	if len(b) > 0 && m.One(8) {
		b[m.N(len(b))] ^= 1 << m.N(8)
	}
	if m.One(8) {
		b = b[:m.N(len(b)+1)]
	}
	return b
}

// record appends a random record of any type.
func (m *batchMaker) record(b []byte) []byte {
	tag := byte(m.N(format.RecPopulation + 2))
	b = append(b, tag)
	switch tag {
	case format.RecPut:
		return format.AppendBytes(m.deadline(m.key(b)), m.text())
	case format.RecLarge:
		return append(m.deadline(m.id(m.key(b))), byte(m.N(8)))
	case format.RecElement:
		return m.element(append(m.id(m.key(b)), byte(m.N(8))))
	case format.RecRemove:
		return format.AppendBytes(append(m.id(m.key(b)), byte(m.N(8))), m.elem())
	case format.RecRange:
		return format.AppendBytes(m.offset(m.id(m.key(b))), m.text())
	case format.RecDelete:
		return m.key(b)
	case format.RecDeadline:
		return m.deadline(m.key(b))
	case format.RecReaped, format.RecFlush, format.RecSwap:
		return m.int(m.int(b))
	case format.RecCounts:
		return m.int(m.int(m.int(m.space(b))))
	case format.RecPopulation:
		return m.int(m.int(m.int(m.int(m.space(b)))))
	case format.RecLink:
		return m.deadline(append(m.id(m.key(m.key(b))), byte(m.N(8))))
	case format.RecMore:
		return m.element(b)
	case format.RecExpire:
		return m.deadline(b)
	case format.RecLess:
		return format.AppendBytes(b, m.elem())
	case format.RecCut, format.RecTrim:
		b = m.id(m.key(b))
		for range 2 {
			key := object.ListKey(int64(m.N(8)) * object.NumberStep)
			b = append(b, key[:]...)
		}
		return b
	}
	return m.int(b)
}

// int appends a number, most likely a small one.
func (m *batchMaker) int(b []byte) []byte {
	if !m.One(3) {
		return binary.AppendUvarint(b, uint64(m.N(20)))
	}
	edges := []uint64{1_700_000_000_000, 1_700_000_000_500, 1<<48 - 1, 1 << 62, math.MaxInt64,
		1 << 63, math.MaxUint64, 65536}
	return binary.AppendUvarint(b, edges[m.N(len(edges))])
}

// offset appends a position in a string. It is near the string's start, or beyond the limit.
// Positions between would fill memory with zeros, as SETRANGE may do.
func (m *batchMaker) offset(b []byte) []byte {
	edges := []uint64{0, 5, 29_999, 30_000, 16 << 10, 100_000, object.MaxString, math.MaxInt64,
		1 << 63, math.MaxUint64}
	return binary.AppendUvarint(b, edges[m.N(len(edges))])
}

func (m *batchMaker) space(b []byte) []byte {
	if m.One(6) {
		return m.int(b)
	}
	return binary.AppendUvarint(b, uint64(m.spaces[m.N(len(m.spaces))]))
}

func (m *batchMaker) key(b []byte) []byte {
	return format.AppendBytes(m.space(b), []byte(m.From(fuzzKeys)))
}

// id appends a value's id, most likely one that fillAll has made.
func (m *batchMaker) id(b []byte) []byte {
	if m.One(6) {
		return m.int(b)
	}
	return binary.AppendUvarint(b, uint64(m.N(10)))
}

func (m *batchMaker) deadline(b []byte) []byte {
	if m.One(2) {
		return append(b, 0)
	}
	return m.int(m.int(b))
}

func (m *batchMaker) element(b []byte) []byte {
	return format.AppendBytes(m.deadlineOf(format.AppendBytes(b, m.elem())), m.text())
}

func (m *batchMaker) deadlineOf(b []byte) []byte {
	if m.One(2) {
		return append(b, 0)
	}
	return m.int(b)
}

// elem returns an element's name: a field, a name as streams have it, or the eight bytes that lists
// and strings have.
func (m *batchMaker) elem() []byte {
	if m.One(3) {
		return []byte(m.From([]string{"\x01", "\x02\x00\x00\x00\x00\x00\x00\x00\x01",
			"\x03\x00\x00\x00\x01", "\x04\x00\x00\x00\x01\x00\x00\x00\x01",
			"\x05\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01",
			"\x80\x00\x00\x00\x00\x01\x00\x00"}))
	}
	if m.One(2) {
		return []byte(m.From([]string{"e0", "e1", "e2", "new", "", "0"}))
	}
	edges := []uint64{0, 1, 2, 3, 100, 1 << 40, math.MaxInt64, 1 << 63, math.MaxUint64,
		1<<63 + 1, 1 << 51}
	return binary.BigEndian.AppendUint64(nil, edges[m.N(len(edges))])
}

func (m *batchMaker) text() []byte {
	switch m.N(8) {
	case 3: // of a stream's entry, or its metadata
		return []byte(m.From([]string{"\x02\x01\x01\x01f\x01v", "\x03\x01\x01\x01f\x01v",
			"\x09\x01\x00\x00\x03\x00\x01\x01\x01\x00"}))
	case 4: // of a group, a consumer, a pending entry
		return []byte(m.From([]string{"\x01g\x02\x01\x02", "\x01c\x05\x00", "\x01\x07\x01",
			"\x00\x00\x01"}))
	case 0:
		return binary.BigEndian.AppendUint64(nil,
			math.Float64bits([]float64{1, -1, math.Inf(1), math.NaN(), 0}[m.N(5)]))
	case 1:
		return []byte(strings.Repeat("x", m.N(5000)))
	case 2:
		return []byte("7")
	}
	return nil
}

// heapAllocated returns how many bytes the process has allocated so far.
func heapAllocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// FuzzReplay starts from a log whose batches have right checksums, but whose records may contain
// anything. The start succeeds or returns an error. It does not panic, and takes no more memory
// than the records could fill. A store that has started can be read, checked (with any result),
// written to the data file, and started again.
func FuzzReplay(f *testing.F) {
	seeds := rand.NewChaCha8([32]byte{'r', 'e', 'p', 'l', 'a', 'y'})
	for range 10 {
		data := make([]byte, 300)
		_, _ = seeds.Read(data)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := newHarness(t)
		fillAll(h)
		m := batchMaker{testkit.Dice{Data: data}, append(h.s.spaces.ids, 0, 99)}
		if m.One(2) {
			h.reopen() // so that all is on disk
		}
		for !m.Over() {
			if b := m.batch(); len(b) > 0 {
				h.s.log.Append(b)
			}
		}
		if err := h.s.Close(false); err != nil {
			t.Fatal(err)
		}
		usesLittle(t, h)
	})
}

// startAgain starts a store from the present files, and uses it.
func startAgain(h *harness) error {
	s, err := h.start()
	if err != nil {
		return err
	}
	h.s, h.txn = s, s.NewTxn()
	for _, name := range fuzzKeys {
		for db := range h.databases {
			k := h.s.Key(db, []byte(name))
			for try := 0; !h.s.Begin(h.txn, []Key{k}); try++ {
				for _, slow := range h.s.loads.serveBatch(
					[]load{{keys: []Key{k}, done: func(e error) { err = e }}}) {
					h.s.loads.serve(slow)
				}
				if err != nil || try == 100 {
					break
				}
			}
			if err != nil {
				err = nil
				continue
			}
			h.txn.Get(k)
			h.txn.End()
		}
	}
	_ = s.Check() // nonsense may have been recorded, and is found
	return s.Close(true)
}

// start opens the store again.
func (h *harness) start() (*Store, error) {
	s, _, err := Open(h.options())
	if err == nil {
		s.file.DB().NoSync = true
	}
	return s, err
}

// fileMaker changes entries of a data file.
type fileMaker struct{ testkit.Dice }

// change changes one entry of a bucket, and updates its checksum.
func (m *fileMaker) change(tx *bolt.Tx) error {
	buckets := [][]byte{format.BucketValues, format.BucketElements, format.BucketTTL,
		format.BucketSlots, format.BucketMeta, format.BucketGarbage, format.BucketPending}
	name := buckets[m.N(len(buckets))]
	b := tx.Bucket(name)
	at, v := b.Cursor().First()
	for c, n := b.Cursor(), m.N(b.Stats().KeyN+1); n > 0; n-- {
		if at, v = c.Next(); at == nil {
			at, v = c.First()
		}
	}
	at, v = slices.Clone(at), slices.Clone(v)
	old := slices.Clone(at)
	switch m.N(6) {
	case 0:
		at = m.bytes(at)
	case 1: // moved, or doubled
		at, v = m.bytes(at), m.bytes(v)
	default:
		v = m.bytes(v)
	}
	if len(at) == 0 {
		return nil
	}
	if len(at) == 16 && string(name) == string(format.BucketElements) {
		clear(at[8:15]) // as for offset: a string has what is between
	}
	if !m.One(4) && old != nil {
		if err := b.Delete(old); err != nil {
			return err
		}
	}
	reseal(name, at, v)
	return b.Put(at, v)
}

// bytes changes some bytes, their number, or all of them.
func (m *fileMaker) bytes(b []byte) []byte {
	for range 1 + m.N(3) {
		switch n := len(b); {
		case m.One(8):
			b = b[:m.N(n+1)]
		case m.One(8):
			b = append(b, m.Bytes(m.N(30))...)
		case n > 0:
			from := m.N(n)
			for i := from; i < min(from+1+m.N(9), n); i++ {
				b[i] = byte(m.N(256))
			}
		}
	}
	return b
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// reseal updates the checksums of an entry, if it has any.
func reseal(bucket, at, v []byte) {
	switch {
	case len(v) < 4:
	case string(bucket) == string(format.BucketElements),
		string(bucket) == string(format.BucketTTL):
		binary.LittleEndian.PutUint32(v, crc32.Update(crc32.Checksum(at, castagnoli),
			castagnoli, v[4:]))
	case string(bucket) == string(format.BucketPending):
		format.SealChanges(v)
	case string(bucket) == string(format.BucketValues) && len(v) > 9:
		f := format.Fields{Rest: v[9:]}
		f.Int()
		from, size := len(v)-len(f.Rest), 12
		if v[8]&0x40 != 0 { // its elements have deadlines
			size += 8
		}
		if to := from + size; !f.Bad && to <= len(v) {
			key := crc32.Checksum(at, castagnoli)
			value := crc32.Update(crc32.Update(key, castagnoli, v[8:from]), castagnoli, v[to:])
			binary.LittleEndian.PutUint32(v, value)
			binary.LittleEndian.PutUint32(v[4:], crc32.Update(key, castagnoli, v[from:to]))
		}
	}
}

// FuzzDataFile starts from a data file whose pages are whole. Its entries have right checksums but
// may contain anything. The rest is as in FuzzReplay.
func FuzzDataFile(f *testing.F) {
	seeds := rand.NewChaCha8([32]byte{'d', 'a', 't', 'a'})
	for range 10 {
		data := make([]byte, 100)
		_, _ = seeds.Read(data)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := newHarness(t)
		fillAll(h)
		h.portions = true
		h.reopen()
		m := fileMaker{testkit.Dice{Data: data}}
		if m.One(2) { // pending is empty after a clean stop
			err := h.s.file.DB().Update(func(tx *bolt.Tx) error {
				var d datafile.Changes
				d.Add(format.DiskKey(nil, h.s.spaces.ids[0], h.s.Key(0, []byte("due"))),
					format.Times{Deadline: h.clock.Now() + 1000}, format.Times{Deadline: 5})
				_, err := d.Write(tx)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		err := h.s.file.DB().Update(func(tx *bolt.Tx) error {
			for !m.Over() {
				if err := m.change(tx); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.s.Close(false); err != nil {
			t.Fatal(err)
		}
		usesLittle(t, h)
	})
}

// usesLittle starts twice, and reports whether that took no more memory than the files justify.
func usesLittle(t *testing.T, h *harness) {
	t.Helper()
	const most = 64 << 20
	before := heapAllocated()
	if startAgain(h) == nil {
		if s, err := h.start(); err == nil {
			_ = s.Close(false)
		}
	}
	if took := heapAllocated() - before; took > most {
		t.Fatalf("starting takes %d MB", took>>20)
	}
}
