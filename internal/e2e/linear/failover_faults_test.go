package linear

import (
	"syscall"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// fault is what happens to a leader, until the function that is given ends it.
type fault struct {
	name string
	do   func(f *failovers, s *testkit.Server) (end func())
}

var faults = []fault{
	{"killed", func(f *failovers, s *testkit.Server) func() {
		s.Kill()
		return s.Start
	}},
	{"stopped", func(f *failovers, s *testkit.Server) func() {
		_ = syscall.Kill(s.Pid(), syscall.SIGSTOP)
		return func() { _ = syscall.Kill(s.Pid(), syscall.SIGCONT) }
	}},
	{"cut off", func(f *failovers, s *testkit.Server) func() {
		f.g.Cut(s, nil)
		f.g.Cut(nil, s)
		return f.g.Heal
	}},
	{"not heard", func(f *failovers, s *testkit.Server) func() {
		f.g.Cut(s, nil)
		return f.g.Heal
	}},
	{"handed over", func(f *failovers, s *testkit.Server) func() {
		await.Until(f.t, "the leader hands over", func() bool {
			err := f.g.Follower().Client(2).Do(ctx, "CLUSTER", "FAILOVER").Err()
			return err == nil || members.Role(s) != "master"
		})
		return func() {}
	}},
}

// late is by how much messages come too late for a leader to stay one: more than an election takes,
// so those of its term come amid the next one.
const late = 1500 * time.Millisecond

// lateness are faults of lines.
var lateness = []fault{
	{"heard late", func(f *failovers, s *testkit.Server) func() {
		f.g.SetLine(s, nil, members.Line{Delay: late})
		return func() { f.g.SetLine(s, nil, members.Line{}) }
	}},
	{"hears late", func(f *failovers, s *testkit.Server) func() {
		f.g.SetLine(nil, s, members.Line{Delay: late})
		return func() { f.g.SetLine(nil, s, members.Line{}) }
	}},
	{"heard and hears late", func(f *failovers, s *testkit.Server) func() {
		f.g.SetLine(s, nil, members.Line{Delay: late, Jitter: late})
		f.g.SetLine(nil, s, members.Line{Delay: late / 2, Jitter: late})
		return func() {
			f.g.SetLine(s, nil, members.Line{})
			f.g.SetLine(nil, s, members.Line{})
		}
	}},
}

// weather draws a line for each direction between two members, none of which keeps a leader from
// being one.
func (f *failovers) weather() {
	for _, from := range f.g.Servers {
		for _, to := range f.g.Servers {
			if from == to {
				continue
			}
			l := members.Line{Delay: time.Duration(f.rng.IntN(20)) * time.Millisecond,
				Jitter: time.Duration(f.rng.IntN(30)) * time.Millisecond}
			if f.rng.IntN(3) == 0 {
				l.Rate = 256 << 10
			}
			f.g.SetLine(from, to, l)
		}
	}
}
