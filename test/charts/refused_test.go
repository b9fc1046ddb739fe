package charts

import (
	"strings"
	"testing"
)

// refused are mistakes, in values beside those of the first layers, and what the schema of
// the chart says of them, or a template.
var refused = map[string]struct {
	values []string
	want   string
}{
	"unknown key":            {[]string{tcp, `replica: 2`}, "additional properties 'replica' not allowed"},
	"unknown key below":      {[]string{tap, `volume: {medium: Memory}`}, "at '/volume': additional properties 'medium' not allowed"},
	"section that is null":   {[]string{tcp, `resources: null`}, "missing property 'resources'"},
	"mode":                   {[]string{tcp, `mode: daemonset`}, "at '/mode': value must be one of 'statefulset', 'tap', 'sidecar'"},
	"size":                   {[]string{tcp, `volume: {size: 4GB}`}, "at '/volume/size'"},
	"time in words":          {[]string{tcp, `sidecar: {shutdownDelaySeconds: 30s}`}, "at '/sidecar/shutdownDelaySeconds': got string, want integer"},
	"name of no object":      {[]string{tcp, `fullnameOverride: A_b`}, "at '/fullnameOverride'"},
	"user beyond Kubernetes": {[]string{tcp, `user: 70000000000`}, "at '/user': maximum: got 7×10¹⁰, want 2.147483647×10⁰⁹"},
	"issuer without a name":  {[]string{tap, `tls: {secretName: "", issuerRef: {kind: Issuer}}`}, "at '/tls/issuerRef'"},

	"no repository":             {[]string{tcp, `image: {repository: ""}`}, "image.repository is required: there is no public image, and docs/install.md says how to make and push one"},
	"no sink":                   {[]string{tcp, `config: {sinks: []}`}, "config.sinks: at least one is required"},
	"tap without an engine":     {[]string{"mode: tap\ntls: {secretName: webhook-tls}"}, "tap.upstream.url is required in mode tap"},
	"tap without a certificate": {[]string{tap, `tls: {secretName: ""}`}, "tls.secretName or tls.issuerRef is required in mode tap"},
}

func TestRefused(t *testing.T) {
	for name, tt := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := helm(t, append([]string{usual}, tt.values...), "template", "policy", chart(t))
			if err == nil {
				t.Fatalf("taken: want %q; got:\n%s", tt.want, out)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v\nwant %q", err, tt.want)
			}
		})
	}
}

// Helm takes names of releases that are numbers to YAML, or no names of a Service.
func TestReleaseOfDigits(t *testing.T) {
	out, err := helm(t, []string{usual, tcp}, "template", "1.23", chart(t))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "\n  name: 1-23-docket\n") || strings.Contains(out, "instance: 1.23\n") {
		t.Errorf("got a name with a dot, or a label that is a number:\n%s", out)
	}
}
