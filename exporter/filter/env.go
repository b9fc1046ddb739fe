package filter

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"

	"github.com/docket-export/docket/decision"
)

// recordVar is the variable that is the record. Beside it there is one for each field
// of its normalized form: they are declared with their types, so that a misspelt one
// is found when the expression is compiled, and not with the first record.
const (
	recordVar     = "record"
	normalizedVar = "normalized"
)

// Bounds of an expression. Real ones have a line; those that a program writes have
// a list of names.
const (
	maxExpressionLength = 8 << 10 // characters
	maxNodes            = 10_000  // with those that macros make
	maxParserDepth      = 100     // nested brackets and calls
	maxNestedLoops      = 3
	maxRegexpSize       = 1000 // instructions; a word has one for each letter
)

// refusedFunctions are in the strings extension, but make of two texts a third one as
// long as their product, or take as much time, before any limit is looked at. The
// value says what to use in place of one.
var refusedFunctions = map[string]string{
	"format":        "",
	"indexOf":       "use contains or matches",
	"join":          "",
	"lastIndexOf":   "use endsWith or matches",
	"replace":       "use matches",
	"reverse":       "",
	"strings.quote": "",
}

func newEnv() (*cel.Env, error) {
	options := []cel.EnvOption{cel.Variable(recordVar, cel.MapType(cel.StringType, cel.DynType))}
	for _, field := range decision.NormalizedFields() {
		options = append(options, cel.Variable(decision.NormalizedPrefix+field, normalizedType(field)))
	}
	env, err := cel.NewEnv(append(options,
		cel.CrossTypeNumericComparisons(true),
		cel.EnableIdentifierEscapeSyntax(),
		cel.DefaultUTCTimeZone(true),
		ext.Strings(ext.StringsVersion(5)),
		cel.CostSizingStrategy(cost.AggregateSizingStrategy()),
		cel.ParserExpressionSizeLimit(maxExpressionLength),
		cel.ParserRecursionLimit(maxParserDepth),
		cel.ExpressionNodeLimit(maxNodes),
		cel.RegexProgramSizeLimit(maxRegexpSize),
		cel.ASTValidators(
			cel.ValidateComprehensionNestingLimit(maxNestedLoops),
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateRegexLiterals(),
			boundedCalls{}))...)
	if err != nil {
		return nil, fmt.Errorf("CEL environment: %w", err)
	}
	return env, nil
}

func normalizedType(field string) *cel.Type {
	switch field {
	case "when":
		return cel.TimestampType
	case "failedOpen":
		return cel.BoolType
	}
	return cel.StringType
}

// compile parses and checks expression.
func compile(env *cel.Env, expression string) (*cel.Ast, error) {
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, faults(issues)
	}
	if t := compiled.OutputType(); !t.IsEquivalentType(types.BoolType) && !t.IsEquivalentType(types.DynType) {
		return nil, fmt.Errorf("1:1: must be true or false for a record, not of type %s", cel.FormatCELType(t))
	}
	return compiled, nil
}

// boundedCalls reports calls whose time or result no limit bounds.
type boundedCalls struct{}

// Name implements cel.ASTValidator.
func (boundedCalls) Name() string { return "docket.boundedCalls" }

// Validate implements cel.ASTValidator.
func (boundedCalls) Validate(_ *cel.Env, _ cel.ValidatorConfig, expression *ast.AST, issues *cel.Issues) {
	for _, node := range ast.MatchDescendants(ast.NavigateAST(expression), ast.KindMatcher(ast.CallKind)) {
		call := node.AsCall()
		instead, refused := refusedFunctions[call.FunctionName()]
		switch {
		case refused && instead == "":
			issues.ReportErrorAtID(node.ID(), "%s is not for filters", call.FunctionName())
		case refused:
			issues.ReportErrorAtID(node.ID(), "%s is not for filters: %s", call.FunctionName(), instead)
		case call.FunctionName() == "matches" && !literalPattern(call):
			issues.ReportErrorAtID(node.ID(), "the pattern of matches must be a literal: a record must not supply it")
		}
	}
}

// literalPattern reports whether the pattern of a call of matches, its last argument
// with and without a receiver, is a literal.
func literalPattern(call ast.CallExpr) bool {
	args := call.Args()
	return args[len(args)-1].Kind() == ast.LiteralKind
}

// maxFaults is how many an error names: those behind it mostly follow from them.
const maxFaults = 3

// faults makes one line of issues: "1:8: undeclared reference to 'x'; 2:1: ...".
func faults(issues *cel.Issues) error {
	all := issues.Errors()
	slices.SortStableFunc(all, func(a, b *cel.Error) int {
		if n := a.Location.Line() - b.Location.Line(); n != 0 {
			return n
		}
		return a.Location.Column() - b.Location.Column()
	})
	var b strings.Builder
	for i, fault := range all {
		if i == maxFaults {
			fmt.Fprintf(&b, "; and %d more", len(all)-maxFaults)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%d:%d: ", max(fault.Location.Line(), 1), max(fault.Location.Column()+1, 1))
		b.WriteString(faultText(fault))
	}
	return oneLine(b.String())
}

// faultText says in words of this package what a person who knows JSON may not know
// from CEL.
func faultText(fault *cel.Error) string {
	message := strings.TrimPrefix(fault.Message, "Syntax error: ")
	message, _, _ = strings.Cut(message, " expecting ") // some set of tokens, most of them always
	for _, prefix := range []string{"mismatched input ", "extraneous input "} {
		if token, ok := strings.CutPrefix(message, prefix); ok {
			message = "unexpected " + strings.Replace(token, "'<EOF>'", "end of the expression", 1)
		}
	}
	message = strings.TrimSuffix(message, " (in container '')")
	switch {
	case !strings.HasPrefix(message, "undeclared reference to '"), strings.Contains(message, "did you mean"):
		return message
	case strings.HasPrefix(message, "undeclared reference to '"+normalizedVar):
		return message + ": fields of " + normalizedVar + " are " + strings.Join(decision.NormalizedFields(), ", ")
	}
	return message + ": fields of the record are " + recordVar + ".NAME"
}
