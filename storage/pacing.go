package storage

import "time"

const (
	// usualDelay is the delay of a commit that slows writers down.
	usualDelay = 4 * time.Millisecond
	// maxDelay is the delay when usualDelay is not enough. Reads wait as well.
	maxDelay = 4 * usualDelay
	// paceTime is the further delay of a commit for each MiB. It is multiplied by the excess of the
	// log over twice its right length, as a multiple of that length. paceMost bounds the delay.
	paceTime = 16 * time.Millisecond
	paceMost = 250 * time.Millisecond
)

// slowDown keeps writers from outrunning the checkpoints. If the log is 1.5 times as long as it
// should be, by its size or by its time to replay, checkpoints stop pausing. If it is more than
// twice as long, commits are delayed, the more the longer it is, and large commits longer than
// small ones. So the log hardly gets three times as long, which bounds the time of a restart. Dirty
// memory counts, too, from a tenth over the bound of memory: keys that are not on disk yet cannot
// leave memory.
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
	// No writer waits where it is full.
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
