// Package relocation moves a queue to another directory or volume, and with it the file
// exports that lie beside it: docket queue move.
//
// A queue and the exports that it feeds belong together: a position says up to which
// record of which queue an export goes. So they move together, and at any moment at most
// one of the old and the new queue can be used. Marks guarantee this (package moved):
// docket and this package refuse a directory with a mark.
//
//	old queue           new directories
//	1 -                 moving-from
//	2 -                 moving-from, and what is copied; synced
//	3 moved-to          moving-from                        the new one is whole: it counts
//	4 moved-to          the old exports have it too; then the mark is removed, the queue's last
//	5 moved-to alone    what was moved is removed here
//
// # Crash stories
//
// The same call continues the move, and finds:
//
//	1, 2   The old queue counts, and docket may have used it since. The copy is made anew.
//	3      Neither can be used until step 4 is done. Both are whole.
//	4, 5   The new queue counts, and may be in use. It is left alone.
//
// From step 3 on, the mark of the old queue says what is moved. The configuration does
// not, because it may have changed. A step begins when the one before is durable.
package relocation

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/human"
	"github.com/docket-export/docket/internal/moved"
)

// Relocation is one move. It is for one goroutine.
type Relocation struct {
	// Pairs are the queue and then the exports that move with it, by absolute paths.
	Pairs []Pair
	// Disk returns the file system for a directory that the operator has named.
	Disk func(dir string) disk.FS
	// Keep gives a copy the mode and the group of its original. nil: nothing is to be kept.
	Keep func(from, to disk.Path) error
}

// Pair is a directory and where it goes.
type Pair struct{ From, To string }

// Result is what was moved.
type Result struct {
	Pairs        []moved.Mark
	Files, Bytes int64 // copied now; 0 when an earlier call has copied them
}

// Run moves the directories. It fails with *state.InUseError while a docket works on the
// queue. After an error, or a kill, docket uses the old queue or refuses both, and the
// same call continues the move.
func (r *Relocation) Run() (Result, error) {
	queue := r.Pairs[0]
	if err := r.mustBeApart(); err != nil {
		return Result{}, err
	}
	lock, err := state.Lock(r.Disk(queue.From), queue.From)
	if err != nil {
		return Result{}, err
	}
	result, err := r.run()
	if err != nil {
		err = fmt.Errorf("move the queue %s: %w", queue.From, err)
	}
	return result, errors.Join(err, lock.Close())
}

// mustBeApart fails when a directory would move into one that moves: what is moved is
// removed where it was.
func (r *Relocation) mustBeApart() error {
	for _, from := range r.Pairs {
		for _, to := range r.Pairs {
			if isInside(to.To, from.From) || isInside(from.From, to.To) {
				return fmt.Errorf("%s must not be in %s, nor contain it", to.To, from.From)
			}
		}
	}
	return nil
}

func isInside(path, dir string) bool {
	below, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(below)
}

func (r *Relocation) run() (result Result, err error) {
	queue := r.Pairs[0]
	mark, err := moved.Read(r.at(queue.From), moved.ToFile)
	if err != nil {
		return Result{}, err
	}
	if mark != nil && mark.To != queue.To {
		return Result{}, &moved.Error{Mark: *mark, IsWhole: true}
	}
	if mark != nil {
		if err := mustBeOf(*mark, queue); err != nil {
			return Result{}, err
		}
	}
	if mark == nil {
		id, err := r.queueIn(queue.From)
		if err != nil {
			return Result{}, err
		}
		mark = &moved.Mark{Queue: id, From: queue.From, To: queue.To}
		if result.Files, result.Bytes, err = r.copyAll(mark); err != nil {
			return Result{}, err
		}
		if err := moved.Write(r.at(queue.From), moved.ToFile, *mark); err != nil {
			return Result{}, err
		}
	}
	result.Pairs = append([]moved.Mark{{Queue: mark.Queue, From: mark.From, To: mark.To}}, mark.With...)
	return result, r.finish(mark.Queue, result.Pairs)
}

// mustBeOf fails when m names directories that are not of a move of queue: they would be
// emptied. The volume may be mounted elsewhere by now, and others may write to it.
func mustBeOf(m moved.Mark, queue Pair) error {
	elsewhere := func(d moved.Mark) error {
		return fmt.Errorf("its file %s says that %s was moved to %s, which is not part of this move: mount the volumes where they were", moved.ToFile, moved.Show(d.From), moved.Show(d.To))
	}
	if m.From != queue.From {
		return elsewhere(m)
	}
	for _, export := range m.With {
		below, err := filepath.Rel(filepath.Dir(queue.From), export.From)
		isBeside := err == nil && filepath.IsLocal(below) && !isInside(export.From, queue.From) && !isInside(queue.From, export.From)
		if !isBeside || export.To != filepath.Join(filepath.Dir(queue.To), below) {
			return elsewhere(export)
		}
	}
	return nil
}

// queueIn is the id of the queue in dir: directories have the same name in many pods.
func (r *Relocation) queueIn(dir string) (string, error) {
	found, err := state.Look(r.Disk(dir), dir)
	if err != nil {
		return "", err
	}
	if found.Cursors != nil {
		found.Cursors.File.Close() // it was only read
	}
	return found.Queue.String(), nil
}

func (r *Relocation) at(dir string) disk.Path { return disk.On(r.Disk(dir), dir) }

// copyAll makes whole, marked copies of the directories, and adds the exports to m.
func (r *Relocation) copyAll(m *moved.Mark) (files, bytes int64, err error) {
	var trees []*tree
	for i, p := range r.Pairs {
		from := r.at(p.From)
		if i > 0 {
			if there, err := isThere(from); err != nil {
				return 0, 0, err
			} else if !there {
				continue // nothing was exported yet
			}
			m.With = append(m.With, moved.Mark{Queue: m.Queue, From: p.From, To: p.To})
		}
		if err := moved.Check(from); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", p.From, err)
		}
		t, err := r.look(from)
		if err != nil {
			return 0, 0, err
		}
		if err := r.mustBeFree(p, m.Queue); err != nil {
			return 0, 0, err
		}
		trees = append(trees, t)
	}
	outerFirst := slices.SortedFunc(slices.Values(trees), func(a, b *tree) int { return strings.Compare(a.root.String(), b.root.String()) })
	for _, t := range outerFirst {
		from := t.root.String()
		if err := r.begin(moved.Mark{Queue: m.Queue, From: from, To: r.destination(from)}); err != nil {
			return 0, 0, err
		}
	}
	if err := r.mustLieOutside(trees); err != nil {
		return 0, 0, err
	}
	for _, t := range trees {
		to := r.at(r.destination(t.root.String()))
		if _, free, err := r.Disk(to.String()).Space(to.String()); err == nil && free < t.bytes {
			return 0, 0, fmt.Errorf("%s has %s free, but %s needs %s: use a larger volume", to, human.Size(free), t.root, human.Size(t.bytes))
		}
		if err := r.copyTree(t, to); err != nil {
			return 0, 0, err
		}
		files, bytes = files+int64(len(t.files)), bytes+t.bytes
	}
	return files, bytes, nil
}

// mustLieOutside fails, and removes the marks of the new directories, when one of them lies in
// an old one by a link or a mount: what mustBeApart cannot see.
func (r *Relocation) mustLieOutside(trees []*tree) error {
	for _, old := range trees {
		now, err := r.look(old.root)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(now.files, func(file string) bool { return filepath.Base(file) == moved.FromFile })
		if at < 0 {
			continue
		}
		err = fmt.Errorf("the new directory %s lies in %s, through a link or a mount: name another directory", old.root.Join(now.files[at]).Dir(), old.root)
		for _, t := range trees {
			err = errors.Join(err, moved.Remove(r.at(r.destination(t.root.String())), moved.FromFile))
		}
		return err
	}
	return nil
}

func (r *Relocation) destination(from string) string {
	return r.Pairs[slices.IndexFunc(r.Pairs, func(p Pair) bool { return p.From == from })].To
}

// mustBeFree fails when the new directory of p has anything but what an earlier move of p
// has left there: half a copy, or the rest of what was moved from there to the old one.
func (r *Relocation) mustBeFree(p Pair, queue string) error {
	to := r.at(p.To)
	there, err := isThere(to)
	if err != nil || !there {
		return err
	}
	if mark, err := moved.Read(to, moved.FromFile); err != nil || mark != nil && mark.From == p.From && mark.Queue == queue {
		return err
	}
	if mark, err := moved.Read(to, moved.ToFile); err != nil || mark != nil && mark.To == p.From && mark.Queue == queue {
		return err
	}
	files, err := to.List()
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(name string) bool { return name == moved.FromFile+disk.NewSuffix }) // which means nothing
	dirs, err := to.Dirs()
	if err == nil && len(files)+len(dirs) > 0 {
		return fmt.Errorf("%s is not empty: it has %s; name another directory", to, slices.Concat(files, dirs)[0])
	}
	return err
}

// begin makes a new directory with the mark that it is not whole, and nothing else.
func (r *Relocation) begin(m moved.Mark) error {
	to := r.at(m.To)
	if err := to.MakeDir(); err != nil {
		return err
	}
	if err := moved.Write(to, moved.FromFile, m); err != nil {
		return err
	}
	if err := moved.Remove(to, moved.ToFile); err != nil {
		return err
	}
	return empty(to, moved.FromFile)
}

// finish makes the new directories fit for use and empties the old ones. Each step may have
// been done before.
func (r *Relocation) finish(queue string, pairs []moved.Mark) error {
	if id, err := r.queueIn(pairs[0].To); err != nil || id != queue {
		return errors.Join(err, fmt.Errorf("the queue %s was moved to %s, which has another queue or none: check that its volume is mounted", queue, pairs[0].To))
	}
	for _, p := range pairs[1:] {
		if there, err := isThere(r.at(p.To)); err != nil || !there {
			return errors.Join(err, fmt.Errorf("%s was moved to %s, which does not exist: check that its volume is mounted", p.From, p.To))
		}
	}
	if mark, err := moved.Read(r.at(pairs[0].To), moved.FromFile); err != nil || mark != nil {
		if err := errors.Join(err, r.release(pairs)); err != nil {
			return err
		}
	}
	for _, p := range slices.Backward(pairs) {
		from := r.at(p.From)
		mark, err := moved.Read(from, moved.ToFile)
		if err == nil && mark != nil && mark.To == p.To && mark.Queue == queue {
			err = empty(from, moved.ToFile, state.LockFile)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// release has docket refuse the old exports, and then use the new directories. An old export
// without a mark after that is a new one.
func (r *Relocation) release(pairs []moved.Mark) error {
	for _, p := range pairs[1:] {
		there, err := isThere(r.at(p.From))
		if err == nil && there {
			err = moved.Write(r.at(p.From), moved.ToFile, p)
		}
		if err != nil {
			return err
		}
	}
	for _, p := range slices.Backward(pairs) { // the queue last: docket uses nothing without it
		mark, err := moved.Read(r.at(p.To), moved.FromFile)
		if err == nil && mark != nil && mark.From == p.From && mark.Queue == p.Queue {
			err = moved.Remove(r.at(p.To), moved.FromFile)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isThere reports whether a directory exists.
func isThere(dir disk.Path) (bool, error) {
	_, err := dir.List()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// tree is what lies in a directory and is to be copied.
type tree struct {
	root  disk.Path
	apart []string // directories that are copied on their own
	dirs  []string // below root, each after the one that it lies in
	files []string
	bytes int64
}

// look lists the files below root, but for those that mean nothing elsewhere, and for exports
// that lie in this one.
func (r *Relocation) look(root disk.Path) (*tree, error) {
	t := &tree{root: root}
	for _, p := range r.Pairs {
		t.apart = append(t.apart, p.From)
	}
	return t, t.add("")
}

func (t *tree) add(below string) error {
	at := t.root.Join(below)
	files, err := at.List()
	if err != nil {
		return err
	}
	for _, name := range files {
		if below == "" && (name == state.LockFile || strings.HasPrefix(name, state.SparePrefix)) {
			continue
		}
		size, err := at.Join(name).Size()
		if err != nil {
			return err
		}
		t.files, t.bytes = append(t.files, filepath.Join(below, name)), t.bytes+size
	}
	dirs, err := at.Dirs()
	if err != nil {
		return err
	}
	for _, name := range dirs {
		if below == "" && name == "lost+found" {
			continue // of the file system, and not ours to read
		}
		if slices.Contains(t.apart, at.Join(name).String()) {
			continue
		}
		t.dirs = append(t.dirs, filepath.Join(below, name))
		if err := t.add(filepath.Join(below, name)); err != nil {
			return err
		}
	}
	return nil
}

// copyTree makes a durable copy of t in the directory to, which has nothing but a mark.
func (r *Relocation) copyTree(t *tree, to disk.Path) error {
	for _, dir := range t.dirs {
		if err := to.Join(dir).Mkdir(); err != nil {
			return err
		}
	}
	for _, file := range t.files {
		if err := r.copyFile(t.root.Join(file), to.Join(file)); err != nil {
			return fmt.Errorf("copy %s: %w", t.root.Join(file), err)
		}
	}
	for _, dir := range append([]string{""}, t.dirs...) {
		err := r.keep(t.root.Join(dir), to.Join(dir))
		if err == nil {
			err = to.Join(dir).SyncDir()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Relocation) keep(from, to disk.Path) error {
	if r.Keep == nil {
		return nil
	}
	return r.Keep(from, to)
}

// copyFile makes a copy whose content is durable, and whose name is once its directory was synced.
func (r *Relocation) copyFile(from, to disk.Path) error {
	in, err := from.OpenRead()
	if err != nil {
		return err
	}
	defer in.Close() // nothing was written to it
	out, err := to.Create()
	if err != nil {
		return err
	}
	if err = fill(out, in); err == nil {
		err = r.keep(from, to)
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// copyBytes is how much is read at a time.
const copyBytes = 1 << 20

// fill copies in to out, with the blocks that in has beyond what was written to it: docket
// counts on them on a full disk.
func fill(out, in disk.File) error {
	size, err := in.Size()
	if err != nil || size == 0 {
		return err
	}
	if err := out.Allocate(size); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if err := out.Truncate(size); err != nil {
		return err
	}
	buffer := make([]byte, min(size, copyBytes))
	for at := int64(0); at < size; {
		from, to, err := in.Data(at)
		if err != nil {
			return err
		}
		for from < min(to, size) {
			n, err := in.ReadAt(buffer[:min(int64(len(buffer)), min(to, size)-from)], from)
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if n == 0 {
				return io.ErrUnexpectedEOF
			}
			if _, err := out.WriteAt(buffer[:n], from); err != nil {
				return err
			}
			from += int64(n)
		}
		at = max(from, to)
	}
	return nil
}

// empty removes all files and directories in dir, but for those to keep. It is durable.
func empty(dir disk.Path, keep ...string) error {
	files, err := dir.List()
	if err != nil {
		return err
	}
	for _, name := range files {
		if slices.Contains(keep, name) {
			continue
		}
		if err := dir.Join(name).Remove(); err != nil {
			return err
		}
	}
	dirs, err := dir.Dirs()
	if err != nil {
		return err
	}
	for _, name := range dirs {
		if name == "lost+found" {
			continue
		}
		if err := empty(dir.Join(name)); err != nil {
			return err
		}
		if err := dir.Join(name).RemoveDir(); err != nil {
			return err
		}
	}
	return dir.SyncDir()
}
