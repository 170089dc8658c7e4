package main

// mutations are those that reviews found no test for, or only tests of hours.
var mutations = []mutation{
	// The watches of an aborted EXEC stay.
	{file: "commands/multi.go", test: "TestAbortedExecEndsWatch",
		old: "\tif q.failed {\n\t\tc.Env.Changes.unwatch(c.Client)\n",
		new: "\tif q.failed {\n"},
	{file: "commands/multi.go", test: "TestAbortedExecEndsWatch",
		old: "\t\te.discard(c.Client)\n\t\terr = Error(",
		new: "\t\tc.Client.queue = nil\n\t\terr = Error("},

	// A client that waits for a key which a global job holds is not looked at again.
	{file: "commands/waiters.go", in: "server", test: "TestBlockedBehindAJob",
		old: "\t\t\tws.blocked = append(ws.blocked, a)\n",
		new: ""},
	{file: "commands/waiters.go", in: "server", test: "TestBlockedBehindAJob",
		old: "range ws.blocked {\n\t\tws.makeReady(a)\n",
		new: "range ws.blocked {\n\t\t_ = a\n"},

	// The time of the soft output limit goes on below it.
	{file: "server/cron.go", test: "TestSoftLimit",
		old: "s.softSince = 0\n",
		new: "\n"},

	// What is pushed while a command runs beside the loop is kept without bound.
	{file: "server/output.go", test: "TestKeptPushesAreBounded",
		old: "\tif l.pushedTooMuch(s) {\n\t\tl.cutOutput(s)\n\t} else",
		new: "\tif false {\n\t\tl.cutOutput(s)\n\t} else"},
	{file: "server/output.go", test: "TestKeptPushesAreBounded",
		old: "return s.out.pending() + l.keptBytes(s)",
		new: "return s.out.pending()"},

	// A configuration that is too large is cut.
	{file: "internal/config/load.go", test: "TestSizeOfFile",
		old: "return readBounded(\"standard input\", stdin)",
		new: "return io.ReadAll(io.LimitReader(stdin, maxFile))"},
	{file: "internal/config/load.go", test: "TestSizeOfFile",
		old: "io.LimitReader(r, maxFile+1)",
		new: "io.LimitReader(r, maxFile)"},

	// Scripts may change what all strings have.
	{file: "scripting/strings.go", test: "TestNothingCanBeWritten",
		old: "meta.SetReadonly(true)",
		new: ""},

	// What a start has read of the log is not synced.
	{file: "storage/wal/recover.go", test: "TestOpenSyncs",
		old: "errors.Join(file.Sync(), file.Reread())",
		new: "file.Reread()"},

	// What changes of a value while it is copied passes for copied.
	{file: "storage/copy.go", test: "TestChangeBetweenPortions",
		old: "changed = o.side != nil && o.side.any()",
		new: "changed = false"},

	// What a failed checkpoint was to delete stays on disk.
	{file: "storage/checkpoint.go", test: "TestGarbageOutlivesFailedCheckpoint",
		old: "\t\tcp.s.garbage.add(m.garbage...)\n",
		new: ""},
	{file: "storage/checkpoint.go", test: "TestLatestGarbageOutlivesFailedCheckpoint",
		old: "\t\ts.garbage.add(latest...)\n",
		new: ""},

	// That a key is gone is said before its removal is durable.
	{file: "storage/txn.go", test: "TestMissWaitsForRemoval",
		old: "\t\tsl.lastDelete = lsn\n",
		new: "\t\t_ = sl\n"},
	{file: "storage/txn.go", test: "TestMissWaitsForRemoval",
		old: "t.seen = max(t.seen, sl.lastDelete, sh.mu.flushLSN)",
		new: "t.seen = max(t.seen, sh.mu.flushLSN)"},
}
