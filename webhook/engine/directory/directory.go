// Package directory takes policies, their settings and their data from YAML and JSON files,
// and watches the files.
//
//	parse.go       a file: its objects, or its first mistake and where that is
//	directory.go   what the files say together, and what of it is new
//	namespaces.go  their namespaces
//	watch.go       when to look again
//	cache.go       what was valid last, for a restart with a broken file
//
// A file with a mistake counts as it was before, whatever else has changed. A file that is
// removed takes its objects with it; a directory that cannot be read does not. kustomization.yaml
// is left out, and everything hidden, as the directories are in which Kubernetes keeps the files
// of a mounted ConfigMap. A file that is written in place may be read half-written: put a new one
// in its place by renaming it.
//
// The generation of a policy counts its changes. After a restart it goes on from the last
// valid revision.
package directory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/docket-export/docket/webhook/engine/policy"
	"github.com/docket-export/docket/webhook/engine/settings"
)

// Bounds of what is read, beside maxFileBytes. They are far above what people write, and
// bound the memory if the directory is not the one that was meant.
const (
	maxFiles = 10_000
	maxBytes = 256 << 20
)

// Policies take what the files have; policy.Set does. Calls do not overlap.
type Policies interface {
	Put(ctx context.Context, policy *unstructured.Unstructured)
	Delete(policy *unstructured.Unstructured)
	Sync(kinds []schema.GroupVersionKind)
	PutData(ctx context.Context, object *unstructured.Unstructured) error
	DeleteData(ctx context.Context, object *unstructured.Unstructured) error
}

// Config is what a Directory needs.
type Config struct {
	// Paths are directories, which are read with those below, and files.
	Paths []string
	// Policies take what is found.
	Policies Policies
	// Cache is that of Policies. nil: nothing is kept.
	Cache *Cache
	// Log is told of files when their state changes.
	Log *slog.Logger
}

// Directory is what some files have.
type Directory struct {
	config Config
	found  atomic.Pointer[found]

	loading  sync.Mutex       // held by Load; guards what follows
	files    map[string]*file // by path
	applied  map[key]Object   // what Policies have; the generation of policies is ours
	complete bool             // once all files were seen: what the cache has of others is of no use
}

// file is one that was there when last looked at.
type file struct {
	sum     [sha256.Size]byte // of the newest text
	size    int
	objects []Object // of the last text without a mistake
	kept    bool     // the cache has that text
	problem *Problem // of the newest text
}

// found is what the files say.
type found struct {
	settings   settings.Settings
	namespaces Namespaces
	problems   []Problem
}

// key is what makes two objects one and the same, in whatever version they are.
type key struct {
	schema.GroupKind
	namespace, name string
}

func keyOf(o Object) key {
	return key{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
}

// New returns a Directory that has not read anything yet.
func New(c Config) *Directory {
	return &Directory{config: c, files: make(map[string]*file), applied: make(map[key]Object)}
}

// Read returns every object below paths, in the order of the files, and every problem.
func Read(paths ...string) (objects []Object, problems []Problem) {
	d := New(Config{Paths: paths, Log: slog.New(slog.DiscardHandler)})
	problems = d.scan(func(string) {})
	for _, path := range slices.Sorted(maps.Keys(d.files)) {
		objects = append(objects, d.files[path].objects...)
		if p := d.files[path].problem; p != nil {
			problems = append(problems, *p)
		}
	}
	return objects, problems
}

// Load reads the files, and gives Policies what is new.
func (d *Directory) Load(ctx context.Context) { d.load(ctx, func(string) {}) }

func (d *Directory) load(ctx context.Context, watch func(dir string)) {
	d.loading.Lock()
	defer d.loading.Unlock()
	unread := d.scan(watch)
	now := d.apply(ctx)
	now.problems = append(now.problems, unread...)
	d.complete = d.complete || len(unread) == 0
	if d.complete {
		if err := d.config.Cache.prune(d.entries()); err != nil {
			d.config.Log.Warn("revisions of policies that are gone cannot be removed", "error", err)
		}
	}
	var was []Problem
	if before := d.found.Swap(now); before != nil {
		was = before.problems
	}
	for _, p := range now.problems {
		if !slices.Contains(was, p) {
			d.config.Log.Warn("mistake in a file: what it had before stays in force", "file", p.File, "line", p.Line, "error", p.Message)
		}
	}
	for _, p := range was {
		if !slices.ContainsFunc(now.problems, func(n Problem) bool { return n.File == p.File }) {
			d.config.Log.Info("no mistake any more", "file", p.File)
		}
	}
}

// scan brings d.files up to date, and returns why some could not be looked for. It tells
// watch of each directory before it reads it.
func (d *Directory) scan(watch func(dir string)) (unread []Problem) {
	seen, bytes := make(map[string]bool), 0
	for _, root := range d.config.Paths {
		start := root
		if info, err := os.Stat(root); err == nil && info.IsDir() {
			start = filepath.Clean(root) + string(filepath.Separator) // follows a link
		}
		_ = filepath.WalkDir(start, func(path string, e fs.DirEntry, err error) error {
			inside := path != start
			switch {
			case inside && errors.Is(err, fs.ErrNotExist):
				return nil // gone meanwhile
			case err != nil:
				unread = append(unread, Problem{File: filepath.Clean(path), Message: reason(err)})
				return nil
			case inside && strings.HasPrefix(e.Name(), ".") && e.IsDir():
				return fs.SkipDir
			case e.IsDir():
				watch(path)
				return nil
			case inside && (strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "kustomization.") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))):
				return nil
			case len(seen) == maxFiles || bytes > maxBytes:
				unread = append(unread, Problem{File: filepath.Clean(root), Message: fmt.Sprintf("more than %d files or %d MiB: %s and what follows is not read", maxFiles, maxBytes>>20, path)})
				return fs.SkipAll
			}
			if f := d.look(path); f != nil {
				seen[path] = true
				bytes += f.size
			}
			return nil
		})
	}
	maps.DeleteFunc(d.files, func(path string, _ *file) bool {
		below := func(p Problem) bool { return strings.HasPrefix(path, p.File+string(filepath.Separator)) }
		return !seen[path] && !slices.ContainsFunc(unread, below)
	})
	return unread
}

// reason is err without the path.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// look reads a file if it has changed. It returns nil if the file is gone.
func (d *Directory) look(path string) *file {
	text, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f := d.files[path]
	if f == nil {
		f = new(file)
		d.files[path] = f
		if before, _ := d.config.Cache.read(fileEntry(path)); before != nil {
			f.objects, _ = parse(path, before) // counts if the file has a mistake now
		}
	}
	if err != nil {
		f.sum, f.problem = [sha256.Size]byte{}, &Problem{File: path, Message: reason(err)}
		return f
	}
	if sum := sha256.Sum256(text); sum != f.sum {
		f.sum, f.size = sum, len(text)
		var objects []Object
		if objects, f.problem = parse(path, text); f.problem == nil {
			f.objects, f.kept = objects, false
		}
	}
	if f.problem == nil && !f.kept {
		if err := d.config.Cache.write(fileEntry(path), text); err != nil {
			d.config.Log.Warn("a file cannot be kept for a restart; this is tried again", "file", path, "error", err)
		} else {
			f.kept = true
		}
	}
	return f
}

// apply gives Policies the difference between what they have and what the files say.
func (d *Directory) apply(ctx context.Context) *found {
	now := &found{namespaces: Namespaces{}}
	want := make(map[key]Object)
	var configs []*unstructured.Unstructured
	for _, path := range slices.Sorted(maps.Keys(d.files)) {
		if p := d.files[path].problem; p != nil {
			now.problems = append(now.problems, *p)
		}
		for _, o := range d.files[path].objects {
			if o.GetName() == "" { // no policy: see decode
				now.wrong(o, fmt.Errorf("%s %s has no metadata.name", o.GetKind(), o.GetGenerateName()))
				continue
			}
			if first, twice := want[keyOf(o)]; twice {
				now.wrong(o, fmt.Errorf("%s %s counts as it is in %s:%d", o.GetKind(), o.GetName(), first.File, first.Line))
				continue
			}
			want[keyOf(o)] = o
			if keyOf(o).Group == policy.ConstraintsGroup {
				now.wrong(o, policy.CheckAction(o.Unstructured))
			}
			switch keyOf(o).GroupKind {
			case settings.Config, settings.SyncSet:
				_, err := settings.Of(o.Unstructured)
				now.wrong(o, err)
				configs = append(configs, o.Unstructured)
			case schema.GroupKind{Kind: "Namespace"}:
				now.wrong(o, now.namespaces.Add(o.Unstructured))
			}
		}
	}
	now.settings, _ = settings.Of(configs...)
	maps.DeleteFunc(want, func(_ key, o Object) bool {
		data := slices.Contains(now.settings.Kinds, o.GroupVersionKind()) && !now.settings.ExcludedObject(settings.Sync, o.Unstructured)
		return !isPolicy(o.Unstructured) && !data
	})
	d.config.Policies.Sync(now.settings.Kinds)
	for _, k := range inOrder(want) {
		now.wrong(want[k], d.put(ctx, k, want[k]))
	}
	for _, k := range slices.Backward(inOrder(d.applied)) {
		o := d.applied[k]
		if _, stays := want[k]; stays {
			continue
		}
		if isPolicy(o.Unstructured) {
			d.config.Policies.Delete(o.Unstructured)
		} else if err := d.config.Policies.DeleteData(ctx, o.Unstructured); err != nil {
			now.wrong(o, fmt.Errorf("was removed, and stays: %w", err))
			continue
		}
		delete(d.applied, k)
	}
	return now
}

// put gives Policies an object if it differs from what they have.
func (d *Directory) put(ctx context.Context, k key, o Object) error {
	before, there := d.applied[k]
	if !isPolicy(o.Unstructured) {
		if there && o.Unstructured == before.Unstructured {
			return nil
		}
		if err := d.config.Policies.PutData(ctx, o.Unstructured); err != nil {
			return err
		}
		d.applied[k] = o
		return nil
	}
	o.Unstructured = o.DeepCopy() // what Policies have must not change, and another file may come to count
	o.SetUID("")                  // of a cluster that the file was taken from
	o.SetGeneration(1)
	last := before.Unstructured
	if !there && d.config.Cache != nil {
		last, _ = d.config.Cache.Last(ctx, policy.ID{Kind: k.Kind, Name: k.name}, "") // Policies find the error as well
	}
	if last != nil {
		o.SetGeneration(last.GetGeneration())
		if !equality.Semantic.DeepEqual(o.Object, last.Object) {
			o.SetGeneration(last.GetGeneration() + 1)
		}
	}
	if !there || o.GetGeneration() != before.GetGeneration() {
		d.config.Policies.Put(ctx, o.Unstructured)
	}
	d.applied[k] = o
	return nil
}

// entries are those of the cache that are of something that there is.
func (d *Directory) entries() map[string]bool {
	entries := make(map[string]bool)
	for path := range d.files {
		entries[fileEntry(path)] = true
	}
	for k := range d.applied {
		entries[policyEntry(k.Kind, k.name)] = true
	}
	return entries
}

// groups are those of policies, templates before their constraints. Policies say of some
// that they are not supported.
var groups = []string{policy.TemplatesGroup, policy.ConstraintsGroup, policy.MutationsGroup, policy.ExpansionGroup, policy.ExternalDataGroup}

func isPolicy(o *unstructured.Unstructured) bool {
	return slices.Contains(groups, o.GroupVersionKind().Group)
}

// inOrder is data before the policies that ask for it, and these in the order of groups.
func inOrder(objects map[key]Object) []key {
	return slices.SortedFunc(maps.Keys(objects), func(a, b key) int {
		return cmp.Or(cmp.Compare(slices.Index(groups, a.Group), slices.Index(groups, b.Group)),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}

// wrong notes what is wrong with an object, if anything.
func (f *found) wrong(o Object, err error) {
	if err != nil {
		f.problems = append(f.problems, Problem{o.File, o.Line, err.Error()})
	}
}

// Ready returns nil once all files were read, and Policies have what is in them.
func (d *Directory) Ready(context.Context) error {
	if d.found.Load() == nil {
		return errors.New("the files are not all read yet")
	}
	return nil
}

func (d *Directory) current() found {
	if f := d.found.Load(); f != nil {
		return *f
	}
	return found{}
}

// Settings are what the Config and SyncSet objects say.
func (d *Directory) Settings() settings.Settings { return d.current().settings }

// Problems are the mistakes that are in the files now.
func (d *Directory) Problems() []Problem { return d.current().problems }

// Place returns where a policy is, "" if it is in no file.
func (d *Directory) Place(id policy.ID) (file string, line int) {
	d.loading.Lock()
	defer d.loading.Unlock()
	for k, o := range d.applied {
		if k.Kind == id.Kind && k.name == id.Name {
			return o.File, o.Line
		}
	}
	return "", 0
}

// Namespace returns what Namespaces.Namespace does.
func (d *Directory) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return d.current().namespaces.Namespace(ctx, name)
}
