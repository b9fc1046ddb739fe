package inventory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/docket-export/docket/internal/disk"
)

// shelf is the directory of claims, or a name in it.
func (v *Inventory) shelf(name ...string) disk.Path {
	return v.StateDir.Join(append([]string{"claims"}, name...)...)
}

// takeShelf takes the files that were claimed before a restart.
func (v *Inventory) takeShelf() {
	names, err := v.shelf().Rooted().ReadDir()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.cannotShelve(err)
	}
	for _, entry := range names {
		name := entry.Name()
		if strings.HasSuffix(name, disk.NewSuffix) {
			_ = v.shelf(name).Remove() // half of a copy
			continue
		}
		c, ok := parseClaimName(name)
		size, err := v.shelf(name).Size()
		if !ok || err != nil {
			v.Log.Warn("ignored a file that is not a claim", "file", v.shelf(name))
			continue
		}
		c.Size = size
		if known, ok := v.state.Done[c.ID]; ok && known.Size == c.Size {
			c.stage = done // it is taken off the shelf with the next save
			v.dirty = true
		}
		v.claims[c.ID] = c
	}
}

func (v *Inventory) cannotShelve(err error) {
	text := ""
	if err != nil {
		text = fmt.Sprintf("cannot keep files in %s: %v: files that Gatekeeper deletes before docket reads them are lost", v.shelf(), err)
	}
	v.Failures.Set("claims", text)
}

// claimName is the name of a claim on the shelf.
func claimName(f File) string {
	return strconv.FormatUint(f.Inode, 10) + "-" + url.PathEscape(f.Channel+"/"+f.Name)
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
	return newClaim(strings.TrimSuffix(channel, "/"), file, inode), parseName(file).kind != foreign
}

// shelve gives a claim, whose file has its name in d and is open, a name on the shelf. It is a
// second name of the file or, where that cannot be, that of a copy. What the file holds is
// durable on nil, the name once the shelf was synced.
func (v *Inventory) shelve(d dir, c *claim, file *os.File) error {
	name := claimName(c.File)
	if err := v.shelf().MakeDir(); err != nil {
		return err
	}
	shelf, err := v.shelf().Rooted().OpenDir()
	if err != nil {
		return err
	}
	to := dir{f: shelf}
	defer to.close()
	err = d.link(c.Name, to, name)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil || errors.Is(err, fs.ErrExist) { // from before a crash
		if info, err := to.stat(name); err == nil && info.inode == c.Inode {
			return file.Sync()
		}
		_ = to.unlink(name) // the name went to another file in the meantime
	}
	// Another volume, or a user who may not link the files of Gatekeeper's.
	return v.shelf(name).ReplaceBy(func(out disk.File) error {
		_, err := io.Copy(io.NewOffsetWriter(out, 0), io.NewSectionReader(file, 0, c.Size))
		return err
	})
}
