package main

import (
	"bufio"
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
	"slices"
	"strconv"
	"strings"
	"time"

	"keyp/internal/config"
)

// This file contains the subcommand "keyp health", which asks a running server whether it is ready.

const healthUsage = "usage: keyp health [ADDR]"

const (
	// healthTime is the maximum time that a server may take for its answer.
	healthTime = 5 * time.Second
	// healthBytes is the maximum number of bytes of the answer that are read.
	healthBytes = 4 << 10
)

// health asks a server whether it is ready, for containers without a shell. It asks at the address
// given. Without one, it asks where the environment says that the server listens: at http-addr, at
// the clients' port, or at the Unix socket (healthAddress). Over HTTP the answer is that of
// /readyz; otherwise a server that answers PING is ready.
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
		if at, err = healthAddress(cfg); err != nil {
			return err
		}
	}
	ready, err := answersPing(at)
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	if ready {
		_, err := fmt.Fprintln(out, "ready")
		return err
	}
	page, err := readyPage(at)
	if err != nil {
		return err
	}
	status, text, err := fetch(page)
	switch {
	case err != nil && strings.Contains(err.Error(), "certificate required"):
		return errors.New("not ready: the server asks for a client's certificate, and health has none: let it ask at a clients' port without TLS, or at a socket")
	case err != nil && !unreached(err):
		return fmt.Errorf("not ready: %w; health asks at a clients' port without TLS (HOST:PORT), at a socket, or at http-addr",
			err)
	case err != nil:
		return fmt.Errorf("not ready: %w", err)
	case strings.HasPrefix(text, "waiting"): // for other members: nothing that a restart would mend
	case status != http.StatusOK && strings.HasPrefix(text, "not ready"):
		return errors.New(text)
	case status != http.StatusOK || !strings.HasPrefix(text, "ready"):
		// It may be another program's page.
		return fmt.Errorf("%s answers with status %d: %s", page, status, text)
	}
	_, err = fmt.Fprintln(out, text)
	return err
}

// healthAddress returns the address at which health asks a server with this configuration.
func healthAddress(cfg *config.Config) (string, error) {
	at, port, socket := cfg.String("http-addr"), cfg.Int("port"), cfg.String("unixsocket")
	if !cfg.Given("http-addr") { // it may have another port, or another server its usual one
		at = ""
	}
	switch {
	case at != "" && cfg.Bool("http-tls"):
		return "https://" + at, nil
	case at != "":
		return at, nil
	case port != 0:
		host := strings.TrimPrefix(slices.Concat(cfg.Words("bind"), []string{""})[0], "-")
		return net.JoinHostPort(strings.TrimPrefix(host, "*"), strconv.FormatInt(port, 10)), nil
	case socket != "" && !strings.Contains(socket, "/"):
		return "./" + socket, nil
	case socket != "":
		return socket, nil
	}
	return "",
		errors.New(
			"there is no port without TLS to ask at: give the server an http-addr, and ask there")
}

// answersPing reports whether the server at an address is ready: it replies to PING, or refuses
// PING for lack of a password or a permission. It returns false if the server does not speak the
// Redis protocol. It returns an error if the server cannot be reached or says that it is not ready.
func answersPing(at string) (bool, error) {
	if strings.Contains(at, "://") {
		return false, nil
	}
	network, address := "tcp", at
	if isSocket(at) {
		network = "unix"
	} else if host, port, err := net.SplitHostPort(at); err != nil {
		return false, fmt.Errorf("%q is not an address with a port, such as 127.0.0.1:6379", at)
	} else {
		address = net.JoinHostPort(reached(host), port)
	}
	conn, err := net.DialTimeout(network, address, healthTime)
	if err != nil {
		return false, err
	}
	defer conn.Close() // nothing is written behind PING
	if err := conn.SetDeadline(time.Now().Add(healthTime)); err != nil {
		return false, err
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return false, err
	}
	line, err := bufio.NewReader(io.LimitReader(conn, healthBytes)).ReadString('\n')
	var late net.Error
	switch line = strings.TrimSpace(line); {
	case errors.As(err, &late) && late.Timeout():
		return false, err
	case line == "+PONG", strings.HasPrefix(line, "-NOAUTH"), strings.HasPrefix(line, "-NOPERM"):
		return true, nil
	case strings.HasPrefix(line, "-"):
		return false, errors.New(line[1:])
	case err != nil && network == "unix":
		return false, err
	}
	return false, nil
}

// isSocket reports whether an address is the path of a socket.
func isSocket(at string) bool {
	if strings.Contains(at, "/") {
		return true
	}
	info, err := os.Stat(at)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// unreached reports whether an error says that nobody listens, or that no answer came in time.
func unreached(err error) bool {
	var op *net.OpError
	var late net.Error
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &late) && late.Timeout()
}

// reached returns the host to connect to. If the server listens on all addresses, or if no host is
// given, that is this machine.
func reached(host string) string {
	switch host {
	case "", "0.0.0.0":
		return "127.0.0.1"
	case "::":
		return "::1"
	}
	return host
}

// readyPage returns the URL of /readyz at an address. The address is HOST:PORT, or begins with
// http:// or https://.
func readyPage(at string) (*url.URL, error) {
	if !strings.Contains(at, "://") {
		at = "http://" + at
	}
	page, err := url.Parse(at)
	if err != nil || page.Host == "" || page.Scheme != "http" && page.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an address with a port, such as 127.0.0.1:8379", at)
	}
	page.Path = "/readyz"
	page.Host = net.JoinHostPort(reached(page.Hostname()), page.Port())
	return page, nil
}

// fetch returns the status and the first line of a page. It does not verify the certificate of a
// server at a loopback address.
func fetch(page *url.URL) (status int, line string, err error) {
	host, err := netip.ParseAddr(page.Hostname())
	own := err == nil && host.IsLoopback()
	client := http.Client{
		// No proxy.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: own},
			DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
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
