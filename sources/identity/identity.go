// Package identity says who is at the other end of a connection, in the words by
// which the intake keeps the names of one peer apart from those of another.
package identity

import (
	"crypto/sha256"
	"crypto/x509"
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

// OfCertificate is the identity of those who have shown a client certificate with the
// subject of verified, the certificates that a TLS handshake has verified; Anyone where
// there are none. A certificate without a subject is known by its first URI, as SPIFFE
// has it, or else its first DNS name, and without these by its key. An identity that
// would be too long is told apart by a hash.
func OfCertificate(verified []*x509.Certificate) string {
	if len(verified) == 0 {
		return Anyone
	}
	leaf := verified[0]
	id := "cert:" + leaf.Subject.String()
	if leaf.Subject.String() == "" {
		switch {
		case len(leaf.URIs) > 0:
			id = "uri:" + leaf.URIs[0].String()
		case len(leaf.DNSNames) > 0:
			id = "dns:" + leaf.DNSNames[0]
		default:
			id = "key:" + hash(leaf.RawSubjectPublicKeyInfo)
		}
	}
	if len(id) > maxBytes {
		id = "hash:" + hash([]byte(id))
	}
	return id
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
