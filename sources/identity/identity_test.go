package identity_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/url"
	"strings"
	"testing"

	"github.com/docket-export/docket/sources/identity"
)

var (
	commonName   = asn1.ObjectIdentifier{2, 5, 4, 3}
	organization = asn1.ObjectIdentifier{2, 5, 4, 10}
)

func part(of asn1.ObjectIdentifier, value string) pkix.RelativeDistinguishedNameSET {
	return pkix.RelativeDistinguishedNameSET{{Type: of, Value: value}}
}

// subject is a subject as a certificate has it.
func subject(t *testing.T, parts ...pkix.RelativeDistinguishedNameSET) []byte {
	t.Helper()
	raw, err := asn1.Marshal(pkix.RDNSequence(parts))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func uris(t *testing.T, texts ...string) (all []*url.URL) {
	t.Helper()
	for _, text := range texts {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
	return all
}

func TestOfCertificate(t *testing.T) {
	const spiffe = "spiffe://cluster.example/ns/shop/sa/engine"
	spire := subject(t, part(organization, "SPIRE"))
	tests := map[string]struct {
		leaf *x509.Certificate
		want string
	}{
		"subject":   {&x509.Certificate{RawSubject: subject(t, part(organization, "shop"), part(commonName, "engine")), URIs: uris(t, "https://shop")}, "cert:CN=engine,O=shop"},
		"SPIFFE ID": {&x509.Certificate{RawSubject: spire, URIs: uris(t, "https://shop", spiffe)}, "uri:" + spiffe},
		"URI":       {&x509.Certificate{RawSubject: subject(t), URIs: uris(t, "https://shop"), DNSNames: []string{"engine.shop"}}, "uri:https://shop"},
		"DNS":       {&x509.Certificate{RawSubject: subject(t), DNSNames: []string{"engine.shop", "other"}}, "dns:engine.shop"},
		"key":       {&x509.Certificate{RawSubjectPublicKeyInfo: []byte("a")}, "key:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
	}
	for name, tt := range tests {
		if got := identity.OfCertificate([]*x509.Certificate{tt.leaf}); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	if got := identity.OfCertificate(nil); got != identity.Anyone {
		t.Errorf("no certificate: got %q, want %q", got, identity.Anyone)
	}
}

// Subjects that differ anywhere are different identities.
func TestSubjectsThatDifferAreDifferentIdentities(t *testing.T) {
	long := strings.Repeat("o", 200)
	seen := map[string]string{}
	for name, raw := range map[string][]byte{
		"one name":          subject(t, part(commonName, "pod-a")),
		"one in front":      subject(t, part(commonName, "attacker"), part(commonName, "pod-a")),
		"organization":      subject(t, part(organization, "x"), part(commonName, "y")),
		"the other order":   subject(t, part(commonName, "y"), part(organization, "x")),
		"one set of both":   subject(t, append(part(organization, "x"), part(commonName, "y")...)),
		"a comma in a name": subject(t, part(commonName, "y,O=x")),
		"long a":            subject(t, part(commonName, long+"a")),
		"long b":            subject(t, part(commonName, long+"b")),
	} {
		id := identity.OfCertificate([]*x509.Certificate{{RawSubject: raw}})
		if other := seen[id]; other != "" || len(id) > 128 {
			t.Errorf("%s and %s are %q", name, other, id)
		}
		seen[id] = name
	}
}
