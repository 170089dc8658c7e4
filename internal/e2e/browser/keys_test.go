//go:build browser

package browser

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit/await"
)

// open opens a key of database 0 in the page.
func (p *page) open(key string) {
	p.t.Helper()
	p.see("keys/0/" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(key))))
}

// set sets the value of an input field.
func (p *page) set(selector, value string) {
	p.t.Helper()
	put :=
		fmt.Sprintf("(() => { const e = document.querySelector(%q); if (e) { e.value = %q; e.dispatchEvent(new Event('change')); e.dispatchEvent(new Event('input')) } return !!e })()",
			selector, value)
	await.Until(p.t, "there is "+selector, func() bool { return js[bool](p, put) })
}

// valueIs waits until the opened key or a dialog shows a value.
func (p *page) valueIs(want string) {
	p.t.Helper()
	await.Until(p.t, "the value is "+want, func() bool {
		return js[string](p,
			"document.querySelector('dialog textarea, #key textarea')?.value ?? ''") == want
	})
}

// used waits until the server has run a command since its counts were reset.
func (p *page) used(command string) {
	p.t.Helper()
	await.Until(p.t, "the server runs "+command, func() bool {
		return strings.Contains(p.redis.Info(await.Context(p.t), "commandstats").Val(),
			"cmdstat_"+command+":calls=1,")
	})
}

// answered waits until no dialog is open.
func (p *page) answered() {
	p.t.Helper()
	await.Until(p.t, "the dialog is closed", func() bool {
		return !js[bool](p, "!!document.querySelector('dialog')")
	})
}

// gives waits until a command of a Redis client has the given reply.
func (p *page) gives(want string, words ...any) {
	p.t.Helper()
	got := ""
	defer func() {
		if got != want {
			p.t.Logf("%v replies %q, and the page shows:\n%s", words, got, p.text())
		}
	}()
	await.Until(p.t, fmt.Sprintf("%v replies %q", words, want), func() bool {
		v, err := p.redis.Do(await.Context(p.t), words...).Result()
		if err != nil && err != redis.Nil {
			p.t.Fatal(err)
		}
		got = fmt.Sprint(v)
		return got == want
	})
}

// Keys are found and shown according to their types. Changes of their deadlines are visible to a
// Redis client.
func TestKeys(t *testing.T) {
	p := open(t, "")
	p.run("SET", "text", "old <b>value</b>")
	p.run("SET", "binary", "\x00\xff")
	p.run("HSET", "hash", "field", "of hash", "other", "x")
	p.run("HPEXPIRE", "hash", 3_600_000, "FIELDS", 1, "other")
	p.run("RPUSH", "list", "first", "second")
	p.run("SADD", "set", "a member")
	p.run("ZADD", "zset", 1.5, "scored")
	p.run("XADD", "stream", "1-1", "name", "in a stream")
	p.run("XGROUP", "CREATE", "stream", "readers", "0")
	for _, name := range hostile {
		p.run("SET", name, "<script>window.hacked = 1</script>")
	}
	p.see("keys")
	p.wait(fmt.Sprintf("%d keys.", 7+len(hostile)))
	for _, name := range hostile[:len(hostile)-3] {
		p.open(name)
		await.Until(t, "the value is shown", func() bool {
			return js[string](p,
				"document.querySelector('#key textarea')?.value ?? ''") == "<script>window.hacked = 1</script>"
		})
		p.click("Close")
	}
	if js[bool](p,
		"'hacked' in window || document.querySelectorAll('main script, main img').length > 0") {
		t.Error("a name or a value became part of the page")
	}

	for key, want := range map[string][]string{
		"hash": {"field", "of hash", "59 min"}, "list": {"first", "second"}, "set": {"a member"},
		"zset":   {"scored", "1.5"},
		"stream": {"1-1", "name = in a stream", "readers"},
	} {
		p.open(key)
		for _, text := range want {
			p.wait(text)
		}
	}
	p.open("text")
	p.wait("string · database 0")
	p.click("Set deadline…")
	p.set("dialog input", "100")
	p.click("Set")
	p.wait("expires in 1 min")
	p.answered()
	p.gives("1", "EXPIRE", "text", "50", "XX", "LT")
	p.click("Remove deadline")
	p.gives("-1", "TTL", "text")

	p.open("binary")
	p.wait("2 B\n")
	await.Until(t, "bytes are shown", func() bool {
		return js[string](p, "document.querySelector('#key textarea')?.value ?? ''") == "00 ff"
	})
}

// A change is made in the database from which the key was read. If that database can no longer be
// selected, nothing is changed.
func TestChangeElsewhere(t *testing.T) {
	p := open(t, "editor", "--requirepass", "secret", "--user", "editor", "on", ">editor", "+@all",
		"~*")
	p.run("SET", "k", "of database 0")
	p.run("MOVE", "k", 1)
	p.run("SET", "k", "stays")
	p.see("keys/1/" + base64.RawStdEncoding.EncodeToString([]byte("k")))
	p.valueIs("of database 0")
	p.run("ACL", "SETUSER", "editor", "-select")
	p.click("Delete…")
	p.click("Delete 1 key")
	p.wait("NOPERM")
	p.gives("stays", "GET", "k")
}

// Elements of hashes and sets get deadlines and keep their values. The deadlines can be removed
// again.
func TestElementDeadlines(t *testing.T) {
	for key, c := range map[string]struct{ make, look []any }{
		"hash": {[]any{"HSET", "hash", "e", "v"}, []any{"HPEXPIRE", "hash", 1_800_000, "XX",
			"FIELDS", 1, "e"}},
		"zset": {[]any{"ZADD", "zset", 1, "e"}, []any{"PERSIST", "zset", "e"}},
	} {
		t.Run(key, func(t *testing.T) {
			p := open(t, "")
			p.run(c.make...)
			p.open(key)
			p.click("set deadline")
			p.set("dialog input", "100")
			p.set("dialog select", "86400000")
			p.click("Set")
			p.wait("99 d")
			p.answered()
			replies := map[string]string{"hash": "[1]", "zset": "1"}
			p.gives(replies[key], c.look...)
			if key == "zset" {
				p.run("EXPIREMEMBER", "zset", "e", 1000)
			}
			p.click("Load again")
			p.click("remove deadline")
			gone := map[string][]any{"hash": {"HPTTL", "hash", "FIELDS", 1, "e"},
				"zset": {"PTTL", "zset", "e"}}
			p.gives(map[string]string{"hash": "[-1]", "zset": "-1"}[key], gone[key]...)
		})
	}
}

// A delay queue is shown with its jobs in order, page by page.
func TestDelayQueue(t *testing.T) {
	p := open(t, "")
	for i := range 120 {
		p.run("KEYP.DELAY", "ADD", "mails", fmt.Sprintf("job-%03d", i), 4_102_444_800_000+i,
			fmt.Sprint("payload-", i))
	}
	p.run("KEYP.DELAY", "ADD", "mails", "early", 0, "early payload")
	p.run("KEYP.DELAY", "POP", "mails", "VISIBILITY", 1_000_000)
	p.open("mails")
	for _, text := range []string{"early payload", "delivered", "job-098", "121"} {
		p.wait(text)
	}
	p.gone("job-099")
	p.click("Show more")
	p.wait("job-119")
}

// Limits are shown with their reservations, and with the rest of a limit that is typed in.
func TestLimitKey(t *testing.T) {
	p := open(t, "")
	p.run("KEYP.LIMIT", "TAKE", "api", 1, "WINDOW", 9, 1_000_000)
	p.run("KEYP.LIMIT", "TAKE", "api", 3, "WINDOW", 9, 1_000_000, "RESERVE", "request-1", 900_000)
	p.open("api")
	for _, text := range []string{"request-1", "window", "Whole in"} {
		p.wait(text)
	}
	p.set("#key-limits", "WINDOW 9 1000000")
	p.click("Show what is left")
	p.wait("5, whole in")
}

// A lease is shown with its holder and its waiters.
func TestLeaseKey(t *testing.T) {
	p := open(t, "")
	lease, err := p.redis.Do(await.Context(t), "KEYP.LEASE", "ACQUIRE", "lease", "worker-1",
		1_000_000, "DELAY", 5000).Int64Slice()
	if err != nil {
		t.Fatal(err)
	}
	waiter := p.redis.Conn()
	defer waiter.Close()
	granted := make(chan error, 1)
	go func() {
		granted <- waiter.Do(await.Context(t), "KEYP.LEASE", "ACQUIRE", "lease", "worker-2",
			1_000_000, "WAIT", 0).Err()
	}()
	await.Until(t, "it waits", func() bool {
		return strings.Contains(fmt.Sprint(p.redis.Do(await.Context(t), "KEYP.LEASE", "INFO",
			"lease").Val()), "worker-2")
	})
	p.open("lease")
	for _, text := range []string{"held", "worker-1", fmt.Sprint(lease[0]),
		"Waits since", "worker-2"} {
		p.wait(text)
	}
	p.run("KEYP.LEASE", "RELEASE", "lease", lease[0])
	if err := await.For(t, "the one that waits has it", granted); err != nil {
		t.Error(err)
	}
	p.click("Load again")
	p.gone("worker-1")
}

// JSON is indented without any other change.
func TestJSON(t *testing.T) {
	p := open(t, "")
	const json = `{"a":12345678901234567890, "b":[1.0,1e400,{}, "x\"[,"],"a":{"c":[ ]}}`
	p.run("SET", "json", json)
	p.open("json")
	p.valueIs(json)
	p.set("#key .editor select", "JSON")
	p.valueIs("{\n  \"a\": 12345678901234567890,\n  \"b\": [\n    1.0,\n    1e400,\n    {},\n    \"x\\\"[,\"\n  ],\n  \"a\": {\n    \"c\": []\n  }\n}")
	p.set("#key .editor select", "hex")
	p.set("#key .editor select", "text")
	p.valueIs(json)
	if !js[bool](p, "document.querySelector('#key textarea').readOnly") {
		t.Error("the value can be edited")
	}
}

// A selection of keys gets one deadline, or is deleted, after a question that contains their
// number.
func TestSelection(t *testing.T) {
	p := open(t, "")
	for i := range 3 {
		p.run("SET", fmt.Sprintf("sel:%d", i), "v")
	}
	p.run("SET", "stays", "v")
	p.see("keys")
	p.set("#keys-pattern", "sel:*")
	p.click("Find")
	p.wait("3 keys.")
	choose := func() { js[bool](p, "document.querySelector('th input').click(), true") }
	choose()
	p.wait("3 keys selected")
	p.click("Set deadline…")
	p.set("dialog input", "500")
	p.click("Set for 3 keys")
	for i := range 3 {
		p.gives("1", "EXPIRE", fmt.Sprintf("sel:%d", i), "400", "XX", "LT")
	}
	p.answered()
	p.wait("3 keys.")
	choose()
	p.click("Delete…")
	p.click("Cancel")
	p.answered()
	p.gives("3", "EXISTS", "sel:0", "sel:1", "sel:2")
	p.click("Delete…")
	p.click("Delete 3 keys")
	p.gives("0", "EXISTS", "sel:0", "sel:1", "sel:2")
	p.answered()
	p.gives("v", "GET", "stays")
}

// TestReader: if a user may only read some keys, the page shows no buttons for changes. It says why
// it does not show other keys.
func TestReader(t *testing.T) {
	p := open(t, "reader", "--requirepass", "secret",
		"--user", "reader", "on", ">reader", "-@all", "+scan", "+type", "+pttl", "+strlen",
		"+getrange", "~public:*")
	p.run("SET", "public:1", "shown")
	p.run("SET", "private:1", "secret value")
	p.wait("The user reader may not see this")
	p.see("keys")
	p.wait("2 keys.")
	p.wait("no permission")
	p.open("public:1")
	await.Until(t, "the value is shown", func() bool {
		return js[string](p, "document.querySelector('#key textarea')?.value ?? ''") == "shown"
	})
	for _, word := range []string{"Save", "Delete", "Set deadline", "New key"} {
		if strings.Contains(p.text(), word) {
			t.Errorf("%s is offered", word)
		}
	}
	p.open("private:1")
	p.wait("NOPERM")
}

// A value that would take very long to show is shown partly or unformatted, with a remark.
func TestLongValues(t *testing.T) {
	p := open(t, "")
	deep := strings.Repeat("[", 12_000) + strings.Repeat("]", 12_000)
	p.run("SET", "deep", deep)
	p.run("SET", "text", "no JSON")
	p.run("RPUSH", "list", strings.Repeat("x", 1<<20+1))
	fields := []any{"XADD", "stream", "*"}
	for i := range 500 {
		fields = append(fields, fmt.Sprintf("field%d", i), "v")
	}
	p.run(fields...)
	p.open("deep")
	p.valueIs(deep)
	p.set("#key .editor select", "JSON")
	p.wait("Laid out this would be very long")
	p.valueIs(deep)
	p.open("text")
	p.valueIs("no JSON")
	p.set("#key .editor select", "JSON")
	p.wait("This is no JSON")
	p.valueIs("no JSON")
	p.open("stream")
	p.wait("field99 = v\n… 400 more")
	p.open("list")
	p.wait("list · database 0")
	p.wait("1 element")
}

// Deadlines beyond the range of dates, and numbers beyond those of JavaScript, are shown.
func TestFarDeadline(t *testing.T) {
	p := open(t, "")
	p.run("SET", "far", "v", "PXAT", "9223372036854775000")
	p.run("HSET", "hash", "f", "v")
	p.run("HPEXPIREAT", "hash", 1<<46-1, "FIELDS", 1, "f")
	p.see("keys")
	p.wait("2 keys.")
	p.wait(" d")
	p.open("far")
	p.wait("at year 292")
	p.valueIs("v")
	p.open("hash")
	p.wait("remove deadline")
}
