package commands

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// aCollection is a type of key, for the tests of commands that work on any type. It describes how a
// test makes a key of the type, reads it, changes it and empties it.
type aCollection struct {
	typ, make, made, read, want, change, changed, clear string
	event, cleared                                      string // of make, of clear
	encoding                                            string
}

var collections = []aCollection{
	{
		typ: "hash", make: "HSET KEY f1 v1 f2 v2", made: "2", read: "HGETALL KEY",
		want:   `["f1", "v1", "f2", "v2"]`,
		change: "HSET KEY f1 x", changed: `["f1", "x", "f2", "v2"]`, clear: "HDEL KEY f1 f2",
		event: "hset", cleared: "hdel", encoding: "listpack",
	},
	{
		typ: "list", make: "RPUSH KEY a b", made: "2", read: "LRANGE KEY 0 -1", want: `["a", "b"]`,
		change: "LSET KEY 0 x", changed: `["x", "b"]`, clear: "LTRIM KEY 1 0", event: "rpush",
		cleared: "ltrim", encoding: "listpack",
	},
	{
		typ: "set", make: "SADD KEY m1 m2", made: "2", read: "SMEMBERS KEY", want: `["m1", "m2"]`,
		change: "SADD KEY x", changed: `["m1", "m2", "x"]`, clear: "SREM KEY m1 m2", event: "sadd",
		cleared: "srem", encoding: "listpack",
	},
	{
		typ: "set", make: "SADD KEY 2 1", made: "2", read: "SMEMBERS KEY", want: `["1", "2"]`,
		change: "SADD KEY 0", changed: `["0", "1", "2"]`, clear: "SREM KEY 1 2", event: "sadd",
		cleared: "srem", encoding: "intset",
	},
	{
		typ: "zset", make: "ZADD KEY 2 b 1 a", made: "2", read: "ZRANGE KEY 0 -1",
		want:   `["a", "b"]`,
		change: "ZADD KEY 3 a", changed: `["b", "a"]`, clear: "ZREM KEY a b", event: "zadd",
		cleared: "zrem", encoding: "listpack",
	},
}

// onCollections runs a table for each type. In the table, MAKE, READ, CHANGE and CLEAR before a key
// are the type's commands. $MADE is the reply to MAKE. $WANT and $CHANGED are the replies to READ
// before and after CHANGE. $TYPE, $ENCODING, $EVENT and $CLEARED are the type's words. A line with
// CHANGE or CLEAR has no reply, because the replies of the types differ.
func onCollections(t *testing.T, steps string) {
	for _, c := range collections {
		t.Run(c.typ+" "+c.encoding, func(t *testing.T) {
			words := strings.NewReplacer("$WANT", c.want, "$CHANGED", c.changed, "$MADE",
				c.made, "$TYPE", c.typ,
				"$ENCODING", c.encoding, "$EVENT", c.event, "$CLEARED", c.cleared)
			var b strings.Builder
			for line := range strings.Lines(words.Replace(steps)) {
				step, want, replies := strings.Cut(strings.TrimSpace(line), " -> ")
				word, key, _ := strings.Cut(step, " ")
				switch word {
				case "MAKE":
					step = strings.ReplaceAll(c.make, "KEY", key)
				case "READ":
					step = strings.ReplaceAll(c.read, "KEY", key)
				case "CHANGE":
					step = "does " + strings.ReplaceAll(c.change, "KEY", key)
				case "CLEAR":
					step = "does " + strings.ReplaceAll(c.clear, "KEY", key)
				}
				if replies {
					step += " -> " + want
				}
				b.WriteString(step + "\n")
			}
			table(t, b.String())
		})
	}
}

func TestCollectionKeys(t *testing.T) {
	onCollections(t, `
		MAKE k -> $MADE
		TYPE k -> +$TYPE
		EXISTS k none -> 1
		TOUCH k -> 1
		OBJECT ENCODING k -> "$ENCODING"
		OBJECT REFCOUNT k -> 1
		OBJECT IDLETIME k -> 0
		KEYS * -> ["k"]
		RANDOMKEY -> "k"
		DBSIZE -> 1
		SCAN 0 TYPE $TYPE -> ["0", ["k"]]
		SCAN 0 TYPE string -> ["0", []]
		SCAN 0 TYPE stream -> ["0", []]
		events -> $EVENT:k
		advance 5s
		OBJECT ENCODING k -> "$ENCODING"
		OBJECT IDLETIME k -> 5
		READ k -> $WANT
		OBJECT IDLETIME k -> 0
		reopen
		READ k -> $WANT
		OBJECT ENCODING k -> "$ENCODING"
		TYPE k -> +$TYPE
		CLEAR k
		events -> $CLEARED:k del:k
		EXISTS k -> 0
		TYPE k -> +none
		OBJECT ENCODING k -> nil
		DBSIZE -> 0
		MAKE k -> $MADE
		UNLINK k none -> 1
		events -> $EVENT:k del:k
		MAKE k -> $MADE
		MAKE l -> $MADE
		DEL k l k -> 2
		reopen
		DBSIZE -> 0
	`)
}

func TestCollectionCopy(t *testing.T) {
	onCollections(t, `
		MAKE k -> $MADE
		EXPIRE k 100 -> 1
		events -> $EVENT:k expire:k
		COPY k c -> 1
		COPY k c -> 0
		COPY k c REPLACE -> 1
		COPY k c DB 2 -> 1
		events -> copy_to:c copy_to:c copy_to:c@2
		TTL c -> 100
		OBJECT ENCODING c -> "$ENCODING"
		CHANGE k
		READ k -> $CHANGED
		READ c -> $WANT
		COPY c k -> 0
		MAKE d -> $MADE
		PERSIST c -> 1
		CHANGE c
		COPY d c REPLACE -> 1
		READ c -> $WANT
		TTL c -> -1
		DEL d -> 1
		reopen
		READ k -> $CHANGED
		READ c -> $WANT
		TTL k -> 100
		CHANGE c
		READ c -> $CHANGED
		SET s string -> +OK
		COPY s c REPLACE -> 1
		GET c -> "string"
		COPY k s REPLACE -> 1
		READ s -> $CHANGED
		select 2
		READ c -> $WANT
		TTL c -> 100
		advance 100s
		EXISTS c -> 0
		select 0
		EXISTS k s -> 0
		reopen
		EXISTS k s -> 0
		GET c -> "string"
		DBSIZE -> 1
		select 2
		DBSIZE -> 0
	`)
}

func TestCollectionRename(t *testing.T) {
	onCollections(t, `
		MAKE k -> $MADE
		EXPIRE k 100 -> 1
		SET s 1 -> +OK
		events -> $EVENT:k expire:k set:s
		RENAME k s -> +OK
		events -> rename_from:k rename_to:s
		READ s -> $WANT
		TTL s -> 100
		OBJECT ENCODING s -> "$ENCODING"
		EXISTS k -> 0
		CHANGE s
		MAKE k -> $MADE
		RENAMENX k s -> 0
		RENAMENX k n -> 1
		MOVE n 1 -> 1
		MOVE n 1 -> 0
		reopen
		READ s -> $CHANGED
		TTL s -> 100
		EXISTS k n -> 0
		select 1
		READ n -> $WANT
		TTL n -> -1
		CHANGE n
		SWAPDB 0 1 -> +OK
		READ s -> $CHANGED
		EXISTS n -> 0
		select 0
		READ n -> $CHANGED
		reopen
		READ n -> $CHANGED
		SET str 1 -> +OK
		RENAME str n -> +OK
		GET n -> "1"
		TYPE n -> +string
		MAKE n2 -> $MADE
		FLUSHDB -> +OK
		DBSIZE -> 0
		reopen
		DBSIZE -> 0
		select 1
		READ s -> $CHANGED
		DBSIZE -> 1
	`)
}

func TestCollectionExpiry(t *testing.T) {
	onCollections(t, `
		MAKE k -> $MADE
		TTL k -> -1
		PERSIST k -> 0
		EXPIRE k 10 -> 1
		EXPIRE k 20 NX -> 0
		EXPIRE k 5 GT -> 0
		PEXPIRE k 15000 XX GT -> 1
		PTTL k -> 15000
		PEXPIRETIME k -> 1700000015000
		EXPIRETIME k -> 1700000015
		events -> $EVENT:k expire:k expire:k
		CHANGE k
		TTL k -> 15
		PERSIST k -> 1
		TTL k -> -1
		PEXPIREAT k 1700000020000 LT -> 1
		reopen
		advance 19999ms
		READ k -> $CHANGED
		PTTL k -> 1
		advance 1ms
		READ k -> []
		TYPE k -> +none
		OBJECT ENCODING k -> nil
		TTL k -> -2
		EXPIRE k 10 -> 0
		PERSIST k -> 0
		reopen
		EXISTS k -> 0
		MAKE k -> $MADE
		TTL k -> -1
		EXPIREAT k 1 -> 1
		EXISTS k -> 0
		MAKE k -> $MADE
		PEXPIRE k -1 -> 1
		DBSIZE -> 0
		MAKE k -> $MADE
		EXPIRE k 10 -> 1
		CLEAR k
		MAKE k -> $MADE
		TTL k -> -1
		reopen
		TTL k -> -1
		READ k -> $WANT
	`)
}

// TestCollectionReplaced: commands that store a string replace a key of any type. They keep its
// deadline only with KEEPTTL.
func TestCollectionReplaced(t *testing.T) {
	onCollections(t, `
		MAKE k -> $MADE
		EXPIRE k 100 -> 1
		SET k v KEEPTTL -> +OK
		TTL k -> 100
		GET k -> "v"
		DEL k -> 1
		MAKE k -> $MADE
		EXPIRE k 100 -> 1
		SET k v XX -> +OK
		TTL k -> -1
		DEL k -> 1
		MAKE k -> $MADE
		SET k v NX -> nil
		SETNX k v -> 0
		MSETNX k v other w -> 0
		READ k -> $WANT
		SETEX k 10 v -> +OK
		GET k -> "v"
		DEL k -> 1
		MAKE k -> $MADE
		MSET k 5 -> +OK
		INCR k -> 6
		reopen
		GET k -> "6"
		TYPE k -> +string
	`)
}

// TestCollectionWrongType: string commands refuse a collection and leave it unchanged. MGET returns
// nil for it.
func TestCollectionWrongType(t *testing.T) {
	const wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value"
	var steps strings.Builder
	steps.WriteString("MAKE k -> $MADE\nEXPIRE k 100 -> 1\nevents -> $EVENT:k expire:k\n")
	for _, command := range []string{
		"GET k", "GETSET k v", "GETDEL k", "GETEX k", "GETEX k EX 10", "GETEX k EX x",
		"GETEX k PERSIST", "SET k v GET", "SET k v NX GET", "SET k v XX GET EX 5",
		"SET k v IFEQ v", "SET k v IFNE v GET", "SET k v IFDNE v", "APPEND k v", "APPEND k \"\"",
		"STRLEN k", "SETRANGE k 0 v", "SETRANGE k 5 \"\"",
		"GETRANGE k 0 -1", "SUBSTR k 0 1", "INCR k", "DECR k", "INCRBY k 5", "DECRBY k 5",
		"INCRBYFLOAT k 1.5", "DIGEST k",
	} {
		fmt.Fprintf(&steps, "%s -> %s\n", command, wrong)
	}
	steps.WriteString(`
		MGET k none -> [nil, nil]
		LCS k k -> -ERR The specified keys must contain string values
		LCS none k LEN -> -ERR The specified keys must contain string values
		DELEX k IFEQ v -> -ERR Key should be of string type if conditions are specified
		INCRBY k x -> -ERR value is not an integer or out of range
		SET k v EX 0 GET -> -ERR invalid expire time in 'set' command
		SET k v BAD GET -> -ERR syntax error
		events ->
		READ k -> $WANT
		TTL k -> 100
		reopen
		READ k -> $WANT
		TTL k -> 100
	`)
	onCollections(t, steps.String())
	for _, c := range collections {
		for _, other := range collections {
			if c.typ == other.typ {
				continue
			}
			h := newHarness(t)
			h.run("SET s v -> +OK\nPEXPIRE s 5000 -> 1\n" + strings.ReplaceAll(c.make, "KEY", "k") +
				" -> " + c.made)
			for _, key := range []string{"k", "s"} {
				for _, command := range []string{other.make, other.read,
					other.change, other.clear} {
					h.run(strings.ReplaceAll(command, "KEY", key) + " -> " + wrong)
				}
			}
			h.run(strings.ReplaceAll(c.read, "KEY", "k") + " -> " + c.want +
				"\nGET s -> \"v\"\nPTTL s -> 5000")
		}
	}
}

// TestCopyElementDeadlines: the elements of a copy first have the same deadlines as the original
// ones. After that, the deadlines are independent.
func TestCopyElementDeadlines(t *testing.T) {
	table(t, `
		HSET h a 1 b 2 c 3 -> 3
		HPEXPIRE h 1000 FIELDS 1 a -> [1]
		HPEXPIRE h 2000 FIELDS 1 b -> [1]
		EXPIRE h 100 -> 1
		COPY h c -> 1
		HPTTL c FIELDS 3 a b c -> [1000, 2000, -1]
		HPERSIST h FIELDS 1 a -> [1]
		HPTTL c FIELDS 1 a -> [1000]
		OBJECT ENCODING c -> "listpackex"
		RENAME c d -> +OK
		MOVE d 3 -> 1
		reopen
		select 3
		HPTTL d FIELDS 3 a b c -> [1000, 2000, -1]
		advance 1s
		HGETALL d -> ["b", "2", "c", "3"]
		COPY d e -> 1
		HLEN e -> 2
		select 0
		HGETALL h -> ["b", "2", "c", "3", "a", "1"]
		HPTTL h FIELDS 3 a b c -> [-1, 1000, -1]
		select 3
		advance 1s
		HGETALL e -> ["c", "3"]
		TTL e -> 98
		# what has no element left cannot be copied
		HSET gone f v -> 1
		HPEXPIRE gone 10 FIELDS 1 f -> [1]
		advance 10ms
		COPY gone e REPLACE -> 0
		RENAME gone e -> -ERR no such key
		HGETALL e -> ["c", "3"]
		TYPE gone -> +none
		EXPIRE gone 10 -> 0
		OBJECT ENCODING gone -> nil
		reopen
		EXISTS gone -> 0
		HGETALL e -> ["c", "3"]
	`)
}

func TestCollectionMemory(t *testing.T) {
	for _, c := range collections {
		h := newHarness(t)
		h.run(strings.ReplaceAll(c.make, "KEY", "k") + " -> " + c.made)
		small, err := strconv.Atoi(h.do("MEMORY", "USAGE", "k"))
		if err != nil || small <= 0 {
			t.Errorf("a %s of two takes %d, %v", c.typ, small, err)
		}
		h.run(fmt.Sprintf(`
			MEMORY USAGE k SAMPLES 0 -> %d
			MEMORY USAGE k samples 5 -> %d
			MEMORY USAGE k SAMPLES -1 -> -ERR syntax error
			MEMORY USAGE k SAMPLES x -> -ERR value is not an integer or out of range
			MEMORY USAGE k SAMPLES -> -ERR syntax error
			MEMORY USAGE none SAMPLES 5 -> nil
		`, small, small))
		for i := range 1000 {
			m := strconv.Itoa(i)
			switch c.typ {
			case "hash":
				h.do("HSET", "k", m, m)
			case "list":
				h.do("RPUSH", "k", m)
			case "set":
				h.do("SADD", "k", m)
			case "zset":
				h.do("ZADD", "k", m, m)
			}
		}
		if large, err := strconv.Atoi(h.do("MEMORY", "USAGE", "k")); err != nil ||
			large < small+1000 {
			t.Errorf("a %s of a thousand takes %d, %v; of two it was %d", c.typ, large, err, small)
		}
		h.client.Addr = "127.0.0.1:1"
		about := h.do("DEBUG", "OBJECT", "k")
		if encoding, _ := strconv.Unquote(h.do("OBJECT", "ENCODING", "k")); !strings.HasPrefix(
			about, "+Value at:0x") || !strings.Contains(about, " encoding:"+encoding+" ") {
			t.Errorf("DEBUG OBJECT of a %s: %s", c.typ, about)
		}
	}
}

// TestExpiredCounts: a command that finds an expired key leaves the counts of other keys correct
// after a crash, in its own database and in another one.
func TestExpiredCounts(t *testing.T) {
	h := newHarness(t)
	h.save = false
	h.run(`
		SET {a}1 v PX 10 -> +OK
		SET {a}2 v PX 10 -> +OK
		SET {a}3 v -> +OK
		select 1
		SET {a}1 v PX 10 -> +OK
		HSET {a}h f v -> 1
		advance 10ms
		EXISTS {a}1 -> 0
		reopen
		EXISTS {a}1 -> 0
		HGET {a}h f -> "v"
		select 0
		EXISTS {a}1 -> 0
		EXISTS {a}2 -> 0
		DBSIZE -> 1
	`)
}
