package object

import (
	"encoding/binary"
	"unsafe"
)

// DelayQueue is a queue of jobs, ordered by their due times. Jobs with the same due time are in the
// order in which they were added. An element is a job. Its key is the job's id, and its value is
//
//	┌────────────┬─────────┬────────────┬─────────┬─────────┐
//	│ due        │ number  │ deliveries │ receipt │ payload │
//	└────────────┴─────────┴────────────┴─────────┴─────────┘
//	 6 bytes BE   uvarint   uvarint      uvarint   the rest
//
// A delivered job has a receipt. Its due time is when it is to be delivered again. So every change
// of a job is a new value of its element.
//
// Jobs are in the large form of collections, however few they are: a queue takes some 2 KB at
// least.
type DelayQueue struct {
	members
	delivered int    // jobs with a receipt
	next      uint64 // above the numbers of all jobs
}

// Job is a job of a delay queue.
type Job struct {
	ID         []byte
	Due        int64  // Unix ms
	Number     uint64 // of jobs that are due at once, those with lower numbers come first
	Deliveries uint64 // how often it has been delivered
	Receipt    uint64 // of the last delivery; 0: nobody has it
	Payload    []byte
}

// JobPlace is a job's place in its queue.
type JobPlace struct {
	Due    int64
	Number uint64
}

// Place returns the job's place in its queue.
func (j *Job) Place() JobPlace { return JobPlace{j.Due, j.Number} }

// The bounds of jobs: the length of an id in bytes, and the largest due time, in the year 10889.
// maxJobNumber bounds numbers and deliveries, so that adding to them does not overflow.
const (
	MaxJobID           = 512
	MaxJobDue    int64 = 1<<48 - 1
	maxJobNumber       = 1 << 56
	maxRestored        = 1 << 48 // deliveries of a job from elsewhere
)

// NewDelayQueue returns an empty queue.
func NewDelayQueue() *DelayQueue {
	d := newDict(true)
	d.jobs, d.index.Tight = true, true
	return &DelayQueue{members: members{big: d}, next: 1}
}

// Append appends the value of the job's element.
func (j *Job) Append(dst []byte) []byte {
	var due [8]byte
	binary.BigEndian.PutUint64(due[:], uint64(j.Due))
	dst = append(dst, due[2:]...)
	for _, n := range [...]uint64{j.Number, j.Deliveries, j.Receipt} {
		dst = binary.AppendUvarint(dst, n)
	}
	return append(dst, j.Payload...)
}

// placeOf returns the place of a job from its value.
func placeOf(val []byte) JobPlace {
	number, _ := binary.Uvarint(val[6:])
	return JobPlace{jobDue(val), number}
}

func jobDue(val []byte) int64 {
	return int64(binary.BigEndian.Uint16(val))<<32 | int64(binary.BigEndian.Uint32(val[2:]))
}

// jobOf returns the job of an element.
func jobOf(e entry) Job {
	j, _ := parseJob(e.key, e.val)
	return j
}

func parseJob(elem, val []byte) (j Job, ok bool) {
	if len(val) < 6 || !namesJob(elem) {
		return j, false
	}
	j.ID, j.Due = elem, jobDue(val)
	rest := val[6:]
	for _, n := range [...]*uint64{&j.Number, &j.Deliveries, &j.Receipt} {
		v, size := binary.Uvarint(rest)
		if size <= 0 {
			return j, false
		}
		*n, rest = v, rest[size:]
	}
	j.Payload = rest
	return j, j.Number < maxJobNumber && j.Deliveries < maxJobNumber
}

func namesJob(elem []byte) bool { return len(elem) > 0 && len(elem) <= MaxJobID }

// Type returns TypeDelay.
func (q *DelayQueue) Type() Type { return TypeDelay }

// Encoding returns the reply of OBJECT ENCODING.
func (q *DelayQueue) Encoding() string { return "delay" }

// Put sets a job that replay or a load from disk has read. It returns an error if the element is
// not valid.
func (q *DelayQueue) Put(elem, val []byte, deadline int64) error {
	j, ok := parseJob(elem, val)
	if !ok || deadline != 0 {
		return errBadElement
	}
	if old, ok := q.Job(elem); ok && old.Receipt != 0 {
		q.delivered--
	}
	if j.Receipt != 0 {
		q.delivered++
	}
	q.next = max(q.next, j.Number+1)
	q.big.put(elem, val, 0)
	return nil
}

// Restore adds a job from a payload of DUMP, after all jobs with the same due time. It returns an
// error if the job is not valid or has a receipt.
func (q *DelayQueue) Restore(elem, val []byte) error {
	j, ok := parseJob(elem, val)
	if !ok || j.Receipt != 0 || j.Deliveries > maxRestored {
		return errBadElement
	}
	j.Number = q.next
	return q.Put(elem, j.Append(nil), 0)
}

// Remove removes a job, if it exists.
func (q *DelayQueue) Remove(elem []byte) {
	if j, ok := q.Job(elem); ok {
		if j.Receipt != 0 {
			q.delivered--
		}
		q.delete(elem)
	}
}

// Job returns the job with an id; ok is false if there is none. Its slices are valid until the
// queue changes.
func (q *DelayQueue) Job(id []byte) (Job, bool) {
	e, ok := q.get(id)
	if !ok {
		return Job{}, false
	}
	return jobOf(e), true
}

// NextNumber returns the number that the next added job gets.
func (q *DelayQueue) NextNumber() uint64 { return q.next }

// Delivered returns how many jobs have been delivered and were neither acknowledged nor given back.
func (q *DelayQueue) Delivered() int { return q.delivered }

// DueBy returns how many jobs are due at now, in Unix milliseconds.
func (q *DelayQueue) DueBy(now int64) int {
	var p path
	q.big.seekJob(&p, JobPlace{Due: now + 1})
	return p.rank()
}

// Ends returns the places of the first and the last job; ok is false if there are no jobs.
func (q *DelayQueue) Ends() (first, last JobPlace, ok bool) {
	n := q.Len()
	if n == 0 {
		return first, last, false
	}
	at := func(rank int) JobPlace {
		var p path
		q.big.scores.seekRank(&p, rank)
		_, pos, _ := p.entry()
		return placeOf(q.big.entry(pos).val)
	}
	return at(0), at(n - 1), true
}

// From visits jobs in their order, from a place on, until fn returns false. fn must not change the
// queue.
func (q *DelayQueue) From(at JobPlace, fn func(Job) bool) {
	if q.Len() == 0 {
		return
	}
	var p path
	q.big.seekJob(&p, at)
	_, pos, ok := p.entry()
	for ok && fn(jobOf(q.big.entry(pos))) && p.next() {
		_, pos, _ = p.entry()
	}
}

// seekJob moves p to the first job at a place or after it.
func (d *dict) seekJob(p *path, at JobPlace) {
	d.scores.seek(p, func(key uint64, pos uint32) bool {
		due := int64(key)
		return due < at.Due || due == at.Due && placeOf(d.entry(pos).val).Number < at.Number
	})
}

// Walk visits all jobs, in their order, until fn returns false.
func (q *DelayQueue) Walk(fn func(elem, val []byte, deadline int64) bool) {
	if q.Len() == 0 {
		return
	}
	var p path
	q.big.scores.seekRank(&p, 0)
	for ok := true; ok; ok = p.next() {
		_, pos, _ := p.entry()
		if e := q.big.entry(pos); !fn(e.key, e.val, 0) {
			return
		}
	}
}

// Bytes returns the memory used, in bytes.
func (q *DelayQueue) Bytes() int {
	return int(unsafe.Sizeof(*q)) - int(unsafe.Sizeof(q.members)) + q.members.Bytes()
}

// Clone returns a copy.
func (q *DelayQueue) Clone() Value {
	to := NewDelayQueue()
	to.delivered, to.next = q.delivered, q.next
	q.Walk(func(elem, val []byte, _ int64) bool {
		to.big.put(elem, val, 0)
		return true
	})
	return to
}
