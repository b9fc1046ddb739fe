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

// peer says whose an ID is; the zero peer is everybody who has not proven it.
type peer [7]byte

// peerMark is how the ID of a peer begins. One ID in four billion of everybody's does so by
// chance, and counts as that of a peer of its own.
const peerMark = "peer"

// OfPeer is the ID of an identity that only name can use: the same one of another peer
// is another record. It begins with the mark and three bytes of the peer's hash, by which
// the window is shared among peers, after a restart too. The rest, nine bytes, no two
// share by chance.
func OfPeer(name string, identity []byte) (id ID) {
	whose := sha256.Sum256([]byte(name))
	copy(id[:], peerMark)
	copy(id[len(peerMark):], whose[:len(peer{})-len(peerMark)])
	sum := sha256.Sum256(append(whose[:], identity...))
	copy(id[len(peer{}):], sum[:])
	return id
}

func (id ID) peer() peer {
	if string(id[:len(peerMark)]) != peerMark {
		return peer{}
	}
	return peer(id[:])
}
