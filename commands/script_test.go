package commands

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"keyp/resp"
)

func TestEval(t *testing.T) {
	table(t, `
		EVAL "return 1" 0 -> 1
		EVAL "return redis.call('SET', KEYS[1], ARGV[1])" 1 k v -> +OK
		events -> set:k
		GET k -> "v"
		EVAL "return {KEYS[1], KEYS[2], ARGV[1]}" 2 a b c -> ["a", "b", "c"]
		EVAL "return 1" x -> -ERR value is not an integer or out of range
		EVAL "return 1" 2 a -> -ERR Number of keys can't be greater than number of args
		EVAL "return 1" -1 -> -ERR Number of keys can't be negative
		EVAL "return 1" -> -ERR wrong number of arguments for 'eval' command
		EVAL "x x" 0 -> -ERR Error compiling script (new function): user_script:1: '=' expected near 'x'
		EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0 -> 1
		EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0 -> 1
		EVALSHA ffffffffffffffffffffffffffffffffffffffff 0 -> -NOSCRIPT No matching script. Please use EVAL.
		EVALSHA x 0 -> -NOSCRIPT No matching script. Please use EVAL.

		# what a script may not do
		EVAL "return redis.call('NOSUCH')" 0 -> -ERR Unknown Redis command called from script script: 7ae0187b9ac91447963709e3bfd83c5935fec648, on @user_script:1.
		EVAL "return redis.pcall('GET')" 0 -> -ERR Wrong number of args calling Redis command from script
		EVAL "return redis.pcall('EVAL', 'return 1', 0)" 0 -> -ERR This Redis command is not allowed from script
		EVAL "return redis.pcall('MULTI')" 0 -> -ERR This Redis command is not allowed from script
		EVAL "return redis.pcall('BLPOP', 'l', 0)" 0 -> nil
		EVAL_RO "return redis.pcall('SET', KEYS[1], 1)" 1 k -> -ERR Write commands are not allowed from read-only scripts.
		EVAL_RO "return redis.pcall('PUBLISH', 'c', 'm')" 0 -> -ERR Write commands are not allowed from read-only scripts.
		EVAL_RO "return redis.pcall('SPUBLISH', 'c', 'm')" 0 -> -ERR Write commands are not allowed from read-only scripts.
		EVAL_RO "return redis.pcall('PFCOUNT', KEYS[1])" 1 h -> -ERR Write commands are not allowed from read-only scripts.
		EVAL "#!lua flags=no-writes\nreturn redis.pcall('PFCOUNT', KEYS[1])" 1 h -> -ERR Write commands are not allowed from read-only scripts.
		EVAL_RO "return redis.pcall('GET', KEYS[1])" 1 k -> "v"
		EVAL "#!lua flags=no-writes\nreturn redis.pcall('SET', KEYS[1], 1)" 1 k -> -ERR Write commands are not allowed from read-only scripts.
		EVAL "#!lua flags=no-writes,allow-stale\nreturn redis.call('GET', KEYS[1])" 1 k -> "v"
		EVAL_RO "#!lua\nreturn 1" 0 -> -ERR Can not execute a script with write flag using *_ro command.
		EVAL "#!lua\nerror('x')" 0 -> -ERR user_script:2: x script: f0363b84b71234131413165ce8dee0dbb5f9ce96, on @user_script:2.
		EVAL "#!lua" 0 -> -ERR Invalid script shebang
		EVAL "#!py\n" 0 -> -ERR Unexpected engine in script shebang: #!py
		EVAL "#!lua x=1\n" 0 -> -ERR Unknown lua shebang option: x=1
		EVAL "#!lua flags=foo\n" 0 -> -ERR Unexpected flag in script shebang: foo

		# SELECT is the script's own affair; RESP3 comes by setresp
		EVAL "redis.call('SELECT', 1) redis.call('SET', 'other', 1) return redis.call('GET', 'k')" 0 -> nil
		GET k -> "v"
		EXISTS other -> 0
		HSET h f v -> 1
		proto 3
		EVAL "return redis.call('HGETALL', 'h')" 0 -> ["f", "v"]
		EVAL "redis.setresp(3) return redis.call('HGETALL', 'h')" 0 -> {"f": "v"}

		# a script is not undone when it fails, and is part of EXEC
		EVAL "redis.call('SET', 'k', 'w') redis.call('INCR', 'k')" 0 -> -ERR value is not an integer or out of range script: 861eec405cb9d8a1446f8b1fee9b4c397a8ce5cf, on @user_script:1.
		GET k -> "w"
		MULTI -> +OK
		SET n 1 -> +QUEUED
		EVAL "return redis.call('INCR', KEYS[1])" 1 n -> +QUEUED
		EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0 -> +QUEUED
		EXEC -> [+OK, 2, 1]
		reopen
		GET n -> "2"
		EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0 -> -NOSCRIPT No matching script. Please use EVAL.
	`)
}

// TestScriptTime: the clock stands still while a script runs, also for deadlines.
func TestScriptTime(t *testing.T) {
	h := newHarness(t)
	h.do("SET", "k", "v", "PX", "10")
	h.env.Stats.reset()
	script := `local a = redis.call('TIME') for i = 1, 10 do redis.call('PING') end local b = redis.call('TIME')
		return {a[1] == b[1] and a[2] == b[2], redis.call('PTTL', 'k')}`
	if got := h.do("EVAL", script, "0"); got != "[1, 10]" {
		t.Errorf("reply %s", got)
	}
}

func TestScriptCommands(t *testing.T) {
	table(t, `
		SCRIPT LOAD "return 5" -> "4ca238f611c9d0ae4e9a75a5dbac22aedc379801"
		SCRIPT EXISTS 4ca238f611c9d0ae4e9a75a5dbac22aedc379801 ffff 4CA238F611C9D0AE4E9A75A5DBAC22AEDC379801 -> [1, 0, 1]
		EVALSHA 4ca238f611c9d0ae4e9a75a5dbac22aedc379801 0 -> 5
		EVALSHA_RO 4ca238f611c9d0ae4e9a75a5dbac22aedc379801 0 -> 5
		SCRIPT LOAD "x x" -> -ERR Error compiling script (new function): user_script:1: '=' expected near 'x'
		SCRIPT LOAD -> -ERR wrong number of arguments for 'script|load' command
		SCRIPT FLUSH x -> -ERR SCRIPT FLUSH only support SYNC|ASYNC option
		SCRIPT EXISTS 4ca238f611c9d0ae4e9a75a5dbac22aedc379801 -> [1]
		SCRIPT FLUSH ASYNC -> +OK
		SCRIPT EXISTS 4ca238f611c9d0ae4e9a75a5dbac22aedc379801 -> [0]
		SCRIPT KILL -> -NOTBUSY No scripts in execution right now.
		SCRIPT DEBUG NO -> +OK
		SCRIPT DEBUG maybe -> -ERR Use SCRIPT DEBUG YES/SYNC/NO
		SCRIPT NOSUCH -> -ERR unknown subcommand 'NOSUCH'. Try SCRIPT HELP.
		EVAL "return redis.pcall('SCRIPT', 'LOAD', 'x')" 0 -> -ERR This Redis command is not allowed from script
	`)
}

// TestScriptCache: scripts that only EVAL has added are removed to make room for others. Scripts
// from SCRIPT LOAD stay.
func TestScriptCache(t *testing.T) {
	h := newHarness(t)
	source := func(i int) string { return fmt.Sprintf("return %d", i) }
	loaded := h.do("SCRIPT", "LOAD", source(-1))
	first := h.do("EVAL", source(0), "0")
	again := h.do("EVAL", source(1), "0")
	for i := 2; i < maxEvaluated+3; i++ {
		h.do("EVAL", source(1), "0") // keeps being used
		h.do("EVAL", source(i), "0")
	}
	n, bytes, evicted := h.env.Scripts.sizes()
	if first != "0" || again != "1" || n != maxEvaluated+1 || evicted != 3 {
		t.Errorf("%d scripts, %d evicted", n, evicted)
	}
	for source, want := range map[string]string{source(-1): "[1]", source(0): "[0]",
		source(1): "[1]", source(2): "[0]"} {
		name := fmt.Sprintf("%x", sha1.Sum([]byte(source)))
		if got := h.do("SCRIPT", "EXISTS", name); got != want {
			t.Errorf("SCRIPT EXISTS of %s: %s, want %s (loaded: %s)", source, got, want, loaded)
		}
	}
	h.do("SCRIPT", "LOAD", source(1))
	h.do("SCRIPT", "FLUSH")
	if n, after, _ := h.env.Scripts.sizes(); n != 0 || after != 0 || bytes == 0 {
		t.Errorf("after a flush %d scripts of %d bytes", n, after)
	}
}

// TestScriptFromDisk: a script finds keys that are only on disk, even if it has not declared them.
func TestScriptFromDisk(t *testing.T) {
	h := newHarness(t)
	h.bare = true
	h.do("SET", "a", "1")
	h.do("RPUSH", "l", "x", "y")
	h.reopen()
	got := h.do("EVAL",
		"return {redis.call('INCR', 'a'), redis.call('LRANGE', 'l', 0, -1), redis.call('DBSIZE')}",
		"0")
	if got != `[2, ["x", "y"], 2]` {
		t.Errorf("reply %s", got)
	}
}

// TestScriptKill: if SCRIPT KILL replies that it has killed a script, the script ends, at whatever
// moment the command came.
func TestScriptKill(t *testing.T) {
	const killed = "-ERR Script killed by user with SCRIPT KILL..."
	const library = "#!lua name=l\nredis.register_function('f', function() return 1 end)"
	tests := []struct{ at, script, said, reply string }{
		{"compile", "while true do end", "+OK", killed},
		{"compile", "return 1", "+OK", killed}, // at the end of a compilation that is short
		{"log",
			"redis.log(redis.LOG_WARNING, 'now') while true do pcall(function() while true do end end) end",
			"+OK", killed},
		{"log", "redis.call('SET', 'k', 1) redis.log(redis.LOG_WARNING, 'now') return 2",
			"-" + string(errUnkillable), "2"},
		{"", "return 3", "-" + string(errNotBusy), "3"},
		{"compile", library, "+OK",
			"-ERR Error registering functions: ERR Script killed by user with FUNCTION KILL."},
		{"", library, "-" + string(errNotBusy), `"l"`},
	}
	for _, tt := range tests {
		h := newHarness(t)
		function, said := tt.script == library, ""
		kill := func() {
			out := &resp.Writer{Proto: 2}
			if err := killScript(&Ctx{Env: h.env, Out: out}, function); err != nil {
				out.Error(err.Error())
			}
			said = strings.TrimSpace(string(out.Buf))
		}
		switch tt.at {
		case "compile":
			h.env.Testing.OnCompile = kill
		case "log":
			h.close()
			h.log = &hookedLog{line: "now", hook: kill}
			h.open()
		}
		call := []string{"EVAL", tt.script, "0"}
		if function {
			call = []string{"FUNCTION", "LOAD", tt.script}
		}
		got := h.do(call...)
		if tt.at == "" {
			kill()
		}
		if !strings.HasPrefix(got, tt.reply) || said != tt.said {
			t.Errorf("%s at %q: SCRIPT KILL said %s, the script %s", tt.script, tt.at, said, got)
		}
	}
}

// hookedLog calls a hook for each log entry that contains a text.
type hookedLog struct {
	line string
	hook func()
}

func (l *hookedLog) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(l.line)) {
		l.hook()
	}
	return len(b), nil
}

// TestScriptStats: the calls of a script count like any other commands. Errors count once.
func TestScriptStats(t *testing.T) {
	h := newHarness(t)
	h.do("RPUSH", "l", "x")
	h.do("CONFIG", "RESETSTAT")
	h.do("EVAL",
		"redis.call('SET', 'k', 1) redis.pcall('INCR', 'l') return redis.call('INCR', 'l')", "0")
	stat := h.env.Stats.PerCommand.of(h.env.Table.Lookup([]byte("incr")))
	if calls, failed := stat.calls.Load(), stat.failed.Load(); calls != 2 || failed != 2 {
		t.Errorf("INCR was called %d times and failed %d times", calls, failed)
	}
	if n := h.env.Stats.Errors.Load(); n != 2 {
		t.Errorf("%d errors", n)
	}
}

// TestScriptCacheIsBounded: scripts that only EVAL has added have a limit of memory, whatever their
// number. The counted bytes are those of the existing scripts.
func TestScriptCacheIsBounded(t *testing.T) {
	h := newHarness(t)
	s := &h.env.Scripts
	for i := range 40 {
		source := "return " + strconv.Itoa(i) +
			strings.Repeat(" or function() return {1, 2, 'a'} end", 5000)
		if got := h.do("EVAL", source, "0"); got != strconv.Itoa(i) {
			t.Fatalf("EVAL: %.100s", got)
		}
		if _, bytes, _ := s.sizes(); bytes > maxEvaluatedBytes {
			t.Fatalf("%d bytes of scripts", bytes)
		}
	}
	n, bytes, evicted := s.sizes()
	if n+int(evicted) != 40 || evicted == 0 {
		t.Errorf("%d are kept, %d were evicted", n, evicted)
	}
	sum := int64(0)
	for _, script := range s.mu.by {
		sum += script.bytes()
	}
	if sum != bytes {
		t.Errorf("%d bytes are counted, there are %d", bytes, sum)
	}
	if got := h.do("EVALSHA", "abc", "x",
		"y"); got != "-NOSCRIPT No matching script. Please use EVAL." {
		t.Errorf("no digest: %s", got)
	}
	h.do("SCRIPT", "FLUSH")
	if n, bytes, _ := s.sizes(); n != 0 || bytes != 0 {
		t.Errorf("%d scripts of %d bytes after SCRIPT FLUSH", n, bytes)
	}
}

// TestLoadedProgramsAreBounded: with maxmemory, stored scripts and libraries take no more than
// their share of it. INFO counts them.
func TestLoadedProgramsAreBounded(t *testing.T) {
	h := newHarness(t)
	const limit = 4 << 20
	h.do("CONFIG", "SET", "maxmemory", strconv.Itoa(limit))
	source := func(i int) string {
		return "return " + strconv.Itoa(i) + strings.Repeat(" or {1, 2, 'a'}", 500)
	}
	library := func(i int) string {
		return fmt.Sprintf("#!lua name=lib%d\nredis.register_function('f%d', function() %s end)",
			i, i, source(i))
	}
	fill := func(call func(i int) string) (n int) {
		t.Helper()
		for ; n < limit/1000; n++ {
			if got := call(n); got == "-"+string(errOOM) {
				break
			} else if got[0] == '-' {
				t.Fatal(got)
			}
		}
		s := &h.env.Scripts
		if taken := s.loaded() + s.functions.totalBytes(); taken > limit/programShare ||
			taken < limit/programShare/2 {
			t.Errorf("%d bytes are taken when the first is refused", taken)
		}
		return n
	}
	n := fill(func(i int) string { return h.do("SCRIPT", "LOAD", source(i)) })
	info := h.do("INFO", "memory")
	if want := fmt.Sprintf("number_of_cached_scripts:%d", n); !strings.Contains(info, want) {
		t.Errorf("INFO has no %s: %s", want, info)
	}
	if want := fmt.Sprintf("used_memory_scripts_eval:%d",
		h.env.Scripts.loaded()); !strings.Contains(info, want) {
		t.Errorf("INFO has no %s: %s", want, info)
	}
	if got := h.do("EVAL", source(n), "0"); got != strconv.Itoa(n) { // it makes room for others
		t.Errorf("EVAL: %s", got)
	}
	if got := h.do("SCRIPT", "LOAD", source(0)); got[0] == '-' { // it is there
		t.Errorf("SCRIPT LOAD of a script that is loaded: %s", got)
	}
	if got := h.do("FUNCTION", "LOAD", library(0)); got != "-"+string(errOOM) {
		t.Errorf("FUNCTION LOAD: %s", got)
	}
	h.do("SCRIPT", "FLUSH")
	fill(func(i int) string { return h.do("FUNCTION", "LOAD", library(i)) })
	if got := h.do("FUNCTION", "DELETE", "lib0"); got != "+OK" {
		t.Errorf("FUNCTION DELETE: %s", got)
	}
	h.do("CONFIG", "SET", "maxmemory", "0")
	for i := range n * 2 {
		if got := h.do("SCRIPT", "LOAD", source(i)); got[0] == '-' {
			t.Fatalf("SCRIPT LOAD without maxmemory: %s", got)
		}
	}
}

// TestScriptEmitsNoEnd: messages to other clients wait until the script ends. Their memory is
// limited, however they are made. Messages from before that limit are sent.
func TestScriptEmitsNoEnd(t *testing.T) {
	const most = 1 << 20
	for name, c := range map[string]struct{ before, call string }{
		"publish":    {"SUBSCRIBE ch", "'PUBLISH', 'ch', ARGV[1]"},
		"short":      {"SUBSCRIBE ch", "'PUBLISH', 'ch', 'x'"},
		"pattern":    {"PSUBSCRIBE c*", "'PUBLISH', 'ch', ARGV[1]"},
		"monitor":    {"MONITOR", "'GET', ARGV[1]"},
		"broadcasts": {"CLIENT TRACKING on BCAST", "'SET', KEYS[1], i"},
		"events":     {"PSUBSCRIBE __key*", "'SET', KEYS[1], i"},
	} {
		t.Run(name, func(t *testing.T) {
			cs := newCachers(t)
			cs.env.Testing.maxEmitted = most
			cs.run("config notify-keyspace-events KEA")
			cs.client = cs.clients["b"]
			cs.ctx.Client = cs.client
			cs.do(strings.Fields(c.before)...)
			cs.client = cs.clients["a"]
			cs.ctx.Client = cs.client
			script := `local n = 0
				for i = 1, 100000 do
					local r = redis.pcall(` + c.call + `)
					if type(r) == 'table' and r.err then return {n, r.err} end
					n = n + 1
				end
				return n`
			got := cs.do("EVAL", script, "1", "k", strings.Repeat("m", 10_000))
			if !strings.Contains(got, "wait for the end of the script") {
				t.Fatalf("reply %s", got)
			}
			if root := &cs.ctx; root.emits > most+most/4 {
				t.Errorf("%d bytes wait", root.emits)
			}
			cs.ctx.RunEmitted()
			cs.env.Changes.Deliver()
			cs.env.Tracking.Broadcast()
			if got := cs.do("EVAL", "return redis.call('PUBLISH', 'other', 'x')", "0"); got != "0" {
				t.Errorf("the next script: %s", got)
			}
		})
	}
}

// TestScriptKilledAtItsEnd: if SCRIPT KILL replies that it has killed a script, the script's reply
// says so, even if it had already ended.
func TestScriptKilledAtItsEnd(t *testing.T) {
	h := newHarness(t)
	c, said := &Ctx{Env: h.env, Client: h.client, Out: &resp.Writer{Proto: 2},
		Txn: h.store.NewTxn()}, &resp.Writer{Proto: 2}
	newCompilation(c, false).run(errBusyScript, func() {
		c.Out.Int(3)
		if err := killScript(&Ctx{Env: h.env, Out: said}, false); err != nil {
			t.Error(err)
		}
	})
	if got := string(c.Out.Buf); string(said.Buf) != "+OK\r\n" ||
		got != "-ERR Script killed by user with SCRIPT KILL...\r\n" {
		t.Errorf("SCRIPT KILL said %q, the script %q", said.Buf, got)
	}
}
