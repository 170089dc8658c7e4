package commands

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc64"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// dump returns the payload that DUMP replies, in the form that RESTORE takes.
func (h *harness) dump(key string) string {
	h.t.Helper()
	text, err := strconv.Unquote(h.do("DUMP", key))
	if err != nil {
		h.t.Fatalf("DUMP %s: %s", key, h.do("DUMP", key))
	}
	return text
}

// payload makes a payload for RESTORE from a type byte and the bytes of the value.
func payload(body string) string {
	b := binary.LittleEndian.AppendUint16([]byte(body), 10)
	sum := ^crc64.Update(^uint64(0), crc64.MakeTable(0x95ac9329ac4bc9b5), b)
	return string(binary.LittleEndian.AppendUint64(b, sum))
}

func TestDump(t *testing.T) {
	table(t, `
		DUMP none -> nil
		SET k v -> +OK
		DUMP k -> `+strconv.Quote(payload("\x00\x01v"))+`
		DUMP k k -> -ERR wrong number of arguments for 'dump' command
		proto 3
		DUMP none -> null
	`)
}

func TestRestore(t *testing.T) {
	h := newHarness(t)
	h.do("RPUSH", "list", "a", "1", strings.Repeat("x", 9000))
	h.do("SADD", "ints", "3", "1", "2")
	h.do("SADD", "set", "a", "1")
	h.do("HSET", "hash", "f", "v", "g", "7", "h", "8")
	h.do("HPEXPIRE", "hash", "1000", "FIELDS", "1", "f")
	h.do("HPEXPIRE", "hash", "3000", "FIELDS", "1", "h")
	h.do("SADD", "timed", "a", "b", "c")
	h.do("EXPIREMEMBER", "timed", "a", "1")
	h.do("EXPIREMEMBER", "timed", "b", "3")
	h.do("SET", "string", "12345")
	h.do("SET", "long", strings.Repeat("abc", 100_000))
	h.do("ZADD", "zset", "1.5", "a", "-inf", "b", "2", "c")
	h.do("EXPIREMEMBER", "zset", "a", "3")
	h.heard()
	keys := []string{"list", "ints", "set", "hash", "timed", "string", "long", "zset"}
	payloads := map[string]string{}
	for _, key := range keys {
		payloads[key] = h.dump(key)
		must(t, h, "+OK", "RESTORE", key+"2", "0", payloads[key])
		if got := h.heard(); got != "restore:"+key+"2" {
			t.Errorf("%s: events %s", key, got)
		}
	}
	h.reopen()
	for _, key := range keys {
		if got := h.dump(key + "2"); got != payloads[key] {
			t.Errorf("%s: %.200q came back, not %.200q", key, got, payloads[key])
		}
		must(t, h, "-1", "TTL", key+"2")
		must(t, h, h.do("TYPE", key), "TYPE", key+"2")
		must(t, h, h.do("OBJECT", "ENCODING", key), "OBJECT", "ENCODING", key+"2")
	}
	h.run(`
		TTL timed2 b -> 3
		HTTL hash2 FIELDS 3 f g h -> [1, -1, 3]
		advance 1s
	`)
	// RESTORE leaves out a field that expired since DUMP.
	must(t, h, "+OK", "RESTORE", "timed3", "0", payloads["timed"])
	must(t, h, "+OK", "RESTORE", "hash3", "0", payloads["hash"])
	h.run(`
		SMEMBERS timed3 -> ["b", "c"]
		TTL timed3 b -> 2
		HGETALL hash3 -> ["h", "8", "g", "7"]
		SREM timed2 c -> 1
		HDEL hash2 g -> 1
	`)
	payloads["timed"], payloads["hash"] = h.dump("timed2"), h.dump("hash2")
	h.run(`
		advance 2s
	`)
	h.heard()
	for _, key := range []string{"timed", "hash"} {
		must(t, h, "+OK", "RESTORE", key+"4", "0", payloads[key])
		must(t, h, "0", "EXISTS", key+"4")
		h.do("SET", key+"4", "v")
		must(t, h, "+OK", "RESTORE", key+"4", "0", payloads[key], "REPLACE")
		must(t, h, "0", "EXISTS", key+"4")
		if got := h.heard(); got != "set:"+key+"4 del:"+key+"4" {
			t.Errorf("%s: events %s", key, got)
		}
	}
}

func TestRestoreOptions(t *testing.T) {
	v := strconv.Quote(payload("\x00\x01v"))
	table(t, strings.ReplaceAll(`
		RESTORE k 1500 PAYLOAD -> +OK
		PTTL k -> 1500
		GET k -> "v"
		RESTORE k 0 PAYLOAD -> -BUSYKEY Target key name already exists.
		RESTORE k x "" -> -BUSYKEY Target key name already exists.
		RESTORE k 0 PAYLOAD replace -> +OK
		PTTL k -> -1
		RESTORE k 1700000002000 PAYLOAD REPLACE ABSTTL REPLACE -> +OK
		PTTL k -> 2000
		events -> restore:k restore:k restore:k
		RESTORE k 1699999999999 PAYLOAD REPLACE ABSTTL -> +OK
		EXISTS k -> 0
		events -> del:k
		RESTORE k 1 PAYLOAD ABSTTL -> +OK
		events -> 
		EXISTS k -> 0
		RESTORE k 0 PAYLOAD IDLETIME 100 -> +OK
		OBJECT IDLETIME k -> 100
		RESTORE k 0 PAYLOAD REPLACE IDLETIME 9223372036854775807 -> +OK
		OBJECT IDLETIME k -> 1700000000
		RESTORE k 0 PAYLOAD REPLACE FREQ 255 -> +OK
		OBJECT IDLETIME k -> 0
		reopen
		GET k -> "v"
		DEL k -> 1
		RESTORE k 0 PAYLOAD REPLACE FOO -> -ERR syntax error
		RESTORE k 0 PAYLOAD IDLETIME -> -ERR syntax error
		RESTORE k 0 PAYLOAD FREQ -> -ERR syntax error
		RESTORE k 0 PAYLOAD IDLETIME 1 FREQ 1 -> -ERR syntax error
		RESTORE k 0 PAYLOAD FREQ 1 IDLETIME 1 -> -ERR syntax error
		RESTORE k 0 PAYLOAD IDLETIME -1 -> -ERR Invalid IDLETIME value, must be >= 0
		RESTORE k 0 PAYLOAD IDLETIME x -> -ERR value is not an integer or out of range
		RESTORE k 0 PAYLOAD FREQ 256 -> -ERR Invalid FREQ value, must be >= 0 and <= 255
		RESTORE k 0 PAYLOAD FREQ -1 -> -ERR Invalid FREQ value, must be >= 0 and <= 255
		RESTORE k x PAYLOAD -> -ERR value is not an integer or out of range
		RESTORE k -1 PAYLOAD -> -ERR Invalid TTL value, must be >= 0
		RESTORE k 9223372036854775807 PAYLOAD -> -ERR invalid expire time in 'restore' command
		RESTORE k 0 "" -> -ERR DUMP payload version or checksum are wrong
		RESTORE k 0 x REPLACE -> -ERR DUMP payload version or checksum are wrong
		RESTORE k -> -ERR wrong number of arguments for 'restore' command
		EXISTS k -> 0
	`, "PAYLOAD", v))
	for _, body := range []string{"", "\x00", "\x00\x01vv", "\x02\x00", "\x02\x02\x01a\x01a",
		"\x63\x01a", "\x0f\x00"} {
		table(t, `
			SET k v -> +OK
			RESTORE k 0 `+strconv.Quote(payload(body))+` REPLACE -> -ERR Bad data format
			GET k -> "v"
		`)
	}
}

// TestDumpAgainstRedis: values of all types go from Keyp to Redis and back, and from Redis to Keyp
// and back.
func TestDumpAgainstRedis(t *testing.T) {
	redis := startRedisSide(t)
	h := newHarness(t)
	h.clock.Set(time.Now().UnixMilli())
	types := map[string][]string{
		"SET": {"GET", "k"}, "RPUSH": {"LRANGE", "k", "0", "-1"}, "SADD": {"SMEMBERS", "k"},
		"HSET": {"HGETALL", "k"},
		"ZADD": {"ZRANGE", "k", "0", "-1", "WITHSCORES"},
	}
	names := []string{"SET", "RPUSH", "SADD", "HSET", "ZADD"}
	text := rapid.OneOf(someValue, rapid.Map(rapid.IntRange(-300, 300), strconv.Itoa),
		rapid.StringN(0, 80, -1))
	rapid.Check(t, func(t *rapid.T) {
		h.t = t
		h.do("FLUSHALL")
		redis.do(t, "FLUSHALL")
		name := rapid.SampledFrom(names).Draw(t, "type")
		args := []string{name, "k"}
		size := rapid.SampledFrom([]int{1, 5, 200}).Draw(t, "size")
		if name == "SET" {
			size = 1
		}
		for range size {
			switch name {
			case "HSET":
				args = append(args, text.Draw(t, "field"), text.Draw(t, "value"))
			case "ZADD":
				args = append(args, rapid.SampledFrom([]string{"0", "1", "-1.5", "inf", "-inf",
					"3e10", "0.125"}).Draw(t, "score"), text.Draw(t, "member"))
			default:
				args = append(args, text.Draw(t, "element"))
			}
		}
		h.do(args...)
		redis.do(t, args...)
		sides := []struct {
			name     string
			from, to func(...string) string
		}{
			{"to redis", h.do, func(args ...string) string { return redis.do(t, args...) }},
			{"from redis", func(args ...string) string { return redis.do(t, args...) }, h.do},
		}
		for _, s := range sides {
			raw, err := strconv.Unquote(s.from("DUMP", "k"))
			if err != nil {
				t.Fatal(err)
			}
			before := s.from(types[name]...)
			if got := s.to("RESTORE", "k", "0", raw, "REPLACE"); got != "+OK" {
				t.Fatalf("%s: %s", s.name, got)
			}
			if got := s.to(types[name]...); unorder(name, got) != unorder(name, before) {
				t.Fatalf("%s: %.500s, not %.500s", s.name, got, before)
			}
		}
	})
	// Redis has no deadlines of members, and the error mentions them.
	h.t = t
	h.do("SADD", "timed", "a")
	h.do("EXPIREMEMBER", "timed", "a", "100")
	if got := redis.do(t, "RESTORE", "timed", "0", h.dump("timed")); !strings.HasPrefix(got,
		"-ERR ") {
		t.Errorf("Redis restores members with deadlines: %s", got)
	}
}

// unorder removes the order of elements from a reply, if the type has no order.
func unorder(name, reply string) string {
	items := replied(reply)
	switch name {
	case "SADD":
		return fmt.Sprint(len(items), slices.Sorted(slices.Values(items)))
	case "HSET":
		var pairs []string
		for i := 0; i+1 < len(items); i += 2 {
			pairs = append(pairs, items[i]+"="+items[i+1])
		}
		return fmt.Sprint(len(items), slices.Sorted(slices.Values(pairs)))
	}
	return reply
}

// FuzzRestore: every value that RESTORE accepts is valid, and DUMP returns it again. A refused
// payload changes nothing.
func FuzzRestore(f *testing.F) {
	for _, body := range []string{
		"\x00\x01v", "\x01\x02\x01a\x01b", "\x02\x02\x01a\x01b", "\x04\x01\x01f\x01v",
		"\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xf0\x3f",
		"\x0b\x0c\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\x02\x00",
		"\xe0\x00\xe8\x76\x48\x17\x00\x00\x00\x01\x01\x01a",
		"\x18\x00\xe8\x76\x48\x17\x00\x00\x00\x01\x01\x01a\x01b", "\x12\x01\x01\x01a",
		"\x00\xc3\x02\x05\x00a",
	} {
		f.Add([]byte(body))
	}
	for i, body := range redisPayloads(f) {
		if i%4 == 0 || body[0] == 19 {
			f.Add(body)
		}
	}
	h := newHarness(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		h.t = t
		// The bound allows for three copies of a value that LZF has compressed, and some more.
		// Other work such as a checkpoint is counted too, but not three times in a row.
		bound := 8<<20 + uint64(len(body))*5000
		var took uint64
		for range 3 {
			before := used()
			tryRestore(t, h, body)
			if took = used().heap - before.heap; took <= bound {
				return
			}
		}
		t.Fatalf("%d bytes allocate %d MB", len(body), took>>20)
	})
}

// tryRestore restores a key from a body, over an older key.
func tryRestore(t *testing.T, h *harness, body []byte) {
	h.do("FLUSHALL")
	must(t, h, "+OK", "SET", "k", "old")
	if got := h.do("RESTORE", "k", "0", payload(string(body)), "REPLACE"); got != "+OK" {
		must(t, h, `"old"`, "GET", "k")
		return
	}
	if h.do("EXISTS", "k") == "0" {
		return // all elements were due
	}
	again := h.dump("k")
	must(t, h, "+OK", "RESTORE", "k2", "0", again)
	if got := h.dump("k2"); got != again {
		t.Fatalf("%q, then %q", again, got)
	}
	if err := h.store.Check(); err != nil {
		t.Fatal(err)
	}
}

// redisPayloads returns short payloads of all types that Redis has made, without the version and
// checksum that payload adds.
func redisPayloads(t testing.TB) (list [][]byte) {
	text, err := os.ReadFile("../testdata/payloads/redis-7.0.15.txt")
	if err != nil {
		t.Fatal(err)
	}
	const trailer = 2 + 8
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 2 {
			continue
		}
		if b, err := hex.DecodeString(words[1]); err == nil && len(b) > trailer && len(b) < 500 {
			list = append(list, b[:len(b)-trailer])
		}
	}
	if len(list) < 10 {
		t.Fatalf("only %d payloads", len(list))
	}
	return list
}

// FuzzFunctionRestore: FUNCTION RESTORE accepts libraries that FUNCTION DUMP returns again, or
// changes nothing. It ends in time, whatever the libraries do.
func FuzzFunctionRestore(f *testing.F) {
	for _, body := range []string{
		"", "\xf5", "\xf6\x01a", "\xf5\x05#!lua",
		"\xf5\x40\x51#!lua name=two\nredis.register_function('g', function(keys, args) return args[1] end)",
		"\xf5\x40\x22#!lua name=two\nwhile true do end\n\n\n",
		"\xf5\xc3\x06\x80\x1e\x00\x00\x00\x01aa\xe0\x00\x00", "\xf5\xc0\x05", "\x00\x01v",
		"\xf5\x40\x4d#!lua name=one\nredis.register_function('f', function() return 1 end) -- again   \n\n\n",
	} {
		f.Add([]byte(body), uint8(0))
	}
	h := newHarness(f)
	f.Fuzz(func(t *testing.T, body []byte, policy uint8) {
		h.t = t
		must(t, h, "+OK", "FUNCTION", "FLUSH")
		must(t, h, `"one"`, "FUNCTION", "LOAD",
			"#!lua name=one\nredis.register_function('f', function() return 1 end)")
		was := h.do("FUNCTION", "DUMP")
		before := used()
		how := []string{"APPEND", "REPLACE", "FLUSH"}[policy%3]
		got := h.do("FUNCTION", "RESTORE", payload(string(body)), how)
		if took := used().heap - before.heap; took > 600<<20 {
			t.Fatalf("%d bytes allocate %d MB", len(body), took>>20)
		}
		if got != "+OK" {
			if now := h.do("FUNCTION", "DUMP"); now != was {
				t.Fatalf("%s, but the libraries changed from %s to %s", got, was, now)
			}
			return
		}
		raw, err := strconv.Unquote(h.do("FUNCTION", "DUMP"))
		if err != nil {
			t.Fatal(err)
		}
		must(t, h, "+OK", "FUNCTION", "RESTORE", raw, "FLUSH")
		if again, _ := strconv.Unquote(h.do("FUNCTION", "DUMP")); again != raw {
			t.Fatalf("%q, then %q", raw, again)
		}
	})
}
