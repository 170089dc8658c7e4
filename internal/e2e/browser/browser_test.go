//go:build browser

// Package browser tests the dashboard in a headless Chromium, with a real server whose data a Redis
// client changes. `make browser` and `make screenshots` set the build tag browser, which keeps the
// library that controls Chromium out of other builds.
package browser

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	_ "keyp/internal/testkit/setup"
)

// page is a browser tab with a server's dashboard.
type page struct {
	t      *testing.T
	server *testkit.Server
	http   string // host:port
	redis  *redis.Client
	tab    context.Context
}

// chromium returns the path of a browser that can show a page on this machine. Without one it skips
// the test.
func chromium(t *testing.T) string {
	t.Helper()
	path, why := browserHere()
	switch {
	case why == "":
	case os.Getenv("KEYP_REQUIRE_CHROMIUM") == "1":
		t.Fatalf("%s, and KEYP_REQUIRE_CHROMIUM=1", why)
	default:
		t.Skip(why + ": the dashboard is not tested in a browser")
	}
	return path
}

// browserHere looks once for a browser, and makes it show an empty page. If that fails, it returns
// the reason, for which the tests are skipped.
var browserHere = sync.OnceValues(func() (path, why string) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, found := testkit.FindTool(name); found {
			ctx, cancel := await.Hurried(context.Background(), await.Bound)
			defer cancel()
			out, err := exec.CommandContext(ctx, path, "--headless", "--no-sandbox",
				"--disable-gpu", "--dump-dom", "about:blank").Output()
			if err == nil && strings.Contains(string(out), "<html>") {
				return path, ""
			}
			return "", fmt.Sprintf("%s cannot show a page here (%v)", name, err)
		}
	}
	return "", "chromium is not installed"
})

// open starts a server and opens its dashboard in a browser, as the given user unless that is
// empty.
func open(t *testing.T, user string, args ...string) *page {
	t.Helper()
	p := serve(t, args...)
	p.browse(user)
	return p
}

// serve starts a server but does not open its dashboard.
func serve(t *testing.T, args ...string) *page {
	t.Helper()
	chromium(t)
	p := &page{t: t, http: "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))}
	p.server = testkit.NewKeyp(t, testkit.Options{Args: append(args, "--http-addr", p.http)})
	p.server.Start()
	p.redis = testkit.NewClient(t, &redis.Options{Addr: p.server.Addr(), Password: "secret",
		Username: "default", DisableIdentity: true})
	return p
}

// browse opens the dashboard.
func (p *page) browse(user string) {
	p.t.Helper()
	allocator, end := chromedp.NewExecAllocator(await.Context(p.t),
		chromedp.ExecPath(chromium(p.t)), chromedp.Headless, chromedp.NoSandbox)
	p.t.Cleanup(end)
	tab, end := chromedp.NewContext(allocator, chromedp.WithListener(p.complaint))
	p.t.Cleanup(end)
	p.tab = tab
	p.do(chromedp.EmulateViewport(1280, 900))
	if user != "" {
		user += ":" + user + "@"
	}
	p.do(chromedp.Navigate("http://" + user + p.http + "/"))
}

// complaint fails the test if a script of the page throws, or if the page violates its policy.
func (p *page) complaint(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.t.Errorf("a script of the page failed: %s %+v", e.ExceptionDetails.Text,
			e.ExceptionDetails.Exception)
	case *log.EventEntryAdded:
		if strings.Contains(e.Entry.Text, "Security Policy") ||
			strings.Contains(e.Entry.Text, "TrustedHTML") {
			p.t.Errorf("the page did what its policy forbids: %s", e.Entry.Text)
		}
	}
}

func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.tab, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// js returns the value of an expression in the page.
func js[T any](p *page, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.tab, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// text returns the text that the page shows. It fails the test if that contains a word like
// undefined or null.
func (p *page) text() string {
	p.t.Helper()
	text := js[string](p, "document.body.innerText")
	if word := missing.FindString(text); word != "" {
		p.t.Errorf("the page shows %q:\n%s", word, text)
	}
	return text
}

// missing matches the words that a script writes for a missing value.
var missing = regexp.MustCompile(`\b(undefined|null|NaN|false)\b`)

// wait waits until the page shows a text.
func (p *page) wait(text string) {
	p.t.Helper()
	shown := ""
	defer func() {
		if p.t.Failed() || !strings.Contains(shown, text) {
			p.t.Logf("the page shows:\n%s", shown)
		}
	}()
	await.Until(p.t, "the page shows "+text, func() bool {
		shown = p.text()
		return strings.Contains(shown, text)
	})
}

// gone waits until the page no longer shows a text.
func (p *page) gone(text string) {
	p.t.Helper()
	await.Until(p.t, "the page no longer shows "+text, func() bool {
		return !strings.Contains(p.text(), text)
	})
}

// see opens a view by its address.
func (p *page) see(view string) {
	p.t.Helper()
	js[bool](p, fmt.Sprintf("location.hash = %q; true", view))
}

// click clicks on the button or link with a text, once it exists. The element may be replaced at
// any moment.
func (p *page) click(text string) {
	p.t.Helper()
	found :=
		fmt.Sprintf("[...document.querySelectorAll('button, a, summary')].find(e => e.offsetParent && e.textContent.trim() === %q)",
			text)
	await.Until(p.t, "there is a button "+text, func() bool {
		return js[bool](p, "(() => { const e = "+found+"; e?.click(); return !!e })()")
	})
}

// run runs a command of a Redis client.
func (p *page) run(words ...any) {
	p.t.Helper()
	if err := p.redis.Do(await.Context(p.t), words...).Err(); err != nil &&
		!errors.Is(err, redis.Nil) {
		p.t.Fatalf("%v: %v", words, err)
	}
}

// key presses a key.
func (p *page) key(keys string, options ...chromedp.KeyOption) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys, options...))
}

// drag moves the pressed mouse over a part of the first chart. from and to are shares of its width.
func (p *page) drag(from, to float64) {
	p.t.Helper()
	js[bool](p, fmt.Sprintf(`(() => {
		const chart = document.querySelector(".chart.brush"), r = chart.getBoundingClientRect();
		chart.setPointerCapture = () => {};
		const send = (type, share) => chart.dispatchEvent(new PointerEvent(type, {clientX: r.left + 44 + (r.width - 44) * share, clientY: r.top + 60, button: 0, pointerId: 1, bubbles: true}));
		send("pointerdown", %v); send("pointermove", %v); send("pointerup", %v);
		return true;
	})()`, from, to, to))
}

// scheme switches the page to light or dark.
func (p *page) scheme(name string) {
	p.t.Helper()
	if _, err := chromedp.Call(p.tab, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: name}}}); err != nil {
		p.t.Fatal(err)
	}
}

// shift is the bit of the Shift key in a set of modifiers.
const shift = 8

var day = 24 * time.Hour

// hostile has names of keys that a page must show as text only.
var hostile = []string{
	`<script>window.hacked = 1</script>`, `<img src=x onerror="window.hacked = 1">`,
	`"><svg onload=window.hacked=1>`, `javascript:window.hacked=1`,
	`{{constructor.constructor('window.hacked=1')()}}`,
	"\x00\xff\xfe\x80binary", "\u202eright to left", strings.Repeat("long", 1<<18), " ", "a\nb\tc",
}

// The timeline shows the expiries of each database by second, minute, hour and day. The keys of a
// span are listed in the order of their deadlines, whatever their names are.
func TestTimeline(t *testing.T) {
	p := open(t, "")
	p.wait("live")
	for i, name := range hostile {
		p.run("SET", name, "v", "PX",
			(30*time.Minute + time.Duration(i)*time.Second).Milliseconds())
	}
	p.run("HSET", "hash", "f", "v")
	p.run("HPEXPIRE", "hash", (40 * time.Minute).Milliseconds(), "FIELDS", 1, "f")
	p.run("SET", "next week", "v", "PX", (6 * day).Milliseconds())
	p.run("SET", "persistent", "v")
	tile := func(scale string) string {
		return js[string](p, `document.querySelector("#scale-`+scale+` strong")?.textContent ?? ""`)
	}
	await.Until(t, "all keys are counted", func() bool {
		return tile("minute") == "11" && tile("hour") == "11" && tile("day") == "12"
	})
	js[bool](p, "document.querySelector('#scale-minute').click(), true")
	p.drag(0, 0.99)
	p.wait("11 keys from ")
	text := p.text()
	for _, want := range []string{"<script>window.hacked = 1</script>",
		`<img src=x onerror="window.hacked = 1">`, `\x00\xff\xfe\x80binary`,
		`\u{202e}right to left`, "longlong", "(1.0 MiB)", `a\u{a}b\u{9}c`, "hash", "an element"} {
		if !strings.Contains(text, want) {
			t.Errorf("the list has no %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, "next week") || strings.Index(text, "<script>") > strings.Index(text,
		"right to left") {
		t.Errorf("the list has other keys, or another order:\n%s", text)
	}
	if js[bool](p,
		"'hacked' in window || document.querySelectorAll('main script, main img').length > 0") {
		t.Error("a name became part of the page")
	}
	p.click("Close")
	p.gone("11 keys from ")

	// By keys: the whole hour, from its first to its last bar.
	js[bool](p, "document.querySelector('.chart.brush').focus(), true")
	p.key(kb.Home)
	p.key(kb.End, func(e *input.DispatchKeyEventParams) { e.Modifiers |= shift })
	p.key(kb.Enter)
	p.wait("11 keys from ")
	js[bool](p,
		"(() => { const i = document.querySelector('#due-pattern'); i.value = 'ha*'; i.form.requestSubmit(); return true })()")
	p.wait("1 key from ")
}

// The view of the present shows what clients do.
func TestNow(t *testing.T) {
	p := open(t, "")
	p.see("now")
	p.wait("Latency by command")
	await.Until(t, "the commands of a client are shown", func() bool {
		p.run("INCR", "counter")
		p.run("GET", "missing")
		text := p.text()
		return strings.Contains(text, "INCR") && strings.Contains(text, "µs") &&
			strings.Contains(text, "string")
	})
	p.wait("Log and checkpoint")
	p.wait("of type string")
	p.run("CONFIG", "SET", "slowlog-log-slower-than", "0")
	p.run("SET", "<b>slow</b>", "v")
	js[bool](p,
		"[...document.querySelectorAll('main button')].filter(b => b.textContent === 'Load').forEach(b => b.click()), true")
	p.wait("SET <b>slow</b> v")
	p.wait("client list")
}

// A sample of keys shows the largest of them. Events are shown as they come while the view is open.
func TestLook(t *testing.T) {
	p := open(t, "", "--notify-keyspace-events", "KEA")
	p.run("SET", "<b>big</b>", strings.Repeat("v", 100_000))
	p.run("SET", "small", "v")
	p.see("now")
	p.click("Sample")
	p.wait("The biggest of 2 keys")
	p.wait("<b>big</b>")
	p.click("Start")
	await.Until(t, "an event is shown", func() bool {
		p.run("SET", "<i>happened</i>", "v")
		return strings.Contains(p.text(), "<i>happened</i>")
	})
	p.see("timeline")
	await.Until(t, "nobody subscribes any more", func() bool {
		return p.redis.PubSubNumPat(await.Context(t)).Val() == 0
	})
}

// When the server is killed, the page says so and keeps what it shows. It continues by itself when
// the server is back.
func TestServerReturns(t *testing.T) {
	p := open(t, "")
	p.run("SET", "k", "v", "EX", 3000)
	p.wait("live")
	p.server.Kill()
	p.wait("not connected")
	p.wait("Trying again")
	p.wait("When keys expire")
	p.server.Start()
	p.gone("Trying again")
	p.wait("live")
	await.Until(t, "the key is counted", func() bool {
		return js[string](p,
			`document.querySelector("#scale-minute strong")?.textContent ?? ""`) == "1"
	})
}

// hide makes the page hidden, as if another tab were shown, or visible again.
func (p *page) hide(hidden bool) {
	p.t.Helper()
	js[bool](p,
		fmt.Sprintf("Object.defineProperty(document, 'hidden', {value: %v, configurable: true}), document.dispatchEvent(new Event('visibilitychange', {bubbles: true}))",
			hidden))
}

// A hidden page keeps no connection, since a browser has only six for a server. A page that becomes
// visible again continues.
func TestHiddenTabs(t *testing.T) {
	p := open(t, "")
	first := p.tab
	for range 6 {
		p.wait("live")
		p.hide(true)
		tab, end := chromedp.NewContext(first, chromedp.WithListener(p.complaint))
		t.Cleanup(end)
		p.tab = tab
		p.do(chromedp.Navigate("http://" + p.http + "/"))
	}
	p.wait("live")
	p.tab = first
	p.wait("paused")
	p.hide(false)
	p.wait("live")
}

// TestWithoutRights: if a user may see nothing, the page names the missing rights and shows no
// buttons.
func TestWithoutRights(t *testing.T) {
	p := open(t, "nobody", "--requirepass", "secret", "--user", "nobody", "on", ">nobody", "-@all")
	p.wait("The user nobody may not see this: it needs INFO and LATENCY HISTOGRAM")
	if n := js[int](p, "document.querySelectorAll('main button').length"); n > 0 {
		t.Errorf("%d buttons are offered", n)
	}
}

// fill sets n keys with deadlines: half of them within an hour, the others within fifty days.
func (p *page) fill(n int) {
	p.t.Helper()
	dice := rand.New(rand.NewPCG(1, 2))
	for done := 0; done < n; done += 10_000 {
		ctx := await.Context(p.t)
		_, err := p.redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := done; i < min(n, done+10_000); i++ {
				switch {
				case i%2 == 0:
					pipe.Set(ctx, fmt.Sprintf("session:%d", i), "v",
						time.Duration(1000+dice.ExpFloat64()*900_000)*time.Millisecond)
				case i%3 == 0:
					pipe.Set(ctx, fmt.Sprintf("token:%d", i), "v",
						time.Duration(1+dice.Float64()*dice.Float64()*49*86400)*time.Second)
				case i%5 == 0:
					pipe.HSet(ctx, fmt.Sprintf("cart:%d", i), "apples", 3, "pears", 2)
					pipe.HExpire(ctx, fmt.Sprintf("cart:%d", i),
						time.Duration(60+dice.IntN(80_000))*time.Second, "pears")
				default:
					pipe.Set(ctx, fmt.Sprintf("cache:page/%d", i), "<html>",
						time.Duration(60+dice.IntN(86_000))*time.Second)
				}
			}
			return nil
		})
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

// With two million keys all are counted, and the keys of a span are listed.
func TestManyKeys(t *testing.T) {
	if !testkit.Long() {
		t.Skip("takes a minute: KEYP_LONG=1")
	}
	p := serve(t)
	p.fill(2_000_000)
	p.browse("")
	await.Until(t, "all keys are counted", func() bool { // some of them have expired
		return js[bool](p,
			`/^(2|1\.[1-9])M$/.test(document.querySelector("#scale-day strong")?.textContent)`)
	})
	js[bool](p, "document.querySelector('#scale-hour').click(), true")
	p.drag(0.5, 0.6)
	p.wait("The first 500 keys from ")
}

// TestScreenshots makes the pictures of the documentation, for `make screenshots`.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("KEYP_SCREENSHOTS")
	if dir == "" {
		t.Skip("no pictures are wanted: make screenshots")
	}
	p := open(t, "")
	p.fill(60_000)
	ctx, stop := context.WithCancel(await.Context(t))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		dice := rand.New(rand.NewPCG(3, 4))
		for ctx.Err() == nil {
			_, _ = p.redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for range 200 {
					pipe.Get(ctx, fmt.Sprintf("session:%d", 2*dice.IntN(36_000)))
					pipe.Set(ctx, fmt.Sprintf("session:%d", 2*dice.IntN(30_000)), "v",
						time.Duration(2000+dice.IntN(90_000))*time.Millisecond)
					pipe.ZAdd(ctx, fmt.Sprintf("board:%d", dice.IntN(20)),
						redis.Z{Score: dice.Float64(), Member: dice.IntN(500)})
				}
				return nil
			})
			await.Pass(50 * time.Millisecond)
		}
	}()
	defer func() { stop(); <-ended }()
	picture := func(name string, width int64) {
		t.Helper()
		p.do(chromedp.EmulateViewport(width, 800))
		await.Until(t, "the page is drawn", func() bool {
			return js[bool](p, "document.querySelectorAll('.chart svg').length > 0")
		})
		await.Pass(time.Second)
		data, err := chromedp.Run(p.tab, chromedp.FullScreenshot(100))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p.scheme("light")
	await.Until(t, "there is some history", func() bool {
		return js[int](p, "document.querySelectorAll('tbody tr').length") >= 20
	})
	js[bool](p, "document.querySelector('#scale-second').click(), true")
	picture("timeline", 1280)
	p.scheme("dark")
	p.see("now")
	picture("now", 1280)
	p.scheme("light")
	p.see("timeline")
	js[bool](p, "document.querySelector('#scale-hour').click(), true")
	picture("timeline-narrow", 400)
}
