package rdb

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
)

// update tells the tests to rewrite dumpFile from the installed server.
var update = flag.Bool("update", false, "rewrite testdata from a real redis-server")

// realRedis is a server with sanitize-dump-payload yes, so that RESTORE checks whole payloads.
type realRedis struct {
	t      testing.TB
	client *redis.Client
}

func startRedis(t testing.TB) realRedis {
	server := testkit.Redis(t, "--sanitize-dump-payload", "yes")
	return realRedis{t, server.Client(2)}
}

func (r realRedis) try(args ...any) (any, error) {
	return r.client.Do(context.Background(), args...).Result()
}

func (r realRedis) do(args ...any) any {
	r.t.Helper()
	reply, err := r.try(args...)
	if err != nil {
		r.t.Fatalf("%.100v: %v", args, err)
	}
	return reply
}

// store builds a value with the commands of its type.
func (r realRedis) store(key string, v Value) {
	r.t.Helper()
	r.do("DEL", key)
	if v.Type == String {
		r.do("SET", key, v.Str)
		return
	}
	if v.Type == Stream {
		r.storeStream(key, v.Stream)
		return
	}
	add := map[Type]string{List: "RPUSH", Set: "SADD", ZSet: "ZADD", Hash: "HSET"}[v.Type]
	args := []any{add, key}
	for e := range v.Elements {
		switch v.Type {
		case ZSet:
			args = append(args, e.Score, bytes.Clone(e.Name))
		case Hash:
			args = append(args, bytes.Clone(e.Name), bytes.Clone(e.Value))
		default:
			args = append(args, bytes.Clone(e.Name))
		}
	}
	r.do(args...)
}

// fetch reads a value with the commands of its type.
func (r realRedis) fetch(key string) Value {
	r.t.Helper()
	texts := func(args ...any) (all []string) {
		for _, text := range r.do(args...).([]any) {
			all = append(all, text.(string))
		}
		return all
	}
	var elements []Element
	switch kind := r.do("TYPE", key); kind {
	case "string":
		return str(r.do("GET", key).(string))
	case "list":
		return collection(List, names(texts("LRANGE", key, 0, -1)...)...)
	case "set":
		return collection(Set, names(texts("SMEMBERS", key)...)...)
	case "zset":
		all := texts("ZRANGE", key, 0, -1, "WITHSCORES")
		for i := 0; i < len(all); i += 2 {
			score, err := strconv.ParseFloat(all[i+1], 64)
			if err != nil {
				r.t.Fatal(err)
			}
			elements = append(elements, scored(score, all[i]))
		}
		return collection(ZSet, elements...)
	case "hash":
		all := texts("HGETALL", key)
		for i := 0; i < len(all); i += 2 {
			elements = append(elements, field(all[i], all[i+1]))
		}
		return collection(Hash, elements...)
	case "stream":
		return r.fetchStream(key)
	default:
		r.t.Fatalf("%s has type %v", key, kind)
		return Value{}
	}
}

// TestRedisDumps: Decode reads a payload of Redis's DUMP, and Encode writes it unchanged.
func TestRedisDumps(t *testing.T) {
	r := startRedis(t)
	var file []byte
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			r.t = t
			r.store("k", s.value)
			dump := []byte(r.do("DUMP", "k").(string))
			if len(dump) < 1000 {
				file = fmt.Appendf(file, "%x %x\n", s.name, dump)
			}
			v, err := Decode(dump)
			if err != nil {
				t.Fatalf("Decode: %v, %.200x", err, dump)
			}
			same(t, v, s.value)
			if again := Encode(v); !bytes.Equal(again, dump) {
				t.Errorf("Encode gives %d bytes\n%.300x\nRedis %d\n%.300x", len(again), again,
					len(dump), dump)
			}
		})
	}
	if *update {
		if err := os.WriteFile(dumpFile, file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// dumpFile has a line for each small value of samples: its name and the output of DUMP in Redis
// 7.0.15, both in hex.
var dumpFile = filepath.Join("..", "..", "testdata", "payloads", "redis-7.0.15.txt")

// TestRedisRestores: Redis restores the payloads that Encode writes, with the encoding that Redis
// would choose.
func TestRedisRestores(t *testing.T) {
	r := startRedis(t)
	values := append(samples(),
		sample{"zset/fractions", collection(ZSet, scored(-1e300, "a"), scored(-2.5, "b"),
			scored(math.Copysign(0, -1), "b0"), scored(0.1, "c"), scored(1e-7, "d"),
			scored(1e17, "e"), scored(1.7976931348623157e308, "f"))},
	)
	for _, s := range values {
		t.Run(s.name, func(t *testing.T) {
			r.t = t
			r.store("native", s.value)
			r.do("RESTORE", "k", 0, Encode(s.value), "REPLACE")
			same(t, r.fetch("k"), s.value)
			if got, want := r.do("OBJECT", "ENCODING", "k"),
				r.do("OBJECT", "ENCODING", "native"); got != want {
				t.Errorf("encoding %v, a native one has %v", got, want)
			}
		})
	}
}

// TestRedisAgrees: Redis accepts and refuses the same payloads of the tables as Decode, except
// types newer than 7.0.
func TestRedisAgrees(t *testing.T) {
	r := startRedis(t)
	for _, tt := range payloads() {
		if tt.newer || tt.stricter {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			_, err := r.try("RESTORE", "k", 0, tt.payload(), "REPLACE")
			switch {
			case tt.want != nil && err != nil:
				t.Fatalf("Redis does not restore it: %v", err)
			case tt.want != nil:
				same(t, r.fetch("k"), *tt.want)
			case err == nil:
				t.Fatalf("Redis restores it: %q", flat(r.fetch("k")))
			}
		})
	}
}

// TestRedisAgreesOnDamage: if Decode accepts a damaged payload, Redis restores it too, to the same
// value.
func TestRedisAgreesOnDamage(t *testing.T) {
	r := startRedis(t)
	random := rand.New(rand.NewPCG(7, 15))
	var bodies [][]byte
	for _, tt := range payloads() {
		if tt.want != nil && !tt.newer {
			bodies = append(bodies, tt.body)
		}
	}
	for _, s := range samples() {
		if p := Encode(s.value); len(p) < 300 && !strings.HasPrefix(s.name, "string/") {
			bodies = append(bodies, p[:len(p)-trailerBytes])
		}
	}
	accepted, refused, stricter := 0, 0, 0
	for range 20000 {
		body := damage(random, bytes.Clone(bodies[random.IntN(len(bodies))]))
		if len(body) > 0 && (body[0] == kindSetListpack || body[0] > kindStream3) {
			continue // newer than 7.0
		}
		payload := seal(body, version7_0)
		v, err := Decode(payload)
		_, theirs := r.try("RESTORE", "k", 0, payload, "REPLACE")
		switch {
		case err == nil && theirs != nil:
			t.Fatalf("%x is %.500q, Redis says %v", body, flat(v), theirs)
		case err == nil:
			accepted++
			same(t, v, r.fetch("k"))
		case theirs == nil:
			stricter++
		default:
			refused++
		}
	}
	t.Logf("both accept %d and refuse %d, only Redis accepts %d", accepted, refused, stricter)
	if accepted < 1000 || refused < 1000 {
		t.Error("hardly anything was compared")
	}
}

// damage changes some bytes.
func damage(random *rand.Rand, b []byte) []byte {
	for range 1 + random.IntN(3) {
		if len(b) == 0 {
			break
		}
		i := random.IntN(len(b))
		switch random.IntN(6) {
		case 0:
			b[i] ^= 1 << random.IntN(8)
		case 1:
			b[i] = byte(random.UintN(256))
		case 2:
			b[i]++
		case 3:
			b[i]--
		case 4:
			b = append(b[:i], b[i+1:]...)
		case 5:
			b = append(b[:i+1], b[i:]...)
		}
	}
	return b
}
