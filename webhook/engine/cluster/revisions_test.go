package cluster

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/docket-export/docket/webhook/engine/policy"
)

func revisions(t *testing.T, api *apiServer) *Revisions {
	r, err := NewRevisions(api.Config(), "docket", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// revised is a revision of a policy.
func revised(uid types.UID, generation int64, text string) *unstructured.Unstructured {
	o := newTemplate("Foo", "a", text)
	o.SetGroupVersionKind(templateKind)
	o.SetUID(uid)
	o.SetGeneration(generation)
	return o
}

func keep(t *testing.T, r *Revisions, o *unstructured.Unstructured) {
	t.Helper()
	if err := r.Keep(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func last(t *testing.T, r *Revisions, uid types.UID) string {
	t.Helper()
	o, err := r.Last(t.Context(), policy.ID{Kind: "ConstraintTemplate", Name: "foo"}, uid)
	if err != nil {
		t.Fatal(err)
	}
	if o == nil {
		return "none"
	}
	text, _, _ := unstructured.NestedString(o.Object, "spec", "rego")
	return fmt.Sprintf("%s %d %s", o.GetUID(), o.GetGeneration(), text)
}

func TestRevisions(t *testing.T) {
	api := server(t)
	one := revisions(t, api)
	if got := last(t, one, "u"); got != "none" {
		t.Errorf("the last of nothing is %s", got)
	}
	first := revised("u", 1, "one")
	keep(t, one, first)
	keep(t, one, revised("v", 7, "of another"))
	if got := last(t, one, "u"); got != "u 1 one" {
		t.Errorf("kept is %s", got)
	}
	for _, o := range api.Objects(controllerRevisions) {
		if owner := o.GetOwnerReferences(); len(owner) != 1 || string(owner[0].UID) != o.GetLabels()[labelUID] || owner[0].Name != "foo" {
			t.Errorf("%s is owned by %v, want its policy", o.GetName(), owner)
		}
	}

	// A new pod finds what is kept.
	two := revisions(t, api)
	keep(t, two, first)
	if got := len(api.Objects(controllerRevisions)); got != 2 {
		t.Errorf("%d are kept, want one of each policy", got)
	}

	// A newer one replaces the older; and comes back as another when it is undone.
	keep(t, two, revised("u", 2, "two"))
	keep(t, one, revised("u", 2, "two"))
	keep(t, one, revised("u", 3, "one"))
	keep(t, two, revised("u", 3, "one"))
	if got := last(t, two, "u"); got != "u 3 one" {
		t.Errorf("kept is %s", got)
	}
	if got := len(api.Objects(controllerRevisions)); got != 2 {
		t.Errorf("%d are kept, want one of each policy", got)
	}
	// A pod that is late does not bring the past back.
	keep(t, revisions(t, api), revised("u", 2, "two"))
	if got := last(t, two, "u"); got != "u 3 one" || len(api.Objects(controllerRevisions)) != 2 {
		t.Errorf("kept is %s of %d", got, len(api.Objects(controllerRevisions)))
	}
}

func TestRevisionTooLarge(t *testing.T) {
	api := server(t)
	err := revisions(t, api).Keep(t.Context(), revised("u", 1, strings.Repeat("x", 1<<20)))
	if err == nil || !strings.HasPrefix(err.Error(), "keep ConstraintTemplate/foo: its 1048") {
		t.Errorf("Keep: %v, want that it is too large", err)
	}
	if got := api.Requests(); len(got) != 0 {
		t.Errorf("requests: %v", got)
	}
}
