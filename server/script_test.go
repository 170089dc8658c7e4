package server

import (
	"strconv"
	"strings"
	"testing"

	"keyp/internal/rdb"
	"keyp/internal/testkit/await"
)

// busyServer starts a server that replies -BUSY to other clients soon after a script begins.
func busyServer(t *testing.T) *testServer {
	t.Helper()
	return start(t, "busy-reply-threshold=20")
}

// waitBusy sends commands until the server is busy, and returns its reply then.
func waitBusy(t *testing.T, c *client) string {
	t.Helper()
	got := ""
	await.Until(t, "the server is busy", func() bool {
		got = c.do("PING")
		return strings.HasPrefix(got, "-BUSY")
	})
	return got
}

const busyScript = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."

// TestScriptBusy: while a script runs for too long, other clients get -BUSY and can kill it. Then
// all clients go on.
func TestScriptBusy(t *testing.T) {
	ts := busyServer(t)
	script, other := ts.dial(), ts.dial()
	script.raw(multibulk("EVAL", "while true do end", "0"))
	if got := waitBusy(t, other); got != busyScript {
		t.Errorf("others hear %s", got)
	}
	waiting := ts.dial()
	waiting.send("PING\n")
	waiting.expect(busyScript)
	other.send("FUNCTION KILL\n")
	other.expect(busyScript)
	other.send("FUNCTION STATS\n")
	other.expect(busyScript)
	other.send("SCRIPT KILL\n")
	other.expect("+OK")
	if got := script.reply(); !strings.HasPrefix(got,
		"-ERR Script killed by user with SCRIPT KILL...") {
		t.Errorf("the script replies %s", got)
	}
	other.send("SET k v\nGET k\nSCRIPT KILL\n")
	other.expect("+OK", "v", "-NOTBUSY No scripts in execution right now.")
}

// TestScriptUnkillable: a script that has written cannot be killed, and runs to its end.
func TestScriptUnkillable(t *testing.T) {
	ts := busyServer(t)
	script, other := ts.dial(), ts.dial()
	// On a busy machine the server may serve other clients only when the script has ended.
	unkillable := false
	for n := 1_000_000; !unkillable; n *= 4 {
		other.do("DEL k")
		script.raw(multibulk("EVAL",
			"redis.call('SET', 'k', 'v') local n = 0 while n < tonumber(ARGV[1]) do n = n + 1 end return n",
			"0", strconv.Itoa(n)))
		await.Until(t, "it has written", func() bool {
			got := other.do("GET k")
			return strings.HasPrefix(got, "-BUSY") || got == "v"
		})
		got := other.do("SCRIPT KILL")
		if got == "+OK" {
			// The script's first command came so late that other clients were refused before it.
			if got = script.reply(); !strings.HasPrefix(got, "-ERR Script killed by user") {
				t.Fatalf("a killed script replies %s", got)
			}
			if got = other.do("EXISTS k"); got != ":0" {
				t.Fatalf("a script was killed that had written: %s", got)
			}
			continue
		}
		unkillable = strings.HasPrefix(got, "-UNKILLABLE ")
		if !unkillable && !strings.HasPrefix(got, "-NOTBUSY ") {
			t.Fatalf("SCRIPT KILL: %s", got)
		}
		script.expect(":" + strconv.Itoa(n))
		other.send("GET k\n")
		other.expect("v")
	}
}

// TestFunctionKill: a function that runs for too long can be killed, too.
func TestFunctionKill(t *testing.T) {
	ts := busyServer(t)
	script, other := ts.dial(), ts.dial()
	script.raw(multibulk("FUNCTION", "LOAD",
		"#!lua name=lib\nredis.register_function('f', function() while true do end end)"))
	script.expect("lib")
	script.send("FCALL f 0\n")
	want :=
		"-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
	if got := waitBusy(t, other); got != want {
		t.Errorf("others hear %s", got)
	}
	other.send("SCRIPT KILL\n")
	other.expect(want)
	other.send("FUNCTION STATS\n")
	if got := other.reply(); !strings.Contains(got,
		"running_script *6 name f command *3 FCALL f 0 duration_ms :") {
		t.Errorf("FUNCTION STATS: %s", got)
	}
	other.send("FUNCTION KILL\n")
	other.expect("+OK")
	if got := script.reply(); !strings.HasPrefix(got,
		"-ERR Script killed by user with FUNCTION KILL.") {
		t.Errorf("the function replies %s", got)
	}
	script.send("FCALL f x\n")
	script.expect("-ERR Bad number of keys provided")
}

// TestScriptsBeside runs scripts of many connections at once, with pipelines. Each script is
// atomic, and replies come in order.
func TestScriptsBeside(t *testing.T) {
	ts := start(t)
	const connections, rounds = 8, 40
	plain :=
		"local n = redis.call('INCR', KEYS[1]) redis.call('SET', KEYS[2], n) return redis.call('GET', KEYS[2]) == tostring(n)"
	calling :=
		"local function f() local n = redis.call('INCR', KEYS[1]) redis.call('SET', KEYS[2], n) return redis.call('GET', KEYS[2]) == tostring(n) end return f()"
	done := make(chan string, connections)
	for i := range connections {
		c := ts.dial()
		go func() {
			input := ""
			for n := range rounds {
				source := plain
				if (n+i)%2 == 0 {
					source = calling
				}
				input += multibulk("EVAL", source, "2", "n", "copy") + multibulk("GET", "n")
			}
			if _, err := c.Write([]byte(input)); err != nil {
				done <- err.Error()
				return
			}
			for range rounds {
				for _, want := range []string{":1", ""} {
					got, err := readReply(c.r)
					if err != nil || want != "" && got != want {
						done <- "reply " + got
						return
					}
				}
			}
			done <- ""
		}()
	}
	for range connections {
		if problem := await.For(t, "a client ends", done); problem != "" {
			t.Error(problem)
		}
	}
	c := ts.dial()
	c.send("GET n\n")
	c.expect("320")
}

// TestCompileBeside: while a program is compiled other clients are served, and compiling can be
// ended. In this test the compiler waits until the other clients have been served.
func TestCompileBeside(t *testing.T) {
	ts := start(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	ts.onLoop(func(l *loop) {
		l.env.Testing.OnCompile = func() {
			began <- struct{}{}
			<-goOn
		}
	})
	program := strings.Repeat("local _ = 'a' do local _ = {} end ", 60) + strings.Repeat("a = 1 ",
		20000) + "return 1 "
	library := "redis.register_function('f', function() return 1 end)"
	for i, tt := range []struct{ call, kill, reply, killed string }{
		{"EVAL", "SCRIPT KILL", ":1",
			"-ERR Error compiling script (new function): Script killed by user with SCRIPT KILL..."},
		{"LOAD", "SCRIPT KILL", "",
			"-ERR Error compiling script (new function): Script killed by user with SCRIPT KILL..."},
		{"FUNCTION", "FUNCTION KILL", "lib",
			"-ERR Error compiling function: Script killed by user with FUNCTION KILL."},
		{"RESTORE", "FUNCTION KILL", "+OK",
			"-ERR Error compiling function: Script killed by user with FUNCTION KILL."},
		{"EXEC", "SCRIPT KILL", "*1 :1",
			"*1 -ERR Error compiling script (new function): Script killed by user with SCRIPT KILL..."},
	} {
		for _, kill := range []bool{true, false} {
			compiler, other := ts.dial(), ts.dial()
			source := strings.Repeat(" ", i) + "local a " + program
			functions := "#!lua name=lib\nlocal a " + strings.Replace(program, "return 1 ", library,
				1)
			switch tt.call {
			case "EVAL":
				compiler.raw(multibulk("EVAL", source, "0"))
			case "LOAD":
				compiler.raw(multibulk("SCRIPT", "LOAD", source))
			case "FUNCTION":
				compiler.raw(multibulk("FUNCTION", "LOAD", "REPLACE", functions))
			case "RESTORE":
				compiler.raw(multibulk("FUNCTION", "RESTORE",
					string(rdb.EncodeLibraries([]string{functions})), "REPLACE"))
			case "EXEC":
				compiler.raw(multibulk("MULTI") + multibulk("EVAL", source, "0"))
				compiler.expect("+OK", "+QUEUED")
				compiler.raw(multibulk("EXEC"))
			}
			await.For(t, "the compiler begins", began)
			other.send("SET k v\nGET k\n")
			other.expect("+OK", "v")
			want := tt.reply
			if kill {
				other.send(tt.kill + "\n")
				other.expect("+OK")
				want = tt.killed
			}
			goOn <- struct{}{}
			if got := compiler.reply(); want != "" && got != want {
				t.Errorf("%s, killed %t: %s, want %s", tt.call, kill, got, want)
			}
		}
	}
}
