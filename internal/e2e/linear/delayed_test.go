package linear

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// delayed is the workload of delay queues. It knows the receipts that its client has got, including
// stale ones.
type delayed struct {
	receipts [groups][groupKeys][]receipt
}

// receipt identifies one delivery.
type receipt struct {
	number int64
	job    int
}

// jobOptions are the options of commands on delay queues.
type jobOptions struct {
	job int
	due int64 // 0: ttl ms from now
	nx  bool
}

const (
	jobIDs       = 3
	receiptsMost = 6
	hourMs       = 3_600_000
)

// delivery is a job in the reply to POP. The receipt is 0 if the job was removed at once.
type delivery struct {
	receipt
	payload    string
	deliveries int64
}

// waiting is a job in the reply to RANGE.
type waiting struct {
	delivery
	due int64
}

var delayVerbs = []string{"ADD", "POP", "ACK", "NACK", "EXTEND", "CANCEL", "RESCHEDULE",
	"RANGE", "LEN", "DEL"}

func (*delayed) first() []command { return nil }

func (*delayed) last() (list []command) {
	for key := range groupKeys {
		list = append(list, command{verb: "RANGE", key: key})
	}
	return list
}

func (d *delayed) draw(c *client, group int, way string, i int) command {
	rng := c.rng
	cmd := command{key: rng.IntN(groupKeys), ttl: rng.Int64N(150)}
	cmd.job = rng.IntN(jobIDs)
	if rng.IntN(10) == 0 {
		cmd.ttl = hourMs
	}
	switch rng.IntN(25) {
	case 0, 1, 2, 3, 4, 5:
		cmd.verb, cmd.data, cmd.nx = "ADD", fmt.Sprintf("c%d.%d.%d", c.id, c.sent, i),
			rng.IntN(3) == 0
	case 6, 7, 8, 9, 10, 11, 12:
		cmd.verb, cmd.n, cmd.noAck = "POP", 1+rng.IntN(jobIDs), rng.IntN(6) == 0
	case 13, 14, 15:
		cmd.verb = "ACK"
	case 16, 17:
		cmd.verb = "NACK"
	case 18:
		cmd.verb = "EXTEND"
	case 19:
		cmd.verb = "CANCEL"
	case 20, 21:
		cmd.verb = "RESCHEDULE"
	case 22:
		cmd.verb = "LEN"
	case 23:
		cmd.verb = "DEL"
	default:
		cmd.verb = "RANGE"
	}
	switch cmd.verb {
	case "ADD", "RESCHEDULE":
		if rng.IntN(2) == 0 {
			cmd.due = time.Now().UnixMilli() + c.rec.offset() - 20 + cmd.ttl
		}
	case "ACK", "NACK", "EXTEND":
		cmd.token = 1
		if list := d.receipts[group][cmd.key]; len(list) > 0 {
			r := list[max(rng.IntN(len(list)), rng.IntN(len(list)))]
			cmd.token, cmd.job = r.number, r.job
		}
	}
	return cmd
}

func jobName(job int) string { return fmt.Sprint("j", job) }

func (*delayed) words(group int, cmd command) (words []any) {
	add := func(list ...any) { words = append(words, list...) }
	key, id, ms := keyName(group, cmd.key), jobName(cmd.job), fmt.Sprint(cmd.ttl)
	due := "+" + ms
	if cmd.due != 0 {
		due = fmt.Sprint(cmd.due)
	}
	if cmd.verb == "DEL" {
		return []any{cmd.verb, key}
	}
	add("KEYP.DELAY", cmd.verb, key)
	switch cmd.verb {
	case "ADD":
		add(id, due, cmd.data)
		if cmd.nx {
			add("NX")
		}
	case "POP":
		add("COUNT", fmt.Sprint(cmd.n))
		if cmd.noAck {
			add("NOACK")
		} else {
			add("VISIBILITY", ms)
		}
	case "ACK":
		add(fmt.Sprintf("%d-%s", cmd.token, id))
	case "NACK":
		add(fmt.Sprintf("%d-%s", cmd.token, id), "DELAY", ms)
	case "EXTEND":
		add(fmt.Sprintf("%d-%s", cmd.token, id), ms)
	case "CANCEL":
		add(id)
	case "RESCHEDULE":
		add(id, due)
	case "RANGE":
		add("-", "+")
	}
	return words
}

func (d *delayed) read(group int, cmd command, reply any) any {
	list, ok := reply.([]any)
	switch {
	case !ok:
		return reply
	case cmd.verb == "POP":
		jobs := []delivery{}
		for _, item := range list {
			parts := item.([]any)
			jobs = append(jobs, delivery{readReceipt(parts[0], parts[2]), parts[1].(string),
				parts[3].(int64)})
			if r := jobs[len(jobs)-1].receipt; r.number != 0 {
				known := &d.receipts[group][cmd.key]
				*known = append(*known, r)
				*known = (*known)[max(0, len(*known)-receiptsMost):]
			}
		}
		return jobs
	}
	jobs := []waiting{}
	for _, item := range list {
		parts := item.([]any)
		jobs = append(jobs, waiting{delivery{readReceipt(parts[1], parts[4]), parts[5].(string),
			parts[3].(int64)}, parts[2].(int64)})
	}
	return jobs
}

func readReceipt(id, text any) receipt {
	job, err := strconv.Atoi(strings.TrimPrefix(id.(string), "j"))
	number, _, _ := strings.Cut(fmt.Sprint(text), "-")
	n, err2 := strconv.ParseInt(number, 10, 64)
	if err != nil || err2 != nil && text != nil && text != false {
		panic(fmt.Sprintf("no job and receipt: %v, %v", id, text))
	}
	return receipt{n, job}
}

// TestDelaysLinearizable: clients add, take, acknowledge, give back and cancel jobs, while the
// server is killed and its clock steps. One order explains all replies, across all kills. In that
// order each job is delivered when it is due and in its turn, and only its last receipt is valid.
func TestDelaysLinearizable(t *testing.T) {
	check(t, delays)
}

var delays = trial{model: delayModel, fresh: func() workload {
	return &delayed{}
}, verbs: delayVerbs, steps: true}

// jobCell is a job. It is due between lo and hi, in Unix ms. Of jobs that are due at the same time,
// the one with the lower rank comes first.
type jobCell struct {
	there      bool
	payload    string
	lo, hi     int64
	rank       int
	deliveries int64
	// receipt is 0 if no client holds the job. It is negative if the reply with the receipt was
	// lost. The receipt is then higher than notBelow(receipt).
	receipt int64
}

// lostReceipt is the receipt of a delivery whose reply was lost.
const lostReceipt = -1

// lostAfter returns the value of a lost receipt that came after receipt last. notBelow returns that
// last receipt.
func lostAfter(last int64) int64   { return lostReceipt - last }
func notBelow(receipt int64) int64 { return lostReceipt - receipt }

// queueCell is the state of a key. last is the highest receipt in any reply.
type queueCell struct {
	jobs [jobIDs]jobCell
	last int64
}

// delayGroup is the state of a group.
type delayGroup struct {
	queues [groupKeys]queueCell
	moment
}

// delayBranch is a state in which an operation runs, at some time between from and to.
type delayBranch struct {
	delayGroup
	from, to int64
}

var delayModel = (&porcupine.NondeterministicModel{
	Partition: byGroup,
	Init:      func() []any { return []any{delayGroup{}} },
	Equal:     func(a, b any) bool { return a == b },
	Step: func(s, input, output any) (next []any) {
		for _, n := range s.(delayGroup).after(input.(call), output.(outcome)) {
			next = append(next, n)
		}
		return next
	},
	DescribeOperation: func(input, output any) string {
		return describe(&delayed{}, input.(call), output.(outcome))
	},
	DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
}).ToModel()

func (s delayGroup) after(c call, o outcome) (next []delayGroup) {
	if o.lost {
		next = append(next, s)
	}
	branches := []delayBranch{{s, s.earliest(c), c.to}}
	for i, cmd := range c.commands {
		var after []delayBranch
		for _, b := range branches {
			if o.lost {
				after = append(after, b.runLost(cmd)...)
			} else if b.run(cmd, o.replies[i]) {
				after = append(after, b)
			}
		}
		branches = slices.DeleteFunc(after, func(b delayBranch) bool { return b.from > b.to })
	}
	for _, b := range branches {
		b.moment = s.moment.next(c, b.from)
		for key := range b.queues {
			b.queues[key].order()
		}
		if !slices.Contains(next, b.delayGroup) {
			next = append(next, b.delayGroup)
		}
	}
	return next
}

// order renumbers the ranks from 1.
func (q *queueCell) order() {
	var ranks []int
	for _, j := range q.jobs {
		if j.there {
			ranks = append(ranks, j.rank)
		}
	}
	slices.Sort(ranks)
	for i := range q.jobs {
		if j := &q.jobs[i]; j.there {
			j.rank = 1 + slices.Index(ranks, j.rank)
		}
	}
}

func (q *queueCell) count() (n int64) {
	for _, j := range q.jobs {
		n += bit(j.there)
	}
	return n
}

// runLost applies a command whose reply was lost, and returns the possible states afterwards.
func (b delayBranch) runLost(cmd command) (branches []delayBranch) {
	if cmd.verb != "POP" {
		b.run(cmd, nil)
		return []delayBranch{b}
	}
	for _, order := range choices(nil, cmd.n) {
		with := b
		var jobs []delivery
		for _, job := range order {
			j := b.queues[cmd.key].jobs[job]
			jobs = append(jobs, delivery{receipt{lostReceipt, job}, j.payload, j.deliveries + 1})
		}
		if with.pop(cmd, jobs) {
			branches = append(branches, with)
		}
	}
	return branches
}

// choices returns all sequences of up to n jobs that begin with the chosen ones.
func choices(chosen []int, n int) (list [][]int) {
	list = append(list, chosen)
	for job := range jobIDs {
		if len(chosen) < n && !slices.Contains(chosen, job) {
			list = append(list, choices(append(slices.Clone(chosen), job), n)...)
		}
	}
	return list
}

// run applies a command, and returns true if the reply can be right.
func (b *delayBranch) run(cmd command, reply any) bool {
	q := &b.queues[cmd.key]
	j := &q.jobs[cmd.job]
	held := j.there && j.receipt == cmd.token
	lo, hi := b.from+cmd.ttl, b.to+cmd.ttl
	if cmd.due != 0 {
		lo, hi = cmd.due, cmd.due
	}
	switch cmd.verb {
	case "POP":
		jobs, _ := reply.([]delivery)
		return (reply == nil) == (len(jobs) == 0) && b.pop(cmd, jobs)
	case "RANGE":
		jobs, ok := reply.([]waiting)
		return ok && q.shows(jobs)
	case "LEN":
		return reply == q.count()
	case "DEL":
		ok := reply == bit(q.count() > 0)
		q.jobs = [jobIDs]jobCell{}
		return ok
	case "ADD":
		ok := reply == bit(!j.there)
		if !j.there || !cmd.nx {
			*j = jobCell{there: true, payload: cmd.data, lo: lo, hi: hi, rank: jobIDs + 1}
			q.order()
		}
		return ok
	case "CANCEL", "RESCHEDULE":
		held = j.there
	}
	ok := reply == bit(held)
	switch {
	case !held:
	case cmd.verb == "ACK" || cmd.verb == "CANCEL":
		*j = jobCell{}
	default:
		j.lo, j.hi = lo, hi
		if cmd.verb != "EXTEND" {
			j.receipt = 0
		}
	}
	return ok
}

// precedes narrows the bounds of two jobs, since the first one was delivered before the other. It
// returns false if that is impossible.
func (j *jobCell) precedes(next *jobCell) bool {
	apart := bit(j.rank > next.rank)
	j.hi, next.lo = min(j.hi, next.hi-apart), max(next.lo, j.lo+apart)
	return j.lo <= j.hi && next.lo <= next.hi
}

// pop delivers these jobs, and returns true if they can be the right ones.
func (b *delayBranch) pop(cmd command, jobs []delivery) bool {
	q := &b.queues[cmd.key]
	var last *jobCell
	var delivered [jobIDs]bool
	for _, d := range jobs {
		j := &q.jobs[d.job]
		if !j.there || delivered[d.job] || d.payload != j.payload ||
			d.deliveries != j.deliveries+1 {
			return false
		}
		b.from, j.hi = max(b.from, j.lo), min(j.hi, b.to)
		if j.lo > j.hi || last != nil && !last.precedes(j) {
			return false
		}
		last, delivered[d.job] = j, true
	}
	for i := range q.jobs {
		j := &q.jobs[i]
		switch {
		case !j.there || delivered[i]:
		case len(jobs) == cmd.n:
			if !last.precedes(j) {
				return false
			}
		default: // it is not due
			b.to, j.lo = min(b.to, j.hi-1), max(j.lo, b.from+1)
		}
	}
	if len(jobs) > cmd.n || b.from > b.to {
		return false
	}
	for _, d := range jobs {
		j := &q.jobs[d.job]
		switch {
		case cmd.noAck && d.number > 0, !cmd.noAck && d.number != lostReceipt && d.number <= q.last:
			return false
		case cmd.noAck:
			*j = jobCell{}
		default:
			j.deliveries, j.receipt, j.lo, j.hi = d.deliveries, d.number,
				b.from+cmd.ttl, b.to+cmd.ttl
			if d.number == lostReceipt {
				j.receipt = lostAfter(q.last)
			}
			q.last = max(q.last, d.number)
		}
	}
	return true
}

// shows applies what a reply shows about all jobs, and returns true if the reply can be right.
func (q *queueCell) shows(jobs []waiting) bool {
	if int64(len(jobs)) != q.count() {
		return false
	}
	for _, w := range jobs {
		j := &q.jobs[w.job]
		if !j.there || w.payload != j.payload || w.deliveries != j.deliveries ||
			w.due < j.lo || w.due > j.hi {
			return false
		}
		j.lo, j.hi = w.due, w.due
		if j.receipt < 0 && w.number > notBelow(j.receipt) {
			j.receipt = w.number
		}
		if j.receipt != w.number {
			return false
		}
	}
	for _, w := range jobs {
		q.last = max(q.last, w.number)
	}
	return slices.IsSortedFunc(jobs, func(a, b waiting) int {
		return cmp.Or(cmp.Compare(a.due, b.due),
			cmp.Compare(q.jobs[a.job].rank, q.jobs[b.job].rank))
	})
}

// TestDelayChecker: the checker detects histories that must not happen, and accepts those that may.
func TestDelayChecker(t *testing.T) {
	const ms = 1_000_000
	op := func(from, to int64, cmd command, replies ...any) porcupine.Operation {
		return porcupine.Operation{
			Input:  call{commands: []command{cmd}, from: from, to: to},
			Output: outcome{lost: replies == nil, replies: replies},
			Call:   from * ms, Return: to * ms,
		}
	}
	add := func(job int, due int64) command {
		return command{verb: "ADD", data: jobName(job), jobOptions: jobOptions{job: job, due: due}}
	}
	pop := func(n int, ttl int64) command {
		return command{verb: "POP", ttl: ttl, streamOptions: streamOptions{n: n}}
	}
	with := func(verb string, job int, number, ttl int64) command {
		return command{verb: verb, token: number, ttl: ttl, jobOptions: jobOptions{job: job}}
	}
	got := func(job int, number, deliveries int64) delivery {
		return delivery{receipt{number, job}, jobName(job), deliveries}
	}
	list := func(jobs ...delivery) any { return jobs }
	none := []any{nil}
	one, zero := int64(1), int64(0)
	first := op(1, 1, add(0, 10), one)
	given := op(10, 10, pop(1, 20), list(got(0, 7, 1)))
	type history []porcupine.Operation
	for _, tt := range []struct {
		name string
		ok   bool
		history
	}{
		{"delivered and acknowledged", true, history{first, given,
			op(11, 12, with("ACK", 0, 7, 0), one), op(40, 41, pop(1, 1), none...)}},
		{"not due", true, history{first, op(8, 9, pop(1, 1), none...)}},
		{"too early", false, history{first, op(8, 9, pop(1, 1), list(got(0, 7, 1)))}},
		{"late", false, history{first, op(10, 11, pop(1, 1), none...)}},
		{"delivered twice", false,
			history{first, given, op(11, 29, pop(1, 1), list(got(0, 8, 2)))}},
		{"delivered again", true, history{first, given, op(30, 31, pop(1, 1), list(got(0, 8, 2)))}},
		{"not delivered again", false, history{first, given, op(30, 31, pop(1, 1), none...)}},
		{"deliveries forgotten", false,
			history{first, given, op(30, 31, pop(1, 1), list(got(0, 8, 1)))}},
		{"a receipt twice", false,
			history{first, given, op(30, 31, pop(1, 1), list(got(0, 7, 2)))}},
		{"another payload", false,
			history{first, op(10, 10, pop(1, 20), list(delivery{receipt{7, 0}, "x", 1}))}},
		{"a stale receipt is refused", true, history{first, given,
			op(30, 31, pop(1, 9), list(got(0, 8, 2))), op(32, 33, with("ACK", 0, 7, 0), zero)}},
		{"a stale receipt is valid", false, history{first, given,
			op(30, 31, pop(1, 9), list(got(0, 8, 2))), op(32, 33, with("ACK", 0, 7, 0), one)}},
		{"acknowledged and there", false, history{first, given,
			op(11, 12, with("ACK", 0, 7, 0), one), op(40, 41, pop(1, 1), list(got(0, 8, 2)))}},
		{"acknowledged late", true, history{first, given, op(40, 41, with("ACK", 0, 7, 0), one)}},
		{"given back", true, history{first, given, op(11, 11, with("NACK", 0, 7, 2), one),
			op(13, 13, pop(1, 1), list(got(0, 8, 2)))}},
		{"given back, and its receipt valid", false, history{first, given,
			op(11, 11, with("NACK", 0, 7, 2), one), op(12, 12, with("ACK", 0, 7, 0), one)}},
		{"extended", true, history{first, given, op(11, 11, with("EXTEND", 0, 7, 30), one),
			op(40, 40, pop(1, 1), none...), op(41, 41, with("ACK", 0, 7, 0), one)}},
		{"extended and forgotten", false, history{first, given,
			op(11, 11, with("EXTEND", 0, 7, 30), one), op(40, 40, pop(1, 1), list(got(0, 8, 2)))}},
		{"cancelled and there", false, history{first, op(2, 3, with("CANCEL", 0, 0, 0), one),
			op(20, 20, pop(1, 1), list(got(0, 7, 1)))}},
		{"rescheduled", true, history{first, op(2, 3, add(1, 20), one),
			op(4, 5, command{verb: "RESCHEDULE", jobOptions: jobOptions{job: 0, due: 30}}, one),
			op(25, 25, pop(2, 1), list(got(1, 7, 1)))}},
		{"in order", true, history{first, op(2, 3, add(1, 9), one),
			op(20, 20, pop(2, 9), list(got(1, 7, 1), got(0, 8, 1)))}},
		{"out of order", false, history{first, op(2, 3, add(1, 9), one),
			op(20, 20, pop(2, 9), list(got(0, 7, 1), got(1, 8, 1)))}},
		{"at once, out of order", false, history{first, op(2, 3, add(1, 10), one),
			op(20, 20, pop(1, 9), list(got(1, 7, 1)))}},
		{"not the first", false, history{first, op(2, 3, add(1, 9), one),
			op(20, 20, pop(1, 9), list(got(0, 7, 1)))}},
		{"a lost POP", true, history{first, op(10, 12, pop(1, 20)), op(13, 14, pop(1, 1), none...),
			op(32, 32, pop(1, 1), list(got(0, 8, 2)))}},
		{"a lost POP, not done", true,
			history{first, op(10, 12, pop(1, 20)), op(13, 14, pop(1, 1), list(got(0, 8, 1)))}},
		{"a lost POP, done twice", false,
			history{first, op(10, 12, pop(1, 20)), op(32, 32, pop(1, 1), list(got(0, 8, 3)))}},
		{"a lost POP, half done", false, history{first, op(10, 12, pop(1, 20)),
			op(13, 14, pop(1, 1), none...), op(32, 32, pop(1, 1), list(got(0, 8, 1)))}},
		{"a lost POP, shown", true,
			history{first, op(10, 12, pop(1, 20)), op(13, 14, command{verb: "RANGE"},
				[]waiting{{got(0, 9, 1), 31}}), op(15, 16, with("ACK", 0, 9, 0), one)}},
		{"a lost POP, shown after another one", true, history{first, op(2, 3, add(1, 11), one),
			op(10, 10, pop(1, 20)), op(11, 11, pop(1, 20), list(got(1, 12, 1))),
			op(13, 14, command{verb: "RANGE"},
				[]waiting{{got(0, 9, 1), 30}, {got(1, 12, 1), 31}})}},
		{"a lost POP, shown with an older receipt", false, history{first, op(2, 3, add(1, 4), one),
			op(5, 5, pop(1, 30), list(got(1, 9, 1))), op(10, 10, pop(1, 20)),
			op(13, 14, command{verb: "RANGE"}, []waiting{{got(0, 8, 1), 30}, {got(1, 9, 1), 35}})}},
		{"a list without a job", false, history{first, op(2, 3, add(1, 9), one),
			op(4, 5, command{verb: "RANGE"}, []waiting{{got(1, 0, 0), 9}})}},
		{"a list out of order", false, history{first, op(2, 3, add(1, 9), one),
			op(4, 5, command{verb: "RANGE"}, []waiting{{got(0, 0, 0), 10}, {got(1, 0, 0), 9}})}},
		{"a list with another due time", false,
			history{first, op(4, 5, command{verb: "RANGE"}, []waiting{{got(0, 0, 0), 11}})}},
		{"replaced, and the old one there", false, history{first, given,
			op(11, 12, add(0, 50), zero), op(13, 14, with("ACK", 0, 7, 0), one)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if ok := porcupine.CheckOperations(delayModel, tt.history); ok != tt.ok {
				t.Errorf("linearizable: %v", ok)
			}
		})
	}
}
