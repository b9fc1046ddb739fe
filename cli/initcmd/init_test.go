package initcmd

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/exporter"
)

// Every choice of kinds, each of them twice, is a configuration that check takes.
func TestSampleIsGood(t *testing.T) {
	kinds := builtin.Kinds()
	every := func(keys []string) []string { return slices.Concat(keys, keys) }
	choices := map[string][2][]string{"all": {every(kinds.Sources.Keys()), every(kinds.Sinks.Keys())}}
	for _, source := range kinds.Sources.Keys() {
		for _, sink := range kinds.Sinks.Keys() {
			choices[source+" to "+sink] = [2][]string{{source}, {sink}}
		}
	}
	for name, choice := range choices {
		t.Run(name, func(t *testing.T) {
			text := mustSample(t, choice[0], choice[1])
			cfg, problems := exporter.Load([]byte(text), kinds)
			if len(problems) > 0 {
				t.Fatalf("got problems\n%v\nin\n%s", problems, text)
			}
			if len(cfg.Sources) != len(choice[0]) || len(cfg.Sinks) != len(choice[1]) {
				t.Errorf("got %d sources and %d sinks", len(cfg.Sources), len(cfg.Sinks))
			}
			if files := cfg.Files(); len(files) > 0 {
				t.Errorf("names the files %v, which a new user has not", files)
			}
			if !strings.Contains(text, "CHANGE") {
				t.Error("says nothing of what to change")
			}
		})
	}
}

// What is behind a "#" is good as well: each option by itself.
func TestOptionsAreGood(t *testing.T) {
	kinds := builtin.Kinds()
	text := mustSample(t, kinds.Sources.Keys(), kinds.Sinks.Keys())
	option := regexp.MustCompile(`(?m)^( *)#([a-zA-Z]+: .*)$`)
	found := option.FindAllStringSubmatchIndex(text, -1)
	if len(found) < 20 {
		t.Errorf("got %d options in\n%s\nwant 20 or more", len(found), text)
	}
	for _, at := range found {
		line := text[at[4]:at[5]]
		with := text[:at[3]] + line + text[at[1]:]
		if _, problems := exporter.Load([]byte(with), kinds); len(problems) > 0 {
			t.Errorf("%s: %v", line, problems)
		}
	}
}

func TestUnknownKind(t *testing.T) {
	for want, choice := range map[string][2]string{
		`--source: must be unix, tcp, gatekeeper, opa, kubernetesAudit or tail, not "webhook"`: {"webhook", "file"},
		`--sink: must be file, http, kafka or stdout, not "s3"`:                                {"unix", "s3"},
	} {
		if _, err := Sample(builtin.Kinds(), []string{choice[0]}, []string{choice[1]}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func mustSample(t *testing.T, sources, sinks []string) string {
	t.Helper()
	text, err := Sample(builtin.Kinds(), sources, sinks)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
