package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/docket-export/docket/internal/disk"
)

func (v *Inventory) shelfPath() disk.Path { return v.StateDir.Join("claims") }

// openShelf opens the directory of claims, making it where there is none or somebody has
// removed it, and takes what is in it. Where it cannot be opened it is tried again at the
// next scan, and files are held open until then.
func (v *Inventory) openShelf() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shelf != nil && v.shelf.isAt(v.shelfPath()) {
		return
	}
	err := v.shelfPath().MakeDir()
	if err == nil {
		err = v.changeShelf()
	}
	text := ""
	if err != nil {
		text = fmt.Sprintf("cannot keep files in %s: %v: a restart would lose the files that are being read", v.shelfPath(), err)
	}
	v.Failures.Set("claims", text)
}

// changeShelf goes over to the directory that is there now.
func (v *Inventory) changeShelf() error {
	f, err := v.shelfPath().Rooted().OpenDir()
	if err != nil {
		return err
	}
	d := dir{f: f}
	if err := v.takeShelf(d); err != nil {
		d.close()
		return err
	}
	if v.shelf != nil {
		v.shelf.close()
	}
	v.shelf = &d
	return nil
}

// takeShelf takes the files that were claimed before a restart.
func (v *Inventory) takeShelf(d dir) error {
	names, err := d.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		c, ok := parseClaimName(name)
		info, err := d.stat(name)
		if !ok || err != nil || !info.regular || info.inode != c.Inode {
			v.Log.Warn("ignored a file that is not a claim", "file", v.shelfPath().Join(name))
			continue
		}
		c.Size = info.size
		if known, ok := v.state.Done[c.ID]; ok && known.Size == c.Size {
			c.stage = done // it is taken off the shelf with the next save
			v.dirty = true
		}
		if v.claims[c.ID] == nil {
			v.claims[c.ID] = c
		}
	}
	return nil
}

// claimName is the name of a claim on the shelf.
func claimName(c *claim) string {
	return strconv.FormatUint(c.Inode, 10) + "-" + url.PathEscape(c.Channel+"/"+c.Name)
}

func parseClaimName(name string) (*claim, bool) {
	number, escaped, _ := strings.Cut(name, "-")
	inode, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return nil, false
	}
	place, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, false
	}
	channel, file := path.Split(place)
	c := newClaim(strings.TrimSuffix(channel, "/"), file, inode)
	c.stage, c.IsAbandoned = ready, c.name.kind == liveRun
	return c, c.name.kind != foreign
}

// shelve gives a claim, whose file has its name in d, a name on the shelf: then it needs
// no open file and outlives this process. Where that cannot be it stays open, and where
// something is to be redacted: it would lie below the queue's directory as it came. Called
// with mu held.
func (v *Inventory) shelve(d dir, c *claim) {
	if v.shelf == nil || v.HoldOpen {
		return
	}
	name := claimName(c)
	err := d.link(c.Name, *v.shelf, name)
	if errors.Is(err, fs.ErrExist) {
		err = nil // from before a crash, or another file that had the name: see below
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !v.noLink {
			v.noLink = true
			v.Log.Warn("cannot link Gatekeeper's files beside the queue: docket holds them open instead, and a restart loses the deleted ones. "+
				"Put queue.directory on the volume of the path, but not below the path, and run docket as the user of Gatekeeper", "error", err)
		}
		return
	}
	info, err := v.shelf.stat(name)
	if err != nil {
		return
	}
	if info.inode != c.Inode { // the name went to another file in the meantime
		_ = v.shelf.unlink(name) // left there, it would be reported at the next start
		return
	}
	c.f.Close()
	c.f = nil
	v.forgetSeen(c.Channel, c.Stem)
}

// Lose lets go of a file that somebody has taken off the shelf. If it still has its name
// at Gatekeeper it is claimed again, otherwise it has vanished.
func (v *Inventory) Lose(f File) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.claims, f.ID)
	v.remember(f.Channel, f.Name, f.Stem, f.Size)
	poke(v.relook)
}
