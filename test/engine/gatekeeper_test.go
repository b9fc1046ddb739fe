package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/kubetest"
)

// awaitTimeout bounds what takes seconds at most, on a machine that is busy with more.
const awaitTimeout = 5 * time.Minute

func await(t testing.TB, what string, ok func() error) {
	t.Helper()
	if err := poll.Until(awaitTimeout, ok); err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}

// read returns a file of testdata.
func read(t testing.TB, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// policies returns the templates of testdata, and their constraints.
func policies(t testing.TB) (templates, constraints []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "policies", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("there are no policies", err)
	}
	for _, file := range files {
		for _, manifest := range strings.Split(read(t, "policies", filepath.Base(file)), "\n---\n") {
			if strings.Contains(manifest, "\nkind: ConstraintTemplate\n") {
				templates = append(templates, manifest)
			} else {
				constraints = append(constraints, manifest)
			}
		}
	}
	return templates, constraints
}

// site is a cluster with the objects and policies of testdata and a Gatekeeper.
type site struct {
	*kubetest.Cluster
	gatekeeper *kubetest.Gatekeeper
	webhook    *webhook // Gatekeeper's
}

// startSite returns when Gatekeeper's answers are those that testdata says.
func startSite(t testing.TB) *site {
	t.Helper()
	s := &site{Cluster: kubetest.Start(t, kubetest.Options{})}
	// Nobody is asked about these.
	s.Apply(read(t, "objects.yaml"))
	s.gatekeeper = s.StartGatekeeper(kubetest.GatekeeperOptions{AuditSeconds: 5, MaxAuditResults: 5})
	s.webhook = newWebhook(t, s.gatekeeper.Address, kubetest.WebhookName, s.gatekeeper.CA.Pool)
	templates, constraints := policies(t)
	s.Apply(read(t, "settings.yaml"))
	s.Apply(strings.Join(templates, "\n---\n"))
	s.Apply(strings.Join(constraints, "\n---\n"))
	await(t, "Gatekeeper's answers to be those of testdata", func() error {
		var wrong []error
		for _, r := range requests(t) {
			got, _, err := s.webhook.ask(r.review(t, "await"))
			if err == nil {
				err = r.check(got)
			}
			wrong = append(wrong, err)
		}
		return errors.Join(wrong...)
	})
	return s
}

// check compares an answer with what testdata says of it.
func (r *request) check(got answer) error {
	deny, warn := constraints(strings.Split(got.Message, "\n")...), constraints(got.Warnings...)
	if got.Code != r.Code || !slices.Equal(deny, r.Deny) || !slices.Equal(warn, r.Warn) {
		return fmt.Errorf("%s: got code %d, denied by %v, warned by %v; want %d, %v, %v\n%v", r.Case, got.Code, deny, warn, r.Code, r.Deny, r.Warn, got)
	}
	return nil
}
