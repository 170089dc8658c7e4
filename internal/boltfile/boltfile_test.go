package boltfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	bolt "go.etcd.io/bbolt"

	_ "keyp/internal/testkit/setup"
)

const testPage = 8 << 10

var testBuckets = []string{"inline", "large", "small", "wide"}

// makeFile makes a file with several buckets and a history of changes. It returns the bytes and the
// contents of the file.
func makeFile(t *testing.T, rng *rand.Rand) ([]byte, map[string]map[string]string) {
	path := filepath.Join(t.TempDir(), "file")
	db, err := bolt.Open(path, 0o600,
		&bolt.Options{PageSize: testPage, FreelistType: bolt.FreelistMapType})
	if err != nil {
		t.Fatal(err)
	}
	db.NoSync, db.AllocSize = true, testPage
	want := map[string]map[string]string{}
	for range 12 {
		err := db.Update(func(tx *bolt.Tx) error {
			for _, name := range testBuckets {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				if err != nil {
					return err
				}
				if want[name] == nil {
					want[name] = map[string]string{}
				}
				n, keys, size := 300, 4000, 20
				switch name {
				case "inline":
					n, keys = 3, 5
				case "wide":
					keys, size = 3000, 3000
					n = 60
				case "large":
					n, keys, size = 5, 40, 30_000
				}
				for range n {
					k := fmt.Sprintf("%0*d", 4+rng.IntN(2)*30, rng.IntN(keys))
					if rng.IntN(3) == 0 {
						delete(want[name], k)
						if err := b.Delete([]byte(k)); err != nil {
							return err
						}
						continue
					}
					v := bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(size))
					want[name][k] = string(v)
					if err := b.Put([]byte(k), v); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data, want
}

// readAll checks and reads a whole file.
func readAll(data []byte) (map[string]map[string]string, error) {
	f, err := Open(bytes.NewReader(data), int64(len(data)), testPage)
	if err != nil {
		return nil, err
	}
	if _, err := f.Prove(); err != nil {
		return nil, err
	}
	got := map[string]map[string]string{}
	for _, name := range testBuckets {
		b, err := f.Bucket([]byte(name))
		if err != nil {
			return nil, err
		}
		got[name] = map[string]string{}
		if err := b.Each(nil, nil, func(k, v []byte) error {
			got[name][string(k)] = string(v)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// differences counts the entries that differ between a and b.
func differences(a, b map[string]map[string]string) (n int) {
	for name := range a {
		for k, v := range a[name] {
			if w, ok := b[name][k]; !ok || v != w {
				n++
			}
		}
	}
	return n
}

func TestReadsWhatBoltWrote(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	data, want := makeFile(t, rng)
	got, err := readAll(data)
	if err != nil {
		t.Fatal(err)
	}
	if n := differences(want, got) + differences(got, want); n > 0 {
		t.Fatalf("%d entries differ", n)
	}
	f, err := Open(bytes.NewReader(data), int64(len(data)), testPage)
	if err != nil {
		t.Fatal(err)
	}
	s := f.Begin()
	for _, name := range testBuckets {
		b, err := f.Bucket([]byte(name))
		if err == nil {
			err = b.Each(nil, func(d *Damage) { t.Error(d) }, func(_, _ []byte) error {
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	err = s.Rest(func(page uint64, key, _ []byte) error {
		t.Errorf("%q on page %d counts as cut off", key, page)
		return nil
	})
	if err != nil || s.Blind != nil {
		t.Error(err, s.Blind)
	}
	b, err := f.Bucket([]byte("small"))
	if err != nil {
		t.Fatal(err)
	}
	for range 200 { // walks from anywhere give the first key that is not before
		from := fmt.Sprintf("%04d", rng.IntN(4100))
		first, least := "", ""
		err := b.Each([]byte(from), nil, func(k, _ []byte) error {
			first = string(k)
			return errEnough
		})
		if err != nil && err != errEnough {
			t.Fatal(err)
		}
		for k := range want["small"] {
			if k >= from && (least == "" || k < least) {
				least = k
			}
		}
		if first != least {
			t.Fatalf("from %q the first key is %q, want %q", from, first, least)
		}
	}
}

// TestDamageIsFound: after any flipped bit or zeroed page the file is refused, or differs in the
// bytes of at most one entry. Nothing else is missing, nothing panics, and a lenient walk ends too.
func TestDamageIsFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	data, want := makeFile(t, rng)
	refused := 0
	cases := 200
	if n, err := strconv.Atoi(os.Getenv("KEYP_CORRUPT")); err == nil {
		cases = n
	}
	for i := range cases {
		bad := bytes.Clone(data)
		place := 2*testPage + rng.IntN(len(bad)-2*testPage)
		switch {
		case i%10 == 0:
			clear(bad[place/testPage*testPage:][:testPage])
		case i%3 == 0: // headers and elements say most
			place = place/testPage*testPage + rng.IntN(200)
			fallthrough
		default:
			bad[place] ^= 1 << rng.IntN(8)
		}
		got, err := readAll(bad)
		if err != nil {
			refused++
		} else if a, b := differences(want, got), differences(got, want); a > 1 || b > 1 {
			t.Fatalf("case %d, byte %d (page %d): %d entries are gone or changed, %d new", i, place,
				place/testPage, a, b)
		}
		lenient(t, bad)
	}
	if refused < cases/10 {
		t.Errorf("%d of %d damaged files were refused: that is too few to show anything", refused,
			cases)
	}
}

func lenient(t *testing.T, data []byte) {
	f, err := Open(bytes.NewReader(data), int64(len(data)), testPage)
	if err != nil {
		return
	}
	for _, name := range testBuckets {
		b, err := f.Bucket([]byte(name))
		if err != nil {
			continue
		}
		if err := b.Each(nil, func(*Damage) {}, func(_, _ []byte) error {
			return nil
		}); err != nil {
			t.Fatalf("a walk that goes on gave %v", err)
		}
	}
}

// TestSalvage zeroes branch pages. A walk, together with the entries that it cannot reach, still
// returns all entries.
func TestSalvage(t *testing.T) {
	data, want := makeFile(t, rand.New(rand.NewPCG(7, 8)))
	branches := 0
	for id := 2; id < len(data)/testPage; id++ {
		if data[id*testPage+8] != kindBranch || le.Uint64(data[id*testPage:]) != uint64(id) {
			continue
		}
		bad := bytes.Clone(data)
		clear(bad[id*testPage:][:testPage])
		if salvaged(t, bad, want, fmt.Sprintf("page %d is zero", id)) {
			branches++
		}
	}
	if branches == 0 {
		t.Error("no branch page is in use")
	}
}

// TestSalvageHeaders: a page header that names another page, or claims too many pages, hides no
// entry of the page. It does not lead a walk beyond the file or past the pages of others.
func TestSalvageHeaders(t *testing.T) {
	data, want := makeFile(t, rand.New(rand.NewPCG(9, 10)))
	pages := uint64(len(data) / testPage)
	damaged := 0
	for id := uint64(2); id < pages; id++ {
		if kind := data[id*testPage+8]; kind != kindBranch && kind != kindLeaf ||
			le.Uint64(data[id*testPage:]) != id {
			continue
		}
		overflow := uint64(le.Uint32(data[id*testPage+12:]))
		for _, named := range []uint64{id, id + 1, 1 << 40} {
			for _, claims := range []uint64{overflow, pages - id, pages - 1, pages, 1<<32 - 1} {
				if claims != overflow && overflow > 0 {
					continue // how many pages it has is lost
				}
				bad := bytes.Clone(data)
				le.PutUint64(bad[id*testPage:], named)
				le.PutUint32(bad[id*testPage+12:], uint32(claims))
				if salvaged(t, bad, want, fmt.Sprintf("page %d names page %d, and %d further pages",
					id, named, claims)) {
					damaged++
				}
			}
		}
	}
	if damaged == 0 {
		t.Error("no page was in use")
	}
}

// TestSalvageReadsOnce: bytes of a large value that look like a page header do not make the reader
// read more pages.
func TestSalvageReadsOnce(t *testing.T) {
	data, _ := makeFile(t, rand.New(rand.NewPCG(11, 12)))
	for at := 2 * testPage; at < len(data); at += testPage {
		switch {
		case le.Uint64(data[at:]) != uint64(at/testPage):
			le.PutUint32(data[at+12:], 100)
		case data[at+8] == kindBranch:
			clear(data[at : at+testPage]) // so that leaves are cut off
		}
	}
	src := &countingReader{src: bytes.NewReader(data)}
	f, err := Open(src, int64(len(data)), testPage)
	if err != nil {
		t.Fatal(err)
	}
	s, rest := f.Begin(), 0
	if err := s.Rest(func(uint64, []byte, []byte) error {
		rest++
		return nil
	}); err != nil || rest == 0 {
		t.Fatalf("%d entries are cut off, %v", rest, err)
	}
	if src.n > 3*int64(len(data)) {
		t.Errorf("%d bytes are read of a file of %d", src.n, len(data))
	}
}

// countingReader counts the bytes that are read.
type countingReader struct {
	src io.ReaderAt
	n   int64
}

func (r *countingReader) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.src.ReadAt(b, off)
	r.n += int64(n)
	return n, err
}

// salvaged checks that a file with one damaged page still yields all entries. It returns false if
// the page is not in use, or is needed to find the buckets.
func salvaged(t *testing.T, bad []byte, want map[string]map[string]string, what string) bool {
	t.Helper()
	f, err := Open(bytes.NewReader(bad), int64(len(bad)), testPage)
	if err != nil {
		t.Fatal(what, err)
	}
	if _, err := f.Prove(); err == nil {
		return false // an old page
	}
	s := f.Begin()
	got := map[string]string{}
	for _, name := range testBuckets {
		b, err := f.Bucket([]byte(name))
		if err != nil {
			return false // the page has the buckets themselves
		}
		if err := b.Each(nil, func(*Damage) {}, func(k, v []byte) error {
			got[string(k)] = string(v)
			return nil
		}); err != nil {
			t.Fatal(what, err)
		}
	}
	if err := s.Rest(func(_ uint64, k, v []byte) error {
		got[string(k)] = string(v)
		return nil
	}); err != nil {
		t.Fatal(what, err)
	}
	for _, name := range testBuckets {
		for k := range want[name] {
			if _, ok := got[k]; !ok {
				t.Fatalf("%s: there is no %q", what, k)
			}
		}
	}
	return true
}

func TestMetaPages(t *testing.T) {
	data, _ := makeFile(t, rand.New(rand.NewPCG(5, 6)))
	for i := range 2 {
		bad := bytes.Clone(data)
		clear(bad[i*testPage:][:testPage])
		metas, err := Metas(bytes.NewReader(bad), testPage)
		if err != nil {
			t.Fatal(err)
		}
		var d *Damage
		if !errors.As(metas[i].Err, &d) || d.Page != uint64(i) || metas[1-i].Err != nil {
			t.Errorf("with meta page %d zeroed: %v, %v", i, metas[0].Err, metas[1].Err)
		}
		if m, err := Newest(metas); err != nil || m != metas[1-i] {
			t.Errorf("the newest is %+v, %v", m, err)
		}
	}
	if _, err := Open(bytes.NewReader(data), int64(len(data)/2), testPage); err == nil {
		t.Error("half a file was opened")
	}
	if _, err := Open(bytes.NewReader(nil), 0, testPage); err == nil {
		t.Error("an empty file was opened")
	}
}

// TestLongKeyIsDamage: bbolt accepts no key longer than maxKey, so a longer key in a file is
// damage.
func TestLongKeyIsDamage(t *testing.T) {
	page := make([]byte, 10*8192)
	for size, want := range map[uint32]bool{maxKey: true, maxKey + 1: false} {
		le.PutUint32(page[headerSize+4:], elementSize)
		le.PutUint32(page[headerSize+8:], size)
		if _, _, _, ok := parseElement(kindLeaf, page, headerSize); ok != want {
			t.Errorf("a key of %d bytes: %v", size, ok)
		}
	}
}
