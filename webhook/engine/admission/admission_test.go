package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/webhook"
	"github.com/docket-export/docket/webhook/engine/policy"
)

// ackTimeout is that of clients whose exporter answers: no machine holds an ack up for so long.
const ackTimeout = time.Hour

// fixed are policies that always say the same.
type fixed struct {
	verdict policy.Verdict
	check   error
	asked   *policy.Request                                      // the last one, without review
	review  func(context.Context, policy.Request) policy.Verdict // instead of verdict; calls may overlap
}

func (f *fixed) Review(ctx context.Context, r policy.Request) policy.Verdict {
	if f.review != nil {
		return f.review(ctx, r)
	}
	f.asked = &r
	return f.verdict
}

func (f *fixed) Matches(kind schema.GroupVersionKind) bool { return kind.Kind == "Pod" }

func (f *fixed) Check(*unstructured.Unstructured) error {
	return f.check
}

// violation is one of a constraint with that action, and the actions of a scoped one that apply.
func violation(name, message, action string, actions ...string) policy.Violation {
	c := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "NeededLabels", "metadata": map[string]any{"name": name},
	}}
	if len(actions) == 0 {
		actions = []string{action}
	}
	return policy.Violation{Constraint: c, Template: "neededlabels", Message: message, Details: map[string]any{"missing": "x"}, Action: action, Actions: actions}
}

var failure = policy.Failure{ID: policy.ID{Kind: policy.TemplateKind, Name: "broken"}, Err: errors.New("panic: boom")}

// ask is a request in the words of a test; the rest of it is always the same.
type ask struct {
	group, version, kind, resource, subresource string // default: a pod
	operation                                   string // default: CREATE
	namespace, name                             string // default: shop, web; "-": none
	object, oldObject                           string // default: one with labels and a UID; "-": none
	user                                        string
}

func orDefault(s, d string) string {
	switch s {
	case "":
		return d
	case "-":
		return ""
	}
	return s
}

func (a ask) body() string {
	raw := func(s, d string) string {
		if s = orDefault(s, d); s == "" || s == "-" {
			return "null"
		}
		return s
	}
	kind, name := orDefault(a.kind, "Pod"), orDefault(a.name, "web")
	object := fmt.Sprintf(`{"apiVersion":"%s","kind":"%s","metadata":{"name":"%s","uid":"o-1","labels":{"app":"web"}}}`,
		strings.TrimPrefix(a.group+"/"+orDefault(a.version, "v1"), "/"), kind, name)
	return fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1",`+
		`"kind":{"group":"%s","version":"%s","kind":"%s"},"resource":{"group":"%s","version":"%s","resource":"%s"},"subResource":"%s",`+
		`"name":"%s","namespace":"%s","operation":"%s","userInfo":{"username":"%s"},"object":%s,"oldObject":%s}}`,
		a.group, orDefault(a.version, "v1"), kind, a.group, orDefault(a.version, "v1"), orDefault(a.resource, "pods"), a.subresource,
		name, orDefault(a.namespace, "shop"), orDefault(a.operation, "CREATE"), orDefault(a.user, "alice"),
		raw(a.object, object), raw(a.oldObject, "-"))
}

// call returns what h answers at /v1/admit.
func call(t *testing.T, h http.Handler, body string) *httptest.ResponseRecorder {
	t.Helper()
	return callAt(t, h, "/v1/admit?timeout=10s", body)
}

func callAt(t *testing.T, h http.Handler, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// The answers of Gatekeeper 3.23.1, byte for byte.
func TestAnswers(t *testing.T) {
	const before, after = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"u-1",`, "}}\n"
	templates := ask{group: "templates.gatekeeper.sh", kind: "ConstraintTemplate", namespace: "-"}
	withName := func(a ask, name string) ask { a.name = name; return a }
	for name, tt := range map[string]struct {
		policies fixed
		ask      ask
		want     string
		asked    bool // the policies were
	}{
		"nothing found": {want: `"allowed":true,"status":{"metadata":{},"code":200}`, asked: true},
		"denied": {
			policies: fixed{verdict: policy.Verdict{Violations: []policy.Violation{violation("a", "one\ntwo", "deny"), violation("b", "<three>", "deny")}}},
			want:     `"allowed":false,"status":{"metadata":{},"message":"[a] one\ntwo\n[b] \u003cthree\u003e","reason":"Forbidden","code":403}`, asked: true,
		},
		"warned": {
			policies: fixed{verdict: policy.Verdict{Violations: []policy.Violation{violation("a", "one", "warn"), violation("b", "two", "dryrun")}}},
			want:     `"allowed":true,"status":{"metadata":{},"code":299},"warnings":["[a] one"]`, asked: true,
		},
		"denied and warned": {
			policies: fixed{verdict: policy.Verdict{Violations: []policy.Violation{violation("a", "one", "deny"), violation("b", "two", "warn")}}},
			want:     `"allowed":false,"status":{"metadata":{},"message":"[a] one","reason":"Forbidden","code":403},"warnings":["[b] two"]`, asked: true,
		},
		"dryrun": {
			policies: fixed{verdict: policy.Verdict{Violations: []policy.Violation{violation("a", "one", "dryrun")}}},
			want:     `"allowed":true,"status":{"metadata":{},"code":200}`, asked: true,
		},
		"scoped": {
			policies: fixed{verdict: policy.Verdict{Violations: []policy.Violation{violation("a", "one", "scoped", "deny", "warn")}}},
			want:     `"allowed":false,"status":{"metadata":{},"message":"[a] one","reason":"Forbidden","code":403},"warnings":["[a] one"]`, asked: true,
		},
		"a policy fails": {
			policies: fixed{verdict: policy.Verdict{Violations: []policy.Violation{violation("a", "one", "warn")}, Failures: []policy.Failure{failure}}},
			want:     `"allowed":false,"status":{"metadata":{},"message":"error reviewing resource web: policy ConstraintTemplate/broken: panic: boom","code":500}`, asked: true,
		},
		"a policy fails, another denies": {
			policies: fixed{verdict: policy.Verdict{Violations: []policy.Violation{violation("a", "one", "deny")}, Failures: []policy.Failure{failure}}},
			want:     `"allowed":false,"status":{"metadata":{},"message":"[a] one","reason":"Forbidden","code":403}`, asked: true,
		},
		"DELETE": {ask: ask{operation: "DELETE", object: "-", oldObject: `{"kind":"Pod"}`}, want: `"allowed":true,"status":{"metadata":{},"code":200}`, asked: true},
		"DELETE without the old object": {
			ask: ask{operation: "DELETE", object: "-"},
			want: `"allowed":false,"status":{"metadata":{},"message":"error reviewing resource web: admission.k8s.gatekeeper.sh: ` +
				`target.HandleReview failed for target \"admission.k8s.gatekeeper.sh\": oldObject cannot be nil for DELETE operations\n","code":500}`,
		},
		"namespace that cannot be read": {
			ask:  ask{namespace: "lost"},
			want: `"allowed":false,"status":{"metadata":{},"message":"failed to create augmentedReview: namespaces \"lost\" not found","code":500}`,
		},
		"exempt namespace": {
			ask: ask{namespace: "kube-system"}, want: `"allowed":true,"status":{"metadata":{},"message":"Namespace is set to be ignored by Gatekeeper config","code":200}`,
		},
		"the exempt namespace itself": {
			ask:  ask{kind: "Namespace", namespace: "-", name: "kube-system"},
			want: `"allowed":true,"status":{"metadata":{},"message":"Namespace is set to be ignored by Gatekeeper config","code":200}`,
		},
		"namespace that another is exempt for": {
			ask: ask{kind: "Namespace", namespace: "kube-system", name: "shop"}, want: `"allowed":true,"status":{"metadata":{},"code":200}`, asked: true,
		},
		"own user": {ask: ask{user: "me"}, want: `"allowed":true,"status":{"metadata":{},"message":"docket-webhook does not manage itself","code":200}`},
		"template": {ask: templates, want: `"allowed":true,"status":{"metadata":{},"code":200}`, asked: true},
		"template that does not load": {
			policies: fixed{check: errors.New("parse error")}, ask: templates, want: `"allowed":false,"status":{"metadata":{},"message":"parse error","code":422}`,
		},
		"constraint that does not load": {
			policies: fixed{check: errors.New("no template")}, ask: ask{group: "constraints.gatekeeper.sh", kind: "NeededLabels", namespace: "-"},
			want: `"allowed":false,"status":{"metadata":{},"message":"no template","code":422}`,
		},
		"template that does not load is deleted": {
			policies: fixed{check: errors.New("parse error")}, ask: ask{group: templates.group, kind: templates.kind, namespace: "-", operation: "DELETE", object: "-", oldObject: "{}"},
			want: `"allowed":true,"status":{"metadata":{},"code":200}`, asked: true,
		},
		"template that does not load loses its finalizer": {
			policies: fixed{check: errors.New("parse error")},
			ask: ask{group: templates.group, kind: templates.kind, namespace: "-", operation: "UPDATE",
				object: `{"kind":"ConstraintTemplate","metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`},
			want: `"allowed":true,"status":{"metadata":{},"code":200}`, asked: true,
		},
		"status of a template that does not load": {
			policies: fixed{check: errors.New("parse error")}, ask: ask{group: templates.group, kind: templates.kind, namespace: "-", operation: "UPDATE", subresource: "status"},
			want: `"allowed":true,"status":{"metadata":{},"code":200}`, asked: true,
		},
		"name of 63 characters": {ask: withName(templates, strings.Repeat("n", 63)), want: `"allowed":true,"status":{"metadata":{},"code":200}`, asked: true},
		"name of 64 characters": {
			ask:  withName(templates, strings.Repeat("n", 64)),
			want: `"allowed":false,"status":{"metadata":{},"message":"resource cannot have metadata.name larger than 63 char; length: 64","code":500}`,
		},
		"Config": {ask: ask{group: "config.gatekeeper.sh", kind: "Config", name: "config"}, want: `"allowed":true,"status":{"metadata":{},"code":200}`, asked: true},
		"Config of another name": {
			ask:  ask{group: "config.gatekeeper.sh", kind: "Config"},
			want: `"allowed":false,"status":{"metadata":{},"message":"config resource must have name 'config'","code":422}`,
		},
		"expansion": {
			ask:  ask{group: "expansion.gatekeeper.sh", kind: "ExpansionTemplate", namespace: "-"},
			want: `"allowed":false,"status":{"metadata":{},"message":"docket-webhook does not expand resources: ExpansionTemplate \"web\" would have no effect","code":422}`,
		},
		"mutation": {
			ask:  ask{group: "mutations.gatekeeper.sh", kind: "Assign", namespace: "-"},
			want: `"allowed":false,"status":{"metadata":{},"message":"docket-webhook does not mutate resources: Assign \"web\" would have no effect","code":422}`,
		},
		"provider": {
			ask:  ask{group: "externaldata.gatekeeper.sh", kind: "Provider", namespace: "-"},
			want: `"allowed":false,"status":{"metadata":{},"message":"docket-webhook does not ask providers of external data: Provider \"web\" would have no effect","code":422}`,
		},
		"mutation is deleted": {
			ask:  ask{group: "mutations.gatekeeper.sh", kind: "Assign", namespace: "-", operation: "DELETE", object: "-", oldObject: "{}"},
			want: `"allowed":true,"status":{"metadata":{},"code":200}`, asked: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := Handler(Config{
				Policies: &tt.policies, User: "me", Exempt: ExemptNamespaces{Prefixes: []string{"kube-"}}.Exempt,
				Namespace: func(_ context.Context, name string) (*corev1.Namespace, error) {
					if name == "lost" {
						return nil, errors.New(`namespaces "lost" not found`)
					}
					ns := &corev1.Namespace{}
					ns.Name = name
					return ns, nil
				},
			})
			w := call(t, h, tt.ask.body())
			if got := w.Body.String(); w.Code != http.StatusOK || got != before+tt.want+after {
				t.Errorf("got %d\n%s\nwant\n%s", w.Code, got, before+tt.want+after)
			}
			asked := tt.policies.asked
			if (asked != nil) != tt.asked {
				t.Fatalf("the policies were asked: got %t, want %t", asked != nil, tt.asked)
			}
			if asked == nil {
				return
			}
			if want := orDefault(tt.ask.namespace, "shop"); tt.ask.kind != "Namespace" && (asked.Namespace == nil && want != "" || asked.Namespace != nil && asked.Namespace.Name != want) {
				t.Errorf("namespace: got %v, want %q", asked.Namespace, want)
			}
			if tt.ask.kind == "Namespace" && (asked.Namespace != nil || asked.Admission.Namespace != "") {
				t.Errorf("namespace of a namespace: got %v, %q, want none", asked.Namespace, asked.Admission.Namespace)
			}
			if asked.Point != "validation.gatekeeper.sh" {
				t.Errorf("point: got %q, want that of the webhook", asked.Point)
			}
		})
	}
}

func TestExemptNamespaces(t *testing.T) {
	e := ExemptNamespaces{Names: []string{"a"}, Prefixes: []string{"kube-"}, Suffixes: []string{"-system"}}
	for namespace, want := range map[string]bool{"a": true, "ab": false, "kube-x": true, "x-system": true, "kube": false, "systems": false, "": false} {
		if got := e.Exempt(namespace); got != want {
			t.Errorf("%q: got %t, want %t", namespace, got, want)
		}
	}
	if new(ExemptNamespaces).Exempt("") {
		t.Error("the zero value: got exempt, want none")
	}
}

// What is no review gets no verdict.
func TestOtherRequests(t *testing.T) {
	valid := ask{}.body()
	for name, tt := range map[string]struct {
		method, contentType, body string
		status                    int
		want                      string
	}{
		"GET":            {method: http.MethodGet, body: valid, status: 405, want: "method GET: want POST"},
		"text":           {contentType: "text/plain", body: valid, status: 415, want: `content type "text/plain": want application/json`},
		"no JSON":        {body: "{", status: 400, want: "decode the review: unexpected end of JSON input"},
		"something more": {body: valid + "{}", status: 400, want: "decode the review: invalid character '{' after top-level value"},
		"v1beta1": {
			body: strings.Replace(valid, "/v1", "/v1beta1", 1), status: 400,
			want: `the review is of "admission.k8s.io/v1beta1", kind "AdmissionReview": want "admission.k8s.io/v1", kind "AdmissionReview"`,
		},
		"no request":          {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, status: 400, want: "the review has no request"},
		"no uid":              {body: strings.Replace(valid, "u-1", "", 1), status: 400, want: "the review's request has no uid"},
		"upper case":          {body: strings.Replace(valid, `"request"`, `"Request"`, 1), status: 400, want: "the review has no request"},
		"too large":           {body: valid + strings.Repeat(" ", maxBody), status: 413, want: "the review has more than 10485760 bytes"},
		"as it is":            {body: valid, status: 200},
		"with charset":        {contentType: "application/json; charset=utf-8", body: valid, status: 200},
		"as large as allowed": {body: valid + strings.Repeat(" ", maxBody-len(valid)), status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(orDefault(tt.method, http.MethodPost), "/v1/admit", strings.NewReader(tt.body))
			r.Header.Set("Content-Type", orDefault(tt.contentType, "application/json"))
			w := httptest.NewRecorder()
			Handler(Config{Policies: &fixed{}}).ServeHTTP(w, r)
			if got := strings.TrimSpace(w.Body.String()); w.Code != tt.status || tt.want != "" && got != tt.want {
				t.Errorf("got %d %s, want %d %s", w.Code, got, tt.status, tt.want)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"timeout=10s": 9 * time.Second, "timeout=2s": 1800 * time.Millisecond, "timeout=30s": 29 * time.Second, "timeout=5m": 29 * time.Second,
		"": 9 * time.Second, "timeout=x": 9 * time.Second, "timeout=-1s": 9 * time.Second, "timeout=0s": 9 * time.Second,
	} {
		if got := timeout(httptest.NewRequest(http.MethodPost, "/v1/admit?"+query, nil)); got != want {
			t.Errorf("%q: got %v, want %v", query, got, want)
		}
	}
}

// hung is a handler with one turn, and policies for pods alone that decide no sooner than they must.
func hung() *handler {
	h := newHandler(Config{Policies: &fixed{review: func(ctx context.Context, r policy.Request) policy.Verdict {
		if r.Admission.Kind.Kind != "Pod" {
			return policy.Verdict{}
		}
		<-ctx.Done()
		return policy.Verdict{Failures: []policy.Failure{{ID: failure.ID, Err: ctx.Err()}}}
	}}})
	h.turns = make(chan struct{}, 1)
	return h
}

// A policy that does not decide within the time that the API server gives is a failure of that policy. Reviews that get no
// turn in that time get no verdict, and those that no policy concerns need none.
func TestDeadline(t *testing.T) {
	const denied, busy = "200 error reviewing resource web: policy ConstraintTemplate/broken: context deadline exceeded", "503 too many reviews: this one had no turn in time"
	template := ask{group: "templates.gatekeeper.sh", kind: "ConstraintTemplate", namespace: "-"}
	synctest.Test(t, func(t *testing.T) {
		h := hung()
		var observed atomic.Int64
		h.Observe = func(a Answer) {
			if a.Decision == decision.Error {
				observed.Add(1)
			}
		}
		start := time.Now()
		var all sync.WaitGroup
		for _, tt := range []struct {
			ask     ask
			timeout string
			want    string
			after   time.Duration
		}{
			{ask{}, "10s", denied, 9 * time.Second},
			{ask{}, "5s", busy, 2250 * time.Millisecond},
			{template, "10s", "200 ", 0},
			{ask{group: "coordination.k8s.io", kind: "Lease"}, "10s", "200 ", 0},
		} {
			all.Go(func() {
				w := callAt(t, h, "/v1/admit?timeout="+tt.timeout, tt.ask.body())
				got := fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
				var review admissionv1.AdmissionReview
				if json.Unmarshal(w.Body.Bytes(), &review) == nil {
					got = fmt.Sprint(w.Code, " ", review.Response.Result.Message)
				}
				if took := time.Since(start); got != tt.want || took != tt.after {
					t.Errorf("%+v: got %q after %v, want %q after %v", tt.ask, got, took, tt.want, tt.after)
				}
			})
			synctest.Wait() // the first has its turn
		}
		all.Wait()
		h.checks <- struct{}{} // another policy is tried
		if w := call(t, h, template.body()); w.Code != http.StatusServiceUnavailable {
			t.Errorf("got %d for a policy that cannot be tried in time, want 503", w.Code)
		}
		if got := observed.Load(); got != 3 {
			t.Errorf("observed %d errors, want 3", got)
		}
	})
}

// A review that waits for its turn does so for half of its time, so that policies have the other half.
func TestWaitForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(Config{Policies: &fixed{review: func(ctx context.Context, _ policy.Request) policy.Verdict {
			end, _ := ctx.Deadline()
			if left := time.Until(end); left < 4500*time.Millisecond {
				t.Errorf("policies have %v, want half of 9s", left)
			}
			return policy.Verdict{}
		}}})
		h.turns = make(chan struct{}, 1)
		for _, wait := range []time.Duration{4500*time.Millisecond - 1, 4500*time.Millisecond + 1} {
			h.turns <- struct{}{}
			time.AfterFunc(wait, func() { <-h.turns })
			want := http.StatusOK
			if wait > 4500*time.Millisecond {
				want = http.StatusServiceUnavailable
			}
			if w := call(t, h, ask{}.body()); w.Code != want {
				t.Errorf("got %d after a wait of %v, want %d", w.Code, wait, want)
			}
		}
	})
}

// A review holds memory for a small one until more has arrived, whatever it says of its length, and for all of it then.
func TestBodies(t *testing.T) {
	for name, length := range map[string]int64{"with a length": 8 << 20, "without": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := hung()
				rest := int64(maxBody - firstPart)
				if length >= 0 {
					rest = length - firstPart
				}
				arriving, send := io.Pipe()
				r := httptest.NewRequest(http.MethodPost, "/v1/admit", arriving)
				r.Header.Set("Content-Type", "application/json")
				r.ContentLength = length
				w := httptest.NewRecorder()
				var review sync.WaitGroup
				review.Go(func() { h.ServeHTTP(w, r) })
				for _, step := range []struct{ send, first, rest int64 }{{0, firstPart, 0}, {firstPart, firstPart, 0}, {1, firstPart, rest}} {
					if _, err := send.Write(bytes.Repeat([]byte(" "), int(step.send))); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if first, rest := held(h.bodies.first), held(h.bodies.rest); first != step.first || rest != step.rest {
						t.Errorf("after %d bytes more a review holds %d and %d, want %d and %d", step.send, first, rest, step.first, step.rest)
					}
				}
				send.CloseWithError(io.ErrUnexpectedEOF)
				review.Wait()
				if got := held(h.bodies.first) + held(h.bodies.rest); w.Code != http.StatusBadRequest || got != 0 {
					t.Errorf("got %d for a part of a review, and %d bytes are held", w.Code, got)
				}
			})
		})
	}
}

// held is how much of a memory is not free.
func held(memory *semaphore.Weighted) int64 {
	return maxBodies/2 + 1 - int64(sort.Search(maxBodies/2+1, func(n int) bool {
		free := memory.TryAcquire(int64(n))
		if free {
			memory.Release(int64(n))
		}
		return !free
	}))
}

// Small reviews wait for small ones alone, and large ones for their turn.
func TestBodiesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hung()
		h.bodies.rest.TryAcquire(maxBodies / 2)
		if w := call(t, h, ask{kind: "Lease"}.body()); w.Code != http.StatusOK {
			t.Errorf("got %d for a small review beside large ones, want 200", w.Code)
		}
		h.bodies.first.TryAcquire(maxBodies / 2)
		start := time.Now()
		if w := call(t, h, ask{kind: "Lease"}.body()); w.Code != http.StatusServiceUnavailable || time.Since(start) != 9*time.Second {
			t.Errorf("got %d after %v, want 503 after 9s", w.Code, time.Since(start))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		h := hung()
		large := ask{kind: "Lease"}.body() + strings.Repeat(" ", 2<<20)
		var all sync.WaitGroup
		for range 34 { // which cannot all have a part and wait for more
			all.Go(func() {
				if w := call(t, h, large); w.Code != http.StatusOK {
					t.Errorf("got %d for one of 34 large reviews, want 200", w.Code)
				}
			})
		}
		all.Wait()
	})
}

// The own user's requests are allowed, and those of service accounts beside it.
func TestOwnUser(t *testing.T) {
	const account = "system:serviceaccount:docket-webhook:docket-webhook"
	for _, tt := range []struct {
		own, user string
		want      bool
	}{
		{account, account, true},
		{account, "system:serviceaccount:docket-webhook:docket-audit", true},
		{account, "system:serviceaccount:docket-webhook-2:docket-webhook", false},
		{account, "system:serviceaccount:", false},
		{account, "alice", false},
		{"system:node:a", "system:node:b", false},
		{"me", "me", true},
		{"me", "you", false},
		{"", "", false},
		{"", "alice", false},
	} {
		if got := (&handler{Config: Config{User: tt.own}}).own(tt.user); got != tt.want {
			t.Errorf("%q beside %q: got %t, want %t", tt.user, tt.own, got, tt.want)
		}
	}
}

func newClient(t *testing.T, e *clienttest.Exporter, mode client.Mode) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{
		Address: "test://", Producer: "engine", Mode: mode, Timeout: ackTimeout,
		Transports: map[string]client.Transport{"test": func(string, *client.Config) (client.Dial, error) { return e.Dial, nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stored returns the records that e has, once c is closed.
func stored(t *testing.T, c *client.Client, e *clienttest.Exporter) (records []decision.Record) {
	t.Helper()
	if left, err := c.Close(t.Context()); left != 0 || err != nil {
		t.Fatalf("close: got %d left, %v, want all stored", left, err)
	}
	for _, l := range e.Lines() {
		var r decision.Record
		if err := json.Unmarshal([]byte(l.Text), &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	e.Close()
	return records
}

// Every violation and failure is a record that has the request's UID, and the answer names their producer and numbers.
func TestRecords(t *testing.T) {
	many := make([]policy.Violation, 200)
	for i := range many {
		many[i] = violation("a", fmt.Sprint("message ", i), "deny")
	}
	for name, tt := range map[string]struct {
		verdict policy.Verdict
		ask     ask
		want    []string // decision, template, kind, name, failure of each
		numbers string
	}{
		"nothing": {},
		"each action": {
			verdict: policy.Verdict{Violations: []policy.Violation{
				violation("a", "one", "deny"), violation("b", "two", "dryrun"), violation("c", "three", "scoped", "dryrun", "warn"),
			}},
			want:    []string{"deny neededlabels NeededLabels a ", "dryrun neededlabels NeededLabels b ", "warn neededlabels NeededLabels c "},
			numbers: "1-3",
		},
		"one": {
			verdict: policy.Verdict{Violations: []policy.Violation{violation("b", "two", "dryrun")}},
			want:    []string{"dryrun neededlabels NeededLabels b "}, numbers: "1",
		},
		"what is deleted": {
			ask:     ask{operation: "DELETE", object: "-", oldObject: `{"metadata":{"uid":"o-1","labels":{"app":"web"}}}`},
			verdict: policy.Verdict{Violations: []policy.Violation{violation("a", "one", "deny")}},
			want:    []string{"deny neededlabels NeededLabels a "}, numbers: "1",
		},
		"failures": {
			verdict: policy.Verdict{
				Violations: []policy.Violation{violation("a", "one", "deny")},
				Failures:   []policy.Failure{failure, {ID: policy.ID{Kind: "NeededLabels", Name: "x"}, Err: errors.New("late")}},
			},
			want: []string{
				"deny neededlabels NeededLabels a ", "error broken ConstraintTemplate broken policy ConstraintTemplate/broken: panic: boom",
				"error neededlabels NeededLabels x policy NeededLabels/x: late",
			},
			numbers: "1-3",
		},
		"not asked": {
			ask:  ask{operation: "DELETE", object: "-"},
			want: []string{"error    " + fmt.Sprintf(noOldObject, "web")}, numbers: "1",
		},
		"many": {verdict: policy.Verdict{Violations: many}, numbers: "1-200"},
	} {
		for _, mode := range []client.Mode{client.Batch, client.Blocking, client.BlockingStrict} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				e := clienttest.New()
				c := newClient(t, e, mode)
				w := call(t, Handler(Config{Policies: &fixed{verdict: tt.verdict}, Client: c, Records: webhook.Options{Cluster: "prod", Pod: "p"}}), tt.ask.body())
				var review admissionv1.AdmissionReview
				if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil {
					t.Fatalf("%s: %v", w.Body, err)
				}
				want := map[string]string{"docket-producer": c.Producer(), "docket-records": tt.numbers}
				if tt.numbers == "" {
					want = nil
				}
				if got := review.Response.AuditAnnotations; !reflect.DeepEqual(got, want) {
					t.Errorf("audit annotations: got %v, want %v", got, want)
				}
				records := stored(t, c, e)
				if name == "many" {
					if len(records) != len(many) || records[199].Message != "message 199" || records[199].Sequence != 200 {
						t.Errorf("got %d records, want %d, each its own", len(records), len(many))
					}
					return
				}
				if len(records) != len(tt.want) {
					t.Fatalf("got %+v, want %d records", records, len(tt.want))
				}
				for i, r := range records {
					if got := fmt.Sprintf("%s %s %s %s %s", r.Decision, r.Template, r.Kind, r.Name, r.Failure); got != tt.want[i] {
						t.Errorf("record %d: got %q, want %q", i, got, tt.want[i])
					}
					if r.RequestUID != "u-1" || r.Sequence != uint64(i+1) || r.RequestUsername != "alice" || r.WebhookPath != "/v1/admit" || r.Cluster != "prod" || r.Pod != "p" {
						t.Errorf("record %d: got %+v, want what the request is", i, r)
					}
					if r.Decision != decision.Error && (r.EventType != decision.ViolationAdmission || r.ResourceUID != "o-1" || r.ResourceLabels["app"] != "web" || string(r.Details) != `{"missing":"x"}`) {
						t.Errorf("record %d: got %+v, want what the violation is", i, r)
					}
				}
			})
		}
	}
}

// A template that is refused leaves one record.
func TestRefusedTemplateIsRecorded(t *testing.T) {
	e := clienttest.New()
	c := newClient(t, e, client.Batch)
	call(t, Handler(Config{Policies: &fixed{check: errors.New("parse error")}, Client: c}), ask{group: "templates.gatekeeper.sh", kind: "ConstraintTemplate"}.body())
	if records := stored(t, c, e); len(records) != 1 || records[0].Decision != decision.Deny || records[0].Message != "parse error" || records[0].Code != 422 {
		t.Errorf("got %+v, want the refusal", records)
	}
}

// Each violation is a line with the keys of Gatekeeper's log.
func TestLogDenies(t *testing.T) {
	verdict := policy.Verdict{Violations: []policy.Violation{violation("a", "one", "deny"), violation("b", "two", "scoped", "warn")}}
	for _, on := range []bool{true, false} {
		var log bytes.Buffer
		h := Handler(Config{Policies: &fixed{verdict: verdict}, LogDenies: on, Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		}))})
		call(t, h, ask{name: "-", object: `{"metadata":{"name":"made"}}`}.body())
		line := func(name, message, action, actions string) string {
			return `{"level":"INFO","msg":"denied admission: ` + message + `","semantic":true,"process":"admission","details":{"missing":"x"},"event_type":"violation",` +
				`"constraint_name":"` + name + `","constraint_group":"constraints.gatekeeper.sh","constraint_api_version":"v1beta1","constraint_kind":"NeededLabels",` +
				`"constraint_action":"` + action + `","constraint_enforcement_actions":` + actions + `,"resource_group":"","resource_api_version":"v1",` +
				`"resource_kind":"Pod","resource_namespace":"shop","resource_name":"made","request_username":"alice"}` + "\n"
		}
		want := ""
		if on {
			want = line("a", "one", "deny", "null") + line("b", "two", "scoped", `["warn"]`)
		}
		if got := log.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
}
