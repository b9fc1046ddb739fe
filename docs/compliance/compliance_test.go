// Package compliance tests the compliance handbook.
package compliance

import (
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/document"
)

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
