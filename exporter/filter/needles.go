package filter

import (
	"bytes"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/docket-export/docket/decision"
)

// needle is a list of texts: a record that an expression takes has one of them, byte for byte,
// unless it hides text in escapes.
type needle [][]byte

// MayTake reports whether f might take record. If it is false, f does not take the record or
// cannot judge it: the record lacks a text that the expression needs. MayTake costs a tenth of
// Takes. It is for searches in many records, and true may be wrong.
func (f *Filter) MayTake(record []byte) bool {
	if f == nil {
		return true
	}
	for _, n := range f.needles {
		if !n.isIn(record) && !hidesText(record) {
			return false
		}
	}
	return true
}

// hidesText reports whether record may have a character of a needle as an escape, within JSON
// in a text as well. The escapes that encoding/json writes by itself are of none.
func hidesText(record []byte) bool {
	for {
		_, rest, found := bytes.Cut(record, escape)
		if !found {
			return false
		}
		if len(rest) < 4 || string(rest[:4]) != "003c" && string(rest[:4]) != "003e" && string(rest[:4]) != "0026" {
			return true
		}
		record = rest[4:]
	}
}

var escape = []byte(`\u`)

func (n needle) isIn(record []byte) bool {
	for _, text := range n {
		if bytes.Contains(record, text) {
			return true
		}
	}
	return false
}

// needlesOf returns what a record must have for e to be true.
func needlesOf(e ast.Expr) []needle {
	if e.Kind() != ast.CallKind {
		return nil
	}
	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.LogicalAnd:
		return append(needlesOf(args[0]), needlesOf(args[1])...)
	case operators.LogicalOr:
		left, right := needlesOf(args[0]), needlesOf(args[1])
		if len(left) > 0 && len(right) > 0 {
			return []needle{slices.Concat(left[0], right[0])}
		}
	case operators.Equals:
		if way := copied(args[0]); way != "" {
			return needleOf(way, args[1])
		}
		return needleOf(copied(args[1]), args[0])
	case operators.In:
		if args[1].Kind() == ast.ListKind {
			return needleOf(copied(args[0]), args[1].AsList().Elements()...)
		}
		return needleOf(copied(args[1]), args[0])
	case "startsWith", "endsWith", "contains":
		if copied(call.Target()) != "" {
			return needleOf(inPart, args[0])
		}
	}
	return nil
}

// way says how the text of a value stands in the record; empty: perhaps not at all.
type way string

const (
	whole  way = "whole" // between quotes
	inPart way = "part"  // of a text
)

// copiedFields are the fields of the normalized form whose text stands in the record. The
// others can be words of package decision.
var copiedFields = map[string]way{
	"resource.group": whole, "resource.version": whole, "resource.kind": whole, "resource.plural": whole, "resource.subresource": whole,
	"resource.namespace": whole, "resource.name": whole, "user": whole, "id": whole, "policy.name": inPart, "message": inPart,
}

// copied returns how the text that e is, or its items are, stands in the record.
func copied(e ast.Expr) way {
	switch e.Kind() {
	case ast.IdentKind:
		if e.AsIdent() == recordVar {
			return whole
		}
		return copiedFields[strings.TrimPrefix(e.AsIdent(), decision.NormalizedPrefix)]
	case ast.SelectKind:
		return copied(e.AsSelect().Operand())
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == operators.Index {
			return copied(call.Args()[0])
		}
	}
	return ""
}

// needleOf returns the needle of texts, one of which has to be there; none where one is no
// text, or has nothing that can be looked for.
func needleOf(as way, texts ...ast.Expr) []needle {
	var n needle
	for _, e := range texts {
		if as == "" || e.Kind() != ast.LiteralKind {
			return nil
		}
		text, ok := e.AsLiteral().(types.String)
		if !ok {
			return nil
		}
		plain := longestPlain(string(text))
		switch {
		case plain == "":
			return nil
		case as == whole && plain == string(text):
			plain = `"` + plain + `"`
		}
		n = append(n, []byte(plain))
	}
	if len(n) == 0 {
		return nil
	}
	return []needle{n}
}

// longestPlain returns the longest part of text that can be written in JSON in one way only,
// but for escapes that hidesText finds.
func longestPlain(text string) (longest string) {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r < ' ' || strings.ContainsRune("\"\\/<>&", r) }) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}
