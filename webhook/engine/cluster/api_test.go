package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// apiServer is an API server in memory, for tests that need to say when and in which order things happen: it stores
// objects of the resources that it is told to have, and serves get, list, watch, create, update and delete of them.
type apiServer struct {
	t    testing.TB
	http *httptest.Server

	mu        sync.Mutex
	changed   *sync.Cond
	revision  int
	resources map[string]*apiResource // by path: "api/v1/namespaces"
	requests  map[string]int
	uids      int
	down      bool
	epoch     int // of connections: a watch of an older one ends
	onCreate  func(*unstructured.Unstructured)
}

type apiResource struct {
	kind    schema.GroupVersionKind
	objects map[string]*unstructured.Unstructured // by namespace/name
	events  []apiEvent
	oldest  int // revision of the last event that is forgotten
	removed bool
	refusal metav1.StatusReason // "": none
	watches int
}

type apiEvent struct {
	revision int
	kind     string
	object   *unstructured.Unstructured
}

// newAPI starts a server without resources, which ends with the test.
func newAPI(t testing.TB) *apiServer {
	s := &apiServer{t: t, resources: map[string]*apiResource{}, requests: map[string]int{}, revision: 1}
	s.changed = sync.NewCond(&s.mu)
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		s.Down()
		s.http.Close()
	})
	return s
}

// Config is how clients reach the server.
func (s *apiServer) Config() *rest.Config { return &rest.Config{Host: s.http.URL, QPS: -1} }

func path(gvr schema.GroupVersionResource) string {
	if gvr.Group == "" {
		return "api/" + gvr.Version + "/" + gvr.Resource
	}
	return "apis/" + gvr.Group + "/" + gvr.Version + "/" + gvr.Resource
}

// Have makes the server know a resource, without objects.
func (s *apiServer) Have(gvr schema.GroupVersionResource, kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources[path(gvr)] = &apiResource{kind: gvr.GroupVersion().WithKind(kind), objects: map[string]*unstructured.Unstructured{}}
}

// Lose makes the server forget a resource with its objects. Nobody hears of their deletion:
// watches end, and the next request is answered with 404.
func (s *apiServer) Lose(gvr schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources[path(gvr)].removed = true
	delete(s.resources, path(gvr))
	s.changed.Broadcast()
}

// Refuse answers each request for a resource with an error, until Allow.
func (s *apiServer) Refuse(gvr schema.GroupVersionResource, reason metav1.StatusReason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources[path(gvr)].refusal = reason
}

// Allow undoes Refuse.
func (s *apiServer) Allow(gvr schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources[path(gvr)].refusal = ""
}

// Down ends all watches and answers each request with 503, until Up.
func (s *apiServer) Down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	s.epoch++
	s.changed.Broadcast()
}

// Up undoes Down. What happened before it is not told to watches: they have to list.
func (s *apiServer) Up() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
	s.revision++
	for _, r := range s.resources {
		r.events, r.oldest = nil, s.revision
	}
}

// Put creates or updates an object, as another client would. Its UID is that of the stored
// one, unless it has one; its generation counts changes of its spec.
func (s *apiServer) Put(gvr schema.GroupVersionResource, o *unstructured.Unstructured) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store(s.resources[path(gvr)], o.DeepCopy()).DeepCopy()
}

// Delete deletes an object, as another client would.
func (s *apiServer) Delete(gvr schema.GroupVersionResource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(s.resources[path(gvr)], namespace+"/"+name)
}

// Objects returns all objects of a resource, by name.
func (s *apiServer) Objects(gvr schema.GroupVersionResource) []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.resources[path(gvr)])
}

// OnCreate has f called for each object that a client creates, before it is stored. It may
// change the object, and the server.
func (s *apiServer) OnCreate(f func(*unstructured.Unstructured)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onCreate = f
}

// Watches returns how many watches of a resource there are.
func (s *apiServer) Watches(gvr schema.GroupVersionResource) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resources[path(gvr)].watches
}

// Requests returns how many requests of each verb and resource there were since the last
// call, such as "create controllerrevisions".
func (s *apiServer) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.requests
	s.requests = map[string]int{}
	return got
}

func sorted(r *apiResource) []*unstructured.Unstructured {
	objects := []*unstructured.Unstructured{}
	for _, o := range r.objects {
		objects = append(objects, o.DeepCopy())
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int { return strings.Compare(key(a), key(b)) })
	return objects
}

func key(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }

// store is called with mu held.
func (s *apiServer) store(r *apiResource, o *unstructured.Unstructured) *unstructured.Unstructured {
	o.SetGroupVersionKind(r.kind)
	kind := "ADDED"
	old := r.objects[key(o)]
	generation := int64(1)
	if old != nil {
		kind, generation = "MODIFIED", old.GetGeneration()
		if o.GetUID() == "" {
			o.SetUID(old.GetUID())
		}
		before, _ := json.Marshal(old.Object["spec"])
		after, _ := json.Marshal(o.Object["spec"])
		if string(before) != string(after) {
			generation++
		}
	}
	if o.GetUID() == "" {
		s.uids++
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uids)))
	}
	if r.kind.Group != "" {
		o.SetGeneration(generation)
	}
	s.revision++
	o.SetResourceVersion(strconv.Itoa(s.revision))
	r.objects[key(o)] = o
	r.events = append(r.events, apiEvent{s.revision, kind, o})
	s.changed.Broadcast()
	return o
}

// remove is called with mu held. It returns whether there was such an object.
func (s *apiServer) remove(r *apiResource, key string) bool {
	o := r.objects[key]
	if o == nil {
		return false
	}
	delete(r.objects, key)
	s.revision++
	o = o.DeepCopy()
	o.SetResourceVersion(strconv.Itoa(s.revision))
	r.events = append(r.events, apiEvent{s.revision, "DELETED", o})
	s.changed.Broadcast()
	return true
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	groups := 3 // apis, group, version
	if parts[0] == "api" {
		groups = 2
	}
	if len(parts) < groups {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	version, rest := strings.Join(parts[:groups], "/"), parts[groups:]
	var namespace string
	if len(rest) > 2 && rest[0] == "namespaces" {
		namespace, rest = rest[1], rest[2:]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		fail(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		return
	}
	if len(rest) == 0 {
		s.discover(w, version)
		return
	}
	verb := s.verb(r, rest)
	s.requests[verb+" "+rest[0]]++
	found := s.resources[version+"/"+rest[0]]
	if found == nil {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	if found.refusal != "" {
		fail(w, map[metav1.StatusReason]int{metav1.StatusReasonForbidden: 403, metav1.StatusReasonInternalError: 500}[found.refusal], found.refusal)
		return
	}
	q := apiRequest{w: w, r: r, resource: found, namespace: namespace, key: namespace + "/" + strings.Join(rest[1:], "/")}
	switch verb {
	case "list":
		s.list(q)
	case "watch":
		s.watch(q)
	case "get":
		s.get(q)
	case "delete":
		s.delete(q)
	default:
		s.write(q)
	}
}

func (s *apiServer) verb(r *http.Request, rest []string) string {
	switch {
	case r.Method == http.MethodPost:
		return "create"
	case r.Method == http.MethodPut:
		return "update"
	case r.Method == http.MethodDelete:
		return "delete"
	case len(rest) > 1:
		return "get"
	case r.URL.Query().Get("watch") != "":
		return "watch"
	}
	return "list"
}

type apiRequest struct {
	w              http.ResponseWriter
	r              *http.Request
	resource       *apiResource
	namespace, key string
}

// discover answers which resources a version has.
func (s *apiServer) discover(w http.ResponseWriter, version string) {
	s.requests["discover"]++
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}}
	for path, r := range s.resources {
		if name, ok := strings.CutPrefix(path, version+"/"); ok {
			list.GroupVersion = r.kind.GroupVersion().String()
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: r.kind.Kind, Verbs: metav1.Verbs{"list", "watch"}})
		}
	}
	if list.GroupVersion == "" {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	answer(w, http.StatusOK, list)
}

func (s *apiServer) list(q apiRequest) {
	selector, err := labels.Parse(q.r.URL.Query().Get("labelSelector"))
	if err != nil {
		fail(q.w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	items := []any{}
	for _, o := range sorted(q.resource) {
		if q.namespace != "" && o.GetNamespace() != q.namespace || !selector.Matches(labels.Set(o.GetLabels())) {
			continue
		}
		items = append(items, o.Object)
	}
	version, kind := q.resource.kind.GroupVersion().String(), q.resource.kind.Kind+"List"
	answer(q.w, http.StatusOK, map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.revision)}, "items": items,
	})
}

// watch is called with mu held, and gives it up while it waits.
func (s *apiServer) watch(q apiRequest) {
	since, _ := strconv.Atoi(q.r.URL.Query().Get("resourceVersion"))
	var told []apiEvent
	if q.r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, o := range sorted(q.resource) {
			told = append(told, apiEvent{kind: "ADDED", object: o})
		}
		end := &unstructured.Unstructured{}
		end.SetGroupVersionKind(q.resource.kind)
		end.SetResourceVersion(strconv.Itoa(s.revision))
		end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		told = append(told, apiEvent{kind: "BOOKMARK", object: end})
		since = s.revision
	}
	if since < q.resource.oldest {
		fail(q.w, http.StatusGone, metav1.StatusReasonExpired)
		return
	}
	q.resource.watches++
	defer func() { q.resource.watches--; s.changed.Broadcast() }()
	gone := false
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-q.r.Context().Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			gone = true
			s.changed.Broadcast()
		case <-stop:
		}
	}()
	epoch := s.epoch
	q.w.Header().Set("Content-Type", "application/json")
	q.w.WriteHeader(http.StatusOK)
	for {
		for _, e := range q.resource.events {
			if e.revision > since && s.epoch == epoch { // Up may have dropped events before it
				told = append(told, e)
				since = e.revision
			}
		}
		for _, e := range told {
			_ = json.NewEncoder(q.w).Encode(map[string]any{"type": e.kind, "object": e.object.Object})
		}
		told = nil
		q.w.(http.Flusher).Flush()
		if gone || s.epoch != epoch || q.resource.removed {
			return
		}
		s.changed.Wait()
	}
}

func (s *apiServer) get(q apiRequest) {
	if o := q.resource.objects[q.key]; o != nil {
		answer(q.w, http.StatusOK, o.Object)
		return
	}
	fail(q.w, http.StatusNotFound, metav1.StatusReasonNotFound)
}

func (s *apiServer) delete(q apiRequest) {
	if !s.remove(q.resource, q.key) {
		fail(q.w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	answer(q.w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
}

func (s *apiServer) write(q apiRequest) {
	o := &unstructured.Unstructured{}
	if err := json.NewDecoder(q.r.Body).Decode(&o.Object); err != nil {
		fail(q.w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	o.SetNamespace(q.namespace)
	old := q.resource.objects[key(o)]
	create := q.r.Method == http.MethodPost
	switch {
	case create && old != nil:
		fail(q.w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
		return
	case !create && old == nil:
		fail(q.w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	case !create && old.GetResourceVersion() != o.GetResourceVersion():
		fail(q.w, http.StatusConflict, metav1.StatusReasonConflict)
		return
	}
	if create && s.onCreate != nil {
		s.mu.Unlock()
		s.onCreate(o)
		s.mu.Lock()
	}
	answer(q.w, http.StatusOK, s.store(q.resource, o).Object)
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // whoever asked may be gone
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: string(reason),
	})
}
