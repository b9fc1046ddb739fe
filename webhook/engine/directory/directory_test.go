package directory

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/webhook/engine/policy"
)

// recorder writes down what it is given, and keeps valid revisions as a policy.Set does.
type recorder struct {
	cache *Cache

	mu      sync.Mutex
	steps   []string
	changed chan struct{} // has room for one
}

func newRecorder(cache *Cache) *recorder {
	return &recorder{cache: cache, changed: make(chan struct{}, 1)}
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, fmt.Sprintf(format, args...))
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// took returns the steps since the last call.
func (r *recorder) took() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := r.steps
	r.steps = nil
	return steps
}

// Put finds a policy valid unless it says that it is broken.
func (r *recorder) Put(ctx context.Context, o *unstructured.Unstructured) {
	r.note("put %s %s %d", o.GetKind(), o.GetName(), o.GetGeneration())
	if _, broken, _ := unstructured.NestedBool(o.Object, "spec", "broken"); !broken && r.cache != nil {
		if err := r.cache.Keep(ctx, o); err != nil {
			r.note("keep: %v", err)
		}
	}
}

func (r *recorder) Delete(o *unstructured.Unstructured) {
	r.note("delete %s %s", o.GetKind(), o.GetName())
}

func (r *recorder) Sync(kinds []schema.GroupVersionKind) {
	for _, k := range kinds {
		r.note("sync %s", k.Kind)
	}
}

func (r *recorder) PutData(_ context.Context, o *unstructured.Unstructured) error {
	r.note("data %s %s", o.GetKind(), o.GetName())
	return nil
}

func (r *recorder) DeleteData(_ context.Context, o *unstructured.Unstructured) error {
	r.note("no data %s %s", o.GetKind(), o.GetName())
	return nil
}

// template is one as far as this package looks at it.
func template(name, spec string) string {
	return "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n"
}

func constraint(kind, name string) string {
	return "---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: " + kind + "\nmetadata: {name: " + name + "}\n"
}

// bench is a directory of policies, and what is made of it.
type bench struct {
	*testing.T
	dir string
	log bytes.Buffer
	*recorder
	*Directory
}

func newBench(t *testing.T, cache *Cache) *bench {
	b := &bench{T: t, dir: t.TempDir()}
	b.start(cache)
	return b
}

// start begins as a new process does.
func (b *bench) start(cache *Cache) {
	b.recorder = newRecorder(cache)
	b.Directory = New(Config{Paths: []string{b.dir}, Policies: b.recorder, Cache: cache, Log: slog.New(slog.NewTextHandler(&b.log, nil))})
}

func (b *bench) write(name, text string) {
	b.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) remove(name string) {
	b.Helper()
	if err := os.Remove(filepath.Join(b.dir, name)); err != nil {
		b.Fatal(err)
	}
}

// expect loads, and compares what Policies were given and which problems there are.
func (b *bench) expect(problems []string, steps ...string) {
	b.Helper()
	b.Load(context.Background())
	if got := b.took(); !slices.Equal(got, steps) {
		b.Errorf("got the steps %q, want %q", got, steps)
	}
	var got []string
	for _, p := range b.Problems() {
		got = append(got, strings.TrimPrefix(p.String(), b.dir+"/"))
	}
	if !slices.Equal(got, problems) {
		b.Errorf("got the problems %q, want %q", got, problems)
	}
}

func openCache(t *testing.T) *Cache {
	t.Helper()
	c, err := OpenCache(filepath.Join(t.TempDir(), "cache"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChanges(t *testing.T) {
	b := newBench(t, nil)
	b.expect(nil)
	b.write("b.yaml", constraint("A", "x")+constraint("A", "z"))
	b.write("sub/a.yml", template("a", ""))
	b.write(".hidden.yaml", template("hidden", ""))
	b.write(".hidden/a.yaml", template("hidden", ""))
	b.write("README.md", "# text")
	b.write("kustomization.yaml", "resources: [b.yaml]")
	b.write("sub/kustomization.yml", "resources: [a.yml]")
	b.expect(nil, "put ConstraintTemplate a 1", "put A x 1", "put A z 1")
	b.write("sub/a.yml", "# another comment\n"+template("a", ""))
	b.expect(nil)
	b.write("sub/a.yml", template("a", "x: 1"))
	b.write("b.yaml", constraint("A", "x"))
	b.expect(nil, "put ConstraintTemplate a 2", "delete A z")
	if file, line := b.Place(policy.ID{Kind: "A", Name: "x"}); file != filepath.Join(b.dir, "b.yaml") || line != 2 {
		t.Errorf("got %s:%d, want b.yaml:2", file, line)
	}
	b.remove("sub/a.yml")
	b.write("c.json", `{"apiVersion":"templates.gatekeeper.sh/v1","kind":"ConstraintTemplate","metadata":{"name":"a","uid":"7","generation":70},"spec":{"x":1}}`)
	b.expect(nil)
	b.remove("c.json")
	b.remove("b.yaml")
	b.expect(nil, "delete A x", "delete ConstraintTemplate a")
}

func TestMistakes(t *testing.T) {
	b := newBench(t, nil)
	b.write("a.yaml", template("a", ""))
	b.write("b.yaml", template("b", ""))
	b.expect(nil, "put ConstraintTemplate a 1", "put ConstraintTemplate b 1")
	b.write("a.yaml", template("a", "x: 1")+"---\n  x: [\n")
	b.write("b.yaml", template("b", "x: 1"))
	b.write("c.yaml", template("a", "x: 2")+constraint("A", "x"))
	mistake := []string{"a.yaml:6: did not find expected node content"}
	twice := "c.yaml:1: ConstraintTemplate a counts as it is in " + b.dir + "/a.yaml:1"
	b.expect(append(mistake, twice), "put ConstraintTemplate b 2", "put A x 1")
	b.remove("c.yaml")
	b.expect(mistake, "delete A x")
	b.write("a.yaml", template("a", "x: 1"))
	b.expect(nil, "put ConstraintTemplate a 2")
	for line, want := range map[string]int{"mistake in a file": 2, "line=6": 1, "no mistake any more": 2} {
		if got := strings.Count(b.log.String(), line); got != want {
			t.Errorf("got %d lines of log with %q, want %d:\n%s", got, line, want, &b.log)
		}
	}
	if err := os.RemoveAll(b.dir); err != nil {
		t.Fatal(err)
	}
	b.Load(context.Background())
	if got, problems := b.took(), b.Problems(); len(got) > 0 || len(problems) != 1 || problems[0].String() != b.dir+": no such file or directory" {
		t.Errorf("without the directory: got %q and the problems %v, want one problem", got, problems)
	}
}

func TestData(t *testing.T) {
	pod := func(space, name string) string {
		return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: " + space + "}\n"
	}
	b := newBench(t, nil)
	b.write("data.yaml", pod("default", "p")+pod("builds", "p")+"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {team: x}}\n")
	b.write("policies.yaml", template("a", ""))
	b.expect(nil, "put ConstraintTemplate a 1")
	b.write("jobs.yaml", strings.Repeat("---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: j-}\n", 2))
	b.expect([]string{"jobs.yaml:2: Pod j- has no metadata.name", "jobs.yaml:6: Pod j- has no metadata.name"})
	b.remove("jobs.yaml")
	b.expect(nil)
	b.write("config.yaml", "apiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\nmetadata: {name: config}\nspec:\n  sync: {syncOnly: [{version: v1, kind: Pod}]}\n  match: [{processes: [sync], excludedNamespaces: [builds]}]\n")
	b.expect(nil, "sync Pod", "data Pod p")
	b.write("syncset.yaml", "apiVersion: syncset.gatekeeper.sh/v1alpha1\nkind: SyncSet\nmetadata: {name: s}\nspec: {gvks: [{version: v1, kind: Namespace}]}\n")
	b.expect(nil, "sync Namespace", "sync Pod", "data Namespace default")
	b.write("syncset.yaml", "apiVersion: syncset.gatekeeper.sh/v1alpha1\nkind: SyncSet\nmetadata: {name: s}\nspec: {gvks: 7}\n")
	b.Load(context.Background())
	if got, problems := b.took(), b.Problems(); !slices.Equal(got, []string{"sync Pod", "no data Namespace default"}) || len(problems) != 1 || problems[0].Line != 1 {
		t.Errorf("got the steps %q and the problems %v, want the Namespace gone and a problem", got, problems)
	}
	for name, want := range map[string]map[string]string{
		"default": {"team": "x", "kubernetes.io/metadata.name": "default"},
		"other":   {"kubernetes.io/metadata.name": "other"},
	} {
		if got, err := b.Namespace(context.Background(), name); err != nil || !maps.Equal(got.Labels, want) || got.Name != name {
			t.Errorf("namespace %s: got %v and %v, want the labels %v", name, got, err, want)
		}
	}
}

// A restart with a file that has a mistake, and a policy that is not valid any more: what was
// valid is known. What was deleted is forgotten.
func TestRestart(t *testing.T) {
	cache := openCache(t)
	b := newBench(t, cache)
	b.write("a.yaml", template("a", ""))
	b.write("b.yaml", template("b", "")+constraint("B", "x"))
	b.expect(nil, "put ConstraintTemplate a 1", "put ConstraintTemplate b 1", "put B x 1")
	b.write("a.yaml", template("a", "x: 1"))
	b.expect(nil, "put ConstraintTemplate a 2")

	b.write("a.yaml", template("a", "broken: true"))
	b.write("b.yaml", "}")
	b.start(cache)
	b.expect([]string{"b.yaml:1: yaml: did not find expected node content"}, "put ConstraintTemplate a 3", "put ConstraintTemplate b 1", "put B x 1")
	last, err := cache.Last(context.Background(), policy.ID{Kind: "ConstraintTemplate", Name: "a"}, "")
	if err != nil || last.GetGeneration() != 2 {
		t.Errorf("got %v and %v, want the last valid revision, 2", last, err)
	}

	foreign := filepath.Join(cache.dir, "somebody-elses")
	for _, path := range []string{foreign, filepath.Join(cache.dir, newPrefix+"killed")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if cache, err = OpenCache(cache.dir); err != nil {
		t.Fatal(err)
	}
	b.remove("b.yaml")
	b.start(cache)
	b.expect(nil, "put ConstraintTemplate a 3")
	for _, id := range []policy.ID{{Kind: "ConstraintTemplate", Name: "b"}, {Kind: "B", Name: "x"}} {
		if last, err := cache.Last(context.Background(), id, ""); last != nil || err != nil {
			t.Errorf("%v: got %v and %v, want none", id, last, err)
		}
	}
	entries, err := os.ReadDir(cache.dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("got %v and %v, want one entry of the file, one of the policy, and what is somebody else's", entries, err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}

// As long as not everything could be looked at, nothing is forgotten.
func TestUnreadable(t *testing.T) {
	cache := openCache(t)
	b := newBench(t, cache)
	b.write("sub/a.yaml", template("a", ""))
	b.expect(nil, "put ConstraintTemplate a 1")
	hidden := b.dir + ".away"
	if err := os.Rename(b.dir, hidden); err != nil {
		t.Fatal(err)
	}
	b.expect([]string{b.dir + ": no such file or directory"})
	b.start(cache)
	b.expect([]string{b.dir + ": no such file or directory"})
	if err := os.Rename(hidden, b.dir); err != nil {
		t.Fatal(err)
	}
	b.write("sub/a.yaml", template("a", "broken: true"))
	b.expect(nil, "put ConstraintTemplate a 2")
}

// An entry that was damaged is said to be, and whatever its policy is called, it is in the
// cache.
func TestCacheEntries(t *testing.T) {
	c := openCache(t)
	for _, name := range []string{"../../x", strings.Repeat("long", 60), "%2F"} {
		o := &unstructured.Unstructured{Object: map[string]any{"kind": "A", "apiVersion": "v1", "metadata": map[string]any{"name": name}}}
		if err := c.Keep(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		got, err := c.Last(t.Context(), policy.ID{Kind: "A", Name: name}, "")
		if err != nil || got.GetName() != name {
			t.Errorf("got %v and %v, want %s", got, err, name)
		}
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("got %v and %v, want three entries", entries, err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, policyEntry("A", "%2F")), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Last(t.Context(), policy.ID{Kind: "A", Name: "%2F"}, ""); err == nil || !strings.HasSuffix(err.Error(), ": remove it") {
		t.Errorf("got %v and %v, want an error that says what to do", got, err)
	}
}

// await waits until Policies took a step.
func (b *bench) await(step string) {
	b.Helper()
	for deadline := time.After(await.Left(b)); ; {
		select {
		case <-b.changed:
			if slices.Contains(b.took(), step) {
				return
			}
		case <-deadline:
			b.Fatalf("%s was awaited for two minutes", step)
		}
	}
}

func (b *bench) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Directory.Run(ctx)
	}()
	b.Cleanup(func() { cancel(); <-ended })
}

func TestWatch(t *testing.T) {
	b := newBench(t, nil)
	b.write("a.yaml", template("a", ""))
	b.run()
	b.await("put ConstraintTemplate a 1")
	b.write("a.yaml", template("a", "x: 1"))
	b.await("put ConstraintTemplate a 2")
	b.write("new/below/b.yaml", template("b", ""))
	b.await("put ConstraintTemplate b 1")
	b.write("new/below/b.yaml", template("b", "x: 1"))
	b.await("put ConstraintTemplate b 2")
	if err := os.RemoveAll(filepath.Join(b.dir, "new")); err != nil {
		t.Fatal(err)
	}
	b.await("delete ConstraintTemplate b")
}

// Kubernetes mounts a ConfigMap as links to what is behind one link, which it replaces.
func TestWatchConfigMap(t *testing.T) {
	b := newBench(t, nil)
	b.write("..1/a.yaml", template("a", ""))
	for link, to := range map[string]string{"..data": "..1", "a.yaml": "..data/a.yaml"} {
		if err := os.Symlink(to, filepath.Join(b.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	b.run()
	b.await("put ConstraintTemplate a 1")
	b.write("..2/a.yaml", template("a", "x: 1"))
	if err := os.Symlink("..2", filepath.Join(b.dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(b.dir, "..data_tmp"), filepath.Join(b.dir, "..data")); err != nil {
		t.Fatal(err)
	}
	b.await("put ConstraintTemplate a 2")
}
