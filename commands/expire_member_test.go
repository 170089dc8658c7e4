package commands

import (
	"strings"
	"testing"
)

func TestExpireMember(t *testing.T) {
	table(t, `
		EXPIREMEMBER s a 10 -> 0
		EXPIREMEMBERAT s a 1700000100 -> 0
		TTL s a -> -2
		PTTL s a -> -2
		PERSIST s a -> 0
		SADD s a b c -> 3
		EXPIREMEMBER s none 10 -> 0
		TTL s a -> -1
		TTL s none -> -2
		PERSIST s a -> 0
		events -> sadd:s
		EXPIREMEMBER s a 10 -> 1
		EXPIREMEMBER s b 1500 ms -> 1
		EXPIREMEMBER s c 10 S -> 1
		events -> 
		TTL s a -> 10
		PTTL s a -> 10000
		TTL s b -> 2
		PTTL s b -> 1500
		TTL s -> -1
		PERSIST s c -> 1
		PERSIST s c -> 0
		TTL s c -> -1
		events -> persist:s
		reopen
		PTTL s a -> 10000
		SADD s a -> 0
		PTTL s a -> 10000
		advance 1499ms
		SMEMBERS s -> ["b", "a", "c"]
		PTTL s b -> 1
		advance 1ms
		SMEMBERS s -> ["a", "c"]
		SISMEMBER s b -> 0
		SCARD s -> 2
		TTL s b -> -2
		events -> srem:s
		EXPIREMEMBERAT s a 1700000003 -> 1
		PTTL s a -> 1500
		PEXPIREMEMBERAT s c 1700000002000 -> 1
		PTTL s c -> 500
		reopen
		advance 500ms
		SMEMBERS s -> ["a"]
		advance 1s
		EXISTS s -> 0
		TTL s a -> -2
		events -> srem:s srem:s del:s
		reopen
		EXISTS s -> 0
	`)
}

func TestExpireMemberOfOtherTypes(t *testing.T) {
	table(t, `
		HSET h f 1 g 2 -> 2
		EXPIREMEMBER h f 10 -> 1
		HTTL h FIELDS 2 f g -> [10, -1]
		TTL h f -> 10
		PERSIST h f -> 1
		HTTL h FIELDS 1 f -> [-1]
		EXPIREMEMBER h f 0 -> 1
		HGETALL h -> ["g", "2"]
		EXPIREMEMBER h g -5 -> 1
		EXISTS h -> 0
		events -> hset:h persist:h hdel:h hdel:h del:h
		SET str v -> +OK
		RPUSH l x -> 1
		EXPIREMEMBER str x 10 -> -ERR object type is unsupported
		EXPIREMEMBER l x 10 -> -ERR object type is unsupported
		EXPIREMEMBERAT l x 10 -> -ERR object type is unsupported
		TTL str x -> -2
		PTTL l x -> -2
		PERSIST str x -> 0
		PERSIST l x -> 0
	`)
}

func TestExpireMemberOfSortedSet(t *testing.T) {
	table(t, `
		ZADD z 1 a 2 b 3 c -> 3
		EXPIREMEMBER z a 10 -> 1
		EXPIREMEMBER z c 500 ms -> 1
		TTL z a -> 10
		ZADD z 9 a -> 0
		TTL z a -> 10
		reopen
		advance 500ms
		ZRANGE z 0 -1 WITHSCORES -> ["b", "2", "a", "9"]
		PERSIST z a -> 1
		EXPIREMEMBER z b 0 -> 1
		ZCARD z -> 1
		events -> zadd:z zadd:z zrem:z persist:z zrem:z
	`)
}

func TestExpireMemberErrors(t *testing.T) {
	table(t, `
		SADD s a -> 1
		EXPIREMEMBER s a -> -ERR wrong number of arguments for 'expiremember' command
		EXPIREMEMBER s a x -> -ERR value is not an integer or out of range
		EXPIREMEMBER s a x ms ms -> -ERR value is not an integer or out of range
		EXPIREMEMBER s a 1 ms ms -> -ERR Invalid number of arguments
		EXPIREMEMBER s a 1 m -> -ERR Invalid unit arg
		EXPIREMEMBER none a 1 m -> -ERR Invalid unit arg
		EXPIREMEMBER s a 9223372036854775807 -> -ERR invalid expire time in 'expiremember' command
		EXPIREMEMBER s a 70368744177664 ms -> -ERR invalid expire time in 'expiremember' command
		EXPIREMEMBERAT s a 1 ms -> -ERR wrong number of arguments for 'expirememberat' command
		EXPIREMEMBERAT s a 9223372036854775807 -> -ERR invalid expire time in 'expirememberat' command
		PEXPIREMEMBERAT s a 70368744177664 -> -ERR invalid expire time in 'pexpirememberat' command
		PEXPIREMEMBERAT s a 70368744177663 -> 1
		PTTL s a -> 68668744177663
		TTL s a b -> -ERR wrong number of arguments for 'ttl' command
		PTTL s a b -> -ERR wrong number of arguments for 'pttl' command
		PERSIST s a b -> -ERR wrong number of arguments for 'persist' command
		EXPIRETIME s a -> -ERR wrong number of arguments for 'expiretime' command
		PEXPIREMEMBERAT s a 0 -> 1
		EXISTS s -> 0
	`)
}

// TestMemberDeadlinesInSetCommands: all set commands treat expired members as gone. The results of
// set algebra have no deadlines.
func TestMemberDeadlinesInSetCommands(t *testing.T) {
	for _, reap := range []bool{false, true} {
		h := newHarness(t)
		due := func() {
			h.clock.Advance(1e9)
			if reap {
				h.store.Reap()
			}
			h.heard()
		}
		h.run(`
			SADD a x y z -> 3
			EXPIREMEMBER a x 1 -> 1
			EXPIREMEMBER a z 100 -> 1
			SUNIONSTORE b a -> 3
			TTL b z -> -1
			SMOVE a c z -> 1
			TTL c z -> -1
			SADD only m -> 1
			EXPIREMEMBER only m 1 -> 1
			SADD d 1 2 3 -> 3
			EXPIREMEMBER d 2 1 -> 1
		`)
		due()
		h.run(`
			SINTER a b -> ["y"]
			SDIFF b a -> ["x", "z"]
			SUNION a only -> ["y"]
			SINTERCARD 2 a b -> 1
			SMOVE a b x -> 0
			SREM a x -> 0
			SPOP a 5 -> ["y"]
			SRANDMEMBER only 5 -> []
			SPOP only -> nil
			SADD only m -> 1
			TTL only m -> -1
			SMISMEMBER d 1 2 3 -> [1, 0, 1]
			SSCAN d 0 -> ["0", ["1", "3"]]
			SADD d 2 -> 1
			TTL d 2 -> -1
		`)
	}
	h := newHarness(t)
	args := []string{"SADD", "s"}
	for i := range 500 {
		args = append(args, "m"+strings.Repeat("i", i))
	}
	for range 300 { // one in ten stays
		h.do("DEL", "s")
		h.do(args...)
		h.run(`
			EXPIREMEMBER s miii 100 -> 1
			EXPIRE s 1000 -> 1
		`)
		h.do("SPOP", "s", "450") // which stores the others again
		if h.do("SISMEMBER", "s", "miii") == "1" {
			h.run(`
				TTL s miii -> 100
				TTL s -> 1000
			`)
			return
		}
	}
	t.Error("the member never stayed")
}
