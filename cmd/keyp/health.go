package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"keyp/internal/config"
)

const healthUsage = "usage: keyp health [ADDR]"

const (
	// usualHTTP is where a server is asked without an address.
	usualHTTP = "127.0.0.1:8379"
	// healthTime bounds how long it has for its answer.
	healthTime = 5 * time.Second
	// healthBytes bounds what of that is read.
	healthBytes = 4 << 10
)

// health asks a server over HTTP whether it is ready, for containers without a shell. The address is
// that of http-addr: the one given, that of the environment, or the usual one.
func health(args []string, out io.Writer) error {
	if len(args) > 1 || len(args) == 1 && strings.HasPrefix(args[0], "-") {
		return errors.New(healthUsage)
	}
	at := ""
	if len(args) == 1 {
		at = args[0]
	} else {
		cfg, err := config.Load(nil, os.Environ(), nil)
		if err != nil {
			return err
		}
		at = cfg.String("http-addr")
		if cfg.Bool("http-tls") && at != "" {
			at = "https://" + at
		}
	}
	page, err := readyPage(at)
	if err != nil {
		return err
	}
	status, text, err := fetch(page)
	switch {
	case err != nil:
		return fmt.Errorf("not ready: %w", err)
	case strings.HasPrefix(text, "waiting"): // for other members: nothing that a restart would mend
	case status != http.StatusOK && strings.HasPrefix(text, "not ready"):
		return errors.New(text)
	case status != http.StatusOK:
		return fmt.Errorf("%s answers with status %d: %s", page, status, text)
	}
	_, err = fmt.Fprintln(out, text)
	return err
}

// readyPage is the page to ask at an address, which may be http-addr's or begin with http:// or https://.
func readyPage(at string) (*url.URL, error) {
	if at == "" {
		at = usualHTTP
	}
	if !strings.Contains(at, "://") {
		at = "http://" + at
	}
	page, err := url.Parse(at)
	if err != nil || page.Host == "" || page.Scheme != "http" && page.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an address with a port, such as %s", at, usualHTTP)
	}
	page.Path = "/readyz"
	// What is served at all addresses is served at this one, and a port alone means this machine.
	switch page.Hostname() {
	case "", "0.0.0.0":
		page.Host = net.JoinHostPort("127.0.0.1", page.Port())
	case "::":
		page.Host = net.JoinHostPort("::1", page.Port())
	}
	return page, nil
}

// fetch gives the status and the first line of a page. Of a server on this machine it does not matter
// what its certificate is for.
func fetch(page *url.URL) (status int, line string, err error) {
	host, err := netip.ParseAddr(page.Hostname())
	own := err == nil && host.IsLoopback()
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: own}, DisableKeepAlives: true}, // no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page.String(), nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close() // read only
	text, err := io.ReadAll(io.LimitReader(answer.Body, healthBytes))
	if err != nil {
		return 0, "", err
	}
	line, _, _ = strings.Cut(string(text), "\n")
	return answer.StatusCode, line, nil
}
