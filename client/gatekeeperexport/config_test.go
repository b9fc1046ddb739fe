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
			client.Config{Address: "unix:///run/docket/docket.sock", Producer: "gatekeeper/audit-7d9f", Mode: client.BlockingStrict, Timeout: 3 * time.Second, Keep: defaultKeep()},
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
				Timeout: 3 * time.Second, Keep: defaultKeep(), MaxBufferedBytes: 1000000, TLS: &client.TLSConfig{},
			},
		},
		"null is absent": {
			`{"address":"unix:///s","producer":null,"mode":null,"timeout":null,"maxBufferedBytes":null,"keep":null,"tls":null}`,
			client.Config{Address: "unix:///s", Producer: "gatekeeper/audit-7d9f", Mode: client.BlockingStrict, Timeout: 3 * time.Second, Keep: defaultKeep()},
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
	tests := map[string]struct {
		config string
		want   []string // one a problem, in order
	}{
		"no mapping": {`"unix:///s"`, []string{"must be a mapping with at least address: unix:///run/docket/docket.sock"}},
		"nothing":    {`null`, []string{"must be a mapping with at least address: unix:///run/docket/docket.sock"}},
		"empty":      {`{}`, []string{"address: must be given, such as unix:///run/docket/docket.sock"}},
		"no address": {`{"address":""}`, []string{`address: must be a string, not ""`}},
		"text that is none": {
			`{"address":1,"producer":[],"mode":true}`,
			[]string{"address: must be a string, not 1", "producer: must be a string, not []", "mode: must be a string, not true"},
		},
		"values": {
			`{"address":"docket.sock","producer":"a b","mode":"batch","timeout":"0s","maxBufferedBytes":"1Ki","keep":["Deny"]}`,
			[]string{
				`timeout: must be a duration such as 200ms, 3s or 1m, with its unit (a day is 24h), not "0s"`,
				"address: must be unix:// and an absolute path, or tcp:// and host:port",
				"producer: must consist of letters, digits and . _ : / -",
				`mode: must be Batch, Blocking or BlockingStrict, not "batch"`,
				"maxBufferedBytes: must be at least 64Ki",
				`keep[0]: must be deny, error, warn, dryrun, allow or unspecified, not "Deny"`,
			},
		},
		"duration without unit": {`{` + good + `,"timeout":"3"}`, []string{`timeout: must be a duration such as 200ms, 3s or 1m, with its unit (a day is 24h), not "3"`}},
		"duration as a number":  {`{` + good + `,"timeout":3}`, []string{"timeout: must be a string, not 3"}},
		"size of another unit":  {`{` + good + `,"maxBufferedBytes":"8MB"}`, []string{`maxBufferedBytes: must be a size such as 8Mi or 512Ki, not "8MB"`}},
		"size of nothing":       {`{` + good + `,"maxBufferedBytes":0}`, []string{"maxBufferedBytes: must be a size such as 8Mi or 512Ki, not 0"}},
		"size that is zero":     {`{` + good + `,"maxBufferedBytes":"0"}`, []string{`maxBufferedBytes: must be a size such as 8Mi or 512Ki, not "0"`}},
		"size that is broken":   {`{` + good + `,"maxBufferedBytes":65536.5}`, []string{"maxBufferedBytes: must be a size such as 8Mi or 512Ki, not 65536.5"}},
		"size beyond memory":    {`{` + good + `,"maxBufferedBytes":"9007199254740992Gi"}`, []string{`maxBufferedBytes: must be a size such as 8Mi or 512Ki, not "9007199254740992Gi"`}},
		"keep nothing":          {`{` + good + `,"keep":[]}`, []string{"keep: must be a list of decisions such as [deny, warn], not []"}},
		"keep one":              {`{` + good + `,"keep":"deny"}`, []string{`keep: must be a list of decisions such as [deny, warn], not "deny"`}},
		"keep numbers":          {`{` + good + `,"keep":["deny",2]}`, []string{"keep: must be a list of strings, not of 2"}},
		"unknown keys": {
			`{` + good + `,"path":"/tmp","Timeout":"3s"}`,
			[]string{
				"Timeout: unknown key, known keys: address, producer, mode, timeout, maxBufferedBytes, keep, tls",
				"path: unknown key, known keys: address, producer, mode, timeout, maxBufferedBytes, keep, tls",
			},
		},
		"tls": {
			`{"address":"tcp://docket.example.test:7443","tls":{"ca":"x","certFile":"/c","caFile":1}}`,
			[]string{
				"tls.caFile: must be a string, not 1",
				"tls.ca: unknown key, known keys: caFile, certFile, keyFile, serverName",
				"tls.keyFile: must be set because certFile is",
			},
		},
		"tls that is none": {`{"address":"tcp://docket.example.test:7443","tls":true}`, []string{"tls: must be a mapping, not true"}},
		"long value": {
			`{` + good + `,"timeout":"` + strings.Repeat("x", 100) + `"}`,
			[]string{`timeout: must be a duration such as 200ms, 3s or 1m, with its unit (a day is 24h), not "` + strings.Repeat("x", 39) + "..."},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseConfig(config(t, tt.config), "audit-7d9f")
			if err == nil {
				t.Fatal("got no error")
			}
			if want := strings.Join(tt.want, "\n"); err.Error() != want {
				t.Errorf("got\n%v\nwant\n%s", err, want)
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
