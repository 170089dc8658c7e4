package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"keyp/internal/config"
	"keyp/internal/testkit"
)

// The same key as OpenSSL 3 writes it: unencrypted, and encrypted under the password "secret".
const plainTestKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg+MrSlQL+UiGmU5cr
KxSwTXQ/fq5KHjjmU4qNBW9dfC+hRANCAASf47piH8vP3EhEwscpYYvwwJ1+TXm7
RN9O78jRxJCpxrzNU2UVzIInbW1Ed4Lqk/RrwZMjgJ36fg9JuSk3zqLD
-----END PRIVATE KEY-----
`

var encryptedTestKeys = map[string]string{
	"PBES2, SHA-256, AES-256": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgvUMfn11ZacwICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEBGDYWVYrxS3leZP9fs4roEEgZA6
WVWmppDEercpytd9sOI7CktBlIYFaDxILp08kRdmMjUIuOWFG/zg2JsIxwCqwgqh
9vtU/JMFovcNS45+f+LVjg734TpFI8waMH1Ir+xljkV+9lsZYR5GPO0/0qb9wz/X
1Ev8BC6qtm7AKjsw4Vn7Rq3vpcj9EheJjtGC4fyVW47AHoyCd8ATKACqeshWF3o=
-----END ENCRYPTED PRIVATE KEY-----
`,
	"PBES2, SHA-1, AES-128": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHeMEkGCSqGSIb3DQEFDTA8MBsGCSqGSIb3DQEFDDAOBAi5WnFSI+/O6gICCAAw
HQYJYIZIAWUDBAECBBCDXrHUSGxSXgAbhOyo1qRpBIGQiv9/Yy+8XsN1xaMPk1ii
nI2TN+OKhi7RtQIigeXC7hpbrHkTJm5Rf7TcoqJTAKucgNyOdSk9fGA62IN5Ej6x
Yg9o3y6ipwlFQy0BaYLNlRA4pjZeO7mZ0p5bJqtUJS8R8VqEk77tLG33Cas2SuDO
nECfk3cglaC65Vqe8+/Q+i2frDH0tSyyekzf3wUxXDMk
-----END ENCRYPTED PRIVATE KEY-----
`,
	"cipher in the head": `-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-256-CBC,01C4B4B0056007362DCDB74967234339

n3ak9yoefHOUxb8S4aEN6enTSllA+WgdcV6Thg9anj053DxXVgEQ5orDJmdvipRu
us8XGcR76oUelVV2fHqRRd3z6pu8IF+O3oJRxlXy8TzPJynkWnjfyKy3MDIJUsSr
43SKeTdMdLc0ziKzfI++SbMXmGYFP0OH5BPICh1lQ/Y=
-----END EC PRIVATE KEY-----
`,
}

// des3TestKey is under the same password, but its encryption is not supported.
const des3TestKey = `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHjME4GCSqGSIb3DQEFDTBBMCkGCSqGSIb3DQEFDDAcBAiV+W24NmERsAICCAAw
DAYIKoZIhvcNAgkFADAUBggqhkiG9w0DBwQIxwQrlMCCrH8EgZBEo8TQzNYRVwum
Vl4bTSO+T57BhaBmEeMg5tRhVofH6FyJ+UTTJsWdTAkRlzMUXAVE28TEQekW3Y0A
dpZ6KFZNqnxTOZwS53FHSUt7QkBS9o0jOPOLdH40rF8ABpQDnnGpiwZGtXiBZmOM
KGVWfeOKhJpKPnRxcUXTim0omyYVIyJWa3wKYke0KOsWwyB1PEQ=
-----END ENCRYPTED PRIVATE KEY-----
`

// keyOf returns the private key of a PEM file.
func keyOf(t *testing.T, text []byte) *ecdsa.PrivateKey {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("no PEM block in %q", text)
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.(*ecdsa.PrivateKey)
}

func TestEncryptedKeys(t *testing.T) {
	want := keyOf(t, []byte(plainTestKey))
	for name, text := range encryptedTestKeys {
		plain, err := plainKey([]byte(text), "secret")
		if err != nil || !keyOf(t, plain).Equal(want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := plainKey([]byte(text), ""); !errors.Is(err, errNeedsPass) {
			t.Errorf("%s without the password: %v", name, err)
		}
		if _, err := plainKey([]byte(text), "wrong"); !errors.Is(err, errWrongPass) {
			t.Errorf("%s with a wrong password: %v", name, err)
		}
		block, _ := pem.Decode([]byte(text))
		for i := range block.Bytes { // a damaged file is an error, never a panic
			damaged := pem.Block{Type: block.Type, Headers: block.Headers,
				Bytes: bytes.Clone(block.Bytes)}
			damaged.Bytes[i] ^= 0x41
			if plain, err := plainKey(pem.EncodeToMemory(&damaged), "secret"); err == nil &&
				block.Type == "ENCRYPTED PRIVATE KEY" {
				_ = keyOf(t, plain)
			}
		}
	}
	if plain, err := plainKey([]byte(plainTestKey), "not needed"); err != nil ||
		!keyOf(t, plain).Equal(want) {
		t.Errorf("a plain key: %v", err)
	}
	if _, err := plainKey([]byte(des3TestKey), "secret"); !errors.Is(err, errKeyForm) {
		t.Errorf("DES: %v", err)
	}
}

func TestTLSCiphers(t *testing.T) {
	all, err := tlsCiphers("DEFAULT")
	if err != nil || len(all) < 6 {
		t.Fatalf("%v, %v", all, err)
	}
	const gcm, chacha = tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
	for _, tt := range []struct {
		text string
		want []uint16
		err  string
	}{
		{text: "", want: nil},
		{text: "HIGH:!aNULL:!MD5", want: all},
		{text: "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-CHACHA20-POLY1305",
			want: []uint16{gcm, chacha}},
		{text: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", want: []uint16{gcm}},
		{text: "ECDHE-ECDSA-AES256-SHA", want: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA}},
		{
			text: "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-CHACHA20-POLY1305:!ECDHE-RSA-CHACHA20-POLY1305",
			want: []uint16{gcm}},
		{text: "RC4-SHA", err: `"RC4-SHA" is not supported`},
		{text: "DEFAULT:@SECLEVEL=2", err: `"@SECLEVEL=2" is not supported`},
		{text: "!DEFAULT", err: "nothing is left"},
	} {
		got, err := tlsCiphers(tt.text)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.err == "") ||
			err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: %v, %v", tt.text, got, err)
		}
	}
}

// TestTLSConfigErrors: a start with an unusable configuration fails with an error that names the
// option and does not contain the password.
func TestTLSConfigErrors(t *testing.T) {
	a := testkit.NewAuthority(t)
	cert, key := a.Issue("server")
	locked, dir := filepath.Join(t.TempDir(), "key.pem"), t.TempDir()
	if err := os.WriteFile(locked, []byte(encryptedTestKeys["PBES2, SHA-256, AES-256"]),
		0o600); err != nil {
		t.Fatal(err)
	}
	good := []string{"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", a.File}
	for _, tt := range []struct {
		args []string
		want string // "": it is served
	}{
		{nil, ""},
		{[]string{"--tls-cert-file", ""}, "no tls-cert-file"},
		{[]string{"--tls-key-file", ""}, "no tls-key-file"},
		{[]string{"--tls-cert-file", "/nowhere"}, "tls-cert-file: open /nowhere"},
		{[]string{"--tls-key-file", cert}, "tls-cert-file and tls-key-file: "},
		{[]string{"--tls-key-file", locked},
			"tls-key-file: the key is encrypted, and tls-key-file-pass is not set"},
		{[]string{"--tls-key-file", locked, "--tls-key-file-pass", "sesame"},
			"tls-key-file: the key cannot be decrypted"},
		{[]string{"--tls-key-file", locked, "--tls-key-file-pass", "secret"},
			"private key does not match"},
		{[]string{"--tls-ca-cert-file", ""}, "either tls-ca-cert-file or tls-ca-cert-dir"},
		{[]string{"--tls-ca-cert-file", "", "--tls-auth-clients", "no"}, ""},
		{[]string{"--tls-ca-cert-file", "", "--tls-auth-clients", "optional"},
			"either tls-ca-cert-file or tls-ca-cert-dir"},
		{[]string{"--tls-cert-file", "/dev/zero"}, "tls-cert-file: /dev/zero is not a file"},
		{[]string{"--tls-key-file", dir}, "tls-key-file: " + dir + " is not a file"},
		{[]string{"--tls-ca-cert-file", key}, "has no certificate"},
		{[]string{"--tls-ca-cert-dir", dir}, "tls-ca-cert-dir: no file"},
		{[]string{"--tls-ca-cert-file", "", "--tls-ca-cert-dir", filepath.Dir(a.File)}, ""},
		{[]string{"--tls-protocols", "TLSv1.3"}, ""},
		{[]string{"--tls-protocols", "TLSv1.1 TLSv1.2"}, "tls-protocols: tlsv1.1 is not served"},
		{[]string{"--tls-protocols", "SSLv3"}, "tls-protocols: \"sslv3\" is none of"},
		{[]string{"--tls-ciphers", "RC4-SHA"}, "tls-ciphers: "},
		{[]string{"--tls-ciphersuites", "TLS_AES_256_GCM_SHA384"},
			"tls-ciphersuites: TLS 1.3 comes with all its suites"},
		{[]string{"--tls-ciphersuites", "TLS_X"}, "tls-ciphersuites: \"TLS_X\" is none of TLS_AES"},
		{[]string{"--tls-key-file", "/nokey", "--tls-cert-file", "", "--tls-ca-cert-file", "/noca",
			"--tls-ca-cert-dir", "/nodir", "--tls-protocols", "SSLv3"},
			"tls-protocols: \"sslv3\" is none of TLSv1.2, TLSv1.3\nno tls-cert-file is configured\ntls-key-file: open /nokey: no such file or directory\n" +
				"tls-ca-cert-file: open /noca: no such file or directory\ntls-ca-cert-dir: open /nodir: no such file or directory"},
		{[]string{"--tls-ciphersuites",
			"TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"}, ""},
	} {
		cfg, err := config.Load(append(slices.Clone(good), tt.args...), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = newTLSConfig(cfg)
		if (err == nil) != (tt.want == "") ||
			err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v", tt.args, err)
		}
		if err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("the password shows: %v", err)
		}
	}
}
