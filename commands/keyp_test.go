package commands

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"keyp/storage"
	"keyp/storage/object"
)

func TestUntimed(t *testing.T) {
	table(t, `
		KEYP.UNTIMED -> ["0", []]
		KEYP.UNTIMED COUNT 0 -> -ERR COUNT is a number of 1 or more
		KEYP.UNTIMED COUNT x -> -ERR COUNT is a number of 1 or more
		KEYP.UNTIMED COUNT -> -ERR COUNT needs a value
		KEYP.UNTIMED ELEMENTS -> -ERR syntax error: 'ELEMENTS' is no option here
		KEYP.UNTIMED 0 -> -ERR syntax error: '0' is no option here
		KEYP.UNTIMED CURSOR x -> -ERR invalid cursor
		KEYP.UNTIMED CURSOR -1 -> -ERR invalid cursor
		KEYP.UNTIMED CURSOR "" -> -ERR invalid cursor
		KEYP.UNTIMED CURSOR 18446744073709551616 -> -ERR invalid cursor
		KEYP.UNTIMED CURSOR 18446744073709551615 -> -ERR invalid cursor
		KEYP.UNTIMED CURSOR 0000000000000000000000000000000000000000000000000000000000000000 -> ["0", []]
		KEYP.UNTIMED CURSOR 00000000000000000000000000000000000000000000000000000000000000000 -> -ERR invalid cursor
		SET timed v PX 5000 -> +OK
		KEYP.UNTIMED -> ["0", []]
		HSET h f v g w -> 2
		HPEXPIRE h 5000 FIELDS 2 f g -> [1, 1]
		KEYP.UNTIMED -> ["0", ["h"]]
		KEYP.UNTIMED TYPE HASH MATCH h* COUNT 99999999999 -> ["0", ["h"]]
		KEYP.UNTIMED type string -> ["0", []]
		KEYP.UNTIMED type nonsense -> -ERR TYPE is string, list, set, zset, hash, stream, lease, limit or delay
		KEYP.UNTIMED match x* -> ["0", []]
		select 1
		KEYP.UNTIMED -> ["0", []]
		select 0
		PERSIST timed -> 1
		DEL h -> 1
		KEYP.UNTIMED -> ["0", ["timed"]]
		EVAL "return redis.call('KEYP.UNTIMED')" 0 -> ["0", ["timed"]]
		MULTI -> +OK
		SET within v -> +QUEUED
		PEXPIRE timed 5000 -> +QUEUED
		KEYP.UNTIMED -> +QUEUED
		EXEC -> [+OK, 1, ["0", ["within"]]]
		reopen
		KEYP.UNTIMED -> ["0", ["within"]]
		HSET within f v -> -WRONGTYPE Operation against a key holding the wrong kind of value
		DEL within timed -> 2
		HSET h f v -> 1
		HPEXPIRE h 5000 FIELDS 1 f -> [1]
		advance 5s
		KEYP.UNTIMED -> ["0", []]
	`)
}

// untimed walks all keys without a deadline, in pages of count keys. It returns how often each key
// was listed.
func untimed(h *harness, count func() int, options ...string) map[string]int {
	h.t.Helper()
	found := map[string]int{}
	cursor := "0"
	for range 100_000 {
		reply := h.raw(byteArgs(append([]string{"KEYP.UNTIMED", "CURSOR", cursor, "COUNT",
			strconv.Itoa(count())}, options...)...)...)
		parts := strings.Split(string(reply), "\r\n") // keys have no line ends
		cursor = parts[2]
		for i := 5; i < len(parts); i += 2 {
			found[parts[i]]++
		}
		if cursor == "0" {
			return found
		}
	}
	h.t.Fatalf("KEYP.UNTIMED does not end")
	return nil
}

// TestUntimedFindsAll: while nothing changes, each key without a deadline is listed once, in pages
// of any size. The keys may be in memory, on disk or both, in one slot or in many.
func TestUntimedFindsAll(t *testing.T) {
	h := newHarness(t)
	want := map[string]int{}
	for i := range 1500 {
		key := fmt.Sprintf("key:%d", i)
		if i%2 == 0 {
			key = fmt.Sprintf("{one slot}:%d", i)
		}
		switch {
		case i%3 == 0:
			h.do("SET", key, "v", "PX", "100000")
			continue
		case i%3 == 1:
			h.do("SET", key, "v")
		default:
			h.do("HSET", key, "f", "v")
			h.do("HPEXPIRE", key, "100000", "FIELDS", "1", "f")
		}
		want[key] = 1
	}
	compare := func(place string) {
		t.Helper()
		rapid.Check(t, func(rt *rapid.T) {
			sizes := rapid.SampledFrom([]int{3, 50, 2000, 20_000}).Draw(rt, "sizes")
			found := untimed(h, func() int {
				return rapid.IntRange(1+sizes/10, sizes).Draw(rt, "count")
			})
			if !maps.Equal(found, want) {
				rt.Fatalf("%s: %d keys, want %d", place, len(found), len(want))
			}
		})
		all := func() int { return 100 }
		if found := untimed(h, all, "MATCH", "{one*7"); len(found) != 0 {
			t.Errorf("%s: MATCH: %v", place, found)
		}
		hashes := 0
		for key := range untimed(h, all, "TYPE", "hash") {
			i, err := strconv.Atoi(key[strings.IndexByte(key, ':')+1:])
			if hashes++; err != nil || i%3 != 2 {
				t.Errorf("%s: %s is no hash", place, key)
			}
		}
		if hashes != 500 {
			t.Errorf("%s: %d hashes", place, hashes)
		}
	}
	compare("in memory")
	h.reopen()
	compare("on disk")
	for i := range 750 { // comes into memory
		h.do("EXISTS", fmt.Sprintf("{one slot}:%d", i))
	}
	h.do("SET", "{one slot}:new", "v")
	want["{one slot}:new"] = 1
	compare("in both")
}

func TestExpiring(t *testing.T) {
	const at = epoch + 5000
	steps := `
		KEYP.EXPIRING - + -> ["0", []]
		KEYP.EXPIRING -> -ERR wrong number of arguments for 'keyp.expiring' command
		KEYP.EXPIRING - -> -ERR wrong number of arguments for 'keyp.expiring' command
		KEYP.EXPIRING x + -> -ERR from and to are -, + or Unix milliseconds
		KEYP.EXPIRING - 1.5 -> -ERR from and to are -, + or Unix milliseconds
		KEYP.EXPIRING - 9223372036854775808 -> -ERR from and to are -, + or Unix milliseconds
		KEYP.EXPIRING - + COUNT 0 -> -ERR COUNT is a number of 1 or more
		KEYP.EXPIRING - + LIMIT 0 1 -> -ERR syntax error: 'LIMIT' is no option here
		KEYP.EXPIRING - + CURSOR -> -ERR CURSOR needs a value
		KEYP.EXPIRING - + CURSOR "" -> -ERR invalid cursor
		KEYP.EXPIRING - + CURSOR 1 -> -ERR invalid cursor
		KEYP.EXPIRING - + CURSOR 1-2 -> -ERR invalid cursor
		KEYP.EXPIRING - + CURSOR 1-2-3-4 -> -ERR invalid cursor
		KEYP.EXPIRING - + CURSOR 1-16385-0 -> -ERR invalid cursor
		KEYP.EXPIRING - + CURSOR 1-02-0 -> -ERR invalid cursor
		KEYP.EXPIRING - + CURSOR 1-2-FF -> -ERR invalid cursor
		KEYP.EXPIRING - + CURSOR 9223372036854775808-2-0 -> -ERR invalid cursor
		KEYP.EXPIRING - + CURSOR 1-2-00000000000000000000000000000000000000000000000000000000000000000 -> -ERR invalid cursor
		KEYP.EXPIRING - + CURSOR 9223372036854775807-16384-ffffffffffffffff -> ["0", []]
		KEYP.EXPIRING - + ELEMENTS none CURSOR 9223372036854775807-16384-ffffffffffffffff -> ["0", []]
		KEYP.EXPIRING - + ELEMENTS none CURSOR x -> -ERR invalid cursor
		KEYP.EXPIRING - + ELEMENTS -> -ERR ELEMENTS needs a value
		KEYP.EXPIRING - + ELEMENTS none TYPE hash -> -ERR TYPE is about keys, ELEMENTS about those of one key
		KEYP.EXPIRING x + ELEMENTS none -> -ERR from and to are -, + or Unix milliseconds
		KEYP.EXPIRING - + MATCH ELEMENTS -> ["0", []]
		KEYP.EXPIRING - + ELEMENTS none -> ["0", []]
		SET s v PXAT AT0 -> +OK
		SET later v PXAT AT2 -> +OK
		SET kept v -> +OK
		HSET h f v g v -> 2
		HPEXPIREAT h EARLY FIELDS 1 f -> [1]
		PEXPIREAT h AT1 -> 1
		HSET fields f v -> 1
		HPEXPIREAT fields AT0 FIELDS 1 f -> [1]
		SET last v PXAT 9223372036854775807 -> +OK
		KEYP.EXPIRING - + -> ["0", [["s", AT0], ["h", AT1], ["later", AT2], ["last", 9223372036854775807]]]
		KEYP.EXPIRING - + CURSOR 0 COUNT 100000 -> ["0", [["s", AT0], ["h", AT1], ["later", AT2], ["last", 9223372036854775807]]]
		KEYP.EXPIRING AT0 AT1 -> ["0", [["s", AT0]]]
		KEYP.EXPIRING AT1 AT1 -> ["0", []]
		KEYP.EXPIRING AT2 AT0 -> ["0", []]
		KEYP.EXPIRING + - -> ["0", []]
		KEYP.EXPIRING -5 0 -> ["0", []]
		KEYP.EXPIRING AT1 9223372036854775807 -> ["0", [["h", AT1], ["later", AT2]]]
		KEYP.EXPIRING 9223372036854775807 + -> ["0", [["last", 9223372036854775807]]]
		KEYP.EXPIRING - + TYPE hash -> ["0", [["h", AT1]]]
		KEYP.EXPIRING - + match l* type STRING -> ["0", [["later", AT2], ["last", 9223372036854775807]]]
		KEYP.EXPIRING - + COUNT 1 TYPE hash -> ["0", [["h", AT1]]]
		select 1
		KEYP.EXPIRING - + -> ["0", []]
		select 0
		EVAL "return redis.call('KEYP.EXPIRING', '-', ARGV[1])" 0 AT1 -> ["0", [["s", AT0]]]
		MULTI -> +OK
		SET within v PXAT AT1 -> +QUEUED
		PERSIST h -> +QUEUED
		KEYP.EXPIRING - AT2 -> +QUEUED
		EXEC -> [+OK, 1, ["0", [["s", AT0], ["within", AT1]]]]
		RENAME within moved -> +OK
		SWAPDB 0 1 -> +OK
		KEYP.EXPIRING - + -> ["0", []]
		SWAPDB 0 1 -> +OK
		reopen
		KEYP.EXPIRING - + -> ["0", [["s", AT0], ["moved", AT1], ["later", AT2], ["last", 9223372036854775807]]]
		advance 5s
		KEYP.EXPIRING - + -> ["0", [["moved", AT1], ["later", AT2], ["last", 9223372036854775807]]]
		KEYP.EXPIRING - AT1 -> ["0", []]
		FLUSHDB -> +OK
		KEYP.EXPIRING - + -> ["0", []]
		proto 3
		SET s v PXAT AT2 -> +OK
		KEYP.EXPIRING - + -> ["0", [["s", AT2]]]
	`
	table(t, strings.NewReplacer("AT0", fmt.Sprint(at), "AT1", fmt.Sprint(at+1), "AT2",
		fmt.Sprint(at+2), "EARLY", fmt.Sprint(at-1000)).Replace(steps))
}

func TestExpiringElements(t *testing.T) {
	const at = epoch + 5000
	steps := `
		HSET h f v g v x v -> 3
		HPEXPIREAT h AT1 FIELDS 1 f -> [1]
		HPEXPIREAT h AT2 FIELDS 1 g -> [1]
		SADD s a b -> 2
		PEXPIREMEMBERAT s a AT0 -> 1
		ZADD z 1 m 2 n -> 2
		PEXPIREMEMBERAT z m AT2 -> 1
		PEXPIREMEMBERAT z n AT3 -> 1
		PEXPIREAT z AT3 -> 1
		SET k v PXAT AT1 -> +OK
		RPUSH l a -> 1
		KEYP.EXPIRING - + -> ["0", [["k", AT1], ["z", AT3]]]
		KEYP.EXPIRING - + ELEMENTS k -> -WRONGTYPE elements of the type string have no deadlines: ELEMENTS names a hash, set, zset, stream or limit
		KEYP.EXPIRING - + ELEMENTS l -> -WRONGTYPE elements of the type list have no deadlines: ELEMENTS names a hash, set, zset, stream or limit
		KEYP.EXPIRING - AT1 ELEMENTS s -> ["0", [["a", AT0]]]
		KEYP.EXPIRING - + ELEMENTS h -> ["0", [["f", AT1], ["g", AT2]]]
		KEYP.EXPIRING - AT2 ELEMENTS h -> ["0", [["f", AT1]]]
		KEYP.EXPIRING AT2 + elements h -> ["0", [["g", AT2]]]
		KEYP.EXPIRING AT1 AT1 ELEMENTS h -> ["0", []]
		KEYP.EXPIRING - + ELEMENTS h MATCH g* -> ["0", [["g", AT2]]]
		KEYP.EXPIRING - + ELEMENTS s ELEMENTS h COUNT 10 -> -ERR ELEMENTS is given twice
		KEYP.EXPIRING - + COUNT 10 ELEMENTS z -> ["0", [["m", AT2]]]
		COMMAND GETKEYS KEYP.EXPIRING - + COUNT 10 ELEMENTS z -> ["z"]
		PERSIST z -> 1
		KEYP.EXPIRING - + ELEMENTS z -> ["0", [["m", AT2], ["n", AT3]]]
		HPERSIST h FIELDS 1 f -> [1]
		KEYP.EXPIRING - + ELEMENTS h -> ["0", [["g", AT2]]]
		HDEL h g -> 1
		KEYP.EXPIRING - + ELEMENTS h -> ["0", []]
		SADD "s2" "" -> 1
		PEXPIREMEMBERAT s2 "" AT2 -> 1
		KEYP.EXPIRING - + ELEMENTS s2 -> ["0", [["", AT2]]]
		EVAL "return redis.call('KEYP.EXPIRING', '-', ARGV[1], 'ELEMENTS', KEYS[1])" 1 s AT1 -> ["0", [["a", AT0]]]
		MULTI -> +OK
		PEXPIREMEMBERAT s b AT0 -> +QUEUED
		SREM s a -> +QUEUED
		KEYP.EXPIRING - AT1 ELEMENTS s -> +QUEUED
		EXEC -> [1, 1, ["0", [["b", AT0]]]]
		reopen
		KEYP.EXPIRING - AT1 ELEMENTS s -> ["0", [["b", AT0]]]
		RENAME s moved -> +OK
		KEYP.EXPIRING - AT1 ELEMENTS s -> ["0", []]
		KEYP.EXPIRING - AT1 ELEMENTS moved -> ["0", [["b", AT0]]]
		advance 5s
		KEYP.EXPIRING - + ELEMENTS moved -> ["0", []]
		advance 2ms
		KEYP.EXPIRING - + ELEMENTS z -> ["0", [["n", AT3]]]
	`
	table(t, strings.NewReplacer("AT0", fmt.Sprint(at), "AT1", fmt.Sprint(at+1), "AT2",
		fmt.Sprint(at+2), "AT3", fmt.Sprint(at+3)).Replace(steps))
}

// TestExpiringElementPages: pages of fields list all of them, once and in order, even if many have
// the same deadline. Fields that are added or removed between pages do not affect the others.
func TestExpiringElementPages(t *testing.T) {
	h := newHarness(t)
	rounds := 0
	for _, fields := range []int{100, 3000} { // a small value, and a large one
		for _, count := range []int{1, 70, 1000} {
			if count == 1 && fields > 100 {
				continue // there are as many pages as fields
			}
			key, want := fmt.Sprint("h:", rounds), map[string]int64{}
			rounds++
			for i := range fields {
				field, at := fmt.Sprint("f:", i), epoch+1000+int64(i%3)
				h.do("HSET", key, field, "v")
				h.do("HPEXPIREAT", key, fmt.Sprint(at), "FIELDS", "1", field)
				want[field] = at
			}
			h.do("HSET", key, "stays", "v")
			got, cursor, last := map[string]int64{}, "0", int64(0)
			for pages := 0; pages == 0 || cursor != "0"; pages++ {
				text, _ := render(h.raw(byteArgs("KEYP.EXPIRING", "-", "+", "ELEMENTS", key,
					"CURSOR", cursor, "COUNT", strconv.Itoa(count))...))
				found := regexp.MustCompile(`^\["([-0-9a-f]+)", \[(.*)\]\]$`).FindStringSubmatch(
					text)
				if found == nil || pages > 1000 {
					t.Fatalf("page %d: %s", pages, text)
				}
				cursor = found[1]
				entries := regexp.MustCompile(`\["([^"]+)", (\d+)\]`).FindAllStringSubmatch(
					found[2], -1)
				if len(entries) > count+1 { // two fields may have one hash
					t.Fatalf("page %d of %d has %d fields", pages, count, len(entries))
				}
				for _, entry := range entries {
					at, _ := strconv.ParseInt(entry[2], 10, 64)
					if _, twice := got[entry[1]]; twice || at < last {
						t.Fatalf("%s at %d after %d, twice: %v", entry[1], at, last, twice)
					}
					got[entry[1]], last = at, at
				}
				if another := fmt.Sprint("another:", pages%5); pages%2 == 0 {
					h.do("HSET", key, another, "v")
					h.do("HPEXPIREAT", key, fmt.Sprint(epoch+1000), "FIELDS", "1", another)
				} else {
					h.do("HDEL", key, another)
				}
			}
			maps.DeleteFunc(got, func(field string, _ int64) bool {
				return strings.HasPrefix(field, "another:")
			})
			if !maps.Equal(got, want) {
				t.Errorf("%d fields by %d: %d are listed", len(want), count, len(got))
			}
		}
	}
}

// countedDeadlines counts the deadlines that were read for a page.
type countedDeadlines struct {
	timedValue
	seen int
}

func (c *countedDeadlines) Deadlines(after int64, visit func(int64) bool) {
	c.timedValue.Deadlines(after, func(at int64) bool {
		c.seen++
		return visit(at)
	})
}

// TestExpiringElementsLooks: a page looks at only one deadline more than it lists, to find the
// start of the next page.
func TestExpiringElementsLooks(t *testing.T) {
	const fields = keypCountMax
	hash := new(object.Hash)
	for i := range fields {
		hash.Set([]byte(strconv.Itoa(i)), nil, epoch+int64(i))
	}
	for _, tt := range []struct {
		options    keypOptions
		list, seen int
		more       bool
	}{
		{keypOptions{scanOptions: scanOptions{count: 10}}, 10, 11, true},
		{keypOptions{scanOptions: scanOptions{count: 10, match: []byte("*5")}}, 10, 97, true},
		{keypOptions{scanOptions: scanOptions{count: 10, match: []byte("none")}}, 0,
			keypCountMax/2 + 1, true},
		{keypOptions{scanOptions: scanOptions{count: keypCountMax / 2}}, keypCountMax / 2,
			keypCountMax/2 + 1, true},
	} {
		v := &countedDeadlines{timedValue: hash}
		page := elementsPage{c: &Ctx{steps: patternSteps},
			options: &expiringOptions{keypOptions: tt.options}, until: storage.DueEnd}
		v.Deadlines(0, func(at int64) bool { return page.add(hash, at) })
		if len(page.list) != tt.list || v.seen != tt.seen || page.more != tt.more {
			t.Errorf("%+v: %d of %d deadlines are listed, more: %v", tt.options, len(page.list),
				v.seen, page.more)
		}
	}
}

func TestTimeline(t *testing.T) {
	const at = epoch + 5000
	steps := `
		KEYP.TIMELINE - + 10 -> []
		KEYP.TIMELINE -> -ERR wrong number of arguments for 'keyp.timeline' command
		KEYP.TIMELINE - + -> -ERR wrong number of arguments for 'keyp.timeline' command
		KEYP.TIMELINE x + 1 -> -ERR from and to are -, + or Unix milliseconds
		KEYP.TIMELINE - 1.5 1 -> -ERR from and to are -, + or Unix milliseconds
		KEYP.TIMELINE - + x -> -ERR the number of buckets is not from 1 to 10000
		KEYP.TIMELINE - + 0 -> -ERR the number of buckets is not from 1 to 10000
		KEYP.TIMELINE - + 10001 -> -ERR the number of buckets is not from 1 to 10000
		KEYP.TIMELINE - + 1 MATCH -> -ERR MATCH needs a value
		KEYP.TIMELINE - + 1 COUNT 10 -> -ERR syntax error: 'COUNT' is no option here
		KEYP.TIMELINE AT0 AT2 2 -> [[AT0, 0, 0, 0], [AT1, 0, 0, 0]]
		SET s v PXAT AT0 -> +OK
		SET later v PXAT AT2 -> +OK
		SET kept v -> +OK
		HSET h f v g v -> 2
		HPEXPIREAT h AT1 FIELDS 1 f -> [1]
		PEXPIREAT h AT3 -> 1
		KEYP.TIMELINE - + 1 -> [[NOW, 3, 3, 3]]
		KEYP.TIMELINE AT0 + 10 -> [[AT0, 1, 1, 1], [AT1, 1, 1, 1], [AT2, 1, 1, 1]]
		KEYP.TIMELINE AT0 AT4 2 -> [[AT0, 2, 2, 2], [AT2, 1, 1, 1]]
		KEYP.TIMELINE AT0 AT4 2 MATCH * -> [[AT0, 2, 2, 2], [AT2, 1, 1, 1]]
		KEYP.TIMELINE AT0 AT4 2 match l* -> [[AT0, 0, 0, 0], [AT2, 1, 1, 1]]
		KEYP.TIMELINE 0 AT1 1 -> [[0, 1, 1, 1]]
		KEYP.TIMELINE AT1 AT1 1 -> []
		KEYP.TIMELINE AT1 AT0 1 -> []
		KEYP.TIMELINE + + 1 -> []
		KEYP.TIMELINE + AT1 1 -> []
		KEYP.TIMELINE - - 1 -> []
		KEYP.TIMELINE - -9223372036854775808 1 -> []
		SET last v PXAT 9223372036854775807 -> +OK
		KEYP.TIMELINE AT4 9223372036854775807 1 -> [[AT4, 0, 0, 0]]
		KEYP.TIMELINE AT4 + 1 -> [[AT4, 1, 1, 1]]
		DEL last -> 1
		select 1
		KEYP.TIMELINE - + 1 -> []
		select 0
		EVAL "return redis.call('KEYP.TIMELINE', ARGV[1], '+', 1)" 0 AT1 -> [[AT1, 2, 2, 2]]
		MULTI -> +OK
		SET within v PXAT AT1 -> +QUEUED
		PERSIST later -> +QUEUED
		KEYP.TIMELINE AT0 AT3 3 MATCH *[^s]* -> +QUEUED
		KEYP.TIMELINE AT0 AT3 3 -> +QUEUED
		EXEC -> [+OK, 1, [[AT0, 0, 0, 0], [AT1, 2, 2, 2], [AT2, 0, 0, 0]], [[AT0, 1, 1, 1], [AT1, 2, 2, 2], [AT2, 0, 0, 0]]]
		SWAPDB 0 1 -> +OK
		KEYP.TIMELINE - + 1 -> []
		SWAPDB 0 1 -> +OK
		reopen
		KEYP.TIMELINE AT0 AT3 3 -> [[AT0, 1, 1, 1], [AT1, 2, 2, 2], [AT2, 0, 0, 0]]
		EVAL "return redis.call('KEYP.TIMELINE', ARGV[1], '+', 1)" 0 AT1 -> [[AT1, 2, 2, 2]]
		advance 5001ms
		KEYP.TIMELINE AT0 AT4 4 -> [[AT0, 0, 0, 0], [AT1, 0, 0, 0], [AT2, 0, 0, 0], [AT3, 1, 1, 1]]
		FLUSHDB -> +OK
		KEYP.TIMELINE - + 1 -> []
		proto 3
		SET s v PXAT AT3 -> +OK
		KEYP.TIMELINE AT3 + 1 -> [[AT3, 1, 1, 1]]
	`
	words := []string{"NOW", fmt.Sprint(int64(epoch))}
	for i := range 5 {
		words = append(words, fmt.Sprint("AT", i), fmt.Sprint(at+int64(i)))
	}
	table(t, strings.NewReplacer(words...).Replace(steps))
}

// TestKeypCursor: a cursor is a position that fits in its maximum length. It is read as it was
// written.
func TestKeypCursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := storage.DueCursor{Deadline: rapid.Int64Min(0).Draw(t, "deadline"),
			Slot: rapid.Uint16Range(0, storage.Slots).Draw(t, "slot"),
			Hash: rapid.Uint64().Draw(t, "hash")}
		text := appendPlace(nil, p)
		if got, ok := parsePlace(text); !ok || got != p || len(text) > keypCursorMax {
			t.Fatalf("%s of %v is %v, %v", text, p, got, ok)
		}
	})
}

// TestExpiringPages: each key with a deadline is listed once, in order, in pages of any size. This
// holds while other keys come and go, and for many keys with the same deadline.
func TestExpiringPages(t *testing.T) {
	h := newHarness(t)
	rng := rand.New(rand.NewPCG(1, 2))
	want := map[string]int64{}
	for i := range 1500 {
		key, at := fmt.Sprintf("key:%d", i), epoch+1000+rng.Int64N(500)
		switch {
		case i%3 == 0:
			key = fmt.Sprintf("{one slot}:%d", i)
			fallthrough
		case i%3 == 1:
			at = epoch + 1234
		}
		if i%4 == 0 {
			h.do("HSET", key, "f", "v", "g", "v")
			h.do("HPEXPIREAT", key, fmt.Sprint(epoch+500), "FIELDS", "1", "f")
			h.do("PEXPIREAT", key, fmt.Sprint(at))
		} else {
			h.do("SET", key, "v", "PXAT", fmt.Sprint(at))
		}
		want[key] = at
	}
	for _, place := range []string{"in memory", "on disk"} {
		for _, most := range []int{20, 300, 5000} {
			got, cursor, last := map[string]int64{}, "0", int64(0)
			for pages := 0; pages == 0 || cursor != "0"; pages++ {
				reply := h.raw(byteArgs("KEYP.EXPIRING", "-", "+", "CURSOR", cursor, "COUNT",
					strconv.Itoa(1+rng.IntN(most)))...)
				text, _ := render(reply)
				found := regexp.MustCompile(`^\["([-0-9a-f]+)", \[(.*)\]\]$`).FindStringSubmatch(
					text)
				if found == nil || pages > 10_000 {
					t.Fatalf("%s: page %d: %s", place, pages, text)
				}
				cursor = found[1]
				for _, entry := range regexp.MustCompile(
					`\["([^"]+)", (\d+)\]`).FindAllStringSubmatch(found[2], -1) {
					at, _ := strconv.ParseInt(entry[2], 10, 64)
					if _, twice := got[entry[1]]; twice || at < last {
						t.Fatalf("%s: %s at %d after %d, twice: %v", place, entry[1],
							at, last, twice)
					}
					got[entry[1]], last = at, at
				}
				h.do("SET", fmt.Sprint("other", pages), "v", "PXAT",
					fmt.Sprint(epoch+100_000+int64(pages)))
				h.do("DEL", fmt.Sprint("other", pages-3))
			}
			maps.DeleteFunc(got, func(key string, _ int64) bool {
				return strings.HasPrefix(key, "other")
			})
			if !maps.Equal(got, want) {
				t.Errorf("%s, by up to %d: %d keys, want %d", place, most, len(got), len(want))
			}
		}
		h.reopen()
	}
}

// TestKeypRights: a user sees only the keys whose deadline it may read.
func TestKeypRights(t *testing.T) {
	h := newHarness(t)
	h.run(`
		SET a v -> +OK
		SET b v -> +OK
		SET a:timed v PXAT 1700000005000 -> +OK
		SET b:timed v PXAT 1700000005000 -> +OK
		ACL SETUSER none on nopass +@all -@keyp ~* -> +OK
		ACL SETUSER keyp on nopass +@keyp +pexpiretime ~a* -> +OK
		ACL SETUSER write on nopass +@keyp +pexpiretime %W~a* -> +OK
		ACL SETUSER blind on nopass +@keyp ~* -> +OK
		ACL SETUSER keyspace on nopass +@keyspace -@dangerous %R~b* -> +OK
		user none
		KEYP.UNTIMED -> -NOPERM User none has no permissions to run the 'keyp.untimed' command
		KEYP.EXPIRING - + -> -NOPERM User none has no permissions to run the 'keyp.expiring' command
		KEYP.TIMELINE - + 1 -> -NOPERM User none has no permissions to run the 'keyp.timeline' command
		user keyp
		KEYP.TIMELINE 1700000005000 + 2 -> [[1700000005000, 1, 1, 1]]
		KEYP.TIMELINE 1700000005000 + 2 MATCH b* -> [[1700000005000, 0, 0, 0]]
		KEYP.UNTIMED -> ["0", ["a"]]
		KEYP.EXPIRING - + -> ["0", [["a:timed", 1700000005000]]]
		user write
		KEYP.UNTIMED -> ["0", []]
		KEYP.EXPIRING - + -> ["0", []]
		KEYP.TIMELINE 1700000005000 + 2 -> [[1700000005000, 0, 0, 0]]
		user blind
		KEYP.TIMELINE 1700000005000 + 2 -> [[1700000005000, 0, 0, 0]]
		KEYP.UNTIMED -> ["0", []]
		KEYP.EXPIRING - + -> ["0", []]
		user keyspace
		KEYP.UNTIMED -> ["0", ["b"]]
		KEYP.EXPIRING - + -> ["0", [["b:timed", 1700000005000]]]
		KEYP.TIMELINE 1700000005000 + 2 -> [[1700000005000, 1, 1, 1]]
		user default
		KEYP.TIMELINE 1700000005000 + 2 -> [[1700000005000, 2, 2, 2]]
		SADD a:set m -> 1
		PEXPIREMEMBERAT a:set m 1700000005000 -> 1
		HSET a:hash f v -> 1
		HPEXPIREAT a:hash 1700000005001 FIELDS 1 f -> [1]
		ACL SETUSER sets on nopass +@keyp +pexpiretime +sscan ~a* -> +OK
		user keyp
		KEYP.EXPIRING - + ELEMENTS a:set -> -NOPERM this user may not see the deadlines and elements of this key
		user sets
		KEYP.EXPIRING - + ELEMENTS a:set -> ["0", [["m", 1700000005000]]]
		KEYP.EXPIRING - + ELEMENTS a:hash -> -NOPERM this user may not see the deadlines and elements of this key
		KEYP.EXPIRING - + ELEMENTS b:hash -> -NOPERM No permissions to access a key
		user default
		KEYP.EXPIRING - + ELEMENTS a:hash -> ["0", [["f", 1700000005001]]]
		ACL CAT keyp -> ["keyp.untimed", "keyp.expiring", "keyp.timeline", "keyp.policy|set", "keyp.policy|get", "keyp.policy|del", "keyp.policy|list", "keyp.policy|test", "keyp.policy|apply", "keyp.policy|help", "keyp.clock|info", "keyp.clock|confirm", "keyp.clock|help", "keyp.backup|help", "keyp.outbox|set", "keyp.outbox|get", "keyp.outbox|del", "keyp.outbox|list", "keyp.outbox|streams", "keyp.outbox|help", "keyp.lease|acquire", "keyp.lease|renew", "keyp.lease|release", "keyp.lease|check", "keyp.lease|info", "keyp.lease|help", "keyp.limit|take", "keyp.limit|peek", "keyp.limit|confirm", "keyp.limit|return", "keyp.limit|held", "keyp.limit|reset", "keyp.limit|info", "keyp.limit|help", "cl.throttle", "keyp.delay|add", "keyp.delay|pop", "keyp.delay|ack", "keyp.delay|extend", "keyp.delay|nack", "keyp.delay|cancel", "keyp.delay|reschedule", "keyp.delay|len", "keyp.delay|info", "keyp.delay|range", "keyp.delay|help"]
		ACL CAT backup -> ["keyp.backup|begin", "keyp.backup|read", "keyp.backup|end", "keyp.backup|resume"]
		COMMAND INFO keyp.untimed -> [["keyp.untimed", -1, [+readonly], 0, 0, 0, [+@keyspace, +@read, +@slow, +@keyp], ["nondeterministic_output", "request_policy:special"], [], []]]
	`)
	for _, spec := range keypCommands {
		if words := h.env.Table.Lookup([]byte(spec.Name)).categories(); !slices.Contains(words,
			"@keyp") || slices.Contains(words, "@dangerous") {
			t.Errorf("%s: categories %v", spec.Name, words)
		}
	}
}
