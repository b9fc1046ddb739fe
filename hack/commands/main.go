// Command commands documents the commands of docket: as one page of Markdown, or as man
// pages. It is no part of docket.
//
//	go run ./hack/commands -markdown docs/commands.md
//	go run ./hack/commands -man bin/man
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docket-export/docket/cli"
	"github.com/docket-export/docket/cli/builtin"
)

//go:generate go run . -markdown ../../docs/commands.md

func main() {
	markdown := flag.String("markdown", "", "file of the page")
	man := flag.String("man", "", "directory of the man pages")
	flag.Parse()
	if err := run(*markdown, *man); err != nil {
		fmt.Fprintln(os.Stderr, "commands:", err)
		os.Exit(1)
	}
}

func run(markdown, man string) error {
	root := cli.Root(builtin.Kinds())
	if markdown != "" {
		if err := os.WriteFile(markdown, []byte(page(root)), 0o644); err != nil {
			return err
		}
	}
	if man == "" {
		return nil
	}
	if err := os.MkdirAll(man, 0o755); err != nil {
		return err
	}
	for _, c := range visible(root) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		if err := os.WriteFile(filepath.Join(man, name+".1"), []byte(manPage(c)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// visible lists c and the commands below it that the help lists, in its order.
func visible(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			list = append(list, visible(sub)...)
		}
	}
	return list
}

// flags lists the flags of c that its help shows, its own first.
func flags(c *cobra.Command) (list []*pflag.Flag) {
	for _, set := range []*pflag.FlagSet{c.NonInheritedFlags(), c.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				list = append(list, f)
			}
		})
	}
	return list
}

// words are how a flag is written and what it says.
func words(f *pflag.Flag) (written, usage string) {
	value, usage := pflag.UnquoteUsage(f)
	written = "--" + f.Name
	if f.Shorthand != "" {
		written = "-" + f.Shorthand + ", " + written
	}
	switch value {
	case "":
	case "string", "stringArray":
		written += " " + strings.ToUpper(f.Name[strings.LastIndex(f.Name, "-")+1:])
	default:
		written += " " + value
	}
	if d := f.DefValue; d != "" && d != "false" && d != "[]" && d != "0" {
		usage += " (default " + strings.Trim(d, "[]") + ")"
	}
	return written, usage
}

// page is one page with every command.
func page(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Commands\n\n<!-- Made by go generate ./hack/commands of the help of the commands: do not edit. -->\n\n")
	b.WriteString("`make man` writes the same as man pages below `bin/man`, and `docket completion` a script with which your shell completes them.\n\n")
	b.WriteString("Exit codes: 0 fine, 1 failed while running, 2 usage or configuration; `docket verify` has 3 as well.\n\n")
	b.WriteString("| command | what it does |\n|---|---|\n")
	for _, c := range visible(root)[1:] {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short)
	}
	for _, c := range visible(root)[1:] {
		fmt.Fprintf(&b, "\n## %s\n\n    %s\n\n%s\n", c.CommandPath(), c.UseLine(), markdown(longOf(c)))
		if c.Example != "" {
			b.WriteString("\n" + indented(c.Example) + "\n")
		}
		list := flags(c)
		if len(list) > 0 {
			b.WriteString("\n| flag | meaning |\n|---|---|\n")
		}
		for _, f := range list {
			written, usage := words(f)
			fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(written, "|", "\\|"), strings.ReplaceAll(usage, "|", "\\|"))
		}
	}
	return b.String()
}

func longOf(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

// markdown is a help text in which what is indented is code.
func markdown(text string) string {
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, paragraph := range paragraphs {
		if strings.HasPrefix(paragraph, "  ") {
			paragraphs[i] = indented(paragraph)
		} else if head, list, found := strings.Cut(paragraph, "\n  "); found {
			paragraphs[i] = head + "\n\n" + indented("  "+list)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// indented is an example as code of Markdown: four spaces deep.
func indented(example string) string {
	lines := strings.Split(strings.TrimRight(example, "\n"), "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "  " + line
		}
	}
	return strings.Join(lines, "\n")
}

// manPage is a page of section 1, in the macros of man(7).
func manPage(c *cobra.Command) string {
	var b strings.Builder
	section := func(name string) { b.WriteString(".SH " + name + "\n") }
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" docket \"User Commands\"\n", quoted(strings.ToUpper(name)))
	section("NAME")
	b.WriteString(roff(name+" - "+c.Short) + "\n")
	section("SYNOPSIS")
	b.WriteString(".B " + roff(c.UseLine()) + "\n")
	section("DESCRIPTION")
	b.WriteString(paragraphs(longOf(c)))
	if list := flags(c); len(list) > 0 {
		section("OPTIONS")
		for _, f := range list {
			written, usage := words(f)
			b.WriteString(".TP\n.B " + roff(written) + "\n" + roff(usage) + "\n")
		}
	}
	if c.Example != "" {
		section("EXAMPLES")
		b.WriteString(verbatim(c.Example))
	}
	section("SEE ALSO")
	b.WriteString(roff(strings.Join(related(c), ", ")) + "\n")
	return b.String()
}

// related are the pages of the command around c and of those below it.
func related(c *cobra.Command) (pages []string) {
	around := c.Commands()
	if c.HasParent() {
		around = append([]*cobra.Command{c.Parent()}, around...)
	}
	for _, other := range around {
		if other == c.Parent() || other.IsAvailableCommand() {
			pages = append(pages, strings.ReplaceAll(other.CommandPath(), " ", "-")+"(1)")
		}
	}
	return pages
}

// paragraphs keeps the lines of what is indented, also behind other lines, and fills the
// rest.
func paragraphs(text string) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(paragraph, "  ") {
			b.WriteString(verbatim(paragraph))
			continue
		}
		head, list, found := strings.Cut(paragraph, "\n  ")
		for line := range strings.Lines(head) {
			b.WriteString(roff(strings.TrimSpace(line)) + "\n")
		}
		if found {
			b.WriteString(verbatim("  " + list))
		}
	}
	return b.String()
}

func verbatim(text string) string {
	var b strings.Builder
	b.WriteString(".nf\n")
	for line := range strings.Lines(text) {
		b.WriteString(roff(strings.TrimRight(line, "\n")) + "\n")
	}
	return b.String() + ".fi\n"
}

// roff takes their meaning from the characters of roff. A hyphen stays one when it is
// copied from the page, and a line does not begin with a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

func quoted(text string) string { return `"` + roff(text) + `"` }
