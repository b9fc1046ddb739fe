package queue

import (
	"maps"
	"time"
)

// Producer names one stream of numbers. The same name is another producer in another
// source, and when another identity says it.
type Producer struct {
	Source string
	// Identity is who sends, as the source has found out. Empty: the source itself,
	// whose names no peer can say.
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
// say, with this limit for each source and identity: names of full length, with all the
// gaps that are remembered, in the table and in the checkpoint that is being written.
// docket's own sources come on top, with some hundred bytes for each file of a day.
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
	peers   int // producers in the tables of peers
	// held are those in use: they are never forgotten.
	held map[Producer]struct{}
	// legacy are the positions that an earlier docket has kept by name alone. A producer
	// that is not known goes on from there. Nothing is added but by the frames of such
	// a docket.
	legacy map[string]legacyPosition
}

type owner struct{ source, identity string }

// isOwn says that the names are those of docket's own source.
func (k owner) isOwn() bool { return k.identity == "" }

type nameTable struct {
	owner
	byName map[string]*position
	idle   position // root of the list of those that are not held, the last heard of first
}

// position is where a producer stands.
type position struct {
	Numbers
	name       string
	seen       int64     // Unix nanoseconds of its last chunk, or of the end of its last session
	prev, next *position // in nameTable.idle; nil while it is held
}

// legacyPosition is a position of format version 1.
type legacyPosition struct {
	Number uint64 `json:"number"`
	Seen   int64  `json:"seen"`
}

// storedProducer is a position as a checkpoint has it.
type storedProducer struct {
	Source   string `json:"source"`
	Identity string `json:"identity,omitempty"`
	Name     string `json:"name"`
	Numbers
	Seen int64 `json:"seen"`
}

func newProducers(limit int) *producers {
	if limit <= 0 {
		limit = DefaultProducers
	}
	return &producers{
		limit: limit, byOwner: map[owner]*nameTable{},
		held: map[Producer]struct{}{}, legacy: map[string]legacyPosition{},
	}
}

// find returns where p stands; known is false when it was never seen or has been
// forgotten.
func (t *producers) find(p Producer, now time.Time) (n Numbers, known bool) {
	if s := t.byOwner[owner{p.Source, p.Identity}]; s != nil {
		if at := s.byName[p.Name]; at != nil {
			return at.Numbers, true
		}
	}
	return t.inherited(p.Name, now.UnixNano())
}

// inherited is what an earlier docket has kept of a name.
func (t *producers) inherited(name string, now int64) (n Numbers, known bool) {
	old, ok := t.legacy[name]
	if !ok || now-old.Seen > int64(forgetProducerAfter) {
		return Numbers{}, false
	}
	return Numbers{Highest: old.Number}, true
}

// add takes the numbers of a frame. Those of a chunk follow each other.
func (t *producers) add(f *frame) {
	if f.version == legacyFrameVersion {
		old := t.legacy[string(f.producer)]
		t.legacy[string(f.producer)] = legacyPosition{max(old.Number, f.position), max(old.Seen, f.received)}
		return
	}
	s := t.byOwner[owner{string(f.source), string(f.identity)}]
	var p *position
	if s != nil {
		p = s.byName[string(f.producer)]
	}
	if p == nil {
		s, p = t.create(Producer{string(f.source), string(f.identity), string(f.producer)}, f.received)
	}
	p.seen = max(p.seen, f.received)
	if p.next != nil {
		s.moveToFront(p)
	}
	if s.isOwn() {
		// docket's own sources leave no number out, and go on where they are told.
		p.Highest = max(p.Highest, f.position)
	} else if n := min(f.decided(), f.position); n > 0 {
		p.receive(f.position-n+1, f.position)
	}
}

func (t *producers) create(p Producer, now int64) (*nameTable, *position) {
	n, _ := t.inherited(p.Name, now)
	s, at := t.insert(p)
	at.Numbers, at.seen = n, now
	switch {
	case s.isOwn():
	case len(s.byName) > t.limit:
		t.evict(s)
	case t.peers > max(t.limit, maxProducers):
		t.evict(t.largest())
	}
	return s, at
}

// insert makes an empty position.
func (t *producers) insert(p Producer) (*nameTable, *position) {
	key := owner{p.Source, p.Identity}
	s := t.byOwner[key]
	if s == nil {
		s = &nameTable{owner: key, byName: map[string]*position{}}
		s.idle.prev, s.idle.next = &s.idle, &s.idle
		t.byOwner[key] = s
	}
	at := &position{name: p.Name}
	s.byName[p.Name] = at
	if _, held := t.held[p]; !held {
		s.moveToFront(at)
	}
	if !s.isOwn() {
		t.peers++
	}
	return s, at
}

// largest is the table of a peer with the most producers, of which one is not held; of
// several that where one was not heard of for longest. nil: all are held.
func (t *producers) largest() (most *nameTable) {
	for key, s := range t.byOwner {
		if key.isOwn() || s.idle.prev == &s.idle {
			continue
		}
		if most == nil || len(s.byName) > len(most.byName) ||
			len(s.byName) == len(most.byName) && s.idle.prev.seen < most.idle.prev.seen {
			most = s
		}
	}
	return most
}

// evict forgets the producer of s that was not heard of for longest. It may be nil.
func (t *producers) evict(s *nameTable) {
	if s != nil && s.idle.prev != &s.idle {
		t.remove(s, s.idle.prev)
	}
}

func (t *producers) remove(s *nameTable, p *position) {
	p.unlink()
	delete(s.byName, p.name)
	if len(s.byName) == 0 {
		delete(t.byOwner, s.owner)
	}
	if !s.isOwn() {
		t.peers--
	}
}

func (s *nameTable) moveToFront(p *position) {
	p.unlink()
	p.prev, p.next = &s.idle, s.idle.next
	p.prev.next, p.next.prev = p, p
}

func (p *position) unlink() {
	if p.next != nil {
		p.prev.next, p.next.prev = p.next, p.prev
		p.prev, p.next = nil, nil
	}
}

// hold keeps p from being forgotten until release.
func (t *producers) hold(p Producer) {
	t.held[p] = struct{}{}
	if at := t.at(p); at != nil {
		at.unlink()
	}
}

func (t *producers) release(p Producer, now time.Time) {
	delete(t.held, p)
	if at := t.at(p); at != nil {
		at.seen = max(at.seen, now.UnixNano())
		t.byOwner[owner{p.Source, p.Identity}].moveToFront(at)
	}
}

func (t *producers) at(p Producer) *position {
	if s := t.byOwner[owner{p.Source, p.Identity}]; s != nil {
		return s.byName[p.Name]
	}
	return nil
}

// forget drops the producers that were not heard of for a day.
func (t *producers) forget(now time.Time) {
	old := now.Add(-forgetProducerAfter).UnixNano()
	for _, s := range t.byOwner {
		for s.idle.prev != &s.idle && s.idle.prev.seen < old {
			t.remove(s, s.idle.prev)
		}
	}
	maps.DeleteFunc(t.legacy, func(_ string, p legacyPosition) bool { return p.Seen < old })
}

// resume lets the time not count in which docket did not run: a producer could not be
// heard of then, and one of docket's own must not be forgotten in the middle of a file.
// newest is when the log was last written to, as far as it tells.
func (t *producers) resume(newest int64, now time.Time) {
	rest := now.UnixNano() - newest
	if newest == 0 || rest <= 0 {
		return
	}
	for _, s := range t.byOwner {
		for _, p := range s.byName {
			p.seen += rest
		}
	}
	for name, p := range t.legacy {
		p.Seen += rest
		t.legacy[name] = p
	}
}

// stored returns the positions for a checkpoint: of each table the one first that was
// not heard of for longest. What is held is heard of now.
func (t *producers) stored(now time.Time) []storedProducer {
	n := 0
	for _, s := range t.byOwner {
		n += len(s.byName)
	}
	list := make([]storedProducer, 0, n)
	for _, s := range t.byOwner {
		for p := s.idle.prev; p != &s.idle; p = p.prev {
			list = append(list, s.stored(p))
		}
	}
	for held := range t.held {
		if p := t.at(held); p != nil {
			p.seen = max(p.seen, now.UnixNano())
			list = append(list, t.byOwner[owner{held.Source, held.Identity}].stored(p))
		}
	}
	return list
}

func (s *nameTable) stored(p *position) storedProducer {
	return storedProducer{Source: s.source, Identity: s.identity, Name: p.name, Numbers: p.Numbers, Seen: p.seen}
}

// restore takes the positions of a checkpoint.
func (t *producers) restore(list []storedProducer, legacy map[string]legacyPosition) {
	for _, stored := range list {
		_, p := t.insert(Producer{stored.Source, stored.Identity, stored.Name})
		p.Numbers, p.seen = stored.Numbers, stored.Seen
	}
	maps.Copy(t.legacy, legacy)
}
