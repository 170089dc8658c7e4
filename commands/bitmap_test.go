package commands

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestBits(t *testing.T) {
	table(t, `
		GETBIT k 0 -> 0
		EXISTS k -> 0
		SETBIT k 7 1 -> 0
		GET k -> "\x01"
		OBJECT ENCODING k -> "raw"
		events -> setbit:k
		SETBIT k 7 1 -> 1
		events ->
		SETBIT k 7 0 -> 1
		GET k -> "\x00"
		SETBIT k 0 1 -> 0
		GET k -> "\x80"
		SETBIT k 23 0 -> 0
		GET k -> "\x80\x00\x00"
		GETBIT k 0 -> 1
		GETBIT k 23 -> 0
		GETBIT k 24 -> 0
		GETBIT k 4294967295 -> 0
		EXPIRE k 10 -> 1
		SETBIT k 1 1 -> 0
		TTL k -> 10
		reopen
		GET k -> "\xc0\x00\x00"
		TTL k -> 10
		advance 10s
		GETBIT k 0 -> 0
		SETBIT k 1 1 -> 0
		TTL k -> -1
		SET n 12 -> +OK
		GETBIT n 3 -> 1
		SETBIT n 6 1 -> 0
		GET n -> "32"
		OBJECT ENCODING n -> "raw"
		SET n 12 -> +OK
		SETBIT n 3 1 -> 1
		OBJECT ENCODING n -> "raw"

		SETBIT k 4294967296 1 -> -ERR bit offset is not an integer or out of range
		SETBIT k -1 1 -> -ERR bit offset is not an integer or out of range
		SETBIT k x 1 -> -ERR bit offset is not an integer or out of range
		SETBIT k 1 2 -> -ERR bit is not an integer or out of range
		SETBIT k 1 -1 -> -ERR bit is not an integer or out of range
		SETBIT k 1 x -> -ERR bit is not an integer or out of range
		GETBIT k -1 -> -ERR bit offset is not an integer or out of range
		SETBIT k 1 -> -ERR wrong number of arguments for 'setbit' command
		RPUSH list a -> 1
		SETBIT list 1 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		GETBIT list 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
	`)
}

func TestBitCount(t *testing.T) {
	table(t, `
		BITCOUNT none -> 0
		BITCOUNT none x y -> -ERR value is not an integer or out of range
		BITCOUNT none 64 1.5 x -> -ERR value is not an integer or out of range
		BITCOUNT none 64 1 x -> -ERR syntax error
		BITCOUNT none x 1.5 x -> -ERR value is not an integer or out of range
		BITPOS none 1 64 1.5 x -> -ERR syntax error
		BITPOS none 1 64 1.5 bit -> -ERR value is not an integer or out of range
		SET k foobar -> +OK
		BITCOUNT k -> 26
		BITCOUNT k 0 0 -> 4
		BITCOUNT k 1 1 -> 6
		BITCOUNT k 1 1 byte -> 6
		BITCOUNT k 5 30 BIT -> 17
		BITCOUNT k 0 -1 -> 26
		BITCOUNT k -2 -1 -> 7
		BITCOUNT k -100 -100 -> 4
		BITCOUNT k -2 -3 -> 0
		BITCOUNT k -100 -101 -> 0
		BITCOUNT k 6 100 -> 0
		BITCOUNT k 47 47 BIT -> 0
		BITCOUNT k 46 1000 BIT -> 1
		BITCOUNT k 0 -9223372036854775808 -> 4
		SET empty "" -> +OK
		BITCOUNT empty -> 0
		BITCOUNT empty 0 -1 -> 0
		BITCOUNT k 0 -> -ERR syntax error
		BITCOUNT k 0 1 NIBBLE -> -ERR syntax error
		BITCOUNT k 0 1 BIT 2 -> -ERR syntax error
		BITCOUNT k 0 x -> -ERR value is not an integer or out of range
		BITCOUNT k x 0 -> -ERR value is not an integer or out of range
		RPUSH list a -> 1
		BITCOUNT list -> -WRONGTYPE Operation against a key holding the wrong kind of value
	`)
}

func TestBitPos(t *testing.T) {
	table(t, `
		BITPOS none 0 -> 0
		BITPOS none 1 -> -1
		BITPOS none 0 5 9 -> 0
		SET k "\xff\xf0\x00" -> +OK
		BITPOS k 0 -> 12
		BITPOS k 1 -> 0
		BITPOS k 1 2 -> -1
		BITPOS k 0 0 0 -> -1
		BITPOS k 0 1 -> 12
		BITPOS k 0 2 -> 16
		BITPOS k 0 -1 -> 16
		BITPOS k 1 9 11 BIT -> 9
		BITPOS k 0 9 11 BIT -> -1
		BITPOS k 0 9 12 BIT -> 12
		BITPOS k 1 12 -1 BIT -> -1
		BITPOS k 1 3 2 -> -1
		BITPOS k 1 100 -> -1
		SET ones "\xff\xff" -> +OK
		BITPOS ones 0 -> 16
		BITPOS ones 0 0 -> 16
		BITPOS ones 0 0 -1 -> -1
		BITPOS ones 0 2 -> -1
		SET empty "" -> +OK
		BITPOS empty 0 -> -1
		BITPOS empty 1 -> -1
		BITPOS k 2 -> -ERR The bit argument must be 1 or 0.
		BITPOS k x -> -ERR value is not an integer or out of range
		BITPOS k 1 x -> -ERR value is not an integer or out of range
		BITPOS k 1 0 1 x -> -ERR syntax error
		BITPOS k 1 0 1 BIT x -> -ERR syntax error
		RPUSH list a -> 1
		BITPOS list 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
	`)
}

func TestBitOp(t *testing.T) {
	table(t, `
		SET a "\xf0\x0f" -> +OK
		SET b "\x3c" -> +OK
		SET c "\x55\x55\x55" -> +OK
		BITOP AND d a b -> 2
		GET d -> "0\x00"
		OBJECT ENCODING d -> "raw"
		events -> set:a set:b set:c set:d
		BITOP or d a b none -> 2
		GET d -> "\xfc\x0f"
		BITOP XOR d a b c -> 3
		GET d -> "\x99ZU"
		BITOP NOT d a -> 2
		GET d -> "\x0f\xf0"
		BITOP AND d a -> 2
		GET d -> "\xf0\x0f"
		BITOP DIFF d a b c -> 3
		GET d -> "\x80\n\x00"
		BITOP DIFF1 d a b c -> 3
		GET d -> "\rPU"
		BITOP ANDOR d a b c -> 3
		GET d -> "p\x05\x00"
		BITOP ONE d a b c -> 3
		GET d -> "\x89ZU"
		BITOP ONE d a a a -> 2
		GET d -> "\x00\x00"
		BITOP AND a a b -> 2
		GET a -> "0\x00"
		EXPIRE d 10 -> 1
		BITOP OR d a -> 2
		TTL d -> -1
		reopen
		GET d -> "0\x00"
		events -> set:d set:d set:d set:d set:d set:d set:d set:d set:d set:a expire:d set:d
		BITOP NOT d none -> 0
		EXISTS d -> 0
		events -> del:d
		BITOP NOT d none -> 0
		events ->
		BITOP NOT d a b -> -ERR BITOP NOT must be called with a single source key.
		BITOP DIFF d a -> -ERR BITOP DIFF must be called with at least two source keys.
		BITOP diff1 d a -> -ERR BITOP DIFF1 must be called with at least two source keys.
		BITOP ANDOR d a -> -ERR BITOP ANDOR must be called with at least two source keys.
		BITOP NAND d a b -> -ERR syntax error
		RPUSH list a -> 1
		BITOP AND d list -> -WRONGTYPE Operation against a key holding the wrong kind of value
		BITOP AND list a -> 2
		TYPE list -> +string
	`)
}

func TestBitField(t *testing.T) {
	table(t, `
		BITFIELD k -> []
		EXISTS k -> 0
		BITFIELD k GET u8 0 -> [0]
		EXISTS k -> 0
		BITFIELD k SET u8 0 255 GET u8 0 -> [0, 255]
		OBJECT ENCODING k -> "raw"
		events -> setbit:k
		BITFIELD k GET i8 0 GET u4 #1 GET u4 6 -> [-1, 15, 12]
		BITFIELD k INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1 -> [1, 1]
		BITFIELD k INCRBY u2 100 3 -> [0]
		BITFIELD k OVERFLOW SAT INCRBY u2 102 5 INCRBY u2 102 -9 -> [3, 0]
		BITFIELD k OVERFLOW FAIL INCRBY u2 102 5 SET u2 102 4 SET u2 102 3 -> [nil, nil, 0]
		BITFIELD k OVERFLOW FAIL INCRBY u2 102 1 OVERFLOW WRAP INCRBY u2 102 1 -> [nil, 0]
		STRLEN k -> 13
		DEL k -> 1
		BITFIELD k SET i64 0 -1 INCRBY i64 0 -9223372036854775808 -> [0, 9223372036854775807]
		BITFIELD k OVERFLOW SAT INCRBY i64 0 1 OVERFLOW WRAP INCRBY i64 0 1 -> [9223372036854775807, -9223372036854775808]
		BITFIELD k OVERFLOW SAT INCRBY i64 0 -1 -> [-9223372036854775808]
		BITFIELD k SET u63 1 -1 GET u63 1 -> [0, 9223372036854775807]
		BITFIELD k OVERFLOW SAT SET i8 0 200 GET i8 0 SET i8 0 -200 GET i8 0 -> [-1, 127, 127, -128]
		BITFIELD k SET i5 3 200 GET i5 3 -> [0, 8]
		BITFIELD_RO k GET i5 3 GET u1 #400 -> [8, 0]
		reopen
		BITFIELD_RO k GET i5 3 GET u1 #400 -> [8, 0]
		events -> setbit:k setbit:k setbit:k setbit:k setbit:k del:k setbit:k setbit:k setbit:k setbit:k setbit:k
		BITFIELD k SET i5 3 8 -> [8]
		events ->
		BITFIELD new OVERFLOW FAIL SET u1 15 2 -> [nil]
		STRLEN new -> 2

		BITFIELD_RO k GET i5 3 SET i5 3 1 -> -ERR BITFIELD_RO only supports the GET subcommand
		BITFIELD k GET u64 0 -> -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
		BITFIELD k GET i65 0 -> -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
		BITFIELD k GET I8 0 -> -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
		BITFIELD k GET i0 0 -> -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
		BITFIELD k GET "" 0 -> -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
		BITFIELD k GET i8 -1 -> -ERR bit offset is not an integer or out of range
		BITFIELD k GET i8 #-1 -> -ERR bit offset is not an integer or out of range
		BITFIELD k GET i8 4294967296 -> -ERR bit offset is not an integer or out of range
		BITFIELD k GET i8 #9223372036854775807 -> -ERR bit offset is not an integer or out of range
		BITFIELD k SET i8 0 x -> -ERR value is not an integer or out of range
		BITFIELD k OVERFLOW x -> -ERR Invalid OVERFLOW type specified
		BITFIELD k GET i8 -> -ERR syntax error
		BITFIELD k SET i8 0 -> -ERR syntax error
		BITFIELD k NOP -> -ERR syntax error
		RPUSH list a -> 1
		BITFIELD list -> -WRONGTYPE Operation against a key holding the wrong kind of value
		BITFIELD list GET i8 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		BITFIELD list SET i8 0 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
	`)
}

// TestBitsAgainstBig: a bitmap is a large number whose bits are counted from the other end. All
// commands are compared with math/big, on strings shorter and longer than the server's internal
// units.
func TestBitsAgainstBig(t *testing.T) {
	h := newHarness(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for round, size := range []int{1, 7, 8, 9, 63, 64, 65, 500, 5000, 40_000} {
		key := fmt.Sprint("k", round)
		total := size * 8
		bit := func(n *big.Int, i int) uint { return n.Bit(total - 1 - i) }
		n := new(big.Int)
		h.do("SETRANGE", key, fmt.Sprint(size-1), "\x00")
		for range 60 {
			off := rng.IntN(total)
			switch rng.IntN(4) {
			case 0:
				v := uint(rng.IntN(2))
				h.run(fmt.Sprintf(`SETBIT %s %d %d -> %d`, key, off, v, bit(n, off)))
				n.SetBit(n, total-1-off, v)
			case 1:
				width := 1 + rng.IntN(min(63, total-off))
				v, old := rng.Uint64()>>(64-width), uint64(0)
				for i := range width {
					old = old<<1 | uint64(bit(n, off+i))
					n.SetBit(n, total-1-off-i, uint(v>>(width-1-i)&1))
				}
				h.run(fmt.Sprintf(`BITFIELD %s SET u%d %d %d GET u%d %d -> [%d, %d]`, key, width,
					off, v, width, off, old, v))
			default:
				end := off + rng.IntN(total-off)
				count, first := 0, [2]int{-1, -1}
				for i := off; i <= end; i++ {
					count += int(bit(n, i))
					if first[bit(n, i)] < 0 {
						first[bit(n, i)] = i
					}
				}
				h.run(fmt.Sprintf(`BITCOUNT %s %d %d BIT -> %d`, key, off, end, count))
				h.run(fmt.Sprintf(`BITPOS %s 0 %d %d BIT -> %d`, key, off, end, first[0]))
				h.run(fmt.Sprintf(`BITPOS %s 1 %d %d BIT -> %d`, key, off, end, first[1]))
			}
		}
		value := string(n.FillBytes(make([]byte, size)))
		h.reopen()
		if got := string(h.raw([]byte("GET"), []byte(key))); !strings.Contains(got,
			"\r\n"+value+"\r\n") {
			t.Fatalf("%d bytes: the value differs", size)
		}
	}
}

// TestBitOpLong compares the operations on long strings of different lengths with the same
// operations on each byte.
func TestBitOpLong(t *testing.T) {
	h := newHarness(t)
	rng := rand.New(rand.NewPCG(3, 4))
	operations := map[string]func(bytes []byte) byte{
		"AND":   func(b []byte) byte { return b[0] & b[1] & b[2] },
		"OR":    func(b []byte) byte { return b[0] | b[1] | b[2] },
		"XOR":   func(b []byte) byte { return b[0] ^ b[1] ^ b[2] },
		"DIFF":  func(b []byte) byte { return b[0] &^ (b[1] | b[2]) },
		"DIFF1": func(b []byte) byte { return (b[1] | b[2]) &^ b[0] },
		"ANDOR": func(b []byte) byte { return b[0] & (b[1] | b[2]) },
		"ONE":   func(b []byte) byte { return (b[0] ^ b[1] ^ b[2]) &^ (b[0] & b[1] & b[2]) },
	}
	for _, sizes := range [][3]int{{5000, 4096, 4097}, {1, 0, 9000}, {300_000, 20, 299_999}} {
		var sources [3][]byte
		for i, n := range sizes {
			sources[i] = make([]byte, n)
			for j := range sources[i] {
				sources[i][j] = byte(rng.Uint32())
			}
			h.do("SET", fmt.Sprint("s", i), string(sources[i]))
		}
		for name, op := range operations {
			want := make([]byte, max(sizes[0], sizes[1], sizes[2]))
			for j := range want {
				var b [3]byte
				for i, s := range sources {
					if j < len(s) {
						b[i] = s[j]
					}
				}
				want[j] = op(b[:])
			}
			h.run(fmt.Sprintf(`BITOP %s d s0 s1 s2 -> %d`, name, len(want)))
			if got := string(h.raw([]byte("GET"), []byte("d"))); !strings.Contains(got,
				"\r\n"+string(want)+"\r\n") {
				t.Errorf("%s of %v differs", name, sizes)
			}
		}
	}
}
