//go:build browser

package browser

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"keyp/internal/testkit/await"
)

// TestDamagedAddress: the state of the dashboard is in the page's address. If that is damaged, the
// page says so, and continues.
func TestDamagedAddress(t *testing.T) {
	p := open(t, "")
	p.run("SET", "k", "v")
	load := func(address string) {
		p.do(chromedp.Navigate("about:blank"))
		p.do(chromedp.Navigate("http://" + p.http + "/#" + address))
		p.wait("live")
	}
	for _, address := range []string{"keys/0/%zz", "keys/0/!!!", "keys/0/aw%3", "keys/0/a",
		"keys/x/aw==", "keys//aw=="} {
		load(address)
		p.wait("This address names no key")
		p.wait("1 key.")
		p.open("k")
		p.valueIs("v")
		p.see(address)
		p.wait("This address names no key")
		p.click("Close")
		p.gone("This address names no key")
	}
	for _, address := range []string{"%zz", "timeline/%zz",
		"timeline/scale=x&db=%zz&span=x-%&match=%zz", "timeline/span=1&span=5-6.5&span=2-1",
		"timeline/span=8639999999999999-8640000000000000"} {
		load(address)
		p.wait("When keys expire")
	}

	// Base64 can contain slashes, and a link may have them unescaped.
	p.run("SET", "\xff\xff\xff", "of bytes")
	load("keys/0/" + base64.StdEncoding.EncodeToString([]byte("\xff\xff\xff")))
	p.valueIs("of bytes")
}

// An exception in a view is shown. It does not affect the other views or the stream of the page.
func TestFailingView(t *testing.T) {
	p := open(t, "")
	p.wait("live")
	// The exception here is intended, so it must not count as a complaint.
	js[bool](p, `(() => {
		addEventListener("error", e => e.preventDefault());
		const real = URLSearchParams;
		window.URLSearchParams = function (of) {
			if (typeof of === "string") throw new Error("broken here");
			return new real(of);
		};
		return true;
	})()`)
	p.see("timeline/scale=day")
	p.wait("This part of the page failed: broken here")
	p.server.Kill()
	p.wait("not connected")
	p.server.Start()
	p.wait("live")
	p.wait("This part of the page failed: broken here")
	p.see("now")
	p.wait("Latency by command")
	p.gone("broken here")
}

// The page offers actions according to the user's current rights after it has asked for them again.
// It asks when it becomes visible again, and when its connection comes back.
func TestRightsChange(t *testing.T) {
	p := open(t, "editor", "--requirepass", "secret", "--user", "editor", "on", ">editor", "+@all",
		"~*")
	p.run("SET", "k", "v")
	databases := func(n int) {
		t.Helper()
		await.Until(t, fmt.Sprintf("%d databases are offered", n), func() bool {
			return js[int](p,
				"document.querySelectorAll('main select option[value=\"1\"]').length") == n-1
		})
	}
	offered := func(n int) {
		t.Helper()
		p.see("now")
		p.wait("Big keys")
		databases(n)
		p.open("k")
		p.valueIs("v")
		databases(n)
	}
	offered(2)
	p.wait("Set deadline…")
	p.wait("Delete…")

	p.run("ACL", "SETUSER", "editor", "-pexpire", "-unlink", "-select")
	p.hide(true)
	p.wait("paused")
	p.hide(false)
	p.gone("Set deadline…")
	p.gone("Delete…")
	offered(1)

	p.server.Kill() // its users are those of its arguments again
	p.wait("not connected")
	p.server.Start()
	p.wait("Set deadline…")
	offered(2)
}
