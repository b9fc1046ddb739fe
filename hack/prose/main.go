// Command prose checks texts for people against the rules in CONTRIBUTING.md: sentences of 30 words at
// most, 20 on average on a page, and none of the turns of words.txt. It reads Markdown files, or those of
// the whole repository, and in Go files the doc comments of exported names and the texts of errors and logs.
//
//	go run ./hack/prose [FILE...]
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	flag.Parse()
	found, err := check(".", flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	for _, f := range found {
		fmt.Println(f)
	}
	if len(found) > 0 {
		fmt.Fprintf(os.Stderr, "prose: %d findings: see \"How to write\" in CONTRIBUTING.md\n", len(found))
		os.Exit(1)
	}
}
