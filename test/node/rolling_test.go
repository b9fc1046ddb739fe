package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// rolled replaces both pods of the webhook under a load of requests: each gets the answer of Gatekeeper, and
// each denial is exported once.
func (g *gatekeeper) rolled(t *testing.T) {
	t.Helper()
	old := strings.Fields(g.Kubectl("get", "pods", "-l=gatekeeper.sh/operation=webhook", "-o", "name"))
	if len(old) != 2 {
		t.Fatalf("the webhook has the pods %v, want two", old)
	}
	began := time.Now()
	l := g.startLoad(t)
	g.Kubectl("rollout", "restart", "deployment/gatekeeper-controller-manager")
	g.Kubectl("rollout", "status", "deployment/gatekeeper-controller-manager", "--timeout=10m")
	g.Kubectl(append([]string{"wait", "--for=delete", "--timeout=10m"}, old...)...)
	denied, wrong := l.stop()
	if len(wrong) > 0 {
		t.Errorf("%d answers are not Gatekeeper's: %.300q", len(wrong), wrong)
	}
	t.Logf("the pods were replaced in %.0f s: %d requests denied, and as many admitted", time.Since(began).Seconds(), len(denied))
	g.Await("the records of all denials", func() error {
		exported := make(map[string]int)
		for _, v := range violationsIn(g.siem.Lines()) {
			switch {
			case v.EventType == "docket.loss":
				t.Fatal("docket tells of a loss")
			case v.Decision == "deny" && strings.HasPrefix(v.ResourceName, "roll-"):
				exported[v.ResourceName]++
			}
		}
		for _, name := range denied {
			if exported[name] != 1 {
				return fmt.Errorf("%s was denied once and has %d records; %d of %d have one", name, exported[name], len(exported), len(denied))
			}
		}
		if len(exported) != len(denied) {
			return fmt.Errorf("%d records of %d denials", len(exported), len(denied))
		}
		return nil
	})
}

// load asks the API server for ConfigMaps, every other one without a team, in dry runs.
type load struct {
	quit chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	denied []string // names; guarded by mu
	wrong  []string // answers that Gatekeeper does not give; guarded by mu
}

// startLoad sends some 200 requests a second until the load is stopped.
func (g *gatekeeper) startLoad(t *testing.T) *load {
	t.Helper()
	const clients = 4
	l := &load{quit: make(chan struct{})}
	client := g.Node.Client(t)
	for i := range clients {
		l.done.Go(func() {
			tick := time.NewTicker(clients * 5 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-l.quit:
					return
				case <-tick.C:
					l.ask(client, g.shop.Name, fmt.Sprintf("roll-%d-%d", i, n), n%2 == 0)
				}
			}
		})
	}
	return l
}

// ask makes one request, which Gatekeeper is to deny or not.
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

// stop ends the load and returns the names that were denied, and the answers that were wrong.
func (l *load) stop() (denied, wrong []string) {
	close(l.quit)
	l.done.Wait()
	return slices.Clone(l.denied), l.wrong
}
