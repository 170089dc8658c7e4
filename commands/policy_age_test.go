package commands

import "testing"

// TestPolicyMaxAge: a policy (KEYP.POLICY) may give streams a maximum age. A stream without one
// gets it when it is created or changed, or by KEYP.POLICY APPLY.
func TestPolicyMaxAge(t *testing.T) {
	table(t, `
		XADD old:s 1700000000000-1 a 1 -> "1700000000000-1"
		XADD own:s 1700000000000-1 a 1 -> "1700000000000-1"
		XCFGSET own:s MAXAGE 5000 -> +OK
		KEYP.POLICY SET ages PATTERN * MAXAGE 1s FOO -> -ERR syntax error: 'FOO' is no option here
		KEYP.POLICY SET ages PATTERN * MAXAGE 0 -> -ERR MAXAGE is a positive number of milliseconds, or has a unit: ms, s, m, h or d
		KEYP.POLICY SET ages PATTERN * MAXAGE 1s DELREF -> +OK
		XADD new:s 1700000000000-1 a 1 -> "1700000000000-1"
		advance 1s
		XLEN new:s -> 1
		KEYP.POLICY SET ages PATTERN * ENFORCE MAXAGE 1500 DELREF -> +OK
		reopen
		XLEN new:s -> 1
		XADD new:s 1700000001000-1 a 1 -> "1700000001000-1"
		XADD own:s 1700000001000-1 a 1 -> "1700000001000-1"
		SET string 1 -> +OK
		advance 499ms
		XLEN new:s -> 2
		advance 1ms
		XLEN new:s -> 1
		XLEN own:s -> 2
		XLEN old:s -> 1
		reopen
		XLEN new:s -> 1
		KEYP.POLICY APPLY ages -> ["0", 4, 1]
		XLEN old:s -> 0
		KEYP.POLICY APPLY ages -> ["0", 4, 0]
		XGROUP CREATE made:s g 0 MKSTREAM -> +OK
		XCFGSET made:s MAXAGE 0 -> +OK
		XADD made:s 1700000000000-1 a 1 -> "1700000000000-1"
		XLEN made:s -> 0
		KEYP.POLICY GET ages -> ["name", "ages", "pattern", "*", "db", 0, "mode", "ENFORCE", "over", "CUT", "require", 0, "default", 0, "max", 0, "jitter", 0, "slide", 0, "limit", 0, "defaulted", 0, "cut", 0, "jittered", 0, "refused", 0, "slid", 0, "max-age", 1500, "max-age-condition", "DELREF", "aged", 3]
		KEYP.POLICY DEL ages -> 1
		XADD free:s 1700000000000-1 a 1 -> "1700000000000-1"
		XLEN free:s -> 1
	`)
}

// TestApplyReadsNothing: KEYP.POLICY APPLY does not count as an access to a key, and extends no
// deadline.
func TestApplyReadsNothing(t *testing.T) {
	for _, value := range []string{`XADD x 1-1 a 1 -> "1-1"`, "SET x 1 -> +OK", "RPUSH x 1 -> 1"} {
		newHarness(t).run(value + `
			PEXPIRE x 100000 -> 1
			KEYP.POLICY SET p PATTERN * ENFORCE SLIDE 1000s -> +OK
			advance 50s
			KEYP.POLICY APPLY p -> ["0", 1, 0]
			PTTL x -> 50000
			OBJECT IDLETIME x -> 50
		`)
	}
}

// TestOtherPoliciesLeaveOrder: a policy about other keys does not change the order in which a
// command removes expired keys and writes.
func TestOtherPoliciesLeaveOrder(t *testing.T) {
	newHarness(t).run(`
		KEYP.POLICY SET p PATTERN other ENFORCE MAX 100s CUT -> +OK
		KEYP.POLICY SET warns PATTERN k* MAX 100s REFUSE -> +OK
		PSETEX k1 10 v -> +OK
		PSETEX k2 10 v -> +OK
		events -> set:k1 expire:k1 set:k2 expire:k2
		advance 10ms
		MSET k1 a k2 b -> +OK
		events -> expired:k1 set:k1 expired:k2 set:k2
	`)
}
