//go:build soak && unix

package sources

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/document/desk"
	"github.com/docket-export/docket/internal/testcli"
)

// TestCommands does what each page says, in a directory of its own.
func TestCommands(t *testing.T) {
	for _, name := range pages(t) {
		steps := document.Read(t, "sources/"+name).Steps()
		if len(steps) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var free [3]string
			for i := range free {
				var err error
				if free[i], err = testcli.FreeAddress(); err != nil {
					t.Fatal(err)
				}
			}
			d := desk.New(t, "127.0.0.1:7443", free[0], "127.0.0.1:8282", free[0], "127.0.0.1:8283", free[0], "127.0.0.1:8181", free[2],
				"kind: Exporter\n", fmt.Sprintf("kind: Exporter\nadmin: {address: %q}\n", free[1]))
			for _, step := range steps {
				await.Until(t, "what the page shows", func() bool {
					said := d.Do(t, step.Commands)
					err := document.Shows(said, step.Output)
					if err != nil && !strings.HasPrefix(step.Commands, "docket status") {
						t.Fatalf("after\n%s%v; printed was\n%s", step.Commands, err, said)
					}
					return err == nil
				})
			}
		})
	}
}
