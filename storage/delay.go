package storage

import (
	"keyp/storage/object"
	"keyp/ttl"
)

// DelayQueue is a key's delay queue within a transaction.
type DelayQueue struct{ handle }

// DelayQueue opens a key's delay queue. ErrWrongType: the key has another type.
func (t *Txn) DelayQueue(k Key) (DelayQueue, error) {
	h, err := t.open(k, object.TypeDelay)
	return DelayQueue{h}, err
}

var noDelayQueue = object.NewDelayQueue()

// Value returns the queue. The caller may only read it, and only until the next change. For a
// missing key it returns an empty queue.
func (q *DelayQueue) Value() *object.DelayQueue {
	if o := q.object(); o != nil {
		return o.val.(*object.DelayQueue)
	}
	return noDelayQueue
}

// Add adds a job, after all others that are due at the same time. It replaces a job with the same
// id: the new one is delivered to nobody, and its deliveries count from 0. It returns whether the
// job is new.
func (q *DelayQueue) Add(id []byte, due int64, payload []byte) (created bool) {
	v := q.change().val.(*object.DelayQueue)
	_, there := v.Job(id)
	q.set(&object.Job{ID: id, Due: due, Number: v.NextNumber(), Payload: payload})
	return !there
}

// Deliver marks a job as delivered: it sets the receipt, counts the delivery, and makes the job due
// again at due. receipt is a number that no earlier delivery had.
func (q *DelayQueue) Deliver(j object.Job, due int64, receipt uint64) {
	j.Due, j.Deliveries, j.Receipt = due, j.Deliveries+1, receipt
	q.set(&j)
}

// Extend sets the time at which a delivered job becomes due again.
func (q *DelayQueue) Extend(j object.Job, due int64) {
	j.Due = due
	q.set(&j)
}

// Reschedule takes a job back from its receiver, if it has one, and sets when it becomes due.
func (q *DelayQueue) Reschedule(j object.Job, due int64) {
	j.Due, j.Receipt = due, 0
	q.set(&j)
}

// set writes a job to the queue and to the log. The job's slices may share memory with the queue.
func (q *DelayQueue) set(j *object.Job) {
	o := q.change()
	val := j.Append(q.t.scratch[:0])
	if err := o.val.Put(j.ID, val, 0); err != nil {
		panic(err) // its bounds have been checked
	}
	q.put(o, j.ID, val, ttl.Deadline{})
	if cap(val) <= maxKept {
		q.t.scratch = val
	}
}

// Remove removes a job and returns whether there was one.
func (q *DelayQueue) Remove(id []byte) bool {
	v := q.Value()
	if _, ok := v.Job(id); !ok {
		return false
	}
	q.gone(id)
	v.Remove(id)
	return true
}
