package filesink

import (
	"bytes"
	"crypto/sha256"
	"io"
	"slices"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// checkpointInterval is how often the end of the export is told although it has not
// moved: so a copy elsewhere shows that nothing was finished in between, and its absence
// that docket did not work. See "Checkpoints" in the package comment.
const checkpointInterval = time.Hour

// ends are what a checkpoint says of the manifest beside the hash of its newest line.
type ends struct {
	export  manifest.Hash // of the first line; zero: there is none
	queue   string        // of the last entry; empty: there is none that can be read
	lastSeq uint64
	isNews  bool // a line since the last checkpoint is about more than checkpoints
}

// readEnds finds in the manifest what checkpoints tell of it.
func (s *store) readEnds() error {
	var last []byte
	s.ends = ends{isNews: true} // nobody knows what was told of
	_, err := eachText(io.NewSectionReader(s.manifest, 0, s.position.manifest), func(text []byte) {
		if s.ends.export == (manifest.Hash{}) {
			s.ends.export = sha256.Sum256(text)
		}
		if manifest.IsEntry(text) {
			last = text
		}
	})
	if err != nil || last == nil {
		return err
	}
	if line, err := manifest.Decode(last); err == nil && line.Entry != nil { // otherwise docket verify names it
		s.ends.queue, s.ends.lastSeq = line.Entry.Queue, line.Entry.LastSeq
	}
	return nil
}

// note keeps what checkpoints tell of the entry that was added to the manifest, as the
// line with this hash.
func (t *ends) note(e *manifest.Entry, line manifest.Hash) {
	if t.export == (manifest.Hash{}) {
		t.export = line
	}
	t.queue, t.lastSeq = e.Queue, e.LastSeq
}

// checkpoint has docket tell all sinks how far the export goes, if the end is new or the
// last checkpoint is old. The end that it tells is durable. Finishing or removing a file of
// checkpoints alone makes no new end: see "Checkpoints" in the package comment.
func (s *sink) checkpoint() {
	t, line, now := s.store.ends, s.store.position.chain, time.Now().UTC()
	isNews := t.isNews && line != s.checkpointed
	if s.announce == nil || t.queue == "" || !isNews && now.Before(s.checkpointDue) {
		return
	}
	s.store.ends.isNews = false
	s.checkpointed, s.checkpointDue = line, now.Add(checkpointInterval)
	s.announce(decision.Checkpoint{
		EventType: decision.ExportCheckpoint, Sink: s.name,
		Export: t.export.String(), Line: line.String(), LastSeq: t.lastSeq, Queue: t.queue, Time: now,
	})
}

// checkpointAt is when the end of the export is to be told again; ok is false where
// there is nothing to tell.
func (s *sink) checkpointAt() (at time.Time, ok bool) {
	return s.checkpointDue, s.announce != nil && s.store.ends.queue != ""
}

// hasNews reports whether items have a record that is no checkpoint, of this export or
// another.
func hasNews(items []sinks.Item) bool {
	return slices.ContainsFunc(items, func(it sinks.Item) bool {
		return it.Source != sinks.OwnSource || !bytes.HasPrefix(it.Record, []byte(`{"eventType":"`+decision.ExportCheckpoint+`"`))
	})
}
