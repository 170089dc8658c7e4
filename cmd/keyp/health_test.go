package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// keyp health says in a line whether a server is ready, and has a status that says it too.
func TestHealth(t *testing.T) {
	authority := testkit.NewAuthority(t)
	at := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	server := testkit.NewKeyp(t, testkit.Options{Args: []string{"--http-addr", at}})
	want := func(status int, text string, env []string, args ...string) {
		t.Helper()
		got, out, errs := runKeyp(t, "", env, append([]string{"health"}, args...)...)
		if got != status || !strings.HasPrefix(out+errs, text) || strings.Count(out+errs, "\n") != 1 {
			t.Errorf("health %v: status %d, %q, %q; want %d, %q", args, got, out, errs, status, text)
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
	want(1, "keyp: not ready: ", nil, server.Addr()) // it speaks another protocol

	// A member that waits for others is not broken: nobody is to restart it.
	waits := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "waiting: this member joins its group\n")
	}))
	defer waits.Close()
	want(0, "waiting: this member joins its group\n", nil, waits.URL)

	secure := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	testkit.NewKeyp(t, testkit.Options{TLS: authority, Args: []string{"--http-addr", secure, "--http-tls", "yes"}}).Start()
	want(0, "ready\n", nil, "https://"+secure)
	want(0, "ready\n", []string{"KEYP_HTTP_ADDR=" + secure, "KEYP_HTTP_TLS=yes"})
	want(1, "keyp: http://"+secure+"/readyz answers with status 400: ", nil, secure)
}
