package commands

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestZAdd(t *testing.T) {
	table(t, `
		ZADD z 1 a 2 b -> 2
		ZADD z 1 a 3 b 4 c -> 1
		ZADD z CH 1 a 5 b 4 c -> 1
		ZADD z NX 9 a 9 d -> 1
		ZADD z XX 10 a 9 e -> 0
		ZADD z XX CH 11 a 9 e -> 1
		ZADD z GT CH 10 a 12 b 1 new -> 2
		ZADD z LT CH 10 a 13 b 2 new -> 1
		ZRANGE z 0 -1 WITHSCORES -> ["new", "1", "c", "4", "d", "9", "a", "10", "b", "12"]
		events -> zadd:z zadd:z zadd:z zadd:z zadd:z zadd:z zadd:z zadd:z
		ZADD z xx gt ch 1 a -> 0
		ZADD z nx 1 a -> 0
		events -> 
		ZADD z INCR 2.5 a -> "12.5"
		ZADD z NX INCR 1 a -> nil
		ZADD z XX INCR 1 nobody -> nil
		ZADD z GT INCR -1 a -> nil
		ZADD z LT INCR -1 a -> "11.5"
		ZADD z CH INCR 0 a -> "11.5"
		ZINCRBY z -1.5 a -> "10"
		ZINCRBY z 3 fresh -> "3"
		ZINCRBY other 1e300 m -> "1e+300"
		events -> zincr:z zincr:z zincr:z zincr:z zincr:other
		ZADD same 1 a 2 a 3 a -> 1
		ZSCORE same a -> "3"
		ZADD none XX 1 a 2 b -> 0
		ZADD none XX INCR 1 a -> nil
		EXISTS none -> 0
		reopen
		ZRANGE z 0 -1 WITHSCORES -> ["new", "1", "fresh", "3", "c", "4", "d", "9", "a", "10", "b", "12"]
		TYPE z -> +zset
		OBJECT ENCODING z -> "listpack"
		proto 3
		ZADD z INCR 0.5 a -> ,10.5
		ZADD z NX INCR 1 a -> null
		ZINCRBY z 1 a -> ,11.5
		ZSCORE z a -> ,11.5
		ZSCORE z nobody -> null
	`)
}

func TestZAddErrors(t *testing.T) {
	table(t, `
		SET s v -> +OK
		ZADD z 1 -> -ERR wrong number of arguments for 'zadd' command
		ZADD z 1 a 2 -> -ERR syntax error
		ZADD z NX XX -> -ERR syntax error
		ZADD z NX XX 1 a -> -ERR XX and NX options at the same time are not compatible
		ZADD z NX GT 1 a -> -ERR GT, LT, and/or NX options at the same time are not compatible
		ZADD z LT NX 1 a -> -ERR GT, LT, and/or NX options at the same time are not compatible
		ZADD z GT LT 1 a -> -ERR GT, LT, and/or NX options at the same time are not compatible
		ZADD z INCR 1 a 2 b -> -ERR INCR option supports a single increment-element pair
		ZADD z INCR -> -ERR wrong number of arguments for 'zadd' command
		ZADD z INCR CH -> -ERR syntax error
		ZADD z 1 a x b -> -ERR value is not a valid float
		ZADD z BAD 1 a -> -ERR syntax error
		ZADD z BAD a -> -ERR value is not a valid float
		ZADD z nan a -> -ERR value is not a valid float
		ZADD z "" a -> -ERR value is not a valid float
		ZADD z " 1" a -> -ERR value is not a valid float
		ZADD z 1e400 a -> -ERR value is not a valid float
		ZADD z 1e-400 a -> -ERR value is not a valid float
		ZADD z 1_0 a -> -ERR value is not a valid float
		ZADD s 1 a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZADD s XX 1 a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZADD s x a -> -ERR value is not a valid float
		ZINCRBY z NX 1 -> -ERR syntax error
		ZINCRBY z x a -> -ERR value is not a valid float
		ZINCRBY s 1 a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		EXISTS z -> 0
		ZADD z inf a -inf b +Infinity c 0x10 d 1e-320 e .5 f 5. g -0 h -> 8
		ZMSCORE z a b c d e f g h i -> ["inf", "-inf", "inf", "16", "1e-320", "0.5", "5", "0", nil]
		ZINCRBY z -inf a -> -ERR resulting score is not a number (NaN)
		ZADD z INCR inf b -> -ERR resulting score is not a number (NaN)
		ZINCRBY z inf a -> "inf"
		ZSCORE z b -> "-inf"
		reopen
		ZMSCORE z a b -> ["inf", "-inf"]
		ZRANGE z 0 -1 -> ["b", "h", "e", "f", "g", "d", "a", "c"]
	`)
}

func TestZRemAndCounts(t *testing.T) {
	table(t, `
		SET s v -> +OK
		ZADD z 1 a 2 b 3 c 4 d -> 4
		events -> set:s zadd:z
		ZREM z nobody -> 0
		events -> 
		ZREM z a nobody c a -> 2
		events -> zrem:z
		ZCARD z -> 2
		ZCARD none -> 0
		ZCARD s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZREM s a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZREM none a -> 0
		ZSCORE s a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZMSCORE s a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZSCORE none a -> nil
		ZMSCORE none a b -> [nil, nil]
		reopen
		ZRANGE z 0 -1 -> ["b", "d"]
		ZREM z b d e -> 2
		events -> zrem:z del:z
		EXISTS z -> 0
		reopen
		EXISTS z -> 0
		ZADD z 1 a 2 b 2 c 3 d -> 4
		ZCOUNT z 2 3 -> 3
		ZCOUNT z (2 3 -> 1
		ZCOUNT z 2 (3 -> 2
		ZCOUNT z (2 (2 -> 0
		ZCOUNT z 3 2 -> 0
		ZCOUNT z -inf +inf -> 4
		ZCOUNT none 0 1 -> 0
		ZCOUNT z x 1 -> -ERR min or max is not a float
		ZCOUNT z 1 nan -> -ERR min or max is not a float
		ZCOUNT s x 1 -> -ERR min or max is not a float
		ZCOUNT s 0 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		# what Redis reads as C does
		ZCOUNT z "" " 1" -> 1
		ZCOUNT z "(" 1e400 -> 4
		ZCOUNT z "1 " 2 -> -ERR min or max is not a float
		ZCOUNT z " " 2 -> -ERR min or max is not a float
		ZCOUNT z "2\x00rest" "0x3" -> 3
		ZADD l 0 a 0 b 0 c 0 d -> 4
		ZLEXCOUNT l - + -> 4
		ZLEXCOUNT l + - -> 0
		ZLEXCOUNT l - - -> 0
		ZLEXCOUNT l + + -> 0
		ZLEXCOUNT l [b (d -> 2
		ZLEXCOUNT l (b [d -> 2
		ZLEXCOUNT l (b (b -> 0
		ZLEXCOUNT l [b [b -> 1
		ZLEXCOUNT l [ [bb -> 2
		ZLEXCOUNT l b [c -> -ERR min or max not valid string range item
		ZLEXCOUNT l [b "" -> -ERR min or max not valid string range item
		ZLEXCOUNT l -x + -> -ERR min or max not valid string range item
		ZLEXCOUNT none - + -> 0
		ZLEXCOUNT s - + -> -WRONGTYPE Operation against a key holding the wrong kind of value
	`)
}

func TestZRank(t *testing.T) {
	table(t, `
		SET s v -> +OK
		ZADD z 1.5 a 2 b 2 c -> 3
		ZRANK z a -> 0
		ZRANK z c -> 2
		ZREVRANK z c -> 0
		ZREVRANK z a -> 2
		ZRANK z x -> nil
		ZRANK none a -> nil
		ZRANK z a withscore -> [0, "1.5"]
		ZREVRANK z a WITHSCORE -> [2, "1.5"]
		ZRANK z x WITHSCORE -> nilarray
		ZRANK none x WITHSCORE -> nilarray
		ZRANK z a WITHSCORES -> -ERR syntax error
		ZRANK z a WITHSCORE x -> -ERR wrong number of arguments for 'zrank' command
		ZREVRANK s a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZREVRANK s a x -> -ERR syntax error
		proto 3
		ZRANK z a WITHSCORE -> [0, ,1.5]
		ZRANK z x WITHSCORE -> null
		ZRANK z x -> null
	`)
}

func TestZRange(t *testing.T) {
	table(t, `
		SET s v -> +OK
		ZADD z 1 a 2 b 2 c 3.5 d -> 4
		ZRANGE z 0 -1 -> ["a", "b", "c", "d"]
		ZRANGE z 1 2 WITHSCORES -> ["b", "2", "c", "2"]
		ZRANGE z -2 100 -> ["c", "d"]
		ZRANGE z -100 -4 -> ["a"]
		ZRANGE z 2 1 -> []
		ZRANGE z 4 10 -> []
		ZRANGE z 0 1 REV WITHSCORES -> ["d", "3.5", "c", "2"]
		ZREVRANGE z 0 1 -> ["d", "c"]
		ZREVRANGE z -1 -1 WITHSCORES -> ["a", "1"]
		ZREVRANGE z -2 -1 -> ["b", "a"]
		ZRANGE z 0 -1 LIMIT 0 -1 -> ["a", "b", "c", "d"]
		ZRANGE z 0 -1 LIMIT 2 -1 -> ["a", "b", "c", "d"]
		ZRANGE z 0 -1 LIMIT 1 2 -> -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
		ZREVRANGE z 0 -1 LIMIT 0 1 -> -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
		ZREVRANGE z 0 -1 REV -> -ERR syntax error
		ZRANGE z 0 -1 REV REV -> -ERR syntax error
		ZRANGE z 0 -1 BYSCORE BYLEX -> -ERR syntax error
		ZRANGE z 0 -1 LIMIT 1 -> -ERR syntax error
		ZRANGE z 0 -1 BYSCORE LIMIT x 1 -> -ERR value is not an integer or out of range
		ZRANGE z a b -> -ERR value is not an integer or out of range
		ZRANGE z (1 2 -> -ERR value is not an integer or out of range
		ZRANGE s 0 x -> -ERR value is not an integer or out of range
		ZRANGE s 0 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZRANGE none 0 -1 -> []
		ZRANGE none 0 -1 FOO -> -ERR syntax error

		ZRANGE z 2 3.5 BYSCORE -> ["b", "c", "d"]
		ZRANGE z (2 +inf BYSCORE WITHSCORES -> ["d", "3.5"]
		ZRANGE z +inf (2 BYSCORE REV -> ["d"]
		ZRANGE z 2 +inf BYSCORE REV -> []
		ZRANGE z +inf -inf BYSCORE REV LIMIT 1 2 -> ["c", "b"]
		ZRANGE z -inf +inf BYSCORE LIMIT 1 2 WITHSCORES -> ["b", "2", "c", "2"]
		ZRANGE z -inf +inf BYSCORE LIMIT 1 -5 -> ["b", "c", "d"]
		ZRANGE z -inf +inf BYSCORE LIMIT -1 2 -> []
		ZRANGE z -inf +inf BYSCORE LIMIT 4 2 -> []
		ZRANGE z -inf +inf BYSCORE LIMIT 0 0 -> []
		ZRANGE z 1 x BYSCORE -> -ERR min or max is not a float
		ZRANGEBYSCORE z 2 2 -> ["b", "c"]
		ZRANGEBYSCORE z (1 (3.5 WITHSCORES LIMIT 1 1 -> ["c", "2"]
		ZRANGEBYSCORE z 1 2 REV -> -ERR syntax error
		ZRANGEBYSCORE z 1 2 BYSCORE -> -ERR syntax error
		ZREVRANGEBYSCORE z 3 1 -> ["c", "b", "a"]
		ZREVRANGEBYSCORE z 1 3 -> []
		ZREVRANGEBYSCORE z +inf -inf LIMIT 3 9 WITHSCORES -> ["a", "1"]
		ZREVRANGEBYSCORE z x 1 -> -ERR min or max is not a float

		ZADD l 0 a 0 b 0 c 0 d -> 4
		ZRANGE l [b + BYLEX -> ["b", "c", "d"]
		ZRANGE l + (b BYLEX REV -> ["d", "c"]
		ZRANGE l - + BYLEX LIMIT 1 2 -> ["b", "c"]
		ZRANGE l - + BYLEX WITHSCORES -> -ERR syntax error, WITHSCORES not supported in combination with BYLEX
		ZRANGE l b c BYLEX -> -ERR min or max not valid string range item
		ZRANGEBYLEX l - (c -> ["a", "b"]
		ZRANGEBYLEX l - + WITHSCORES -> -ERR syntax error, WITHSCORES not supported in combination with BYLEX
		ZREVRANGEBYLEX l (c - -> ["b", "a"]
		ZREVRANGEBYLEX l + - LIMIT 1 1 -> ["c"]
		ZREVRANGEBYLEX l - + -> []
		proto 3
		ZRANGE z 0 1 WITHSCORES -> [["a", ,1], ["b", ,2]]
		ZREVRANGE z 0 0 WITHSCORES -> [["d", ,3.5]]
		ZRANGEBYSCORE z 2 2 WITHSCORES -> [["b", ,2], ["c", ,2]]
		ZRANGE none 0 1 WITHSCORES -> []
	`)
}

func TestZRangeStore(t *testing.T) {
	table(t, `
		SET s v -> +OK
		ZADD z 1 a 2 b 3 c -> 3
		SET dst v EX 100 -> +OK
		events -> set:s zadd:z set:dst expire:dst
		ZRANGESTORE dst z 0 1 -> 2
		TTL dst -> -1
		ZRANGE dst 0 -1 WITHSCORES -> ["a", "1", "b", "2"]
		ZRANGESTORE dst z (1 +inf BYSCORE LIMIT 0 1 -> 1
		ZRANGE dst 0 -1 WITHSCORES -> ["b", "2"]
		ZRANGESTORE dst z 0 0 REV -> 1
		ZRANGE dst 0 -1 -> ["c"]
		ZRANGESTORE z z 1 -1 -> 2
		reopen
		ZRANGE z 0 -1 -> ["b", "c"]
		ZRANGE dst 0 -1 -> ["c"]
		events -> zrangestore:dst zrangestore:dst zrangestore:dst zrangestore:z
		ZRANGESTORE dst z 5 6 -> 0
		ZRANGESTORE dst none 0 -1 -> 0
		events -> del:dst
		EXISTS dst -> 0
		ZRANGESTORE s none 0 -1 -> 0
		events -> del:s
		SET s v -> +OK
		ZRANGESTORE z s 0 -1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZRANGESTORE z z 0 -1 WITHSCORES -> -ERR syntax error
		ZRANGESTORE z z 0 x -> -ERR value is not an integer or out of range
		ZRANGESTORE z z 0 -1 LIMIT 0 1 -> -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
		ZRANGESTORE z z - + BYLEX LIMIT 0 1 REV -> 0
		EXISTS z -> 0
	`)
}

func TestZRemRange(t *testing.T) {
	table(t, `
		SET s v -> +OK
		ZADD z 1 a 2 b 3 c 4 d 5 e 6 f -> 6
		events -> set:s zadd:z
		ZREMRANGEBYRANK z 10 20 -> 0
		ZREMRANGEBYSCORE z 10 20 -> 0
		events -> 
		ZREMRANGEBYRANK z 1 -4 -> 2
		ZRANGE z 0 -1 -> ["a", "d", "e", "f"]
		ZREMRANGEBYSCORE z (1 (5 -> 1
		events -> zremrangebyrank:z zremrangebyscore:z
		reopen
		ZRANGE z 0 -1 -> ["a", "e", "f"]
		EXPIRE z 100 -> 1
		ZREMRANGEBYSCORE z 6 +inf -> 1
		TTL z -> 100
		ZREMRANGEBYRANK z 0 -1 -> 2
		events -> expire:z zremrangebyscore:z zremrangebyrank:z del:z
		EXISTS z -> 0
		ZADD z 0 a 0 b 0 c -> 3
		ZREMRANGEBYLEX z [b (c -> 1
		ZREMRANGEBYLEX z - + -> 2
		events -> zadd:z zremrangebylex:z zremrangebylex:z del:z
		reopen
		EXISTS z -> 0
		ZREMRANGEBYRANK none 0 x -> -ERR value is not an integer or out of range
		ZREMRANGEBYRANK none 0 1 -> 0
		ZREMRANGEBYSCORE none a 1 -> -ERR min or max is not a float
		ZREMRANGEBYLEX none a + -> -ERR min or max not valid string range item
		ZREMRANGEBYLEX s - + -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZREMRANGEBYSCORE s 0 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
	`)
}

func TestZPop(t *testing.T) {
	table(t, `
		SET s v -> +OK
		ZADD z 1 a 2 b 3 c 4 d 5 e -> 5
		events -> set:s zadd:z
		ZPOPMIN z -> ["a", "1"]
		ZPOPMAX z 2 -> ["e", "5", "d", "4"]
		ZPOPMIN z 0 -> []
		events -> zpopmin:z zpopmax:z
		ZPOPMIN z -1 -> -ERR value is out of range, must be positive
		ZPOPMIN z x -> -ERR value is out of range, must be positive
		ZPOPMAX z 1 2 -> -ERR syntax error
		ZPOPMIN none -> []
		ZPOPMIN none 3 -> []
		ZPOPMAX s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZPOPMAX s 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		reopen
		ZPOPMAX z 10 -> ["c", "3", "b", "2"]
		events -> zpopmax:z del:z
		EXISTS z -> 0
		proto 3
		ZADD z 1 a 2 b 3 c -> 3
		ZPOPMIN z -> ["a", ,1]
		ZPOPMIN z 1 -> [["b", ,2]]
		ZPOPMIN z 0 -> []
		ZPOPMIN none -> []
		proto 2
		ZADD a 1 x -> 1
		events -> zadd:z zpopmin:z zpopmin:z zadd:a
		ZMPOP 3 none a z MIN -> ["a", [["x", "1"]]]
		events -> zpopmin:a del:a
		ZMPOP 2 none z MAX COUNT 10 -> ["z", [["c", "3"]]]
		ZMPOP 2 none z MAX -> nilarray
		ZMPOP 2 none s MIN -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZMPOP 0 z MIN -> -ERR numkeys should be greater than 0
		ZMPOP x z MIN -> -ERR numkeys should be greater than 0
		ZMPOP 2 z MIN -> -ERR syntax error
		ZMPOP 9223372036854775807 z MIN -> -ERR syntax error
		ZMPOP 1 z FOO -> -ERR syntax error
		ZMPOP 1 z MIN COUNT -> -ERR syntax error
		ZMPOP 1 z MIN COUNT 0 -> -ERR count should be greater than 0
		ZMPOP 1 z MIN COUNT x -> -ERR count should be greater than 0
		ZMPOP 1 z MIN COUNT 1 COUNT 1 -> -ERR syntax error
		proto 3
		ZADD z 1 a -> 1
		ZMPOP 1 z MAX COUNT 1 -> ["z", [["a", ,1]]]
		ZMPOP 1 z MAX -> null
	`)
}

func TestZCombine(t *testing.T) {
	table(t, `
		SET str v -> +OK
		ZADD a 1 x 2 y 3 z -> 3
		ZADD b 10 y 20 z 30 w -> 3
		SADD s y w 5 -> 3
		ZUNION 2 a b -> ["x", "y", "z", "w"]
		ZUNION 2 a b WITHSCORES -> ["x", "1", "y", "12", "z", "23", "w", "30"]
		ZUNION 3 a none s WITHSCORES -> ["5", "1", "w", "1", "x", "1", "y", "3", "z", "3"]
		ZUNION 2 a b WEIGHTS 2 0.5 WITHSCORES -> ["x", "2", "y", "9", "w", "15", "z", "16"]
		ZUNION 2 a b AGGREGATE MIN WITHSCORES -> ["x", "1", "y", "2", "z", "3", "w", "30"]
		ZUNION 2 a b AGGREGATE max WITHSCORES -> ["x", "1", "y", "10", "z", "20", "w", "30"]
		ZUNION 2 a b AGGREGATE COUNT WITHSCORES -> ["w", "1", "x", "1", "y", "2", "z", "2"]
		ZUNION 2 a b WEIGHTS 2 5 AGGREGATE COUNT WITHSCORES -> ["x", "2", "w", "5", "y", "7", "z", "7"]
		ZUNION 2 a a WITHSCORES -> ["x", "2", "y", "4", "z", "6"]
		ZINTER 2 a b WITHSCORES -> ["y", "12", "z", "23"]
		ZINTER 3 a b s WITHSCORES -> ["y", "13"]
		ZINTER 2 a b WEIGHTS 1 -1 AGGREGATE MIN WITHSCORES -> ["z", "-20", "y", "-10"]
		ZINTER 2 a none -> []
		ZINTER 2 a a AGGREGATE COUNT WITHSCORES -> ["x", "2", "y", "2", "z", "2"]
		ZINTER 1 s WITHSCORES -> ["5", "1", "w", "1", "y", "1"]
		ZDIFF 2 a b WITHSCORES -> ["x", "1"]
		ZDIFF 2 b s -> ["z"]
		ZDIFF 2 s a -> ["5", "w"]
		ZDIFF 2 a a -> []
		ZDIFF 2 none a -> []
		ZINTERCARD 2 a b -> 2
		ZINTERCARD 2 a b LIMIT 1 -> 1
		ZINTERCARD 2 a b LIMIT 0 -> 2
		ZINTERCARD 2 a none -> 0
		ZADD inf inf p -inf q -> 2
		ZADD ninf -inf p inf q -> 2
		ZUNION 2 inf ninf WITHSCORES -> ["p", "0", "q", "0"]
		ZINTER 2 inf ninf WITHSCORES -> ["p", "0", "q", "0"]
		ZUNION 1 inf WEIGHTS 0 WITHSCORES -> ["p", "0", "q", "0"]
		ZINTER 2 inf ninf WEIGHTS 0 1 AGGREGATE MIN WITHSCORES -> ["p", "-inf", "q", "0"]
		proto 3
		ZUNION 1 a WITHSCORES -> [["x", ,1], ["y", ,2], ["z", ,3]]
		ZDIFF 2 a b WITHSCORES -> [["x", ,1]]
		ZINTER 2 a b -> ["y", "z"]
	`)
}

func TestZCombineStore(t *testing.T) {
	table(t, `
		SET str v EX 100 -> +OK
		ZADD a 1 x 2 y 3 z -> 3
		ZADD b 10 y 20 z 30 w -> 3
		events -> set:str expire:str zadd:a zadd:b
		ZUNIONSTORE str 2 a b WEIGHTS 1 1 -> 4
		TTL str -> -1
		ZINTERSTORE dst 2 a b AGGREGATE MAX -> 2
		ZDIFFSTORE a 2 a b -> 1
		events -> zunionstore:str zinterstore:dst zdiffstore:a
		reopen
		ZRANGE str 0 -1 WITHSCORES -> ["x", "1", "y", "12", "z", "23", "w", "30"]
		ZRANGE dst 0 -1 WITHSCORES -> ["y", "10", "z", "20"]
		ZRANGE a 0 -1 WITHSCORES -> ["x", "1"]
		ZDIFFSTORE a 2 a a -> 0
		ZINTERSTORE dst 2 none b -> 0
		ZINTERSTORE dst 2 none b -> 0
		events -> del:a del:dst
		EXISTS a dst -> 0
	`)
}

func TestZCombineErrors(t *testing.T) {
	table(t, `
		SET str v -> +OK
		ZADD a 1 x -> 1
		ZUNION 0 a -> -ERR at least 1 input key is needed for 'zunion' command
		ZUNION -5 a -> -ERR at least 1 input key is needed for 'zunion' command
		ZUNIONSTORE d 0 a -> -ERR at least 1 input key is needed for 'zunionstore' command
		ZINTERCARD 0 a -> -ERR at least 1 input key is needed for 'zintercard' command
		ZDIFF x a -> -ERR value is not an integer or out of range
		ZDIFF 2 a -> -ERR syntax error
		ZUNION 9223372036854775807 a -> -ERR syntax error
		ZUNION 2 a str -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZUNION 1 str FOO -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZUNION 1 a FOO -> -ERR syntax error
		ZUNION 1 a WEIGHTS -> -ERR syntax error
		ZUNION 2 a a WEIGHTS 1 -> -ERR syntax error
		ZUNION 1 a WEIGHTS x -> -ERR weight value is not a float
		ZUNION 1 a WEIGHTS nan -> -ERR weight value is not a float
		ZUNION 1 a WEIGHTS 1 2 -> -ERR syntax error
		ZUNION 1 a AGGREGATE -> -ERR syntax error
		ZUNION 1 a AGGREGATE AVG -> -ERR syntax error
		ZUNIONSTORE d 1 a WITHSCORES -> -ERR syntax error
		ZDIFF 1 a WEIGHTS 1 -> -ERR syntax error
		ZDIFF 1 a AGGREGATE SUM -> -ERR syntax error
		ZDIFFSTORE d 1 a WITHSCORES -> -ERR syntax error
		ZINTERCARD 1 a LIMIT -> -ERR syntax error
		ZINTERCARD 1 a LIMIT -1 -> -ERR LIMIT can't be negative
		ZINTERCARD 1 a LIMIT x -> -ERR LIMIT can't be negative
		ZINTERCARD 1 a WITHSCORES -> -ERR syntax error
		ZINTERCARD 1 str LIMIT x -> -WRONGTYPE Operation against a key holding the wrong kind of value
		EXISTS d -> 0
		COMMAND GETKEYS ZUNIONSTORE d 2 a b WEIGHTS 1 2 -> ["d", "a", "b"]
		COMMAND GETKEYS ZMPOP 2 a b MIN -> ["a", "b"]
	`)
}

// TestZRandMemberTooMany: an absurd count does not take all memory.
func TestZRandMemberTooMany(t *testing.T) {
	drawsEnd(t, "ZADD z 1 m", "ZRANDMEMBER z -4611686018427387903 WITHSCORES")
}

func TestZRandMember(t *testing.T) {
	h := newHarness(t)
	h.run(`
		SET s v -> +OK
		ZADD z 1 a 2.5 b -> 2
		ZRANDMEMBER none -> nil
		ZRANDMEMBER none 5 -> []
		ZRANDMEMBER none -5 WITHSCORES -> []
		ZRANDMEMBER z 0 -> []
		ZRANDMEMBER z 5 WITHSCORES -> ["a", "1", "b", "2.5"]
		ZRANDMEMBER s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZRANDMEMBER s 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZRANDMEMBER s x -> -ERR value is not an integer or out of range
		ZRANDMEMBER z 1 FOO -> -ERR syntax error
		ZRANDMEMBER z 1 WITHSCORES FOO -> -ERR syntax error
		ZRANDMEMBER z -9223372036854775808 FOO -> -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
		ZRANDMEMBER z 9223372036854775807 WITHSCORES -> -ERR value is out of range
		ZRANDMEMBER z -4611686018427387904 WITHSCORES -> -ERR value is out of range
		ZRANDMEMBER z 9223372036854775807 -> ["a", "b"]
		ZREM z b -> 1
		ZRANDMEMBER z -> "a"
		ZRANDMEMBER z -3 -> ["a", "a", "a"]
		ZRANDMEMBER z -2 WITHSCORES -> ["a", "1", "a", "1"]
		proto 3
		ZRANDMEMBER z 1 WITHSCORES -> [["a", ,1]]
		ZRANDMEMBER z -2 WITHSCORES -> [["a", ,1], ["a", ,1]]
		ZRANDMEMBER none -> null
	`)
	h.client.Proto = 2
	for i := range 300 {
		h.do("ZADD", "big", strconv.Itoa(i), strconv.Itoa(i))
	}
	for _, count := range []int{1, 10, 99, 150, 299, 300, 1000} {
		members := strings.Split(strings.Trim(h.do("ZRANDMEMBER", "big", strconv.Itoa(count)),
			"[]"), ", ")
		seen := map[string]bool{}
		for _, m := range members {
			seen[m] = true
		}
		if len(members) != min(count, 300) || len(seen) != len(members) {
			t.Errorf("%d members asked for, %d replied, %d different", count,
				len(members), len(seen))
		}
	}
}

func TestZScan(t *testing.T) {
	table(t, `
		ZADD z 1 a 2.5 b 1e300 ab -> 3
		ZSCAN z 0 -> ["0", ["a", "1", "b", "2.5", "ab", "1e+300"]]
		ZSCAN z 0 MATCH a* COUNT 100 -> ["0", ["a", "1", "ab", "1e+300"]]
		ZSCAN z 0 NOVALUES -> -ERR NOVALUES option can only be used in HSCAN
		ZSCAN z x -> -ERR invalid cursor
		ZSCAN none 0 -> ["0", []]
		SET s v -> +OK
		ZSCAN s 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		proto 3
		ZSCAN z 0 MATCH b -> ["0", ["b", "2.5"]]
	`)
}

// TestZSetExpires: a sorted set is gone at its deadline. Commands that change the set keep its
// deadline.
func TestZSetExpires(t *testing.T) {
	table(t, `
		ZADD z 1 a 2 b -> 2
		PEXPIRE z 1000 -> 1
		ZADD z 3 c -> 1
		ZINCRBY z 1 a -> "2"
		ZREM z b -> 1
		ZPOPMAX z -> ["c", "3"]
		PTTL z -> 1000
		events -> zadd:z expire:z zadd:z zincr:z zrem:z zpopmax:z
		reopen
		PTTL z -> 1000
		advance 999ms
		ZCARD z -> 1
		ZRANGESTORE copy z 0 -1 -> 1
		PTTL copy -> -1
		advance 1ms
		ZADD z XX 5 a -> 0
		ZSCORE z a -> nil
		ZRANK z a -> nil
		ZRANGE z 0 -1 -> []
		ZUNION 2 z copy -> ["a"]
		ZPOPMIN z -> []
		ZADD z 7 new -> 1
		PTTL z -> -1
		events -> zrangestore:copy expired:z zadd:z
		reopen
		ZRANGE z 0 -1 WITHSCORES -> ["new", "7"]
	`)
}

// TestZSetHits: each read counts as a hit or a miss. A wrong type counts as a hit.
func TestZSetHits(t *testing.T) {
	h := newHarness(t)
	h.run(`
		ZADD z 1 a -> 1
		SET s v -> +OK
		ZSCORE z a -> "1"
		ZCARD none -> 0
		ZRANGE s 0 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		ZUNION 3 z none z -> ["a"]
		ZPOPMIN none -> []
	`)
	if hits, misses := h.env.Stats.Hits.Load(), h.env.Stats.Misses.Load(); hits != 4 ||
		misses != 2 {
		t.Errorf("%d hits and %d misses, want 4 and 2", hits, misses)
	}
}

// TestLargeZSet: all commands work the same beyond the limits of small sorted sets.
func TestLargeZSet(t *testing.T) {
	for _, save := range []bool{true, false} {
		h := newHarness(t)
		h.save = save
		const n = 3000
		args := []string{"ZADD", "z"}
		for i := range n {
			args = append(args, strconv.Itoa(i), "m"+strconv.Itoa(i))
		}
		if got := h.do(args...); got != strconv.Itoa(n) {
			t.Fatalf("ZADD: %s", got)
		}
		h.run(`
			OBJECT ENCODING z -> "skiplist"
			reopen
			ZCARD z -> 3000
			ZRANGE z 1500 1501 WITHSCORES -> ["m1500", "1500", "m1501", "1501"]
			ZREVRANGE z 0 1 -> ["m2999", "m2998"]
			ZRANK z m2000 WITHSCORE -> [2000, "2000"]
			ZCOUNT z (10 20 -> 10
			ZRANGE z 20 10 BYSCORE REV LIMIT 2 2 -> ["m18", "m17"]
			ZREMRANGEBYSCORE z 1000 +inf -> 2000
			ZREMRANGEBYRANK z 1 -2 -> 998
			ZUNIONSTORE u 2 z z WEIGHTS 1 2 -> 2
			reopen
			ZRANGE z 0 -1 WITHSCORES -> ["m0", "0", "m999", "999"]
			ZRANGE u 0 -1 WITHSCORES -> ["m0", "0", "m999", "2997"]
			ZPOPMAX z 5 -> ["m999", "999", "m0", "0"]
			EXISTS z -> 0
		`)
	}
}

// zmodel is a simple model of a sorted set.
type zmodel map[string]float64

// sorted returns the members in order.
func (m zmodel) sorted() (members []string) {
	for member := range m {
		at := 0
		for at < len(members) &&
			(m[members[at]] < m[member] || m[members[at]] == m[member] && members[at] < member) {
			at++
		}
		members = append(members[:at:at], append([]string{member}, members[at:]...)...)
	}
	return members
}

// TestZSetLikeModel: after any commands, ranges, ranks and counts are those of the model. This
// holds for small and large sorted sets, and over restarts.
func TestZSetLikeModel(t *testing.T) {
	h := newHarness(t)
	rapid.Check(t, func(rt *rapid.T) {
		h.t = rt
		must(rt, h, "+OK", "FLUSHALL")
		h.save = rapid.Bool().Draw(rt, "save")
		small := rapid.SampledFrom([]string{"128", "4"}).Draw(rt, "small")
		h.run("config zset-max-listpack-entries " + small)
		model := zmodel{}
		member := rapid.SampledFrom(strings.Fields("a b c d e f g h i j k"))
		score := rapid.SampledFrom([]float64{-1, 0, 0.1, 1, 2, 1e300, math.Inf(1), math.Inf(-1)})
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			m, s := member.Draw(rt, "member"), score.Draw(rt, "score")
			text := strconv.FormatFloat(s, 'g', -1, 64)
			switch rapid.IntRange(0, 8).Draw(rt, "step") {
			case 0, 1, 2:
				h.do("ZADD", "z", text, m)
				model[m] = s
			case 3:
				h.do("ZREM", "z", m)
				delete(model, m)
			case 4:
				h.do("ZPOPMIN", "z")
				if all := model.sorted(); len(all) > 0 {
					delete(model, all[0])
				}
			case 5:
				h.do("ZREMRANGEBYSCORE", "z", "("+text, "+inf")
				for other := range model {
					if model[other] > s {
						delete(model, other)
					}
				}
			case 6:
				h.reopen()
				h.run("config zset-max-listpack-entries " + small)
			default:
				checkZSet(h, rt, model, m, s, text)
			}
		}
		checkZSet(h, rt, model, "a", 0, "0")
	})
}

// checkZSet compares the replies about the key z with the model.
func checkZSet(h *harness, t *rapid.T, model zmodel, m string, s float64, text string) {
	t.Helper()
	all := model.sorted()
	quoted := make([]string, len(all))
	rank, above := "nil", 0
	for i, other := range all {
		quoted[i] = strconv.Quote(other)
		if other == m {
			rank = strconv.Itoa(i)
		}
		if model[other] >= s {
			above++
		}
	}
	want := "[" + strings.Join(quoted, ", ") + "]"
	for _, tt := range []struct {
		want string
		args []string
	}{
		{want, []string{"ZRANGE", "z", "0", "-1"}},
		{want, []string{"ZUNION", "2", "z", "none"}},
		{strconv.Itoa(len(all)), []string{"ZCARD", "z"}},
		{rank, []string{"ZRANK", "z", m}},
		{strconv.Itoa(above), []string{"ZCOUNT", "z", text, "+inf"}},
	} {
		if got := h.do(tt.args...); got != tt.want {
			t.Fatalf("%q: %s, want %s", tt.args, got, tt.want)
		}
	}
}

// hotZSet prepares a large sorted set. It returns frequent commands on it, and a function that runs
// one.
func hotZSet(tb testing.TB) (run func(args [][]byte), list [][]string) {
	h := newHarness(tb)
	h.store.SetEvents(0) // as in a server that nobody listens to
	args := []string{"ZADD", "z"}
	for i := range 20_000 {
		args = append(args, strconv.Itoa(i), "m"+strconv.Itoa(i))
	}
	h.do(args...)
	c := &h.ctx
	run = func(args [][]byte) {
		c.Args = args
		c.Out.Truncate(0)
		if h.env.Dispatch(c) != Done {
			tb.Fatalf("%q did not run", args)
		}
	}
	return run, [][]string{
		{"ZADD", "z", "7.5", "m10000"},
		{"ZADD", "z", "XX", "GT", "CH", "7", "m10"},
		{"ZINCRBY", "z", "0.25", "m777"},
		{"ZSCORE", "z", "m5000"},
		{"ZRANK", "z", "m5000"},
		{"ZCARD", "z"},
		{"ZCOUNT", "z", "(1000", "+inf"},
		{"ZRANGE", "z", "10000", "10009", "WITHSCORES"},
		{"ZRANGEBYSCORE", "z", "-inf", "+inf", "LIMIT", "5000", "10"},
		{"ZREMRANGEBYSCORE", "z", "-inf", "-1"},
	}
}

// TestHotZSetCommandsAllocateLittle: the memory that these commands need does not depend on the
// length of the sorted set, or on the position in it.
func TestHotZSetCommandsAllocateLittle(t *testing.T) {
	run, list := hotZSet(t)
	for _, words := range list {
		args := byteArgs(words...)
		if n := testing.AllocsPerRun(1000, func() { run(args) }); n > 2 {
			t.Errorf("%q: %v allocations", words, n)
		}
	}
}

func BenchmarkZSetDispatch(b *testing.B) {
	run, list := hotZSet(b)
	for _, words := range list {
		b.Run(strings.Join(words, " "), func(b *testing.B) {
			args := byteArgs(words...)
			b.ReportAllocs()
			for b.Loop() {
				run(args)
			}
		})
	}
}
