package known

import (
	"cmp"
	"slices"
)

// Window is how many identities are known at least, once that many were seen. Peers that
// prove who they are share it fairly: one that sends many makes docket forget its own.
const Window = 1 << 16

// window holds the identities that are known, and the numbers of their records.
// Its memory grows with what it holds: some 80 bytes for each.
type window struct {
	numbers map[ID]uint64
	peers   map[peer][]numbered // each in the order of the numbers, and none empty
	size    int                 // of all peers together
}

type numbered struct {
	id     ID
	number uint64
}

func (w *window) add(id ID, number uint64) {
	if id == (ID{}) {
		return
	}
	if w.numbers == nil {
		w.numbers, w.peers = make(map[ID]uint64), make(map[peer][]numbered)
	}
	p := id.peer()
	w.peers[p] = append(w.peers[p], numbered{id, number})
	w.numbers[id] = number
	w.size++
}

// cut forgets the numbers from next on.
func (w *window) cut(next uint64) {
	for p, records := range w.peers {
		n := len(records)
		for ; n > 0 && records[n-1].number >= next; n-- {
			w.drop(records[n-1])
		}
		w.keep(p, records[:n])
	}
}

// trim forgets the oldest beyond Window, of the peer that has most. Those above settled
// stay: their records are on their way, and one that comes again must wait for them.
func (w *window) trim(settled uint64) {
	for w.size > Window {
		p := w.greediest()
		records, n := w.peers[p], 0
		// Many at a time: the greediest stays so until it has a share like the others'.
		for most := max(1, (w.size-Window)/len(w.peers)); n < most && records[n].number <= settled; n++ {
			w.drop(records[n])
		}
		if n == 0 {
			return
		}
		w.keep(p, records[n:])
	}
}

func (w *window) greediest() (most peer) {
	n := 0
	for p, records := range w.peers {
		if len(records) > n {
			most, n = p, len(records)
		}
	}
	return most
}

func (w *window) keep(p peer, records []numbered) {
	if len(records) == 0 {
		delete(w.peers, p)
		return
	}
	w.peers[p] = records
}

func (w *window) drop(r numbered) {
	w.size--
	if w.numbers[r.id] == r.number {
		delete(w.numbers, r.id)
	}
}

// below returns what is known of the numbers below next, in their order.
func (w *window) below(next uint64) (records []numbered) {
	for _, of := range w.peers {
		for _, r := range of {
			if r.number < next {
				records = append(records, r)
			}
		}
	}
	slices.SortFunc(records, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	return records
}

// bytes is what the records take in the file, at least.
func (w *window) bytes() int64 { return int64(w.size * len(ID{})) }
