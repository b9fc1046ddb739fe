package manifest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// The types of PEM blocks, as every other tool names them.
const (
	privateBlock = "PRIVATE KEY"
	publicBlock  = "PUBLIC KEY"
)

// GenerateKey makes a pair of keys, each as PEM: the private one in PKCS #8, the
// public one in PKIX.
func GenerateKey() (private, public []byte, err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the private key: %w", err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateBlock, Bytes: privateDER}),
		pem.EncodeToMemory(&pem.Block{Type: publicBlock, Bytes: publicDER}), nil
}

// ParsePrivateKey reads a private key as GenerateKey writes it. Errors say nothing
// of its content.
func ParsePrivateKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != privateBlock {
		return nil, errors.New("no PEM block PRIVATE KEY: make one with docket keygen")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if key, ok := parsed.(ed25519.PrivateKey); err == nil && ok {
		return key, nil
	}
	return nil, errors.New("not an Ed25519 private key in PKCS #8: make one with docket keygen")
}

// ParsePublicKeys reads public keys as GenerateKey writes them, one or more: after
// a change of keys an export has lines signed with each key.
func ParsePublicKeys(text []byte) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == privateBlock {
			return nil, errors.New("this is the private key, which only the exporter may have: use its public key")
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		key, ok := parsed.(ed25519.PublicKey)
		if block.Type != publicBlock || err != nil || !ok {
			return nil, errors.New("not an Ed25519 public key in PEM")
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("no PEM block PUBLIC KEY")
	}
	return keys, nil
}
