package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"keyp/internal/config"
)

// listener is a socket that takes connections.
type listener struct {
	fd   int
	addr string // "127.0.0.1:6379", "[::1]:6379", or the path of a Unix socket
	unix bool
	tls  bool
	port int // 0 for a Unix socket
	// ready: accept has not said yet that nobody waits. The socket is watched
	// edge-triggered, so this must be remembered.
	ready bool
}

// listen opens every listener that the options ask for, or none.
func listen(o *Options) (ls []*listener, err error) {
	if o.Inside {
		return nil, nil
	}
	defer func() {
		if err == nil {
			return
		}
		for _, l := range ls {
			err = errors.Join(err, l.close())
		}
		ls = nil
	}()
	addrs, err := addresses(o)
	if err != nil {
		return nil, err
	}
	backlog := int(o.Config.Int("tcp-backlog"))
	for _, a := range addrs {
		l, err := listenTCP(a.AddrPort, backlog)
		switch {
		case err == nil:
			l.tls = a.tls
			ls = append(ls, l)
		case a.optional && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)):
			o.Log.Info("not listening: this machine has no such address", "address", a.String())
		default:
			return ls, listenError(a.String(), err)
		}
	}
	if path := o.Config.PathOf("unixsocket"); path != "" {
		l, err := listenUnix(path, uint32(o.Config.Int("unixsocketperm")), backlog)
		if err != nil {
			return ls, listenError(path, err)
		}
		ls = append(ls, l)
	}
	if len(ls) == 0 {
		return nil, errNowhere
	}
	return ls, nil
}

var errNowhere = errors.New("nothing to listen on: port and tls-port are 0, or no bind address is available, and there is no unixsocket")

// Check returns the errors that New has whatever the machine does at present: no port is opened.
func Check(cfg *config.Config) (all []error) {
	port, secure, path := cfg.Int("port"), cfg.Int("tls-port"), cfg.PathOf("unixsocket")
	if port == 0 && secure == 0 && path == "" {
		all = append(all, errNowhere)
	}
	if port != 0 && port == secure {
		all = append(all, fmt.Errorf("port and tls-port are both %d", port))
	}
	if err := checkUnix(path); err != nil {
		all = append(all, listenError(path, err))
	}
	if secure != 0 {
		all = append(all, CheckTLS(cfg))
	}
	return slices.DeleteFunc(all, func(err error) bool { return err == nil })
}

// Probe listens on all addresses and ends that again, to find out whether a server could.
func Probe(o Options) error {
	listeners, err := listen(&o)
	for _, l := range listeners {
		err = errors.Join(err, l.close())
	}
	return err
}

func listenError(where string, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("cannot listen on %s: the address is in use, is another server running? (%w)", where, err)
	}
	return fmt.Errorf("cannot listen on %s: %w", where, err)
}

// address is an address to bind to; an optional one may be missing on this machine.
type address struct {
	netip.AddrPort
	optional bool
	tls      bool
}

// addresses reads Options.Listen and ListenTLS, or else bind, port and tls-port in the format of
// redis.conf. "*" and "::*" are all addresses, and a minus in front makes an address optional.
func addresses(o *Options) (list []address, err error) {
	plain, err := addressesOf(o, o.Listen, "port")
	if err != nil {
		return nil, err
	}
	secure, err := addressesOf(o, o.ListenTLS, "tls-port")
	for i := range secure {
		secure[i].tls = true
	}
	return append(plain, secure...), err
}

// addressesOf gives the texts' addresses, or if there are none those of bind with a port.
func addressesOf(o *Options, texts []string, option string) (list []address, err error) {
	for _, text := range texts {
		a, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, fmt.Errorf("cannot listen on %q: %w", text, err)
		}
		list = append(list, address{AddrPort: a})
	}
	port := uint16(o.Config.Int(option))
	if len(list) > 0 || port == 0 || len(o.Listen)+len(o.ListenTLS) > 0 {
		return list, nil
	}
	for _, word := range o.Config.Words("bind") {
		host, optional := strings.CutPrefix(word, "-")
		ip, err := resolve(host)
		if err != nil {
			if optional {
				continue
			}
			return nil, fmt.Errorf("cannot listen on %q: %w", host, err)
		}
		list = append(list, address{AddrPort: netip.AddrPortFrom(ip, port), optional: optional})
	}
	return list, nil
}

func resolve(host string) (netip.Addr, error) {
	switch host {
	case "*":
		return netip.IPv4Unspecified(), nil
	case "::*":
		return netip.IPv6Unspecified(), nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip", host)
	if err != nil {
		return netip.Addr{}, err
	}
	return ips[0].Unmap(), nil
}

func listenTCP(a netip.AddrPort, backlog int) (*listener, error) {
	family := unix.AF_INET
	if a.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := newSocket(family)
	if err != nil {
		return nil, err
	}
	l := &listener{fd: fd}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil && family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if err == nil {
		err = unix.Bind(fd, sockaddr(a))
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	var bound unix.Sockaddr
	if err == nil {
		bound, err = unix.Getsockname(fd)
	}
	if err != nil {
		return nil, firstError(err, l.close())
	}
	got := addrPort(bound)
	l.addr, l.port = got.String(), int(got.Port())
	return l, nil
}

func listenUnix(path string, perm uint32, backlog int) (*listener, error) {
	if err := checkUnix(path); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	fd, err := newSocket(unix.AF_UNIX)
	if err != nil {
		return nil, err
	}
	l := &listener{fd: fd}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, firstError(err, l.close())
	}
	l.unix, l.addr = true, path
	if perm != 0 {
		err = os.Chmod(path, os.FileMode(perm)) // before listen, so that nobody slips in
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// checkUnix returns the error for a path that is too long.
func checkUnix(path string) error {
	if most := len(unix.RawSockaddrUnix{}.Path) - 1; len(path) > most {
		return fmt.Errorf("the path has %d bytes, and the system allows %d", len(path), most)
	}
	return nil
}

// removeStale removes a socket file that a server left behind when it was killed:
// nobody listens there. Anything else in that place is an error.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return errors.New("a file that is not a socket is in the way")
	}
	fd, err := newSocket(unix.AF_UNIX)
	if err != nil {
		return err
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	if errClose := unix.Close(fd); errClose != nil {
		return errClose
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return unix.EADDRINUSE
	}
	return os.Remove(path)
}

// close ends listening, and removes the file of a Unix socket.
func (l *listener) close() error {
	err := unix.Close(l.fd)
	if l.unix {
		err = errors.Join(err, os.Remove(l.addr))
	}
	return err
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if !a.Addr().Is6() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	sa := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if zone := a.Addr().Zone(); zone != "" {
		if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
			sa.ZoneId = uint32(n)
		} else if i, err := net.InterfaceByName(zone); err == nil {
			sa.ZoneId = uint32(i.Index)
		}
	}
	return sa
}

// addrPort gives the address of a TCP socket; the zero value for other sockets.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}
