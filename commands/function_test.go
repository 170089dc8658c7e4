package commands

import (
	"strconv"
	"strings"
	"testing"

	"keyp/storage"
	"keyp/ttl"
)

func TestFunctions(t *testing.T) {
	table(t, `
		FUNCTION LIST -> []
		FUNCTION LOAD "#!lua name=lib\nlocal n = 0\nredis.register_function('count', function(keys, args) n = n + 1 return {n, keys[1], args[1]} end)\nredis.register_function{function_name='get', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}, description='reads'}" -> "lib"
		FCALL count 1 k a -> [1, "k", "a"]
		FCALL count 1 k a -> [2, "k", "a"]
		FCALL_RO count 0 -> -ERR Can not execute a script with write flag using *_ro command.
		SET k v -> +OK
		FCALL_RO get 1 k -> "v"
		FCALL nosuch 0 -> -ERR Function not found
		FCALL count x -> -ERR Bad number of keys provided
		FCALL count 3 a -> -ERR Number of keys can't be greater than number of args
		FCALL count -1 -> -ERR Number of keys can't be negative
		FUNCTION LIST -> [["library_name", "lib", "engine", "LUA", "functions", [["name", "count", "description", nil, "flags", []], ["name", "get", "description", "reads", "flags", [+no-writes]]]]]
		FUNCTION LIST LIBRARYNAME L* WITHCODE -> [["library_name", "lib", "engine", "LUA", "functions", [["name", "count", "description", nil, "flags", []], ["name", "get", "description", "reads", "flags", [+no-writes]]], "library_code", "#!lua name=lib\nlocal n = 0\nredis.register_function('count', function(keys, args) n = n + 1 return {n, keys[1], args[1]} end)\nredis.register_function{function_name='get', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}, description='reads'}"]]
		FUNCTION LIST LIBRARYNAME x* -> []
		FUNCTION LIST LIBRARYNAME -> -ERR library name argument was not given
		FUNCTION LIST foo -> -ERR Unknown argument foo
		FUNCTION STATS -> ["running_script", nil, "engines", ["LUA", ["libraries_count", 1, "functions_count", 2]]]
		FUNCTION KILL -> -NOTBUSY No scripts in execution right now.

		# what does not load
		FUNCTION LOAD "#!lua name=lib\nx" -> -ERR Library 'lib' already exists
		FUNCTION LOAD REPLACE "#!lua name=lib\nx\n" -> -ERR Error compiling function: user_function:3: '=' expected near '<eof>'
		FUNCTION LOAD x -> -ERR Missing library metadata
		FUNCTION LOAD "#!lua" -> -ERR Invalid library metadata
		FUNCTION LOAD "#!lua\n" -> -ERR Library name was not given
		FUNCTION LOAD "#!lua name=a-b\n" -> -ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long
		FUNCTION LOAD "#!py name=ab\n" -> -ERR Engine 'py' not found
		FUNCTION LOAD "#!lua name=ab x=1\n" -> -ERR Invalid metadata value given: x=1
		FUNCTION LOAD "#!lua name=ab name=c\n" -> -ERR Invalid metadata value, name argument was given multiple times
		FUNCTION LOAD "#!lua name='ab" -> -ERR Invalid library metadata
		FUNCTION LOAD "#!lua name='ab\n" -> -ERR Invalid library metadata
		FUNCTION LOAD "#!'lua' name=\"a\\x62\"\nreturn 1" -> -ERR No functions registered
		FUNCTION LOAD "#!lua name=\"quo\\x74ed\"\nredis.register_function('quoted', function() return 1 end)" -> "quoted"
		FCALL quoted 0 -> 1
		FUNCTION DELETE quoted -> +OK
		EVAL "#!lua flags='no-writes'\nreturn redis.pcall('SET', 'k', 'v')" 0 -> -ERR Write commands are not allowed from read-only scripts.
		EVAL "#!lua 'flags=no-writes\nreturn 1" 0 -> -ERR Invalid engine in script shebang
		FUNCTION LOAD "#!lua name=ab\nreturn 1" -> -ERR No functions registered
		FUNCTION LOAD "#!lua name=ab\nredis.register_function('get', function() end)" -> -ERR Function get already exists
		FUNCTION LOAD "#!lua name=ab\nerror({err='MY own'})" -> -ERR Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'error'
		FUNCTION LOAD foo "#!lua name=ab\n" -> -ERR Unknown option given: foo

		# they are there after a restart, without what their variables held
		reopen
		FCALL count 0 -> [1]
		FCALL_RO get 1 k -> "v"
		DBSIZE -> 1
		FLUSHALL -> +OK
		FCALL count 0 -> [2]
		FUNCTION LOAD REPLACE "#!lua name=lib\nredis.register_function('other', function() return 'new' end)" -> "lib"
		FCALL other 0 -> "new"
		FCALL count 0 -> -ERR Function not found
		FUNCTION LOAD "#!lua name=second\nredis.register_function('f', function() return redis.call('NOSUCH') end)" -> "second"
		FCALL f 0 -> -ERR Unknown Redis command called from script script: f, on @user_function:2.
		reopen
		FCALL other 0 -> "new"
		FUNCTION DELETE nosuch -> -ERR Library not found
		FUNCTION DELETE lib -> +OK
		FCALL other 0 -> -ERR Function not found
		reopen
		FCALL other 0 -> -ERR Function not found
		FUNCTION LIST LIBRARYNAME second -> [["library_name", "second", "engine", "LUA", "functions", [["name", "f", "description", nil, "flags", []]]]]
		FUNCTION FLUSH x -> -ERR FUNCTION FLUSH only supports SYNC|ASYNC option
		FUNCTION FLUSH sync x -> -ERR unknown subcommand or wrong number of arguments for 'FLUSH'. Try FUNCTION HELP.
		FUNCTION FLUSH SYNC -> +OK
		FUNCTION LIST -> []
		reopen
		FUNCTION LIST -> []

		# as part of EXEC
		MULTI -> +OK
		FUNCTION LOAD "#!lua name=lib\nredis.register_function('f', function(keys) return redis.call('INCR', keys[1]) end)" -> +QUEUED
		FCALL f 1 n -> +QUEUED
		FCALL f 1 n -> +QUEUED
		EXEC -> ["lib", 1, 2]
		reopen
		FCALL f 1 n -> 3
	`)
}

// TestFunctionDump moves libraries to another server and back.
func TestFunctionDump(t *testing.T) {
	h := newHarness(t)
	load := func(name, function string) {
		t.Helper()
		source := "#!lua name=" + name + "\nredis.register_function('" + function +
			"', function() return '" + name + "' end)"
		if got := h.do("FUNCTION", "LOAD", source); got != strconv.Quote(name) {
			t.Fatalf("%s: %s", name, got)
		}
	}
	load("a", "fa")
	load("b", "fb")
	dump, err := strconv.Unquote(h.do("FUNCTION", "DUMP"))
	if err != nil {
		t.Fatal(err)
	}
	h.do("FUNCTION", "DELETE", "b")
	for _, step := range []struct{ args, want string }{
		{"", "-ERR Library a already exists"}, {"APPEND", "-ERR Library a already exists"},
		{"REPLACE", "+OK"}, {"FLUSH", "+OK"},
		{"x", "-ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."},
	} {
		args := append([]string{"FUNCTION", "RESTORE", dump}, strings.Fields(step.args)...)
		if got := h.do(args...); got != step.want {
			t.Errorf("RESTORE %s: %s, want %s", step.args, got, step.want)
		}
	}
	h.reopen()
	if got := h.do("FCALL", "fb", "0"); got != `"b"` {
		t.Errorf("restored: %s", got)
	}
	h.do("FUNCTION", "FLUSH")
	load("c", "fa")
	if got := h.do("FUNCTION", "RESTORE", dump); got != "-ERR Function fa already exists" {
		t.Errorf("with a function of the same name: %s", got)
	}
	if got := h.do("FUNCTION", "RESTORE",
		"x"); got != "-ERR DUMP payload version or checksum are wrong" {
		t.Errorf("no payload: %s", got)
	}
}

// TestLibraryThatFailsAtStart: a stored library that does not load when the server starts is
// skipped and reported. It stays in the store, and all other libraries load.
func TestLibraryThatFailsAtStart(t *testing.T) {
	h := newHarness(t)
	load := func(name string) {
		t.Helper()
		source := "#!lua name=" + name + "\nredis.register_function('f" + name +
			"', function() return '" + name + "' end)"
		if got := h.do("FUNCTION", "LOAD", source); got != strconv.Quote(name) {
			t.Fatalf("%s: %s", name, got)
		}
	}
	load("a")
	load("b")
	load("z")
	for _, broken := range []string{"while true do end",
		"local t = {} for i = 1, 1e9 do t[i] = {} end", "x x", "error('boom')", "return 1"} {
		replaceKept(t, h, "b", "#!lua name=b\n"+broken)
		h.reopen()
		if got := h.do("FCALL", "fa", "0") + h.do("FCALL", "fz", "0"); got != `"a""z"` {
			t.Errorf("%s: the others give %s", broken, got)
		}
		if got := h.do("FCALL", "fb", "0"); got != "-ERR Function not found" {
			t.Errorf("%s: %s", broken, got)
		}
	}
	replaceKept(t, h, "b",
		"#!lua name=b\nredis.register_function('fb', function() return 'again' end)")
	h.reopen()
	if got := h.do("FCALL", "fb", "0"); got != `"again"` {
		t.Errorf("what was kept all the time gives %s", got)
	}
}

// replaceKept changes the source of a library in the store.
func replaceKept(t *testing.T, h *harness, name, source string) {
	t.Helper()
	store := h.store
	k := store.SystemKey(libraryKey + name)
	txn := store.NewTxn()
	store.BeginAll(txn)
	if err := txn.Load(k); err != nil {
		t.Fatal(err)
	}
	if _, ok := txn.Get(k); !ok {
		t.Errorf("library %s is not kept any more", name)
	}
	txn.SetString(k, []byte(source), ttl.Deadline{}, storage.Event{})
	txn.End()
}
