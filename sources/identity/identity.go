// Package identity names the peer of a connection. By this name the intake keeps the
// producers of one peer apart from the producers of another.
package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
)

// Anyone is the identity of peers that cannot be told apart: on a network, without
// client certificates.
const Anyone = "any"

// maxBytes bounds an identity: it stands in every frame of its producers.
const maxBytes = 128

// OfUser is the identity of the processes of a user on a Unix socket.
func OfUser(uid uint32) string { return fmt.Sprintf("uid:%d", uid) }

// OfCertificate is the identity of a peer that has shown the certificates in verified,
// which a TLS handshake has verified. Without certificates it is Anyone. A certificate
// with a SPIFFE ID is known by the ID alone, because many of them share one subject. Any
// other certificate is known by its subject, with every part in its order. Without a
// subject it is known by its first URI, else by its first DNS name, else by its key. An
// identity that would be too long is cut and gets a hash.
func OfCertificate(verified []*x509.Certificate) string {
	if len(verified) == 0 {
		return Anyone
	}
	leaf := verified[0]
	id := nameOf(leaf)
	if id == "" {
		id = "key:" + hash(leaf.RawSubjectPublicKeyInfo)
	}
	if len(id) > maxBytes {
		id = "hash:" + hash([]byte(id))
	}
	return id
}

// nameOf is what a certificate calls its owner; "" when it has no name.
func nameOf(leaf *x509.Certificate) string {
	for _, uri := range leaf.URIs {
		if uri.Scheme == "spiffe" {
			return "uri:" + uri.String()
		}
	}
	switch subject := subjectOf(leaf); {
	case subject != "":
		return "cert:" + subject
	case len(leaf.URIs) > 0:
		return "uri:" + leaf.URIs[0].String()
	case len(leaf.DNSNames) > 0:
		return "dns:" + leaf.DNSNames[0]
	}
	return ""
}

// subjectOf is the subject as it stands in the certificate: pkix.Name forgets all but
// the last common name, and the order.
func subjectOf(leaf *x509.Certificate) string {
	var names pkix.RDNSequence
	if rest, err := asn1.Unmarshal(leaf.RawSubject, &names); err != nil || len(rest) > 0 {
		return "" // no parsed certificate has such a subject
	}
	return names.String()
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
