package resp

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// parsed is the result of a Reader: the commands, and the text of the protocol error that ended
// the input, or "".
type parsed struct {
	commands [][]string
	err      string
}

// feed passes input to r in pieces of the sizes that next returns (at least 1), and takes the
// commands after each piece.
func feed(r *Reader, l *Limits, input string, next func() int) parsed {
	var p parsed
	for len(input) > 0 {
		n := min(len(input), next())
		r.Advance(copy(r.Space(n), input[:n]))
		input = input[n:]
		for {
			args, err := r.Next(l)
			if err != nil {
				var protocol *ProtocolError
				if !errors.As(err, &protocol) {
					panic(err)
				}
				p.err = protocol.Text
				return p
			}
			if args == nil {
				break
			}
			command := make([]string, len(args))
			for i, a := range args {
				command[i] = string(a)
			}
			p.commands = append(p.commands, command)
		}
	}
	return p
}

// whole passes the input in one piece, bytewise one byte at a time.
func whole() int    { return 1 << 30 }
func bytewise() int { return 1 }

// multibulk returns a command in the form in which clients send it.
func multibulk(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// protocolCase is an input and its result. The differential test sends the same inputs to Redis,
// except those whose field here says why the answers differ.
type protocolCase struct {
	input    string
	commands [][]string
	err      string
	here     string
}

func one(args ...string) [][]string { return [][]string{args} }

var ping = multibulk("PING")

var protocolCases = []protocolCase{
	{input: multibulk("PING", "a\r\nb"), commands: one("PING", "a\r\nb")},
	{input: multibulk("PING", "a\x00\xff"), commands: one("PING", "a\x00\xff")},
	{input: multibulk(""), commands: one("")},
	{input: ping + ping, commands: [][]string{{"PING"}, {"PING"}}},
	{input: "*0\r\n" + ping, commands: one("PING")},
	{input: "*-1\r\n" + ping, commands: one("PING")},
	{input: "*-9223372036854775808\r\n" + ping, commands: one("PING")},
	{input: "*-9223372036854775809\r\n", err: "invalid multibulk length"},
	{input: "*2147483647\r\n"},
	{input: "*2147483648\r\n", err: "invalid multibulk length"},
	{input: "*99999999999999999999\r\n", err: "invalid multibulk length"},
	{input: "*\r\n", err: "invalid multibulk length"},
	{input: "*-\r\n", err: "invalid multibulk length"},
	{input: "*--1\r\n", err: "invalid multibulk length"},
	{input: "*+1\r\n", err: "invalid multibulk length"},
	{input: "* 1\r\n", err: "invalid multibulk length"},
	{input: "*1 \r\n", err: "invalid multibulk length"},
	{input: "*01\r\n", err: "invalid multibulk length"},
	{input: "*00\r\n", err: "invalid multibulk length"},
	{input: "*-0\r\n", err: "invalid multibulk length"},
	{input: "*abc\r\n", err: "invalid multibulk length"},
	{input: "*1\n$4\nPING\n"},
	{input: "*1\n$4\r\nPING\r\n", err: "invalid multibulk length"},
	{input: "*1\rX$4\rXPINGXX" + ping, commands: [][]string{{"PING"}, {"PING"}}},
	{input: "*1\r"},
	{input: "*1\r\n$4\r"},
	{input: "*1\r\n$4\r\nPING\r"},
	{input: "*1\r\n$+4\r\n", err: "invalid bulk length"},
	{input: "*1\r\n$04\r\n", err: "invalid bulk length"},
	{input: "*1\r\n$ 4\r\n", err: "invalid bulk length"},
	{input: "*1\r\n$\r\n", err: "invalid bulk length"},
	{input: "*1\r\n$-0\r\n", err: "invalid bulk length"},
	{input: "*1\r\n$-1\r\n", err: "invalid bulk length"},
	{input: "*1\r\n$-2\r\n", err: "invalid bulk length"},
	{input: "*1\r\n$abc\r\n", err: "invalid bulk length"},
	{input: "*1\r\n$536870912\r\n"},
	{input: "*1\r\n$536870913\r\n", err: "invalid bulk length"},
	{input: "*1\r\n$9223372036854775807\r\n", err: "invalid bulk length"},
	{input: "*1\r\nPING\r\n", err: "expected '$', got 'P'"},
	{input: "*1\r\nPING"},
	{input: "*1\r\n\r\nPING\r\n", err: "expected '$', got '\r'"},
	{input: "*1\r\n\xff\r\n", err: "expected '$', got '\xff'"},
	{input: "*2\r\n$4\r\nPING\r\n*1\r\n", err: "expected '$', got '*'"},
	{input: ping + "*1\r\n:4\r\n", commands: one("PING"), err: "expected '$', got ':'"},
	{input: "*1\r\n\x00\r\n", err: "expected '$', got '\x00'",
		here: "Redis looks for the line end in a C string and waits"},

	{input: "\r\n\n  \t\r\n" + ping, commands: one("PING")},
	{input: "PING\n", commands: one("PING")},
	{input: "PING\r\r\n", commands: one("PING")},
	{input: "  PING \t\v\f x\v\f \r\n", commands: one("PING", "x\v\f")},
	{input: "PI\rNG\r\n", commands: one("PI", "NG")},
	{input: "PING\vx\r\n", commands: one("PING\vx")},
	{input: "$4\r\nPING\r\n", commands: [][]string{{"$4"}, {"PING"}}},
	{input: "PING \"a\\x41\\xfF\\n\\r\\t\\b\\a\\\\\\\"\\q\\x4\\xZZ\\x\"\r\n",
		commands: one("PING", "aA\xff\n\r\t\b\a\\\"qx4xZZx")},
	{input: "PING 'a\\'b\\n\\\\'\r\n", err: "unbalanced quotes in request"},
	{input: "PING 'a\\'b\\n\\\\x'\r\n", commands: one("PING", "a'b\\n\\\\x")},
	{input: "PING a\"b c\"\r\n", commands: one("PING", "ab c")},
	{input: "PING a'b c'\r\n", commands: one("PING", "ab c")},
	{input: "PING \"a\"\vb\r\n", commands: one("PING", "a", "b")},
	{input: "\"\" ''\r\n", commands: one("", "")},
	{input: "PING '\r\n", err: "unbalanced quotes in request"},
	{input: "PING 'a\r\n", err: "unbalanced quotes in request"},
	{input: "PING \"a\r\n", err: "unbalanced quotes in request"},
	{input: "PING \"a\\\r\n", err: "unbalanced quotes in request"},
	{input: "PING \"a\\\"\r\n", err: "unbalanced quotes in request"},
	{input: "PING \"a\"b\r\n", err: "unbalanced quotes in request"},
	{input: "PING 'a'\"b\"\r\n", err: "unbalanced quotes in request"},
	{input: "PING \"a\r\n\"\r\n", err: "unbalanced quotes in request"},
	{input: "PING a\x00b '\x00'\r\n", commands: one("PING", "a\x00b", "\x00"),
		here: "Redis looks for the line end in a C string and waits"},

	{input: "PING " + strings.Repeat("a", 1<<16-5) + "\n",
		commands: one("PING", strings.Repeat("a", 1<<16-5))},
	{input: "PING " + strings.Repeat("a", 1<<16-4) + "\n", err: "too big inline request",
		here: "Redis lets one pass when its end comes with the same read"},
	{input: strings.Repeat("a", 1<<16)},
	{input: strings.Repeat("a", 1<<16+1), err: "too big inline request"},
	{input: "*" + strings.Repeat("1", 1<<16-1)},
	{input: "*" + strings.Repeat("1", 1<<16), err: "too big mbulk count string"},
	{input: "*" + strings.Repeat("1", 1<<16-1) + "\r\n", err: "invalid multibulk length"},
	{input: "*1\r\n$" + strings.Repeat("1", 1<<16-1)},
	{input: "*1\r\n$" + strings.Repeat("1", 1<<16), err: "too big bulk count string"},
}

func TestReader(t *testing.T) {
	for _, tt := range protocolCases {
		t.Run(brief(tt.input), func(t *testing.T) {
			want := parsed{tt.commands, tt.err}
			for name, next := range map[string]func() int{"whole": whole, "bytewise": bytewise} {
				var r Reader
				if got := feed(&r, nil, tt.input, next); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %.200q, want %.200q", name, got, want)
				}
				if tt.err == "" {
					continue
				}
				if args, err := r.Next(nil); args != nil || err == nil ||
					err.Error() != "Protocol error: "+tt.err {
					t.Errorf("%s: after the error Next gives %q, %v", name, args, err)
				}
			}
		})
	}
}

// brief returns an input as the name of a test.
func brief(s string) string {
	if len(s) > 40 {
		s = s[:20] + "…" + strconv.Itoa(len(s))
	}
	return strconv.Quote(s)
}

var unauthenticatedCases = []protocolCase{
	{input: multibulk("PING", "a"), commands: one("PING", "a")},
	{input: "*10\r\n"},
	{input: "*11\r\n", err: "unauthenticated multibulk length"},
	{input: "*2147483648\r\n", err: "invalid multibulk length"},
	{input: "*1\r\n$16384\r\n"},
	{input: "*1\r\n$16385\r\n", err: "unauthenticated bulk length"},
	{input: "*1\r\n$536870913\r\n", err: "invalid bulk length"},
	{input: "PING 1 2 3 4 5 6 7 8 9 10 11\r\n", commands: one("PING", "1", "2", "3", "4", "5", "6",
		"7", "8", "9", "10", "11")},
}

func TestUnauthenticatedLimits(t *testing.T) {
	l := DefaultLimits
	l.Unauthenticated = true
	for _, tt := range unauthenticatedCases {
		if got := feed(new(Reader), &l, tt.input, whole); !reflect.DeepEqual(got,
			parsed{tt.commands, tt.err}) {
			t.Errorf("%q: %q, want %q", tt.input, got, tt)
		}
	}
	// AUTH comes before a large command in one pipeline: the new limits apply at the next header.
	var r Reader
	many := append([]string{"MSET"}, strings.Fields(strings.Repeat("k v ", 20))...)
	r.Advance(copy(r.Space(1<<10), multibulk("AUTH", "secret")+multibulk(many...)))
	if args, err := r.Next(&l); err != nil || len(args) != 2 {
		t.Fatalf("AUTH: %q, %v", args, err)
	}
	l.Unauthenticated = false
	if args, err := r.Next(&l); err != nil || len(args) != len(many) {
		t.Fatalf("after AUTH: %q, %v", args, err)
	}
}

func TestOtherLimits(t *testing.T) {
	l := Limits{MaxBulk: 10, MaxInline: 20, MaxArgs: 3}
	for input, want := range map[string]string{
		multibulk("a", "0123456789", "c"): "",
		multibulk("01234567890"):          "invalid bulk length",
		multibulk("a", "b", "c", "d"):     "invalid multibulk length",
		strings.Repeat("a", 20) + "\n":    "",
		strings.Repeat("a", 21) + "\n":    "too big inline request",
	} {
		if got := feed(new(Reader), &l, input, bytewise); got.err != want ||
			(want == "") != (len(got.commands) == 1) {
			t.Errorf("%q: %q, want %q", input, got, want)
		}
	}
	l.MaxBulk = 1<<63 - 1
	if got := feed(new(Reader), &l, "*1\r\n$9223372036854775807\r\nabc",
		whole); got.err != "invalid bulk length" {
		t.Errorf("a length that no buffer can have: %q", got)
	}
}

// arguments generates any byte strings, often with the bytes that matter to the protocol.
var arguments = rapid.OneOf(
	rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 300), func(b []byte) string { return string(b) }),
	rapid.StringOfN(rapid.RuneFrom([]rune("\r\n *$\"'\\x0aé")), 0, 40, -1))

var commandLists = rapid.SliceOfN(rapid.SliceOfN(arguments, 1, 8), 1, 12)

// quote writes an argument so that the parser of inline commands returns it unchanged.
func quote(arg string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(arg) {
		if c >= 'a' && c <= 'z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "\\x%02x", c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// TestReaderAnyCut: commands in either form arrive unchanged, however the stream is cut and
// whenever memory is released.
func TestReaderAnyCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commands := commandLists.Draw(t, "commands")
		var input strings.Builder
		for _, c := range commands {
			switch rapid.IntRange(0, 3).Draw(t, "form") {
			case 0:
				words := make([]string, len(c))
				for i, arg := range c {
					words[i] = quote(arg)
				}
				input.WriteString(strings.Join(words, " ") + "\r\n")
			case 1:
				input.WriteString("*0\r\n\r\n")
				fallthrough
			default:
				input.WriteString(multibulk(c...))
			}
		}
		var r Reader
		most := rapid.SampledFrom([]int{1, 3, 20, 5000}).Draw(t, "most")
		got := feed(&r, nil, input.String(), func() int {
			if rapid.IntRange(0, 9).Draw(t, "release") == 0 {
				r.Release()
			}
			return rapid.IntRange(1, most).Draw(t, "piece")
		})
		if got.err != "" || !reflect.DeepEqual(got.commands, commands) {
			t.Fatalf("got %q", got)
		}
		if r.Buffered() != 0 || r.Need() != 0 {
			t.Fatalf("%d bytes left over, %d needed", r.Buffered(), r.Need())
		}
	})
}

// TestAhead: the hint has the second or third arguments of the next commands. It has all of them if
// the commands are short and in the usual form.
func TestAhead(t *testing.T) {
	place := func(name []byte) int { return 1 + len(name)%2 }
	rapid.Check(t, func(t *rapid.T) {
		commands := rapid.SliceOfN(rapid.SliceOfN(arguments, 1, 12), 1, 12).Draw(t, "commands")
		var input strings.Builder
		usual := len(commands)
		for i, c := range commands {
			if rapid.IntRange(0, 9).Draw(t, "form") == 0 {
				input.WriteString("\r\n")
				usual = min(usual, i)
			}
			if len(c) > aheadArgs {
				usual = min(usual, i+1)
			}
			input.WriteString(multibulk(c...))
		}
		sent := input.String()
		cut := rapid.IntRange(0, len(sent)).Draw(t, "cut")
		var r Reader
		r.Advance(copy(r.Space(len(sent)), sent[:cut]))
		var hints []string
		for _, name := range r.Ahead(make([][]byte, 0, rapid.IntRange(0, 20).Draw(t, "room")),
			place) {
			hints = append(hints, string(name))
		}
		if again := r.Ahead(make([][]byte, 0, 20), place); len(again) < len(hints) {
			t.Fatalf("%d hints, and then %d", len(hints), len(again))
		}
		all := r.Ahead(make([][]byte, 0, 20), place)
		r.Advance(copy(r.Space(len(sent)), sent[cut:]))
		var want []string
		for i := 0; ; i++ {
			args, err := r.Next(nil)
			if err != nil || args == nil {
				break
			}
			if at := place(args[0]); len(args) > at {
				want = append(want, string(args[at]))
				if cut == len(sent) && i < usual && len(all) < len(want) {
					t.Fatalf("no hint of %q, command %d", args[at], i)
				}
			}
		}
		if len(hints) > len(want) || !slices.Equal(hints, want[:len(hints)]) {
			t.Fatalf("hints %q of %q", hints, want)
		}
	})
}

// TestArgumentsDoNotOverlap: appending to an argument changes neither the next argument nor the
// next command.
func TestArgumentsDoNotOverlap(t *testing.T) {
	for _, input := range []string{multibulk("a", "b") + multibulk("c"), "a 'b'\r\nc\r\n"} {
		var r Reader
		r.Advance(copy(r.Space(100), input))
		args, _ := r.Next(nil)
		_ = append(args[0], "xxxxxxxxxxxxxxxxxxxxxxx"...)
		_ = append(args[1], "xxxxxxxxxxxxxxxxxxxxxxx"...)
		if string(args[1]) != "b" {
			t.Errorf("%q: the second argument became %q", input, args[1])
		}
		if args, err := r.Next(nil); err != nil || len(args) != 1 || string(args[0]) != "c" {
			t.Errorf("%q: the next command became %q, %v", input, args, err)
		}
	}
}

func TestSplitArgs(t *testing.T) {
	line := []byte(`save "9\x300" 'it\'s' ""`)
	kept := string(line)
	args, ok := SplitArgs(line)
	if want := []string{"save", "900", "it's", ""}; !ok ||
		fmt.Sprintf("%q", args) != fmt.Sprintf("%q", want) {
		t.Errorf("got %q, %v", args, ok)
	}
	if string(line) != kept {
		t.Errorf("the line was changed to %q", line)
	}
	if args, ok := SplitArgs([]byte(" \t\r\n")); !ok || len(args) != 0 {
		t.Errorf("a blank line: %q, %v", args, ok)
	}
	if args, ok := SplitArgs([]byte(`a "b`)); ok || args != nil {
		t.Errorf("unbalanced: %q, %v", args, ok)
	}
}

func FuzzReader(f *testing.F) {
	for _, tt := range protocolCases {
		if len(tt.input) < 100 {
			f.Add([]byte(tt.input), uint16(3), false)
		}
	}
	f.Add([]byte(multibulk("SET", "k", strings.Repeat("v", 400))+"GET 'k'\r\n"), uint16(77), true)
	f.Fuzz(func(t *testing.T, input []byte, seed uint16, unauthenticated bool) {
		l := Limits{MaxBulk: 1 << 10, MaxInline: 100, MaxArgs: 50, Unauthenticated: unauthenticated}
		var atOnce, cut Reader
		want := feed(&atOnce, &l, string(input), whole)
		state := uint32(seed) + 1
		got := feed(&cut, &l, string(input), func() int {
			state = state*1664525 + 1013904223
			return 1 + int(state>>24)%(1+int(seed)%64)
		})
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("in pieces %q, at once %q", got, want)
		}
		if most := 2*len(input) + 64; len(cut.buf) > most || cap(cut.spans) > most {
			t.Fatalf("%d bytes took a buffer of %d and %d spans", len(input),
				len(cut.buf), cap(cut.spans))
		}
		if most := int64(14*len(input) + 100); cut.examined > most || cut.moved > most {
			t.Fatalf("%d bytes: %d examined, %d moved", len(input), cut.examined, cut.moved)
		}
		again := new(Reader)
		for _, command := range want.commands {
			if got := feed(again, nil, multibulk(command...),
				bytewise); !reflect.DeepEqual(got.commands, [][]string{command}) {
				t.Fatalf("%q encoded again is read as %q", command, got)
			}
		}
	})
}

// TestReaderGoesOnInALargerBuffer: after GoOnIn the Reader has all its earlier bytes and the
// requested room, wherever the command is in the buffer.
func TestReaderGoesOnInALargerBuffer(t *testing.T) {
	const long = 300_000
	value := strings.Repeat("v", long)
	input := "*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$" + strconv.Itoa(long) + "\r\n" +
		value + "\r\n*1\r\n$4\r\nQUIT\r\n"
	var r Reader
	var got []string
	moves := 0
	for at := 0; at < len(input); {
		const room = 1000
		if held := r.Moves(room); held > 0 {
			if held != r.Buffered() {
				t.Fatalf("%d bytes are to move of %d", held, r.Buffered())
			}
			r.GoOnIn(r.Larger(room))
			moves++
			if r.Moves(room) != 0 {
				t.Fatal("there is no room in the larger buffer")
			}
		}
		n := copy(r.Space(room), input[at:min(at+room, len(input))])
		at += n
		r.Advance(n)
		for {
			args, err := r.Next(nil)
			if err != nil {
				t.Fatal(err)
			}
			if args == nil {
				break
			}
			got = append(got, string(bytes.Join(args, []byte(" "))))
		}
	}
	if want := []string{"PING", "SET k " + value, "QUIT"}; !slices.Equal(got, want) || moves == 0 {
		t.Errorf("%d commands, %d moves", len(got), moves)
	}
}
