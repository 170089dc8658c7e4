package storage

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/storage/format"
)

// sums returns the checksums of all files of a directory by path.
func sums(t *testing.T, dir string) map[string][32]byte {
	all := map[string][32]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = sha256.Sum256(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestInspect: Inspect finds nothing wrong in a sound directory with everything in it, and finds an
// altered entry in each bucket. It does not change the directory.
func TestInspect(t *testing.T) {
	base := testkit.MemoryDir(t)
	sound := makeSound(t, filepath.Join(base, "sound"))
	type finding struct {
		what     string
		harmless bool
	}
	inspect := func(dir string) (findings []finding) {
		before := sums(t, dir)
		got, err := InspectDir(Options{Dir: dir, Clock: clock.NewFake(corruptNow),
			Logger: slog.New(slog.DiscardHandler), InitialMmap: 1 << 22},
			func(what string, harmless bool) {
				findings = append(findings, finding{what, harmless})
			})
		if err != nil {
			t.Fatal(err)
		}
		if len(findings) == 0 && (got.Keys < 400 || got.Deadlines == 0 || got.Elements == 0 ||
			got.Pages == 0 || got.Batches == 0) {
			t.Errorf("a sound directory gave %+v", got)
		}
		if !maps.Equal(before, sums(t, dir)) {
			t.Error("the directory was changed")
		}
		return findings
	}
	for _, f := range inspect(sound.dir) {
		if !f.harmless {
			t.Errorf("in a sound directory: %v", f)
		}
	}
	for _, bucket := range format.Buckets {
		c := &corruptCase{t: t, dir: filepath.Join(base, "case"), sound: sound}
		c.copy()
		alterFirst(t, filepath.Join(c.dir, format.DataName), bucket)
		if findings := inspect(c.dir); len(findings) == 0 || findings[0].harmless {
			t.Errorf("an altered entry of bucket %s was not found: %v", bucket, findings)
		}
	}
}

// alterFirst flips a bit of the first value of a bucket.
func alterFirst(t *testing.T, path string, bucket []byte) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: format.PageSize})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucket)
		k, v := b.Cursor().First()
		v = append([]byte(nil), v...)
		v[0] ^= 4
		return b.Put(append([]byte(nil), k...), v)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
