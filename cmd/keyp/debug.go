package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"keyp/internal/vfs"
)

// serveDebug serves Go's profiles on a loopback address; an empty one serves nothing.
// Profiles show keys and values, so other addresses are refused unless exposed says that this
// is meant. The command line, which may have a password, is not among them.
func serveDebug(addr string, exposed bool, logger *slog.Logger) (stop func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	at, err := netip.ParseAddrPort(addr)
	switch {
	case err != nil:
		return nil, fmt.Errorf("debug-addr %q is not an address with a port, such as 127.0.0.1:6060", addr)
	case !at.Addr().IsLoopback() && !exposed:
		return nil, fmt.Errorf("debug-addr %q is not a loopback address, such as 127.0.0.1:6060: anybody who reaches it can read all keys, values and passwords; "+
			"debug-addr-exposed yes allows it", addr)
	case !at.Addr().IsLoopback():
		logger.Warn("anybody who reaches debug-addr can read all keys, values and passwords", "debug-addr", addr)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on debug-addr: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	srv := &http.Server{Handler: byAddress(mux), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("profiles are not served any more", "error", err)
		}
	}()
	logger.Info("serving profiles", "url", "http://"+listener.Addr().String()+"/debug/pprof/")
	return srv.Close, nil
}

// byAddress refuses requests for a host with a name: a web page whose name its owner has point
// to this machine could read what its visitor's browser is sent.
func byAddress(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
			http.Error(w, "ask for this by its address", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// logFiles gives the file system of the log: the real one, or with a delay, in
// microseconds, the real one on a disk whose syncs take that much longer.
func logFiles(delay int64) vfs.FS {
	if delay == 0 {
		return vfs.OS
	}
	return vfs.Slow(vfs.OS, func() { blockThread(time.Duration(delay) * time.Microsecond) })
}

// blockThread waits within a system call, as a sync does: unlike time.Sleep it hands the
// processor on only once the scheduler notices.
func blockThread(d time.Duration) {
	end := time.Now().Add(d)
	for left := d; left > 0; left = time.Until(end) {
		wait := unix.NsecToTimeval(left.Nanoseconds())
		// A signal ends the wait early; any other error would be one of the arguments.
		if _, err := unix.Select(0, nil, nil, nil, &wait); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
