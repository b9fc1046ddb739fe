package destinations

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/internal/artifact"
	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/server"
)

// collectorVersion is the release that collector.builder.yaml asks for.
const collectorVersion = "0.155.0"

var (
	//go:embed testdata/collector.builder.yaml
	collectorBuilder []byte
	//go:embed testdata/collector.yaml.tmpl
	collectorConfig string
)

// startCollector starts an OpenTelemetry collector that passes on what it gets, as
// OTLP in JSON, to the address to.
func startCollector(t *testing.T, to string) *httpServer {
	t.Helper()
	program := collectorProgram(t)
	addresses, err := freeport.Loopback(1)
	if err != nil {
		t.Fatal(err)
	}
	config := writeTemplate(t, collectorConfig, struct{ Address, To string }{addresses[0], to})
	s := &httpServer{address: addresses[0], Server: server.Server{
		Name:    "the collector",
		Program: program,
		Args:    []string{"--config", "file:" + config},
	}}
	s.Ready = func() error {
		_, err := s.ask(http.MethodPost, "/v1/logs", "{}", http.Header{"Content-Type": {"application/json"}})
		return err
	}
	s.Start(t)
	return s
}

func collectorProgram(t *testing.T) string {
	t.Helper()
	dir := artifact.Artifact{
		Name:    "otelcol-" + collectorVersion,
		What:    "the OpenTelemetry collector " + collectorVersion,
		Recipe:  collectorBuilder,
		Seconds: 120,
		Make:    makeCollector,
	}.Dir(t)
	return filepath.Join(dir, "otelcol")
}

func makeCollector(ctx context.Context, dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "builder.yaml"), collectorBuilder, 0o644); err != nil {
		return err
	}
	err := artifact.Run(ctx, dir, "go", "run", "go.opentelemetry.io/collector/cmd/builder@v"+collectorVersion, "--config", "builder.yaml")
	if err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "source", "otelcol"), filepath.Join(dir, "otelcol"))
}

// otlpLogs is what a receiver of OTLP in JSON gets.
type otlpLogs struct {
	ResourceLogs []struct {
		Resource  struct{ Attributes otlpAttributes }
		ScopeLogs []struct {
			LogRecords []struct {
				Body       struct{ StringValue string }
				Attributes otlpAttributes
			}
		}
	}
}

type otlpAttributes []struct {
	Key   string
	Value struct{ StringValue, IntValue string }
}

// get returns the value of the attribute of that name, "" if there is none.
func (a otlpAttributes) get(key string) string {
	for _, attribute := range a {
		if attribute.Key == key {
			return attribute.Value.StringValue + attribute.Value.IntValue
		}
	}
	return ""
}

// decodeOTLP takes a request of OTLP in JSON apart, and checks what docket says
// beside each record.
func decodeOTLP(body []byte) ([]arrival, error) {
	var logs otlpLogs
	if err := json.Unmarshal(body, &logs); err != nil {
		return nil, err
	}
	var got []arrival
	for _, resource := range logs.ResourceLogs {
		if name := resource.Resource.Attributes.get("service.name"); name != "docket" {
			return nil, fmt.Errorf("service.name is %q, want docket", name)
		}
		for _, scope := range resource.ScopeLogs {
			for _, record := range scope.LogRecords {
				id, has := record.Attributes.get("log.record.uid"), record.Attributes.get
				if has("docket.id") != id || !strings.HasSuffix(id, "-"+has("docket.seq")) || has("docket.source") != "webhook" {
					return nil, fmt.Errorf("the attributes are %+v, want docket's id, seq and source", record.Attributes)
				}
				got = append(got, arrival{id: id, record: record.Body.StringValue})
			}
		}
	}
	return got, nil
}
