package commands

import "testing"

// TestRightsOfRules: a user who makes, changes or applies a rule needs rights to all keys of its
// pattern, and to its database. Other users do not even see the rule.
func TestRightsOfRules(t *testing.T) {
	h := newHarness(t)
	h.env.Clients[1] = h.client
	h.run(`
		SET secret v -> +OK
		KEYP.POLICY SET s PATTERN secret* ENFORCE DEFAULT 1h -> +OK
		KEYP.POLICY SET all PATTERN * WARN DEFAULT 1h -> +OK
		KEYP.OUTBOX SET os PATTERN secret:* STREAM secret:events -> +OK
		ACL SETUSER u on nopass ~pub:* +@all -> +OK
		ACL SETUSER reader on nopass %R~pub:* +@all -> +OK
		ACL SETUSER here on nopass ~pub:* +@all -select -> +OK
		ACL SETUSER split on nopass ~pub:* +get (~secret* +@all -@dangerous +keyp.policy) -> +OK
	`)
	const rights = "-NOPERM a rule needs the right to read and write all keys of its pattern"
	for user, steps := range map[string]string{
		"u": `
			KEYP.POLICY SET p PATTERN secret ENFORCE DEFAULT 1 -> ` + rights + `
			KEYP.POLICY SET p PATTERN * ENFORCE DEFAULT 1 -> ` + rights + `
			KEYP.POLICY SET p PATTERN p* ENFORCE DEFAULT 1 -> ` + rights + `
			KEYP.POLICY SET s PATTERN pub:* ENFORCE DEFAULT 1 -> ` + rights + `
			KEYP.POLICY APPLY s -> ` + rights + `
			KEYP.POLICY DEL s -> ` + rights + `
			KEYP.POLICY GET s -> nil
			KEYP.POLICY LIST -> []
			KEYP.POLICY SET p PATTERN pub:* DB 7 WARN DEFAULT 1h -> +OK
			KEYP.POLICY APPLY p -> ["0", 0, 0]
			KEYP.POLICY DEL p -> 1
			KEYP.POLICY APPLY none -> -ERR no such policy
			KEYP.OUTBOX LIST -> []
			KEYP.OUTBOX GET os -> nil
			KEYP.OUTBOX STREAMS os -> -ERR no such outbox
			EVAL "return redis.call('KEYP.POLICY', 'DEL', 's')" 0 -> -NOPERM a rule needs the right to read and write all keys of its pattern script: b0711888d9d235988156883803a8b075faff45f1, on @user_script:1.
		`,
		"reader": `
			KEYP.POLICY SET p PATTERN pub:* ENFORCE DEFAULT 1 -> ` + rights + `
		`,
		"here": `
			KEYP.POLICY SET p PATTERN pub:* DB 7 ENFORCE DEFAULT 1 -> -NOPERM a rule for another database needs the right to select that
			KEYP.POLICY SET p PATTERN pub:* DB 0 WARN DEFAULT 1 -> +OK
			KEYP.POLICY DEL p -> 1
			KEYP.OUTBOX SET o PATTERN pub:* DB 7 STREAM pub:s -> -NOPERM a rule for another database needs the right to select that
			KEYP.OUTBOX SET o PATTERN pub:* DB 0 STREAM pub:s -> +OK
			KEYP.OUTBOX STREAMS o -> ["pub:s"]
			KEYP.OUTBOX DEL o -> 1
		`,
		"split": `
			KEYP.POLICY SET p PATTERN pub:* ENFORCE DEFAULT 1 -> ` + rights + `
			KEYP.POLICY SET p PATTERN secret:* WARN DEFAULT 1h -> +OK
			KEYP.POLICY DEL p -> 1
		`,
	} {
		h.run("AUTH " + user + " x -> +OK\n" + steps)
	}
	h.run(`
		AUTH default "" -> +OK
		EXISTS secret -> 1
		KEYP.POLICY DEL s -> 1
	`)
}
