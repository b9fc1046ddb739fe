package httpsink

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// tokenLength is that of a parameter which may be a token. Shorter
// ones are words, and an answer without them would say little.
const tokenLength = 8

// urlSecrets is what errors must not quote of u: its query as a whole, and the
// values in it that are long enough to be a token.
func urlSecrets(u *url.URL) []string {
	secrets := []string{u.RawQuery}
	for _, values := range u.Query() {
		for _, value := range values {
			if len(value) >= tokenLength {
				secrets = append(secrets, value)
			}
		}
	}
	return secrets
}

// newRedactor returns what takes secrets out of a text, in whichever way an
// answer may write them: as they are, in JSON, as %q does, in a URL.
func newRedactor(secrets []string) *strings.Replacer {
	var forms []string
	for _, s := range secrets {
		inJSON, quoted := jsonEscaped(s), strconv.Quote(s)
		forms = append(forms, s, inJSON, strings.ReplaceAll(inJSON, "/", `\/`),
			quoted[1:len(quoted)-1], url.QueryEscape(s), url.PathEscape(s))
	}
	// Of two that begin alike the longer one, or its end would be left.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	var pairs []string
	for _, form := range slices.Compact(forms) {
		if form != "" {
			pairs = append(pairs, form, redactedText)
		}
	}
	return strings.NewReplacer(pairs...)
}

const redactedText = "[redacted]"

// jsonEscaped is s as it stands between the quotes of a JSON string.
func jsonEscaped(s string) string {
	quoted, _ := json.Marshal(s) // no string has an error
	return string(quoted[1 : len(quoted)-1])
}
