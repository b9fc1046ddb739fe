package state

import (
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
)

// Producer names one stream of numbers. The same name in another source, or from
// another identity, is another producer.
type Producer struct {
	Source string
	// Identity is who sends, as the source knows it. Empty: the source itself,
	// whose names no peer can use.
	Identity string
	Name     string
}

// How long producers are remembered that nobody hears of any more, while docket runs. A
// producer that comes back after that sends lines that would be known again only by
// their numbers.
const forgetProducerAfter = 24 * time.Hour

const (
	// DefaultProducers is how many producers are remembered of each source and identity.
	DefaultProducers = 4096
	// maxProducers is how many are remembered of all peers together, unless
	// Options.Producers is more. It bounds the memory: see PositionsBytes.
	maxProducers = 8192
)

// PositionsBytes is the most memory that the producers of peers can take, whatever they
// say, with this limit for each source and identity. It counts names of full length
// with all remembered gaps, in the table and in the checkpoint that is being written.
// docket's own sources need some hundred bytes more for each file of a day.
func PositionsBytes(limit int) int64 {
	// Measured by TestPositionsBytes.
	const each = 1100
	return int64(max(limit, maxProducers)) * each
}

// producers are where those stand who number their lines. Those of one source and
// identity share a table: nothing that is said in one table changes another.
//
// The table of a peer has at most limit producers, and all of them together have at most
// maxProducers or limit, whichever is more; those in use may exceed that. Beyond it the
// one is forgotten that was not heard of for longest: of the table that is over its
// limit or, when all of them together are too many, of the largest.
type producers struct {
	limit   int
	byOwner map[owner]*nameTable
	Peers   int // producers in the tables of peers
	// resumed is when the log had been read, in Unix nanoseconds, 0 before. Frames of the end of
	// the log are added after it, and were received before docket stopped.
	resumed int64
	// held are those in use: they are never forgotten.
	held map[Producer]struct{}
}

// Len is how many producers are remembered.
func (t *producers) Len() int {
	n := 0
	for _, s := range t.byOwner {
		n += len(s.ByName)
	}
	return n
}

// owner is whose names a table has.
type owner struct{ Source, Identity string }

// isOwn says that the names are those of docket's own source.
func (k owner) isOwn() bool { return k.Identity == "" }

type nameTable struct {
	owner
	ByName map[string]*place
	idle   place // root of the list of those that are not held, the last heard of first
}

// place is where a producer stands.
type place struct {
	Numbers
	name       string
	Seen       int64  // Unix nanoseconds of its last chunk, or of the end of its last session
	prev, next *place // in nameTable.idle; nil while it is held
}

// storedProducer is a position as a checkpoint has it.
type storedProducer struct {
	Source   string `json:"source"`
	Identity string `json:"identity,omitempty"`
	Name     string `json:"name"`
	Numbers
	Seen int64 `json:"seen"`
}

// newProducers returns empty tables that remember so many of each source and identity.
func newProducers(limit int) *producers {
	if limit <= 0 {
		limit = DefaultProducers
	}
	return &producers{limit: limit, byOwner: map[owner]*nameTable{}, held: map[Producer]struct{}{}}
}

// Find returns the position of p; known is false when it was never seen or has
// been forgotten.
func (t *producers) Find(p Producer) (n Numbers, known bool) {
	if at := t.at(p); at != nil {
		return at.Numbers, true
	}
	return Numbers{}, false
}

// add takes the numbers of a frame. Those of a chunk follow each other.
func (t *producers) add(f *segment.Frame) {
	seen := max(f.Received, t.resumed)
	s := t.byOwner[owner{string(f.Source), string(f.Identity)}]
	var p *place
	if s != nil {
		p = s.ByName[string(f.Producer)]
	}
	if p == nil {
		if len(f.Identity) > 0 && f.Decided() == 0 {
			return // it was not heard of
		}
		s, p = t.create(Producer{string(f.Source), string(f.Identity), string(f.Producer)}, seen)
	}
	p.Seen = max(p.Seen, seen)
	if p.next != nil {
		s.moveToFront(p)
	}
	if s.isOwn() {
		// docket's own sources leave no number out, and go on where they are told.
		p.Highest = max(p.Highest, f.Position)
	} else if n := min(f.Decided(), f.Position); n > 0 {
		p.receive(f.Position-n+1, f.Position)
	}
}

func (t *producers) create(p Producer, now int64) (*nameTable, *place) {
	s, at := t.insert(p)
	at.Seen = now
	if !s.isOwn() {
		t.trim(s)
	}
	return s, at
}

// trim forgets what is beyond the bounds after a producer came into s.
func (t *producers) trim(s *nameTable) {
	for more := true; more && len(s.ByName) > t.limit; {
		more = t.evict(s)
	}
	for more := true; more && t.Peers > max(t.limit, maxProducers); {
		more = t.evict(t.largest(s))
	}
}

// insert makes an empty position.
func (t *producers) insert(p Producer) (*nameTable, *place) {
	key := owner{p.Source, p.Identity}
	s := t.byOwner[key]
	if s == nil {
		s = &nameTable{owner: key, ByName: map[string]*place{}}
		s.idle.prev, s.idle.next = &s.idle, &s.idle
		t.byOwner[key] = s
	}
	at := &place{name: p.Name}
	s.ByName[p.Name] = at
	if _, isHeld := t.held[p]; !isHeld {
		s.moveToFront(at)
	}
	if !s.isOwn() {
		t.Peers++
	}
	return s, at
}

// largest is the table of a peer with the most producers, of which one is not held; of
// several comer, into which a producer came, or else that where one was not heard of for
// longest. nil: all are held.
func (t *producers) largest(comer *nameTable) (most *nameTable) {
	for key, s := range t.byOwner {
		if key.isOwn() || s.idle.prev == &s.idle {
			continue
		}
		if most == nil || len(s.ByName) > len(most.ByName) ||
			len(s.ByName) == len(most.ByName) && most != comer &&
				(s == comer || s.idle.prev.Seen < most.idle.prev.Seen) {
			most = s
		}
	}
	return most
}

// evict forgets the producer of s that was not heard of for longest, and reports
// whether there is one. s may be nil.
func (t *producers) evict(s *nameTable) bool {
	if s == nil || s.idle.prev == &s.idle {
		return false
	}
	t.remove(s, s.idle.prev)
	return true
}

func (t *producers) remove(s *nameTable, p *place) {
	p.unlink()
	delete(s.ByName, p.name)
	if len(s.ByName) == 0 {
		delete(t.byOwner, s.owner)
	}
	if !s.isOwn() {
		t.Peers--
	}
}

func (s *nameTable) moveToFront(p *place) {
	p.unlink()
	p.prev, p.next = &s.idle, s.idle.next
	p.prev.next, p.next.prev = p, p
}

func (p *place) unlink() {
	if p.next != nil {
		p.prev.next, p.next.prev = p.next, p.prev
		p.prev, p.next = nil, nil
	}
}

// Hold keeps p from being forgotten until release.
func (t *producers) Hold(p Producer) {
	t.held[p] = struct{}{}
	if at := t.at(p); at != nil {
		at.unlink()
	}
}

// Release undoes Hold.
func (t *producers) Release(p Producer, now time.Time) {
	delete(t.held, p)
	if at := t.at(p); at != nil {
		at.Seen = max(at.Seen, now.UnixNano())
		t.byOwner[owner{p.Source, p.Identity}].moveToFront(at)
	}
}

// at returns the position of p, nil when it has none.
func (t *producers) at(p Producer) *place {
	if s := t.byOwner[owner{p.Source, p.Identity}]; s != nil {
		return s.ByName[p.Name]
	}
	return nil
}

// forget drops the producers that were not heard of for a day.
func (t *producers) forget(now time.Time) {
	old := now.Add(-forgetProducerAfter).UnixNano()
	for _, s := range t.byOwner {
		for s.idle.prev != &s.idle && s.idle.prev.Seen < old {
			t.remove(s, s.idle.prev)
		}
	}
}

// Resume ends the reading of the log. The time in which docket did not run does not count: no
// producer could send then. A producer of docket's own must not be forgotten in the middle of
// a file. newest is when docket is known to have run last.
func (t *producers) Resume(newest int64, now time.Time) {
	t.resumed = now.UnixNano()
	rest := now.UnixNano() - newest
	if newest == 0 || rest <= 0 {
		return
	}
	for _, s := range t.byOwner {
		for _, p := range s.ByName {
			p.Seen += rest
		}
	}
}

// stored returns the positions for a checkpoint: of each table the one first that was
// not heard of for longest. What is held is heard of now.
func (t *producers) stored(now time.Time) []storedProducer {
	n := 0
	for _, s := range t.byOwner {
		n += len(s.ByName)
	}
	list := make([]storedProducer, 0, n)
	for _, s := range t.byOwner {
		for p := s.idle.prev; p != &s.idle; p = p.prev {
			list = append(list, s.stored(p))
		}
	}
	for held := range t.held {
		if p := t.at(held); p != nil {
			p.Seen = max(p.Seen, now.UnixNano())
			list = append(list, t.byOwner[owner{held.Source, held.Identity}].stored(p))
		}
	}
	return list
}

func (s *nameTable) stored(p *place) storedProducer {
	return storedProducer{Source: s.Source, Identity: s.Identity, Name: p.name, Numbers: p.Numbers, Seen: p.Seen}
}

// restore takes the positions of a checkpoint, which may have been made with another
// limit.
func (t *producers) restore(list []storedProducer) {
	for _, stored := range list {
		s, p := t.insert(Producer{stored.Source, stored.Identity, stored.Name})
		p.Numbers, p.Seen = stored.Numbers, stored.Seen
		if !s.isOwn() {
			t.trim(s)
		}
	}
}
