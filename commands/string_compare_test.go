package commands

import "testing"

// TestDigest: the digests are those of Redis's documentation and tests.
func TestDigest(t *testing.T) {
	table(t, `
		DIGEST k -> nil
		SET k "" -> +OK
		DIGEST k -> "2d06800538d394c2"
		SET k hello -> +OK
		DIGEST k -> "9555e8555c62dcfd"
		SET k 123 -> +OK
		DIGEST k -> "404a763b3f4c8c9a"
		SET k "Hello world" -> +OK
		DIGEST k -> "b6acb9d84a38ff74"
		SET k v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd -> +OK
		DIGEST k -> "00006c38adf31777"
		DIGEST -> -ERR wrong number of arguments for 'digest' command
		DIGEST k k -> -ERR wrong number of arguments for 'digest' command
		RPUSH l a -> 1
		DIGEST l -> -WRONGTYPE Operation against a key holding the wrong kind of value
		PEXPIRE k 10 -> 1
		advance 10ms
		proto 3
		DIGEST k -> null
	`)
}

func TestSetIfDigest(t *testing.T) {
	table(t, `
		SET k new IFDEQ 9555e8555c62dcfd -> nil
		SET k new IFDEQ short -> nil
		EXISTS k -> 0
		SET k hello IFDNE short -> +OK
		SET k new IFDNE 9555e8555c62dcfd -> nil
		SET k new IFDNE 9555E8555C62DCFD GET -> "hello"
		SET k new IFDEQ 9555e8555c62dcfe GET -> "hello"
		SET k new IFDEQ zzzzzzzzzzzzzzzz -> nil
		SET k new IFDEQ 555e8555c62dcfd -> -ERR must be exactly 16 hexadecimal characters
		SET k new IFDNE 09555e8555c62dcfd -> -ERR must be exactly 16 hexadecimal characters
		SET k new IFDNE "" GET -> -ERR must be exactly 16 hexadecimal characters
		GET k -> "hello"
		events -> set:k
		SET k new IFDEQ 9555E8555c62dcfd EX 10 GET -> "hello"
		GET k -> "new"
		TTL k -> 10
		events -> set:k expire:k
		SET k v IFDNE zzzzzzzzzzzzzzzz KEEPTTL -> +OK
		TTL k -> 10
		SET k v NX IFDEQ 9555e8555c62dcfd -> -ERR syntax error
		SET k v IFDEQ -> -ERR syntax error
		RPUSH l a -> 1
		SET l v IFDEQ short -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SET l v IFDNE short -> -WRONGTYPE Operation against a key holding the wrong kind of value
		reopen
		GET k -> "v"
	`)
}

func TestDelEx(t *testing.T) {
	table(t, `
		DELEX k -> 0
		DELEX k IFEQ a -> 0
		DELEX k IFDNE short -> 0
		DELEX k WHAT short -> 0
		DELEX k IFEQ -> -ERR wrong number of arguments for 'delex' command
		DELEX k IFEQ a b -> -ERR wrong number of arguments for 'delex' command
		DELEX -> -ERR wrong number of arguments for 'delex' command
		SET k hello -> +OK
		DELEX k IFEQ a -> 0
		DELEX k IFNE hello -> 0
		DELEX k IFDEQ zzzzzzzzzzzzzzzz -> 0
		DELEX k IFDNE 9555E8555c62dcfd -> 0
		DELEX k IFDEQ 555e8555c62dcfd -> -ERR must be exactly 16 hexadecimal characters
		DELEX k IFDNE "" -> -ERR must be exactly 16 hexadecimal characters
		DELEX k NX hello -> -ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE
		events -> set:k
		DELEX k ifeq hello -> 1
		events -> del:k
		SET k hello -> +OK
		DELEX k IFNE a -> 1
		SET k hello -> +OK
		DELEX k IFDEQ 9555E8555c62dcfd -> 1
		SET k hello -> +OK
		DELEX k IFDNE zzzzzzzzzzzzzzzz -> 1
		SET k hello -> +OK
		DELEX k -> 1
		RPUSH l a -> 1
		DELEX l IFEQ a -> -ERR Key should be of string type if conditions are specified
		DELEX l WHAT a -> -ERR Key should be of string type if conditions are specified
		DELEX l -> 1
		SET k hello PX 10 -> +OK
		SET stays hello -> +OK
		advance 10ms
		DELEX k IFEQ hello -> 0
		reopen
		EXISTS k l -> 0
		GET stays -> "hello"
	`)
}

func TestMSetEx(t *testing.T) {
	table(t, `
		MSETEX 2 a 1 b 2 -> 1
		MGET a b -> ["1", "2"]
		events -> set:a set:b
		MSETEX 2 a 3 b 4 EX 10 -> 1
		TTL a -> 10
		TTL b -> 10
		events -> set:a expire:a set:b expire:b
		MSETEX 2 a 5 c 6 NX -> 0
		MSETEX 2 a 5 c 6 XX PX 5 -> 0
		MGET a c -> ["3", nil]
		MSETEX 2 a 5 b 6 xx keepttl -> 1
		TTL b -> 10
		MSETEX 2 a 5 n 6 KEEPTTL -> 1
		TTL n -> -1
		MSETEX 2 c 7 c 8 NX PXAT 1700000005000 NX -> 1
		GET c -> "8"
		PTTL c -> 5000
		MSETEX 1 b 9 -> 1
		TTL b -> -1
		MSETEX 1 gone 1 EXAT 1 -> 1
		EXISTS gone -> 0
		MSETEX 1 a -> -ERR wrong number of arguments for 'msetex' command
		MSETEX a 1 EX 10 -> -ERR invalid numkeys value
		MSETEX 0 a 1 -> -ERR invalid numkeys value
		MSETEX -1 a 1 -> -ERR invalid numkeys value
		MSETEX 2147483648 a 1 EX 10 -> -ERR invalid numkeys value
		MSETEX 2147483647 a 1 EX 10 -> -ERR wrong number of key-value pairs
		MSETEX 2 a 1 b -> -ERR wrong number of key-value pairs
		MSETEX 1 a 1 BAD -> -ERR syntax error
		MSETEX 1 a 1 b 2 -> -ERR syntax error
		MSETEX 1 a 1 NX XX -> -ERR syntax error
		MSETEX 1 a 1 IFEQ 5 -> -ERR syntax error
		MSETEX 1 a 1 GET -> -ERR syntax error
		MSETEX 1 a 1 EX 10 PX 10 -> -ERR syntax error
		MSETEX 1 a 1 EX 10 KEEPTTL -> -ERR syntax error
		MSETEX 1 a 1 KEEPTTL PX 10 -> -ERR syntax error
		MSETEX 1 a 1 EX -> -ERR syntax error
		MSETEX 1 a 1 EX x -> -ERR value is not an integer or out of range
		MSETEX 1 a 1 EX 0 -> -ERR invalid expire time in 'msetex' command
		MSETEX 1 a 1 EX 0 XX -> -ERR invalid expire time in 'msetex' command
		COMMAND GETKEYS MSETEX 2 a 1 b 2 EX 10 -> ["a", "b"]
		COMMAND GETKEYS MSETEX 3 a 1 b 2 -> -ERR Invalid arguments specified for command
		RPUSH l x -> 1
		MSETEX 1 l 1 NX -> 0
		MSETEX 1 l 1 XX -> 1
		reopen
		MGET a b c l -> ["5", "9", "8", "1"]
		PTTL c -> 5000
	`)
}
