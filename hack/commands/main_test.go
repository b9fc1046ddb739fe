package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli"
	"github.com/docket-export/docket/cli/builtin"
)

// TestPageIsUpToDate: docs/commands.md is what go generate makes of the commands.
func TestPageIsUpToDate(t *testing.T) {
	got, err := os.ReadFile("../../docs/commands.md")
	if err != nil || string(got) != page(cli.Root(builtin.Kinds())) {
		t.Errorf("docs/commands.md is not what the commands say, %v: run go generate ./hack/commands", err)
	}
}

// TestEveryCommandIsDocumented: the page and a man page have each command that docket --help
// lists, with every flag.
func TestEveryCommandIsDocumented(t *testing.T) {
	root := cli.Root(builtin.Kinds())
	var help bytes.Buffer
	root.SetOut(&help)
	root.SetArgs([]string{"--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	_, listed, _ := strings.Cut(help.String(), "Available Commands:\n")
	listed, _, _ = strings.Cut(listed, "\n\n")
	whole := page(root)
	for line := range strings.Lines(listed) {
		name := strings.Fields(line)[0]
		if !strings.Contains(whole, "\n## docket "+name+"\n") && name != "help" {
			t.Errorf("the page has no docket %s", name)
		}
	}
	for _, c := range visible(root)[1:] {
		_, part, _ := strings.Cut(whole, "\n## "+c.CommandPath()+"\n")
		part, _, _ = strings.Cut(part, "\n## ")
		man := manPage(c)
		for _, f := range flags(c) {
			if !strings.Contains(part, "--"+f.Name) || !strings.Contains(man, roff("--"+f.Name)) {
				t.Errorf("%s: --%s is missing on the page, or on the man page", c.CommandPath(), f.Name)
			}
		}
	}
}

// TestManPages: groff has no complaint, and shows what the help says.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if err := run("", dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(files) < 20 || !slices.Contains(files, filepath.Join(dir, "docket-queue-cat.1")) {
		t.Fatalf("got pages %q, %v", files, err)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("groff is missing: install it")
		}
		t.Skip("groff is missing: the man pages are not read")
	}
	for _, file := range files {
		cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-ww", "-P-cbou", file)
		var shown, complaints bytes.Buffer
		cmd.Stdout, cmd.Stderr = &shown, &complaints
		if err := cmd.Run(); err != nil || complaints.Len() > 0 {
			t.Errorf("%s: %v, %s", filepath.Base(file), err, &complaints)
		}
		for _, want := range []string{"SYNOPSIS", "SEE ALSO"} {
			if !strings.Contains(shown.String(), want) {
				t.Errorf("%s has no %s", filepath.Base(file), want)
			}
		}
	}
}

// TestRoff: nothing of a text is a request, and what is copied from a page is what it was.
func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		".git":         `\&.git`,
		"'a'":          `\(aqa\(aq`,
		`C:\n --all`:   `C:\en \-\-all`,
		"~/.x `a` ^b$": `\(ti/.x \(gaa\(ga \(hab$`,
	} {
		if got := roff(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
