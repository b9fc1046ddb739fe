package exporter

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/docket-export/docket/exporter/queue"
)

// Bounds of keptLines. Beyond them a line may be in the log of refused lines twice.
const (
	maxKept      = 1024 // producers
	maxKeptLines = 256  // of one producer
)

// keptLines are the refused lines that are in their log although a full queue then
// turned away the other lines of their chunk: they come again. The zero value has none.
type keptLines struct {
	mu sync.Mutex
	// byOwner are those of each source and identity, by producer: one cannot make
	// docket forget those of another. Guarded by mu.
	byOwner map[queue.Producer]map[string][]keptLine // by owner, whose Name is empty
	total   int                                      // producers; guarded by mu
	seed    maphash.Seed                             // guarded by mu
}

// keptLine tells a refused line from another that has got its number since: a line that
// was turned away need not come again.
type keptLine struct{ number, sum uint64 }

func ownerOf(p queue.Producer) queue.Producer {
	p.Name = ""
	return p
}

// remember notes that lines of p are in their log. Where there is no room for another
// producer, those of the source and identity with the most are forgotten.
func (k *keptLines) remember(p queue.Producer, lines []keptLine) {
	if len(lines) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byOwner == nil {
		k.byOwner = make(map[queue.Producer]map[string][]keptLine)
	}
	owner := ownerOf(p)
	if k.byOwner[owner][p.Name] == nil {
		if k.total >= maxKept {
			k.forgetLargest()
		}
		k.total++
	}
	if k.byOwner[owner] == nil {
		k.byOwner[owner] = make(map[string][]keptLine)
	}
	kept := slices.Concat(k.byOwner[owner][p.Name], lines)
	k.byOwner[owner][p.Name] = kept[max(0, len(kept)-maxKeptLines):]
}

// forgetLargest forgets the lines of the owner with the most producers, with mu held.
func (k *keptLines) forgetLargest() {
	var largest queue.Producer
	for owner, producers := range k.byOwner {
		if len(producers) > len(k.byOwner[largest]) {
			largest = owner
		}
	}
	k.total -= len(k.byOwner[largest])
	delete(k.byOwner, largest)
}

// without returns lines without those of p that are in their log already, and which the
// others are, if they have numbers. It uses the memory of lines.
func (k *keptLines) without(p queue.Producer, lines []refusedLine) (fresh []refusedLine, which []keptLine) {
	if p.Name == "" {
		return lines, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seed == (maphash.Seed{}) {
		k.seed = maphash.MakeSeed()
	}
	known := k.byOwner[ownerOf(p)][p.Name]
	fresh = slices.DeleteFunc(lines, func(l refusedLine) bool {
		id := l.id(k.seed)
		if slices.Contains(known, id) {
			return true
		}
		which = append(which, id)
		return false
	})
	return fresh, which
}

// id tells a line with a number from others.
func (l *refusedLine) id(seed maphash.Seed) keptLine {
	text := l.text
	if l.SHA256 != "" {
		text = []byte(l.SHA256)
	}
	return keptLine{l.Number, maphash.Bytes(seed, text)}
}
