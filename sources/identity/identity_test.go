package identity_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"strings"
	"testing"

	"github.com/docket-export/docket/sources/identity"
)

func TestOfCertificate(t *testing.T) {
	spiffe, err := url.Parse("spiffe://cluster.example/ns/shop/sa/engine")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("o", 200)
	tests := map[string]struct {
		leaf *x509.Certificate
		want string
	}{
		"subject": {&x509.Certificate{Subject: pkix.Name{CommonName: "engine", Organization: []string{"shop"}}, URIs: []*url.URL{spiffe}}, "cert:CN=engine,O=shop"},
		"URI":     {&x509.Certificate{URIs: []*url.URL{spiffe}, DNSNames: []string{"engine.shop"}}, "uri:" + spiffe.String()},
		"DNS":     {&x509.Certificate{DNSNames: []string{"engine.shop", "other"}}, "dns:engine.shop"},
		"key":     {&x509.Certificate{RawSubjectPublicKeyInfo: []byte("a")}, "key:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
	}
	for name, tt := range tests {
		if got := identity.OfCertificate([]*x509.Certificate{tt.leaf}); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	if got := identity.OfCertificate(nil); got != identity.Anyone {
		t.Errorf("no certificate: got %q, want %q", got, identity.Anyone)
	}
	a := identity.OfCertificate([]*x509.Certificate{{Subject: pkix.Name{CommonName: long + "a"}}})
	b := identity.OfCertificate([]*x509.Certificate{{Subject: pkix.Name{CommonName: long + "b"}}})
	if a == b || len(a) > 128 {
		t.Errorf("long subjects: got %q and %q, want two names of at most 128 bytes", a, b)
	}
}
