package consensus

import (
	"fmt"

	"go.etcd.io/raft/v3/confchange"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// Change changes the group's members, and returns the index of the entry with the change. The
// change is done when the Machine gets that entry. Several changes are made together, by joint
// consensus: from that entry on, majorities of the old and of the new members must agree. The
// leader ends the joint consensus with a second entry. Only a leader can change members, and only
// one change at a time. A leader that is removed steps down when the change is applied.
func (g *Group) Change(changes ...*pb.ConfChangeSingle) (index uint64, err error) {
	g.mu.Lock()
	switch {
	case g.mu.ended != nil:
		err = g.mu.ended
	case !g.mu.role.leading || g.mu.role.transferee != 0:
		err = ErrNotLeader
	default:
		err = tryChange(g.mu.conf, changes)
	}
	if err == nil {
		if err = g.mu.node.ProposeConfChange(&pb.ConfChangeV2{Changes: changes}); err != nil {
			err = ErrFull
		}
		g.ready()
		if index = g.mu.last; err == nil && g.mu.lastType == pb.EntryNormal {
			err = ErrChange // the library has replaced it by an entry without data
		}
	}
	g.mu.Unlock()
	g.proceed()
	return index, err
}

// tryChange checks a change of members without making it, because the library panics when it
// applies an invalid one.
func tryChange(conf *pb.ConfState, changes []*pb.ConfChangeSingle) error {
	if len(changes) == 0 {
		return ErrChange
	}
	_, err := changed(conf, &pb.ConfChangeV2{Changes: changes})
	return err
}

// changed returns the members after a change.
func changed(conf *pb.ConfState, change *pb.ConfChangeV2) (*pb.ConfState, error) {
	changer := confchange.Changer{Tracker: tracker.MakeProgressTracker(1, 0)}
	cfg, progress, err := confchange.Restore(changer, conf)
	if err != nil {
		return nil, fmt.Errorf("consensus: %w", err)
	}
	changer.Tracker.Config, changer.Tracker.Progress = cfg, progress
	if leave, joint := change.EnterJoint(); joint {
		cfg, progress, err = changer.EnterJoint(leave, change.GetChanges()...)
	} else if change.LeaveJoint() {
		cfg, progress, err = changer.LeaveJoint()
	} else {
		cfg, progress, err = changer.Simple(change.GetChanges()...)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChange, err)
	}
	changer.Tracker.Config, changer.Tracker.Progress = cfg, progress
	return changer.Tracker.ConfState(), nil
}

// ConfAfter returns the members after an entry.
func ConfAfter(conf *pb.ConfState, e *pb.Entry) (*pb.ConfState, error) {
	change, ok := changeOf(e)
	if !ok {
		return conf, nil
	}
	v2 := change.AsV2()
	return changed(conf, v2)
}
