package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ownDocs maps the commands whose documentation differs from that of redis-server 7.0.15 to the
// reason.
var ownDocs = map[string]string{
	"client|setinfo":          "from 7.2",
	"client|no-touch":         "from 7.2",
	"set":                     "IFEQ, IFNE, IFDEQ and IFDNE, from 8.4",
	"bitop":                   "DIFF, DIFF1, ANDOR and ONE, from 8.2",
	"digest":                  "from 8.4",
	"delex":                   "from 8.4",
	"msetex":                  "from 8.4",
	"client|kill":             "MAXAGE, from 7.4",
	"command|getkeys":         "7.0.15 forgets the arguments",
	"command|getkeysandflags": "7.0.15 forgets the arguments",
	"ttl":                     "a member, as KeyDB has it",
	"pttl":                    "likewise",
	"persist":                 "likewise",
	"expiremember":            "KeyDB's",
	"keyp.untimed":            "Keyp's own",
	"keyp.expiring":           "likewise",
	"keyp.timeline":           "likewise",
	"keyp.limit":              "likewise",
	"keyp.lease":              "likewise",
	"keyp.delay":              "likewise",
	"cl.throttle":             "redis-cell's",
	"keyp.policy":             "likewise",
	"keyp.clock":              "likewise",
	"keyp.backup":             "likewise",
	"keyp.outbox":             "likewise",
	"expirememberat":          "likewise",
	"pexpirememberat":         "likewise",
	"hscan":                   "NOVALUES, from 7.4",
	"hexpire":                 "from 7.4",
	"hpexpire":                "from 7.4",
	"hexpireat":               "from 7.4",
	"hpexpireat":              "from 7.4",
	"httl":                    "from 7.4",
	"hpttl":                   "from 7.4",
	"hexpiretime":             "from 7.4",
	"hpexpiretime":            "from 7.4",
	"hpersist":                "from 7.4",
	"hgetex":                  "from 8.0",
	"hsetex":                  "from 8.0",
	"hgetdel":                 "from 8.0",
	"zrank":                   "WITHSCORE, from 7.2",
	"zrevrank":                "likewise",
	"zunion":                  "COUNT, from 8.8",
	"increx":                  "from 8.8",
	"lmovem":                  "from 8.10",
	"blmovem":                 "from 8.10",
	"sunioncard":              "from 8.10",
	"sdiffcard":               "from 8.10",
	"himport":                 "from 8.10",
	"hotkeys":                 "from 8.6",
	"zunionstore":             "likewise",
	"zinter":                  "likewise",
	"zinterstore":             "likewise",
	"waitaof":                 "from 7.2",
	"xadd":                    "KEEPREF and the like, from 8.2, IDMP and IDMPAUTO, from 8.6",
	"xtrim":                   "likewise",
	"xread":                   "MAXCOUNT and MAXSIZE, from 8.10",
	"xreadgroup":              "CLAIM, from 8.4, MAXCOUNT and MAXSIZE, from 8.10",
	"xdelex":                  "from 8.2",
	"xackdel":                 "from 8.2",
	"xcfgset":                 "from 8.6",
	"xidmprecord":             "from 8.6",
	"xnack":                   "from 8.8",
	"cluster|found":           "Redis has no such command",
	"cluster|myshardid":       "from 7.2",
	"debug|help":              "Redis documents nothing of DEBUG",
	"debug|clock-offset":      "likewise",
	"debug|compact":           "likewise",
	"debug|sleep":             "likewise",
	"debug|set-active-expire": "likewise",
	"debug|object":            "likewise",
	"debug|panic":             "likewise",
	"debug|error":             "likewise",
	"debug|stringmatch-len":   "likewise",
	"debug|protocol":          "likewise",
	"debug|digest":            "likewise",
	"debug|digest-value":      "likewise",
	"debug|reload":            "likewise",
	"debug|loadaof":           "likewise",
	"debug|htstats":           "likewise",
	"debug|sdslen":            "likewise",
	"debug|change-repl-id":    "likewise",
	"debug|jmap":              "likewise",
}

// bothRESP3 is bothServers with connections that speak RESP3.
func bothRESP3(t *testing.T) *both {
	t.Helper()
	s := bothServers(t)
	for _, side := range s.sides() {
		s.mustDo(t, side, "HELLO", "3")
	}
	return s
}

// TestDiffCommandDocs: version, group and argument grammar of every command are those of Redis.
// Summaries and complexities have our own words, but exist.
func TestDiffCommandDocs(t *testing.T) {
	t.Parallel()
	s := bothRESP3(t)
	names := s.mustDo(t, s.keyp, "COMMAND", "LIST").texts()
	if len(names) < 100 {
		t.Errorf("COMMAND LIST has %d names", len(names))
	}
	for _, name := range names {
		if strings.Contains(name, "|") {
			continue // with their containers
		}
		keyp := s.mustDo(t, s.keyp, "COMMAND", "DOCS", name).fields()
		redis := s.mustDo(t, s.redis, "COMMAND", "DOCS", name).fields()
		compareDocs(t, name, keyp[name], redis[name])
	}
}

func compareDocs(t *testing.T, name string, keyp, redis reply) {
	t.Helper()
	ours, theirs := keyp.fields(), redis.fields()
	if ownDocs[name] != "" {
		return
	}
	if len(theirs) == 0 {
		t.Errorf("%s: Redis has no such command", name)
		return
	}
	for _, field := range []string{"summary", "complexity", "since", "group"} {
		if ours[field].text == "" && theirs[field].text != "" {
			t.Errorf("%s: COMMAND DOCS has no %s", name, field)
		}
	}
	for _, field := range []string{"since", "group"} {
		if ours[field].text != theirs[field].text {
			t.Errorf("%s: %s is %q, in Redis %q", name, field, ours[field].text, theirs[field].text)
		}
	}
	if a, b := grammar(ours["arguments"]), grammar(theirs["arguments"]); a != b {
		t.Errorf("%s: arguments\n%s\nin Redis\n%s", name, a, b)
	}
	subs := theirs["subcommands"].fields()
	for sub, docs := range ours["subcommands"].fields() {
		compareDocs(t, sub, docs, subs[sub])
	}
}

// grammar returns the arguments, one in a line. It leaves out their names, which later versions of
// Redis have changed, and blocks around a single argument.
func grammar(arguments reply) string {
	var b strings.Builder
	for _, arg := range arguments.items {
		f := arg.fields()
		flags, token := f["flags"].texts(), f["token"].text
		for f["type"].text == "block" && len(f["arguments"].items) == 1 {
			f = f["arguments"].items[0].fields()
			flags, token = append(flags, f["flags"].texts()...), token+f["token"].text
		}
		slices.Sort(flags)
		fmt.Fprintf(&b, "%s %q %v key %q", f["type"].text, token, flags, f["key_spec_index"].text)
		if inner, ok := f["arguments"]; ok {
			fmt.Fprintf(&b, " {\n%s}", grammar(inner))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestDiffCommandShape: the replies of COMMAND have the same RESP types at every level.
func TestDiffCommandShape(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	for _, proto := range []string{"2", "3"} {
		for _, side := range s.sides() {
			s.mustDo(t, side, "HELLO", proto)
		}
		for _, args := range [][]string{
			{"COMMAND", "COUNT"},
			{"COMMAND", "INFO", "get", "nosuch", "getset"},
			{"COMMAND", "INFO", "config|get", "getdel"},
			{"COMMAND", "DOCS", "nosuch"},
			{"COMMAND", "GETKEYSANDFLAGS", "GETDEL", "k"},
			{"COMMAND", "LIST", "FILTERBY", "PATTERN", "getd*"},
		} {
			keyp, redis := types(s.mustDo(t, s.keyp, args...)), types(s.mustDo(t, s.redis, args...))
			if keyp != redis {
				t.Errorf("RESP%s %q:\nkeyp  %s\nredis %s", proto, args, keyp, redis)
			}
		}
	}
}

// types returns the shape of a reply: its types without values.
func types(r reply) string {
	if r.null {
		return "null"
	}
	if len(r.items) == 0 {
		return string(r.kind)
	}
	var inner []string
	for _, item := range r.items {
		if shape := types(item); len(inner) == 0 || inner[len(inner)-1] != shape {
			inner = append(inner, shape) // one for all that are alike
		}
	}
	return string(r.kind) + "(" + strings.Join(inner, " ") + ")"
}

// TestDiffGetKeys: the servers find the same keys in invocations, and have the same errors for
// those without keys.
func TestDiffGetKeys(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	for _, line := range []string{
		"GET k", "SET k v EX 5", "MSET a 1 b 2 c 3", "MSETNX a 1", "MGET a b c a", "DEL a b",
		"EXISTS a", "TOUCH a b", "UNLINK a",
		"COPY a b DB 1 REPLACE", "RENAME a b", "RENAMENX a b", "MOVE a 1", "LCS a b IDX",
		"GETRANGE k 0 1", "SETRANGE k 0 v",
		"APPEND k v", "INCR k", "INCRBYFLOAT k 1", "EXPIRE k 5 NX", "PEXPIREAT k 5", "TTL k",
		"PERSIST k", "TYPE k",
		"OBJECT ENCODING k", "OBJECT FREQ k", "MEMORY USAGE k", "GETEX k PERSIST", "SETEX k 1 v",
		"get k", "Object Encoding k",
		"ECHO x", "CONFIG GET x", "SELECT 1", "SWAPDB 0 1", "KEYS *", "SCAN 0", "CLIENT KILL x",
		"NOSUCH k", "OBJECT NOSUCH k",
		"GET k v", "SET k", "MSET a", "LCS a", "COPY a", "MSET a 1 b", "OBJECT ENCODING k x",
		"OBJECT HELP",
	} {
		call := strings.Fields(line)
		forms := []string{"GETKEYS", "GETKEYSANDFLAGS"}
		if call[0] == "SET" {
			forms = forms[:1] // Redis looks for GET among SET's arguments to say RW or OW
		}
		for _, form := range forms {
			args := append([]string{"COMMAND", form}, call...)
			keyp, redis, err := s.ask(args...)
			if err != nil {
				t.Fatal(err)
			}
			if keyp.raw != redis.raw {
				t.Errorf("%q:\nkeyp  %q\nredis %q", args, keyp.raw, redis.raw)
			}
		}
	}
}
