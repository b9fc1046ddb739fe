package httpsink

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Parts of a URL, and parameters, that are long enough to be a token. Shorter
// ones are words, and an answer without them would say little.
const (
	tokenLength   = 8
	segmentLength = 16
)

// urlSecrets is what errors must not quote of u: its query as a whole, and the
// values and path segments that are long enough to be a token.
func urlSecrets(u *url.URL) []string {
	var secrets []string
	add := func(length int, raw string, unescape func(string) (string, error)) {
		if len(raw) < length {
			return
		}
		secrets = append(secrets, raw)
		if plain, err := unescape(raw); err == nil {
			secrets = append(secrets, plain)
		}
	}
	add(1, u.RawQuery, url.QueryUnescape)
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		_, value, _ := strings.Cut(pair, "=")
		add(tokenLength, value, url.QueryUnescape)
	}
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		add(segmentLength, segment, url.PathUnescape)
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
