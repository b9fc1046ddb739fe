package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/docket-export/docket/decision"
)

// api is as much of an API server as an audit asks.
type api struct {
	*httptest.Server
	mu       sync.Mutex // of one request at a time
	pods     int
	expire   int // the page whose token expires once, if not 0
	agents   map[string]bool
	requests []string // of objects
}

func newAPI(t *testing.T, pods int) *api {
	a := &api{pods: pods, agents: map[string]bool{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.agents[r.UserAgent()] = true
	w.Header().Set("Content-Type", "application/json")
	version := metav1.GroupVersionForDiscovery{GroupVersion: "metrics.k8s.io/v1beta1", Version: "v1beta1"}
	var answer any
	switch r.URL.Path {
	case "/api":
		answer = metav1.APIVersions{Versions: []string{"v1"}}
	case "/apis":
		answer = metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "metrics.k8s.io", Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}}}
	case "/api/v1":
		answer = metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Namespaced: true, Kind: "Pod", Verbs: []string{"create", "get", "list"}},
			{Name: "pods/status", Namespaced: true, Kind: "Pod", Verbs: []string{"get"}},
			{Name: "bindings", Namespaced: true, Kind: "Binding", Verbs: []string{"create"}},
			{Name: "namespaces", Kind: "Namespace", Verbs: []string{"get", "list"}},
		}}
	case "/api/v1/pods":
		answer = a.page(w, r)
	case "/api/v1/namespaces":
		answer = map[string]any{"apiVersion": "v1", "kind": "NamespaceList", "items": []any{namespaceObject("shop")}}
	case "/api/v1/namespaces/shop":
		answer = namespaceObject("shop")
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func namespaceObject(name string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": map[string]any{"team": "a"}}}
}

func (a *api) page(w http.ResponseWriter, r *http.Request) any {
	a.requests = append(a.requests, r.URL.RawQuery)
	from, _ := strconv.Atoi(r.FormValue("continue"))
	limit, _ := strconv.Atoi(r.FormValue("limit"))
	if a.expire > 0 && from/limit == a.expire {
		a.expire = 0
		w.WriteHeader(http.StatusGone)
		return metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusGone,
			Reason: metav1.StatusReasonExpired, ListMeta: metav1.ListMeta{Continue: r.FormValue("continue")},
		}
	}
	items := []any{}
	for i := from; i < min(from+limit, a.pods); i++ {
		items = append(items, map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("pod-%06d", i), "namespace": "shop", "uid": fmt.Sprint(i)}})
	}
	metadata := map[string]any{"resourceVersion": "1"}
	if from+limit < a.pods {
		metadata["continue"] = strconv.Itoa(from + limit)
	}
	return map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": items}
}

// An audit of what an API server answers: kinds of which some are not known, pages of which
// one expires, and namespaces.
func TestCluster(t *testing.T) {
	a := newAPI(t, 25)
	a.expire = 2
	config := &rest.Config{Host: a.URL, UserAgent: "docket-webhook/v1"}
	c, err := NewCluster(config)
	if err != nil {
		t.Fatal(err)
	}
	p, names := &policies{}, map[string]bool{}
	report, err := Run(t.Context(), Config{Lister: c, Policies: p, ChunkSize: 10, Found: func(r *decision.Record) { names[r.ResourceName] = true }})
	if err != nil || report.Reason != decision.NotListed || !strings.Contains(report.Detail, "metrics.k8s.io") {
		t.Errorf("got %+v, %v; want the group that is down", report, err)
	}
	if report.Objects != 26 || len(names) != 25 {
		t.Errorf("got %d objects, violations of %d; want 25 pods and a namespace", report.Objects, len(names))
	}
	for _, r := range p.asked {
		if r.Object.GetKind() == "Pod" && (r.Object.GetAPIVersion() != "v1" || r.Namespace.Labels["team"] != "a") {
			t.Errorf("%s: got %s, namespace %v", r.Object.GetName(), r.Object.GetAPIVersion(), r.Namespace)
		}
	}
	if want := []string{"limit=10", "continue=10&limit=10", "continue=20&limit=10", "continue=20&limit=10"}; !slices.Equal(a.requests, want) {
		t.Errorf("got the requests %q, want %q", a.requests, want)
	}
	if agents := slices.Collect(maps.Keys(a.agents)); !slices.Equal(agents, []string{"docket-webhook/v1/audit"}) || config.RateLimiter != nil {
		t.Errorf("got the user agents %q, and the caller's configuration %+v", agents, config)
	}
	if ns, err := c.Namespace(t.Context(), "gone"); ns != nil || err == nil {
		t.Errorf("got %v, %v for an answer of 503", ns, err)
	}
	a.Config.Handler = http.NotFoundHandler()
	if ns, err := c.Namespace(t.Context(), "gone"); ns != nil || err != nil {
		t.Errorf("got %v, %v for a namespace that there is not", ns, err)
	}
}

// Whoever may get everything may get nodes/proxy and pods/exec, and run commands: the audit lists.
func TestRole(t *testing.T) {
	text, err := os.ReadFile("../../../manifests/docket-webhook/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	everything := 0
	for _, object := range strings.Split(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(object), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.APIGroups, "*") && slices.Contains(rule.Resources, "*") {
				everything++
				if !slices.Equal(rule.Verbs, []string{"list", "watch"}) {
					t.Errorf("%s: got %v of everything, want list and watch", role.Name, rule.Verbs)
				}
			}
		}
	}
	if everything != 1 {
		t.Errorf("got %d rules for everything, want that of the audit", everything)
	}
}

// Discovery, which knows no context, ends with the run's.
func TestClusterHangs(t *testing.T) {
	asked, release := make(chan struct{}, 10), make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-release }))
	defer hanging.Close()
	defer close(release)
	c, err := NewCluster(&rest.Config{Host: hanging.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	began := time.Now()
	report, err := Run(ctx, Config{Lister: c, Policies: &policies{}})
	if err != nil || report.Reason != decision.Abandoned {
		t.Errorf("got %+v, %v", report, err)
	}
	if took := time.Since(began); took > 20*time.Second { // discovery's own limit is 32 s
		t.Errorf("took %v to end", took)
	}
}
