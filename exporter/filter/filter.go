// Package filter decides with a CEL expression which records a sink gets.
//
// An expression sees the record in two ways. record is the JSON object as a map. Whole
// numbers are int, or uint beyond its range; others are double. Numbers of any type
// compare by their value, so that record.n == 5 holds for 5 and for 5.0; int with double
// is compared as double. If a member occurs twice, the last one counts, as for
// encoding/json.
//
// normalized.NAME is a field of the normalized form, which records of all engines have
// in common. The form is made when an expression uses it (decision.Normalize). A field
// is a text, which is empty if the record does not say. normalized.when is a time, and
// missing if it is not known; normalized.failedOpen is a bool.
//
// Beside the standard functions, expressions have the functions of the strings
// extension that search in a text or take a part of it. No function makes a text much
// longer than the record.
package filter

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// maxCost bounds one evaluation, in units of CEL: a comparison, a step of a macro, ten
// bytes of what is compared or searched. It comes to some tenths of a second at most.
// The expressions for which filters are made cost 5 to 1,000; this takes one over the
// items of a large list for each of its items, or over megabytes of text. A clock would
// bound it better, but deliver what a filter keeps back whenever the machine is busy.
const maxCost = 1_000_000

// Filter is a compiled expression. Its methods may be called from any goroutine.
type Filter struct {
	program cel.Program
}

// Check reports why expression cannot be compiled. An empty expression is valid.
// The error is one line, in which each fault begins with its line and column in
// expression.
func Check(expression string) error {
	_, err := Compile(expression)
	return err
}

// Compile returns the filter of expression, nil for an empty one: a nil Filter
// takes every record. The error is that of Check.
func Compile(expression string) (*Filter, error) {
	if expression == "" {
		return nil, nil
	}
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	ast, err := compile(env, expression)
	if err != nil {
		return nil, err
	}
	program, err := env.Program(ast,
		cel.EvalOptions(cel.OptOptimize),
		cel.CostLimit(maxCost),
		cel.CostTracking(textCost{}))
	if err != nil {
		return nil, fmt.Errorf("cannot be planned: %w", err)
	}
	return &Filter{program}, nil
}

// Takes reports whether to deliver record, a valid JSON object. With an error it is
// true: the filter cannot judge the record, and the caller decides. There are three
// causes: a missing field that the expression uses without has(), a value of an
// unexpected type, and an evaluation that would cost too much. The error is one line;
// it may quote a short part of the record. record must not change during the call, and
// is not kept.
func (f *Filter) Takes(record []byte) (bool, error) {
	if f == nil {
		return true, nil
	}
	result, _, err := f.program.Eval(&activation{record: object{text: record}})
	if err != nil {
		return true, oneLine(err.Error())
	}
	taken, ok := result.(types.Bool)
	if !ok {
		return true, fmt.Errorf("the result must be bool, not %s", result.Type().TypeName())
	}
	return bool(taken), nil
}
