//go:build unix

// Package admission tests what the page docs/admission.md says: its commands run, its
// programs compile, and its manifests agree with each other and with docket.
package admission

import (
	"bytes"
	"os"
	"regexp"
	"testing"
)

const page = "../admission.md"

// block is one block of code on the page, under the last heading before it.
type block struct{ heading, language, text string }

var (
	fence   = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")
	heading = regexp.MustCompile(`(?m)^##+ (.+)$`)
)

// blocks returns those of a language below a heading. want is how many there are.
func blocks(t *testing.T, under, language string, want int) (texts []string) {
	t.Helper()
	for _, b := range allBlocks(t) {
		if b.heading == under && b.language == language {
			texts = append(texts, b.text)
		}
	}
	if len(texts) != want {
		t.Fatalf("%s: got %d blocks of %s, want %d", under, len(texts), language, want)
	}
	return texts
}

func allBlocks(t *testing.T) (all []block) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	// Comments of shell are no headings.
	headings := heading.FindAllSubmatchIndex(fence.ReplaceAllFunc(text, func(code []byte) []byte {
		return bytes.Repeat([]byte("x"), len(code))
	}), -1)
	for _, m := range fence.FindAllSubmatchIndex(text, -1) {
		b := block{language: string(text[m[2]:m[3]]), text: string(text[m[4]:m[5]])}
		for _, h := range headings {
			if h[0] < m[0] {
				b.heading = string(text[h[2]:h[3]])
			}
		}
		all = append(all, b)
	}
	return all
}
