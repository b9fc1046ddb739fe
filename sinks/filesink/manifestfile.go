package filesink

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// openManifest brings the manifest to the size in the position and opens it. Bytes beyond
// that size were not accepted: they are a line whose write was interrupted.
func (s *store) openManifest() error {
	if err := s.at(newManifestName).RemoveAny(); err != nil { // half a copy, from a crash
		return err
	}
	size, err := s.at(manifest.FileName).Size()
	if err != nil {
		return err
	}
	accepted := s.position.manifest
	if accepted > 0 && size < accepted {
		return sinks.Failf(sinks.Misconfigured,
			"file sink: %s has %d bytes, but %d were accepted: restore the file. Or move all files to another directory: "+
				"docket then starts a new manifest, which proves nothing about them", s.path(manifest.FileName), max(size, 0), accepted)
	}
	switch {
	case size < 0:
		s.manifest, err = s.at(manifest.FileName).Create()
		if err == nil {
			err = s.place.SyncDir()
		}
	case size > accepted:
		s.manifest, err = s.cutManifest()
	default:
		s.manifest, err = s.at(manifest.FileName).OpenWrite()
	}
	return err
}

// cutManifest replaces the manifest by a copy of what was accepted of it. The file
// itself stays out of use: a sync of it may have failed.
func (s *store) cutManifest() (disk.File, error) {
	old, err := s.at(manifest.FileName).OpenRead()
	if err != nil {
		return nil, err
	}
	defer old.Close() // read only: nothing can be lost
	return s.replace(manifest.FileName, io.NewSectionReader(old, 0, s.position.manifest))
}

// adoptManifest takes the size of the manifest from the manifest, because the
// position does not tell it. Bytes behind its last whole line are set aside.
func (s *store) adoptManifest() error {
	f, err := s.at(manifest.FileName).OpenRead()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() // read only: nothing can be lost
	p := &s.position
	torn, err := eachText(disk.Reader(f), func(text []byte) {
		p.manifest += int64(len(text)) + 1
		p.chain = sha256.Sum256(text)
		p.lost = true
	})
	if err != nil {
		return err
	}
	p.settled = p.manifest
	if torn > 0 {
		return s.keepTail(manifest.FileName, p.manifest, torn, "jsonl")
	}
	return nil
}

// eachText calls do with the whole lines of r, without their newlines, and returns
// how many bytes stand behind the last one.
func eachText(r io.Reader, do func(text []byte)) (torn int64, err error) {
	for b := bufio.NewReader(r); ; {
		text, err := b.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return int64(len(text)), nil
		}
		if err != nil {
			return 0, err
		}
		do(text[:len(text)-1])
	}
}

// chain is the end of the manifest, with the key that signs the next line.
func (s *store) chain() (manifest.Chain, error) {
	key, err := s.config.Signature.key()
	return manifest.Chain{Previous: s.position.chain, Key: key}, err
}

// addToManifest makes lines durable behind what was accepted of the manifest.
func (s *store) addToManifest(lines []byte) error {
	if _, err := s.manifest.WriteAt(lines, s.position.manifest); err != nil {
		return err
	}
	return s.manifest.Sync()
}

// eachLine calls do with the accepted lines of the manifest from an offset on, in
// order. Lines that somebody has damaged are left out: docket verify names them.
func (s *store) eachLine(offset int64, do func(*manifest.Line)) error {
	damaged := 0
	_, err := eachText(io.NewSectionReader(s.manifest, offset, s.position.manifest-offset), func(text []byte) {
		line, err := manifest.Decode(text)
		if err != nil {
			damaged++
			return
		}
		do(line)
	})
	if damaged > 0 {
		s.log.Warn("lines of the manifest are damaged, and their files are left as they are: docket verify names them",
			"file", s.path(manifest.FileName), "lines", damaged)
	}
	return err
}

// follows fails when the directory is an older copy of the one that had the position. It may be empty,
// or have lost its own.
func (s *store) follows(had position) error {
	if had.last == 0 {
		return nil
	}
	through := uint64(0)
	if p := s.position; p.queue == had.queue {
		through = p.last
	} else {
		err := s.eachLine(0, func(l *manifest.Line) {
			if l.Entry != nil && l.Entry.Queue == had.queue.String() {
				through = l.Entry.LastSeq
			}
		})
		if err != nil {
			return err
		}
	}
	if through > 0 && through < had.last && !s.position.lost {
		return sinks.Behind(through, had.last)
	}
	return nil
}
