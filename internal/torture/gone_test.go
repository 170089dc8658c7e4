package torture

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/vfs"
	"keyp/storage"
)

// dueKeys are commands that create keys of each type. Some of these keys expire 5 s after the
// test's clock starts, and others have elements that expire then. A command after "1:" runs in
// database 1.
var dueKeys = []string{
	"SET kept v", "SET s v PX 5000", "SET n 7 PX 5000",
	"HSET h f v", "PEXPIRE h 5000", "HSET hf f 1 g v", "HPEXPIRE hf 5000 FIELDS 1 f", "HSET hh f v",
	"HPEXPIRE hh 5000 FIELDS 1 f",
	"SADD t m", "PEXPIRE t 5000", "SADD tm m o", "EXPIREMEMBER tm m 5000 ms", "SADD tt m",
	"EXPIREMEMBER tt m 5000 ms",
	"ZADD z 1 m", "PEXPIRE z 5000", "ZADD zm 1 m 2 o", "EXPIREMEMBER zm m 5000 ms", "ZADD zz 1 m",
	"EXPIREMEMBER zz m 5000 ms",
	"RPUSH l 1 2", "PEXPIRE l 5000", "RPUSH by s n kept", "PFADD p a", "PEXPIRE p 5000",
	"XADD x 1-1 f v", "XGROUP CREATE x g 0", "XREADGROUP GROUP g c STREAMS x >", "PEXPIRE x 5000",
	"XADD xa 1700000000000-1 f v", "XADD xa 18446744073709551615-1 f v", "XCFGSET xa MAXAGE 5000",
	"KEYP.LEASE ACQUIRE lease o 3000 DELAY 2000", "KEYP.LEASE ACQUIRE held o 5000",
	"KEYP.LIMIT TAKE lim 1 WINDOW 10 5000", "KEYP.LIMIT TAKE limh 1 WINDOW 10 90000",
	"KEYP.LIMIT TAKE limh 2 WINDOW 10 90000 RESERVE r 5000", "PERSIST limh",
	"KEYP.DELAY ADD q a 0 job", "PEXPIRE q 5000",
	"1:SET s v PX 5000", "1:HSET hh f v", "1:HPEXPIRE hh 5000 FIELDS 1 f",
}

// looks are commands whose replies show that something is gone. They are all commands that read
// keys, and some that change existing keys. None of them changes a missing key.
var looks = []string{
	"GET s", "MGET s n kept", "STRLEN s", "GETRANGE s 0 -1", "SUBSTR s 0 -1", "LCS s s", "DIGEST s",
	"GETBIT s 1", "BITCOUNT s", "BITPOS s 1", "BITFIELD_RO s GET u8 0", "PFCOUNT p",
	"XLEN x", "XRANGE x - +", "XREVRANGE x + -", "XREAD STREAMS x 0", "XPENDING x g",
	"XINFO STREAM x", "XINFO GROUPS x", "XINFO CONSUMERS x g",
	"XADD x NOMKSTREAM * f v", "XACK x g 1-1",
	"XLEN xa", "XRANGE xa - +", "XREVRANGE xa + -", "XREAD STREAMS xa 0", "XINFO STREAM xa",
	"XDEL xa 1700000000000-1", "XTRIM xa MAXLEN 1",
	"LLEN l", "LINDEX l 0", "LPOS l 1", "LRANGE l 0 -1",
	"ZCARD zm", "ZSCORE z m", "ZMSCORE zm m o", "ZCOUNT zm -inf +inf", "ZLEXCOUNT zm - +",
	"ZRANK zm o", "ZREVRANK zm m",
	"ZRANGE zm 0 -1", "ZREVRANGE zm 0 -1", "ZRANGEBYSCORE zm 0 9", "ZREVRANGEBYSCORE zm 9 0",
	"ZRANGEBYLEX zm - +", "ZREVRANGEBYLEX zm + -",
	"GEOPOS zm m", "GEOHASH zm m", "GEODIST zm m o",
	"GEOSEARCH zm FROMLONLAT -180 -85 BYRADIUS 99 km", "GEORADIUS_RO zm -180 -85 99 km",
	"GEORADIUSBYMEMBER_RO zm m 99 km", "ZRANDMEMBER zz 9", "ZSCAN zm 0", "ZUNION 2 zm z",
	"ZINTER 1 zm", "ZDIFF 1 zm", "ZINTERCARD 1 zm",
	"HGET hf f", "HMGET hf f g", "HGETALL hf", "HKEYS hf", "HVALS hf", "HLEN hf", "HSTRLEN hf f",
	"HEXISTS hf f", "HSCAN hf 0", "HRANDFIELD hf 9",
	"HTTL hf FIELDS 1 f", "HPTTL hf FIELDS 1 f", "HEXPIRETIME hf FIELDS 1 f",
	"HPEXPIRETIME hf FIELDS 1 f",
	"SISMEMBER tm m", "SMISMEMBER tm m o", "SCARD tm", "SMEMBERS tm", "SSCAN tm 0",
	"SRANDMEMBER tm 9", "SINTER tm", "SINTERCARD 1 tm", "SUNION tm t", "SDIFF tm",
	"SUNIONCARD 2 tm t", "SDIFFCARD 1 tm",
	"EXISTS s h t z l hh tt zz", "TYPE hh", "TOUCH tt", "OBJECT ENCODING zz", "OBJECT REFCOUNT hh",
	"OBJECT FREQ s", "OBJECT IDLETIME s", "DUMP hf", "MEMORY USAGE s",
	"TTL s", "PTTL h", "EXPIRETIME z", "PEXPIRETIME t", "SORT_RO by BY nosort GET *",
	"EVAL_RO return{redis.call(unpack(ARGV))} 0 KEYS *",
	"KEYS *", "KEYS s*", "SCAN 0 COUNT 1000", "SCAN 0 COUNT 1000 TYPE hash", "1:KEYS *",
	"1:SCAN 0", "1:RANDOMKEY",
	"KEYP.UNTIMED", "KEYP.UNTIMED COUNT 1000 TYPE hash", "1:KEYP.UNTIMED COUNT 1000",
	"KEYP.EXPIRING - +", "KEYP.EXPIRING 1700000005000 1700000006000 COUNT 1", "1:KEYP.EXPIRING - +",
	"KEYP.EXPIRING - + ELEMENTS hf",
	"KEYP.EXPIRING 1700000005000 1700000006000 ELEMENTS tm COUNT 1",
	"KEYP.LIMIT PEEK s 1 WINDOW 10 1000", "KEYP.LIMIT HELD s", "KEYP.LIMIT INFO s",
	"KEYP.LIMIT PEEK lim 1 WINDOW 10 1000000", "KEYP.LIMIT HELD limh",
	"KEYP.LIMIT RETURN limh r", "KEYP.LIMIT CONFIRM limh r", "KEYP.LIMIT RESET lim",
	"KEYP.TIMELINE 1700000004000 1700000006000 4",
	"KEYP.TIMELINE 1700000004000 1700000006000 2 MATCH h*", "1:KEYP.TIMELINE 1700000004000 + 1",
	"KEYP.LEASE INFO lease", "KEYP.LEASE CHECK held 1700000000000002",
	"KEYP.LEASE RELEASE held 1700000000000002",
	"KEYP.DELAY LEN q", "KEYP.DELAY INFO q", "KEYP.DELAY RANGE q - +", "KEYP.DELAY POP q NOACK",
	"KEYP.DELAY CANCEL q a", "KEYP.DELAY RESCHEDULE q a +5",
	"SORT by BY nosort GET *", "SET s v XX", "DEL s h", "PERSIST z", "RENAMENX s new", "COPY l new",
	"GETEX s", "HGETEX hf FIELDS 1 f", "SMOVE tm t m", "LMOVE l new LEFT LEFT", "ZREM zm m",
	"1:DBSIZE", "INFO keyspace", "MEMORY STATS",
}

// unlooked are commands that read no keys, or read them only through commands in looks.
var unlooked = []string{"keyp.policy test", "evalsha_ro", "fcall_ro", "lolwut"}

// counts are commands that count an expired key until it is removed.
var counts = []string{"1:DBSIZE", "INFO keyspace", "MEMORY STATS"}

// TestLooksAreAll: TestGoneStaysGone covers every command that reads keys.
func TestLooksAreAll(t *testing.T) {
	tried := slices.Clone(unlooked)
	for _, line := range looks {
		words := strings.Split(strings.ToLower(strings.TrimPrefix(line, "1:")), " ")
		tried = append(tried, words[0], words[0]+" "+words[min(1, len(words)-1)])
	}
	for _, spec := range commands.NewTable().All() {
		for _, sub := range append([]commands.Spec{*spec}, spec.Sub...) {
			name := strings.ToLower(sub.Name)
			if sub.Name != spec.Name {
				name = strings.ToLower(spec.Name) + " " + name
			}
			if sub.Is(commands.ReadOnly) && !slices.Contains(tried, name) {
				t.Errorf("%s reads keys: add it to looks", name)
			}
		}
	}
}

// TestGoneStaysGone: a key that a reply has shown as gone stays gone after two crashes and a stop.
// Meanwhile the machine's clock is set back.
func TestGoneStaysGone(t *testing.T) {
	for i, line := range looks {
		for j, way := range []string{"alone", "in EXEC", "in a script"} {
			if way == "in a script" && (strings.HasPrefix(line, "EVAL") ||
				strings.HasPrefix(line, "INFO")) ||
				way == "in EXEC" && strings.HasPrefix(line, "EVAL") ||
				testing.Short() && (i+j)%3 != 0 {
				continue
			}
			t.Run(line+" "+way, func(t *testing.T) {
				seed := uint64(3*i + j)
				before := newGoneRun(t, seed, false)
				there := before.look(line, way)
				before.end()

				r := newGoneRun(t, seed, (i+j)%2 == 0)
				r.clock.Advance(6 * time.Second)
				if slices.Contains(counts, line) {
					r.k.store.Reap()
				}
				gone := r.look(line, way)
				if slices.Equal(gone, there) {
					t.Fatalf("the reply does not show that anything has expired: %q", gone)
				}
				if r.crash(1000); i%2 == 0 {
					r.crash(1000) // again, before what was removed is durable
				}
				r.expect(line, way, gone)
				r.stop(j == 0)
				r.expect(line, way, gone)
				r.end()
			})
		}
	}
}

// goneRun is a Keyp on a machine whose power fails and whose clock is set back.
type goneRun struct {
	t      *testing.T
	rng    *rand.Rand
	dir    string
	fs     *vfs.Mem
	clock  *clock.Fake
	k      *keyp
	starts uint64
}

func newGoneRun(t *testing.T, seed uint64, stored bool) *goneRun {
	dir := testkit.MemoryDir(t)
	r := &goneRun{t: t, rng: rand.New(rand.NewPCG(seed, 0)), dir: dir, fs: vfs.NewMem(),
		clock: clock.NewFake(epoch)}
	r.start()
	for _, line := range dueKeys {
		if reply := r.do(line); reply[0] == '-' {
			t.Fatalf("%s: %s", line, reply)
		}
	}
	if stored {
		r.must(r.k.store.Checkpoint())
		r.k.store.Manual().Evict(1)
	}
	r.must(r.k.store.Log().Commit())
	return r
}

func (r *goneRun) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *goneRun) start() {
	r.t.Helper()
	r.starts++
	numbers := rand.New(rand.NewPCG(r.starts, 0))
	k, err := open(storage.Options{FS: r.fs, Dir: r.dir, SegmentSize: 64 << 10,
		CheckpointBytes: 256 << 10, Random: numbers.Uint64}, r.clock)
	r.must(err)
	r.k = k
	r.k.store.Manual().AwaitClock()
}

// do runs a command and makes only the part of the log durable that its reply depends on.
func (r *goneRun) do(line string) []byte {
	line, other := strings.CutPrefix(line, "1:")
	r.k.client.DB = 0
	if other {
		r.k.client.DB = 1
	}
	reply, lsn := r.k.do(bytes.Split([]byte(line), []byte(" ")))
	if log := r.k.store.Log(); lsn > log.Durable() {
		r.must(log.Commit())
	}
	return reply
}

// look runs a command in one of the ways, and returns the lines of its reply, sorted.
func (r *goneRun) look(line, way string) []string {
	var reply []byte
	prefix := line[:strings.Index(line, ":")+1]
	switch way {
	case "in EXEC":
		for _, l := range []string{"MULTI", strings.TrimPrefix(line, prefix), "EXEC"} {
			reply = r.do(prefix + l)
		}
	case "in a script":
		reply = r.do(prefix + "EVAL return{redis.call(unpack(ARGV))} 0 " +
			strings.TrimPrefix(line, prefix))
	default:
		reply = r.do(line)
	}
	if _, stats, ok := strings.Cut(string(reply), "keys.count\r\n"); ok {
		// The rest is about memory.
		reply = []byte(stats[:strings.Index(stats, "\r\n")])
	}
	return sorted(reply)
}

func (r *goneRun) expect(line, way string, want []string) {
	r.t.Helper()
	if got := r.look(line, way); !slices.Equal(got, want) {
		r.t.Fatalf("after start %d the reply is\n%q\nand was\n%q", r.starts, got, want)
	}
	r.must(r.k.store.Check())
}

// crash makes the power fail, and restarts the machine with its clock at a time after the epoch.
func (r *goneRun) crash(at int64) {
	crashed := r.fs.Crash(r.rng)
	_ = r.k.store.Close(false) // what it writes now is lost
	r.fs = crashed
	r.clock.Set(epoch + at)
	r.start()
}

// stop stops the Keyp, with or without a checkpoint, and starts it again.
func (r *goneRun) stop(save bool) {
	r.must(r.k.store.Close(save))
	r.start()
}

func (r *goneRun) end() { r.must(r.k.store.Close(false)) }
