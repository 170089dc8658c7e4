package server

import (
	"encoding/binary"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller waits for sockets with epoll, edge-triggered.
type poller struct {
	ep, wakeFD int
	events     []unix.EpollEvent
}

func newPoller() (*poller, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, firstError(err, unix.Close(ep))
	}
	p := &poller{ep: ep, wakeFD: wake, events: make([]unix.EpollEvent, maxEvents)}
	if err := p.add(wake); err != nil {
		return nil, firstError(err, p.close())
	}
	return p, nil
}

func (p *poller) close() error {
	return firstError(unix.Close(p.wakeFD), unix.Close(p.ep))
}

// add makes wait report input of a descriptor, until the descriptor is closed.
func (p *poller) add(fd int) error {
	return p.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLRDHUP)
}

// reportRoom sets whether wait reports that a descriptor is writable. The first report may be of
// room that is there already.
func (p *poller) reportRoom(fd int, on bool) error {
	events := uint32(unix.EPOLLIN | unix.EPOLLRDHUP)
	if on {
		events |= unix.EPOLLOUT
	}
	return p.control(unix.EPOLL_CTL_MOD, fd, events)
}

func (p *poller) control(op, fd int, events uint32) error {
	return unix.EpollCtl(p.ep, op, fd,
		&unix.EpollEvent{Events: events | unix.EPOLLET, Fd: int32(fd)})
}

// wait waits for events, at most for timeout, or without limit if timeout is below zero. It returns
// their number; at returns each of them. It looks without blocking first: a busy server rarely has
// to wait, and this call costs the scheduler nothing.
func (p *poller) wait(timeout time.Duration) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.ep),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), 0, 0, 0)
	if errno == 0 && (n > 0 || timeout == 0) {
		return int(n), nil
	}
	got, err := unix.EpollWait(p.ep, p.events, milliseconds(timeout))
	if err == unix.EINTR {
		return 0, nil
	}
	return max(got, 0), err
}

// at returns event i of the last wait. A wake-up is consumed and has the descriptor -1.
func (p *poller) at(i int) (fd int, r readiness) {
	e := &p.events[i]
	if int(e.Fd) == p.wakeFD {
		var count [8]byte
		_, _ = unix.Read(p.wakeFD, count[:]) // EAGAIN: somebody else's wake-up took it along
		return -1, 0
	}
	if e.Events&unix.EPOLLIN != 0 {
		r |= readyRead
	}
	if e.Events&unix.EPOLLOUT != 0 {
		r |= readyWrite
	}
	if e.Events&unix.EPOLLRDHUP != 0 {
		r |= readyRead | readyEOF
	}
	if e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		r |= readyRead | readyEOF | readyDead
	}
	return int(e.Fd), r
}

// wake makes the present or the next wait return. It is safe from any goroutine.
func (p *poller) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(p.wakeFD, one[:]) // EAGAIN: the counter is full, so it wakes anyway
}
