package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The test's binary is docket-webhook where this is set.
const asProgram = "DOCKET_WEBHOOK_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		Main()
	}
	os.Exit(m.Run())
}

const template = `apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8srequiredlabels}
spec:
  crd: {spec: {names: {kind: K8sRequiredLabels}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: Rego
      source:
        rego: |
          package k8srequiredlabels
          violation[{"msg": msg}] {
            not input.review.object.metadata.labels.team
            msg := sprintf("%v has no team", [input.review.object.metadata.name])
          }
`

const constraint = `apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sRequiredLabels
metadata: {name: team}
spec: {match: {kinds: [{apiGroups: [""], kinds: [Pod, Namespace]}]}}
`

const config = `apiVersion: config.gatekeeper.sh/v1alpha1
kind: Config
metadata: {name: config}
spec: {match: [{processes: [webhook], excludedNamespaces: [builds]}]}
`

// desk is a directory with files, in which commands run.
func desk(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		write(t, name, text)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// object is one as YAML on one line.
func object(kind, namespace, name string) string {
	return "{apiVersion: v1, kind: " + kind + ", metadata: {namespace: '" + namespace + "', name: " + name + "}}"
}

func review(operation, object, oldObject string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","operation":"` + operation + `","name":"web","namespace":"shop",
		"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"userInfo":{"username":"alice"},"object":` + object + `,"oldObject":` + oldObject + `}}`
}

func TestCommands(t *testing.T) {
	desk(t, map[string]string{
		"p/template.yaml":           template,
		"p/constraint.yaml":         constraint,
		"p/config.yaml":             config,
		"broken.yaml":               strings.Replace(template, "sprintf", "sprint", 1) + "---\n" + constraint,
		"bad/broken.yaml":           strings.Replace(template, "sprintf", "sprint", 1),
		"garbage.yaml":              "a: 1\nb: [\n",
		"pod.yaml":                  object("Pod", "shop", "web"),
		"inbuilds.json":             strings.Replace(review("UPDATE", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}`, "null"), "shop", "builds", 1),
		"nothing.json":              review("DELETE", "null", "null"),
		"list.json":                 `{"apiVersion":"v1","kind":"List","items":[` + `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"team":"x"}}},{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}]}`,
		"labelled.yaml":             `{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {team: x}}}`,
		"builds.yaml":               object("Namespace", "", "builds"),
		"shop.yaml":                 object("Namespace", "", "shop"),
		"inbuilds.yaml":             object("Pod", "builds", "web"),
		"update.json":               review("UPDATE", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","uid":"o-1"}}`, "null"),
		"delete.json":               review("DELETE", "null", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","uid":"o-1","labels":{"a":"b"}}}`),
		"deploy/job.yaml":           "{apiVersion: v1, kind: Pod, metadata: {generateName: job-, namespace: shop}}",
		"deploy/kustomization.yaml": "resources: [job.yaml]",
		"norequest.json":            `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
	})
	const denied = "deny: Pod/shop/web: [team] web has no team\n"
	for _, c := range []struct {
		args      string
		in        string
		code      int
		out, errs string // what they begin with, "" for nothing
	}{
		{args: "validate p", out: "1 templates and 1 constraints are valid\n"},
		{args: "validate p/template.yaml p/constraint.yaml", out: "1 templates and 1 constraints are valid\n"},
		{args: "validate broken.yaml", code: 1, out: "broken.yaml:1: ConstraintTemplate/k8srequiredlabels: CompileFailed: "},
		{args: "validate p/constraint.yaml", code: 1, out: "p/constraint.yaml:1: K8sRequiredLabels/team: NoTemplate: "},
		{args: "validate garbage.yaml p", code: 1, out: "garbage.yaml:2: did not find expected node content\n"},
		{args: "validate nowhere", code: 1, out: "nowhere: no such file or directory\n"},
		{args: "validate", code: 2, errs: "docket-webhook validate: missing argument: files or directories with policies\nRun 'docket-webhook validate --help'\n"},

		{args: "review --policy-dir p -f pod.yaml", code: 1, out: denied},
		{args: "review --policy-dir p -f -", in: object("Pod", "shop", "web"), code: 1, out: denied},
		{args: "review --policy-dir p -f labelled.yaml", out: "allow\n"},
		{args: "review --policy-dir p -f labelled.yaml -o json"},
		{args: "review --policy-dir p -f update.json", code: 1, out: denied},
		{args: "review --policy-dir p -f update.json -o json --cluster-name c", code: 1, out: `{"id":"u-1","details":{},"eventType":"violation_admission",`},
		{args: "review --policy-dir p -f delete.json -o json", code: 1, out: `{"id":"u-1","details":{},"eventType":"violation_admission",`},
		{args: "review --policy-dir p -f shop.yaml", code: 1, out: "deny: Namespace/shop: [team] "},
		{args: "review --policy-dir p -f builds.yaml", out: "allow\n"},
		{args: "review --policy-dir p -f inbuilds.yaml", out: "allow\n"},
		{args: "review --policy-dir p -f p/template.yaml", out: "allow\n"},
		{args: "review --policy-dir p -f bad/broken.yaml", code: 1, out: "deny: ConstraintTemplate/k8srequiredlabels: unable to compile modules: "},
		{args: "review --policy-dir p -f bad/broken.yaml -o json", code: 1, out: `{"eventType":"admission_review","message":"unable to compile modules: `},
		{args: "review --policy-dir p -f nothing.json -o json", code: 1, out: `{"id":"u-1","eventType":"admission_review","message":"error reviewing resource web: `},
		{args: "review --policy-dir p -f inbuilds.json", out: "allow\n"},
		{args: "review --policy-dir bad -f pod.yaml", code: 1, errs: "docket-webhook review: bad/broken.yaml:1: ConstraintTemplate/k8srequiredlabels: CompileFailed: "},
		{args: "review --policy-dir p -f norequest.json", code: 2, errs: "docket-webhook review: --file: norequest.json: the AdmissionReview has no request\n"},
		{args: "review --policy-dir p -f garbage.yaml", code: 2, errs: "docket-webhook review: --file: garbage.yaml: "},
		{args: "review --policy-dir p", code: 2, errs: "docket-webhook review: --file: name a file with an AdmissionReview or an object, or - for the standard input\n"},
		{args: "review --policy-dir p -f pod.yaml --kubeconfig k", code: 2, errs: "docket-webhook review: unknown flag: --kubeconfig\n"},
		{args: "review -f pod.yaml", code: 2, errs: "docket-webhook review: --policy-dir is required"},
		{args: "review --policy-dir p -f pod.yaml -o yaml", code: 2, errs: `docket-webhook review: --output: must be text or json, not "yaml"`},

		{args: "audit --once --policy-dir p --manifests list.json", code: 1, out: "deny: Pod/b: [team] b has no team\n2 objects, 1 violations\n"},
		{args: "audit --once --policy-dir p --manifests labelled.yaml --manifests inbuilds.yaml", code: 1, out: "deny: Pod/builds/web: [team] "},
		{args: "audit --once --policy-dir p --manifests labelled.yaml", out: "1 objects, 0 violations\n"},
		{args: "audit --once --policy-dir p --manifests labelled.yaml --manifests garbage.yaml --log-level error", code: 1, out: "1 objects, 0 violations\n", errs: "docket-webhook audit: not everything was reviewed: NotListed: "},
		{args: "audit --once --policy-dir p --manifests pod.yaml --manifests garbage.yaml --log-level error", code: 1, out: denied + "1 objects, 1 violations\n", errs: "docket-webhook audit: not everything was reviewed: NotListed: "},
		{args: "audit --once --policy-dir p --manifests labelled.yaml -o json", out: `{"eventType":"docket.audit.run",`},
		{args: "audit --once --policy-dir p --manifests labelled.yaml --manifests garbage.yaml --log-level error -o json", code: 1, out: `{"eventType":"docket.audit.run",`, errs: "docket-webhook audit: not everything was reviewed: NotListed: "},
		{args: "audit --once --policy-dir p --manifests deploy", out: "1 objects, 0 violations\n"},
		{args: "audit --policy-dir p", code: 2, errs: "docket-webhook audit: --once is required"},
		{args: "audit --once", code: 2, errs: "docket-webhook audit: no policies: name a directory with --policy-dir"},

		{args: "version", out: "docket-webhook devel go"},
		{args: "", code: 2, errs: "docket-webhook: no policies: name a directory with --policy-dir or, outside of a pod, a cluster with --kubeconfig\n"},
		{args: "serve", code: 2, errs: `docket-webhook: unexpected argument "serve"`},
		{args: "--policy-dir nowhere", code: 2, errs: "docket-webhook: --policy-dir: open nowhere: no such file or directory: name a directory"},
		{args: "--policy-dir p --cert-dir nowhere", code: 2, errs: "docket-webhook: --cert-dir: open nowhere: no such file or directory: mount the Secret with tls.crt and tls.key there or, to try it out, add --cert-dir certs --self-signed\n"},
		{args: "--policy-dir p --operation audit", code: 2, errs: "docket-webhook: --operation audit needs a cluster, and with --policy-dir there is none: see docket-webhook audit --once\n"},
		{args: "--audit-interval -1", code: 2, errs: "docket-webhook: --audit-interval: must be seconds, or 0 for no audit, not -1\n"},
		{args: "--audit-chunk-size -1", code: 2, errs: "docket-webhook: --audit-chunk-size: must be a number of objects, not -1\n"},
		{args: "--operation mutate", code: 2, errs: `docket-webhook: --operation: must be webhook, audit or status, not "mutate"`},
		{args: "--policy-dir p --cert-dir p --cache-dir pod.yaml", code: 2, errs: "docket-webhook: --cache-dir: "},
		{args: "--policy-dir p --cert-dir p --on-policy-error Die --docket-address= --log-level error", code: 2, errs: `docket-webhook: --on-policy-error: `},
		{args: "--policy-dir p --cert-dir p --docket-address nowhere", code: 2, errs: `docket-webhook: --docket-address, --docket-mode: `},
		{args: "--policy-dir p --cert-dir p --health-addr 256.0.0.1:1 --docket-address= --log-level error", code: 1, errs: `docket-webhook: --health-addr: listen tcp`},
	} {
		var out, errs bytes.Buffer
		code := Execute(context.Background(), strings.Fields(c.args), strings.NewReader(c.in), &out, &errs)
		matches := func(got, want string) bool { return strings.HasPrefix(got, want) && (got == "") == (want == "") }
		if code != c.code || !matches(out.String(), c.out) || !matches(errs.String(), c.errs) {
			t.Errorf("docket-webhook %s\ngot %d and\n%s%swant %d and\n%s\n%s", c.args, code, &out, &errs, c.code, c.out, c.errs)
		}
	}
}

// A record of a request has what the request says, that of a DELETE what is deleted.
func TestReviewRecord(t *testing.T) {
	desk(t, map[string]string{
		"p/policy.yaml": template + "---\n" + constraint,
		"delete.json":   review("DELETE", "null", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","uid":"o-1","labels":{"a":"b"}}}`),
	})
	var out, errs bytes.Buffer
	if code := Execute(context.Background(), strings.Fields("review --policy-dir p -f delete.json -o json --cluster-name c"), nil, &out, &errs); code != 1 {
		t.Fatalf("got %d, want 1:\n%s%s", code, &out, &errs)
	}
	for _, want := range []string{
		`"operation":"DELETE"`, `"requestResource":"pods"`, `"requestUsername":"alice"`, `"decision":"deny"`, `"process":"admission"`, `"cluster":"c"`,
		`"resourceLabels":{"a":"b"}`, `"resourceUID":"o-1"`, `"resourceNamespace":"shop"`, `"template":"k8srequiredlabels"`, `"schemaVersion":1`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %swant %s in it", &out, want)
		}
	}
}
