//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package server

import (
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for sockets with kqueue, edge-triggered.
type poller struct {
	kq     int
	wakeR  int
	wakeW  int
	events []unix.Kevent_t
}

func newPoller() (*poller, error) {
	kq, err := unix.Kqueue()
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(kq)
	var ends [2]int
	if err := unix.Pipe(ends[:]); err != nil {
		return nil, firstError(err, unix.Close(kq))
	}
	p := &poller{kq: kq, wakeR: ends[0], wakeW: ends[1], events: make([]unix.Kevent_t, maxEvents)}
	for _, fd := range ends {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, firstError(err, p.close())
		}
	}
	if err := p.add(p.wakeR); err != nil {
		return nil, firstError(err, p.close())
	}
	return p, nil
}

func (p *poller) close() error {
	return firstError(unix.Close(p.wakeR), unix.Close(p.wakeW), unix.Close(p.kq))
}

// add makes wait report input of a descriptor, until the descriptor is closed.
func (p *poller) add(fd int) error {
	return p.control(fd, unix.EVFILT_READ, unix.EV_ADD|unix.EV_CLEAR)
}

// reportRoom sets whether wait reports that a descriptor is writable. The first report may be of
// room that is there already.
func (p *poller) reportRoom(fd int, on bool) error {
	if on {
		return p.control(fd, unix.EVFILT_WRITE, unix.EV_ADD|unix.EV_CLEAR)
	}
	return p.control(fd, unix.EVFILT_WRITE, unix.EV_DELETE)
}

func (p *poller) control(fd, filter, flags int) error {
	var change [1]unix.Kevent_t
	unix.SetKevent(&change[0], fd, filter, flags)
	_, err := unix.Kevent(p.kq, change[:], nil, nil)
	return err
}

// wait waits for events, at most for timeout, or without limit if timeout is below zero. It returns
// their number; at returns each of them.
func (p *poller) wait(timeout time.Duration) (int, error) {
	var limit *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(timeout.Nanoseconds())
		limit = &t
	}
	n, err := unix.Kevent(p.kq, nil, p.events, limit)
	if err == unix.EINTR {
		return 0, nil
	}
	return max(n, 0), err
}

// at returns event i of the last wait. A wake-up is consumed and has the descriptor -1.
func (p *poller) at(i int) (fd int, r readiness) {
	e := &p.events[i]
	fd = int(e.Ident)
	if fd == p.wakeR {
		var some [64]byte
		for {
			if n, err := unix.Read(p.wakeR, some[:]); n < len(some) || err != nil {
				return -1, 0
			}
		}
	}
	switch {
	case e.Filter == unix.EVFILT_WRITE && e.Flags&unix.EV_EOF != 0:
		r = readyRead | readyWrite | readyEOF | readyDead
	case e.Filter == unix.EVFILT_WRITE:
		r = readyWrite
	case e.Flags&unix.EV_EOF != 0 && e.Fflags != 0: // with the socket's error
		r = readyRead | readyEOF | readyDead
	case e.Flags&unix.EV_EOF != 0:
		r = readyRead | readyEOF
	default:
		r = readyRead
	}
	return fd, r
}

// wake makes the present or the next wait return. It is safe from any goroutine.
func (p *poller) wake() {
	_, _ = unix.Write(p.wakeW, []byte{1}) // EAGAIN: the pipe is full, so it wakes anyway
}
