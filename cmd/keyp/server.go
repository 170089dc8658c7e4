package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"keyp/internal/config"
)

// serverFlags are the options of tools that connect to a server.
type serverFlags struct {
	user, ca, cert, key *string
	tls                 *bool
}

const serverUsage = "--user NAME (the password is that of REDISCLI_AUTH), --tls, --cacert FILE, --cert FILE, --key FILE"

func addServerFlags(flags *flag.FlagSet) *serverFlags {
	return &serverFlags{
		user: flags.String("user", "", ""), tls: flags.Bool("tls", false, ""),
		ca: flags.String("cacert", "", ""), cert: flags.String("cert", "", ""),
		key: flags.String("key", "", ""),
	}
}

// parseWords parses flags that may stand between words, and returns the words.
func parseWords(flags *flag.FlagSet, args []string) (words []string, err error) {
	for rest := args; len(rest) > 0; rest = flags.Args() {
		if rest[0] == "-" || !strings.HasPrefix(rest[0], "-") {
			words = append(words, rest[0])
			rest = rest[1:]
		}
		if err := flags.Parse(rest); err != nil {
			return nil, mistake(flags, err)
		}
	}
	return words, nil
}

// mistake rewords an error of package flag: options have two hyphens here. For an unknown option it
// suggests a similar one.
func mistake(flags *flag.FlagSet, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return err
	}
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, "--"+f.Name) })
	if len(names) == 0 {
		return fmt.Errorf("unknown option --%s", name)
	}
	return fmt.Errorf("unknown option --%s%s", name, config.Suggestion("--"+name, names...))
}

// check returns an error for certificates without TLS. Password and data would be sent in the
// clear.
func (f *serverFlags) check() error {
	if !*f.tls && *f.ca+*f.cert+*f.key != "" {
		return errors.New("--cacert, --cert and --key need --tls")
	}
	return nil
}

// apply sets a client's options according to the flags.
func (f *serverFlags) apply(o *redis.Options) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	if o.Username = *f.user; o.Username != "" && o.Password == "" {
		// Without a password the client would not send AUTH, and would stay the default
		// user.
		o.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
			return conn.AuthACL(ctx, o.Username, "").Err()
		}
	}
	if *f.tls {
		o.TLSConfig, err = clientTLS(*f.ca, *f.cert, *f.key)
	}
	return err
}

// networkOf returns the network of an address, which is HOST:PORT or the path of a socket.
func networkOf(addr string) string {
	if info, err := os.Stat(addr); err == nil && info.Mode().Type() == os.ModeSocket ||
		strings.HasPrefix(addr, "/") {
		return "unix"
	}
	return "tcp"
}

// dial connects to the server at an address, HOST:PORT or the path of its socket, and
// authenticates. The connection is closed when the context ends.
func (f *serverFlags) dial(ctx context.Context, addr string) (net.Conn, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, networkOf(addr), addr)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { conn.Close() }) // also when the context ends with the tool
	if *f.tls {
		secure, err := f.secure(ctx, conn, addr)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		conn = secure
	}
	if password := os.Getenv("REDISCLI_AUTH"); *f.user+password != "" {
		if err := authenticate(conn, *f.user, password); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", addr, err), conn.Close())
		}
	}
	return conn, nil
}

func (f *serverFlags) secure(ctx context.Context, conn net.Conn, addr string) (net.Conn, error) {
	config, err := clientTLS(*f.ca, *f.cert, *f.key)
	if err != nil {
		return nil, err
	}
	if config.ServerName, _, err = net.SplitHostPort(addr); err != nil {
		return nil, err
	}
	secure := tls.Client(conn, config)
	return secure, secure.HandshakeContext(ctx)
}

// clientTLS returns a TLS configuration from files. Empty names are ignored.
func clientTLS(ca, cert, key string) (*tls.Config, error) {
	made := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		if made.RootCAs = x509.NewCertPool(); !made.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		made.Certificates = []tls.Certificate{pair}
	}
	return made, nil
}

// authenticate sends AUTH. After the reply the server sends nothing until it gets another command.
func authenticate(conn net.Conn, user, password string) error {
	command := []string{"AUTH", user, password}
	if user == "" {
		command = []string{"AUTH", password}
	}
	b := fmt.Appendf(nil, "*%d\r\n", len(command))
	for _, word := range command {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write(b); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "+") {
		err = errors.New(strings.TrimSpace(strings.TrimPrefix(line, "-")))
	}
	return err
}
