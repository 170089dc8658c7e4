package resp

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/redcon"
	"pgregory.net/rapid"
)

// written runs f on a Writer of the given protocol and returns the bytes.
func written(proto int, f func(w *Writer)) string {
	w := &Writer{Proto: proto}
	f(w)
	return string(w.Buf)
}

func TestWriter(t *testing.T) {
	tests := []struct {
		name  string
		write func(w *Writer)
		resp2 string
		resp3 string // "" when the same
	}{
		{"ok", func(w *Writer) { w.OK() }, "+OK\r\n", ""},
		{"simple", func(w *Writer) { w.Simple("QUEUED") }, "+QUEUED\r\n", ""},
		{"simple with line ends", func(w *Writer) { w.Simple("a\r\nb") }, "+a  b\r\n", ""},
		{"error", func(w *Writer) { w.Error("ERR syntax error") }, "-ERR syntax error\r\n", ""},
		{"error with line ends", func(w *Writer) { w.Error("ERR bad 'x\r\n+OK\r\n'\r\n") },
			"-ERR bad 'x  +OK  '\r\n", ""},
		{"int", func(w *Writer) { w.Int(-2) }, ":-2\r\n", ""},
		{"largest int", func(w *Writer) { w.Int(math.MaxInt64) }, ":9223372036854775807\r\n", ""},
		{"smallest int", func(w *Writer) { w.Int(math.MinInt64) }, ":-9223372036854775808\r\n", ""},
		{"bulk", func(w *Writer) { w.Bulk([]byte("a\r\nb\x00")) }, "$5\r\na\r\nb\x00\r\n", ""},
		{"empty bulk", func(w *Writer) { w.Bulk(nil) }, "$0\r\n\r\n", ""},
		{"bulk string", func(w *Writer) { w.BulkString("0123456789") }, "$10\r\n0123456789\r\n",
			""},
		{"bulk int", func(w *Writer) {
			w.BulkInt(math.MinInt64)
		}, "$20\r\n-9223372036854775808\r\n", ""},
		{"bulk uint", func(w *Writer) {
			w.BulkUint(math.MaxUint64)
		}, "$20\r\n18446744073709551615\r\n", ""},
		{"null", func(w *Writer) { w.Null() }, "$-1\r\n", "_\r\n"},
		{"null array", func(w *Writer) { w.NullArray() }, "*-1\r\n", "_\r\n"},
		{"array", func(w *Writer) { w.Array(12) }, "*12\r\n", ""},
		{"map", func(w *Writer) { w.Map(6) }, "*12\r\n", "%6\r\n"},
		{"set", func(w *Writer) { w.Set(3) }, "*3\r\n", "~3\r\n"},
		{"push", func(w *Writer) { w.Push(3) }, "*3\r\n", ">3\r\n"},
		{"double", func(w *Writer) { w.Double(1.5) }, "$3\r\n1.5\r\n", ",1.5\r\n"},
		{"infinity", func(w *Writer) { w.Double(math.Inf(-1)) }, "$4\r\n-inf\r\n", ",-inf\r\n"},
		{"not a number", func(w *Writer) { w.Double(math.NaN()) }, "$3\r\nnan\r\n", ",nan\r\n"},
		{"true", func(w *Writer) { w.Bool(true) }, ":1\r\n", "#t\r\n"},
		{"false", func(w *Writer) { w.Bool(false) }, ":0\r\n", "#f\r\n"},
		{"big number", func(w *Writer) { w.BigNumber("-123456789012345678901") },
			"$22\r\n-123456789012345678901\r\n", "(-123456789012345678901\r\n"},
		{"verbatim", func(w *Writer) { w.Verbatim("txt", "a\r\nb") }, "$4\r\na\r\nb\r\n",
			"=8\r\ntxt:a\r\nb\r\n"},
		{"later, empty", func(w *Writer) { w.SetLen(w.ArrayLater(), 0) }, "*0\r\n", ""},
		{"later, map", func(w *Writer) { m := w.MapLater(); w.Int(1); w.Int(2); w.SetLen(m, 1) },
			"*2\r\n:1\r\n:2\r\n", "%1\r\n:1\r\n:2\r\n"},
		{"later, set", func(w *Writer) { m := w.SetLater(); w.Int(1); w.SetLen(m, 1) },
			"*1\r\n:1\r\n", "~1\r\n:1\r\n"},
		{"later, map whose RESP2 count has more digits", func(w *Writer) {
			m := w.MapLater()
			for range 5 {
				w.Int(1)
				w.Int(2)
			}
			w.SetLen(m, 5)
		}, "*10\r\n" + strings.Repeat(":1\r\n:2\r\n", 5),
			"%5\r\n" + strings.Repeat(":1\r\n:2\r\n", 5)},
		{"truncate", func(w *Writer) {
			w.OK()
			at := w.Len()
			w.Array(3)
			w.Truncate(at)
			w.Error("ERR no")
		}, "+OK\r\n-ERR no\r\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want3 := tt.resp3
			if want3 == "" {
				want3 = tt.resp2
			}
			if got := written(2, tt.write); got != tt.resp2 {
				t.Errorf("RESP2: %q, want %q", got, tt.resp2)
			}
			if got := written(3, tt.write); got != want3 {
				t.Errorf("RESP3: %q, want %q", got, want3)
			}
			if got := written(0, tt.write); got != tt.resp2 {
				t.Errorf("zero Proto: %q, want RESP2 %q", got, tt.resp2)
			}
		})
	}
}

// node is a random reply: a leaf, or an array of nodes.
type node struct {
	leaf string
	kids []node
}

func nodes(depth int) *rapid.Generator[node] {
	return rapid.Custom(func(t *rapid.T) node {
		if depth == 0 || rapid.Bool().Draw(t, "leaf") {
			return node{leaf: rapid.String().Draw(t, "text")}
		}
		n := rapid.OneOf(rapid.IntRange(0, 4), rapid.IntRange(0, 120)).Draw(t, "kids")
		gen := nodes(0)
		if n < 5 {
			gen = nodes(depth - 1)
		}
		return node{kids: append([]node{}, rapid.SliceOfN(gen, n, n).Draw(t, "array")...)}
	})
}

// TestDeferredLengths: an array whose length is set last has the same bytes as one whose length is
// set first. That holds for nested arrays, and for lengths with any number of digits. redcon can
// read them.
func TestDeferredLengths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := nodes(4).Draw(t, "reply")
		var first, later Writer
		var write func(n node)
		write = func(n node) {
			if n.kids == nil {
				first.BulkString(n.leaf)
				later.BulkString(n.leaf)
				return
			}
			first.Array(len(n.kids))
			m := later.ArrayLater()
			for _, k := range n.kids {
				write(k)
			}
			later.SetLen(m, len(n.kids))
		}
		write(root)
		if string(first.Buf) != string(later.Buf) {
			t.Fatalf("deferred %q, direct %q", later.Buf, first.Buf)
		}
		n, got := redcon.ReadNextRESP(later.Buf)
		if n != len(later.Buf) {
			t.Fatalf("redcon reads %d of %d bytes", n, len(later.Buf))
		}
		if root.kids != nil && got.Count != len(root.kids) {
			t.Fatalf("redcon counts %d elements, want %d", got.Count, len(root.kids))
		}
	})
}

func TestWriterDoesNotAllocate(t *testing.T) {
	for _, proto := range []int{2, 3} {
		w := &Writer{Proto: proto, Buf: make([]byte, 0, 4096)}
		value := []byte("value")
		n := testing.AllocsPerRun(100, func() {
			w.Truncate(0)
			w.OK()
			w.Error("WRONGTYPE Operation against a key holding the wrong kind of value")
			w.Int(1234567)
			w.Bulk(value)
			w.BulkString("text")
			w.BulkInt(-77)
			w.BulkUint(77)
			w.Null()
			w.Map(2)
			w.Double(0.1)
			w.Double(1e300)
			w.Bool(true)
			w.Verbatim("txt", "info")
			m := w.ArrayLater()
			w.SetLen(m, 1000)
		})
		if n != 0 {
			t.Errorf("RESP%d: %v allocations", proto, n)
		}
	}
}

func TestDoubleText(t *testing.T) {
	tests := []struct {
		f    float64
		want string
	}{
		{0, "0"}, {math.Copysign(0, -1), "-0"}, {1, "1"}, {-1, "-1"},
		{0.1, "0.1"}, {-0.1, "-0.1"}, {0.30000000000000004, "0.30000000000000004"},
		{3.141592653589793, "3.141592653589793"},
		{1e17, "100000000000000000"}, {1 << 62, "4611686018427387904"},
		{-(1 << 62), "-4611686018427387904"},
		{1e19, "1e+19"}, {-1e19, "-1e+19"}, {9223372036854775808, "9223372036854776000"},
		{1e100, "1e+100"}, {1.5e300, "1.5e+300"}, {math.MaxFloat64, "1.7976931348623157e+308"},
		{0.000001, "0.000001"}, {0.0000015, "1.5e-6"}, {1e-7, "1e-7"}, {5e-324, "5e-324"},
		{0.0012345678, "0.0012345678"}, {0.00012345678, "1.2345678e-4"},
		{1234.5678901234, "1234.5678901234"}, {12345.678901234, "1.2345678901234e+4"},
		{12345.678901, "12345.678901"},
		{1700000000.123456, "1700000000.123456"}, {1700000000.1234567, "1.7000000001234567e+9"},
		{math.Inf(1), "inf"}, {math.Inf(-1), "-inf"}, {math.NaN(), "nan"},
	}
	for _, tt := range tests {
		if got := string(AppendDouble(nil, tt.f)); got != tt.want {
			t.Errorf("AppendDouble(%g) = %s, want %s", tt.f, got, tt.want)
		}
	}
}

// TestDoubleReadsBack: the text parses to the same number, and fits into the writer's scratch
// space.
func TestDoubleReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-1e6, 1e6),
			rapid.Map(rapid.Int64(), func(n int64) float64 { return float64(n) / 1000 })).Draw(t,
			"f")
		text := string(AppendDouble(nil, f))
		back, err := strconv.ParseFloat(text, 64)
		if err != nil || back != f || math.Signbit(back) != math.Signbit(f) {
			t.Fatalf("%g written as %s reads as %g (%v)", f, text, back, err)
		}
		if len(text) > 25 {
			t.Fatalf("%s is %d bytes long", text, len(text))
		}
	})
}

// TestHeaders: the numbers in headers are written as redcon writes them, whatever their length.
func TestHeaders(t *testing.T) {
	for n := int64(1); n > 0 && n < math.MaxInt64/10; n *= 10 {
		for _, n := range []int64{n - 1, n, n + 1, -n} {
			if got, want := written(2, func(w *Writer) { w.Int(n) }),
				string(redcon.AppendInt(nil, n)); got != want {
				t.Errorf("Int(%d) = %q, want %q", n, got, want)
			}
			if n < 0 || n > 100_000 {
				continue
			}
			value := strings.Repeat("v", int(n))
			if got, want := written(2, func(w *Writer) { w.BulkString(value) }),
				string(redcon.AppendBulkString(nil, value)); got != want {
				t.Errorf("a bulk of %d bytes begins with %.10q, want %.10q", n, got, want)
			}
		}
	}
}
