package httpsink

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/textproto"
	"strings"

	"golang.org/x/oauth2"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Basic is a user and a password, sent as "Authorization: Basic ...".
type Basic struct {
	Username string `yaml:"username"`
	// PasswordFile is read again for every attempt.
	PasswordFile config.SecretFile `yaml:"passwordFile"`
}

func (b *Basic) validate() config.Problems {
	var p config.Problems
	p.Check("username", config.Required(b.Username, "is required"))
	p.Refuse(strings.Contains(b.Username, ":"), "username", "must not contain a colon: the colon would end the name")
	p.Check("passwordFile", config.Required(b.PasswordFile, "is required"))
	return p
}

// authKinds lists the keys that set the Authorization header.
func (c *Config) authKinds() []string {
	var kinds []string
	if c.BearerTokenFile != "" {
		kinds = append(kinds, "bearerTokenFile")
	}
	if c.Basic != nil {
		kinds = append(kinds, "basic")
	}
	if c.OAuth2 != nil {
		kinds = append(kinds, "oauth2")
	}
	for name := range c.HeaderFiles {
		if textproto.CanonicalMIMEHeaderKey(name) == "Authorization" {
			kinds = append(kinds, "headerFiles."+name)
		}
	}
	return kinds
}

// credentials are what one request has shown of who we are.
type credentials struct {
	secrets []string      // that no error may quote
	token   *oauth2.Token // nil without OAuth2
	fetched bool          // token was fetched for this very request
}

// authorize adds to h what the receiver knows us by. Its error is a
// *sinks.Failure, or that ctx is done.
func (s *sink) authorize(ctx context.Context, h http.Header) (credentials, error) {
	var c credentials
	var err error
	if c.secrets, err = s.config.readHeaderFiles(h); err != nil {
		return c, err
	}
	switch {
	case s.config.BearerTokenFile != "":
		token, err := s.config.BearerTokenFile.Read()
		if err != nil {
			return c, sinks.Failf(sinks.Misconfigured, "http.bearerTokenFile: %w", err)
		}
		h.Set("Authorization", s.encoding.TokenScheme+" "+token)
		c.secrets = append(c.secrets, token)
	case s.config.Basic != nil:
		password, err := s.config.Basic.PasswordFile.Read()
		if err != nil {
			return c, sinks.Failf(sinks.Misconfigured, "http.basic.passwordFile: %w", err)
		}
		pair := base64.StdEncoding.EncodeToString([]byte(s.config.Basic.Username + ":" + password))
		h.Set("Authorization", "Basic "+pair)
		c.secrets = append(c.secrets, password, pair)
	case s.tokens != nil:
		if c.token, c.fetched, err = s.tokens.get(ctx); err != nil {
			return c, err
		}
		c.token.SetAuthHeader(&http.Request{Header: h})
		c.secrets = append(c.secrets, c.token.AccessToken)
	}
	return c, nil
}

// authHint says what to do when the receiver does not let us in.
func (c *Config) authHint() string {
	switch {
	case len(c.authKinds()) > 0:
		return "replace the credential in http." + c.authKinds()[0] + ", or give it more permissions at the receiver"
	case len(c.HeaderFiles) > 0:
		return "check http.headerFiles and the permissions of these credentials"
	case c.TLS != nil && c.TLS.CertFile != "":
		return "check http.tls.certFile and the permissions of the certificate"
	}
	return "it requires credentials: set http.bearerTokenFile, http.basic, http.oauth2 or http.headerFiles, or a client certificate in http.tls.certFile"
}
