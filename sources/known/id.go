package known

import "crypto/sha256"

// ID stands for the identity of one record. The zero ID is of a record that has none.
type ID [16]byte

// Of is the ID of an identity, whatever its form: half of its SHA-256, which no two
// identities share by chance.
func Of(identity []byte) ID {
	sum := sha256.Sum256(identity)
	return ID(sum[:len(ID{})])
}
