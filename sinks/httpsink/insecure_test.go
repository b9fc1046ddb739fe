package httpsink

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/docket-export/docket/config"
)

// No credential crosses a network without TLS, unless the configuration says so.
func TestCredentialsInClear(t *testing.T) {
	oauth2 := func(url string) func(*Config) {
		return func(c *Config) { c.OAuth2 = &OAuth2{TokenURL: url, ClientID: "c", ClientSecretFile: "f"} }
	}
	tests := map[string]struct {
		url    string
		change func(*Config)
		want   string // the keys of the problems
	}{
		"bearer":               {"http://siem.example.com", func(c *Config) { c.BearerTokenFile = "f" }, "bearerTokenFile"},
		"bearer with a port":   {"http://10.0.0.1:8080/x", func(c *Config) { c.BearerTokenFile = "f" }, "bearerTokenFile"},
		"capitals":             {"HTTP://siem.example.com", func(c *Config) { c.BearerTokenFile = "f" }, "bearerTokenFile"},
		"basic":                {"http://siem.example.com", func(c *Config) { c.Basic = &Basic{"u", "f"} }, "basic"},
		"header files":         {"http://siem.example.com", func(c *Config) { c.HeaderFiles = headerFiles{"X-B": "f", "Authorization": "f"} }, "headerFiles.Authorization headerFiles.X-B"},
		"token and its use":    {"http://siem.example.com", oauth2("http://login.example.com"), "oauth2 oauth2.tokenURL"},
		"token alone":          {"https://siem.example.com", oauth2("http://login.example.com"), "oauth2.tokenURL"},
		"use alone":            {"http://siem.example.com", oauth2("https://login.example.com"), "oauth2"},
		"a name like loopback": {"http://localhost.example.com", func(c *Config) { c.BearerTokenFile = "f" }, "bearerTokenFile"},
		"TLS":                  {"https://siem.example.com", func(c *Config) { c.BearerTokenFile = "f" }, ""},
		"loopback":             {"http://127.0.0.1:8080", func(c *Config) { c.BearerTokenFile = "f" }, ""},
		"loopback of IPv6":     {"http://[::1]:8080", oauth2("http://localhost/token"), ""},
		"nothing to hide":      {"http://siem.example.com", func(*Config) {}, ""},
	}
	keys := func(p config.Problems) string {
		var keys []string
		for _, problem := range p {
			if strings.Contains(problem.Text, "a credential unencrypted") {
				keys = append(keys, problem.Path)
			}
		}
		return strings.Join(keys, " ")
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := defaultConfig()
			c.URL = tt.url
			tt.change(c)
			if got := keys(c.Validate()); got != tt.want {
				t.Errorf("refused: got %q, want %q", got, tt.want)
			}
			if got := keys(c.Warnings()); got != "" {
				t.Errorf("warned of %q as well", got)
			}
			c.InsecureCredentials = true
			if got := keys(c.Validate()); got != "" {
				t.Errorf("refused with insecureCredentials: %q", got)
			}
			if got := keys(c.Warnings()); got != tt.want {
				t.Errorf("warned: got %q, want %q", got, tt.want)
			}
		})
	}
}

// The client's secret is shown in one place, even to an endpoint that refuses it there.
func TestOAuth2ShowsItsSecretOnce(t *testing.T) {
	for style, want := range map[AuthStyle]string{"": "header", AuthHeader: "header", AuthBody: "body"} {
		for _, code := range []int{http.StatusOK, http.StatusUnauthorized, http.StatusBadRequest} {
			i, r := newIssuer(t), newReceiver(t, (*httptest.Server).Start)
			var shown []string
			i.set(func(w http.ResponseWriter, req *http.Request) {
				req.ParseForm()
				if req.Header.Get("Authorization") != "" {
					shown = append(shown, "header")
				}
				if req.Form.Has("client_secret") || req.Form.Has("client_id") {
					shown = append(shown, "body")
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				w.Write([]byte(`{"access_token":"t","token_type":"bearer","expires_in":3600}`))
			})
			s := openSink(t, r.URL, withOAuth2(t, i, func(o *OAuth2) { o.AuthStyle = style }))
			_ = s.Send(t.Context(), batch(1, `{}`)) // what becomes of it is another test's
			if got := strings.Join(shown, " "); got != want {
				t.Errorf("authStyle %q, answer %d: the secret was in %q, want %q", style, code, got, want)
			}
		}
	}
}
