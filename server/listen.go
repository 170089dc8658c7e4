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
	// ready: more connections may wait, because accept has not returned yet that there is none. The
	// socket is watched edge-triggered, so this must be remembered.
	ready bool
}

// listen opens every listener that the options ask for, or none.
func listen(o *Options) (ls []*listener, err error) {
	if o.Inside {
		return nil, nil
	}
	ls, err = listenPorts(o)
	if path := o.Config.PathOf("unixsocket"); err == nil && path != "" {
		var l *listener
		if l, err = listenUnix(path, uint32(o.Config.Int("unixsocketperm")),
			int(o.Config.Int("tcp-backlog"))); err == nil {
			return append(ls, l), nil
		}
		err = listenError(path, err)
	}
	if err == nil && len(ls) == 0 {
		err = errNowhere
	}
	if err == nil {
		return ls, nil
	}
	for _, l := range ls {
		err = errors.Join(err, l.close())
	}
	return nil, err
}

// listenPorts opens the listeners of addresses with ports. With an error it returns those that it
// has opened.
func listenPorts(o *Options) (ls []*listener, err error) {
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
		case a.optional && (errors.Is(err, unix.EADDRNOTAVAIL) ||
			errors.Is(err, unix.EAFNOSUPPORT)):
			o.Log.Info("not listening: this machine has no such address", "address", a.String())
		default:
			return ls, listenError(a.String(), err)
		}
	}
	return ls, nil
}

var errNowhere = errors.New("nothing to listen on: port and tls-port are 0, or no bind address is available, and there is no unixsocket")

// Check returns the errors of New that do not depend on free ports: it opens none.
func Check(cfg *config.Config) (all []error) {
	port, secure, path := cfg.Int("port"), cfg.Int("tls-port"), cfg.PathOf("unixsocket")
	if path == "" && (port == 0 && secure == 0 || len(cfg.Words("bind")) == 0) {
		all = append(all, errNowhere)
	}
	for _, word := range cfg.Words("bind") {
		_, err := literal(word)
		if malformed := (badAddress("")); errors.As(err, &malformed) ||
			err != nil && !strings.HasPrefix(word, "-") {
			all = append(all, fmt.Errorf("bind: %w", err))
		}
	}
	if port != 0 && port == secure {
		all = append(all, fmt.Errorf("port and tls-port are both %d", port))
	}
	if err := checkUnix(path); err != nil {
		all = append(all, fmt.Errorf("unixsocket: %w", err))
	}
	if secure != 0 {
		all = append(all, CheckTLS(cfg, "tls-port"))
	}
	return slices.DeleteFunc(all, func(err error) bool { return err == nil })
}

// Probe listens on all addresses but the Unix socket, and stops at once, to find out whether a
// server could listen.
func Probe(o Options) error {
	listeners, err := listenPorts(&o)
	for _, l := range listeners {
		err = errors.Join(err, l.close())
	}
	return err
}

// Takes reports whether an address of bind covers an IP address, or is covered by it. If so, no
// other process can listen there at a port for clients. Names of hosts are not looked up.
func Takes(cfg *config.Config, addr netip.Addr) bool {
	return slices.ContainsFunc(cfg.Words("bind"), func(word string) bool {
		own, err := literal(word)
		if err != nil || !own.IsValid() {
			return false
		}
		return addr == netip.IPv6Unspecified() /* IPv4, too */ || covers(own, addr) ||
			covers(addr, own)
	})
}

// covers reports whether a listener at an address listens at another one as well.
func covers(addr, other netip.Addr) bool {
	return addr == other || addr.IsUnspecified() && addr.Is4() == other.Is4()
}

func listenError(where string, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf(
			"cannot listen on %s: the address is in use, is another server running? (%w)",
			where, err)
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

// addressesOf returns the texts' addresses, or if there are none those of bind with a port.
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
	return withoutCovered(list), nil
}

// withoutCovered leaves out addresses that others cover: nobody can listen twice.
func withoutCovered(list []address) (kept []address) {
	for i, a := range list {
		covered := slices.ContainsFunc(list[:i], func(other address) bool {
			return other.Addr() == a.Addr()
		}) ||
			slices.ContainsFunc(list, func(other address) bool {
				return other.Addr() != a.Addr() && covers(other.Addr(), a.Addr())
			})
		if !covered {
			kept = append(kept, a)
		}
	}
	return kept
}

// literal returns the IP address of a word of bind; the zero address: it is the name of a host.
func literal(word string) (netip.Addr, error) {
	word = strings.TrimPrefix(word, "-")
	switch word {
	case "*":
		return netip.IPv4Unspecified(), nil
	case "::*":
		return netip.IPv6Unspecified(), nil
	}
	ip, err := netip.ParseAddr(word)
	switch {
	case err != nil && (strings.Contains(word, ":") || strings.Trim(word, "0123456789.") == ""):
		return netip.Addr{}, badAddress(word)
	case err != nil:
		return netip.Addr{}, nil
	}
	ip = ip.Unmap()
	if _, ok := zoneOf(ip); !ok {
		return ip, fmt.Errorf("cannot listen on %q: there is no network interface %s",
			word, ip.Zone())
	}
	return ip, nil
}

// badAddress is a word of bind that is neither an IP address nor the name of a host.
type badAddress string

func (a badAddress) Error() string {
	return fmt.Sprintf("%q is no IP address (the port is an option of its own)", string(a))
}

func resolve(host string) (netip.Addr, error) {
	if ip, err := literal(host); err != nil || ip.IsValid() {
		return ip, err
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
	sa.ZoneId, _ = zoneOf(a.Addr())
	return sa
}

// zoneOf returns the number of the network interface that an address names; ok is false if there is
// none.
func zoneOf(addr netip.Addr) (number uint32, ok bool) {
	zone := addr.Zone()
	if zone == "" {
		return 0, true
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), true
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, false
	}
	return uint32(i.Index), true
}

// addrPort returns the address of a TCP socket; the zero value for other sockets.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}
