//go:build soak

package importtest

import (
	"path/filepath"
	"strings"
	"testing"
)

// Such an engine compiles, and runs without docket.
func TestEngineRuns(t *testing.T) {
	for name, imports := range engines {
		t.Run(name, func(t *testing.T) {
			stranger := newStranger(t, name, imports)
			if got := strings.TrimSpace(stranger.run(t, "go", "run", ".")); got != "false true true" {
				t.Errorf("the engine says %q, want false true true", got)
			}
		})
	}
}

// go install of a version builds the program from the modules that the tags publish.
func TestProgramCanBeInstalled(t *testing.T) {
	t.Parallel()
	downloads := "file://" + filepath.Join(strings.TrimSpace(string(run(t, "go", "env", "GOMODCACHE"))), "cache", "download")
	usual := strings.TrimSpace(string(run(t, "go", "env", "GOPROXY")))
	dir := t.TempDir()
	stranger := foreign{dir: dir, proxy: strings.Join([]string{"file://" + proxy(t), downloads, usual}, ","), cache: t.TempDir()}
	stranger.run(t, "go", "install", "-trimpath", module+"/cmd/docket@"+version)
	if got := stranger.run(t, filepath.Join(dir, "docket"), "version"); !strings.Contains(got, version) {
		t.Errorf("docket version: got %s, want %s", got, version)
	}
}
