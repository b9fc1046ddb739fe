package httpsink

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
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

// secretWords are the words in names of headers and parameters whose values are
// credentials.
var secretWords = []string{
	"accesskey", "accesstoken", "apikey", "apitoken", "assertion", "auth", "authentication", "authorization", "authtoken",
	"clientsecret", "cookie", "credential", "credentials", "key", "passphrase", "passwd", "password", "pwd", "secret", "sig",
	"signature", "token",
}

// isSecretHeader reports whether a word of name is one of secretWords.
func isSecretHeader(name string) bool {
	return slices.ContainsFunc(wordsOf(name), func(w string) bool { return slices.Contains(secretWords, w) })
}

// isSecretParameter reports whether the last word of name is one of secretWords:
// a token_format is none.
func isSecretParameter(name string) bool {
	words := wordsOf(name)
	return len(words) > 0 && slices.Contains(secretWords, words[len(words)-1])
}

// wordsOf are the words of name in small letters: those of api_key, X-Api-Key
// and apiKey.
func wordsOf(name string) []string {
	var spaced strings.Builder
	var before rune
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			r = ' '
		case unicode.IsUpper(r) && unicode.IsLower(before):
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(r)
		before = r
	}
	return strings.Fields(strings.ToLower(spaced.String()))
}

// secretInQuery returns the name of the first parameter in the query of u that
// looks like a secret, or an empty string.
func secretInQuery(u *url.URL) string {
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		raw, _, hasValue := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(raw)
		if hasValue && err == nil && isSecretParameter(name) {
			return name
		}
	}
	return ""
}
