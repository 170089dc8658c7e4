package commands

import (
	"testing"
	"time"
)

// TestFollowerRefusesWrites: a follower's store can be read and not written. EXEC and scripts
// cannot write either. Commands that read and would also store something are refused, such as
// PFCOUNT and reads under a policy that extends deadlines.
func TestFollowerRefusesWrites(t *testing.T) {
	const refused = "-READONLY You can't write against a read only replica."
	h := newHarness(t)
	h.run(`
		SET k v -> +OK
		PFADD p a b -> 1
		KEYP.POLICY SET slides PATTERN k SLIDE 100s ENFORCE -> +OK
		SET k v EX 100 -> +OK
		MULTI -> +OK
		SET k w -> +QUEUED
	`)
	h.store.SetFollower(true)
	h.clock.Advance(10 * time.Second)
	end := h.store.Log().End()
	h.run(`
		EXEC -> -EXECABORT Transaction discarded because of: ` + refused[1:] + `
		GET k -> "v"
		TTL k -> 90
		SET k w -> ` + refused + `
		DEL k -> ` + refused + `
		FLUSHALL -> ` + refused + `
		MULTI -> +OK
		GET k -> +QUEUED
		SET k w -> ` + refused + `
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
		EVAL "return redis.call('GET', KEYS[1])" 1 k -> "v"
		EVAL "return redis.pcall('SET', KEYS[1], 'w')['err']" 1 k -> "` + refused[1:] + `"
		PFCOUNT p -> 2
		DBSIZE -> 2
		KEYP.CLOCK CONFIRM -> ` + refused + `
	`)
	if got := h.store.Log().End(); got != end || h.ctx.LSN > end || h.store.Err() != nil {
		t.Errorf("the log has grown by %d bytes, and the store says %v", got-end, h.store.Err())
	}
	h.store.SetFollower(false)
	h.run(`
		SET k w -> +OK
		GET k -> "w"
	`)
}
