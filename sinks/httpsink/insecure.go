package httpsink

import (
	"maps"
	"net"
	"net/url"
	"slices"

	"github.com/docket-export/docket/config"
)

// inClear says whether what is sent to address, a URL, crosses a network where others
// can read it. A name other than localhost leads anywhere.
func inClear(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "http" && !config.Loopback(net.JoinHostPort(u.Hostname(), "80"))
}

// credentialsInClear lists the keys whose credentials the configuration would send over a
// network without TLS.
func (c *Config) credentialsInClear() []string {
	var keys []string
	if inClear(c.URL) {
		keys = c.authKinds()
		for _, name := range slices.Sorted(maps.Keys(c.HeaderFiles)) {
			if key := "headerFiles." + name; !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	if c.OAuth2 != nil && inClear(c.OAuth2.TokenURL) {
		keys = append(keys, "oauth2.tokenURL")
	}
	return keys
}

// validateInClear refuses credentials that everybody on the way could read.
func (c *Config) validateInClear(p *config.Problems) {
	if c.InsecureCredentials {
		return
	}
	for _, key := range c.credentialsInClear() {
		p.Addf(key, "would send a credential unencrypted: use https://, or set insecureCredentials: true to permit http://; loopback addresses need neither")
	}
}

// Warnings implements config.Warner.
func (c *Config) Warnings() config.Problems {
	var p config.Problems
	if c.InsecureCredentials {
		for _, key := range c.credentialsInClear() {
			p.Addf(key, "sends a credential unencrypted, as insecureCredentials permits: anybody on the network path can read it; use https://")
		}
	}
	return p
}
