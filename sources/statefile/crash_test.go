package statefile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
	"github.com/docket-export/docket/sources/statefile"
)

// A document that Save has told of outlives a power cut, and so does the one before until
// then: also where the directory is new.
func TestSaveOutlivesAPowerCut(t *testing.T) {
	documents := []document{{1, strings.Repeat("old", 2000)}, {2, "new"}}
	save := func(d document) func(disk.FS) error {
		return func(fsys disk.FS) error {
			return statefile.Save(disk.On(fsys, "/queue").Join("sources", "gk", "state.json"), d)
		}
	}
	for name, before := range map[string]*document{"first": nil, "second": &documents[0]} {
		trial := crashdisk.Trial{Do: save(documents[1])}
		if before != nil {
			trial.Prepare = save(*before)
		}
		trial.Check = func(fsys disk.FS, did bool) error {
			var got document
			found, err := statefile.Load(disk.On(fsys, "/queue").Join("sources", "gk", "state.json"), 1, &got)
			isOld := before == nil && !found || before != nil && got == *before
			if err == nil && got != documents[1] && (did || !isOld) {
				err = fmt.Errorf("got document %d", got.Number)
			}
			return err
		}
		if err := trial.Run(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
