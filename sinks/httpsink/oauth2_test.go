package httpsink

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/sinks"
)

// issuer is a token endpoint on a real socket. Its tokens are s3cret-1, s3cret-2 ...
type issuer struct {
	*httptest.Server
	issued  atomic.Int64
	answer  atomic.Pointer[http.HandlerFunc] // instead of a token, when set
	expires string                           // member of the answer
	mu      sync.Mutex
	forms   []url.Values
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{expires: `,"expires_in":3600`}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if answer := i.answer.Load(); answer != nil {
		(*answer)(w, req)
		return
	}
	req.ParseForm()
	id, secret, inHeader := req.BasicAuth()
	if !inHeader {
		id, secret = req.PostForm.Get("client_id"), req.PostForm.Get("client_secret")
	}
	if id != "docket" || secret != "s3cret-client" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":"invalid_client","error_description":"no client with %s"}`, secret)
		return
	}
	i.mu.Lock()
	i.forms = append(i.forms, req.PostForm)
	i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":"s3cret-%d","token_type":"bearer"%s}`, i.issued.Add(1), i.expires)
}

func (i *issuer) set(answer http.HandlerFunc) { i.answer.Store(&answer) }

func withOAuth2(t *testing.T, i *issuer, change ...func(*OAuth2)) func(*Config) {
	o := &OAuth2{TokenURL: i.URL + "/token", ClientID: "docket", ClientSecretFile: secretFile(t, "s3cret-client")}
	for _, f := range change {
		f(o)
	}
	return func(c *Config) { c.OAuth2 = o }
}

// wantToken answers 401 to every token but want.
func (r *receiver) wantToken(want string) {
	r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
		if got := req.Header.Get("Authorization"); got != "Bearer "+want {
			status(401, "not "+got)(w, req)
			return
		}
		r.accept(req)
	})
}

func sendWorks(t *testing.T, s sinks.Sink) {
	t.Helper()
	if err := s.Send(t.Context(), batch(1, `{"a":1}`)); err != nil {
		t.Fatalf("Send = %v, want nil", err)
	}
}

func TestOAuth2(t *testing.T) {
	i, r := newIssuer(t), newReceiver(t, (*httptest.Server).Start)
	s := openSink(t, r.URL, withOAuth2(t, i, func(o *OAuth2) {
		o.Scopes, o.EndpointParams = []string{"write", "read"}, map[string]string{"audience": "siem"}
	}))
	r.wantToken("s3cret-1")
	for range 3 {
		sendWorks(t, s)
	}
	if got := i.issued.Load(); got != 1 {
		t.Errorf("%d tokens were fetched for three batches, want 1", got)
	}
	if got, want := i.forms[0].Encode(), "audience=siem&grant_type=client_credentials&scope=write+read"; got != want {
		t.Errorf("the token was asked for with %s, want %s", got, want)
	}

	// The receiver has forgotten the token: it is replaced within one Send.
	r.wantToken("s3cret-2")
	sendWorks(t, s)
	if got, want := i.issued.Load(), int64(2); got != want {
		t.Errorf("%d tokens were fetched, want %d", got, want)
	}

	// It takes none: one is tried again, a fresh one is not.
	r.wantToken("none")
	before := r.requestCount()
	wantNoSecret(t, sendFails(t, s, sinks.Misconfigured, "answered 401", "not Bearer [redacted]", "replace the credential in http.oauth2, or"))
	if got := r.requestCount() - before; got != 2 {
		t.Errorf("%d requests with a token that is refused, want 2", got)
	}
	if got, want := len(r.accepted()), 4; got != want {
		t.Errorf("the receiver holds %d records, want %d", got, want)
	}
}

func TestOAuth2RotatedSecret(t *testing.T) {
	i, r := newIssuer(t), newReceiver(t, (*httptest.Server).Start)
	file := secretFile(t, "s3cret-old")
	s := openSink(t, r.URL, withOAuth2(t, i, func(o *OAuth2) { o.ClientSecretFile = file }))
	f := sendFails(t, s, sinks.Misconfigured, "get a token from", "401", "invalid_client", "no client with [redacted]", "check http.oauth2")
	wantNoSecret(t, f)
	writeFile(t, string(file), "s3cret-client")
	sendWorks(t, s)
}

func TestOAuth2Failures(t *testing.T) {
	jsonError := func(code int, text string, headers ...string) http.HandlerFunc {
		return status(code, text, append(headers, "Content-Type", "application/json")...)
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		kind   sinks.Kind
		after  time.Duration
		want   string
	}{
		"invalid client": {jsonError(400, `{"error":"invalid_client"}`), sinks.Misconfigured, 0, "invalid_client: check http.oauth2"},
		"error with 200": {jsonError(200, `{"error":"unauthorized_client"}`), sinks.Misconfigured, 0, "unauthorized_client: check http.oauth2"},
		"for now":        {jsonError(400, `{"error":"temporarily_unavailable"}`), sinks.Transient, 0, "temporarily_unavailable"},
		"no JSON":        {status(200, "<html>sign in</html>"), sinks.Misconfigured, 0, "check http.oauth2.tokenURL"},
		"no token":       {jsonError(200, `{}`), sinks.Misconfigured, 0, "check http.oauth2.tokenURL"},
		"text":           {status(200, "token=s3cret%zz", "Content-Type", "text/plain"), sinks.Misconfigured, 0, "check http.oauth2.tokenURL"},
		"half":           {status(200, `{"access_`, "Content-Length", "900"), sinks.Transient, 0, "the connection was closed"},
		"two lines":      {jsonError(200, `{"access_token":"s3cret\nHost: a"}`), sinks.Misconfigured, 0, "no header can hold: check http.oauth2.tokenURL"},
		"type of lines":  {jsonError(200, `{"access_token":"s3cret","token_type":"a\nb"}`), sinks.Misconfigured, 0, "no header can hold: check http.oauth2.tokenURL"},
		"not found":      {status(404, "nothing s3cret-client here"), sinks.Misconfigured, 0, "nothing [redacted] here: check http.oauth2"},
		"too large":      {status(413, ""), sinks.Misconfigured, 0, "answered 413"},
		"500":            {status(500, ""), sinks.Transient, 0, "answered 500"},
		"busy":           {status(503, "", "Retry-After", "9"), sinks.Throttled, 9 * time.Second, "answered 503"},
		"throttled":      {status(429, "", "Retry-After", "8"), sinks.Throttled, 8 * time.Second, "answered 429"},
		"cut":            {cut, sinks.Transient, 0, "get a token from"},
	} {
		t.Run(name, func(t *testing.T) {
			i, r := newIssuer(t), newReceiver(t, (*httptest.Server).Start)
			i.Config.ErrorLog = r.Config.ErrorLog
			i.set(test.answer)
			f := sendFails(t, openSink(t, r.URL, withOAuth2(t, i)), test.kind, test.want)
			if f.After != test.after {
				t.Errorf("After = %v, want %v", f.After, test.after)
			}
			wantNoSecret(t, f)
			if got := r.requestCount(); got != 0 {
				t.Errorf("the receiver got %d requests, want none without a token", got)
			}
		})
	}
}

// The client's secret goes nowhere but to the token endpoint.
func TestOAuth2Redirect(t *testing.T) {
	i, r, other := newIssuer(t), newReceiver(t, (*httptest.Server).Start), newReceiver(t, (*httptest.Server).Start)
	i.set(status(307, "", "Location", other.URL))
	sendFails(t, openSink(t, r.URL, withOAuth2(t, i)), sinks.Misconfigured, "answered 307", "check http.oauth2")
	if got := other.requestCount(); got != 0 {
		t.Errorf("the other server got %d requests, want none", got)
	}
}

func TestOAuth2TLS(t *testing.T) {
	ca := testcert.NewCA(t)
	r, tokens := newReceiver(t, (*httptest.Server).Start), tlsReceiver(t, ca, false)
	tokens.setAnswer(status(200, `{"access_token":"s3cret-1"}`, "Content-Type", "application/json"))
	use := func(c *config.TLS) func(*Config) {
		return func(into *Config) {
			into.OAuth2 = &OAuth2{TokenURL: tokens.URL, ClientID: "docket", ClientSecretFile: secretFile(t, "s3cret"), TLS: c}
		}
	}
	sendFails(t, openSink(t, r.URL, use(nil)), sinks.Misconfigured, "get a token from "+tokens.Listener.Addr().String(), "check http.oauth2.tls.caFile")
	sendWorks(t, openSink(t, r.URL, use(&config.TLS{CAFile: ca.File})))
}

func TestBasic(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	file := secretFile(t, "s3cret-a")
	s := openSink(t, r.URL, func(c *Config) { c.Basic = &Basic{Username: "docket", PasswordFile: file} })
	for _, want := range []string{"s3cret-a", "s3cret-b"} {
		writeFile(t, string(file), want+"\n")
		sendWorks(t, s)
		if user, password, _ := r.lastRequest(t).BasicAuth(); user != "docket" || password != want {
			t.Errorf("authorized as %q with %q, want docket with %q", user, password, want)
		}
	}
	r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
		status(403, "no "+req.Header.Get("Authorization")+" or s3cret-b")(w, req)
	})
	f := sendFails(t, s, sinks.Misconfigured, "no Basic [redacted] or [redacted]", "replace the credential in http.basic, or give it more permissions at the receiver")
	wantNoSecret(t, f)
	if strings.Contains(f.Error(), "ZG9ja2V0") {
		t.Errorf("the error gives the encoded password away: %q", f)
	}
}

func TestHeaders(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	file := secretFile(t, "Splunk s3cret-0123")
	s := openSink(t, r.URL, func(c *Config) {
		c.Headers = headers{"x-scope-orgid": "tenant-a"}
		c.HeaderFiles = headerFiles{"authorization": file, "DD-API-KEY": secretFile(t, "s3cret-dd")}
	})
	sendWorks(t, s)
	for name, want := range map[string]string{"X-Scope-OrgID": "tenant-a", "Authorization": "Splunk s3cret-0123", "dd-api-key": "s3cret-dd"} {
		if got := r.lastRequest(t).Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	r.setAnswer(status(401, "token s3cret-0123, key s3cret-dd"))
	wantNoSecret(t, sendFails(t, s, sinks.Misconfigured, "token [redacted], key [redacted]", "replace the credential in http.headerFiles.authorization"))

	writeFile(t, string(file), "Splunk \u00e9-s3cret")
	wantNoSecret(t, sendFails(t, s, sinks.Misconfigured, "http.headerFiles.authorization", string(file), "must be ASCII text"))
}
