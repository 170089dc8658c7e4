package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"keyp/internal/clock"
	"keyp/internal/config"
)

// TLS is the configuration from the options for TLS. CONFIG SET renews it.
type TLS struct{ config atomic.Pointer[tls.Config] }

// Config returns the present configuration, for new connections. It must not be changed.
func (t *TLS) Config() *tls.Config { return t.config.Load() }

// tlsFront has everything that is needed to make TLS connections. It belongs to the loop.
type tlsFront struct {
	*TLS
	turn chan struct{} // see greeting
}

// errUpdateTLS is CONFIG SET's error; the log says more. The text is Redis's.
//
//lint:ignore ST1005 Redis's text
var errUpdateTLS = errors.New("Unable to update TLS configuration. Check server logs.")

// tlsOptions are the options whose change rebuilds the configuration.
var tlsOptions = []string{
	"tls-cert-file", "tls-key-file", "tls-key-file-pass", "tls-ca-cert-file", "tls-ca-cert-dir",
	"tls-auth-clients",
	"tls-protocols", "tls-ciphers", "tls-ciphersuites", "tls-session-caching",
}

func (f *tlsFront) setUp(o *Options) (err error) {
	f.turn = make(chan struct{}, greeters())
	f.TLS, err = FollowTLS(o.Config, o.Log)
	return err
}

// FollowTLS reads the configuration, now and after each change of an option. New connections use
// the newest configuration. Files are read only at these times, so CONFIG SET with the same names
// renews a certificate.
func FollowTLS(cfg *config.Config, log *slog.Logger) (*TLS, error) {
	t := &TLS{}
	made, err := newTLSConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot serve TLS: %w", err)
	}
	t.config.Store(made)
	for _, name := range tlsOptions {
		cfg.OnChange(name, func() error {
			made, err := newTLSConfig(cfg)
			if err != nil {
				log.Warn("the TLS configuration stays as it was", "error", err)
				return errUpdateTLS
			}
			t.config.Store(made)
			return nil
		})
	}
	return t, nil
}

// CheckTLS returns the errors with which FollowTLS would fail, for an option that asks for TLS. A
// certificate that is not valid at present is worth a warning: clients may accept it.
func CheckTLS(cfg *config.Config, option string) error {
	made, err := newTLSConfig(cfg)
	if err == nil {
		leaf, now := made.Certificates[0].Leaf, time.UnixMilli(clock.System.Now())
		switch {
		case now.After(leaf.NotAfter):
			cfg.Warn("the certificate of tls-cert-file has expired: it was valid until " +
				leaf.NotAfter.UTC().Format(time.RFC3339))
		case now.Before(leaf.NotBefore):
			cfg.Warn("the certificate of tls-cert-file is not valid yet: it begins at " +
				leaf.NotBefore.UTC().Format(time.RFC3339))
		}
	}
	var all config.Mistakes
	all.Add(err)
	for i, err := range all {
		if unset := (errUnset("")); errors.As(err, &unset) {
			err = fmt.Errorf("%w: %s needs it", err, option)
		}
		all[i] = fmt.Errorf("cannot serve TLS: %w", err)
	}
	return all.OrNil()
}

// errUnset is the error for an option without a value that TLS needs.
type errUnset string

func (e errUnset) Error() string { return string(e) }

// newTLSConfig makes a configuration of the options. Its errors name the option.
func newTLSConfig(cfg *config.Config) (*tls.Config, error) {
	made := &tls.Config{
		SessionTicketsDisabled: !cfg.Bool("tls-session-caching"),
		// Small first records help only with pages that show before they are whole.
		DynamicRecordSizingDisabled: true,
	}
	var all config.Mistakes
	note := func(option string, err error) {
		if err != nil {
			all.Add(fmt.Errorf("%s: %w", option, err))
		}
	}
	var err error
	made.MinVersion, made.MaxVersion, err = tlsVersions(cfg.String("tls-protocols"))
	note("tls-protocols", err)
	made.CipherSuites, err = tlsCiphers(cfg.String("tls-ciphers"))
	note("tls-ciphers", err)
	note("tls-ciphersuites", checkSuites(cfg.String("tls-ciphersuites")))
	certificate, err := loadCertificate(cfg.PathOf("tls-cert-file"), cfg.PathOf("tls-key-file"),
		cfg.String("tls-key-file-pass"))
	all.Add(err)
	made.Certificates = []tls.Certificate{certificate}
	switch cfg.String("tls-auth-clients") {
	case "no":
		return made, all.OrNil()
	case "yes":
		made.ClientAuth = tls.RequireAndVerifyClientCert
	case "optional":
		made.ClientAuth = tls.VerifyClientCertIfGiven
	}
	made.ClientCAs, err = loadAuthorities(cfg.PathOf("tls-ca-cert-file"),
		cfg.PathOf("tls-ca-cert-dir"))
	all.Add(err)
	return made, all.OrNil()
}

// MemberTLS makes the configuration for connections between members of a group. Each member has a
// certificate, which the other one demands.
func MemberTLS(cfg *config.Config) (*tls.Config, error) {
	made, err := newTLSConfig(cfg)
	if err != nil {
		return nil, err
	}
	if made.ClientCAs == nil {
		if made.ClientCAs, err = loadAuthorities(cfg.PathOf("tls-ca-cert-file"),
			cfg.PathOf("tls-ca-cert-dir")); err != nil {
			return nil, err
		}
	}
	made.RootCAs, made.ClientAuth = made.ClientCAs, tls.RequireAndVerifyClientCert
	return made, nil
}

// loadCertificate reads a certificate, followed by those that lead to its authority, and its key.
func loadCertificate(certFile, keyFile, pass string) (none tls.Certificate, err error) {
	var all config.Mistakes
	read := func(option, name string) (text []byte) {
		if name == "" {
			all.Add(errUnset("no " + option + " is configured"))
			return nil
		}
		text, err := readPEM(name)
		if err == nil && option == "tls-key-file" {
			text, err = plainKey(text, pass)
		}
		if err != nil {
			all.Add(fmt.Errorf("%s: %w", option, err))
		}
		return text
	}
	cert, key := read("tls-cert-file", certFile), read("tls-key-file", keyFile)
	if len(all) > 0 {
		return none, all
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return none, fmt.Errorf("tls-cert-file and tls-key-file: %w", err)
	}
	return pair, nil
}

// maxPEM bounds a file of certificates or keys, in bytes: a bundle of all public
// authorities has about 250,000.
const maxPEM = 4 << 20

// readPEM reads such a file. CONFIG SET may name anything, and the loop waits for the read. So
// readPEM takes no pipe and no device, and nothing endless.
func readPEM(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxPEM {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", name, maxPEM)
	}
	return io.ReadAll(io.LimitReader(f, maxPEM))
}

// loadAuthorities reads the certificates of the authorities that may sign client certificates: from
// file, and from every file in dir. At least one of the two must be given, and each that is given
// must have a certificate.
func loadAuthorities(file, dir string) (*x509.CertPool, error) {
	if file == "" && dir == "" {
		return nil,
			errUnset("either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-auth-clients is not no")
	}
	pool := x509.NewCertPool()
	var all config.Mistakes
	if file != "" {
		text, err := readPEM(file)
		if err == nil && !pool.AppendCertsFromPEM(text) {
			err = fmt.Errorf("%s has no certificate", file)
		}
		if err != nil {
			all.Add(fmt.Errorf("tls-ca-cert-file: %w", err))
		}
	}
	if dir != "" {
		if err := addAuthorities(pool, dir); err != nil {
			all.Add(fmt.Errorf("tls-ca-cert-dir: %w", err))
		}
	}
	return pool, all.OrNil()
}

// addAuthorities adds the certificates of all files in a directory. It returns an error if no file
// has one.
func addAuthorities(pool *x509.CertPool, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found := false
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			continue
		}
		text, err := readPEM(name)
		if err != nil {
			return err
		}
		found = pool.AppendCertsFromPEM(text) || found
	}
	if !found {
		return fmt.Errorf("no file in %s has a certificate", dir)
	}
	return nil
}

// tlsVersions reads tls-protocols; empty is 1.2 and 1.3.
func tlsVersions(text string) (lowest, highest uint16, err error) {
	for _, word := range strings.Fields(strings.ToLower(text)) {
		var version uint16
		switch word {
		case "tlsv1.2":
			version = tls.VersionTLS12
		case "tlsv1.3":
			version = tls.VersionTLS13
		case "tlsv1", "tlsv1.1":
			return 0, 0, fmt.Errorf("%s is not served, since it is not safe", word)
		default:
			return 0, 0, fmt.Errorf("%q is none of TLSv1.2, TLSv1.3", word)
		}
		if lowest == 0 || version < lowest {
			lowest = version
		}
		highest = max(highest, version)
	}
	if lowest == 0 {
		return tls.VersionTLS12, tls.VersionTLS13, nil
	}
	return lowest, highest, nil
}

// neverOffered are words of OpenSSL's cipher lists for ciphers that crypto/tls does not have, so
// removing one changes nothing.
var neverOffered = strings.Fields("aNULL eNULL NULL MD5 RC4 DES 3DES EXPORT EXP LOW MEDIUM PSK SRP DSS aDSS ADH AECDH DH DHE kDHE CAMELLIA SEED IDEA ARIA SSLv2 SSLv3")

// tlsCiphers reads tls-ciphers, the cipher suites of TLS 1.2. They are names of OpenSSL or of IANA,
// separated by ":", or DEFAULT, HIGH or ALL for all that crypto/tls considers safe; "!" removes
// one. nil is crypto/tls's own choice.
func tlsCiphers(text string) ([]uint16, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(":, ", r) })
	var chosen, removed []uint16
	for _, word := range words {
		name, takesAway := strings.CutPrefix(word, "!")
		known := suitesNamed(name)
		switch {
		case takesAway && slices.Contains(neverOffered, name):
		case known == nil:
			return nil, fmt.Errorf("%q is not supported", word)
		case takesAway:
			removed = append(removed, known...)
		default:
			chosen = append(chosen, known...)
		}
	}
	if len(words) == 0 {
		return nil, nil
	}
	chosen = slices.DeleteFunc(chosen, func(id uint16) bool { return slices.Contains(removed, id) })
	if len(chosen) == 0 {
		return nil, errors.New("nothing is left of the list")
	}
	return chosen, nil
}

// suitesNamed returns the suites of TLS 1.2 that a word of tls-ciphers stands for.
func suitesNamed(name string) (ids []uint16) {
	for _, suite := range tls.CipherSuites() {
		if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
			continue
		}
		if slices.Contains([]string{"DEFAULT", "HIGH", "ALL", suite.Name, openSSLName(suite.Name)},
			name) {
			ids = append(ids, suite.ID)
		}
	}
	return ids
}

// openSSLName turns TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 into ECDHE-RSA-AES128-GCM-SHA256.
func openSSLName(name string) string {
	name = strings.NewReplacer("TLS_", "", "_WITH", "", "AES_", "AES", "POLY1305_SHA256",
		"POLY1305", "_CBC_SHA", "_SHA").Replace(name)
	return strings.ReplaceAll(name, "_", "-")
}

// checkSuites refuses a choice among the suites of TLS 1.3, because crypto/tls always uses all of
// them.
func checkSuites(text string) error {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(":, ", r) })
	if len(words) == 0 {
		return nil
	}
	var names []string
	for _, suite := range tls.CipherSuites() {
		if slices.Contains(suite.SupportedVersions, tls.VersionTLS13) {
			names = append(names, suite.Name)
		}
	}
	for _, word := range words {
		if !slices.Contains(names, word) {
			return fmt.Errorf("%q is none of %s", word, strings.Join(names, ", "))
		}
	}
	for _, name := range names {
		if !slices.Contains(words, name) {
			return fmt.Errorf("TLS 1.3 comes with all its suites, so %s can't be left out", name)
		}
	}
	return nil
}
