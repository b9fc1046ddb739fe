package sinks

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/docket-export/docket/decision"
)

// CheckField refuses what is no name of a field of a record: neither one of the normalized form nor
// names joined by dots. Wildcards, queries, modifiers and escapes are refused, because they
// would be taken for names.
func CheckField(path string) error {
	if name, ok := strings.CutPrefix(path, decision.NormalizedPrefix); ok {
		if !slices.Contains(decision.NormalizedFields(), name) {
			return fmt.Errorf("must be a field of the normalized form, such as %sresource.namespace, not %q", decision.NormalizedPrefix, path)
		}
		return nil
	}
	if slices.Contains(strings.Split(path, "."), "") || strings.ContainsAny(path, `*?|#@!\"(){}[]<>=%~`) || strings.ContainsFunc(path, unicode.IsControl) {
		return fmt.Errorf("must be field names joined by dots, such as object.kind, not %q", path)
	}
	return nil
}
