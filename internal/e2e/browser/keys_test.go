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

// key opens a key of database 0 in the page.
func (p *page) open(key string) {
	p.t.Helper()
	p.see("keys/0/" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(key))))
}

// set gives a field its value.
func (p *page) set(selector, value string) {
	p.t.Helper()
	put := fmt.Sprintf("(() => { const e = document.querySelector(%q); if (e) { e.value = %q; e.dispatchEvent(new Event('change')); e.dispatchEvent(new Event('input')) } return !!e })()", selector, value)
	await.Until(p.t, "there is "+selector, func() bool { return js[bool](p, put) })
}

// valueIs waits until the opened key, or a dialog, shows a value.
func (p *page) valueIs(want string) {
	p.t.Helper()
	await.Until(p.t, "the value is "+want, func() bool {
		return js[string](p, "document.querySelector('dialog textarea, #key textarea')?.value ?? ''") == want
	})
}

// used waits until the server has run a command since its counts were set to 0.
func (p *page) used(command string) {
	p.t.Helper()
	await.Until(p.t, "the server runs "+command, func() bool {
		return strings.Contains(p.redis.Info(await.Context(p.t), "commandstats").Val(), "cmdstat_"+command+":calls=1,")
	})
}

// answered waits until no dialog is open.
func (p *page) answered() {
	p.t.Helper()
	await.Until(p.t, "the dialog is closed", func() bool { return !js[bool](p, "!!document.querySelector('dialog')") })
}

// gives waits until a command of a Redis client replies a text.
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

// Keys are found, shown as what they are and changed, and a Redis client sees the changes.
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
			return js[string](p, "document.querySelector('#key textarea')?.value ?? ''") == "<script>window.hacked = 1</script>"
		})
		p.click("Close")
	}
	if js[bool](p, "'hacked' in window || document.querySelectorAll('main script, main img').length > 0") {
		t.Error("a name or a value became part of the page")
	}

	for key, want := range map[string][]string{
		"hash": {"field", "of hash", "59 min"}, "list": {"first", "second"}, "set": {"a member"}, "zset": {"scored", "1.5"},
		"stream": {"1-1", "name = in a stream", "readers"},
	} {
		p.open(key)
		for _, text := range want {
			p.wait(text)
		}
	}
	p.open("text")
	p.wait("string · database 0")
	p.set("#key textarea", "new\nvalue")
	p.click("Save")
	p.gives("new\nvalue", "GET", "text")
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
	await.Until(t, "bytes are shown", func() bool { return js[string](p, "document.querySelector('#key textarea')?.value ?? ''") == "00 ff" })
	p.set("#key textarea", "00 fe\n01")
	p.click("Save")
	p.gives("\x00\xfe\x01", "GET", "binary")
	p.wait("3 B\n") // the saved value is shown, which replaces what is typed
	p.set("#key textarea", "0")
	p.click("Save")
	p.wait("This is no hexadecimal text")
	p.gives("\x00\xfe\x01", "GET", "binary")

	p.open("set")
	p.wait("a member")
	p.set("#key form input", "another")
	p.click("Add")
	p.gives("2", "SCARD", "set")
	p.open("zset")
	p.wait("scored")
	p.click("remove")
	p.click("Remove")
	p.gives("0", "EXISTS", "zset")
}

// What is saved goes into the database that it was read from: where that can no longer be selected, nowhere.
func TestSaveElsewhere(t *testing.T) {
	p := open(t, "editor", "--requirepass", "secret", "--user", "editor", "on", ">editor", "+@all", "~*")
	p.run("SET", "k", "of database 0")
	p.run("MOVE", "k", 1)
	p.run("SET", "k", "stays")
	p.see("keys/1/" + base64.RawStdEncoding.EncodeToString([]byte("k")))
	p.valueIs("of database 0")
	p.run("ACL", "SETUSER", "editor", "-select")
	p.set("#key textarea", "changed")
	p.click("Save")
	p.wait("NOPERM")
	p.gives("stays", "GET", "k")
}

// A field of a hash keeps its deadline when its value is changed, and one that is gone does not come back.
func TestChangeField(t *testing.T) {
	p := open(t, "")
	p.run("HSET", "hash", "field", "old")
	p.run("HPEXPIRE", "hash", 3_600_000, "FIELDS", 1, "field")
	p.open("hash")
	p.click("change")
	p.set("dialog textarea", "new")
	p.click("Save")
	p.gives("new", "HGET", "hash", "field")
	p.answered()
	p.gives("[1]", "HPEXPIRE", "hash", 1_800_000, "XX", "FIELDS", 1, "field")
	p.click("change")
	p.set("dialog textarea", "late")
	p.run("HSET", "hash", "other", "v")
	p.run("HDEL", "hash", "field")
	p.click("Save")
	p.wait("The element has changed or is gone")
	p.gives("0", "HEXISTS", "hash", "field")
}

// An element of a list is changed where it still stands at its index, and no other one is.
func TestChangeElement(t *testing.T) {
	p := open(t, "")
	p.run("RPUSH", "list", "first")
	p.open("list")
	p.click("change")
	p.set("dialog textarea", "new")
	p.click("Save")
	p.gives("[new]", "LRANGE", "list", 0, -1)
	p.answered()
	p.click("change")
	p.valueIs("new")
	p.set("dialog textarea", "newer")
	p.run("LPUSH", "list", "pushed")
	p.run("CONFIG", "RESETSTAT")
	p.click("Save")
	p.used("eval")
	p.wait("The element has changed or is gone")
	p.gives("[pushed new]", "LRANGE", "list", 0, -1)
}

// Fields of a hash and members of sets are given deadlines, and keep their values; those go away again.
func TestElementDeadlines(t *testing.T) {
	for key, c := range map[string]struct{ make, look []any }{
		"hash": {[]any{"HSET", "hash", "e", "v"}, []any{"HPEXPIRE", "hash", 1_800_000, "XX", "FIELDS", 1, "e"}},
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
			gone := map[string][]any{"hash": {"HPTTL", "hash", "FIELDS", 1, "e"}, "zset": {"PTTL", "zset", "e"}}
			p.gives(map[string]string{"hash": "[-1]", "zset": "-1"}[key], gone[key]...)
		})
	}
}

// What is added replaces nothing: neither a field nor a score; and a score is changed only of a member that is there.
func TestAddOnly(t *testing.T) {
	p := open(t, "")
	p.run("HSET", "hash", "field", "old")
	p.run("ZADD", "zset", 1, "member")
	add := func(values ...string) {
		for i, v := range values {
			p.set(fmt.Sprintf("#key form input:nth-of-type(%d)", i+1), v)
		}
		p.click("Add")
	}
	p.open("hash")
	p.wait("1 element")
	add("field", "new")
	p.wait("This element exists; it was not changed.")
	p.gives("old", "HGET", "hash", "field")
	add("other", "new")
	p.gives("new", "HGET", "hash", "other")
	p.open("zset")
	p.wait("zset · database 0")
	add("member", "7")
	p.wait("This element exists; it was not changed.")
	p.gives("1", "ZSCORE", "zset", "member")
	p.click("change")
	p.set("dialog textarea", "2")
	p.click("Save")
	p.gives("2", "ZSCORE", "zset", "member")
	p.answered()
	p.click("change")
	p.valueIs("2")
	p.set("dialog textarea", "3")
	p.run("ZADD", "zset", 1, "another")
	p.run("ZREM", "zset", "member")
	p.click("Save")
	p.wait("The element has changed or is gone")
	p.gives("[another]", "ZRANGE", "zset", 0, -1)
}

// A delay queue is shown with its jobs in their order, page by page; one is made due, another one cancelled.
func TestDelayQueue(t *testing.T) {
	p := open(t, "")
	for i := range 120 {
		p.run("KEYP.DELAY", "ADD", "mails", fmt.Sprintf("job-%03d", i), 4_102_444_800_000+i, fmt.Sprint("payload-", i))
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
	p.click("Make due…")
	p.click("Make due")
	p.answered()
	p.wait("waits")
	p.gives("[[early early payload <nil> 2]]", "KEYP.DELAY", "POP", "mails", "NOACK")
	p.click("Load again")
	p.gone("early payload")
	p.click("Remove the job…")
	p.click("Remove the job")
	p.answered()
	p.gone("job-000")
	p.gives("119", "KEYP.DELAY", "LEN", "mails")
}

// Limits are shown with their reservations; one is returned, and all are forgotten.
func TestLimitKey(t *testing.T) {
	p := open(t, "")
	p.run("KEYP.LIMIT", "TAKE", "api", 1, "WINDOW", 9, 1_000_000)
	p.run("KEYP.LIMIT", "TAKE", "api", 3, "WINDOW", 9, 1_000_000, "RESERVE", "request-1", 900_000)
	p.open("api")
	for _, text := range []string{"request-1", "window", "Whole in", "Forget all…"} {
		p.wait(text)
	}
	p.set("#key-limits", "WINDOW 9 1000000")
	p.click("Show what is left")
	p.wait("5, whole in")
	p.click("Return it…")
	p.click("Return it")
	p.answered()
	p.gone("request-1")
	p.gives("[]", "KEYP.LIMIT", "HELD", "api")
	p.gives("1", "EXISTS", "api")
	p.click("Forget all…")
	p.click("Forget all")
	p.answered()
	p.wait("There is no such key")
	p.gives("0", "EXISTS", "api")
}

// A lease is shown with its holder and who waits, and released with the token that is shown.
func TestLeaseKey(t *testing.T) {
	p := open(t, "")
	lease, err := p.redis.Do(await.Context(t), "KEYP.LEASE", "ACQUIRE", "lease", "worker-1", 1_000_000, "DELAY", 5000).Int64Slice()
	if err != nil {
		t.Fatal(err)
	}
	waiter := p.redis.Conn()
	defer waiter.Close()
	granted := make(chan error, 1)
	go func() {
		granted <- waiter.Do(await.Context(t), "KEYP.LEASE", "ACQUIRE", "lease", "worker-2", 1_000_000, "WAIT", 0).Err()
	}()
	await.Until(t, "it waits", func() bool {
		return strings.Contains(fmt.Sprint(p.redis.Do(await.Context(t), "KEYP.LEASE", "INFO", "lease").Val()), "worker-2")
	})
	p.open("lease")
	for _, text := range []string{"held", "worker-1", fmt.Sprint(lease[0]), "Waits since", "worker-2"} {
		p.wait(text)
	}
	p.click("Release…")
	p.click("Release")
	p.answered()
	if err := await.For(t, "the one that waits has it", granted); err != nil {
		t.Error(err)
	}
	p.gone("worker-1")
	p.gives("0", "KEYP.LEASE", "RELEASE", "lease", lease[0])
}

// Entries of a stream are shown field by field, added with several, and removed.
func TestStreamEntries(t *testing.T) {
	p := open(t, "")
	p.run("XADD", "stream", "1-1", "name", "first", "size", "9")
	p.open("stream")
	p.wait("name = first\nsize = 9")
	p.click("Another field")
	for i, v := range []string{"a", "1 2", "b", "3"} {
		p.set(fmt.Sprintf("#key form input:nth-of-type(%d)", i+1), v)
	}
	p.click("Add")
	p.wait("a = 1 2\nb = 3")
	p.gives("2", "XLEN", "stream")
	p.click("remove")
	p.click("Remove")
	p.gone("a = 1 2")
	p.gives("1", "XLEN", "stream")
}

// What is shown as JSON is laid out without changing a part of it, and saved as it was unless it was edited as text.
func TestJSON(t *testing.T) {
	p := open(t, "")
	const json = `{"a":12345678901234567890, "b":[1.0,1e400,{}, "x\"[,"],"a":{"c":[ ]}}`
	p.run("SET", "json", json)
	p.open("json")
	p.valueIs(json)
	p.set("#key .editor select", "JSON")
	p.valueIs("{\n  \"a\": 12345678901234567890,\n  \"b\": [\n    1.0,\n    1e400,\n    {},\n    \"x\\\"[,\"\n  ],\n  \"a\": {\n    \"c\": []\n  }\n}")
	if !js[bool](p, "document.querySelector('#key textarea').readOnly") {
		t.Error("what is laid out can be edited")
	}
	saved := func() {
		t.Helper()
		p.run("CONFIG", "RESETSTAT")
		p.click("Save")
		p.used("set")
	}
	saved()
	p.gives(json, "GET", "json")
	p.valueIs(json)
	p.set("#key .editor select", "JSON")
	p.set("#key .editor select", "text")
	p.valueIs(json)
	p.set("#key textarea", "[2.0]")
	p.set("#key .editor select", "JSON")
	p.valueIs("[\n  2.0\n]")
	saved()
	p.gives("[2.0]", "GET", "json")

	// Bytes that are no text cannot be shown as such, and are not lost by asking for it.
	p.valueIs("[2.0]")
	p.set("#key .editor select", "hex")
	p.set("#key textarea", "ff 00")
	p.set("#key .editor select", "text")
	p.wait("These bytes can be shown as hexadecimal digits only.")
	saved()
	p.gives("\xff\x00", "GET", "json")
}

// A selection has one deadline, or is deleted, after a question that counts it; and a key is made.
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
	p.click("New key…")
	p.set("dialog input[type=text]", "made here")
	p.set("dialog textarea", "with this")
	p.click("Create")
	p.gives("with this", "GET", "made here")
	p.answered()
	p.click("New key…")
	p.set("dialog input[type=text]", "stays")
	p.click("Create")
	p.wait("This key exists.")
	p.gives("v", "GET", "stays")
}

// A new key has the type, the value and the deadline that were chosen; where there is a key of its name, of the same type
// or another, that stays as it is.
func TestNewKey(t *testing.T) {
	p := open(t, "")
	p.see("keys")
	create := func(kind, name, value string) {
		p.click("New key…")
		p.set("dialog input[type=text]", name)
		p.set("dialog select", kind)
		p.set("dialog textarea", value)
		js[bool](p, "document.querySelector('dialog input[type=checkbox]').click(), true")
		p.click("Create")
	}
	for kind, read := range map[string][]any{
		"string": {"GET", "string"}, "hash": {"HGET", "hash", "field"}, "list": {"LRANGE", "list", 0, -1}, "set": {"SMEMBERS", "set"}, "zset": {"ZRANGE", "zset", 0, -1},
	} {
		value := "a " + kind
		want := value
		if kind == "list" || kind == "set" || kind == "zset" {
			want = "[" + value + "]"
		}
		create(kind, kind, value)
		p.gives(want, read...)
		p.gives("1", "PERSIST", kind)
		p.answered()
		for _, other := range []string{kind, "string"} {
			create(other, kind, "another")
			p.wait("This key exists.")
			p.gives(want, read...)
			p.gives("-1", "PTTL", kind)
			p.click("Cancel")
			p.answered()
		}
	}
}

// A key that somebody else makes just before the page's command stays as it is, too.
func TestNewKeyBeside(t *testing.T) {
	p := open(t, "")
	p.see("keys")
	p.click("New key…")
	p.set("dialog input[type=text]", "beside")
	p.set("dialog select", "zset")
	p.set("dialog textarea", "member")
	// What does more than look is sent when the test says so.
	js[bool](p, `(() => {
		const real = window.fetch, held = new Promise(send => { window.send = send; });
		window.fetch = async (...args) => {
			const body = await args[1]?.body?.text();
			if (body && !body.includes("TYPE")) { window.waits = true; await held; }
			return real(...args);
		};
		return true;
	})()`)
	p.click("Create")
	await.Until(t, "the command waits", func() bool { return js[bool](p, "!!window.waits") })
	p.run("ZADD", "beside", 5, "member")
	js[bool](p, "window.send(), true")
	p.wait("This key exists.")
	p.gives("5", "ZSCORE", "beside", "member")
}

// A user who may only read some keys is offered no change, and is shown why others are not.
func TestReader(t *testing.T) {
	p := open(t, "reader", "--requirepass", "secret",
		"--user", "reader", "on", ">reader", "-@all", "+scan", "+type", "+pttl", "+strlen", "+getrange", "~public:*")
	p.run("SET", "public:1", "shown")
	p.run("SET", "private:1", "secret value")
	p.wait("The user reader may not see this")
	p.see("keys")
	p.wait("2 keys.")
	p.wait("no permission")
	p.open("public:1")
	await.Until(t, "the value is shown", func() bool { return js[string](p, "document.querySelector('#key textarea')?.value ?? ''") == "shown" })
	for _, word := range []string{"Save", "Delete", "Set deadline", "New key"} {
		if strings.Contains(p.text(), word) {
			t.Errorf("%s is offered", word)
		}
	}
	p.open("private:1")
	p.wait("NOPERM")
}

// What would take very long to show is shown in part or as it is, and says so.
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
	if strings.Contains(p.text(), "change") {
		t.Error("an element of more than 1 MiB can be edited")
	}
}

// Deadlines that no date can say, and numbers that are no JavaScript number, are shown.
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
