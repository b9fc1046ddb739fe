//go:build unix

// Package compliance tests the compliance handbook.
package compliance

import (
	"slices"
	"strings"
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

// A row of the table of controls names a command of the section that it links to, and a line that the page shows below the command.
func TestControls(t *testing.T) {
	page := document.Read(t, "compliance.md")
	rows := page.Section(t, "Controls").Rows()
	if len(rows) < 18 {
		t.Fatalf("got %d controls, want 18 or more", len(rows))
	}
	for _, row := range rows {
		if len(row) != 6 {
			t.Fatalf("got %d cells in the row %q, want 6", len(row), row)
		}
		command, output := only(t, row[3]), only(t, row[4])
		shows := func(step document.Step) bool {
			return strings.Contains(step.Commands, command) && strings.Contains(step.Output, output)
		}
		if section := linked(t, page, row[3]); !slices.ContainsFunc(page.Section(t, section).Steps(), shows) {
			t.Errorf("%s: no block of %q runs %q and shows %q", row[0], section, command, output)
		}
	}
}

// linked returns the section of the page that a cell links to.
func linked(t *testing.T, page document.Page, cell string) string {
	t.Helper()
	for _, heading := range page.Sections() {
		if strings.HasSuffix(cell, "](#"+strings.ReplaceAll(strings.ToLower(heading), " ", "-")+")") {
			return heading
		}
	}
	t.Fatalf("the cell %q links to no section", cell)
	return ""
}

func only(t *testing.T, cell string) string {
	t.Helper()
	texts := document.Quoted(cell)
	if len(texts) != 1 {
		t.Fatalf("got %q in the cell %q, want one text in backticks", texts, cell)
	}
	return texts[0]
}
