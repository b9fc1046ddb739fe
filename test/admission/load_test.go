package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

func (l *load) ask(ctx context.Context, r request) (o outcome, err error) {
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": r.name, "labels": labels(r.kind)},
	})
	if err != nil {
		return o, err
	}
	url := l.cluster.Server + "/api/v1/namespaces/" + r.namespace + "/configmaps"
	if r.dryRun {
		url += "?dryRun=All"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(object))
	if err != nil {
		return o, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Impersonate-User", r.user)
	req.Header.Set("Impersonate-Group", "system:masters")
	resp, err := l.client.Do(req)
	if err != nil {
		return o, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return o, err
	}
	var status struct{ Message string }
	if resp.StatusCode != http.StatusCreated {
		if err := json.Unmarshal(body, &status); err != nil {
			return o, fmt.Errorf("%s: %w in %.300s", resp.Status, err, body)
		}
	}
	return outcome{resp.StatusCode, status.Message, warningsOf(resp.Header)}, nil
}

// warningsOf returns the texts of the warnings that an answer carries.
func warningsOf(header http.Header) string {
	var texts []string
	for _, value := range header.Values("Warning") {
		text := strings.TrimPrefix(value, "299 - ")
		if unquoted, err := strconv.Unquote(text); err == nil {
			text = unquoted
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}
