package resp

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// inPieces passes input to r in pieces of n bytes and counts the commands.
func inPieces(t testing.TB, r *Reader, input string, n int) (commands int) {
	t.Helper()
	for len(input) > 0 {
		n := copy(r.Space(n), input[:min(n, len(input))])
		r.Advance(n)
		input = input[n:]
		for {
			args, err := r.Next(nil)
			if err != nil {
				t.Fatal(err)
			}
			if args == nil {
				break
			}
			commands++
		}
	}
	return commands
}

// TestLinearWork counts the bytes searched and moved for commands that arrive in small pieces.
// Parsing from the start again for each piece would cost millions of times as much.
func TestLinearWork(t *testing.T) {
	small := multibulk("SET", "key", "value")
	inputs := map[string]struct {
		input    string
		piece    int
		commands int
	}{
		"inline line": {"PING " + strings.Repeat("a", 1<<16-10) + "\n", 1, 1},
		"many arguments": {multibulk(strings.Split(strings.Repeat("ab ", 100_000), " ")...),
			1, 1},
		"large bulk":            {multibulk("SET", "k", strings.Repeat("v", 1<<23)), 100, 1},
		"pipeline":              {strings.Repeat(small, 10_000), 7, 10_000},
		"pipeline, large reads": {strings.Repeat(small, 10_000), 16 << 10, 10_000},
		"empty commands":        {strings.Repeat("*0\r\n\r\n", 10_000), 1, 0},
		"large after small": {strings.Repeat(small+multibulk("SET", "k",
			strings.Repeat("v", 20_000)), 50), 1000, 100},
	}
	for name, tt := range inputs {
		t.Run(name, func(t *testing.T) {
			var r Reader
			if n := inPieces(t, &r, tt.input, tt.piece); n != tt.commands {
				t.Fatalf("%d commands, want %d", n, tt.commands)
			}
			size := int64(len(tt.input))
			// A short length line is searched once for each of its bytes.
			if r.examined > 6*size {
				t.Errorf("%d bytes examined for %d received", r.examined, size)
			}
			if r.moved > 2*size {
				t.Errorf("%d bytes moved for %d received", r.moved, size)
			}
		})
	}
}

// TestBacklogIsNotMovedAgain: an owner that takes one command at a time, and reads between them,
// does not copy the remaining input each time.
func TestBacklogIsNotMovedAgain(t *testing.T) {
	var r Reader
	one := multibulk("SET", "key", "value")
	backlog := strings.Repeat(one, 2000)
	r.Advance(copy(r.Space(len(backlog)), backlog))
	received := len(backlog)
	for range 5000 {
		if args, err := r.Next(nil); err != nil || len(args) != 3 {
			t.Fatalf("%q, %v", args, err)
		}
		r.Advance(copy(r.Space(len(one)), one))
		received += len(one)
	}
	if r.moved > int64(2*received) {
		t.Errorf("%d bytes moved for %d received", r.moved, received)
	}
	if len(r.buf) > 4*len(backlog) {
		t.Errorf("the buffer has %d bytes for a backlog of %d", len(r.buf), len(backlog))
	}
}

// TestAnnouncedIsNotAllocated: a length that a client announces allocates no memory.
func TestAnnouncedIsNotAllocated(t *testing.T) {
	for _, input := range []string{
		"*1048576\r\n$3\r\nSET\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nabc",
	} {
		var r Reader
		inPieces(t, &r, input, 64)
		if len(r.buf) > 256 || cap(r.spans) > 16 {
			t.Errorf("%q holds %d bytes and %d spans", input, len(r.buf), cap(r.spans))
		}
		r.Space(16 << 10)
		r.Release()
		if len(r.buf) != len(input) {
			t.Errorf("%q holds %d bytes when idle", input, len(r.buf))
		}
	}
}

// TestGrowth: a large argument's buffer doubles as bytes arrive, and ends at the argument's end.
func TestGrowth(t *testing.T) {
	var r Reader
	const size = 1 << 20
	input := multibulk("SET", "k", strings.Repeat("v", size))
	for at := 0; at < len(input); {
		room := r.Space(4 << 10)
		if most := 2*at + 8<<10; len(r.buf) > most {
			t.Fatalf("%d bytes buffered, %d received", len(r.buf), at)
		}
		n := copy(room[:4<<10], input[at:])
		r.Advance(n)
		at += n
		args, err := r.Next(nil)
		switch {
		case err != nil:
			t.Fatal(err)
		case at < len(input) && at > 100 && r.Need() != len(input)-at:
			t.Fatalf("Need is %d with %d bytes to come", r.Need(), len(input)-at)
		case at == len(input) && (len(args) != 3 || len(args[2]) != size):
			t.Fatalf("%d arguments", len(args))
		}
	}
	if len(r.buf) > len(input)+8<<10 {
		t.Errorf("the buffer ended with %d bytes for a command of %d", len(r.buf), len(input))
	}
}

// TestLargeBufferIsGivenBack: after a large command, a series of small ones drops the large buffer,
// even if the connection is never idle. Further large commands keep it.
func TestLargeBufferIsGivenBack(t *testing.T) {
	large := multibulk("SET", "k", strings.Repeat("v", 1<<20))
	small := multibulk("GET", "k")

	var r Reader
	inPieces(t, &r, large, 16<<10)
	for range 2 * calmTurns {
		inPieces(t, &r, small, 1<<10)
	}
	if len(r.buf) > keptBuffer {
		t.Errorf("%d bytes kept after small commands", len(r.buf))
	}
	for _, arg := range r.args[:cap(r.args)] {
		if len(arg) > keptBuffer {
			t.Errorf("an old argument keeps %d bytes", len(arg))
		}
	}

	r = Reader{}
	inPieces(t, &r, large, 16<<10)
	// Every piece ends within a command.
	inPieces(t, &r, ping+strings.Repeat(small, 200_000), 50*len(small))
	if len(r.buf) > keptBuffer {
		t.Errorf("%d bytes kept in a stream of small commands", len(r.buf))
	}

	r = Reader{}
	inPieces(t, &r, large, 1<<20)
	buf := &r.buf[0]
	for range 3 * calmTurns {
		inPieces(t, &r, small, 1<<10)
		inPieces(t, &r, small, 1<<10)
		inPieces(t, &r, large, 1<<10)
	}
	if &r.buf[0] != buf {
		t.Error("large commands with small ones between them made new buffers")
	}
}

// TestRelease: after Release, an idle connection's reader holds no memory, and still reads
// commands.
func TestRelease(t *testing.T) {
	var r Reader
	inPieces(t, &r, multibulk("SET", "k", "v"), 16<<10)
	r.Release()
	if !reflect.DeepEqual(r, Reader{examined: r.examined, moved: r.moved}) {
		t.Errorf("an idle reader holds %+v", r)
	}
	if size := reflect.TypeOf(r).Size(); size > 256 {
		t.Errorf("an idle reader has %d bytes", size)
	}
	if n := inPieces(t, &r, multibulk("PING"), 1); n != 1 {
		t.Errorf("%d commands after Release", n)
	}
	many := multibulk(strings.Split(strings.Repeat("a ", 10*keptArgs), " ")...)
	inPieces(t, &r, many+multibulk("PING"), 16<<10)
	if cap(r.args) > keptArgs || cap(r.spans) > keptArgs {
		t.Errorf("a long command's list of %d arguments is kept", cap(r.args))
	}
}

// pipeline returns n commands like those of redis-benchmark.
func pipeline(n int) []byte {
	var b strings.Builder
	for i := range n {
		b.WriteString(multibulk("SET", fmt.Sprintf("key:%012d", i), strings.Repeat("x", 100)))
	}
	return []byte(b.String())
}

// next16 parses one pipeline of 16 commands.
func next16(t testing.TB, r *Reader, input []byte) {
	r.Advance(copy(r.Space(16<<10), input))
	for range 16 {
		if args, err := r.Next(&DefaultLimits); err != nil || len(args) != 3 {
			t.Fatalf("%q, %v", args, err)
		}
	}
}

func TestReaderDoesNotAllocate(t *testing.T) {
	var r Reader
	input := pipeline(16)
	if n := testing.AllocsPerRun(100, func() { next16(t, &r, input) }); n != 0 {
		t.Errorf("%v allocations in a pipeline of 16", n)
	}
	line := []byte(strings.Repeat("SET key 'a value'\r\n", 16))
	if n := testing.AllocsPerRun(100, func() { next16(t, &r, line) }); n != 0 {
		t.Errorf("%v allocations in 16 inline commands", n)
	}
}

func BenchmarkReaderPipeline16(b *testing.B) {
	var r Reader
	input := pipeline(16)
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		next16(b, &r, input)
	}
}

func BenchmarkReaderInline(b *testing.B) {
	var r Reader
	input := []byte(strings.Repeat("SET key:000000000001 'a value'\r\n", 16))
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		next16(b, &r, input)
	}
}

func BenchmarkReaderBytewise(b *testing.B) {
	var r Reader
	input := string(pipeline(16))
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		inPieces(b, &r, input, 1)
	}
}

func BenchmarkReaderLargeBulk(b *testing.B) {
	var r Reader
	input := multibulk("SET", "k", strings.Repeat("v", 1<<20))
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		inPieces(b, &r, input, 16<<10)
	}
}

func BenchmarkWriterBulk(b *testing.B) {
	w := Writer{Buf: make([]byte, 0, 1<<10)}
	value := []byte(strings.Repeat("x", 100))
	b.ReportAllocs()
	for b.Loop() {
		w.Truncate(0)
		w.Bulk(value)
	}
}

func BenchmarkWriterDouble(b *testing.B) {
	w := Writer{Buf: make([]byte, 0, 1<<10), Proto: 3}
	b.ReportAllocs()
	for b.Loop() {
		w.Truncate(0)
		w.Double(1234.5678)
	}
}

func BenchmarkLongDouble(b *testing.B) {
	buf := make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		x, _ := ParseLongDouble([]byte("10.50"))
		y, _ := ParseLongDouble([]byte("0.1"))
		sum, _ := x.Add(y)
		buf = sum.Append(buf[:0])
	}
}
