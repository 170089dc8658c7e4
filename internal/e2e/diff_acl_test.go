package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The differential test of the ACL: random rules, valid and invalid ones, define users on both
// servers. The replies to GETUSER, LIST, DRYRUN and ACL LOG are the same, and the same commands are
// refused. Two things differ in Redis 7.0.15, and are compared by their meaning. First, it words
// refusals differently. Second, it describes a user's commands by categories that fit only roughly.
// So another user is made on Redis from Keyp's description, and must have the same permissions.

// aclSteps is the number of changes of the users in a case.
const aclSteps = 12

func TestDiffACL(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	diffSeeds(t, diffShare(t, 3), func(seed uint64) ([]string, error) {
		r := &aclRun{gen: seeded(seed), admin: pair{s.keyp, s.redis}}
		r.alice.keyp, r.alice.redis = s.dial(t)
		err := r.run()
		_, _ = r.alice.keyp.Close(), r.alice.redis.Close()
		return r.history, err
	})
}

// aclRun is one running case.
type aclRun struct {
	*gen
	admin   pair
	alice   pair // a connection of the user whom the rules are about
	history []string
}

func (r *aclRun) run() error {
	if _, _, err := r.admin.ask("ACL", "DELUSER", "alice", "copy"); err != nil {
		return err
	}
	for _, args := range [][]string{{"FLUSHALL"}, {"ACL", "SETUSER", "alice", "on", "nopass"},
		{"ACL", "LOG", "RESET"}} {
		if err := r.same(r.admin, args, literally); err != nil {
			return err
		}
	}
	if err := r.same(r.alice, []string{"AUTH", "alice", "x"}, literally); err != nil {
		return err
	}
	for range aclSteps {
		if err := r.same(r.admin, append([]string{"ACL", "SETUSER", "alice"}, r.rules()...),
			withoutSecrets); err != nil {
			return err
		}
		for range 5 {
			if err := r.same(r.alice, r.call(), refusal); err != nil {
				return err
			}
		}
	}
	if err := r.describe(); err != nil {
		return err
	}
	if err := r.logs(); err != nil {
		return err
	}
	for _, call := range aclPool {
		if err := r.same(r.admin, append([]string{"ACL", "DRYRUN", "alice"},
			strings.Fields(call)...), refusal); err != nil {
			return err
		}
	}
	return r.copies()
}

// same sends a command to both servers, and compares the part of the replies that the function part
// returns.
func (r *aclRun) same(p pair, args []string, part func(reply) string) error {
	keyp, redis, err := p.ask(args...)
	if err != nil {
		return fmt.Errorf("%q: %w", args, err)
	}
	r.history = append(r.history, fmt.Sprintf("%q: %s", args, brief(redis.raw)))
	if a, b := part(keyp), part(redis); a != b {
		return fmt.Errorf("%q\nkeyp  %s\nredis %s", args, brief(a), brief(b))
	}
	return nil
}

func literally(r reply) string { return r.raw }

var aclSecret = regexp.MustCompile(`([('])([<>#!])[^ ')]*`)

// withoutSecrets returns a reply without passwords, since Keyp does not repeat them.
func withoutSecrets(r reply) string {
	return aclSecret.ReplaceAllString(strings.ReplaceAll(r.text, "(redacted)", ""), "${1}${2}")
}

// refusal returns a reply. If the reply is a refusal, it returns only a short name for that.
func refusal(r reply) string {
	text := strings.ToLower(r.text)
	switch {
	case strings.Contains(text, "acl failure in script"),
		strings.Contains(text, "the user executing the script"):
		return "refused in a script"
	case strings.Contains(text, "permission") && strings.Contains(text, " run the '"):
		return "refused: command " + text[strings.Index(text, "run the"):]
	case r.kind == '$' && strings.Contains(text, "permission"): // DRYRUN says which
		return "refused: " + text[strings.Index(text, "to access"):]
	case strings.HasPrefix(text, "noperm"):
		what := regexp.MustCompile(`key|channel`).FindString(text)
		return "refused: a " + what
	}
	return r.raw
}

// rules draws some rules. One of them may be invalid.
func (r *aclRun) rules() []string {
	var list []string
	for range r.IntN(6) {
		if r.chance(15) {
			var inner []string
			for range r.IntN(4) {
				inner = append(inner, r.selectorRule())
			}
			list = append(list, one(r.gen, "(", "( ")+strings.Join(inner, " ")+")")
			continue
		}
		if r.chance(20) {
			list = append(list, r.from("on", "nopass", ">one", ">two", "<one", "resetpass",
				"clearselectors", "sanitize-payload", "ON", "",
				"#c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2",
				"!c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2"))
			continue
		}
		list = append(list, r.selectorRule())
	}
	if r.chance(10) {
		list = append(list, r.from("foo", "+nosuch", "+@nosuch", "%Q~a", "#bad", "+config|nosuch",
			"(+get", "(on)", "+get|", "-select|0", "+config|set|x",
			"~a b", "&a\tb", "(~* ~a)", "(>pw x)", "+", "-", "~", "&"))
	}
	if r.chance(10) {
		list = append([]string{"reset", "on", "nopass"}, list...)
	}
	return list
}

func (r *aclRun) selectorRule() string {
	switch {
	case r.chance(30):
		return r.from("~a", "~b", "~a*", "~*", "%R~a", "%R~*b", "%W~a*", "%RW~b", "%r~b",
			"resetkeys", "allkeys", "resetkeys")
	case r.chance(25):
		return r.from("&a", "&b", "&a*", "&*", "resetchannels", "allchannels", "resetchannels")
	case r.chance(25):
		return r.from("+", "-") + "@" + r.from("read", "write", "keyspace", "string", "hash",
			"list", "set", "pubsub", "fast", "slow", "dangerous", "all", "blocking",
			"transaction", "scripting")
	case r.chance(15):
		return r.from("+select|0", "+select|1", "+config|get", "-config|get", "-config|set",
			"+config", "-config", "+object|encoding", "+client|id", "-client")
	}
	name, _, _ := strings.Cut(r.from(aclPool...), " ")
	return r.from("+", "-", "+") + name
}

// aclPool has calls that both servers declare in the same way, with all arguments that they need.
var aclPool = []string{
	"get a", "get ab", "set a 1", "set b 1 get", "incr a", "del a b", "exists a b", "type b",
	"mget a ab b", "mset a 1 b 2", "copy a b", "rename a b",
	"append ab x", "getset b 1", "getdel a", "expire a 100", "persist b", "dump a",
	"object encoding b", "object freq a",
	"sort a", "sort a by x*", "sort a get #", "sort a store b", "sort_ro a", "lpush a x", "rpop b",
	"lmove a b left right", "blmove a b left right 0.01",
	"blpop b a 0.01", "hset ab f v", "hget b f", "hgetall a", "sadd b m", "sinter a b",
	"sinterstore ab a b", "spop b", "zadd a 1 m", "zunion 2 a b",
	"zunionstore ab 2 a b", "zrange a 0 -1", "eval return 1 a", "keys *", "scan 0", "randomkey",
	"dbsize", "flushall", "select 0", "select 1", "move a 1",
	"ping", "echo x", "config get port", "config resetstat", "client id", "client getname",
	"publish a m", "publish b m", "spublish ab m", "pubsub channels",
	"unsubscribe a", "discard", "watch a", "unwatch", "script exists x", "acl whoami", "acl users",
	"info nosuch", "memory usage b", "slowlog len",
}

// call draws a command of the user: mostly a plain one, sometimes one in a transaction or script.
func (r *aclRun) call() []string {
	switch {
	case r.chance(10):
		return []string{"EVAL", one(r.gen, "return redis.call('get', KEYS[1])",
			"return redis.call('set', 'b', 'x')", "return redis.call('config', 'get', 'port')"),
			"1", r.from("a", "b", "ab")}
	case r.chance(8):
		return []string{"AUTH", "alice", r.from("one", "two", "three")}
	case r.chance(5):
		return []string{r.from("MULTI", "EXEC", "DISCARD", "nosuch", "GET")}
	}
	args := strings.Fields(r.from(aclPool...))
	switch args[0] {
	case "config", "info", "memory", "client", "slowlog", "object", "scan", "keys", "randomkey",
		"dump", "hgetall", "unsubscribe", "eval", "sinter", "spop", "blmove", "blpop":
		return []string{"GET", "a"} // their replies depend on more than the rules
	}
	return args
}

// describe compares the servers' descriptions of the user, except for the commands.
func (r *aclRun) describe() error {
	user := func(rep reply) string {
		fields := rep.fields()
		text := rep.text
		for _, name := range []string{"flags", "passwords", "keys", "channels"} {
			text += name + strings.Join(fields[name].texts(), " ") + fields[name].text + "\n"
		}
		for _, selector := range fields["selectors"].items {
			text += selector.fields()["keys"].text + "; " + selector.fields()["channels"].text +
				"\n"
		}
		return strings.ReplaceAll(strings.ReplaceAll(text, " sanitize-payload", ""),
			"sanitize-payload ", "")
	}
	if err := r.same(r.admin, []string{"ACL", "GETUSER", "alice"}, user); err != nil {
		return err
	}
	rules := regexp.MustCompile(` sanitize-payload| [+-][^ )]*`)
	return r.same(r.admin, []string{"ACL", "LIST"}, func(rep reply) string {
		return rules.ReplaceAllString(strings.Join(rep.texts(), "\n"), "")
	})
}

// logs compares the ACL logs of the servers.
func (r *aclRun) logs() error {
	return r.same(r.admin, []string{"ACL", "LOG", "100"}, func(rep reply) string {
		var text strings.Builder
		for _, entry := range rep.items {
			f := entry.fields()
			fmt.Fprintln(&text, f["count"].text, f["reason"].text, f["context"].text,
				f["object"].text, f["username"].text)
		}
		return text.String()
	})
}

// copies makes redis-server create a user from Keyp's description. That user must have the same
// permissions as the first user.
func (r *aclRun) copies() error {
	list, err := r.admin.keyp.do("ACL", "LIST")
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list.texts(), func(line string) bool {
		return strings.HasPrefix(line, "user alice ")
	})
	words := strings.Split(list.texts()[at], " ")[2:]
	made, err := r.admin.redis.do(append([]string{"ACL", "SETUSER", "copy", "reset"}, words...)...)
	if err != nil || made.text != "OK" {
		return fmt.Errorf("redis-server does not take %q: %s, %w", words, made.text, err)
	}
	for _, call := range aclPool {
		args := strings.Fields(call)
		first, err := r.admin.redis.do(append([]string{"ACL", "DRYRUN", "alice"}, args...)...)
		if err != nil {
			return err
		}
		second, err := r.admin.redis.do(append([]string{"ACL", "DRYRUN", "copy"}, args...)...)
		if err != nil {
			return err
		}
		if first.raw != second.raw {
			return fmt.Errorf(
				"%s: redis-server says %s of its own user, and %s of one that is made by %q", call,
				brief(first.raw), brief(second.raw), words)
		}
	}
	return nil
}
