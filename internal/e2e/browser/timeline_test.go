//go:build browser

package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"

	"keyp/internal/testkit/await"
)

// row waits until the table next to the bars of the dashboard's timeline has these rows, each with
// its counts.
func (p *page) row(rows ...string) {
	p.t.Helper()
	want, got := strings.Join(rows, "; "), ""
	defer func() {
		if got != want {
			p.t.Logf("the table has %q, want %q; the page shows:\n%s", got, want, p.text())
		}
	}()
	await.Until(p.t, "the table has "+want, func() bool {
		got = js[string](p,
			`[...document.querySelectorAll("details.bars tbody tr")].map(r => [...r.cells].slice(1, -1).map(c => c.textContent).join(" ")).join("; ")`)
		return got == want
	})
}

// spans returns how many spans the address zooms in on.
func (p *page) spans() int { return js[int](p, `location.hash.split("span=").length - 1`) }

// focus gives the chart of deadlines the keyboard focus.
func (p *page) focus() { js[bool](p, "document.querySelector('.chart.brush').focus(), true") }

// withShift presses a key with Shift.
func (p *page) withShift(key string) {
	p.t.Helper()
	p.key(key, func(e *input.DispatchKeyEventParams) { e.Modifiers |= shift })
}

// hourFrom returns the hour of the calendar that begins the given number of hours from now, in Unix
// ms.
func hourFrom(hours int64) (from, until int64) {
	const hour = int64(time.Hour / time.Millisecond)
	from = (time.Now().UnixMilli()/hour + hours) * hour
	return from, from + hour
}

// offered returns the databases that the timeline offers.
func (p *page) offered() string {
	return js[string](p,
		"[...document.querySelectorAll('.head select option')].map(o => o.textContent).join()")
}

// knows0 opens the timeline and waits until the page knows that database 0 has keys. The page lists
// keys only of databases that have some.
func (p *page) knows0() {
	p.t.Helper()
	p.see("timeline/scale=day")
	await.Until(p.t, "the page knows that database 0 has keys", func() bool {
		return p.offered() == "all,0"
	})
}

// A chosen span of bars is shown in finer bars, with its keys. The span has an address, and there
// are ways back.
func TestZoom(t *testing.T) {
	p := open(t, "")
	from, until := hourFrom(3)
	for i, name := range []string{"a", "b", "c"} {
		p.run("SET", name, "v", "PXAT", from+600_000+int64(i))
	}
	p.run("HSET", "hash", "f", "v")
	p.run("HPEXPIREAT", "hash", from+600_001, "FIELDS", 1, "f")
	p.run("SET", "later", "v", "PXAT", until)
	p.wait("live")
	js[bool](p, "document.querySelector('#scale-hour').click(), true")
	await.Until(t, "all keys are counted", func() bool {
		return js[string](p, "document.querySelector('#scale-hour strong').textContent") == "5"
	})
	js[bool](p, "document.querySelector('details.bars').open = true")

	// Select the whole day with the mouse.
	p.drag(0, 0.99)
	p.wait("5 keys from ")
	p.row("4", "1")
	if n := p.spans(); n != 1 {
		t.Errorf("the address has %d spans: %s", n, js[string](p, "location.hash"))
	}
	p.focus()
	p.key(kb.Escape)
	p.gone("Zoom out")
	p.gone("5 keys from ")
	if n := p.spans(); n != 0 {
		t.Errorf("zoomed out, the address has %d spans: %s", n, js[string](p, "location.hash"))
	}

	// Open the hour by its address, and select its first half with the keyboard.
	p.see(fmt.Sprintf("timeline/scale=hour&span=%d-%d", from, until))
	p.wait("4 keys from ")
	p.row("4")
	p.focus()
	p.key(kb.Home)
	for range 59 {
		p.withShift(kb.ArrowRight)
	}
	p.key(kb.Enter)
	await.Until(t, "the first half is zoomed in on", func() bool {
		return strings.HasSuffix(js[string](p, "location.hash"),
			fmt.Sprintf("span=%d-%d", from, from+1_800_000))
	})
	p.wait("4 keys from ")
	p.row("4")
	p.click("Zoom out")
	await.Until(t, "the hour is shown", func() bool { return p.spans() == 1 })
	js[bool](p, "history.back(), true")
	await.Until(t, "the half is shown again", func() bool { return p.spans() == 2 })
	p.click("next day")
	p.gone("Zoom out")
}

// Deadlines are counted by patterns, for the names that the user may see.
func TestPatterns(t *testing.T) {
	p := open(t, "watcher", "--requirepass", "secret",
		"--user", "watcher", "on", ">watcher", "-@all", "+info", "+latency|histogram", "+scan",
		"+pexpiretime", "~a:*", "~b:*")
	from, until := hourFrom(3)
	for _, name := range []string{"a:1", "a:2", "a:<b>3</b>", "b:1", "b:2", "c:1"} {
		p.run("SET", name, "v", "PXAT", from+1000)
	}
	p.wait("live")
	p.knows0()
	p.see(fmt.Sprintf("timeline/scale=day&span=%d-%d", from, until))
	p.wait("Zoom out")
	js[bool](p, "document.querySelector('details.bars').open = true")
	p.row("6")
	p.set("#timeline-patterns", "a:<* a:* c:*")
	p.click("Count")
	p.row("1 2 0 2")
	p.wait("other names that you may see")
	p.wait(" ago.")
	p.run("DEL", "a:1", "b:1")
	p.row("1 1 0 1")
	p.set("#timeline-patterns", "1 2 3 4 5")
	p.click("Count")
	p.wait("At most 4 patterns")
	p.row("1 1 0 1")

	// The address contains the patterns, also for deadlines from now on.
	p.see("timeline/scale=day&match=b:*")
	p.row("1 2")
	p.see("timeline/scale=day")
	p.row("4")
}

// Past expiries and their delays are shown by the second. They are also shown by the minute,
// whether the page was open at the time or not.
func TestLately(t *testing.T) {
	p := open(t, "")
	p.wait("live")
	js[bool](p, "document.querySelector('details.lately').open = true")
	p.run("SET", "k", "v", "PX", 1)
	await.Until(t, "the key is among what expired", func() bool {
		return js[bool](p,
			`[...document.querySelectorAll("details.lately tbody tr")].some(r => r.cells[1].textContent === "1" && r.cells[5].textContent !== "–")`)
	})
	p.click("two hours")
	p.wait("keys a minute")
	p.click("two minutes")
	p.wait("keys a second")
}

// A user without SELECT is offered only database 0, and the page asks only for the keys of that.
func TestTimelineWithoutSelect(t *testing.T) {
	p := open(t, "watcher", "--requirepass", "secret",
		"--user", "watcher", "on", ">watcher", "-@all", "+info", "+latency|histogram", "+scan",
		"+pexpiretime", "~*")
	from, until := hourFrom(3)
	p.run("SET", "secret", "v", "PXAT", from+1000)
	p.run("MOVE", "secret", 5)
	p.run("SET", "public", "v", "PXAT", from+1000)
	p.wait("live")
	js[bool](p, `(() => {
		const real = window.fetch;
		window.asked = [];
		window.fetch = (url, ...rest) => { window.asked.push(url); return real(url, ...rest); };
		return true;
	})()`)
	p.knows0()
	p.see(fmt.Sprintf("timeline/scale=day&span=%d-%d", from, until))
	p.wait("1 key from ")
	p.wait("Only database 0 is listed: you may not SELECT others.")
	p.wait("public")
	if got := p.offered(); got != "all,0" {
		t.Errorf("databases %s are offered", got)
	}
	p.see(fmt.Sprintf("timeline/scale=day&db=5&span=%d-%d", from, until))
	p.wait("Database 5 is not listed: you may not SELECT it.")
	if strings.Contains(p.text(), "secret") ||
		js[bool](p, "asked.some(url => url.includes('due?db=5'))") {
		t.Errorf("the page asks for keys of database 5: %v", js[[]string](p, "asked"))
	}

	p.run("ACL", "SETUSER", "watcher", "+select")
	p.hide(true)
	p.hide(false)
	p.wait("1 key from ")
	p.wait("secret")
}

// The page explains that a span is over, or that the server refuses a pattern.
func TestTimelineInWords(t *testing.T) {
	p := open(t, "")
	p.wait("live")
	p.run("SET", "k", "v", "EX", 3600)
	from, until := hourFrom(-72)
	p.see(fmt.Sprintf("timeline/scale=day&span=%d-%d", from, until))
	p.wait("This span is past: no key expires in it any more.")
	long := strings.Repeat("é", 600)
	p.see("timeline/scale=day&match=" + long)
	p.wait("A pattern has 1 KiB at most.")
	await.Until(t, "the key is counted", func() bool {
		return js[string](p, "document.querySelector('#scale-day strong').textContent") == "1"
	})
	from, until = hourFrom(0)
	p.see(fmt.Sprintf("timeline/scale=day&span=%d-%d", from, until+3_600_000))
	p.wait("1 key from ")
	js[bool](p,
		fmt.Sprintf("(() => { const i = document.querySelector('#due-pattern'); i.value = %q; i.form.requestSubmit(); return true })()",
			long))
	p.wait("A pattern has 1 KiB at most.")
	if strings.Contains(p.text(), "wanted:") {
		t.Errorf("the page shows what the server wants of a program:\n%s", p.text())
	}
}
