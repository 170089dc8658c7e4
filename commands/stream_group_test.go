package commands

import (
	"strings"
	"testing"

	"keyp/storage"
	"keyp/storage/object"
)

func TestXGroup(t *testing.T) {
	table(t, `
		XGROUP CREATE s g $ -> -ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.
		XGROUP CREATE s g $ FOO -> -ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.
		XGROUP CREATE s g $ MKSTREAM ENTRIESREAD -2 -> -ERR value for ENTRIESREAD must be positive or -1
		XGROUP CREATE s g x MKSTREAM -> -ERR Invalid stream ID specified as stream command argument
		EXISTS s -> 0
		XGROUP CREATE s g $ MKSTREAM -> +OK
		XGROUP CREATE s g 0 MKSTREAM -> -BUSYGROUP Consumer Group name already exists
		XGROUP SETID s h 0 -> -NOGROUP No such consumer group 'h' for key name 's'
		XGROUP SETID s g 5-5 ENTRIESREAD 7 -> +OK
		XINFO GROUPS s -> [["name", "g", "consumers", 0, "pending", 0, "last-delivered-id", "5-5", "entries-read", 0, "lag", 0]]
		XGROUP CREATECONSUMER s g c -> 1
		XGROUP CREATECONSUMER s g c -> 0
		XGROUP CREATECONSUMER s h c -> -NOGROUP No such consumer group 'h' for key name 's'
		XGROUP DELCONSUMER s g d -> 0
		XGROUP DELCONSUMER s g c -> 0
		XGROUP DESTROY s h -> 0
		events -> xgroup-create:s xgroup-setid:s xgroup-createconsumer:s xgroup-delconsumer:s
		reopen
		XGROUP DESTROY s g -> 1
		XINFO GROUPS s -> []
		events -> xgroup-destroy:s
		XGROUP FOO -> -ERR unknown subcommand 'FOO'. Try XGROUP HELP.
		does XGROUP HELP
		does XINFO HELP
		SET x 1 -> +OK
		XGROUP CREATE x g 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
	`)
}

func TestXReadGroup(t *testing.T) {
	table(t, `
		XADD s 1-1 a 1 -> "1-1"
		XADD s 1-2 a 2 -> "1-2"
		XADD s 1-3 a 3 -> "1-3"
		XREADGROUP GROUP g c STREAMS s > -> -NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option
		XGROUP CREATE s g 0 -> +OK
		events -> xadd:s xadd:s xadd:s xgroup-create:s
		XREADGROUP GROUP g c COUNT 1 STREAMS s > -> [["s", [["1-1", ["a", "1"]]]]]
		events -> xgroup-createconsumer:s
		XREADGROUP GROUP g d STREAMS s > -> [["s", [["1-2", ["a", "2"]], ["1-3", ["a", "3"]]]]]
		XREADGROUP GROUP g e STREAMS s > -> nilarray
		XREADGROUP GROUP g c STREAMS s 0 -> [["s", [["1-1", ["a", "1"]]]]]
		XREADGROUP GROUP g e STREAMS s 0 -> [["s", []]]
		XREADGROUP GROUP g d STREAMS s 1-2 -> [["s", [["1-3", ["a", "3"]]]]]
		reopen
		XPENDING s g -> [3, "1-1", "1-3", [["c", "1"], ["d", "2"]]]
		XPENDING s g - + 10 -> [["1-1", "c", 0, 2], ["1-2", "d", 0, 1], ["1-3", "d", 0, 2]]
		XPENDING s g - + 10 d -> [["1-2", "d", 0, 1], ["1-3", "d", 0, 2]]
		XPENDING s g (1-1 (1-3 10 -> [["1-2", "d", 0, 1]]
		XPENDING s g - + 10 nobody -> []
		XPENDING s g IDLE 1000 - + 10 -> []
		advance 2s
		XPENDING s g IDLE 1000 - + 1 -> [["1-1", "c", 2000, 2]]
		XPENDING s h -> -NOGROUP No such key 's' or consumer group 'h'
		XPENDING s g - + -> -ERR syntax error
		XPENDING s g IDLE 1 - + -> -ERR syntax error
		XACK s g 1-1 1-1 9-9 -> 1
		XACK s h 1-1 -> 0
		XACK none g x -> 0
		XACK s g x -> -ERR Invalid stream ID specified as stream command argument
		XDEL s 1-2 -> 1
		XREADGROUP GROUP g d STREAMS s 0 -> [["s", [["1-2", nilarray], ["1-3", ["a", "3"]]]]]
		XGROUP DELCONSUMER s g d -> 2
		XPENDING s g -> [0, nil, nil, nilarray]
		XADD s 2-1 a 4 -> "2-1"
		XREADGROUP GROUP g c NOACK STREAMS s > -> [["s", [["2-1", ["a", "4"]]]]]
		XPENDING s g -> [0, nil, nil, nilarray]
		XINFO GROUPS s -> [["name", "g", "consumers", 2, "pending", 0, "last-delivered-id", "2-1", "entries-read", 4, "lag", 0]]
		XINFO CONSUMERS s g -> [["name", "c", "pending", 0, "idle", 0, "inactive", 2000], ["name", "e", "pending", 0, "idle", 2000, "inactive", -1]]
		proto 3
		XGROUP SETID s g 0 -> +OK
		XREADGROUP GROUP g c STREAMS s > -> {"s": [["1-1", ["a", "1"]], ["1-3", ["a", "3"]], ["2-1", ["a", "4"]]]}
		XREADGROUP GROUP g c STREAMS s > -> null
	`)
}

func TestXReadGroupErrors(t *testing.T) {
	newHarness(t).run(`
		XADD s 1-1 a 1 -> "1-1"
		XGROUP CREATE s g 0 -> +OK
		SET x 1 -> +OK
		XREADGROUP GROUP g c COUNT 1 STREAMS s -> -ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.
		XREADGROUP COUNT 1 COUNT 1 STREAMS s > -> -ERR Missing GROUP option for XREADGROUP
		XREADGROUP GROUP g c COUNT x STREAMS s > -> -ERR value is not an integer or out of range
		XREADGROUP GROUP g c BLOCK x STREAMS s > -> -ERR timeout is not an integer or out of range
		XREADGROUP GROUP g c BLOCK -1 STREAMS s > -> -ERR timeout is negative
		XREADGROUP GROUP g c BLOCK 9223372036854775807 STREAMS s > -> -ERR timeout is out of range
		XREADGROUP GROUP g c CLAIM x STREAMS s > -> -ERR min-idle-time is not an integer or out of range
		XREADGROUP GROUP g c CLAIM -1 STREAMS s > -> -ERR min-idle-time must be a positive integer
		XREADGROUP GROUP g c STREAMS s x > > -> -WRONGTYPE Operation against a key holding the wrong kind of value
		XREADGROUP GROUP g c STREAMS s none > > -> -NOGROUP No such key 'none' or consumer group 'g' in XREADGROUP with GROUP option
		XREADGROUP GROUP g c STREAMS s $ -> -` + string(errGroupLatest) + `
		XREADGROUP GROUP g c STREAMS s + -> -` + string(errGroupLast) + `
		XREAD COUNT 1 STREAMS s > -> -` + string(errReadNew) + `
		XREAD GROUP g c STREAMS s 0 -> -` + string(errReadGroup) + `
		XREAD NOACK STREAMS s 0 -> -` + string(errReadNoAck) + `
		XREAD CLAIM 5 STREAMS s 0 -> -` + string(errReadClaim) + `
		XREAD STREAMS s s 0 -> -` + string(errReadUnpaired) + `
		XREAD COUNT 1 COUNT 2 -> -ERR syntax error
		XREAD STREAMS x -> -ERR wrong number of arguments for 'xread' command
		XREAD COUNT 1 STREAMS x 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		XREAD MAXCOUNT 0 STREAMS s 0 -> -ERR MAXCOUNT must be a positive integer
		XREAD MAXSIZE 0 STREAMS s 0 -> -ERR MAXSIZE must be a positive integer
		COMMAND GETKEYS XREAD COUNT 5 STREAMS a b 0 0 -> ["a", "b"]
		COMMAND GETKEYS XREADGROUP GROUP STREAMS c STREAMS a 0 -> ["a"]
		COMMAND GETKEYS XREAD STREAMS a b 0 -> -ERR Invalid arguments specified for command
	`)
}

func TestXRead(t *testing.T) {
	newHarness(t).run(`
		XADD s 1-1 a 1 -> "1-1"
		XADD s 1-2 a 2 -> "1-2"
		XADD r 5-0 b 1 -> "5-0"
		XREAD STREAMS s r 0 0 -> [["s", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]]], ["r", [["5-0", ["b", "1"]]]]]
		XREAD COUNT 1 STREAMS s r 0 5 -> [["s", [["1-1", ["a", "1"]]]]]
		XREAD COUNT 0 STREAMS s 1-1 -> [["s", [["1-2", ["a", "2"]]]]]
		XREAD STREAMS s r 1-2 5-0 -> nilarray
		XREAD STREAMS s $ -> nilarray
		XREAD STREAMS s none + + -> [["s", [["1-2", ["a", "2"]]]]]
		XREAD MAXCOUNT 2 STREAMS s r 0 0 -> [["s", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]]]]
		XREAD COUNT 1 MAXCOUNT 3 STREAMS s r 0 0 -> [["s", [["1-1", ["a", "1"]]]], ["r", [["5-0", ["b", "1"]]]]]
		XREAD MAXSIZE 1 STREAMS s r 0 0 -> [["s", [["1-1", ["a", "1"]]]]]
		XREAD MAXSIZE 85 STREAMS s r 0 0 -> [["s", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]]]]
		XREAD BLOCK 5 STREAMS s $ -> +(blocked)
		XREAD BLOCK 5 STREAMS none 0 -> +(blocked)
		MULTI -> +OK
		XREAD BLOCK 0 STREAMS s $ -> +QUEUED
		EXEC -> [nilarray]
		proto 3
		XREAD STREAMS r 0 -> {"r": [["5-0", ["b", "1"]]]}
		XREAD STREAMS r 5 -> null
	`)
}

func TestXClaim(t *testing.T) {
	table(t, `
		XADD s 1-1 a 1 -> "1-1"
		XADD s 1-2 a 2 -> "1-2"
		XADD s 1-3 a 3 -> "1-3"
		XGROUP CREATE s g 0 -> +OK
		does XREADGROUP GROUP g c COUNT 2 STREAMS s >
		advance 1s
		XCLAIM s g d 2000 1-1 -> []
		XCLAIM s g d 500 1-1 1-3 -> [["1-1", ["a", "1"]]]
		XCLAIM s g d 0 1-3 FORCE JUSTID -> ["1-3"]
		XCLAIM s g d 0 1-2 IDLE 300 RETRYCOUNT 9 JUSTID -> ["1-2"]
		reopen
		XPENDING s g - + 10 -> [["1-1", "d", 0, 2], ["1-2", "d", 300, 9], ["1-3", "d", 0, 1]]
		XCLAIM s g d 0 1-2 TIME 5 LASTID 7-7 JUSTID -> ["1-2"]
		XINFO GROUPS s -> [["name", "g", "consumers", 2, "pending", 3, "last-delivered-id", "7-7", "entries-read", 2, "lag", 1]]
		XDEL s 1-2 -> 1
		XCLAIM s g c 0 1-2 -> []
		XPENDING s g - + 10 d -> [["1-1", "d", 0, 2], ["1-3", "d", 0, 1]]
		XCLAIM s g c x 1-2 -> -ERR Invalid min-idle-time argument for XCLAIM
		XCLAIM s g c 0 1-1 FOO -> -ERR Unrecognized XCLAIM option 'FOO'
		XCLAIM s g c 0 1-1 IDLE x -> -ERR Invalid IDLE option argument for XCLAIM
		XCLAIM s g c 0 1-1 TIME x -> -ERR Invalid TIME option argument for XCLAIM
		XCLAIM s g c 0 1-1 RETRYCOUNT x -> -ERR Invalid RETRYCOUNT option argument for XCLAIM
		XCLAIM s h c 0 1-1 -> -NOGROUP No such key 's' or consumer group 'h'
		advance 1s
		XDEL s 1-1 -> 1
		XAUTOCLAIM s g c 500 0 -> ["0-0", [["1-3", ["a", "3"]]], ["1-1"]]
		XADD s 9-1 a 4 -> "9-1"
		XADD s 9-2 a 5 -> "9-2"
		does XREADGROUP GROUP g d STREAMS s >
		XAUTOCLAIM s g c 0 - COUNT 1 JUSTID -> ["9-1", ["1-3"], []]
		XAUTOCLAIM s g c 0 (1-3 COUNT 1 -> ["9-2", [["9-1", ["a", "4"]]], []]
		XAUTOCLAIM s g c 0 0 COUNT 0 -> -ERR COUNT must be > 0
		XAUTOCLAIM s g c 0 0 COUNT x -> -ERR COUNT must be > 0
		XAUTOCLAIM s g c x 0 -> -ERR Invalid min-idle-time argument for XAUTOCLAIM
		XAUTOCLAIM s g c 0 x -> -ERR Invalid stream ID specified as stream command argument
		XAUTOCLAIM s g c 0 0 FOO -> -ERR syntax error
		XAUTOCLAIM none g c 0 0 -> -NOGROUP No such key 'none' or consumer group 'g'
	`)
}

func TestStreamRefs(t *testing.T) {
	table(t, `
		XADD s 1-1 a 1 -> "1-1"
		XADD s 1-2 a 2 -> "1-2"
		XADD s 1-3 a 3 -> "1-3"
		XADD s 1-4 a 4 -> "1-4"
		XGROUP CREATE s g 0 -> +OK
		XGROUP CREATE s h 0 -> +OK
		does XREADGROUP GROUP g c COUNT 3 STREAMS s >
		does XREADGROUP GROUP h c COUNT 2 STREAMS s >
		XACK s g 1-1 -> 1
		XDELEX s ACKED IDS 1 1-1 -> [2]
		XACK s h 1-1 -> 1
		XDELEX s ACKED IDS 2 1-1 1-4 -> [1, 2]
		XDELEX s IDS 1 1-1 -> [-1]
		XDELEX s DELREF IDS 1 1-2 -> [1]
		reopen
		XPENDING s g -> [1, "1-3", "1-3", [["c", "1"]]]
		XPENDING s h -> [0, nil, nil, nilarray]
		XACKDEL s g ACKED IDS 2 1-3 9-9 -> [2, -1]
		XACKDEL s g IDS 1 1-3 -> [-1]
		does XREADGROUP GROUP h c STREAMS s >
		XACKDEL s h KEEPREF IDS 2 1-3 1-4 -> [1, 1]
		XLEN s -> 0
		XDELEX none IDS 2 1 2 -> [-1, -1]
		XACKDEL s none IDS 1 1 -> [-1]
		XDELEX s IDS 2 1 -> -ERR The `+"`numids`"+` parameter must match the number of arguments
		XDELEX s IDS 0 1 -> -ERR Number of IDs must be a positive integer
		XDELEX s KEEPREF ACKED IDS -> -ERR syntax error
		XDELEX s KEEPREF IDS 1 x -> -ERR Invalid stream ID specified as stream command argument
		XADD s 2-1 a 1 -> "2-1"
		XADD s 2-2 a 1 -> "2-2"
		XADD s 2-3 a 1 -> "2-3"
		does XREADGROUP GROUP g c STREAMS s >
		does XREADGROUP GROUP h c COUNT 2 STREAMS s >
		XTRIM s MAXLEN 0 ACKED -> 0
		XACK s g 2-2 -> 1
		XACK s h 2-2 -> 1
		XTRIM s MAXLEN 2 ACKED -> 1
		XADD s MAXLEN 1 DELREF 2-4 a 1 -> "2-4"
		XPENDING s g -> [0, nil, nil, nilarray]
		XRANGE s - + -> [["2-4", ["a", "1"]]]
	`)
}

func TestXNack(t *testing.T) {
	table(t, `
		XADD s 1-1 a 1 -> "1-1"
		XADD s 1-2 a 2 -> "1-2"
		XADD s 1-3 a 3 -> "1-3"
		XGROUP CREATE s g 0 -> +OK
		XNACK s h FAIL IDS 1 1-1 -> -NOGROUP No such key 's' or consumer group 'h'
		does XREADGROUP GROUP g c COUNT 2 STREAMS s >
		XNACK s g SILENT IDS 1 1-2 -> 1
		XNACK s g FAIL IDS 2 1-1 1-3 -> 1
		reopen
		XPENDING s g -> [2, "1-1", "1-2", []]
		XPENDING s g - + 10 -> [["1-1", "", -1, 1], ["1-2", "", -1, 0]]
		XREADGROUP GROUP g d CLAIM 100 COUNT 2 STREAMS s > -> [["s", [["1-2", ["a", "2"], 1700000000000, 0], ["1-1", ["a", "1"], 1700000000000, 1]]]]
		XREADGROUP GROUP g d CLAIM 100 COUNT 2 STREAMS s > -> [["s", [["1-3", ["a", "3"], 0, 0]]]]
		XNACK s g FATAL IDS 1 1-1 -> 1
		XNACK s g FAIL IDS 1 1-2 RETRYCOUNT 5 -> 1
		XACK s g 1-3 -> 1
		XNACK s g FAIL IDS 1 1-3 FORCE -> 1
		XPENDING s g - + 10 -> [["1-1", "", -1, 9223372036854775807], ["1-2", "", -1, 5], ["1-3", "", -1, 0]]
		XCLAIM s g c 5000 1-1 JUSTID -> ["1-1"]
		XAUTOCLAIM s g c 5000 0 JUSTID -> ["0-0", ["1-2", "1-3"], []]
		XNACK s g FOO IDS 1 1-1 -> -ERR mode must be SILENT, FAIL, or FATAL
		XNACK s g FAIL IDS 0 1-1 -> -ERR numids must be a positive integer
		XNACK s g FAIL IDS 5 1-1 -> -ERR number of IDs doesn't match numids
		XNACK s g FAIL IDS 1 1-1 FOO -> -ERR Unrecognized XNACK option 'FOO'
		XNACK s g FAIL FORCE FORCE FORCE -> -ERR syntax error, expected IDS keyword
		XNACK s g FAIL IDS 1 1-1 RETRYCOUNT -1 -> -ERR Invalid RETRYCOUNT value, must be >= 0
	`)
}

func TestXReadGroupClaim(t *testing.T) {
	newHarness(t).run(`
		XADD s 1-1 a 1 -> "1-1"
		XADD s 1-2 a 2 -> "1-2"
		XADD s 1-3 a 3 -> "1-3"
		XGROUP CREATE s g 0 -> +OK
		does XREADGROUP GROUP g c COUNT 1 STREAMS s >
		advance 1s
		does XREADGROUP GROUP g c COUNT 1 STREAMS s >
		advance 1s
		XREADGROUP GROUP g d CLAIM 1500 STREAMS s > -> [["s", [["1-1", ["a", "1"], 2000, 1], ["1-3", ["a", "3"], 0, 0]]]]
		XREADGROUP GROUP g d CLAIM 1500 STREAMS s > -> nilarray
		XREADGROUP GROUP g d CLAIM 1500 BLOCK 0 STREAMS s > -> +(blocked)
		advance 1s
		XREADGROUP GROUP g d CLAIM 1000 MAXCOUNT 1 STREAMS s > -> [["s", [["1-2", ["a", "2"], 2000, 1]]]]
		XPENDING s g - + 10 -> [["1-1", "d", 1000, 2], ["1-2", "d", 0, 2], ["1-3", "d", 1000, 1]]
		XREADGROUP GROUP g d CLAIM 0 STREAMS s 1-2 -> [["s", [["1-3", ["a", "3"]]]]]
	`)
}

func TestXSetID(t *testing.T) {
	table(t, `
		XSETID s 1-1 -> -ERR no such key
		XADD s 5-0 a 1 -> "5-0"
		XSETID s 4-0 -> -ERR The ID specified in XSETID is smaller than the target stream top item
		XSETID s 6-0 ENTRIESADDED 0 -> -ERR The entries_added specified in XSETID is smaller than the target stream length
		XSETID s 6-0 MAXDELETEDID 7-0 -> -ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id
		XSETID s 6-0 ENTRIESADDED -1 -> -ERR entries_added must be positive
		XSETID s 9-0 ENTRIESADDED 10 MAXDELETEDID 8-0 -> +OK
		XSETID s 7-0 -> -ERR The ID specified in XSETID is smaller than current max_deleted_entry_id
		XSETID s 8-5 -> +OK
		events -> xadd:s xsetid:s xsetid:s
		reopen
		XINFO STREAM s -> ["length", 1, "radix-tree-keys", 1, "radix-tree-nodes", 2, "last-generated-id", "8-5", "max-deleted-entry-id", "8-0", "entries-added", 10, "recorded-first-entry-id", "5-0", "groups", 0, "first-entry", ["5-0", ["a", "1"]], "last-entry", ["5-0", ["a", "1"]]]
		XADD s 8-* a 2 -> "8-6"

		# No group has read more than was ever added.
		XADD l 1-0 a 1 -> "1-0"
		XADD l 2-0 a 1 -> "2-0"
		XADD l 3-0 a 1 -> "3-0"
		XADD l 4-0 a 1 -> "4-0"
		XGROUP CREATE l all 0 -> +OK
		XGROUP CREATE l one 0 -> +OK
		XREADGROUP GROUP all c STREAMS l > -> [["l", [["1-0", ["a", "1"]], ["2-0", ["a", "1"]], ["3-0", ["a", "1"]], ["4-0", ["a", "1"]]]]]
		XREADGROUP GROUP one c COUNT 1 STREAMS l > -> [["l", [["1-0", ["a", "1"]]]]]
		XTRIM l MAXLEN 2 -> 2
		XSETID l 4-0 ENTRIESADDED 2 -> +OK
		XINFO GROUPS l -> [["name", "all", "consumers", 1, "pending", 4, "last-delivered-id", "4-0", "entries-read", 2, "lag", 0], ["name", "one", "consumers", 1, "pending", 1, "last-delivered-id", "1-0", "entries-read", 1, "lag", 2]]
		reopen
		XINFO GROUPS l -> [["name", "all", "consumers", 1, "pending", 4, "last-delivered-id", "4-0", "entries-read", 2, "lag", 0], ["name", "one", "consumers", 1, "pending", 1, "last-delivered-id", "1-0", "entries-read", 1, "lag", 2]]
	`)
}

// TestIdempotenceIsShown: XINFO STREAM shows the idempotence settings of a stream as soon as it has
// some.
func TestIdempotenceIsShown(t *testing.T) {
	newHarness(t).run(`
		XADD s 1-1 a 1 -> "1-1"
		XCFGSET s IDMP-MAXSIZE 500 -> +OK
		XINFO STREAM s -> ["length", 1, "radix-tree-keys", 1, "radix-tree-nodes", 2, "last-generated-id", "1-1", "max-deleted-entry-id", "0-0", "entries-added", 1, "recorded-first-entry-id", "1-1", "idmp-duration", 100, "idmp-maxsize", 500, "pids-tracked", 0, "iids-tracked", 0, "iids-added", 0, "iids-duplicates", 0, "groups", 0, "first-entry", ["1-1", ["a", "1"]], "last-entry", ["1-1", ["a", "1"]]]
	`)
}

func TestIdempotence(t *testing.T) {
	table(t, `
		XADD s IDMP p 1 * a 1 -> "1700000000000-0"
		XADD s IDMP p 1 * b 2 -> "1700000000000-0"
		XADD s IDMP q 1 * a 1 -> "1700000000000-1"
		XADD s IDMPAUTO p * a 1 b 2 -> "1700000000000-2"
		XADD s IDMPAUTO p * b 2 a 1 -> "1700000000000-2"
		XADD s IDMPAUTO p * a 2 b 1 -> "1700000000000-3"
		reopen
		XADD s IDMP p 1 * a 1 -> "1700000000000-0"
		XLEN s -> 4
		XINFO STREAM s -> ["length", 4, "radix-tree-keys", 1, "radix-tree-nodes", 2, "last-generated-id", "1700000000000-3", "max-deleted-entry-id", "0-0", "entries-added", 4, "recorded-first-entry-id", "1700000000000-0", "idmp-duration", 100, "idmp-maxsize", 100, "pids-tracked", 2, "iids-tracked", 4, "iids-added", 4, "iids-duplicates", 3, "groups", 0, "first-entry", ["1700000000000-0", ["a", "1"]], "last-entry", ["1700000000000-3", ["a", "2", "b", "1"]]]
		XCFGSET s IDMP-DURATION 50 -> +OK
		XADD s IDMP p 1 * a 1 -> "1700000000000-4"
		XCFGSET s IDMP-DURATION 50 -> +OK
		XADD s IDMP p 1 * a 1 -> "1700000000000-4"
		advance 49s
		XADD s IDMP p 1 * a 1 -> "1700000000000-4"
		advance 1s
		XADD s IDMP p 1 * a 1 -> "1700000050000-0"
		XCFGSET s IDMP-MAXSIZE 1 -> +OK
		XADD s IDMP p x * a 1 -> "1700000050000-1"
		XADD s IDMP p y * a 1 -> "1700000050000-2"
		XADD s IDMP p x * a 1 -> "1700000050000-3"
		XIDMPRECORD s p y 1700000050000-2 -> +OK
		XADD s IDMP p y * a 1 -> "1700000050000-2"
		XIDMPRECORD s p y 1700000050000-3 -> -ERR IID already exists for this producer with a different stream ID
		XIDMPRECORD s p z 1-1 -> -ERR No such message in stream
		XIDMPRECORD s "" z 1-1 -> -ERR producer ID must be non-empty
		XADD s IDMP p 1 5-5 a 1 -> -ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs
		XADD s IDMP "" 1 * a 1 -> -ERR syntax error, IDMP requires a non-empty producer ID
		XADD s IDMP p "" * a 1 -> -ERR syntax error, IDMP requires a non-empty idempotent ID
		XADD s IDMPAUTO "" * a 1 -> -ERR syntax error, IDMPAUTO requires a non-empty producer ID
		XADD s IDMPAUTO p IDMPAUTO p * a 1 -> -ERR syntax error, IDMP/IDMPAUTO specified multiple times
		XCFGSET none IDMP-MAXSIZE 1 -> -ERR no such key
		XCFGSET s -> -ERR At least one parameter must be specified
		XCFGSET s IDMP-MAXSIZE 0 -> -ERR IDMP-MAXSIZE must be between 1 and 10000 entries
		XCFGSET s IDMP-DURATION 90000 -> -ERR IDMP-DURATION must be between 1 and 86400 seconds
		XCFGSET s IDMP-DURATION 9 IDMP-DURATION 9 -> -ERR IDMP-DURATION specified multiple times
		XCFGSET s FOO 1 -> -ERR syntax error
	`)
}

func TestXInfoFull(t *testing.T) {
	table(t, `
		XADD s 1-1 a 1 -> "1-1"
		XADD s 1-2 a 2 -> "1-2"
		XGROUP CREATE s g 0 -> +OK
		does XREADGROUP GROUP g c STREAMS s >
		XNACK s g FAIL IDS 1 1-2 -> 1
		reopen
		XINFO STREAM s FULL COUNT 1 -> ["length", 2, "radix-tree-keys", 1, "radix-tree-nodes", 2, "last-generated-id", "1-2", "max-deleted-entry-id", "0-0", "entries-added", 2, "recorded-first-entry-id", "1-1", "entries", [["1-1", ["a", "1"]]], "groups", [["name", "g", "last-delivered-id", "1-2", "entries-read", 2, "lag", 0, "pel-count", 2, "nacked-count", 1, "pending", [["1-1", "c", 1700000000000, 1]], "consumers", [["name", "c", "seen-time", 1700000000000, "active-time", 1700000000000, "pel-count", 1, "pending", [["1-1", 1700000000000, 1]]]]]]]
		XINFO STREAM s FOO -> -ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.
		XINFO STREAM s FULL FOO 1 -> -ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.
		XINFO STREAM none -> -ERR no such key
		XINFO CONSUMERS s h -> -NOGROUP No such consumer group 'h' for key name 's'
		proto 3
		XINFO GROUPS s -> [{"name": "g", "consumers": 1, "pending": 2, "last-delivered-id": "1-2", "entries-read": 2, "lag": 0}]
	`)
}

func TestStreamsAndOtherCommands(t *testing.T) {
	table(t, `
		XADD s 1-1 a 1 -> "1-1"
		XGROUP CREATE s g 0 -> +OK
		does XREADGROUP GROUP g c STREAMS s >
		SORT s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SCAN 0 TYPE stream -> ["0", ["s"]]
		does MEMORY USAGE s
		COPY s t -> 1
		reopen
		XPENDING t g - + 5 -> [["1-1", "c", 0, 1]]
		RENAME t u -> +OK
		XACK u g 1-1 -> 1
		XPENDING s g -> [1, "1-1", "1-1", [["c", "1"]]]
		PEXPIRE s 10 -> 1
		advance 10ms
		EXISTS s -> 0
		XLEN s -> 0
		does ACL CAT stream
	`)
}

// TestStreamWaiters: all clients that wait for a stream look at it once. A client that waits for a
// group gets a reply when the stream is gone.
func TestStreamWaiters(t *testing.T) {
	h := newHarness(t)
	ws := &h.env.Waiters
	var served []string
	by := map[*Client]*Waiter{}
	stays, busy := map[string]bool{"reader 2": true}, ""
	wait := func(name string, gone bool) {
		c := &Client{Name: name}
		by[c] = ws.Add(c, BlockedOn{Type: object.TypeStream, Gone: gone,
			Keys: []storage.Key{h.store.Key(0, []byte("s"))}})
	}
	host := &lookers{again: func(c *Client) bool {
		if c.Name == busy {
			return false
		}
		served = append(served, c.Name)
		if !stays[c.Name] {
			ws.Remove(by[c])
		}
		return true
	}}
	serve := func(want string) {
		t.Helper()
		served = nil
		h.env.Changes.Deliver()
		ws.Serve(h.store.NewTxn(), host)
		got := ""
		for _, name := range served {
			got += name + ","
		}
		if got != want {
			t.Errorf("served %q, want %q", got, want)
		}
	}
	for _, name := range []string{"reader 1", "reader 2", "reader 3"} {
		wait(name, false)
	}
	onNoKey := func(want string) {
		t.Helper()
		if info := h.do("INFO", "clients"); !strings.Contains(info,
			`total_blocking_keys:1\r\ntotal_blocking_keys_on_nokey:`+want+`\r\n`) {
			t.Errorf("want %s, INFO has %s", want, info)
		}
	}
	onNoKey("0")
	wait("group", true)
	wait("another group", true)
	onNoKey("1")
	h.do("XADD", "s", "1-1", "a", "1")
	serve("reader 1,reader 2,reader 3,group,another group,")
	onNoKey("0")
	wait("group", true)
	wait("reader 4", false)
	h.do("DEL", "s")
	serve("group,")
	h.do("SET", "s", "x")
	serve("")
	wait("group", true)
	h.do("LPUSH", "other", "x")
	h.do("RENAME", "other", "s")
	serve("group,")
	h.do("DEL", "s")
	busy = "reader 2"
	wait("reader 5", false)
	h.do("XADD", "s", "1-1", "a", "1")
	serve("")
	busy = ""
	for c, w := range by {
		if c.Name == "reader 2" {
			ws.LookAgain(w)
		}
	}
	serve("reader 2,reader 4,reader 5,")
	// Changes of groups wake no waiter, unless one may get a reply from them.
	wait("reader 6", false)
	h.run(`
		XGROUP CREATE s g 0 -> +OK
		does XREADGROUP GROUP g c STREAMS s >
		XCLAIM s g d 0 1-1 JUSTID -> ["1-1"]
		XACK s g 1-1 -> 1
	`)
	serve("")
	h.do("XGROUP", "DESTROY", "s", "g")
	serve("reader 2,reader 6,")
}

// lookers runs waiters by calling again.
type lookers struct{ again func(*Client) bool }

func (r *lookers) Again(w *Waiter) bool         { return r.again(w.Client) }
func (r *lookers) Enough() bool                 { return false }
func (r *lookers) Load(storage.Key, func(bool)) { panic("all is in memory") }

// TestLatestIsResolvedOnce: a command that waits for entries after the last one keeps that position
// when it runs again.
func TestLatestIsResolvedOnce(t *testing.T) {
	h := newHarness(t)
	h.do("XADD", "s", "1-1", "a", "1")
	args := [][]byte{[]byte("XREAD"), []byte("BLOCK"), []byte("0"), []byte("STREAMS"),
		[]byte("s"), []byte("$")}
	if got, _ := render(h.raw(args...)); got != "+(blocked)" {
		t.Fatal(got)
	}
	h.do("XADD", "s", "1-2", "a", "2")
	if got, _ := render(h.raw(args...)); got != `[["s", [["1-2", ["a", "2"]]]]]` {
		t.Error(got)
	}
}

// TestGroupExtremes: a stream with extreme counts is still correct after a restart.
func TestGroupExtremes(t *testing.T) {
	h := newHarness(t)
	h.run(`
		XADD s 5-0 a 1 -> "5-0"
		XSETID s 5-0 ENTRIESADDED 9223372036854775807 -> +OK
		XGROUP CREATE s most 0 ENTRIESREAD 9223372036854775807 -> +OK
		XADD s 6-0 a 1 -> "6-0"
		XGROUP CREATE s beyond 0 -> +OK
		XREADGROUP GROUP beyond c COUNT 1 STREAMS s > -> [["s", [["5-0", ["a", "1"]]]]]
		reopen
		XLEN s -> 2
		XPENDING s beyond -> [1, "5-0", "5-0", [["c", "1"]]]
		config stream-node-max-entries 9223372036854775807
		XTRIM s MAXLEN 1 DELREF -> 1
		XTRIM s MAXLEN 0 ACKED -> 0
	`)
}
