package main

import (
	"bytes"
	_ "embed" // the words
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// What a sentence may have, and what the sentences of a page may have on average, in words. Few
// sentences have no average.
const (
	longest       = 30
	average       = 20
	leastAveraged = 5
)

//go:embed words.txt
var wordList string

type turn struct {
	pattern *regexp.Regexp
	advice  string
}

// turns are the lines of words.txt.
var turns = parseTurns(wordList)

func parseTurns(list string) (all []turn) {
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, advice, _ := strings.Cut(line, " => ")
		all = append(all, turn{regexp.MustCompile("(?i)" + pattern), advice})
	}
	return all
}

// block is a text that stands by itself: a paragraph, an item, a cell, a comment.
type block struct {
	line    int
	text    string
	running bool // of whole sentences, which count for the average
}

// check returns what is wrong with the files, or with all below root that people read.
func check(root string, files []string) (found []string, err error) {
	if len(files) == 0 {
		if files, err = read(root); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var blocks []block
		if filepath.Ext(file) == ".go" {
			if blocks, err = goBlocks(file, text, public.MatchString(filepath.ToSlash(file))); err != nil {
				return nil, err
			}
		} else {
			blocks = markdownBlocks(text)
		}
		found = append(found, judge(file, blocks)...)
	}
	return found, nil
}

// public matches what programs of others import, and the interfaces between parts: there doc comments are
// read too.
var public = regexp.MustCompile(`^((decision|client|webhook|config)/([a-z]+/)?|sinks/(sinktest/)?|sources/|exporter/)[a-z0-9]+\.go$`)

// foreign are directories whose texts are from elsewhere, or are what tests look for.
var foreign = []string{".git", ".cache", "bin", "testdata", "test", "bench"}

// read lists the pages, and the Go files with texts for users.
func read(root string) (files []string, err error) {
	return files, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case slices.Contains(foreign, name) || path == "hack" || path == "internal":
			if entry.IsDir() {
				return filepath.SkipDir
			}
		case filepath.Ext(name) == ".md", filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go"):
			files = append(files, path)
		}
		return nil
	})
}

// judge returns the findings in the blocks of a file.
func judge(file string, blocks []block) (found []string) {
	words, sentences := 0, 0
	for _, b := range blocks {
		for _, t := range turns {
			if m := t.pattern.FindString(b.text); m != "" {
				found = append(found, fmt.Sprintf("%s:%d: %q: %s", file, b.line, m, t.advice))
			}
		}
		for _, s := range split(b.text) {
			n := len(strings.Fields(s))
			if n > longest {
				found = append(found, fmt.Sprintf("%s:%d: a sentence of %d words, %d at most: %s", file, b.line, n, longest, begin(s)))
			}
			if b.running {
				words, sentences = words+n, sentences+1
			}
		}
	}
	if sentences >= leastAveraged && words > average*sentences {
		found = append(found, fmt.Sprintf("%s: sentences have %.1f words on average, %d at most", file, float64(words)/float64(sentences), average))
	}
	return found
}

// ends matches where a sentence ends: not within "e.g. this".
var ends = regexp.MustCompile(`([.!?][)"*_]*|\n\n)(\s+|$)`)

// split returns the sentences of a text.
func split(text string) (sentences []string) {
	text = strings.NewReplacer("e.g. ", "eg ", "i.e. ", "ie ", "vs. ", "vs ", " ... ", " ").Replace(text)
	for _, s := range ends.Split(text, -1) {
		if strings.TrimSpace(s) != "" {
			sentences = append(sentences, strings.TrimSpace(s))
		}
	}
	return sentences
}

// begin is enough of a sentence to find it by.
func begin(s string) string {
	words := strings.Fields(s)
	return strings.Join(words[:min(len(words), 8)], " ") + " ..."
}

// line returns the number of the line that offset is in.
func line(text []byte, offset int) int { return 1 + bytes.Count(text[:offset], []byte("\n")) }
