package httpsource

import (
	"crypto/sha256"

	"github.com/docket-export/docket/sources/identity"
)

// maxIDs is how many events are known at least, once that many were seen. Peers that
// prove who they are share it fairly: one that sends many makes docket forget its own.
const maxIDs = 1 << 16

// peerKey says whose an event is; the zero key is everybody who has not proven it.
type peerKey [8]byte

func peerKeyOf(peer string) (k peerKey) {
	if peer != identity.Anyone {
		sum := sha256.Sum256([]byte(peer))
		copy(k[:], sum[:])
	}
	return k
}

// id stands for the identity of one event among those of its peer: one peer cannot make
// docket take for known what another will send. The zero id is of an event that has none.
type id struct {
	peer peerKey
	hash [16]byte // half of a SHA-256, which no two identities share by chance
}

func idOf(peer peerKey, identity []byte) id {
	if len(identity) == 0 {
		return id{}
	}
	sum := sha256.Sum256(identity)
	return id{peer, [16]byte(sum[:])}
}

// ids are the events that are known, and the numbers under which they were submitted. Its
// memory grows with what it holds: some 100 bytes for each.
type ids struct {
	numbers map[id]uint64
	peers   map[peerKey][]numbered // each in the order of the numbers, and none empty
	size    int                    // of all peers together
}

type numbered struct {
	id     id
	number uint64
}

func (k *ids) add(i id, number uint64) {
	if k.numbers == nil {
		k.numbers, k.peers = make(map[id]uint64), make(map[peerKey][]numbered)
	}
	k.peers[i.peer] = append(k.peers[i.peer], numbered{i, number})
	k.numbers[i] = number
	k.size++
}

// trim forgets the oldest beyond maxIDs, of the peer that has most. Those above what is
// durable of the peer stay: their events are on their way, and one that comes again must
// wait for them.
func (k *ids) trim(durable func(peerKey) uint64) {
	for k.size > maxIDs {
		var greediest peerKey
		for p, records := range k.peers {
			if len(records) > len(k.peers[greediest]) {
				greediest = p
			}
		}
		records, through, n := k.peers[greediest], durable(greediest), 0
		// Many at a time: the greediest stays so until it has a share like the others'.
		for most := max(1, (k.size-maxIDs)/len(k.peers)); n < min(most, len(records)) && records[n].number <= through; n++ {
			if r := records[n]; k.numbers[r.id] == r.number {
				delete(k.numbers, r.id)
			}
		}
		if n == 0 {
			return
		}
		k.size -= n
		if k.peers[greediest] = records[n:]; n == len(records) {
			delete(k.peers, greediest)
		}
	}
}
