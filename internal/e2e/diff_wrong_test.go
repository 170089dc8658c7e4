package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// This test calls commands with wrong arguments, and compares the errors of Keyp and Redis. The
// arguments are drawn from wrongWords. Most commands accept these words at some position, but
// mostly not at the drawn one.
var wrongWords = []string{
	"a", "b", "l", "s", "z", "h", "x", "g", "str", "missing", "abc", "0", "1", "-1", "2", "3",
	"1.5", "-1.5", "inf", "nan", "x",
	"MIN", "MAX", "LEFT", "RIGHT", "COUNT", "WITHSCORES", "LIMIT", "BY", "GET", "ASC", "NX", "XX",
	"GT", "LT", "EX", "PX", "STORE",
	"WEIGHTS", "AGGREGATE", "SUM", "BYSCORE", "BYLEX", "REV", "(1", "[a", "-", "+", "KEEPTTL",
	"PERSIST", "MATCH", "RANK", "MAXLEN",
	"BEFORE", "AFTER", "INCR", "CH", "IDX", "LEN", "REPLACE", "DB", "ABSTTL", "YES", "NO", "ON",
	"OFF", "ID", "ADDR", "USER", "TYPE",
	"NORMAL", "SAMPLES", "STREAMS", "GROUP", "BLOCK", "MINID", "~", "=", "1-1", "*", "$", ">",
	"IDLE", "FORCE", "RESET", "SYNC", "ASYNC", "FILTERBY", "PATTERN",
	"e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
}

// wrongLeftOut maps the commands that are not drawn to the reason.
var wrongLeftOut = map[string]string{
	"migrate":  "it waits for another server",
	"shutdown": "ends the server", "quit": "ends the connection",
	"reset": "no reply to compare with", "monitor": "a state of its own",
	"subscribe": "likewise", "psubscribe": "likewise", "ssubscribe": "likewise",
	"unsubscribe": "likewise", "punsubscribe": "likewise", "sunsubscribe": "likewise",
	"multi": "TestDiffMulti", "exec": "likewise", "discard": "likewise",
	"debug": "declared differently", "psync": "no replication", "sync": "likewise",
	"replicaof": "likewise", "slaveof": "likewise", "wait": "likewise", "auth": "TestDiffACL",
	"hello": "changes the connection",
	"info":  "its own text", "lolwut": "likewise", "time": "no constant", "lastsave": "likewise",
	"bgsave": "another state", "save": "slow",
	"bgrewriteaof": "another state", "config": "TestDiffConfig", "command": "TestDiffCommandDocs",
	"module": "there are none", "cluster": "no cluster",
	"latency": "another history", "memory": "other sizes", "persist": "takes a member",
	"ttl": "likewise", "pttl": "likewise",
	"zrank": "WITHSCORE", "zrevrank": "likewise", "scan": "cursors must be numbers, as in 7.4",
	"hscan": "likewise", "sscan": "likewise", "zscan": "likewise",
	"swapdb": "there may be other keys", "function": "TestDiffScripts", "role": "other fields",
	"zunion": "COUNT, from 8.8",
	"zinter": "likewise", "zunionstore": "likewise", "zinterstore": "likewise",
	"set": "IFEQ and the like, from 8.4", "client": "MAXAGE and others, from 7.4",
	"acl": "TestDiffACL", "evalsha_ro": "drawn as evalsha", "object": "other encodings",
	"restore": "payloads", "dump": "likewise",
}

// TestDiffWrongArguments: if arguments are wrong in several ways, Keyp returns the same error as
// Redis. The test has all commands that both servers have.
func TestDiffWrongArguments(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	theirs := s.mustDo(t, s.redis, "COMMAND", "LIST").texts()
	var names []string
	for _, name := range s.mustDo(t, s.keyp, "COMMAND", "LIST").texts() {
		if !strings.Contains(name, "|") && wrongLeftOut[name] == "" &&
			slices.Contains(theirs, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) < 100 {
		t.Fatalf("only %d commands are drawn", len(names))
	}
	g, failed := seeded(1), map[string]bool{}
	for range often(160) {
		for _, line := range []string{
			"FLUSHALL", "RPUSH l 1 2 3", "XADD x 1-1 f v", "XGROUP CREATE x g 0", "SADD s a b",
			"ZADD z 1 a 2 b", "HSET h f v n 1", "SET str 10",
		} {
			for _, side := range s.sides() {
				s.mustDo(t, side, strings.Fields(line)...)
			}
		}
		commands := make([][]string, 100)
		for i := range commands {
			args := []string{names[g.IntN(len(names))]}
			for range one(g, 0, 1, 2, 2, 3, 3, 4, 4, 5, 6) {
				args = append(args, g.from(wrongWords...))
			}
			commands[i] = noWait(args)
		}
		s.compareErrors(t, commands, failed)
	}
	var last [][]string
	for _, line := range []string{
		"EVALSHA abc x y", "EVALSHA abc 5", "EVALSHA_RO abc -1", "BZMPOP -1 0 z MIN",
		"BLMPOP abc 0 z LEFT", "BLMPOP abc 1 z UP", "BLMPOP abc 1 z LEFT",
		"SLOWLOG GET x", "SLOWLOG GET 1 2", "ACL CAT a b", "ACL LOG 1 2", "ACL GENPASS 1 2",
		"CLIENT UNBLOCK 1 ERROR x", "LOLWUT VERSION x",
	} {
		last = append(last, strings.Fields(line))
	}
	s.compareErrors(t, last, failed)
}

// noWait makes commands that would wait for a key give up at once.
func noWait(args []string) []string {
	timeout := 1
	switch args[0] {
	case "xread", "xreadgroup":
		return slices.DeleteFunc(args, func(arg string) bool { return arg == "BLOCK" })
	case "blpop", "brpop", "bzpopmin", "bzpopmax", "brpoplpush", "blmove":
		timeout = len(args) - 1
	case "blmpop", "bzmpop":
	default:
		return args
	}
	if timeout > 0 && timeout < len(args) &&
		slices.Contains([]string{"0", "1", "2", "3", "1.5", "inf"}, args[timeout]) {
		args[timeout] = "0.001"
	}
	return args
}

// compareErrors compares errors. If neither server returns an error, it does not compare the
// replies, as other tests do that.
func (s *both) compareErrors(t *testing.T, commands [][]string, failed map[string]bool) {
	t.Helper()
	keyp, errKeyp := s.keyp.doAll(commands)
	redis, errRedis := s.redis.doAll(commands)
	if err := errors.Join(errKeyp, errRedis); err != nil {
		t.Fatal(err)
	}
	for i, args := range commands {
		keyp, redis := keyp[i], redis[i]
		if (keyp.isError() || redis.isError()) && keyp.raw != redis.raw && !failed[args[0]] &&
			knownDifference(args, keyp, redis) == "" {
			failed[args[0]] = true // one of each command will do
			t.Errorf("%q:\nkeyp  %.200q\nredis %.200q", args, keyp.raw, redis.raw)
		}
	}
}
