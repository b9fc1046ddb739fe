package main

import (
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()

// markdownBlocks returns the texts of a page. Blocks of code and HTML are no prose; code in a line counts as a word.
func markdownBlocks(page []byte) (blocks []block) {
	at := 0 // of the last block: cells have no place of their own
	_ = ast.Walk(markdown.Parse(text.NewReader(page)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n.(type) {
		case *ast.Paragraph, *ast.TextBlock, *ast.Heading, *extast.TableCell:
		default:
			return ast.WalkContinue, nil
		}
		var said strings.Builder
		inline(&said, n, page, &at)
		_, cell := n.(*extast.TableCell)
		_, heading := n.(*ast.Heading)
		blocks = append(blocks, block{line(page, at), said.String(), !cell && !heading})
		return ast.WalkSkipChildren, nil
	}) // the walk itself has no error
	return blocks
}

// inline writes the text of a node, and moves at to where it begins.
func inline(w *strings.Builder, n ast.Node, page []byte, at *int) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			if w.Len() == 0 {
				*at = c.Segment.Start
			}
			w.Write(c.Segment.Value(page))
			if c.SoftLineBreak() || c.HardLineBreak() {
				w.WriteByte(' ')
			}
		case *ast.CodeSpan:
			w.WriteString("code")
		case *ast.AutoLink:
			w.WriteString("link")
		case *ast.RawHTML:
		default:
			inline(w, c, page, at)
		}
	}
}
