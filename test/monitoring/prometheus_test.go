package monitoring

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/docket-export/docket/test/internal/debian"
	"github.com/docket-export/docket/test/internal/server"
)

// prometheus is a real one. It scrapes the targets of a file, which it reads again when
// that changes, and evaluates rules.
type prometheus struct {
	address string
	dir     string
	http    http.Client
}

// startPrometheus starts one that listens at address, for the rules and the job given as
// YAML. prefix is what runs it in another place, such as "ip netns exec NAME".
func startPrometheus(t *testing.T, address, rules, job string, prefix ...string) *prometheus {
	t.Helper()
	p := &prometheus{address: address, dir: t.TempDir(), http: http.Client{Timeout: 30 * time.Second}}
	p.write(t, "rules.yaml", rules)
	p.target(t)
	p.write(t, "prometheus.yml", `global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [rules.yaml]
scrape_configs:
`+job)
	command := slices.Concat(prefix, []string{debian.Program(t, "prometheus"),
		"--config.file=" + filepath.Join(p.dir, "prometheus.yml"),
		"--storage.tsdb.path=" + filepath.Join(p.dir, "data"),
		"--web.listen-address=" + address})
	(&server.Server{Name: "Prometheus", Program: command[0], Args: command[1:], Ready: p.ready}).Start(t)
	return p
}

func (p *prometheus) write(t *testing.T, name, text string) {
	t.Helper()
	// By rename: it is read again when it changes, and never half of it.
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// target is one docket to scrape, and its label instance.
type target struct{ address, instance string }

// target makes these the targets of the file.
func (p *prometheus) target(t *testing.T, targets ...target) {
	t.Helper()
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	groups := []group{}
	for _, to := range targets {
		groups = append(groups, group{[]string{to.address}, map[string]string{"instance": to.instance}})
	}
	text, err := json.Marshal(groups)
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "targets.json", string(text))
}

func (p *prometheus) ready() error {
	resp, err := p.http.Get("http://" + p.address + "/-/ready")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ready: %s", resp.Status)
	}
	return nil
}

// get asks the API and decodes its data.
func (p *prometheus) get(path string, query url.Values, data any) error {
	resp, err := p.http.Get("http://" + p.address + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Error string          `json:"error"`
		Data  json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %w in %.300s", path, err, body)
	}
	if answer.Error != "" {
		return fmt.Errorf("%s %v: %s", path, query, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// sample is one element of the answer to a query.
type sample struct {
	labels map[string]string
	value  float64
}

// query evaluates an expression now. Scalars and strings are one sample without labels.
func (p *prometheus) query(expr string) ([]sample, error) {
	var data struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	if err := p.get("query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	if data.ResultType != "vector" {
		return nil, fmt.Errorf("query %s: got a %s, want a vector", expr, data.ResultType)
	}
	var vector []struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"`
	}
	if err := json.Unmarshal(data.Result, &vector); err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	var samples []sample
	for _, v := range vector {
		text, _ := v.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("query %s: %w", expr, err)
		}
		samples = append(samples, sample{v.Metric, value})
	}
	return samples, nil
}

// alert is an alert that is pending or firing.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       string            `json:"state"`
}

func (p *prometheus) alerts() ([]alert, error) {
	var data struct {
		Alerts []alert `json:"alerts"`
	}
	err := p.get("alerts", nil, &data)
	return data.Alerts, err
}
