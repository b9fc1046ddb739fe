package admission

import (
	"bytes"
	"crypto/tls"
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/server"
	"github.com/docket-export/docket/test/kubetest"
	"github.com/docket-export/docket/test/opatest"
)

var (
	//go:embed testdata/policy.rego
	policy []byte
	//go:embed testdata/webhooks.yaml.tmpl
	webhooks string
)

// The webhooks of a namespace, and the paths that they are called by.
const (
	validation, validationPath = "validation.opa.test", "/v0/data/admission/validating"
	mutation, mutationPath     = "mutation.opa.test", "/v0/data/admission/mutating"
)

// opa is an Open Policy Agent that serves admission webhooks.
type opa struct {
	server.Server
	address string
}

func startOPA(t *testing.T, ca testcert.CA) *opa {
	t.Helper()
	addresses, err := freeport.Loopback(1)
	must(t, err)
	rules := filepath.Join(t.TempDir(), "policy.rego")
	must(t, os.WriteFile(rules, policy, 0o600))
	pair := ca.Issue(t, "127.0.0.1")
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: ca.Pool}, DisableKeepAlives: true,
	}}
	o := &opa{address: addresses[0], Server: server.Server{
		Name:    "OPA",
		Program: opatest.Program(t),
		Args: []string{"run", "--server", "--addr", addresses[0], "--skip-version-check",
			"--tls-cert-file", pair.CertFile, "--tls-private-key-file", pair.KeyFile, rules},
	}}
	o.Ready = func() error { return getOK(client, "https://"+o.address+"/health") }
	o.Start(t)
	return o
}

// install makes a namespace and its webhooks, which are called at the address.
func install(t *testing.T, c *kubetest.Cluster, ca testcert.CA, namespace, address, failurePolicy string) {
	t.Helper()
	c.Kubectl("create", "namespace", namespace)
	var manifests bytes.Buffer
	must(t, template.Must(template.New("").Parse(webhooks)).Execute(&manifests, map[string]string{
		"Namespace": namespace, "Address": address, "FailurePolicy": failurePolicy,
		"CA": base64.StdEncoding.EncodeToString([]byte(ca.PEM)),
	}))
	c.Apply(manifests.String())
	await(t, "the API server to call the webhooks", func() error {
		_, err := c.Try(object("probe", "denial"), "create", "--dry-run=server", "-n", namespace, "-f", "-")
		switch {
		case err == nil:
			return fmt.Errorf("%s does not deny", validation)
		case !strings.Contains(err.Error(), validation):
			return err
		}
		out, err := c.Try(object("probe", "change"), "create", "--dry-run=server", "-n", namespace, "-o", "yaml", "-f", "-")
		if err == nil && !strings.Contains(out, "changed") {
			return fmt.Errorf("%s changes nothing", mutation)
		}
		return err
	})
}

// object is the manifest of a Secret that wants that of the policy.
func object(name, want string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, labels: {want: %s}}\nstringData: {password: %s}\n", name, want, password)
}

// password is in every object, and in no record.
const password = "correct-horse-battery-staple"

// encodedPassword is the form in which an admission review has it.
var encodedPassword = base64.StdEncoding.EncodeToString([]byte(password))
