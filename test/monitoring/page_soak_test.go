//go:build soak

package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/test/dockettest"
)

// page is the table "At 3 a.m." of docs/runbook.md.
type page []step

// step is one row.
type step struct {
	symptom, alert  string
	command         string
	seen            []string
	meaning, action string
	instance        string   // the docket that the row is tried on
	commands        []string // of the action
}

var linked = regexp.MustCompile(`^\[(Docket\w+)\]`)

// readPage reads the table, and finds for each row the docket that it is about: that of the
// alert, or of the row before.
func readPage(t *testing.T) page {
	t.Helper()
	instance := map[string]string{"DocketAbsent": healthy}
	for _, i := range incidents() {
		for _, name := range i.fires {
			if instance[name] == "" {
				instance[name] = i.name
			}
		}
	}
	var p page
	for _, c := range document.Read(t, "runbook.md").Section(t, "At 3 a.m.").Rows() {
		if len(c) != 5 {
			t.Errorf("a row of the page has %d cells, want 5: %q", len(c), c)
			continue
		}
		s := step{symptom: c[0], meaning: c[3], action: c[4]}
		if m := linked.FindStringSubmatch(s.symptom); m != nil {
			s.alert = m[1]
			s.instance = instance[s.alert]
		} else if len(p) > 0 {
			s.instance = p[len(p)-1].instance
		}
		s.command = strings.Join(document.Quoted(c[1]), "")
		s.seen = document.Quoted(c[2])
		for _, command := range document.Quoted(c[4]) {
			if strings.HasPrefix(command, "docket ") {
				s.commands = append(s.commands, command)
			}
		}
		if s.instance == "" || s.command == "" || len(s.seen) == 0 || s.meaning == "" || s.action == "" {
			t.Errorf("a row of the page is not complete: %+v", s)
		}
		p = append(p, s)
	}
	return p
}

// see runs the command of each row on its incident, and compares what it prints with what
// the page says.
func (p page) see(t *testing.T, w *watch) {
	if len(p) < len(incidents()) {
		t.Errorf("the page has %d rows, want one for each of %d incidents at least", len(p), len(incidents()))
	}
	rows := map[string]bool{}
	for _, s := range p {
		rows[s.alert] = true
		said, _ := operator(t, w.scenes[s.instance], s.command)
		t.Logf("%s\n$ %s\n%s-> %s\n   %s", s.symptom, s.command, said, s.meaning, s.action)
		for _, want := range s.seen {
			if !document.Says(said, want) {
				t.Errorf("%s: %s does not say %q", s.symptom, s.command, want)
			}
		}
	}
	for _, i := range incidents() {
		for _, alert := range i.fires {
			if !rows[alert] {
				t.Errorf("the page has no row for %s", alert)
			}
		}
	}
}

// act runs the commands of the actions, once the causes are gone.
func (p page) act(t *testing.T, w *watch) {
	for _, s := range p {
		for _, command := range s.commands {
			said, code := operator(t, w.scenes[s.instance], command)
			t.Logf("%s\n$ %s\n%s", s.symptom, command, said)
			if code != 0 {
				t.Errorf("%s: %s: exit code %d", s.symptom, command, code)
			}
		}
	}
}

// operator runs a line of shell where the operator of s would, and returns what it prints.
func operator(t *testing.T, s *scene, line string) (said string, code int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(dockettest.Program(t))+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
