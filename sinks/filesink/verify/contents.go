package verify

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// Contents are the files of an export in the order of their records, for a search. Their
// methods may be called at the same time.
type Contents struct {
	Files []File
	// Notes name what is in the directory and not part of Files, Problems what should be
	// part of Files and is not.
	Notes, Problems []string

	root   *os.Root
	active *os.File // the unfinished file, which may have another name by now; nil: none is in Files
}

// File is one of Contents.
type File struct {
	Name  string
	Bytes int64 // that count, as they lie on disk
	// FirstTime and LastTime are when the exporter received the first and the last record;
	// zero where nothing says it.
	FirstTime, LastTime time.Time
	// Lines are those that count, in order. Empty: all.
	Lines []Lines
	// Unaccepted: it is not known how much of the file the sink has accepted, so the
	// file may end within a line.
	Unaccepted bool

	isActive bool
	isProven bool
	sums     []manifest.Hash // of content, where it is proven
}

// Lines are those of a file from From up to but without To, counted from 0.
type Lines struct{ From, To uint64 }

// ErrChanged says that a file has changed since it was proven.
var ErrChanged = errors.New("was changed after it was proven")

// ErrRemoved says that the sink has removed a file by its retention since Open.
var ErrRemoved = errors.New("was removed by retention meanwhile")

// Open lists the files of the export in dir, without proving anything. position reads what
// the sink has accepted, as Options.Position does. The caller closes the Contents. It fails
// with ErrNoExport for a directory in which no sink has written.
func Open(dir string, position func() (manifest.Position, bool, error)) (*Contents, error) {
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	c := &Contents{root: root}
	if err := c.list(position); err != nil {
		return nil, errors.Join(fmt.Errorf("export %s: %w", dir, err), c.Close())
	}
	return c, nil
}

// Close releases the directory. Readers stay open.
func (c *Contents) Close() error {
	c.keepActive(nil)
	return c.root.Close()
}

func (c *Contents) keepActive(f *os.File) {
	if c.active != nil {
		c.active.Close() // it was only read
	}
	c.active = f
}

// Bytes is how much of the files counts, as they lie on disk.
func (c *Contents) Bytes() (sum int64) {
	for i := range c.Files {
		sum += c.Files[i].Bytes
	}
	return sum
}

// Reader returns the lines of a file, decompressed. p counts what is read from the disk; it may be
// nil. For a proven file, the reader returns no byte before comparing it with the proof, and fails
// with ErrChanged when the file differs. The error is ErrRemoved for a file that retention has
// removed since Open.
func (c *Contents) Reader(f *File, p *Progress) (io.ReadCloser, error) {
	from, opened := c.active, (*os.File)(nil)
	if !f.isActive {
		var err error
		if opened, _, err = open(c.root, f.Name); err != nil {
			if errors.Is(err, fs.ErrNotExist) && !f.isProven && c.isRemoved(f.Name) {
				err = ErrRemoved
			}
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		from = opened
	}
	var r io.Reader = &progressReader{io.NewSectionReader(from, 0, f.Bytes), p}
	if f.isProven {
		r = &provenReader{r: r, left: f.Bytes, sums: f.sums, hash: sha256.New()}
	}
	lines, stop, err := decompress(f.Name, r)
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

// provenReader reads a file whose sums are known, and keeps each part back until its sum is
// the one that was proven. The same bytes cannot be exchanged in between.
type provenReader struct {
	r    io.Reader
	left int64 // of the file
	sums []manifest.Hash
	hash hash.Hash // of what was read so far
	part []byte    // memory of ready
	// ready is what was compared and not yet returned.
	ready []byte
}

// Read implements io.Reader.
func (r *provenReader) Read(b []byte) (int, error) {
	if len(r.ready) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// next reads the next part.
func (r *provenReader) next() error {
	n := min(r.left, sumStep)
	r.part = slices.Grow(r.part[:0], int(n))[:n]
	if _, err := io.ReadFull(r.r, r.part); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrChanged
	} else if err != nil {
		return err
	}
	r.hash.Write(r.part)
	if len(r.sums) == 0 || manifest.Hash(r.hash.Sum(nil)) != r.sums[0] {
		return ErrChanged
	}
	r.ready, r.left, r.sums = r.part, r.left-n, r.sums[1:]
	return nil
}

// listTries is how often an export is listed before its sink is taken to be too busy.
const listTries = 100

// list collects the files: those of the manifest, those that no line names, and the
// unfinished one.
func (c *Contents) list(position func() (manifest.Position, bool, error)) error {
	t, err := walkTree(c.root)
	if err != nil {
		return err
	}
	for range listTries {
		c.Files, c.Notes, c.Problems = nil, nil, nil
		p, known, err := position()
		if err != nil {
			return err
		}
		listed, err := c.listManifest()
		if err != nil {
			return err
		}
		c.listOthers(&t, listed, p.Finishing)
		c.listActive(&t, listed, p, known)
		again, stillKnown, err := position()
		if err != nil {
			return err
		}
		if !known && listed == nil && len(c.Files) == 0 && len(t.active) == 0 {
			return fmt.Errorf("%w: the directory has neither a %s nor a file of a sink", ErrNoExport, manifest.FileName)
		}
		if known == stillKnown && p.Manifest == again.Manifest && p.Chain == again.Chain && p.Finishing == again.Finishing {
			return nil
		}
	}
	return errors.New("the sink finishes files faster than they can be listed: try again when less is written")
}

// listManifest takes the files of the manifest, and returns every name in it.
func (c *Contents) listManifest() (names map[string]bool, err error) {
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
		case info.Size() != e.Bytes:
			c.Problems = append(c.Problems, fmt.Sprintf("%s has %s, and the manifest lists %d", e.Name, bytesText(info.Size()), e.Bytes))
		}
		c.Files = append(c.Files, File{Name: e.Name, Bytes: info.Size(), FirstTime: e.FirstTime, LastTime: e.LastTime})
	}
	return names, nil
}

// listOthers takes the files that have a name as the sink gives it, and no line. finishing
// is the name that the unfinished file is getting.
func (c *Contents) listOthers(t *tree, listed map[string]bool, finishing string) {
	for _, name := range t.aside {
		c.Notes = append(c.Notes, name+" was set aside by the sink when its position was damaged: it is not searched")
	}
	foreign := 0
	for _, name := range t.order {
		if listed[name] || name == finishing {
			continue
		}
		info, err := c.root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil || !info.Mode().IsRegular() || !isFinishedName(name) {
			if foreign++; foreign <= maxForeign {
				c.Notes = append(c.Notes, name+" is not a file of an export: it is not searched")
			}
			continue
		}
		if listed != nil {
			c.Problems = append(c.Problems, name+" is in no line of the manifest: it is searched last")
		}
		c.Files = append(c.Files, File{Name: name, Bytes: info.Size()})
	}
	if foreign > maxForeign {
		c.Notes = append(c.Notes, fmt.Sprintf("%d more files are not of an export", foreign-maxForeign))
	}
}

// maxForeign is how many files are named that are not of an export.
const maxForeign = 3

// isFinishedName reports whether a file may be one that a sink has finished.
func isFinishedName(name string) bool {
	base := path.Base(name)
	base = strings.TrimSuffix(strings.TrimSuffix(base, ".gz"), ".zst")
	return strings.HasPrefix(base, "decisions-") && strings.HasSuffix(base, ".ndjson")
}

// listActive takes the unfinished file, as far as the sink has accepted it where that is
// known.
func (c *Contents) listActive(t *tree, listed map[string]bool, p manifest.Position, known bool) {
	c.keepActive(nil)
	if known && (p.Active == nil || listed[p.Finishing]) {
		return
	}
	names := t.active
	if known {
		names = []string{p.Active.Name, p.Finishing}
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		f, info, err := open(c.root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			c.Problems = append(c.Problems, err.Error())
			return
		}
		file := File{Name: name, Bytes: info.Size(), isActive: true, Unaccepted: true}
		if known {
			file = File{Name: name, Bytes: p.Active.Bytes, FirstTime: p.Active.FirstTime, LastTime: p.Active.LastTime, isActive: true}
		}
		if info.Size() < file.Bytes {
			c.Problems = append(c.Problems, fmt.Sprintf("%s has %s, and the sink's position says %d", name, bytesText(info.Size()), file.Bytes))
			file.Bytes = info.Size()
		}
		c.keepActive(f)
		if file.Bytes > 0 {
			c.Files = append(c.Files, file)
		}
		return
	}
	if known {
		c.Problems = append(c.Problems, p.Active.Name+" is missing: the sink's position names it")
	}
}
