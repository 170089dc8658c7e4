package storage

import "time"

// This file delays writes if they are faster than checkpoints, which move data from the write-ahead
// log to the data file.

const (
	// Commits are delayed if writers are faster than checkpoints (slowDown). usualDelay is the unit
	// of that delay, which is multiplied by a factor from 0 to 4.
	usualDelay = 4 * time.Millisecond
	// maxDelay is the longest delay that slowDown sets for a commit of any size. The loop
	// sleeps meanwhile, so reads wait too.
	maxDelay = 4 * usualDelay
	// paceTime is the further delay for each MiB of a commit when the log is three times as
	// long as it should be. The delay is proportional to the part of the log over twice that
	// length. paceMost is the upper bound of the further delay.
	paceTime = 16 * time.Millisecond
	paceMost = 250 * time.Millisecond
)

// slowDown keeps writers from outrunning the checkpoints. It measures the log by its size and by
// its time to replay, and takes the worse of the two. If the log is 1.5 times as long as it should
// be, checkpoints stop pausing. If it is more than twice as long, commits are delayed. A longer log
// delays them longer, and large commits wait longer than small ones. So the log hardly gets three
// times as long, which bounds the time of a restart.
//
// Commits are also delayed if memory is more than a tenth over its limit and some of it is dirty.
// Dirty keys are not on disk yet, so they cannot leave memory.
func (h *housekeeper) slowDown(used, dirty, limit int64) {
	s := h.s
	length := max(float64(s.log.Size())/float64(s.options.CheckpointBytes),
		float64(s.replayTime())/float64(replayBudget))
	over := min(2*max(length-2, 0), 2)
	over *= over
	if limit > 0 {
		over = max(over, min(float64(used)/float64(limit)-1.1, float64(dirty)/float64(limit), 1))
	}
	if s.Full() {
		over = 0 // what grows is refused, and no checkpoint comes soon
	}
	// A full disk lets checkpoints hurry too: writes that need memory are refused, so no writer
	// needs the processor.
	s.checkpointer.hurry.Store(length > 1.5 || over > 0 || s.Full())
	h.throttle.Store(int64(over * float64(usualDelay)))
	if over == 0 {
		length = 0
	}
	h.pace.Store(int64(max(length-2, 0) * float64(paceTime)))
}

// Throttle is how long to wait after any commit, so that checkpoints keep up; nearly always 0.
func (s *Store) Throttle() time.Duration { return time.Duration(s.house.throttle.Load()) }

// ThrottleOf is Throttle for a commit of bytes bytes.
func (s *Store) ThrottleOf(bytes uint64) time.Duration {
	if s.Follower() {
		return s.Throttle() // FollowThrottle is for what its leader has written
	}
	return s.Throttle() + s.paceOf(bytes)
}

// FollowThrottle is how long a follower waits before it acknowledges bytes bytes to its leader, so
// that its own checkpoints keep up. It is 0 at a leader, which delays its commits.
func (s *Store) FollowThrottle(bytes uint64) time.Duration {
	if !s.Follower() {
		return 0
	}
	return s.paceOf(bytes)
}

func (s *Store) paceOf(bytes uint64) time.Duration {
	const most = 1 << 30 // more does not matter
	return min(time.Duration(s.house.pace.Load()*int64(min(bytes, most))>>20), paceMost)
}
