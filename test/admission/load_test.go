package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/docket-export/docket/test/kubetest"
)

// kinds are the objects of a load, by what the constraints make of them: one denies
// those without a team, one warns of those without an owner.
var kinds = []string{"bare", "ownerless", "teamless", "complete"}

// labels are the labels of an object of that kind.
func labels(kind string) map[string]string {
	switch kind {
	case "ownerless":
		return map[string]string{"team": "x"}
	case "teamless":
		return map[string]string{"owner": "x"}
	case "complete":
		return map[string]string{"team": "x", "owner": "x"}
	}
	return nil
}

// request is one request of a load: to create a ConfigMap of a name of its own.
type request struct {
	user, namespace, name, kind string
	dryRun                      bool
}

// outcome is what the API server makes of a request.
type outcome struct {
	code     int
	message  string
	warnings string // each in a line of its own
}

// answer is the outcome of one request.
type answer struct {
	request
	outcome
	at  time.Time // when it was there
	err error     // there is no outcome
}

// verdict returns what the webhook has decided.
func (a answer) verdict() verdict {
	v := verdict{user: a.user, operation: "CREATE", resource: "configmaps", namespace: a.namespace, name: a.name, dryRun: a.dryRun}
	v.decide(a.message, gatekeeperWebhook)
	v.warnings = a.warnings
	switch {
	case v.decision == "" && v.warnings != "":
		v.decision = warned
	case v.decision == "":
		v.decision = allowed
	}
	return v
}

// failed is whether the webhook has failed.
func (a answer) failed() bool {
	d := a.verdict().decision
	return d == failed || d == unanswered
}

// load sends requests on a few connections at a time.
type load struct {
	cluster   *kubetest.Cluster
	client    *http.Client
	namespace string
	quit      chan struct{}
	halting   sync.Once
	done      sync.WaitGroup
	sent      atomic.Int64

	mu      sync.Mutex
	answers []answer // guarded by mu
}

// clients is how many of the clients of a load wait for an answer at a time: it keeps two
// processors busy.
const clients = 6

// startLoad sends requests to a namespace, each as one of several users, until the load is stopped.
func startLoad(t *testing.T, c *kubetest.Cluster, client *http.Client, namespace string) *load {
	l := &load{cluster: c, client: client, namespace: namespace, quit: make(chan struct{})}
	for i := range clients {
		l.done.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.quit:
					return
				default:
				}
				l.send(t.Context(), request{
					user: fmt.Sprintf("user-%d", i), namespace: namespace, name: fmt.Sprintf("object-%d-%d", i, n),
					kind: kinds[n%len(kinds)], dryRun: n%7 == 6,
				})
			}
		})
	}
	t.Cleanup(l.halt)
	return l
}

// stop ends the load and returns the answers to all its requests, in order.
func (l *load) stop() []answer {
	l.halt()
	return l.answers
}

// halt ends the load, once.
func (l *load) halt() {
	l.halting.Do(func() { close(l.quit) })
	l.done.Wait()
}

// between returns the answers of that time.
func (l *load) between(from, until time.Time) (some []answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.answers {
		if a.at.After(from) && a.at.Before(until) {
			some = append(some, a)
		}
	}
	return some
}

// awaitMore waits until n requests more are answered.
func (l *load) awaitMore(t *testing.T, n int64) {
	t.Helper()
	want := l.sent.Load() + n
	await(t, "answers to requests", func() error {
		if got := l.sent.Load(); got < want {
			return fmt.Errorf("there are %d, want %d", got, want)
		}
		return nil
	})
}

// send sends one request and keeps its answer.
func (l *load) send(ctx context.Context, r request) answer {
	a := answer{request: r}
	a.outcome, a.err = l.ask(ctx, r)
	a.at = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, a)
	l.sent.Add(1)
	return a
}

// ask sends one request, by client-go.
func (l *load) ask(ctx context.Context, r request) (o outcome, err error) {
	var heard warnings
	client, err := corev1client.NewForConfig(&rest.Config{
		Host: l.cluster.Server, Transport: l.client.Transport, QPS: -1, // as fast as it is answered
		Impersonate:    rest.ImpersonationConfig{UserName: r.user, Groups: []string{"system:masters"}},
		WarningHandler: &heard,
	})
	if err != nil {
		return o, err
	}
	var options metav1.CreateOptions
	if r.dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: r.name, Labels: labels(r.kind)}}
	_, err = client.ConfigMaps(r.namespace).Create(ctx, object, options)
	o = outcome{code: http.StatusCreated, warnings: strings.Join(heard, "\n")}
	if refusal, ok := errors.AsType[*apierrors.StatusError](err); ok {
		o.code, o.message = int(refusal.ErrStatus.Code), refusal.ErrStatus.Message
		return o, nil
	}
	return o, err
}

// warnings are the texts of those that an answer carries. It is a rest.WarningHandler.
type warnings []string

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }
