package linear

import (
	"syscall"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// fault is a fault of a leader. do starts it and returns a function that ends it.
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

// late is a delay of messages that makes a leader lose its role. It is longer than an election, so
// messages of the leader's term arrive during the next term.
const late = 1500 * time.Millisecond

// lateness has the faults of network lines.
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

// weather draws the delay of each line between two members. No line is so slow that a leader loses
// its role.
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
