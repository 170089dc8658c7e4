package rdb

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
)

// payload is a handmade payload.
type payload struct {
	name     string
	body     []byte
	want     *Value // nil: ErrFormat
	newer    bool   // Redis 7.0 does not know the type
	stricter bool   // Redis 7.0 restores it, and Decode refuses it
}

func (p payload) payload() []byte { return seal(bytes.Clone(p.body), version7_0) }

// raw joins bytes (as int) and texts.
func raw(parts ...any) []byte {
	var b []byte
	for _, part := range parts {
		switch part := part.(type) {
		case int:
			b = append(b, byte(part))
		case string:
			b = append(b, part...)
		case []byte:
			b = append(b, part...)
		default:
			panic(part)
		}
	}
	return b
}

// held is a string of up to 63 bytes, with its length.
func held(parts ...any) []byte {
	b := raw(parts...)
	if len(b) < 64 {
		return raw(len(b), b)
	}
	return raw(0x40|len(b)>>8, len(b), b)
}

func le16(n int) []byte       { return binary.LittleEndian.AppendUint16(nil, uint16(n)) }
func le32(n int) []byte       { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }
func le64(n uint64) []byte    { return binary.LittleEndian.AppendUint64(nil, n) }
func be32(n uint64) []byte    { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
func be64(n uint64) []byte    { return binary.BigEndian.AppendUint64(nil, n) }
func f64(f float64) []byte    { return le64(math.Float64bits(f)) }
func long(text string) string { return strings.Repeat(text, 100/len(text)) }

// lp returns a listpack that claims count entries. ent returns an entry with its back length.
func lp(count int, entries ...any) []byte {
	b := raw(entries...)
	return held(le32(len(b)+7), le16(count), b, 0xff)
}

func ent(parts ...any) []byte { b := raw(parts...); return append(b, byte(len(b))) }

// txt returns the entry of a short string.
func txt(s string) []byte { return ent(0x80|len(s), s) }

// zl returns a ziplist with the offset of its last entry.
func zl(last, count int, entries ...any) []byte {
	b := raw(entries...)
	return held(le32(len(b)+11), le32(last), le16(count), b, 0xff)
}

// is returns an intset.
func is(width, count int, numbers ...any) []byte {
	return held(le32(width), le32(count), raw(numbers...))
}

func payloads() []payload {
	all := append(plainPayloads(), packedPayloads()...)
	all = append(all, oldPayloads()...)
	all = append(all, timedPayloads()...)
	return append(all, streamPayloads()...)
}

func good(name string, v Value, parts ...any) payload {
	return payload{name: name, want: &v, body: raw(parts...)}
}
func bad(name string, parts ...any) payload { return payload{name: name, body: raw(parts...)} }

// laxer returns a payload that Decode refuses and Redis restores.
func laxer(name string, parts ...any) payload {
	return payload{name: name, body: raw(parts...), stricter: true}
}

func plainPayloads() []payload {
	ab := names("a", "b")
	hash := collection(Hash, field("a", "1"), field("b", "2"))
	scores := collection(ZSet, scored(1.5, "a"), scored(math.Inf(-1), "b"),
		scored(math.Inf(1), "c"))
	return []payload{
		bad("nothing"),
		bad("string/nothing", kindString),
		good("string/empty", str(""), kindString, 0),
		good("string/short", str("abc"), kindString, 3, "abc"),
		good("string/14 bits", str("abc"), kindString, 0x40, 3, "abc"),
		good("string/32 bits", str("abc"), kindString, 0x80, be32(3), "abc"),
		good("string/64 bits", str("abc"), kindString, 0x81, be64(3), "abc"),
		good("string/int8", str("-2"), kindString, 0xc0, 0xfe),
		good("string/int16", str("-2"), kindString, 0xc1, le16(-2)),
		good("string/int32", str("-2"), kindString, 0xc2, le32(-2)),
		good("string/LZF", str(strings.Repeat("a", 11)), kindString, 0xc3, 6, 11, 1,
			"aa", 0xe0, 0, 0),
		good("string/LZF literal", str("abc"), kindString, 0xc3, 4, 3, 2, "abc"),
		laxer("string/short of a byte", kindString, 4, "abc"),
		bad("string/no length", kindString, 0x40),
		bad("string/length 2^32-1", kindString, 0x80, be32(1<<32-1), "abc"),
		bad("string/length 2^64-1", kindString, 0x81, be64(1<<64-1), "abc"),
		bad("string/length 2^63", kindString, 0x81, be64(1<<63), "abc"),
		bad("string/length of unknown form", kindString, 0x82, be64(3), "abc"),
		bad("string/special of unknown form", kindString, 0xc4, 3, "abc"),
		laxer("string/int32 short", kindString, 0xc2, 1, 2, 3),
		bad("string/LZF shorter", kindString, 0xc3, 6, 12, 1, "aa", 0xe0, 0, 0),
		bad("string/LZF longer", kindString, 0xc3, 6, 10, 1, "aa", 0xe0, 0, 0),
		bad("string/LZF before the start", kindString, 0xc3, 6, 11, 1, "aa", 0xe0, 0, 2),
		bad("string/LZF ends in a literal", kindString, 0xc3, 2, 5, 4, "a"),
		bad("string/LZF ends in a copy", kindString, 0xc3, 4, 11, 1, "aa", 0xe0),
		bad("string/LZF claims 2^62", kindString, 0xc3, 6, 0x81, be64(1<<62), 1, "aa", 0xe0, 0, 0),
		bad("string/LZF claims 513 MB", kindString, 0xc3, 6, 0x80, be32(513<<20), 1,
			"aa", 0xe0, 0, 0),
		laxer("string/LZF of nothing", kindString, 0xc3, 0xc1, 0, "a"),
		laxer("string/more behind", kindString, 3, "abc", 0),

		good("list", collection(List, ab...), kindList, 2, 1, "a", 1, "b"),
		good("list/twice the same", collection(List, names("7", "7")...), kindList, 2,
			0xc0, 7, 1, "7"),
		bad("list/empty", kindList, 0),
		bad("list/short of one", kindList, 3, 1, "a", 1, "b"),
		bad("list/2^64-1 elements", kindList, 0x81, be64(1<<64-1), 1, "a"),
		laxer("list/more behind", kindList, 1, 1, "a", 1, "b"),

		good("set", collection(Set, ab...), kindSet, 2, 1, "a", 1, "b"),
		bad("set/empty", kindSet, 0),
		bad("set/twice the same", kindSet, 2, 1, "a", 1, "a"),
		bad("set/twice the same number", kindSet, 3, 0xc0, 7, 1, "x", 1, "7"),

		good("hash", hash, kindHash, 2, 1, "a", 1, "1", 1, "b", 0xc0, 2),
		bad("hash/empty", kindHash, 0),
		bad("hash/twice the same", kindHash, 2, 1, "a", 1, "1", 1, "a", 1, "2"),
		bad("hash/without last value", kindHash, 2, 1, "a", 1, "1", 1, "b"),
		bad("hash/2^63 fields", kindHash, 0x81, be64(1<<63), 1, "a", 1, "1"),

		good("zset/text", scores, kindZSetText, 3, 1, "a", 3, "1.5", 1, "b", 255, 1, "c", 254),
		good("zset/binary", scores, kindZSet, 3, 1, "a", f64(1.5), 1, "b", f64(math.Inf(-1)), 1,
			"c", f64(math.Inf(1))),
		bad("zset/text NaN", kindZSetText, 1, 1, "a", 253),
		bad("zset/text nan", kindZSetText, 1, 1, "a", 3, "nan"),
		laxer("zset/text no number", kindZSetText, 1, 1, "a", 3, "1.x"),
		bad("zset/binary NaN", kindZSet, 1, 1, "a", f64(math.NaN())),
		laxer("zset/binary short", kindZSet, 1, 1, "a", "1234567"),
		bad("zset/twice the same", kindZSet, 2, 1, "a", f64(1), 1, "a", f64(2)),
		bad("zset/empty", kindZSet, 0),

		bad("module", 7, 0x81, be64(1), 0),
		bad("module before release", 6, 0x81, be64(1), 0),
		bad("type 8", 8, 1, "a"),
		bad("type 100", 100, 1, "a"),
		bad("type 255", 255),
	}
}

func packedPayloads() []payload {
	ab, two := raw(txt("a"), txt("b")), raw(txt("a"), ent(1), txt("b"), ent(2))
	all := collection(List, names("0", "127", "a", "-4096", "4095", "-2", "-2", "-2", "-2",
		long("abc"), "abc")...)
	big := raw(0xe0, 99, long("abc"), 101)
	set := collection(Set, names("a", "b")...)
	return []payload{
		good("listpack/all forms", all, kindListListpacks, 1, 2,
			lp(11, ent(0), ent(127), txt("a"), ent(0xd0, 0), ent(0xcf, 0xff),
				ent(0xf1, le16(-2)), ent(0xf2, le32(-2)[:3]), ent(0xf3, le32(-2)),
				ent(0xf4, le64(1<<64-2)), big, ent(0xf0, le32(3), "abc"))),
		good("listpack/count unknown", collection(List, names("a", "b")...), kindListListpacks, 1,
			2, lp(65535, ab)),
		bad("listpack/count too low", kindListListpacks, 1, 2, lp(1, ab)),
		bad("listpack/count too high", kindListListpacks, 1, 2, lp(3, ab)),
		bad("listpack/bytes too many", kindListListpacks, 1, 2, held(le32(14), le16(2), ab, 0xff)),
		bad("listpack/bytes too few", kindListListpacks, 1, 2, held(le32(12), le16(2), ab, 0xff)),
		bad("listpack/no end", kindListListpacks, 1, 2, held(le32(13), le16(2), ab, 0)),
		bad("listpack/end inside", kindListListpacks, 1, 2, lp(2, txt("a"), 0xff, txt("b"))),
		bad("listpack/head only", kindListListpacks, 1, 2, held(le32(6), le16(0))),
		bad("listpack/unknown form", kindListListpacks, 1, 2, lp(1, ent(0xf5))),
		bad("listpack/back length too low", kindListListpacks, 1, 2, lp(2, 0x81, "a", 1, txt("b"))),
		bad("listpack/back length too high", kindListListpacks, 1, 2,
			lp(2, 0x81, "a", 3, txt("b"))),
		bad("listpack/back length too long", kindListListpacks, 1, 2,
			lp(2, 0x81, "a", 0, 0x82, txt("b"))),
		bad("listpack/no back length", kindListListpacks, 1, 2, lp(1, 0x81, "a")),
		bad("listpack/string over the end", kindListListpacks, 1, 2,
			lp(1, 0xf0, le32(1<<32-1), "a", 6)),
		bad("listpack/empty", kindListListpacks, 1, 2, lp(0)),

		good("list/plain and packed", collection(List, names("x", "a", "b", "7")...),
			kindListListpacks, 3, 1, 1, "x", 2, lp(2, ab), 1, 0xc0, 7),
		good("list/one node empty", collection(List, names("a", "b")...), kindListListpacks, 2, 2,
			lp(0), 2, lp(2, ab)),
		bad("list/no nodes", kindListListpacks, 0),
		bad("list/node short", kindListListpacks, 2, 2, lp(2, ab)),
		bad("list/container 3", kindListListpacks, 1, 3, lp(2, ab)),
		bad("list/plain empty", kindListListpacks, 1, 1, 0),
		good("list/packed string", collection(List, names("aaaaaaaaaaaaaaaaaaaa")...),
			kindListListpacks, 1, 2, 0xc3, 16, 29,
			8, le32(29), le16(1), 0x94, "aa", 0xe0, 9, 0, 1, 21, 0xff),

		{name: "set/listpack", newer: true, want: &set, body: raw(kindSetListpack, lp(2, ab))},
		{name: "set/listpack twice the same", newer: true,
			body: raw(kindSetListpack, lp(2, txt("a"), txt("a")))},
		{name: "set/listpack twice the same number", newer: true,
			body: raw(kindSetListpack, lp(2, ent(7), txt("7")))},
		{name: "set/listpack empty", newer: true, body: raw(kindSetListpack, lp(0))},

		good("hash/listpack", collection(Hash, field("a", "1"), field("b", "2")), kindHashListpack,
			lp(4, two)),
		bad("hash/listpack odd", kindHashListpack, lp(3, two[:len(two)-2])),
		bad("hash/listpack twice the same", kindHashListpack,
			lp(4, ent(7), ent(1), txt("7"), ent(2))),
		bad("hash/listpack empty", kindHashListpack, lp(0)),
		laxer("hash/listpack more behind", kindHashListpack, lp(4, two), 0),
		good("zset/listpack", collection(ZSet, scored(1, "a"), scored(2, "b")), kindZSetListpack,
			lp(4, two)),
		good("zset/listpack scores", collection(ZSet, scored(math.Inf(-1), "a"), scored(1e17, "b")),
			kindZSetListpack, lp(4, txt("a"), txt("-inf"), txt("b"), txt("1e+17"))),
		laxer("zset/listpack nan", kindZSetListpack, lp(2, txt("a"), txt("nan"))),
		laxer("zset/listpack no score", kindZSetListpack, lp(2, txt("a"), txt("x"))),
		bad("zset/listpack odd", kindZSetListpack, lp(3, two[:len(two)-2])),
		bad("zset/listpack twice the same", kindZSetListpack,
			lp(4, txt("a"), ent(1), txt("a"), ent(2))),

		good("intset/2", collection(Set, names("-2", "0", "32767")...), kindSetIntset,
			is(2, 3, le16(-2), le16(0), le16(32767))),
		good("intset/4", collection(Set, names("-2", "70000")...), kindSetIntset,
			is(4, 2, le32(-2), le32(70000))),
		good("intset/8", collection(Set, names("-2", "9223372036854775807")...), kindSetIntset,
			is(8, 2, le64(1<<64-2), le64(1<<63-1))),
		bad("intset/3", kindSetIntset, is(3, 1, "abc")),
		bad("intset/0", kindSetIntset, is(0, 1)),
		bad("intset/empty", kindSetIntset, is(2, 0)),
		bad("intset/too many", kindSetIntset, is(2, 3, le16(1), le16(2))),
		bad("intset/too few", kindSetIntset, is(2, 1, le16(1), le16(2))),
		bad("intset/2^32-1", kindSetIntset, is(8, 1<<32-1, le64(1))),
		bad("intset/out of order", kindSetIntset, is(2, 2, le16(2), le16(1))),
		bad("intset/twice the same", kindSetIntset, is(2, 2, le16(1), le16(1))),
		bad("intset/head short", kindSetIntset, held(le32(2), "abc")),
	}
}

func oldPayloads() []payload {
	ab := raw(0, 1, "a", 3, 1, "b")
	two := raw(0, 1, "a", 3, 0xf2, 2, 1, "b", 3, 0xf3)
	forms := raw(0, 0xf1, 2, 0xfd, 2, 0xfe, 0xfe, 3, 0xc0, le16(-2), 4, 0xf0, le32(-2)[:3], 5, 0xd0,
		le32(-2), 6, 0xe0, le64(1<<64-2),
		10, 0x40, 100, long("ab"), 103, 0x80, be32(3), "abc")
	all := collection(List, names("0", "12", "-2", "-2", "-2", "-2", "-2", long("ab"), "abc")...)
	list := collection(List, names("a", "b")...)
	hash := collection(Hash, field("a", "1"), field("b", "2"))
	zset := collection(ZSet, scored(1, "a"), scored(2, "b"))
	return []payload{
		good("ziplist", list, kindListZiplist, zl(13, 2, ab)),
		good("ziplist/all forms", all, kindListZiplist, zl(len(forms)+10-9, 9, forms)),
		good("ziplist/long before", list, kindListZiplist,
			zl(13, 2, 0, 1, "a", 0xfe, le32(3), 1, "b")),
		good("ziplist/count unknown", list, kindListZiplist, zl(13, 65535, ab)),
		bad("ziplist/count too low", kindListZiplist, zl(13, 1, ab)),
		bad("ziplist/count too high", kindListZiplist, zl(13, 3, ab)),
		bad("ziplist/last wrong", kindListZiplist, zl(10, 2, ab)),
		bad("ziplist/bytes wrong", kindListZiplist, held(le32(16), le32(13), le16(2), ab, 0xff)),
		bad("ziplist/no end", kindListZiplist, held(le32(17), le32(13), le16(2), ab, 0)),
		bad("ziplist/before wrong", kindListZiplist, zl(13, 2, 0, 1, "a", 2, 1, "b")),
		bad("ziplist/first before wrong", kindListZiplist, zl(13, 2, 1, 1, "a", 3, 1, "b")),
		bad("ziplist/end inside", kindListZiplist, zl(13, 2, 0, 1, "a", 0xff, 1, "b")),
		bad("ziplist/unknown form", kindListZiplist, zl(10, 1, 0, 0xc1, 0)),
		bad("ziplist/string over the end", kindListZiplist, zl(10, 1, 0, 0x80, be32(1<<32-1), "a")),
		bad("ziplist/empty", kindListZiplist, zl(10, 0)),
		bad("ziplist/head short", kindListZiplist, held(le32(10), le32(10), le16(0))),

		good("list/ziplists", collection(List, names("a", "b", "a", "b")...), kindListZiplists, 2,
			zl(13, 2, ab), zl(13, 2, ab)),
		good("list/ziplists one empty", list, kindListZiplists, 2, zl(10, 0), zl(13, 2, ab)),
		bad("list/ziplists all empty", kindListZiplists, 1, zl(10, 0)),
		bad("list/no ziplists", kindListZiplists, 0),
		bad("list/ziplists short of one", kindListZiplists, 2, zl(13, 2, ab)),

		good("hash/ziplist", hash, kindHashZiplist, zl(18, 4, two)),
		bad("hash/ziplist odd", kindHashZiplist, zl(15, 3, two[:len(two)-2])),
		bad("hash/ziplist twice the same", kindHashZiplist,
			zl(18, 4, 0, 1, "a", 3, 0xf2, 2, 1, "a", 3, 0xf3)),
		good("zset/ziplist", zset, kindZSetZiplist, zl(18, 4, two)),
		bad("zset/ziplist twice the same", kindZSetZiplist,
			zl(18, 4, 0, 1, "a", 3, 0xf2, 2, 1, "a", 3, 0xf3)),

		good("zipmap", hash, kindHashZipmap, held(2, 1, "a", 1, 0, "1", 1, "b", 1, 0, "2", 0xff)),
		good("zipmap/unused bytes", hash, kindHashZipmap,
			held(2, 1, "a", 1, 2, "1xx", 1, "b", 1, 0, "2", 0xff)),
		good("zipmap/count unknown", hash, kindHashZipmap,
			held(254, 1, "a", 1, 0, "1", 1, "b", 1, 0, "2", 0xff)),
		good("zipmap/long length", collection(Hash, field("a", strings.Repeat("ab", 150))),
			kindHashZipmap, held(1, 1, "a", 254, le32(300), 0, strings.Repeat("ab", 150), 0xff)),
		bad("zipmap/length longer than needed", kindHashZipmap,
			held(1, 1, "a", 254, le32(100), 0, long("ab"), 0xff)),
		bad("zipmap/count wrong", kindHashZipmap,
			held(3, 1, "a", 1, 0, "1", 1, "b", 1, 0, "2", 0xff)),
		bad("zipmap/twice the same", kindHashZipmap,
			held(2, 1, "a", 1, 0, "1", 1, "a", 1, 0, "2", 0xff)),
		bad("zipmap/without value", kindHashZipmap, held(1, 1, "a", 0xff)),
		bad("zipmap/no end", kindHashZipmap, held(1, 1, "a", 1, 0, "1")),
		bad("zipmap/over the end", kindHashZipmap, held(1, 1, "a", 9, 0, "1", 0xff)),
		bad("zipmap/unused over the end", kindHashZipmap, held(1, 1, "a", 1, 9, "1", 0xff)),
		bad("zipmap/empty", kindHashZipmap, held(0, 0xff)),
		bad("zipmap/nothing", kindHashZipmap, held()),
	}
}

// timedPayloads returns payloads of Redis 7.4.
func timedPayloads() []payload {
	const first = 1_800_000_000_000
	hash := collection(Hash, timedField("a", "1", first), field("b", "2"),
		timedField("c", "3", first+9))
	pack := lp(9, txt("a"), ent(1), ent(0xf4, le64(first)), txt("c"), ent(3),
		ent(0xf4, le64(first+9)), txt("b"), ent(2), ent(0))
	none := collection(Hash, field("a", "1"))
	all := []payload{
		good("hash/deadlines", hash, kindHashTimed, le64(first), 3, 1, 1, "a", 1, "1", 0, 1, "b", 1,
			"2", 10, 1, "c", 0xc0, 3),
		good("hash/deadlines of before", hash, kindHashTimed0, 3, 0x81, be64(first), 1, "a", 1, "1",
			0, 1, "b", 1, "2", 0x81, be64(first+9), 1, "c", 1, "3"),
		good("hash/no deadline", none, kindHashTimed, le64(0), 1, 0, 1, "a", 1, "1"),
		good("hash/no deadline, first 2^48", none, kindHashTimed, le64(1<<48), 1, 0,
			1, "a", 1, "1"),
		good("hash/latest deadline", collection(Hash, timedField("a", "1", 1<<48-1)), kindHashTimed,
			le64(1<<48-1), 1, 1, 1, "a", 1, "1"),
		bad("hash/first deadline too late", kindHashTimed, le64(1<<48+1), 1, 0, 1, "a", 1, "1"),
		bad("hash/deadline too late", kindHashTimed, le64(1<<48-1), 1, 2, 1, "a", 1, "1"),
		bad("hash/deadline 2^64-1", kindHashTimed, le64(first), 1, 0x81, be64(1<<64-1),
			1, "a", 1, "1"),
		bad("hash/deadline of before 2^64-1", kindHashTimed0, 1, 0x81, be64(1<<64-1),
			1, "a", 1, "1"),
		bad("hash/deadlines twice the same", kindHashTimed, le64(first), 2, 1, 1, "a", 1, "1", 0,
			1, "a", 1, "2"),
		bad("hash/deadlines empty", kindHashTimed, le64(first), 0),
		bad("hash/deadlines short", kindHashTimed, le64(first), 2, 1, 1, "a", 1, "1"),
		bad("hash/deadlines head short", kindHashTimed, "1234567"),
		bad("hash/deadlines 2^64-1 fields", kindHashTimed, le64(first), 0x81, be64(1<<64-1), 1,
			1, "a", 1, "1"),

		good("hash/listpack deadlines", hash, kindHashPackTimed, le64(first), pack),
		good("hash/listpack deadlines of before", hash, kindHashPackTimed0, pack),
		bad("hash/listpack deadlines not by three", kindHashPackTimed0,
			lp(4, txt("a"), ent(1), ent(0), txt("b"))),
		bad("hash/listpack deadline no number", kindHashPackTimed0,
			lp(3, txt("a"), ent(1), txt("x"))),
		bad("hash/listpack deadline negative", kindHashPackTimed0,
			lp(3, txt("a"), ent(1), ent(0xf1, le16(-1)))),
		bad("hash/listpack deadline too late", kindHashPackTimed0,
			lp(3, txt("a"), ent(1), ent(0xf4, le64(1<<48)))),
		bad("hash/listpack deadlines twice the same", kindHashPackTimed0,
			lp(6, txt("a"), ent(1), ent(0), txt("a"), ent(2), ent(0))),
		bad("hash/listpack deadlines empty", kindHashPackTimed0, lp(0)),

		good("set/deadlines", collection(Set, timedField("a", "", first), names("b")[0]),
			kindSetTimed, le64(first), 2, 1, 1, "a", 0, 1, "b"),
		bad("set/deadline too late", kindSetTimed, le64(1<<48-1), 1, 2, 1, "a"),
		bad("set/deadlines twice the same", kindSetTimed, le64(first), 2, 1, 1, "a", 0, 1, "a"),
		bad("set/deadlines short", kindSetTimed, le64(first), 2, 1, 1, "a"),
		bad("set/deadlines 2^64-1 members", kindSetTimed, le64(first), 0x81, be64(1<<64-1), 1, 1,
			"a"),
		bad("set/deadlines empty", kindSetTimed, le64(first), 0),
		good("zset/deadlines", collection(ZSet, timedMember("a", 1.5, first+2), scored(2, "b")),
			kindZSetTimed, le64(first), 2, 3, 1, "a", f64(1.5), 0, 1, "b", f64(2)),
		bad("zset/deadlines NaN", kindZSetTimed, le64(first), 1, 1, 1, "a", f64(math.NaN())),
		bad("zset/deadlines short score", kindZSetTimed, le64(first), 1, 1, 1, "a", "1234567"),
		bad("zset/deadlines twice the same", kindZSetTimed, le64(first), 2, 1, 1, "a", f64(1), 0,
			1, "a", f64(2)),
	}
	for i := range all {
		all[i].newer = true
	}
	return all
}
