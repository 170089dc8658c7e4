package commands

import (
	"fmt"
	"strings"
	"testing"

	"keyp/resp"
)

func TestMulti(t *testing.T) {
	table(t, `
		EXEC -> -ERR EXEC without MULTI
		DISCARD -> -ERR DISCARD without MULTI
		MULTI -> +OK
		EXEC -> []
		MULTI -> +OK
		MULTI -> -ERR MULTI calls can not be nested
		WATCH a -> -ERR WATCH inside MULTI is not allowed
		SET a 1 -> +QUEUED
		INCR a -> +QUEUED
		GET a -> +QUEUED
		PING -> +QUEUED
		EXEC -> [+OK, 2, "2", +PONG]
		events -> set:a incrby:a
		GET a -> "2"
		EXEC -> -ERR EXEC without MULTI

		# errors at run time are replies; the others run
		MULTI -> +OK
		LPUSH a x -> +QUEUED
		SET b 1 EX 0 -> +QUEUED
		SET b 2 -> +QUEUED
		EXEC -> [-WRONGTYPE Operation against a key holding the wrong kind of value, -ERR invalid expire time in 'set' command, +OK]
		GET b -> "2"

		# errors while queueing abort all
		WATCH a -> +OK
		MULTI -> +OK
		SET b 3 -> +QUEUED
		INCR -> -ERR wrong number of arguments for 'incr' command
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
		MULTI -> +OK
		SET b -> -ERR wrong number of arguments for 'set' command
		SET b 4 -> +QUEUED
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
		MULTI -> +OK
		SAVE -> -ERR Command not allowed inside a transaction
		DEBUG COMPACT -> -ERR Command not allowed inside a transaction
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
		MULTI -> +OK
		CONFIG NOSUCH -> -ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
		MULTI -> +OK
		EXEC x -> -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
		EXEC -> -ERR EXEC without MULTI
		GET b -> "2"

		MULTI -> +OK
		SET b 5 -> +QUEUED
		DISCARD -> +OK
		GET b -> "2"
		MULTI -> +OK
		SET b 5 -> +QUEUED
		RESET -> +RESET
		EXEC -> -ERR EXEC without MULTI
		GET b -> "2"

		# the database is the one that SELECT chose on the way
		MULTI -> +OK
		SELECT 3 -> +QUEUED
		SET a three -> +QUEUED
		MOVE a 4 -> +QUEUED
		SELECT 99 -> +QUEUED
		EXISTS a -> +QUEUED
		EXEC -> [+OK, +OK, 1, -ERR DB index is out of range, 0]
		SELECT 4 -> +OK
		GET a -> "three"
		SELECT 0 -> +OK
		reopen
		GET b -> "2"
		select 4
		GET a -> "three"
	`)
}

// TestAbortedExecEndsWatch: an aborted EXEC ends all watches, like any other EXEC.
func TestAbortedExecEndsWatch(t *testing.T) {
	for _, aborted := range []string{`
		MULTI -> +OK
		INCR -> -ERR wrong number of arguments for 'incr' command
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
	`, `
		MULTI -> +OK
		EXEC x -> -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
	`} {
		table(t, "WATCH k -> +OK"+aborted+`
			SET k 1 -> +OK
			MULTI -> +OK
			GET k -> +QUEUED
			EXEC -> ["1"]
		`)
	}
}

// TestExecStandsStill: all commands of a transaction run at the same time of the clock, and their
// deadlines count from that time.
func TestExecStandsStill(t *testing.T) {
	table(t, `
		MULTI -> +OK
		SET k v PX 500 -> +QUEUED
		advance 400ms
		PTTL k -> +QUEUED
		TIME -> +QUEUED
		EXPIRETIME k -> +QUEUED
		PEXPIRE k 0 -> +QUEUED
		GET k -> +QUEUED
		EXEC -> [+OK, 500, ["1700000000", "400000"], 1700000001, 1, nil]
		events -> set:k expire:k del:k
	`)
}

func TestExecProto(t *testing.T) {
	table(t, `
		does HSET h f v
		WATCH h -> +OK
		does HSET h f w
		MULTI -> +OK
		HGETALL h -> +QUEUED
		EXEC -> nilarray
		MULTI -> +OK
		HGETALL h -> +QUEUED
		HELLO 3 -> +QUEUED
		HGETALL h -> +QUEUED
		does EXEC
		HGETALL h -> {"f": "w"}
		WATCH h -> +OK
		does HSET h f x
		MULTI -> +OK
		EXEC -> null
	`)
}

// TestExecWhole: commands that read more than their named keys see the changes of the same
// transaction.
func TestExecWhole(t *testing.T) {
	table(t, `
		MULTI -> +OK
		MSET a 1 b 2 c 3 -> +QUEUED
		KEYS b* -> +QUEUED
		DBSIZE -> +QUEUED
		SCAN 0 MATCH c -> +QUEUED
		DEL b c -> +QUEUED
		RANDOMKEY -> +QUEUED
		RPUSH l 1 2 -> +QUEUED
		MSET w1 2 w2 1 -> +QUEUED
		SORT l BY w* -> +QUEUED
		SWAPDB 0 1 -> +QUEUED
		GET a -> +QUEUED
		SELECT 1 -> +QUEUED
		GET a -> +QUEUED
		FLUSHALL -> +QUEUED
		DBSIZE -> +QUEUED
		SET a last -> +QUEUED
		EXEC -> [+OK, ["b"], 3, ["0", ["c"]], 2, "a", 2, +OK, ["2", "1"], +OK, nil, +OK, "1", +OK, 0, +OK]
		reopen
		GET a -> "last"
		SELECT 0 -> +OK
		DBSIZE -> 0
	`)
}

// second runs a command as another client, and removes that client.
func (h *harness) second(args ...string) string {
	h.t.Helper()
	other := h.other(h.client.DB)
	defer h.env.Gone(other)
	return h.doAs(other, args...)
}

// other returns another client.
func (h *harness) other(db int) *Client {
	return &Client{ID: 2, Proto: 2, DB: db, Authenticated: true,
		user: identity{h.env.users.byDefault}}
}

// doAs runs a command as another client.
func (h *harness) doAs(other *Client, args ...string) string {
	h.t.Helper()
	mine, ctx := h.client, h.ctx
	h.client = other
	h.ctx = Ctx{Client: h.client, Out: &resp.Writer{Proto: 2}, Txn: h.store.NewTxn()}
	defer func() { h.client, h.ctx = mine, ctx }()
	return h.do(args...)
}

func TestWatch(t *testing.T) {
	const untouched, touched = "[+OK]", "nilarray"
	for _, c := range []struct {
		name, before, watch, then, want string
	}{
		{"nothing", "", "k", "", untouched},
		{"another key", "", "k", "set other 1", untouched},
		{"a write", "", "k", "set k 1", touched},
		{"one of several", "", "a k b", "set b 1", touched},
		{"the same value", "set k 1", "k", "set k 1", touched},
		{"a read", "set k 1", "k", "get k", untouched},
		{"a deletion", "set k 1", "k", "del k", touched},
		{"of nothing", "", "k", "del k", untouched},
		{"there and away again", "", "k", "set k 1; del k", touched},
		{"an element", "rpush k 1", "k", "rpush k 2", touched},
		{"no new element", "sadd k 1", "k", "sadd k 1", untouched},
		{"a deadline", "set k 1", "k", "expire k 100", touched},
		{"renamed away", "set k 1", "k", "rename k j", touched},
		{"renamed onto", "set j 1", "k", "rename j k", touched},
		{"expired", "set k 1 px 10", "k", "ADVANCE", touched},
		{"expired and seen", "set k 1 px 10", "k", "ADVANCE; get k", touched},
		{"expired and reaped", "set k 1 px 10", "k", "ADVANCE; REAP", touched},
		{"expired before", "set k 1 px 10; ADVANCE", "k", "get k; REAP", untouched},
		{"expired before, written", "set k 1 px 10; ADVANCE", "k", "set k 1", touched},
		{"a field expired", "hset k f 1 g 1; hpexpire k 10 fields 1 f", "k", "ADVANCE", touched},
		{"flushdb", "set k 1", "k", "flushdb", touched},
		{"flushdb of nothing", "", "k", "flushdb", untouched},
		{"flushall", "set k 1", "k", "flushall", touched},
		{"flushdb of another database", "set k 1", "k", "select 1; flushdb", untouched},
		{"swapdb away", "set k 1", "k", "swapdb 0 1", touched},
		{"swapdb onto", "", "k", "select 1; set k 1; swapdb 1 0", touched},
		{"swapdb of nothing", "", "k", "swapdb 0 1", untouched},
		{"unwatched", "", "k", "UNWATCH; set k 1", untouched},
		{"watched after", "", "other", "set k 1; WATCH k", untouched},
	} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, not in memory %v", c.name, gone), func(t *testing.T) {
				h := newHarness(t)
				watchCase(h, c.before)
				if gone {
					h.reopen() // with a checkpoint: little is in memory yet
				}
				h.do(append([]string{"WATCH"}, strings.Fields(c.watch)...)...)
				watchCase(h, c.then)
				h.do("MULTI")
				h.do("SET", "done", "1")
				if got := h.do("EXEC"); got != c.want {
					t.Errorf("EXEC gives %s, want %s", got, c.want)
				}
				if n, _ := h.env.Changes.watches(h.client); n != 0 ||
					len(h.env.Changes.mu.watched) != 0 || h.env.Changes.mu.reported {
					t.Errorf("%d keys are still watched", n)
				}
			})
		}
	}
}

// watchCase runs the steps of a case of TestWatch. Another client runs the steps in lower case.
func watchCase(h *harness, steps string) {
	var db string
	for _, step := range strings.Split(steps, ";") {
		words := strings.Fields(step)
		switch {
		case len(words) == 0:
		case words[0] == "ADVANCE":
			h.step([]string{"advance", "20ms"})
		case words[0] == "REAP":
			h.store.Reap()
		case words[0] == "select":
			db = words[1]
		case words[0] == strings.ToUpper(words[0]):
			h.do(words...)
		case db != "":
			mine := h.client.DB
			h.client.DB = 1
			h.second(words...)
			h.client.DB = mine
		default:
			h.second(words...)
		}
	}
}
