package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// fingerprinted is what keys are known by: an HMAC of it tells one from another.
const fingerprinted = "docket: fingerprint of a redaction"

// Fingerprint is a text that changes when the rules turn the same record into something
// else: after a change of a rule or of the key of an HMAC. It holds HMACs instead of
// keys. It fails when a key cannot be read.
func (r *Redactor) Fingerprint() (string, error) {
	sum := sha256.New()
	for i, rule := range r.rules {
		text, err := json.Marshal(rule) // each field has its name: rules do not run into each other
		if err != nil {
			return "", fmt.Errorf("redact[%d]: %w", i, err)
		}
		sum.Write(text)
	}
	for _, p := range r.pointers {
		if p.key == nil {
			continue
		}
		secret, err := p.key.read()
		if err != nil {
			return "", err
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(fingerprinted))
		sum.Write(mac.Sum(nil))
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}
