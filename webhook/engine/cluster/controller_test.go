package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/docket-export/docket/client/clienttest/await"
)

var (
	things = schema.GroupVersionResource{Group: "test", Version: "v1", Resource: "things"}
	thing  = schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "Thing"}
)

// watching is a controller whose events the test takes.
func watching(t *testing.T) (*apiServer, *controller) {
	api := newAPI(t)
	client, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{
		client: client, absent: func(schema.GroupVersionKind) {}, log: slog.New(slog.DiscardHandler),
		events: make(chan event), kinds: map[schema.GroupVersionKind]*kind{},
		resource: func(context.Context, schema.GroupVersionKind) (schema.GroupVersionResource, error) {
			return things, nil
		},
	}
	t.Cleanup(c.close)
	return api, c
}

func object(name string, value int) *unstructured.Unstructured {
	return named("", name, map[string]any{"value": int64(value)})
}

func value(o *unstructured.Unstructured) int {
	v, _, _ := unstructured.NestedInt64(o.Object, "spec", "value")
	return int(v)
}

func next(t *testing.T, c *controller) event {
	t.Helper()
	select {
	case e := <-c.events:
		return e
	case <-time.After(await.Left(t)):
		t.Fatal("no event")
		panic("unreachable")
	}
}

func text(e event) string {
	switch e.change {
	case synced:
		return "synced " + e.kind.gvk.Kind
	case deleted:
		return fmt.Sprintf("delete %s %d", e.object.GetName(), value(e.object))
	}
	return fmt.Sprintf("put %s %d", e.object.GetName(), value(e.object))
}

// expect expects events, in any order.
func expect(t *testing.T, c *controller, want ...string) {
	t.Helper()
	var got []string
	for range want {
		got = append(got, text(next(t, c)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("got events %q, want %q", got, want)
	}
}

func TestAbsentKind(t *testing.T) {
	api, c := watching(t)
	c.add(thing)
	expect(t, c, "synced Thing") // it has no objects, and nothing waits for it
	if _, err := c.err(thing); !apierrors.IsNotFound(err) {
		t.Fatalf("got %v, want that it is not found", err)
	}
	api.Have(things, "Thing")
	api.Put(things, object("a", 1))
	expect(t, c, "put a 1")
	if _, err := c.err(thing); err != nil {
		t.Fatalf("got %v, want none", err)
	}
	// What goes with its kind is told as deleted, also when nobody said so.
	api.Lose(things)
	expect(t, c, "delete a 1")
	api.Have(things, "Thing")
	api.Put(things, object("a", 2))
	expect(t, c, "put a 2")
}

// TestAbsentKindIsAskedForOnce goes through attempts as a reflector makes them, with and
// without a watch that has all that there is sent first.
func TestAbsentKindIsAskedForOnce(t *testing.T) {
	api, c := watching(t)
	k := c.newKind(thing)
	defer k.cancel()
	all := true
	for _, verb := range []string{"watch", "list"} {
		for attempt := range 3 {
			if verb == "watch" {
				if _, err := k.watch(t.Context(), metav1.ListOptions{SendInitialEvents: &all}); !apierrors.IsNotFound(err) {
					t.Fatalf("watch: %v, want that it is not found", err)
				}
			}
			list, err := k.list(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.(*unstructured.UnstructuredList).Items) != 0 {
				t.Errorf("list: %v, %v, want nothing", list, err)
			}
			if _, err := k.watch(t.Context(), metav1.ListOptions{}); !errors.Is(err, errAbsent) {
				t.Errorf("watch: %v, want %v", err, errAbsent)
			}
			if got := api.Requests(); got[verb+" things"] != 1 || len(got) != 1 {
				t.Errorf("attempt %d sends %v, want one request to %s", attempt, got, verb)
			}
		}
	}
}

func TestRecreatedWhileAway(t *testing.T) {
	api, c := watching(t)
	api.Have(things, "Thing")
	first := api.Put(things, object("a", 1))
	api.Put(things, object("b", 1))
	c.add(thing)
	expect(t, c, "put a 1", "put b 1", "synced Thing")
	api.Down()
	api.Delete(things, "", "a")
	api.Delete(things, "", "b")
	second := api.Put(things, object("a", 2))
	api.Up()
	seen := map[string]event{}
	var order []string
	for range 3 {
		e := next(t, c)
		seen[text(e)] = e
		order = append(order, text(e))
	}
	gone, there := seen["delete a 1"], seen["put a 2"]
	if gone.object == nil || there.object == nil || seen["delete b 1"].object == nil {
		t.Fatalf("got %v", order)
	}
	if gone.object.GetUID() != first.GetUID() || there.object.GetUID() != second.GetUID() || there.old != nil {
		t.Errorf("two objects of one name are told as one: %v", order)
	}
	if slices.Index(order, "delete a 1") > slices.Index(order, "put a 2") {
		t.Errorf("got %v: the old one must go first", order)
	}
}

// TestOrder has a kind watched and not watched while its objects change and connections break. What a controller
// hears of each object goes up, without an update of what it was not told or a deletion that does not follow; and in the
// end it knows what there is.
func TestOrder(t *testing.T) {
	api, c := watching(t)
	api.Have(things, "Thing")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	changes := make(chan struct{})
	go func() {
		defer close(changes)
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
	}()
	seen, random, stop := map[string]int{}, rand.New(rand.NewPCG(seed, 1)), changes
	c.add(thing)
	for final := 0; final < 4; {
		select {
		case <-time.After(await.Left(t)):
			t.Fatalf("ends with %v", seen)
		case <-stop:
			stop = nil
		case e := <-c.events:
			if e.change == synced {
				continue
			}
			name := e.object.GetName()
			last, known := seen[name]
			switch {
			case e.change == deleted && !known:
				t.Errorf("%s of what was not told", text(e))
			case e.change == deleted:
				delete(seen, name)
				continue
			case known && value(e.object) < last:
				t.Errorf("%s after %d", text(e), last)
			case e.old != nil && (!known || value(e.old) != last):
				t.Errorf("%s replaces %d, which was not told; known: %d", text(e), value(e.old), last)
			}
			seen[name] = value(e.object)
			if stop != nil && random.IntN(50) == 0 {
				c.remove(thing)
				clear(seen)
				c.add(thing)
			}
		}
		final = strings.Count(fmt.Sprint(seen), "1000000")
	}
	<-changes
}

// Whoever handles an event can end the watch while the next waits, and an informer may still have events then: they would be
// told after those of the next watch.
func TestRemove(t *testing.T) {
	api, c := watching(t)
	api.Have(things, "Thing")
	for n := range 100 {
		api.Put(things, object(fmt.Sprint("o", n), 1))
	}
	for range 10 {
		c.add(thing)
		k := next(t, c).kind
		c.remove(thing)
		k.OnAdd(object("late", 1), false)
	}
	c.add(thing)
	for range 100 {
		if e := next(t, c); e.change != changed || e.object.GetName() == "late" {
			t.Fatalf("%s, want 100 objects first", text(e))
		}
	}
	expect(t, c, "synced Thing")
}
