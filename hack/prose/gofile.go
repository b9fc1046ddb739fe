package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// goBlocks returns the texts that errors and log lines in a Go file have and, if comments are asked for, the
// doc comments of exported names.
func goBlocks(name string, source []byte, comments bool) (blocks []block, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	doc := func(c *ast.CommentGroup) {
		if c != nil && comments {
			blocks = append(blocks, block{set.Position(c.Pos()).Line, plain(c.Text()), false})
		}
	}
	doc(file.Doc)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.IsExported() {
				doc(n.Doc)
			}
		case *ast.GenDecl:
			if n.Tok != token.IMPORT && exports(n) {
				doc(n.Doc)
			}
		case *ast.Field:
			if len(n.Names) > 0 && n.Names[0].IsExported() {
				doc(n.Doc)
			}
		case *ast.CallExpr:
			if text, ok := said(n); ok {
				blocks = append(blocks, block{set.Position(n.Pos()).Line, text, false})
			}
		}
		return true
	})
	return blocks, nil
}

// indented matches the lines of a comment that are code or a list.
var indented = regexp.MustCompile(`(?m)^(\t| {2,}).*\n`)

func plain(comment string) string { return indented.ReplaceAllString(comment, "\n\n") }

func exports(d *ast.GenDecl) bool {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				return true
			}
		case *ast.ValueSpec:
			if s.Names[0].IsExported() {
				return true
			}
		}
	}
	return false
}

// speakers are the functions whose first text is for people.
var speakers = map[string]bool{"Errorf": true, "New": true, "Info": true, "Warn": true, "Error": true}

// said returns the text of a call that makes an error or a log line.
func said(call *ast.CallExpr) (text string, ok bool) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !speakers[f.Sel.Name] || len(call.Args) == 0 {
		return "", false
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return strings.NewReplacer("%w", "cause", "%s", "word", "%q", "word", "%d", "1").Replace(text), err == nil
}
