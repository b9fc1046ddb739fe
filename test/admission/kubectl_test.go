package admission

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kubetest"
)

// desk is a user of kubectl, and an OPA that the API server asks directly in some
// namespaces and through a tap in others.
type desk struct {
	*kubetest.Cluster
	opa    *opa
	log    *auditLog
	export *export
}

// TestKubectl lets a user of kubectl meet every verdict of OPA, directly and through a
// tap. kubectl says the same both times, the audit log has the same, and the export has
// one record for each review that went through the tap.
func TestKubectl(t *testing.T) {
	d := newDesk(t)
	d.verdicts(t)
	d.engineDown(t)
	d.engineHung(t)
	d.nothingSecret(t)
}

func newDesk(t *testing.T) *desk {
	c := kubetest.Start(t, kubetest.Options{AuditPolicy: auditPolicy})
	ca := testcert.NewCA(t)
	k := dockettest.New(t)
	d := &desk{Cluster: c, opa: startOPA(t, ca), log: &auditLog{path: c.AuditLog}, export: &export{directory: k.ExportDirectory()}}
	k.Start(configuration(k, k.Socket))
	tap := startTap(t, "the tap", tapOptions{
		upstream: "https://" + d.opa.address, upstreamCA: ca.File, certificate: ca.Issue(t, "127.0.0.1"),
		docket: "unix://" + k.Socket, decisions: "allow,deny,warn,error",
	})
	for namespace, address := range map[string]string{"direct": d.opa.address, "tapped": tap.address} {
		install(t, c, ca, namespace, address, "Fail")
		install(t, c, ca, namespace+"-open", address, "Ignore")
	}
	// Records of the probes of install come in order before those of this one.
	d.try("tapped", step{stdin: object("last", "denial"), args: create})
	await(t, "the records of the first requests", func() error {
		for _, r := range d.export.next(t) {
			if r.ResourceName == "last" && r.Decision == denied {
				return nil
			}
		}
		return fmt.Errorf("the last one is not there")
	})
	d.log.next(t)
	return d
}

var create = []string{"create", "-f", "-"}

// step is one run of kubectl, and the record of each webhook that is asked.
type step struct {
	stdin   string
	args    []string
	records []record // less who asked, and for what
}

// try runs kubectl in a namespace and returns all that it says.
func (d *desk) try(namespace string, s step) string {
	out, err := d.Try(s.stdin, append(s.args, "-n", namespace)...)
	if err != nil {
		out += err.Error()
	}
	return strings.ReplaceAll(out, namespace, "NAMESPACE")
}

// expect waits for the records of a step. Any others that come are seen as well, at the
// latest by the next call.
func (d *desk) expect(t *testing.T, what string, want []record) []record {
	t.Helper()
	var got []record
	await(t, "the records of "+what, func() error {
		if got = append(got, d.export.next(t)...); len(got) < len(want) {
			return fmt.Errorf("there are %d, want %d", len(got), len(want))
		}
		return nil
	})
	if g, w := essences(got), essences(want); !slices.Equal(g, w) {
		t.Errorf("%s: got the records\n%s\nwant\n%s", what, strings.Join(g, "\n"), strings.Join(w, "\n"))
	}
	return got
}

// essences are the parts of records that a step expects, sorted.
func essences(records []record) []string {
	var texts []string
	for _, r := range records {
		if r.Decision == failed {
			r.Code = 0 // not the engine's
		}
		texts = append(texts, fmt.Sprintf("%s %s %d %q %q %v %s %d", r.WebhookPath, r.Decision, r.Code, r.Message, r.Warnings, r.AuditAnnotations, r.PatchType, r.PatchBytes))
	}
	slices.Sort(texts)
	return texts
}

const notWanted = "not \"wanted\"\nat all"

// verdicts goes through all of them.
func (d *desk) verdicts(t *testing.T) {
	const patch = `[{"op":"add","path":"/metadata/labels/changed","value":"yes"}]`
	mutated := record{WebhookPath: mutationPath, Decision: allowed}
	passed := record{WebhookPath: validationPath, Decision: allowed}
	refused := record{WebhookPath: validationPath, Decision: denied, Code: 422, Message: notWanted}
	changed := record{WebhookPath: mutationPath, Decision: allowed, PatchType: "JSONPatch", PatchBytes: len(patch)}
	noted := record{
		WebhookPath: validationPath, Decision: warned, Warnings: []string{"think again", "and again"},
		AuditAnnotations: map[string]string{"warnings": "think again\nand again"},
	}
	steps := []struct {
		name string
		step
	}{
		{"allow", step{object("allowed", "nothing"), create, []record{mutated, passed}}},
		{"deny", step{object("denied", "denial"), create, []record{mutated, refused}}},
		{"dry run", step{object("dry", "denial"), append(create, "--dry-run=server"), []record{mutated, refused}}},
		{"warn", step{object("warned", "warning"), append(create, "--warnings-as-errors"), []record{mutated, noted}}},
		{"mutate", step{object("changed", "change"), create, []record{changed, passed}}},
		{"read", step{"", []string{"get", "secret", "changed", "-o", "jsonpath={.metadata.labels}"}, nil}},
		{"update", step{"", []string{"label", "--overwrite", "secret", "allowed", "want=denial"}, []record{mutated, refused}}},
		{"keep", step{object("kept", "stay"), create, []record{mutated, passed}}},
		{"delete", step{"", []string{"delete", "secret", "kept"}, []record{refused}}},
	}
	for _, s := range steps {
		direct := d.try("direct", s.step)
		if tapped := d.try("tapped", s.step); tapped != direct {
			t.Errorf("%s: kubectl says %q through the tap, and %q without it", s.name, tapped, direct)
		}
		for _, r := range d.expect(t, s.name, s.records) {
			if r.RequestUID == "" || r.RequestUsername != "admin" || r.RequestResource != "secrets" || r.ResourceNamespace != "tapped" || r.DurationSeconds <= 0 {
				t.Errorf("%s: the record is %+v", s.name, r)
			}
		}
	}
	// What was decided in the two namespaces differs by their name alone.
	decided := d.decided(t)
	direct := make(tally)
	for v, n := range decided["direct"] {
		v.namespace = "tapped"
		direct[v] = n
	}
	if !maps.Equal(direct, decided["tapped"]) || direct.total() != 5 {
		t.Errorf("the audit log has these decisions through the tap:%s\nand without it:%s", decided["tapped"].examples(), direct.examples())
	}
}

// decided returns the denials, warnings and failures that the audit log has since the
// last call, by namespace.
func (d *desk) decided(t *testing.T) map[string]tally {
	t.Helper()
	decided := make(map[string]tally)
	for _, e := range d.log.next(t) {
		n := decided[e.ObjectRef.Namespace]
		if n == nil {
			n = make(tally)
			decided[e.ObjectRef.Namespace] = n
		}
		for _, webhook := range []string{validation, mutation} {
			if v, ok := e.verdict(webhook); ok {
				n[v]++
			}
		}
		if text := e.Annotations[validation+"/warnings"]; text != "" {
			n[verdict{name: e.ObjectRef.Name, decision: warned, warnings: text, namespace: e.ObjectRef.Namespace}]++
		}
	}
	return decided
}

// engineDown kills OPA. With failurePolicy Fail the API server refuses the request, with
// Ignore it lets it pass and says so: with the tap as without it. The tap has a record of
// each review that had no answer.
func (d *desk) engineDown(t *testing.T) {
	d.opa.Kill()
	d.unanswered(t, "down", http.StatusBadGateway)
	d.opa.Restart()
}

// engineHung stops OPA without ending it: the time of the webhooks is over then.
func (d *desk) engineHung(t *testing.T) {
	d.opa.Freeze()
	d.unanswered(t, "hung", http.StatusGatewayTimeout, 0) // the API server may be the first to give up
	d.opa.Thaw()
}

// unanswered creates objects of which OPA says nothing. Their records have one of the codes.
func (d *desk) unanswered(t *testing.T, how string, codes ...int) {
	t.Helper()
	s := step{stdin: object(how, "nothing"), args: create}
	for _, namespace := range []string{"direct", "tapped"} {
		if said := d.try(namespace, s); !strings.Contains(said, `failed calling webhook "`+mutation) {
			t.Errorf("%s, %s: kubectl says %q, want that the webhook has failed", how, namespace, said)
		}
		if said := d.try(namespace+"-open", s); !strings.Contains(said, "created") {
			t.Errorf("%s, %s: kubectl says %q, want that the object is created", how, namespace, said)
		}
	}
	// The webhook that failed closed was the first, and the other is not asked.
	closed, open := record{WebhookPath: mutationPath, Decision: failed}, record{WebhookPath: validationPath, Decision: failed}
	for _, r := range d.expect(t, how, []record{closed, closed, open}) {
		if r.Failure == "" || r.ResourceName != how || !slices.Contains(codes, r.Code) {
			t.Errorf("%s: the record is %+v", how, r)
		}
	}
	decided := d.decided(t)
	for _, namespace := range []string{"direct", "tapped"} {
		closed, open := decided[namespace].total(), decided[namespace+"-open"].total()
		if closed != 1 || open != 2 {
			t.Errorf("%s, %s: the audit log has %d failures, and %d let pass, want 1 and 2", how, namespace, closed, open)
		}
	}
}

// nothingSecret looks for the password of the objects in the export.
func (d *desk) nothingSecret(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(d.export.directory, "*.ndjson"))
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		if strings.Contains(string(text), password) || strings.Contains(string(text), encodedPassword) {
			t.Errorf("the content of a Secret is in the export")
		}
	}
	if len(files) == 0 {
		t.Error("there is no export")
	}
}
