package state

import (
	"maps"
	"strings"
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
	// returning are how many more are remembered of each source and identity, and of
	// all, while docket reads its log and until producers have had the time to come
	// back. The log does not say who is in use, so what was in use before a kill must
	// not be the first to go.
	returning = 1024
	// returnTime is that time.
	returnTime = 10 * time.Minute
	// newBetweenSigns is how many producers may be new before those in use that were
	// silent meanwhile get a sign of life in the log. With it they are among the newest
	// when the log is read: one that was heard of just behind the last signs is in the
	// next but one, and the commits under way come first.
	newBetweenSigns = returning / 8
)

// PositionsBytes is the most memory that the producers of peers can take, whatever they
// say, with this limit for each source and identity. It counts names of full length
// with all remembered gaps, in the table and in the checkpoint that is being written.
// docket's own sources need some hundred bytes more for each file of a day.
func PositionsBytes(limit int) int64 {
	// Measured by TestPositionsBytes.
	const each = 1100
	return int64(max(limit, maxProducers)+returning) * each
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
	// until is when the bounds hold, in Unix nanoseconds: returning more are remembered
	// before.
	until int64
	// resumed is when the log had been read, in Unix nanoseconds, 0 before. Frames of the end of
	// the log are added after it, and were received before docket stopped.
	resumed int64
	// held are those in use: they are never forgotten.
	held map[Producer]struct{}
	// created counts the producers of peers that were new since the last signs of life.
	created int
	// legacy are the positions that an earlier docket has kept, by legacyKey. A producer
	// that is not known goes on from there. Nothing is added but by the frames of such
	// a docket.
	legacy map[string]legacyPosition
}

// Len is how many producers are remembered.
func (t *producers) Len() int {
	n := len(t.legacy)
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
	used       bool   // it was held since the last signs of life,
	heard      bool   // and has had a chunk since
	prev, next *place // in nameTable.idle; nil while it is held
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

// newProducers returns empty tables that remember so many of each source and identity.
func newProducers(limit int) *producers {
	if limit <= 0 {
		limit = DefaultProducers
	}
	return &producers{
		limit: limit, byOwner: map[owner]*nameTable{},
		held: map[Producer]struct{}{}, legacy: map[string]legacyPosition{},
	}
}

// Find returns the position of p; known is false when it was never seen or has
// been forgotten.
func (t *producers) Find(p Producer) (n Numbers, known bool) {
	if at := t.at(p); at != nil {
		return at.Numbers, true
	}
	n, _, known = t.inherited(p)
	return n, known
}

// inherited is what an earlier docket has kept of p, and under which key. Peers have one
// position each, so nothing that one of them says changes that of another; names of
// docket's own sources are theirs alone.
func (t *producers) inherited(p Producer) (n Numbers, key string, ok bool) {
	if own := strings.HasPrefix(p.Name, p.Source+"/"); own != (p.Identity == "") {
		return Numbers{}, "", false
	}
	for _, key := range []string{legacyKey(p.Source, p.Name), legacyKey("", p.Name)} {
		if old, ok := t.legacy[key]; ok {
			return Numbers{Highest: old.Number}, key, true
		}
	}
	return Numbers{}, "", false
}

// IsUnattributed reports whether p goes on from a position whose source is not known.
func (t *producers) IsUnattributed(p Producer) bool {
	_, key, ok := t.inherited(p)
	return ok && key == p.Name && t.at(p) == nil
}

// legacyKey is the key of a name that a frame of version 1 has brought, from a source,
// or that stood in a checkpoint of version 1: that has forgotten the source, which is "".
// A name has no zero byte.
func legacyKey(source, name string) string {
	if source == "" {
		return name
	}
	return source + "\x00" + name
}

// add takes the numbers of a frame. Those of a chunk follow each other.
func (t *producers) add(f *segment.Frame) {
	seen := max(f.Received, t.resumed)
	if f.Legacy {
		key := legacyKey(string(f.Source), string(f.Producer))
		old := t.legacy[key]
		t.legacy[key] = legacyPosition{max(old.Number, f.Position), max(old.Seen, seen)}
		return
	}
	s := t.byOwner[owner{string(f.Source), string(f.Identity)}]
	var p *place
	if s != nil {
		p = s.ByName[string(f.Producer)]
	}
	if p == nil {
		if len(f.Identity) > 0 && f.Decided() == 0 {
			return // a sign of life of a peer that damage has taken
		}
		s, p = t.create(Producer{string(f.Source), string(f.Identity), string(f.Producer)}, seen)
	}
	p.Seen, p.heard = max(p.Seen, seen), true
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
	n, _, _ := t.inherited(p)
	s, at := t.insert(p)
	at.Numbers, at.Seen = n, now
	if !s.isOwn() {
		t.created++
		t.trim(s, now)
	}
	return s, at
}

// trim forgets what is beyond the bounds after a producer came into s.
func (t *producers) trim(s *nameTable, now int64) {
	limit, all := t.limit, max(t.limit, maxProducers)
	if now < t.until {
		limit, all = limit+returning, all+returning
	}
	for more := true; more && len(s.ByName) > limit; {
		more = t.evict(s)
	}
	for more := true; more && t.Peers > all; {
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
	if _, at.used = t.held[p]; !at.used {
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
		at.used = true
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
	maps.DeleteFunc(t.legacy, func(_ string, p legacyPosition) bool { return p.Seen < old })
}

// Signs returns chunks that decide nothing, for the producers of peers that need a sign of
// life in the log: they are or were in use, and had no chunk for long. Nearly always there
// are none.
func (t *producers) Signs() (list []segment.Chunk) {
	if t.created < newBetweenSigns {
		return nil
	}
	t.created = 0
	for key, s := range t.byOwner {
		if key.isOwn() {
			continue
		}
		for _, p := range s.ByName {
			if p.used && !p.heard {
				list = append(list, segment.Chunk{Source: key.Source, Identity: key.Identity, Producer: p.name, Position: p.Highest})
			}
			p.used, p.heard = p.next == nil, false
		}
	}
	return list
}

// Resume ends the reading of the log. The time in which docket did not run does not count: no
// producer could send then. A producer of docket's own must not be forgotten in the middle of
// a file. newest is when docket is known to have run last.
func (t *producers) Resume(newest int64, now time.Time) {
	t.created, t.until, t.resumed = 0, now.Add(returnTime).UnixNano(), now.UnixNano()
	rest := now.UnixNano() - newest
	if newest == 0 || rest <= 0 {
		return
	}
	for _, s := range t.byOwner {
		for _, p := range s.ByName {
			p.Seen += rest
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
func (t *producers) restore(list []storedProducer, legacy map[string]legacyPosition) {
	for _, stored := range list {
		s, p := t.insert(Producer{stored.Source, stored.Identity, stored.Name})
		p.Numbers, p.Seen = stored.Numbers, stored.Seen
		if !s.isOwn() {
			t.trim(s, stored.Seen)
		}
	}
	maps.Copy(t.legacy, legacy)
}
