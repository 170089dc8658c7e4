package commands

import "testing"

// TestXAdd: XADD checks its arguments, chooses the IDs of entries, and trims the stream.
func TestXAdd(t *testing.T) {
	h := newHarness(t)
	h.run(`
		XADD s -> -ERR wrong number of arguments for 'xadd' command
		XADD s * a -> -ERR wrong number of arguments for 'xadd' command
		XADD s * a 1 b -> -ERR wrong number of arguments for 'xadd' command
		XADD s MAXLEN 10 * -> -ERR wrong number of arguments for 'xadd' command
		XADD s MAXLEN 10 5 a -> -ERR wrong number of arguments for 'xadd' command
		XADD s x a 1 -> -ERR Invalid stream ID specified as stream command argument
		XADD s - a 1 -> -ERR Invalid stream ID specified as stream command argument
		XADD s 5-6-* a 1 -> -ERR Invalid stream ID specified as stream command argument
		XADD s 0-0 a 1 -> -ERR The ID specified in XADD must be greater than 0-0
		XADD s 0 a 1 -> -ERR The ID specified in XADD must be greater than 0-0
		XADD s NOMKSTREAM * a 1 -> nil
		EXISTS s -> 0
		events ->
		XADD s 0-* a 1 -> "0-1"
		events -> xadd:s
		XADD s 0-* b 2 c 3 -> "0-2"
		XADD s 0-2 a 1 -> -ERR The ID specified in XADD is equal or smaller than the target stream top item
		XADD s 5 a 1 -> "5-0"
		XADD s 5-* a 1 -> "5-1"
		XADD s 4-* a 1 -> -ERR The ID specified in XADD is equal or smaller than the target stream top item
		XADD s * a 1 -> "1700000000000-0"
		XADD s * a 1 -> "1700000000000-1"
		advance 5ms
		XADD s * a 1 -> "1700000000005-0"
		XADD s 1800000000000-18446744073709551615 a 1 -> "1800000000000-18446744073709551615"
		XADD s * a 1 -> "1800000000001-0"
		XADD s 18446744073709551615-* a 1 -> "18446744073709551615-0"
		XADD s 18446744073709551615-18446744073709551615 a 1 -> "18446744073709551615-18446744073709551615"
		XADD s * a 1 -> -ERR The stream has exhausted the last possible ID, unable to add more items
		XLEN s -> 11
		TYPE s -> +stream
		OBJECT ENCODING s -> "stream"
		SET x 1 -> +OK
		XADD x * a 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		XADD s NOMKSTREAM MAXLEN 2 MINID 5 * a 1 -> -ERR syntax error, MAXLEN and MINID options at the same time are not compatible
		XADD s MAXLEN -1 * a 1 -> -ERR The MAXLEN argument must be >= 0.
		XADD s MAXLEN x * a 1 -> -ERR value is not an integer or out of range
		XADD s MAXLEN = 1 LIMIT 5 * a 1 -> -ERR syntax error, LIMIT cannot be used without the special ~ option
		XADD s LIMIT 5 * a 1 -> -ERR syntax error, LIMIT cannot be used without specifying a trimming strategy
		XADD s MAXLEN ~ 1 LIMIT -5 * a 1 -> -ERR The LIMIT argument must be >= 0.
		XADD new MAXLEN 0 1-1 a 1 -> "1-1"
		XLEN new -> 0
		EXISTS new -> 1
		reopen
		XLEN s -> 11
		EXISTS new -> 1
		XADD new 1-1 a 1 -> -ERR The ID specified in XADD is equal or smaller than the target stream top item
	`)
}

func TestXRange(t *testing.T) {
	h := newHarness(t)
	h.run(`
		XADD s 1-1 a 1 -> "1-1"
		XADD s 1-2 b 2 c 3 -> "1-2"
		XADD s 3-0 a 4 -> "3-0"
		XRANGE s - + -> [["1-1", ["a", "1"]], ["1-2", ["b", "2", "c", "3"]], ["3-0", ["a", "4"]]]
		XREVRANGE s + - -> [["3-0", ["a", "4"]], ["1-2", ["b", "2", "c", "3"]], ["1-1", ["a", "1"]]]
		XRANGE s - + COUNT 1 -> [["1-1", ["a", "1"]]]
		XREVRANGE s + - COUNT 1 -> [["3-0", ["a", "4"]]]
		XRANGE s 1 1 -> [["1-1", ["a", "1"]], ["1-2", ["b", "2", "c", "3"]]]
		XRANGE s (1-1 (3-0 -> [["1-2", ["b", "2", "c", "3"]]]
		XRANGE s 3 1 -> []
		XRANGE s - + COUNT 0 -> nilarray
		XRANGE s - + COUNT -5 -> nilarray
		XRANGE none - + COUNT 0 -> []
		XRANGE s - + COUNT -> -ERR syntax error
		XRANGE s - + LIMIT 5 -> -ERR syntax error
		XRANGE s - + COUNT x -> -ERR value is not an integer or out of range
		XRANGE s x + -> -ERR Invalid stream ID specified as stream command argument
		XRANGE s (- + -> -ERR Invalid stream ID specified as stream command argument
		XRANGE s (18446744073709551615-18446744073709551615 + -> -ERR invalid start ID for the interval
		XRANGE s - (0-0 -> -ERR invalid end ID for the interval
		XREVRANGE s x - -> -ERR Invalid stream ID specified as stream command argument
		XDEL s 1-2 9-9 -> 1
		XRANGE s - + -> [["1-1", ["a", "1"]], ["3-0", ["a", "4"]]]
		XDEL none 1-1 -> 0
		XDEL s 1-1 x -> -ERR Invalid stream ID specified as stream command argument
		XDEL s 1-1 3-0 -> 2
		XLEN s -> 0
		EXISTS s -> 1
		events -> xadd:s xadd:s xadd:s xdel:s xdel:s
		reopen
		XADD s 3-0 a 1 -> -ERR The ID specified in XADD is equal or smaller than the target stream top item
		XINFO STREAM s -> ["length", 0, "radix-tree-keys", 0, "radix-tree-nodes", 1, "last-generated-id", "3-0", "max-deleted-entry-id", "3-0", "entries-added", 3, "recorded-first-entry-id", "0-0", "groups", 0, "first-entry", nil, "last-entry", nil]
	`)
}

func TestXTrim(t *testing.T) {
	h := newHarness(t)
	h.run(`
		XADD s 1-1 a 1 -> "1-1"
		XADD s 1-2 a 2 -> "1-2"
		XADD s 1-3 a 3 -> "1-3"
		XADD s 1-4 a 4 -> "1-4"
		XTRIM s MAXLEN 3 -> 1
		XTRIM s MAXLEN = 3 -> 0
		XTRIM s MINID 1-3 -> 1
		XTRIM s MAXLEN ~ 0 -> 2
		XTRIM s MAXLEN -> -ERR wrong number of arguments for 'xtrim' command
		XTRIM s FOO 3 -> -ERR syntax error
		XTRIM s LIMIT 3 -> -ERR syntax error, LIMIT cannot be used without specifying a trimming strategy
		XTRIM s LIMIT 0 -> -ERR syntax error, XTRIM must be called with a trimming strategy
		XTRIM s ACKED KEEPREF -> -ERR syntax error
		XTRIM s MAXLEN 1 ACKED KEEPREF -> -ERR syntax error
		XTRIM none MAXLEN 0 -> 0
		events -> xadd:s xadd:s xadd:s xadd:s xtrim:s xtrim:s xtrim:s
		XADD s MAXLEN 1 2-1 a 1 -> "2-1"
		XADD s MAXLEN 1 2-2 a 1 -> "2-2"
		events -> xadd:s xadd:s xtrim:s
		config stream-node-max-entries 2
		XTRIM s MAXLEN 0 -> 1
		XADD s 3-1 a 1 -> "3-1"
		XADD s 3-2 a 1 -> "3-2"
		XADD s 3-3 a 1 -> "3-3"
		XADD s 3-4 a 1 -> "3-4"
		XADD s 3-5 a 1 -> "3-5"
		XTRIM s MAXLEN ~ 4 -> 0
		XTRIM s MAXLEN ~ 3 LIMIT 1 -> 0
		XTRIM s MAXLEN ~ 2 LIMIT 2 -> 2
		XTRIM s MINID ~ 3-5 -> 2
		XLEN s -> 1
	`)
}
