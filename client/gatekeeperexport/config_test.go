package gatekeeperexport

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

// config is the config of a Connection as Kubernetes hands it over.
func config(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParseConfig(t *testing.T) {
	tests := map[string]struct {
		config string
		want   client.Config
	}{
		"least": {
			`{"address":"unix:///run/docket/docket.sock"}`,
			client.Config{Address: "unix:///run/docket/docket.sock", Producer: "gatekeeper/audit-7d9f", Mode: client.BlockingStrict, Timeout: 3 * time.Second, Keep: defaults().Keep},
		},
		"everything": {
			`{"address":"tcp://docket.example.test:7443","producer":"gatekeeper/audit-channel","mode":"Batch","timeout":"250ms",
			  "maxBufferedBytes":"16Mi","keep":["warn","deny"],
			  "tls":{"caFile":"/c/ca","certFile":"/c/crt","keyFile":"/c/key","serverName":"docket"}}`,
			client.Config{
				Address: "tcp://docket.example.test:7443", Producer: "gatekeeper/audit-channel/audit-7d9f",
				Mode: client.Batch, Timeout: 250 * time.Millisecond, MaxBufferedBytes: 16 << 20,
				Keep: []decision.Decision{decision.Warn, decision.Deny},
				TLS:  &client.TLSConfig{CAFile: "/c/ca", CertFile: "/c/crt", KeyFile: "/c/key", ServerName: "docket"},
			},
		},
		"number of bytes and CAs of the system": {
			`{"address":"tcp://docket.example.test:7443","maxBufferedBytes":1000000,"tls":{}}`,
			client.Config{
				Address: "tcp://docket.example.test:7443", Producer: "gatekeeper/audit-7d9f", Mode: client.BlockingStrict,
				Timeout: 3 * time.Second, Keep: defaults().Keep, MaxBufferedBytes: 1000000, TLS: &client.TLSConfig{},
			},
		},
		"null is absent": {
			`{"address":"unix:///s","producer":null,"mode":null,"timeout":null,"maxBufferedBytes":null,"keep":null,"tls":null}`,
			client.Config{Address: "unix:///s", Producer: "gatekeeper/audit-7d9f", Mode: client.BlockingStrict, Timeout: 3 * time.Second, Keep: defaults().Keep},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseConfig(config(t, tt.config), "audit-7d9f")
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestParseConfigReports(t *testing.T) {
	const good = `"address":"unix:///s"`
	tests := map[string]struct{ config, want string }{
		"no mapping": {`"unix:///s"`, "cannot unmarshal string into Go value"},
		"nothing":    {`null`, "address: must be given, such as unix:///run/docket/docket.sock"},
		"no address": {`{"address":""}`, "address: must be given, such as unix:///run/docket/docket.sock"},
		"a number":   {`{"address":1}`, "cannot unmarshal number into Go struct field settings.Address of type string"},
		"values": {
			`{"address":"docket.sock","producer":"a b","mode":"batch","maxBufferedBytes":"1Ki","keep":["Deny"]}`,
			"address: must be unix:// and an absolute path, such as unix:///run/docket/docket.sock, or tcp:// and host:port\n" +
				"producer: must consist of letters, digits and . _ : / -\n" +
				"mode: must be Batch, Blocking or BlockingStrict, not \"batch\"\n" +
				"maxBufferedBytes: must be at least 64Ki\n" +
				"keep[0]: must be deny, error, warn, dryrun, allow or unspecified, not \"Deny\"",
		},
		"duration of nothing":   {`{` + good + `,"timeout":"0s"}`, `timeout: must be a duration such as 200ms, 3s or 1m, with its unit (a day is 24h), not "0s"`},
		"duration without unit": {`{` + good + `,"timeout":"3"}`, `timeout: must be a duration such as 200ms, 3s or 1m, with its unit (a day is 24h), not "3"`},
		"size of another unit":  {`{` + good + `,"maxBufferedBytes":"8MB"}`, `maxBufferedBytes: must be a size such as 8Mi or 512Ki, not "8MB"`},
		"size of nothing":       {`{` + good + `,"maxBufferedBytes":0}`, "maxBufferedBytes: must be a size such as 8Mi or 512Ki, not 0"},
		"size that is broken":   {`{` + good + `,"maxBufferedBytes":65536.5}`, "maxBufferedBytes: must be a size such as 8Mi or 512Ki, not 65536.5"},
		"size beyond memory":    {`{` + good + `,"maxBufferedBytes":"9007199254740992Gi"}`, `maxBufferedBytes: must be a size such as 8Mi or 512Ki, not "9007199254740992Gi"`},
		"unknown key":           {`{` + good + `,"path":"/tmp"}`, `unknown field "path"`},
		"tls":                   {`{"address":"tcp://docket.example.test:7443","tls":{"certFile":"/c"}}`, "tls.keyFile: must be set because certFile is"},
		"unknown key of tls":    {`{"address":"tcp://docket.example.test:7443","tls":{"ca":"x"}}`, `unknown field "ca"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseConfig(config(t, tt.config), "audit-7d9f")
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
}

func TestWithPod(t *testing.T) {
	tests := map[string]struct{ producer, pod, want string }{
		"plain":           {"gatekeeper", "audit-7d9f", "gatekeeper/audit-7d9f"},
		"no pod":          {"gatekeeper", "", "gatekeeper"},
		"pod of no name":  {"gatekeeper", "my host", "gatekeeper"},
		"long pod":        {"gatekeeper", strings.Repeat("a", 80) + "-7d9f", "gatekeeper/" + strings.Repeat("a", 64) + "-7d9f"},
		"no room":         {strings.Repeat("p", 79), "audit", strings.Repeat("p", 79)},
		"room for one":    {strings.Repeat("p", 78), "audit", strings.Repeat("p", 78) + "/t"},
		"producer longer": {strings.Repeat("p", 90), "audit", strings.Repeat("p", 90)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := withPod(tt.producer, tt.pod); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
