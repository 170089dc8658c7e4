package commands

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
)

// TestManyKeys: a call of very many keys gives the same replies as many calls of few keys. At first
// the keys are only on disk. Some have expired, some hold other types, and some are named twice.
func TestManyKeys(t *testing.T) {
	const many = manyElements + 2000
	h := newHarness(t)
	h.run(`
		SET key:5 expired PX 1 -> +OK
		HSET key:7 f v -> 1
		HPEXPIRE key:7 1 FIELDS 1 f -> [1]
		advance 1s
		RPUSH key:9 list -> 1
	`)
	for i := 10; i < many; i += 3 {
		h.do("SET", "key:"+strconv.Itoa(i), strconv.Itoa(i), "EX", strconv.Itoa(1000+i))
	}
	h.do("SET", "key:12", "")
	names := numbered(many, "key:", "")
	names = append(names, names[:5]...)
	var values [][]byte // in the replies of MGET for few keys
	exist := int64(0)
	for from := 0; from < len(names); from += 1000 {
		part := names[from:min(from+1000, len(names))]
		_, elements, _ := bytes.Cut(h.raw(append(byteArgs("MGET"), part...)...), []byte("\r\n"))
		values = append(values, bytes.Clone(elements))
		n, _ := ParseInt(bytes.Trim(h.raw(append(byteArgs("EXISTS"), part...)...), ":\r\n"))
		exist += n
	}
	h.reopen()
	hits, misses := h.env.Stats.Hits.Load(), h.env.Stats.Misses.Load()
	want := append(fmt.Appendf(nil, "*%d\r\n", len(names)), bytes.Join(values, nil)...)
	if got := h.raw(append(byteArgs("MGET"), names...)...); !bytes.Equal(got, want) {
		t.Errorf("MGET replies %.200q, and not %.200q", got, want)
	}
	if got := h.env.Stats.Hits.Load() - hits; got != exist ||
		h.env.Stats.Misses.Load()-misses != int64(len(names))-exist {
		t.Errorf("%d hits, and not %d", got, exist)
	}
	for _, name := range []string{"EXISTS", "TOUCH"} {
		if got := string(h.raw(append(byteArgs(name), names...)...)); got != fmt.Sprintf(":%d\r\n",
			exist) {
			t.Errorf("%s replies %q, and not %d", name, got, exist)
		}
	}
	stored := byteArgs("MSETNX")
	for _, name := range names {
		stored = append(stored, name, []byte("stored"))
	}
	must(t, h, "0", "EXISTS", "key:0")
	if got := string(h.raw(stored...)); got != ":0\r\n" {
		t.Errorf("MSETNX of keys that exist replies %q", got)
	}
	must(t, h, "0", "EXISTS", "key:0")
	stored[0] = []byte("MSET")
	if got := string(h.raw(stored...)); got != "+OK\r\n" {
		t.Errorf("MSET replies %q", got)
	}
	h.save = true
	h.reopen()
	must(t, h, strconv.Itoa(many), "DBSIZE")
	must(t, h, "-1", "TTL", "key:10")
	if got := string(h.raw(append(byteArgs("UNLINK"), names...)...)); got != fmt.Sprintf(":%d\r\n",
		many) {
		t.Errorf("UNLINK replies %q", got)
	}
	must(t, h, "0", "DBSIZE")
}

// TestSortOfMany: a SORT of very many elements that reads other keys finds them in memory and on
// disk. With CLIENT NO-TOUCH it does not mark them as used.
func TestSortOfMany(t *testing.T) {
	const many = manyElements + 5
	h := newHarness(t)
	h.raw(append(byteArgs("RPUSH", "list"), numbered(many, "", "")...)...)
	h.raw(numbered(many, "weight:", "1", "MSET")...)
	h.do("SET", "weight:7", "0")
	h.do("SET", "weight:8", "2")
	h.reopen()
	h.run(`
		SET value:8 last -> +OK
		CLIENT NO-TOUCH ON -> +OK
		advance 100s
		SORT list BY weight:* LIMIT 0 1 GET # GET value:* -> ["7", nil]
		SORT list BY weight:* DESC LIMIT 0 1 GET # GET value:* -> ["8", "last"]
		OBJECT IDLETIME value:8 -> 100
		CLIENT NO-TOUCH OFF -> +OK
		SORT list BY weight:* DESC LIMIT 0 1 GET # GET value:* -> ["8", "last"]
		OBJECT IDLETIME value:8 -> 0
	`)
}
