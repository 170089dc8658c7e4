package commands

import (
	"strings"
	"testing"
)

func TestExistence(t *testing.T) {
	table(t, `
		EXISTS a -> 0
		TYPE a -> +none
		MSET a 1 b 2 -> +OK
		EXISTS a b c a -> 3
		TYPE a -> +string
		TOUCH a c b -> 2
		DEL c -> 0
		DEL a b a c -> 2
		events -> set:a set:b del:a del:b
		MSET a 1 b 2 c 3 -> +OK
		UNLINK a b x -> 2
		EXISTS c -> 1
		DEL -> -ERR wrong number of arguments for 'del' command
		PEXPIRE c 10 -> 1
		advance 10ms
		EXISTS c -> 0
		TYPE c -> +none
		TOUCH c -> 0
		UNLINK c -> 0
		events -> set:a set:b set:c del:a del:b expire:c expired:c
		SET k v -> +OK
		reopen
		EXISTS k c -> 1
		TYPE k -> +string
		DEL k -> 1
		reopen
		EXISTS k -> 0
	`)
}

func TestRename(t *testing.T) {
	table(t, `
		RENAME a b -> -ERR no such key
		RENAMENX a b -> -ERR no such key
		RENAME a a -> -ERR no such key
		SET a 1 EX 10 -> +OK
		SET b 2 -> +OK
		events -> set:a expire:a set:b
		RENAME a b -> +OK
		events -> rename_from:a rename_to:b
		EXISTS a -> 0
		GET b -> "1"
		TTL b -> 10
		# the target's deadline goes with its value
		SET c 3 -> +OK
		RENAME c b -> +OK
		TTL b -> -1
		GET b -> "3"
		SET a 4 -> +OK
		RENAMENX a b -> 0
		RENAMENX a c -> 1
		MGET a b c -> [nil, "3", "4"]
		RENAME b b -> +OK
		RENAMENX b b -> 0
		RENAME b -> -ERR wrong number of arguments for 'rename' command
		# a target whose time has come is no target
		PEXPIRE b 10 -> 1
		advance 10ms
		RENAMENX c b -> 1
		GET b -> "4"
		TTL b -> -1
		PEXPIRE b 10 -> 1
		advance 10ms
		RENAME b c -> -ERR no such key
		SET a 1 EX 10 -> +OK
		RENAME a z -> +OK
		reopen
		GET z -> "1"
		TTL z -> 10
		EXISTS a b c -> 0
	`)
}

func TestCopy(t *testing.T) {
	table(t, `
		COPY a b -> 0
		SET a 1 EX 10 -> +OK
		COPY a b -> 1
		MGET a b -> ["1", "1"]
		TTL b -> 10
		events -> set:a expire:a copy_to:b
		SET a 2 -> +OK
		COPY a b -> 0
		GET b -> "1"
		COPY a b REPLACE -> 1
		GET b -> "2"
		TTL b -> -1
		COPY a b replace REPLACE DB 0 -> 1
		COPY a a -> -ERR source and destination objects are the same
		COPY a a DB 0 -> -ERR source and destination objects are the same
		COPY a a DB 1 -> 1
		COPY a x DB 1 -> 1
		COPY a x DB 1 -> 0
		COPY a x REPLACE DB 1 -> 1
		EXISTS x -> 0
		events -> set:a copy_to:b copy_to:b copy_to:a@1 copy_to:x@1 copy_to:x@1
		select 1
		MGET a x -> ["2", "2"]
		COPY x y DB 0 -> 1
		EXISTS y -> 0
		select 0
		GET y -> "2"
		COPY a b DB 16 -> -ERR DB index is out of range
		COPY a b DB -1 -> -ERR DB index is out of range
		COPY none b DB 99 -> -ERR DB index is out of range
		COPY a b DB x -> -ERR value is not an integer or out of range
		COPY a b DB 99999999999 -> -ERR value is out of range, value must between -2147483648 and 2147483647
		COPY a b DB -> -ERR syntax error
		COPY a b FOO -> -ERR syntax error
		COPY a -> -ERR wrong number of arguments for 'copy' command
		PEXPIRE a 10 -> 1
		COPY a deadline -> 1
		advance 10ms
		COPY a b REPLACE -> 0
		EXISTS b deadline -> 1
		reopen
		GET b -> "2"
		select 1
		MGET a x -> ["2", "2"]
	`)
}

func TestMove(t *testing.T) {
	table(t, `
		MOVE a 1 -> 0
		SET a 1 EX 10 -> +OK
		MOVE a 1 -> 1
		EXISTS a -> 0
		events -> set:a expire:a move_from:a move_to:a@1
		SET a 2 -> +OK
		MOVE a 1 -> 0
		GET a -> "2"
		MOVE a 0 -> -ERR source and destination objects are the same
		MOVE none 0 -> -ERR source and destination objects are the same
		MOVE a 16 -> -ERR DB index is out of range
		MOVE a -1 -> -ERR DB index is out of range
		MOVE a x -> -ERR value is not an integer or out of range
		MOVE a 2147483648 -> -ERR value is out of range, value must between -2147483648 and 2147483647
		select 1
		GET a -> "1"
		TTL a -> 10
		reopen
		GET a -> "1"
		TTL a -> 10
		advance 10s
		select 0
		MOVE a 1 -> 1
		select 1
		GET a -> "2"
		TTL a -> -1
	`)
}

func TestObject(t *testing.T) {
	table(t, `
		OBJECT ENCODING none -> nil
		OBJECT FREQ none -> nil
		OBJECT IDLETIME none -> nil
		OBJECT REFCOUNT none -> nil
		SET k 12345 -> +OK
		OBJECT ENCODING k -> "int"
		SET k -9223372036854775808 -> +OK
		OBJECT ENCODING k -> "int"
		SET k 0123 -> +OK
		OBJECT ENCODING k -> "embstr"
		SET k "" -> +OK
		OBJECT ENCODING k -> "embstr"
		SET k 12345678901234567890123456789012345678901234 -> +OK
		OBJECT ENCODING k -> "embstr"
		SET k 123456789012345678901234567890123456789012345 -> +OK
		OBJECT ENCODING k -> "raw"
		SETRANGE part 1 x -> 2
		OBJECT ENCODING part -> "raw"
		COPY part copied -> 1
		OBJECT ENCODING copied -> "raw"
		RENAME copied renamed -> +OK
		OBJECT ENCODING renamed -> "raw"
		MOVE renamed 1 -> 1
		COPY part renamed -> 1
		SET renamed short -> +OK
		OBJECT ENCODING renamed -> "embstr"
		OBJECT REFCOUNT k -> 1
		OBJECT IDLETIME k -> 0
		advance 7s
		OBJECT IDLETIME k -> 7
		object idletime k -> 7
		TTL k -> -1
		EXISTS k -> 1
		TYPE k -> +string
		OBJECT IDLETIME k -> 7
		STRLEN k -> 45
		OBJECT IDLETIME k -> 0
		advance 3s
		TOUCH k -> 1
		OBJECT IDLETIME k -> 0
		OBJECT FREQ k -> -ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.
		config maxmemory-policy allkeys-lfu
		OBJECT IDLETIME k -> -ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.
		OBJECT -> -ERR wrong number of arguments for 'object' command
		OBJECT ENCODING -> -ERR wrong number of arguments for 'object|encoding' command
		OBJECT FOO k -> -ERR unknown subcommand 'FOO'. Try OBJECT HELP.
		PEXPIRE k 10 -> 1
		advance 10ms
		OBJECT ENCODING k -> nil
		proto 3
		OBJECT REFCOUNT k -> null
	`)
}

// TestNoTouch: with CLIENT NO-TOUCH, only the command TOUCH changes access times.
func TestNoTouch(t *testing.T) {
	h := newHarness(t)
	h.do("SET", "k", "v")
	h.client.NoTouch = true
	h.run(`
		advance 5s
		GET k -> "v"
		OBJECT IDLETIME k -> 5
		TOUCH k -> 1
		OBJECT IDLETIME k -> 0
	`)
}

func TestFlush(t *testing.T) {
	h := newHarness(t)
	h.run(`
		MSET a 1 b 2 -> +OK
		SET c 3 EX 100 -> +OK
		DBSIZE -> 3
		select 1
		SET a 1 -> +OK
		DBSIZE -> 1
		select 0
		FLUSHDB -> +OK
		DBSIZE -> 0
		MGET a b c -> [nil, nil, nil]
		select 1
		GET a -> "1"
		SET x y -> +OK
		FLUSHDB sync -> +OK
		FLUSHDB ASYNC -> +OK
		EXISTS a x -> 0
		SET z 1 -> +OK
		select 0
		SET z 2 -> +OK
		FLUSHDB FOO -> -ERR syntax error
		FLUSHDB SYNC ASYNC -> -ERR syntax error
		FLUSHALL SYNC SYNC -> -ERR syntax error
		GET z -> "2"
		FLUSHALL async -> +OK
		GET z -> nil
		select 1
		GET z -> nil
		SET back 1 -> +OK
		reopen
		KEYS * -> ["back"]
		select 0
		DBSIZE -> 0
	`)
}

func TestSwapDB(t *testing.T) {
	table(t, `
		SET a 0 EX 100 -> +OK
		select 1
		SET a 1 -> +OK
		SET only1 1 -> +OK
		SWAPDB 0 1 -> +OK
		GET a -> "0"
		TTL a -> 100
		EXISTS only1 -> 0
		select 0
		MGET a only1 -> ["1", "1"]
		reopen
		MGET a only1 -> ["1", "1"]
		TTL a -> -1
		SWAPDB 0 0 -> +OK
		GET a -> "1"
		SWAPDB 1 0 -> +OK
		GET a -> "0"
		SWAPDB a 1 -> -ERR invalid first DB index
		SWAPDB 1 b -> -ERR invalid second DB index
		SWAPDB 77 b -> -ERR invalid second DB index
		SWAPDB 99999999999 1 -> -ERR invalid first DB index
		SWAPDB 0 16 -> -ERR DB index is out of range
		SWAPDB -1 0 -> -ERR DB index is out of range
		SWAPDB 1 -> -ERR wrong number of arguments for 'swapdb' command
	`)
}

// TestEncodingOfLongNames: OBJECT ENCODING is the same for a key with a long name, although the
// store keeps it differently.
func TestEncodingOfLongNames(t *testing.T) {
	table(t, strings.ReplaceAll(`
		SET LONG short -> +OK
		OBJECT ENCODING LONG -> "embstr"
		SET LONG 12 -> +OK
		OBJECT ENCODING LONG -> "int"
		APPEND LONG 3 -> 3
		OBJECT ENCODING LONG -> "raw"
		RENAME LONG k -> +OK
		OBJECT ENCODING k -> "raw"
		RENAME k LONG -> +OK
		OBJECT ENCODING LONG -> "raw"
		SET LONG 7 -> +OK
		RENAME LONG k -> +OK
		OBJECT ENCODING k -> "int"
	`, "LONG", strings.Repeat("n", 5000)))
}
