package commands

import (
	"bytes"

	"keyp/storage"
	"keyp/storage/object"
)

// jobPop contains the arguments of KEYP.DELAY POP.
type jobPop struct {
	count      int64
	visibility int64
	timeout    int64
	noAck      bool
	block      bool
	dead       deadLetters
}

func (p *jobPop) parse(c Cursor) error {
	a := options{Cursor: c}
	p.count, p.visibility = 1, -1
	for a.More() {
		switch {
		case a.option("COUNT", 1):
			if p.count = a.IntFrom(1, errJobCount); p.count > maxJobs {
				a.Fail(errJobCount)
			}
		case a.option("BLOCK", 1):
			p.block, p.timeout = true, a.Duration(0, errJobBlock)
		case a.option("VISIBILITY", 1, "NOACK"):
			p.visibility = a.jobTime()
		case a.option("NOACK", 0, "VISIBILITY"):
			p.noAck = true
		case p.dead.option(&a):
		default:
			a.end()
		}
	}
	if p.visibility < 0 && !p.noAck {
		a.Fail(errJobDelivery)
	}
	return a.Err()
}

// popJobs delivers due jobs. If other clients wait for the queue, it delivers none, because the
// first of them is served first.
func popJobs(c *Ctx) error {
	var p jobPop
	if err := p.parse(c.Cursor(3)); err != nil {
		return err
	}
	q, err := c.Txn.DelayQueue(c.Keys[0])
	if err == nil {
		err = p.dead.open(c)
	}
	if err != nil {
		return err
	}
	if q.Exists() && c.Env.lines.mayTake(c.Keys[0], object.TypeDelay, c.Client) {
		if ids := c.dueJobs(&p, &q); len(ids) > 0 {
			c.deliverJobs(&p, &q, ids)
			return nil
		}
	}
	if !p.block {
		c.Out.NullArray()
		return nil
	}
	err = c.block(c.Keys[:1], object.TypeDelay, p.timeout)
	if first, _, ok := q.Value().Ends(); ok && err == errBlocked {
		c.Wait.Again = max(1, min(first.Due-c.Txn.Now(), jobsLook))
	}
	return err
}

// dueJobs returns the ids of the jobs to deliver. Jobs before or among them that have had the
// maximum number of deliveries go to the dead letters.
func (c *Ctx) dueJobs(p *jobPop, q *storage.DelayQueue) (ids [][]byte) {
	var dead [][]byte
	size := 0
	q.Value().From(object.JobPlace{}, func(j object.Job) bool {
		switch {
		case j.Due > c.Txn.Now():
			return false
		case !p.dead.takes(j):
			ids = append(ids, bytes.Clone(j.ID))
			size += len(j.Payload)
		default:
			dead = append(dead, bytes.Clone(j.ID))
		}
		return len(ids) < int(p.count) && len(dead) < maxDeadJobs && size < largeStore
	})
	for _, id := range dead {
		if j, ok := q.Value().Job(id); ok && !c.bury(&p.dead, q, j) {
			break
		}
	}
	return ids
}

// deliverJobs replies with jobs. It makes them due again later, or removes them with NOACK.
func (c *Ctx) deliverJobs(p *jobPop, q *storage.DelayQueue, ids [][]byte) {
	c.Out.Array(len(ids))
	for _, id := range ids {
		j, _ := q.Value().Job(id)
		c.Out.Array(4)
		c.Out.Bulk(j.ID)
		c.Out.Bulk(j.Payload)
		if p.noAck {
			c.Out.Null()
			q.Remove(id)
		} else {
			receipt := c.Env.leases.Next(c.Txn, c.Keys[0])
			q.Deliver(j, c.Txn.Now()+p.visibility, receipt)
			c.Out.Bulk(appendReceipt(nil, receipt, id))
		}
		c.Out.Int(int64(j.Deliveries + 1))
	}
	c.Txn.Notify(c.Keys[0], eventDelayPop)
}
