package dockettest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// checkpoint begins the records by which docket tells how far a file export goes. They
// come from docket itself, once the export has a finished file.
var checkpoint = []byte(`{"eventType":"docket.export.checkpoint",`)

// Exported returns the lines of the file export in directory, in order, without docket's
// own checkpoints. While docket runs these are the lines that end with a newline by now.
func Exported(t testing.TB, directory string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files) // the active one, which comes last, after the finished ones
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			whole, ok := bytes.CutSuffix(line, []byte("\n"))
			if ok && !bytes.HasPrefix(whole, checkpoint) {
				all = append(all, string(whole))
			}
		}
	}
	return all
}
