package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// positionTries is how often the position is read before the exporter is taken to be
// too busy. Each try reads only what was finished since the one before.
const positionTries = 100

// checkPosition looks at the unfinished file, and at the manifest once more, by what
// the sink says that it has accepted.
func (v *verifier) checkPosition() error {
	if v.report.Break != nil {
		return nil
	}
	if v.Position == nil {
		return v.lookAtActive()
	}
	var before manifest.Position
	for try := range positionTries {
		p, ok, err := v.Position()
		if err != nil {
			return err
		}
		if !ok {
			v.note("there is no position: docket verify knows nothing about records after the end of the manifest")
			return v.lookAtActive()
		}
		// The lines that a position names were written before it.
		if err := v.readLines(); err != nil || v.report.Break != nil {
			return err
		}
		b, err := v.checkAgainst(p)
		if err != nil {
			return err
		}
		if b == nil && p.Manifest == v.lines.End() {
			v.position, v.known = p, true
			return nil
		}
		if try > 0 && isSame(before, p) {
			return v.disagree(p, b)
		}
		before = p
	}
	return errors.New("the sink finishes files faster than verify can read them: run verify again when less is written")
}

// isSame reports whether b is what a was: the sink has done nothing in between.
func isSame(a, b manifest.Position) bool {
	return a.Queue == b.Queue && a.Last == b.Last && a.Manifest == b.Manifest && a.Chain == b.Chain && a.Finishing == b.Finishing
}

// disagree is what a position that does not fit means, when it does not change.
func (v *verifier) disagree(p manifest.Position, b *Break) error {
	if b == nil {
		v.note("the manifest has %d bytes that are not in the position: the sink was interrupted there, and repairs this when it runs",
			v.lines.End()-p.Manifest)
		return nil
	}
	if b.Kind == ManifestCut && v.isReplaced() {
		return errors.New("the manifest was replaced during the check, as docket does when it starts: run verify again")
	}
	v.broken(b)
	return nil
}

// isReplaced reports whether another manifest lies there than the one that was read.
func (v *verifier) isReplaced() bool {
	named, err := v.root.Lstat(manifest.FileName)
	if err != nil || v.manifest == nil {
		return err == nil
	}
	ours, err := v.manifest.Stat()
	return err == nil && !os.SameFile(ours, named)
}

// checkAgainst checks what p names. It returns no break where the manifest has gone
// on since.
func (v *verifier) checkAgainst(p manifest.Position) (*Break, error) {
	v.report.Active = nil
	v.keepActive(nil)
	switch end := v.lines.End(); {
	case p.Manifest > end:
		return &Break{Kind: ManifestCut, File: manifest.FileName, Expected: bytesText(p.Manifest), Found: fmt.Sprintf("%s, in %d lines", bytesText(end), v.report.Lines)}, nil
	case p.Manifest < end:
		return nil, nil
	case p.Chain != v.report.Head:
		return &Break{Kind: ManifestReplaced, Line: v.report.Lines, Expected: "a line with the hash " + p.Chain.String(), Found: "one with the hash " + v.report.Head.String()}, nil
	case p.Active == nil:
		return nil, nil
	}
	f := listed{entry: p.Active}
	if b := f.checkSeqs(v.endOfLines(p.Active.Queue)); b != nil {
		return b, nil
	}
	return v.checkActive(p)
}

// checkActive reads the accepted part of the unfinished file.
func (v *verifier) checkActive(p manifest.Position) (*Break, error) {
	e := *p.Active
	f, _, err := open(v.root, e.Name)
	if errors.Is(err, fs.ErrNotExist) && p.Finishing != "" {
		e.Name = p.Finishing
		f, _, err = open(v.root, e.Name)
	}
	v.resolveLast(&e)
	active := listed{entry: &e}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return active.breakOf(ActiveDamaged, "a file with "+bytesText(e.Bytes), "no file"), nil
	case errors.Is(err, errNotAFile):
		return active.breakOf(NotAFile, "a regular file", err.Error()), nil
	case err != nil:
		return nil, err
	}
	v.keepActive(f)
	c, err := hashFile(v.ctx, f, e.Bytes, make([]byte, bufferSize), v.Progress)
	if err != nil {
		return nil, err
	}
	if c.size < e.Bytes {
		return active.breakOf(ActiveDamaged, bytesText(e.Bytes)+" that were accepted", bytesText(c.size)), nil
	}
	if c.hash != e.SHA256 {
		return active.breakOf(ActiveDamaged, hashText(e.SHA256, e.Bytes), hashText(c.hash, c.size)), nil
	}
	v.report.Active = &Active{
		File: e.Name, Queue: e.Queue, Bytes: e.Bytes, Records: e.Records, FirstSeq: e.FirstSeq, LastSeq: e.LastSeq, Checked: true,
	}
	return nil, nil
}

// keepActive keeps the unfinished file open to be compared later, when its name may
// be that of the next one. f may be nil.
func (v *verifier) keepActive(f *os.File) {
	if v.active != nil {
		v.active.Close()
	}
	v.active = f
}

// lookAtActive says that there is an unfinished file, where nothing more is known.
func (v *verifier) lookAtActive() error {
	for _, name := range v.tree.active {
		info, err := v.root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			v.broken(&Break{Kind: NotAFile, File: name, Expected: "a regular file", Found: "a " + typeText(info.Mode())})
			return nil
		}
		if info.Size() > 0 {
			v.report.Active = &Active{File: name, Bytes: info.Size()}
		}
	}
	return nil
}
