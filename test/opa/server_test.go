package opa

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"text/template"

	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/server"
	"github.com/docket-export/docket/test/opatest"
)

var (
	//go:embed testdata/config.yaml.tmpl
	configuration string
	//go:embed testdata/policy.rego
	policy []byte
)

// upload is how OPA keeps and sends its decisions.
type upload struct{ Buffer, Trigger string }

// engine is an OPA that sends its decisions to docket, and writes them to its log as
// well before it does.
type engine struct {
	server.Server
	address string
}

// startEngine starts an OPA that gives docket so many seconds for an answer: one that
// comes later is none, and the decisions are sent again.
func startEngine(t *testing.T, docket string, u upload, seconds int) *engine {
	t.Helper()
	program := opatest.Program(t)
	addresses, err := freeport.Loopback(1)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config, rules := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "policy.rego")
	var text bytes.Buffer
	if err := template.Must(template.New("").Parse(configuration)).Execute(&text, struct {
		Docket  string
		Seconds int
		upload
	}{docket, seconds, u}); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{config: text.Bytes(), rules: policy} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e := &engine{address: addresses[0], Server: server.Server{
		Name:    "OPA",
		Program: program,
		// What it has not sent when the grace period is over is lost.
		Args: []string{"run", "--server", "--addr", addresses[0], "--config-file", config, "--skip-version-check",
			"--shutdown-grace-period", "60", rules},
		Log: filepath.Join(dir, "opa.log"),
	}}
	e.Ready = func() error {
		resp, err := http.Get("http://" + e.address + "/health")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET /health: %s", resp.Status)
		}
		return nil
	}
	e.Start(t)
	return e
}

// decide asks for one decision and returns its id.
func (e *engine) decide(client *http.Client, input any) (id string, err error) {
	body, err := json.Marshal(map[string]any{"input": input})
	if err != nil {
		return "", err
	}
	resp, err := client.Post("http://"+e.address+"/v1/data/authz", "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		DecisionID string `json:"decision_id"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("read a decision: %w", err)
	}
	if answer.DecisionID == "" {
		return "", fmt.Errorf("%s: an answer without an id", resp.Status)
	}
	return answer.DecisionID, nil
}
