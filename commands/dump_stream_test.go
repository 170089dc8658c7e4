package commands

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"keyp/internal/rdb"
)

// TestDumpStream: a stream that Redis dumped is restored and copied unchanged, and dumped as it
// was. The same is true for a stream with the features of later versions.
func TestDumpStream(t *testing.T) {
	h := newHarness(t)
	var payloads []string
	for _, body := range redisPayloads(t) {
		if body[0] == 19 {
			payloads = append(payloads, payload(string(body)))
		}
	}
	if len(payloads) < 5 {
		t.Fatalf("only %d streams", len(payloads))
	}
	for _, producers := range [][]rdb.StreamProducer{
		nil,
		{{Name: []byte("p"), IIDs: []rdb.StreamIID{{IID: []byte("i"), ID: rdb.StreamID{Ms: 1}},
			{IID: []byte("j"), ID: rdb.StreamID{Ms: 3}}}},
			{Name: []byte("q"),
				IIDs: []rdb.StreamIID{{IID: []byte("i"), ID: rdb.StreamID{Ms: 2}}}}},
	} {
		entry := rdb.StreamEntry{ID: rdb.StreamID{Ms: 3, Seq: 4},
			Fields: [][]byte{[]byte("f"), []byte("v"), []byte(""), []byte("")}}
		payloads = append(payloads,
			string(rdb.Encode(rdb.Value{Type: rdb.Stream, Stream: &rdb.StreamValue{
				Entries: slices.Values([]rdb.StreamEntry{entry}), Last: rdb.StreamID{Ms: 5},
				MaxDeleted: rdb.StreamID{Ms: 4, Seq: 1}, Added: 7,
				Duration: 10, MaxSize: 20, Producers: producers, IIDs: 30, Duplicates: 40,
				Groups: []rdb.StreamGroup{{
					Name: []byte("g"), Last: rdb.StreamID{Ms: 4}, Read: -1,
					Consumers: []rdb.StreamConsumer{{Name: []byte(""), Seen: 8, Active: -1},
						{Name: []byte("c"), Seen: 9, Active: 8}},
					Pending: []rdb.StreamPending{
						{ID: rdb.StreamID{Ms: 1}, Consumer: -1, Count: 2},
						{ID: rdb.StreamID{Ms: 2}, Consumer: 1, Delivered: 6, Count: 1},
						{ID: rdb.StreamID{Ms: 3}, Consumer: -1, Count: 5},
						{ID: rdb.StreamID{Ms: 4}, Delivered: 7, Count: 1},
					},
					Nacked: []rdb.StreamID{{Ms: 3}, {Ms: 1}},
				}},
			}})))
	}
	for i, p := range payloads {
		h.do("FLUSHALL")
		must(t, h, "+OK", "RESTORE", "k", "0", p)
		must(t, h, "1", "COPY", "k", "copy")
		must(t, h, "+stream", "TYPE", "copy")
		must(t, h, `"stream"`, "OBJECT", "ENCODING", "copy")
		must(t, h, "-WRONGTYPE Operation against a key holding the wrong kind of value", "SORT",
			"k")
		for _, key := range []string{"k", "copy"} {
			if got := h.dump(key); got != p {
				t.Errorf("payload %d of %s: %q, want %q", i, key, got, p)
			}
		}
		if err := h.store.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestoreIdempotence: RESTORE replaces settings that XCFGSET would refuse, so that no sum of
// times overflows.
func TestRestoreIdempotence(t *testing.T) {
	h := newHarness(t)
	at := uint64(h.clock.Now())
	must(t, h, "+OK", "RESTORE", "k", "0",
		string(rdb.Encode(rdb.Value{Type: rdb.Stream, Stream: &rdb.StreamValue{
			Entries: slices.Values([]rdb.StreamEntry{{ID: rdb.StreamID{Ms: at},
				Fields: [][]byte{[]byte("f"), []byte("v")}}}), Last: rdb.StreamID{Ms: at}, Added: 1,
			Duration: 1 << 62, MaxSize: 1 << 62, Producers: []rdb.StreamProducer{{Name: []byte("p"),
				IIDs: []rdb.StreamIID{{IID: []byte("i"), ID: rdb.StreamID{Ms: at}}}}}, IIDs: 1,
		}})))
	if got, want := h.all("XADD k IDMP p i * f v"), fmt.Sprintf(`"%d-0"`, at); got != want {
		t.Errorf("the id is %s, was %s", got, want)
	}
	if got := h.all("XINFO STREAM k"); !strings.Contains(got,
		`"idmp-duration", 86400, "idmp-maxsize", 10000`) {
		t.Error(got)
	}
}

// TestRestoreClampsRead: a restored group has read no more entries than were added, whatever the
// payload says.
func TestRestoreClampsRead(t *testing.T) {
	h := newHarness(t)
	p := rdb.Encode(rdb.Value{Type: rdb.Stream, Len: 1, Stream: &rdb.StreamValue{
		Entries: func(yield func(rdb.StreamEntry) bool) {
			yield(rdb.StreamEntry{ID: rdb.StreamID{Ms: 5, Seq: 1},
				Fields: [][]byte{[]byte("f"), []byte("v")}})
		},
		Last: rdb.StreamID{Ms: 5, Seq: 1}, Added: 4, Groups: []rdb.StreamGroup{{Name: []byte("g"),
			Last: rdb.StreamID{Ms: 5, Seq: 1}, Read: 9}},
	}})
	if got := h.do("RESTORE", "k", "0", string(p)); got != "+OK" {
		t.Fatal(got)
	}
	if got := h.do("XINFO", "GROUPS", "k"); !strings.Contains(got, `"entries-read", 4, "lag", 0`) {
		t.Error(got)
	}
}
