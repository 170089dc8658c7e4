package commands

import (
	"bytes"
	"strconv"

	"keyp/storage"
	"keyp/storage/object"
)

// keypDelayCommands are the commands of delay queues. A delay queue keeps jobs until they are due
// (storage/object/delay.go). Clients that wait for a job wait as those of BLPOP do (Waiters).
var keypDelayCommands = []Spec{{
	Name: "KEYP.DELAY", Group: KeypGroup, Since: "0.1.0", Arity: -2,
	Summary:    "Keeps jobs until they are due, and delivers each until it is acknowledged.",
	Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "ADD", Group: KeypGroup, Since: "0.1.0", Arity: -6, Flags: Write | DenyOOM | Fast,
			Summary:    "Adds a job that is due at an instant, or replaces the one with its id.",
			Complexity: complexityJob,
			Keys:       []KeySpec{Key(2, RW|Update)},
			Args: []Arg{keyArg("key"), stringArg("id"), dueArg, stringArg("payload"),
				word("NX").opt()},
			Run: addJob,
		},
		{
			Name: "POP", Group: KeypGroup, Since: "0.1.0", Arity: -3,
			Flags:      Write | restates | Blocking,
			Summary:    "Delivers jobs that are due, or waits for one; each is due again after a time, unless it is acknowledged.",
			Complexity: "O(M*log(N)) where N is the number of jobs and M how many are delivered, or go to the dead letters.",
			Keys:       []KeySpec{Key(2, RW|Access|Delete), deadLetterKey(3)},
			Args: []Arg{
				keyArg("key"), intArg("count").after("COUNT").opt(),
				intArg("wait").after("BLOCK").opt(),
				oneOf("delivery", intArg("visibility").after("VISIBILITY"), word("NOACK")),
				deadLettersArg,
			},
			Run: popJobs,
		},
		{
			Name: "ACK", Group: KeypGroup, Since: "0.1.0", Arity: -4, Flags: Write | Fast,
			Summary:    "Removes jobs that are done, by the receipts of their last deliveries.",
			Complexity: complexityJobs,
			Keys:       []KeySpec{Key(2, RW|Delete)},
			Args:       []Arg{keyArg("key"), stringArg("receipt").many()},
			Run:        ackJobs,
		},
		{
			Name: "EXTEND", Group: KeypGroup, Since: "0.1.0", Arity: 5,
			Flags:      Write | restates | Fast,
			Summary:    "Changes when a delivered job is due again: so long from now.",
			Complexity: complexityJob,
			Keys:       []KeySpec{Key(2, RW|Update)},
			Args:       []Arg{keyArg("key"), stringArg("receipt"), intArg("milliseconds")},
			Run:        extendJob,
		},
		{
			Name: "NACK", Group: KeypGroup, Since: "0.1.0", Arity: -4,
			Flags:      Write | restates | Fast,
			Summary:    "Gives a failed job back: it is due again at once, or after a delay.",
			Complexity: complexityJob,
			Keys:       []KeySpec{Key(2, RW|Delete), deadLetterKey(4)},
			Args: []Arg{keyArg("key"), stringArg("receipt"), intArg("delay").after("DELAY").opt(),
				deadLettersArg},
			Run: nackJob,
		},
		{
			Name: "CANCEL", Group: KeypGroup, Since: "0.1.0", Arity: -4, Flags: Write | Fast,
			Summary: "Removes jobs by their ids.", Complexity: complexityJobs,
			Keys: []KeySpec{Key(2, RW|Delete)},
			Args: []Arg{keyArg("key"), stringArg("id").many()},
			Run:  cancelJobs,
		},
		{
			Name: "RESCHEDULE", Group: KeypGroup, Since: "0.1.0", Arity: 5,
			Flags:      Write | restates | Fast,
			Summary:    "Changes when a job is due; the receipt of its delivery becomes invalid.",
			Complexity: complexityJob,
			Keys:       []KeySpec{Key(2, RW|Update)},
			Args:       []Arg{keyArg("key"), stringArg("id"), dueArg},
			Run:        rescheduleJob,
		},
		{
			Name: "LEN", Group: KeypGroup, Since: "0.1.0", Arity: 3, Flags: ReadOnly | Fast,
			Summary:    "Replies how many jobs a queue has, delivered ones included.",
			Complexity: "O(1)",
			Keys:       []KeySpec{Key(2, RO)},
			Args:       []Arg{keyArg("key")},
			Run:        countJobs,
		},
		{
			Name: "INFO", Group: KeypGroup, Since: "0.1.0", Arity: 3, Flags: ReadOnly,
			Summary:    "Shows how many jobs of a queue are due or worked on, when the first and the last are due, and who waits.",
			Complexity: "O(log(N)+M) where N is the number of jobs and M how many clients wait.",
			Keys:       []KeySpec{Key(2, RO|Access)},
			Args:       []Arg{keyArg("key")},
			Run:        delayInfo,
		},
		{
			Name: "RANGE", Group: KeypGroup, Since: "0.1.0", Arity: -5, Flags: ReadOnly,
			Summary:    "Lists jobs in the order in which they are due, some with each call.",
			Complexity: "O(log(N)+M) where N is the number of jobs and M is COUNT.",
			Keys:       []KeySpec{Key(2, RO|Access)},
			Args: []Arg{keyArg("key"), stringArg("start"), stringArg("end"),
				intArg("count").after("COUNT").opt()},
			Run: rangeJobs,
		},
		helpFor("KEYP.DELAY", KeypGroup, "0.1.0", Loading|Stale,
			"ADD <key> <id> <due> <payload> [NX]",
			"    Add a job that is due at an instant: Unix milliseconds, or + and a time from now.",
			"    The reply is 1, or 0 if a job has the id: it is replaced, or with NX stays.",
			"    Times are milliseconds, or have a unit: 500ms, 30s, 10m, 2h, 7d.",
			"POP <key> [COUNT <n>] [BLOCK <time>] VISIBILITY <time>|NOACK [MAXDELIVERIES <n> DEADLETTER <key>]",
			"    Deliver jobs that are due, fewer than COUNT once they have 1 MiB: id, payload, receipt and number of deliveries of each.",
			"    They are due again after VISIBILITY, unless they are acknowledged; with NOACK they are removed.",
			"    Jobs that have been delivered MAXDELIVERIES times go to the stream DEADLETTER instead.",
			"ACK <key> <receipt> [<receipt> ...]",
			"    Remove jobs that are done; reply how many of the receipts were valid.",
			"EXTEND <key> <receipt> <time>", "    Have a job be due again so long from now.",
			"NACK <key> <receipt> [DELAY <time>] [MAXDELIVERIES <n> DEADLETTER <key>]",
			"    Give a job back.",
			"CANCEL <key> <id> [<id> ...]", "    Remove jobs; reply how many there were.",
			"RESCHEDULE <key> <id> <due>", "    Have a job be due at another instant.",
			"LEN <key>", "    Count the jobs.",
			"INFO <key>", "    Show what state the queue is in.",
			"RANGE <key> <start> <end> [COUNT <n>]",
			"    List jobs: place, id, due time, deliveries, receipt if somebody has it, and payload.",
			"    start and end are -, +, Unix milliseconds or a place; a ( excludes the place, to go on behind it."),
	},
}}

const (
	complexityJob  = "O(log(N)) where N is the number of jobs."
	complexityJobs = "O(M*log(N)) where N is the number of jobs and M how many are named."
)

var (
	dueArg = stringArg("due")

	deadLettersArg = block("dead-letters",
		intArg("deliveries").after("MAXDELIVERIES"),
		keyArg("stream").after("DEADLETTER").of(2)).opt()
)

var (
	eventDelayAdd        = storage.Event{Class: storage.EventModule, Name: "delay.add"}
	eventDelayPop        = storage.Event{Class: storage.EventModule, Name: "delay.pop"}
	eventDelayAck        = storage.Event{Class: storage.EventModule, Name: "delay.ack"}
	eventDelayExtend     = storage.Event{Class: storage.EventModule, Name: "delay.extend"}
	eventDelayNack       = storage.Event{Class: storage.EventModule, Name: "delay.nack"}
	eventDelayCancel     = storage.Event{Class: storage.EventModule, Name: "delay.cancel"}
	eventDelayReschedule = storage.Event{Class: storage.EventModule, Name: "delay.reschedule"}
	eventDelayDead       = storage.Event{Class: storage.EventModule, Name: "delay.dead"}
)

const (
	errJobID         Error = "ERR the id of a job has 1 to 512 bytes"
	errJobDue        Error = "ERR due is in Unix milliseconds, up to 281474976710655, or + and a time from now, such as +60000 or +1m"
	errJobTime       Error = "ERR VISIBILITY, DELAY and the time of EXTEND are between 0 and 31622400000 milliseconds, or have a unit, such as 30s"
	errJobCount      Error = "ERR COUNT is between 1 and 1000"
	errJobBlock      Error = "ERR BLOCK is 0 or more milliseconds, or has a unit, such as 5s"
	errJobDelivery   Error = "ERR POP needs VISIBILITY or NOACK"
	errJobDeliveries Error = "ERR MAXDELIVERIES is between 1 and 1000000"
	errJobLetters    Error = "ERR MAXDELIVERIES and DEADLETTER need each other"
	errJobLetterKey  Error = "ERR the dead letters of a queue are another key"
	errJobPlace      Error = "ERR start and end are -, +, Unix milliseconds or the place of a job"
)

const (
	// maxJobs bounds how many jobs a command delivers, or lists.
	maxJobs = 1000
	// maxDeadJobs bounds how many jobs go to the dead letters at a time.
	maxDeadJobs = 1000
	// maxDeliveries bounds MAXDELIVERIES.
	maxDeliveries = 1_000_000
	// jobsLook is the maximum time in ms after which a waiting client checks whether a job is
	// due. A timer is not enough: if the clock is set forward, jobs are due before the timer
	// ends.
	jobsLook = 5000
)

// deadLetterKey describes the key after DEADLETTER, among the options that begin at argument begin.
func deadLetterKey(begin int) KeySpec {
	return KeySpec{Flags: RW | Update, Begin: begin, Word: "DEADLETTER",
		Find: func(args [][]byte) (first, last int) {
			for i := begin; i+1 < len(args); i++ {
				switch {
				case isWord(args[i], "DEADLETTER"):
					return i + 1, i + 1
				case !isWord(args[i], "NOACK"):
					i++
				}
			}
			return noArgument(nil)
		}}
}

// jobTime takes a time in milliseconds.
func (a *Cursor) jobTime() int64 {
	ms := a.Duration(0, errJobTime)
	if ms > object.MaxDelay {
		a.Fail(errJobTime)
	}
	return ms
}

func (a *Cursor) jobID() []byte {
	id := a.Bytes()
	if len(id) == 0 || len(id) > object.MaxJobID {
		a.Fail(errJobID)
	}
	return id
}

// oldestInstant is the beginning of 2001 in Unix ms. A smaller number, except 0 (at once), is a
// mistake: a time from now, or a time in seconds.
const oldestInstant = 978_307_200_000

// jobDueIsOld returns the error for a due time before oldestInstant. It suggests the time that was
// probably meant.
func jobDueIsOld(ms int64) error {
	n := strconv.FormatInt(ms, 10)
	meant := "+" + n
	if ms >= oldestInstant/1000 && ms <= object.MaxJobDue/1000 { // seconds
		meant = n + "000"
	}
	return Error("ERR due is in Unix milliseconds, and " + n + " is before 2001; did you mean " +
		meant + "?")
}

// jobDue takes the instant at which a job is due, and returns it in Unix ms.
func (a *Cursor) jobDue(now int64) int64 {
	b := a.Bytes()
	after, fromNow := bytes.CutPrefix(b, []byte("+"))
	ms, ok := ParseInt(after)
	if fromNow {
		ms, ok = parseDuration(after)
	}
	switch {
	case !ok || ms < 0 || ms > object.MaxJobDue:
		a.Fail(errJobDue)
		return 0
	case !fromNow && ms != 0 && ms < oldestInstant: // 0: at once
		a.Fail(jobDueIsOld(ms))
		return 0
	}
	if fromNow {
		if ms += now; ms > object.MaxJobDue {
			a.Fail(errJobDue)
		}
	}
	return ms
}

func addJob(c *Ctx) error {
	a := options{Cursor: c.Cursor(3)}
	id, due, payload := a.jobID(), a.jobDue(c.Txn.Now()), a.Bytes()
	nx := a.option("NX", 0)
	a.end()
	if err := a.Err(); err != nil {
		return err
	}
	q, err := c.Txn.DelayQueue(c.Keys[0])
	if err != nil {
		return err
	}
	if nx {
		if _, there := q.Value().Job(id); there {
			c.bit(false)
			return nil
		}
	}
	c.bit(q.Add(id, due, payload))
	c.Txn.Notify(c.Keys[0], eventDelayAdd)
	return nil
}

// deadLetters describes the stream to which jobs go after the maximum number of deliveries.
type deadLetters struct {
	most   int64 // 0: there is no such place
	named  bool  // DEADLETTER was given
	stream storage.Stream
}

// option takes an option about dead letters, if the next argument is one.
func (d *deadLetters) option(a *options) bool {
	switch {
	case a.option("MAXDELIVERIES", 1):
		if d.most = a.IntFrom(1, errJobDeliveries); d.most > maxDeliveries {
			a.Fail(errJobDeliveries)
		}
	case a.option("DEADLETTER", 1):
		a.Bytes()
		d.named = true
	default:
		return false
	}
	return true
}

// open opens the stream, which is the command's second key.
func (d *deadLetters) open(c *Ctx) (err error) {
	switch {
	case d.named != (d.most > 0):
		return errJobLetters
	case !d.named:
		return nil
	case c.Keys[0].DB == c.Keys[1].DB && bytes.Equal(c.Keys[0].Name, c.Keys[1].Name):
		return errJobLetterKey
	}
	if d.stream, err = c.Txn.Stream(c.Keys[1]); err == nil &&
		d.stream.Value().LastID() == object.MaxStreamID {
		err = errAddFull
	}
	return err
}

// takes reports whether a job has had the maximum number of deliveries.
func (d *deadLetters) takes(j object.Job) bool {
	return d.most > 0 && j.Deliveries >= uint64(d.most)
}

// bury moves a job to the dead letters, with the time at which it would have been due. It returns
// false if the stream has no more ids.
func (c *Ctx) bury(d *deadLetters, q *storage.DelayQueue, j object.Job) bool {
	id, err := (&streamAdd{}).next(d.stream.Value().LastID(), c.Txn.Now())
	if err != nil {
		return false
	}
	d.stream.Add(id, [][]byte{
		[]byte("id"), j.ID, []byte("payload"), j.Payload, []byte("queue"), c.Keys[0].Name,
		[]byte("deliveries"), strconv.AppendUint(nil, j.Deliveries, 10), []byte("due"),
		strconv.AppendInt(nil, j.Due, 10),
	})
	c.Txn.Notify(c.Keys[1], eventXAdd)
	q.Remove(j.ID)
	c.Txn.Notify(c.Keys[0], eventDelayDead)
	return true
}

// appendReceipt appends a receipt: a number that no delivery of any job ever had, a dash, and the
// id of the job.
func appendReceipt(b []byte, receipt uint64, id []byte) []byte {
	return append(append(strconv.AppendUint(b, receipt, 10), '-'), id...)
}

// holding returns the job whose last delivery has a receipt. It returns false if there is no such
// job.
func holding(q *storage.DelayQueue, receipt []byte) (object.Job, bool) {
	number, id, ok := bytes.Cut(receipt, []byte("-"))
	n, valid := ParseUint(number)
	if !ok || !valid || n == 0 {
		return object.Job{}, false
	}
	j, ok := q.Value().Job(id)
	return j, ok && j.Receipt == n
}

func ackJobs(c *Ctx) error {
	q, err := c.Txn.DelayQueue(c.Keys[0])
	if err != nil {
		return err
	}
	done := 0
	for _, receipt := range c.Args[3:] {
		if j, ok := holding(&q, receipt); ok {
			q.Remove(j.ID)
			done++
		}
	}
	c.endJobs(done, eventDelayAck)
	return nil
}

// endJobs replies with the number of removed jobs, and raises the event if there are any.
func (c *Ctx) endJobs(n int, ev storage.Event) {
	if n > 0 {
		c.Txn.Notify(c.Keys[0], ev)
	}
	c.Out.Int(int64(n))
}

func extendJob(c *Ctx) error {
	a := c.Cursor(3)
	receipt, ms := a.Bytes(), a.jobTime()
	if err := a.Err(); err != nil {
		return err
	}
	q, err := c.Txn.DelayQueue(c.Keys[0])
	if err != nil {
		return err
	}
	j, ok := holding(&q, receipt)
	if ok {
		q.Extend(j, c.Txn.Now()+ms)
		c.Txn.Notify(c.Keys[0], eventDelayExtend)
	}
	c.bit(ok)
	return nil
}

func nackJob(c *Ctx) error {
	var dead deadLetters
	delay := int64(0)
	a := options{Cursor: c.Cursor(3)}
	receipt := a.Bytes()
	for a.More() {
		switch {
		case a.option("DELAY", 1):
			delay = a.jobTime()
		case dead.option(&a):
		default:
			a.end()
		}
	}
	if err := a.Err(); err != nil {
		return err
	}
	q, err := c.Txn.DelayQueue(c.Keys[0])
	if err == nil {
		err = dead.open(c)
	}
	if err != nil {
		return err
	}
	j, ok := holding(&q, receipt)
	if ok && !(dead.takes(j) && c.bury(&dead, &q, j)) {
		q.Reschedule(j, c.Txn.Now()+delay)
		c.Txn.Notify(c.Keys[0], eventDelayNack)
	}
	c.bit(ok)
	return nil
}

func cancelJobs(c *Ctx) error {
	q, err := c.Txn.DelayQueue(c.Keys[0])
	if err != nil {
		return err
	}
	n := 0
	for _, id := range c.Args[3:] {
		if q.Remove(id) {
			n++
		}
	}
	c.endJobs(n, eventDelayCancel)
	return nil
}

func rescheduleJob(c *Ctx) error {
	a := c.Cursor(3)
	id, due := a.jobID(), a.jobDue(c.Txn.Now())
	if err := a.Err(); err != nil {
		return err
	}
	q, err := c.Txn.DelayQueue(c.Keys[0])
	if err != nil {
		return err
	}
	j, ok := q.Value().Job(id)
	if ok {
		q.Reschedule(j, due)
		c.Txn.Notify(c.Keys[0], eventDelayReschedule)
	}
	c.bit(ok)
	return nil
}

// readQueue opens the queue of a command that only reads.
func (c *Ctx) readQueue() (*object.DelayQueue, error) {
	q, err := c.Txn.DelayQueue(c.Keys[0])
	c.count(c.Keys[0], err != nil || q.Exists())
	return q.Value(), err
}

func countJobs(c *Ctx) error {
	q, err := c.readQueue()
	if err != nil {
		return err
	}
	c.Out.Int(int64(q.Len()))
	return nil
}

// delayInfo replies with a map.
func delayInfo(c *Ctx) error {
	q, err := c.readQueue()
	if err != nil {
		return err
	}
	first, last, _ := q.Ends()
	waiting, _ := c.Env.lines.waitingFor(c.Keys[0], object.TypeDelay, 0)
	c.Out.Map(6)
	c.intField("jobs", int64(q.Len()))
	c.intField("due", int64(q.DueBy(c.Txn.Now())))
	c.intField("delivered", int64(q.Delivered()))
	c.intField("first", first.Due)
	c.intField("last", last.Due)
	c.intField("waiting", int64(waiting))
	return nil
}

// jobPlace parses an end of a range. It returns the first place in the range. With behind it
// returns the first place after the range.
func jobPlace(b []byte, behind bool) (at object.JobPlace, ok bool) {
	switch string(b) {
	case "-":
		return at, true
	case "+":
		return object.JobPlace{Due: object.MaxJobDue + 1}, true
	}
	rest, excluded := bytes.CutPrefix(b, []byte("("))
	due, number, numbered := bytes.Cut(rest, []byte("-"))
	ms, ok := ParseInt(due)
	if !ok || ms < 0 || ms > object.MaxJobDue {
		return at, false
	}
	at.Due = ms
	if numbered {
		if at.Number, ok = ParseUint(number); !ok {
			return at, false
		}
	}
	if behind != excluded { // the place that follows
		if !numbered || at.Number+1 == 0 {
			return object.JobPlace{Due: at.Due + 1}, true
		}
		at.Number++
	}
	return at, true
}

func rangeJobs(c *Ctx) error {
	a := options{Cursor: c.Cursor(3)}
	from, ok := jobPlace(a.Bytes(), false)
	to, valid := jobPlace(a.Bytes(), true)
	if !ok || !valid {
		a.Fail(errJobPlace)
	}
	count := int64(100)
	if a.option("COUNT", 1) {
		if count = a.IntFrom(1, errJobCount); count > maxJobs {
			a.Fail(errJobCount)
		}
	}
	a.end()
	if err := a.Err(); err != nil {
		return err
	}
	q, err := c.readQueue()
	if err != nil {
		return err
	}
	var jobs []object.Job
	size := 0
	q.From(from, func(j object.Job) bool {
		if j.Due > to.Due || j.Due == to.Due && j.Number >= to.Number {
			return false
		}
		jobs = append(jobs, j)
		size += len(j.Payload)
		return int64(len(jobs)) < count && size < largeStore
	})
	if c.offloads(size, largeValue) {
		return errOffload
	}
	c.Out.Array(len(jobs))
	for _, j := range jobs {
		c.Out.Array(6)
		c.Out.Bulk(strconv.AppendUint(append(strconv.AppendInt(nil, j.Due, 10), '-'), j.Number, 10))
		c.Out.Bulk(j.ID)
		c.Out.Int(j.Due)
		c.Out.Int(int64(j.Deliveries))
		if j.Receipt != 0 {
			c.Out.Bulk(appendReceipt(nil, j.Receipt, j.ID))
		} else {
			c.Out.Null()
		}
		c.Out.Bulk(j.Payload)
	}
	return nil
}
