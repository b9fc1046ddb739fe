//go:build soak && unix

package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/document/desk"
	"github.com/docket-export/docket/internal/testcli"
)

// operated is the configuration of the docket that the pages talk about.
const operated = `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: engine
  unix: {path: docket.sock}
queue: {directory: docket-data/queue}
sinks:
- name: siem
  file: {directory: export}
admin: {address: "127.0.0.1:9464"}
`

// Every command of docs/reload.md and docs/live.md runs beside a docket. Those that go on until Ctrl-C show
// something of it first.
func TestOperationsPages(t *testing.T) {
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	d := desk.New(t, "127.0.0.1:9464", admin, "/etc/docket/", "", "/var/lib/docket/", "docket-data/")
	text := strings.ReplaceAll(operated, "127.0.0.1:9464", admin)
	if err := os.WriteFile(filepath.Join(d.Dir, "docket.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	reload := document.Read(t, "reload.md").Steps()
	d.Do(t, reload[len(reload)-1].Commands) // the last is docket run
	const deny = `echo '{"record":1,"enforcementAction":"deny"}' | docket send -f docket.yaml` + "\n"
	d.Do(t, deny)
	for _, step := range reload[:len(reload)-1] {
		if said := d.Do(t, step.Commands); !strings.Contains(said, "keep sink siem") || !strings.Contains(said, "siem") {
			t.Errorf("%s said %q", step.Commands, said)
		}
	}
	endless := regexp.MustCompile(`^(docket (tail|top)|curl -N) `)
	for _, step := range document.Read(t, "live.md").Steps() {
		for line := range strings.Lines(step.Commands) {
			if !endless.MatchString(line) {
				t.Errorf("what is to be seen of %q?", line)
			}
			said := d.Do(t, fmt.Sprintf("(sleep 1; %s) > sent.log 2>&1 &\ncat > line <<'END'\ntimeout 4 %sEND\n"+
				"bash -o pipefail line || [ $? = 124 ]\nwait\n", strings.TrimSuffix(deny, "\n"), line))
			if !regexp.MustCompile(`deny|siem|"engine"|recordsPerSecond|\[`).MatchString(said) {
				t.Errorf("%s said %q", line, said)
			}
		}
	}
}
