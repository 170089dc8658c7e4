package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// TestHealth: keyp health prints one line that says whether a server is ready. Its exit status says
// the same.
func TestHealth(t *testing.T) {
	authority := testkit.NewAuthority(t)
	at := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	server := testkit.NewKeyp(t, testkit.Options{Args: []string{"--http-addr", at}})
	want := func(status int, text string, env []string, args ...string) {
		t.Helper()
		got, out, errs := runKeyp(t, "", env, append([]string{"health"}, args...)...)
		if got != status || !strings.HasPrefix(out+errs, text) ||
			strings.Count(out+errs, "\n") != 1 {
			t.Errorf("health %v: status %d, %q, %q; want %d, %q", args, got, out,
				errs, status, text)
		}
	}
	want(1, "keyp: not ready: ", nil, at)
	server.Start()
	want(0, "ready\n", nil, at)
	want(0, "ready\n", nil, "http://"+at)
	want(0, "ready\n", nil, strings.TrimPrefix(at, "127.0.0.1"))
	want(0, "ready\n", []string{"KEYP_HTTP_ADDR=" + at})
	want(0, "ready\n", []string{"KEYP_HTTP_ADDR=" + strings.Replace(at, "127.0.0.1", "0.0.0.0", 1)})
	want(1, "keyp: not ready: ", nil, "https://"+at)
	want(1, "keyp: usage: keyp health [ADDR]\n", nil, at, at)
	want(1, "keyp: not ready: ", nil, "http://"+server.Addr()) // it speaks another protocol
	if _, _, errs := runKeyp(t, "", nil, "health", "http://"+server.Addr()); !strings.Contains(errs,
		"health asks at a clients' port") {
		t.Errorf("health at a port of clients, as a page: %q", errs)
	}
	want(1, "keyp: not ready: \"x\" is not an address", nil, "x")

	// Without an http-addr, keyp health connects to the port or socket of the clients.
	want(0, "ready\n", nil, server.Addr())
	want(0, "ready\n", []string{"KEYP_PORT=" + server.Port()})
	want(0, "ready\n", []string{"KEYP_PORT=" + server.Port(), "KEYP_BIND=*"})
	want(1, "keyp: there is no port without TLS", []string{"KEYP_PORT=0"})
	socket := filepath.Join(t.TempDir(), "socket")
	locked := testkit.Keyp(t, "--requirepass", "secret", "--unixsocket", socket)
	want(0, "ready\n", nil, locked.Addr())
	want(0, "ready\n", []string{"KEYP_PORT=0", "KEYP_UNIXSOCKET=" + socket})
	t.Chdir(filepath.Dir(socket))
	t.Setenv("KEYP_PORT", "0")
	t.Setenv("KEYP_UNIXSOCKET", "socket")
	for _, args := range [][]string{nil, {"socket"}} {
		if err := health(args, io.Discard); err != nil {
			t.Errorf("health %q beside the socket: %v", args, err)
		}
	}
	locked.Kill()
	want(1, "keyp: not ready: ", nil, locked.Addr())
	want(1, "keyp: not ready: ", nil, socket)
	loading, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer loading.Close()
	says := make(chan string, 1)
	go func() {
		for {
			conn, err := loading.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, <-says)
			_ = conn.Close()
		}
	}()
	for _, line := range []string{"LOADING it reads its data", "MASTERDOWN no leader",
		"DENIED Protected mode is on"} {
		says <- "-" + line + "\r\n"
		want(1, "keyp: not ready: "+line+"\n", nil, loading.Addr().String())
	}
	says <- "-NOPERM no right to PING\r\n"
	want(0, "ready\n", nil, loading.Addr().String())

	// A member that waits for others is not broken, so nobody should restart it.
	waits := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "waiting: this member joins its group\n")
	}))
	defer waits.Close()
	want(0, "waiting: this member joins its group\n", nil, waits.URL)

	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello\n")
	}))
	defer other.Close()
	want(1, "keyp: "+other.URL+"/readyz answers with status 200: hello\n", nil,
		other.Listener.Addr().String())

	secure := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	testkit.NewKeyp(t, testkit.Options{TLS: authority,
		Args: []string{"--http-addr", secure, "--http-tls", "yes"}}).Start()
	want(0, "ready\n", nil, "https://"+secure)
	want(0, "ready\n", []string{"KEYP_HTTP_ADDR=" + secure, "KEYP_HTTP_TLS=yes"})
	want(1, "keyp: http://"+secure+"/readyz answers with status 400: ", nil, secure)
}
