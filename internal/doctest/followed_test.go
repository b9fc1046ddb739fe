package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// followed has, for each page with blocks of sh, the tests that run its commands.
var followed = map[string][]string{
	"README.md":                        {"docs/quickstart.TestReadme"},
	"UPGRADING.md":                     {"docs.TestUpgradingPage"},
	"docs/admission.md":                {"docs/admission.TestTryTheTap", "test/admission.TestPage"},
	"docs/authors.md":                  {"docs/authors.TestAuthorsPage"},
	"docs/compliance.md":               {"docs/compliance.TestHandbook"},
	"docs/configuration.md":            {"docs/sinks.TestConfiguration"},
	"docs/dead-letters.md":             {"docs/sinks.TestDeadLetters"},
	"docs/gatekeeper-kafka-siem.md":    {"test/kafka.TestTutorial"},
	"docs/install.md":                  {"test/node.TestInstall"},
	"docs/live.md":                     {"docs.TestOperationsPages", "cli.TestTop"},
	"docs/packages.md":                 {"release.TestService", "release.TestCosign"},
	"docs/protocol.md":                 {"docs/authors.TestProtocolPage"},
	"docs/query.md":                    {"docs/compliance.TestProofsAndSearches"},
	"docs/quickstart.md":               {"docs/quickstart.TestQuickstart"},
	"docs/reload.md":                   {"docs.TestOperationsPages"},
	"docs/rescue.md":                   {"test/node.TestRescuePage"},
	"docs/sinks/file.md":               {"docs/sinks.TestPages"},
	"docs/sinks/http.md":               {"docs/sinks.TestPages"},
	"docs/sinks/kafka-consumers.md":    {"test/kafka.TestPage"},
	"docs/sinks/kafka.md":              {"test/kafka.TestPage"},
	"docs/sinks/stdout.md":             {"docs/sinks.TestPages"},
	"docs/sources/kubernetes-audit.md": {"docs/sources.TestCommands"},
	"docs/sources/opa.md":              {"docs/sources.TestCommands"},
	"docs/sources/tail.md":             {"docs/sources.TestCommands"},
	"docs/sources/tcp.md":              {"docs/sources.TestCommands"},
	"docs/sources/unix.md":             {"docs/sources.TestCommands"},
	"docs/verify.md":                   {"docs/compliance.TestProofsAndSearches"},
	"docs/webhook.md":                  {"webhook/engine/cli.TestPage", "test/engine/pods.TestPods"},
	"python/README.md":                 {"docs/authors.TestPythonPackage"},
}

// Every page with commands has a test that runs them, and the tests are there.
func TestEveryPageIsFollowed(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == ".cache" || name == "bin" || name == "testdata"):
			return filepath.SkipDir
		case filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains("\n"+string(text), "\n```sh") {
			return err
		}
		page, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		tests := followed[filepath.ToSlash(page)]
		if len(tests) == 0 {
			t.Errorf("%s has commands, and no test that runs them: see internal/document/desk", page)
		}
		for _, test := range tests {
			i := strings.LastIndexByte(test, '.')
			if !hasTest(t, test[:i], test[i+1:]) {
				t.Errorf("%s: there is no test %s", page, test)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
