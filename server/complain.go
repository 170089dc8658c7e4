package server

import "time"

// complaints bound how much clients can make the server log. The first complaints of each kind are
// logged at once. After them only one is logged in each complaintPause, with the number of those
// that were not logged.
type complaints map[string]*complaint

type complaint struct {
	room   int           // that may be logged at once
	since  time.Duration // room counts up from here
	hidden int
}

const (
	complaintBurst = 10
	complaintPause = 10 * time.Second
)

// complain logs a warning about what a client does, unless there were many like it.
func (l *loop) complain(text string, args ...any) {
	c := l.complaints[text]
	if c == nil {
		c = &complaint{room: complaintBurst, since: l.mono}
		l.complaints[text] = c
	}
	if more := int((l.mono - c.since) / complaintPause); more > 0 {
		c.room = min(c.room+more, complaintBurst)
		c.since += time.Duration(more) * complaintPause
	}
	if c.room == 0 {
		c.hidden++
		return
	}
	c.room--
	if c.hidden > 0 {
		args = append(args, "more like it", c.hidden)
		c.hidden = 0
	}
	l.o.Log.Warn(text, args...)
}
