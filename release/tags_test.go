package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repository is a tree of two modules with a commit.
func repository(t *testing.T, requires string) (dir string, git func(args ...string)) {
	t.Helper()
	dir = t.TempDir()
	git = func(args ...string) {
		t.Helper()
		config := []string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main", "-c", "tag.gpgSign=false", "-c", "commit.gpgSign=false"}
		if _, err := output(t.Context(), dir, "git", append(config, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{
		"go.work":       "go 1.26.0\n\nuse (\n\t.\n\t./client\n)\n",
		"go.mod":        "module " + module + "\n\ngo 1.26.0\n\nrequire " + module + "/client " + requires + "\n",
		"client/go.mod": "module " + module + "/client\n\ngo 1.26.0\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "all")
	return dir, git
}

// A release has the version of the tags at HEAD, of which each module has one, and is what
// the commit holds.
func TestReleasedVersion(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		requires string
		tags     []string
		change   bool
		want     string // of the error; empty: the version is v0.2.0
	}{
		"released":             {"v0.2.0", []string{"v0.2.0", "client/v0.2.0"}, false, ""},
		"no tag":               {"v0.2.0", nil, false, "want one version"},
		"two versions":         {"v0.2.0", []string{"v0.2.0", "v0.3.0", "client/v0.2.0"}, false, "want one version"},
		"a module without tag": {"v0.2.0", []string{"v0.2.0"}, false, "not client/v0.2.0"},
		"another requirement":  {"v0.1.0", []string{"v0.2.0", "client/v0.2.0"}, false, "./go.mod requires " + module + "/client v0.1.0"},
		"a changed tree":       {"v0.2.0", []string{"v0.2.0", "client/v0.2.0"}, true, "the tree differs from v0.2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, git := repository(t, test.requires)
			for _, tag := range test.tags {
				git("tag", tag)
			}
			if test.change {
				if err := os.WriteFile(filepath.Join(dir, "new.go"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := releasedVersion(t.Context(), dir)
			if test.want == "" && (err != nil || got != "v0.2.0") {
				t.Errorf("got %q, %v, want v0.2.0", got, err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %q, %v, want an error with %q", got, err, test.want)
			}
		})
	}
}

// govulncheck is asked, here with a database that knows one library of docket's to be vulnerable.
func TestKnownVulnerability(t *testing.T) {
	m := getRelease(t)
	program := filepath.Join(unpack(t, m.artifact(t, ".tar.gz")), "docket")
	m.vulncheck = true
	for library, vulnerable := range map[string]bool{"github.com/spf13/cobra": true, "example.com/another": false} {
		db := t.TempDir()
		for name, content := range map[string]string{
			"index/db.json":      `{"modified": "2026-01-01T00:00:00Z"}`,
			"index/modules.json": `[{"path": "` + library + `", "vulns": [{"id": "GO-2026-0001", "modified": "2026-01-01T00:00:00Z"}]}]`,
			"index/vulns.json":   `[{"id": "GO-2026-0001", "modified": "2026-01-01T00:00:00Z"}]`,
			"ID/GO-2026-0001.json": `{"schema_version": "1.3.1", "id": "GO-2026-0001", "modified": "2026-01-01T00:00:00Z", "published": "2026-01-01T00:00:00Z",
				"summary": "invented", "details": "invented", "affected": [{"package": {"name": "` + library + `", "ecosystem": "Go"},
				"ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
				"ecosystem_specific": {"imports": [{"path": "` + library + `", "symbols": ["Command.Execute"]}]}}],
				"database_specific": {"url": "https://example.com/GO-2026-0001"}}`,
		} {
			name = filepath.Join(db, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("GOVULNDB", "file://"+db)
		err := m.checkVulnerabilities(t.Context(), program)
		if refused := err != nil && strings.Contains(err.Error(), "GO-2026-0001"); refused != vulnerable || !vulnerable && err != nil {
			t.Errorf("%s: got %v, want refused: %t", library, err, vulnerable)
		}
	}
}
