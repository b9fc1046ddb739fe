package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/internal/debian"
)

// shipped is the path of a file of manifests/monitoring.
func shipped(t *testing.T, name string) string {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "manifests", "monitoring", name)
}

// rules are the shipped ones as a Prometheus loads them: the spec of the object.
func rules(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(shipped(t, "prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, spec, ok := strings.Cut(string(text), "\nspec:\n")
	if !ok {
		t.Fatal("the object has no spec")
	}
	return regexp.MustCompile(`(?m)^  `).ReplaceAllString(spec, "")
}

// The rules are sound, and each fires on what it is about and not on what looks like it.
func TestRules(t *testing.T) {
	dir := t.TempDir()
	tests, err := os.ReadFile(shipped(t, "rules_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"rules.yaml": rules(t), "rules_test.yaml": string(tests)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"check", "rules", filepath.Join(dir, "rules.yaml")},
		{"test", "rules", filepath.Join(dir, "rules_test.yaml")},
	} {
		out, err := exec.Command(debian.Program(t, "promtool"), args...).CombinedOutput()
		if err != nil {
			t.Errorf("promtool %v: %v", args, err)
		}
		t.Logf("promtool %v:\n%s", args, out)
	}
}

// speed is how many times as fast the tests let time pass for the rules.
const speed = 60

var (
	durations = regexp.MustCompile(`([\[ ])(\d+)([smh])([\]) \n:])`)
	products  = regexp.MustCompile(`\b(\d+) \* (3600|60)\b`)
	unscaled  = regexp.MustCompile(`[\[ ]\d+[smhdwy][\]) \n:]`)
)

// faster returns the shipped rules with every time in them divided by speed: "for", the
// windows, and the seconds in expressions, which are written as 4 * 3600.
func faster(t *testing.T) string {
	t.Helper()
	seconds := map[string]int{"s": 1, "m": 60, "h": 3600}
	scaled := durations.ReplaceAllStringFunc(rules(t), func(found string) string {
		m := durations.FindStringSubmatch(found)
		n, _ := strconv.Atoi(m[2])
		return fmt.Sprintf("%s%dms%s", m[1], n*seconds[m[3]]*1000/speed, m[4])
	})
	if left := unscaled.FindString(scaled); left != "" {
		t.Fatalf("%q in the rules is a time that this test does not divide", left)
	}
	return products.ReplaceAllStringFunc(scaled, func(found string) string {
		m := products.FindStringSubmatch(found)
		n, _ := strconv.Atoi(m[1])
		unit, _ := strconv.Atoi(m[2])
		return fmt.Sprintf("%d * %d", n, unit/speed)
	})
}
