package torture

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// templates are the commands that histories have, each after its weight, with what is drawn:
//
//	%s %h %l %t %z   a key for a string, hash, list, set or sorted set, now and then another
//	%k               any of these keys
//	%m %w            a key for a stream, for limits
//	%v %V            a value; a large one
//	%f %g            a field or member; one of many; some make a value large
//	%i %x            a small integer; a number
//	%n               the number of a bit, now and then a large one
//	%j %o            the number of an entry of a stream, which has a few dozen; 0 or 1
//	%p %q            a time to live in ms; in s
//	%P %Q            a Unix time in ms; in s
//	%d               a database
//	%b               the name of a library
//	{ … }            repeated once to five times
//	< … >            repeated many times
//	[ … ]            there or not
//	#                how often the next { … } or < … > is repeated
var templates = parse(`
	9 SET %s %v
	2 SET %s %V
	4 SET %s %v PX %p
	1 SET %s %v KEEPTTL
	1 SET %s %v NX PXAT %P
	1 GETEX %s PX %p
	1 GETDEL %s
	1 GETSET %s %v
	2 APPEND %s %v
	2 INCR %s
	1 INCRBYFLOAT %s %x
	2 SETRANGE %s %i %v
	1 MSET { %s %v }
	1 MSETNX { %s %v }
	1 MSETEX # { %s %v } PX %p
	3 GET %s
	1 STRLEN %s

	6 HSET %h { %f %v }
	3 HSET %h < %g %v >
	1 HPEXPIRE %h %p FIELDS # < %g >
	1 HSET %h %f %V
	2 HDEL %h { %f }
	1 HINCRBY %h %f %i
	1 HSETNX %h %f %v
	4 HPEXPIRE %h %p FIELDS # { %f }
	1 HPEXPIREAT %h %P FIELDS # { %f }
	1 HPEXPIRE %h %p FIELDS # < %f >
	1 HPERSIST %h FIELDS # { %f }
	1 HGETEX %h PX %p FIELDS # { %f }
	2 HSETEX %h PX %p FIELDS # { %f %v }
	1 HSETEX %h KEEPTTL FIELDS # { %f %v }
	1 HGETDEL %h FIELDS # { %f }
	2 HGET %h %f
	1 HPTTL %h FIELDS # { %f }
	1 HLEN %h

	4 RPUSH %l { %v }
	2 LPUSH %l { %v }
	3 RPUSH %l < %g >
	2 LPOP %l [ %i ]
	1 RPOP %l [ %i ]
	1 LSET %l %i %v
	1 LINSERT %l BEFORE %f %v
	1 LREM %l %i %f
	1 LTRIM %l %i -%i
	1 LMOVE %l %l LEFT RIGHT
	1 LMPOP # { %l } RIGHT COUNT 3
	1 RPOPLPUSH %l %l
	2 LRANGE %l 0 %i
	1 LINDEX %l %i

	4 SADD %t { %f }
	3 SADD %t < %g >
	1 SADD %t { %i }
	2 SREM %t { %f }
	1 SMOVE %t %t %f
	1 SUNIONSTORE %t { %t }
	1 SDIFFSTORE %t { %t }
	1 SINTERSTORE %t %t %t
	3 EXPIREMEMBER %t %f %p ms
	1 PEXPIREMEMBERAT %t %f %P
	1 PERSIST %t %f
	2 SISMEMBER %t %f
	1 SCARD %t

	4 ZADD %z { %x %f }
	3 ZADD %z < %x %g >
	1 ZADD %z GT CH { %x %f }
	1 ZINCRBY %z %x %f
	2 ZREM %z { %f }
	2 ZPOPMIN %z [ %i ]
	1 ZPOPMAX %z
	1 ZREMRANGEBYRANK %z 0 %i
	1 ZREMRANGEBYSCORE %z 0 %x
	1 ZUNIONSTORE %z # { %z } AGGREGATE MAX
	1 ZRANGESTORE %z %z 0 %i
	3 EXPIREMEMBER %z %f %p ms
	1 PEXPIREMEMBERAT %z %f %P
	2 ZSCORE %z %f
	1 ZRANGE %z 0 %i WITHSCORES

	4 DEL { %k }
	2 UNLINK %k
	12 RENAME %k %k
	1 RENAMENX %k %k
	3 COPY %k %k REPLACE
	2 COPY %k %k DB %d REPLACE
	3 MOVE %k %d
	4 PEXPIRE %k %p
	1 EXPIRE %k %q NX
	1 PEXPIRE %k %p GT
	2 PEXPIREAT %k %P
	1 EXPIREAT %k %Q LT
	2 PERSIST %k
	1 SORT %l ALPHA STORE %l
	2 EXISTS { %k }
	1 TYPE %k
	1 PTTL %k
	1 HGETALL %h
	1 SMEMBERS %t
	1 ZSCAN %z 0 COUNT 1000
	2 KEYS *
	2 SCAN 0 COUNT 1000
	1 SWAPDB %d %d
	1 FLUSHDB
	1 FUNCTION LOAD REPLACE %b
	1 FUNCTION DELETE lib%i
`)

// newer are the templates that were added after seeds had found failures. Those seeds draw from
// templates alone (TestFoundSeeds).
var newer = parse(`
	3 SETBIT %s %n 1
	1 SETBIT %s %n 0
	2 BITFIELD %s SET u8 %n %i INCRBY i16 %n %i
	1 BITOP XOR %s { %s }
	1 BITOP NOT %s %s
	1 GETBIT %s %n
	1 BITCOUNT %s

	2 GEOADD %z { %x %i %f }
	1 GEOADD %z XX CH { %x %i %f }
	1 GEOSEARCHSTORE %z %z FROMLONLAT 60 4 BYBOX 9000 900 km
	1 GEODIST %z %f %f

	2 PFADD %s { %f }
	1 PFADD %s < %g >
	1 PFMERGE %s { %s }
	1 PFCOUNT { %s }

	9 XADD %m 1-* { %f %v }
	3 XADD %m 1-* < %g %v >
	1 XADD %m 1-* %f %V
	3 XADD %m MAXLEN ~ 20 1-* { %f %v }
	2 XADD %m NOMKSTREAM MAXLEN %i 1-* %f %v
	3 XDEL %m { 1-%j }
	2 XTRIM %m MAXLEN %j
	1 XTRIM %m MINID 1-%j
	1 XSETID %m 1-%j
	3 XGROUP CREATE %m c%o 0 MKSTREAM
	1 XGROUP CREATE %m c%o $
	1 XGROUP SETID %m c%o 1-%j
	1 XGROUP DESTROY %m c%o
	1 XGROUP CREATECONSUMER %m c%o w%o
	1 XGROUP DELCONSUMER %m c%o w%o
	6 XREADGROUP GROUP c%o w%o COUNT 5 STREAMS %m >
	2 XREADGROUP GROUP c%o w%o STREAMS %m >
	1 XREADGROUP GROUP c%o w%o NOACK STREAMS %m >
	3 XACK %m c%o { 1-%j }
	2 XCLAIM %m c%o w%o 0 { 1-%j }
	1 XAUTOCLAIM %m c%o w%o 0 0 COUNT 5
	1 XACKDEL %m c%o DELREF IDS # { 1-%j }
	1 XDELEX %m ACKED IDS # { 1-%j }
	1 XADD %m IDMP w%o %i 1-* %f %v
	1 XNACK %m c%o FAIL IDS # { 1-%j }
	1 XCFGSET %m MAXAGE %P
	1 XCFGSET %m MAXAGE %P DELREF
	1 XCFGSET %m MAXAGE %P ACKED
	2 XCFGSET %m MAXAGE 0
	2 XLEN %m
	1 XRANGE %m - + COUNT 10
	1 DEL %m
	4 RENAME %m %m
	1 RENAME %k %m
	2 COPY %m %m REPLACE
	1 MOVE %m %d
	3 PEXPIRE %m %p
	1 PERSIST %m

	9 KEYP.LIMIT TAKE %w 1 TOKENS 20 3 %p
	5 KEYP.LIMIT TAKE %w 2 WINDOW 30 %p
	3 KEYP.LIMIT TAKE %w 1 TOKENS 9 2 1000 WINDOW 20 5000 UNTIL 30 %P
	5 KEYP.LIMIT TAKE %w 1 WINDOW 30 %p APPROX UNTIL 40 %P
	5 KEYP.LIMIT TAKE %w %o UNTIL 30 %P RESERVE %f %p
	6 KEYP.LIMIT TAKE %w 1 WINDOW 300 9000 TOKENS 900 2 3 RESERVE %f %p
	3 KEYP.LIMIT TAKE %w 1 WINDOW 300 9000 RESERVE %g %p
	4 CL.THROTTLE %w %i 3 1
	2 KEYP.LIMIT CONFIRM %w %f
	2 KEYP.LIMIT RETURN %w %f
	1 KEYP.LIMIT RETURN %w %g
	2 KEYP.LIMIT PEEK %w 1 WINDOW 5 5000
	1 KEYP.LIMIT HELD %w
	1 KEYP.LIMIT RESET %w
	2 RENAME %w %w
	1 RENAME %k %w
	2 COPY %w %w REPLACE
	1 MOVE %w %d
	2 PEXPIRE %w %p
	1 PERSIST %w

	12 KEYP.DELAY ADD %y %f %P %v
	6 KEYP.DELAY ADD %y %g +%p %v
	3 KEYP.DELAY ADD %y %f +%i %V NX
	3 KEYP.DELAY POP %y COUNT 3 NOACK
	4 KEYP.DELAY POP %y COUNT 5 VISIBILITY %p
	2 KEYP.DELAY POP %y VISIBILITY %i MAXDELIVERIES 1 DEADLETTER %m
	2 KEYP.DELAY CANCEL %y { %f }
	1 KEYP.DELAY CANCEL %y < %g >
	3 KEYP.DELAY RESCHEDULE %y %f +%p
	1 KEYP.DELAY LEN %y
	1 DEL %y
	3 RENAME %y %y
	1 RENAME %k %y
	2 COPY %y %y REPLACE
	1 MOVE %y %d
	1 PEXPIRE %y %p
`)

// rare are drawn once in some hundred commands.
var rare = parse(`
	1 FLUSHALL
	1 FUNCTION FLUSH
	2 SAVE
	2 DBSIZE
	5 RANDOMKEY
`)

// runner is a script that runs the commands in its arguments. Each command follows its length.
const runner = `local i = 1
while i <= #ARGV do
  local n, call = tonumber(ARGV[i]), {}
  for j = 1, n do call[j] = ARGV[i + j] end
  redis.pcall(unpack(call))
  i = i + n + 1
end
return redis.status_reply('OK')`

func library(n int, version int) string {
	return fmt.Sprintf(
		"#!lua name=lib%d\n-- %d\nredis.register_function('run%d', function(KEYS, ARGV)\n%s\nend)",
		n, version, n, runner)
}

// pad makes a hundred elements too large for one record.
var pad = strings.Repeat("_", 100)

type template struct {
	weight int
	words  []string
}

func parse(text string) (list []template) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		weight, err := strconv.Atoi(words[0])
		if err != nil {
			panic(line)
		}
		list = append(list, template{weight, words[1:]})
	}
	return list
}

// draw makes commands.
type draw struct {
	rng  *rand.Rand
	now  func() int64
	list []template
}

func (d *draw) of(list []template) []string {
	sum := 0
	for _, t := range list {
		sum += t.weight
	}
	n := d.rng.IntN(sum)
	for _, t := range list {
		if n -= t.weight; n < 0 {
			return d.fill(nil, t.words)
		}
	}
	panic("unreachable")
}

// command returns a command that may be in a transaction or a script. A library is loaded only
// outside, because loading it may have to be repeated (see keyp.do).
func (d *draw) command() []string {
	for {
		if c := d.of(d.list); c[0] != "FUNCTION" {
			return c
		}
	}
}

// fill appends words, with drawn values in place of the placeholders.
func (d *draw) fill(args, words []string) []string {
	counts := -1 // where the number of repetitions is to stand
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch w {
		case "#":
			counts = len(args)
			args = append(args, "")
		case "{", "<", "[":
			end := i + 1
			for !strings.Contains("}>]", words[end]) {
				end++
			}
			n := 1 + d.rng.IntN(5)
			switch w {
			case "<":
				n = 20 + d.rng.IntN(150)
			case "[":
				n = d.rng.IntN(2)
			}
			for range n {
				args = d.fill(args, words[i+1:end])
			}
			if counts >= 0 {
				args[counts], counts = strconv.Itoa(n), -1
			}
			i = end
		default:
			args = append(args, d.word(w))
		}
	}
	return args
}

func (d *draw) word(w string) string {
	rng := d.rng
	if at := strings.IndexByte(w, '%'); at > 0 {
		return w[:at] + d.word(w[at:])
	}
	if len(w) != 2 || w[0] != '%' {
		return w
	}
	switch w[1] {
	case 's', 'h', 'l', 't', 'z':
		if rng.IntN(25) != 0 {
			return d.key(w[1])
		}
		return d.key("shltz"[rng.IntN(5)])
	case 'k':
		return d.key("shltz"[rng.IntN(5)])
	case 'm', 'w', 'y':
		if rng.IntN(25) != 0 {
			return d.key(w[1])
		}
		return d.word("%k")
	case 'v':
		return d.value()
	case 'V':
		return strings.Repeat(d.value()+"|", 1+rng.IntN(400)) + strings.Repeat("x",
			rng.IntN(12<<10))
	case 'f':
		if rng.IntN(300) == 0 {
			return "far" + strings.Repeat("f", 17<<10) // longer than bbolt takes as a key
		}
		if rng.IntN(4) == 0 {
			return d.word("%g")
		}
		return "f" + strconv.Itoa(int(rng.ExpFloat64()*30))
	case 'g':
		return "g" + strconv.Itoa(rng.IntN(250)) + pad
	case 'i':
		return strconv.Itoa(rng.IntN(8))
	case 'j':
		return strconv.Itoa(int(rng.ExpFloat64() * 40))
	case 'o':
		return strconv.Itoa(rng.IntN(2))
	case 'n':
		return strconv.Itoa(int(rng.ExpFloat64() * 20_000))
	case 'x':
		return strconv.FormatFloat(float64(rng.IntN(1000))/8, 'g', -1, 64)
	case 'p':
		return strconv.Itoa(d.ttl())
	case 'q':
		return strconv.Itoa(1 + rng.IntN(20))
	case 'P':
		return strconv.FormatInt(d.now()+int64(d.ttl())-int64(rng.IntN(200)), 10)
	case 'Q':
		return strconv.FormatInt(d.now()/1000+int64(rng.IntN(20)), 10)
	case 'd':
		return strconv.Itoa(rng.IntN(databases))
	case 'b':
		return library(rng.IntN(4), rng.IntN(1000))
	}
	panic(w)
}

// key draws one of a few keys. The longest one is stored on disk under its digest.
func (d *draw) key(kind byte) string {
	switch d.rng.IntN(40) {
	case 0:
		return string(kind) + strings.Repeat("long", 5<<10)
	case 1, 2:
		return string(kind) + "{tag}"
	}
	return string(kind) + strconv.Itoa(d.rng.IntN(4))
}

func (d *draw) ttl() int {
	if d.rng.IntN(12) == 0 {
		return 1_000_000 + d.rng.IntN(1_000_000)
	}
	return 1 + int(d.rng.ExpFloat64()*3000)
}

func (d *draw) value() string {
	switch d.rng.IntN(8) {
	case 0:
		return strconv.Itoa(d.rng.IntN(100000))
	case 1:
		return strings.Repeat("v", d.rng.IntN(400)) + strconv.Itoa(d.rng.IntN(1000))
	case 2:
		return d.word("%f")
	case 3:
		return ""
	}
	return "v" + strconv.Itoa(d.rng.IntN(1000000))
}

// commands draws an operation: a command, a transaction or a script.
func (d *draw) commands() (list [][]string) {
	switch n := d.rng.IntN(100); {
	case n < 80:
		return [][]string{d.of(d.list)}
	case n < 88:
		list = append(list, []string{"MULTI"})
		for range 1 + d.rng.IntN(6) {
			list = append(list, d.command())
		}
		return append(list, []string{"EXEC"})
	case n < 94:
		return [][]string{append([]string{"EVAL", runner, "0"}, d.spelled()...)}
	case n < 98:
		return [][]string{append([]string{"FCALL", "run" + strconv.Itoa(d.rng.IntN(4)), "0"},
			d.spelled()...)}
	case n < 99:
		return [][]string{d.of(rare)}
	}
	// This key is probably in none of the databases.
	return [][]string{{"DEL", "nobody" + strconv.Itoa(d.rng.IntN(100))}}
}

// spelled returns commands as arguments for runner.
func (d *draw) spelled() (args []string) {
	for range 1 + d.rng.IntN(5) {
		c := d.command()
		args = append(append(args, strconv.Itoa(len(c))), c...)
	}
	return args
}
