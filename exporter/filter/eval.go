package filter

import (
	"errors"
	"strings"
	"unicode"

	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/docket-export/docket/decision"
)

// textCost is what joining texts costs. CEL knows the price only where it knows that
// the operands are texts, and of a record it knows nothing before.
type textCost struct{}

// CallCost implements cost.ActualCostEstimator.
func (textCost) CallCost(function, _ string, _ []ref.Val, result ref.Val) *uint64 {
	text, ok := result.(types.String)
	if !ok || function != operators.Add {
		return nil // the usual price
	}
	price := 1 + uint64(len(text))/10
	return &price
}

// activation gives an expression the record and the fields of its normalized form.
type activation struct {
	record     object
	normalized *decision.Normalized // nil until one of them is asked for
}

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	if name == recordVar {
		return &a.record, true
	}
	field, ok := strings.CutPrefix(name, decision.NormalizedPrefix)
	if !ok {
		return nil, false
	}
	if a.normalized == nil {
		form, _ := decision.Normalize(a.record.text) // of an unknown record nothing is known
		a.normalized = &form
	}
	switch field {
	case "when":
		return a.normalized.When, !a.normalized.When.IsZero()
	case "failedOpen":
		return a.normalized.FailedOpen, true
	}
	return a.normalized.Field(field), true
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }

// maxErrorText bounds what an error quotes of an expression or a record.
const maxErrorText = 300

// oneLine makes one line of printable text, fit for a log.
func oneLine(text string) error {
	line := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(line) > maxErrorText {
		line = strings.ToValidUTF8(line[:maxErrorText], "") + "..."
	}
	return errors.New(line)
}
