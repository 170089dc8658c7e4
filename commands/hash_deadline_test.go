package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestHashExpire(t *testing.T) {
	table(t, `
		HEXPIRE none 10 FIELDS 2 a b -> [-2, -2]
		EXISTS none -> 0
		HSET h a 1 b 2 c 3 d 4 -> 4
		events -> hset:h
		HEXPIRE h 10 FIELDS 3 a x a -> [1, -2, 1]
		HPEXPIRE h 1500 FIELDS 1 b -> [1]
		HEXPIREAT h 1700000005 FIELDS 1 c -> [1]
		HTTL h FIELDS 5 a b c d x -> [10, 2, 5, -1, -2]
		HPTTL h FIELDS 5 a b c d x -> [10000, 1500, 5000, -1, -2]
		HEXPIRETIME h FIELDS 5 a b c d x -> [1700000010, 1700000002, 1700000005, -1, -2]
		HPEXPIRETIME h FIELDS 5 a b c d x -> [1700000010000, 1700000001500, 1700000005000, -1, -2]
		HPEXPIREAT h 1700000001001 FIELDS 1 b -> [1]
		events -> hexpire:h hexpire:h hexpire:h hexpire:h
		OBJECT ENCODING h -> "listpackex"
		HTTL none FIELDS 2 a b -> [-2, -2]
		HPERSIST none FIELDS 1 a -> [-2]
		advance 1s
		HTTL h FIELDS 1 b -> [1]
		HPTTL h FIELDS 1 b -> [1]
		advance 1ms
		HTTL h FIELDS 1 b -> [-2]
		HGET h b -> nil
		HEXISTS h b -> 0
		HLEN h -> 3
		events -> hexpired:h
		HKEYS h -> ["c", "a", "d"]
		HPERSIST h FIELDS 4 a b d a -> [1, -2, -1, -1]
		HPERSIST h FIELDS 1 d -> [-1]
		events -> hpersist:h
		reopen
		HTTL h FIELDS 4 a b c d -> [-1, -2, 4, -1]
		TTL h -> -1
		advance 1h
		HGETALL h -> ["d", "4", "a", "1"]
		events -> hexpired:h
	`)
}

// TestHashExpireInThePast: a deadline in the past deletes the field at once.
func TestHashExpireInThePast(t *testing.T) {
	table(t, `
		HSET h a 1 b 2 c 3 d 4 e 5 -> 5
		HEXPIRE h 0 FIELDS 2 a x -> [2, -2]
		HPEXPIRE h 0 FIELDS 1 b -> [2]
		HEXPIREAT h 0 FIELDS 2 c c -> [2, -2]
		HPEXPIREAT h 1700000000000 NX FIELDS 1 d -> [2]
		HPEXPIREAT h 1700000000000 GT FIELDS 1 e -> [0]
		HGETALL h -> ["e", "5"]
		events -> hset:h hdel:h hdel:h hdel:h hdel:h
		HEXPIREAT h 1 FIELDS 1 e -> [2]
		EXISTS h -> 0
		events -> hdel:h del:h
		reopen
		EXISTS h -> 0
	`)
}

func TestHashExpireConditions(t *testing.T) {
	table(t, `
		HSET h a 1 b 2 -> 2
		HEXPIRE h 10 XX FIELDS 1 a -> [0]
		HEXPIRE h 10 GT FIELDS 1 a -> [0]
		HTTL h FIELDS 1 a -> [-1]
		HEXPIRE h 10 LT FIELDS 1 a -> [1]
		HEXPIRE h 20 NX FIELDS 2 a b -> [0, 1]
		HEXPIRE h 10 GT FIELDS 2 a b -> [0, 0]
		HEXPIRE h 10 LT FIELDS 2 a b -> [0, 1]
		HEXPIRE h 11 FIELDS 1 a GT -> [1]
		HEXPIRE h 30 xx fields 2 a b -> [1, 1]
		HEXPIRE h 40 NX NX FIELDS 1 a -> [0]
		HTTL h FIELDS 2 a b -> [30, 30]
		events -> hset:h hexpire:h hexpire:h hexpire:h hexpire:h hexpire:h
		HEXPIRE h 1 NX XX FIELDS 1 a -> -ERR Multiple condition flags specified
		HEXPIRE h 1 GT FIELDS 1 a LT -> -ERR Multiple condition flags specified
	`)
}

func TestHashExpireErrors(t *testing.T) {
	h := newHarness(t)
	h.run(`
		HSET h a 1 -> 1
		SET s v -> +OK
	`)
	for _, key := range []string{"h", "none"} {
		for _, c := range [][2]string{
			{"x FIELDS 1 a", "value is not an integer or out of range"},
			{"-1 FIELDS 1 a", "invalid expire time, must be >= 0"},
			{"99999999999 FIELDS 1 a", "invalid expire time in 'hexpire' command"},
			{"9223372036854775807 FIELDS 1 a", "invalid expire time in 'hexpire' command"},
			{"9223372036854775808 FIELDS 1 a", "value is not an integer or out of range"},
			{"10 FIELDS 0 a", "Parameter `numFields` should be greater than 0"},
			{"10 FIELDS -1 a", "Parameter `numFields` should be greater than 0"},
			{"10 FIELDS x a", "Parameter `numFields` should be greater than 0"},
			{"10 FIELDS 2147483648 a", "Parameter `numFields` should be greater than 0"},
			{"10 FIELDS 2147483647 a", "wrong number of arguments"},
			{"10 FIELDS 2 a", "wrong number of arguments"},
			{"10 FIELDS 1 a b", "unknown argument: b"},
			{"10 YY FIELDS 1 a", "unknown argument: YY"},
			{"10 NX a b", "unknown argument: a"},
			{"10 NX NX NX", "missing FIELDS argument"},
			{"10 NX NX FIELDS", "FIELDS requires at least numfields and one field argument"},
			{"10 NX FIELDS 1", "FIELDS requires at least numfields and one field argument"},
			{"10 FIELDS 1 a FIELDS 1 b", "FIELDS keyword specified multiple times"},
			{"10 FIELDS 1", "wrong number of arguments for 'hexpire' command"},
		} {
			h.run("HEXPIRE " + key + " " + c[0] + " -> -ERR " + c[1])
		}
		for _, name := range []string{"HTTL", "HPTTL", "HEXPIRETIME", "HPEXPIRETIME",
			"HPERSIST", "HGETDEL"} {
			h.run(name + " " + key +
				" a 1 b -> -ERR Mandatory argument FIELDS is missing or not at the right position")
			h.run(name + " " + key +
				" FIELDS 0 b -> -ERR Number of fields must be a positive integer")
			h.run(name + " " + key +
				" FIELDS x b -> -ERR Number of fields must be a positive integer")
			h.run(name + " " + key +
				" FIELDS 2 b -> -ERR The `numfields` parameter must match the number of arguments")
			h.run(name + " " + key +
				" FIELDS 1 b c -> -ERR The `numfields` parameter must match the number of arguments")
			h.run(name +
				" s FIELDS 0 b -> -WRONGTYPE Operation against a key holding the wrong kind of value")
		}
	}
	h.run(`
		HPEXPIREAT h 70368744177663 FIELDS 1 a -> [1]
		HPEXPIREAT h 70368744177664 FIELDS 1 a -> -ERR invalid expire time in 'hpexpireat' command
		HPEXPIRETIME h FIELDS 1 a -> [70368744177663]
		HEXPIRETIME h FIELDS 1 a -> [70368744178]
		HEXPIRE s -1 FIELDS 0 a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		HTTL h FIELDS 1 -> -ERR wrong number of arguments for 'httl' command
	`)
}

// TestHashDeadlineOverChanges: some commands change or remove a field's deadline, and others keep
// it.
func TestHashDeadlineOverChanges(t *testing.T) {
	table(t, `
		HSET h a 1 b 2 c 3 -> 3
		HEXPIRE h 10 FIELDS 3 a b c -> [1, 1, 1]
		HINCRBY h a 5 -> 6
		HINCRBYFLOAT h b 0.5 -> "2.5"
		HTTL h FIELDS 3 a b c -> [10, 10, 10]
		HSET h c 4 -> 0
		HTTL h FIELDS 3 a b c -> [10, 10, -1]
		HSETNX h a 9 -> 0
		HDEL h a -> 1
		HSET h a 1 -> 1
		HTTL h FIELDS 2 a b -> [-1, 10]
		RENAME h g -> +OK
		COPY g f -> 1
		EXPIRE g 3 -> 1
		reopen
		HTTL g FIELDS 3 a b c -> [-1, 10, -1]
		HTTL f FIELDS 3 a b c -> [-1, 10, -1]
		advance 3s
		EXISTS g -> 0
		HTTL f FIELDS 1 b -> [7]
		advance 7s
		HINCRBY f b 1 -> 1
		HTTL f FIELDS 1 b -> [-1]
	`)
}

// TestHashExpiresWhole: for every command, a hash whose last field has expired does not exist.
func TestHashExpiresWhole(t *testing.T) {
	table(t, `
		HSET h a 1 b 2 -> 2
		HPEXPIRE h 100 FIELDS 1 a -> [1]
		HPEXPIRE h 200 FIELDS 1 b -> [1]
		HSET g a 1 -> 1
		HPEXPIRE g 100 FIELDS 1 a -> [1]
		events -> hset:h hexpire:h hexpire:h hset:g hexpire:g
		reopen
		advance 100ms
		EXISTS g -> 0
		TYPE g -> +none
		events -> hexpired:g del:g
		HLEN h -> 1
		events -> hexpired:h
		advance 100ms
		SET h v NX -> +OK
		events -> hexpired:h del:h set:h
		DBSIZE -> 1
		reopen
		DBSIZE -> 1
		GET h -> "v"
	`)
}

// TestHashExpiresLarge: many fields of a large hash expire at the same time, also over a restart.
func TestHashExpiresLarge(t *testing.T) {
	for _, save := range []bool{true, false} {
		h := newHarness(t)
		h.save = save
		for i := range 3000 {
			h.do("HSET", "h", fmt.Sprint("f", i), "v")
			if i%3 > 0 {
				h.do("HPEXPIREAT", "h", fmt.Sprint(epoch+1000*int64(i%3)), "FIELDS", "1",
					fmt.Sprint("f", i))
			}
		}
		h.heard()
		h.reopen()
		h.clock.Advance(time.Second)
		h.run(`
			HLEN h -> 2000
			HTTL h FIELDS 3 f0 f1 f2 -> [-1, -2, 1]
		`)
		h.reopen()
		h.clock.Advance(time.Second)
		h.reopen()
		h.run(`
			HLEN h -> 1000
			HMGET h f0 f1 f2 f3 -> ["v", nil, nil, "v"]
		`)
	}
}

// TestReaperRemovesFields: fields are removed at their deadline even if no command uses them.
func TestReaperRemovesFields(t *testing.T) {
	h := newHarness(t)
	h.run(`
		HSET h a 1 b 2 c 3 -> 3
		HPEXPIRE h 100 FIELDS 1 a -> [1]
		HPEXPIRE h 200 FIELDS 2 b c -> [1, 1]
		events -> hset:h hexpire:h hexpire:h
	`)
	h.store.SetActiveExpire(true)
	h.clock.Advance(100 * time.Millisecond)
	h.await("hexpired:h")
	h.clock.Advance(100 * time.Millisecond)
	h.await("hexpired:h del:h")
	h.run(`DBSIZE -> 0`)
}

func TestHGetEx(t *testing.T) {
	table(t, `
		HGETEX none FIELDS 2 a b -> [nil, nil]
		HGETEX none EX 10 FIELDS 1 a -> [nil]
		EXISTS none -> 0
		HSET h a 1 b 2 c 3 -> 3
		HGETEX h FIELDS 2 a x -> ["1", nil]
		HGETEX h PERSIST FIELDS 1 a -> ["1"]
		events -> hset:h
		HGETEX h EX 10 FIELDS 3 a x a -> ["1", nil, "1"]
		HGETEX h fields 1 b px 1500 -> ["2"]
		events -> hexpire:h hexpire:h
		HPTTL h FIELDS 3 a b c -> [10000, 1500, -1]
		HGETEX h FIELDS 1 a -> ["1"]
		HGETEX h EXAT 1700000020 FIELDS 1 a -> ["1"]
		HGETEX h PXAT 1700000030000 FIELDS 1 b -> ["2"]
		HTTL h FIELDS 3 a b c -> [20, 30, -1]
		HGETEX h PERSIST FIELDS 2 a c -> ["1", "3"]
		HTTL h FIELDS 3 a b c -> [-1, 30, -1]
		events -> hexpire:h hexpire:h hpersist:h
		HGETEX h PX 0 FIELDS 2 a a -> ["1", nil]
		events -> hdel:h
		proto 3
		HGETEX h PXAT 1 FIELDS 3 a b c -> [null, "2", "3"]
		HGETEX h FIELDS 1 a -> [null]
		events -> hdel:h del:h
		EXISTS h -> 0
		reopen
		EXISTS h -> 0
	`)
}

func TestHSetEx(t *testing.T) {
	table(t, `
		HSETEX h EX 10 FIELDS 2 a 1 b 2 -> 1
		events -> hset:h hexpire:h
		HTTL h FIELDS 2 a b -> [10, 10]
		HSETEX h KEEPTTL FIELDS 2 a 3 c 4 -> 1
		HTTL h FIELDS 3 a b c -> [10, 10, -1]
		HSETEX h FIELDS 1 a 5 -> 1
		HTTL h FIELDS 3 a b c -> [-1, 10, -1]
		events -> hset:h hset:h
		HSETEX h FNX FIELDS 2 x 1 a 1 -> 0
		HSETEX h FXX FIELDS 2 x 1 a 1 -> 0
		HSETEX none FXX FIELDS 1 a 1 -> 0
		events -> 
		EXISTS none -> 0
		HSETEX h FIELDS 2 a 6 b 7 FXX PXAT 1700000020000 -> 1
		HSETEX h fnx FIELDS 2 x 8 y 9 EXAT 1700000030 -> 1
		HTTL h FIELDS 5 a b c x y -> [20, 20, -1, 30, 30]
		HSETEX h FIELDS 2 PX 1 FIELDS 2 PX 3000 -> 1
		events -> hset:h hexpire:h hset:h hexpire:h hset:h hexpire:h
		HTTL h FIELDS 2 PX FIELDS -> [3, 3]
		reopen
		advance 3s
		HGETALL h -> ["a", "6", "b", "7", "x", "8", "y", "9", "c", "4"]
		events -> hexpired:h
		HSETEX h PX 0 FIELDS 3 a 1 c 1 new 1 -> 1
		HGETALL h -> ["b", "7", "x", "8", "y", "9"]
		HSETEX h PXAT 1 FIELDS 3 b 1 x 1 y 1 -> 1
		EXISTS h -> 0
		HSETEX h EXAT 1 FIELDS 1 b 1 -> 1
		EXISTS h -> 0
		events -> hset:h hdel:h hset:h hdel:h del:h hset:h hdel:h del:h
		reopen
		EXISTS h -> 0
	`)
}

func TestHGetDel(t *testing.T) {
	table(t, `
		HGETDEL none FIELDS 2 a b -> [nil, nil]
		HSET h a 1 b 2 c 3 -> 3
		HGETDEL h FIELDS 3 a x a -> ["1", nil, nil]
		HGETDEL h FIELDS 1 x -> [nil]
		events -> hset:h hdel:h
		HGETDEL h FIELDS 2 c b -> ["3", "2"]
		events -> hdel:h del:h
		EXISTS h -> 0
		reopen
		EXISTS h -> 0
	`)
}

func TestHGetExHSetExErrors(t *testing.T) {
	h := newHarness(t)
	h.run(`
		HSET h a 1 -> 1
		SET s v -> +OK
	`)
	h.heard()
	for _, key := range []string{"h", "s", "none"} {
		for _, name := range []string{"HGETEX", "HSETEX"} {
			value, other, foreign := "", "PERSIST", "KEEPTTL"
			if name == "HSETEX" {
				value, other, foreign = " v", "KEEPTTL", "PERSIST"
			}
			twice := "Only one of EX, PX, EXAT, PXAT or " + other + " arguments can be specified"
			for _, c := range [][2]string{
				{"FIELDS 0 a" + value, "invalid number of fields"},
				{"FIELDS x a" + value, "invalid number of fields"},
				{"FIELDS 2147483648 a" + value, "invalid number of fields"},
				{"FIELDS 2147483647 a" + value, "wrong number of arguments"},
				{"FIELDS 2 a" + value, "wrong number of arguments"},
				{"EX 10 " + "BAD BAD", "unknown argument: BAD"},
				{"EX 10 " + other + " FIELDS", twice},
				{"EX 10 FIELDS 1", "wrong number of arguments"},
				{"FIELDS 1 a" + value + " b", "unknown argument: b"},
				{"FIELDS 1 a" + value + " FIELDS 1 a" + value,
					"FIELDS keyword specified multiple times"},
				{"EX 10 PX 10 FIELDS 1 a" + value, twice},
				{"EX 10 EX 10 FIELDS 1 a" + value, twice},
				{"EX 10 " + other + " FIELDS 1 a" + value, twice},
				{other + " " + other + " FIELDS 1 a" + value, twice},
				{other + " PXAT x FIELDS 1 a" + value, twice},
				{"EX 10 FIELDS 1 a" + value + " PX", twice},
				{foreign + " FIELDS 1 a" + value, "unknown argument: " + foreign},
				{"EX FIELDS 1 a" + value, "value is not an integer or out of range"},
				{"EX x BAD a" + value, "value is not an integer or out of range"},
				{"EX -1 FIELDS 1 a" + value, "invalid expire time, must be >= 0"},
				{"PXAT 70368744177664 FIELDS 1 a" + value, "invalid expire time in '" +
					strings.ToLower(name) + "' command"},
				{"FIELDS 1 a" + value + " EX", "missing expire time"},
			} {
				h.run(name + " " + key + " " + c[0] + " -> -ERR " + c[1])
			}
		}
		h.run("HSETEX " + key +
			" FNX FXX FIELDS 1 a v -> -ERR Only one of FXX or FNX arguments can be specified")
		h.run("HSETEX " + key +
			" FNX FNX FIELDS 1 a v -> -ERR Only one of FXX or FNX arguments can be specified")
		h.run("HGETEX " + key + " FNX FIELDS 1 a -> -ERR unknown argument: FNX")
		h.run("HGETEX " + key +
			" EX 10 PX -> -ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified")
		h.run("HSETEX " + key +
			" FNX KEEPTTL FNX KEEPTTL -> -ERR Only one of FXX or FNX arguments can be specified")
	}
	h.run(`
		HGETEX h EX 10 -> -ERR wrong number of arguments for 'hgetex' command
		HSETEX h FIELDS 1 a -> -ERR wrong number of arguments for 'hsetex' command
		HGETALL h -> ["a", "1"]
		EXISTS none -> 0
		events -> 
	`)
}
