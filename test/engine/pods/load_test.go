package pods

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/docket-export/docket/decision"
)

// load asks the API server for ConfigMaps as fast as it answers, every other one without a team, in
// dry runs.
type load struct {
	quit chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	denied []string // names; guarded by mu
	passed int      // guarded by mu
	wrong  []string // answers that are not those of the policies; guarded by mu
}

// clients are few: the API server, the kubelet and the webhook share the processors with them.
const clients = 4

// startLoad starts a load whose objects have names that begin so.
func (i *installation) startLoad(t *testing.T, name string) *load {
	t.Helper()
	l := &load{quit: make(chan struct{})}
	client := i.Node.Client(t)
	for c := range clients {
		l.done.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.quit:
					return
				default:
					l.ask(client, i.Name, fmt.Sprintf("%s-%d-%d", name, c, n), n%2 == 0)
				}
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

// ask makes one request, which is to be denied or not.
func (l *load) ask(client *http.Client, namespace, name string, deny bool) {
	labels := `"team": "x"`
	if deny {
		labels = ""
	}
	object := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q, "labels": {%s}}}`, name, labels)
	code, message, err := post(client, "/api/v1/namespaces/"+namespace+"/configmaps?dryRun=All", object)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && deny && code == http.StatusForbidden && strings.Contains(message, "[team-required]"):
		l.denied = append(l.denied, name)
	case err == nil && !deny && code == http.StatusCreated:
		l.passed++
	default:
		l.wrong = append(l.wrong, fmt.Sprintf("%s: to be denied: %t, got %d %s %v", name, deny, code, message, err))
	}
}

// post sends an object to the API server and returns its status, and what it said in a refusal.
func post(client *http.Client, path, object string) (code int, message string, err error) {
	resp, err := client.Post("https://127.0.0.1:6443"+path, "application/json", strings.NewReader(object))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	var status struct{ Message string }
	err = json.NewDecoder(resp.Body).Decode(&status)
	return resp.StatusCode, status.Message, err
}

// so returns how many requests were denied, passed and went wrong so far.
func (l *load) so() (denied, passed, wrong int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.denied), l.passed, len(l.wrong)
}

// stop ends the load. It may be called more than once.
func (l *load) stop() {
	select {
	case <-l.quit:
	default:
		close(l.quit)
	}
	l.done.Wait()
}

// flawless stops the load, and fails unless each request got the answer of the policies and each denial is
// once among the lines.
func (l *load) flawless(t *testing.T, i *installation, lines func() []string) {
	t.Helper()
	l.stop()
	if n := len(l.wrong); n > 0 {
		t.Errorf("%d requests went wrong: %.1000q", n, l.wrong[:min(n, 5)])
	}
	i.Await("the records of all denials", func() error { return exported(lines(), l.denied) })
	t.Logf("%d requests denied and exported, %d passed, %d wrong", len(l.denied), l.passed, len(l.wrong))
}

// exported reports which of the denials do not have exactly one record.
func exported(lines, denied []string) error {
	count := make(map[string]int)
	for _, line := range lines {
		var r decision.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return err
		}
		if r.Decision == decision.Deny && r.Process == decision.Admission && r.RequestUID != "" {
			count[r.ResourceName]++
		}
	}
	var wrong []string
	for _, name := range denied {
		if count[name] != 1 {
			wrong = append(wrong, fmt.Sprintf("%s: %d", name, count[name]))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d denials have more records than one, or none: %.300q", len(wrong), len(denied), wrong)
	}
	return nil
}

// waitAnswers waits until the load has got so many more answers of each kind.
func (i *installation) waitAnswers(l *load, n int) {
	denied, passed, _ := l.so()
	i.Await("answers to the load", func() error {
		if d, p, _ := l.so(); d < denied+n || p < passed+n {
			return errors.New("too few")
		}
		return nil
	})
}
