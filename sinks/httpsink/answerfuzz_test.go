package httpsink

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/docket-export/docket/config"
)

// FuzzReadAnswer reads answers as they are and compressed.
func FuzzReadAnswer(f *testing.F) {
	for _, coding := range []string{"", "gzip", "br"} {
		f.Add(coding, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	}
	f.Fuzz(func(t *testing.T, coding, text string) {
		const limit = 1000
		res := &http.Response{Header: http.Header{"Content-Encoding": {coding}}, Body: io.NopCloser(strings.NewReader(text))}
		if a := readAnswer(res, limit, time.Hour, func() {}); len(a.body) > limit {
			t.Errorf("%d bytes were kept, want at most %d", len(a.body), limit)
		}
	})
}

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// FuzzTokenAnswer asks for tokens: one that is used has the form of a header.
func FuzzTokenAnswer(f *testing.F) {
	f.Add(200, "application/json", `{"access_token":"t","token_type":"bearer","expires_in":3600}`)
	f.Add(200, "application/x-www-form-urlencoded", "access_token=t&expires_in=9")
	f.Add(400, "application/json", `{"error":"invalid_scope","error_description":"none"}`)
	source, err := newTokenSource(&OAuth2{TokenURL: "http://127.0.0.1/token", ClientID: "docket", ClientSecretFile: config.SecretFile(f.TempDir() + "/none")}, time.Minute)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, contentType, text string) {
		ctx := context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: readWhole{roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(text))}, nil
		})}})
		token, err := source.tokenOf(ctx, "secret")
		if err == nil && !isHeaderValue(token.AccessToken) {
			t.Errorf("the token %q was taken", token.AccessToken)
		}
	})
}
