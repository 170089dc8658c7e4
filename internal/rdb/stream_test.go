package rdb

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// flatStream returns a stream as text, without the times when consumers were seen and active: Redis
// sets these itself.
func flatStream(s *StreamValue) (lines []string) {
	for e := range s.Entries {
		lines = append(lines, fmt.Sprintf("%v %q", e.ID, e.Fields))
	}
	lines = append(lines, fmt.Sprintf("last %v, deleted %v, added %d", s.Last,
		s.MaxDeleted, s.Added))
	groups := slices.Clone(s.Groups)
	slices.SortFunc(groups, func(a, b StreamGroup) int { return bytes.Compare(a.Name, b.Name) })
	for _, g := range groups {
		lines = append(lines, fmt.Sprintf("group %q %v %d, given back %v", g.Name, g.Last,
			g.Read, g.Nacked))
		for _, p := range g.Pending {
			by := ""
			if p.Consumer >= 0 {
				by = string(g.Consumers[p.Consumer].Name)
			}
			lines = append(lines, fmt.Sprintf("pending %v %q %d %d", p.ID, by,
				p.Delivered, p.Count))
		}
		var consumers []string
		for _, c := range g.Consumers {
			consumers = append(consumers, string(c.Name))
		}
		slices.Sort(consumers)
		lines = append(lines, fmt.Sprintf("consumers %q", consumers))
	}
	return append(lines, fmt.Sprintf("idempotence %d %d %d %d %v", s.Duration, s.MaxSize, s.IIDs,
		s.Duplicates, s.Producers))
}

func entry(ms, seq uint64, fields ...string) StreamEntry {
	e := StreamEntry{ID: StreamID{ms, seq}}
	for _, f := range fields {
		e.Fields = append(e.Fields, []byte(f))
	}
	return e
}

// stream returns a stream with entries. change sets the rest.
func stream(entries []StreamEntry, change func(*StreamValue)) Value {
	s := &StreamValue{Entries: slices.Values(entries), Added: uint64(len(entries))}
	if n := len(entries); n > 0 {
		s.Last = entries[n-1].ID
	}
	if change != nil {
		change(s)
	}
	return Value{Type: Stream, Len: len(entries), Stream: s}
}

func manyEntries(n int, fields func(i int) []string) (all []StreamEntry) {
	for i := range n {
		all = append(all, entry(1_700_000_000_000+uint64(i/3), uint64(i%3), fields(i)...))
	}
	return all
}

// streams are samples of streams.
func streams() []sample {
	abc := []StreamEntry{entry(1, 1, "a", "1"), entry(1, 2, "a", "x", "b", "y"),
		entry(5, 0, "a", "")}
	groups := func(s *StreamValue) {
		s.Groups = []StreamGroup{
			{Name: []byte("g"), Last: StreamID{5, 0}, Read: 3,
				Consumers: []StreamConsumer{{[]byte("alice"), 5, 5}, {[]byte("bob"), 6, 6}},
				Pending: []StreamPending{{StreamID{1, 1}, 1, 1000, 3},
					{StreamID{1, 2}, 0, 1_700_000_000_000, 1}, {StreamID{5, 0}, 1, 7, 200}}},
			{Name: []byte("none"), Read: -1},
		}
	}
	return []sample{
		{"stream/one", stream(abc[:1], nil)},
		{"stream/three", stream(abc, nil)},
		{"stream/ids", stream([]StreamEntry{entry(0, 1, "f", "v"),
			entry(7, math.MaxUint64, "f", "v"), entry(math.MaxUint64-1, 0, "f", "v")}, nil)},
		{"stream/groups", stream(abc, groups)},
		{"stream/empty", stream(nil, func(s *StreamValue) {
			s.Last, s.MaxDeleted, s.Added = StreamID{9, 9}, StreamID{4, 0}, 12
			groups(s)
			s.Groups[0].Pending = nil
		})},
		{"stream/integers", stream(manyEntries(50, func(i int) []string {
			return []string{"n", strconv.Itoa(i * i * i * 1000), "-5", "-0"}
		}), nil)},
		{"stream/nodes", stream(manyEntries(350, func(i int) []string {
			return []string{"field", "value " + strconv.Itoa(i), "other", "o"}
		}), nil)},
		{"stream/long values", stream(manyEntries(40, func(i int) []string {
			return []string{"f", noise(20 * i * i)}
		}), nil)},
		{"stream/shapes", stream(manyEntries(150, func(i int) []string {
			return slices.Repeat([]string{strings.Repeat("f", i%4), "v"}, 1+i%3)
		}), nil)},
	}
}

// storeStream builds a stream with commands.
func (r realRedis) storeStream(key string, s *StreamValue) {
	id := func(id StreamID) string { return fmt.Sprintf("%d-%d", id.Ms, id.Seq) }
	r.do("XGROUP", "CREATE", key, "g", "0", "MKSTREAM")
	r.do("XGROUP", "DESTROY", key, "g")
	for e := range s.Entries {
		args := []any{"XADD", key, id(e.ID)}
		for _, f := range e.Fields {
			args = append(args, bytes.Clone(f))
		}
		r.do(args...)
	}
	r.do("XSETID", key, id(s.Last), "ENTRIESADDED", s.Added, "MAXDELETEDID", id(s.MaxDeleted))
	for _, g := range s.Groups {
		r.do("XGROUP", "CREATE", key, g.Name, id(g.Last), "ENTRIESREAD", g.Read)
		for _, c := range g.Consumers {
			r.do("XGROUP", "CREATECONSUMER", key, g.Name, c.Name)
		}
		for _, p := range g.Pending {
			r.do("XCLAIM", key, g.Name, g.Consumers[p.Consumer].Name, 0, id(p.ID), "TIME",
				p.Delivered, "RETRYCOUNT", p.Count, "FORCE", "JUSTID")
		}
	}
}

// fetchStream reads a stream with commands.
func (r realRedis) fetchStream(key string) Value {
	id := func(text any) (id StreamID) {
		if _, err := fmt.Sscanf(text.(string), "%d-%d", &id.Ms, &id.Seq); err != nil {
			r.t.Fatal(err)
		}
		return id
	}
	info := func(reply any) map[string]any {
		m := map[string]any{}
		for list := reply.([]any); len(list) > 0; list = list[2:] {
			m[list[0].(string)] = list[1]
		}
		return m
	}
	var entries []StreamEntry
	for _, reply := range r.do("XRANGE", key, "-", "+").([]any) {
		e := StreamEntry{ID: id(reply.([]any)[0])}
		for _, f := range reply.([]any)[1].([]any) {
			e.Fields = append(e.Fields, []byte(f.(string)))
		}
		entries = append(entries, e)
	}
	all := info(r.do("XINFO", "STREAM", key, "FULL", "COUNT", 0))
	return stream(entries, func(s *StreamValue) {
		s.Last, s.MaxDeleted, s.Added = id(all["last-generated-id"]),
			id(all["max-deleted-entry-id"]), uint64(all["entries-added"].(int64))
		for _, reply := range all["groups"].([]any) {
			m := info(reply)
			g := StreamGroup{Name: []byte(m["name"].(string)), Last: id(m["last-delivered-id"]),
				Read: -1}
			if read, ok := m["entries-read"].(int64); ok {
				g.Read = read
			}
			at := map[string]int{}
			for i, reply := range m["consumers"].([]any) {
				c := info(reply)
				at[c["name"].(string)] = i
				g.Consumers = append(g.Consumers, StreamConsumer{Name: []byte(c["name"].(string))})
			}
			for _, reply := range m["pending"].([]any) {
				p := reply.([]any)
				g.Pending = append(g.Pending, StreamPending{id(p[0]), at[p[1].(string)],
					p[2].(int64), p[3].(int64)})
			}
			s.Groups = append(s.Groups, g)
		}
	})
}

// TestLaterStreams: streams with properties that only later versions have are written with those
// versions' types. Decode returns them unchanged.
func TestLaterStreams(t *testing.T) {
	for _, s := range streams() {
		for _, tt := range []struct {
			kind    byte
			version byte
			change  func(*StreamValue)
		}{
			{kindStream2, version7_0, func(*StreamValue) {}},
			{kindStream4, version8_6, func(s *StreamValue) {
				s.Duration, s.MaxSize, s.IIDs, s.Duplicates = 50, 60, 9, 2
				s.Producers = []StreamProducer{{[]byte("p"),
					[]StreamIID{{[]byte("i"), StreamID{1, 1}}, {[]byte("77"), StreamID{1, 2}}}}}
			}},
			{kindStream5, version8_8, func(s *StreamValue) {
				s.Duration, s.MaxSize = 100, 100
				s.Groups = append(slices.Clone(s.Groups), StreamGroup{Name: []byte("last"),
					Consumers: []StreamConsumer{{[]byte("c"), 1, -1}},
					Pending: []StreamPending{{StreamID{1, 1}, -1, 0, 3}, {StreamID{1, 2}, 0, 8, 1},
						{StreamID{3, 1}, -1, 0, 1}}, Nacked: []StreamID{{3, 1}, {1, 1}}})
			}},
		} {
			copied := *s.value.Stream
			tt.change(&copied)
			v := Value{Type: Stream, Len: s.value.Len, Stream: &copied}
			p := Encode(v)
			if p[0] != tt.kind || p[len(p)-trailerBytes] != tt.version {
				t.Errorf("%s: type %d in version %d, want %d in %d", s.name, p[0],
					p[len(p)-trailerBytes], tt.kind, tt.version)
			}
			got, err := Decode(p)
			if err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			same(t, got, v)
		}
	}
}

// node returns a stream node with an ID. The parts are the elements of its listpack.
func node(ms uint64, parts ...any) []byte {
	p := newPack()
	for _, part := range parts {
		p.add(fmt.Append(nil, part))
	}
	return raw(16, be64(ms), be64(1), held(p.end()))
}

// streamPayloads returns handmade streams.
func streamPayloads() []payload {
	one := node(5, 1, 0, 1, "f", 0, 2, 0, 0, "v", 4)
	two := node(5, 1, 1, 1, "f", 0, 3, 0, 0, "v", 4, 0, 1, 0, 2, "g", "h", "i", "j", 8)
	tail := raw(1, 5, 1, 5, 1, 0, 0, 1) // length, last, first, deleted, added
	val := stream([]StreamEntry{entry(5, 1, "f", "v")}, nil)
	grouped := func(read int64) Value {
		return stream([]StreamEntry{entry(5, 1, "f", "v")}, func(s *StreamValue) {
			s.Groups = []StreamGroup{{Name: []byte("g"), Last: StreamID{5, 1}, Read: read,
				Consumers: []StreamConsumer{{Name: []byte("c")}},
				Pending:   []StreamPending{{StreamID{5, 1}, 0, 9, 2}}}}
		})
	}
	pending := raw(1, be64(5), be64(1), le64(9), 2)
	mine := raw(1, be64(5), be64(1))
	consumer := raw(1, 1, "c", le64(1))
	later := func(p payload) payload { p.newer = true; return p }
	return []payload{
		good("stream/first kind", val, kindStream, 1, one, 1, 5, 1, 0),
		good("stream/first kind, group", grouped(1), kindStream, 1, one, 1, 5, 1, 1, 1, "g", 5, 1,
			pending, consumer, mine),
		good("stream/second kind", val, kindStream2, 1, one, tail, 0),
		good("stream/group", grouped(7), kindStream2, 1, one, tail, 1, 1, "g", 5, 1, 7, pending,
			consumer, mine),
		laxer("stream/fewer added than there are", kindStream2, 1, one, tail[:6], 0, 0),
		laxer("stream/too many added", kindStream2, 1, one, tail[:6], raw(0x81, be64(1<<63)), 0),
		good("stream/deleted entry", stream([]StreamEntry{entry(6, 1, "g", "h", "i", "j")}, nil),
			kindStream, 1, two, 1, 6, 1, 0),
		later(good("stream/third kind", grouped(7), kindStream3, 1, one, tail, 1, 1, "g", 5, 1, 7,
			pending, consumer, le64(2), mine)),
		bad("stream/nothing", kindStream2),
		bad("stream/no groups", kindStream2, 1, one, tail),
		laxer("stream/bytes left", kindStream2, 1, one, tail, 0, 0),
		bad("stream/short id", kindStream2, 1, 15, be64(5), make([]byte, 7), one[17:], tail, 0),
		bad("stream/node twice", kindStream2, 2, one, one, 2, tail[1:], 0),
		bad("stream/empty node", kindStream2, 1, node(5), 0, tail[1:], 0),
		laxer("stream/length", kindStream2, 1, one, 2, tail[1:], 0),
		laxer("stream/last id below", kindStream2, 1, one, 1, 4, 1, tail[3:], 0),
		bad("stream/count of entries", kindStream2, 1, node(5, 2, 0, 1, "f", 0, 2, 0, 0, "v", 4),
			tail, 0),
		bad("stream/count of fields", kindStream2, 1, node(5, 1, 0, 2, "f", 0, 2, 0, 0, "v", 4),
			tail, 0),
		bad("stream/end of names", kindStream2, 1, node(5, 1, 0, 1, "f", 1, 2, 0, 0, "v", 4), tail,
			0),
		bad("stream/count of elements", kindStream2, 1, node(5, 1, 0, 1, "f", 0, 2, 0, 0, "v", 5),
			tail, 0),
		bad("stream/left in node", kindStream2, 1, node(5, 1, 0, 1, "f", 0, 2, 0, 0, "v", 4, 1),
			tail, 0),
		laxer("stream/deleted and not counted", kindStream2, 1,
			node(5, 1, 0, 1, "f", 0, 3, 0, 0, "v", 4), tail, 0),
		bad("stream/pending twice", kindStream2, 1, one, tail, 1, 1, "g", 5, 1, 7, 2, pending[1:],
			pending[1:], consumer, mine),
		bad("stream/pending nowhere", kindStream2, 1, one, tail, 1, 1, "g", 5, 1, 7,
			pending, consumer, 0),
		bad("stream/consumer's is not pending", kindStream2, 1, one, tail, 1, 1, "g", 5, 1, 7, 0,
			consumer, mine),
		bad("stream/group twice", kindStream2, 1, one, tail, 2, 1, "g", 5, 1, 7, 0, 0, 1,
			"g", 5, 1, 7, 0, 0),
		bad("stream/many groups", kindStream2, 1, one, tail, 0x80, be32(1<<31), 1, "g"),
		later(bad("stream/nacked and owned", kindStream5, 1, one, tail, 1, 1, "g", 5, 1, 7, pending,
			consumer, le64(2), mine, mine, 1, 1, 0, 0, 0)),
		later(bad("stream/producer without ids", kindStream4, 1, one, tail, 0, 1, 1, 1,
			1, "p", 0, 0, 0)),
		later(bad("stream/more ids than added", kindStream4, 1, one, tail, 0, 1, 1, 1, 1, "p", 1, 1,
			"i", 5, 1, 0, 0)),
	}
}

// TestStreamRoundTrip: Decode returns any encoded stream unchanged.
func TestStreamRoundTrip(t *testing.T) {
	text := rapid.SampledFrom([]string{"", "a", "12", "-3", strings.Repeat("long", 100)})
	rapid.Check(t, func(t *rapid.T) {
		var entries []StreamEntry
		id := StreamID{}
		for range rapid.IntRange(0, 250).Draw(t, "entries") {
			id = StreamID{id.Ms + uint64(rapid.IntRange(0, 1<<40).Draw(t, "ms")), id.Seq + 1}
			entries = append(entries,
				entry(id.Ms, id.Seq, slices.Repeat([]string{text.Draw(t, "name"),
					text.Draw(t, "value")}, rapid.IntRange(1, 3).Draw(t, "pairs"))...))
		}
		v := stream(entries, nil)
		got, err := Decode(Encode(v))
		if err != nil {
			t.Fatal(err)
		}
		if a, b := flat(got), flat(v); !slices.Equal(a, b) {
			t.Fatalf("%q, want %q", a, b)
		}
	})
}
