//go:build soak && unix

package compliance

import (
	"testing"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/document/desk"
	"github.com/docket-export/docket/internal/testcli"
)

// Every command of the handbook is run in an empty directory, and prints what the page shows.
func TestHandbook(t *testing.T) {
	newDesk(t).Follow(t, document.Read(t, "compliance.md").Steps())
}

// Every command of the pages about proofs and searches is run where the handbook has made an export.
func TestProofsAndSearches(t *testing.T) {
	handbook := document.Read(t, "compliance.md")
	for _, name := range []string{"verify.md", "query.md"} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.Follow(t, handbook.Section(t, "Set up the export").Steps())
			d.Follow(t, handbook.Section(t, "Keep checkpoints elsewhere").Steps())
			d.Follow(t, document.Read(t, name).Steps())
		})
	}
}

func newDesk(t *testing.T) *desk.Desk {
	t.Helper()
	desk.Needs(t, "jq", "zstd", "openssl")
	var names []string
	for _, address := range []string{"127.0.0.1:9464", "127.0.0.1:9465"} {
		free, err := testcli.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, address, free)
	}
	return desk.New(t, names...)
}
