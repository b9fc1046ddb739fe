// Command commands documents the commands of docket: as one page of Markdown, or as man
// pages in a directory. It is no part of docket.
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

const head = `# Commands

<!-- Made by go generate ./hack/commands of the help of the commands: do not edit. -->

Each section is what docket prints with ` + "`--help`" + `. Exit codes: 0 fine, 1 failed while running, 2 usage or configuration;
` + "`docket verify`" + ` has 3 as well.

| command | what it does |
|---|---|
`

func main() {
	root := cli.Root(builtin.Kinds())
	if len(os.Args) == 3 && os.Args[1] == "-man" {
		root.DisableAutoGenTag = true
		check(os.MkdirAll(os.Args[2], 0o755))
		check(doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "docket", Manual: "User Commands"}, os.Args[2]))
		return
	}
	var index, sections bytes.Buffer
	index.WriteString(head)
	write(&index, &sections, root)
	check(os.WriteFile(os.Args[1], append(index.Bytes(), sections.Bytes()...), 0o644))
}

// write adds the commands below c.
func write(index, sections *bytes.Buffer, c *cobra.Command) {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		path := sub.CommandPath()
		fmt.Fprintf(index, "| [`%s`](#%s) | %s |\n", path, strings.ReplaceAll(path, " ", "-"), sub.Short)
		fmt.Fprintf(sections, "\n## %s\n\n```\n", path)
		sub.SetOut(sections)
		check(sub.Help())
		sections.WriteString("```\n")
		write(index, sections, sub)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
