package verify

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// checkDirectory looks for the unfinished file, and for files that no line names.
//
// The sink gives a file its name, then adds the line, and only then makes the next active file.
// So one file without a line is being finished if there is no active file. If there is one, the
// line of a file that the sink has finished is there as well, and is read now at the latest.
func (v *verifier) checkDirectory() error {
	if v.report.Break != nil || v.lookAtActive() {
		return nil
	}
	unlisted := v.unlisted()
	if len(unlisted) == 0 {
		return nil
	}
	isActive, err := v.hasActive()
	if err != nil {
		return err
	}
	if len(unlisted) == 1 && !isActive && v.isFinishing(unlisted[0]) {
		return nil
	}
	if err := v.readLines(); err != nil || v.report.Break != nil {
		return err
	}
	if unlisted = v.unlisted(); len(unlisted) == 0 {
		return nil
	}
	if v.manifest == nil {
		v.broken(&Break{Kind: ManifestMissing, File: manifest.FileName, Expected: "a manifest", Found: "none, but " + unlisted[0]})
		return nil
	}
	if v.isReplaced() {
		return errors.New("the manifest was replaced during the check, as docket does when it starts: run verify again")
	}
	v.broken(&Break{Kind: FileUnlisted, File: unlisted[0], Expected: "a line of the manifest that names it", Found: "none"})
	return nil
}

// lookAtActive reports the unfinished file, and whether it is a break: not a file.
func (v *verifier) lookAtActive() (isBreak bool) {
	for _, a := range v.tree.active {
		switch {
		case a.info == nil: // it was finished when it was looked at
			v.report.Active = &Active{File: a.name}
		case !a.info.Mode().IsRegular():
			v.broken(&Break{Kind: NotAFile, File: a.name, Expected: "a regular file", Found: "a " + typeText(a.info.Mode())})
			return true
		case a.info.Size() > 0:
			v.report.Active = &Active{File: a.name, Bytes: a.info.Size()}
		}
	}
	return false
}

// unlisted are the files that were there at first, are there, and have no line so far.
func (v *verifier) unlisted() (names []string) {
	for _, name := range v.tree.order {
		if !*v.tree.files[name] && !v.isMissing(name) {
			names = append(names, name)
		}
	}
	return names
}

// hasActive reports whether there is an active file by now.
func (v *verifier) hasActive() (bool, error) {
	for _, name := range activeNames {
		if _, err := v.root.Lstat(name); err == nil {
			return true, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, nil
}

// isFinishing reports whether a file may be the one that the sink is finishing: the report has
// it as unfinished then.
func (v *verifier) isFinishing(name string) bool {
	info, err := v.root.Lstat(name)
	if err != nil || v.manifest == nil || !info.Mode().IsRegular() || path.Base(name) != name || !manifest.MayBeFinished(name) {
		return false
	}
	v.report.Active = &Active{File: name, Bytes: info.Size()}
	return true
}

// isReplaced reports whether another manifest lies there than the one that was read.
func (v *verifier) isReplaced() bool {
	named, err := v.root.Lstat(manifest.FileName)
	if err != nil {
		return true
	}
	ours, err := v.manifest.Stat()
	return err == nil && !os.SameFile(ours, named)
}
