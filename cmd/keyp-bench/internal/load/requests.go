package load

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"keyp/cmd/keyp-bench/internal/wire"
)

// Keys, as text: a prefix and twelve digits. Each family of requests has its own
// prefix, so that no INCR meets a value of SET.
const (
	KeyPrefix     = "key:"
	CounterPrefix = "ctr:"
	TTLPrefix     = "ttl:"
	keyDigits     = 12
)

// preloadKeys is how many keys one MSET of Preload carries.
const preloadKeys = 50

// Data is a range of numbered keys and the value that belongs to each: Size
// bytes that follow from the number, so that every reply to a GET can be checked
// against nothing but its key. It is read-only and shared by threads.
type Data struct {
	Keys uint64
	Size int
	pool []byte
}

// poolStarts is the number of different values; a prime, so that neighbouring
// and round-numbered keys differ.
const poolStarts = 65521

// NewData returns keys 0 to keys-1 with values of size bytes, the same in every
// process.
func NewData(keys uint64, size int) *Data {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	rng := rand.New(rand.NewPCG(1, 2))
	pool := make([]byte, poolStarts+size)
	for i := range pool {
		pool[i] = letters[rng.IntN(len(letters))]
	}
	return &Data{Keys: keys, Size: size, pool: pool}
}

// Value is the value of a key.
func (d *Data) Value(key uint64) []byte {
	at := key * 31 % poolStarts
	return d.pool[at : at+uint64(d.Size)]
}

// Key is a key's text.
func Key(prefix string, key uint64) string {
	return fmt.Sprintf("%s%0*d", prefix, keyDigits, key)
}

// appendKey appends a key as an argument. The prefixes are four bytes long.
func appendKey(b []byte, prefix string, key uint64) []byte {
	b = append(b, "$16\r\n"...)
	b = append(b, prefix...)
	b = append(b, "000000000000\r\n"...)
	for i := len(b) - 3; key > 0; i-- {
		b[i] = byte('0' + key%10)
		key /= 10
	}
	return b
}

// source is a Source of two functions.
type source struct {
	next  func(b []byte) ([]byte, uint64)
	check func(reply wire.Reply, token uint64) error
}

func (s source) Next(b []byte) ([]byte, uint64)             { return s.next(b) }
func (s source) Check(reply wire.Reply, token uint64) error { return s.check(reply, token) }

// threadRand gives each thread random numbers of its own that are the same in
// every run, so that two servers get the same load.
func threadRand(thread int) *rand.Rand { return rand.New(rand.NewPCG(uint64(thread), 3)) }

// errReply says what came instead of what was wanted.
func errReply(command string, token uint64, reply wire.Reply, wanted string) error {
	if reply.Kind == wire.Error {
		return errors.New(string(reply.Text))
	}
	return fmt.Errorf("%s of key %d answered with %v, not %s", command, token, reply, wanted)
}

func wantOK(command string) func(wire.Reply, uint64) error {
	return func(reply wire.Reply, token uint64) error {
		if reply.Kind == wire.Simple && string(reply.Text) == "OK" {
			return nil
		}
		return errReply(command, token, reply, "+OK")
	}
}

// wantValue accepts the value of the key and nothing else, also no null.
func wantValue(d *Data) func(wire.Reply, uint64) error {
	return func(reply wire.Reply, key uint64) error {
		if reply.Kind == wire.Bulk && !reply.Null && bytes.Equal(reply.Text, d.Value(key)) {
			return nil
		}
		return errReply("GET", key, reply, "the key's value")
	}
}

func appendSet(b []byte, d *Data, prefix string, key uint64, more int) []byte {
	b = wire.AppendArray(b, 3+more)
	b = append(b, "$3\r\nSET\r\n"...)
	b = appendKey(b, prefix, key)
	return wire.AppendArg(b, d.Value(key))
}

func appendGet(b []byte, prefix string, key uint64) []byte {
	b = append(b, "*2\r\n$3\r\nGET\r\n"...)
	return appendKey(b, prefix, key)
}

// Set writes random keys.
func Set(d *Data) func(int) Source {
	return func(thread int) Source {
		rng := threadRand(thread)
		return source{func(b []byte) ([]byte, uint64) {
			key := rng.Uint64N(d.Keys)
			return appendSet(b, d, KeyPrefix, key, 0), key
		}, wantOK("SET")}
	}
}

// SetEX writes random keys that live between an hour and a day.
func SetEX(d *Data) func(int) Source {
	return func(thread int) Source {
		rng := threadRand(thread)
		return source{func(b []byte) ([]byte, uint64) {
			key := rng.Uint64N(d.Keys)
			b = appendSet(b, d, KeyPrefix, key, 2)
			b = append(b, "$2\r\nEX\r\n"...)
			return wire.AppendInt(b, 3600+rng.Int64N(23*3600)), key
		}, wantOK("SET EX")}
	}
}

// Get reads random keys, which must all be there: see Preload.
func Get(d *Data) func(int) Source { return get(d, KeyPrefix) }

// GetTTL reads random keys of the TTL family, which must all be there: see SetPXAT.
func GetTTL(d *Data) func(int) Source { return get(d, TTLPrefix) }

func get(d *Data, prefix string) func(int) Source {
	return func(thread int) Source {
		rng := threadRand(thread)
		return source{func(b []byte) ([]byte, uint64) {
			key := rng.Uint64N(d.Keys)
			return appendGet(b, prefix, key), key
		}, wantValue(d)}
	}
}

// Incr counts random counters up.
func Incr(d *Data) func(int) Source {
	return func(thread int) Source {
		rng := threadRand(thread)
		return source{func(b []byte) ([]byte, uint64) {
			key := rng.Uint64N(d.Keys)
			b = append(b, "*2\r\n$4\r\nINCR\r\n"...)
			return appendKey(b, CounterPrefix, key), key
		}, func(reply wire.Reply, key uint64) error {
			if reply.Kind == wire.Integer && reply.Int > 0 {
				return nil
			}
			return errReply("INCR", key, reply, "a positive number")
		}}
	}
}

// Preload writes every key once, many to a request, and takes PreloadRequests
// requests.
func Preload(d *Data) func(int) Source {
	var next atomic.Uint64
	return func(int) Source {
		return source{func(b []byte) ([]byte, uint64) {
			first := next.Add(preloadKeys) - preloadKeys
			end := min(first+preloadKeys, d.Keys)
			b = wire.AppendArray(b, 1+2*int(end-first))
			b = append(b, "$4\r\nMSET\r\n"...)
			for key := first; key < end; key++ {
				b = appendKey(b, KeyPrefix, key)
				b = wire.AppendArg(b, d.Value(key))
			}
			return b, first
		}, wantOK("MSET")}
	}
}

// PreloadRequests is the number of requests after which Preload is done.
func PreloadRequests(d *Data) int64 { return int64((d.Keys + preloadKeys - 1) / preloadKeys) }

// Deadlines gives keys deadlines from From to From+Over, in Unix milliseconds, evenly and in
// an order of their own.
type Deadlines struct {
	Keys       uint64
	From, Over int64
}

// At is a key's deadline.
func (d Deadlines) At(key uint64) int64 {
	const stride = 999_999_937 // prime: keys that are written one after the other are far apart
	return d.From + int64(key*stride%d.Keys*uint64(d.Over)/d.Keys)
}

// SetPXAT writes every key of the TTL family once, with its deadline. It takes d.Keys
// requests.
func SetPXAT(d *Data, deadlines Deadlines) func(int) Source { return setAll(d, "PXAT", deadlines.At) }

// SetPX writes every key of the TTL family once, with a life in milliseconds. It takes
// d.Keys requests.
func SetPX(d *Data, life int64) func(int) Source {
	return setAll(d, "PX", func(uint64) int64 { return life })
}

func setAll(d *Data, option string, ms func(key uint64) int64) func(int) Source {
	var next atomic.Uint64
	return func(int) Source {
		return source{func(b []byte) ([]byte, uint64) {
			key := next.Add(1) - 1
			b = appendSet(b, d, TTLPrefix, key, 2)
			b = wire.AppendArg(b, option)
			return wire.AppendInt(b, ms(key)), key
		}, wantOK("SET " + option)}
	}
}
