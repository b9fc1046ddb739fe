// Package monitoring tests what manifests/monitoring and docs/runbook.md promise: a real
// Prometheus scrapes real dockets, each of which has an incident that its alert is about.
package monitoring

import (
	"os"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
)

func TestMain(m *testing.M) { os.Exit(dockettest.Main(m)) }
