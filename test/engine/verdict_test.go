package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/test/dockettest"
)

// difference is an answer of docket-webhook that is not Gatekeeper's.
type difference struct {
	change func(*answer) // makes docket-webhook's answer of Gatekeeper's
	why    string
}

// differences are all that there are, by the case of the request.
var differences = map[string]difference{
	"a template that does not compile": {
		func(a *answer) {
			*a = answer{Code: http.StatusUnprocessableEntity, Message: "1 error occurred: template:2: rego_parse_error: unexpected } token\n" +
				"\tviolation[{\"msg\": msg}] { msg := }\n\t                                 ^"}
		},
		"Gatekeeper stores it and says so in its status; docket-webhook tries to compile it first",
	},
	"a constraint without its template": {
		func(a *answer) { a.Message = "template unknown is not enforced" },
		"a template that is there and cannot be loaded is no other case",
	},
	"a constraint with an unknown action": {
		func(a *answer) { a.Code = http.StatusUnprocessableEntity },
		"the mistake is the user's, and 500 is for those of the webhook",
	},
}

// directoryDifferences are those of docket-webhook without a cluster.
var directoryDifferences = map[string]difference{
	"a namespace that is not there": {
		func(a *answer) { *a = answer{Allowed: true, Code: http.StatusOK} },
		"a directory need not have the namespaces; one that is unknown has no labels",
	},
}

// TestGatekeeper asks Gatekeeper and docket-webhook the same: with the policies in a directory, and
// with those of the cluster in which Gatekeeper is. Then both audit that cluster.
func TestGatekeeper(t *testing.T) {
	s := startSite(t)
	t.Run("Directory", func(t *testing.T) {
		known := maps.Clone(differences)
		maps.Copy(known, directoryDifferences)
		s.compare(t, startEngine(t, "--policy-dir", policyDirectory(t)), known)
	})
	t.Run("Cluster", func(t *testing.T) {
		s.compare(t, startEngine(t, "--kubeconfig", s.Kubeconfig, "--beside-gatekeeper", "--operation", "webhook"), differences)
	})
	t.Run("Audit", s.audited)
	t.Run("AuditWithoutViolations", s.clean)
}

// compare asks docket-webhook each request once, and Gatekeeper until it answers as testdata says: in a removal its Rego is
// asked before the object is taken away, or after. Then it finds the records of each request in the export.
func (s *site) compare(t *testing.T, e *engine, known map[string]difference) {
	t.Helper()
	all, answers := requests(t), make(map[string]*admissionv1.AdmissionResponse)
	for i, r := range all {
		review := r.review(t, uid(i))
		var theirs answer
		await(t, "Gatekeeper's answer", func() (err error) {
			if theirs, _, err = s.webhook.ask(review); err == nil {
				err = r.check(theirs)
			}
			return err
		})
		ours, response, err := e.ask(review)
		if err != nil {
			t.Errorf("%s: docket-webhook: %v", r.Case, err)
			continue
		}
		answers[uid(i)] = response
		want := theirs
		if d, ok := known[r.Case]; ok {
			d.change(&want)
			if reflect.DeepEqual(want, theirs) {
				t.Errorf("%s: a difference is declared, and makes none", r.Case)
			}
		}
		if !reflect.DeepEqual(ours, want) {
			t.Errorf("%s:\n  Gatekeeper:     %v\n  docket-webhook: %v", r.Case, theirs, ours)
		}
	}
	for name := range known {
		if !slices.ContainsFunc(all, func(r request) bool { return r.Case == name }) {
			t.Errorf("a difference is declared for %q, which nobody asks", name)
		}
	}
	await(t, "the records", func() error { return recorded(all, answers, e.records(t)) })
	// docket has taken what there is when it has ended.
	e.process.Stop()
	e.docket.Stop()
	if err := recorded(all, answers, e.records(t)); err != nil {
		t.Error(err)
	}
	t.Logf("%d requests, %d records", len(all), len(dockettest.Exported(t, e.docket.ExportDirectory())))
}

func uid(i int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", i) }

// recorded reports requests whose records are not one for each violation, or not those that the
// answer names in its audit annotations.
func recorded(all []request, answers map[string]*admissionv1.AdmissionResponse, records map[string][]decision.Record) error {
	var wrong []error
	for i, r := range all {
		answer, got := answers[uid(i)], records[uid(i)]
		if answer == nil {
			continue // told before
		}
		slices.SortFunc(got, func(a, b decision.Record) int { return cmp.Compare(a.Sequence, b.Sequence) })
		var lines []string
		for _, record := range got {
			if record.Process != decision.Admission || record.Cluster != "test" || record.RequestUID != uid(i) {
				wrong = append(wrong, fmt.Errorf("%s: not a record of this engine: %+v", r.Case, record))
			}
			if record.Decision == decision.Deny {
				lines = append(lines, "["+record.Name+"] "+record.Message)
			}
		}
		want := r.records()
		if !answer.Allowed && answer.Result.Code != http.StatusForbidden {
			want = 1 // it says that nobody was asked
		}
		if len(got) != want {
			wrong = append(wrong, fmt.Errorf("%s: %d records, want %d", r.Case, len(got), want))
			continue
		}
		if len(got) == 0 || got[0].Name == "" {
			continue // no violation
		}
		numbers := fmt.Sprintf("%d-%d", got[0].Sequence, got[len(got)-1].Sequence)
		if len(got) == 1 {
			numbers = fmt.Sprint(got[0].Sequence)
		}
		if a := answer.AuditAnnotations; a["docket-records"] != numbers || a["docket-producer"] == "" {
			wrong = append(wrong, fmt.Errorf("%s: the audit annotations are %v, and the records have the numbers %s", r.Case, a, numbers))
		}
		if said := strings.Join(lines, "\n"); !answer.Allowed && said != answer.Result.Message {
			wrong = append(wrong, fmt.Errorf("%s: the records say %q, and the answer %q", r.Case, said, answer.Result.Message))
		}
	}
	return errors.Join(wrong...)
}
