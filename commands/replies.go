package commands

import "keyp/internal/histogram"

// Replies are the times that clients wait, in microseconds. A wait begins when a request is read,
// and ends when its reply is passed to the operating system. It includes the sync of the log that
// the reply needs. Commands that wait for others (BLPOP, WAIT) do not count.
type Replies struct {
	Reads, Writes *histogram.Histogram
}

func newReplies() Replies {
	return Replies{histogram.New(histogram.Sync), histogram.New(histogram.Sync)}
}

// Changes reports whether a command may change something. For EXEC, scripts and functions it
// returns true, because that depends on the commands they run.
func (s *Spec) Changes() bool { return s.Flags&(Write|MayReplicate|execs) != 0 }

// ReplyReport is Replies as counted so far.
type ReplyReport struct{ Reads, Writes histogram.Reading }

func (r *Replies) report() ReplyReport { return ReplyReport{r.Reads.Read(), r.Writes.Read()} }

// infoReplies writes the median and the 99th percentile of the waits, and their number. Waits above
// the histogram's highest bound appear as that bound.
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
