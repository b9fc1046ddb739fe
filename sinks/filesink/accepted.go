package filesink

import (
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// ReadPosition returns what the sink of the export in dir has accepted and not
// yet noted in the manifest. ok is false without a sound position. It changes
// nothing and may be called while the sink works; the result was true at some
// moment of the call.
func ReadPosition(dir string) (p manifest.Position, ok bool, err error) {
	f, err := readPosition(disk.At(dir).Join(positionName))
	if err != nil || !f.sound {
		return manifest.Position{}, false, err
	}
	at := f.position
	p = manifest.Position{Last: at.last, Gaps: f.gaps, Manifest: at.manifest, Chain: at.chain}
	if at.last > 0 {
		p.Queue = at.queue.String()
	}
	if at.size > 0 {
		e, err := at.entry(activeName(at.form), f.gaps)
		if err != nil {
			return manifest.Position{}, false, err
		}
		p.Active = &e
	}
	if !at.finishing.IsZero() {
		p.Finishing = at.finishedName(at.finishing)
	}
	return p, true, nil
}
