package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority makes certificates for tests. All files are in a directory of the test.
type Authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	args []string
	File string // its own certificate, in PEM form
}

// NewAuthority makes one with a certificate of its own.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key = template, a.newKey()
	a.File = a.write("authority", "CERTIFICATE", a.sign("authority", template, a.key))
	return a
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

// sign completes a template and returns its certificate, which the authority signs. The authority
// also signs its own certificate.
func (a *Authority) sign(name string, template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	a.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = serial, pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func (a *Authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name+".pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}),
		0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// Issue makes a certificate for servers at 127.0.0.1 and for clients, and its key, and
// gives the files that they are in.
func (a *Authority) Issue(name string) (certFile, keyFile string) {
	a.t.Helper()
	key := a.newKey()
	der := a.sign(name, &x509.Certificate{
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, key)
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name+".cert", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", plain)
}

// ServerArgs returns the options for a server that uses TLS. Every call returns the same options
// and certificate. Clients of that server need no certificate.
func (a *Authority) ServerArgs() []string {
	a.t.Helper()
	if a.args != nil {
		return a.args
	}
	cert, key := a.Issue("server")
	a.args = []string{"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", a.File,
		"--tls-auth-clients", "no"}
	return a.args
}

// Trust returns a client's TLS configuration that trusts the authority. If the files of a
// certificate and its key are given, the client presents that certificate.
func (a *Authority) Trust(certAndKey ...string) *tls.Config {
	a.t.Helper()
	pool := x509.NewCertPool()
	text, err := os.ReadFile(a.File)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		a.t.Fatalf("the authority's certificate: %v", err)
	}
	cfg := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
	if len(certAndKey) == 2 {
		pair, err := tls.LoadX509KeyPair(certAndKey[0], certAndKey[1])
		if err != nil {
			a.t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg
}
