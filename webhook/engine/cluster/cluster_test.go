package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/webhook/engine/policy"
	"github.com/docket-export/docket/webhook/engine/settings"
)

var (
	templateResource = schema.GroupVersionResource{Group: "templates.gatekeeper.sh", Version: "v1", Resource: "constrainttemplates"}
	configResource   = schema.GroupVersionResource{Group: "config.gatekeeper.sh", Version: "v1alpha1", Resource: "configs"}
	podResource      = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	fooResource      = constraintResource("foo")
)

func constraintResource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "constraints.gatekeeper.sh", Version: "v1beta1", Resource: name}
}

// recorder is what would be a policy.Set.
type recorder struct {
	mu   sync.Mutex
	has  map[string]string // policies and data: what they hold, with their UID
	log  []string
	sync string // what Syncing was told last, and how much data there was
}

func (r *recorder) note(verb, name, content string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.has == nil {
		r.has = map[string]string{}
	}
	r.log = append(r.log, verb+" "+name)
	if content == "" {
		delete(r.has, name)
	} else {
		r.has[name] = content
	}
}

func id(o *unstructured.Unstructured) string { return o.GetKind() + "/" + o.GetName() }

func (r *recorder) Put(_ context.Context, o *unstructured.Unstructured) {
	r.note("put", id(o), fmt.Sprint(o.GetUID(), " ", o.GetGeneration()))
}

func (r *recorder) Delete(o *unstructured.Unstructured) { r.note("delete", id(o), "") }

func (r *recorder) States() []policy.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	var states []policy.State
	for name := range r.has {
		kind, name, _ := strings.Cut(name, "/")
		states = append(states, policy.State{ID: policy.ID{Kind: kind, Name: name}})
	}
	return states
}

func (r *recorder) PutData(_ context.Context, o *unstructured.Unstructured) error {
	r.note("data", "data:"+id(o), "there")
	return nil
}

func (r *recorder) DeleteData(_ context.Context, o *unstructured.Unstructured) error {
	r.note("no data", "data:"+id(o), "")
	return nil
}

func (r *recorder) Syncing(kinds, pending []schema.GroupVersionKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	data := 0
	for name := range r.has {
		if strings.HasPrefix(name, "data:") {
			data++
		}
	}
	names := func(list []schema.GroupVersionKind) (names []string) {
		for _, gvk := range list {
			if !slices.Contains(settingsKinds, gvk) {
				names = append(names, gvk.Kind)
			}
		}
		return names
	}
	r.sync = fmt.Sprintf("%v, pending %v, %d objects", names(kinds), names(pending), data)
}

func (r *recorder) awaitSync(t *testing.T, want string) {
	t.Helper()
	var got string
	for end := time.Now().Add(await.Left(t)); time.Now().Before(end); time.Sleep(time.Millisecond) {
		r.mu.Lock()
		got = r.sync
		r.mu.Unlock()
		if got == want {
			return
		}
	}
	t.Fatalf("got %s, want %s", got, want)
}

func (r *recorder) CRD(template *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	gvk, _ := constraintKind(template)
	text, _, _ := unstructured.NestedString(template.Object, "spec", "schema")
	if text == "broken" {
		return nil, errors.New("broken")
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: template.GetName() + "." + gvk.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: gvk.Group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: gvk.Kind, Plural: template.GetName(), ShortNames: []string{"s" + text}},
		},
	}, nil
}

// await waits until r has what is told, and nothing else.
func (r *recorder) await(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	var got []string
	for end := time.Now().Add(await.Left(t)); time.Now().Before(end); time.Sleep(time.Millisecond) {
		r.mu.Lock()
		got = got[:0]
		for name, content := range r.has {
			got = append(got, name+" "+content)
		}
		r.mu.Unlock()
		slices.Sort(got)
		if slices.Equal(got, want) {
			return
		}
	}
	t.Fatalf("got %q\nwant %q", got, want)
}

func (r *recorder) history() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.log, ", ")
}

// server is an API server with the kinds of Gatekeeper, which establishes CRDs at once.
func server(t *testing.T) *apiServer {
	api := newAPI(t)
	for _, gvk := range append(slices.Clone(policyKinds), configKind, syncSetKind, namespaceKind) {
		api.Have(gvk.GroupVersion().WithResource(resources[gvk]), gvk.Kind)
	}
	api.Have(webhookConfigurations, "ValidatingWebhookConfiguration")
	api.Have(definitions, "CustomResourceDefinition")
	api.Have(controllerRevisions, "ControllerRevision")
	api.OnCreate(func(o *unstructured.Unstructured) {
		if o.GetKind() == "CustomResourceDefinition" {
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
			o.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
			api.Have(constraintResource(strings.ToLower(kind)), kind)
		}
	})
	return api
}

// pod runs a cluster until the test ends.
func pod(t *testing.T, api *apiServer, options ...func(*Config)) (*Cluster, *recorder) {
	r := &recorder{}
	config := Config{REST: api.Config(), Policies: r, Namespace: "docket", Log: slog.New(slog.DiscardHandler)}
	for _, option := range options {
		option(&config)
	}
	k, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return k, r
}

func awaitReady(t *testing.T, k *Cluster) {
	t.Helper()
	var err error
	for end := time.Now().Add(await.Left(t)); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err = k.Ready(t.Context()); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// awaitNotReady waits until all is loaded but what want names.
func awaitNotReady(t *testing.T, k *Cluster, want string) {
	t.Helper()
	var err error
	for end := time.Now().Add(await.Left(t)); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err = k.Ready(t.Context()); err == nil || err.Error() == want {
			break
		}
	}
	if err == nil || err.Error() != want {
		t.Fatalf("Ready: %v, want %s", err, want)
	}
}

func newTemplate(kind, schema, rego string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": strings.ToLower(kind)},
		"spec": map[string]any{
			"schema": schema, "rego": rego,
			"crd": map[string]any{"spec": map[string]any{"names": map[string]any{"kind": kind}}},
		},
	}}
}

func named(namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetName(name)
	o.SetNamespace(namespace)
	return o
}

// awaitDefinition waits for the one CRD that is made.
func awaitDefinition(t *testing.T, api *apiServer) *unstructured.Unstructured {
	t.Helper()
	for end := time.Now().Add(await.Left(t)); len(api.Objects(definitions)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no CRD was made")
		}
	}
	return api.Objects(definitions)[0]
}

func TestPolicies(t *testing.T) {
	api := server(t)
	k, r := pod(t, api)
	foo := api.Put(templateResource, newTemplate("Foo", "a", "x"))
	r.await(t, fmt.Sprintf("ConstraintTemplate/foo %s 1", foo.GetUID()))
	awaitReady(t, k)
	if crd := awaitDefinition(t, api); metav1.GetControllerOf(crd) == nil || metav1.GetControllerOf(crd).UID != foo.GetUID() {
		t.Errorf("the CRD is owned by %v, want its template", crd.GetOwnerReferences())
	}
	one := api.Put(fooResource, named("", "one", map[string]any{}))
	r.await(t, fmt.Sprintf("ConstraintTemplate/foo %s 1", foo.GetUID()), fmt.Sprintf("Foo/one %s 1", one.GetUID()))

	// A status that a pod has written is no news, nor is what else is not of the spec.
	one.Object["status"] = map[string]any{"byPod": "x"}
	api.Put(fooResource, one)
	one.Object["spec"] = map[string]any{"n": "2"}
	api.Put(fooResource, one)
	r.await(t, fmt.Sprintf("ConstraintTemplate/foo %s 1", foo.GetUID()), fmt.Sprintf("Foo/one %s 2", one.GetUID()))
	if got, want := r.history(), "put ConstraintTemplate/foo, put Foo/one, put Foo/one"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	// Its constraints go with a template, although nothing more is heard of them.
	api.Delete(templateResource, "", "foo")
	r.await(t)
	// And come back with one of that name, which is another.
	again := api.Put(templateResource, newTemplate("Foo", "a", "x"))
	r.await(t, fmt.Sprintf("ConstraintTemplate/foo %s 1", again.GetUID()), fmt.Sprintf("Foo/one %s 2", one.GetUID()))
	if crd := api.Objects(definitions)[0]; metav1.GetControllerOf(crd).UID != again.GetUID() {
		t.Errorf("the CRD is owned by %v, want the template that there is", crd.GetOwnerReferences())
	}
}

// TestDefinitionIsDeleted has somebody delete the CRD of a template that stays.
func TestDefinitionIsDeleted(t *testing.T) {
	api := server(t)
	_, r := pod(t, api)
	foo := api.Put(templateResource, newTemplate("Foo", "a", "x"))
	name := awaitDefinition(t, api).GetName()
	one := api.Put(fooResource, named("", "one", map[string]any{}))
	template := fmt.Sprintf("ConstraintTemplate/foo %s 1", foo.GetUID())
	r.await(t, template, fmt.Sprintf("Foo/one %s 1", one.GetUID()))
	api.Delete(definitions, "", name)
	api.Lose(fooResource)
	r.await(t, template)
	awaitDefinition(t, api)
	two := api.Put(fooResource, named("", "two", map[string]any{}))
	r.await(t, template, fmt.Sprintf("Foo/two %s 1", two.GetUID()))
}

func TestReadOnly(t *testing.T) {
	api := server(t)
	api.Have(fooResource, "Foo")
	foo := api.Put(templateResource, newTemplate("Foo", "a", "x"))
	one := api.Put(fooResource, named("", "one", map[string]any{}))
	k, r := pod(t, api, func(c *Config) { c.ReadOnly = true })
	r.await(t, fmt.Sprintf("ConstraintTemplate/foo %s 1", foo.GetUID()), fmt.Sprintf("Foo/one %s 1", one.GetUID()))
	awaitReady(t, k)
	for request, n := range api.Requests() {
		if verb, _, _ := strings.Cut(request, " "); verb == "create" || verb == "update" || verb == "delete" {
			t.Errorf("%d requests %s, want that nothing is written", n, request)
		}
	}
}

func TestBrokenTemplate(t *testing.T) {
	api := server(t)
	api.Have(fooResource, "Foo")
	foo := api.Put(templateResource, newTemplate("Foo", "broken", ""))
	one := api.Put(fooResource, named("", "one", map[string]any{}))
	// Constraints are known: a last valid revision may serve.
	k, r := pod(t, api)
	r.await(t, fmt.Sprintf("ConstraintTemplate/foo %s 1", foo.GetUID()), fmt.Sprintf("Foo/one %s 1", one.GetUID()))
	awaitReady(t, k)
	if got := api.Requests(); got["create customresourcedefinitions"]+got["get customresourcedefinitions"] != 0 {
		t.Errorf("requests for a CRD that cannot be: %v", got)
	}
}

func TestReady(t *testing.T) {
	api := server(t)
	api.Lose(schema.GroupVersionResource{Group: "externaldata.gatekeeper.sh", Version: "v1beta1", Resource: "providers"}) // as without Gatekeeper's CRDs
	api.Have(podResource, "Pod")
	foo := api.Put(templateResource, newTemplate("Foo", "a", "x"))
	api.Put(configResource, named("docket", "config", syncPods()))
	api.Put(podResource, named("default", "p", nil))
	api.Down()
	k, r := pod(t, api)
	if err := k.Ready(t.Context()); err == nil {
		t.Fatal("ready without an API server")
	}
	api.Up()
	awaitReady(t, k)
	want := []string{fmt.Sprintf("ConstraintTemplate/foo %s 1", foo.GetUID()), "data:Pod/p there"}
	for _, name := range want {
		if !strings.Contains(r.history(), strings.Fields(name)[0]) {
			t.Errorf("ready with %q, want %q", r.history(), want)
		}
	}
	// Once ready, always ready, and what was known stays.
	api.Down()
	api.Delete(podResource, "default", "p")
	if err := k.Ready(t.Context()); err != nil {
		t.Errorf("not ready any more: %v", err)
	}
	r.await(t, want...)
	api.Up()
	r.await(t, want[0])
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	secrets := gvk.GroupVersion().WithResource("secrets")
	api.Have(secrets, gvk.Kind)
	api.Refuse(secrets, metav1.StatusReasonForbidden)
	config := named("docket", "config", map[string]any{"sync": map[string]any{"syncOnly": []any{map[string]any{"version": "v1", "kind": "Secret"}}}})
	api.Put(configResource, config)
	for end := time.Now().Add(await.Left(t)); ; time.Sleep(time.Millisecond) {
		if _, err := k.data.err(gvk); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("secrets are not watched")
		}
	}
	if err := k.Ready(t.Context()); err != nil {
		t.Errorf("not ready any more: %v", err)
	}
}

// TestReadyAwaitsConstraints has a CRD that takes its time: until then nobody knows whether
// there are constraints.
func TestReadyAwaitsConstraints(t *testing.T) {
	api := server(t)
	api.OnCreate(func(*unstructured.Unstructured) {}) // nobody establishes it
	api.Put(templateResource, newTemplate("Foo", "a", "x"))
	k, r := pod(t, api)
	crd := awaitDefinition(t, api)
	awaitNotReady(t, k, "cluster: not loaded yet: the CRD of ConstraintTemplate/foo")
	api.Have(fooResource, "Foo")
	api.Put(fooResource, named("", "one", map[string]any{}))
	crd.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	api.Put(definitions, crd)
	awaitReady(t, k)
	if !strings.Contains(r.history(), "put Foo/one") {
		t.Errorf("ready with %s, want the constraint too", r.history())
	}
}

// TestReadyWithoutWhatIsStuck has a CRD that nobody establishes, as behind one that cannot be deleted.
func TestReadyWithoutWhatIsStuck(t *testing.T) {
	api := server(t)
	api.OnCreate(func(*unstructured.Unstructured) {})
	api.Put(templateResource, newTemplate("Foo", "a", "x"))
	k, _ := pod(t, api)
	awaitDefinition(t, api)
	awaitNotReady(t, k, "cluster: not loaded yet: the CRD of ConstraintTemplate/foo")
	for range patience { // as if so many attempts were over
		k.templates.queue.AddRateLimited("foo")
	}
	awaitReady(t, k)
}

// TestReadyNames has a kind of data that the API server does not list, or whose list fails as behind a conversion webhook that is
// down. A pod is ready without it after a while of its own, and policies that need it are in Error.
func TestReadyNames(t *testing.T) {
	for reason, giveUp := range map[metav1.StatusReason]func(*Cluster) *time.Duration{
		metav1.StatusReasonForbidden:     func(k *Cluster) *time.Duration { return &k.giveUp },
		metav1.StatusReasonInternalError: func(k *Cluster) *time.Duration { return &k.giveUpFailing },
	} {
		t.Run(string(reason), func(t *testing.T) {
			api := server(t)
			api.Have(podResource, "Pod")
			api.Put(configResource, named("docket", "config", syncPods()))
			api.Refuse(podResource, reason)
			k, r := pod(t, api)
			k.giveUp, k.giveUpFailing = 0, 0
			*giveUp(k) = time.Hour
			awaitNotReady(t, k, "cluster: not loaded yet: /v1, Kind=Pod ("+string(reason)+")")
			*giveUp(k) = 0
			awaitReady(t, k)
			r.awaitSync(t, "[Pod], pending [Pod], 0 objects")
		})
	}
}

// TestReadyNeedsPolicies has a kind that the API server does not list and that no pod can do without.
func TestReadyNeedsPolicies(t *testing.T) {
	for gvr, want := range map[schema.GroupVersionResource]string{
		templateResource: "templates.gatekeeper.sh/v1, Kind=ConstraintTemplate (Forbidden)", configResource: "config.gatekeeper.sh/v1alpha1, Kind=Config (Forbidden)",
	} {
		api := server(t)
		api.Refuse(gvr, metav1.StatusReasonForbidden)
		k, _ := pod(t, api)
		k.giveUp, k.giveUpFailing = 0, 0
		awaitNotReady(t, k, "cluster: not loaded yet: "+want)
	}
}

// TestPendingData has data that comes late. To policies its kind is pending until all of it is there.
func TestPendingData(t *testing.T) {
	api := server(t)
	api.Have(podResource, "Pod")
	k, r := pod(t, api)
	awaitReady(t, k)
	for _, before := range []int{0, 2} {
		api.Refuse(podResource, metav1.StatusReasonForbidden)
		api.Put(podResource, named("default", "one", nil))
		api.Put(podResource, named("default", "two", nil))
		api.Put(configResource, named("docket", "config", syncPods()))
		r.awaitSync(t, fmt.Sprintf("[Pod], pending [Pod], %d objects", before))
		api.Allow(podResource)
		r.awaitSync(t, "[Pod], pending [], 2 objects")
		api.Delete(configResource, "docket", "config")
		r.awaitSync(t, "[], pending [], 2 objects")
	}
}

func syncPods(match ...any) map[string]any {
	return map[string]any{
		"sync":  map[string]any{"syncOnly": []any{map[string]any{"version": "v1", "kind": "Pod"}}},
		"match": match,
	}
}

func TestData(t *testing.T) {
	api := server(t)
	api.Have(podResource, "Pod")
	api.Put(podResource, named("default", "one", nil))
	api.Put(podResource, named("kube-system", "two", nil))
	api.Put(configResource, named("default", "config", syncPods())) // anybody's
	k, r := pod(t, api)
	awaitReady(t, k)
	r.await(t)
	api.Put(configResource, named("docket", "config", syncPods()))
	r.await(t, "data:Pod/one there", "data:Pod/two there")
	api.Put(configResource, named("docket", "config", syncPods(map[string]any{
		"processes": []any{"sync", "webhook"}, "excludedNamespaces": []any{"kube-*"},
	})))
	r.await(t, "data:Pod/one there")
	if !k.Excluded(settings.Webhook, "kube-system") || k.Excluded(settings.Audit, "kube-system") || k.Excluded(settings.Webhook, "default") {
		t.Error("namespaces are not excluded as the Config says")
	}
	api.Put(podResource, named("kube-system", "three", nil))
	api.Put(podResource, named("default", "four", nil))
	r.await(t, "data:Pod/one there", "data:Pod/four there")
	api.Put(configResource, named("docket", "config", syncPods()))
	r.await(t, "data:Pod/one there", "data:Pod/two there", "data:Pod/three there", "data:Pod/four there")
	api.Delete(podResource, "default", "one")
	r.await(t, "data:Pod/two there", "data:Pod/three there", "data:Pod/four there")
	api.Delete(configResource, "docket", "config")
	for end := time.Now().Add(await.Left(t)); api.Watches(podResource) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("pods are still watched")
		}
	}
}

func TestNamespace(t *testing.T) {
	api := server(t)
	one := named("", "one", nil)
	one.SetLabels(map[string]string{"team": "a"})
	api.Put(namespaces, one)
	k, _ := pod(t, api)
	awaitReady(t, k)
	api.Requests()
	ns, err := k.Namespace(t.Context(), "one")
	if err != nil || ns.Labels["team"] != "a" || len(api.Requests()) != 0 {
		t.Errorf("got %v, %v, want it from memory", ns, err)
	}
	// Not seen yet.
	api.Down()
	if _, err := k.Namespace(t.Context(), "two"); err == nil {
		t.Error("a namespace that nobody knows")
	}
	if ns, err := k.Namespace(t.Context(), "one"); err != nil || ns.Name != "one" {
		t.Errorf("got %v, %v, want what is known", ns, err)
	}
	api.Put(namespaces, named("", "two", nil))
	api.Up()
	if ns, err := k.Namespace(t.Context(), "two"); err != nil || ns.Name != "two" {
		t.Errorf("got %v, %v, want what the API server has", ns, err)
	}
}

func TestGatekeeper(t *testing.T) {
	for name, hook := range map[string]*unstructured.Unstructured{
		"by name": named("", "gatekeeper-validating-webhook-configuration", nil),
		"by service": {Object: map[string]any{
			"metadata": map[string]any{"name": "other"},
			"webhooks": []any{map[string]any{"clientConfig": map[string]any{"service": map[string]any{"name": "gatekeeper-webhook-service"}}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			api := server(t)
			api.Put(webhookConfigurations, hook)
			r := &recorder{}
			config := Config{REST: api.Config(), Policies: r, Log: slog.New(slog.DiscardHandler)}
			k, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			if err := k.Run(t.Context()); !errors.Is(err, ErrBesideGatekeeper) {
				t.Errorf("Run: %v, want %v", err, ErrBesideGatekeeper)
			}
			config.BesideGatekeeper = true
			if k, err = New(config); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- k.Run(ctx) }()
			awaitReady(t, k)
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
}
