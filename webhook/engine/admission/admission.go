// Package admission answers the API server's reviews by what the policies say, as Gatekeeper 3.23 does, and records
// every violation under a number that the answer names.
//
//	admission.go  Handler: one review in, one answer out
//	body.go       what a review has in memory until it is answered
//	decide.go     the answer, and the records of its violations
//	resources.go  policies themselves, which are tried before they are stored
package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/webhook"
	"github.com/docket-export/docket/webhook/engine/policy"
)

// The API server waits for 10 seconds unless it says otherwise, and never longer than 30. A tenth of that is left for
// the way of the answer and, in the modes that block, for its records; more than a second is not needed.
const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = 30 * time.Second
	maxMargin      = time.Second
)

// Policies decide. *policy.Set is the one of every pod.
type Policies interface {
	// Review asks every policy. Calls overlap.
	Review(ctx context.Context, r policy.Request) policy.Verdict
	// Matches says whether a policy may have anything to say about objects of a kind.
	Matches(kind schema.GroupVersionKind) bool
	// Check says why a template or a constraint would not load.
	Check(obj *unstructured.Unstructured) error
}

// Config is what a Handler needs. All but Policies may be left out.
type Config struct {
	Policies Policies
	// Namespace returns the namespace of that name, nil where none is known. An error fails the review.
	Namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
	// Exempt says whether requests in a namespace, or for the namespace itself, are allowed without a review. It is
	// asked with "" for what has no namespace.
	Exempt func(namespace string) bool
	// User is the name of this program's own user, whose requests are allowed, so that it can write its objects
	// whatever the policies say. If it is a service account, those of its namespace are too: the audit has another.
	User string
	// Client takes the records; nil: none. Records says how they are made: Found is set, and Decisions
	// is deny, warn, dryrun and error by default.
	Client  *client.Client
	Records webhook.Options
	// LogDenies has each violation logged, with the keys of Gatekeeper's --log-denies.
	LogDenies bool
	// Observe is told of every answer. Calls overlap. It must not block.
	Observe func(Answer)
	Log     *slog.Logger // default: nothing is logged
}

// Answer is what became of one review.
type Answer struct {
	Decision decision.Decision // allow, also with warnings; deny; error
	Duration time.Duration
}

// ExemptNamespaces are namespaces by name, and by how their names begin or end.
type ExemptNamespaces struct{ Names, Prefixes, Suffixes []string }

// Exempt reports whether a namespace is among them.
func (e ExemptNamespaces) Exempt(namespace string) bool {
	return slices.Contains(e.Names, namespace) ||
		slices.ContainsFunc(e.Prefixes, func(p string) bool { return strings.HasPrefix(namespace, p) }) ||
		slices.ContainsFunc(e.Suffixes, func(s string) bool { return strings.HasSuffix(namespace, s) })
}

// Handler answers AdmissionReviews of admission.k8s.io/v1. What is no such review gets a status of HTTP that says so,
// which the API server takes for a failed call. A review gets an answer, see decide, unless it has no turn in time.
func Handler(c Config) http.Handler {
	records := c.Records
	records.Found = true
	if len(records.Decisions) == 0 {
		records.Decisions = []decision.Decision{decision.Deny, decision.Warn, decision.DryRun, decision.Error}
	}
	return webhook.Log(newHandler(c), c.Client, records)
}

// Decide returns what a Handler answers to a request, and the records that it hands to webhook.Found.
func Decide(ctx context.Context, c Config, r *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, []*decision.Record) {
	q := &request{AdmissionRequest: r}
	q.readObject()
	answer, _, records := newHandler(c).decide(ctx, q)
	return answer, records
}

func newHandler(c Config) *handler {
	if c.Namespace == nil {
		c.Namespace = func(context.Context, string) (*corev1.Namespace, error) { return nil, nil } //nolint:nilnil // none is known
	}
	if c.Exempt == nil {
		c.Exempt = func(string) bool { return false }
	}
	if c.Observe == nil {
		c.Observe = func(Answer) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	// Reviews are work for a processor: more of them at a time than there are processors all take longer.
	return &handler{
		Config: c, turns: make(chan struct{}, runtime.GOMAXPROCS(0)), checks: make(chan struct{}, 1), bodies: newMemory(),
	}
}

type handler struct {
	Config
	turns  chan struct{} // one is taken for each review that is with the policies
	checks chan struct{} // one is taken to try a policy: the remedy for a slow one does not wait for it
	bodies memory        // of the bodies of all reviews
}

// errBusy is why nobody has judged a review. Its code is that of the HTTP response, and no verdict: the API server takes it
// for a failed call, and the webhook's failurePolicy says whether the request passes.
var errBusy = &resourceError{http.StatusServiceUnavailable, "too many reviews: this one had no turn in time"}

// take takes a turn, which the caller gives back.
func take(ctx context.Context, turns chan struct{}) *resourceError {
	select {
	case turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errBusy
	}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), timeout(r))
	defer cancel()
	b := body{memory: h.bodies}
	defer b.release()
	req, status, err := b.read(ctx, w, r)
	if errors.Is(err, errBusy) {
		h.busy(w, start)
		return
	}
	if err != nil {
		h.Log.Warn("not an admission review", "error", err)
		http.Error(w, err.Error(), status)
		return
	}
	q := &request{AdmissionRequest: req}
	q.readObject()
	answer, outcome, records := h.decide(ctx, q)
	if answer.Result.Code == errBusy.code {
		h.busy(w, start)
		return
	}
	h.record(ctx, answer, records)
	answer.UID = req.UID
	h.Observe(Answer{Decision: outcome, Duration: time.Since(start)})
	w.Header().Set("Content-Type", "application/json")
	review := admissionv1.AdmissionReview{Response: answer}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	_ = json.NewEncoder(w).Encode(review) // what cannot be written, the API server does not wait for
}

func (h *handler) busy(w http.ResponseWriter, start time.Time) {
	h.Log.Error("review failed", "error", errBusy)
	h.Observe(Answer{Decision: decision.Error, Duration: time.Since(start)})
	http.Error(w, errBusy.text, int(errBusy.code))
}

// timeout is how long the review may take, by what the API server says in the query.
func timeout(r *http.Request) time.Duration {
	d, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || d <= 0 {
		d = defaultTimeout
	}
	d = min(d, maxTimeout)
	return d - min(d/10, maxMargin)
}

// decode reads a review as the API server's own decoder would: upper and lower case are apart, the last of
// several members counts, and nothing follows.
func decode(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
	if err := utiljson.Unmarshal(body, &review); err != nil {
		return nil, fmt.Errorf("decode the review: %w", err)
	}
	want := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")
	switch got := review.GroupVersionKind(); {
	case got != want:
		return nil, fmt.Errorf("the review is of %q, kind %q: want %q, kind %q", review.APIVersion, review.Kind, want.GroupVersion(), want.Kind)
	case review.Request == nil:
		return nil, errors.New("the review has no request")
	case review.Request.UID == "":
		return nil, errors.New("the review's request has no uid")
	}
	return review.Request, nil
}

// request is what is asked, and what its object says of itself.
type request struct {
	*admissionv1.AdmissionRequest
	object struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name     string            `json:"name"`
			UID      types.UID         `json:"uid"`
			Labels   map[string]string `json:"labels"`
			Deletion *string           `json:"deletionTimestamp"`
		} `json:"metadata"`
	}
}

// readObject reads the metadata of what is created, changed or deleted. One without them has none.
func (q *request) readObject() {
	if raw := q.raw(); raw != nil {
		_ = utiljson.Unmarshal(raw, &q.object)
	}
}

func (q *request) kind() schema.GroupVersionKind { return schema.GroupVersionKind(q.Kind) }

// raw is the object that is reviewed.
func (q *request) raw() []byte {
	if q.Operation == admissionv1.Delete {
		return q.OldObject.Raw
	}
	return q.Object.Raw
}
