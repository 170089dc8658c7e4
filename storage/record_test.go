package storage

import (
	"fmt"
	"testing"

	"keyp/ttl"
)

// TestRecordsAmidElements: a transaction changes elements of a value, logs another record, and
// changes elements again. After a replay the value has all changes, whatever the record in between
// is about.
func TestRecordsAmidElements(t *testing.T) {
	for name, amid := range map[string]func(*Txn){
		"nothing": func(*Txn) {},
		"SWAPDB":  func(t *Txn) { t.SwapDB(1, 2) },
		"its own": func(t *Txn) { t.SwapDB(0, 2); t.SwapDB(2, 0) },
		"FLUSHDB": func(t *Txn) { t.FlushDB(1) },
		"a string": func(t *Txn) {
			t.SetString(t.s.Key(1, []byte("s")), []byte("v"), ttl.Deadline{}, Event{})
		},
		"expiry": func(t *Txn) { t.s.shards[0].logReaped(t, t.now-1) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			k := h.s.Key(0, []byte("k"))
			h.do(func(t *Txn) {
				t.SetString(h.s.Key(1, []byte("other")), []byte("v"), ttl.Deadline{}, Event{})
			}, h.s.Key(1, []byte("other")))
			h.doAll(func(txn *Txn) {
				hash, err := txn.Hash(k)
				if err != nil {
					t.Fatal(err)
				}
				for i := range 4 {
					if i == 2 {
						amid(txn)
					}
					hash.Set(fmt.Appendf(nil, "f%d", i), []byte("v"), ttl.Deadline{})
				}
				hash.Delete([]byte("f0"))
			})
			h.commit()
			if err := h.s.Close(false); err != nil { // without a checkpoint: the log has it all
				t.Fatal(err)
			}
			h.open()
			h.do(func(txn *Txn) {
				hash, err := txn.Hash(k)
				if err != nil {
					t.Fatal(err)
				}
				if n := hash.Value().Len(); n != 3 {
					t.Errorf("%d fields are back of 3", n)
				}
			}, k)
		})
	}
}
