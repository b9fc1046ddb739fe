package httpsink

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/sinks"
)

// The example that receivers' libraries are tested with.
func TestSignatureExample(t *testing.T) {
	g := Signature{SecretFile: secretFile(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}
	h := http.Header{}
	if err := g.sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"webhook-id":        "msg_p5jXN8AQM9LWM0D4loKWxJek",
		"webhook-timestamp": "1614265330",
		"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// verify does what a receiver does that has secret.
func verify(h http.Header, body, secret string) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "." + body))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return slices.Contains(strings.Fields(h.Get("webhook-signature")), want)
}

func TestSignature(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	encode := func(secret string) string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(secret)) }
	file := secretFile(t, encode("old"))
	s := openSink(t, r.URL, func(c *Config) {
		c.Signature, c.Compression = &Signature{SecretFile: file}, compressGzip
	})
	wantSigned := func(by map[string]bool) {
		t.Helper()
		start := time.Now()
		sendWorks(t, s)
		h, body := r.lastRequest(t).Header, r.lastBody(t)
		for secret, want := range by {
			if got := verify(h, body, secret); got != want {
				t.Errorf("signed with %q: %v, want %v", secret, got, want)
			}
		}
		seconds, err := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
		if at := time.Unix(seconds, 0); err != nil || at.Before(start.Add(-2*time.Second)) || at.After(time.Now()) {
			t.Errorf("webhook-timestamp is %q, want the time of the attempt", h.Get("webhook-timestamp"))
		}
		if got, want := h.Get("webhook-id"), h.Get("idempotency-key"); got != want || got == "" {
			t.Errorf("webhook-id is %q, want %q", got, want)
		}
	}
	wantSigned(map[string]bool{"old": true, "new": false})
	writeFile(t, string(file), encode("old")+"\n\n "+strings.TrimPrefix(encode("new"), "whsec_")+"\r\n")
	wantSigned(map[string]bool{"old": true, "new": true})
	writeFile(t, string(file), encode("new"))
	wantSigned(map[string]bool{"old": false, "new": true})
}

func TestSignatureSecrets(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	for name, test := range map[string]struct{ content, want string }{
		"empty":      {"\n \n", "is empty"},
		"not base64": {"whsec_czNjcmV0\ns3cret!", "secret 2 is not base64"},
		"prefix":     {"whsec_", "secret 1 is not base64"},
		"many":       {strings.Repeat("czNjcmV0\n", 9), "more than 8 secrets"},
		"large":      {strings.Repeat("czNjcmV0", 1000), "at most 4Ki"},
	} {
		t.Run(name, func(t *testing.T) {
			file := secretFile(t, test.content)
			s := openSink(t, r.URL, func(c *Config) { c.Signature = &Signature{SecretFile: file} })
			wantNoSecret(t, sendFails(t, s, sinks.Misconfigured, "http.signature.secretFile", string(file), test.want))
		})
	}
	missing := openSink(t, r.URL, func(c *Config) { c.Signature = &Signature{SecretFile: "/nowhere/s"} })
	sendFails(t, missing, sinks.Misconfigured, "secret file /nowhere/s: no such file")
	if got := r.requestCount(); got != 0 {
		t.Errorf("the receiver got %d requests, want none unsigned", got)
	}
}
