package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/webhook/engine/policy"
)

// DefaultChunkSize is Gatekeeper's, and kubectl's.
const DefaultChunkSize = 500

// reviewTimeout bounds the review of one object, so that no policy holds up a run. It is what
// an API server waits for a webhook by default.
const reviewTimeout = 10 * time.Second

// maxLate is how often a policy may not decide in time before a run asks it no more: each time costs half of reviewTimeout.
const maxLate = 5

// Policies are what objects are reviewed by: a *policy.Set.
type Policies interface {
	Review(context.Context, policy.Request) policy.Verdict
	// Matches reports whether any constraint can match objects of that kind.
	Matches(schema.GroupVersionKind) bool
	States() []policy.State
}

// Kind is a kind of objects that can be listed.
type Kind struct {
	schema.GroupVersionKind
	Resource string // its name in the plural, as in the API server's paths
}

// Lister lists objects. Calls do not overlap, and return promptly once ctx is done.
type Lister interface {
	// Kinds returns the kinds that there are. An error beside them says which are missing. One
	// beside nil says that none is known yet.
	Kinds(ctx context.Context) ([]Kind, error)
	// List returns at most limit objects of a kind: the first ones, or those behind the page
	// whose metadata.continue is token. Errors are those of the API server; that of
	// a token which has expired may bring another one in its status.
	List(ctx context.Context, k Kind, limit int64, token string) (*unstructured.UnstructuredList, error)
	// Namespace returns a namespace, or nil where there is none of that name.
	Namespace(ctx context.Context, name string) (*corev1.Namespace, error)
}

// Config configures runs. Policies and Lister are needed.
type Config struct {
	Policies Policies
	Lister   Lister
	// Client takes the records. In every mode the run waits until they are stored: docket
	// sets its pace. nil: there are none.
	Client *client.Client
	// Found is told of every violation before its record is stored, from one goroutine. It must not
	// keep the record. nil: nobody is told.
	Found func(*decision.Record)
	// Exempt reports whether objects of a namespace, and the namespace itself, are left out.
	// It is asked about "" for other cluster-scoped objects. nil: none is.
	Exempt func(namespace string) bool
	// ChunkSize is how many objects are asked for at a time. 0: DefaultChunkSize.
	ChunkSize int64
	// MatchKindOnly leaves out kinds that no constraint matches.
	MatchKindOnly bool
	Cluster, Pod  string // as records have them
	// Log is told how each run has ended. nil: nobody is told.
	Log *slog.Logger

	previous *uint64 // see decision.Run.Previous
}

// Report is what became of a run.
type Report struct {
	decision.Run
	Objects   uint64                       // reviewed
	Decisions map[decision.Decision]uint64 // violations that were found
	Duration  time.Duration
}

// run is one run under way.
type run struct {
	Config
	report      Report
	faults      faults
	namespaces  map[string]namespace
	late        map[policy.ID]int // how often a policy did not decide in time
	skip        map[string]bool   // templates that are asked no more
	constraints map[constraint]*decision.RunConstraint
	found       uint64 // violations
	pending     []pending
	bytes       int // of pending
	// end is the context of what is stored: done endTimeout after the run's.
	end context.Context
}

// Run reviews every object once and ends with a decision.Run, which is stored like the
// records before it; an error says only that it was not. A run that ctx ends is not
// complete, and its record is tried for endTimeout.
func Run(ctx context.Context, c Config) (Report, error) {
	c.ChunkSize = cmp.Or(c.ChunkSize, DefaultChunkSize)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	start := time.Now()
	r := &run{Config: c, namespaces: map[string]namespace{}, constraints: map[constraint]*decision.RunConstraint{}, late: map[policy.ID]int{}, skip: map[string]bool{}}
	r.report.Decisions = map[decision.Decision]uint64{}
	r.report.Run = decision.Run{EventType: decision.AuditRun, ID: start.UTC().Format(time.RFC3339), Previous: c.previous}
	before := c.Policies.States()
	var cancel context.CancelFunc
	r.end, cancel = later(ctx, endTimeout)
	defer cancel()
	err := r.kinds(ctx)
	if !errors.Is(err, errNotStored) {
		err = cmp.Or(err, r.store())
	}
	if ctx.Err() != nil {
		r.faults.add(decision.Abandoned, "", "the run was ended after %d objects: %v", r.report.Objects, context.Cause(ctx))
	} else if err != nil {
		r.faults.add(decision.LinesLost, "", "the run was ended after %d objects: %v", r.report.Objects, err)
	}
	r.faults.policies(before, c.Policies.States())
	r.conclude()
	r.report.Duration = time.Since(start)
	c.Log.Info("audit has ended", "id", r.report.ID, "complete", r.report.Complete, "reason", r.report.Reason, "detail", r.report.Detail,
		"objects", r.report.Objects, "violations", r.found, "duration", r.report.Duration)
	return r.report, r.storeRun()
}

// kinds reviews the objects of all kinds. An error ends the run.
func (r *run) kinds(ctx context.Context) error {
	var kinds []Kind
	err := retry(ctx, func(ctx context.Context) (err error) {
		kinds, err = r.Lister.Kinds(ctx)
		if kinds != nil && err != nil { // such as one aggregated API that is down
			r.faults.add(decision.NotListed, "", "not all kinds are known: %v", err)
			return nil
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		r.faults.add(decision.NotListed, "", "the kinds are not known: %v", err)
	}
	slices.SortFunc(kinds, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	for _, k := range kinds {
		if r.MatchKindOnly && !r.Policies.Matches(k.GroupVersionKind) {
			continue
		}
		if err := r.kind(ctx, k); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// conclude fills in what the run's record says of all of it.
func (r *run) conclude() {
	run := &r.report.Run
	run.Reported = &r.found
	for _, c := range r.constraints {
		run.Constraints = append(run.Constraints, *c)
	}
	slices.SortFunc(run.Constraints, func(a, b decision.RunConstraint) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	run.Reason, run.Detail = r.faults.verdict()
	run.Complete = run.Reason == decision.AllReviewed
}

// errNotStored ends a run whose records docket does not take: they are what it is for.
var errNotStored = errors.New("docket has not stored the records")

// notStored says why records are not stored.
func notStored(err error) error { return fmt.Errorf("%w: %w", errNotStored, err) }
