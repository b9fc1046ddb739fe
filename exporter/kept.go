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
// turned away what they came with: they come again. The zero value has none.
type keptLines struct {
	mu sync.Mutex
	// byOwner are those of each source and identity, by producer: one cannot make
	// docket forget those of another. Guarded by mu.
	byOwner map[queue.Producer]map[string][]keptLine // by owner, whose Name is empty
	total   int                                      // producers; guarded by mu
	seed    maphash.Seed
}

// keptLine tells a refused line from another that has got its number since: what was
// turned away need not come again.
type keptLine struct{ number, sum uint64 }

func ownerOf(p queue.Producer) queue.Producer {
	p.Name = ""
	return p
}

// remember notes that lines of p are in their log. Where there is no room for another
// producer, those of the source and identity with the most are forgotten.
func (k *keptLines) remember(p queue.Producer, lines []refusedLine) {
	if len(lines) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byOwner == nil {
		k.byOwner, k.seed = make(map[queue.Producer]map[string][]keptLine), maphash.MakeSeed()
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
	kept := k.byOwner[owner][p.Name]
	for i := range lines {
		kept = append(kept, lines[i].identity(k.seed))
	}
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

// without returns lines without those of p that are in their log already. It uses the
// memory of lines.
func (k *keptLines) without(p queue.Producer, lines []refusedLine) []refusedLine {
	if len(lines) == 0 {
		return lines
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.byOwner[ownerOf(p)][p.Name]
	if len(known) == 0 {
		return lines
	}
	return slices.DeleteFunc(lines, func(l refusedLine) bool { return slices.Contains(known, l.identity(k.seed)) })
}

// identity is that of a line with a number.
func (l *refusedLine) identity(seed maphash.Seed) keptLine {
	text := l.text
	if l.SHA256 != "" {
		text = []byte(l.SHA256)
	}
	return keptLine{l.Number, maphash.Bytes(seed, text)}
}
