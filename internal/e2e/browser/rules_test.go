//go:build browser

package browser

import "testing"

// The view of rules shows policies, outboxes and the clock, and their changes while it is open. It
// shows names and patterns as text.
func TestRules(t *testing.T) {
	p := open(t, "")
	p.see("rules")
	p.wait("There is no policy.")
	p.wait("There is no outbox.")
	p.wait("the wall clock")

	p.run("KEYP.POLICY", "SET", "<b>sessions</b>", "PATTERN", "session:*", "ENFORCE", "DEFAULT",
		"30m", "MAX", "1d", "CUT", "JITTER", "10", "SLIDE", "30m", "LIMIT", "12h")
	p.run("KEYP.POLICY", "SET", "all", "PATTERN", "*", "DB", "1", "MAX", "90d", "REFUSE", "REQUIRE")
	p.run("KEYP.OUTBOX", "SET", "orders", "PATTERN", "order:*", "TYPE", "hash", "ELEMENTS",
		"STREAM", "expired")
	p.wait("<b>sessions</b>")
	p.wait("DEFAULT 30 min, MAX 1 d CUT, JITTER 10 %, SLIDE 30 min LIMIT 12 h")
	p.wait("MAX 90 d REFUSE, REQUIRE")
	p.wait("hash, and elements")
	p.wait("fine")
	p.run("SET", "session:1", "v")
	p.wait("1 defaulted")

	p.run("SET", "expired", "of another type")
	p.run("HSET", "order:1", "f", "v")
	p.run("PEXPIRE", "order:1", "1")
	p.wait("1, from ")
	p.wait("the stream's key holds another type")
	p.run("DEL", "expired")
	p.gone("the stream's key holds another type")
	p.run("KEYP.OUTBOX", "DEL", "orders")
	p.wait("There is no outbox.")
}

// A user sees only the parts of the rules that the user's rights allow.
func TestRulesWithoutRights(t *testing.T) {
	p := open(t, "looker", "--requirepass", "secret", "--user", "looker", "on", ">looker", "-@all",
		"+info", "+keyp.policy|list")
	p.see("rules")
	p.wait("There is no policy.")
	p.gone("Outboxes")
	p.gone("the wall clock")

	p = open(t, "nobody", "--requirepass", "secret", "--user", "nobody", "on", ">nobody",
		"-@all", "+info")
	p.see("rules")
	p.wait("it needs KEYP.POLICY LIST, KEYP.OUTBOX LIST or KEYP.CLOCK INFO")
}
