package verify

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// Contents are the files of an export in the order of their records, for a search. Their
// methods may be called at the same time.
type Contents struct {
	Files []File
	// Notes name what is in the directory and not part of Files or of the manifest, Problems what
	// should be part of Files and is not.
	Notes, Problems []string

	root   *os.Root
	active *os.File // the unfinished file, which may have another name by now; nil: there is none
}

// File is one of Contents.
type File struct {
	Name  string
	Bytes int64 // as they lie on disk
	// FirstTime and LastTime are when the exporter received the first and the last record;
	// zero where nothing says it.
	FirstTime, LastTime time.Time
	// Unfinished: the sink is writing the file, so it may end within a line.
	Unfinished bool
}

// ErrRemoved says that the sink has removed a file by its retention since Open.
var ErrRemoved = errors.New("was removed by retention meanwhile")

// Open lists the files of the export in dir, without proving anything. The caller closes the
// Contents. It fails with ErrNoExport for a directory in which no sink has written.
func Open(dir string) (*Contents, error) {
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	c := &Contents{root: root}
	if err := c.list(); err != nil {
		return nil, errors.Join(fmt.Errorf("export %s: %w", dir, err), c.Close())
	}
	return c, nil
}

// Close releases the directory. Readers stay open.
func (c *Contents) Close() error {
	if c.active != nil {
		c.active.Close() // it was only read
	}
	return c.root.Close()
}

// Bytes is how much the files have on disk.
func (c *Contents) Bytes() (sum int64) {
	for i := range c.Files {
		sum += c.Files[i].Bytes
	}
	return sum
}

// Reader returns the lines of a file, decompressed. p counts what is read from the disk; it may be
// nil. The error is ErrRemoved for a file that retention has removed since Open.
func (c *Contents) Reader(f *File, p *Progress) (io.ReadCloser, error) {
	from, opened := c.active, (*os.File)(nil)
	if !f.Unfinished {
		var err error
		if opened, _, err = open(c.root, f.Name); err != nil {
			if errors.Is(err, fs.ErrNotExist) && c.isRemoved(f.Name) {
				err = ErrRemoved
			}
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		from = opened
	}
	lines, stop, err := decompress(f.Name, &progressReader{io.NewSectionReader(from, 0, f.Bytes), p})
	if err != nil {
		opened.Close()
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return &fileReader{lines, stop, opened}, nil
}

// isRemoved reports whether the manifest says by now that a file was removed.
func (c *Contents) isRemoved(name string) bool {
	f, _, err := open(c.root, manifest.FileName)
	if err != nil {
		return false
	}
	defer f.Close()
	for line, err := range manifest.Read(f) {
		if err == nil && line.Removed != nil && line.Removed.Name == name {
			return true
		}
	}
	return false
}

// fileReader is what Reader returns.
type fileReader struct {
	io.Reader
	stop   func()
	opened *os.File // nil where it is that of Contents
}

// Close implements io.Closer.
func (r *fileReader) Close() error {
	r.stop()
	if r.opened == nil {
		return nil
	}
	return r.opened.Close()
}

type progressReader struct {
	r io.Reader
	p *Progress
}

// Read implements io.Reader.
func (r *progressReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	r.p.add(n)
	return n, err
}

// list collects the files: those of the manifest, those that no line names, and the unfinished
// one. That is opened first: when the sink finishes it meanwhile, its new name is left out.
func (c *Contents) list() error {
	info, err := c.openActive()
	if err != nil {
		return err
	}
	listed, err := c.listManifest(info)
	if err != nil {
		return err
	}
	t, err := walkTree(c.root)
	if err != nil {
		return err
	}
	c.listOthers(&t, listed, info)
	if info != nil && info.Size() > 0 {
		c.Files = append(c.Files, File{Name: info.Name(), Bytes: info.Size(), Unfinished: true})
	}
	if listed == nil && len(c.Files) == 0 && info == nil {
		return fmt.Errorf("%w: the directory has neither a %s nor a file of a sink", ErrNoExport, manifest.FileName)
	}
	return nil
}

// openActive opens the unfinished file; info is nil where there is none.
func (c *Contents) openActive() (info fs.FileInfo, err error) {
	for _, name := range activeNames {
		c.active, info, err = open(c.root, name)
		if !errors.Is(err, fs.ErrNotExist) {
			return info, err
		}
	}
	return nil, nil
}

// listManifest takes the files of the manifest but the unfinished one, and returns every name in it.
func (c *Contents) listManifest(unfinished fs.FileInfo) (names map[string]bool, err error) {
	f, _, err := open(c.root, manifest.FileName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names = map[string]bool{}
	var entries []*manifest.Entry
	removed := map[string]bool{}
	for line, err := range manifest.Read(f) {
		switch {
		case err != nil:
			c.Problems = append(c.Problems, err.Error()+": from there on, files are searched by name")
		case line.Removed != nil:
			removed[line.Removed.Name] = true
		default:
			names[line.Entry.Name] = true
			line.Entry.Gaps = manifest.Gaps{} // which may be many
			entries = append(entries, line.Entry)
		}
	}
	for _, e := range entries {
		info, err := c.root.Lstat(e.Name)
		switch {
		case removed[e.Name] && err != nil:
			continue
		case err != nil:
			c.Problems = append(c.Problems, fmt.Sprintf("%s is missing: the manifest lists it", e.Name))
			continue
		case os.SameFile(info, unfinished):
			continue
		case info.Size() != e.Bytes:
			c.Problems = append(c.Problems, fmt.Sprintf("%s has %s, and the manifest lists %d", e.Name, bytesText(info.Size()), e.Bytes))
		}
		c.Files = append(c.Files, File{Name: e.Name, Bytes: info.Size(), FirstTime: e.FirstTime, LastTime: e.LastTime})
	}
	return names, nil
}

// listOthers takes the files that have a name as the sink gives it, and no line, but the unfinished one.
func (c *Contents) listOthers(t *tree, listed map[string]bool, unfinished fs.FileInfo) {
	for _, name := range t.aside {
		c.Notes = append(c.Notes, name+" was set aside by the sink when its position was damaged: it is not searched")
	}
	foreign := 0
	for _, name := range t.order {
		info, err := c.root.Lstat(name)
		switch {
		case listed[name] || errors.Is(err, fs.ErrNotExist) || err == nil && os.SameFile(info, unfinished):
		case err != nil || !info.Mode().IsRegular() || !manifest.MayBeFinished(name):
			foreign++
		default:
			if listed != nil {
				c.Notes = append(c.Notes, name+" is in no line of the manifest: it is searched last")
			}
			c.Files = append(c.Files, File{Name: name, Bytes: info.Size()})
		}
	}
	if foreign > 0 {
		c.Notes = append(c.Notes, countText(uint64(foreign), "file")+" of another kind in the directory: not searched")
	}
}
