package queue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
)

// How long, and how many, producers are remembered. A producer that comes back
// after that sends lines that would be known again only by their numbers.
const (
	forgetProducerAfter = 24 * time.Hour
	maxProducers        = 1 << 16
)

// state is what the frames of the log add up to: where each producer is and
// what each source brought. It is never written beside the log but from it: a
// checkpoint holds the sum up to a sealed segment, and Open adds the frames
// since. So an ack, a position and a count become durable in one write.
type state struct {
	Producers map[string]*position    `json:"producers"`
	Sources   map[string]*SourceTally `json:"sources"`
	// Lost are the seqs that damage has taken, in order and not overlapping.
	Lost []SeqRange `json:"lost"`
}

// position is how far a producer's lines have been decided.
type position struct {
	Number uint64 `json:"number"`
	Seen   int64  `json:"seen"` // Unix nanoseconds of its last chunk
}

// SourceTally counts the decided lines of one source since the queue began.
type SourceTally struct {
	// Received is how many lines were read, by Chunk.Lines: Stored, Duplicate and
	// Refused, unless a line was lost between reading it and deciding its fate. The
	// checkpoint keeps it. Frames do not: those since the checkpoint count after a
	// crash with what they have decided.
	Received  uint64            `json:"received"`
	Stored    uint64            `json:"stored"`
	Duplicate uint64            `json:"duplicate"`
	Refused   map[string]uint64 `json:"refused"` // by reason
	// Lost are records that the source's producers say they have lost, by kind;
	// each at most MaxLost.
	Lost map[string]uint64 `json:"lost"`
}

// SeqRange is the seqs from From up to, not including, To.
type SeqRange struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

func (r SeqRange) size() uint64 { return r.To - r.From }

func newState() *state {
	return &state{Producers: map[string]*position{}, Sources: map[string]*SourceTally{}}
}

func newSourceTally() *SourceTally {
	return &SourceTally{Refused: map[string]uint64{}, Lost: map[string]uint64{}}
}

// add accounts for one durable frame, for which so many lines were read.
func (s *state) add(f *frame, lines uint64) {
	if len(f.producer) > 0 {
		p, ok := s.Producers[string(f.producer)]
		if !ok {
			p = &position{}
			s.Producers[string(f.producer)] = p
		}
		p.Number, p.Seen = max(p.Number, f.position), max(p.Seen, f.received)
		if len(s.Producers) > 2*maxProducers {
			s.forgetProducers(time.Unix(0, f.received))
		}
	}
	t, ok := s.Sources[string(f.source)]
	if !ok {
		t = newSourceTally()
		s.Sources[string(f.source)] = t
	}
	t.Received += lines
	t.Stored += uint64(f.count)
	t.Duplicate += uint64(f.duplicates)
	f.eachTally(
		func(reason string, n uint64) { t.Refused[reason] += n },
		func(kind string, n uint64) { t.Lost[kind] = min(t.Lost[kind]+min(n, MaxLost), MaxLost) })
}

// addLost records that damage has taken r, and reports whether that is news.
// Cursors that come from different places meet the same damage as ranges that
// overlap: they are kept as one.
func (s *state) addLost(r SeqRange) bool {
	before := s.corrupt()
	from := slices.IndexFunc(s.Lost, func(l SeqRange) bool { return r.From <= l.To })
	if from < 0 {
		s.Lost = append(s.Lost, r)
		return true
	}
	to := from
	for to < len(s.Lost) && s.Lost[to].From <= r.To {
		r.From, r.To = min(r.From, s.Lost[to].From), max(r.To, s.Lost[to].To)
		to++
	}
	s.Lost = slices.Replace(s.Lost, from, to, r)
	return s.corrupt() > before
}

// stored is how many records the sources have brought.
func (s *state) stored() (n uint64) {
	for _, t := range s.Sources {
		n += t.Stored
	}
	return n
}

func (s *state) corrupt() uint64 {
	var n uint64
	for _, r := range s.Lost {
		n += r.size()
	}
	return n
}

// forgetProducers drops producers unseen for a day and, beyond maxProducers,
// those unseen longest.
func (s *state) forgetProducers(now time.Time) {
	old := now.Add(-forgetProducerAfter).UnixNano()
	maps.DeleteFunc(s.Producers, func(_ string, p *position) bool { return p.Seen < old })
	excess := len(s.Producers) - maxProducers
	if excess <= 0 {
		return
	}
	ids := slices.SortedFunc(maps.Keys(s.Producers), func(a, b string) int {
		return cmp.Compare(s.Producers[a].Seen, s.Producers[b].Seen)
	})
	for _, id := range ids[:excess] {
		delete(s.Producers, id)
	}
}

func (s *state) clone() *state {
	c := newState()
	c.Lost = slices.Clone(s.Lost)
	for id, p := range s.Producers {
		copied := *p
		c.Producers[id] = &copied
	}
	for name, t := range s.Sources {
		copied := t.clone()
		c.Sources[name] = &copied
	}
	return c
}

// decided is how many lines have a fate.
func (t *SourceTally) decided() uint64 {
	n := t.Stored + t.Duplicate
	for _, refused := range t.Refused {
		n += refused
	}
	return n
}

func (t *SourceTally) clone() SourceTally {
	c := *t
	c.Refused, c.Lost = maps.Clone(t.Refused), maps.Clone(t.Lost)
	return c
}

// checkpoint is the state up to the offset End of the segment with Epoch, as kept
// in the file "positions".
type checkpoint struct {
	Queue   uuid.UUID `json:"queue"`
	Epoch   uint64    `json:"epoch"`
	End     int64     `json:"end"`
	Newest  int64     `json:"newest,omitempty"` // when the last record in front of End was received
	NextSeq uint64    `json:"nextSeq"`          // the first seq behind it
	*state
}

const (
	positionsFile    = "positions"
	positionsHeadFmt = "docket positions 1 crc32c %08x\n"
)

// writeCheckpoint replaces the positions file: whoever reads it finds the old
// one or the new one, never half of either.
func writeCheckpoint(fsys FS, dir string, c checkpoint) error {
	body, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("positions: encode: %w", err)
	}
	path := filepath.Join(dir, positionsFile)
	if err := replaceFile(fsys, path, append(fmt.Appendf(nil, positionsHeadFmt, crc32.Checksum(body, castagnoli)), body...)); err != nil {
		return fmt.Errorf("positions: write: %w", err)
	}
	return nil
}

// newSuffix ends the name of a file that has not got its own yet. What a crash
// leaves under it counts for nothing.
const newSuffix = ".new"

// replaceFile puts content under path durably, by way of a temporary name.
func replaceFile(fsys FS, path string, content []byte) (err error) {
	temp := path + newSuffix
	if err := fsys.Remove(temp); err != nil && !notExist(err) {
		return err
	}
	defer func() {
		if err != nil {
			_ = fsys.Remove(temp) // half a file must not hold space that is short
		}
	}()
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(temp, path); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// errCheckpoint says that the positions file is there but cannot be used.
var errCheckpoint = errors.New("positions: checksum mismatch")

// readCheckpoint returns the kept checkpoint; ok is false when there is none.
func readCheckpoint(fsys FS, dir string) (c checkpoint, ok bool, err error) {
	content, err := readFile(fsys, filepath.Join(dir, positionsFile))
	if notExist(err) {
		return checkpoint{}, false, nil
	}
	if err != nil {
		return checkpoint{}, false, fmt.Errorf("positions: read: %w", err)
	}
	head, body, _ := bytes.Cut(content, []byte("\n"))
	if string(head)+"\n" != fmt.Sprintf(positionsHeadFmt, crc32.Checksum(body, castagnoli)) {
		return checkpoint{}, false, errCheckpoint
	}
	c.state = newState()
	if err := json.Unmarshal(body, &c); err != nil {
		return checkpoint{}, false, errCheckpoint
	}
	for _, t := range c.Sources {
		if t.Lost == nil { // written by a build that did not count them
			t.Lost = map[string]uint64{}
		}
		if t.Received == 0 { // the same
			t.Received = t.decided()
		}
	}
	return c, true, nil
}

func readFile(fsys FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if n, err := readFull(f, b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	} else if n < len(b) {
		b = b[:n]
	}
	return b, nil
}
