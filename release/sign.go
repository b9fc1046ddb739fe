package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

// signer signs as cosign does with a key of its user: ECDSA over SHA-256, in a bundle of
// sigstore that names the key and no transparency log.
type signer struct {
	key  *ecdsa.PrivateKey
	hint string // what a bundle calls the key
}

func readKey(file string, password []byte) (*signer, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s: not a PEM file", file)
	}
	der := block.Bytes
	switch block.Type {
	case "PRIVATE KEY":
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		if der, err = encrypted.Decrypt(der, password); err != nil {
			return nil, fmt.Errorf("%s: is COSIGN_PASSWORD right? %w", file, err)
		}
	default:
		return nil, fmt.Errorf("%s: got %s, want a key of cosign or PKCS #8", file, block.Type)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() { // with which SHA-256 goes
		return nil, fmt.Errorf("%s: got %T, want an ECDSA key of the curve P-256", file, parsed)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(public)
	return &signer{key, base64.StdEncoding.EncodeToString(sum[:])}, nil
}

func (s *signer) sign(message []byte) ([]byte, error) {
	sum := sha256.Sum256(message)
	return ecdsa.SignASN1(rand.Reader, s.key, sum[:])
}

// blob is the bundle for cosign verify-blob.
func (s *signer) blob(content []byte) ([]byte, error) {
	signature, err := s.sign(content)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	return s.bundle("messageSignature", map[string]any{
		"messageDigest": map[string]any{"algorithm": "SHA2_256", "digest": sum[:]},
		"signature":     signature,
	})
}

// envelope is the bundle for cosign verify-blob-attestation.
func (s *signer) envelope(payloadType string, payload []byte) ([]byte, error) {
	signature, err := s.sign(dsse.PAE(payloadType, payload))
	if err != nil {
		return nil, err
	}
	return s.bundle("dsseEnvelope", map[string]any{
		"payload": payload, "payloadType": payloadType,
		"signatures": []any{map[string]any{"sig": signature}},
	})
}

func (s *signer) bundle(kind string, content any) ([]byte, error) {
	return json.Marshal(map[string]any{
		"mediaType":            "application/vnd.dev.sigstore.bundle.v0.3+json",
		"verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": s.hint}},
		kind:                   content,
	})
}
