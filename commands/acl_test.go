package commands

import (
	"strings"
	"testing"
)

func TestACL(t *testing.T) {
	h := newHarness(t)
	h.run(`
		ACL WHOAMI -> "default"
		ACL WHOAMI x -> -ERR wrong number of arguments for 'acl|whoami' command
		ACL USERS -> ["default"]
		ACL LIST -> ["user default on nopass sanitize-payload ~* &* +@all"]
		ACL GETUSER default -> ["flags", ["on", "nopass", "sanitize-payload"], "passwords", [], "commands", "+@all", "keys", "~*", "channels", "&*", "selectors", []]
		ACL GETUSER nosuch -> nil
		ACL CAT foo -> -ERR Unknown category 'foo'
		ACL CAT a b -> -ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.
		ACL CAT HYPERLOGLOG -> ["pfadd", "pfcount", "pfmerge", "pfdebug", "pfselftest"]
		ACL DELUSER foo bar -> 0
		ACL DELUSER foo default -> -ERR The 'default' user cannot be removed
		ACL DRYRUN default GET k -> +OK
		ACL DRYRUN default GET -> -ERR wrong number of arguments for 'get' command
		ACL DRYRUN default config get -> -ERR wrong number of arguments for 'config|get' command
		ACL DRYRUN default nosuch -> -ERR Command 'nosuch' not found
		ACL DRYRUN default config nosuch -> -ERR Command 'config' not found
		ACL DRYRUN nosuch GET k -> -ERR User 'nosuch' not found
		ACL GENPASS x -> -ERR value is not an integer or out of range
		ACL GENPASS 0 -> -ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096
		ACL GENPASS 4097 -> -ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096
		config requirepass foobar
		ACL LIST -> ["user default on sanitize-payload #c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2 ~* &* +@all"]
		proto 3
		ACL GETUSER default -> {"flags": ~["on", "sanitize-payload"], "passwords": ["c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2"], "commands": "+@all", "keys": "~*", "channels": "&*", "selectors": []}
		proto 2
	`)
	if got := h.do("ACL", "CAT"); !strings.HasPrefix(got, `["keyspace", "read", "write", `) {
		t.Errorf("categories %s", got)
	}
	if got := h.do("ACL", "CAT", "connection"); !strings.Contains(got, `"client|id"`) ||
		strings.Contains(got, `"get"`) {
		t.Errorf("commands of connection: %s", got)
	}
	for bits, digits := range map[string]int{"1": 1, "5": 2, "256": 64, "4096": 1024} {
		first, second := h.do("ACL", "GENPASS", bits), h.do("ACL", "GENPASS", bits)
		if len(first) != digits+len(`""`) || digits > 2 && first == second {
			t.Errorf("ACL GENPASS %s: %s, then %s", bits, first, second)
		}
	}
}

// describe returns the rules of a new user after SETUSER, without the rules that all users have.
func (h *harness) describe(rules ...string) string {
	h.t.Helper()
	h.do("ACL", "DELUSER", "alice")
	if got := h.do(append([]string{"ACL", "SETUSER", "alice"}, rules...)...); got != "+OK" {
		return got
	}
	return strings.Join(h.env.users.find([]byte("alice")).now.Load().words(), " ")
}

func TestACLRules(t *testing.T) {
	const none = "off sanitize-payload resetchannels -@all"
	const hash = "#c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2" // of foobar
	failed := func(rule, why string) string {
		return "-ERR Error in ACL SETUSER modifier '" + rule + "': " + why
	}
	h := newHarness(t)
	for _, tt := range []struct{ rules, want string }{
		{"", none},
		{"ON", "on sanitize-payload resetchannels -@all"},
		{"on nopass", "on nopass sanitize-payload resetchannels -@all"},
		{"nopass >foobar", "off sanitize-payload " + hash + " resetchannels -@all"},
		{">foobar >foobar " + hash, "off sanitize-payload " + hash + " resetchannels -@all"},
		{">foobar nopass", "off nopass sanitize-payload resetchannels -@all"},
		{">foobar <foobar", none},
		{hash + " !" + hash[1:], none},
		{">foobar resetpass", none},
		{"<foobar", failed("<(redacted)", string(errRuleNoPass))},
		{"#foobar", failed("#(redacted)", string(errRuleHash))},
		{strings.ToUpper(hash), failed("#(redacted)", string(errRuleHash))},
		{"!" + hash[2:] + "g", failed("!(redacted)", string(errRuleHash))},
		{"skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all"},
		{"skip-sanitize-payload sanitize-payload", none},

		{"~a ~b* ~a", "off sanitize-payload ~a ~b* resetchannels -@all"},
		{"%R~a %w~b %RW~c %WR~d", "off sanitize-payload %R~a %W~b ~c ~d resetchannels -@all"},
		{"%R~a %W~a %R~b ~b", "off sanitize-payload ~a ~b resetchannels -@all"},
		{"%RR~a", failed("%RR~a", "Syntax error")},
		{"%X~a", failed("%X~a", "Syntax error")},
		{"%~a", failed("%~a", "Syntax error")},
		{"%", failed("%", "Syntax error")},
		{"~a ~*", "off sanitize-payload ~* resetchannels -@all"},
		{"allkeys ~a", failed("~a", string(errRuleKeys))},
		{"allkeys resetkeys ~a", "off sanitize-payload ~a resetchannels -@all"},

		{"&a &b &a", "off sanitize-payload resetchannels &a &b -@all"},
		{"&a allchannels", "off sanitize-payload &* -@all"},
		{"&* &a", failed("&a", string(errRuleChannels))},
		{"&* resetchannels &a", "off sanitize-payload resetchannels &a -@all"},

		{"+GET +get -get", none + " -get"},
		{"+get +set", none + " +get +set"},
		{"+get +set +get", none + " +set +get"},
		{"+@read -@write", none + " +@read -@write"},
		{"allcommands -@write", "off sanitize-payload resetchannels +@all -@write"},
		{"+@all -@hash -@slow +hget -@hash",
			"off sanitize-payload resetchannels +@all -@slow +hget -@hash"},
		{"+@all -@hash -@slow +hget +@hash",
			"off sanitize-payload resetchannels +@all -@slow +hget +@hash"},
		{"+@all -get nocommands", none},
		{"+config|get +config|set", none + " +config|get +config|set"},
		{"+config|get -config +config|set", none + " -config +config|set"},
		{"+config -config|set", none + " +config -config|set"},
		{"-client|kill +client|kill", none + " +client|kill"},
		{"+select|0 +SELECT|1 +select|0", none + " +select|1 +select|0"},
		{"+select|0 +select", none + " +select"},
		{"+nosuch", failed("+nosuch", string(errRuleCommand))},
		{"+@nosuch", failed("+@nosuch", string(errRuleCommand))},
		{"+@", failed("+@", string(errRuleCommand))},
		{"+", failed("+", string(errRuleCommand))},
		{"-select|0", failed("-select|0", string(errRuleCommand))},
		{"+config|nosuch", failed("+config|nosuch", string(errRuleCommand))},
		{"+config|set|maxmemory", failed("+config|set|maxmemory", string(errRuleFirstArg))},
		{"+select|", failed("+select|", "Syntax error")},
		{"+nosuch|", failed("+nosuch|", string(errRuleCommand))},

		{"(+get ~a) (%R~b &c)", none +
			" (~a resetchannels -@all +get) (%R~b resetchannels &c -@all)"},
		{"(+get ~a) clearselectors", none},
		{"(+get on)", failed("(+get on)", "Syntax error")},
		{"(~* ~a)", failed("(~* ~a)", string(errRuleKeys))},
		{"( ) x", failed("x", "Syntax error")},
		{"(+get ~a", "-ERR Unmatched parenthesis in acl selector starting at '(+get'."},
		{"(>secret x)", failed("(>(redacted) x)", "Syntax error")},
		{"on >foobar ~* &* +@all (+get) reset", none},
		{"foo", failed("foo", "Syntax error")},
		// SETUSER applies all rules or none.
		{"on nopass foo", failed("foo", "Syntax error")},
	} {
		if got := h.describe(strings.Fields(tt.rules)...); got != tt.want {
			t.Errorf("%s:\n  %s\nwant\n  %s", tt.rules, got, tt.want)
		}
		if strings.HasPrefix(tt.want, "-") && h.env.users.find([]byte("alice")) != nil {
			t.Errorf("%s: the user is there although a rule was refused", tt.rules)
		}
	}
	h.run(`
		ACL SETUSER "a b" -> -ERR Usernames can't contain spaces or null characters
		ACL SETUSER "a\x00b" -> -ERR Usernames can't contain spaces or null characters
		ACL SETUSER bob "~a b" -> -ERR Error in ACL SETUSER modifier '~a b': Syntax error
		ACL SETUSER bob on ~x +get -> +OK
		ACL SETUSER bob ~y foo -> -ERR Error in ACL SETUSER modifier 'foo': Syntax error
		ACL SETUSER bob "" -> +OK
		ACL GETUSER bob -> ["flags", ["on", "sanitize-payload"], "passwords", [], "commands", "-@all +get", "keys", "~x", "channels", "", "selectors", []]
		ACL SETUSER bob (%R~z +set) -> +OK
		proto 3
		ACL GETUSER bob -> {"flags": ~["on", "sanitize-payload"], "passwords": [], "commands": "-@all +get", "keys": "~x", "channels": "", "selectors": [{"commands": "-@all +set", "keys": "%R~z", "channels": ""}]}
		proto 2
		config acl-pubsub-default allchannels
		ACL SETUSER carol (+get) -> +OK
		ACL LIST -> ["user bob on sanitize-payload ~x resetchannels -@all +get (%R~z resetchannels -@all +set)", "user carol off sanitize-payload &* -@all (&* -@all +get)", "user default on nopass sanitize-payload ~* &* +@all"]
		ACL SETUSER bob reset -> +OK
		ACL DELUSER carol nosuch bob -> 2
		ACL USERS -> ["default"]
	`)
}

func TestACLChecks(t *testing.T) {
	const keyRefused = "-NOPERM No permissions to access a key"
	const channelRefused = "-NOPERM No permissions to access a channel"
	refused := func(command string) string {
		return "-NOPERM User alice has no permissions to run the '" + command + "' command"
	}
	h := newHarness(t)
	for _, tt := range []struct{ rules, command, want string }{
		{"+get ~*", "get k", "nil"},
		{"+get ~*", "set k v", refused("set")},
		{"+get ~*", "config get x", refused("config|get")},
		{"+get ~*", "nosuch", "-ERR unknown command 'nosuch', with args beginning with: "},
		{"+get ~*", "get", "-ERR wrong number of arguments for 'get' command"},
		{"", "ping", refused("ping")},
		{"", "reset", "+RESET"},
		{"", "quit", "+OK"},
		{"", "auth x y", "-WRONGPASS invalid username-password pair or user is disabled."},
		{"+@all", "get k", keyRefused},
		{"+@all", "ping", "+PONG"},
		{"+@all ~a*", "mget a ab", "[nil, nil]"},
		{"+@all ~a*", "mget a b", keyRefused},
		{"+@all ~a*", "eval 'return 1' 1 b", keyRefused},
		{"+@all ~a*", "eval 'return 1' 1 a", "1"},
		{"+@all ~a*", "eval 'return 1' 9 b",
			"-ERR Number of keys can't be greater than number of args"},
		{"+@all %R~a %W~b", "get a", "nil"},
		{"+@all %R~a %W~b", "get b", keyRefused},
		{"+@all %R~a %W~b", "set a 1", keyRefused},
		{"+@all %R~a %W~b", "set b 1", "+OK"},
		{"+@all %R~a %W~b", "set b 1 get", keyRefused},
		{"+@all %R~a %W~b", "set b 1 ifeq 2", keyRefused},
		{"+@all %R~a %W~b", "del b", "0"},
		{"+@all %R~a %W~b", "del a", keyRefused},
		{"+@all %R~a %W~b", "delex b", "0"},
		{"+@all %R~a %W~b", "delex b ifeq x", keyRefused},
		{"+@all %R~a %W~b", "incr b", keyRefused},
		{"+@all %R~a %W~b", "getset b x", keyRefused},
		{"+@all %R~a %W~b", "exists a b", "0"}, // whether a key is there is not its value
		{"+@all %R~a %W~b", "exists a b c", keyRefused},
		{"+@all %R~a %W~b", "copy a b", "0"},
		{"+@all %R~a %W~b", "copy b a", keyRefused},
		{"+@all %R~a %W~b", "zunionstore b 1 a", "0"},
		{"+@all %R~a %W~b", "zunionstore b 1 b", keyRefused},
		{"+@all %R~a %W~b", "zunionstore a 1 a", keyRefused},
		{"+@all %R~a %W~b", "object encoding b", "nil"},
		{"+@all ~b", "move b 1", "0"},
		{"+@all ~l", "sort l by w_*",
			"-ERR BY option of SORT denied due to insufficient ACL permissions."},
		{"+@all ~l", "sort l by nosort", "[]"},
		{"+@all ~l", "sort l get #",
			"-ERR GET option of SORT denied due to insufficient ACL permissions."},
		{"+@all ~l %R~*", "sort l by w_* get #", "[]"},
		{"+@all ~l %W~*", "sort l by w_*",
			"-ERR BY option of SORT denied due to insufficient ACL permissions."},
		{"+@all ~l", "sort l store m", keyRefused},
		{"+@all ~a*", "keys *", "[]"},
		{"+@all ~a*", "publish c m", channelRefused},
		{"+@all &c*", "publish cc m", "0"},
		{"+@all &c*", "spublish d m", channelRefused},
		{"+@all &c*", "subscribe cc", `["subscribe", "cc", 1]`},
		{"+@all &c*", "subscribe cc d", channelRefused},
		{"+@all &c*", "ssubscribe d", channelRefused},
		{"+@all &c*", "psubscribe c*", `["psubscribe", "c*", 1]`},
		{"+@all &c*", "psubscribe cc*", channelRefused},
		{"+@all", "unsubscribe d", `["unsubscribe", "d", 0]`},
		{"+@all", "pubsub channels", "[]"},
		{"+config|get", "config get nosuch", "[]"},
		{"+config|get", "config set x y", refused("config|set")},
		{"+config -config|set", "config set x y", refused("config|set")},
		{"+@all -config", "config get x", refused("config|get")},
		{"+select|0", "select 0", "+OK"},
		{"+select|0", "select 1", refused("select")},
		{"+@all -select +select|1", "select 0", refused("select")},
		{"+@all -select +select|1", "select 1", "+OK"},
		{"+@read ~*", "get k", "nil"},
		{"+@read ~*", "set k v", refused("set")},
		{"+@all -@dangerous ~*", "flushall", refused("flushall")},
		{"+get ~a (+set ~b) (+@hash ~c)", "get a", "nil"},
		{"+get ~a (+set ~b) (+@hash ~c)", "get b", keyRefused},
		{"+get ~a (+set ~b) (+@hash ~c)", "set b v", "+OK"},
		{"+get ~a (+set ~b) (+@hash ~c)", "hget c f", "nil"},
		{"+get ~a (+set ~b) (+@hash ~c)", "hget a f", keyRefused},
		{"+get ~a (+set ~b) (+@hash ~c)", "ping", refused("ping")},
		{"+publish &a (+get ~*)", "publish b m", channelRefused},
		{"+@all ~a", "eval 'return redis.call(\"get\",\"a\")' 0", "nil"},
		{"+@all ~a", "eval 'return redis.call(\"get\",\"b\")' 0",
			"-ERR ACL failure in script: No permissions to access a key script: …"},
		{"+eval", "eval 'return redis.pcall(\"ping\")' 0",
			"-ERR ACL failure in script: User alice has no permissions to run the 'ping' command"},
		{"+eval", "eval 'return redis.acl_check_cmd(\"ping\") and 1 or 2' 0", "2"},
		{"+eval +get ~a", "eval 'return redis.acl_check_cmd(\"get\",\"a\") and 1 or 2' 0", "1"},
		{"+eval +get ~a", "eval 'return redis.acl_check_cmd(\"get\",\"b\") and 1 or 2' 0", "2"},
	} {
		h.do("RESET")
		h.do("FLUSHALL")
		if got := h.describe(strings.Fields(tt.rules)...); got[0] == '-' {
			t.Fatalf("%s: %s", tt.rules, got)
		}
		h.run("user alice")
		got, want := h.runOne(tt.command), tt.want
		if start, open := strings.CutSuffix(want, "…"); open && strings.HasPrefix(got, start) {
			want = got
		}
		if got != want {
			t.Errorf("%s: %s:\n  %s\nwant\n  %s", tt.rules, tt.command, got, want)
		}
	}
}

// TestACLKeyCounts: if a command's number of keys is invalid, the ACL checks no keys, because the
// command fails. The test checks that all such commands fail.
func TestACLKeyCounts(t *testing.T) {
	h := newHarness(t)
	h.run(`
		SET a 1 -> +OK
		FUNCTION LOAD "#!lua name=l\nredis.register_function('x', function(keys) return 1 end)" -> "l"
	`)
	checked := 0
	for _, spec := range h.env.Table.specs {
		for _, ks := range spec.named {
			if !ks.Num {
				continue
			}
			checked++
			for _, count := range []string{"9", "02", "-1", "x", "", " 1", "1.0",
				"18446744073709551617"} {
				call := strings.Split(spec.full, "|")
				for len(call) < ks.Begin {
					call = append(call, "x")
				}
				if spec.full == "eval" || spec.full == "eval_ro" {
					call[1] = "return 1"
				}
				if strings.HasPrefix(spec.full, "b") { // the time to wait
					call[1] = "0.01"
				}
				call = append(call, count, "a", "LEFT")
				args := byteArgs(call...)
				if ks.counts(args) {
					t.Errorf("%q: the number of keys counts", call)
				}
				if got := h.do(call...); got[0] != '-' {
					t.Errorf("%q: %s", call, got)
				}
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d commands have a number of keys", checked)
	}
}
