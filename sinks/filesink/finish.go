package filesink

import (
	"hash"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// finish gives the active file, which must hold records, its final name, notes it
// in the manifest and begins a new one. The steps and why they come in this order:
// package comment.
func (s *store) finish() error {
	chain, err := s.chain() // before anything changes: the key may be unreadable
	if err != nil {
		return err
	}
	err = s.rename()
	if err == nil {
		err = s.syncRename()
	}
	if err == nil {
		err = s.noteFinished(chain)
	}
	if err == nil {
		err = s.begin()
	}
	if err != nil {
		s.broken = true
	}
	return err
}

// rename moves the active file to the name that it says, durably, it will get.
func (s *store) rename() error {
	if err := s.active.Sync(); err != nil {
		return err
	}
	p := s.position
	at, err := freeTime(s.at("."), p.finishedName)
	if err != nil {
		return err
	}
	p.finishing = at
	if err := s.savePosition(p, nil); err != nil {
		return err
	}
	return s.at(activeName(p.form)).Rename(s.at(p.finishedName(p.finishing)))
}

// syncRename makes the new name of the active file durable, and then that the old
// one is gone. The file itself may be gone too: somebody collects finished files.
func (s *store) syncRename() error {
	return s.place.SyncDir()
}

// noteFinished enters the file that was renamed in the manifest. The position says
// so as well when it returns nil, and that the active file is empty.
func (s *store) noteFinished(chain manifest.Chain) error {
	p := s.position
	name := p.finishedName(p.finishing)
	entry, err := p.entry(name, s.gaps)
	if err != nil {
		return err
	}
	line, chain, err := chain.Entry(entry)
	if err != nil {
		return err
	}
	if err := s.addToManifest(line); err != nil {
		return err
	}
	next := p.withoutFile()
	next.chain = chain.Previous
	next.manifest += int64(len(line))
	if p.settled == p.manifest {
		next.settled = next.manifest
	}
	if err := s.replacePosition(next, manifest.Gaps{}); err != nil {
		return err
	}
	s.ends.note(&entry, chain.Previous)
	s.ends.isNews = s.ends.isNews || p.hasNews()
	if s.listed {
		kept := keptOf(&entry)
		kept.hasNews = p.hasNews()
		s.kept = append(s.kept, kept)
	}
	s.log.Info("finished file", "file", s.path(name), "bytes", p.size, "records", p.records)
	return nil
}

// entry is what the manifest says of the active file once it is called name.
func (p position) entry(name string, gaps manifest.Gaps) (manifest.Entry, error) {
	sum, err := p.hash()
	if err != nil {
		return manifest.Entry{}, err
	}
	return manifest.Entry{
		Name: name, SHA256: sumOf(sum), Bytes: p.size, Records: p.records,
		Queue: p.queue.String(), FirstSeq: p.first, LastSeq: p.last,
		FirstTime: p.firstReceived, LastTime: p.lastReceived,
		Incarnations: p.lineage.Before(p.last + 1).From(p.first), Gaps: gaps, Finished: p.finishing,
	}, nil
}

func sumOf(h hash.Hash) (sum manifest.Hash) {
	h.Sum(sum[:0])
	return sum
}
