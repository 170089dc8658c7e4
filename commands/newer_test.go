package commands

import "testing"

// These are the commands of Redis 8.8 and 8.10, with the replies in their documentation.

func TestIncrEx(t *testing.T) {
	table(t, `
		INCREX k -> [1, 1]
		events -> incrby:k
		INCREX k BYINT 5 UBOUND 20 -> [6, 5]
		INCREX k BYINT 15 UBOUND 20 -> [6, 0]
		events -> incrby:k
		INCREX k BYINT 15 UBOUND 20 SATURATE -> [20, 14]
		INCREX k BYINT 5 UBOUND 10 SATURATE -> [10, -10]
		INCREX k BYINT -5 LBOUND 8 -> [10, 0]
		INCREX k BYINT -5 LBOUND 8 SATURATE -> [8, -2]
		INCREX k BYINT 5 LBOUND 20 SATURATE -> [20, 12]
		INCREX k LBOUND 20 UBOUND 20 -> [20, 0]
		GET k -> "20"
		SET max 9223372036854775807 -> +OK
		INCREX max -> [9223372036854775807, 0]
		INCREX max SATURATE -> [9223372036854775807, 0]
		SET max 9223372036854775800 -> +OK
		INCREX max BYINT 10 SATURATE -> [9223372036854775807, 7]
		INCREX max BYINT -5 UBOUND -9223372036854775808 SATURATE -> -ERR applied increment would overflow
		INCREX k BYINT -9223372036854775808 LBOUND 0 SATURATE -> [0, -20]

		INCREX new UBOUND 0 -> [0, 0]
		EXISTS new -> 0
		INCREX new LBOUND 5 -> [0, 0]
		EXISTS new -> 0
		INCREX new UBOUND 0 SATURATE -> [0, 0]
		EXISTS new -> 1
		INCREX other LBOUND 5 SATURATE -> [5, 5]

		SET f 10 -> +OK
		INCREX f BYFLOAT 2.5 LBOUND 5.0 UBOUND 15.0 -> ["12.5", "2.5"]
		INCREX f BYFLOAT 5.5 UBOUND 15 -> ["12.5", "0"]
		INCREX f BYFLOAT 5.5 UBOUND 15 SATURATE -> ["15", "2.5"]
		INCREX f BYFLOAT -100 LBOUND 8.0 SATURATE -> ["8", "-7"]
		INCREX f BYFLOAT inf -> ["8", "0"]
		INCREX f BYFLOAT 1 UBOUND inf -> ["9", "1"]
		INCREX f BYFLOAT 1 LBOUND inf UBOUND inf SATURATE -> -ERR applied increment would be Infinity
		INCREX f BYFLOAT 1 LBOUND inf -> -ERR LBOUND can't be greater than UBOUND
		GET f -> "9"
		INCREX f BYFLOAT 0.1 -> ["9.1", "0.1"]
		INCREX f -> -ERR value is not an integer or out of range
		proto 3
		INCREX f BYFLOAT 0.1 -> [,9.2, ,0.1]
	`)
}

func TestIncrExDeadlines(t *testing.T) {
	table(t, `
		INCREX k EX 100 -> [1, 1]
		TTL k -> 100
		INCREX k -> [2, 1]
		TTL k -> 100
		INCREX k EX 500 ENX -> [3, 1]
		TTL k -> 100
		INCREX k EX 500 UBOUND 3 -> [3, 0]
		TTL k -> 100
		INCREX k PERSIST -> [4, 1]
		TTL k -> -1
		events -> incrby:k expire:k incrby:k incrby:k incrby:k persist:k
		INCREX k PX 500000 ENX -> [5, 1]
		TTL k -> 500
		reopen
		TTL k -> 500
		SET k 10 -> +OK
		INCREX k EXAT 100 ENX -> [11, 1]
		EXISTS k -> 0
		SET k 10 EX 500 -> +OK
		INCREX k EXAT 100 ENX -> [11, 1]
		TTL k -> 500
	`)
}

func TestIncrExErrors(t *testing.T) {
	table(t, `
		SET s text -> +OK
		RPUSH l a -> 1
		INCREX -> -ERR wrong number of arguments for 'increx' command
		INCREX s -> -ERR value is not an integer or out of range
		INCREX s BYFLOAT 1 -> -ERR value is not a valid float
		INCREX l -> -WRONGTYPE Operation against a key holding the wrong kind of value
		INCREX k BYINT 1 BYINT 2 -> -ERR syntax error
		INCREX k BYINT 1 BYFLOAT 2 -> -ERR syntax error
		INCREX k SATURATE SATURATE -> -ERR syntax error
		INCREX k EX 1 EX 2 -> -ERR syntax error
		INCREX k EX 1 PERSIST -> -ERR syntax error
		INCREX k PERSIST ENX -> -ERR syntax error
		INCREX k ENX -> -ERR ENX flag requires an expiration
		INCREX k LBOUND -> -ERR syntax error
		INCREX k WHAT -> -ERR syntax error
		INCREX k BYINT 1.5 -> -ERR Increment is not an integer or out of range
		INCREX k BYFLOAT x -> -ERR Increment is not a valid float
		INCREX k LBOUND 1.5 -> -ERR LBOUND is not an integer or out of range
		INCREX k BYFLOAT 1 UBOUND x -> -ERR UBOUND is not a valid float
		INCREX k LBOUND 10 UBOUND 5 -> -ERR LBOUND can't be greater than UBOUND
		INCREX k EX 0 -> -ERR invalid expire time in 'increx' command
		INCREX k EX x -> -ERR value is not an integer or out of range
		EXISTS k -> 0
	`)
}

func TestLMoveM(t *testing.T) {
	table(t, `
		RPUSH l 1 2 3 4 5 6 7 8 9 -> 9
		LMOVEM l d LEFT RIGHT -> ["1"]
		events -> rpush:l rpush:d lpop:l
		LMOVEM l d LEFT LEFT COUNT 2 OBO -> ["3", "2"]
		LMOVEM l d left left count 2 bulk -> ["4", "5"]
		LRANGE d 0 -1 -> ["4", "5", "3", "2", "1"]
		LMOVEM l d RIGHT RIGHT COUNT 2 OBO -> ["9", "8"]
		LMOVEM l d RIGHT LEFT EXACTLY 2 OBO -> ["6", "7"]
		EXISTS l -> 0
		LRANGE d 0 -1 -> ["6", "7", "4", "5", "3", "2", "1", "9", "8"]
		LMOVEM d e LEFT RIGHT EXACTLY 10 BULK -> nilarray
		LMOVEM none e LEFT RIGHT COUNT 2 BULK -> nilarray
		EXISTS e -> 0
		LMOVEM d e RIGHT LEFT COUNT 100 BULK -> ["6", "7", "4", "5", "3", "2", "1", "9", "8"]
		EXISTS d -> 0
		RPUSH s a b c -> 3
		LMOVEM s s LEFT LEFT EXACTLY 2 OBO -> ["b", "a"]
		LMOVEM s s LEFT RIGHT COUNT 2 BULK -> ["b", "a"]
		LRANGE s 0 -1 -> ["c", "b", "a"]
		LMOVEM s s LEFT LEFT COUNT 9 BULK -> ["c", "b", "a"]
		reopen
		LRANGE s 0 -1 -> ["c", "b", "a"]
		BLMOVEM s d LEFT RIGHT 0 COUNT 2 BULK -> ["c", "b"]
		SET str v -> +OK
		LMOVEM s str LEFT LEFT -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LMOVEM str s LEFT LEFT -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LRANGE s 0 -1 -> ["a"]
		LMOVEM s d LEFT -> -ERR wrong number of arguments for 'lmovem' command
		LMOVEM s d LEFT UP -> -ERR syntax error
		LMOVEM s d LEFT LEFT COUNT 2 -> -ERR syntax error
		LMOVEM s d LEFT LEFT COUNT 2 OBO x -> -ERR syntax error
		LMOVEM s d LEFT LEFT COUNT 2 x -> -ERR syntax error
		LMOVEM s d LEFT LEFT x 2 OBO -> -ERR syntax error
		LMOVEM s d LEFT LEFT COUNT 0 OBO -> -ERR count should be greater than 0
		LMOVEM s d LEFT LEFT EXACTLY x OBO -> -ERR count should be greater than 0
		BLMOVEM s d LEFT LEFT x COUNT 1 OBO -> -ERR timeout is not a float or out of range
		BLMOVEM s d LEFT LEFT -1 -> -ERR timeout is negative
		BLMOVEM s d LEFT LEFT -> -ERR wrong number of arguments for 'blmovem' command
	`)
}

func TestSetCards(t *testing.T) {
	table(t, `
		SADD a 1 2 3 x -> 4
		SADD b 3 4 y -> 3
		SUNIONCARD 2 a b -> 6
		SUNIONCARD 3 a b none LIMIT 4 -> 4
		SUNIONCARD 2 a b LIMIT 0 -> 6
		SUNIONCARD 2 a b APPROX -> 6
		SUNIONCARD 2 a b APPROX LIMIT 2 -> 2
		SUNIONCARD 2 a b LIMIT 2 APPROX -> 2
		SUNIONCARD 1 none -> 0
		SDIFFCARD 2 a b -> 3
		SDIFFCARD 2 a b LIMIT 2 -> 2
		SDIFFCARD 2 none b -> 0
		SDIFFCARD 1 a -> 4
		SDIFFCARD 2 a b APPROX -> -ERR syntax error
		SUNIONCARD 0 a -> -ERR numkeys should be greater than 0
		SUNIONCARD 2 a -> -ERR Number of keys can't be greater than number of args
		SUNIONCARD 3 a b -> -ERR Number of keys can't be greater than number of args
		SUNIONCARD 1 a LIMIT -1 -> -ERR LIMIT can't be negative
		SUNIONCARD 1 a LIMIT -> -ERR syntax error
		SET s v -> +OK
		SDIFFCARD 2 a s -> -WRONGTYPE Operation against a key holding the wrong kind of value
	`)
}

func TestHImport(t *testing.T) {
	table(t, `
		HIMPORT PREPARE user name age -> +OK
		HIMPORT SET u:1 user ann 30 -> +OK
		events -> hset:u:1
		HGETALL u:1 -> ["name", "ann", "age", "30"]
		OBJECT ENCODING u:1 -> "listpack"
		SET u:2 text EX 100 -> +OK
		HIMPORT SET u:2 user bob 31 -> +OK
		TTL u:2 -> -1
		HGET u:2 name -> "bob"
		HIMPORT SET u:3 user bob -> -ERR value count does not match the fieldset
		HIMPORT SET u:3 none bob -> -ERR no such fieldset
		HIMPORT PREPARE user a b a -> -ERR duplicate field name in the fieldset
		HIMPORT PREPARE user a -> +OK
		HIMPORT SET u:1 user v -> +OK
		HGETALL u:1 -> ["a", "v"]
		HIMPORT PREPARE other b -> +OK
		HIMPORT DISCARD user -> 1
		HIMPORT DISCARD user -> 0
		HIMPORT PREPARE more c -> +OK
		HIMPORT DISCARDALL -> 2
		HIMPORT DISCARDALL -> 0
		HIMPORT SET u:3 other b -> -ERR no such fieldset
		reopen
		HGETALL u:1 -> ["a", "v"]
		HGET u:2 age -> "31"
	`)
}

// TestFieldsetMemory: fieldsets count as the client's memory until RESET.
func TestFieldsetMemory(t *testing.T) {
	h := newHarness(t)
	before := h.env.ClientMemory(h.client)
	h.do("HIMPORT", "PREPARE", "a", "first", "second")
	h.do("HIMPORT", "PREPARE", "b", "first")
	if n := h.env.ClientMemory(h.client); n <= before {
		t.Errorf("two fieldsets take %d bytes", n-before)
	}
	h.do("HIMPORT", "DISCARD", "a")
	h.do("HIMPORT", "PREPARE", "b", "other")
	h.do("HIMPORT", "DISCARD", "b")
	if n := h.env.ClientMemory(h.client); n != before {
		t.Errorf("discarded fieldsets take %d bytes", n-before)
	}
	h.do("HIMPORT", "PREPARE", "a", "f")
	h.env.Reset(h.client)
	if n := h.env.ClientMemory(h.client); n != before {
		t.Errorf("RESET leaves %d bytes", n-before)
	}
}
