package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/webhook/engine/cluster/internal/apitest"
)

var (
	things = schema.GroupVersionResource{Group: "test", Version: "v1", Resource: "things"}
	others = schema.GroupVersionResource{Group: "test", Version: "v1", Resource: "others"}
	thing  = schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "Thing"}
	other  = schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "Other"}
)

func start(t *testing.T) (*apitest.Server, *Manager) {
	api := apitest.New(t)
	client, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	resource := func(_ context.Context, gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
		return gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"), nil
	}
	m := New(client, resource, slog.New(slog.DiscardHandler))
	t.Cleanup(m.Close)
	return api, m
}

func object(name string, value int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"value": int64(value)},
	}}
}

func value(o *unstructured.Unstructured) int {
	v, _, _ := unstructured.NestedInt64(o.Object, "spec", "value")
	return int(v)
}

func next(t *testing.T, r *Registrar) Event {
	t.Helper()
	select {
	case e := <-r.Events():
		return e
	case <-time.After(await.Left(t)):
		t.Fatal("no event")
		panic("unreachable")
	}
}

func text(e Event) string {
	switch e.Type {
	case Synced:
		return "synced " + e.Kind.Kind
	case Delete:
		return fmt.Sprintf("delete %s %d", e.Object.GetName(), value(e.Object))
	}
	return fmt.Sprintf("put %s %d", e.Object.GetName(), value(e.Object))
}

func expect(t *testing.T, r *Registrar, want ...string) {
	t.Helper()
	for _, want := range want {
		if got := text(next(t, r)); got != want {
			t.Fatalf("got event %q, want %q", got, want)
		}
	}
}

// expectSet expects events in any order.
func expectSet(t *testing.T, r *Registrar, want ...string) {
	t.Helper()
	var got []string
	for range want {
		got = append(got, text(next(t, r)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("got events %q, want %q", got, want)
	}
}

func awaitWatches(t *testing.T, api *apitest.Server, gvr schema.GroupVersionResource, want int) {
	t.Helper()
	for end := time.Now().Add(await.Left(t)); api.Watches(gvr) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d watches of %s, want %d", api.Watches(gvr), gvr.Resource, want)
		}
	}
}

func TestUnionOfIntents(t *testing.T) {
	api, m := start(t)
	api.Have(things, "Thing")
	api.Have(others, "Other")
	api.Put(things, object("a", 1))
	one, two := m.Registrar(), m.Registrar()
	one.Add(thing)
	expect(t, one, "put a 1", "synced Thing")
	two.Replace([]schema.GroupVersionKind{thing, other})
	// The objects of a watched kind come from the cache.
	expectSet(t, two, "put a 1", "synced Thing", "synced Other")
	awaitWatches(t, api, things, 1)
	one.Remove(thing)
	awaitWatches(t, api, things, 1)
	api.Put(things, object("a", 2))
	expect(t, two, "put a 2")
	two.Replace([]schema.GroupVersionKind{other})
	awaitWatches(t, api, things, 0)
	awaitWatches(t, api, others, 1)
	// From anew: nothing of before.
	api.Put(things, object("b", 1))
	two.Add(thing)
	expectSet(t, two, "put a 2", "put b 1")
	expect(t, two, "synced Thing")
}

func TestAbsentKind(t *testing.T) {
	api, m := start(t)
	api.Have(others, "Other")
	r := m.Registrar()
	r.Add(thing)
	expect(t, r, "synced Thing") // it has no objects, and nothing waits for it
	if _, err := m.Err(thing); !apierrors.IsNotFound(err) {
		t.Fatalf("Err is %v, want that it is not found", err)
	}
	r.Add(other)
	expect(t, r, "synced Other")
	api.Have(things, "Thing")
	api.Put(things, object("a", 1))
	expect(t, r, "put a 1")
	if _, err := m.Err(thing); err != nil {
		t.Fatalf("Err is %v, want none", err)
	}
	// What goes with its kind is told as deleted, also when nobody said so.
	api.Lose(things)
	expect(t, r, "delete a 1")
	api.Have(things, "Thing")
	api.Put(things, object("a", 2))
	expect(t, r, "put a 2")
}

// TestAbsentKindIsAskedForOnce goes through attempts as a reflector makes them, with and
// without a watch that has all that there is sent first.
func TestAbsentKindIsAskedForOnce(t *testing.T) {
	api, m := start(t)
	k := m.newKind(thing)
	defer k.cancel()
	all := true
	for attempt := range 3 {
		if _, err := k.watch(t.Context(), metav1.ListOptions{SendInitialEvents: &all}); !apierrors.IsNotFound(err) {
			t.Fatalf("watch: %v, want that it is not found", err)
		}
		listNothing(t, k)
		if got := api.Requests(); got["watch things"] != 1 || len(got) != 1 {
			t.Errorf("attempt %d sends %v, want one request", attempt, got)
		}
	}
	for attempt := range 3 {
		listNothing(t, k)
		if got := api.Requests(); got["list things"] != 1 || len(got) != 1 {
			t.Errorf("attempt %d without a list that is watched sends %v, want one request", attempt, got)
		}
	}
}

func listNothing(t *testing.T, k *kind) {
	t.Helper()
	list, err := k.list(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.(*unstructured.UnstructuredList).Items) != 0 {
		t.Errorf("list: %v, %v, want nothing", list, err)
	}
	if _, err := k.watch(t.Context(), metav1.ListOptions{}); !errors.Is(err, errAbsent) {
		t.Errorf("watch: %v, want %v", err, errAbsent)
	}
}

func TestRecreatedWhileAway(t *testing.T) {
	api, m := start(t)
	api.Have(things, "Thing")
	first := api.Put(things, object("a", 1))
	api.Put(things, object("b", 1))
	r := m.Registrar()
	r.Add(thing)
	expectSet(t, r, "put a 1", "put b 1")
	expect(t, r, "synced Thing")
	api.Down()
	api.Delete(things, "", "a")
	api.Delete(things, "", "b")
	second := api.Put(things, object("a", 2))
	api.Up()
	seen := map[string]Event{}
	var order []string
	for range 3 {
		e := next(t, r)
		seen[text(e)] = e
		order = append(order, text(e))
	}
	gone, there := seen["delete a 1"], seen["put a 2"]
	if gone.Object == nil || there.Object == nil || seen["delete b 1"].Object == nil {
		t.Fatalf("got %v", order)
	}
	if gone.Object.GetUID() != first.GetUID() || there.Object.GetUID() != second.GetUID() || there.Old != nil {
		t.Errorf("two objects of one name are told as one: %v", order)
	}
	if strings.Index(strings.Join(order, ","), "delete a") > strings.Index(strings.Join(order, ","), "put a") {
		t.Errorf("got %v: the old one must go first", order)
	}
}

func TestStrip(t *testing.T) {
	api, m := start(t)
	api.Have(things, "Thing")
	o := object("a", 1)
	o.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "x", "kept": "y"})
	unstructured.SetNestedSlice(o.Object, []any{map[string]any{"manager": "m"}}, "metadata", "managedFields")
	api.Put(things, o)
	r := m.Registrar()
	r.Add(thing)
	got := next(t, r).Object
	if a := got.GetAnnotations(); len(a) != 1 || a["kept"] != "y" || got.GetManagedFields() != nil {
		t.Errorf("kept in memory: %v", got.Object["metadata"])
	}
}

// TestOrder has registrars come and go while objects change and connections break. What a
// registrar has heard of each object must go up, without an update of what it was not told
// or a deletion that does not follow; and in the end it knows what there is.
func TestOrder(t *testing.T) {
	api, m := start(t)
	api.Have(things, "Thing")
	stop := make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	for n := range 3 {
		r := m.Registrar()
		group.Go(func() { listen(t, n, r, stop) })
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range 2000 {
		name := fmt.Sprint("o", random.IntN(4))
		switch random.IntN(10) {
		case 0:
			api.Delete(things, "", name)
		case 1:
			if random.IntN(40) == 0 {
				api.Down()
				api.Up()
			}
		default:
			api.Put(things, object(name, n))
		}
	}
	for n := range 4 {
		api.Put(things, object(fmt.Sprint("o", n), 1_000_000))
	}
	close(stop)
}

// listen checks what r hears until it knows the last value of each object.
func listen(t *testing.T, n int, r *Registrar, stop chan struct{}) {
	seen := map[string]int{}
	r.Add(thing)
	random := rand.New(rand.NewPCG(uint64(n), 0))
	stopped := false
	for deadline := time.After(await.Left(t)); ; {
		final := 0
		for _, v := range seen {
			if v == 1_000_000 {
				final++
			}
		}
		if final == 4 {
			return
		}
		select {
		case <-deadline:
			t.Errorf("registrar %d ends with %v", n, seen)
			return
		case <-stop:
			stopped, stop = true, nil
		case e := <-r.Events():
			if e.Type == Synced {
				continue
			}
			name := e.Object.GetName()
			last, known := seen[name]
			switch {
			case e.Type == Delete && !known:
				t.Errorf("registrar %d: %s of what was not told", n, text(e))
			case e.Type == Delete:
				delete(seen, name)
				continue
			case known && value(e.Object) < last:
				t.Errorf("registrar %d: %s after %d", n, text(e), last)
			case e.Old != nil && (!known || value(e.Old) != last):
				t.Errorf("registrar %d: %s replaces %d, which was not told; known: %d", n, text(e), value(e.Old), last)
			}
			seen[name] = value(e.Object)
			if stopped || random.IntN(50) != 0 {
				continue
			}
			r.Remove(thing)
			clear(seen)
			r.Add(thing)
		}
	}
}

// TestRemoveEndsEvents: an informer may still have events for an intent that has ended. They
// would be told after those of the next intent.
func TestRemoveEndsEvents(t *testing.T) {
	_, m := start(t)
	r := m.Registrar()
	var group sync.WaitGroup
	stop := make(chan struct{})
	group.Go(func() {
		select {
		case e := <-r.Events():
			t.Errorf("%s after the end", text(e))
		case <-stop:
		}
	})
	for range 1000 {
		i := &intent{registrar: r, kind: &kind{gvk: thing}, done: make(chan struct{})}
		i.end()
		i.OnAdd(object("a", 1), false)
	}
	close(stop)
	group.Wait()
}

// TestRemoveUnblocks: whoever handles an event can end the intent while the next waits.
func TestRemoveUnblocks(t *testing.T) {
	api, m := start(t)
	api.Have(things, "Thing")
	for n := range 100 {
		api.Put(things, object(fmt.Sprint("o", n), 1))
	}
	r := m.Registrar()
	for range 10 {
		r.Add(thing)
		next(t, r)
		r.Remove(thing)
	}
	r.Add(thing)
	for range 100 {
		if e := next(t, r); e.Type != Put {
			t.Fatalf("%s, want 100 objects first", text(e))
		}
	}
	expect(t, r, "synced Thing")
}

func TestOutageIsLoggedOnce(t *testing.T) {
	_, m := start(t)
	var log strings.Builder
	m.log = slog.New(slog.NewTextHandler(&log, nil))
	k := m.newKind(thing)
	defer k.cancel()
	refused := errors.New("connection refused")
	for _, err := range []error{
		&url.Error{Op: "Get", URL: "https://api/things?timeoutSeconds=1", Err: refused},
		&url.Error{Op: "Get", URL: "https://api/things?timeoutSeconds=2", Err: refused},
		errors.New("forbidden"), errors.New("forbidden"), nil, nil,
	} {
		k.note(err)
	}
	if got := strings.Count(log.String(), "\n"); got != 3 || strings.Contains(log.String(), "timeoutSeconds") {
		t.Errorf("logged are %d lines, want one for each failure and one for its end:\n%s", got, log.String())
	}
}

func TestCloseWithoutListeners(t *testing.T) {
	api, m := start(t)
	api.Have(things, "Thing")
	for n := range 100 {
		api.Put(things, object(fmt.Sprint("o", n), 1))
	}
	r := m.Registrar()
	r.Add(thing)
	next(t, r)
	m.Close()
	select {
	case e := <-r.Events():
		t.Errorf("%s after Close", text(e))
	default:
	}
}
