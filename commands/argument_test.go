package commands

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// A command must not change its arguments: in a script they are the memory of Lua's strings.
// changedArguments is a script that gets all arguments of a command twice. It calls the command
// with the first copy, and then compares that copy with the second one. For strings of one byte
// that comparison shows nothing, because both copies are the same Lua string. So the script also
// checks the strings of all single bytes.
const changedArguments = `
	local n = #ARGV / 2
	local reply = redis.pcall(unpack(ARGV, 1, n))
	for i = 1, n do
		if ARGV[i] ~= ARGV[n + i] then return redis.error_reply('CHANGED argument ' .. i) end
	end
	for i = 0, 255 do
		if string.byte(string.char(i)) ~= i then return redis.error_reply('CHANGED byte ' .. i) end
	end
	return reply`

// TestArgumentsStayAsTheyAre runs every command directly, in a transaction and from a script, where
// the arguments are the script's strings. No command writes to its arguments or keeps them.
func TestArgumentsStayAsTheyAre(t *testing.T) {
	keepLimits(t)
	const calls, perCall = 6, 400
	seed := testkit.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	run := newFuzzed(t, nil)
	for _, spec := range run.specs {
		for range calls {
			run.Data = make([]byte, perCall)
			for i := range run.Data {
				run.Data[i] = byte(rng.Uint32())
			}
			run.connect()
			call := run.of(spec)
			run.send(call)
			run.connect()
			run.send([]string{"MULTI"})
			run.send(call)
			run.send([]string{"EXEC"})
			run.connect()
			run.send(append(append([]string{"EVAL", changedArguments, "0"}, call...), call...))
			if reply := string(run.ctx.Out.Buf); strings.HasPrefix(reply, "-CHANGED") {
				run.fail("seed %d: %s", seed, reply)
			}
		}
		run.sent = run.sent[:0]
	}
}

// TestChangedArgumentIsSeen: the script above notices a command that writes to its arguments.
func TestChangedArgumentIsSeen(t *testing.T) {
	h := newHarness(t)
	spec := h.env.Table.Lookup([]byte("ECHO"))
	run := spec.Run
	t.Cleanup(func() { spec.Run = run })
	spec.Run = func(c *Ctx) error {
		c.Args[1][1] = 'x'
		return run(c)
	}
	if got := h.do("EVAL", changedArguments, "0", "ECHO", "abc", "ECHO",
		"abc"); got != "-CHANGED argument 2" {
		t.Errorf("EVAL: %s", got)
	}
}

// TestNumbersAsArguments: a command that appends to a number's text does not overwrite the next
// argument. Numbers and empty strings from a script are stored correctly.
func TestNumbersAsArguments(t *testing.T) {
	h := newHarness(t)
	spec := h.env.Table.Lookup([]byte("RPUSH"))
	run := spec.Run
	spec.Run = func(c *Ctx) error {
		for _, arg := range c.Args {
			_ = append(arg, "xxxxxxxx"...)
		}
		return run(c)
	}
	many := make([]string, 50)
	for i := range many {
		many[i] = strconv.Itoa(1000 + i)
	}
	script := `redis.call('RPUSH', 'l', ` + strings.Join(many, ", ") + `)
		redis.call('SET', 'empty', '')
		redis.call('SET', 12, 34)
		redis.call('SET', 56, 78)
		return redis.call('LRANGE', 'l', 0, -1)`
	if got, want := h.do("EVAL", script, "0"), `["`+strings.Join(many, `", "`)+`"]`; got != want {
		t.Errorf("reply %s, want %s", got, want)
	}
	h.run(`
		GET empty -> ""
		GET 12 -> "34"
		GET 56 -> "78"
	`)
}
