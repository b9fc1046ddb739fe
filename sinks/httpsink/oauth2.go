package httpsink

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// OAuth2 gets a bearer token with the client credentials grant of RFC 6749. A
// token is used until it expires, and is fetched again, once, when the receiver
// rejects it.
type OAuth2 struct {
	// TokenURL is the token endpoint.
	TokenURL string `yaml:"tokenURL"`
	ClientID string `yaml:"clientID"`
	// ClientSecretFile is read again whenever a token is fetched.
	ClientSecretFile config.SecretFile `yaml:"clientSecretFile"`
	// AuthStyle says where the request for a token has the client's id and secret: in
	// one place, never tried in both. Without it they are in the header.
	AuthStyle AuthStyle `yaml:"authStyle"`
	// Scopes are what the token is to permit.
	Scopes []string `yaml:"scopes"`
	// EndpointParams are sent to the token endpoint unchanged: audience, resource
	// and other parameters. They must not hold secrets.
	EndpointParams map[string]string `yaml:"endpointParams"`
	// TLS is for the token endpoint alone. Without it the system's roots are
	// trusted and no certificate is shown, whatever TLS of the receiver says.
	TLS *config.TLS `yaml:"tls"`
}

// AuthStyle is where a client shows its id and secret to the token endpoint.
type AuthStyle string

// The choices of oauth2.authStyle.
const (
	AuthHeader AuthStyle = "Header" // Authorization: Basic, which every endpoint must take (RFC 6749, 2.3.1)
	AuthBody   AuthStyle = "Body"   // client_id and client_secret in the form
)

// params is the style as package oauth2 has it. Its zero value would try both, and show
// the secret in two places.
func (s AuthStyle) params() oauth2.AuthStyle {
	if s == AuthBody {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// ownParams are set by the grant itself.
var ownParams = []string{"client_id", "client_secret", "grant_type", "scope"}

func (o *OAuth2) validate() config.Problems {
	var p config.Problems
	p.Check("tokenURL", config.Required(o.TokenURL, "is required"), checkTokenURL(o.TokenURL))
	p.Refuse(o.TLS != nil && strings.HasPrefix(o.TokenURL, "http:"), "tls", "has no effect on an http:// tokenURL: use https:// or remove it")
	p = append(p, o.TLS.Validate().In("tls")...)
	p.Check("clientID", config.Required(o.ClientID, "is required"))
	p.Check("clientSecretFile", config.Required(o.ClientSecretFile, "is required"))
	if o.AuthStyle != "" {
		p.Check("authStyle", config.Choice(o.AuthStyle, AuthHeader, AuthBody))
	}
	for _, name := range slices.Sorted(maps.Keys(o.EndpointParams)) {
		p.Refuse(slices.Contains(ownParams, name), "endpointParams."+name, "is set from clientID, clientSecretFile and scopes: remove it")
	}
	return p
}

func checkTokenURL(text string) error {
	return checkAddress(text, "https://login.example.com/oauth2/token", "clientID and clientSecretFile")
}

// tokenSource keeps the token of one sink. Its methods may be called at the same
// time; one of them fetches, and the others wait for it.
type tokenSource struct {
	config *OAuth2
	wire   *connection
	lock   chan struct{}            // holds one element while nobody has the lock
	grant  clientcredentials.Config // guarded by lock
	token  *oauth2.Token            // guarded by lock; nil when there is none
}

func newTokenSource(o *OAuth2, timeout time.Duration) (*tokenSource, error) {
	u, err := url.Parse(o.TokenURL)
	if err != nil {
		return nil, errors.New("http.oauth2.tokenURL cannot be parsed") // err would show it
	}
	wire, err := newConnection(peer{
		url: u, urlKey: "http.oauth2.tokenURL", tlsKey: "http.oauth2.tls", action: "get a token from",
		tls: o.TLS, timeout: timeout,
	})
	if err != nil {
		return nil, err
	}
	t := &tokenSource{config: o, wire: wire, lock: make(chan struct{}, 1)}
	t.grant = clientcredentials.Config{ClientID: o.ClientID, TokenURL: o.TokenURL, Scopes: o.Scopes, AuthStyle: o.AuthStyle.params(), EndpointParams: url.Values{}}
	for name, value := range o.EndpointParams {
		t.grant.EndpointParams.Set(name, value)
	}
	t.lock <- struct{}{}
	return t, nil
}

// get returns a token that has not expired; fetched says that it is new.
func (t *tokenSource) get(ctx context.Context) (token *oauth2.Token, fetched bool, err error) {
	select {
	case <-t.lock:
	case <-ctx.Done():
		return nil, false, t.wire.unanswered(ctx, ctx.Err())
	}
	defer func() { t.lock <- struct{}{} }()
	if t.token.Valid() {
		return t.token, false, nil
	}
	if t.token, err = t.fetch(ctx); err != nil {
		return nil, false, err
	}
	return t.token, true, nil
}

// drop forgets token, unless another has taken its place.
func (t *tokenSource) drop(token *oauth2.Token) {
	<-t.lock
	defer func() { t.lock <- struct{}{} }()
	if t.token == token {
		t.token = nil
	}
}

// fetch asks for a token. The lock is held.
func (t *tokenSource) fetch(ctx context.Context) (*oauth2.Token, error) {
	secret, err := t.config.ClientSecretFile.Read()
	if err != nil {
		return nil, sinks.Failf(sinks.Misconfigured, "http.oauth2.clientSecretFile: %w", err)
	}
	client, err := t.wire.client()
	if err != nil {
		return nil, err
	}
	whole := &http.Client{Transport: readWhole{client.Transport}, CheckRedirect: client.CheckRedirect}
	return t.tokenOf(context.WithValue(ctx, oauth2.HTTPClient, whole), secret)
}

// tokenOf is fetch with the client in ctx.
func (t *tokenSource) tokenOf(ctx context.Context, secret string) (*oauth2.Token, error) {
	t.grant.ClientSecret = secret
	token, err := t.grant.Token(ctx)
	if err == nil && !isHeaderValue(token.Type()+" "+token.AccessToken) {
		return nil, sinks.Failf(sinks.Misconfigured, "get a token from %s: answered a token that no header can hold: check http.oauth2.tokenURL", t.wire.url.Host)
	}
	if err == nil {
		return token, nil
	}
	if _, ok := errors.AsType[*url.Error](err); ok || ctx.Err() != nil {
		return nil, t.wire.unanswered(ctx, err)
	}
	refusal, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		// It was 2xx. What it said is not quoted: it may be a token all the same.
		return nil, sinks.Failf(sinks.Misconfigured, "get a token from %s: the answer has no readable token: check http.oauth2.tokenURL", t.wire.url.Host)
	}
	return nil, t.refused(refusal, append(urlSecrets(t.wire.url), secret, basicPair(t.config.ClientID, secret)))
}

// readWhole reads an answer before it gives it out, so that one that was cut is
// an error of the network, and not one of what it says.
type readWhole struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r readWhole) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := r.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// basicPair is how a client shows its credentials in a header: RFC 6749 escapes
// them before they are joined.
func basicPair(id, secret string) string {
	return base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id) + ":" + url.QueryEscape(secret)))
}

// refused classifies an answer of the token endpoint that has no token. It is
// never about records: nothing is Rejected.
func (t *tokenSource) refused(e *oauth2.RetrieveError, secrets []string) error {
	retryAfter := e.Response.Header.Get("Retry-After")
	f := &sinks.Failure{Kind: kindOf(e.Response.StatusCode, retryAfter)}
	switch {
	case e.ErrorCode == "temporarily_unavailable" || e.ErrorCode == "server_error":
		f.Kind = sinks.Transient
	case f.Kind == sinks.Rejected || e.Response.StatusCode < 300:
		f.Kind = sinks.Misconfigured
	case f.Kind == sinks.Throttled:
		f.After = parseRetryAfter(retryAfter, time.Now())
	}
	said := e.Body
	if e.ErrorCode != "" {
		said = []byte(e.ErrorCode + " " + e.ErrorDescription)
	}
	text := "get a token from " + t.wire.url.Host + ": answered " + statusText(e.Response.StatusCode)
	if line := quoted(secrets)(string(said)); line != "" {
		text += ": " + line
	}
	if f.Kind == sinks.Misconfigured {
		text += ": check http.oauth2 and what the endpoint permits this client"
	}
	f.Err = errors.New(text)
	return f
}
