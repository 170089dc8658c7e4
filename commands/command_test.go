package commands

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

func TestCommandCommands(t *testing.T) {
	h := newHarness(t)
	count := len(h.env.Table.All())
	h.run(`
		COMMAND COUNT -> ` + strconv.Itoa(count) + `
		COMMAND COUNT x -> -ERR wrong number of arguments for 'command|count' command
		COMMAND FOO -> -ERR unknown subcommand 'FOO'. Try COMMAND HELP.
		COMMAND INFO nosuch -> [nil]
		COMMAND INFO get nosuch config|rewrite -> [["get", 2, [+readonly, +fast], 1, 1, 1, [+@read, +@string, +@fast], [], [["flags", [+RO, +access], "begin_search", ["type", "index", "spec", ["index", 1]], "find_keys", ["type", "range", "spec", ["lastkey", 0, "keystep", 1, "limit", 0]]]], []], nil, ["config|rewrite", 2, [+admin, +noscript, +loading, +stale], 0, 0, 0, [+@admin, +@slow, +@dangerous], ["request_policy:all_nodes", "response_policy:all_succeeded"], [], []]]
		COMMAND DOCS nosuch -> []
		COMMAND DOCS lastsave -> ["lastsave", ["summary", "Gives the Unix time of the last checkpoint.", "since", "1.0.0", "group", "server", "complexity", "O(1)"]]
		COMMAND DOCS auth -> ["auth", ["summary", "Authenticates the connection.", "since", "1.0.0", "group", "connection", "complexity", "O(N) where N is the number of passwords defined for the user", "history", [["6.0.0", "Added ACL style (username and password)."]], "arguments", [["name", "username", "type", "string", "display_text", "username", "since", "6.0.0", "flags", [+optional]], ["name", "password", "type", "string", "display_text", "password"]]]]
		COMMAND DOCS memory|usage -> ["memory|usage", ["summary", "Returns the memory of a key and its value, in bytes.", "since", "4.0.0", "group", "server", "complexity", "O(1)", "arguments", [["name", "key", "type", "key", "display_text", "key", "key_spec_index", 0], ["name", "count", "type", "integer", "display_text", "count", "token", "SAMPLES", "flags", [+optional]]]]]
		COMMAND LIST FILTERBY PATTERN SET* -> ["set", "setnx", "setex", "setrange", "setbit"]
		COMMAND LIST FILTERBY PATTERN memory|U* -> ["memory|usage"]
		COMMAND LIST FILTERBY MODULE x -> []
		COMMAND LIST FILTERBY ACLCAT nosuch -> []
		COMMAND LIST FILTERBY FOO x -> -ERR syntax error
		COMMAND LIST FILTERBY PATTERN -> -ERR syntax error
		COMMAND LIST FOO PATTERN x -> -ERR syntax error
		COMMAND GETKEYS nosuch a -> -ERR Invalid command specified
		COMMAND GETKEYS ping a -> -ERR The command has no key arguments
		COMMAND GETKEYS get a b -> -ERR Invalid number of arguments specified for command
		COMMAND GETKEYS get -> -ERR Invalid number of arguments specified for command
		COMMAND GETKEYS eval "return 1" 0 -> []
		COMMAND GETKEYS eval "return 1" 3 a -> []
		COMMAND GETKEYS eval "return 1" x a -> []
		COMMAND GETKEYSANDFLAGS fcall f 0 a -> []
		COMMAND GETKEYS mset a b c d -> ["a", "c"]
		COMMAND GETKEYS move k 1 -> ["k"]
		COMMAND GETKEYS copy a b DB 1 -> ["a", "b"]
		COMMAND GETKEYS memory usage k -> ["k"]
		COMMAND GETKEYS memory foo k -> -ERR Invalid command specified
		COMMAND GETKEYSANDFLAGS rename a b -> [["a", [+RW, +access, +delete]], ["b", [+OW, +update]]]
		proto 3
		COMMAND INFO ping -> [["ping", -1, ~[+fast], 0, 0, 0, ~[+@fast, +@connection], ~["request_policy:all_shards", "response_policy:all_succeeded"], ~[], ~[]]]
		COMMAND DOCS lastsave -> {"lastsave": {"summary": "Gives the Unix time of the last checkpoint.", "since": "1.0.0", "group": "server", "complexity": "O(1)"}}
	`)
	h.client.Proto = 2
	if all, none := h.do("COMMAND"), h.do("COMMAND", "INFO"); all != none ||
		strings.Count(all, "begin_search") < 20 {
		t.Error("COMMAND and COMMAND INFO without names differ, or say little")
	}
	if got := h.do("COMMAND", "LIST", "FILTERBY", "ACLCAT", "dangerous"); !strings.Contains(got,
		`"flushall"`) || strings.Contains(got, `"get"`) {
		t.Errorf("dangerous commands: %s", got)
	}
}

// TestDeclarationsAreComplete: every declaration of a command has all required fields, and they are
// consistent.
func TestDeclarationsAreComplete(t *testing.T) {
	h := newHarness(t)
	groups := []Group{Generic, StringGroup, Bitmap, HyperLogLog, Geo, Connection, ServerGroup,
		ListGroup, HashGroup, SetGroup, SortedSet, StreamGroup, Transactions, PubSub, Scripting,
		Cluster, KeypGroup}
	var check func(spec *Spec)
	check = func(spec *Spec) {
		switch {
		case spec.Summary == "" || spec.Since == "" || spec.Complexity == "" || spec.Arity == 0 ||
			!slices.Contains(groups, spec.Group):
			t.Errorf("%s: something is not declared", spec.full)
		case spec.Name != strings.ToUpper(spec.Name):
			t.Errorf("%s: the name is not in upper case", spec.full)
		case (spec.Run == nil) != (len(spec.Sub) > 0) && spec.full != "command":
			t.Errorf("%s: either a handler or subcommands", spec.full)
		case (spec.Run == nil) != (spec.Scope == 0):
			t.Errorf("%s: a scope is what commands have that run", spec.full)
		case spec.Is(Write|ReadOnly) || spec.Is(Write) && spec.Scope == Unlocked &&
			spec.full != "migrate" && spec.full != "keyp.policy|apply":
			// These commands lock the keys that they change by themselves.
			t.Errorf("%s: flags that exclude each other", spec.full)
		}
		for i := range spec.Sub {
			check(&spec.Sub[i])
		}
	}
	for _, spec := range h.env.Table.All() {
		check(spec)
	}
}

// differs lists the declarations that differ from those of Redis 7.0.15 on purpose, with the
// reason.
var differs = map[string]string{
	"ttl": "it takes a member", "pttl": "likewise", "persist": "likewise",
	"wait":  "it may stand in a script, and is blocking, from 7.2",
	"debug": "its subcommands are declared",
	"zrank": "WITHSCORE, from 7.2", "zrevrank": "likewise",
	"blpop": "scripts may run it, from 7.2", "brpop": "likewise", "blmove": "likewise",
	"brpoplpush": "likewise",
	"bzpopmin":   "likewise", "bzpopmax": "likewise",
	"sinterstore":    "it only writes its first key, from 7.4",
	"cluster|shards": "allowed while data is loaded, from 7.2", "cluster|slots": "likewise",
	"command|getkeys":         "7.0.15 asks for an argument behind the command's name",
	"command|getkeysandflags": "likewise",
}

// newTips lists the commands whose tips differ from those of Redis 7.0.15.
var newTips = map[string]string{
	"client|setname": "from 7.2", "acl|deluser": "likewise", "acl|save": "likewise",
	"acl|setuser": "likewise", "config|resetstat": "likewise",
	"config|rewrite": "likewise", "latency|reset": "likewise", "msetnx": "likewise",
	"randomkey": "likewise", "scan": "likewise",
}

// TestCommandInfoLikeRedis: all commands have the arity, flags, key positions, ACL categories and
// tips of a real Redis, if that Redis has the command.
func TestCommandInfoLikeRedis(t *testing.T) {
	redis := realRedis{testkit.Redis(t).Dial()}
	h := newHarness(t)
	compared := 0
	var compare func(ours, theirs []any)
	compare = func(ours, theirs []any) {
		name := ours[0].(string)
		_, known := differs[name]
		if a, b := normal(ours[7]), normal(theirs[7]); a != b && newTips[name] == "" {
			t.Errorf("%s: tips are %s, with Redis %s", name, a, b)
		}
		if a, b := normal(ours[6]), normal(theirs[6]); a != b && name != "wait" {
			t.Errorf("%s: categories are %s, with Redis %s", name, a, b)
		}
		if !known {
			compared++
			for i, what := range []string{"name", "arity", "flags", "first key",
				"last key", "step"} {
				if a, b := normal(ours[i]), normal(theirs[i]); a != b {
					t.Errorf("%s: %s is %s, with Redis %s", name, what, a, b)
				}
			}
			if a, b := fmt.Sprint(len(ours[8].([]any))),
				fmt.Sprint(len(theirs[8].([]any))); a != b {
				t.Errorf("%s: %s key specifications, with Redis %s", name, a, b)
			} else if a, b := normal(ours[8]), normal(withoutNotes(theirs[8].([]any))); a != b {
				t.Errorf("%s: key specifications are\n%s\nwith Redis\n%s", name, a, b)
			}
		}
		for _, sub := range ours[9].([]any) {
			for _, other := range theirs[9].([]any) {
				if sub.([]any)[0] == other.([]any)[0] {
					compare(sub.([]any), other.([]any))
				}
			}
		}
	}
	for _, spec := range h.env.Table.All() {
		theirs := redis.do(t, "COMMAND", "INFO", spec.full)[0]
		if theirs == nil {
			continue // newer than this Redis
		}
		ours, _ := parseReply(t, h.raw([]byte("COMMAND"), []byte("INFO"), []byte(spec.full)))
		compare(ours.([]any)[0].([]any), theirs.([]any))
	}
	if compared < 60 {
		t.Errorf("only %d commands were compared", compared)
	}
}

// withoutNotes removes the notes of Redis's key specifications, which are prose.
func withoutNotes(specs []any) []any {
	list := make([]any, len(specs))
	for i := range specs {
		list[i] = specs[i]
		if spec := specs[i].([]any); spec[0] == "notes" {
			list[i] = spec[2:]
		}
	}
	return list
}

// normal writes a reply as text in which the elements of a set are sorted.
func normal(v any) string {
	list, ok := v.([]any)
	if !ok {
		return fmt.Sprint(v)
	}
	words := make([]string, len(list))
	flat := true
	for i, item := range list {
		words[i] = normal(item)
		_, nested := item.([]any)
		flat = flat && !nested
	}
	if flat {
		sort.Strings(words)
	}
	return "[" + strings.Join(words, " ") + "]"
}

// realRedis is a connection to a redis-server.
type realRedis struct{ net.Conn }

func (r realRedis) do(t *testing.T, args ...string) []any {
	t.Helper()
	var request bytes.Buffer
	fmt.Fprintf(&request, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := r.Write(request.Bytes()); err != nil {
		t.Fatal(err)
	}
	var buf []byte
	chunk := make([]byte, 64<<10)
	for {
		n, err := r.Read(chunk)
		if err != nil {
			t.Fatal(err)
		}
		buf = append(buf, chunk[:n]...)
		if v, rest := parseReply(nil, buf); rest != nil {
			return v.([]any)
		}
	}
}

// parseReply returns a RESP2 reply as strings, ints, slices and nil, and the rest of b. If the
// reply is incomplete, it fails t, or returns rest=nil if t is nil.
func parseReply(t *testing.T, b []byte) (v any, rest []byte) {
	line, rest, ok := bytes.Cut(b, []byte("\r\n"))
	fail := func() (any, []byte) {
		if t != nil {
			t.Fatalf("not a reply: %q", b)
		}
		return nil, nil
	}
	if !ok || len(line) == 0 {
		return fail()
	}
	rest = rest[:len(rest):len(rest)]
	if rest == nil {
		rest = []byte{}
	}
	n, _ := strconv.Atoi(string(line[1:]))
	switch line[0] {
	case ':':
		return n, rest
	case '$':
		if n < 0 {
			return nil, rest
		}
		if len(rest) < n+2 {
			return fail()
		}
		return string(rest[:n]), rest[n+2:]
	case '*':
		if n < 0 {
			return nil, rest
		}
		list := make([]any, n)
		for i := range list {
			if list[i], rest = parseReply(t, rest); rest == nil {
				return fail()
			}
		}
		return list, rest
	default:
		return string(line), rest
	}
}
