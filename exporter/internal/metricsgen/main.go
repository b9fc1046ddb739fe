// metricsgen writes the page of the metrics from their registrations.
//
//	go run ./internal/metricsgen docs/metrics.md
package main

import (
	_ "embed"
	"fmt"
	"os"
	"strings"

	"github.com/docket-export/docket/exporter"
)

//go:embed head.md
var head string

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: metricsgen PAGE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], page(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "metricsgen:", err)
		os.Exit(1)
	}
}

// page is the page as it has to be.
func page() []byte {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString("\n| metric | type | what |\n|---|---|---|\n")
	for _, m := range exporter.Metrics() {
		name := m.Name
		if len(m.Labels) > 0 {
			name += "{" + strings.Join(m.Labels, ",") + "}"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, m.Type, m.Help)
	}
	return []byte(b.String())
}
