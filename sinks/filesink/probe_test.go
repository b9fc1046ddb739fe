package filesink

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/sinks"
)

func probe(dir string, change func(*Config)) error {
	c := rotating(dir, 0)
	if change != nil {
		change(&c)
	}
	return c.Probe(context.Background(), env())
}

// TestProbe wants nothing to be left behind, and an exporter that is running not
// to be in the way.
func TestProbe(t *testing.T) {
	var _ sinks.Prober = (*Config)(nil)
	parent := t.TempDir()
	dir := filepath.Join(parent, "a", "b")
	if err := probe(dir, nil); err != nil {
		t.Errorf("a directory that is to be made: %v", err)
	}
	if got := directoryContent(t, parent); got != "" {
		t.Errorf("left behind: %s", got)
	}
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 1, 1))
	before := directoryContent(t, dir)
	if err := probe(dir, nil); err != nil {
		t.Errorf("a directory in use: %v", err)
	}
	if after := directoryContent(t, dir); after != before {
		t.Errorf("the directory was changed: got %q, want %q", after, before)
	}
	mustSend(t, s, batch(queueA, 2, 2))

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := rotating(dir, 0)
	if err := c.Probe(ctx, env()); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: got %v", err)
	}
}

func TestProbeFailures(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	writeFile(t, file, "")
	unusable := filepath.Join(dir, "export")
	if err := os.MkdirAll(filepath.Join(unusable, positionName), 0o700); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "key.pem")
	for name, tt := range map[string]struct {
		dir    string
		change func(*Config)
		words  []string
	}{
		"a file in its place":     {file, nil, []string{file, "not a directory", "move away"}},
		"a file among its parent": {filepath.Join(file, "a", "b"), nil, []string{file, "not a directory"}},
		"a directory for a file":  {unusable, nil, []string{filepath.Join(unusable, positionName), "is a directory"}},
		"nowhere":                 {"/proc/nothing/here", nil, []string{"/proc/"}},
		"group":                   {dir, func(c *Config) { c.Group = "no such group" }, []string{"no such group", "give the group's number"}},
		"key":                     {dir, func(c *Config) { c.Signature = &Signature{KeyFile: key} }, []string{key, "docket keygen"}},
	} {
		t.Run(name, func(t *testing.T) {
			checkFailure(t, probe(tt.dir, tt.change), sinks.Misconfigured, append(tt.words, "file sink: ")...)
		})
	}
}
