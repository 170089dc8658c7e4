package commands

import (
	"fmt"
	"strings"
	"testing"
)

func TestHashSet(t *testing.T) {
	table(t, `
		HSET h a 1 -> 1
		HSET h a 2 b 3 -> 1
		HSET h c 1 c 2 d 4 -> 2
		events -> hset:h hset:h hset:h
		HGETALL h -> ["a", "2", "b", "3", "c", "2", "d", "4"]
		HLEN h -> 4
		HMSET h a 5 e 6 -> +OK
		HSETNX h a 7 -> 0
		HSETNX h f 7 -> 1
		HSETNX new f "" -> 1
		events -> hset:h hset:h hset:new
		HMGET h a f x e -> ["5", "7", nil, "6"]
		HSET h "" "" "\x00\r\n" "\xff" -> 2
		reopen
		HGET h "" -> ""
		HGET h "\x00\r\n" -> "\xff"
		HGETALL new -> ["f", ""]
		HLEN h -> 8
		TYPE h -> +hash
		OBJECT ENCODING h -> "listpack"
		HSET h -> -ERR wrong number of arguments for 'hset' command
		HSET h a -> -ERR wrong number of arguments for 'hset' command
		HSET h a 1 b -> -ERR wrong number of arguments for 'hset' command
		HMSET h a 1 b -> -ERR wrong number of arguments for 'hmset' command
		HSETNX h a -> -ERR wrong number of arguments for 'hsetnx' command
	`)
}

func TestHashRead(t *testing.T) {
	table(t, `
		HMSET h a 1 b "" c "long value" -> +OK
		HGET h a -> "1"
		HGET h b -> ""
		HGET h x -> nil
		HKEYS h -> ["a", "b", "c"]
		HVALS h -> ["1", "", "long value"]
		HSTRLEN h a -> 1
		HSTRLEN h b -> 0
		HSTRLEN h c -> 10
		HSTRLEN h x -> 0
		HEXISTS h b -> 1
		HEXISTS h x -> 0
		proto 3
		HGETALL h -> {"a": "1", "b": "", "c": "long value"}
		HGETALL none -> {}
		HGET h x -> null
		HMGET none a b -> [null, null]
		HKEYS h -> ["a", "b", "c"]
		HSCAN h 0 -> ["0", ["a", "1", "b", "", "c", "long value"]]
		proto 2
		HGET none a -> nil
		HMGET none a b -> [nil, nil]
		HGETALL none -> []
		HKEYS none -> []
		HVALS none -> []
		HLEN none -> 0
		HSTRLEN none a -> 0
		HEXISTS none a -> 0
		HDEL none a -> 0
		EXISTS none -> 0
		HGET h -> -ERR wrong number of arguments for 'hget' command
		HMGET h -> -ERR wrong number of arguments for 'hmget' command
	`)
}

// TestHashDelete: the key is deleted with its last field. The event of the key's deletion follows
// the command's own event.
func TestHashDelete(t *testing.T) {
	table(t, `
		HSET h a 1 b 2 c 3 -> 3
		HDEL h a x a -> 1
		HDEL h x -> 0
		events -> hset:h hdel:h
		HDEL h c b a -> 2
		EXISTS h -> 0
		DBSIZE -> 0
		events -> hdel:h del:h
		HSET h a 1 -> 1
		EXPIRE h 10 -> 1
		HSET h b 1 -> 1
		TTL h -> 10
		HDEL h a -> 1
		reopen
		HGETALL h -> ["b", "1"]
		HDEL h b -> 1
		HSET h c 1 -> 1
		TTL h -> -1
		reopen
		HGETALL h -> ["c", "1"]
		HDEL h -> -ERR wrong number of arguments for 'hdel' command
	`)
}

func TestHashCounters(t *testing.T) {
	table(t, `
		HINCRBY h n 5 -> 5
		HINCRBY h n -7 -> -2
		HINCRBY h n 0 -> -2
		events -> hincrby:h hincrby:h hincrby:h
		HSET h s 10x t " 1" u 9223372036854775806 e "" -> 4
		HINCRBY h s 1 -> -ERR hash value is not an integer
		HINCRBY h t 1 -> -ERR hash value is not an integer
		HINCRBY h e 1 -> -ERR hash value is not an integer
		HINCRBY h u 1 -> 9223372036854775807
		HINCRBY h u 1 -> -ERR increment or decrement would overflow
		HINCRBY h n -9223372036854775808 -> -ERR increment or decrement would overflow
		HINCRBY h n x -> -ERR value is not an integer or out of range
		HINCRBY h n 9223372036854775808 -> -ERR value is not an integer or out of range
		HINCRBYFLOAT h n 0.5 -> "-1.5"
		HINCRBYFLOAT h f 10.50 -> "10.5"
		HINCRBYFLOAT h f 0.1 -> "10.6"
		HINCRBYFLOAT h f -5.6e0 -> "5"
		HINCRBYFLOAT h s 1 -> -ERR hash value is not a float
		HINCRBYFLOAT h e 1 -> -ERR hash value is not a float
		HINCRBYFLOAT h f inf -> -ERR value is NaN or Infinity
		HINCRBYFLOAT h f nan -> -ERR value is not a valid float
		HINCRBYFLOAT h f x -> -ERR value is not a valid float
		HSET h i inf -> 1
		HINCRBYFLOAT h i 1 -> -ERR increment would produce NaN or Infinity
		events -> hset:h hincrby:h hincrbyfloat:h hincrbyfloat:h hincrbyfloat:h hincrbyfloat:h hset:h
		HINCRBYFLOAT new f x -> -ERR value is not a valid float
		EXISTS new -> 0
		reopen
		HMGET h n f u -> ["-1.5", "5", "9223372036854775807"]
		HINCRBY h n -> -ERR wrong number of arguments for 'hincrby' command
	`)
}

func TestHashScan(t *testing.T) {
	table(t, `
		HMSET h a 1 ab 2 b 3 -> +OK
		HSCAN h 0 -> ["0", ["a", "1", "ab", "2", "b", "3"]]
		HSCAN h 0 MATCH a* -> ["0", ["a", "1", "ab", "2"]]
		HSCAN h 0 MATCH * COUNT 1 -> ["0", ["a", "1", "ab", "2", "b", "3"]]
		HSCAN h 0 NOVALUES match b count 5 -> ["0", ["b"]]
		HSCAN h 0 MATCH x -> ["0", []]
		HSCAN h 0 COUNT 0 -> -ERR syntax error
		HSCAN h 0 COUNT x -> -ERR value is not an integer or out of range
		HSCAN h 0 COUNT -> -ERR syntax error
		HSCAN h 0 TYPE hash -> -ERR syntax error
		HSCAN h x -> -ERR invalid cursor
		HSCAN none x -> -ERR invalid cursor
		HSCAN none 0 BAD -> ["0", []]
		SCAN 0 NOVALUES -> -ERR NOVALUES option can only be used in HSCAN
		HSCAN h -> -ERR wrong number of arguments for 'hscan' command
	`)
}

// hashCalls are valid calls of all hash commands.
var hashCalls = []string{
	"HSET k f v", "HMSET k f v", "HSETNX k f v", "HGET k f", "HMGET k f", "HGETALL k",
	"HKEYS k", "HVALS k",
	"HLEN k", "HSTRLEN k f", "HEXISTS k f", "HDEL k f", "HINCRBY k f 1", "HINCRBYFLOAT k f 1",
	"HSCAN k 0",
	"HEXPIRE k 1 FIELDS 1 f", "HPEXPIRE k 1 FIELDS 1 f", "HEXPIREAT k 1 FIELDS 1 f",
	"HPEXPIREAT k 1 FIELDS 1 f",
	"HTTL k FIELDS 1 f", "HPTTL k FIELDS 1 f", "HEXPIRETIME k FIELDS 1 f",
	"HPEXPIRETIME k FIELDS 1 f",
	"HPERSIST k FIELDS 1 f", "HGETEX k FIELDS 1 f", "HSETEX k FIELDS 1 f v", "HGETDEL k FIELDS 1 f",
}

func TestHashWrongType(t *testing.T) {
	h := newHarness(t)
	h.run(`SET k v -> +OK`)
	h.heard()
	for _, call := range hashCalls {
		h.run(call + ` -> -WRONGTYPE Operation against a key holding the wrong kind of value`)
	}
	h.run(`
		HSCAN k 0 BAD -> -WRONGTYPE Operation against a key holding the wrong kind of value
		HSET k a -> -ERR wrong number of arguments for 'hset' command
		HINCRBY k f x -> -ERR value is not an integer or out of range
		HINCRBYFLOAT k f inf -> -ERR value is NaN or Infinity
		HSCAN k x -> -ERR invalid cursor
		GET k -> "v"
		events -> 
		HSET h f v -> 1
		GET h -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SET h v -> +OK
		GET h -> "v"
	`)
}

// TestHashEncoding: a hash with too many or too long fields gets the encoding of large hashes, and
// keeps it.
func TestHashEncoding(t *testing.T) {
	h := newHarness(t)
	args := []string{"HSET", "many"}
	for i := range 513 {
		args = append(args, fmt.Sprint("f", i), "v")
	}
	if got := h.do(args...); got != "513" {
		t.Errorf("HSET: %s", got)
	}
	long := strings.Repeat("x", 65)
	h.run(`
		OBJECT ENCODING many -> "hashtable"
		HSET long f ` + long[1:] + ` -> 1
		OBJECT ENCODING long -> "listpack"
		HSET long f ` + long + ` -> 0
		OBJECT ENCODING long -> "hashtable"
		HSET long f v -> 0
		OBJECT ENCODING long -> "hashtable"
		HSET name ` + long + ` v -> 1
		OBJECT ENCODING name -> "hashtable"
	`)
	// The call has as many arguments, but only one field.
	args = args[:2]
	for range 513 {
		args = append(args, "f", "v")
	}
	args[1] = "repeated"
	if got := h.do(args...); got != "1" {
		t.Errorf("HSET: %s", got)
	}
	h.run(`OBJECT ENCODING repeated -> "hashtable"`)
}

// TestHashLarge: a large hash comes back complete, from the log and from the data file.
func TestHashLarge(t *testing.T) {
	for _, save := range []bool{true, false} {
		h := newHarness(t)
		h.save = save
		for i := range 3000 {
			h.do("HSET", "h", fmt.Sprint("f", i), fmt.Sprint("v", i))
		}
		for i := range 1000 {
			h.do("HDEL", "h", fmt.Sprint("f", i))
		}
		h.reopen()
		h.run(`
			HLEN h -> 2000
			HGET h f999 -> nil
			HGET h f1000 -> "v1000"
			HGET h f2999 -> "v2999"
			HSET h f2999 w -> 0
		`)
		h.reopen()
		if got := strings.Count(h.do("HGETALL", "h"), `"v`); got != 1999 {
			t.Errorf("save %v: %d values came back", save, got)
		}
	}
}

func TestHashStatistics(t *testing.T) {
	h := newHarness(t)
	h.run(`
		HSET h a 1 -> 1
		HGET h a -> "1"
		HGET h x -> nil
		HGET none x -> nil
		HSCAN none 0 -> ["0", []]
		HDEL none x -> 0
	`)
	if hits, misses := h.env.Stats.Hits.Load(), h.env.Stats.Misses.Load(); hits != 2 ||
		misses != 2 {
		t.Errorf("%d hits and %d misses", hits, misses)
	}
}

// TestHotHashCommandsDoNotAllocate is TestHotCommandsDoNotAllocate for a small hash and for a large
// one.
func TestHotHashCommandsDoNotAllocate(t *testing.T) {
	for _, size := range []int{10, 1000} {
		run := hot(t)
		for i := range size {
			run(byteArgs("HSET", "h", fmt.Sprint("f", i), "1000000"))
		}
		for _, call := range []string{
			"HGET h f7", "HGET h none", "HGET none f", "HMGET h f1 f2 f3", "HEXISTS h f7",
			"HSET h f7 1000001",
			"HINCRBY h f5 1", "HEXPIRE h 100 FIELDS 1 f3", "HTTL h FIELDS 1 f3", "HDEL h none",
			"HSETNX h f7 v",
		} {
			args := byteArgs(strings.Fields(call)...)
			if n := testing.AllocsPerRun(2000, func() { run(args) }); n != 0 {
				t.Errorf("%d fields, %s: %v allocations", size, call, n)
			}
		}
	}
}
