package member

import (
	"context"
	"errors"
	"time"

	"keyp/commands"
	"keyp/consensus"
)

// HandOver transfers the leadership to another member, if this one leads. The server calls it
// before it stops.
func (m *Member) HandOver() {
	if m.group == nil || m.status.Load().Role != commands.Leader {
		return
	}
	var best *consensus.Peer
	for _, p := range m.group.Peers() {
		if !p.Learner && p.Active && (best == nil || p.Match > best.Match) {
			best = &p
		}
	}
	if best == nil {
		return
	}
	if err := m.transfer(best.ID); err != nil {
		m.o.Logger.Warn("no other member leads yet", "error", err)
	}
}

// transferred waits until this member no longer leads, or the group has given the transfer up. It
// does not return early when ctx ends: during a transfer nothing can be proposed, so this member
// could not continue to lead. It returns errLate if the transfer is given up after ctx has ended.
func (m *Member) transferred(ctx context.Context) error {
	const look = 2 * time.Millisecond
	for m.status.Load().Role == commands.Resigning {
		st := m.group.Status()
		if over := st.Leading && st.Transferee == 0; over || st.Ended != nil {
			if ctx.Err() != nil {
				return errLate
			}
			return st.Ended
		}
		select {
		case <-m.ctx.Done():
			return m.ctx.Err()
		case <-time.After(look):
		}
	}
	return nil
}

// transfer makes another member the leader. Commands wait meanwhile, so the store does not change
// after everything is committed, and nothing is lost.
func (m *Member) transfer(to uint64) error {
	ctx, cancel := context.WithTimeout(m.ctx, handOver)
	defer cancel()
	resigns, began := make(chan struct{}), false
	m.do(task{waits: true, run: func() {
		defer close(resigns)
		m.become(func() {
			if began = m.mu.role == commands.Leader; began {
				m.mu.role = commands.Resigning
			}
		})
		if began {
			m.setFollower(ctx, true)
		}
	}})
	select {
	case <-resigns:
	case <-m.ctx.Done():
		return m.ctx.Err()
	}
	if !began {
		return errNotLeader
	}
	err := m.journal.Settled(ctx, m.journal.End())
	for err == nil && m.status.Load().Role == commands.Resigning {
		// A member that has just started ignores the order, so it is given again.
		if err = m.group.Transfer(to); err == nil {
			err = m.transferred(ctx)
		}
	}
	if err == nil || errors.Is(err, consensus.ErrNotLeader) {
		return nil
	}
	m.do(task{waits: true, run: func() { // continue to lead, unless deposed
		m.mu.Lock()
		goesOn := m.mu.role == commands.Resigning
		m.mu.Unlock()
		if goesOn && m.setFollower(m.ctx, false) {
			m.become(func() {
				if m.mu.role == commands.Resigning {
					m.mu.role = commands.Leader
				}
			})
		}
	}})
	return err
}
