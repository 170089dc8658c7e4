package commands

import "keyp/internal/histogram"

// Replies are how long clients wait, in microseconds: from when a request was read to when its
// reply was given to the system, with the sync of the log that the reply needs. Commands that wait
// for others (BLPOP, WAIT) do not count.
type Replies struct {
	Reads, Writes *histogram.Histogram
}

func newReplies() Replies {
	return Replies{histogram.New(histogram.Sync), histogram.New(histogram.Sync)}
}

// Changes reports whether a command may change something: of EXEC, scripts and functions that
// depends on what they run.
func (s *Spec) Changes() bool { return s.Flags&(Write|MayReplicate|execs) != 0 }

// ReplyReport is Replies as counted so far.
type ReplyReport struct{ Reads, Writes histogram.Reading }

func (r *Replies) report() ReplyReport { return ReplyReport{r.Reads.Read(), r.Writes.Read()} }

// infoReplies shows the median and the 99th percentile of the waits, and how many there were.
// Waits above the histogram's highest bound appear as that bound.
func infoReplies(c *Ctx, b *infoText) {
	for _, of := range []struct {
		kind string
		histogram.Reading
	}{{"read", c.Env.Replies.Reads.Read()}, {"write", c.Env.Replies.Writes.Read()}} {
		longest := histogram.Sync[len(histogram.Sync)-1]
		b.int("reply_"+of.kind+"_p50_usec", min(of.Quantile(0.5), longest))
		b.int("reply_"+of.kind+"_p99_usec", min(of.Quantile(0.99), longest))
		b.int("reply_"+of.kind+"s", int64(of.Count))
	}
}
