package commands

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/internal/rdb"
	"keyp/resp"
	"keyp/storage/object"
)

func TestLimitTokens(t *testing.T) {
	table(t, `
		KEYP.LIMIT TAKE k 1 TOKENS 3 1 1000 -> [1, 0, 0, [2], [1000]]
		PTTL k -> 1000
		KEYP.LIMIT TAKE k 2 TOKENS 3 1 1000 -> [1, 0, 0, [0], [3000]]
		KEYP.LIMIT TAKE k 1 TOKENS 3 1 1000 -> [0, 1, 1000, [0], [3000]]
		PTTL k -> 3000
		advance 999ms
		KEYP.LIMIT TAKE k 1 TOKENS 3 1 1000 -> [0, 1, 1, [0], [2001]]
		reopen
		KEYP.LIMIT PEEK k 1 TOKENS 3 1 1000 -> [0, 1, 1, [0], [2001]]
		advance 1ms
		KEYP.LIMIT PEEK k 1 TOKENS 3 1 1000 -> [1, 0, 0, [1], [2000]]
		KEYP.LIMIT TAKE k 1 TOKENS 3 1 1000 -> [1, 0, 0, [0], [3000]]
		KEYP.LIMIT TAKE k 3 TOKENS 3 1 1000 -> [0, 1, 3000, [0], [3000]]
		KEYP.LIMIT TAKE k 4 TOKENS 3 1 1000 -> [0, 1, -1, [0], [3000]]
		advance 2999ms
		EXISTS k -> 1
		advance 1ms
		EXISTS k -> 0
		KEYP.LIMIT TAKE k 3 TOKENS 3 1 1000 -> [1, 0, 0, [0], [3000]]
	`)
}

func TestLimitRates(t *testing.T) {
	table(t, `
		# 6000 a second: 1/6 ms each, with no rounding that adds up
		KEYP.LIMIT TAKE k 6000 TOKENS 6000 6000 1000 -> [1, 0, 0, [0], [1000]]
		advance 1ms
		KEYP.LIMIT PEEK k 6 TOKENS 6000 6000 1000 -> [1, 0, 0, [6], [999]]
		KEYP.LIMIT TAKE k 1 TOKENS 6000 6000 1000 -> [1, 0, 0, [5], [1000]]
		KEYP.LIMIT TAKE k 6 TOKENS 6000 6000 1000 -> [0, 1, 1, [5], [1000]]
		KEYP.LIMIT TAKE k 5 TOKENS 6000 6000 1000 -> [1, 0, 0, [0], [1000]]
		# 7 in 3 s: the bucket is full to the millisecond
		KEYP.LIMIT TAKE s 7 TOKENS 7 7 3000 -> [1, 0, 0, [0], [3000]]
		advance 428ms
		KEYP.LIMIT TAKE s 1 TOKENS 7 7 3000 -> [0, 1, 1, [0], [2572]]
		advance 1ms
		KEYP.LIMIT TAKE s 1 TOKENS 7 7 3000 -> [1, 0, 0, [0], [3000]]
		PTTL s -> 3000
		# another definition goes on with what was admitted
		KEYP.LIMIT TAKE s 1 TOKENS 7 70 3000 -> [0, 1, 2743, [0], [3000]]
		KEYP.LIMIT TAKE s 1 TOKENS 100 7 3000 -> [1, 0, 0, [92], [3429]]
	`)
}

func TestLimitWindow(t *testing.T) {
	table(t, `
		KEYP.LIMIT TAKE k 2 WINDOW 3 1000 -> [1, 0, 0, [1], [1000]]
		advance 400ms
		KEYP.LIMIT TAKE k 1 WINDOW 3 1000 -> [1, 0, 0, [0], [1000]]
		KEYP.LIMIT TAKE k 1 WINDOW 3 1000 -> [0, 1, 600, [0], [1000]]
		KEYP.LIMIT TAKE k 3 WINDOW 3 1000 -> [0, 1, 1000, [0], [1000]]
		KEYP.LIMIT TAKE k 4 WINDOW 3 1000 -> [0, 1, -1, [0], [1000]]
		reopen
		advance 599ms
		KEYP.LIMIT PEEK k 1 WINDOW 3 1000 -> [0, 1, 1, [0], [401]]
		advance 1ms
		KEYP.LIMIT TAKE k 1 WINDOW 3 1000 -> [1, 0, 0, [1], [1000]]
		KEYP.LIMIT TAKE k 1 WINDOW 3 1000 -> [1, 0, 0, [0], [1000]]
		# a shorter window counts what is within it, one more may be admitted
		advance 10ms
		KEYP.LIMIT TAKE k 1 WINDOW 3 100 -> [1, 0, 0, [0], [100]]
		PTTL k -> 100
		# a longer one what is left of it
		KEYP.LIMIT PEEK k 1 WINDOW 9 2000 -> [1, 0, 0, [6], [2000]]
		advance 100ms
		EXISTS k -> 0
	`)
}

func TestLimitWindowApprox(t *testing.T) {
	table(t, `
		KEYP.LIMIT TAKE k 10 WINDOW 10 1000 APPROX -> [1, 0, 0, [0], [2000]]
		advance 999ms
		KEYP.LIMIT TAKE k 1 WINDOW 10 1000 APPROX -> [0, 1, 101, [0], [1001]]
		advance 101ms
		KEYP.LIMIT TAKE k 1 WINDOW 10 1000 APPROX -> [1, 0, 0, [0], [1900]]
		reopen
		KEYP.LIMIT TAKE k 5 WINDOW 10 1000 APPROX -> [0, 1, 500, [0], [1900]]
		advance 500ms
		KEYP.LIMIT TAKE k 5 WINDOW 10 1000 APPROX -> [1, 0, 0, [0], [1400]]
		PTTL k -> 1400
		# another span: what counts now counts from now on
		KEYP.LIMIT PEEK k 1 WINDOW 12 500 APPROX -> [1, 0, 0, [2], [900]]
		advance 1400ms
		EXISTS k -> 0
	`)
}

func TestLimitUntil(t *testing.T) {
	table(t, `
		KEYP.LIMIT TAKE k 2 UNTIL 3 1700000001000 -> [1, 0, 0, [1], [1000]]
		KEYP.LIMIT TAKE k 2 UNTIL 3 1700000001000 -> [0, 1, 1000, [1], [1000]]
		KEYP.LIMIT TAKE k 4 UNTIL 3 1700000001000 -> [0, 1, -1, [1], [1000]]
		# the window that has begun stays in force until its end, whatever end a call names
		KEYP.LIMIT TAKE k 1 UNTIL 3 1700000009000 -> [1, 0, 0, [0], [1000]]
		PEXPIRETIME k -> 1700000001000
		reopen
		advance 999ms
		KEYP.LIMIT PEEK k 1 UNTIL 3 1600000000000 -> [0, 1, 1, [0], [1]]
		advance 1ms
		KEYP.LIMIT PEEK k 1 UNTIL 3 1700000001000 -> -ERR the instant of UNTIL has passed
		KEYP.LIMIT TAKE k 1 UNTIL 3 1700000001000 -> -ERR the instant of UNTIL has passed
		EXISTS k -> 0
		KEYP.LIMIT TAKE k 3 UNTIL 3 1700000001001 -> [1, 0, 0, [0], [1]]
	`)
}

// TestLimitSeveral: several limits admit a call together or not at all. The reply names the one
// with the longest wait.
func TestLimitSeveral(t *testing.T) {
	table(t, `
		KEYP.LIMIT TAKE k 2 TOKENS 2 1 1000 WINDOW 5 60000 UNTIL 9 1700000086400 -> [1, 0, 0, [0, 3, 7], [2000, 60000, 86400]]
		PTTL k -> 86400
		KEYP.LIMIT TAKE k 1 TOKENS 2 1 1000 WINDOW 5 60000 UNTIL 9 1700000086400 -> [0, 1, 1000, [0, 3, 7], [2000, 60000, 86400]]
		advance 2s
		KEYP.LIMIT TAKE k 2 TOKENS 2 1 1000 WINDOW 5 60000 UNTIL 9 1700000086400 -> [1, 0, 0, [0, 1, 5], [2000, 60000, 84400]]
		reopen
		advance 1s
		KEYP.LIMIT TAKE k 2 TOKENS 2 1 1000 WINDOW 5 60000 UNTIL 9 1700000086400 -> [0, 2, 57000, [1, 1, 5], [1000, 59000, 83400]]
		KEYP.LIMIT TAKE k 3 TOKENS 2 1 1000 WINDOW 5 60000 UNTIL 9 1700000086400 -> [0, 1, -1, [1, 1, 5], [1000, 59000, 83400]]
		# fewer limits: what others have admitted stays
		KEYP.LIMIT TAKE k 1 TOKENS 2 1 1000 -> [1, 0, 0, [0], [2000]]
		KEYP.LIMIT PEEK k 1 TOKENS 2 1 1000 WINDOW 5 60000 UNTIL 9 1700000086400 -> [0, 1, 1000, [0, 1, 5], [2000, 59000, 83400]]
		# another kind in a place begins again, and what had the place is forgotten
		KEYP.LIMIT TAKE k 1 TOKENS 9 1 1000 TOKENS 5 1 1000 -> [1, 0, 0, [6, 4], [3000, 1000]]
		KEYP.LIMIT PEEK k 1 TOKENS 9 1 1000 WINDOW 5 60000 -> [1, 0, 0, [6, 5], [3000, 0]]
		reopen
		KEYP.LIMIT PEEK k 1 TOKENS 9 1 1000 WINDOW 5 60000 UNTIL 9 1700000086400 -> [1, 0, 0, [6, 5, 5], [3000, 0, 83400]]
		KEYP.LIMIT RESET k -> 1
		KEYP.LIMIT RESET k -> 0
		EXISTS k -> 0
	`)
}

func TestLimitReservations(t *testing.T) {
	table(t, `
		KEYP.LIMIT TAKE k 2 WINDOW 3 60000 UNTIL 10 1700000086400 RESERVE a 5000 -> [1, 0, 0, [1, 8], [0, 0]]
		PTTL k -> 5001
		KEYP.LIMIT HELD k -> [["a", 2, 1700000005000]]
		# the same id again, as after a lost reply
		KEYP.LIMIT TAKE k 2 WINDOW 3 60000 UNTIL 10 1700000086400 RESERVE a 9000 -> [1, 0, 0, [1, 8], [0, 0]]
		KEYP.LIMIT TAKE k 2 WINDOW 3 60000 UNTIL 10 1700000086400 RESERVE b 1000 -> [0, 1, 5000, [1, 8], [0, 0]]
		KEYP.LIMIT TAKE k 1 WINDOW 3 60000 UNTIL 10 1700000086400 RESERVE b 1000 -> [1, 0, 0, [0, 7], [0, 0]]
		KEYP.LIMIT TAKE k 1 WINDOW 3 60000 -> [0, 1, 1000, [0], [0]]
		KEYP.LIMIT TAKE k 3 WINDOW 3 60000 -> [0, 1, 5000, [0], [0]]
		reopen
		advance 999ms
		KEYP.LIMIT RETURN k b -> 1
		KEYP.LIMIT RETURN k b -> 0
		KEYP.LIMIT TAKE k 1 WINDOW 3 60000 UNTIL 10 1700000086400 -> [1, 0, 0, [0, 7], [60000, 85401]]
		advance 4s
		KEYP.LIMIT PEEK k 1 WINDOW 3 60000 UNTIL 10 1700000086400 -> [0, 1, 1, [0, 7], [56000, 81401]]
		advance 1ms
		# the deadline gives the cost back
		KEYP.LIMIT HELD k -> []
		KEYP.LIMIT PEEK k 1 WINDOW 3 60000 UNTIL 10 1700000086400 -> [1, 0, 0, [2, 9], [55999, 81400]]
		KEYP.LIMIT CONFIRM k a -> 0
		# what is confirmed counts from then on
		KEYP.LIMIT TAKE k 2 WINDOW 3 60000 UNTIL 10 1700000086400 RESERVE c 10000 -> [1, 0, 0, [0, 7], [55999, 81400]]
		advance 9999ms
		KEYP.LIMIT CONFIRM k c -> 1
		KEYP.LIMIT CONFIRM k c -> 0
		KEYP.LIMIT RETURN k c -> 0
		reopen
		KEYP.LIMIT PEEK k 1 WINDOW 3 60000 UNTIL 10 1700000086400 -> [0, 1, 46000, [0, 7], [60000, 71401]]
		# a key of reservations alone is gone with the last
		KEYP.LIMIT TAKE r 1 TOKENS 1 1 1000 RESERVE x 500 -> [1, 0, 0, [0], [0]]
		KEYP.LIMIT TAKE r 1 TOKENS 1 1 1000 -> [0, 1, 500, [0], [0]]
		KEYP.LIMIT RETURN r x -> 1
		EXISTS r -> 0
		KEYP.LIMIT TAKE r 1 TOKENS 1 1 1000 RESERVE x 500 -> [1, 0, 0, [0], [0]]
		advance 500ms
		EXISTS r -> 0
		# a window that is over when its reservation is confirmed has nothing to count
		KEYP.LIMIT TAKE u 1 UNTIL 1 1700000016000 RESERVE x 60000 -> [1, 0, 0, [0], [0]]
		advance 1s
		KEYP.LIMIT CONFIRM u x -> 1
		EXISTS u -> 0
		KEYP.LIMIT CONFIRM none x -> 0
		KEYP.LIMIT HELD none -> []
	`)
}

func TestLimitErrors(t *testing.T) {
	table(t, `
		KEYP.LIMIT TAKE k 0 TOKENS 1 1 1 -> -ERR cost is between 1 and 1000000000000
		KEYP.LIMIT TAKE k x TOKENS 1 1 1 -> -ERR cost is between 1 and 1000000000000
		KEYP.LIMIT TAKE k 1000000000001 TOKENS 1 1 1 -> -ERR cost is between 1 and 1000000000000
		KEYP.LIMIT TAKE k 9223372036854775808 TOKENS 1 1 1 -> -ERR cost is between 1 and 1000000000000
		KEYP.LIMIT TAKE k 1000000000000 TOKENS 1000000000000 1000000000000 1000000000000 -> [1, 0, 0, [0], [1000000000000]]
		KEYP.LIMIT TAKE k 1 TOKENS 1000000000000 1000000000000 1000000000000 -> [0, 1, 1, [0], [1000000000000]]
		KEYP.LIMIT TAKE n 1 TOKENS 0 1 1 -> -ERR numbers of limits are between 1 and 1000000000000
		KEYP.LIMIT TAKE n 1 TOKENS 1 -1 1 -> -ERR numbers of limits are between 1 and 1000000000000
		KEYP.LIMIT TAKE n 1 TOKENS 1 1 1000000000001 -> -ERR times of limits are between 1 and 1000000000000 ms, or have a unit, such as 30s
		KEYP.LIMIT TAKE n 1 TOKENS 1000000000000 1 1000 -> -ERR an empty bucket must be full again within 1000000000000 ms
		KEYP.LIMIT TAKE n 1 WINDOW 100001 100001 -> -ERR a WINDOW that is longer than 100000 ms has a max of at most 100000, unless it is APPROX
		KEYP.LIMIT TAKE n 1 WINDOW 100001 100000 -> [1, 0, 0, [100000], [100000]]
		KEYP.LIMIT PEEK n 1 WINDOW 100001 100001 APPROX -> [1, 0, 0, [100001], [0]]
		KEYP.LIMIT TAKE n 1 UNTIL 1 x -> -ERR the instant of UNTIL is between 1 and 288230376151711743 in Unix milliseconds
		KEYP.LIMIT TAKE n 1 UNTIL 1 0 -> -ERR the instant of UNTIL is between 1 and 288230376151711743 in Unix milliseconds
		KEYP.LIMIT TAKE n 1 UNTIL 1 288230376151711744 -> -ERR the instant of UNTIL is between 1 and 288230376151711743 in Unix milliseconds
		KEYP.LIMIT TAKE n 1 UNTIL 1 9223372036854775807 -> -ERR the instant of UNTIL is between 1 and 288230376151711743 in Unix milliseconds
		KEYP.LIMIT TAKE n 1 UNTIL 1000000000001 1700000001000 -> -ERR numbers of limits are between 1 and 1000000000000
		KEYP.LIMIT PEEK n 1 UNTIL 1 288230376151711743 -> [1, 0, 0, [1], [0]]
		KEYP.LIMIT TAKE n 1 TOKENS 1 1 -> -ERR TOKENS needs 3 values
		KEYP.LIMIT TAKE n 1 SOMETHING 1 1 -> -ERR syntax error: 'SOMETHING' is no option here
		KEYP.LIMIT TAKE n -> -ERR wrong number of arguments for 'keyp.limit|take' command
		KEYP.LIMIT TAKE n 1 -> -ERR a call needs a limit: TOKENS, WINDOW or UNTIL
		KEYP.LIMIT PEEK n 1 -> -ERR a call needs a limit: TOKENS, WINDOW or UNTIL
		KEYP.LIMIT TAKE n 1 RESERVE id 100 -> -ERR a call needs a limit: TOKENS, WINDOW or UNTIL
		KEYP.LIMIT TAKE n 1 RESERVE id 100 WINDOW -> -ERR syntax error: 'WINDOW' is no option here
		KEYP.LIMIT TAKE n 1 WINDOW 1 1 RESERVE id -> -ERR RESERVE needs 2 values
		KEYP.LIMIT TAKE n 1 WINDOW 1 1 RESERVE id 0 -> -ERR the time of a reservation is between 1 and 1000000000000 ms, or has a unit, such as 30s
		KEYP.LIMIT TAKE n 1 WINDOW 1 1 RESERVE "" 1 -> -ERR the id of a reservation has 1 to 256 bytes
		KEYP.LIMIT TAKE n 1 WINDOW 1 1 RESERVE id 1 more -> -ERR syntax error: 'more' is no option here
		KEYP.LIMIT PEEK n 1 WINDOW 1 1 RESERVE id 1 -> -ERR syntax error: 'RESERVE' is no option here
		SET s v -> +OK
		KEYP.LIMIT TAKE s 1 WINDOW 1 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.LIMIT PEEK s 1 WINDOW 1 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.LIMIT HELD s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.LIMIT RETURN s x -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.LIMIT RESET s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		CL.THROTTLE s 1 1 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		INCR n -> -WRONGTYPE Operation against a key holding the wrong kind of value
		HGET n f -> -WRONGTYPE Operation against a key holding the wrong kind of value
		EXPIREMEMBER n x 10 -> -ERR object type is unsupported
	`)
}

// TestLimitCallBounds: a call has at most MaxLimits limits, and a reservation's id at most
// MaxLimitID bytes.
func TestLimitCallBounds(t *testing.T) {
	h := newHarness(t)
	take := func(limits int, more ...string) string {
		args := []string{"KEYP.LIMIT", "TAKE", "k", "1"}
		for range limits {
			args = append(args, "WINDOW", "5", "1000")
		}
		return h.do(append(args, more...)...)
	}
	for limits, refused := range map[int]bool{object.MaxLimits: false, object.MaxLimits + 1: true} {
		got := take(limits)
		if refused != (got == "-ERR a call has at most 16 limits") {
			t.Errorf("%d limits: %s", limits, got)
		}
	}
	for length, refused := range map[int]bool{object.MaxLimitID: false,
		object.MaxLimitID + 1: true} {
		got := take(1, "RESERVE", strings.Repeat("i", length), "1000")
		if refused != (got == "-ERR the id of a reservation has 1 to 256 bytes") {
			t.Errorf("an id of %d bytes: %s", length, got)
		}
	}
}

// TestThrottleAsks: a quantity of 0 asks for the rest, and writes nothing.
func TestThrottleAsks(t *testing.T) {
	h := newHarness(t)
	h.run("CL.THROTTLE k 2 30 60 -> [0, 3, 2, -1, 2]")
	end := h.store.Log().End()
	h.clock.Advance(time.Second)
	h.run(`
		CL.THROTTLE k 2 30 60 0 -> [0, 3, 2, -1, 1]
		CL.THROTTLE none 2 30 60 0 -> [0, 3, 3, -1, 0]
	`)
	if got := h.store.Log().End(); got != end {
		t.Errorf("the log grew by %d bytes", got-end)
	}
}

func TestThrottle(t *testing.T) {
	table(t, `
		CL.THROTTLE k 2 30 60 -> [0, 3, 2, -1, 2]
		CL.THROTTLE k 2 30 60 2 -> [0, 3, 0, -1, 6]
		CL.THROTTLE k 2 30 60 -> [1, 3, 0, 2, 6]
		advance 1ms
		CL.THROTTLE k 2 30 60 -> [1, 3, 0, 2, 6]
		advance 1s
		CL.THROTTLE k 2 30 60 0 -> [0, 3, 0, -1, 5]
		CL.THROTTLE k 2 30 60 -> [1, 3, 0, 1, 5]
		CL.THROTTLE k 2 30 60 4 -> [1, 3, 0, -1, 5]
		reopen
		advance 999ms
		CL.THROTTLE k 2 30 60 -> [0, 3, 0, -1, 6]
		KEYP.LIMIT PEEK k 1 TOKENS 3 30 60000 -> [0, 1, 2000, [0], [6000]]
		PTTL k -> 6000
		CL.THROTTLE fast 5999 6000 1 6000 -> [0, 6000, 0, -1, 1]
		advance 1ms
		CL.THROTTLE fast 5999 6000 1 6 -> [0, 6000, 0, -1, 1]
		CL.THROTTLE fast 5999 6000 1 -> [1, 6000, 0, 1, 1]
		CL.THROTTLE one 0 1 1 -> [0, 1, 0, -1, 1]
		CL.THROTTLE none 1 1 1 0 -> [0, 2, 2, -1, 0]
		EXISTS none -> 0
		CL.THROTTLE k 1 0 1 -> -ERR max_burst and quantity are between 0 and 999999999999, count between 1 and 1000000000000, period between 1 and 1000000000 seconds
		CL.THROTTLE k -1 1 1 -> -ERR max_burst and quantity are between 0 and 999999999999, count between 1 and 1000000000000, period between 1 and 1000000000 seconds
		CL.THROTTLE k 9223372036854775807 1 1 -> -ERR max_burst and quantity are between 0 and 999999999999, count between 1 and 1000000000000, period between 1 and 1000000000 seconds
		CL.THROTTLE k 1 1 9223372036854775807 -> -ERR max_burst and quantity are between 0 and 999999999999, count between 1 and 1000000000000, period between 1 and 1000000000 seconds
		CL.THROTTLE k 1 1 1 -1 -> -ERR max_burst and quantity are between 0 and 999999999999, count between 1 and 1000000000000, period between 1 and 1000000000 seconds
		CL.THROTTLE k 999999999 1 100000 -> -ERR an empty bucket must be full again within 1000000000000 ms
		CL.THROTTLE k 1 1 1 1 1 -> -ERR syntax error
	`)
}

// TestLimitAsKey runs other commands on limits.
func TestLimitAsKey(t *testing.T) {
	table(t, `
		KEYP.LIMIT TAKE k 1 TOKENS 5 1 1000 WINDOW 5 1000 RESERVE a 3000 -> [1, 0, 0, [4, 4], [0, 0]]
		KEYP.LIMIT TAKE k 1 TOKENS 5 1 1000 WINDOW 5 1000 -> [1, 0, 0, [3, 3], [1000, 1000]]
		TYPE k -> +limit
		SCAN 0 TYPE limit -> ["0", ["k"]]
		OBJECT ENCODING k -> "limit"
		COPY k c -> 1
		RENAME k r -> +OK
		MOVE c 1 -> 1
		SELECT 1 -> +OK
		KEYP.LIMIT PEEK c 1 TOKENS 5 1 1000 WINDOW 5 1000 -> [1, 0, 0, [3, 3], [1000, 1000]]
		PTTL c -> 3001
		SELECT 0 -> +OK
		reopen
		KEYP.LIMIT PEEK r 1 TOKENS 5 1 1000 WINDOW 5 1000 -> [1, 0, 0, [3, 3], [1000, 1000]]
		# a deadline that is set ends all then; the next admission gives the key its own again
		PEXPIRE r 100 -> 1
		KEYP.LIMIT TAKE r 1 TOKENS 5 1 1000 WINDOW 5 1000 -> [1, 0, 0, [2, 2], [2000, 1000]]
		PTTL r -> 3001
		PERSIST r -> 1
		PTTL r -> -1
		advance 2s
		KEYP.LIMIT TAKE r 1 TOKENS 5 1 1000 WINDOW 5 1000 -> [1, 0, 0, [3, 3], [1000, 1000]]
		PEXPIRE r 100 -> 1
		advance 100ms
		EXISTS r -> 0
		MULTI -> +OK
		KEYP.LIMIT TAKE m 1 TOKENS 1 1 1000 -> +QUEUED
		KEYP.LIMIT TAKE m 1 TOKENS 1 1 1000 -> +QUEUED
		EXEC -> [[1, 0, 0, [0], [1000]], [0, 1, 1000, [0], [1000]]]
		EVAL "return redis.call('KEYP.LIMIT','TAKE',KEYS[1],1,'TOKENS',1,1,1000)" 1 s -> [1, 0, 0, [0], [1000]]
	`)
}

// TestLimitDump: DUMP and RESTORE move limits with their reservations. RESTORE refuses a payload
// whose elements are not those of limits.
func TestLimitDump(t *testing.T) {
	h := newHarness(t)
	h.run(`
		KEYP.LIMIT TAKE k 2 TOKENS 5 7 3000 WINDOW 5 1000 WINDOW 5 1000 APPROX UNTIL 9 1700000086400 -> [1, 0, 0, [3, 3, 3, 7], [858, 1000, 2000, 86400]]
		KEYP.LIMIT TAKE k 1 TOKENS 5 7 3000 WINDOW 5 1000 RESERVE a 3000 -> [1, 0, 0, [2, 2], [858, 1000]]
	`)
	payload := h.dump("k")
	if reply := h.do("RESTORE", "copy", "0", payload); reply != "+OK" {
		t.Fatal(reply)
	}
	if again := h.dump("copy"); again != payload {
		t.Errorf("the copy's payload is %q, want %q", again, payload)
	}
	h.run(`
		KEYP.LIMIT PEEK copy 1 TOKENS 5 7 3000 WINDOW 5 1000 WINDOW 5 1000 APPROX UNTIL 9 1700000086400 -> [1, 0, 0, [2, 2, 3, 7], [858, 1000, 2000, 86400]]
		KEYP.LIMIT HELD copy -> [["a", 1, 1700000003000]]
		PTTL copy -> -1
		KEYP.LIMIT RETURN copy a -> 1
		PTTL copy -> 86400
		advance 3s
	`)
	h.do("RESTORE", "late", "0", payload)
	h.run(`
		KEYP.LIMIT HELD late -> []
		KEYP.LIMIT PEEK late 1 TOKENS 5 7 3000 WINDOW 5 1000 WINDOW 5 1000 APPROX UNTIL 9 1700000086400 -> [1, 0, 0, [5, 5, 5, 7], [0, 0, 0, 83400]]
	`)
	for _, e := range []rdb.Element{
		{Name: []byte("x"), Value: []byte("1")},
		{Name: []byte{1, 0}},
		{Name: []byte{1, 0}, Value: []byte{1, 1, 1, 1}}, // part of a token that is a whole one
		{Name: []byte{1, 0}, Value: []byte{9, 1}},
		{Name: []byte{1, 16}, Value: []byte{2, 5}},
		{Name: []byte{1, 0}, Value: []byte{2, 5, 5}},
		{Name: []byte{1, 0}, Value: []byte{2, 5}, Deadline: 1<<46 - 1},
		{Name: []byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 1}, Value: []byte{0}},
		{Name: []byte{2, 0, 255, 0, 0, 0, 0, 0, 0, 1}, Value: []byte{1}},
		{Name: []byte{3, 'a'}, Value: []byte{1, 1, 2, 1, 1}},
		{Name: []byte{3, 'a'}, Value: []byte{2, 1, 2, 1, 1}, Deadline: 1<<46 - 1},
	} {
		bad := rdb.Encode(rdb.Value{Type: rdb.Limit, Elements: slices.Values([]rdb.Element{e})})
		if reply := h.do("RESTORE", "bad", "0", string(bad)); reply != "-ERR Bad data format" {
			t.Errorf("%v: %s", e, reply)
		}
	}
}

// TestLimitReservationsReported: each reservation that ends by its deadline is reported with its
// id. This includes the last one of a key, with which the key expires.
func TestLimitReservationsReported(t *testing.T) {
	h := newHarness(t)
	h.run(`
		KEYP.OUTBOX SET r PATTERN * ELEMENTS STREAM s -> +OK
		KEYP.LIMIT TAKE alone 1 TOKENS 1 1 1000 RESERVE a 5000 -> [1, 0, 0, [0], [0]]
		KEYP.LIMIT TAKE more 1 TOKENS 2 1 1000 -> [1, 0, 0, [1], [1000]]
		KEYP.LIMIT TAKE more 1 TOKENS 2 1 1000 RESERVE b 5000 -> [1, 0, 0, [0], [1000]]
		KEYP.LIMIT TAKE many 2 WINDOW 3 60000 RESERVE c 4000 -> [1, 0, 0, [1], [0]]
		KEYP.LIMIT TAKE many 1 WINDOW 3 60000 RESERVE d 5000 -> [1, 0, 0, [0], [0]]
	`)
	h.report(5 * time.Second)
	got := h.reported("s")
	for _, want := range []string{`"alone", "element", "a"`, `"more", "element", "b"`,
		`"many", "element", "c"`, `"many", "element", "d"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the stream lacks %s: %s", want, got)
		}
	}
	h.run(`EXISTS alone many -> 0`)
}

// TestLimitReservationsListed: KEYP.EXPIRING lists reservations by their ids.
func TestLimitReservationsListed(t *testing.T) {
	h := newHarness(t)
	h.run(`
		KEYP.LIMIT TAKE k 1 WINDOW 3 1000 RESERVE b 5000 -> [1, 0, 0, [2], [0]]
		KEYP.LIMIT TAKE k 1 WINDOW 3 1000 RESERVE a 4000 -> [1, 0, 0, [1], [0]]
		KEYP.LIMIT TAKE k 1 WINDOW 3 1000 -> [1, 0, 0, [0], [1000]]
		KEYP.LIMIT TAKE none 1 WINDOW 3 7000 -> [1, 0, 0, [2], [7000]]
	`)
	const listed = `
		KEYP.EXPIRING 1700000000000 1700000005001 ELEMENTS k -> ["0", [["a", 1700000004000], ["b", 1700000005000]]]`
	h.run(listed)
	h.run(`
		ACL SETUSER u on nopass ~* +@all -keyp.limit|held -> +OK
		reopen`)
	h.run(listed)
}

// TestPoliciesLeaveLimits: policies never change the deadlines of limits, even if the keys are
// read, renamed or copied.
func TestPoliciesLeaveLimits(t *testing.T) {
	h := newHarness(t)
	h.run(`
		KEYP.LIMIT TAKE k 1 TOKENS 5 1 100000 -> [1, 0, 0, [4], [100000]]
		KEYP.LIMIT TAKE p 1 TOKENS 5 1 100000 -> [1, 0, 0, [4], [100000]]
		KEYP.POLICY SET s PATTERN * ENFORCE MAX 10s CUT SLIDE 5s -> +OK
		KEYP.POLICY APPLY s -> ["0", 2, 0]
		PTTL k -> 100000
		advance 20s
		GET k -> -WRONGTYPE Operation against a key holding the wrong kind of value
		KEYP.LIMIT PEEK k 5 TOKENS 5 1 100000 -> [0, 1, 80000, [4], [80000]]
		KEYP.LIMIT TAKE k 5 TOKENS 5 1 100000 -> [0, 1, 80000, [4], [80000]]
		SORT k -> -WRONGTYPE Operation against a key holding the wrong kind of value
		PTTL k -> 80000
		COPY k c -> 1
		RENAME k r -> +OK
		PTTL c -> 80000
		PTTL r -> 80000
		KEYP.LIMIT TAKE n 1 TOKENS 5 1 100000 -> [1, 0, 0, [4], [100000]]
		PTTL n -> 100000
	`)
}

// TestLimitClockConfirm: a reservation was made while the clock guard held the time back.
// Confirming the clock's step moves it, and the key stays as long.
func TestLimitClockConfirm(t *testing.T) {
	h := newHarness(t)
	h.store.SetClockGuard(10*time.Minute, time.Hour)
	h.run(`KEYP.LIMIT TAKE k 1 WINDOW 3 10000000 -> [1, 0, 0, [2], [10000000]]`)
	h.clock.Set(h.clock.Now() + dayMs)
	h.run(`
		KEYP.LIMIT TAKE k 2 WINDOW 3 10000000 RESERVE a 3600000 -> [1, 0, 0, [0], [10000000]]
		KEYP.CLOCK CONFIRM -> +OK
		KEYP.LIMIT HELD k -> [["a", 2, 1700090000000]]
		KEYP.LIMIT TAKE k 2 WINDOW 3 10000000 -> [0, 1, 3600000, [1], [0]]
		reopen
		KEYP.LIMIT TAKE k 2 WINDOW 3 10000000 -> [0, 1, 3600000, [1], [0]]
	`)
}

// TestLimitForgets: a limit of a different kind replaces the limit in its position. If the old kind
// comes back, its counts are gone.
func TestLimitForgets(t *testing.T) {
	table(t, `
		KEYP.LIMIT TAKE k 3 WINDOW 3 60000 -> [1, 0, 0, [0], [60000]]
		KEYP.LIMIT TAKE k 1 TOKENS 5 1 60000 -> [1, 0, 0, [4], [60000]]
		reopen
		KEYP.LIMIT TAKE k 1 WINDOW 3 60000 -> [1, 0, 0, [2], [60000]]
	`)
}

// TestLimitDeadlineIsOfWhatIsThere: a reservation that was given back no longer affects the key's
// deadline, before and after a restart.
func TestLimitDeadlineIsOfWhatIsThere(t *testing.T) {
	table(t, `
		KEYP.LIMIT TAKE k 1 WINDOW 10 5 RESERVE a 1000 -> [1, 0, 0, [9], [0]]
		KEYP.LIMIT TAKE k 1 WINDOW 10 5 RESERVE b 100 -> [1, 0, 0, [8], [0]]
		PTTL k -> 1001
		KEYP.LIMIT RETURN k a -> 1
		PTTL k -> 101
		reopen
		KEYP.LIMIT TAKE k 1 WINDOW 10 5 RESERVE c 50 -> [1, 0, 0, [8], [0]]
		PTTL k -> 101
	`)
}

// TestLimitRestoreAtBounds: RESTORE accepts each number at its bounds, and all commands then give
// meaningful replies. It refuses a number beyond the bounds.
func TestLimitRestoreAtBounds(t *testing.T) {
	const count, last, never = 1_000_000_000_000, 1<<58 - 1, 1<<48 - 1
	numbers := func(kind byte, list ...uint64) []byte {
		b := []byte{kind}
		for _, n := range list {
			b = binary.AppendUvarint(b, n)
		}
		return b
	}
	admitted := func(at uint64) []byte { return binary.BigEndian.AppendUint64([]byte{2, 0}, at) }
	held := func(id string) []byte { return append([]byte{3}, id...) }
	tokens := numbers(1, count, count, count) // of a reservation: kind, burst, rate, per
	reservation := func(cost uint64) []byte {
		return append(binary.AppendUvarint(binary.AppendUvarint(nil, cost), 1), tokens...)
	}
	for _, c := range []struct {
		what string
		e    rdb.Element
		ok   bool
	}{
		{"tokens", rdb.Element{Name: []byte{1, 0}, Value: numbers(1, last, count-1, count)}, true},
		{"a later arrival", rdb.Element{Name: []byte{1, 0}, Value: numbers(1, last+1, 0, 1)},
			false},
		{"a higher rate", rdb.Element{Name: []byte{1, 0}, Value: numbers(1, 1, 0, count+1)}, false},
		{"a window", rdb.Element{Name: []byte{1, 15}, Value: numbers(2, count)}, true},
		{"a longer window", rdb.Element{Name: []byte{1, 15}, Value: numbers(2, count+1)}, false},
		{"another place", rdb.Element{Name: []byte{1, 16}, Value: numbers(2, count)}, false},
		{"an admission", rdb.Element{Name: admitted(last), Value: binary.AppendUvarint(nil, count)},
			true},
		{"a larger admission", rdb.Element{Name: admitted(last),
			Value: binary.AppendUvarint(nil, count+1)}, false},
		{"a later admission", rdb.Element{Name: admitted(last + 1), Value: []byte{1}}, false},
		{"cells", rdb.Element{Name: []byte{1, 0},
			Value: numbers(3, count, last/count, count, count)}, true},
		{"short cells", rdb.Element{Name: []byte{1, 0}, Value: numbers(3, 1, last, count, count)},
			true},
		{"later cells", rdb.Element{Name: []byte{1, 0},
			Value: numbers(3, count, last/count+1, count, count)}, false},
		{"fuller cells", rdb.Element{Name: []byte{1, 0}, Value: numbers(3, count, 1, count+1, 1)},
			false},
		{"until", rdb.Element{Name: []byte{1, 0}, Value: numbers(4, last, count)}, true},
		{"until with more", rdb.Element{Name: []byte{1, 0}, Value: numbers(4, last, count+1)},
			false},
		{"a reservation", rdb.Element{Name: held(strings.Repeat("i", 256)),
			Value: reservation(count), Deadline: never}, true},
		{"a longer id", rdb.Element{Name: held(strings.Repeat("i", 257)), Value: reservation(1),
			Deadline: never}, false},
		{"a larger reservation", rdb.Element{Name: held("i"), Value: reservation(count + 1),
			Deadline: never}, false},
	} {
		h := newHarness(t)
		payload := string(rdb.Encode(rdb.Value{Type: rdb.Limit,
			Elements: slices.Values([]rdb.Element{c.e})}))
		if reply := h.do("RESTORE", "k", "0", payload); (reply == "+OK") != c.ok {
			t.Errorf("%s: %s", c.what, reply)
		}
		if !c.ok {
			continue
		}
		for _, limit := range []string{"TOKENS 1000000000000 1000000000000 1000000000000",
			"TOKENS 1 1 1", "TOKENS 1 1 1000000000000", "WINDOW 1000000000000 1",
			"WINDOW 1 1000000000000", "WINDOW 1000000000000 1000000000000 APPROX",
			"WINDOW 1 1 APPROX", "UNTIL 1000000000000 288230376151711743",
			"UNTIL 1 288230376151711743"} {
			for _, cost := range []string{"1", "1000000000000"} {
				for _, form := range []string{"PEEK", "TAKE"} {
					args := append([]string{"KEYP.LIMIT", form, "k", cost},
						strings.Fields(limit)...)
					reply := h.do(args...)
					var admits, refuses, retry, left, reset int64
					if _, err := fmt.Sscanf(reply, "[%d, %d, %d, [%d], [%d]]", &admits, &refuses,
						&retry, &left, &reset); err != nil ||
						admits != 1-refuses || retry < -1 || left < 0 || left > count ||
						reset < 0 || admits == 1 && retry != 0 {
						t.Errorf("%s, %q: %s", c.what, args, reply)
					}
				}
			}
			h.do("KEYP.LIMIT", "CONFIRM", "k", strings.Repeat("i", 256))
			h.do("CL.THROTTLE", "k", "999999999999", "1000000000000", "1000000000")
		}
		h.run("reopen")
		if reply := h.do("KEYP.LIMIT", "RESET", "k"); reply != "0" && reply != "1" {
			t.Errorf("%s: %s", c.what, reply)
		}
	}
}

// TestLimitInfo: INFO shows the counts of all limits of a key, independently of the limits in a
// call.
func TestLimitInfo(t *testing.T) {
	table(t, `
		KEYP.LIMIT INFO none -> ["limits", [], "reservations", 0, "held", []]
		KEYP.LIMIT TAKE k 2 TOKENS 5 7 3000 WINDOW 5 1000 WINDOW 5 1000 APPROX UNTIL 9 1700000086400 -> [1, 0, 0, [3, 3, 3, 7], [858, 1000, 2000, 86400]]
		advance 500ms
		KEYP.LIMIT TAKE k 1 TOKENS 5 7 3000 WINDOW 5 1000 RESERVE b 3000 -> [1, 0, 0, [3, 2], [358, 500]]
		KEYP.LIMIT TAKE k 1 TOKENS 5 7 3000 RESERVE a 2000 -> [1, 0, 0, [2], [358]]
		KEYP.LIMIT INFO k -> ["limits", [["kind", "tokens", "admitted", nil, "reserved", 2, "span", nil, "whole", 358], ["kind", "window", "admitted", 2, "reserved", 1, "span", 1000, "whole", 500], ["kind", "approx", "admitted", 2, "reserved", 0, "span", 1000, "whole", 1500], ["kind", "until", "admitted", 2, "reserved", 0, "span", nil, "whole", 85900]], "reservations", 2, "held", [["a", 1, 1700000002500], ["b", 1, 1700000003500]]]
		reopen
		advance 1s
		KEYP.LIMIT INFO k -> ["limits", [["kind", "tokens", "admitted", nil, "reserved", 2, "span", nil, "whole", 0], ["kind", "window", "admitted", 0, "reserved", 1, "span", 1000, "whole", 0], ["kind", "approx", "admitted", 1, "reserved", 0, "span", 1000, "whole", 500], ["kind", "until", "admitted", 2, "reserved", 0, "span", nil, "whole", 84900]], "reservations", 2, "held", [["a", 1, 1700000002500], ["b", 1, 1700000003500]]]
		KEYP.LIMIT TAKE r 3 WINDOW 5 1000 RESERVE x 60000 -> [1, 0, 0, [2], [0]]
		KEYP.LIMIT INFO r -> ["limits", [["kind", nil, "admitted", 0, "reserved", 3, "span", nil, "whole", 0]], "reservations", 1, "held", [["x", 3, 1700000061500]]]
		SET s v -> +OK
		KEYP.LIMIT INFO s -> -WRONGTYPE Operation against a key holding the wrong kind of value
	`)
}

// TestLimitHeldManyIsTask: HELD of very many reservations runs as a task. INFO shows only the first
// ones, and replies at once.
func TestLimitHeldManyIsTask(t *testing.T) {
	h := newHarness(t)
	for i := range 4000 {
		h.do("KEYP.LIMIT", "TAKE", "k", "1", "UNTIL", "100000", "1800000000000", "RESERVE",
			fmt.Sprintf("%0100d", i), "60000")
	}
	dispatch := func(sub string) Outcome {
		h.ctx.Args = byteArgs("KEYP.LIMIT", sub, "k")
		h.ctx.Out.Truncate(0)
		return h.env.Dispatch(&h.ctx)
	}
	if got := dispatch("INFO"); got != Done {
		t.Errorf("INFO: outcome %d", got)
	}
	if reply := h.do("KEYP.LIMIT", "INFO", "k"); strings.Count(reply,
		"1700000060000") != limitHeldShown {
		t.Errorf("INFO shows %d reservations", strings.Count(reply, "1700000060000"))
	}
	if got := dispatch("HELD"); got != Task {
		t.Fatalf("HELD: outcome %d", got)
	}
	task, out := Ctx{}, resp.Writer{Proto: 2}
	h.env.StartTask(&h.ctx, &task, &out, h.store.NewTxn(), false)
	h.env.RunTask(&task, nil)
	h.env.EndTask(&task)
	if n := strings.Count(string(out.Buf), ":1700000060000\r"); n != 4000 {
		t.Errorf("the task lists %d reservations", n)
	}
}

// TestLimitRestoredLate: RESTORE of limits without any count left creates no key, because the key
// would have no deadline.
func TestLimitRestoredLate(t *testing.T) {
	h := newHarness(t)
	h.run(`
		KEYP.LIMIT TAKE k 2 TOKENS 5 7 3000 WINDOW 5 1000 WINDOW 5 1000 APPROX UNTIL 9 1700000002000 -> [1, 0, 0, [3, 3, 3, 7], [858, 1000, 2000, 2000]]
		KEYP.LIMIT TAKE k 1 TOKENS 5 7 3000 RESERVE a 1000 -> [1, 0, 0, [2], [858]]
	`)
	payload := h.dump("k")
	h.run("advance 1999ms")
	h.do("RESTORE", "early", "0", payload)
	h.run(`
		EXISTS early -> 1
		advance 1ms
	`)
	h.do("SET", "late", "v")
	if reply := h.do("RESTORE", "late", "0", payload, "REPLACE"); reply != "+OK" {
		t.Error(reply)
	}
	h.run("EXISTS late -> 0")
}
