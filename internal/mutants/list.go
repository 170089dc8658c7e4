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
		old: "t.changeDeadline(p, sl, c, k, deadline+by, ",
		new: "t.changeDeadline(p, sl, c, k, deadline, "},
	// Those of elements do not.
	{file: "storage/guardnotes.go", test: "TestClockConfirm",
		old: "return h.SetDeadline(elem, deadline+by)",
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
		old: "if guarded && !back {",
		new: "if guarded {"},
	// Time moves in one batch, and deadlines in another.
	{file: "storage/guard.go", test: "TestClockConfirmInterrupted",
		old: "\tt.dropNotes()\n\t//",
		new: "\tt.End()\n\t_ = s.log.Commit()\n\ts.BeginAll(t)\n\tt.dropNotes()\n\t//"},
	// A start does not know the time from before.
	{file: "storage/guard.go", test: "TestClockGuardAtStart",
		old: "\t\tg.mu.lead = found.lead\n",
		new: "\t\tg.mu.lead = wall - boot\n"},
	// It takes a restart of the machine for one of the server.
	{file: "storage/guard.go", test: "TestClockGuardAtStart",
		old: "same := found.boot != 0 && found.boot == s.clock.BootID()",
		new: "same := found.boot != 0"},
	// A guard ends with a restart of the machine.
	{file: "storage/guard.go", test: "TestClockGuardAtStart",
		old: "\tcase found.since != 0:\n\t\tg.mu.lead = max(found.at, s.instant.Load()) - boot\n",
		new: ""},
	// Notes of a guard that the record does not know are kept.
	{file: "storage/guard.go", test: "TestClockGuardNotesOfNoGuard",
		old: "if g.s.options.ReadOnly || g.since.Load() != 0 {",
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
		old: "\t\t\tt.countQueue(r, &r.queues[i])\n",
		new: ""},
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
		old: "\t\tl.last.Store(max(l.last.Load(), n))\n",
		new: "\t\t_ = n\n"},
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
	// A new key of limits outlives them.
	{file: "storage/limit.go", in: "commands", test: "TestLimitTokens",
		old: "l.o = t.install(l.k, l.made, at,",
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
}
