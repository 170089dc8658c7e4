package rdb

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/metrics"
	"strings"
	"testing"
)

// TestDecode: Decode returns the right value for each valid payload, and ErrFormat for each invalid
// one.
func TestDecode(t *testing.T) {
	for _, tt := range payloads() {
		t.Run(tt.name, func(t *testing.T) {
			v, err := Decode(tt.payload())
			if tt.want == nil {
				if err != ErrFormat {
					t.Fatalf("got %v and %.500q, want ErrFormat", err, flat(v))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			same(t, v, *tt.want)
		})
	}
}

func TestDecodeTrailer(t *testing.T) {
	good := seal(raw(kindString, 3, "abc"), version7_0)
	change := func(i int) []byte { b := bytes.Clone(good); b[(i+len(b))%len(b)]++; return b }
	tests := []struct {
		name    string
		payload []byte
		want    error
	}{
		{"good", good, nil},
		{"version 0", seal(raw(kindString, 3, "abc"), 0), nil},
		{"newest", seal(raw(kindString, 3, "abc"), Newest), nil},
		{"newer", seal(raw(kindString, 3, "abc"), Newest+1), ErrPayload},
		{"version 256", seal(raw(kindString, 3, "abc"), 256), ErrPayload},
		{"nothing", nil, ErrPayload},
		{"9 bytes", good[:9], ErrPayload},
		{"zeros", make([]byte, 10), ErrFormat}, // the checksum of zeros is zero
		{"no value", seal(nil, version7_0), ErrFormat},
		{"short of a byte", good[:len(good)-1], ErrPayload},
		{"a byte behind", append(bytes.Clone(good), 0), ErrPayload},
		{"content changed", change(2), ErrPayload},
		{"version changed", change(-9), ErrPayload},
		{"checksum changed", change(-1), ErrPayload},
		{"stream", seal(raw(kindStream3, 0), version7_0), ErrFormat},
	}
	for _, tt := range tests {
		if _, err := Decode(tt.payload); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestChecksum compares with the published check value of CRC-64/Jones.
func TestChecksum(t *testing.T) {
	if got := checksum([]byte("123456789")); got != 0xe9c6d914c4b8d9ca {
		t.Errorf("%x", got)
	}
}

// TestRedisDumpFile: Decode reads payloads that a Redis 7.0.15 wrote, and Encode writes them
// unchanged.
func TestRedisDumpFile(t *testing.T) {
	file, err := os.ReadFile(dumpFile)
	if err != nil {
		t.Fatal(err)
	}
	dumps := map[string][]byte{}
	for line := range strings.Lines(string(file)) {
		var name string
		var dump []byte
		if _, err := fmt.Sscanf(line, "%x %x", &name, &dump); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		dumps[name] = dump
	}
	found := 0
	for _, s := range samples() {
		dump := dumps[s.name]
		if dump == nil {
			continue // too large for the file
		}
		found++
		v, err := Decode(dump)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		same(t, v, s.value)
		if again := Encode(v); !bytes.Equal(again, dump) {
			t.Errorf("%s: got %x, Redis %x", s.name, again, dump)
		}
	}
	if found < 80 {
		t.Errorf("only %d payloads found", found)
	}
}

// TestElementsStop: a loop over Elements may stop early and start again.
func TestElementsStop(t *testing.T) {
	for _, tt := range payloads() {
		if tt.want == nil || tt.want.Type == String || tt.want.Type == Stream {
			// These types have no Elements.
			continue
		}
		v, err := Decode(tt.payload())
		if err != nil {
			t.Fatal(err)
		}
		for stop := range v.Len {
			seen := 0
			for range v.Elements {
				if seen++; seen > stop {
					break
				}
			}
			if seen != stop+1 {
				t.Fatalf("%s: %d elements, want %d", tt.name, seen, stop+1)
			}
		}
		same(t, v, *tt.want)
	}
}

// TestDecodeMemory: a payload that claims more than it contains does not make Decode allocate
// memory for the claim.
func TestDecodeMemory(t *testing.T) {
	bomb := func(size int, text string) []byte { // a list of listpacks that shrink well
		p := newPack()
		for range size {
			p.add([]byte(text))
		}
		var w writer
		w.string(p.end())
		return w.b
	}
	node := bomb(1<<16, "7")
	tests := []struct {
		name  string
		body  []byte
		limit uint64
	}{
		{"LZF claim", raw(kindString, 0xc3, 6, 0x80, be32(511<<20), 1, "aa", 0xe0, 0, 0), 1 << 20},
		{"LZF claims", raw(kindList, 0x42, 0,
			bytes.Repeat(raw(0xc3, 6, 0x80, be32(511<<20), 1, "aa", 0xe0, 0, 0), 512)), 1 << 20},
		{"count", raw(kindSet, 0x81, be64(1<<40), long("\x01a")), 1 << 20},
		{"list of packed nodes", raw(kindListListpacks, 0x80, be32(100),
			bytes.Repeat(raw(nodePacked, node), 100)), 4 << 20},
		{"intset", raw(kindSetIntset, is(8, 1<<29, le64(1))), 1 << 20},
	}
	for _, tt := range tests {
		payload := seal(tt.body, version7_0)
		allocated := allocations(func() { _, _ = Decode(payload) })
		if allocated > tt.limit {
			t.Errorf("%s: %d bytes for a payload of %d", tt.name, allocated, len(payload))
		}
	}
}

// allocations returns about how many bytes f allocates. The runtime counts some small objects late.
func allocations(f func()) uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	f()
	metrics.Read(sample)
	return sample[0].Value.Uint64() - before
}

func TestAllocations(t *testing.T) {
	var kept []byte
	if n := allocations(func() { kept = make([]byte, 2<<20) }); n < uint64(len(kept)) || n > 3<<20 {
		t.Errorf("%d bytes are counted for %d", n, len(kept))
	}
}

func FuzzDecode(f *testing.F) {
	for _, tt := range payloads() {
		f.Add(tt.body)
	}
	for _, s := range samples() {
		if p := Encode(s.value); len(p) < 2000 && !strings.Contains(s.name, "string") {
			f.Add(p[:len(p)-trailerBytes])
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<16 {
			return // nothing new is in longer ones
		}
		_, _ = Decode(body)
		payload := seal(bytes.Clone(body), Newest)
		var v Value
		var err error
		if used := allocations(func() { v, err = Decode(payload) }); used > 1<<20+
			uint64(len(body))*lzfExpansion*64 {
			t.Fatalf("%d bytes are allocated for %d", used, len(body))
		}
		switch err {
		case nil:
			again, err := Decode(Encode(v))
			if err != nil {
				t.Fatalf("%.2000q encoded: %v", flat(v), err)
			}
			same(t, again, v)
		case ErrFormat:
		default:
			t.Fatal(err)
		}
	})
}
