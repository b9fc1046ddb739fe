package httpsink

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Signature signs every request as the Standard Webhooks specification says:
// the receiver can prove that it comes from here, unchanged, and just now.
//
//	webhook-id         the key of the batch, as in Idempotency-Key
//	webhook-timestamp  when the attempt was made, seconds since 1970
//	webhook-signature  "v1," and the base64 of HMAC-SHA256(secret, id.timestamp.body)
//
// The body is what goes over the wire, compressed if it is. With several secrets
// there are as many signatures, a space between them.
//
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
type Signature struct {
	// SecretFile holds the secret in base64, with or without "whsec_" before it.
	// Each further line is one more secret: while you replace a secret, the file
	// holds the old and the new one.
	SecretFile config.SecretFile `yaml:"secretFile"`
}

// Rules implements config.Ruled.
func (Signature) Rules() []config.Rule {
	return []config.Rule{config.Required("secretFile", "is required")}
}

const (
	// More than an old, a present and a next secret is a wrong file.
	maxSigningSecrets = 8
	// That many secrets of the longest that the specification knows, and comfort.
	maxSigningFile = 4 << 10
)

// sign adds the three headers to h.
func (g *Signature) sign(h http.Header, id string, now time.Time, body []byte) error {
	secrets, err := g.secrets()
	if err != nil {
		return sinks.Failf(sinks.Misconfigured, "http.signature.secretFile: secret file %s: %w", g.SecretFile, err)
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + timestamp + ".")) // a hash takes everything
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", timestamp)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
	return nil
}

// secrets reads the file, which unlike other secret files may have lines. Its
// errors do not name the file, nor anything that is in it.
func (g *Signature) secrets() ([][]byte, error) {
	data, err := readSmall(string(g.SecretFile), maxSigningFile)
	if err != nil {
		return nil, err
	}
	var secrets [][]byte
	for line := range bytes.Lines(data) {
		text := strings.TrimSpace(string(line))
		if text == "" {
			continue
		}
		secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
		if err != nil || len(secret) == 0 {
			return nil, errors.New("secret " + strconv.Itoa(len(secrets)+1) + " is not base64: write it as the receiver shows it, such as whsec_..., one a line")
		}
		secrets = append(secrets, secret)
	}
	switch {
	case len(secrets) == 0:
		return nil, errors.New("is empty: write the secret into it")
	case len(secrets) > maxSigningSecrets:
		return nil, errors.New("holds more than " + strconv.Itoa(maxSigningSecrets) + " secrets: keep the ones in use")
	}
	return secrets, nil
}

// readSmall reads a regular file of at most limit bytes; opening a pipe would
// block. Its errors do not name the file.
func readSmall(path string, limit int) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	if !info.Mode().IsRegular() || info.Size() > int64(limit) {
		return nil, errors.New("must be a regular file of at most " + config.Size(limit).String())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	return data, nil
}

func withoutPath(err error) error {
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
