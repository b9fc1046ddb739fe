// Command commands writes docs/commands.md, or man pages into a directory. It is no part of docket.
//
//	go run ./hack/commands docs/commands.md
//	go run ./hack/commands -man bin/man
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/docket-export/docket/cli"
	"github.com/docket-export/docket/cli/builtin"
)

//go:generate go run . ../../docs/commands.md

const head = "# Commands\n\n<!-- Made by go generate ./hack/commands of the help of the commands: do not edit. -->\n\n" +
	"Each section is what docket prints with `--help`. Exit codes: 0 fine, 1 failed while running, 2 usage or configuration;\n" +
	"`docket verify` has 3 as well.\n\n| command | what it does |\n|---|---|\n"

func main() {
	root := cli.Root(builtin.Kinds())
	if len(os.Args) == 3 && os.Args[1] == "-man" {
		root.DisableAutoGenTag = true
		check(os.MkdirAll(os.Args[2], 0o755))
		check(doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "docket", Manual: "User Commands"}, os.Args[2]))
		return
	}
	index, sections := bytes.NewBufferString(head), new(bytes.Buffer)
	write(index, sections, root)
	check(os.WriteFile(os.Args[1], append(index.Bytes(), sections.Bytes()...), 0o644))
}

// write adds the commands below c.
func write(index, sections *bytes.Buffer, c *cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			path := sub.CommandPath()
			fmt.Fprintf(index, "| [`%s`](#%s) | %s |\n", path, strings.ReplaceAll(path, " ", "-"), sub.Short)
			fmt.Fprintf(sections, "\n## %s\n\n```\n", path)
			sub.SetOut(sections)
			check(sub.Help())
			sections.WriteString("```\n")
			write(index, sections, sub)
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
