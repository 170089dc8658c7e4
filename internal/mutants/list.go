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

	// Steps of the clock forward. Steps are followed whatever the limit.
	{file: "storage/guard.go", test: "TestClockGuard",
		old: "stepped := limit > 0 && ahead > limit",
		new: "stepped := limit > 0 && ahead > limit && limit == 0"},
	// The guard begins at the limit.
	{file: "storage/guard.go", test: "TestClockGuard",
		old: "stepped := limit > 0 && ahead > limit",
		new: "stepped := limit > 0 && ahead >= limit"},
	// Guarded time does not go on.
	{file: "storage/guard.go", test: "TestClockGuard",
		old: "\tg.ahead.Store(wall - boot - g.mu.lead)\n\treturn boot + g.mu.lead\n",
		new: "\tg.ahead.Store(wall - boot - g.mu.lead)\n\treturn g.s.instant.Load()\n"},
	// Time goes on by the process's clock, which stands still while the machine sleeps.
	{file: "storage/guard.go", test: "TestClockGuard",
		old: "\t\tif boot = g.s.clock.Boot(); boot",
		new: "\t\tif boot = g.s.clock.Mono().Milliseconds(); boot"},
	// The wall clock is never compared.
	{file: "storage/guard.go", test: "TestClockGuard",
		old: "\tif wall := s.clock.Now(); wall < s.guard.ask.Load() {",
		new: "\tif wall := s.clock.Now(); true {"},
	// After a step back the next one forward is measured from before it.
	{file: "storage/guard.go", test: "TestClockGuardFollowsSmallSteps",
		old: "\tif g.since.Load() == 0 {\n\t\tg.follow(g.read())\n\t}\n}\n\n// SetClockGuard",
		new: "}\n\n// SetClockGuard"},
	// Deadlines do not move.
	{file: "storage/guardnotes.go", test: "TestClockConfirm",
		old: "t.changeDeadline(p, sl, c, k, to, ",
		new: "t.changeDeadline(p, sl, c, k, deadline, "},
	// Those of elements do not.
	{file: "storage/guardnotes.go", test: "TestClockConfirm",
		old: "return h.SetDeadline(elem, to)",
		new: "return h.SetDeadline(elem, deadline)"},
	// Deadlines that were replaced move.
	{file: "storage/guardnotes.go", test: "TestClockConfirm",
		old: "|| p.deadline(*c) != deadline {",
		new: "|| p.deadline(*c) == 0 {"},
	// Those of keys that were renamed or copied do not move.
	{file: "storage/guardnotes.go", test: "TestClockConfirm",
		old: "\tif d := item.Deadline(); d != 0 && t.isNoted(",
		new: "\tif d := item.Deadline(); false && t.isNoted("},
	// Those of their elements do not.
	{file: "storage/guardnotes.go", test: "TestClockConfirm",
		old: "\tif !object.HasDeadlines(item.Type()) {\n\t\treturn\n\t}\n\titem.Value().Walk",
		new: "\tif true || !object.HasDeadlines(item.Type()) {\n\t\treturn\n\t}\n\titem.Value().Walk"},
	// Notes stay.
	{file: "storage/guardnotes.go", test: "TestClockConfirm",
		old: "\t\t\tt.Delete(k, Event{})\n",
		new: "\t\t\t_ = k\n"},
	// Patience has no end.
	{file: "storage/guard.go", test: "TestClockConfirm",
		old: "now-since < g.patience.Load()",
		new: "now >= since"},
	// Deadlines that are not to move do.
	{file: "storage/guard.go", test: "TestClockGoesBack",
		old: "if guarded && !back && leads && !returns {",
		new: "if guarded && leads && !returns {"},
	// Time moves in one batch, and deadlines in another.
	{file: "storage/guard.go", test: "TestClockConfirmInterrupted",
		old: "\t\tt.dropNotes()\n\t}\n\t//",
		new: "\t\tt.End()\n\t\t_ = s.log.Commit()\n\t\ts.BeginAll(t)\n\t\tt.dropNotes()\n\t}\n\t//"},
	// A start does not know the time from before.
	{file: "storage/guard.go", test: "TestClockGuardAtStart",
		old: "\t\tg.mu.lead = found.lead\n",
		new: "\t\tg.mu.lead = wall - boot\n"},
	// It takes a restart of the machine for one of the server.
	{file: "storage/guard.go", test: "TestClockGuardAtStart",
		old: "same := found.boot != 0 && found.boot == g.s.clock.BootID()",
		new: "same := found.boot != 0"},
	// A guard ends with a restart of the machine.
	{file: "storage/guard.go", test: "TestClockGuardAtStart",
		old: "\tcase found.since != 0:\n\t\tg.mu.lead = max(found.at, g.s.instant.Load()) - boot\n",
		new: ""},
	// Notes of a guard that the record does not know are kept.
	{file: "storage/guard.go", test: "TestClockGuardNotesOfNoGuard",
		old: "if g.s.options.ReadOnly || g.since.Load() != 0 || g.s.Follower() {",
		new: "if true {"},
	// There is no bound.
	{file: "storage/guardnotes.go", test: "TestClockGuardBound",
		old: "h.Value().Len() < t.s.bounds.notes/len(t.s.shards)",
		new: "true"},
	// Notes of deadlines that are over stay.
	{file: "storage/guardnotes.go", test: "TestClockGuardNotesGo",
		old: "h.Set(n.at, nil, n.deadline)",
		new: "h.Set(n.at, nil, n.deadline+1<<40)"},
	// Outboxes: the removal without its entry, or with one for others.
	{file: "storage/txn.go", test: "TestOutboxReports",
		old: "\t\tt.reportKey(k, p.item(*c))\n",
		new: ""},
	{file: "storage/reap.go", test: "TestOutboxReports",
		old: "\t\t\tw.turn.t.reportEntry(r, k, outEntry{deadline: deadline, typ: typ}, Item{})\n",
		new: ""},
	{file: "storage/collection.go", test: "TestOutboxReports",
		old: "\t\tif rules != nil {",
		new: "\t\tif rules != nil && n < 0 {"},
	// What was due before is not waited for.
	{file: "storage/outboxmove.go", test: "TestOutboxHolds",
		old: "if entry == nil || entryDeadline(entry) > how.last {",
		new: "if entry == nil {"},
	{file: "storage/outbox.go", test: "TestOutboxOrder",
		old: "\tif n == 0 || before(n-1) {",
		new: "\tif n >= 0 {"},
	// Elements that were due before their key are not reported.
	{file: "storage/outbox.go", test: "TestOutboxElementsBefore",
		old: "\t\tt.reportElements(k, item, item.Deadline()-1)\n",
		new: ""},
	// What waits at a start is not seen.
	{file: "storage/outbox.go", test: "TestOutboxStream",
		old: "] = true\n\t\t\tt.countQueue(r, &r.queues[i])\n",
		new: "] = true\n"},
	// Entries that somebody has not acknowledged are trimmed.
	{file: "storage/object/streamgroups.go", in: "storage", test: "TestOutboxTrim",
		old: "if id, pending := g.FirstPending(); pending && id.Compare(first) < 0 {",
		new: "if id, pending := g.FirstPending(); pending && id.Compare(first) > 0 {"},
	// A stream changes while a job reads it.
	{file: "storage/outboxmove.go", test: "TestOutboxPinned",
		old: "if o := st.object(); o != nil && o.pinned() {",
		new: "if o := st.object(); o == nil && o.pinned() {"},
	// Anybody may have the values of keys reported.
	{file: "commands/keyp_outbox.go", test: "TestOutboxRights",
		old: "if !user.takesOutbox(c.Spec, c.Args, r.Pattern, r.Stream) {",
		new: "if r == nil {"},
	// Policies decide about deadlines that move.
	{file: "storage/guardnotes.go", in: "commands", test: "TestClockConfirmOfPolicies",
		old: "t.NoTouch, t.Exempt = true, true",
		new: "t.NoTouch = true"},
	// What policies give does not move.
	{file: "storage/policy.go", in: "commands", test: "TestClockConfirmOfPolicies",
		old: "t.decide(v.Deadline, v.Defaulted || v.Cut, deadline)",
		new: ""},
	{file: "storage/policy.go", in: "commands", test: "TestClockConfirmOfPolicies",
		old: "t.decide(to, true, was)",
		new: ""},
	// A command that read the time before the step was confirmed stores by it.
	{file: "storage/snapshot.go", test: "TestClockConfirmBesideJob",
		old: "if guarded != a.guarded || ",
		new: "if guarded < 0 || "},
	// Values are changed while they are read.
	{file: "storage/guardnotes.go", test: "TestClockConfirmBesideReaders",
		old: "if h.o.pinned() {",
		new: "if false {"},

	// A default deadline is another one.
	{file: "ttl/policy.go", test: "TestPolicyDecide",
		old: "after(now, p.Default), true, true",
		new: "after(now, p.Default+1), true, true"},

	// A key without a deadline is not refused, or also where nobody asks for that.
	{file: "ttl/policy.go", in: "commands", test: "TestPoliciesOnEveryCommand",
		old: "case p.Require && fresh:",
		new: "case false:"},
	{file: "ttl/policy.go", test: "TestPolicyDecide",
		old: "case p.Require && fresh:",
		new: "case p.Require:"},

	// A deadline that a key had is refused.
	{file: "ttl/policy.go", test: "TestPolicyDecide",
		old: "if p.Refuse && fresh {",
		new: "if p.Refuse {"},

	// A deadline that stays is shortened.
	{file: "ttl/policy.go", test: "TestPolicyDecide",
		old: "fresh && less > 0",
		new: "less > 0"},

	// Deadlines are shortened by too much.
	{file: "ttl/policy.go", test: "TestPolicyDecide",
		old: "left / 100 * uint64(p.Jitter)",
		new: "left / 10 * uint64(p.Jitter)"},

	// Every read moves a deadline.
	{file: "ttl/policy.go", in: "commands", test: "TestSliding",
		old: "to-deadline < max(p.Slide/10, 1)",
		new: "to-deadline < 1"},

	// A deadline slides beyond its limit.
	{file: "ttl/policy.go", in: "commands", test: "TestSliding",
		old: "to = min(to, after(written, p.Limit))",
		new: "_ = written"},

	// A renamed key is under no policy.
	{file: "storage/policy.go", in: "commands", test: "TestPolicyEffects",
		old: "d := t.govern(to, deadline, deadline != ttl.None)",
		new: "d := deadline"},

	// A read fails on a full disk, or writes there.
	{file: "storage/policy.go", test: "TestSlideOnFullDisk",
		old: " || t.s.Full()",
		new: ""},

	// A policy decides on what is restored.
	{file: "storage/policy.go", in: "commands", test: "TestRestoreIsExempt",
		old: "ps == nil || t.Exempt ||",
		new: "ps == nil ||"},

	// What a page leaves out as it is due may return.
	{file: "storage/expiring.go", test: "TestExpiringLeavesOutDue",
		old: "\tif l.hidden {\n",
		new: "\tif false {\n"},

	// A key that comes into memory beside a page is missing in it.
	{file: "storage/expiring.go", test: "TestExpiringBesideChanges",
		old: "d.mu.arrived[l] = append(list, expiringOnDisk{place: placeOnDisk(deadline, on), on: on})",
		new: "_, _ = l, list"},

	// The deadline of an element passes for that of its key.
	{file: "storage/expiring.go", test: "TestExpiring",
		old: "if !elements || !p.byElement(e) {",
		new: "if true {"},

	// Behind a slot with very many keys of one deadline others are left out.
	{file: "storage/expiring.go", test: "TestExpiringOneSlot",
		old: "return behindSlot(at.Deadline, at.Slot), looks",
		new: "return DuePlace{Deadline: at.Deadline + 1}, looks"},
	// A lease is granted past those that wait.
	{file: "commands/keyp_lease.go", test: "TestLeaseModel",
		old: "case !there && c.Env.lines.mayTake(k, object.None, c.Client):",
		new: "case !there:"},
	// The same owner has another answer than its lease.
	{file: "commands/keyp_lease.go", test: "TestLease",
		old: "case there && l.Held && bytes.Equal(l.Owner, r.owner):",
		new: "case there && l.Held && bytes.Equal(l.Owner, r.owner) && r.wait > 0:"},
	// Anybody has the lease of another owner.
	{file: "commands/keyp_lease.go", test: "TestLease",
		old: "case there && l.Held && bytes.Equal(l.Owner, r.owner):",
		new: "case there && l.Held && bytes.Equal(l.Owner[:0], r.owner[:0]):"},
	// An owner that asks again has its own time cut.
	{file: "commands/keyp_lease.go", test: "TestLease",
		old: "if l.Deadline != ttl.None && r.deadline > l.Deadline {",
		new: "if l.Deadline != ttl.None {"},
	// A lease without a deadline gets one.
	{file: "commands/keyp_lease.go", test: "TestLeaseKeys",
		old: "if l.Deadline != ttl.None && r.deadline > l.Deadline {",
		new: "if r.deadline > l.Deadline {"},
	// An expired lease is held for its delay.
	{file: "commands/keyp_lease.go", test: "TestLeaseDelay",
		old: "return l, there && l.Held && l.Token == uint64(token), err",
		new: "return l, there && l.Token == uint64(token), err"},
	// Any token will do.
	{file: "commands/keyp_lease.go", test: "TestLease",
		old: "return l, there && l.Held && l.Token == uint64(token), err",
		new: "return l, there && l.Held && token > 0, err"},
	// A failed CHECK does not end EXEC.
	{file: "commands/keyp_lease.go", test: "TestLeaseEnds",
		old: "Arity: 4, Flags: ReadOnly | Fast | guards,",
		new: "Arity: 4, Flags: ReadOnly | Fast,"},
	// Only a token that is not the lease's ends it.
	{file: "commands/multi.go", test: "TestLeaseEnds",
		old: "ended = ended || spec.Is(guards) && c.failedAt(mark)",
		new: "ended = ended || spec.Is(guards) && c.failedAt(mark) && c.Out.Buf[mark+1] == 'L'"},
	// EXEC goes on behind it.
	{file: "commands/multi.go", test: "TestLeaseEnds",
		old: "\t\tif ended {\n\t\t\terr = errBehindNotHeld\n\t\t}\n",
		new: ""},
	// A command that succeeds behind it begins again.
	{file: "commands/multi.go", test: "TestLeaseEnds",
		old: "ended = ended || spec.Is(guards) && c.failedAt(mark)",
		new: "ended = spec.Is(guards) && c.failedAt(mark)"},
	// RELEASE without a lease says that there was one.
	{file: "commands/keyp_lease.go", test: "TestLeaseDelay",
		old: "\tc.bit(held)\n",
		new: "\tc.bit(held || token > 0)\n"},
	// An owner that waits twice has one answer.
	{file: "commands/waiters.go", in: "server", test: "TestLeaseSameOwner",
		old: "if first = a.waitsAs(owner); first == nil {",
		new: "if first = nil; first == nil || owner == \"\" {"},
	// Who waits for a lease waits for the reaper, too.
	{file: "commands/keyp_lease.go", in: "server", test: "TestLeaseAtDeadlineWithoutReaper",
		old: "c.Wait.Again = max(free-now, 1)",
		new: "c.Wait.Again = min(free-now, 0)"},
	// Who comes to be the first does not learn of the deadline.
	{file: "commands/waiters.go", in: "server", test: "TestLeaseAtDeadlineWithoutReaper",
		old: "\t\t\t\tfirst = a.lines[object.None].first\n",
		new: ""},
	// A pass serves all that wait for leases.
	{file: "commands/waiters.go", test: "TestLeaseWaitersInPasses",
		old: "if a.lines[object.None].n > 0 && host.Enough() {",
		new: "if false {"},
	// Those that are left are forgotten.
	{file: "commands/waiters.go", test: "TestLeaseWaitersInPasses",
		old: "\t\t\tws.later = append(ws.later, a)\n",
		new: ""},
	// When one of an owner leaves, its others are not found any more.
	{file: "commands/waiters.go", test: "TestLeaseModel",
		old: "\t\town.first = p.nextOwn\n",
		new: "\t\town.first = nil\n"},
	// Who has left counts as one that waits.
	{file: "commands/waiters.go", in: "server", test: "TestLeaseInOrder",
		old: "\t\tl.n--\n",
		new: ""},
	// Who waits is not counted with its name.
	{file: "commands/waiters.go", test: "TestLeaseWaiterMemory",
		old: "\tc.waits += len(w.who)\n",
		new: ""},
	// When the first one leaves the next one is not looked at.
	{file: "commands/waiters.go", in: "server", test: "TestLeaseFirstLeaves",
		old: "\t\t\t\tws.makeReady(p.at)\n\t\t\t\tmore = true\n",
		new: "\t\t\t\tmore = true\n"},
	// Tokens begin again at a start.
	{file: "storage/lease.go", in: "commands", test: "TestLeaseTokensAhead",
		old: "\tl.last.Store(max(l.last.Load(), n))\n",
		new: "\t_ = n\n"},
	// The clock does not count.
	{file: "storage/lease.go", in: "commands", test: "TestLeaseTokensGrow",
		old: "maxTokenFromOutside/1000)) * 1000))",
		new: "maxTokenFromOutside/1000))))"},
	// A grant has a token beyond the reservation.
	{file: "storage/lease.go", in: "commands", test: "TestLeaseTokensAhead",
		old: "upTo := token + tokensAhead - 1",
		new: "upTo := token - 1"},
	// A job is delivered past those that wait.
	{file: "commands/keyp_delay.go", test: "TestDelayModel",
		old: "if q.Exists() && c.Env.lines.mayTake(c.Keys[0], object.TypeDelay, c.Client) {",
		new: "if q.Exists() {"},
	// A job is delivered a millisecond late.
	{file: "commands/keyp_delay.go", test: "TestDelay",
		old: "\t\tcase j.Due > c.Txn.Now():",
		new: "\t\tcase j.Due >= c.Txn.Now():"},
	// A receipt is valid for any delivery of its job.
	{file: "commands/keyp_delay.go", test: "TestDelayModel",
		old: "\treturn j, ok && j.Receipt == n\n",
		new: "\treturn j, ok && j.Receipt >= n\n"},
	// A job that nobody has is acknowledged.
	{file: "commands/keyp_delay.go", test: "TestDelayArguments",
		old: "if !ok || !valid || n == 0 {",
		new: "if !ok || !valid {"},
	// A job stays in the queue without acknowledgement.
	{file: "commands/keyp_delay.go", test: "TestDelay",
		old: "\t\t\tc.Out.Null()\n\t\t\tq.Remove(id)\n",
		new: "\t\t\tc.Out.Null()\n"},
	// A job is delivered once more than it may be.
	{file: "commands/keyp_delay.go", test: "TestDelayDeadLetters",
		old: "d.most > 0 && j.Deliveries >= uint64(d.most)",
		new: "d.most > 0 && j.Deliveries > uint64(d.most)"},
	// A dead job stays in the queue, too.
	{file: "commands/keyp_delay.go", test: "TestDelayDeadLetters",
		old: "\tq.Remove(j.ID)\n\tc.Txn.Notify(c.Keys[0], eventDelayDead)",
		new: "\tc.Txn.Notify(c.Keys[0], eventDelayDead)"},
	// NACK gives a dead job back.
	{file: "commands/keyp_delay.go", test: "TestDelayDeadLetters",
		old: "if ok && !(dead.takes(j) && c.bury(&dead, &q, j)) {",
		new: "if ok {"},
	// The dead letters are no key of the command.
	{file: "commands/keyp_delay.go", test: "TestDelayRights",
		old: "\t\t\tcase !isWord(args[i], \"NOACK\"):\n\t\t\t\ti++\n",
		new: "\t\t\tdefault:\n\t\t\t\ti++\n"},
	// A call has any number of jobs go to the dead letters.
	{file: "commands/keyp_delay.go", test: "TestDelayManyDead",
		old: "return len(ids) < int(p.count) && len(dead) < maxDeadJobs",
		new: "return len(ids) < int(p.count)"},
	// Jobs that are added are governed by policies.
	{file: "storage/collection.go", in: "commands", test: "TestDelayPolicies",
		old: "\tif !v.Type().OwnDeadline() {\n\t\tt.creating(k)\n\t}\n",
		new: "\tt.creating(k)\n"},
	// And queues that change.
	{file: "storage/policy.go", in: "commands", test: "TestDelayPolicies",
		old: "if !exists(c) || p.item(*c).Type().OwnDeadline() {",
		new: "if !exists(c) {"},
	// Who waits does not look when the first job is due.
	{file: "commands/keyp_delay.go", test: "TestDelayModel",
		old: "\t\tc.Wait.Again = max(1, min(first.Due-c.Txn.Now(), jobsLook))\n",
		new: "\t\t_ = first\n"},
	// A timer runs for as long as the first job is away.
	{file: "commands/keyp_delay.go", test: "TestDelayLooks",
		old: "max(1, min(first.Due-c.Txn.Now(), jobsLook))",
		new: "max(1, first.Due-c.Txn.Now())"},
	// When the first one that waits for a job leaves the next one does not look.
	{file: "commands/waiters.go", in: "server", test: "TestDelayFirstLeaves",
		old: "(w.typ == object.None || w.typ == object.TypeDelay)",
		new: "w.typ == object.None"},
	// A place that is excluded is listed again.
	{file: "commands/keyp_delay.go", test: "TestDelayRange",
		old: "\tif behind != excluded { // the place that follows",
		new: "\tif behind { // the place that follows"},
	// Jobs that are due at once come in any order.
	{file: "storage/object/delay.go", in: "storage/object", test: "TestDelayQueue",
		old: "return due < at.Due || due == at.Due && placeOf(d.entry(pos).val).Number < at.Number",
		new: "return due < at.Due"},
	// A job that has moved is found where it was.
	{file: "storage/object/dict.go", in: "storage/object", test: "TestDelayQueue",
		old: "return placeOf(old) != placeOf(val)",
		new: "return false"},
	// Numbers begin again when a queue is loaded.
	{file: "storage/object/delay.go", in: "storage/object", test: "TestDelayElements",
		old: "\tq.next = max(q.next, j.Number+1)\n",
		new: "\tq.next++\n"},
	// A job that is delivered again counts twice.
	{file: "storage/object/delay.go", in: "storage/object", test: "TestDelayQueue",
		old: "\tif old, ok := q.Job(elem); ok && old.Receipt != 0 {\n\t\tq.delivered--\n\t}\n",
		new: ""},
	// Behind entries that a full leaf has given to the one before it, positions are wrong.
	{file: "storage/object/tree.go", in: "storage/object", test: "TestTreeModel",
		old: "s.nd, s.i = left, had+n+s.i",
		new: "s.nd, s.i = left, had+s.i"},
	// A full leaf gives entries to the one behind it, and the new one comes to the wrong leaf.
	{file: "storage/object/tree.go", in: "storage/object", test: "TestTreeModel",
		old: "\t\t\tif s.i > at {\n",
		new: "\t\t\tif s.i > nodeCap {\n"},
	// Leaves share nothing: in any order of insertion a third of them is empty.
	{file: "storage/object/tree.go", in: "storage/object", test: "TestTreeFillAnyOrder",
		old: "if s.nd.n < nodeCap || s.i == 0",
		new: "if s.nd.n <= nodeCap || s.i == 0"},
	// A leaf whose keys differ in their upper halves forgets them.
	{file: "storage/object/tree.go", in: "storage/object", test: "TestTreeModel",
		old: "\t\tif nd.n <= 1 {\n\t\t\tnd.same = upper",
		new: "\t\tif nd.n <= 2 {\n\t\t\tnd.same = upper"},
	// Entries with other upper halves of their keys come to a leaf that has one.
	{file: "storage/object/tree.go", in: "storage/object", test: "TestTreeModel",
		old: "case nd.upper == nil && (from.upper != nil || from.same != nd.same):",
		new: "case nd.upper == nil && from.upper != nil:"},
	// A leaf that was wide once stays so.
	{file: "storage/object/tree.go", in: "storage/object", test: "TestTreeModel",
		old: "if nd.upper != nil && (nd.n == 0 || nd.upper[0] == nd.upper[nd.n-1]) {",
		new: "if nd.upper != nil && nd.n == 0 {"},
	// An insertion counts at the leaf alone.
	{file: "storage/object/tree.go", in: "storage/object", test: "TestTreeModel",
		old: "t.refresh(s.nd, s.i, s.nd.kids.count[s.i]+1)",
		new: "t.refresh(s.nd, s.i, s.nd.kids.count[s.i])"},
	// A removal moves cells up that belong before the hole.
	{file: "storage/object/index.go", in: "storage/object", test: "TestIndexModel",
		old: "b.distance(i, home) >= b.distance(i, hole)",
		new: "i-home >= i-hole"},
	// Halves of a bucket have room for as many as the bucket had.
	{file: "storage/object/index.go", in: "storage/object", test: "TestIndexFill",
		old: "\tsize := steps[0]\n",
		new: "\tsize := bucketCells\n"},
	// A bucket that has been split doubles.
	{file: "storage/object/index.go", in: "storage/object", test: "TestIndexFill",
		old: "if x.tight && size >= bucketCells/2 && size < bucketCells {",
		new: "if x.tight && size > bucketCells/2 && size < bucketCells {"},
	// A removed job counts as delivered.
	{file: "storage/object/delay.go", in: "storage/object", test: "TestDelayQueue",
		old: "\t\tif j.Receipt != 0 {\n\t\t\tq.delivered--\n\t\t}\n\t\tq.delete(elem)",
		new: "\t\tq.delete(elem)"},
	// A payload brings receipts.
	{file: "storage/object/delay.go", in: "commands", test: "TestDelayDump",
		old: "if !ok || j.Receipt != 0 || j.Deliveries > maxRestored {",
		new: "if !ok {"},
	// A copy forgets which jobs are delivered.
	{file: "storage/object/delay.go", in: "storage/object", test: "TestDelayQueue",
		old: "\tto.delivered, to.next = q.delivered, q.next\n",
		new: "\tto.next = q.next\n"},
	// An extended job stays where it was.
	{file: "storage/delay.go", in: "commands", test: "TestDelayChanges",
		old: "\tj.Due = due\n\tq.set(&j)",
		new: "\tq.set(&j)"},
	// A rescheduled job is still somebody's.
	{file: "storage/delay.go", in: "commands", test: "TestDelayChanges",
		old: "j.Due, j.Receipt = due, 0",
		new: "j.Due = due"},
	// Deliveries are not counted.
	{file: "storage/delay.go", in: "commands", test: "TestDelayModel",
		old: "j.Due, j.Deliveries, j.Receipt = due, j.Deliveries+1, receipt",
		new: "j.Due, j.Receipt = due, receipt"},
	// A change of a job is not in the log.
	{file: "storage/delay.go", in: "commands", test: "TestDelay",
		old: "\tq.put(o, j.ID, val, 0)\n",
		new: ""},
	// A removal is not in the log.
	{file: "storage/delay.go", in: "commands", test: "TestDelayModel",
		old: "\tq.gone(id)\n\tv.Remove(id)",
		new: "\tv.Remove(id)"},
	// A copy has the token of the other.
	{file: "storage/lease.go", in: "commands", test: "TestLeaseKeys",
		old: "Token: t.nextToken(k), Delay: l.Delay}",
		new: "Token: l.Token, Delay: l.Delay}"},
	// What RESTORE brings does not raise the counter.
	{file: "storage/lease.go", in: "commands", test: "TestLeaseTokensOfPayloads",
		old: "\tt.s.leases.raise(l.Token)\n",
		new: ""},
	// It raises it beyond what scripts can distinguish.
	{file: "storage/lease.go", in: "commands", test: "TestLeaseTokensOfPayloads",
		old: "\ttoken = min(token, maxTokenFromOutside)\n",
		new: ""},
	// The delay is taken from the lease.
	{file: "storage/lease.go", in: "commands", test: "TestLeaseDelay",
		old: "v := &object.Lease{Owner: bytes.Clone(owner), Token: token, Delay: delay}\n\tt.install(k, v, deadline+delay,",
		new: "v := &object.Lease{Owner: bytes.Clone(owner), Token: token, Delay: delay}\n\tt.install(k, v, deadline,"},
	// RENEW forgets the delay.
	{file: "storage/lease.go", in: "commands", test: "TestLeaseDelay",
		old: "\tdeadline += p.objectOf(*c).val.(*object.Lease).Delay\n",
		new: ""},
	// Policies move leases.
	{file: "storage/policy.go", in: "commands", test: "TestLeasePolicies",
		old: "was == ttl.None || item.Type().OwnDeadline() {",
		new: "was == ttl.None {"},
	// And apply to them.
	{file: "storage/policy.go", in: "commands", test: "TestLeasePolicies",
		old: "if !ok || t.policy(k) != p || item.Type().OwnDeadline() {",
		new: "if !ok || t.policy(k) != p {"},
	// A lease that nobody can have been granted is restored.
	{file: "commands/dump.go", test: "TestLeaseForged",
		old: "if err == nil && v.Type == rdb.Lease && !builtLease(v.Lease).Valid() {",
		new: "if err == nil && v.Type == rdb.Lease && v.Lease == nil {"},

	// Faults of limits.
	// A bucket has room for one more.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "\tif amount > r.Count {\n\t\treturn never",
		new: "\tif amount > r.Count+1 {\n\t\treturn never"},
	// Part of a token is rounded away.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "ms+addMS, part+addPart; part >= r.Rate {",
		new: "ms+addMS, part+0*addPart; part >= r.Rate {"},
	// A bucket is said to have room early.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "\tfor part > 0 {\n\t\tms, part = ms+1",
		new: "\tfor part > r.Rate {\n\t\tms, part = ms+1"},
	// What is left counts part of a token.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "\tfor part < 0 {\n",
		new: "\tfor part < -r.Rate {\n"},
	// A bucket fills beyond its burst.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "\tif ms < now {\n\t\treturn now, 0",
		new: "\tif false {\n\t\treturn now, 0"},
	// What leaves a window at this instant counts still.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "live[0].at <= after {",
		new: "live[0].at < after {"},
	// A window has its admission a millisecond less.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "live[0].at > now-r.Span {",
		new: "live[0].at > now-r.Span+5 {"},
	// A second admission of a millisecond replaces the first.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "\t\tcost += live[n].amount",
		new: "\t\t_ = n"},
	// The log does not have what a window forgets.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "\t\tchanged.add(key[:], nil)\n\t}\n\tat, live",
		new: "\t\t_ = key\n\t}\n\tat, live"},
	// The counter before the last is forgotten.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "\t\tc.before = s.numbers[2]\n",
		new: "\t\tc.before = 0\n"},
	// An estimate is rounded down.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "return c.in + mulDivUp(",
		new: "return c.in + mulDiv("},
	// A window until an instant counts on after it.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "s.kind != LimitUntil || s.numbers[0] <= now {",
		new: "s.kind != LimitUntil || s.numbers[0] < now {"},
	// A call moves the end of a window that has begun.
	{file: "storage/object/limitrule.go", in: "commands", test: "TestLimitUntil",
		old: "\t\tif used == 0 {\n\t\t\tend = r.Until",
		new: "\t\tif true {\n\t\t\tend = r.Until"},
	// What is held does not count.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "cost+l.heldFor(i)); at > worst",
		new: "cost); at > worst"},
	// When to try again does not know that reservations end.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "if l.held != nil && l.held.Earliest() <= worst {",
		new: "if false {"},
	// A reservation that is due is still in the sum.
	{file: "storage/object/limit.go", test: "TestLimitModel",
		old: "\t\tl.held.count(val, -1)\n\t\tfn(",
		new: "\t\tfn("},
	// A reservation that is returned is still in the sum.
	{file: "storage/object/limit.go", test: "TestLimitModel",
		old: "\t\tr.count(e.val, -1)\n\t\tr.delete(elem)",
		new: "\t\t_ = e\n\t\tr.delete(elem)"},
	// A copy shares its window.
	{file: "storage/object/limit.go", test: "TestLimitModel",
		old: "list: slices.Clone(w.live()), sum: w.sum",
		new: "list: slices.Clone(w.live())"},
	// What was confirmed is forgotten.
	{file: "storage/object/limitrule.go", test: "TestLimitModel",
		old: "\tl.Admit(rules, now, cost, changed)\n\treturn true",
		new: "\t_, _ = rules, cost\n\treturn true"},
	// Another kind in a place goes on with the numbers of the one before.
	{file: "storage/object/limitrule.go", in: "commands", test: "TestLimitForgets",
		old: "\tif s.kind != r.Kind {\n\t\tl.forget(i, changed)",
		new: "\tif false {\n\t\tl.forget(i, changed)"},
	// The key outlives its limits, or does not go.
	{file: "storage/limit.go", in: "commands", test: "TestLimitTokens",
		old: "\tcase at != o.deadline ||",
		new: "\tcase at == 0 ||"},
	// A key whose deadline has moved to a later one expires where the index has it still.
	{file: "storage/reap.go", test: "TestReapPostponed",
		old: "if p.index.MoveFirst() {",
		new: "if false {"},
	{file: "ttl/postponed.go", test: "TestPostponedAgainstModel",
		old: "return m.from\n",
		new: "return max(old, m.from)\n"},
	// An index postpones any number of moves.
	{file: "ttl/postponed.go", test: "TestPostponedIsBounded",
		old: "if len(x.postponed) >= maxPostponed {",
		new: "if false {"},
	// A new key of limits outlives them.
	{file: "storage/limit.go", in: "commands", test: "TestLimitTokens",
		old: "l.o = t.installObject(l.k, l.makeObject(), at,",
		new: "l.o = t.install(l.k, l.made, at+1,"},
	// A new deadline is not replayed.
	{file: "storage/replay.go", test: "TestModel",
		old: "\t\t\tp.setDeadline(nil, sl, c, deadline, created)\n\t\t\t*p.flags(*c) &^= flagUnstated\n\t\t}\n\t}\n}",
		new: "\t\t\t*p.flags(*c) &^= flagUnstated\n\t\t}\n\t}\n}"},
	// A short record follows one of another value.
	{file: "storage/policy.go", test: "TestModel",
		old: "o != nil && o.id != 0 && t.logged == o.id {",
		new: "o != nil && o.id != 0 {"},
	// The deadline follows the first reservation.
	{file: "storage/object/due.go", test: "TestLimitFreshBehindAll",
		old: "\t\tm.big.due.seekRank(&p, n-1)\n\t\tkey, _, _ := p.entry()\n\t\tlast",
		new: "\t\tm.big.due.seekRank(&p, 0)\n\t\tkey, _, _ := p.entry()\n\t\tlast"},
	{file: "storage/object/due.go", in: "commands", test: "TestLimitDeadlineIsOfWhatIsThere",
		old: "\t\t\tlast = max(last, at)\n",
		new: "\t\t\tlast = max(at, 0)\n\t\t\treturn false\n"},
	// A window that is over admits.
	{file: "commands/keyp_limit.go", test: "TestLimitUntil",
		old: "if v.Over(p.rules(), now) != 0 {",
		new: "if v.Over(p.rules(), now) > 99 {"},
	// When the clock was set back, a window keeps a time for each admission.
	{file: "storage/object/limitrule.go", test: "TestLimitWindowSetBack",
		old: "if !ok && n < len(live) && len(live) >= MaxLimitTimes {",
		new: "if !ok && n < 0 {"},
	// A cost of nothing is admitted.
	{file: "commands/keyp_limit.go", test: "TestThrottle",
		old: "refuses != 0 || p.cost == 0 {",
		new: "refuses != 0 {"},
	// A reservation holds for another time.
	{file: "commands/keyp_limit.go", test: "TestLimitReservations",
		old: "l.Hold(p.id, p.rules(), p.cost, now+p.ttl)",
		new: "l.Hold(p.id, p.rules(), p.cost, now+p.ttl+1)"},
	// RESET deletes any key.
	{file: "commands/keyp_limit.go", test: "TestLimitErrors",
		old: "if ok && item.Type() != object.TypeLimit {",
		new: "if ok && item.Type() == 0 {"},
	// CL.THROTTLE says when to try again although it admits.
	{file: "commands/keyp_limit.go", test: "TestThrottle",
		old: "\tif refuses == 0 {\n\t\tretry = -1\n\t}\n",
		new: ""},
	// Its bucket has one token less.
	{file: "commands/keyp_limit.go", test: "TestThrottle",
		old: "r.Count = a.IntFrom(0, errThrottle) + 1",
		new: "r.Count = max(a.IntFrom(0, errThrottle), 1)"},
	// A call has any number of limits.
	{file: "commands/keyp_limit.go", test: "TestLimitErrors",
		old: "\t\tif p.count == len(p.room) {\n\t\t\ta.Fail(errLimits)\n\t\t\tbreak\n\t\t}\n",
		new: "\t\tp.count %= len(p.room)\n"},
	// The id of a reservation has any length.
	{file: "commands/keyp_limit.go", test: "TestLimitErrors",
		old: "if len(p.id) == 0 || len(p.id) > object.MaxLimitID {",
		new: "if len(p.id) == 0 {"},
	// A reservation is taken twice.
	{file: "commands/keyp_limit.go", test: "TestLimitReservations",
		old: "if p.id != nil && v.Held(p.id) {",
		new: "if false {"},
	// CL.THROTTLE takes seconds for milliseconds.
	{file: "commands/keyp_limit.go", test: "TestThrottle",
		old: "\t\tr.Span *= 1000",
		new: "\t\tr.Span *= 1"},

	// Replication. A vote, and that entries are here, is said before it is synced.
	{file: "consensus/ready.go", test: "TestSimulation",
		old: "\tif !must {\n\t\tg.written",
		new: "\tif true {\n\t\tg.written"},
	// Answers do not wait where the disk is not needed for entries, so votes are not synced.
	{file: "consensus/ready.go", test: "TestSimulation",
		old: "must = must || len(m.GetResponses()) > 0",
		new: "must = must || len(m.GetEntries()) > 0"},
	// Term and vote are not stored.
	{file: "consensus/ready.go", test: "TestSimulation",
		old: "\tif m.Term != nil {\n",
		new: "\tif m.Term != nil && false {\n"},
	// A failed sync passes for one.
	{file: "consensus/ready.go", test: "TestSimulation",
		old: "\tif err != nil && g.mu.ended == nil {\n",
		new: "\tif false {\n"},
	// Followers campaign at the same time.
	{file: "consensus/group.go", test: "TestElectionTime",
		old: "electionTicks+1+2*rank",
		new: "electionTicks+1"},
	// The lease is measured from the answer.
	{file: "consensus/lease.go", test: "TestSimulation",
		old: "max(g.lease.Load(), stamp+leaseTime)",
		new: "max(g.lease.Load(), g.o.Clock.Boot()+leaseTime)"},
	// The lease is longer than the promise.
	{file: "consensus/lease.go", test: "TestSimulation",
		old: "const leaseTime = 250",
		new: "const leaseTime = 400"},
	// The lease is kept when a transfer begins.
	{file: "consensus/lease.go", test: "TestSimulation",
		old: "\t\tg.lease.Store(0)\n\t\tg.mu.role.transferee",
		new: "\t\tg.mu.role.transferee"},
	// What was asked before an order to campaign gives a lease after it.
	{file: "consensus/lease.go", test: "TestSimulation",
		old: "stamp > r.floor",
		new: "stamp > 0"},
	// An order to campaign is followed however late it comes.
	{file: "consensus/lease.go", test: "TestSimulation",
		old: "func (p *promise) outlives(term uint64, stamp int64) bool { return p.term == term && p.stamp > stamp }",
		new: "func (p *promise) outlives(term uint64, stamp int64) bool { return false }"},
	// Who was deposed keeps the lease.
	{file: "consensus/ready.go", test: "TestSimulation",
		old: "\t\t\tg.lease.Store(0)\n\t\t\tg.forget()\n",
		new: "\t\t\tg.forget()\n"},
	// Who has just started votes.
	{file: "consensus/lease.go", test: "TestSimulation",
		old: "mayVote() bool { return g.mu.ticks >= electionTicks }",
		new: "mayVote() bool { return true }"},
	// What a leader of another time says is taken for the present one's.
	{file: "consensus/group.go", test: "TestSimulation",
		old: "\t\t\t_ = g.mu.node.Step(m.Raft) //",
		new: "\t\t\tm.Raft.Term = new(max(m.Raft.GetTerm(), g.mu.term))\n\t\t\t_ = g.mu.node.Step(m.Raft) //"},
	// Messages to another member are taken.
	{file: "consensus/group.go", test: "TestSimulation",
		old: " && m.Raft.GetTo() == g.o.ID && ",
		new: " && "},
	// What is proposed passes for committed.
	{file: "consensus/ready.go", test: "TestSimulation",
		old: "rd.HardState.GetCommit() > g.mu.commit {\n\t\tcommit := rd.HardState.GetCommit()",
		new: "g.mu.last > g.mu.commit {\n\t\tcommit := g.mu.last"},
	// Entries are applied twice, after a start.
	{file: "consensus/ready.go", test: "TestSimulation",
		old: "return e.GetIndex() > g.mu.applied }",
		new: "return e.GetIndex() > 0 }"},
	// The machine is given the members of before.
	{file: "consensus/ready.go", test: "TestSimulation",
		old: "\ta := Applying{Entries: entries, Conf: g.mu.conf}",
		new: "\ta := Applying{Entries: entries, Conf: g.o.Log.Base().Conf}"},
	// A change of members is not made.
	{file: "consensus/ready.go", test: "TestSimulation",
		old: "\t\t\tg.mu.conf = g.mu.node.ApplyConfChange(change)",
		new: "\t\t\tg.mu.conf = g.mu.conf\n\t\t\t_ = change"},
	// The members that a snapshot has are not stored.
	{file: "consensus/ready.go", test: "TestSimulation",
		old: "Term: meta.GetTerm(), Conf: meta.GetConfState()}",
		new: "Term: meta.GetTerm()}"},
	// What the log has passes for what the machine has, after a crash amid a snapshot.
	{file: "consensus/group.go", test: "TestSimulation",
		old: "\t\tl.Append(Write{Base: &applied})\n",
		new: "\t\treturn nil\n"},
	// Nobody is notified that entries were replaced.
	{file: "consensus/ready.go", test: "TestSimulation",
		old: "GetIndex(); first <= g.mu.last {",
		new: "GetIndex(); first <= g.mu.last && false {"},
	// Nobody is notified that a snapshot replaces entries.
	{file: "consensus/ready.go", test: "TestSnapshotReplacesEntries",
		old: "first := g.mu.commit + 1; first <= g.mu.last {",
		new: "first := g.mu.commit + 1; false {"},
	// Nobody is notified that another member leads.
	{file: "consensus/ready.go", test: "TestSimulation",
		old: "\t\t\tg.notify(func() { g.o.Machine.Deposed(was, committed) })\n",
		new: "\t\t\t_, _ = was, committed\n"},
	// A snapshot is in the log before the machine has it.
	{file: "consensus/ready.go", test: "TestSimulation",
		old: "\tn := slices.IndexFunc(g.mu.appends, restores)\n\tswitch {",
		new: "\tn := slices.IndexFunc(g.mu.appends, restores)\n\tif n == 0 {\n\t\tg.append(g.mu.appends[:1])\n\t}\n\tswitch {"},
	// A snapshot that is lost stops a member for ever.
	{file: "consensus/group.go", test: "TestSimulation",
		old: "p.snapshot--; p.snapshot == 0",
		new: "p.snapshot--; p.snapshot < 0"},
	// A leader that nobody hears leads on.
	{file: "consensus/group.go", test: "TestSimulation",
		old: "\t\tCheckQuorum: true,",
		new: "\t\tCheckQuorum: false,"},
	// A member goes on with a log that has lost what it acknowledged.
	{file: "consensus/group.go", test: "TestForgotten",
		old: "m.GetCommit() <= g.mu.last {",
		new: "m.GetCommit() <= g.mu.last+1 {"},
	// Silent strangers keep members out.
	{file: "consensus/transport.go", test: "TestTransportCrowd",
		old: "t.mu.strangers[0].Close() // a member tries again",
		new: "c.Close()"},
	// Each stranger has a line of the log.
	{file: "consensus/transport.go", test: "TestTransportCrowd",
		old: "now-t.mu.said < refusedEvery",
		new: "now-t.mu.said < 0"},
	// What is kept back is not sent.
	{file: "consensus/ready.go", test: "TestCommitRidesAlong",
		old: "\t\t\tif p := g.mu.peers[id]; p.held != nil {",
		new: "\t\t\tif p := g.mu.peers[id]; p.held != nil && false {"},

	// The keys that a timeline counts are of two keyspaces that were swapped meanwhile.
	{file: "storage/timeline.go", test: "TestTimelineSwapped",
		old: "(!swapped || try >= swapTries)",
		new: "(!swapped || true)"},

	// A timeline within a transaction looks at all names.
	{file: "storage/timeline.go", test: "TestTimelineEstimates",
		old: "every, most = 1, l.names/len(l.s.shards)",
		new: "every, most = 1, math.MaxInt"},

	// A walk over all that a part has puts what is due at a span's begin into the one before.
	{file: "storage/timeline.go", test: "TestTimeline",
		old: "l.starts[i+1] <= e.Deadline {",
		new: "l.starts[i+1] < e.Deadline {"},

	// A few deadlines in a large cell of the disk are estimated.
	{file: "storage/timeline.go", test: "TestTimelineUnevenOnDisk",
		old: "cut && low <= int64(l.exact)",
		new: "cut && high <= int64(l.exact)"},

	// A timeline's bounds leave out what moves between memory and disk.
	{file: "storage/timeline.go", test: "TestTimelineBesideChanges",
		old: "n += p.moves - l.moves[i]",
		new: "n += 0"},

	// What has left memory beside the walk over ttl counts twice.
	{file: "storage/duedisk.go", test: "TestTimelineBesideChanges",
		old: "if _, left := p.disk.left[string(e.on)]; !left {",
		new: "if true {"},

	// Values that leave memory before a page knows their elements are kept without bound.
	{file: "storage/expiringelements.go", test: "TestExpiringElementsBegun",
		old: "if len(of.left) >= most {",
		new: "if false {"},

	// Elements that are due when their key is are listed.
	{file: "storage/expiringelements.go", test: "TestExpiringElements",
		old: "if own != 0 && own <= at.Deadline {",
		new: "if own != 0 && own < at.Deadline {"},

	// A member's log. A vote is not written.
	{file: "consensus/raftlog/log.go", test: "TestModel",
		old: "if w.Base == nil && len(w.Entries) == 0 && now.term == l.mu.written.term && now.vote == l.mu.written.vote {",
		new: "if w.Base == nil && len(w.Entries) == 0 && now.term == l.mu.written.term {"},

	// A commit index does not go with the next Write.
	{file: "consensus/raftlog/log.go", test: "TestDoneOnce",
		old: "\tif now != l.mu.written {\n",
		new: "\tif now.term != l.mu.written.term || now.vote != l.mu.written.vote {\n"},

	// Entries that replace others pass for synced as those were.
	{file: "consensus/raftlog/log.go", test: "TestModel",
		old: "\t\tl.mu.synced = min(l.mu.synced, r.first-1)\n",
		new: ""},

	// What is synced falls where a head comes.
	{file: "consensus/raftlog/log.go", test: "TestFailures",
		old: "\tl.mu.synced = max(l.mu.synced, index, l.mu.base.Index)\n\treturn l.mu.synced\n",
		new: "\treturn max(index, l.mu.base.Index)\n"},

	// What is synced falls where entries come behind a record without any.
	{file: "consensus/raftlog/log.go", test: "TestSyncedIndex",
		old: "\tl.syncedIndex() // notes it",
		new: "\t//"},

	// The record that is being written counts as synced.
	{file: "consensus/raftlog/log.go", test: "TestModel",
		old: "\t\tindex = max(next, 1) - 1\n",
		new: "\t\tindex = next\n"},

	// A snapshot leaves entries in memory.
	{file: "consensus/raftlog/log.go", test: "TestModel",
		old: "if again || first < l.mu.from {",
		new: "if first < l.mu.from {"},

	// An entry that is replaced stays in memory.
	{file: "consensus/raftlog/log.go", test: "TestModel",
		old: "for n := int(first - l.mu.from); n < len(l.mu.cache); {",
		new: "for n := int(first - l.mu.from) + 1; n < len(l.mu.cache); {"},

	// Entries leave the memory before they are on disk.
	{file: "consensus/raftlog/log.go", test: "TestModel",
		old: "bytes > l.mu.limit && l.mu.from+uint64(n) <= synced; n++",
		new: "bytes > l.mu.limit; n++"},

	// Rotate has the new segment be the first one needed, whatever is not applied.
	{file: "consensus/raftlog/log.go", test: "TestModel",
		old: "return l.mu.rotations[l.mu.needed(applied.Index)].segment, nil",
		new: "return number, nil"},

	// The record after a head is looked for before it.
	{file: "consensus/raftlog/log.go", test: "TestModel",
		old: "\tl.mu.written, l.mu.end = l.mu.hard, l.wal.End()\n\treturn",
		new: "\tl.mu.written = l.mu.hard\n\treturn"},

	// The base of a log that begins later keeps the term of the one before.
	{file: "consensus/raftlog/log.go", test: "TestModel",
		old: "\tif base.Index > l.mu.base.Index {\n\t\tl.mu.rebase(base)\n",
		new: "\tif base.Index > l.mu.base.Index {\n\t\tl.mu.base = base\n"},

	// A large Write is waited for.
	{file: "consensus/raftlog/log.go", test: "TestSlowSync",
		old: "\tcase l.inline || end-durable <= largeCommit && l.wal",
		new: "\tcase l.inline || l.wal"},

	// A busy disk is waited for.
	{file: "consensus/raftlog/log.go", test: "TestSlowSync",
		old: " && !busy():",
		new: " && (busy() || true):"},

	// A rotation lacks an entry.
	{file: "consensus/raftlog/state.go", test: "TestModel",
		old: "\t\t\ts.rotations[i].after = min(s.rotations[i].after, first-1)\n",
		new: "\t\t\ts.rotations[i].after = min(s.rotations[i].after, first)\n"},

	// A snapshot leaves the bases of heads before it.
	{file: "consensus/raftlog/state.go", test: "TestModel",
		old: "\t\ts.rotations[i].after, s.rotations[i].base = base.Index, base\n",
		new: "\t\ts.rotations[i].after = base.Index\n"},

	// The base is before the entries.
	{file: "consensus/raftlog/state.go", test: "TestModel",
		old: "\t\tif r.base.Index >= index && (!ok || r.base.Index < base.Index) {",
		new: "\t\tif !ok || r.base.Index < base.Index {"},

	// A snapshot leaves terms of entries.
	{file: "consensus/raftlog/state.go", test: "TestModel",
		old: "\ts.terms, s.table = nil, table{}\n",
		new: "\ts.table = table{}\n"},

	// A gap between entries.
	{file: "consensus/raftlog/state.go", test: "TestContradictions",
		old: "\tcase r.first > last+1:\n",
		new: "\tcase r.first > last+2:\n"},

	// A committed entry comes again.
	{file: "consensus/raftlog/state.go", test: "TestContradictions",
		old: "\tcase r.first <= max(hard.commit, s.base.Index) && r.base == nil:\n",
		new: "\tcase r.first <= s.base.Index && r.base == nil:\n"},

	// Two votes in one term.
	{file: "consensus/raftlog/state.go", test: "TestContradictions",
		old: "|| r.hard.term == hard.term && hard.vote != 0 && r.hard.vote != hard.vote)",
		new: ")"},

	// A record that is replaced stays in the table.
	{file: "consensus/raftlog/table.go", test: "TestModel",
		old: "first, _ := b.at(i); return first >= index })\n\t\tif b.n > 0",
		new: "first, _ := b.at(i); return first > index })\n\t\tif b.n > 0"},

	// A record gives entries that a later one has replaced.
	{file: "consensus/raftlog/read.go", test: "TestModel",
		old: "\t\tif p.next == min(p.hi, s.until) || !p.fits(e.data) {",
		new: "\t\tif p.next == p.hi || !p.fits(e.data) {"},

	// An entry of another term is given.
	{file: "consensus/raftlog/read.go", test: "TestRecordsOtherThanPlaced",
		old: "err == nil && term != e.term {",
		new: "err != nil {"},

	// What is read back does not verify.
	{file: "storage/wal/read.go", test: "TestReadDamage",
		old: "!ok || f.first == linked || f.first",
		new: "f.first == linked || f.first"},

	// A reader has what stood there before it was written.
	{file: "storage/wal/read.go", test: "TestReadBack",
		old: "\t\tif err := r.Close(); err != nil {\n\t\t\treturn nil, fmt.Errorf(\"wal: %w\", err)\n\t\t}\n\t}\n\tseg, end",
		new: "\t}\n\tseg, end"},

	// A follower's reader removes what is due.
	{file: "storage/txn.go", test: "TestFollowerLeavesDue",
		old: "\t\tif t.s.Follower() {\n\t\t\tt.seen = max(",
		new: "\t\tif false {\n\t\t\tt.seen = max("},

	// A follower shows an element that is due.
	{file: "storage/follower.go", test: "TestFollowerLeavesDue",
		old: "\to.hide(now, math.MaxInt)\n",
		new: "\to.hide(now, math.MaxInt*0)\n"},

	// A follower shows a collection of which everything is due.
	{file: "storage/follower.go", test: "TestFollowerLeavesDue",
		old: "\tif o.val.LenAt(now) == 0 {",
		new: "\tif false {"},

	// A leader does not remove what it has hidden as a follower.
	{file: "storage/collection.go", test: "TestFollowerLeavesDue",
		old: "\to.unhide()\n",
		new: ""},

	// The data file lacks what a follower hides: of a small value, of a large one that is written first, of a change.
	{file: "storage/copy.go", test: "TestFollowerLeavesDue",
		old: "format.AppendInline(nil, o.whole())",
		new: "format.AppendInline(nil, o.val)"},
	{file: "storage/copy.go", test: "TestFollowerHides",
		old: "o.whole().Scan(",
		new: "o.val.Scan("},
	{file: "storage/copy.go", test: "TestFollowerHides",
		old: "u.frozen.take(o.whole(),",
		new: "u.frozen.take(o.val,"},

	// A reading of a follower moves a deadline.
	{file: "storage/txn.go", in: "commands", test: "TestFollowerRefusesWrites",
		old: " && !t.Offloaded() && !t.s.Follower() {",
		new: " && !t.Offloaded() {"},

	// A follower's log has what a transaction has changed.
	{file: "storage/txn.go", test: "TestFollowerIsChanged",
		old: "size > 0 && t.s.Follower() {",
		new: "size > 0 && false {"},

	// A follower removes what is due in memory.
	{file: "storage/reap.go", test: "TestFollowerLeavesDue",
		old: "\tif s.Follower() {\n\t\ts.unlock(r.t)",
		new: "\tif false {\n\t\ts.unlock(r.t)"},

	// A follower logs the time.
	{file: "storage/time.go", test: "TestFollowerLeavesDue",
		old: "now > s.shown.at.Load() && !s.Follower() {",
		new: "now > s.shown.at.Load() {"},

	// A follower records its clocks, or a new leader does not.
	{file: "storage/guard.go", test: "TestFollowerOpens",
		old: "g.since.Load() != 0 || g.s.Follower() {",
		new: "g.since.Load() != 0 {"},
	{file: "storage/guard.go", test: "TestLeaderRecordsClock",
		old: "if s.Follower() || !g.foreign.Load() && r.boot",
		new: "if s.Follower() || r.boot"},

	// What a follower shows depends on what is not applied.
	{file: "storage/follower.go", test: "TestFollowerOpens",
		old: "\tif s.Follower() {\n\t\treturn s.follower.applied.Load()",
		new: "\tif false {\n\t\treturn s.follower.applied.Load()"},

	// A job that ends forgets what is hidden of its value.
	{file: "storage/snapshot.go", test: "TestFollowerPins",
		old: "o.setDue(o.whole().Earliest())",
		new: "o.setDue(o.val.Earliest())"},

	// A follower takes commands that write.
	{file: "commands/dispatch.go", test: "TestFollowerRefusesWrites",
		old: "if flags&Write != 0 && e.Store.Follower() {",
		new: "if false {"},
	{file: "commands/script_run.go", test: "TestFollowerRefusesWrites",
		old: "case spec.Is(Write) && e.Store.Follower():",
		new: "case false:"},
	{file: "commands/hll.go", test: "TestFollowerRefusesWrites",
		old: "!c.Env.Store.Full() && !c.Env.Store.Follower()",
		new: "!c.Env.Store.Full()"},

	// A replicated log depends on what the leader has in memory, or on disk.
	{file: "storage/reap.go", test: "TestReplicatedLogNames",
		old: "n > 0 && !s.options.Member {",
		new: "n > 0 {"},
	{file: "storage/rename.go", test: "TestReplicatedLogNames",
		old: "object.TypeLease || t.s.options.Member):",
		new: "object.TypeLease):"},

	// A follower's readers see a part of a batch.
	{file: "storage/mirror.go", test: "TestMirrorWhole",
		old: "\tn.mask |= 1 << s.shardOf(k.Slot)\n",
		new: "\tn.mask = 1 << s.shardOf(k.Slot)\n"},

	// What a follower's reader has seen does not depend on its batch.
	{file: "storage/mirror.go", test: "TestMirrorWhole",
		old: "\tt.stamp(lsn)\n",
		new: ""},

	// A follower applies a batch twice.
	{file: "storage/mirror.go", test: "TestMirrorOnce",
		old: "if lsn <= s.follower.applied.Load() {",
		new: "if lsn < s.follower.applied.Load() {"},

	// A batch changes a value that somebody reads.
	{file: "storage/mirror.go", test: "TestMirrorLeavesReaders",
		old: "\t\tp.setApart(sl, c, o)\n",
		new: ""},

	// A batch changes a value of which due elements are hidden, without them.
	{file: "storage/mirror.go", test: "TestMirrorReportsOnce",
		old: "\to.unhide()\n\tm.t.unshare(o)\n",
		new: "\tm.t.unshare(o)\n"},

	// A follower does not have its leader's counts, time or keys in memory.
	{file: "storage/mirror.go", test: "TestMirror",
		old: "p.keys, p.expires = c.Keys, c.Expires",
		new: ""},
	{file: "storage/mirror.go", test: "TestMirror",
		old: "\t\ts.followTime(r.time)\n",
		new: ""},
	{file: "storage/mirror.go", test: "TestMirror",
		old: "\t\tif !m.s.resident(k.Key) {",
		new: "\t\tif false {"},

	// A follower's observer is not notified, or its outboxes stay as they were.
	{file: "storage/mirror.go", test: "TestMirrorReports",
		old: "\tm.t.changing(p.space, k.Name)\n}",
		new: "}"},
	{file: "storage/mirror.go", test: "TestMirrorOutbox",
		old: "\tm.followRules()\n",
		new: ""},

	// Streams whose entries age.
	// An entry is there at its deadline.
	{file: "storage/object/streamage.go", in: "commands", test: "TestXCfgSetMaxAge",
		old: "return int64(id.Ms) + a.age\n",
		new: "return int64(id.Ms) + a.age + 1\n"},
	// The last id goes with the last entry.
	{file: "storage/object/streamage.go", in: "commands", test: "TestXCfgSetMaxAge",
		old: "s.TrimFirst(count, changed, log.Runs)",
		new: "s.TrimFirst(count, nil, log.Runs)"},
	// The age is not in the metadata's element.
	{file: "storage/object/streamelem.go", in: "commands", test: "TestXCfgSetMaxAge",
		old: "if a := m.aging; a != nil {\n\t\tdst",
		new: "if a := m.aging; false {\n\t\tdst"},
	// A copy has no age.
	{file: "storage/object/clone.go", in: "commands", test: "TestXCfgSetMaxAge",
		old: "to.meta.aging = s.meta.aging.clone()",
		new: "to.meta.aging = nil"},
	// DELREF leaves what is pending.
	{file: "storage/object/streamage.go", in: "commands", test: "TestMaxAgeGroups",
		old: "if refs == DropRefs {",
		new: "if false {"},
	// ACKED removes what a group has not acknowledged.
	{file: "storage/object/streamage.go", in: "commands", test: "TestMaxAgeGroups",
		old: "if count == most || refs == AckedRefs && !s.AckedByAll(e.ID) {",
		new: "if count == most {"},
	// What is acknowledged behind an entry that stays is not found.
	{file: "storage/object/streamage.go", in: "commands", test: "TestMaxAgeGroupSetBack",
		old: "\t\ta.released.put(id)",
		new: "\t\t_ = a"},
	// A group that was set back and is there again keeps entries for ever.
	{file: "storage/object/streamgroups.go", in: "commands", test: "TestMaxAgeGroupSetBack",
		old: "\ts.reset(g.LastID) // a lower one frees no entry\n",
		new: ""},
	// The entries of a group that is gone stay for ever.
	{file: "storage/object/streamgroups.go", in: "commands", test: "TestMaxAgeGroups",
		old: "\ts.groups.drop(g)\n\ts.reset(StreamID{})\n",
		new: "\ts.groups.drop(g)\n"},
	// An entry that is released and pending again goes.
	{file: "storage/object/streamage.go", in: "commands", test: "TestMaxAgeProperty",
		old: "id.Compare(a.from) < 0 && s.AckedByAll(id) {",
		new: "id.Compare(a.from) < 0 {"},
	// The log does not have what is cut.
	{file: "storage/stream.go", in: "commands", test: "TestXCfgSetMaxAge",
		old: "Cut:  func(first, last int64) { t.cut(p, o, first, last) },",
		new: ""},
	// The data file does not have what is cut.
	{file: "storage/stream.go", test: "TestReaperRemovesEntries",
		old: "\t\tRuns: o.changeRun,\n",
		new: ""},
	// The last entries of a millisecond stay.
	{file: "storage/object/streamage.go", in: "commands", test: "TestXCfgSetMaxAge",
		old: "return StreamID{uint64(now - a.age), math.MaxUint64}, true",
		new: "return StreamID{uint64(now - a.age), 0}, true"},
	// A copy forgets what is said about groups.
	{file: "storage/object/streamage.go", in: "commands", test: "TestMaxAgeGroups",
		old: "return &aging{age: a.age, refs: a.refs}",
		new: "return &aging{age: a.age, refs: KeepRefs}"},
	// One group decides for all.
	{file: "storage/object/streamage.go", in: "commands", test: "TestMaxAgeProperty",
		old: "\t\tif g.LastID.Compare(last) < 0 {\n\t\t\tlast = g.LastID",
		new: "\t\tif last == MaxStreamID {\n\t\t\tlast = g.LastID"},
	// The log does not have what goes with an entry.
	{file: "storage/object/streamage.go", in: "commands", test: "TestMaxAgeGroups",
		old: "\t\ts.Ack(g.name, id, changed)\n\t\treturn true",
		new: "\t\ts.Ack(g.name, id, nil)\n\t\treturn true"},
	// An option about groups is taken without an age.
	{file: "commands/stream_set.go", test: "TestXCfgSetMaxAge",
		old: "case set.age >= 0 && set.refs.option(&a):",
		new: "case set.refs.option(&a):"},
	// Pages have the deadlines of another age, or of before a group acknowledged an entry.
	{file: "storage/stream.go", in: "commands", test: "TestMaxAgeIsListed",
		old: "\ts.t.s.part(s.k).places = nil // deadlines of all entries have changed\n",
		new: ""},
	{file: "storage/stream.go", in: "commands", test: "TestMaxAgeIsListed",
		old: "\t\ts.t.s.part(s.k).places = nil // what groups do decides which entries have deadlines\n",
		new: "\t\t_ = refs\n"},
	// A policy replaces the age that a stream has, or gives one that it only warns of.
	{file: "storage/policy.go", in: "commands", test: "TestPolicyMaxAge",
		old: "if age, _ := v.Age(); age != 0 {",
		new: "if age, _ := v.Age(); age < 0 {"},
	{file: "storage/policy.go", in: "commands", test: "TestPolicyMaxAge",
		old: "\tp.Counts.Aged.Add(1)\n\tif p.Enforce {",
		new: "\tp.Counts.Aged.Add(1)\n\tif p.MaxAge > 0 {"},
	// A follower loses what it hides.
	{file: "storage/follower.go", test: "TestFollowerHidesEntries",
		old: "\t\t\to.val = v.Clone()\n",
		new: ""},
	// An outbox has entries about its own stream.
	{file: "storage/outbox.go", test: "TestOutboxStreamAges",
		old: "!bytes.Equal(k.Name, r.Stream)",
		new: "true"},
	// A new entry is in no page of what is due.
	{file: "storage/stream.go", in: "commands", test: "TestMaxAgeIsListed",
		old: "if deadline := v.Deadline(id); deadline != 0 {",
		new: "if deadline := v.Deadline(id); false {"},
	// Entries that are only on disk are in no page of what is due.
	{file: "storage/expiringelements.go", in: "commands", test: "TestMaxAgeIsListed",
		old: "\t\tif im.Type == object.TypeStream {\n",
		new: "\t\tif false {\n"},

	// A deposed leader takes entries of others for its own.
	{file: "member/journal.go", test: "TestReplaced",
		old: "\tj.mu.spans = j.mu.spans[:n]\n",
		new: ""},
	{file: "member/journal.go", test: "TestReplacedWhileProposed",
		old: "\tif j.mu.cut != 0 && index >= j.mu.cut {\n",
		new: "\tif false {\n"},

	// An export has a value and a deadline of different instants.
	{file: "internal/exporter/server.go", test: "TestKeyThatChanges",
		old: "return keys, !ran.null, err",
		new: "return keys, true, err"},
	// An export has keys that have expired.
	{file: "internal/exporter/exporter.go", test: "TestExpiredKeys",
		old: "k.Deadline <= now",
		new: "k.Deadline < now"},
	// What is longer than the buffer is not in the checksum.
	{file: "internal/rdb/filewrite.go", test: "TestFileWriter",
		old: "\t_ = f.flush(0) // write gives its error\n\treturn f.write(body)\n",
		new: "\t_ = f.flush(0) // write gives its error\n\t_, err := f.out.Write(body)\n\treturn err\n"},
	// An import sends commands about more than what was chosen.
	{file: "internal/importer/importer.go", in: "cmd/keyp", test: "TestImportChosenCommands",
		old: "if n > 0 && n < len(keys) {",
		new: "if false {"},
	// What comes between the parts of a batch ends it.
	{file: "member/entry.go", test: "TestStream",
		old: "\tif e.GetTerm() != s.term {",
		new: "\tif e.GetTerm() != s.term || e.GetType() != pb.EntryNormal {"},
	// A deposed leader's parts go on under the next one.
	{file: "member/entry.go", test: "TestStream",
		old: "\tif e.GetTerm() != s.term {",
		new: "\tif false {"},
	{file: "member/entry.go", test: "TestStreamErrors",
		old: "uint64(len(s.part)) != offset",
		new: "false"},
	// Batches are taken wherever they stand.
	{file: "member/entry.go", test: "TestStreamErrors",
		old: "len(data) > batchesHeader && le.Uint64(data[1:]) == s.position",
		new: "len(data) > batchesHeader"},
	// A closed log gives an entry that another one has replaced.
	{file: "consensus/raftlog/closed.go", test: "TestModel",
		old: "stands != place {",
		new: "stands == 0 {"},
	// What is recovered is only what is known to be committed.
	{file: "member/closed.go", test: "TestClosed",
		old: "c.Taken = c.Committed; all {",
		new: "c.Taken = c.Committed; false {"},
	// The log that a backup needs is released while it is read.
	{file: "member/backup.go", test: "TestBackupOfMembers",
		old: "	j.m.mu.keeps[k] = base.Index\n",
		new: ""},
	// A backup has what was written behind its moment.
	{file: "member/backup.go", test: "TestBackupOfMembers",
		old: "lsn <= from || lsn > through {",
		new: "lsn <= from {"},
	// What is restored of a member's backup opens as a member's.
	{file: "storage/filesnapshot.go", in: "member", test: "TestBackupOfMembers",
		old: "st.Member, st.Position = false, 0",
		new: ""},
	// A follower's backup is said to be of the present moment.
	{file: "commands/keyp_backup.go", in: "server", test: "TestGroupBackup",
		old: "st != nil && st.Role == Follower {",
		new: "false && st.Role == Follower {"},
	// What a power failure may take back is archived.
	{file: "storage/archive/archiver.go", test: "TestNotSyncedIsNotArchived",
		old: "return min(a.o.Log.Durable(), a.o.Log.Synced())",
		new: "return a.o.Log.End()"},
	// What is archived of a group's log a power failure may take from this disk.
	{file: "storage/archive/archiver.go", in: "member", test: "TestArchives",
		old: "if err := a.o.Log.Settled(a.ctx, end); err != nil {",
		new: "if err := error(nil); err != nil {"},
	// A member that starts has less of the log than its archive lacks.
	{file: "member/journal.go", test: "TestArchives",
		old: "return j.m.forKeeps(segment), nil",
		new: "return segment, nil"},
	// A group's log has no times.
	{file: "storage/archiving.go", in: "member", test: "TestArchives",
		old: "s.timed = s.options.Member //",
		new: "s.timed = false //"},
	// A member goes on with another one's archive.
	{file: "storage/archive/archiver.go", in: "member", test: "TestArchiveOfOther",
		old: "h.Member != a.o.Member || ",
		new: ""},
	// The archive adopts a file that a copy of the directory has written.
	{file: "storage/archive/archiver.go", in: "storage", test: "TestArchiveRefused",
		old: "case own != lsn || !bytes.Equal(with, batch):",
		new: "case false:"},
	// What the log has released meanwhile is passed over, and the archive goes on without a word.
	{file: "storage/archive/chain.go", in: "storage", test: "TestArchiveKeepsTheLog",
		old: "	if next.from != c.last {\n",
		new: "	if false {\n"},
	// What a hold had kept goes at the next start.
	{file: "storage/wal/cut.go", test: "TestKeepFrom",
		old: "next.start <= r.o.KeepFrom",
		new: "true"},
	// A backup of a copy goes on with the archive of the other one.
	{file: "storage/restore.go", test: "TestArchiveRefused",
		old: "known = proven || archive.SumOf(batch) == r.last",
		new: "known = true"},
	// A backup has no batch of the log to compare with the archive's.
	{file: "storage/backup.go", test: "TestArchiveRefused",
		old: "		s.markLog()\n",
		new: ""},
	// What was written without the archive is taken as older than it is.
	{file: "storage/restore.go", test: "TestWithoutArchive",
		old: "if from.Time == 0 || certain == m.Through {",
		new: "if true {"},
	// Tools release what is not archived.
	{file: "storage/archiving.go", test: "TestToolKeepsTheLog",
		old: "			log.HoldFrom(state.Through)\n",
		new: ""},
	// A millisecond too much is restored.
	{file: "storage/restore.go", test: "TestPointInTime",
		old: "timed && at > from.Time",
		new: "timed && at > from.Time+1"},
	// Another archive goes on with what another copy of the log has.
	{file: "storage/archive/join.go", test: "TestJoin",
		old: "proven = j.read && SumOf(pieces) == j.last",
		new: "proven = true"},
	// A restore that keeps what has expired takes away deadlines that are still to come.
	{file: "storage/keepexpired.go", test: "TestKeepExpired",
		old: "d != ttl.None && d <= r.now",
		new: "d != ttl.None"},
	{file: "storage/keepexpired.go", test: "TestKeepExpired",
		old: "deadline != 0 && deadline <= r.now",
		new: "deadline != 0"},
	// It ends with its first round.
	{file: "storage/keepexpired.go", test: "TestKeepExpired",
		old: "for more := true; more; {",
		new: "for more := true; more; more = false {"},
	// An upload under way is aborted where the clock of the machine is ahead.
	{file: "internal/target/bucket.go", test: "TestTidyBesideTheClock",
		old: "time.Unix(now, 0).Add(-age)",
		new: "time.Now().Add(-age)"},
	// The log has no times.
	{file: "storage/txn.go", test: "TestPointInTime",
		old: "			t.s.logTime()\n",
		new: ""},
	// Clients wait for ever for writes that nobody can decide.
	{file: "server/group.go", test: "TestWritesWithoutLeader",
		old: "		l.endWaiting()\n",
		new: ""},
	// A checkpoint says that what is not committed is.
	{file: "member/journal.go", test: "TestSettledIsCommitted",
		old: "min(j.indexOf(lsn), j.mu.commit)",
		new: "j.indexOf(lsn)"},
	// The data file has what the log does not know to be committed.
	{file: "member/journal.go", test: "TestSettledSurvives",
		old: "j.log.Settled(ctx, j.log.SaveCommit(index))",
		new: "j.log.Settled(ctx, j.log.SaveCommit(0*index))"},
	// Who has moved is found by the leader alone, which it does not hear.
	{file: "member/actions.go", test: "TestMoved",
		old: "		m.moved(q.Member)\n",
		new: ""},
	// The last member that a majority needs is removed.
	{file: "member/actions.go", test: "TestRemovedMajority",
		old: "return answer > votes/2",
		new: "return answer > 0*votes"},
	// A change of members is known to be committed in memory alone.
	{file: "member/machine.go", test: "TestMembersAreRemembered",
		old: "m.journal.log.SaveCommit(index)",
		new: "m.journal.log.SaveCommit(0*index)"},
	// After an election the log goes that others lack.
	{file: "member/member.go", test: "TestLogIsKept",
		old: "if p.Match == 0 {",
		new: "if p.Match == 0 && false {"},
	// What had no room waits until something else is committed.
	{file: "member/machine.go", test: "TestRoomWhenApplied",
		old: "		m.journal.room()\n",
		new: ""},
	// A batch that was never proposed stays in the store.
	{file: "member/journal.go", test: "TestNeverProposed",
		old: "return j.mu.lost || j.mu.start < j.end.Load(), last",
		new: "return j.mu.lost, last"},
	// A term that is over counts as the one that is led.
	{file: "member/journal.go", test: "TestDeposedBeforeItLeads",
		old: "j.mu.leads, j.mu.term, j.mu.cut = true, term, 0",
		new: "j.mu.leads, j.mu.term, j.mu.cut, j.mu.deposed = true, term, 0, 0"},
	// Another member's log is opened.
	{file: "member/identity.go", test: "TestIdentity",
		old: "; of != want {",
		new: "; of.Group != want.Group {"},
	// A member that leaves its group and is killed on the way opens no more.
	{file: "member/member.go", test: "TestLeave",
		old: "err := left(o); err != nil",
		new: "err := error(nil); err != nil"},
	{file: "member/member.go", test: "TestMembersOnDisk",
		old: "\tif !slices.Equal(d.Members, written) {",
		new: "\tif len(d.Members) != len(written) {"},
	// A batch goes that a follower's log has and its store has not.
	{file: "storage/checkpoint.go", in: "member", test: "TestCheckpointBetween",
		old: "st.Position = s.Shown()",
		new: "st.Position = c.mu.rotatedEnd"},
	// What others have replaced stays in the store of who was the leader.
	{file: "member/machine.go", test: "TestCutOff",
		old: "\t\tm.do(task{waits: true, run: func() { m.rebuild(\"others have replaced what it ran last\", \"from\", from) }})\n",
		new: ""},
	// Who is deposed twice forgets what it ran the first time.
	{file: "member/machine.go", test: "TestTentativeTwice",
		old: "\tif !led { // it has run nothing in this term, but it may be tentative from an earlier one\n\t\tm.certain()\n",
		new: "\tif !led {\n\t\tm.become(func() { m.mu.role = commands.Follower })\n"},
	// The loop waits for itself.
	{file: "member/machine.go", test: "TestElectedBesideTasks",
		old: "\tm.mu.rises = first\n",
		new: ""},
	// A member that waits for a snapshot of a leader that is gone votes no more.
	{file: "member/machine.go", test: "TestLeaderGoneDuringSnapshot",
		old: "m.group.Status().Silent >= leaderGone",
		new: "false"},
	// A snapshot takes the place of what was committed after it.
	{file: "member/snapshot.go", test: "TestOldSnapshot",
		old: "max(begin.Index, log.Hard().GetCommit()) > base.Index",
		new: "false"},
	// Entries that were never committed stay among those of a snapshot.
	{file: "member/snapshot.go", test: "TestSnapshotEntries",
		old: "term == e.GetTerm() {",
		new: "term > 0 {"},
	{file: "member/snapshot.go", test: "TestInstallInterrupted",
		old: "\t\tlog.SetPosition(base.Position)\n",
		new: ""},
	// A member counts as one that has what was never proposed.
	{file: "member/status.go", test: "TestWaits",
		old: "if known || lsn > m.journal.Durable() {",
		new: "if !known && lsn > m.journal.Durable() {"},

	// Runs of a stream leave memory that the data file does not have yet.
	{file: "storage/streamruns.go", test: "TestRunsWaitForTheirBatch",
		old: "return !h.s.checkpointer.copying.has(o.id)",
		new: "return true"},
	{file: "storage/streamruns.go", test: "TestAbsentRuns",
		old: "!o.side.changed.touches(first, last) && ",
		new: ""},
	{file: "storage/streamruns.go", test: "TestRunsWaitForTheirBatch",
		old: " && !o.side.frozen.touches(first, last)",
		new: ""},
	// A run that was read beside others takes the place of one that has changed.
	{file: "storage/object/streamaccess.go", test: "TestReadBesideChanges",
		old: "if i < 0 || s.runs[i] != r.of || !r.of.absent() {",
		new: "if i < 0 {"},
	// A run of which entries are missing on disk is believed.
	{file: "storage/object/streamaccess.go", test: "TestDamagedRun",
		old: "case in == nil || in.live != r.live:",
		new: "case in == nil:"},
	// A replayed entry that the file has already is deleted from it, with the run that it stands in.
	{file: "storage/object/streamelem.go", test: "TestTrimmedReplay", in: "storage",
		old: "in := s.own(r) // the caller's",
		new: "in := s.entries(r) // the caller's"},
	// A value that is renamed before it is copied leaves an older one on disk under its key.
	{file: "storage/copy.go", test: "TestRenameBeforeItIsCopied",
		old: "if r.stale && !r.p.dead {",
		new: "if false {"},
	// The first segment is removed before there is another one.
	{file: "storage/wal/cut.go", test: "TestFirstSegmentStays",
		old: " || r.wholeIn < 0 && r.known",
		new: ""},
	// Who reads what is gone replies an error.
	{file: "storage/streamruns.go", test: "TestReaderOfRunsThatAreGone",
		old: "&& t.Offloaded() && !t.validate()",
		new: "&& false"},

	// A follower goes by its own clock.
	{file: "storage/guard.go", test: "TestGroupTimeFollower",
		old: "if s.follows() {\n\t\treturn s.sentTime()",
		new: "if false {\n\t\treturn s.sentTime()"},
	// What a follower has hidden by a guess stays hidden.
	{file: "storage/grouptime.go", test: "TestGroupTimeStarts",
		old: "\t\t\t\tp.unhideDue(was)\n",
		new: ""},
	{file: "storage/grouptime.go", test: "TestGroupTimeStarts",
		old: "if g.ahead.Swap(ahead) && ahead {",
		new: "if g.ahead.Swap(ahead) && ahead && false {"},
	// A new leader goes by its own clock, if that is ahead, or behind.
	{file: "storage/guard.go", test: "TestGroupTimeLeads",
		old: "max(by, -by) > g.tolerance()",
		new: "-by > g.tolerance()"},
	{file: "storage/guard.go", test: "TestGroupTimeLeads",
		old: "max(by, -by) > g.tolerance()",
		new: "by > g.tolerance()"},
	// A guard ends although another member's clock agrees with the group's time.
	{file: "storage/guard.go", test: "TestGroupTimeGuard",
		old: " || g.held.Load() && g.patience.Load() > 0)",
		new: ")"},
	// A group's time goes back with its leader's clock.
	{file: "storage/guard.go", test: "TestGroupTimeSetBack",
		old: "if g.s.options.Member && ahead < 0 && ",
		new: "if false && "},
	// Who is deposed goes by its own clock until it hears the leader.
	{file: "storage/follower.go", test: "TestGroupTimeSetBack",
		old: "\t\ts.beginFollowing(t.now)\n",
		new: ""},
	// Heartbeats have the sender's wall clock.
	{file: "consensus/time.go", in: "member", test: "TestClocksApart",
		old: "\t\treturn g.o.Time.Now()\n",
		new: "\t\treturn g.o.Clock.Now()\n"},
	// A late heartbeat counts.
	{file: "consensus/time.go", test: "TestTimeOfMessages",
		old: "case !p.outlives(r.GetTerm(), int64(m.Stamp)):",
		new: "case p != nil:"},
	// Nobody hears the time from those who vote.
	{file: "consensus/time.go", test: "TestTimeOfMessages",
		old: "\tif m.Time != 0 {\n\t\t\tg.o.Time.Advise(m.Time)\n",
		new: "\tif false {\n"},

	// Leases.
	// A lease is held at its deadline.
	{file: "storage/lease.go", in: "commands", test: "TestLeaseDelay",
		old: "l.Held = t.now < l.Deadline",
		new: "l.Held = t.now <= l.Deadline"},
	// The delay counts as held.
	{file: "storage/lease.go", in: "commands", test: "TestLeaseDelay",
		old: "l.Deadline = d - v.Delay",
		new: "l.Deadline = d"},
	// RELEASE leaves the lease.
	{file: "commands/keyp_lease.go", test: "TestLeaseDelay",
		old: "\t\tc.Txn.Delete(c.Keys[0], storage.Deleted)\n",
		new: ""},
	// A lease lasts so long that a delay does not fit behind it.
	{file: "commands/keyp_lease.go", test: "TestLeaseArguments",
		old: "if err == nil && deadline > math.MaxInt64-object.MaxDelay {",
		new: "if err == nil && deadline == math.MaxInt64 {"},
	// A new leader forgets what the one before has reserved.
	{file: "storage/lease.go", test: "TestMirror",
		old: "\t\tl.passReservation(t, r.key)\n\t}\n}\n\n// raise",
		new: "\t\t_ = r\n\t}\n}\n\n// raise"},
	// A restore passes over the tokens of the time since the backup only, by a clock that may be wrong.
	{file: "storage/lease.go", test: "TestRestoreRaisesTokens",
		old: "min(l.last.Load()+since+restoredTokens, maxTokenFromOutside)",
		new: "min(l.last.Load()+since, maxTokenFromOutside)"},
	// What it passes over is not written.
	{file: "storage/lease.go", test: "TestRestoreRaisesTokens",
		old: "\tt.SetString(r.key, strconv.AppendUint(nil, r.upTo, 10), ttl.None, Event{})\n\tl.last",
		new: "\tl.last"},
	// An owner has no name.
	{file: "storage/object/lease.go", test: "TestLease",
		old: " && len(l.Owner) > 0 && ",
		new: " && "},
	// A copy shares the name of its owner.
	{file: "storage/object/lease.go", test: "TestLease",
		old: "Owner: bytes.Clone(l.Owner), Token: l.Token, Delay: l.Delay}",
		new: "Owner: l.Owner, Token: l.Token, Delay: l.Delay}"},
	// INFO does not know since when somebody waits.
	{file: "commands/keyp_lease.go", in: "server", test: "TestLeaseInOrder",
		old: "c.Wait.Who, c.Wait.Since = string(r.owner), now",
		new: "c.Wait.Who = string(r.owner)"},
	// WAIT has no end.
	{file: "commands/keyp_lease.go", in: "server", test: "TestLeaseInOrder",
		old: "c.block(c.Keys, object.None, r.wait)",
		new: "c.block(c.Keys, object.None, 0*r.wait)"},
	// When the last of an owner leaves, those that come then are not found.
	{file: "commands/waiters.go", test: "TestLeaseOwnerWaitsOften",
		old: "\t\town.last = p.prevOwn\n",
		new: "\t\t_ = own\n"},
	// An owner of whom nobody waits any more is still there.
	{file: "commands/waiters.go", test: "TestLeaseOwnerWaitsOften",
		old: "\t\tdelete(p.at.owners, p.by.who)\n",
		new: "\t\t_ = p\n"},
	// RENEW does not end a transaction.
	{file: "commands/keyp_lease.go", test: "TestLeaseEnds",
		old: "Arity: 5, Flags: Write | Fast | guards,",
		new: "Arity: 5, Flags: Write | Fast,"},
	// A lease that is granted does not move with guarded time.
	{file: "storage/lease.go", in: "commands", test: "TestClockConfirmOfCommands",
		old: "\tt.Relative(deadline + delay)\n",
		new: ""},
	// One that is extended does not.
	{file: "storage/lease.go", in: "commands", test: "TestClockConfirmOfCommands",
		old: "\tt.Relative(deadline)\n",
		new: ""},
	// A delay is longer than the longest one.
	{file: "commands/keyp_lease.go", test: "TestLeaseArguments",
		old: "r.delay > object.MaxDelay {",
		new: "r.delay > object.MaxDelay+1 {"},
	// An owner has its lease again in its delay.
	{file: "commands/keyp_lease.go", test: "TestLeaseDelay",
		old: "case there && l.Held && bytes.Equal(l.Owner, r.owner):",
		new: "case there && bytes.Equal(l.Owner, r.owner):"},
	// RELEASE raises no event.
	{file: "commands/keyp_lease.go", test: "TestLeaseEvents",
		old: "\t\tc.Txn.Notify(c.Keys[0], eventLeaseRelease)\n",
		new: ""},
	// A restored lease has the token that it had elsewhere.
	{file: "storage/rename.go", in: "commands", test: "TestLeaseDump",
		old: "t.install(k, t.arriving(k, v), deadline,",
		new: "t.install(k, v, deadline,"},
	// A renamed one has the token of before, also where only a link to it is written.
	{file: "storage/rename.go", in: "commands", test: "TestLeaseKeys",
		old: "ownValue(t.arriving(to, o.val)) // before",
		new: "ownValue(o.val) // before"},
	{file: "storage/rename.go", in: "commands", test: "TestLeaseKeys",
		old: "(o.val.Type() == object.TypeLease || t.s.options.Member):",
		new: "t.s.options.Member:"},
	// A copied one has the token of the other.
	{file: "storage/rename.go", in: "commands", test: "TestLeaseKeys",
		old: "t.install(to, t.arriving(to, p.objectOf(*c).val.Clone()), deadline,",
		new: "t.install(to, p.objectOf(*c).val.Clone(), deadline,"},

	// Delay queues.
	// A job that is added comes before others that are due at once with it.
	{file: "storage/delay.go", in: "commands", test: "TestDelay",
		old: "Number: v.NextNumber(), Payload: payload}",
		new: "Number: 1, Payload: payload}"},
	// NX replaces a job.
	{file: "commands/keyp_delay.go", test: "TestDelayChanges",
		old: "\tif nx {\n",
		new: "\tif nx && due < 0 {\n"},
	// EXTEND counts from when the job is due.
	{file: "commands/keyp_delay.go", test: "TestDelayChanges",
		old: "q.Extend(j, c.Txn.Now()+ms)",
		new: "q.Extend(j, j.Due+ms)"},
	// What is due at this instant does not count.
	{file: "storage/object/delay.go", in: "storage/object", test: "TestDelayQueue",
		old: "JobPlace{Due: now + 1}",
		new: "JobPlace{Due: now}"},
	// A range goes beyond its end.
	{file: "commands/keyp_delay.go", test: "TestDelayRange",
		old: "j.Due == to.Due && j.Number >= to.Number {",
		new: "j.Due == to.Due && j.Number > to.Number {"},
	// It has one job more than COUNT.
	{file: "commands/keyp_delay.go", test: "TestDelayRange",
		old: "return int64(len(jobs)) < count",
		new: "return int64(len(jobs)) <= count"},
	// A call delivers any number of bytes.
	{file: "commands/keyp_delay.go", test: "TestDelayLargePayloads",
		old: " && size < largeStore",
		new: ""},
	// A range of large jobs keeps the loop busy.
	{file: "commands/keyp_delay.go", test: "TestDelayLargePayloads",
		old: "if c.offloads(size, largeValue) {",
		new: "if c.offloads(0*size, largeValue) {"},
	// The numbers of a copy begin again.
	{file: "storage/object/delay.go", in: "storage/object", test: "TestDelayQueue",
		old: "\tto.delivered, to.next = q.delivered, q.next\n",
		new: "\tto.delivered = q.delivered\n"},
	// A restored job has the number that it had elsewhere.
	{file: "storage/object/delay.go", in: "storage/object", test: "TestDelayRestoreBounds",
		old: "\tj.Number = q.next\n",
		new: ""},
	// The dead letters go to the queue itself.
	{file: "commands/keyp_delay.go", test: "TestDelayDeadLetters",
		old: "\tcase c.Keys[0].DB == c.Keys[1].DB && bytes.Equal(c.Keys[0].Name, c.Keys[1].Name):\n\t\treturn errJobLetterKey\n",
		new: ""},
	// Or to a stream that can take no more.
	{file: "commands/keyp_delay.go", test: "TestDelayDeadLetters",
		old: "err == nil && d.stream.Value().LastID() == object.MaxStreamID {",
		new: "err == nil && d.stream.Value().LastID() == (object.StreamID{}) && d.most < 0 {"},
	// A job is due behind the last instant.
	{file: "commands/keyp_delay.go", test: "TestDelayArguments",
		old: "if ms += now; ms > object.MaxJobDue {",
		new: "if ms += now; ms < 0 {"},
	// A time is longer than the longest one.
	{file: "commands/keyp_delay.go", test: "TestDelayArguments",
		old: "\tif ms > object.MaxDelay {\n\t\ta.Fail(errJobTime)",
		new: "\tif ms < 0 {\n\t\ta.Fail(errJobTime)"},
	// Who waits for a job waits for the dead letters, too.
	{file: "commands/keyp_delay.go", test: "TestDelayLooks",
		old: "c.block(c.Keys[:1], object.TypeDelay, p.timeout)",
		new: "c.block(c.Keys, object.TypeDelay, p.timeout)"},
	// Receipts come again.
	{file: "storage/delay.go", in: "commands", test: "TestDelayModel",
		old: "receipt = q.t.nextToken(q.k)",
		new: "receipt = j.Deliveries + 1"},
	// BLOCK has no end.
	{file: "commands/keyp_delay.go", in: "server", test: "TestDelayInOrder",
		old: "p.block, p.timeout = true, a.IntFrom(0, errJobBlock)",
		new: "p.block, p.timeout = true, 0*a.IntFrom(0, errJobBlock)"},
	// A dead letter raises no event of its stream.
	{file: "commands/keyp_delay.go", in: "commands", test: "TestDelayEvents",
		old: "\tc.Txn.Notify(c.Keys[1], eventXAdd)\n",
		new: ""},
	// A job is loaded whose number of deliveries is already the largest there is.
	{file: "storage/object/delay.go", in: "storage/object", test: "TestDelayElements",
		old: "return j, j.Number < maxJobNumber && j.Deliveries < maxJobNumber",
		new: "return j, j.Number <= maxJobNumber && j.Deliveries <= maxJobNumber"},
	// ACK of several receipts replies 1.
	{file: "commands/keyp_delay.go", test: "TestDelay",
		old: "\t\t\tdone++\n",
		new: "\t\t\tdone = 1\n"},

	// Streams whose entries age.
	// XCFGSET with the same age leaves what is said about groups.
	{file: "storage/object/streamage.go", in: "commands", test: "TestMaxAgeIsListed",
		old: "age == ms && (old == refs || ms == 0) {",
		new: "age == ms && old != 0 {"},
	// An age is not in the log.
	{file: "storage/object/streamage.go", in: "commands", test: "TestXCfgSetMaxAge",
		old: "\ts.metaChanged(was, changed)\n",
		new: "\t_ = was\n"},
	// What is known about acknowledged entries is forgotten in the wrong direction.
	{file: "storage/object/streamage.go", in: "commands", test: "TestMaxAgeGroupSetBack",
		old: "if a := s.meta.aging; a != nil && id.Compare(a.from) < 0 {\n\t\ta.from = id",
		new: "if a := s.meta.aging; a != nil && id.Compare(a.from) > 0 {\n\t\ta.from = id"},
	// An entry that a group has not read goes.
	{file: "storage/object/streamage.go", in: "commands", test: "TestMaxAgeProperty",
		old: "s.dueIn(a.from, s.readByAll(), func",
		new: "s.dueIn(a.from, MaxStreamID, func"},
	// The reaper removes any number of entries at a time: of those that groups have acknowledged, and of others.
	{file: "storage/object/streamage.go", in: "storage", test: "TestReaperRemovesEntries",
		old: "for n = count; refs == AckedRefs && n < limit; n++ {",
		new: "for n = count; refs == AckedRefs; n++ {"},
	{file: "storage/object/streamage.go", in: "storage", test: "TestReaperRemovesEntries",
		old: "\tmost := limit\n",
		new: "\tmost := math.MaxInt\n"},
	// Pages from the disk do not know the age.
	{file: "storage/object/streamage.go", in: "commands", test: "TestMaxAgeIsListed",
		old: "\t\ta.s.meta, _ = parseMeta(val)\n",
		new: ""},
	// An entry that is pending again is passed over when it is acknowledged.
	{file: "storage/object/streamage.go", in: "commands", test: "TestMaxAgeProperty",
		old: "if a.from = e.ID; !ok {\n\t\t\ta.from, _ = e.ID.Next()\n\t\t}",
		new: "a.from, _ = e.ID.Next()"},
	// Outboxes have no entries about what ages.
	{file: "storage/stream.go", test: "TestFollowerHidesEntries",
		old: "\t\t\tif rules != nil {\n",
		new: "\t\t\tif rules != nil && own {\n"},
	// A policy gives its age only to streams that are made.
	{file: "storage/collection.go", in: "commands", test: "TestPolicyMaxAge",
		old: "\t\tt.agePresent(w.k)\n",
		new: ""},
	// APPLY does not count a stream that has got an age.
	{file: "storage/policy.go", in: "commands", test: "TestPolicyMaxAge",
		old: "return v.Changed() || aged",
		new: "return v.Changed() || aged && v.Refused"},
	// MAXAGE 0 leaves the age.
	{file: "commands/stream_set.go", test: "TestXCfgSetMaxAge",
		old: "\tif set.age >= 0 {\n",
		new: "\tif set.age > 0 {\n"},
}
