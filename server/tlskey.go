package server

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"hash"
)

// Private keys under a password come in two forms. OpenSSL has written PKCS #8 with PBES2 (RFC
// 8018) since 1.0. The older form has the cipher's name in the head of the PEM block.

// maxIterations bounds what a key file may make the server compute.
const maxIterations = 10_000_000

var (
	errNeedsPass = errors.New("the key is encrypted, and tls-key-file-pass is not set")
	errWrongPass = errors.New("the key cannot be decrypted with tls-key-file-pass")
	errKeyForm   = errors.New("the key is encrypted in a way that is not supported: only PKCS #8 with PBES2, PBKDF2 and AES-CBC is")
)

// plainKey returns a PEM file with its encrypted keys decrypted.
func plainKey(text []byte, pass string) ([]byte, error) {
	var plain []byte
	for {
		var block *pem.Block
		block, text = pem.Decode(text)
		if block == nil {
			return plain, nil
		}
		var err error
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY":
			if pass == "" {
				return nil, errNeedsPass
			}
			block.Type = "PRIVATE KEY"
			block.Bytes, err = decryptPKCS8(block.Bytes, []byte(pass))
		//lint:ignore SA1019 the form is unsafe, the keys in it are there all the same
		case x509.IsEncryptedPEMBlock(block):
			if pass == "" {
				return nil, errNeedsPass
			}
			//lint:ignore SA1019 as above
			block.Bytes, err = x509.DecryptPEMBlock(block, []byte(pass))
			if err != nil {
				err = errWrongPass
			}
			block.Headers = nil
		}
		if err != nil {
			return nil, err
		}
		plain = append(plain, pem.EncodeToMemory(block)...)
	}
}

// The structures of RFC 8018, appendix A.
type (
	encryptedKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	pbes2Params struct {
		Derivation, Encryption pkix.AlgorithmIdentifier
	}
	pbkdf2Params struct {
		Salt       []byte
		Iterations int
		KeyLength  int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
)

// keyHashes and keyCiphers are the algorithms that PBES2 may name: hashes for HMAC, and the key
// sizes of AES-CBC in bytes.
var (
	oidPBES2  = "1.2.840.113549.1.5.13"
	oidPBKDF2 = "1.2.840.113549.1.5.12"
	keyHashes = map[string]func() hash.Hash{
		"":                    sha1.New, // the default
		"1.2.840.113549.2.7":  sha1.New,
		"1.2.840.113549.2.9":  sha256.New,
		"1.2.840.113549.2.10": sha512.New384,
		"1.2.840.113549.2.11": sha512.New,
	}
	keyCiphers = map[string]int{
		"2.16.840.1.101.3.4.1.2":  16,
		"2.16.840.1.101.3.4.1.22": 24,
		"2.16.840.1.101.3.4.1.42": 32,
	}
)

func decryptPKCS8(der, pass []byte) ([]byte, error) {
	var key encryptedKey
	var scheme pbes2Params
	var derive pbkdf2Params
	var iv []byte
	for _, read := range []func() ([]byte, error){
		func() ([]byte, error) { return asn1.Unmarshal(der, &key) },
		func() ([]byte, error) {
			return asn1.Unmarshal(key.Algorithm.Parameters.FullBytes, &scheme)
		},
		func() ([]byte, error) {
			return asn1.Unmarshal(scheme.Derivation.Parameters.FullBytes, &derive)
		},
		func() ([]byte, error) {
			return asn1.Unmarshal(scheme.Encryption.Parameters.FullBytes, &iv)
		},
	} {
		if _, err := read(); err != nil {
			return nil, errKeyForm
		}
	}
	newHash := keyHashes[derive.PRF.Algorithm.String()]
	size := keyCiphers[scheme.Encryption.Algorithm.String()]
	if key.Algorithm.Algorithm.String() != oidPBES2 ||
		scheme.Derivation.Algorithm.String() != oidPBKDF2 ||
		newHash == nil || size == 0 || len(iv) != aes.BlockSize || derive.Iterations < 1 ||
		derive.Iterations > maxIterations {
		return nil, errKeyForm
	}
	secret, err := pbkdf2.Key(newHash, string(pass), derive.Salt, derive.Iterations, size)
	if err != nil {
		return nil, errKeyForm
	}
	block, err := aes.NewCipher(secret)
	if err != nil || len(key.Data) == 0 || len(key.Data)%aes.BlockSize != 0 {
		return nil, errWrongPass
	}
	plain := make([]byte, len(key.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, key.Data)
	// Most wrong passwords break the padding, and the others break the key within.
	pad := int(plain[len(plain)-1])
	if pad == 0 || pad > aes.BlockSize {
		return nil, errWrongPass
	}
	plain = plain[:len(plain)-pad]
	if _, err := x509.ParsePKCS8PrivateKey(plain); err != nil {
		return nil, errWrongPass
	}
	return plain, nil
}
