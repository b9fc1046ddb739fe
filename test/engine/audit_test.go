package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kubetest"
)

// auditRun is what is exported of an audit: its violations, sorted, and its end.
type auditRun struct {
	violations []string
	end        decision.Run
}

// violation is what Gatekeeper and docket-webhook both say of one.
func violation(r *decision.Record) string {
	return fmt.Sprintf("%s %s: %s %s/%s %s/%s: %s %v: %s %s", r.Kind, r.Name, r.ResourceKind, r.ResourceGroup, r.ResourceAPIVersion,
		r.ResourceNamespace, r.ResourceName, r.EnforcementAction, r.EnforcementActions, r.Message, r.Details)
}

// audit runs docket-webhook audit --once, and returns its exit code and what docket has got of it.
func audit(t *testing.T, args ...string) (code int, got auditRun) {
	t.Helper()
	d := dockettest.New(t)
	d.Start(d.Config(dockettest.UnixSource("engine", d.Socket)))
	cmd := exec.CommandContext(t.Context(), program, append([]string{"audit", "--once", "--docket-address", "unix://" + d.Socket}, args...)...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	d.Stop()
	ends := 0
	for _, line := range dockettest.Exported(t, d.ExportDirectory()) {
		var r decision.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.EventType == decision.AuditRun {
			ends++
			if err := json.Unmarshal([]byte(line), &got.end); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if ends > 0 || r.Process != decision.Audit || r.Timestamp.IsZero() {
			t.Errorf("not a violation of the run: %s", line)
		}
		got.violations = append(got.violations, violation(&r))
	}
	if ends != 1 {
		t.Fatalf("%d records end the run, want one; docket-webhook said:\n%s", ends, out)
	}
	slices.Sort(got.violations)
	return cmd.ProcessState.ExitCode(), got
}

// audited compares the violations that both find.
func (s *site) audited(t *testing.T) {
	want := s.gatekeeperAudit(t)
	if len(want) < 10 {
		t.Fatalf("Gatekeeper finds %d violations, which is no comparison: %q", len(want), want)
	}
	code, got := audit(t, "--policy-dir", policyDirectory(t), "--kubeconfig", s.Kubeconfig)
	if code != 1 {
		t.Errorf("the exit code is %d, want 1", code)
	}
	if !got.end.Complete || got.end.Violations != uint64(len(got.violations)) {
		t.Errorf("the run of %d violations ends with %+v", len(got.violations), got.end)
	}
	for _, v := range want {
		if !slices.Contains(got.violations, v) {
			t.Errorf("Gatekeeper alone finds %s", v)
		}
	}
	for _, v := range got.violations {
		if !slices.Contains(want, v) {
			t.Errorf("docket-webhook alone finds %s", v)
		}
	}
	t.Logf("%d violations", len(want))
}

// gatekeeperAudit returns the violations of an audit of Gatekeeper that begins after the call.
func (s *site) gatekeeperAudit(t *testing.T) (violations []string) {
	t.Helper()
	began := time.Now()
	await(t, "an audit of Gatekeeper", func() error {
		// It gives a file its last name when it is whole.
		files, err := filepath.Glob(filepath.Join(s.gatekeeper.Export, kubetest.AuditChannel, "*.log"))
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			violations = violations[:0]
			for line := range strings.Lines(string(text)) {
				var r decision.Record
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					return err
				}
				if id, err := time.Parse(time.RFC3339, r.ID); err != nil || id.Before(began) {
					break
				}
				if r.EventType == decision.ViolationAudited {
					violations = append(violations, violation(&r))
				}
			}
			if len(violations) > 0 {
				slices.Sort(violations)
				return nil
			}
		}
		return fmt.Errorf("%d files, none of an audit since %v with violations", len(files), began)
	})
	return violations
}

// clean audits with a policy that finds nothing: a run without violations is complete, which a reader of
// Gatekeeper's export cannot know.
func (s *site) clean(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(read(t, "policies", "both.yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	code, got := audit(t, "--policy-dir", dir, "--kubeconfig", s.Kubeconfig)
	if code != 0 || !got.end.Complete || got.end.Violations != 0 || len(got.violations) > 0 {
		t.Errorf("exit code %d and %d violations, want none; the run ends with %+v", code, len(got.violations), got.end)
	}
}
